#pragma once

#include <string>

#include "mir/support/expr.h"

namespace aicf {

/// to_string() for messages: an expression that would print as more than 256 operations is told by its size.
std::string brief(const Expr& e);

}  // namespace aicf
