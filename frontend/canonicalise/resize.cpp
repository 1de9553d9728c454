// Resize: sampling at fractional places. Scales are fractions of small integers, so that places are exact integer
// arithmetic on every device.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// Output coordinate x of a dim lies at (factor · x + offset) / divisor of the input.
struct Sampling {
  Expr size;  ///< of the result
  Expr factor, offset, divisor;
  bool identity = false;
};

struct Fraction {
  std::int64_t top = 1, bottom = 1;
};

/// `value` exactly, when it is a fraction of small integers.
std::optional<Fraction> fraction(double value) {
  constexpr std::int64_t largest = 1 << 12;
  for (std::int64_t bottom = 1; bottom <= largest; bottom *= 2) {
    const double top = value * static_cast<double>(bottom);
    if (top > largest) return std::nullopt;
    if (top >= 1 && std::floor(top) == top) return Fraction{static_cast<std::int64_t>(top), bottom};
  }
  return std::nullopt;
}

Result<Sampling> sampling_of(Lowering& op, const std::string& transformation, const Expr& in, const Expr& out,
                             const std::optional<Fraction>& scale) {
  Sampling s{out, {}, {}, {}};
  if (transformation == "align_corners") {
    s.factor = op.simplify(in - Expr(1));
    s.offset = Expr(0);
    s.divisor = op.simplify(Expr::binary(Op::max, out - Expr(1), Expr(1)));
    s.identity = op.same(in, out);
    return s;
  }
  if (!scale) {
    return op.cannot(fmt::format("{} as the scale from {} to {}, which is no fraction of small numbers", transformation,
                                 to_string(in), to_string(out)));
  }
  const std::int64_t p = scale->top, q = scale->bottom;
  s.identity = p == q;
  if (transformation == "asymmetric") {
    s.factor = Expr(q), s.offset = Expr(0), s.divisor = Expr(p);
  } else if (transformation == "half_pixel" || transformation == "pytorch_half_pixel") {
    // (x + 1/2) q/p − 1/2
    s.factor = Expr(2 * q), s.offset = Expr(q - p), s.divisor = Expr(2 * p);
    if (transformation == "pytorch_half_pixel" && !s.identity) {
      const Expr single = equal(out, Expr(1));
      s.offset = op.simplify(Expr::select(single, Expr(0), s.offset));
    }
  } else {
    return op.cannot(fmt::format("coordinate_transformation_mode '{}'", transformation));
  }
  return s;
}

/// What to resize each dim to, from scales (input `scales`) or sizes.
Result<std::vector<Sampling>> samplings(Lowering& op, const std::string& transformation, int scales, int sizes) {
  const Shape& shape = op.in(0)->shape;
  const int rank = op.in(0)->rank();
  const bool by_size =
      sizes >= 0 && op.has(sizes) && !op.in(sizes)->shape.empty() && !op.in(sizes)->shape[0].is_constant(0);
  if (!by_size && !op.has(scales)) return op.bad("neither scales nor sizes");
  std::vector<int> axes;
  if (const Attribute* a = op.attribute("axes")) {
    AICF_TRY(axes, op.axes(a->is, rank));
  } else {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  }
  std::vector<Sampling> result(shape.size());
  for (int d = 0; d < rank; ++d) result[d] = {shape[d], {}, {}, {}, true};
  AICF_TRY(const std::vector<Expr> given, by_size ? op.known_sizes(sizes) : op.known(scales));
  if (given.size() != axes.size()) {
    return op.bad(fmt::format("{} {} for {} axes", given.size(), by_size ? "sizes" : "scales", axes.size()));
  }
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Expr& in = shape[axes[k]];
    Expr out = given[k];
    std::optional<Fraction> scale;
    if (by_size) {
      const auto from = constant_of(in), to = constant_of(out);
      if (op.same(in, out)) {
        scale = Fraction{};
      } else if (from && to && *from > 0 && *to > 0) {
        const std::int64_t common = std::gcd(*from, *to);
        scale = Fraction{*to / common, *from / common};
      }
    } else {
      if (!out.is_constant()) return op.cannot("scales that are computed at run time");
      const double value = out.number();
      scale = fraction(value);
      if (!scale) return op.cannot(fmt::format("a scale of {:.9g}, which is no fraction of small numbers", value));
      out = op.simplify(floordiv(in * Expr(scale->top), Expr(scale->bottom)));
    }
    if (const auto n = constant_of(out); n && *n < 0) return op.bad(fmt::format("a result of size {}", *n));
    AICF_TRY(result[axes[k]], sampling_of(op, transformation, in, out, scale));
  }
  return result;
}

Expr clamped(const Expr& at, const Expr& dim) {
  return Expr::binary(Op::min, Expr::binary(Op::max, at, Expr(0)), dim - Expr(1));
}

/// Keys' cubic convolution kernel with parameter `a` at distance `t`, within 1 (`near`) or between 1 and 2.
Expr cubic_weight(const Expr& t, double a, bool near) {
  const auto c = [&](double value) { return number(t.type(), value); };
  if (near) return (c(a + 2) * t - c(a + 3)) * t * t + c(1);
  return ((c(a) * t - c(5 * a)) * t + c(8 * a)) * t - c(4 * a);
}

}  // namespace

Result<void> resize(Lowering& op) {
  const ValuePtr x = op.in(0);
  const bool first_form = op.opset() == 10;  // two inputs, output coordinate / scale, rounded down
  const std::string mode = op.text("mode", "nearest");
  const std::string transformation =
      first_form ? "asymmetric" : op.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = first_form ? "floor" : op.text("nearest_mode", "round_prefer_floor");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") return op.cannot(fmt::format("mode '{}'", mode));
  if (mode != "nearest") AICF_RETURN_IF_ERROR(op.want_float(0));
  if (nearest != "floor" && nearest != "ceil" && nearest != "round_prefer_floor" && nearest != "round_prefer_ceil") {
    return op.bad(fmt::format("nearest_mode '{}'", nearest));
  }
  if (op.integer("antialias", 0) != 0) return op.cannot("antialias");
  if (const std::string policy = op.text("keep_aspect_ratio_policy", "stretch"); policy != "stretch") {
    return op.cannot(fmt::format("keep_aspect_ratio_policy '{}'", policy));
  }
  AICF_TRY(const std::vector<Sampling> dims, samplings(op, transformation, first_form ? 1 : 2, first_form ? -1 : 3));
  Shape shape;
  for (const Sampling& s : dims) shape.push_back(s.size);
  const auto resized = std::ranges::count(dims, false, &Sampling::identity);
  const int most = mode == "cubic" ? 3 : 6;  // elements of x that one of the result takes: 64
  if (mode != "nearest" && resized > most)
    return op.cannot(fmt::format("mode '{}' over more than {} dims", mode, most));
  const auto numerator = [&](std::size_t d, const Index& i) { return dims[d].factor * i[d] + dims[d].offset; };
  if (mode == "nearest") {
    return op.result_move(x, shape, [&](const Index& i) {
      Index index = i;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].identity) continue;
        const Expr top = numerator(d, i), bottom = dims[d].divisor;
        Expr at;
        if (nearest == "floor")
          at = floordiv(top, bottom);
        else if (nearest == "ceil")
          at = ceildiv(top, bottom);
        else if (nearest == "round_prefer_floor")
          at = ceildiv(Expr(2) * top - bottom, Expr(2) * bottom);
        else
          at = floordiv(Expr(2) * top + bottom, Expr(2) * bottom);
        index[d] = clamped(at, x->shape[d]);
      }
      return index;
    });
  }
  const DType type = wide(x->type);
  const double a = op.real("cubic_coeff_a", -0.75);
  const bool exclude_outside = op.integer("exclude_outside", 0) != 0;
  // Between the two (cubic: four) neighbours in each resized dim, one dim after another; a neighbour outside is the edge,
  // or counts for nothing.
  return op.result_map(x->type, shape, {x}, [&](const Index& i) {
    const std::function<Expr(std::size_t, const Index&)> sample = [&](std::size_t d, const Index& index) -> Expr {
      if (d == dims.size()) return op.at(x, index);
      if (dims[d].identity) return sample(d + 1, index);
      const Expr top = numerator(d, i), below = floordiv(top, dims[d].divisor);
      const Expr weight = cast_to(mod(top, dims[d].divisor), type) / cast_to(dims[d].divisor, type);
      const auto neighbour = [&](int k) {
        Index at = index;
        at[d] = clamped(below + Expr(k), x->shape[d]);
        return sample(d + 1, at);
      };
      if (mode == "linear") return neighbour(0) * (number(type, 1) - weight) + neighbour(1) * weight;
      Expr sum = number(type, 0), weights = number(type, 0);
      for (int k = -1; k <= 2; ++k) {
        Expr w = cubic_weight(k < 1 ? weight - number(type, k) : number(type, k) - weight, a, k == 0 || k == 1);
        if (exclude_outside) {
          const Expr at = below + Expr(k);
          w = Expr::select(logical_and(less_equal(Expr(0), at), less(at, x->shape[d])), w, number(type, 0));
        }
        sum = sum + neighbour(k) * w;
        weights = weights + w;
      }
      return exclude_outside ? sum / weights : sum;
    };
    return sample(0, i);
  });
}

}  // namespace aicf::ops
