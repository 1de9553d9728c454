#pragma once

#include <map>
#include <string>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// Gives tiles, states and locals other names, everywhere they are declared and read (r', a.r and b.r follow r). A name
/// that is taken already keeps its old one. Tensor names stay.
void rename_values(StreamingRegion& region, const std::map<std::string, std::string>& names);

/// Gives tensors other names, where tiles read them and stores write them. Names in `names` must stay distinct.
void rename_tensors(StreamingRegion& region, const std::map<std::string, std::string>& names);

/// Replaces `from` by `to` in `text` wherever it stands as a whole word.
void replace_word(std::string& text, const std::string& from, const std::string& to);

}  // namespace aicf
