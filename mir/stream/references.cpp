// What states are kept about: running maxima of exponents, and centres of values whose powers are summed.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "mir/stream/states.h"

namespace aicf::stream {
namespace {

Expr infinity(DType type, bool negative) {
  return Expr::constant(type,
                        negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
}

Expr is_finite(const Expr& x) {
  return less(Expr::unary(Op::abs, x), infinity(x.type(), false));
}

}  // namespace

// ---- exponentials ------------------------------------------------------------------------------------------------

/// The difference x − body when it is constant along n: a maximum of `body` plus it is a maximum of x.
static std::optional<Expr> constant_difference(const Problem& problem, const Expr& x, const Expr& body) {
  std::vector<SignedAtom> own, taken;
  flatten_sum(problem.canonical(x), false, own);
  flatten_sum(problem.canonical(body), true, taken);
  const std::vector<SignedAtom> atoms = cancelled(std::move(own), taken);
  for (const SignedAtom& a : atoms) {
    if (problem.carries(a.e)) return std::nullopt;
  }
  return sum_of(atoms);
}

// x as `times` equal sums: s + s is 2 times s.
static std::pair<Expr, int> equal_parts(const Expr& x) {
  std::vector<SignedAtom> atoms, part;
  flatten_sum(x, false, atoms);
  const auto same = [](const SignedAtom& a) {
    return [&a](const SignedAtom& b) { return a.negative == b.negative && a.e == b.e; };
  };
  int times = 0;
  for (const SignedAtom& a : atoms) times = std::gcd(times, static_cast<int>(std::ranges::count_if(atoms, same(a))));
  if (times <= 1) return {x, 1};
  for (const SignedAtom& a : atoms)
    if (std::ranges::count_if(part, same(a)) * times < std::ranges::count_if(atoms, same(a))) part.push_back(a);
  return {sum_of(part), times};
}

std::optional<std::pair<std::string, Expr>> PassStates::existing_maximum(const Expr& x) const {
  for (const Plain& p : plains_) {
    if (p.op != ReduceOp::max || p.canonical.type() != x.type()) continue;
    if (auto offset = constant_difference(problem_, x, p.canonical)) return std::pair(p.state, *offset);
  }
  return std::nullopt;
}

std::pair<Expr, int> PassStates::part_of(const Expr& x) const {
  return existing_maximum(x) ? std::pair(x, 1) : equal_parts(x);
}

/// Whether b has −m, the result of the reduction that `maximum` is the state of.
bool PassStates::takes_away(const Expr& b, const std::string& maximum) const {
  std::vector<SignedAtom> atoms;
  flatten_sum(b, false, atoms);
  return std::ranges::any_of(reductions_, [&](const Reduction& r) {
    return r.maximum == maximum && std::ranges::any_of(atoms, [&](const SignedAtom& a) {
             return a.negative && a.e.op() == Op::value && a.e.name() == r.statement->name;
           });
  });
}

/// The exponents that `t` joined, where the graph takes the maximum of each away: exp(x − max x) exp(y − max y) underflows as
/// the graph's does, and x + y has not the digits of y where x is large. Empty for others.
std::vector<Term::Exponent> PassStates::exponents_of(const Term& t) const {
  if (!t.exp_x || t.exp_x.op() != Op::add || part_of(t.exp_x) != std::pair(t.exp_x, 1) || existing_maximum(t.exp_x))
    return {};
  std::vector<Term::Exponent> out;
  // A maximum of x, or of x and a constant where x is masked.
  const auto maximum = [&](const Expr& x) -> std::optional<std::string> {
    if (const auto found = existing_maximum(x); found && takes_away(t.exp_b, found->first)) return found->first;
    const Expr whole = problem_.canonical(x);
    for (const Plain& p : plains_) {
      if (p.op != ReduceOp::max || p.canonical.op() != Op::select || !takes_away(t.exp_b, p.state)) continue;
      const auto chosen = p.canonical.args();
      if ((chosen[1] == whole && chosen[2].is_constant()) || (chosen[2] == whole && chosen[1].is_constant()))
        return p.state;
    }
    return std::nullopt;
  };
  const auto split = [&](const auto& self, const Expr& x) -> bool {
    if (const auto found = maximum(x)) {
      out.push_back({x, *found});
      return true;
    }
    return x.op() == Op::add && std::ranges::all_of(x.args(), [&](const Expr& a) { return self(self, a); });
  };
  return split(split, t.exp_x) ? out : std::vector<Term::Exponent>{};
}

/// Those that have a maximum so far are shared with it.
std::vector<PassStates::Part> PassStates::parts_of(const Term& t) const {
  std::vector<Part> out;
  for (const auto& [x, maximum] : t.exponents) {
    const auto found = existing_maximum(x);
    out.push_back({x, found ? found->first : std::string(), found ? found->second : Expr(), maximum});
  }
  return out;
}

int PassStates::exponential(const Expr& x, const std::vector<std::string>& over, std::vector<Part> parts) {
  const Expr canonical = problem_.canonical(x);
  for (std::size_t i = 0; i < exponentials_.size(); ++i) {
    const Exponential& e = exponentials_[i];
    if (e.canonical == canonical && (e.over == over || e.shared) && (e.parts.size() > 1) == (parts.size() > 1))
      return static_cast<int>(i);
  }
  Exponential e;
  e.x = x;
  e.canonical = canonical;
  e.over = over;
  e.parts = std::move(parts);
  e.shared = !e.parts.empty() && std::ranges::none_of(e.parts, [](const Part& part) { return part.maximum.empty(); });
  for (Part& part : e.parts)
    if (part.maximum.empty()) part.maximum = plain(ReduceOp::max, part.x, over, name_of(part.x) + "_max", true);
  if (e.parts.empty()) {
    Part part;
    std::tie(part.x, e.times) = part_of(x);
    if (auto found = existing_maximum(part.x)) {
      std::tie(part.maximum, part.offset) = *found;
      e.shared = true;
    } else {
      part.maximum = plain(ReduceOp::max, part.x, over, name_of(part.x) + "_max", true);
    }
    e.parts.push_back(std::move(part));
  }
  for (const Part& part : e.parts) {
    const Expr m = Expr::value(part.maximum, x.type());
    const Expr safe = add_local(part.maximum + "_safe",
                                Expr::select(equal(m, infinity(x.type(), true)), Expr::constant(x.type(), 0), m));
    const Expr shifted = part.x - (part.offset ? safe + part.offset : safe);
    e.shifted = e.shifted ? e.shifted + shifted : shifted;
  }
  if (e.times > 1) e.shifted = Expr::constant(x.type(), e.times) * e.shifted;
  e.name = e.parts.size() == 1 ? hint(canonical, e.parts[0].maximum) : "p";
  exponentials_.push_back(std::move(e));
  return static_cast<int>(exponentials_.size()) - 1;
}

/// Name for exp(x − m): that of a value of the region that is it, or "p".
std::string PassStates::hint(const Expr& canonical, const std::string& maximum) const {
  for (const Statement& s : problem_.region().statements) {
    if (!s.over.empty() || s.body.op() != Op::exp) continue;
    Expr a = s.body.args()[0];
    while (a.op() == Op::value && problem_.is_open(a.name())) a = problem_.statement(a.name()).body;
    if (a.op() == Op::sub && problem_.canonical(a.args()[0]) == canonical && a.args()[1].op() == Op::value &&
        a.args()[1].name() == maximum) {
      return s.name;
    }
  }
  return "p";
}

Expr PassStates::exponential_value(int index) {
  Exponential& e = exponentials_[static_cast<std::size_t>(index)];
  if (!e.local) {
    const Expr body = Expr::unary(Op::exp, e.shifted);
    const bool own = problem_.defines(e.name) && !own_axes_.contains(e.name);
    if (own) {
      own_axes_[e.name] = axes(body);
      step_.push_back(
          {false, e.name, body.type(), own_axes_[e.name], {}, ReduceOp::none, body, problem_.statement(e.name).origin});
      e.local = Expr::value(e.name, body.type());
    } else {
      e.local = add_local(e.name, body);
    }
  }
  return e.local;
}

// ---- centres -----------------------------------------------------------------------------------------------------

bool PassStates::Counted::operator==(const Counted& other) const {
  const auto same = [](const Expr& a, const Expr& b) {
    return static_cast<bool>(a) == static_cast<bool>(b) && (!a || a == b);
  };
  return same(weight, other.weight) && same(indicator, other.indicator);
}

/// Whether a state about `to` has other rows when it rests on `e` too.
bool PassStates::adds_rows(const Expr& e, std::initializer_list<Expr> to) const {
  std::vector<std::string> rows{problem_.axis()};
  for (const Expr& x : to) {
    if (!x) continue;
    const std::vector<std::string> more = axes(x);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return !std::ranges::all_of(axes(e), [&](const std::string& a) { return has(rows, a); });
}

/// The condition that a factor of 0 or 1 is; empty for others.
Expr PassStates::mask_of(Expr factor) const {
  factor = problem_.opened(factor);
  const auto args = factor.args();
  if (factor.op() == Op::cast && args[0].type() == DType::boolean) return args[0];
  if (factor.op() != Op::select) return {};
  if (args[1].is_constant(1) && args[2].is_constant(0)) return args[0];
  return args[1].is_constant(0) && args[2].is_constant(1) ? logical_not(args[0]) : Expr();
}

/// The exponent where the term counts, −∞ elsewhere: what is masked may be larger than all that is not, and a maximum of it
/// would leave nothing of the rest.
Expr PassStates::guarded_exponent(const Term& t) const {
  const auto [x, times] = part_of(t.exp_x);
  const Expr guarded = guarded_part(x, t, times);
  if (guarded == x) return t.exp_x;
  Expr sum = guarded;
  for (int i = 1; i < times; ++i) sum = sum + guarded;
  return sum;
}

Expr PassStates::guarded_part(const Expr& x, const Term& t, int times) const {
  const Expr whole = problem_.canonical(x);
  const bool safe = std::ranges::all_of(loads_of(whole), [&](const Expr& l) { return problem_.in_bounds(l); });
  // The graph's own maximum of all x serves exp(x - m), which underflows as the graph's does. A power of it underflows earlier, and
  // (x - m)^2 loses digits, where what is masked is far above the rest.
  const bool alone =
      times == 1 && std::ranges::none_of(t.linears, [&](const Linear& l) { return same_as_exponential(l.x, t); });
  // A factor of 0 or 1 masks too, but 0 · inf stays NaN.
  Expr counts;
  for (const Expr& w : t.weight.num)
    if (const Expr m = mask_of(w); m && !adds_rows(m, {x, t.exp_b})) counts = counts ? logical_and(counts, m) : m;
  if (safe && (alone || (!t.indicator && !counts)) && existing_maximum(x)) return x;
  if (t.indicator && (!safe || !adds_rows(t.indicator, {x, t.exp_b}))) {
    const Expr condition = problem_.canonical(t.indicator);
    // A maximum that the graph takes away itself, of x and another constant where it is masked.
    for (const Plain& p : plains_) {
      if (p.op != ReduceOp::max || p.canonical.op() != Op::select || !takes_away(t.exp_b, p.state)) continue;
      const auto chosen = p.canonical.args();
      const bool as_is = chosen[0] == condition && chosen[1] == whole && chosen[2].is_constant();
      const bool negated =
          chosen[0] == problem_.canonical(logical_not(t.indicator)) && chosen[2] == whole && chosen[1].is_constant();
      if (as_is || negated) return p.canonical;
    }
    return Expr::select(t.indicator, safe ? x : whole, infinity(x.type(), true));
  }
  if (!counts) return x;
  return Expr::select(logical_or(counts, logical_not(is_finite(x))), x, infinity(x.type(), true));
}

/// The weights of a term without those that differ within the rows of its differences.
PassStates::Counted PassStates::own_weights(const Linear& l, const Term& t) const {
  Counted out;
  if (t.indicator && !adds_rows(t.indicator, {l.x, l.b, t.exp_x})) out.indicator = problem_.canonical(t.indicator);
  Factors all = t.weight, factors;
  all *= t.outer_weight;
  for (const auto& [from, to] : {std::pair{&all.num, &factors.num}, std::pair{&all.den, &factors.den}})
    for (const Expr& w : *from)
      if (!adds_rows(w, {l.x, l.b, t.exp_x}) && !(mask_of(w) && has(*to, w))) to->push_back(w);
  if (factors.trivial()) return out;
  const DType type = l.x.type();
  const Expr weight = Expr::unary(Op::abs, problem_.canonical(value_of(factors, type)));
  out.weight = Expr::select(is_finite(weight), weight, Expr::constant(type, 0));
  return out;
}

std::vector<Expr> PassStates::split_products(const std::vector<Expr>& list) const {
  std::vector<Expr> factors, pending(list.rbegin(), list.rend());
  while (!pending.empty()) {
    const Expr e = pending.back(), inner = problem_.opened(e);
    pending.pop_back();
    if (inner.op() == Op::mul)
      pending.insert(pending.end(), inner.args().rbegin(), inner.args().rend());
    else
      factors.push_back(e);
  }
  return factors;
}

/// A product of along factors as (x + 0)^1 beside the rest, for each factor; a factor where(c, x, 0) is x where c.
std::vector<Term> PassStates::powers_apart(const Term& t) const {
  std::vector<Term> out;
  if (!t.linears.empty() || t.indicator || !t.weight.den.empty()) return out;
  const std::vector<Expr> factors = split_products(t.weight.num);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    Term about = t;
    about.weight.num = factors;
    about.weight.num.erase(about.weight.num.begin() + static_cast<std::ptrdiff_t>(i));
    about.linears.push_back({factors[i], {}, 1});
    const Expr chosen = problem_.opened(factors[i]);
    if (chosen.op() == Op::select && (chosen.args()[1].is_constant(0) || chosen.args()[2].is_constant(0))) {
      const bool first = chosen.args()[2].is_constant(0);
      about.indicator = first ? chosen.args()[0] : logical_not(chosen.args()[0]);
      about.linears[0].x = chosen.args()[first ? 1 : 2];
      about.outer_weight = std::exchange(about.weight, {});
    }
    out.push_back(std::move(about));
  }
  return out;
}

/// The sum of x that b takes away, as a term about x.
std::optional<Term> PassStates::mean_of(const Linear& l) const {
  if (!l.b) return std::nullopt;
  const Expr x = problem_.canonical(l.x);
  for (const std::string& result : problem_.results(l.b)) {
    const Reduction* r = reduction(result);
    if (!r) continue;
    for (const Term& t : r->terms) {
      std::vector<Term> forms = powers_apart(t);
      forms.push_back(t);
      for (const Term& form : forms)
        if (form.linears.size() == 1 && !form.linears[0].b && form.linears[0].power == 1 &&
            problem_.canonical(form.linears[0].x) == x)
          return form;
    }
  }
  return std::nullopt;
}

/// What a term weighs its powers by: conditions, which may be written as masks, apart from other factors.
PassStates::Weights PassStates::weights_of(const Term& t) const {
  Weights out;
  const auto split = [&](const Expr& condition) {
    std::vector<Expr> pending{condition};
    while (!pending.empty()) {
      const Expr c = pending.back();
      pending.pop_back();
      if (c.op() == Op::and_)
        pending.insert(pending.end(), c.args().begin(), c.args().end());
      else
        out.conditions.insert(problem_.canonical(c));
    }
  };
  if (t.indicator) split(t.indicator);
  for (const Factors* f : {&t.weight, &t.outer_weight}) {
    for (const Expr& w : split_products(f->num))
      if (const Expr m = mask_of(w))
        split(m);
      else
        out.factors.insert(problem_.canonical(w));
    for (const Expr& w : split_products(f->den)) out.factors.insert(Expr::unary(Op::reciprocal, problem_.canonical(w)));
  }
  return out;
}

/// Whether `l` is the sum of what a term's powers are weighed by: then the term over `l` is a mean.
bool PassStates::sums_weights(const Reduction& l, const Term& t) const {
  if (l.terms.size() != 1) return false;
  const Term& s = l.terms[0];
  return !s.condition && !s.exp_x && !t.exp_x && s.linears.empty() && s.coefficient.trivial() &&
         s.outer_coefficient.trivial() && reduced_over(s) == reduced_over(t) && weights_of(s) == weights_of(t);
}

/// What counts in the centre of x + b: where the term counts no more than a mean that b takes away, what that counts, for the
/// nearer the centre is to it the less cancels; else what the term does not mask.
PassStates::Counted PassStates::counted(const Linear& l, const Term& t) const {
  if (!l.b) return own_weights(l, t);
  const Expr x = problem_.canonical(l.x);
  const Weights own = weights_of(t);
  for (const Linear& other : t.linears) {
    if (problem_.canonical(other.x) != x) continue;
    const auto mean = mean_of(other);
    if (mean && weights_of(*mean).within(own)) return own_weights({l.x, l.b, 1}, *mean);
  }
  Term masks;
  masks.indicator = t.indicator;
  masks.exp_x = t.exp_x;
  for (const Expr& w : t.weight.num)
    if (mask_of(w)) masks.weight.num.push_back(w);
  return own_weights(l, masks);
}

int PassStates::family(const Expr& x, const Counted& counted, int exponential_index,
                       const std::vector<std::string>& over) {
  const Expr canonical = problem_.canonical(x);
  for (std::size_t i = 0; i < families_.size(); ++i) {
    const Family& f = families_[i];
    if (f.canonical == canonical && f.counted == counted && f.exponential == exponential_index && f.over == over)
      return static_cast<int>(i);
  }
  Family f;
  f.x = x;
  f.canonical = canonical;
  f.counted = counted;
  f.exponential = exponential_index;
  f.over = over;
  f.name = name_of(x);
  const DType type = x.type();
  const Expr zero = Expr::constant(type, 0);
  // A pivot is read at the first coordinate alone, so x must not need an inner reduction there.
  if (values_of(canonical).empty()) {
    f.pivot = names_.fresh(f.name + "_pivot");
    // Rows of the weights, which say whether one has been seen, are its rows too.
    Expr rows = exponential_index < 0 ? x : x + exponentials_[static_cast<std::size_t>(exponential_index)].shifted;
    if (counted.weight) rows = rows + counted.weight;
    if (counted.indicator) rows = Expr::select(counted.indicator, rows, zero);
    add_state(f.pivot, type, state_axes(rows, over), ReduceOp::first);
    Expr counts = is_finite(x);
    if (counted.weight) counts = logical_and(less(zero, counted.weight), counts);
    if (counted.indicator) counts = logical_and(counted.indicator, counts);
    add_update(f.pivot, Expr::select(counts, x, zero), over);
  }
  f.y = f.pivot.empty() ? x : add_local(f.name + "_offset", x - Expr::value(f.pivot, type));
  Moment count;
  count.exponential = exponential_index;
  count.over = over;
  count.indicator = counted.indicator;
  if (counted.weight) count.weight.num.push_back(counted.weight);
  Expr weight = exponential_index < 0 ? Expr() : exponential_value(exponential_index);
  if (counted.weight) weight = weight ? weight * counted.weight : counted.weight;
  f.weight = moments_[static_cast<std::size_t>(moment(count, weight ? "weight" : "count", type))].state;
  f.total = names_.fresh(f.name + "_total");
  const Expr term = Expr::select(is_finite(f.y), f.y, zero);
  Expr body = weight ? weight * term : term;
  if (counted.indicator) body = Expr::select(counted.indicator, body, zero);
  add_state(f.total, type, state_axes(body, over), ReduceOp::sum);
  State& total = state(f.total);
  if (!f.pivot.empty()) {
    state(f.pivot).seen = Expr::value(f.weight, type);
    total.references.push_back(f.pivot);
  }
  if (exponential_index >= 0)
    for (const Part& part : exponentials_[static_cast<std::size_t>(exponential_index)].parts)
      total.references.push_back(part.maximum);
  const bool separate = join(state_index(f.total), state_index(f.weight));
  AICF_CHECK(separate, "the weight of a centre is a reference of its own group");
  add_update(f.total, body, over);
  f.centre = add_local(f.name + "_shift", centre_of(f, false));
  f.c = add_local(f.name + "_centred", f.y - f.centre);
  f.finish_centre = names_.fresh(f.name + "_centre");
  finish_.push_back({f.finish_centre, type, axes(centre_of(f, false)), {}, ReduceOp::none, centre_of(f, false)});
  own_axes_[f.finish_centre] = finish_.back().axes;
  families_.push_back(std::move(f));
  return static_cast<int>(families_.size()) - 1;
}

}  // namespace aicf::stream
