#include "mir/stream/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "mir/stream/multi_index.h"
#include "mir/support/expr_brief.h"

namespace aicf::stream {

std::string Names::fresh(const std::string& base) {
  std::string name = base;
  if (used_.contains(name))
    for (int& i = next_.try_emplace(base, 1).first->second; used_.contains(name); ++i)
      name = fmt::format("{}_{}", base, i);
  used_.insert(name);
  return name;
}

// ---- collecting --------------------------------------------------------------------------------------------------

Attempt<void> PassStates::add(const Statement& s) {
  Reduction r{&s, {}, {}, {}};
  Expander expander(problem_, facts_, running_, s.type);
  const Kind kind = expander.kind(s.body);
  const bool is_maximum = s.reduce == ReduceOp::max || s.reduce == ReduceOp::maxnum;
  const bool is_minimum = s.reduce == ReduceOp::min || s.reduce == ReduceOp::minnum;
  if (kind == Kind::along || kind == Kind::constant) {
    if (s.reduce == ReduceOp::sum && is_float(s.type)) {
      Term t;
      t.weight.num.push_back(s.body);
      r.terms.push_back(std::move(t));
    }
  } else if (s.reduce == ReduceOp::sum && is_float(s.type)) {
    AICF_TRY(r.terms, expander.expand(s.body));
    if (r.terms.empty()) {  // selects between zeros
      r.terms.emplace_back();
      r.terms[0].weight.num.push_back(Expr::constant(s.type, 0));
    }
  } else if (is_maximum || is_minimum) {
    AICF_TRY(r.monotone, monotone(problem_, facts_, expander, s.body, is_maximum));
    r.laws.emplace_back("monotone", r.monotone->condition);
  } else {
    return refuse("cascade",
                  fmt::format("'{}' of a value that rests on running results has no repair", name(s.reduce)));
  }
  r.laws.insert(r.laws.end(), expander.used().begin(), expander.used().end());
  reductions_.push_back(std::move(r));
  running_.insert(s.name);
  return {};
}

std::vector<std::string> PassStates::others(const Statement& s) const {
  std::set<std::string> axes(s.over.begin(), s.over.end());
  axes.erase(problem_.axis());
  return problem_.ordered(axes);
}

std::string PassStates::name_of(const Expr& x) const {
  if (x.op() == Op::value || x.op() == Op::load) {
    std::string name;
    for (const char c : x.name()) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (!name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]))) return name;
  }
  return "x";
}

// Reduced axes that a factor outside the sum varies over: the state keeps them and finish sums over them.
std::vector<std::string> PassStates::kept(const Term& t, const std::vector<std::string>& others) const {
  std::set<std::string> axes;
  const auto note = [&](const Expr& e) {
    if (!e) return;
    for (const std::string& a : problem_.axes(e)) {
      if (has(others, a)) axes.insert(a);
    }
  };
  for (const Factors* f : {&t.coefficient, &t.outer_coefficient}) {
    std::ranges::for_each(f->num, note);
    std::ranges::for_each(f->den, note);
  }
  note(t.condition);
  note(t.exp_b);
  for (const Linear& l : t.linears) note(l.b);
  return problem_.ordered(axes);
}

// ---- states ------------------------------------------------------------------------------------------------------

int PassStates::state_index(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

PassStates::State& PassStates::state(const std::string& name) {
  const int i = state_index(name);
  AICF_CHECK(i >= 0, "no state " + name);
  return states_[static_cast<std::size_t>(i)];
}

int PassStates::root(int i) const {
  while (states_[static_cast<std::size_t>(i)].group != i) i = states_[static_cast<std::size_t>(i)].group;
  return i;
}

/// One repair group for both; false when one is a reference of the other.
bool PassStates::join(int a, int b) {
  a = root(a), b = root(b);
  if (a == b) return true;
  auto& target = states_[static_cast<std::size_t>(a)].references;
  for (const std::string& r : states_[static_cast<std::size_t>(b)].references) {
    if (!has(target, r)) target.push_back(r);
  }
  states_[static_cast<std::size_t>(b)].group = a;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (root(static_cast<int>(i)) == a && has(target, states_[i].decl.name)) return false;
  }
  return true;
}

void PassStates::add_state(const std::string& name, DType type, const std::vector<std::string>& axes, ReduceOp op) {
  State s;
  s.decl = {name, type, axes, op, op == ReduceOp::first ? Expr::constant(type, 0) : neutral(op, type), Residency::open};
  s.group = static_cast<int>(states_.size());
  own_axes_[name] = axes;
  index_.emplace(name, static_cast<int>(states_.size()));
  states_.push_back(std::move(s));
}

void PassStates::add_update(const std::string& name, const Expr& body, const std::vector<std::string>& over) {
  const StateDecl& d = state(name).decl;
  step_.push_back({true, name, d.type, d.axes, over, d.reduce, body.type() == d.type ? body : Expr::cast(body, d.type),
                   current_->origin});
}

std::vector<std::string> PassStates::axes(const Expr& body) const {
  std::set<std::string> all;
  for (const std::string& a : problem_.axes(body)) all.insert(a);
  for (const std::string& v : values_of(body)) {
    if (auto it = own_axes_.find(v); it != own_axes_.end()) all.insert(it->second.begin(), it->second.end());
  }
  return problem_.ordered(all);
}

std::vector<std::string> PassStates::state_axes(const Expr& body, const std::vector<std::string>& over) const {
  std::vector<std::string> list = axes(body);
  std::erase_if(list, [&](const std::string& a) { return a == problem_.axis() || has(over, a); });
  return list;
}

Expr PassStates::add_local(const std::string& base, const Expr& body) {
  const std::string name = names_.fresh(base);
  own_axes_[name] = axes(body);
  step_.push_back({false, name, body.type(), own_axes_[name], {}, ReduceOp::none, body, {}});
  return Expr::value(name, body.type());
}

/// A state for `op` over n of an along body; shared when there is one already. `wanted` names a new one.
std::string PassStates::plain(ReduceOp op, const Expr& body, const std::vector<std::string>& over,
                              const std::string& wanted, bool stabiliser) {
  const Expr canonical = problem_.canonical(body);
  for (Plain& p : plains_) {
    if (p.op != op || p.canonical != canonical || p.over != over) continue;
    p.stabiliser &= stabiliser;
    return p.state;
  }
  const std::string name = take_name(wanted);
  add_state(name, body.type(), state_axes(body, over), op);
  add_update(name, body, over);
  plains_.push_back({op, canonical, over, name, stabiliser});
  const bool maximum = op == ReduceOp::max || op == ReduceOp::maxnum;
  if (maximum) stabilised_.push_back({canonical, name});
  if (!maximum) all_stabilised_ = false;
  return name;
}

/// The reduction's own name once, fresh names otherwise.
std::string PassStates::take_name(const std::string& wanted) {
  if (wanted == current_->name && !own_axes_.contains(wanted)) return wanted;
  return names_.fresh(wanted == current_->name ? wanted + "_state" : wanted);
}

// ---- moments -----------------------------------------------------------------------------------------------------

/// Whether an infinite or NaN constant is among the operands; conditions choose and are none.
static bool has_infinity(const Expr& e) {
  std::vector<Expr> pending{e};
  std::set<const void*> seen;
  while (!pending.empty()) {
    const Expr x = pending.back();
    pending.pop_back();
    if (x.op() == Op::constant && is_float(x.type()) && !std::isfinite(x.number())) return true;
    if (!seen.insert(x.identity()).second) continue;
    for (std::size_t i = x.op() == Op::select ? 1 : 0; i < x.args().size(); ++i) pending.push_back(x.args()[i]);
  }
  return false;
}

bool PassStates::Moment::counts_as(const Moment& other) const {
  const bool same_indicator = static_cast<bool>(indicator) == static_cast<bool>(other.indicator) &&
                              (!indicator || indicator == other.indicator);
  return same_indicator && canonical_weight == other.canonical_weight && canonical_outer == other.canonical_outer &&
         exponential == other.exponential && over == other.over;
}

int PassStates::moment(const Moment& wanted, const std::string& name, DType type) {
  Moment m = wanted;
  m.canonical_weight = problem_.canonical(value_of(m.weight, type));
  m.canonical_outer = problem_.canonical(value_of(m.outer, type));
  if (m.indicator) m.indicator = problem_.canonical(m.indicator);
  for (std::size_t i = 0; i < moments_.size(); ++i)
    if (moments_[i].powers == m.powers && moments_[i].counts_as(m)) return static_cast<int>(i);
  Factors factors = wanted.weight;
  for (const auto& [shift, power] : wanted.powers) {
    const Expr c = shift.kind == Shift::Kind::family ? families_[static_cast<std::size_t>(shift.index)].c
                                                     : shifted_value(shift.index);
    for (int i = 0; i < power; ++i) factors.num.push_back(c);
  }
  if (wanted.exponential >= 0) factors.num.insert(factors.num.begin(), exponential_value(wanted.exponential));
  Expr body = value_of(factors, type);
  if (wanted.indicator) body = Expr::select(wanted.indicator, body, Expr::constant(type, 0));
  if (!wanted.outer.trivial()) {
    Factors all = wanted.outer;
    all.num.insert(all.num.begin(), body);
    body = value_of(all, type);
  }
  m.state = take_name(name);
  add_state(m.state, type, state_axes(body, wanted.over), ReduceOp::sum);
  auto& references = state(m.state).references;
  const auto refer = [&](int exponential) {
    for (const Part& part : exponentials_[static_cast<std::size_t>(exponential)].parts)
      if (!has(references, part.maximum)) references.push_back(part.maximum);
  };
  if (wanted.exponential >= 0) refer(wanted.exponential);
  for (const auto& [shift, power] : wanted.powers) {
    if (shift.kind == Shift::Kind::maximum) {
      refer(shift.index);
      continue;
    }
    const Family& f = families_[static_cast<std::size_t>(shift.index)];
    for (const std::string& r : {f.pivot, f.weight, f.total}) {
      if (!r.empty() && !has(references, r)) references.push_back(r);
    }
  }
  add_update(m.state, body, wanted.over);
  // 0 · −inf is NaN, as the graph has it: a factor that a mask makes infinite is not left out.
  if (wanted.exponential < 0 || has_infinity(m.canonical_weight) || has_infinity(m.canonical_outer))
    all_stabilised_ = false;
  for (const auto& [shift, power] : wanted.powers) {
    if (shift.kind == Shift::Kind::maximum) all_stabilised_ = false;
  }
  if (wanted.exponential >= 0) {
    Exponential& e = exponentials_[static_cast<std::size_t>(wanted.exponential)];
    for (const Part& part : e.parts)
      stabilised_.push_back(
          {e.parts.size() > 1 ? problem_.canonical(part.x) : e.canonical, part.offset ? std::string() : part.maximum});
    e.always &= !wanted.indicator;
  }
  moments_.push_back(std::move(m));
  return static_cast<int>(moments_.size()) - 1;
}

/// x − m as a step local, m the running maximum.
Expr PassStates::shifted_value(int index) {
  Exponential& e = exponentials_[static_cast<std::size_t>(index)];
  if (e.shifted.op() != Op::value) {
    // The exponential reads it too when that does not exist yet.
    const Expr local = add_local(name_of(e.x) + "_shifted", e.shifted);
    e.shifted = local;
  }
  return e.shifted;
}

/// Allocates the moment of a term with every moment below it; all are one repair group.
Attempt<int> PassStates::closed_moment(const Moment& wanted, const std::string& name, DType type) {
  // The main state first, so that it gets the reduction's name.
  int degree = 0;
  for (const auto& [shift, power] : wanted.powers) degree += power;
  int main = -1;
  std::vector<int> below;
  for (const Powers& p : indices_below(wanted.powers)) {
    Moment m = wanted;
    m.powers = p;
    int d = 0;
    for (const auto& [shift, power] : p) d += power;
    const bool is_main = d == degree;
    const int i = moment(m, is_main ? name : fmt::format("{}_moment{}", name, d), type);
    if (is_main)
      main = i;
    else
      below.push_back(i);
  }
  const int state_of_main = state_index(moments_[static_cast<std::size_t>(main)].state);
  const std::vector<std::string> references = states_[static_cast<std::size_t>(state_of_main)].references;
  for (const int i : below) {
    const std::string& s = moments_[static_cast<std::size_t>(i)].state;
    if (has(references, s)) continue;  // the weight of a centre: read as a reference
    if (!join(state_of_main, state_index(s))) {
      return refuse("cascade", fmt::format("'{}' is repaired by a state that it repairs", s));
    }
  }
  return main;
}

// ---- allocation --------------------------------------------------------------------------------------------------

bool PassStates::same_as_exponential(const Expr& x, const Term& t) const {
  return t.exp_x && problem_.canonical(x) == problem_.canonical(t.exp_x);
}

std::vector<std::string> PassStates::reduced_over(const Term& t) const {
  std::vector<std::string> over = others(*current_);
  std::vector<std::string> keep = kept(t, over);
  if (t.exp_x) {
    std::vector<Part> parts = parts_of(t);
    if (auto found = existing_maximum(part_of(t.exp_x).first)) parts.push_back({{}, found->first, {}, {}});
    for (const Part& part : parts) {
      if (part.maximum.empty()) continue;
      for (const std::string& a : own_axes_.at(part.maximum)) {
        if (has(over, a)) keep.push_back(a);
      }
    }
  }
  std::erase_if(over, [&](const std::string& a) { return has(keep, a); });
  return over;
}

int PassStates::exponential_of(const Term& t) {
  if (!t.exp_x) return -1;
  return exponential(t.exp_x, reduced_over(t), parts_of(t));
}

/// Degree of the differences in `t` that are not about the maximum of its own exponential.
int PassStates::free_degree(const Term& t) const {
  int d = 0;
  for (const Linear& l : t.linears) d += same_as_exponential(l.x, t) ? 0 : l.power;
  return d;
}

/// b takes away a sum of x: then x + b may be small beside x, and only a centre keeps its digits.
bool PassStates::is_about_mean(const Linear& l) const {
  const auto mean = mean_of(l);
  return mean && std::ranges::all_of(mean->weight.num, [&](const Expr& w) { return static_cast<bool>(mask_of(w)); });
}

/// The maximum of x itself, when b takes it away.
int PassStates::maximum_of(const Linear& l) {
  if (!l.b) return -1;
  std::vector<SignedAtom> atoms;
  flatten_sum(l.b, false, atoms);
  for (const SignedAtom& a : atoms) {
    if (!a.negative || !facts_.is_maximum_of(a.e, l.x)) continue;
    if (auto found = existing_maximum(l.x); found && !found->second) return exponential(l.x, {});
  }
  return -1;
}

// Powers of one degree beside nothing else are split, x·g and b·g apart, where that costs no digits.
std::vector<Term> PassStates::split_single(const Term& t) {
  if (free_degree(t) != 1) return {t};
  const auto single = std::ranges::find_if(t.linears, [&](const Linear& l) { return !same_as_exponential(l.x, t); });
  if (find_family(single->x, counted(*single, t), t) || is_about_mean(*single) || maximum_of(*single) >= 0) return {t};
  Term with_x = t, with_b = t;
  const auto at = single - t.linears.begin();
  with_x.linears.erase(with_x.linears.begin() + at);
  with_b.linears.erase(with_b.linears.begin() + at);
  with_x.weight.num.push_back(single->x);
  if (!single->b) return {with_x};
  with_b.coefficient.num.push_back(single->b);
  return {with_x, with_b};
}

bool PassStates::find_family(const Expr& x, const Counted& counted, const Term& t) const {
  const Expr canonical = problem_.canonical(x);
  const std::vector<std::string> over = reduced_over(t);
  for (const Family& f : families_) {
    if (f.canonical != canonical || f.over != over || !(f.counted == counted)) continue;
    if (f.exponential < 0 ? !t.exp_x
                          : t.exp_x && same_as_exponential(exponentials_[static_cast<std::size_t>(f.exponential)].x, t))
      return true;
  }
  return false;
}

// Σ g x is also g (x + 0)^1 where the pass keeps x about its mean: more precise, and the mean comes out centred.
void PassStates::centre_plain(Term& t) {
  for (Term& about : powers_apart(t)) {
    if (!find_family(about.linears[0].x, counted(about.linears[0], about), about)) continue;
    t = std::move(about);
    return;
  }
}

PassStates::Shift PassStates::shift_of(const Linear& l, const Term& t, const Moment& m) {
  if (same_as_exponential(l.x, t)) return {Shift::Kind::maximum, m.exponential};
  // Differences of one x share a centre in a term, whatever each of them counts.
  for (const auto& [s, power] : m.powers)
    if (s.kind == Shift::Kind::family &&
        families_[static_cast<std::size_t>(s.index)].canonical == problem_.canonical(l.x))
      return s;
  if (free_degree(t) == 1 && !find_family(l.x, counted(l, t), t) && !is_about_mean(l)) {
    if (const int e = maximum_of(l); e >= 0) return {Shift::Kind::maximum, e};
  }
  return {Shift::Kind::family, family(l.x, counted(l, t), m.exponential, m.over)};
}

/// What was used for a reduction and why its side conditions hold.
void PassStates::certify(const Reduction& r) {
  const std::string& name = r.statement->name;
  std::set<std::pair<std::string, std::string>> known;
  const auto note = [&](const std::string& law, const std::string& condition) {
    if (known.emplace(law, condition).second) certificate_.push_back({law, name, condition});
  };
  for (std::size_t i = 0; i < r.moments.size(); ++i) {
    const Moment& m = moments_[static_cast<std::size_t>(r.moments[i])];
    const Term& t = r.terms[i];
    if (m.exponential >= 0) {
      for (const Part& part : exponentials_[static_cast<std::size_t>(m.exponential)].parts)
        note("cascade",
             fmt::format(
                 "sum of exp(x - {0}) g, T = exp({0} - {0}') at most 1 as {0} only grows; {0} = -inf counts as 0",
                 part.maximum));
    }
    for (const auto& [shift, power] : m.powers) {
      const auto index = static_cast<std::size_t>(shift.index);
      if (shift.kind == Shift::Kind::maximum) {
        note("polynomial shift",
             fmt::format("power {} about {}, binomials of its movement", power, exponentials_[index].parts[0].maximum));
      } else {
        note("polynomial shift",
             fmt::format("power {} about the running mean of {} (pivot + difference), finite for every prefix", power,
                         families_[index].name));
      }
    }
    for (const auto* list :
         {&t.coefficient.num, &t.coefficient.den, &t.outer_coefficient.num, &t.outer_coefficient.den}) {
      for (const Expr& f : *list) {
        if (f.is_constant()) continue;
        note("invariant factor", fmt::format("'{}' is the same along {}; limit: the sum without it must not overflow",
                                             brief(f), problem_.axis()));
      }
    }
  }
  for (const auto& [law, condition] : r.laws) note(law, condition);
}

Attempt<void> PassStates::allocate() {
  const auto fails = [&](const Failure& f) -> std::unexpected<Failure> {
    failed_ = current_->name;
    return std::unexpected(f);
  };
  for (Reduction& r : reductions_) {
    current_ = r.statement;
    if (r.monotone) {
      for (const bool maximum : {true, false}) {
        if (!(maximum ? r.monotone->from_max : r.monotone->from_min)) continue;
        const std::string base = name_of(r.monotone->g) + (maximum ? "_max" : "_min");
        (maximum ? r.maximum : r.minimum) =
            plain(maximum ? ReduceOp::max : ReduceOp::min, r.monotone->g, others(*current_), base, false);
      }
    } else if (r.terms.empty()) {
      r.maximum = plain(current_->reduce, current_->body, others(*current_), current_->name, false);
    }
  }
  for (Reduction& r : reductions_)
    for (Term& t : r.terms) {
      if (!t.exp_x) continue;
      t.exponents = exponents_of(t);
      Expr guarded;
      for (Term::Exponent& e : t.exponents) {
        e.x = guarded_part(e.x, t, static_cast<int>(t.exponents.size()));
        guarded = guarded ? guarded + e.x : e.x;
      }
      if (!guarded) guarded = guarded_exponent(t);
      for (Linear& l : t.linears)
        if (t.indicator && same_as_exponential(l.x, t)) l.x = guarded;
      t.exp_x = guarded;
    }
  // What is read under an indicator alone is read under it by references and centres too.
  for (Reduction& r : reductions_)
    for (Term& t : r.terms) {
      if (!t.indicator) continue;
      const auto guarded = [&](const Expr& x, double otherwise) {
        const Expr whole = problem_.canonical(x);
        const bool safe = std::ranges::all_of(loads_of(whole), [&](const Expr& l) { return problem_.in_bounds(l); });
        return safe ? x : Expr::select(t.indicator, whole, Expr::constant(x.type(), otherwise));
      };
      for (Linear& l : t.linears)
        if (!same_as_exponential(l.x, t)) l.x = guarded(l.x, 0);
    }
  // Centres: wherever a power of degree two or more is summed.
  for (Reduction& r : reductions_) {
    current_ = r.statement;
    for (const Term& t : r.terms) {
      const bool alone = free_degree(t) == 1;
      if (free_degree(t) == 0 ||
          (alone && std::ranges::none_of(t.linears, [&](const Linear& l) { return is_about_mean(l); })))
        continue;
      const int e = exponential_of(t);
      std::vector<Expr> centred;
      for (const Linear& l : t.linears) {
        const Expr x = problem_.canonical(l.x);
        if (!same_as_exponential(l.x, t) && !has(centred, x)) family(l.x, counted(l, t), e, reduced_over(t));
        centred.push_back(x);
      }
    }
  }
  for (Reduction& r : reductions_) {
    current_ = r.statement;
    std::vector<Term> terms;
    for (const Term& t : r.terms) {
      for (Term& part : split_single(t)) {
        centre_plain(part);
        terms.push_back(std::move(part));
      }
    }
    r.terms = std::move(terms);
    for (const Term& t : r.terms) {
      Moment m;
      m.weight = t.weight;
      (t.indicator ? m.outer : m.weight) *= t.outer_weight;
      m.indicator = t.indicator;
      m.exponential = exponential_of(t);
      m.over = reduced_over(t);
      for (const Linear& l : t.linears) {
        const Shift shift = shift_of(l, t, m);
        bool merged = false;
        for (auto& [s, power] : m.powers) {
          if (s == shift) power += l.power, merged = true;
        }
        if (!merged) m.powers.emplace_back(shift, l.power);
      }
      std::ranges::sort(m.powers);
      auto index = closed_moment(m, current_->name, current_->type);
      if (!index) return fails(index.error());
      r.moments.push_back(*index);
      // Factors outside may be NaN for rows that select nothing: whether any element was selected is a state of its
      // own.
      const bool bare = t.coefficient.trivial() && t.linears.empty() && !t.exp_x;
      r.selected.push_back(
          t.indicator && !bare ? plain(ReduceOp::any, t.indicator, m.over, current_->name + "_selected", false) : "");
    }
  }
  // References move before their groups: pivots rest on nothing of the step.
  std::ranges::stable_partition(step_, [](const StepItem& x) { return x.update && x.reduce == ReduceOp::first; });
  make_repairs();
  for (Reduction& r : reductions_) {
    current_ = r.statement;
    finish(r);
    certify(r);
  }
  return {};
}

}  // namespace aicf::stream
