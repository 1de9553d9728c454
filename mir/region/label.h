#pragma once

// Names that people know for forms of partial states, from the states alone; printed beside them.

#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// "online_softmax: m, l   accumulate: o" for a maximum m, a sum of exponentials l about it and weighted sums o.
std::vector<std::string> state_labels(const StreamingRegion& region);

}  // namespace aicf
