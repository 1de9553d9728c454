#pragma once

// The one lowering, shared by all backends: a scheduled region becomes kernels. The schedule decides, lowering obeys.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mir/kernel/kernel.h"
#include "mir/memory/schedule.h"

namespace aicf {

/// A buffer that only the kernels of one region share: partial states between a split stream and its merge.
struct ScratchBuffer {
  std::string name;
  DType type = DType::f32;
  std::vector<Expr> shape;
};

struct LoweredRegion {
  std::vector<Kernel> kernels;  ///< run in order; two when the stream is split (partial states, then merge and finish)
  std::vector<ScratchBuffer> scratch;
};

/// Pairs of axes that some tile, state or statement has both of: their lanes are disjoint. An inner product's axis
/// and one that only its result's users have may have the same ones.
std::set<std::pair<std::string, std::string>> axes_that_meet(const StreamingRegion& region);

/// Errors (unsupported): a schedule that this region cannot take, with the axis or tile and the rule; the caller takes the
/// next schedule.
Result<LoweredRegion> lower(const ScheduledRegion& scheduled);

/// The tile extent of an axis under a schedule: the product of its factors; 1 for an axis the schedule does not name.
std::int64_t tile_extent(const Schedule& schedule, const std::string& axis);

}  // namespace aicf
