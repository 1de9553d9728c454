#include "mir/graph/simplify.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "mir/support/contains.h"
#include "mir/support/expr_extents.h"

namespace aicf {
namespace {

constexpr int max_rounds = 64;  ///< each folds a level of branches that became equal; a graph with more is right too
constexpr std::uint64_t max_absorbed_tree = 1024;  ///< an index that grows with every move of a chain stops here
constexpr int max_cheap_operations = 64;           ///< of a body without loads that is worth computing at every use

bool is_costly(Op op) {
  switch (op) {
    case Op::exp:
    case Op::log:
    case Op::sqrt:
    case Op::erf:
    case Op::tanh:
    case Op::sin:
    case Op::cos:
    case Op::pow:
      return true;
    default:
      return false;
  }
}

/// Whether users compute the body themselves: one load under a load-free index, or a cheap body that reads nothing.
bool is_absorbed(const Node& node) {
  if (node.kind != NodeKind::compute || node.reduce != ReduceOp::none) return false;
  if (node.body.tree_size() > max_absorbed_tree) return false;
  const std::vector<Expr> loads = loads_of(node.body);
  if (!loads.empty()) return loads.size() == 1 && node.body.op() == Op::load;
  int operations = 0;
  bool costly = false;
  for_each(node.body, [&](const Expr& e) {
    ++operations;
    costly = costly || is_costly(e.op());
  });
  return !costly && operations <= max_cheap_operations;
}

void merge_origin(std::vector<std::string>& into, const std::vector<std::string>& from) {
  into.reserve(into.size() + from.size());  // names that are known stay where they are
  std::unordered_set<std::string_view> known(into.begin(), into.end());
  for (const std::string& origin : from)
    if (known.insert(origin).second) into.push_back(origin);
}

class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    for (int round = 0; round < max_rounds; ++round) {
      const int before = changes_;
      absorb_moves();
      merge_equal_nodes();
      const int live = live_nodes();
      remove_unused();
      changes_ += live - live_nodes();
      if (changes_ == before) break;
    }
    return changes_;
  }

 private:
  int live_nodes() const {
    int count = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) count += !graph_.node(id).dead;
    return count;
  }

  /// Producers first: a chain of moves is one move by the time a user sees it.
  void absorb_moves() {
    for (const NodeId id : graph_.topological_order()) {
      if (graph_.node(id).kind != NodeKind::compute) continue;
      Node node = graph_.node(id);
      for (auto* list : {&node.axes, &node.reduce_axes}) {
        for (Axis& axis : *list) axis.extent = simplify(axis.extent);
      }
      std::vector<std::string> absorbed;
      const auto substitute = [&](const Expr& e) -> Expr {
        if (e.op() != Op::load) return {};
        const Node& producer = graph_.node(e.name());
        if (!is_absorbed(producer)) return {};
        ExprMap index;
        for (std::size_t d = 0; d < producer.axes.size(); ++d) index[producer.axes[d].name] = e.args()[d];
        if (!graph_.is_output(producer.id)) merge_origin(absorbed, producer.origin);
        return substitute_axes(producer.body, index);
      };
      ExprMap extents;
      for (const auto* list : {&node.axes, &node.reduce_axes}) {
        for (const Axis& axis : *list) extents[axis.name] = axis.extent;
      }
      node.body = simplify_over(rewrite(node.body, substitute), extents, node.ranges());
      merge_origin(node.origin, absorbed);
      const std::vector<NodeId> before = graph_.producers(id);
      replace_if_changed(id, std::move(node));
      for (const NodeId p : before)
        if (!contains(graph_.producers(id), p)) left_[p].push_back(id);
    }
  }

  /// What nobody reads any more counts to the nodes that read it before (a branch of a select that folded).
  void remove_unused() {
    std::map<NodeId, std::vector<NodeId>> readers = std::move(left_);
    left_.clear();
    for (const NodeId id : graph_.topological_order())
      for (const NodeId p : graph_.producers(id)) readers[p].push_back(id);
    graph_.remove_unused();
    for (auto& [id, by] : readers) {
      if (!graph_.node(id).dead) continue;
      std::set<NodeId> seen;
      while (!by.empty()) {
        const NodeId reader = by.back();
        by.pop_back();
        if (!seen.insert(reader).second) continue;
        if (graph_.node(reader).dead) {
          const auto& next = readers[reader];
          by.insert(by.end(), next.begin(), next.end());
          continue;
        }
        Node changed = graph_.node(reader);
        merge_origin(changed.origin, graph_.node(id).origin);
        graph_.replace(reader, std::move(changed));
      }
    }
  }

  void replace_if_changed(NodeId id, Node node) {
    const Node& old = graph_.node(id);
    bool same = old.body == node.body && old.origin == node.origin;
    for (std::size_t i = 0; i < node.axes.size(); ++i) same = same && old.axes[i].extent == node.axes[i].extent;
    for (std::size_t i = 0; i < node.reduce_axes.size(); ++i) {
      same = same && old.reduce_axes[i].extent == node.reduce_axes[i].extent;
    }
    if (same) return;
    graph_.replace(id, std::move(node));
    ++changes_;
  }

  /// What two nodes must share to be one: everything but name, origin and the names of axes.
  using Key = std::tuple<NodeKind, DType, ReduceOp, int, std::vector<Expr>, std::vector<Expr>, Expr>;

  static Key key_of(const Node& node) {
    ExprMap positional;
    std::vector<Expr> extents[2];
    int count = 0;
    for (const auto* list : {&node.axes, &node.reduce_axes}) {
      for (const Axis& axis : *list) {
        // No model's name starts with a per cent sign, so these cannot meet a symbol.
        positional[axis.name] = Expr::axis(fmt::format("%{}", count++));
        extents[list == &node.reduce_axes].push_back(axis.extent);
      }
    }
    return {node.kind,
            node.type,
            node.reduce,
            node.constant,
            extents[0],
            extents[1],
            node.body ? substitute_axes(node.body, positional) : Expr()};
  }

  void merge_equal_nodes() {
    std::map<Key, NodeId> representatives;
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (node.kind == NodeKind::input) continue;
      const auto [entry, is_new] = representatives.emplace(key_of(node), id);
      if (is_new) continue;
      const NodeId kept = entry->second;
      const bool moved = redirect_users(node, graph_.node(kept).name);
      if (graph_.is_output(id)) {
        // An output keeps its node: a copy of the kept one, unless a copy is all it ever was.
        if (is_absorbed(node) || node.kind != NodeKind::compute) continue;
        Node copy = node;
        std::vector<Expr> index;
        for (const Axis& axis : copy.axes) index.push_back(Expr::axis(axis.name));
        copy.body = Expr::load(graph_.node(kept).name, std::move(index), copy.type);
        copy.reduce = ReduceOp::none;
        copy.reduce_axes.clear();
        graph_.replace(id, std::move(copy));
        ++changes_;
      } else {
        if (graph_.node(kept).kind == NodeKind::compute) {
          Node merged = graph_.node(kept);
          merge_origin(merged.origin, node.origin);
          graph_.replace(kept, std::move(merged));
        }
        graph_.remove(id);
        changes_ += !moved;
      }
    }
  }

  /// Makes every user of `node` load `target` instead.
  bool redirect_users(const Node& node, const std::string& target) {
    bool moved = false;
    for (const NodeId user : graph_.users(node.id)) {
      Node changed = graph_.node(user);
      changed.body = rewrite(changed.body, [&](const Expr& e) -> Expr {
        if (e.op() != Op::load || e.name() != node.name) return {};
        return Expr::load(target, {e.args().begin(), e.args().end()}, e.type());
      });
      graph_.replace(user, std::move(changed));
      ++changes_;
      moved = true;
    }
    return moved;
  }

  Graph& graph_;
  int changes_ = 0;
  std::map<NodeId, std::vector<NodeId>> left_;  ///< those that stopped reading a node in this round
};

}  // namespace

int fold_empty(Graph& graph) {
  int changes = 0;
  const auto empty = [](const std::vector<Axis>& axes) {
    return std::ranges::any_of(axes, [](const Axis& a) { return a.extent.is_constant(0); });
  };
  for (const NodeId id : graph.topological_order()) {
    Node node = graph.node(id);
    if (node.kind != NodeKind::compute || (node.reduce == ReduceOp::none && node.body.is_constant())) continue;
    if (empty(node.reduce_axes) && node.reduce != ReduceOp::first)
      node.body = neutral(node.reduce, node.type);
    else if (empty(node.axes))
      node.body = node.type == DType::boolean ? Expr::boolean(false) : Expr::constant(node.type, 0);
    else
      continue;
    node.reduce = ReduceOp::none;
    node.reduce_axes.clear();
    graph.replace(id, std::move(node));
    ++changes;
  }
  return changes;
}

Result<int> simplify_graph(Graph& graph) {
  AICF_RETURN_IF_ERROR(verify(graph));
  const int empty = fold_empty(graph);
  Simplifier simplifier(graph);
  AICF_TRY(const int changes, simplifier.run());
  AICF_RETURN_IF_ERROR(verify(graph));
  return empty + changes;
}

}  // namespace aicf
