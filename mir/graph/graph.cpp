#include "mir/graph/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>

namespace aicf {
namespace {

// Vertex i is the node with id i: vertices are never removed, dead nodes merely lose their edges. An edge goes from a
// producer to a user and exists once however often the user loads; which loads, in which order, is in the user's body.
using Structure = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

struct ReduceRow {
  ReduceOp op;
  std::string_view name;
};
constexpr ReduceRow reduce_table[] = {
    {ReduceOp::none, "none"}, {ReduceOp::sum, "sum"},       {ReduceOp::prod, "prod"},     {ReduceOp::max, "max"},
    {ReduceOp::min, "min"},   {ReduceOp::maxnum, "maxnum"}, {ReduceOp::minnum, "minnum"}, {ReduceOp::any, "any"},
    {ReduceOp::all, "all"},   {ReduceOp::first, "first"},
};

/// Smallest or largest value of an integer type, as far as int64 holds it (u64's maximum is int64's).
std::int64_t integer_limit(DType type, bool largest) {
  const auto of = [largest]<class T>(T) {
    return static_cast<std::int64_t>(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min());
  };
  switch (type) {
    case DType::i8:
      return of(std::int8_t{});
    case DType::u8:
      return of(std::uint8_t{});
    case DType::i16:
      return of(std::int16_t{});
    case DType::u16:
      return of(std::uint16_t{});
    case DType::i32:
      return of(std::int32_t{});
    case DType::u32:
      return of(std::uint32_t{});
    case DType::u64:
      return largest ? std::numeric_limits<std::int64_t>::max() : 0;
    case DType::boolean:
      return largest ? 1 : 0;
    default:
      return of(std::int64_t{});
  }
}

/// Loads of a body without recursion into nodes seen before, as names in order of first load.
std::vector<std::string> loaded_names(const Node& node) {
  std::vector<std::string> names;
  if (!node.body) return names;
  for (const Expr& load : loads_of(node.body)) {
    if (std::find(names.begin(), names.end(), load.name()) == names.end()) names.push_back(load.name());
  }
  return names;
}

/// A body that only moves elements: loads, constants, and selects among them by conditions that read no tensor.
bool is_move_body(const Expr& e) {
  if (e.op() == Op::load || e.is_constant()) return true;
  return e.op() == Op::select && loads_of(e.args()[0]).empty() && is_move_body(e.args()[1]) &&
         is_move_body(e.args()[2]);
}

void collect_factors(const Expr& e, std::vector<Expr>& factors) {
  if (e.op() == Op::mul) {
    for (const Expr& arg : e.args()) collect_factors(arg, factors);
  } else {
    factors.push_back(e);
  }
}

}  // namespace

// ---- reductions --------------------------------------------------------------------------------------------------

std::string_view name(ReduceOp op) {
  return reduce_table[static_cast<std::size_t>(op)].name;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (const ReduceRow& row : reduce_table) {
    if (row.name == text) return row.op;
  }
  return std::nullopt;
}

Expr neutral(ReduceOp op, DType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::sum:
      return Expr::constant(type, 0);
    case ReduceOp::prod:
      return Expr::constant(type, 1);
    case ReduceOp::max:
    case ReduceOp::maxnum:
      return is_float(type) ? Expr::constant(type, -infinity) : Expr::integer(integer_limit(type, false), type);
    case ReduceOp::min:
    case ReduceOp::minnum:
      return is_float(type) ? Expr::constant(type, infinity) : Expr::integer(integer_limit(type, true), type);
    case ReduceOp::any:
      return Expr::boolean(false);
    case ReduceOp::all:
      return Expr::boolean(true);
    case ReduceOp::none:
    case ReduceOp::first:
      break;
  }
  AICF_BUG(fmt::format("reduction '{}' has no neutral element", name(op)));
}

Expr combine(ReduceOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case ReduceOp::sum:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::max:
      return a.type() == DType::boolean ? logical_or(a, b) : Expr::binary(Op::max, a, b);
    case ReduceOp::min:
      return a.type() == DType::boolean ? logical_and(a, b) : Expr::binary(Op::min, a, b);
    case ReduceOp::maxnum:
      return Expr::binary(Op::maxnum, a, b);
    case ReduceOp::minnum:
      return Expr::binary(Op::minnum, a, b);
    case ReduceOp::any:
      return logical_or(a, b);
    case ReduceOp::all:
      return logical_and(a, b);
    case ReduceOp::first:
      return a;
    case ReduceOp::none:
      break;
  }
  AICF_BUG("combine() of no reduction");
}

// ---- nodes -------------------------------------------------------------------------------------------------------

std::vector<Expr> Node::shape() const {
  std::vector<Expr> dims;
  for (const Axis& axis : axes) dims.push_back(axis.extent);
  return dims;
}

Ranges Node::ranges() const {
  Ranges result;
  for (const auto* list : {&axes, &reduce_axes}) {
    for (const Axis& axis : *list) {
      Range range{.low = 0, .high = {}};
      if (const auto extent = axis.extent.as_int()) {
        range.high = *extent - 1;
      } else if (const auto bound = range_of(axis.extent, {}).high) {
        range.high = *bound - 1;
      }
      result["axis:" + axis.name] = range;
    }
  }
  return result;
}

Primitive primitive(const Node& node) {
  AICF_CHECK(node.kind == NodeKind::compute, fmt::format("'{}' computes nothing", node.name));
  const bool reads = !loads_of(node.body).empty();
  if (node.reduce == ReduceOp::none) {
    if (!reads) return Primitive::iota;
    return is_move_body(node.body) ? Primitive::move : Primitive::map;
  }
  if (node.reduce != ReduceOp::sum) return Primitive::reduce;
  // A contraction multiplies at least two different operands that vary along what is summed.
  std::vector<Expr> factors;
  collect_factors(node.body, factors);
  std::set<Expr> operands;
  for (const Expr& factor : factors) {
    const bool varies = std::any_of(node.reduce_axes.begin(), node.reduce_axes.end(),
                                    [&](const Axis& axis) { return depends_on_axis(factor, axis.name); });
    if (varies && !loads_of(factor).empty()) operands.insert(factor);
  }
  return operands.size() >= 2 ? Primitive::contract : Primitive::reduce;
}

std::string_view name(Primitive primitive) {
  switch (primitive) {
    case Primitive::iota:
      return "iota";
    case Primitive::move:
      return "move";
    case Primitive::map:
      return "map";
    case Primitive::contract:
      return "contract";
    case Primitive::reduce:
      return "reduce";
  }
  AICF_BUG("no such primitive");
}

// ---- graph -------------------------------------------------------------------------------------------------------

struct Graph::Impl {
  std::deque<Node> nodes;  // a deque: references stay valid while nodes are added
  Structure structure;
  std::map<std::string, NodeId> by_name;  // live nodes
  std::vector<Output> outputs;
  std::set<NodeId> output_nodes;
  std::vector<NodeId> order;        // topological_order(), empty until it is asked for after a change
  std::vector<std::size_t> places;  // in it, by id
  std::map<std::string, int> next;  // suffix to try for a name that is taken

  Node& at(NodeId id) {
    AICF_CHECK(id >= 0 && id < static_cast<NodeId>(nodes.size()), fmt::format("no node with id {}", id));
    return nodes[static_cast<std::size_t>(id)];
  }

  /// Suffixes count on from the last one given out: names freed since may be skipped.
  std::string unique(const std::string& base) {
    if (!by_name.contains(base)) return base;
    for (int& i = next.try_emplace(base, 1).first->second;; ++i) {
      std::string candidate = fmt::format("{}_{}", base, i);
      if (!by_name.contains(candidate)) return candidate;
    }
  }

  void connect(NodeId id) {
    for (const std::string& producer : loaded_names(at(id))) {
      const auto found = by_name.find(producer);
      AICF_CHECK(found != by_name.end(),
                 fmt::format("'{}' loads '{}', which is not in the graph", at(id).name, producer));
      boost::add_edge(static_cast<std::size_t>(found->second), static_cast<std::size_t>(id), structure);
    }
  }

  NodeId insert(Node node) {
    node.id = static_cast<NodeId>(nodes.size());
    node.name = unique(node.name);
    node.dead = false;
    order.clear();
    boost::add_vertex(structure);
    const NodeId id = node.id;
    nodes.push_back(std::move(node));
    connect(id);  // before the name is known: a node cannot load itself
    by_name.emplace(at(id).name, id);
    return id;
  }
};

Graph::Graph() : impl_(std::make_unique<Impl>()) {}
Graph::~Graph() = default;
Graph::Graph(const Graph& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Graph& Graph::operator=(const Graph& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}
// A graph that was moved from is an empty graph, not a broken one.
Graph::Graph(Graph&& other) noexcept : impl_(std::move(other.impl_)) {
  other.impl_ = std::make_unique<Impl>();
}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

NodeId Graph::add_input(std::string name, DType type, std::vector<Axis> axes) {
  return impl_->insert({.kind = NodeKind::input, .name = std::move(name), .type = type, .axes = std::move(axes)});
}

NodeId Graph::add_constant(std::string name, DType type, std::vector<Axis> axes, int constant) {
  return impl_->insert({.kind = NodeKind::constant,
                        .name = std::move(name),
                        .type = type,
                        .axes = std::move(axes),
                        .constant = constant});
}

NodeId Graph::add(Node node) {
  AICF_CHECK(node.kind == NodeKind::compute && node.body, fmt::format("'{}' has no body to compute", node.name));
  return impl_->insert(std::move(node));
}

void Graph::replace(NodeId id, Node node) {
  Node& old = impl_->at(id);
  AICF_CHECK(!old.dead && old.kind == NodeKind::compute && node.kind == NodeKind::compute && node.body,
             fmt::format("'{}' cannot be replaced", old.name));
  node.id = id;
  node.name = old.name;
  node.dead = false;
  old = std::move(node);
  impl_->order.clear();
  boost::clear_in_edges(static_cast<std::size_t>(id), impl_->structure);
  impl_->connect(id);
}

void Graph::remove(NodeId id) {
  Node& old = impl_->at(id);
  AICF_CHECK(!old.dead, fmt::format("'{}' is removed twice", old.name));
  AICF_CHECK(users(id).empty() && !is_output(id), fmt::format("'{}' is removed while it is used", old.name));
  impl_->order.clear();
  boost::clear_vertex(static_cast<std::size_t>(id), impl_->structure);
  impl_->by_name.erase(old.name);
  old.dead = true;
}

void Graph::mark_output(NodeId id, std::string output_name) {
  AICF_CHECK(!impl_->at(id).dead, "a removed node cannot be an output");
  impl_->outputs.push_back({id, std::move(output_name)});
  impl_->output_nodes.insert(id);
}

const Node& Graph::node(NodeId id) const {
  return impl_->at(id);
}

const Node& Graph::node(const std::string& name) const {
  const auto id = find(name);
  AICF_CHECK(id.has_value(), fmt::format("no node is named '{}'", name));
  return impl_->at(*id);
}

std::optional<NodeId> Graph::find(const std::string& name) const {
  const auto found = impl_->by_name.find(name);
  if (found == impl_->by_name.end()) return std::nullopt;
  return found->second;
}

int Graph::size() const {
  return static_cast<int>(impl_->nodes.size());
}

std::vector<NodeId> Graph::topological_order() const {
  if (!impl_->order.empty()) return impl_->order;
  const Structure& structure = impl_->structure;
  std::vector<std::size_t> missing(impl_->nodes.size());
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  std::size_t live = 0;
  for (const Node& node : impl_->nodes) {
    if (node.dead) continue;
    ++live;
    const auto vertex = static_cast<std::size_t>(node.id);
    missing[vertex] = boost::in_degree(vertex, structure);
    if (missing[vertex] == 0) ready.push(node.id);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    const auto [begin, end] = boost::out_edges(static_cast<std::size_t>(id), structure);
    for (auto edge = begin; edge != end; ++edge) {
      const std::size_t user = boost::target(*edge, structure);
      if (--missing[user] == 0) ready.push(static_cast<NodeId>(user));
    }
  }
  AICF_CHECK(order.size() == live, "the graph has a cycle");
  impl_->order = order;
  impl_->places.resize(impl_->nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) impl_->places[static_cast<std::size_t>(order[i])] = i;
  return order;
}

std::size_t Graph::position(NodeId id) const {
  if (impl_->order.empty()) topological_order();
  AICF_CHECK(!impl_->at(id).dead, "a removed node has no place in the order");
  return impl_->places[static_cast<std::size_t>(id)];
}

std::vector<NodeId> Graph::topological_order(const std::set<NodeId>& of) const {
  std::vector<std::pair<std::size_t, NodeId>> placed;
  for (const NodeId id : of) placed.emplace_back(position(id), id);
  std::ranges::sort(placed);
  std::vector<NodeId> order;
  for (const auto& [place, id] : placed) order.push_back(id);
  return order;
}

std::vector<NodeId> Graph::producers(NodeId id) const {
  impl_->at(id);
  std::vector<NodeId> result;
  // Edges stand in the order in which connect() made them: of first loads.
  const auto [begin, end] = boost::in_edges(static_cast<std::size_t>(id), impl_->structure);
  for (auto edge = begin; edge != end; ++edge)
    result.push_back(static_cast<NodeId>(boost::source(*edge, impl_->structure)));
  return result;
}

std::vector<NodeId> Graph::users(NodeId id) const {
  impl_->at(id);
  std::vector<NodeId> result;
  const auto [begin, end] = boost::adjacent_vertices(static_cast<std::size_t>(id), impl_->structure);
  for (auto vertex = begin; vertex != end; ++vertex) result.push_back(static_cast<NodeId>(*vertex));
  std::sort(result.begin(), result.end());
  return result;
}

bool Graph::reaches(NodeId from, NodeId to) const {
  impl_->at(from);
  impl_->at(to);
  if (from == to) return true;
  struct Found {};
  struct Visitor : boost::default_bfs_visitor {
    std::size_t target;
    void discover_vertex(std::size_t vertex, const Structure&) const {
      if (vertex == target) throw Found{};  // the library's way to end a search early
    }
  };
  Visitor visitor;
  visitor.target = static_cast<std::size_t>(to);
  try {
    boost::breadth_first_search(impl_->structure, static_cast<std::size_t>(from), boost::visitor(visitor));
  } catch (const Found&) {
    return true;
  }
  return false;
}

std::string Graph::unique_name(const std::string& base) const {
  return impl_->unique(base);
}

const std::vector<Graph::Output>& Graph::outputs() const {
  return impl_->outputs;
}

bool Graph::is_output(NodeId id) const {
  return impl_->output_nodes.contains(id);
}

std::vector<std::string> Graph::symbols() const {
  std::set<std::string> names;
  for (const Node& node : impl_->nodes) {
    if (node.dead) continue;
    for (const auto* list : {&node.axes, &node.reduce_axes}) {
      for (const Axis& axis : *list) names.merge(symbols_of(axis.extent));
    }
  }
  return {names.begin(), names.end()};
}

void Graph::remove_unused() {
  std::vector<bool> needed(impl_->nodes.size());
  std::vector<NodeId> pending;
  for (const Output& output : impl_->outputs) pending.push_back(output.node);
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (needed[static_cast<std::size_t>(id)]) continue;
    needed[static_cast<std::size_t>(id)] = true;
    for (const NodeId producer : producers(id)) pending.push_back(producer);
  }
  const std::vector<NodeId> order = topological_order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    // Inputs are the model's interface: they stay, used or not.
    if (!needed[static_cast<std::size_t>(*id)] && node(*id).kind != NodeKind::input) remove(*id);
  }
}

void Graph::compact() {
  Graph fresh;
  std::vector<NodeId> renumbered(impl_->nodes.size(), -1);
  for (const NodeId id : topological_order()) {
    renumbered[static_cast<std::size_t>(id)] = fresh.impl_->insert(node(id));
  }
  for (const Output& output : impl_->outputs) {
    fresh.mark_output(renumbered[static_cast<std::size_t>(output.node)], output.name);
  }
  *this = std::move(fresh);
}

}  // namespace aicf
