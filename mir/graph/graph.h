#pragma once

// The canonical graph: few primitives, every one a loop nest with a scalar body. An operation's meaning is
//
//     result[axes…] = reduce over reduce_axes of body(axes, reduce_axes)        (or just body when it reduces nothing)
//
// where the body's leaves are loads of other tensors at integer index expressions, axis coordinates, symbols and
// constants. contract, map, reduce, select, iota and every move (transpose, reshape, broadcast, slice, concat, gather,
// pad) are bodies of this one form, so composing index maps is substitution:
//
//     transpose   body = load(x, [j, i])
//     reshape     body = load(x, [i // 4, i % 4])
//     concat      body = where(i < n, load(a, [i]), load(b, [i - n]))
//     gather      body = load(x, [load(ids, [i]), j])
//     iota        body = i
//     matmul      sum over k of load(a, [i, k]) * load(b, [k, j])
//
// Invariants (verify() checks them, and is run around every pass in debug builds and in all tests):
//  1. every load names a node of the graph, with one index per dimension; the graph is acyclic;
//  2. axis names are unique within a node (result axes and reduce axes together); every axis in the body is one
//     of them;
//  3. reduce == none exactly when reduce_axes is empty; loads are in bounds for the axes' ranges (where provable);
//  4. the body's type is the node's type; dims are non-negative integer expressions over symbols.
//
// Stored on Boost.Graph (boost::adjacency_list, vertices = nodes, edges = uses) behind ids: a removed node is marked
// dead and its id never reused, compact() renumbers at the end of a pass.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mir/support/expr.h"
#include "mir/support/result.h"

namespace aicf {

using NodeId = int;

enum class ReduceOp : std::uint8_t {
  none,
  sum,
  prod,
  max,
  min,  ///< propagate NaN
  maxnum,
  minnum,  ///< drop NaN: only as a stabiliser that derivation introduces
  any,
  all,
  first,  ///< the element at coordinate 0: a pivot, only from derivation
};
std::string_view name(ReduceOp op);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);
/// The neutral element (0, 1, ∓inf, false, true). Not for `first`.
Expr neutral(ReduceOp op, DType type);
/// `a op b` as an expression.
Expr combine(ReduceOp op, const Expr& a, const Expr& b);

struct Axis {
  std::string name;
  Expr extent;  ///< i64 over symbols
};

enum class NodeKind : std::uint8_t { input, constant, compute };

/// A node is one tensor and how it comes to be. `name` is unique in the graph; loads refer to it.
struct Node {
  NodeId id = -1;
  NodeKind kind = NodeKind::compute;
  std::string name;
  DType type = DType::f32;
  std::vector<Axis> axes;  ///< result dimensions in order
  std::vector<Axis> reduce_axes;
  ReduceOp reduce = ReduceOp::none;
  Expr body;                        ///< compute only
  int constant = -1;                ///< constant only: index into the frontend's constant table
  std::vector<std::string> origin;  ///< provenance: names of the model's own nodes this one came from
  bool dead = false;

  std::vector<Expr> shape() const;
  Ranges ranges() const;  ///< [0, extent) of every axis, symbolic extents give high = unbounded
};

/// What a compute node is, for printing and for rules that depend on the form.
enum class Primitive : std::uint8_t { iota, move, map, contract, reduce };
Primitive primitive(const Node& node);
std::string_view name(Primitive primitive);

struct Use {
  NodeId user;
  Expr load;  ///< the load expression inside the user's body
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&);
  Graph& operator=(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  NodeId add_input(std::string name, DType type, std::vector<Axis> axes);
  NodeId add_constant(std::string name, DType type, std::vector<Axis> axes, int constant);
  /// Adds a compute node. Producers named by loads must exist. The name is made unique when taken (suffix _1, _2, …).
  NodeId add(Node node);
  /// Replaces body, axes, reduction of a compute node (its name and id stay); edges follow.
  void replace(NodeId id, Node node);
  /// Marks dead; must have no users.
  void remove(NodeId id);
  void mark_output(NodeId id, std::string output_name);

  const Node& node(NodeId id) const;
  const Node& node(const std::string& name) const;
  std::optional<NodeId> find(const std::string& name) const;
  int size() const;                               ///< ids are in [0, size)
  std::vector<NodeId> topological_order() const;  ///< live nodes, producers first; stable
  std::vector<NodeId> topological_order(const std::set<NodeId>& of) const;
  std::size_t position(NodeId id) const;           ///< of a live node in topological_order()
  std::vector<NodeId> producers(NodeId id) const;  ///< distinct, in order of first load
  std::vector<NodeId> users(NodeId id) const;      ///< distinct
  bool reaches(NodeId from, NodeId to) const;      ///< a path of uses from → to; true for from == to
  std::string unique_name(const std::string& base) const;

  struct Output {
    NodeId node;
    std::string name;  ///< the model's output name
  };
  const std::vector<Output>& outputs() const;
  bool is_output(NodeId id) const;
  /// Symbols that occur in any dim.
  std::vector<std::string> symbols() const;
  /// Removes nodes that no output needs. Inputs stay: they are the model's interface.
  void remove_unused();
  /// Renumbers the live nodes 0 … n−1 in topological order; every id held outside is void afterwards.
  void compact();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Checks the invariants above; the error names node and rule.
Result<void> verify(const Graph& graph);

/// Text form, one node a line; parse_graph(to_string(g)) == g up to ids:
///   input    Q: f32[batch, seq, 64]
///   constant W: f32[64, 64] = #0
///   S: f32[b=batch, q=seq, kv=seq] = sum(Q[b, q, d] * K[b, kv, d] over d=64)   # from MatMul_0
///   output   O as "out"
std::string to_string(const Graph& graph);
std::string to_string(const Node& node);
Result<Graph> parse_graph(std::string_view text, std::string_view place = {});
/// Graphviz.
std::string to_dot(const Graph& graph);

}  // namespace aicf
