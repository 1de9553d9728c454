#include "mir/region/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <ranges>

#include "mir/support/contains.h"

namespace aicf {

namespace {

constexpr int most_nested = 8;             ///< contractions between a value and the root: no law takes as many
constexpr int most_reductions = 64;        ///< of a region; a choice: models' have at most 8
constexpr std::size_t most_members = 512;  ///< of a region: bounds its kernel, and how deep derivation nests

bool transcendental(const Expr& body) {
  bool found = false;
  for_each(body, [&](const Expr& e) {
    switch (e.op()) {
      case Op::exp:
      case Op::log:
      case Op::erf:
      case Op::tanh:
      case Op::sin:
      case Op::cos:
      case Op::pow:
      case Op::sqrt:
      case Op::div:
        if (is_float(e.type())) found = true;
        break;
      default:
        break;
    }
  });
  return found;
}

/// Only index arithmetic and loads of tensors much smaller than the node.
bool is_cheap(const Node& n) {
  if (n.kind != NodeKind::compute || n.reduce != ReduceOp::none || transcendental(n.body)) return false;
  std::set<std::string> own;
  for (const Axis& a : n.axes)
    if (!a.extent.is_constant(1)) own.insert(a.name);
  for (const Expr& load : loads_of(n.body)) {
    std::set<std::string> used;
    for (const Expr& i : load.args()) used.merge(axes_of(i));
    std::erase_if(used, [&](const std::string& a) { return !own.contains(a); });
    if (used.size() >= own.size()) return false;
  }
  return true;
}

/// What `find` says of the node, which is asked once.
template <class Find>
bool once(std::vector<std::optional<bool>>& known, NodeId id, const Find& find) {
  std::optional<bool>& entry = known[static_cast<std::size_t>(id)];
  if (!entry) entry = find();
  return *entry;
}

}  // namespace

Refusal refusal(const Graph& graph, const std::set<NodeId>& members, std::string law, std::string reason) {
  Refusal r{{}, std::move(law), std::move(reason)};
  for (NodeId id : members)
    for (const std::string& o : graph.node(id).origin)
      if (!contains(r.nodes, o)) r.nodes.push_back(o);
  return r;
}

bool Growth::same_operation(NodeId a, NodeId b) const {
  const auto &x = graph_.node(a).origin, &y = graph_.node(b).origin;
  return std::ranges::any_of(x, [&](const std::string& o) { return contains(y, o); });
}

bool Growth::cheap(NodeId id) const {
  return once(cheap_, id, [&] { return is_cheap(graph_.node(id)); });
}

bool Growth::contracts(NodeId id) const {
  return once(contracts_, id, [&] { return primitive(graph_.node(id)) == Primitive::contract; });
}

Reason Growth::needed_outside(NodeId id) const {
  return {"second consumer",
          fmt::format("'{}' is also needed outside, so it is written and read back", graph_.node(id).name)};
}

// Whether a value comes of a reduction, through maps near it: then writing it is more than a copy of an input.
bool Growth::rests_on_reduction(NodeId id) const {
  constexpr std::size_t most_visited = 16;
  return once(rests_on_reduction_, id, [&] {
    std::vector<NodeId> visited{id};
    for (std::size_t i = 0; i < visited.size() && visited.size() <= most_visited; ++i) {
      if (reduces(visited[i])) return true;
      for (const NodeId p : graph_.producers(visited[i]))
        if (graph_.node(p).kind == NodeKind::compute && !contains(visited, p)) visited.push_back(p);
    }
    return false;
  });
}

// Made of results of the root's rows alone (a variance, a deviation) and narrower than it: writing it too takes little.
bool Growth::is_row_value(NodeId id, NodeId root) const {
  const auto rank = [&](NodeId n) {
    return std::ranges::count_if(graph_.node(n).axes, [](const Axis& a) { return !a.extent.is_constant(1); });
  };
  if (rank(id) >= rank(root)) return false;
  constexpr std::size_t most_visited = 16;
  std::vector<NodeId> visited{id};
  bool found = false;
  for (std::size_t i = 0; i < visited.size(); ++i) {
    if (visited.size() > most_visited) return false;
    for (const NodeId p : graph_.producers(visited[i])) {
      const Node& n = graph_.node(p);
      if (n.kind != NodeKind::compute || contains(visited, p)) continue;
      if (contracts(p) || done_.contains(p)) return false;
      if (reduces(p))
        found = true;
      else
        visited.push_back(p);
    }
  }
  return found;
}

// Walks producers users-first; a node joins when all its users are members (or it is cheap, a reduction or row value that
// may be written as well, or a copy: computed here too).
std::set<NodeId> Growth::grow(NodeId root, Reach reach, const Bounds& bounds, std::vector<Refusal>* refusals,
                              std::set<NodeId>& copies, Cuts& cuts) const {
  std::set<NodeId> members;
  std::priority_queue<std::pair<std::size_t, NodeId>> read;  // by members, the last in the order first
  const auto take = [&](NodeId id) {
    members.insert(id);
    for (const NodeId p : graph_.producers(id)) read.emplace(graph_.position(p), p);
  };
  take(root);
  std::map<NodeId, int> nested;  // contractions between a member and the root
  int reductions = reduces(root) ? 1 : 0;
  while (!read.empty()) {
    const NodeId id = read.top().second;
    while (!read.empty() && read.top().second == id) read.pop();
    const Node& n = graph_.node(id);
    if (n.kind != NodeKind::compute) continue;
    if ((bounds.within && !bounds.within->contains(id)) || (bounds.without && bounds.without->contains(id))) continue;
    const std::vector<NodeId> users = graph_.users(id);
    const auto stays_outside = [&](std::string law, std::string text) { cuts[id] = {std::move(law), std::move(text)}; };
    if (members.size() >= most_members) {
      stays_outside("capacity", fmt::format("a region takes at most {} operations", most_members));
      continue;
    }
    const bool carries = rests_on_reduction(id);
    const auto needed_elsewhere = [&] {
      cuts[id] = needed_outside(id);
      if (refusals && carries) refusals->push_back(refusal(graph_, {id}, cuts[id].law, cuts[id].text));
    };
    if (done_.contains(id)) {
      needed_elsewhere();
      continue;
    }
    if (!fuse_ && !same_operation(id, root)) {
      stays_outside("fusion off", "operations are computed one by one");
      continue;
    }
    int& depth = nested[id];
    for (const NodeId u : users)
      if (const auto it = nested.find(u); it != nested.end()) depth = std::max(depth, it->second);
    if (contracts(id) && ++depth > most_nested) {
      stays_outside("nesting",
                    fmt::format("more than {} contractions lie between '{}' and the result", most_nested, n.name));
      continue;
    }
    const bool outside_use =
        needed_.contains(id) || std::ranges::any_of(users, [&](NodeId u) { return !members.contains(u); });
    // An output made of it element by element is as large: it is written anyway.
    const auto copied = [&] {
      return reach <= Reach::copies && !needed_.contains(id) &&
             std::ranges::none_of(
                 users, [&](NodeId u) { return !members.contains(u) && graph_.is_output(u) && !reduces(u); }) &&
             copies.insert(id).second;
    };
    if (reduces(id)) {
      if (reach == Reach::maps || (reach == Reach::single && reductions > 0)) continue;
      const bool contraction = contracts(id);
      if (contraction && reach == Reach::cascade && reductions > 0) continue;
      if (contraction && outside_use && !copied()) {
        needed_elsewhere();
        continue;
      }
      if (reductions >= most_reductions) {
        stays_outside("capacity", fmt::format("a region takes at most {} reductions", most_reductions));
        continue;
      }
      ++reductions;
      take(id);
      continue;
    }
    const bool also_written = reach <= Reach::cascade && is_row_value(id, root);
    if (outside_use && !cheap(id) && !also_written && !copied()) {
      needed_elsewhere();
      continue;
    }
    take(id);
  }
  prune(root, members, cuts);
  std::erase_if(copies, [&](NodeId id) { return !members.contains(id); });
  return members;
}

bool Growth::drop_idle_copies(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies,
                              std::set<NodeId>& dropped, Cuts& cuts) const {
  std::set<NodeId> made;
  for (const NodeId id : graph_.topological_order(members))
    if (id != root &&
        (contracts(id) || std::ranges::any_of(graph_.producers(id), [&](NodeId p) { return made.contains(p); })))
      made.insert(id);
  for (const NodeId id : copies)
    if (!made.contains(id) && dropped.insert(id).second) cuts[id] = needed_outside(id);
  return !made.empty();
}

// A map whose values come from a reduction outside the set belongs to that reduction as its epilogue; what is upstream of
// a dropped node goes with it. A map with transcendental work does not join a contraction that would repeat it.
void Growth::prune(NodeId root, std::set<NodeId>& members, Cuts& cuts) const {
  // Values that a reduction in the set produces, directly or through maps.
  std::set<NodeId> from_inside;
  const std::vector<NodeId> order = graph_.topological_order(members);
  for (NodeId id : order) {
    if (reduces(id) || std::ranges::any_of(graph_.producers(id), [&](NodeId p) { return from_inside.contains(p); }))
      from_inside.insert(id);
  }
  // Maps that a contraction in the set reads, directly or through other maps: it would repeat their work.
  std::set<NodeId> repeated;
  for (NodeId id : order | std::views::reverse) {
    if (reduces(id) || from_inside.contains(id)) continue;
    if (std::ranges::any_of(graph_.users(id),
                            [&](NodeId u) { return repeated.contains(u) || (members.contains(u) && contracts(u)); }))
      repeated.insert(id);
  }
  const auto rank = [&](NodeId id) {
    return std::ranges::count_if(graph_.node(id).axes, [](const Axis& a) { return !a.extent.is_constant(1); });
  };
  const auto elements = [&](NodeId id) {
    Expr n(1);
    for (const Axis& a : graph_.node(id).axes) n = n * a.extent;
    return n;
  };
  const auto larger = [&](NodeId a, NodeId b) {
    return range_of(simplify(elements(b) - elements(a)), {}).low.value_or(-1) < 0;
  };
  std::set<NodeId> open(members);  // what may have to go, by id
  // With a node goes what only it reads; what reads it may have to go now too.
  const auto drop = [&](NodeId id) {
    for (std::vector<NodeId> work{id}; !work.empty();) {
      const NodeId dropped = work.back();
      work.pop_back();
      members.erase(dropped), open.erase(dropped);
      for (const NodeId u : graph_.users(dropped))
        if (members.contains(u)) open.insert(u);
      for (const NodeId p : graph_.producers(dropped))
        if (p != root && members.contains(p) &&
            std::ranges::none_of(graph_.users(p), [&](NodeId u) { return members.contains(u); }))
          work.push_back(p);
    }
  };
  const auto drop_with_users = [&](NodeId id) {
    const Reason why = cuts.at(id);
    std::vector<NodeId> all{id};
    for (std::size_t i = 0; i < all.size(); ++i) {
      cuts.try_emplace(all[i], why);
      // What a larger map reads is written alone: a table, or the new part of a cache.
      for (const NodeId u : graph_.users(all[i]))
        if (members.contains(u) && repeated.contains(u) && rank(u) <= rank(all[i]) && !larger(u, id) &&
            !contains(all, u))
          all.push_back(u);
    }
    for (const NodeId dropped : all) drop(dropped);
  };
  while (!open.empty()) {
    const NodeId id = *open.begin();
    open.erase(open.begin());
    if (id == root || reduces(id) || from_inside.contains(id) || cheap(id)) continue;
    bool epilogue_elsewhere = std::ranges::any_of(graph_.producers(id), [&](NodeId p) {
      return !members.contains(p) && graph_.node(p).kind == NodeKind::compute && reduces(p) &&
             graph_.users(p).size() == 1 && !graph_.is_output(p) &&
             graph_.node(p).axes.size() == graph_.node(id).axes.size();
    });
    bool fed_by_epilogue = std::ranges::any_of(graph_.producers(id), [&](NodeId p) {
      return !members.contains(p) && graph_.node(p).kind == NodeKind::compute && !reduces(p) && rests_on_reduction(p) &&
             !(rank(id) == rank(p) && larger(id, p));
    });
    bool contraction_reads =
        std::ranges::any_of(graph_.users(id), [&](NodeId u) { return members.contains(u) && contracts(u); });
    const bool costly = repeated.contains(id) && transcendental(graph_.node(id).body);
    if (!epilogue_elsewhere && !(fed_by_epilogue && contraction_reads) && !costly) continue;
    const std::string& name = graph_.node(id).name;
    cuts[id] = costly ? Reason{"recomputation",
                               fmt::format("a contraction would compute '{}' again for each of its results", name)}
                      : Reason{"epilogue", fmt::format("'{}' ends the region of a reduction that it reads", name)};
    costly ? drop_with_users(id) : drop(id);
  }
}

}  // namespace aicf
