#include <algorithm>
#include <map>
#include <set>

#include "mir/graph/simplify.h"

namespace aicf {
namespace {

using Tensors = std::set<std::string>;

Tensors tensors_of(const Expr& e) {
  Tensors out;
  if (e)
    for (const Expr& load : loads_of(e)) out.insert(load.name());
  return out;
}

/// One node's body, whose parts become nodes of their own as soon as more than `most` tensors meet.
class Splitter {
 public:
  Splitter(Graph& graph, NodeId id, std::size_t most)
      : graph_(graph), node_(graph.node(id)), ranges_(node_.ranges()), most_(most) {}

  int run() {
    node_.body = narrow(node_.body, {}).e;
    if (added_ > 0) graph_.replace(node_.id, node_);
    return added_;
  }

 private:
  struct Narrow {
    Expr e;
    Tensors reads;
  };

  /// `e` with parts taken out; it is evaluated where `where` holds (empty: everywhere).
  Narrow narrow(const Expr& e, const Expr& where) {
    const auto key = std::pair(e.identity(), where ? where.identity() : nullptr);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    if (e.args().empty()) return {e, tensors_of(e)};
    std::vector<Narrow> args;
    std::vector<Expr> conditions;
    for (std::size_t i = 0; i < e.args().size(); ++i) {
      const bool chosen = e.op() == Op::select && i > 0;
      conditions.push_back(chosen ? logical_and(where, i == 1 ? e.args()[0] : logical_not(e.args()[0])) : where);
      args.push_back(narrow(e.args()[i], conditions.back()));
    }
    const auto meet = [&] {
      Tensors all;
      if (e.op() == Op::load) all.insert(e.name());
      for (const Narrow& a : args) all.insert(a.reads.begin(), a.reads.end());
      return all;
    };
    std::set<std::size_t> kept;  // cannot be taken out
    for (Tensors all = meet(); all.size() > most_ && kept.size() < args.size(); all = meet()) {
      std::size_t widest = args.size();
      for (std::size_t i = 0; i < args.size(); ++i)
        if (!kept.contains(i) && (widest == args.size() || args[i].reads.size() > args[widest].reads.size()))
          widest = i;
      if (!take_out(args[widest], conditions[widest])) kept.insert(widest);
    }
    std::vector<Expr> operands;
    for (const Narrow& a : args) operands.push_back(a.e);
    Narrow out{added_ > 0 ? Expr::rebuild(e, std::move(operands)) : e, meet()};
    keep_.push_back(e);
    if (where) keep_.push_back(where);
    return known_[key] = std::move(out);
  }

  bool take_out(Narrow& part, const Expr& where) {
    if (part.reads.size() < 2) return false;
    const Expr guard = in_bounds(part.e) ? Expr() : where;
    Tensors reads = tensors_of(guard);
    reads.insert(part.reads.begin(), part.reads.end());
    if (reads.size() > most_) return false;
    Node apart;
    apart.name = graph_.unique_name(node_.name + "_part");
    apart.type = part.e.type();
    apart.origin = node_.origin;
    apart.body = guard ? Expr::select(guard, part.e, Expr::constant(apart.type, 0)) : part.e;
    const std::set<std::string> axes = axes_of(apart.body);
    std::vector<Expr> index;
    for (const auto* list : {&node_.axes, &node_.reduce_axes})
      for (const Axis& a : *list)
        if (axes.contains(a.name)) {
          apart.axes.push_back(a);
          index.push_back(Expr::axis(a.name));
        }
    part = {Expr::load(apart.name, index, apart.type), {apart.name}};
    graph_.add(std::move(apart));
    ++added_;
    return true;
  }

  bool in_bounds(const Expr& e) const {
    return std::ranges::all_of(loads_of(e), [&](const Expr& load) {
      const std::vector<Expr> shape = graph_.node(load.name()).shape();
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const Expr index = simplify(load.args()[d], ranges_);
        if (range_of(index, ranges_).low.value_or(-1) < 0) return false;
        if (range_of(simplify(shape[d] - index, ranges_), ranges_).low.value_or(0) < 1) return false;
      }
      return true;
    });
  }

  Graph& graph_;
  Node node_;
  Ranges ranges_;
  std::size_t most_;
  int added_ = 0;
  std::map<std::pair<const void*, const void*>, Narrow> known_;
  std::vector<Expr> keep_;  ///< alive while known_ names them by identity
};

}  // namespace

int split_wide(Graph& graph, std::size_t most) {
  int added = 0;
  for (const NodeId id : graph.topological_order())
    if (graph.node(id).kind == NodeKind::compute && tensors_of(graph.node(id).body).size() > most)
      added += Splitter(graph, id, most).run();
  return added;
}

}  // namespace aicf
