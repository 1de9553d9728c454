#pragma once

// Streaming derivation: from a region's statements to streams with partial states, or a refusal that names the law.
// Knows nothing of what the statements are for.

#include <variant>

#include "mir/memory/streaming_region.h"
#include "mir/region/region.h"

namespace aicf {

struct DeriveOptions {
  /// Axis to stream. Empty: the axis of the last reduction whose form is valid, none of `without`.
  std::string stream_axis;
  std::set<std::string> without;
  /// Passes allowed over the streamed axis.
  int max_passes = 4;
};

/// Derives the fewest passes over the stream axis. Reductions over it become states; statements that carry it become
/// locals of a step (recomputed per pass); statements after them become finish or a later pass; reductions over other
/// axes become inner reductions of the step.
std::variant<StreamingRegion, Refusal> derive(const Region& region, const DeriveOptions& options = {});

}  // namespace aicf
