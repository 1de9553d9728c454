#pragma once

#include "mir/graph/graph.h"

namespace aicf {

/// Nodes whose sizes, as numbers, leave nothing to compute read nothing: a reduction over an axis without elements is its
/// neutral element, a tensor without elements any constant. Returns how many changed; what they read stays.
int fold_empty(Graph& graph);

/// Makes a canonical graph smaller without changing what its outputs mean; returns the number of changes.
///  * what has no elements is folded (fold_empty);
///  * integer expressions (indices, predicates, dims) take their normal form under the axes' ranges;
///  * moves that are one load under a load-free index (transpose, slice, reshape, broadcast, identity), and cheap
///  bodies
///    that read nothing (constants, iota, index predicates), are substituted into their users;
///  * nodes with equal bodies become one, which takes the origins of all;
///  * nodes that no output needs are removed; the origins of removed moves go to the nodes that absorbed them.
/// Output nodes keep their id and name. Maps, gathers and selects of loads stay nodes: regions decide about those.
Result<int> simplify_graph(Graph& graph);

/// Takes a short end (at most 4 elements) of a reduction's axis out of it, where its body chooses another value there than along
/// the rest: max and sum over Concat(scores, sink) become those over the scores, and the sink joins as a term. Only where the rest
/// reads reduced values along the axis that the end does not read. Returns the number of splits; for simplify_graph() to follow.
int split_reductions(Graph& graph);

/// Takes parts that the model computes apart, along an axis that is reduced, as one:
///  * where(i < n, a[i], b[i - n]) of two reductions of the same length: one reduction of where(i < n, …, …), as products with
///    keys of a cache and with new ones whose scores are concatenated;
///  * a + b of two sums that read the elements before n and from n on of one value: one sum, as the weights of these keys.
/// Only of reductions that nothing else reads. Returns the number of joins; for simplify_graph() to follow.
int join_parts(Graph& graph);

/// Gives every node a body that reads at most `most` tensors, at least 3: parts of wider ones become nodes, which are written. A part
/// that a select guards is 0 where it is not asked for. Returns the number of nodes added. simplify_graph() may undo it.
int split_wide(Graph& graph, std::size_t most);

}  // namespace aicf
