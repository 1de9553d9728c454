#pragma once

// What masks let a stream leave out. Private to mir/stream.

#include "mir/stream/states.h"

namespace aicf::stream {

/// A condition on coordinates, symbols and constants alone.
bool is_coordinate_condition(const Expr& c);

/// Stream::skip, defer and settled of a pass; empty where there is none. A coordinate is left out where every exponential and
/// maximum of the pass is decided by a mask: by −∞, or by a finite constant that is settled once the maximum is far above it.
struct LeftOut {
  Expr skip, defer, settled;
};
LeftOut left_out(const PassStates& states, const Ranges& ranges);

}  // namespace aicf::stream
