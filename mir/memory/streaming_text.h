#pragma once

// Shared by the printer and the parser of the Memory-Centric IR's text form.

#include <map>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// `e` with every largest subexpression that is a key replaced.
Expr replace_whole(const Expr& e, const std::map<Expr, Expr>& replacements);

/// Symbols anywhere in the region, sorted.
std::vector<std::string> streaming_symbols(const StreamingRegion& region);

}  // namespace aicf
