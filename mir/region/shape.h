#pragma once

// Whether a region's streaming form has a shape that a device can run, and which member to compute apart where it has
// not. Private to mir/region.

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "mir/graph/graph.h"
#include "mir/memory/streaming_region.h"
#include "mir/region/region.h"

namespace aicf {

/// A refusal and the member that caused it, when the rest may do without it.
struct Failure {
  Refusal refusal;
  NodeId culprit = -1;
  std::string streamed;  ///< the axis of the form that no device holds; empty where there was no form
};

/// Nothing may be computed again in every pass or block; no row may hold more than `row_capacity` elements.
std::optional<Failure> check_shape(const Graph& graph, const Region& region, const StreamingRegion& streaming,
                                   std::int64_t row_capacity);

/// What to compute apart where a row would hold too much: a result that lacks rows of others, what is the same for
/// all rows, what is streamed for another reduction, else a reduction beside the streams. −1 when there is none.
NodeId widest_part(const Graph& graph, const Region& region, const std::set<std::string>& streamed);

/// An inner reduction that every block of some parallel axis computes again; −1 where there is none.
NodeId repeated(const Graph& graph, const Region& region, const StreamingRegion& streaming);

/// A reduction, no contraction, whose results lie along an axis that another member reduces for rows that it does not
/// know (a running count of keys beside attention, columns' sums beside sums of rows): each of these rows would compute
/// it again. −1 when there is none.
NodeId beside(const Graph& graph, const Region& region, NodeId root);

}  // namespace aicf
