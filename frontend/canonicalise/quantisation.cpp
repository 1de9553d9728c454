// Numbers stored as small integers with a scale.

#include <fmt/format.h>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {

Result<void> dequantise_linear(Lowering& op) {
  // (x − zero point) · scale; the scale is one number, one for each place along the axis, or one for each block of places.
  const ValuePtr x = op.in(0), scale = op.in(1);
  if (!is_integer(x->type)) return op.bad(fmt::format("input 0 is {}, an integer type wanted", name(x->type)));
  AICF_RETURN_IF_ERROR(op.want_float(1));
  DType type = scale->type;
  if (const std::int64_t given = op.integer("output_dtype", 0); given != 0) {
    const auto wanted = onnx_dtype(given);
    if (!wanted || !is_float(*wanted)) {
      return op.cannot(fmt::format("attribute output_dtype is element type {}", onnx_type_name(given)));
    }
    type = *wanted;
  }
  const std::int64_t block = op.integer("block_size", 0);
  if (block < 0) return op.bad(fmt::format("block_size is {}, 0 or more wanted", block));
  const bool one = block == 0 && (scale->rank() == 0 || (scale->rank() == 1 && scale->shape[0].is_constant(1)));
  int axis = 0;
  if (!one) {
    AICF_TRY(axis, op.axis(op.integer("axis", 1), x->rank()));
    if (scale->rank() != (block > 0 ? x->rank() : 1)) {
      return op.bad(fmt::format("scale has shape {} for an input {}", to_string(scale->shape), to_string(x->shape)));
    }
    for (int d = 0; d < x->rank(); ++d) {
      if (block == 0 && d != axis) continue;
      const Expr& dim = x->shape[d];
      const Expr wanted = block > 0 && d == axis ? op.simplify(ceildiv(dim, Expr(block))) : dim;
      AICF_TRY([[maybe_unused]] const Expr size, op.agree(scale->shape[block > 0 ? d : 0], wanted,
                                                          fmt::format("places along dim {} and scales", d)));
    }
  }
  Values operands{x, scale};
  if (op.has(2)) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
    if (op.in(2)->rank() != scale->rank()) {
      return op.bad(fmt::format("zero point has shape {}, the scale {}", to_string(op.in(2)->shape),
                                to_string(scale->shape)));
    }
    for (int d = 0; d < scale->rank(); ++d) {
      AICF_TRY([[maybe_unused]] const Expr size,
               op.agree(op.in(2)->shape[d], scale->shape[d], "zero points and scales"));
    }
    operands.push_back(op.in(2));
  }
  return op.result_map(type, x->shape, operands, [&](const Index& i) {
    Index place = i;
    if (one)
      place.assign(scale->shape.size(), Expr(0));
    else if (block == 0)
      place = {i[axis]};
    else
      place[axis] = floordiv(i[axis], Expr(block));
    // The difference of two integers of at most 16 bits fits 32.
    Expr steps = op.at(x, i);
    if (op.has(2)) steps = cast_to(steps, DType::i32) - cast_to(op.at(op.in(2), place), DType::i32);
    return cast_to(steps, type) * cast_to(op.at(scale, place), type);
  });
}

}  // namespace aicf::ops
