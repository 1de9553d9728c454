#pragma once

#include <optional>
#include <string>

#include "mir/support/expr.h"

namespace aicf {

/// Where a condition turns as an axis grows. Private to mir/graph.
struct Turn {
  Expr at;      ///< the first coordinate after it
  bool before;  ///< the condition is true before it
};
/// Empty for a condition that turns otherwise than once, or by other axes or data.
std::optional<Turn> turn(const Expr& condition, const std::string& axis);

}  // namespace aicf
