// Sizes that must agree, broadcasting, products and quotients of symbolic dims.

#include "frontend/canonicalise/lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/semantic/check.h"

namespace aicf {

Expr Lowering::simplify(const Expr& e) const {
  return aicf::simplify(e, ranges());
}

bool Lowering::same(const Expr& a, const Expr& b) const {
  return a == b || provably_equal(a, b, ranges());
}

Result<Expr> Lowering::agree(const Expr& a, const Expr& b, std::string_view what) {
  if (same(a, b)) return constant_of(b) ? b : a;
  if (constant_of(a) && constant_of(b)) {
    return bad(fmt::format("{} disagree: {} against {}", what, to_string(a), to_string(b)));
  }
  const Range difference = range_of(simplify(a - b), state_.ranges);
  if ((difference.low && *difference.low > 0) || (difference.high && *difference.high < 0)) {
    return bad(fmt::format("{} disagree: {} is never {}", what, to_string(a), to_string(b)));
  }
  const bool recorded =
      std::ranges::any_of(state_.constraints, [&](const ShapeConstraint& c) { return c.left == a && c.right == b; });
  if (!recorded) state_.constraints.push_back({a, b, place_of(node_)});
  return constant_of(b) ? b : a;
}

Result<Shape> Lowering::broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t pad_a = rank - a.size(), pad_b = rank - b.size();
    if (d < pad_a) {
      result[d] = b[d - pad_b];
    } else if (d < pad_b) {
      result[d] = a[d - pad_a];
    } else {
      const Expr &x = a[d - pad_a], &y = b[d - pad_b];
      if (x.is_constant(1))
        result[d] = y;
      else if (y.is_constant(1))
        result[d] = x;
      else {
        auto dim = agree(x, y, fmt::format("dims of {} and {}", to_string(a), to_string(b)));
        if (!dim) return std::unexpected(dim.error());
        result[d] = *dim;
      }
    }
  }
  return result;
}

Result<Shape> Lowering::broadcast(const Values& operands) {
  Shape shape;
  for (const ValuePtr& v : operands) {
    AICF_TRY(shape, broadcast(shape, v->shape));
  }
  return shape;
}

Expr Lowering::product(std::span<const Expr> dims) const {
  Expr result(1);
  for (const Expr& d : dims) result = result * d;
  return simplify(result);
}

namespace {

/// Splits a product into a constant and its symbolic factors.
void collect_factors(const Expr& e, std::int64_t& constant, std::vector<Expr>& factors) {
  const auto n = constant_of(e);
  if (std::int64_t product = 0; n && !__builtin_mul_overflow(constant, *n, &product)) {
    constant = product;
  } else if (e.op() == Op::mul) {
    for (const Expr& arg : e.args()) collect_factors(arg, constant, factors);
  } else {
    factors.push_back(e);
  }
}

}  // namespace

Expr Lowering::quotient(const Shape& dividend, const Shape& divisor) const {
  std::int64_t top = 1, bottom = 1;
  std::vector<Expr> top_factors, bottom_factors;
  for (const Expr& e : dividend) collect_factors(simplify(e), top, top_factors);
  for (const Expr& e : divisor) collect_factors(simplify(e), bottom, bottom_factors);
  std::vector<Expr> rest;
  for (const Expr& b : bottom_factors) {
    const auto found = std::ranges::find_if(top_factors, [&](const Expr& t) { return same(t, b); });
    if (found == top_factors.end())
      rest.push_back(b);
    else
      top_factors.erase(found);
  }
  if (rest.empty() && bottom != 0 && top % bottom == 0) {
    Expr result(top / bottom);
    for (const Expr& t : top_factors) result = result * t;
    return simplify(result);
  }
  Expr numerator(top), denominator(bottom);
  for (const Expr& t : top_factors) numerator = numerator * t;
  for (const Expr& b : rest) denominator = denominator * b;
  return simplify(floordiv(numerator, denominator));
}

}  // namespace aicf
