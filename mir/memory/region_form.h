#pragma once

// What a region is apart from its names: regions of one form share the search for schedules and the kernels.

#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// Puts the tiles of each list in the order of their first use, so that no order rests on how a model names things.
void order_tiles(StreamingRegion& region);

struct RegionForm {
  std::string
      text;  ///< the region under neutral names; equal for regions that differ only in names of values and tensors
  std::vector<std::string> values;   ///< own names of tiles, locals and states, by place in the form
  std::vector<std::string> tensors;  ///< own names of the tensors read and written, by place in the form
};

/// Precondition: the tiles are in order (order_tiles).
RegionForm form_of(const StreamingRegion& region);

}  // namespace aicf
