#pragma once

// Region formation: which nodes are computed together. A region grows upstream from a node that must exist in memory (a
// graph output or what another region loads); maps join as prologue and epilogue, reductions of the same rows join as a
// cascade, contractions whose result carries the streamed axis join as inner reductions. What lies between an inner
// contraction and the root is computed by each region that reads it. Whether a region streams is asked of the derivation
// (mir/stream); what is refused is cut off, recorded, and becomes a region of its own.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"
#include "mir/region/region.h"

namespace aicf {

struct FormOptions {
  /// false: every semantic operation is computed alone (its own primitives together), as an interpreter of the graph would.
  bool fuse = true;
  /// Elements that one row of a region may hold on chip: operands that live as long as the region and states.
  std::int64_t row_capacity = 520;
  /// Predicted time of a region on the device it is formed for (microseconds). When given, a contraction joins another
  /// one's region only where the model says that wins. Empty: they always join where the laws allow.
  std::function<Result<double>(const StreamingRegion&)> cost;
};

/// A region and its streaming form.
struct PlannedRegion {
  Region region;
  StreamingRegion streaming;
};

struct RegionPlan {
  std::vector<PlannedRegion> regions;  ///< producers first
  std::vector<Refusal> refusals;
  std::map<std::string, Reason> cuts;  ///< why a tensor that a region writes is in memory, by its name
};

/// Errors: only bugs of a frontend (a graph that does not verify). Every valid graph has a plan.
Result<RegionPlan> form_regions(const Graph& graph, const FormOptions& options = {});

/// mir/region/attention.cpp: names the roles of a region that weighs rows of one contraction's results by another's
/// (q, k, v, scale and mask program, normalised axis) and gives its axes their usual names. Other regions stay as they
/// are, those too whose k and v are both constants of the model: two layers of weights, not attention.
void detect_attention(Region& region);
/// The usual short names of an attention region's tiles, states and locals (q, k, v, s, m, p, l, o) for its streaming form.
std::map<std::string, std::string> usual_names(const Region& region, const StreamingRegion& streaming);

}  // namespace aicf
