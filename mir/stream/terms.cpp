#include "mir/stream/terms.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "mir/support/expr_brief.h"

namespace aicf::stream {
namespace {

constexpr std::size_t max_terms = 64;
constexpr int max_power = 6;

void append(std::vector<Expr>& list, const std::vector<Expr>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

Expr add(const Expr& a, const Expr& b) {
  return !a ? b : !b ? a : a + b;
}
Expr subtract(const Expr& a, const Expr& b) {
  return !b ? a : !a ? -b : a - b;
}
Expr negate(const Expr& a) {
  return a ? -a : a;
}
Expr scale(const Expr& a, const Expr& factor) {
  return a ? a * factor : a;
}
Expr divide(const Expr& a, const Expr& by) {
  return a ? a / by : a;
}

bool is_minus_infinity(const Expr& e) {
  return e.is_constant() && std::isinf(e.number()) && e.number() < 0;
}

/// Whether a and b hold together nowhere: one asks the opposite of what the other does.
bool contradict(const Expr& a, const Expr& b) {
  if (!a || !b) return false;
  if (a.op() == Op::and_) return contradict(a.args()[0], b) || contradict(a.args()[1], b);
  if (b.op() == Op::and_) return contradict(a, b.args()[0]) || contradict(a, b.args()[1]);
  return (a.op() == Op::not_ && a.args()[0] == b) || (b.op() == Op::not_ && b.args()[0] == a);
}

/// Small non-negative whole number, or empty.
std::optional<int> small_power(const Expr& e) {
  if (!e.is_constant()) return std::nullopt;
  const double v = e.number();
  if (v != std::floor(v) || std::fabs(v) > max_power) return std::nullopt;
  return static_cast<int>(v);
}

}  // namespace

Expr product_of(const std::vector<Expr>& factors, DType type) {
  if (factors.empty()) return Expr::constant(type, 1);
  Expr p = factors[0];
  for (std::size_t i = 1; i < factors.size(); ++i) p = p * factors[i];
  return p;
}

Expr value_of(const Factors& f, DType type) {
  Expr e = product_of(f.num, type);
  for (const Expr& d : f.den) e = e / d;
  return e;
}

void flatten_sum(const Expr& e, bool negative, std::vector<SignedAtom>& out) {
  constexpr std::uint64_t largest = 1024;
  if (!e) return;
  switch (e.tree_size() <= largest ? e.op() : Op::value) {
    case Op::add:
      flatten_sum(e.args()[0], negative, out);
      flatten_sum(e.args()[1], negative, out);
      return;
    case Op::sub:
      flatten_sum(e.args()[0], negative, out);
      flatten_sum(e.args()[1], !negative, out);
      return;
    case Op::neg:
      flatten_sum(e.args()[0], !negative, out);
      return;
    default:
      out.push_back({negative, e});
  }
}

Expr sum_of(const std::vector<SignedAtom>& atoms) {
  Expr sum;
  for (const bool negative : {false, true}) {
    for (const SignedAtom& a : atoms) {
      if (a.negative == negative) sum = negative ? subtract(sum, a.e) : add(sum, a.e);
    }
  }
  return sum;
}

std::vector<SignedAtom> cancelled(std::vector<SignedAtom> a, const std::vector<SignedAtom>& b) {
  const std::size_t own = a.size();
  std::vector<SignedAtom> rest;
  std::vector<bool> gone(own, false);
  for (const SignedAtom& y : b) {
    std::size_t i = 0;
    while (i < own && (gone[i] || a[i].negative == y.negative || a[i].e != y.e)) ++i;
    if (i < own) {
      gone[i] = true;
    } else {
      rest.push_back(y);
    }
  }
  std::vector<SignedAtom> out;
  for (std::size_t i = 0; i < own; ++i) {
    if (!gone[i]) out.push_back(std::move(a[i]));
  }
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

Factors& Factors::operator*=(const Factors& other) {
  append(num, other.num);
  append(den, other.den);
  return *this;
}

// ---- kinds -------------------------------------------------------------------------------------------------------

void Expander::use(std::string law, std::string condition) {
  std::pair<std::string, std::string> entry{std::move(law), std::move(condition)};
  if (!has(used_, entry)) used_.push_back(std::move(entry));
}

Kind Expander::kind(const Expr& e) const {
  bool running = false;
  for (const std::string& r : problem_.results(e)) running |= running_.contains(r);
  const bool along = problem_.carries(e);
  if (running) return along ? Kind::mixed : Kind::running;
  return along ? Kind::along : Kind::constant;
}

Expr Expander::typed(const Expr& e) const {
  return e.type() == type_ ? e : Expr::cast(e, type_);
}

// ---- products ----------------------------------------------------------------------------------------------------

Term Expander::times(Term a, Term b) const {
  const auto outwards = [](Term& t) {
    t.outer_coefficient *= std::exchange(t.coefficient, {});
    t.outer_weight *= std::exchange(t.weight, {});
  };
  const bool selects = a.indicator || a.condition, other_selects = b.indicator || b.condition;
  if (other_selects && !selects) outwards(a);
  if (selects && !other_selects) outwards(b);
  a.coefficient *= b.coefficient;
  a.weight *= b.weight;
  a.outer_coefficient *= b.outer_coefficient;
  a.outer_weight *= b.outer_weight;
  a.condition = b.condition ? logical_and(a.condition, b.condition) : a.condition;
  a.indicator = b.indicator ? logical_and(a.indicator, b.indicator) : a.indicator;
  a.exp_x = add(a.exp_x, b.exp_x);
  a.exp_b = add(a.exp_b, b.exp_b);
  for (const Linear& l : b.linears) {
    bool merged = false;
    for (Linear& m : a.linears) {
      const bool same_b = static_cast<bool>(m.b) == static_cast<bool>(l.b) && (!m.b || m.b == l.b);
      if (merged || !same_b || m.x != l.x) continue;
      m.power += l.power;
      merged = true;
    }
    if (!merged) a.linears.push_back(l);
  }
  join_exponentials(a);
  return a;
}

Attempt<std::vector<Term>> Expander::product(const std::vector<Term>& a, const std::vector<Term>& b) const {
  if (a.size() * b.size() > max_terms)
    return refuse("cascade", fmt::format("the summand has more than {} terms", max_terms));
  std::vector<Term> out;
  for (const Term& x : a) {
    for (const Term& y : b) {
      if (contradict(x.indicator, y.indicator)) continue;
      Term t = times(x, y);
      int degree = 0;
      for (const Linear& l : t.linears) degree += l.power;
      if (degree > max_power) return refuse("polynomial shift", fmt::format("the degree is above {}", max_power));
      out.push_back(std::move(t));
    }
  }
  return out;
}

Attempt<Term> Expander::inverse(Term t) const {
  if (!t.linears.empty()) {
    return refuse("cascade", "division by a difference of a streamed value and a running result has no repair");
  }
  if (t.indicator || t.condition) return refuse("cascade", "division by a select with a running branch has no repair");
  std::swap(t.coefficient.num, t.coefficient.den);
  std::swap(t.weight.num, t.weight.den);
  t.exp_x = negate(t.exp_x);
  t.exp_b = negate(t.exp_b);
  return t;
}

/// The square root of a term whose factors are known to be non-negative.
Attempt<Term> Expander::root(Term t) {
  if (!t.linears.empty()) return refuse("cascade", "the root of a difference of a streamed value and a running result");
  for (auto* list : t.factors()) {
    for (Expr& e : *list) {
      if (!facts_.bounds(e).non_negative()) {
        return refuse("cascade", fmt::format("the root of a product with '{}', whose sign is not known", brief(e)));
      }
      e = Expr::unary(Op::sqrt, e);
    }
  }
  const Expr half = Expr::constant(type_, 0.5);
  t.exp_x = scale(t.exp_x, half);
  t.exp_b = scale(t.exp_b, half);
  return t;
}

// ---- sums --------------------------------------------------------------------------------------------------------

Attempt<Expander::Sides> Expander::logarithm(const Expr& argument) {
  AICF_TRY(std::vector<Term> terms, expand(argument));
  if (terms.size() != 1 || !terms[0].linears.empty() || terms[0].indicator || terms[0].condition) {
    return refuse("logarithm of a product", "the argument is not a single product");
  }
  const Term& t = terms[0];
  Sides s{t.exp_x, t.exp_b};
  int unknown = 0;
  const auto take = [&](const std::vector<Expr>& list, bool divide, Expr& side) {
    for (const Expr& e : list) {
      if (!facts_.bounds(e).non_negative()) ++unknown;
      const Expr l = Expr::unary(Op::log, e);
      side = divide ? subtract(side, l) : add(side, l);
    }
  };
  take(t.weight.num, false, s.x);
  take(t.weight.den, true, s.x);
  take(t.coefficient.num, false, s.b);
  take(t.coefficient.den, true, s.b);
  // log(e·f) = log e + log f for e >= 0 and any f; two factors of unknown sign could both be negative.
  if (unknown > 1) return refuse("logarithm of a product", "more than one factor may be negative");
  use("logarithm of a product", "log(exp(a) b / c) = a + log b - log c, at most one factor of unknown sign");
  return s;
}

Attempt<Expander::Sides> Expander::affine(const Expr& e) {
  switch (kind(e)) {
    case Kind::constant:
    case Kind::along:
      return Sides{typed(e), {}};
    case Kind::running:
      return Sides{{}, typed(e)};
    case Kind::mixed:
      break;
  }
  const auto sides = [&](std::size_t i) { return affine(e.args()[i]); };
  switch (e.op()) {
    case Op::value:
      if (!problem_.is_open(e.name())) break;
      return affine(problem_.statement(e.name()).body);
    case Op::add: {
      AICF_TRY(const Sides a, sides(0));
      AICF_TRY(const Sides b, sides(1));
      return Sides{add(a.x, b.x), add(a.b, b.b)};
    }
    case Op::sub: {
      AICF_TRY(const Sides a, sides(0));
      AICF_TRY(const Sides b, sides(1));
      return Sides{subtract(a.x, b.x), subtract(a.b, b.b)};
    }
    case Op::neg: {
      AICF_TRY(const Sides a, sides(0));
      return Sides{negate(a.x), negate(a.b)};
    }
    case Op::mul:
    case Op::div: {
      const bool swapped = e.op() == Op::mul && kind(e.args()[0]) == Kind::constant;
      const Expr factor = e.args()[swapped ? 0 : 1];
      if (kind(factor) != Kind::constant) break;
      AICF_TRY(const Sides a, affine(e.args()[swapped ? 1 : 0]));
      const Expr f = typed(factor);
      if (e.op() == Op::div) return Sides{divide(a.x, f), divide(a.b, f)};
      return Sides{scale(a.x, f), scale(a.b, f)};
    }
    case Op::cast:
      if (!is_float(e.type()) || !is_float(e.args()[0].type())) break;
      use("more precise", "a cast of a running value between float types is left out");
      return sides(0);
    case Op::log:
      return logarithm(e.args()[0]);
    case Op::select: {
      const Kind k = kind(e.args()[0]);
      if (k == Kind::mixed || k == Kind::running) break;
      AICF_TRY(const Sides a, sides(1));
      AICF_TRY(const Sides b, sides(2));
      const Expr zero = Expr::constant(type_, 0);
      const auto same = [](const Expr& p, const Expr& q) {
        return static_cast<bool>(p) == static_cast<bool>(q) && (!p || p == q);
      };
      const Expr xa = a.x ? a.x : zero, xb = b.x ? b.x : zero;
      if (same(a.b, b.b)) return Sides{Expr::select(e.args()[0], xa, xb), a.b};
      // −inf absorbs what is added, so that its branch may take the other's running part.
      if (!b.b && is_minus_infinity(xb)) return Sides{Expr::select(e.args()[0], xa, xb), a.b};
      if (!a.b && is_minus_infinity(xa)) return Sides{Expr::select(e.args()[0], xa, xb), b.b};
      break;
    }
    default:
      break;
  }
  return refuse("cascade", fmt::format("'{}' is not a streamed value plus a running one", brief(e)));
}

/// where(c, a, b) ± d as where(c, a ± d, b ± d) where a branch and d are a difference: it is summed as one, not as what its
/// parts add up to. Empty for other sums.
Expr Expander::difference_in_select(const Expr& e) {
  if (e.op() != Op::add && e.op() != Op::sub) return {};
  for (const std::size_t side : {0, 1}) {
    const Expr chosen = problem_.opened(e.args()[side]);
    if (chosen.op() != Op::select) continue;
    const auto with = [&](const Expr& branch) {
      return side == 0 ? Expr::binary(e.op(), branch, e.args()[1]) : Expr::binary(e.op(), e.args()[0], branch);
    };
    const Expr a = with(chosen.args()[1]), b = with(chosen.args()[2]);
    for (const Expr& branch : {a, b}) {
      const auto sides = affine(branch);
      if (sides ? sides->x && sides->b : static_cast<bool>(difference_in_select(branch)))
        return Expr::select(chosen.args()[0], a, b);
    }
  }
  return {};
}

Attempt<std::vector<Term>> Expander::expand_select(const Expr& e) {
  const Expr& c = e.args()[0];
  const Kind k = kind(c);
  Expr condition, indicator;
  if (k == Kind::along) {
    indicator = c;
  } else if (k != Kind::mixed) {
    condition = c;
  } else {
    condition = uniform(c);
    if (!condition)
      return refuse("uniform predicate",
                    fmt::format("'{}' is not shown to be the same along '{}'", brief(c), problem_.axis()));
    use("uniform predicate", fmt::format("'{}' is the same along {} as '{}'; 0 times a streamed factor counts as 0",
                                         brief(c), problem_.axis(), brief(condition)));
  }
  std::vector<Term> out;
  for (const bool chosen : {true, false}) {
    const Expr& branch = e.args()[chosen ? 1 : 2];
    if (branch.is_constant(0)) continue;
    AICF_TRY(std::vector<Term> terms, expand(branch));
    for (Term& t : terms) {
      if (condition) t.condition = logical_and(t.condition, chosen ? condition : logical_not(condition));
      if (indicator) t.indicator = logical_and(t.indicator, chosen ? indicator : logical_not(indicator));
      t.coefficient *= std::exchange(t.outer_coefficient, {});
      t.weight *= std::exchange(t.outer_weight, {});
      out.push_back(std::move(t));
    }
  }
  return out;
}

Attempt<std::vector<Term>> Expander::expand_power(const Expr& e) {
  const Expr& exponent = e.args()[1];
  if (exponent.is_constant(0.5)) {
    AICF_TRY(std::vector<Term> terms, expand(e.args()[0]));
    if (terms.size() != 1) return refuse("cascade", "the root of a sum");
    AICF_TRY(Term t, root(terms[0]));
    return std::vector<Term>{std::move(t)};
  }
  const auto power = small_power(exponent);
  if (!power || *power == 0) return refuse("cascade", fmt::format("'{}' is not a small whole power", brief(e)));
  AICF_TRY(std::vector<Term> base, expand(e.args()[0]));
  if (*power < 0) {
    if (base.size() != 1) return refuse("cascade", "division by a sum of running terms");
    AICF_TRY(Term t, inverse(base[0]));
    base = {std::move(t)};
  }
  std::vector<Term> out = base;
  for (int i = 1; i < std::abs(*power); ++i) {
    AICF_TRY(out, product(out, base));
  }
  return out;
}

Attempt<std::vector<Term>> Expander::expand(const Expr& e) {
  const Kind k = kind(e);
  if (k != Kind::mixed) {
    if (!is_float(e.type())) return refuse("cascade", fmt::format("'{}' is not a float", brief(e)));
    Term t;
    const Expr factor = typed(e);
    if (k == Kind::along) {
      t.weight.num.push_back(factor);
    } else if (const Expr opened = problem_.opened(factor); opened.op() == Op::reciprocal) {
      t.coefficient.den.push_back(opened.args()[0]);
    } else if (!factor.is_constant(1)) {
      t.coefficient.num.push_back(factor);
    }
    return std::vector<Term>{std::move(t)};
  }
  if (e.op() == Op::value) {
    if (!problem_.is_map(e.name())) {
      return refuse("cascade",
                    fmt::format("'{}' reduces over other axes a value that rests on running results", e.name()));
    }
    if (!problem_.is_open(e.name()))
      return refuse("cascade", fmt::format("'{}' is too large when it is written out", e.name()));
    return expand(problem_.statement(e.name()).body);
  }
  switch (e.op()) {
    case Op::add:
    case Op::sub:
    case Op::neg:
    case Op::log: {
      if (auto sides = affine(e)) {
        if (!sides->x) return refuse("cascade", fmt::format("'{}' has no streamed part", brief(e)));
        Term t;
        t.linears.push_back({sides->x, sides->b, 1});
        return std::vector<Term>{std::move(t)};
      } else if (e.op() == Op::log) {
        return std::unexpected(sides.error());
      }
      if (const Expr select = difference_in_select(e)) return expand_select(select);
      AICF_TRY(std::vector<Term> out, expand(e.args()[0]));
      std::vector<Term> second;
      if (e.op() != Op::neg) {
        AICF_TRY(second, expand(e.args()[1]));
      }
      auto& negated = e.op() == Op::neg ? out : second;
      if (e.op() != Op::add) {
        for (Term& t : negated) t.coefficient.num.push_back(Expr::constant(type_, -1));
      }
      out.insert(out.end(), second.begin(), second.end());
      if (out.size() > max_terms)
        return refuse("cascade", fmt::format("the summand has more than {} terms", max_terms));
      return out;
    }
    case Op::mul: {
      AICF_TRY(const std::vector<Term> a, expand(e.args()[0]));
      AICF_TRY(const std::vector<Term> b, expand(e.args()[1]));
      return product(a, b);
    }
    case Op::div:
    case Op::reciprocal: {
      const Expr& denominator = e.args().back();
      AICF_TRY(std::vector<Term> b, expand(denominator));
      if (b.size() != 1) return refuse("cascade", fmt::format("division by the sum '{}'", brief(denominator)));
      AICF_TRY(Term inverted, inverse(b[0]));
      if (e.op() == Op::reciprocal) {
        join_exponentials(inverted);
        return std::vector<Term>{std::move(inverted)};
      }
      AICF_TRY(const std::vector<Term> a, expand(e.args()[0]));
      return product(a, {inverted});
    }
    case Op::exp: {
      auto sides = affine(e.args()[0]);
      if (sides) {
        Term t;
        if (sides->x) {
          t.exp_x = sides->x;
          t.exp_b = sides->b;
        } else if (sides->b) {
          t.coefficient.num.push_back(Expr::unary(Op::exp, sides->b));
        }
        return std::vector<Term>{std::move(t)};
      }
      // exp(where(c, a, b)) = where(c, exp(a), exp(b))
      Expr a = e.args()[0];
      while (a.op() == Op::value && problem_.is_open(a.name())) a = problem_.statement(a.name()).body;
      if (a.op() != Op::select) return std::unexpected(sides.error());
      return expand_select(
          Expr::select(a.args()[0], Expr::unary(Op::exp, a.args()[1]), Expr::unary(Op::exp, a.args()[2])));
    }
    case Op::sqrt: {
      AICF_TRY(std::vector<Term> terms, expand(e.args()[0]));
      if (terms.size() != 1) return refuse("cascade", "the root of a sum");
      AICF_TRY(Term t, root(terms[0]));
      return std::vector<Term>{std::move(t)};
    }
    case Op::abs: {
      if (facts_.bounds(e.args()[0]).non_negative()) return expand(e.args()[0]);
      AICF_TRY(std::vector<Term> terms, expand(e.args()[0]));
      if (terms.size() != 1 || !terms[0].linears.empty()) {
        return refuse("cascade", fmt::format("the sign of '{}' is not known", brief(e.args()[0])));
      }
      for (auto* list : terms[0].factors()) {
        for (Expr& f : *list) f = Expr::unary(Op::abs, f);
      }
      return terms;
    }
    case Op::pow:
      return expand_power(e);
    case Op::cast:
      if (!is_float(e.type()) || !is_float(e.args()[0].type())) break;
      use("more precise", "a cast of a running value between float types is left out");
      return expand(e.args()[0]);
    case Op::select:
      return expand_select(e);
    default:
      break;
  }
  return refuse("cascade", fmt::format("'{}' of a streamed value and a running result has no repair", op_name(e.op())));
}

// ---- predicates --------------------------------------------------------------------------------------------------

Expr Expander::uniform(const Expr& c) {
  if (kind(c) == Kind::constant || kind(c) == Kind::running) return c;
  switch (c.op()) {
    case Op::value:
      return problem_.is_open(c.name()) ? uniform(problem_.statement(c.name()).body) : Expr();
    case Op::not_: {
      const Expr a = uniform(c.args()[0]);
      return a ? logical_not(a) : a;
    }
    case Op::and_:
    case Op::or_: {
      const Expr a = uniform(c.args()[0]), b = uniform(c.args()[1]);
      return a && b ? Expr::binary(c.op(), a, b) : Expr();
    }
    case Op::isnan:
      return uniform_nan(c.args()[0]);
    default:
      return {};
  }
}

// e = exp(x + b) · coefficient, where the exponential is at most 1 and the coefficient is a quotient by a sum that
// holds this very exponential: a NaN in any element makes the sum NaN, and where the sum is not NaN no element is.
Expr Expander::uniform_nan(const Expr& e) {
  auto terms = expand(e);
  if (!terms || terms->size() != 1) return {};
  const Term& t = (*terms)[0];
  if (!t.exp_x || !t.exp_b || t.condition || t.indicator || !t.linears.empty() || !t.weight.trivial()) return {};
  if (!t.coefficient.num.empty() || t.coefficient.den.size() != 1) return {};
  const Expr l = t.coefficient.den[0];
  if (l.op() != Op::value || !problem_.defines(l.name()) || !problem_.is_result(l.name())) return {};
  const Statement& sum = problem_.statement(l.name());
  if (sum.reduce != ReduceOp::sum || !facts_.bounds(l).positive()) return {};
  auto parts = expand(sum.body);
  if (!parts || parts->size() != 1) return {};
  const Term& s = (*parts)[0];
  const bool same =
      s.exp_x && s.exp_b && problem_.canonical(s.exp_x) == problem_.canonical(t.exp_x) && s.exp_b == t.exp_b;
  if (!same || s.condition || s.indicator || !s.linears.empty() || !s.weight.trivial() || !s.coefficient.trivial())
    return {};
  return Expr::unary(Op::isnan, l);
}

}  // namespace aicf::stream
