#pragma once

// Integer expressions over axes whose extents are symbolic: what numeric ranges cannot decide.

#include <optional>

#include "mir/support/expr.h"

namespace aicf {

/// The largest (or smallest) value of `e` over axes in [0, extent), as an expression over symbols. Empty where `e` is not
/// affine in its axes with constant coefficients, or an axis has no extent.
std::optional<Expr> extreme(const Expr& e, const ExprMap& extents, bool largest);

/// simplify(e, ranges), and besides i div n = 0 and i mod n = i where the extents show 0 ≤ i < n; comparisons
/// that the extents decide.
Expr simplify_over(const Expr& e, const ExprMap& extents, const Ranges& ranges);

}  // namespace aicf
