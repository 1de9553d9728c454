#pragma once

// Sizes as users write them.

#include <string>

#include "mir/support/expr.h"

namespace aicf {

/// "seq" is a symbol, "past + seq" and "2 * seq" are expressions over symbols, "4" a number; any other text is one
/// symbol of that name. Error: a negative number.
Result<Expr> parse_dimension(const std::string& text);

}  // namespace aicf
