#pragma once

// Axes that a region always walks together. Private to mir/region.

#include "mir/region/region.h"

namespace aicf {

/// Two axes that every statement has both or none of, that at least one reduces, and that every tensor has side by side in
/// the same order (H and W of a plane, blocks of keys and keys) become one of extent H · W: a tensor is then read at
/// (i div W, i mod W), which is its i-th element. Only where one is symbolic: a stream runs along one axis, and a symbolic
/// one cannot be held whole.
void flatten_axes(Region& region);

}  // namespace aicf
