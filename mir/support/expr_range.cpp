// Interval arithmetic of integer expressions.

#include <algorithm>
#include <limits>

#include "mir/support/expr_simplifier.h"

namespace aicf {
namespace {

using Bound = Interval::Bound;
constexpr Bound lowest = std::numeric_limits<std::int64_t>::min();
constexpr Bound highest = std::numeric_limits<std::int64_t>::max();
// Case splits that refine() may nest before it settles for what it has.
constexpr int max_refinement = 3;
constexpr std::size_t max_refined_terms = 12;

/// Bounds outside int64 become unbounded on the far side and the nearest number on the near side.
Interval clamp(Bound low, Bound high) {
  if (low < lowest) low = -Interval::unbounded;
  if (low > highest) low = highest;
  if (high > highest) high = Interval::unbounded;
  if (high < lowest) high = lowest;
  return {low, high};
}

bool infinite(Bound b) {
  return b <= -Interval::unbounded || b >= Interval::unbounded;
}

Bound multiply_bounds(Bound a, Bound b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? Interval::unbounded : -Interval::unbounded;
  return a * b;
}

Bound floor_bound(Bound a, std::int64_t by) {
  if (infinite(a)) return a;
  const Bound quotient = a / by;
  return quotient * by != a && a < 0 ? quotient - 1 : quotient;
}

Interval type_range(DType type) {
  switch (type) {
    case DType::boolean:
      return {0, 1};
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::i16:
      return {-32768, 32767};
    case DType::u16:
      return {0, 65535};
    case DType::i32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case DType::u32:
      return {0, std::numeric_limits<std::uint32_t>::max()};
    case DType::u64:
      return {0, Interval::unbounded};
    default:
      return {};
  }
}

Interval range_of_floordiv(Interval a, Interval b) {
  if (b.low >= 1 && b.low == b.high) {
    const auto by = static_cast<std::int64_t>(b.low);
    return {floor_bound(a.low, by), floor_bound(a.high, by)};
  }
  // Divisors are not zero: sizes divide.
  if (b.low < 0) return {};
  Interval result;
  if (a.low >= 0) result.low = 0;
  if (a.low >= 0) result.high = a.high;
  if (a.low < 0) result.low = a.low;
  if (a.low < 0) result.high = std::max<Bound>(a.high, -1);
  return result;
}

Interval range_of_mod(Interval a, Interval b) {
  if (b.low < 0) return {};
  Interval result{0, b.has_high() ? b.high - 1 : Interval::unbounded};
  if (a.low >= 0) result.high = std::min(result.high, a.high);
  if (a.low >= 0 && a.high < b.low) return a;
  if (b.low == b.high && b.low >= 1 && a.has_low() && a.has_high()) {
    const auto by = static_cast<std::int64_t>(b.low);
    const Bound first = floor_bound(a.low, by);
    if (first == floor_bound(a.high, by)) return {a.low - first * by, a.high - first * by};
  }
  return result;
}

}  // namespace

Interval operator+(Interval a, Interval b) {
  const Bound low = a.has_low() && b.has_low() ? a.low + b.low : -Interval::unbounded;
  const Bound high = a.has_high() && b.has_high() ? a.high + b.high : Interval::unbounded;
  return clamp(low, high);
}

Interval operator-(Interval a) {
  return {-a.high, -a.low};
}

Interval operator*(Interval a, Interval b) {
  const Bound corners[] = {multiply_bounds(a.low, b.low), multiply_bounds(a.low, b.high),
                           multiply_bounds(a.high, b.low), multiply_bounds(a.high, b.high)};
  return clamp(*std::ranges::min_element(corners), *std::ranges::max_element(corners));
}

Interval intersect(Interval a, Interval b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}
Interval hull(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Interval Simplifier::leaf_range(const Expr& e) const {
  const std::string& name = e.name();
  const auto find = [&](const std::string& key) -> const Range* {
    const auto found = ranges_.find(key);
    return found == ranges_.end() ? nullptr : &found->second;
  };
  const Range* given = nullptr;
  if (e.op() == Op::axis) {
    given = find("axis:" + name);
    if (!given) given = find(name);
  } else if (e.op() == Op::symbol) {
    given = find("symbol:" + name);
    if (!given) given = find(name);
  } else if (e.op() == Op::value) {
    given = find("value:" + name);
  }
  Interval result = e.op() == Op::symbol ? Interval{0, Interval::unbounded} : type_range(e.type());
  if (given && given->low) result.low = std::max<Bound>(result.low, *given->low);
  if (given && given->high) result.high = std::min<Bound>(result.high, *given->high);
  return result;
}

Interval Simplifier::range(const Expr& e) {
  if (is_float(e.type())) return {};
  if (const auto found = range_memo_.find(e); found != range_memo_.end()) return found->second;
  const Interval result = compute_range(e);
  range_memo_.emplace(e, result);
  return result;
}

Interval Simplifier::compute_range(const Expr& e) {
  const auto arg = [&](std::size_t i) { return range(e.args()[i]); };
  switch (e.op()) {
    case Op::constant:
      return Interval::exactly(e.int_number());
    case Op::symbol:
    case Op::axis:
    case Op::value:
    case Op::load:
      return leaf_range(e);
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::neg: {
      if (!is_signed_integer(e.type())) return type_range(e.type());
      const Polynomial p = to_polynomial(e);
      if (const Expr* atom = p.single_atom(); atom && *atom == e) {
        // Too large for a normal form: bound it operation by operation.
        if (e.op() == Op::neg) return -arg(0);
        if (e.op() == Op::mul) return arg(0) * arg(1);
        return arg(0) + (e.op() == Op::sub ? -arg(1) : arg(1));
      }
      return range(p, e.type());
    }
    case Op::abs: {
      const Interval a = arg(0);
      if (a.low >= 0) return a;
      return a.high <= 0 ? -a : Interval{0, std::max(-a.low, a.high)};
    }
    case Op::sign: {
      const Interval a = arg(0);
      return {a.low > 0 ? 1 : a.low == 0 ? 0 : -1, a.high < 0 ? -1 : a.high == 0 ? 0 : 1};
    }
    case Op::div: {
      const Interval a = arg(0), b = arg(1);
      if (a.low >= 0) return range_of_floordiv(a, b);
      const Bound most = std::max(infinite(a.low) ? Interval::unbounded : -a.low, a.high);
      return {-most, most};
    }
    case Op::floordiv:
      return range_of_floordiv(arg(0), arg(1));
    case Op::mod:
      return range_of_mod(arg(0), arg(1));
    case Op::min:
    case Op::minnum: {
      const Interval a = arg(0), b = arg(1);
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    case Op::max:
    case Op::maxnum: {
      const Interval a = arg(0), b = arg(1);
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    case Op::select:
      return hull(arg(1), arg(2));
    case Op::cast: {
      const Interval of_type = type_range(e.type());
      if (is_float(e.args()[0].type()) || e.type() == DType::boolean) return of_type;
      const Interval a = arg(0);
      return a.low >= of_type.low && a.high <= of_type.high ? a : of_type;
    }
    default:
      return type_range(e.type());
  }
}

Interval Simplifier::range_of_terms(const Polynomial& p) {
  Interval sum = Interval::exactly(p.constant);
  for (const auto& [product, coefficient] : p.terms) {
    Interval term = Interval::exactly(coefficient);
    for (const Expr& factor : product) term = term * range(factor);
    sum = sum + term;
  }
  return sum;
}

Interval Simplifier::range(const Polynomial& p, DType type, int depth) {
  const Interval known = range_of_terms(p);
  return depth < max_refinement && p.terms.size() > 1 && p.terms.size() <= max_refined_terms
             ? refine(p, type, depth, known)
             : known;
}

/// Terms of one polynomial depend on one another: min(n, x + 64) − x is at most 64, and 64·((n + 63) div 64) − n is at
/// least 0. Each law replaces one atom by what it is made of.
Interval Simplifier::refine(const Polynomial& p, DType type, int depth, Interval known) {
  for (const auto& [product, coefficient] : p.terms) {
    if (product.size() != 1) continue;
    const Expr& atom = product[0];
    const auto replaced = [&](const Polynomial& by, std::int64_t factor) -> MaybePolynomial {
      Polynomial rest = p;
      rest.terms.erase(product);
      return add(rest, by, factor);
    };
    if (atom.op() == Op::floordiv) {
      // c·(x div c) = x − x mod c
      const auto by = atom.args()[1].as_int();
      if (!by || *by <= 0 || coefficient % *by != 0) continue;
      const Expr rest = simplify(mod(atom.args()[0], atom.args()[1]));
      MaybePolynomial inner = add(to_polynomial(atom.args()[0]), to_polynomial(rest), -1);
      if (inner) inner = replaced(*inner, coefficient / *by);
      if (inner) known = intersect(known, range(*inner, type, depth + 1));
    } else if (atom.op() == Op::min || atom.op() == Op::max || atom.op() == Op::select) {
      const std::size_t first = atom.op() == Op::select ? 1 : 0;
      const MaybePolynomial a = replaced(to_polynomial(atom.args()[first]), coefficient);
      const MaybePolynomial b = replaced(to_polynomial(atom.args()[first + 1]), coefficient);
      if (!a || !b) continue;
      const Interval x = range(*a, type, depth + 1), y = range(*b, type, depth + 1);
      Interval both = hull(x, y);
      const bool bounds_above = (atom.op() == Op::min) == (coefficient > 0);
      if (atom.op() != Op::select && bounds_above) both.high = std::min(x.high, y.high);
      if (atom.op() != Op::select && !bounds_above) both.low = std::max(x.low, y.low);
      known = intersect(known, both);
    }
  }
  return known;
}

Range range_of(const Expr& e, const Ranges& ranges) {
  AICF_CHECK(static_cast<bool>(e), "range of an empty expression");
  Simplifier simplifier(ranges);
  const Interval interval = simplifier.range(simplifier.simplify(e));
  Range range;
  if (interval.has_low()) range.low = static_cast<std::int64_t>(interval.low);
  if (interval.has_high()) range.high = static_cast<std::int64_t>(interval.high);
  return range;
}

}  // namespace aicf
