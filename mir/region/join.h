#pragma once

// Regions that depend on neither and read the same tensors along the axis that both stream, as one region: each element is
// loaded once. Private to mir/region.

#include <expected>
#include <functional>
#include <vector>

#include "mir/region/form.h"

namespace aicf {

/// What a region reads of others and of inputs, and what it writes.
struct Traffic {
  std::vector<NodeId> reads, writes;
};

/// Joins regions (`traffic` by their places) where `derive` finds a form with no more passes than either has and `cost`
/// (microseconds; empty: always) says that it wins; what of this fails is recorded. Two qualify that run over the same rows
/// and the same streamed axis, share more than half of what one of them loads along it, and write few results together.
void join_regions(std::vector<PlannedRegion>& regions, std::vector<Traffic>& traffic,
                  const std::function<std::expected<PlannedRegion, Refusal>(Region)>& derive,
                  const std::function<Result<double>(const StreamingRegion&)>& cost,
                  const std::function<void(Refusal)>& record);

}  // namespace aicf
