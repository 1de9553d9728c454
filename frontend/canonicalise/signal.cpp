// Windows and the discrete Fourier transform, as formulas and sums.

#include <fmt/format.h>

#include <numbers>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

/// cos (or sin) of 2π·turns/count; the turns are reduced first, so that large ones keep their digits.
Expr turned(Op function, const Expr& turns, const Expr& count, DType type) {
  const Expr angle = number(type, 2 * std::numbers::pi) * cast_to(mod(turns, count), type) / cast_to(count, type);
  return Expr::unary(function, angle);
}

}  // namespace

Result<void> cosine_window(Lowering& op) {
  AICF_TRY(const std::vector<Expr> sizes, op.known_sizes(0));
  if (sizes.size() != 1) return op.bad(fmt::format("size has {} elements, 1 wanted", sizes.size()));
  const std::int64_t to = op.integer("output_datatype", 1);
  const auto type = onnx_dtype(to);
  if (!type || !is_float(*type)) return op.cannot(fmt::format("output_datatype {}", onnx_type_name(to)));
  const Expr size = sizes[0], count = op.integer("periodic", 1) != 0 ? size : op.simplify(size - Expr(1));
  double parts[] = {0.5, 0.5, 0};  // a0 − a1 cos(2πn/N) + a2 cos(4πn/N)
  if (op.op() == "HammingWindow") parts[0] = 25.0 / 46, parts[1] = 21.0 / 46;
  if (op.op() == "BlackmanWindow") parts[0] = 0.42, parts[2] = 0.08;
  const DType real = wide(*type);
  AICF_TRY(ValuePtr y, op.map({op.name(), *type, {size}, {}, true}, [&](const Index& i) {
    Expr e = number(real, parts[0]) - number(real, parts[1]) * turned(Op::cos, i[0], count, real);
    if (parts[2] != 0) e = e + number(real, parts[2]) * turned(Op::cos, Expr(2) * i[0], count, real);
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
  if (onesided && inverse) return op.cannot("a onesided inverse transform");
  if (onesided && parts == 2) return op.bad("onesided transforms take real input");
  Expr length = x->shape[axis];
  if (op.has(1)) {
    AICF_TRY(const std::vector<Expr> lengths, op.known_sizes(1));
    if (lengths.size() != 1) return op.bad("dft_length must be one number");
    length = lengths[0];
  }
  // A shorter input counts as padded with zeros, a longer one is cut.
  const Expr taken = op.simplify(Expr::binary(Op::min, length, x->shape[axis]));
  Shape shape = x->shape;
  shape[axis] = onesided ? op.simplify(floordiv(length, Expr(2)) + Expr(1)) : length;
  shape[rank - 1] = Expr(2);
  const DType type = wide(x->type);
  AICF_TRY(ValuePtr y, op.reduce({inverse ? op.name("sum") : op.name(), x->type, shape, {x}}, {taken}, ReduceOp::sum,
                                 [&](const Index& i, const Index& r) {
                                   Index at = i;
                                   at[axis] = r[0];
                                   const auto part = [&](int which) {
                                     at[rank - 1] = Expr(which);
                                     return op.at(x, at);
                                   };
                                   const Expr turns = i[axis] * r[0], c = turned(Op::cos, turns, length, type);
                                   Expr s = turned(Op::sin, turns, length, type);
                                   if (!inverse) s = -s;
                                   Expr real = part(0) * c, imaginary = part(0) * s;
                                   if (parts == 2) {
                                     real = real - part(1) * s;
                                     imaginary = imaginary + part(1) * c;
                                   }
                                   return Expr::select(equal(i[rank - 1], Expr(0)), real, imaginary);
                                 }));
  if (!inverse) {
    op.result(0, std::move(y));
    return {};
  }
  return op.result_map(x->type, shape, {y}, [&](const Index& i) { return op.at(y, i) / cast_to(length, type); });
}

}  // namespace aicf::ops
