#include "mir/support/expr_extents.h"

namespace aicf {

std::optional<Expr> extreme(const Expr& e, const ExprMap& extents, bool largest) {
  const auto affine = as_affine(e, axes_of(e));
  if (!affine) return std::nullopt;
  Expr bound = affine->offset;
  for (const auto& [axis, coefficient] : affine->coefficients) {
    const auto factor = coefficient.as_int();
    const auto extent = extents.find(axis);
    if (!factor || extent == extents.end()) return std::nullopt;
    if ((*factor > 0) == largest) bound = bound + coefficient * (extent->second - Expr(1));
  }
  return bound;
}

namespace {

/// a < b or a <= b where the extents decide it; empty where they do not.
Expr decided_comparison(const Expr& x, const ExprMap& extents, const Ranges& ranges) {
  if (is_float(x.args()[0].type()) || axes_of(x).empty() || !loads_of(x).empty() || !values_of(x).empty()) return {};
  const Expr difference = simplify(x.args()[1] - x.args()[0], ranges);
  const std::int64_t least = x.op() == Op::lt ? 1 : 0;
  const auto low = extreme(difference, extents, false), high = extreme(difference, extents, true);
  if (low) {
    const Range range = range_of(simplify(*low, ranges), ranges);
    if (range.low && *range.low >= least) return Expr::boolean(true);
  }
  if (high) {
    const Range range = range_of(simplify(*high, ranges), ranges);
    if (range.high && *range.high < least) return Expr::boolean(false);
  }
  return {};
}

}  // namespace

Expr simplify_over(const Expr& e, const ExprMap& extents, const Ranges& ranges) {
  const auto decide = [&](const Expr& x) -> Expr {
    if (x.op() == Op::lt || x.op() == Op::le) return decided_comparison(x, extents, ranges);
    if ((x.op() != Op::floordiv && x.op() != Op::mod) || x.args()[1].is_constant()) return {};
    const Expr &dividend = x.args()[0], &divisor = x.args()[1];
    const Range low = range_of(dividend, ranges);
    if (!low.low || *low.low < 0 || !loads_of(dividend).empty()) return {};
    const auto top = extreme(dividend, extents, true);
    if (!top) return {};
    const Range room = range_of(simplify(divisor - *top, ranges), ranges);
    if (!room.low || *room.low < 1) return {};
    return x.op() == Op::mod ? dividend : Expr(0);
  };
  Expr current = simplify(e, ranges);
  for (;;) {  // each round leaves fewer divisions and comparisons
    const Expr decided = rewrite(current, decide);
    if (decided == current) return current;
    current = simplify(decided, ranges);
  }
}

}  // namespace aicf
