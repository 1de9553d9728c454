// What states are kept about: running maxima of exponents, and centres of values whose powers are summed.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

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

int PassStates::exponential(const Expr& x, const std::vector<std::string>& over) {
  const Expr canonical = problem_.canonical(x);
  for (std::size_t i = 0; i < exponentials_.size(); ++i) {
    const Exponential& e = exponentials_[i];
    if (e.canonical == canonical && (e.over == over || e.shared)) return static_cast<int>(i);
  }
  Exponential e;
  e.x = x;
  e.canonical = canonical;
  e.over = over;
  Expr part;
  std::tie(part, e.times) = part_of(x);
  if (auto found = existing_maximum(part)) {
    e.maximum = found->first;
    e.offset = found->second;
    e.shared = true;
  } else {
    e.maximum = plain(ReduceOp::max, part, over, name_of(part) + "_max", true);
  }
  const Expr m = Expr::value(e.maximum, x.type());
  e.guard =
      add_local(e.maximum + "_safe", Expr::select(equal(m, infinity(x.type(), true)), Expr::constant(x.type(), 0), m));
  const Expr reference = e.offset ? e.guard + e.offset : e.guard;
  e.shifted = part - reference;
  if (e.times > 1) e.shifted = Expr::constant(x.type(), e.times) * e.shifted;
  e.name = hint(canonical, e.maximum);
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

int PassStates::family(const Expr& x, int exponential_index, const std::vector<std::string>& over) {
  const Expr canonical = problem_.canonical(x);
  for (std::size_t i = 0; i < families_.size(); ++i) {
    const Family& f = families_[i];
    if (f.canonical == canonical && f.exponential == exponential_index && f.over == over) return static_cast<int>(i);
  }
  Family f;
  f.x = x;
  f.canonical = canonical;
  f.exponential = exponential_index;
  f.over = over;
  f.name = name_of(x);
  const DType type = x.type();
  const Expr zero = Expr::constant(type, 0);
  // A pivot is read at the first coordinate alone, so x must not need an inner reduction there.
  if (values_of(canonical).empty()) {
    f.pivot = names_.fresh(f.name + "_pivot");
    // Rows of the weights, which say whether one has been seen, are its rows too.
    const Expr rows =
        exponential_index < 0 ? x : x + exponentials_[static_cast<std::size_t>(exponential_index)].shifted;
    add_state(f.pivot, type, state_axes(rows, over), ReduceOp::first);
    add_update(f.pivot, Expr::select(is_finite(x), x, zero), over);
  }
  f.y = f.pivot.empty() ? x : add_local(f.name + "_offset", x - Expr::value(f.pivot, type));
  Moment count;
  count.exponential = exponential_index;
  count.over = over;
  const Expr weight = exponential_index < 0 ? Expr() : exponential_value(exponential_index);
  f.weight = moments_[static_cast<std::size_t>(moment(count, weight ? "weight" : "count", type))].state;
  f.total = names_.fresh(f.name + "_total");
  const Expr term = Expr::select(is_finite(f.y), f.y, zero);
  const Expr body = weight ? weight * term : term;
  add_state(f.total, type, state_axes(body, over), ReduceOp::sum);
  State& total = state(f.total);
  if (!f.pivot.empty()) {
    state(f.pivot).seen = Expr::value(f.weight, type);
    total.references.push_back(f.pivot);
  }
  if (weight) total.references.push_back(exponentials_[static_cast<std::size_t>(exponential_index)].maximum);
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
