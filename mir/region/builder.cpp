#include "mir/region/builder.h"
#include "mir/support/contains.h"
#include "mir/support/expr_extents.h"

#include <fmt/format.h>

#include <algorithm>

namespace aicf {

namespace {

// Axes of one member in the region's terms; an axis of size 1 has no place there (its coordinate is 0) and maps to "".
using Renaming = std::map<std::string, std::string>;

constexpr int most_outside_loads = 256;
constexpr std::uint64_t largest_body = 512;  ///< operations of a statement, written out as a tree
constexpr int most_substitutions = 1024;     ///< loads of one member that are computed in place, each at its own index

class Builder {
 public:
  Builder(const Graph& graph, const std::set<NodeId>& members, NodeId root)
      : graph_(graph), members_(members), root_(root) {}

  std::expected<Region, BuildFailure> build(const std::vector<NodeId>& outputs);

 private:
  std::string fresh(const std::string& base);
  bool map_reduce_axes(const Node& node, Renaming& renaming);
  std::optional<BuildFailure> map_loads(const Node& user, const Expr& body);
  Expr body_of(const Node& node, const ExprMap& axes) const;
  void outside_loads(const Expr& body, std::vector<Expr>& out, int& steps) const;

  const Graph& graph_;
  const std::set<NodeId>& members_;
  NodeId root_;
  Region region_;
  std::map<NodeId, Renaming> renaming_;
  std::set<std::string> taken_;
  std::vector<Expr> outside_;  ///< loads of tensors outside, of the members placed so far, over region axes
};

ExprMap as_expressions(const Renaming& renaming) {
  ExprMap out;
  for (const auto& [from, to] : renaming) out[from] = to.empty() ? Expr(0) : Expr::axis(to);
  return out;
}

// `index` is the coordinate that a place stands for.
bool at_place(const Expr& index, const std::string& place) {
  return place.empty() ? index.is_constant(0) : index.op() == Op::axis && index.name() == place;
}

std::string Builder::fresh(const std::string& base) {
  std::string name = base;
  for (int i = 1; taken_.contains(name); ++i) name = fmt::format("{}_{}", base, i);
  taken_.insert(name);
  return name;
}

// A reduce axis of a member may be any region axis of its extent that is not one of its result axes; an axis on which the
// member's loads meet a mapped member (or the same outside element) is preferred, because then values are shared.
bool Builder::map_reduce_axes(const Node& node, Renaming& renaming) {
  if (node.reduce_axes.empty()) return true;
  std::vector<Expr> outside;
  int steps = most_outside_loads;
  outside_loads(node.body, outside, steps);
  for (const Axis& r : node.reduce_axes) {
    if (r.extent.is_constant(1)) {
      renaming[r.name] = "";
      continue;
    }
    std::string best;
    int best_score = -1;
    for (const Axis& candidate : region_.axes) {
      if (!provably_equal(candidate.extent, r.extent)) continue;
      bool used = std::ranges::any_of(renaming, [&](const auto& p) { return p.second == candidate.name; });
      if (used) continue;
      int score = 0;
      for (const Expr& load : loads_of(node.body)) {
        NodeId producer = graph_.node(load.name()).id;
        auto mapped = renaming_.find(producer);
        if (mapped == renaming_.end()) continue;
        const Node& p = graph_.node(producer);
        for (std::size_t i = 0; i < p.axes.size(); ++i) {
          const Expr& index = load.args()[i];
          if (index.op() == Op::axis && index.name() == r.name && mapped->second.at(p.axes[i].name) == candidate.name)
            score += 2;
        }
      }
      for (const Expr& load : outside)
        for (const Expr& other : outside_) {
          if (other.name() != load.name()) continue;
          for (std::size_t i = 0; i < load.args().size(); ++i) {
            const Expr &a = load.args()[i], &b = other.args()[i];
            if (a.op() == Op::axis && a.name() == r.name && b.op() == Op::axis && b.name() == candidate.name) ++score;
          }
        }
      bool reduced_before =
          std::ranges::any_of(region_.statements, [&](const Statement& s) { return contains(s.over, candidate.name); });
      if (reduced_before) ++score;
      if (score > best_score && score > 0) best = candidate.name, best_score = score;
    }
    if (best.empty()) {
      best = fresh(r.name);
      region_.axes.push_back({best, r.extent});
    }
    renaming[r.name] = best;
  }
  return true;
}

// Loads of tensors outside the region, seen through member maps. They only rank choices, and a chain of members that each
// load their producer twice has 2^n of them: after `steps` loads the rest is left out.
void Builder::outside_loads(const Expr& body, std::vector<Expr>& out, int& steps) const {
  for (const Expr& load : loads_of(body)) {
    if (steps-- <= 0) return;
    const Node& p = graph_.node(load.name());
    if (!members_.contains(p.id)) {
      out.push_back(load);
    } else if (p.reduce == ReduceOp::none) {
      ExprMap at;
      for (std::size_t i = 0; i < p.axes.size(); ++i) at[p.axes[i].name] = load.args()[i];
      outside_loads(substitute_axes(p.body, at), out, steps);
    }
  }
}

// Gives every member that `user` loads at distinct axes its place; others stay unmapped and are substituted.
std::optional<BuildFailure> Builder::map_loads(const Node& user, const Expr& body) {
  for (const Expr& load : loads_of(body)) {
    const Node& p = graph_.node(load.name());
    if (!members_.contains(p.id)) continue;
    Renaming wanted;
    std::set<std::string> seen;
    bool pure = true;
    for (std::size_t i = 0; i < p.axes.size(); ++i) {
      const Expr& index = load.args()[i];
      if (p.axes[i].extent.is_constant(1) && index.is_constant(0)) {
        wanted[p.axes[i].name] = "";
        continue;
      }
      if (index.op() != Op::axis || !seen.insert(index.name()).second) {
        pure = false;
        break;
      }
      auto axis = std::ranges::find(region_.axes, index.name(), &Axis::name);
      if (axis == region_.axes.end() || !provably_equal(axis->extent, p.axes[i].extent)) {
        pure = false;
        break;
      }
      wanted[p.axes[i].name] = index.name();
    }
    auto mapped = renaming_.find(p.id);
    if (pure && mapped == renaming_.end()) {
      renaming_[p.id] = wanted;
    } else if (p.reduce != ReduceOp::none) {
      bool same =
          pure && std::ranges::all_of(wanted, [&](const auto& w) { return mapped->second.at(w.first) == w.second; });
      if (!same)
        return BuildFailure{p.id, "index maps",
                            fmt::format("'{}' reads the reduced value '{}' at {}", user.name, p.name,
                                        pure ? "two different coordinates" : "an index that is not a plain axis")};
    }
  }
  return {};
}

// The body over region axes: loads of members at their own coordinates become values, other loads of member maps are
// replaced by their bodies.
Expr Builder::body_of(const Node& node, const ExprMap& axes) const {
  return rewrite(simplify_over(substitute_axes(node.body, axes), region_.extents(), region_.ranges()),
                 [&](const Expr& e) -> Expr {
                   if (e.op() != Op::load) return {};
                   const Node& p = graph_.node(e.name());
                   if (!members_.contains(p.id)) return {};
                   auto mapped = renaming_.find(p.id);
                   bool here = mapped != renaming_.end();
                   for (std::size_t i = 0; here && i < p.axes.size(); ++i)
                     here = at_place(e.args()[i], mapped->second.at(p.axes[i].name));
                   if (here) return Expr::value(p.name, p.type);
                   ExprMap at;
                   for (std::size_t i = 0; i < p.axes.size(); ++i) at[p.axes[i].name] = e.args()[i];
                   return body_of(p, at);
                 });
}

BuildFailure too_large(const Node& in_place, const Node& user) {
  return {in_place.id, "index maps",
          fmt::format("'{}' computed in place makes '{}' an expression of more than {} operations", in_place.name,
                      user.name, largest_body)};
}

std::expected<Region, BuildFailure> Builder::build(const std::vector<NodeId>& outputs) {
  const Node& root = graph_.node(root_);
  Renaming own;
  for (const Axis& a : root.axes) {
    if (a.extent.is_constant(1)) {
      own[a.name] = "";
      continue;
    }
    own[a.name] = fresh(a.name);
    region_.axes.push_back({own[a.name], a.extent});
  }
  renaming_[root_] = own;

  std::vector<NodeId> order = graph_.topological_order();
  std::erase_if(order, [&](NodeId id) { return !members_.contains(id); });
  // Only reductions that come before look for axes by what was loaded.
  auto to_place = std::ranges::count_if(order, [&](NodeId id) { return !graph_.node(id).reduce_axes.empty(); });
  std::map<NodeId, NodeId> substituted;  // the first that is computed in place, by user
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph_.node(*it);
    auto mapped = renaming_.find(node.id);
    if (mapped == renaming_.end()) continue;  // only ever substituted
    if (!map_reduce_axes(node, mapped->second))
      return std::unexpected(BuildFailure{node.id, "axes", "no axis for its reduction"});
    Expr body = simplify(substitute_axes(node.body, as_expressions(mapped->second)), region_.ranges());
    if (!node.reduce_axes.empty()) --to_place;
    if (int steps = most_outside_loads; to_place > 0) outside_loads(body, outside_, steps);
    // Maps that will be substituted load members too: follow them.
    std::vector<Expr> pending{body};
    std::set<Expr> followed;
    int substitutions = 0;
    while (!pending.empty()) {
      Expr b = pending.back();
      pending.pop_back();
      if (auto failure = map_loads(node, b)) return std::unexpected(*failure);
      for (const Expr& load : loads_of(b)) {
        const Node& p = graph_.node(load.name());
        if (!members_.contains(p.id) || p.reduce != ReduceOp::none) continue;
        auto m = renaming_.find(p.id);
        bool here = m != renaming_.end();
        for (std::size_t i = 0; here && i < p.axes.size(); ++i)
          here = at_place(load.args()[i], m->second.at(p.axes[i].name));
        if (here || !followed.insert(load).second) continue;
        substituted.try_emplace(node.id, p.id);
        if (load.tree_size() > largest_body) return std::unexpected(too_large(p, node));
        if (++substitutions > most_substitutions)
          return std::unexpected(BuildFailure{p.id, "index maps",
                                              fmt::format("'{}' would be computed at more than {} places of '{}'",
                                                          p.name, most_substitutions, node.name)});
        ExprMap at;
        for (std::size_t i = 0; i < p.axes.size(); ++i) at[p.axes[i].name] = load.args()[i];
        pending.push_back(simplify(substitute_axes(p.body, at), region_.ranges()));
      }
    }
    Statement s;
    s.name = node.name;
    s.type = node.type;
    for (const Axis& a : node.axes)
      if (const std::string& place = mapped->second.at(a.name); !place.empty()) s.axes.push_back(place);
    for (const Axis& a : node.reduce_axes)
      if (const std::string& place = mapped->second.at(a.name); !place.empty()) s.over.push_back(place);
    s.reduce = s.over.empty() ? ReduceOp::none : node.reduce;  // over one element: the element
    s.node = node.name;
    s.origin = node.origin;
    region_.statements.push_back(s);  // bodies follow when every member has its place
  }
  std::ranges::reverse(region_.statements);
  for (Statement& s : region_.statements) {
    const Node& node = graph_.node(s.node);
    s.body = simplify(body_of(node, as_expressions(renaming_.at(node.id))), region_.ranges());
    if (const auto in_place = substituted.find(node.id);
        in_place != substituted.end() && s.body.tree_size() > largest_body) {
      return std::unexpected(too_large(graph_.node(in_place->second), node));
    }
    for (const std::string& o : s.origin)
      if (!contains(region_.origin, o)) region_.origin.push_back(o);
  }
  for (NodeId id : order)  // substituted members have no statement; their origin counts too
    for (const std::string& o : graph_.node(id).origin)
      if (!contains(region_.origin, o)) region_.origin.push_back(o);
  for (NodeId id : outputs) {
    const Node& node = graph_.node(id);
    auto mapped = renaming_.find(id);
    if (mapped == renaming_.end())
      return std::unexpected(
          BuildFailure{id, "index maps", fmt::format("'{}' is written but has no place in the region", node.name)});
    RegionOutput out{node.name, node.name, node.type, {}, node.shape()};
    const ExprMap places = as_expressions(mapped->second);
    for (const Axis& a : node.axes) out.index.push_back(places.at(a.name));
    region_.outputs.push_back(std::move(out));
  }
  // Statements nobody reads and that are not written are gone (their users substituted them).
  for (bool changed = true; changed;) {
    std::set<std::string> used;
    for (const Statement& s : region_.statements) used.merge(values_of(s.body));
    for (const RegionOutput& o : region_.outputs) used.insert(o.value);
    changed = std::erase_if(region_.statements, [&](const Statement& s) { return !used.contains(s.name); }) > 0;
  }
  for (const Statement& s : region_.statements)
    for (const Expr& load : loads_of(s.body)) {
      if (region_.input(load.name())) continue;
      const Node& p = graph_.node(load.name());
      region_.inputs.push_back({p.name, p.type, p.shape(), p.kind == NodeKind::constant});
    }
  return std::move(region_);
}

}  // namespace

std::expected<Region, BuildFailure> build_region(const Graph& graph, const std::set<NodeId>& members, NodeId root,
                                                 const std::vector<NodeId>& outputs) {
  return Builder(graph, members, root).build(outputs);
}

}  // namespace aicf
