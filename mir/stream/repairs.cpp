// How states move to new references, and how partial states merge: both from one expression per state.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "mir/stream/multi_index.h"
#include "mir/stream/states.h"

namespace aicf::stream {
namespace {

Expr infinity(DType type, bool negative) {
  return Expr::constant(type,
                        negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
}

}  // namespace

/// −∞ seen so far and nothing else: states are as they were.
Expr PassStates::is_unset(const Exponential& e) const {
  const DType type = e.x.type();
  Expr unset;
  for (const Part& part : e.parts) {
    const Expr here = equal(Expr::value(part.maximum, type), infinity(type, true));
    unset = unset ? logical_or(unset, here) : here;
  }
  return unset;
}

/// The centre relative to the pivot: total / weight, 0 before anything is seen.
Expr PassStates::centre_of(const Family& f, bool primed) const {
  const DType type = f.x.type();
  const std::string mark = primed ? "'" : "";
  const Expr weight = Expr::value(f.weight + mark, type), total = Expr::value(f.total + mark, type);
  const Expr zero = Expr::constant(type, 0);
  return Expr::select(less(zero, weight), total / weight, zero);
}

std::vector<PassStates::Expansion> PassStates::expansion(const Powers& powers) const {
  std::vector<Expansion> out;
  for (const Powers& below : indices_below(powers)) {
    Expansion e{below, 1, {}};
    for (const auto& [shift, power] : powers) {
      int taken = 0;
      for (const auto& [s, p] : below) {
        if (s == shift) taken = p;
      }
      e.binomial *= binomial(power, taken);
      if (power > taken) e.missing.emplace_back(shift, power - taken);
    }
    out.push_back(std::move(e));
  }
  return out;
}

/// m − m′ of an exponent. Of several maxima each moves where it grows: those that stay may be infinite.
Expr PassStates::movement(const Exponential& e) const {
  const DType type = e.x.type();
  Expr sum;
  for (const Part& part : e.parts) {
    const Expr m = Expr::value(part.maximum, type), to = Expr::value(part.maximum + "'", type);
    const Expr moved = e.parts.size() == 1 ? m - to : Expr::select(less(m, to), m - to, Expr::constant(type, 0));
    sum = sum ? sum + moved : moved;
  }
  return e.times > 1 ? Expr::constant(type, e.times) * sum : sum;
}

Expr PassStates::exponent_factor(const Exponential& e) const {
  return Expr::unary(Op::exp, movement(e));
}

/// c − c′: how far what the power is about moves.
Expr PassStates::movement(const Shift& s) const {
  if (s.kind == Shift::Kind::maximum) return movement(exponentials_[static_cast<std::size_t>(s.index)]);
  const Family& f = families_[static_cast<std::size_t>(s.index)];
  const Expr centre = centre_of(f, false) - centre_of(f, true);
  if (f.pivot.empty()) return centre;
  return (Expr::value(f.pivot, f.x.type()) - Expr::value(f.pivot + "'", f.x.type())) + centre;
}

void PassStates::make_repairs() {
  // What a prefix without a single live element keeps as it is: δ may be large there and 0 · inf is NaN.
  const auto guarded = [&](int exponential, const Family* f, const Expr& moved, const Expr& own) {
    if (exponential >= 0) {
      const Exponential& e = exponentials_[static_cast<std::size_t>(exponential)];
      return Expr::select(is_unset(e), own, exponent_factor(e) * moved);
    }
    return Expr::select(less(Expr::constant(own.type(), 0), Expr::value(f->weight, own.type())), moved, own);
  };
  for (const Moment& m : moments_) {
    State& s = state(m.state);
    const Expr own = Expr::value(m.state, s.decl.type);
    if (m.powers.empty()) {
      if (m.exponential < 0) {
        s.repaired = own;
        s.law = "count";
        continue;
      }
      const Exponential& e = exponentials_[static_cast<std::size_t>(m.exponential)];
      // A maximum that stays does not move, be it -inf or what makes the result NaN where something counts.
      const std::string& maximum = e.parts[0].maximum;
      const Expr m = Expr::value(maximum, s.decl.type), to = Expr::value(maximum + "'", s.decl.type);
      const Expr factor = exponent_factor(e), one = Expr::constant(s.decl.type, 1);
      s.repaired = (e.parts.size() == 1 ? Expr::select(less(m, to), factor, one) : factor) * own;
      s.law = e.times > 1 ? fmt::format("cascade: exp({1}(x - {0})) g, T = exp({1}({0} - {0}'))", maximum, e.times)
                          : fmt::format("cascade: exp(x - {0}) g, T = exp({0} - {0}')", maximum);
      if (e.parts.size() > 1)
        s.law =
            fmt::format("cascade: exp of {} exponents, each about its maximum, T of their movements", e.parts.size());
      continue;
    }
    Expr moved;
    for (const Expansion& x : expansion(m.powers)) {
      Moment below = m;
      below.powers = x.powers;
      Expr term;
      for (const Moment& other : moments_) {
        if (other.powers == x.powers && other.counts_as(m)) term = Expr::value(other.state, s.decl.type);
      }
      AICF_CHECK(static_cast<bool>(term), "a moment below '" + m.state + "' is missing");
      for (const auto& [shift, power] : x.missing) {
        for (int i = 0; i < power; ++i) term = movement(shift) * term;
      }
      if (x.binomial != 1) term = Expr::constant(s.decl.type, x.binomial) * term;
      moved = moved ? moved + term : term;
    }
    const Family* f = nullptr;
    int about = -1;
    for (const auto& [shift, power] : m.powers) {
      if (shift.kind == Shift::Kind::family)
        f = &families_[static_cast<std::size_t>(shift.index)];
      else
        about = shift.index;
    }
    if (m.exponential < 0 && !f) {
      s.repaired = Expr::select(is_unset(exponentials_[static_cast<std::size_t>(about)]), own, moved);
    } else {
      // What the centre does not count may be in the sum all the same: then it moves, from 0 or the pivot, which are finite.
      const bool counted =
          m.exponential >= 0 || f->counted == Counted{} || std::ranges::any_of(moments_, [&](const Moment& count) {
            return count.state == f->weight && count.counts_as(m);
          });
      s.repaired = counted ? guarded(m.exponential, f, moved, own) : moved;
    }
    s.law = "polynomial shift: (x - c)^k, binomials of c - c'";
  }
  for (const Family& f : families_) {
    State& s = state(f.total);
    const DType type = s.decl.type;
    const Expr own = Expr::value(f.total, type);
    if (f.pivot.empty()) {
      s.repaired = f.exponential < 0 ? own : guarded(f.exponential, &f, own, own);
    } else {
      const Expr moved =
          own + (Expr::value(f.pivot, type) - Expr::value(f.pivot + "'", type)) * Expr::value(f.weight, type);
      s.repaired = guarded(f.exponential, &f, moved, own);
    }
    s.law = "polynomial shift: sum of (x - pivot)";
  }
}

std::vector<StateDecl> PassStates::states() const {
  std::vector<StateDecl> list;
  for (const State& s : states_) list.push_back(s.decl);
  return list;
}

std::vector<RepairGroup> PassStates::repairs() const {
  std::vector<RepairGroup> groups;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (root(static_cast<int>(i)) != static_cast<int>(i) || states_[i].references.empty()) continue;
    RepairGroup g;
    g.references = states_[i].references;
    for (std::size_t k = 0; k < states_.size(); ++k) {
      if (root(static_cast<int>(k)) != static_cast<int>(i)) continue;
      g.states.push_back(states_[k].decl.name);
      g.repair.push_back(states_[k].repaired);
      if (g.law.empty() || g.law == "count") g.law = states_[k].law;
    }
    // References in the order of their updates, so that the last one names the moment of the repair.
    std::ranges::sort(g.references, {}, [&](const std::string& r) { return state_index(r); });
    groups.push_back(std::move(g));
  }
  // One group for all that move alike, so that "(l, o)" stands together.
  std::vector<RepairGroup> merged;
  for (RepairGroup& g : groups) {
    auto same = std::ranges::find_if(
        merged, [&](const RepairGroup& m) { return m.references == g.references && m.law == g.law; });
    const bool independent = g.law.starts_with("cascade: exp(");
    if (same == merged.end() || !independent) {
      merged.push_back(std::move(g));
      continue;
    }
    same->states.insert(same->states.end(), g.states.begin(), g.states.end());
    same->repair.insert(same->repair.end(), g.repair.begin(), g.repair.end());
  }
  return merged;
}

/// A state of side `mark` ("a." or "b.") at the merged references.
Expr PassStates::side(const State& s, const std::string& mark, const std::map<std::string, Expr>& merged) const {
  const auto& references = states_[static_cast<std::size_t>(root(state_index(s.decl.name)))].references;
  const Expr own = Expr::value(s.decl.name, s.decl.type);
  const Expr moved = references.empty() ? own : s.repaired;
  ExprMap map;
  for (const std::string& read : values_of(moved)) {
    const bool primed = read.ends_with('\'');
    const std::string name = primed ? read.substr(0, read.size() - 1) : read;
    const int other = state_index(name);
    if (other < 0) continue;
    if (!primed)
      map[read] = Expr::value(mark + name, states_[static_cast<std::size_t>(other)].decl.type);
    else if (const auto it = merged.find(name); it != merged.end())
      map[read] = it->second;
  }
  return substitute_values(moved, map);
}

std::vector<MergeRule> PassStates::merges() const {
  std::map<std::string, Expr> merged;
  const std::function<Expr(const State&)> merge = [&](const State& s) -> Expr {
    if (auto it = merged.find(s.decl.name); it != merged.end()) return it->second;
    for (const std::string& r : states_[static_cast<std::size_t>(root(state_index(s.decl.name)))].references) {
      merge(states_[static_cast<std::size_t>(state_index(r))]);
    }
    const Expr a = side(s, "a.", merged), b = side(s, "b.", merged);
    Expr value;
    if (s.decl.reduce == ReduceOp::first) {
      const Expr seen = Expr::value("a." + s.seen.name(), s.seen.type());
      value = Expr::select(less(Expr::constant(seen.type(), 0), seen), a, b);
    } else {
      value = combine(s.decl.reduce, a, b);
    }
    merged[s.decl.name] = value;
    return value;
  };
  std::vector<MergeRule> rules;
  for (const State& s : states_) rules.push_back({s.decl.name, merge(s)});
  return rules;
}

void PassStates::drop_nan_unless(const std::set<std::string>& read) {
  for (const Plain& p : plains_) {
    if (p.op != ReduceOp::max || read.contains(p.state)) continue;
    bool shown = false;
    for (const Exponential& e : exponentials_)
      shown |= e.parts.size() == 1 && e.parts[0].maximum == p.state && e.always && e.local;
    if (!shown) continue;
    state(p.state).decl.reduce = ReduceOp::maxnum;
    for (StepItem& item : step_) {
      if (item.update && item.name == p.state) item.reduce = ReduceOp::maxnum;
    }
  }
}

}  // namespace aicf::stream
