// Windows and the discrete Fourier transform, as formulas and sums.

#include <fmt/format.h>

#include <numbers>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

/// cos and sin of 2π·turns/count: the sine of an angle in [−π/2, π/2] whose numerator is exact, so that what is 0 is 0.
struct Turn {
  Expr cos, sin;
};

Turn turned(const Expr& turns, const Expr& count, DType type) {
  const auto magnitude = [](const Expr& e) { return Expr::unary(Op::abs, e); };
  // sin(π p / (2 count))
  const auto sine = [&](const Expr& p) {
    const Expr angle = number(type, std::numbers::pi / 2) * cast_to(p, type) / cast_to(count, type);
    return Expr::unary(Op::sin, angle);
  };
  const Expr place = mod(turns, count);
  const Expr m = Expr::select(less(count, Expr(2) * place), place - count, place);  // in (−count/2, count/2]
  const Expr quarters = Expr(4) * m, mirrored = Expr(2) * count - magnitude(quarters);
  const Expr reduced =
      Expr::select(less(count, quarters), mirrored, Expr::select(less(quarters, -count), -mirrored, quarters));
  return {sine(count - magnitude(quarters)), sine(reduced)};
}

}  // namespace

Result<void> cosine_window(Lowering& op) {
  AICF_TRY(const std::vector<Expr> sizes, op.known_sizes(0));
  if (sizes.size() != 1) return op.bad(fmt::format("size has {} elements, 1 wanted", sizes.size()));
  const std::int64_t to = op.integer("output_datatype", 1);
  const auto type = onnx_dtype(to);
  if (!type || !is_float(*type)) return op.cannot(fmt::format("output_datatype {}", onnx_type_name(to)));
  const Expr size = sizes[0];
  // One element has no period; it is what the others begin with.
  const Expr period = op.integer("periodic", 1) != 0 ? size : size - Expr(1);
  const Expr count = op.simplify(Expr::binary(Op::max, period, Expr(1)));
  double parts[] = {0.5, 0.5, 0};  // a0 − a1 cos(2πn/N) + a2 cos(4πn/N)
  if (op.op() == "HammingWindow") parts[0] = 25.0 / 46, parts[1] = 21.0 / 46;
  if (op.op() == "BlackmanWindow") parts[0] = 0.42, parts[2] = 0.08;
  const DType real = wide(*type);
  AICF_TRY(ValuePtr y, op.map({op.name(), *type, {size}, {}, true}, [&](const Index& i) {
    Expr e = number(real, parts[0]) - number(real, parts[1]) * turned(i[0], count, real).cos;
    if (parts[2] != 0) e = e + number(real, parts[2]) * turned(Expr(2) * i[0], count, real).cos;
    return e;
  }));
  op.result(0, std::move(y));
  return {};
}

Result<void> fourier_transform(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  const int rank = x->rank();
  if (rank < 2) return op.bad(fmt::format("input 0 has rank {}, at least 2 wanted", rank));
  const auto parts = constant_of(x->shape[rank - 1]);
  if (parts != 1 && parts != 2)
    return op.bad(fmt::format("the last dim is {}, 1 (real) or 2 (complex) wanted", to_string(x->shape[rank - 1])));
  std::int64_t given = op.opset() < 20 ? op.integer("axis", 1) : -2;
  if (op.has(2)) {
    AICF_TRY(const auto axes, op.known_integers(2));
    if (axes.size() != 1) return op.bad("axis must be one number");
    given = axes[0];
  }
  AICF_TRY(const int axis, op.axis(given, rank));
  if (axis == rank - 1) return op.bad("axis is that of the real and imaginary parts");
  const bool inverse = op.integer("inverse", 0) != 0, onesided = op.integer("onesided", 0) != 0;
  if (onesided && inverse != (parts == 2))
    return op.bad(
        fmt::format("a onesided {} takes {} input", inverse ? "inverse" : "transform", inverse ? "complex" : "real"));
  // The other half of a real signal's spectrum is the conjugate of the given one.
  Expr length = onesided && inverse ? op.simplify(Expr(2) * (x->shape[axis] - Expr(1))) : x->shape[axis];
  if (op.has(1)) {
    AICF_TRY(const std::vector<Expr> lengths, op.known_sizes(1));
    if (lengths.size() != 1) return op.bad("dft_length must be one number");
    length = lengths[0];
  }
  const Range known_length = range_of(length, op.ranges());
  if (known_length.high && *known_length.high < 1)
    return op.bad(fmt::format("a transform of length {}", to_string(length)));
  // A shorter input counts as padded with zeros, a longer one is cut.
  const Expr taken = op.simplify(Expr::binary(Op::min, length, x->shape[axis]));
  Shape shape = x->shape;
  shape[axis] = onesided && !inverse ? op.simplify(floordiv(length, Expr(2)) + Expr(1)) : length;
  shape[rank - 1] = Expr(onesided && inverse ? 1 : 2);
  const DType type = wide(x->type);
  AICF_TRY(ValuePtr y, op.reduce({inverse ? op.name("sum") : op.name(), x->type, shape, {x}}, {taken}, ReduceOp::sum,
                                 [&](const Index& i, const Index& r) {
                                   Index at = i;
                                   at[axis] = r[0];
                                   const auto part = [&](int which) {
                                     at[rank - 1] = Expr(which);
                                     return op.at(x, at);
                                   };
                                   const Turn turn = turned(i[axis] * r[0], length, type);
                                   const Expr s = inverse ? turn.sin : -turn.sin;
                                   Expr real = part(0) * turn.cos, imaginary = part(0) * s;
                                   if (parts == 2) {
                                     real = real - part(1) * s;
                                     imaginary = imaginary + part(1) * turn.cos;
                                   }
                                   if (!onesided || !inverse)
                                     return Expr::select(equal(i[rank - 1], Expr(0)), real, imaginary);
                                   const Expr once = logical_or(equal(r[0], Expr(0)), equal(Expr(2) * r[0], length));
                                   return Expr::select(once, real, number(type, 2) * real);
                                 }));
  if (!inverse) {
    op.result(0, std::move(y));
    return {};
  }
  return op.result_map(x->type, shape, {y}, [&](const Index& i) { return op.at(y, i) / cast_to(length, type); });
}

}  // namespace aicf::ops
