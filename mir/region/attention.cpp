#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "mir/region/form.h"
#include "mir/support/contains.h"
#include "mir/support/expr_brief.h"

namespace aicf {

namespace {

// Region axes that a load's index uses.
std::set<std::string> axes_in(const Expr& load) {
  std::set<std::string> out;
  for (const Expr& i : load.args()) out.merge(axes_of(i));
  return out;
}

/// The statements of a region by name, and which values rest on which.
class Ancestry {
 public:
  explicit Ancestry(const Region& region) : above_(region.statements.size()) {
    for (std::size_t i = 0; i < above_.size(); ++i) {
      const Statement& s = region.statements[i];
      above_[i].resize(i);
      for (const std::string& v : values_of(s.body)) {
        const auto it = places_.find(v);
        if (it == places_.end()) continue;
        above_[i][it->second] = true;
        for (std::size_t j = 0; j < it->second; ++j)
          if (above_[it->second][j]) above_[i][j] = true;
      }
      places_.emplace(s.name, i);
      statements_.push_back(&s);
    }
  }
  const Statement* find(const std::string& value) const {
    const auto it = places_.find(value);
    return it == places_.end() ? nullptr : statements_[it->second];
  }
  bool depends(const std::string& value, const std::string& on) const {
    const auto a = places_.find(value), b = places_.find(on);
    return a != places_.end() && b != places_.end() && b->second < a->second && above_[a->second][b->second];
  }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<const Statement*> statements_;
  std::vector<std::vector<bool>> above_;
};

// All loads that a value depends on through elementwise statements, each of which is looked at once.
void elementwise_loads(const Ancestry& ancestry, const Expr& body, std::set<std::string>& seen,
                       std::vector<Expr>& out) {
  for (const Expr& l : loads_of(body)) out.push_back(l);
  for (const std::string& v : values_of(body)) {
    const Statement* s = ancestry.find(v);
    if (s && s->over.empty() && seen.insert(v).second) elementwise_loads(ancestry, s->body, seen, out);
  }
}

std::vector<Expr> elementwise_loads(const Ancestry& ancestry, const Expr& body) {
  std::vector<Expr> out;
  std::set<std::string> seen;
  elementwise_loads(ancestry, body, seen, out);
  return out;
}

// The elementwise program between the inner contraction and the weights: what multiplies it, what is added or selected.
void describe_programs(const Region& region, const Ancestry& ancestry, const Statement& inner, const std::string& kv,
                       AttentionRoles& roles) {
  roles.scale = roles.mask = "none";
  for (const Statement& s : region.statements) {
    if (!s.over.empty() || !contains(s.axes, kv)) continue;
    bool after_reduction = std::ranges::any_of(region.statements, [&](const Statement& r) {
      return !r.over.empty() && r.name != inner.name && contains(r.over, kv) && ancestry.depends(s.name, r.name);
    });
    if (after_reduction || !ancestry.depends(s.name, inner.name)) continue;
    for_each(s.body, [&](const Expr& e) {
      auto carries = [&](const Expr& x) {
        std::set<std::string> v = values_of(x);
        return std::ranges::any_of(
            v, [&](const std::string& n) { return n == inner.name || ancestry.depends(n, inner.name); });
      };
      if ((e.op() == Op::mul || e.op() == Op::div) && carries(e.args()[0]) != carries(e.args()[1])) {
        const Expr& other = carries(e.args()[0]) ? e.args()[1] : e.args()[0];
        std::string text = (e.op() == Op::div ? "1 / " : "") + brief(other);
        roles.scale = roles.scale == "none" ? text : roles.scale + " * " + text;
      }
      if ((e.op() == Op::add || e.op() == Op::sub) && carries(e.args()[0]) != carries(e.args()[1])) {
        const Expr& other = carries(e.args()[0]) ? e.args()[1] : e.args()[0];
        std::string text = brief(other);
        if (other.op() == Op::value && region.find(other.name())) text = brief(region.find(other.name())->body);
        roles.mask = roles.mask == "none" ? "+ " + text : roles.mask + "; + " + text;
      }
      if (e.op() == Op::select && (carries(e.args()[1]) || carries(e.args()[2])) && !carries(e.args()[0])) {
        std::string text = "where " + brief(e.args()[0]);
        roles.mask = roles.mask == "none" ? text : roles.mask + "; " + text;
      }
    });
  }
}

/// Whether the outer product reads the inner one's results as they are, or times what is the same for all keys: a chain of
/// products weighs nothing.
bool is_chain(const Region& region, const Statement& outer, const std::string& inner, const std::string& kv) {
  const auto same_for_keys = [&](const Expr& e) {
    return !axes_of(e).contains(kv) && std::ranges::none_of(values_of(e), [&](const std::string& v) {
      const Statement* s = region.find(v);
      return s && contains(s->axes, kv);
    });
  };
  const auto is_inner = [&](const auto& self, const Expr& e) -> bool {
    if (e.op() == Op::value) {
      const Statement* s = region.find(e.name());
      return e.name() == inner || (s && s->over.empty() && self(self, s->body));
    }
    if (e.op() != Op::mul && e.op() != Op::div) return false;
    const Expr &a = e.args()[0], &b = e.args()[1];
    return (same_for_keys(b) && self(self, a)) || (e.op() == Op::mul && same_for_keys(a) && self(self, b));
  };
  return outer.body.op() == Op::mul &&
         std::ranges::any_of(outer.body.args(), [&](const Expr& e) { return is_inner(is_inner, e); });
}

/// V with one number a key: the operand of the outer product that carries the keys, rests on no score and is the same for all
/// rows that K is the same for. Empty where there is none.
std::string single_values(const Ancestry& ancestry, const Statement& outer, const std::string& inner,
                          const std::string& kv, const std::set<std::string>& axes_of_k) {
  if (outer.body.op() != Op::mul) return {};
  for (const Expr& side : outer.body.args()) {
    const std::set<std::string> on = values_of(side);
    if (std::ranges::any_of(on, [&](const std::string& v) { return v == inner || ancestry.depends(v, inner); }))
      continue;
    for (const Expr& l : elementwise_loads(ancestry, side))
      if (const std::set<std::string> a = axes_in(l); a.contains(kv) && std::ranges::includes(axes_of_k, a))
        return l.name();
  }
  return {};
}

void rename_axes(Region& region, const std::vector<std::pair<std::string, std::string>>& wanted) {
  std::set<std::string> taken;
  for (const Axis& a : region.axes) taken.insert(a.name);
  std::map<std::string, std::string> names;
  for (const auto& [from, to] : wanted) {
    if (from.empty() || from == to || taken.contains(to) || names.contains(from)) continue;
    taken.insert(to);
    names[from] = to;
  }
  auto renamed = [&](const std::string& a) { return names.contains(a) ? names.at(a) : a; };
  ExprMap map;
  for (const auto& [from, to] : names) map[from] = Expr::axis(to);
  for (Axis& a : region.axes) a.name = renamed(a.name);
  for (Statement& s : region.statements) {
    for (std::string& a : s.axes) a = renamed(a);
    for (std::string& a : s.over) a = renamed(a);
    s.body = substitute_axes(s.body, map);
  }
  for (RegionOutput& o : region.outputs)
    for (Expr& i : o.index) i = substitute_axes(i, map);
}

}  // namespace

void detect_attention(Region& region) {
  const Ancestry ancestry(region);
  // The outer contraction: a sum over kv of weights times rows of V; the inner one: a sum of products whose result
  // carries kv and reaches the weights.
  for (auto outer = region.statements.rbegin(); outer != region.statements.rend(); ++outer) {
    if (outer->reduce != ReduceOp::sum || outer->over.size() != 1) continue;
    const std::string kv = outer->over[0];
    if (contains(outer->axes, kv)) continue;
    for (const Statement& inner : region.statements) {
      if (inner.reduce != ReduceOp::sum || !contains(inner.axes, kv) || !ancestry.depends(outer->name, inner.name))
        continue;
      if (is_chain(region, *outer, inner.name, kv)) continue;
      std::vector<Expr> operands = elementwise_loads(ancestry, inner.body);
      std::string d = inner.over.empty() ? "" : inner.over.back();
      AttentionRoles roles;
      std::string q_axis;
      std::set<std::string> axes_of_k;
      for (const Expr& l : operands) {
        std::set<std::string> a = axes_in(l);
        if (!a.contains(d)) continue;
        (a.contains(kv) ? roles.k : roles.q) = l.name();
        if (a.contains(kv)) axes_of_k.insert(a.begin(), a.end());
        if (!a.contains(kv))
          for (const std::string& x : inner.axes)
            if (x != kv && a.contains(x)) q_axis = x;  // the last one: rows of Q
      }
      // V: an operand of the outer product that carries kv and an axis the scores do not have.
      std::string e_axis;
      for (const Expr& l : elementwise_loads(ancestry, outer->body)) {
        std::set<std::string> a = axes_in(l);
        if (!a.contains(kv)) continue;
        for (const std::string& x : outer->axes)
          if (a.contains(x) && !contains(inner.axes, x)) roles.v = l.name(), e_axis = x;
      }
      if (roles.v.empty()) roles.v = single_values(ancestry, *outer, inner.name, kv, axes_of_k);
      if (roles.q.empty() || roles.k.empty() || roles.v.empty()) continue;
      if (region.input(roles.k) && region.input(roles.k)->constant && region.input(roles.v) &&
          region.input(roles.v)->constant)
        continue;
      // Rows of Q are not rows of K: the axis that only Q has.
      for (const Expr& l : operands) {
        std::set<std::string> a = axes_in(l);
        if (!a.contains(kv)) continue;
        for (const std::string& x : inner.axes)
          if (x != kv && !a.contains(x)) q_axis = x;
      }
      // Weights normalised over anything but the keys of a row are another operation.
      bool by_row = std::ranges::all_of(region.statements, [&](const Statement& r) {
        bool between = r.name != inner.name && r.name != outer->name && !r.over.empty() &&
                       ancestry.depends(r.name, inner.name) && ancestry.depends(outer->name, r.name);
        return !between || r.over == std::vector<std::string>{kv};
      });
      if (!by_row) continue;
      describe_programs(region, ancestry, inner, kv, roles);
      std::vector<std::pair<std::string, std::string>> wanted{{q_axis, "q"}, {kv, "kv"}, {d, "d"}};
      if (e_axis != d) wanted.push_back({e_axis, "e"});
      std::vector<std::string> rest;
      for (const std::string& a : outer->axes)
        if (a != q_axis && a != e_axis && a != kv && a != d) rest.push_back(a);
      if (rest.size() == 1) wanted.push_back({rest[0], "batch"});
      if (rest.size() == 2) wanted.push_back({rest[0], "batch"}), wanted.push_back({rest[1], "head"});
      rename_axes(region, wanted);
      roles.normalised_axis = "kv";
      region.kind = RegionKind::attention;
      region.roles = roles;
      return;
    }
  }
}

std::map<std::string, std::string> usual_names(const Region& region, const StreamingRegion& streaming) {
  std::map<std::string, std::string> names;
  if (!region.roles) return names;
  auto tile = [&](const TileDecl& t) {
    if (t.tensor == region.roles->q && !contains(t.axes, "kv"))
      names[t.name] = "q";
    else if (t.tensor == region.roles->k && contains(t.axes, "d"))
      names[t.name] = "k";
    else if (t.tensor == region.roles->v)
      names[t.name] = "v";
  };
  for (const TileDecl& t : streaming.tiles) tile(t);
  for (const Stream& s : streaming.streams) {
    for (const TileDecl& t : s.tiles) tile(t);
    if (s.axis != "kv") continue;
    for (const StateDecl& d : s.states) {
      bool reference =
          std::ranges::any_of(s.repairs, [&](const RepairGroup& g) { return contains(g.references, d.name); });
      bool row = !contains(d.axes, "e");
      if (reference && (d.reduce == ReduceOp::max || d.reduce == ReduceOp::maxnum)) {
        names[d.name] = "m";
        names[d.name + "_safe"] = "m_safe";
      } else if (row && d.reduce == ReduceOp::sum && !reference) {
        names[d.name] = "l";
        names[d.name + "_final"] = "l_final";
      } else if (!row) {
        names[d.name] = "o";
      }
    }
    // s is what the maximum reads, p what the sums read.
    for (const StepStatement& x : s.step) {
      if (x.kind == StepStatement::Kind::local && !x.over.empty()) names[x.name] = "score";
    }
    for (const StepStatement& x : s.step) {
      if (x.kind != StepStatement::Kind::update || x.body.op() != Op::value) continue;
      auto local = std::ranges::find_if(s.step, [&](const StepStatement& l) {
        return l.kind == StepStatement::Kind::local && l.name == x.body.name();
      });
      if (local == s.step.end()) continue;
      if (x.reduce == ReduceOp::max || x.reduce == ReduceOp::maxnum)
        names[local->name] = "s";
      else if (local->over.empty())
        names[local->name] = "p";
    }
  }
  return names;
}

}  // namespace aicf
