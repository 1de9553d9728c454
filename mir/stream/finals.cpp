// What results are after a pass: expressions over the states, with the running factors that left the sums.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mir/stream/multi_index.h"
#include "mir/stream/states.h"

namespace aicf::stream {
namespace {

Expr nan_of(DType type) {
  return Expr::constant(type, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

const PassStates::Reduction* PassStates::reduction(const std::string& result) const {
  auto it = std::ranges::find_if(reductions_, [&](const Reduction& r) { return r.statement->name == result; });
  return it == reductions_.end() ? nullptr : &*it;
}

/// Maps and products opened: the factors of a running or constant expression.
Factors PassStates::factorise(const Expr& e) const {
  Factors f;
  const auto go = [&](const auto& self, const Expr& x, bool inverse) -> void {
    if (x.op() == Op::value && problem_.defines(x.name()) && problem_.is_open(x.name())) {
      return self(self, problem_.statement(x.name()).body, inverse);
    }
    if (x.op() == Op::mul) {
      for (const Expr& a : x.args()) self(self, a, inverse);
      return;
    }
    if (x.op() == Op::div) {
      self(self, x.args()[0], inverse);
      self(self, x.args()[1], !inverse);
      return;
    }
    if (x.op() == Op::reciprocal) return self(self, x.args()[0], !inverse);
    if (x.op() == Op::cast && is_float(x.type()) && is_float(x.args()[0].type()))
      return self(self, x.args()[0], inverse);
    (inverse ? f.den : f.num).push_back(x);
  };
  go(go, e, false);
  std::erase_if(f.num, [](const Expr& x) { return x.is_constant(1); });
  std::erase_if(f.den, [](const Expr& x) { return x.is_constant(1); });
  return f;
}

/// f is 1 / (number of elements that `over` and the streamed axis span).
bool PassStates::is_inverse_extent(const Factors& f, const std::vector<std::string>& over) const {
  double ratio = 1;
  Expr symbolic = 1;
  for (const Expr& e : f.num) {
    if (!e.is_constant()) return false;
    ratio *= e.number();
  }
  for (const Expr& e : f.den) {
    if (e.is_constant()) {
      ratio /= e.number();
    } else if (e.op() == Op::cast && is_integer(e.args()[0].type()) && problem_.is_index_only(e)) {
      symbolic = symbolic * problem_.canonical(e.args()[0]);
    } else {
      return false;
    }
  }
  std::vector<std::string> all = over;
  all.push_back(problem_.axis());
  const Expr extent = problem_.extent(all);
  const auto n = extent.as_int(), m = simplify(symbolic).as_int();
  if (n && m) return std::fabs(ratio / static_cast<double>(*m) * static_cast<double>(*n) - 1) < 1e-6;
  const double whole = std::nearbyint(1 / ratio);
  if (!(whole >= 1 && whole < 0x1p31) || std::fabs(whole * ratio - 1) > 1e-6) return false;
  return provably_equal(symbolic * Expr(static_cast<std::int64_t>(whole)), extent);
}

std::optional<CentredMean> PassStates::centred(const Expr& e) {
  Factors rest = factorise(e);
  const Reduction* r = nullptr;
  for (std::size_t i = 0; i < rest.num.size() && !r; ++i) {
    if (rest.num[i].op() != Op::value) continue;
    r = reduction(rest.num[i].name());
    if (r) rest.num.erase(rest.num.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!r || r->terms.size() != 1) return std::nullopt;
  const Term& t = r->terms[0];
  if (t.condition || !t.outer_coefficient.trivial() || t.linears.size() != 1) return std::nullopt;
  if (t.linears[0].b || t.linears[0].power != 1) return std::nullopt;
  const Moment& m = moments_[static_cast<std::size_t>(r->moments[0])];
  if (m.powers.size() != 1 || m.powers[0].first.kind != Shift::Kind::family) return std::nullopt;
  const Family& f = families_[static_cast<std::size_t>(m.powers[0].first.index)];
  for (const Expr& c : t.coefficient.num) {
    const Factors more = factorise(c);
    rest.num.insert(rest.num.end(), more.num.begin(), more.num.end());
    rest.den.insert(rest.den.end(), more.den.begin(), more.den.end());
  }
  for (const Expr& c : t.coefficient.den) {
    const Factors more = factorise(c);
    rest.num.insert(rest.num.end(), more.den.begin(), more.den.end());
    rest.den.insert(rest.den.end(), more.num.begin(), more.num.end());
  }
  const DType type = f.x.type();
  Expr weight = Expr::value(f.weight, type);
  if (f.exponential < 0) {
    const bool whole = !t.indicator && t.weight.trivial() && is_inverse_extent(rest, f.over);
    if (!whole) {
      if (!rest.num.empty() || rest.den.size() != 1 || rest.den[0].op() != Op::value) return std::nullopt;
      const Reduction* l = reduction(rest.den[0].name());
      if (!l || !sums_weights(*l, t)) return std::nullopt;
      weight = finished(rest.den[0]);
    }
  } else {
    if (t.indicator || !t.weight.trivial()) return std::nullopt;
    // The divisor is the sum of the same exponentials.
    if (!rest.num.empty() || rest.den.size() != 1 || rest.den[0].op() != Op::value) return std::nullopt;
    const Reduction* l = reduction(rest.den[0].name());
    if (!l || l->terms.size() != 1) return std::nullopt;
    const Term& s = l->terms[0];
    const Moment& sum = moments_[static_cast<std::size_t>(l->moments[0])];
    const bool same_b = static_cast<bool>(s.exp_b) == static_cast<bool>(t.exp_b) && (!s.exp_b || s.exp_b == t.exp_b);
    if (sum.state != f.weight || !same_b || s.condition || !s.coefficient.trivial()) return std::nullopt;
  }
  CentredMean mean;
  if (!f.pivot.empty()) mean.pivot = Expr::value(f.pivot, type);
  mean.difference = Expr::value(f.finish_centre, type) + Expr::value(m.state, type) / weight;
  return mean;
}

/// Results of this pass replaced by what they are at finish.
Expr PassStates::finished(const Expr& e) const {
  ExprMap map(finals_.begin(), finals_.end());
  return e ? substitute_values(e, map) : e;
}

// ---- running parts -----------------------------------------------------------------------------------------------

std::vector<SignedAtom> PassStates::centre_atoms(const Shift& s) const {
  std::vector<SignedAtom> atoms;
  if (s.kind == Shift::Kind::maximum) {
    const Exponential& e = exponentials_[static_cast<std::size_t>(s.index)];
    for (int i = 0; i < e.times; ++i)
      for (const Part& part : e.parts) {
        atoms.push_back({false, Expr::value(part.maximum, e.x.type())});
        flatten_sum(part.offset, false, atoms);
      }
    return atoms;
  }
  const Family& f = families_[static_cast<std::size_t>(s.index)];
  if (!f.pivot.empty()) atoms.push_back({false, Expr::value(f.pivot, f.x.type())});
  atoms.push_back({false, Expr::value(f.finish_centre, f.x.type())});
  return atoms;
}

/// A running sum as atoms over states where that lets parts cancel: maxima, and means as pivot + centre + rest.
std::vector<SignedAtom> PassStates::resolve(const Expr& b, bool negative) {
  std::vector<SignedAtom> flat, out;
  flatten_sum(b, negative, flat);
  for (const SignedAtom& a : flat) {
    if (const auto mean = centred(a.e)) {
      if (mean->pivot) out.push_back({a.negative, mean->pivot});
      flatten_sum(mean->difference, a.negative, out);
      continue;
    }
    const Expr& e = a.e;
    if (e.op() == Op::value && problem_.defines(e.name())) {
      if (problem_.is_open(e.name())) {
        // Opened only for sums; anything else is one atom.
        const Expr& body = problem_.statement(e.name()).body;
        const bool sum = body.op() == Op::add || body.op() == Op::sub || body.op() == Op::neg || body.op() == Op::value;
        if (sum) {
          const std::vector<SignedAtom> inner = resolve(body, a.negative);
          out.insert(out.end(), inner.begin(), inner.end());
          continue;
        }
      } else if (auto it = finals_.find(e.name()); it != finals_.end() && state_index(it->second.name()) >= 0) {
        out.push_back({a.negative, it->second});
        continue;
      }
    }
    if (e.op() == Op::cast && is_float(e.type()) && is_float(e.args()[0].type()) && e.args()[0].type() == e.type()) {
      flatten_sum(e.args()[0], a.negative, out);
      continue;
    }
    out.push_back({a.negative, finished(e)});
  }
  return out;
}

/// exp(m + b) over the finished m, its exact factors put into `factors`; empty when nothing is left. Where m and b
/// cancel, the result is NaN for m = −inf, as exp(−inf + inf) is in the graph.
Expr PassStates::outer_exponential(const Term& t, int exponential, Factors& factors, bool& unset) {
  const Exponential& e = exponentials_[static_cast<std::size_t>(exponential)];
  std::vector<SignedAtom> atoms = cancelled(centre_atoms({Shift::Kind::maximum, exponential}), resolve(t.exp_b, false));
  const bool gone = std::ranges::none_of(e.parts, [&](const Part& part) {
    const Expr m = Expr::value(part.maximum, e.x.type());
    return std::ranges::any_of(atoms, [&](const SignedAtom& a) { return a.e == m; });
  });
  if (gone) {
    unset = true;
    for (const SignedAtom& a : atoms) {
      if (a.e.op() == Op::log) (a.negative ? factors.den : factors.num).push_back(a.e.args()[0]);
    }
    std::erase_if(atoms, [](const SignedAtom& a) { return a.e.op() == Op::log; });
  }
  // Of several each is taken off its own first: they may be large.
  Expr rest;
  if (e.parts.size() > 1) {
    for (const Part& part : e.parts) {
      const auto atom = [&](const std::string& state, bool negative) {
        return std::ranges::find_if(atoms, [&](const SignedAtom& a) {
          return a.negative == negative && a.e == Expr::value(state, e.x.type());
        });
      };
      const auto own = atom(part.maximum, false), taken = atom(part.taken, true);
      if (own == atoms.end() || taken == atoms.end()) continue;
      const Expr difference = own->e - taken->e;
      rest = rest ? rest + difference : difference;
      atoms.erase(std::max(own, taken)), atoms.erase(std::min(own, taken));
    }
  }
  const Expr others = sum_of(atoms);
  rest = rest && others ? rest + others : rest ? rest : others;
  return rest ? Expr::unary(Op::exp, rest) : rest;
}

/// Π (c_f + d_f)^k_f over the moments: d_f is what the centre of f differs from −b by.
Expr PassStates::polynomial(const Term& t, const Moment& m) {
  const DType type = state(m.state).decl.type;
  std::map<Powers, Expr> sum{{Powers{}, Expr()}};  // an empty coefficient is 1
  for (const Linear& l : t.linears) {
    const Expr x = problem_.canonical(l.x);
    Shift shift;
    for (const auto& [s, power] : m.powers) {
      const auto index = static_cast<std::size_t>(s.index);
      if ((s.kind == Shift::Kind::family ? families_[index].canonical : exponentials_[index].canonical) == x) shift = s;
    }
    AICF_CHECK(shift.index >= 0, "a difference of '" + current_->name + "' has no centre");
    const Expr d = sum_of(cancelled(centre_atoms(shift), resolve(l.b, false)));
    std::map<Powers, Expr> next;
    for (const auto& [powers, coefficient] : sum) {
      for (int j = 0; j <= l.power; ++j) {
        if (j < l.power && !d) continue;
        Expr c = coefficient;
        for (int i = j; i < l.power; ++i) c = c ? c * d : d;
        if (const double k = binomial(l.power, j); k != 1)
          c = c ? Expr::constant(type, k) * c : Expr::constant(type, k);
        Powers p = powers;
        bool merged = j == 0;
        for (auto& [s, power] : p) {
          if (s == shift && !merged) power += j, merged = true;
        }
        if (!merged) p.emplace_back(shift, j);
        std::ranges::sort(p);
        const Expr one = Expr::constant(type, 1);
        if (auto it = next.find(p); it == next.end()) {
          next.emplace(p, c);
        } else {
          it->second = (it->second ? it->second : one) + (c ? c : one);
        }
      }
    }
    sum = std::move(next);
  }
  Expr value;
  std::vector<std::pair<Powers, Expr>> ordered(sum.begin(), sum.end());
  std::ranges::stable_sort(ordered, [](const auto& a, const auto& b) { return degree(a.first) > degree(b.first); });
  for (const auto& [powers, coefficient] : ordered) {
    Moment wanted = m;
    wanted.powers = powers;
    const Expr s = Expr::value(moments_[static_cast<std::size_t>(moment(wanted, "moment", type))].state, type);
    const Expr term = coefficient ? coefficient * s : s;
    value = value ? value + term : term;
  }
  return value;
}

// ---- results -----------------------------------------------------------------------------------------------------

Expr PassStates::empty_guarded(const Statement& s, const Expr& value) const {
  const Expr extent = problem_.extent(s.over);
  const Range range = range_of(extent, {});
  if (range.low && *range.low > 0) return value;
  return Expr::select(equal(extent, Expr(0)), neutral(s.reduce, s.type), value);
}

Expr PassStates::finish_term(Reduction& r, std::size_t i, bool& trivial) {
  const Term& t = r.terms[i];
  const Moment m = moments_[static_cast<std::size_t>(r.moments[i])];
  const DType type = r.statement->type;
  const auto finished_factors = [&](Factors f) {
    for (auto* list : {&f.num, &f.den})
      for (Expr& e : *list) e = finished(e);
    return f;
  };
  Factors factors = finished_factors(t.coefficient), outer_factors = finished_factors(t.outer_coefficient);
  Expr outer;
  bool unset = false;
  if (m.exponential >= 0) outer = outer_exponential(t, m.exponential, factors, unset);
  Expr value = t.linears.empty() ? Expr::value(m.state, type) : polynomial(t, m);
  int about = m.exponential;
  for (const auto& [shift, power] : m.powers) {
    if (shift.kind != Shift::Kind::maximum || m.exponential >= 0) continue;
    about = shift.index;  // x - m is NaN where x and m are -inf
    unset = true;
  }
  trivial &=
      factors.trivial() && t.outer_coefficient.trivial() && !outer && t.linears.empty() && !t.condition && !unset;
  const auto multiplied = [](Expr v, const Factors& f) {
    for (const Expr& e : f.num) v = e.is_constant(-1) ? -v : e * v;
    for (const Expr& e : f.den) v = v / e;
    return v;
  };
  // exp(x)/l in a power: the exponential of all of it may underflow, and so may l·l, where their quotient is about 1. Each
  // divisor takes its share of it and one of the other factors.
  Factors divisors{{}, factors.den};
  divisors *= {{}, outer_factors.den};
  std::erase_if(divisors.den, [](const Expr& e) { return e.is_constant(); });
  const std::size_t shares = divisors.den.size();
  const bool exponential = outer && outer.op() == Op::exp;
  const auto signs = std::ranges::count_if(factors.num, [](const Expr& e) { return e.is_constant(-1); });
  const bool shared = shares > 1 && (exponential || factors.num.size() - static_cast<std::size_t>(signs) > 1);
  if (shared) {
    std::ranges::stable_partition(factors.num, [](const Expr& e) { return e.is_constant(-1); });
    const auto with_sign = factors.num.begin() + signs;
    std::vector<Expr> rest(with_sign, factors.num.end());
    value = multiplied(value, {{factors.num.begin(), with_sign}, {}});
    if (outer && !exponential) value = outer * value;
    const Expr share = exponential
                           ? Expr::unary(Op::exp, outer.args()[0] / Expr::constant(type, static_cast<double>(shares)))
                           : Expr();
    for (std::size_t k = 0; k < shares; ++k) {
      const std::size_t left = shares - k, taken = (rest.size() + left - 1) / left;
      for (std::size_t i = 0; i < taken; ++i) value = rest[i] * value;
      rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(taken));
      if (share) value = share * value;
      value = value / divisors.den[k];
    }
    for (const Factors* f : {&factors, &outer_factors})
      for (const Expr& e : f->den)
        if (e.is_constant()) value = value / e;
    value = multiplied(value, {outer_factors.num, {}});
  } else {
    value = multiplied(value, {factors.num, {}});
    if (outer) value = outer * value;
    value = multiplied(value, {{}, factors.den});
  }
  // A divisor that is NaN for the same reason already says it.
  for (const auto* list : {&factors.den, &outer_factors.den})
    for (const Reduction& other : reductions_) {
      auto final = finals_.find(other.statement->name);
      if (final != finals_.end() && has(*list, final->second) && other.unset_by == about) unset = false;
    }
  if (unset) {
    r.unset_by = about;
    value = Expr::select(is_unset(exponentials_[static_cast<std::size_t>(about)]), nan_of(type), value);
  }
  // What is left where nothing was selected: 0, and NaN where that met one.
  const auto otherwise = [&](const Expr& none) { return shared ? multiplied(none, outer_factors) : none; };
  if (const std::string& selected = r.selected[i]; !selected.empty()) {
    const Expr none = t.outer_weight.trivial() ? Expr::constant(type, 0) : Expr::value(m.state, type);
    value = Expr::select(Expr::value(selected, DType::boolean), value, otherwise(none));
  }
  if (t.condition) value = Expr::select(finished(t.condition), value, otherwise(Expr::constant(type, 0)));
  if (!shared) value = multiplied(value, outer_factors);
  // Reduced axes that the factors vary over.
  const std::vector<std::string> all = others(*r.statement);
  std::vector<std::string> over;
  for (const std::string& a : all) {
    if (!has(m.over, a)) over.push_back(a);
  }
  if (over.empty()) return value;
  trivial = false;
  const std::string part = names_.fresh(r.statement->name + "_part");
  finish_.push_back({part, type, r.statement->axes, over, ReduceOp::sum, value});
  own_axes_[part] = r.statement->axes;
  return Expr::value(part, type);
}

void PassStates::finish(Reduction& r) {
  const Statement& s = *r.statement;
  Expr value;
  bool trivial = true;
  if (r.monotone) {
    const DType type = r.monotone->g.type();
    const auto at = [&](const std::string& extreme) {
      return substitute_values(finished(r.monotone->form), {{extreme_name, Expr::value(extreme, type)}});
    };
    const bool both = !r.maximum.empty() && !r.minimum.empty();
    const bool maximum = s.reduce == ReduceOp::max || s.reduce == ReduceOp::maxnum;
    value = both ? combine(maximum ? ReduceOp::max : ReduceOp::min, at(r.maximum), at(r.minimum))
                 : at(r.maximum.empty() ? r.minimum : r.maximum);
    trivial = false;
  } else if (r.terms.empty() && r.moments.empty()) {
    value = r.maximum.empty() ? neutral(s.reduce, s.type) : Expr::value(r.maximum, s.type);
  } else {
    for (std::size_t i = 0; i < r.terms.size(); ++i) {
      const Expr term = finish_term(r, i, trivial);
      value = value ? value + term : term;
    }
  }
  if (!trivial) value = empty_guarded(s, value);
  if (value.op() == Op::value && state_index(value.name()) >= 0) {
    finals_[s.name] = value;
    return;
  }
  const std::string name = names_.fresh(own_axes_.contains(s.name) ? s.name + "_final" : s.name + "_result");
  finish_.push_back({name, s.type, s.axes, {}, ReduceOp::none, value});
  finals_[s.name] = Expr::value(name, s.type);
}

}  // namespace aicf::stream
