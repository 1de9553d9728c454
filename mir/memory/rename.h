#pragma once

#include <map>
#include <string>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// Gives tiles, states and locals other names, everywhere they are declared and read (r', a.r and b.r follow r). A name
/// that is taken already keeps its old one. Tensor names stay.
void rename_values(StreamingRegion& region, const std::map<std::string, std::string>& names);

}  // namespace aicf
