#pragma once

#include "mir/graph/graph.h"

namespace aicf {

/// Makes a canonical graph smaller without changing what its outputs mean; returns the number of changes.
///  * integer expressions (indices, predicates, dims) take their normal form under the axes' ranges;
///  * moves that are one load under a load-free index (transpose, slice, reshape, broadcast, identity), and cheap
///  bodies
///    that read nothing (constants, iota, index predicates), are substituted into their users;
///  * nodes with equal bodies become one, which takes the origins of all;
///  * nodes that no output needs are removed; the origins of removed moves go to the nodes that absorbed them.
/// Output nodes keep their id and name. Maps, gathers and selects of loads stay nodes: regions decide about those.
Result<int> simplify_graph(Graph& graph);

}  // namespace aicf
