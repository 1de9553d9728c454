// simplify(): one bottom-up pass that brings each node to normal form. Laws that hold for every value are in
// expr_build.cpp; this file adds what needs ranges or more than one level.

#include "mir/support/expr_simplifier.h"

#include <algorithm>
#include <limits>

namespace aicf {
namespace {

bool is_arithmetic(Op op) {
  return op == Op::add || op == Op::sub || op == Op::mul || op == Op::neg;
}

/// A comparison as D ≤ −constant, for joining bounds of one form; empty for anything else.
struct UpperBound {
  Polynomial form;  ///< Without constant.
  std::int64_t bound;
};

std::optional<UpperBound> as_upper_bound(const Expr& e) {
  if (e.op() != Op::lt && e.op() != Op::le) return std::nullopt;
  if (!is_signed_integer(e.args()[0].type())) return std::nullopt;
  MaybePolynomial d = add(to_polynomial(e.args()[0]), to_polynomial(e.args()[1]), -1);
  if (!d || __builtin_sub_overflow(std::int64_t{e.op() == Op::lt ? -1 : 0}, d->constant, &d->constant))
    return std::nullopt;
  const std::int64_t bound = d->constant;
  d->constant = 0;
  return UpperBound{std::move(*d), bound};
}

void flatten(const Expr& e, Op op, std::vector<Expr>& out) {
  if (e.op() != op) {
    out.push_back(e);
    return;
  }
  for (const Expr& arg : e.args()) flatten(arg, op, out);
}

bool complementary(const Expr& a, const Expr& b) {
  return logical_not(a) == b || a == logical_not(b);
}

}  // namespace

Expr Simplifier::simplify(const Expr& e) {
  if (e.op() != Op::load && e.args().empty()) return e;
  if (const auto found = memo_.find(e); found != memo_.end()) return found->second;
  std::vector<Expr> args;
  args.reserve(e.args().size());
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(simplify(arg));
    changed |= args.back().identity() != arg.identity();
  }
  const Expr rebuilt = changed ? Expr::rebuild(e, std::move(args)) : e;
  Expr result = rebuilt.args().empty() ? rebuilt : compute(rebuilt);
  memo_.emplace(e, result);
  return result;
}

/// `e` has simplified arguments. One that is very large stays as it is: bringing it to normal form may double it.
Expr Simplifier::compute(const Expr& e) {
  constexpr std::uint64_t largest_tree = 2048;
  if (e.tree_size() > largest_tree) return e;
  const auto args = e.args();
  switch (e.op()) {
    case Op::load:
      return e;
    case Op::select:
      return select(args[0], args[1], args[2]);
    case Op::and_:
    case Op::or_:
      return logic(e.op(), args[0], args[1]);
    default:
      break;
  }
  if (args.size() == 2 && is_signed_integer(args[0].type())) return integer_binary(e);
  if (e.op() == Op::eq && args[0].type() == DType::boolean) {
    for (int i = 0; i < 2; ++i) {
      if (args[i].is_constant()) return args[i].int_number() ? args[1 - i] : logical_not(args[1 - i]);
    }
  }
  return args.size() == 1 ? unary(e) : e;
}

Expr Simplifier::normal(const Polynomial& p, DType type) {
  if (!fits(type, p.constant)) return {};
  for (const auto& [product, coefficient] : p.terms) {
    if (!fits(type, coefficient)) return {};
  }
  Polynomial joined = recombine(p, type);
  const Expr result = from_polynomial(joined, type);
  if (ExprNode::of(result).tree_size > small_tree) normal_forms_.emplace(result, std::move(joined));
  return result;
}

Polynomial Simplifier::polynomial(const Expr& e) const {
  const auto known = normal_forms_.find(e);
  return known != normal_forms_.end() ? known->second : to_polynomial(e);
}

Expr Simplifier::unary(const Expr& e) {
  const Expr& a = e.args()[0];
  if (e.op() == Op::isnan && a.op() == Op::cast && !is_float(a.args()[0].type())) return Expr::boolean(false);
  if (!is_signed_integer(a.type())) return e;
  switch (e.op()) {
    case Op::neg: {
      const MaybePolynomial p = scale(to_polynomial(a), -1);
      const Expr result = p ? normal(*p, e.type()) : Expr();
      return result ? result : e;
    }
    case Op::abs: {
      const Interval r = range(a);
      if (r.low >= 0) return a;
      return r.high <= 0 ? simplify(-a) : e;
    }
    case Op::sign: {
      const Interval r = range(a);
      if (r.low >= 1) return Expr::integer(1, e.type());
      return r.high <= -1 ? Expr::integer(-1, e.type()) : e;
    }
    default:
      return e;
  }
}

Expr Simplifier::integer_binary(const Expr& e) {
  const Expr &a = e.args()[0], &b = e.args()[1];
  const Op op = e.op();
  if (is_arithmetic(op)) {
    const Polynomial x = polynomial(a), y = polynomial(b);
    const MaybePolynomial p = op == Op::mul ? multiply(x, y) : add(x, y, op == Op::sub ? -1 : 1);
    const Expr result = p ? normal(*p, e.type()) : Expr();
    return result ? result : e;
  }
  Expr result;
  switch (op) {
    case Op::div:
    case Op::floordiv:
    case Op::mod:
      result = division(op, a, b);
      break;
    case Op::lt:
    case Op::le:
    case Op::eq:
      result = comparison(op, a, b);
      break;
    case Op::min:
    case Op::minnum:
      result = extremum(Op::min, a, b);
      break;
    case Op::max:
    case Op::maxnum:
      result = extremum(Op::max, a, b);
      break;
    default:
      break;
  }
  return result ? result : e;
}

// ---- division ----------------------------------------------------------------------------------------------------

Expr Simplifier::division(Op op, const Expr& a, const Expr& b) {
  const DType type = a.type();
  if (op == Op::div) {
    if (range(a).low >= 0 && range(b).low >= 0) return simplify(floordiv(a, b));
    // Exact divisions need no direction of rounding.
    const auto by = b.as_int();
    const Polynomial p = to_polynomial(a);
    const std::int64_t g = p.coefficient_gcd();
    if (!by || *by <= 0 || g % *by != 0 || p.constant % *by != 0) return {};
    op = Op::floordiv;
  }
  const Polynomial x = to_polynomial(a);
  if (const auto by = b.as_int()) {
    if (*by <= 0) return {};
    const MaybePolynomial p = op == Op::mod ? modulo(x, *by, type) : divide(x, *by, type);
    return p ? normal(*p, type) : Expr();
  }
  return symbolic_division(op, x, to_polynomial(b), b);
}

/// Divisors over symbols; a divisor is not zero wherever the division is evaluated.
Expr Simplifier::symbolic_division(Op op, const Polynomial& a, const Polynomial& b, const Expr& divisor) {
  const DType type = divisor.type();
  if (a == b) return Expr::integer(op == Op::mod ? 0 : 1, type);
  Polynomial whole, rest = a;
  if (b.terms.size() == 1 && b.constant == 0) {
    const auto& [factors, k] = *b.terms.begin();
    rest.terms.clear();
    for (const auto& [product, coefficient] : a.terms) {
      const bool multiple =
          coefficient % k == 0 && std::ranges::includes(product, factors, [](const Expr& p, const Expr& q) {
            return compare_readable(p, q) < 0;
          });
      if (!multiple) {
        rest.terms.emplace(product, coefficient);
        continue;
      }
      Product quotient;
      std::ranges::set_difference(product, factors, std::back_inserter(quotient),
                                  [](const Expr& p, const Expr& q) { return compare_readable(p, q) < 0; });
      if (quotient.empty()) {
        whole.constant += coefficient / k;
      } else if (!add_term(whole, quotient, coefficient / k)) {
        return {};
      }
    }
  }
  const Interval r = range(rest, type);
  const MaybePolynomial gap = add(b, rest, -1);
  const bool below = r.low >= 0 && gap && range(*gap, type).low >= 1;
  if (op == Op::mod) {
    if (rest.is_number(0)) return Expr::integer(0, type);
    const Expr dividend = from_polynomial(rest, type);
    return below ? dividend : mod(dividend, divisor);
  }
  if (rest.is_number(0) || below) return normal(whole, type);
  const MaybePolynomial sum = add(whole, Polynomial::atom(floordiv(from_polynomial(rest, type), divisor)));
  return sum ? normal(*sum, type) : Expr();
}

// ---- comparisons and logic ---------------------------------------------------------------------------------------

/// Decided by the range of the difference; otherwise common terms and common factors leave: 2·a + c < 2·b + c is a < b.
Expr Simplifier::comparison(Op op, const Expr& a, const Expr& b) {
  const DType type = a.type();
  MaybePolynomial d = add(to_polynomial(a), to_polynomial(b), -1);
  if (!d) return {};
  const Interval r = range(*d, type);
  if (op == Op::eq) {
    if (r.low == 0 && r.high == 0) return Expr::boolean(true);
    if (r.low > 0 || r.high < 0) return Expr::boolean(false);
  } else {
    const int strict = op == Op::lt ? 1 : 0;
    if (r.high <= -strict) return Expr::boolean(true);
    if (r.low > -strict) return Expr::boolean(false);
    if (strict && __builtin_add_overflow(d->constant, 1, &d->constant)) return {};
  }
  // From here: D ≤ 0 or D = 0.
  const std::int64_t g = d->coefficient_gcd();
  if (g == 0 || d->constant == std::numeric_limits<std::int64_t>::min()) return {};
  if (op == Op::eq && d->constant % g != 0) return Expr::boolean(false);
  Polynomial left, right;
  for (const auto& [product, coefficient] : d->terms) {
    if (coefficient == std::numeric_limits<std::int64_t>::min()) return {};
    (coefficient > 0 ? left : right).terms.emplace(product, (coefficient > 0 ? coefficient : -coefficient) / g);
  }
  const std::int64_t bound = *floor_division(-d->constant, g);  // left ≤ right + bound
  if (!fits(type, bound) || !fits(type, -bound)) return {};
  if (op == Op::eq) {
    if (left.terms.empty()) {
      left.terms.swap(right.terms);
      right.constant = -bound;
    } else if (right.terms.empty() || ProductLess()(left.terms.begin()->first, right.terms.begin()->first)) {
      right.constant = bound;
    } else {
      left.terms.swap(right.terms);
      right.constant = -bound;
    }
    return equal(from_polynomial(left, type), from_polynomial(right, type));
  }
  const bool use_strict = bound == -1;
  if (!use_strict) {
    if (bound < 0 && !right.terms.empty()) {
      left.constant = -bound;
    } else {
      right.constant = bound;
    }
  }
  const Expr x = from_polynomial(left, type), y = from_polynomial(right, type);
  return use_strict ? less(x, y) : less_equal(x, y);
}

/// Operands that another bounds are dropped: min(n, n + 3, m) is min(n, m).
Expr Simplifier::extremum(Op op, const Expr& a, const Expr& b) {
  std::vector<Expr> operands, kept;
  flatten(a, op, operands);
  flatten(b, op, operands);
  std::ranges::sort(operands, [](const Expr& x, const Expr& y) { return compare_readable(x, y) < 0; });
  for (const Expr& candidate : operands) {
    const auto beaten_by = [&](const Expr& winner, const Expr& loser) {
      const MaybePolynomial d = add(to_polynomial(winner), to_polynomial(loser), -1);
      if (!d) return winner == loser;
      const Interval r = range(*d, winner.type());
      return op == Op::min ? r.high <= 0 : r.low >= 0;
    };
    if (std::ranges::any_of(kept, [&](const Expr& other) { return beaten_by(other, candidate); })) continue;
    std::erase_if(kept, [&](const Expr& other) { return beaten_by(candidate, other); });
    kept.push_back(candidate);
  }
  Expr result = kept[0];
  for (std::size_t i = 1; i < kept.size(); ++i) result = Expr::binary(op, result, kept[i]);
  return result;
}

Expr Simplifier::logic(Op op, const Expr& a, const Expr& b) {
  const bool conjunction = op == Op::and_;
  const Expr absorbing = Expr::boolean(!conjunction);
  std::vector<Expr> operands, kept;
  flatten(a, op, operands);
  flatten(b, op, operands);
  for (const Expr& candidate : operands) {
    if (candidate == absorbing) return absorbing;
    bool redundant = candidate.is_constant();
    const auto bound = as_upper_bound(candidate);
    for (Expr& other : kept) {
      if (redundant) break;
      if (complementary(candidate, other)) return absorbing;
      redundant = candidate == other;
      const auto other_bound = bound ? as_upper_bound(other) : std::nullopt;
      if (!other_bound) continue;
      if (bound->form == other_bound->form) {
        // One bound implies the other; the tighter one stays in a conjunction, the looser one in a disjunction.
        const bool replaces = conjunction ? bound->bound < other_bound->bound : bound->bound > other_bound->bound;
        if (replaces) other = candidate;
        redundant = true;
      } else if (const MaybePolynomial opposite = add(bound->form, other_bound->form);
                 opposite && opposite->is_number(0)) {
        // L ≤ D ≤ H with L = −other, H = bound: empty when L > H; the alternatives cover everything when L ≤ H + 1.
        const __int128 high = bound->bound, low = -static_cast<__int128>(other_bound->bound);
        if (conjunction ? low > high : low <= high + 1) return absorbing;
      }
    }
    if (!redundant) kept.push_back(candidate);
  }
  if (kept.empty()) return Expr::boolean(conjunction);
  Expr result = kept[0];
  for (std::size_t i = 1; i < kept.size(); ++i) result = Expr::binary(op, result, kept[i]);
  return result;
}

Expr Simplifier::select(const Expr& condition, const Expr& a, const Expr& b) {
  Expr c = condition, x = a, y = b;
  if (c.op() == Op::not_) {
    c = c.args()[0];
    std::swap(x, y);
  }
  if (x.op() == Op::select && x.args()[0] == c) x = x.args()[1];
  if (y.op() == Op::select && y.args()[0] == c) y = y.args()[2];
  return Expr::select(c, x, y);
}

// ---- public ------------------------------------------------------------------------------------------------------

Expr simplify(const Expr& e, const Ranges& ranges) {
  if (!e) return e;
  Simplifier simplifier(ranges);
  return simplifier.simplify(e);
}

bool provably_equal(const Expr& a, const Expr& b, const Ranges& ranges) {
  AICF_CHECK(a && b, "comparison of an empty expression");
  if (a == b) return true;
  if (a.type() != b.type()) return false;
  Simplifier simplifier(ranges);
  if (is_signed_integer(a.type())) return simplifier.simplify(a - b).is_constant(0);
  return simplifier.simplify(a) == simplifier.simplify(b);
}

std::optional<Affine> as_affine(const Expr& e, const std::set<std::string>& axes) {
  if (!e || !is_signed_integer(e.type())) return std::nullopt;
  const Ranges no_ranges;
  Simplifier simplifier(no_ranges);
  const DType type = e.type();
  const Polynomial p = to_polynomial(simplifier.simplify(e));
  const auto free_of_axes = [&](const Expr& factor) {
    const auto used = axes_of(factor);
    return std::ranges::none_of(used, [&](const std::string& axis) { return axes.contains(axis); });
  };
  std::map<std::string, Polynomial> coefficients;
  Polynomial offset = Polynomial::number(p.constant);
  for (const auto& [product, coefficient] : p.terms) {
    std::string axis;
    Product rest;
    for (const Expr& factor : product) {
      if (free_of_axes(factor)) {
        rest.push_back(factor);
      } else if (factor.op() == Op::axis && axis.empty()) {
        axis = factor.name();
      } else {
        return std::nullopt;
      }
    }
    Polynomial& to = axis.empty() ? offset : coefficients[axis];
    if (rest.empty()) {
      to.constant += coefficient;
    } else if (!add_term(to, rest, coefficient)) {
      return std::nullopt;
    }
  }
  Affine affine;
  affine.offset = from_polynomial(offset, type);
  for (const auto& [axis, coefficient] : coefficients) affine.coefficients[axis] = from_polynomial(coefficient, type);
  return affine;
}

}  // namespace aicf
