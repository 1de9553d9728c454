#pragma once

#include <algorithm>

namespace aicf {

/// std::ranges::contains, which GCC 12 does not have yet.
template <class Sequence, class Value>
bool contains(const Sequence& sequence, const Value& value) {
  return std::ranges::find(sequence, value) != std::ranges::end(sequence);
}

}  // namespace aicf
