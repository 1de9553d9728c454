#include <fmt/core.h>

#include <set>

#include "mir/graph/graph.h"

namespace aicf {
namespace {

/// Checks one graph against the numbered invariants of graph.h. Every message starts with the invariant's number.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Result<void> run() {
    std::set<std::string> names;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).dead) continue;
      node_ = &graph_.node(id);
      if (!names.insert(node_->name).second) return broken(1, "its name is taken by another node");
      AICF_RETURN_IF_ERROR(check_axes());
      if (node_->kind == NodeKind::compute) {
        AICF_RETURN_IF_ERROR(check_body());
      } else {
        if (node_->body || node_->reduce != ReduceOp::none) return broken(3, "an input or constant has a body");
        if (node_->kind == NodeKind::constant && node_->constant < 0) return broken(1, "its constant has no index");
      }
    }
    for (const Graph::Output& output : graph_.outputs()) {
      node_ = &graph_.node(output.node);
      if (node_->dead) return broken(1, fmt::format("output '{}' is a removed node", output.name));
    }
    return check_acyclic();
  }

 private:
  std::unexpected<Diagnostic> broken(int rule, const std::string& what) const {
    return bad_input(fmt::format("graph invariant {}: {}", rule, what), fmt::format("node '{}'", node_->name));
  }

  Result<void> check_axes() {
    std::set<std::string> names;
    may_be_empty_ = false;
    for (const auto* list : {&node_->axes, &node_->reduce_axes}) {
      for (const Axis& axis : *list) {
        if (!names.insert(axis.name).second) return broken(2, fmt::format("axis '{}' is declared twice", axis.name));
        if (!axis.extent || !is_integer(axis.extent.type())) {
          return broken(4, fmt::format("the extent of axis '{}' is not an integer", axis.name));
        }
        if (!axes_of(axis.extent).empty() || !loads_of(axis.extent).empty() || !values_of(axis.extent).empty()) {
          return broken(4, fmt::format("the extent {} of axis '{}' is not an expression over symbols",
                                       to_string(axis.extent), axis.name));
        }
        if (const auto high = range_of(axis.extent, {}).high; high && *high < 0) {
          return broken(4, fmt::format("the extent {} of axis '{}' is negative", to_string(axis.extent), axis.name));
        }
        if (axis.extent.is_constant(0)) may_be_empty_ = true;
      }
    }
    return {};
  }

  Result<void> check_body() {
    if (!node_->body) return broken(4, "it has no body");
    if ((node_->reduce == ReduceOp::none) != node_->reduce_axes.empty()) {
      return broken(3,
                    fmt::format("reduction '{}' with {} reduce axes", name(node_->reduce), node_->reduce_axes.size()));
    }
    if (node_->body.type() != node_->type) {
      return broken(4, fmt::format("the body has type {}, the node {}", name(node_->body.type()), name(node_->type)));
    }
    const bool logical = node_->reduce == ReduceOp::any || node_->reduce == ReduceOp::all;
    if (logical && node_->type != DType::boolean) {
      return broken(4, fmt::format("'{}' reduces values of type {}, not bool", name(node_->reduce), name(node_->type)));
    }
    std::set<std::string> declared;
    for (const auto* list : {&node_->axes, &node_->reduce_axes}) {
      for (const Axis& axis : *list) declared.insert(axis.name);
    }
    for (const std::string& axis : axes_of(node_->body)) {
      if (!declared.contains(axis)) return broken(2, fmt::format("axis '{}' in the body is not declared", axis));
    }
    for (const std::string& symbol : symbols_of(node_->body)) {
      if (declared.contains(symbol)) {
        return broken(2, fmt::format("axis '{}' hides a symbol that the body uses; rename the axis", symbol));
      }
    }
    if (const auto values = values_of(node_->body); !values.empty()) {
      return broken(2, fmt::format("'{}' in the body is neither an axis, a symbol nor a load", *values.begin()));
    }
    for (const Expr& load : loads_of(node_->body)) AICF_RETURN_IF_ERROR(check_load(load));
    if (may_be_empty_) return {};
    std::set<const void*> seen;
    return check_unconditional(node_->body, seen);
  }

  Result<void> check_load(const Expr& load) {
    const auto id = graph_.find(load.name());
    if (!id) return broken(1, fmt::format("it loads '{}', which is not in the graph", load.name()));
    const Node& producer = graph_.node(*id);
    if (load.args().size() != producer.axes.size()) {
      return broken(1, fmt::format("it loads {} with {} indices, '{}' has {} dimensions", to_string(load),
                                   load.args().size(), producer.name, producer.axes.size()));
    }
    if (load.type() != producer.type) {
      return broken(
          4, fmt::format("it loads '{}' as {}, which is {}", producer.name, name(load.type()), name(producer.type)));
    }
    return {};
  }

  /// Bounds of loads that every coordinate performs: not those behind a select's sides.
  Result<void> check_unconditional(const Expr& e, std::set<const void*>& seen) {
    if (!seen.insert(e.identity()).second) return {};
    if (e.op() == Op::select) return check_unconditional(e.args()[0], seen);
    for (const Expr& arg : e.args()) AICF_RETURN_IF_ERROR(check_unconditional(arg, seen));
    return e.op() == Op::load ? check_bounds(e) : Result<void>{};
  }

  /// An affine index attains the ends of its interval: whether they lie outside can often be shown with symbols as
  /// well.
  Result<void> check_bounds(const Expr& load) {
    const Node& producer = graph_.node(load.name());
    for (std::size_t d = 0; d < load.args().size(); ++d) {
      const Expr& index = load.args()[d];
      const auto affine = as_affine(index, axes_of(index));
      if (!affine || !loads_of(index).empty()) continue;
      Expr low = affine->offset, high = affine->offset;
      bool known = true;
      for (const auto& [axis, coefficient] : affine->coefficients) {
        const auto c = simplify(coefficient).as_int();
        known = known && c.has_value();
        if (!known) break;
        const Expr last = extent(axis) - 1;
        (*c > 0 ? high : low) = (*c > 0 ? high : low) + coefficient * last;
      }
      if (!known) continue;
      const auto lowest = simplify(low).as_int();
      const auto beyond = simplify(high - producer.axes[d].extent).as_int();
      if ((lowest && *lowest < 0) || (beyond && *beyond >= 0)) {
        return broken(3, fmt::format("{} leaves dimension {} of '{}', which has extent {}", to_string(load), d,
                                     producer.name, to_string(producer.axes[d].extent)));
      }
    }
    return {};
  }

  const Expr& extent(const std::string& axis) const {
    for (const auto* list : {&node_->axes, &node_->reduce_axes}) {
      for (const Axis& candidate : *list) {
        if (candidate.name == axis) return candidate.extent;
      }
    }
    AICF_BUG(fmt::format("no axis '{}'", axis));
  }

  Result<void> check_acyclic() {
    // Colours of a depth-first search; an explicit stack, as models may be thousands of nodes deep.
    enum Colour : char { unseen, open, done };
    std::vector<Colour> colour(static_cast<std::size_t>(graph_.size()), unseen);
    for (NodeId root = 0; root < graph_.size(); ++root) {
      if (graph_.node(root).dead || colour[static_cast<std::size_t>(root)] != unseen) continue;
      std::vector<std::pair<NodeId, std::vector<NodeId>>> stack;
      stack.emplace_back(root, graph_.producers(root));
      colour[static_cast<std::size_t>(root)] = open;
      while (!stack.empty()) {
        auto& [id, pending] = stack.back();
        if (pending.empty()) {
          colour[static_cast<std::size_t>(id)] = done;
          stack.pop_back();
          continue;
        }
        const NodeId next = pending.back();
        pending.pop_back();
        node_ = &graph_.node(next);
        if (colour[static_cast<std::size_t>(next)] == open) return broken(1, "it depends on itself");
        if (colour[static_cast<std::size_t>(next)] == done) continue;
        colour[static_cast<std::size_t>(next)] = open;
        stack.emplace_back(next, graph_.producers(next));
      }
    }
    return {};
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  bool may_be_empty_ = false;
};

}  // namespace

Result<void> verify(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace aicf
