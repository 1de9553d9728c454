// Numbers stored as small integers with a scale.

#include <fmt/format.h>

#include <cmath>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

/// Which scale an element has: the only one, that of its place along an axis, or that of its block along the axis.
struct Scales {
  Shape shape;
  bool one = false;
  int axis = 0;
  std::int64_t block = 0;

  Index index(const Index& i) const {
    if (one) return Index(shape.size(), Expr(0));
    if (block == 0) return {i[axis]};
    Index place = i;
    place[axis] = floordiv(i[axis], Expr(block));
    return place;
  }
};

/// Scale (input 1) and zero point (input 2, may be absent) of input 0.
Result<Scales> scales_of(Lowering& op) {
  const Shape& shape = op.in(0)->shape;
  const int rank = op.in(0)->rank();
  Scales s{op.in(1)->shape};
  AICF_RETURN_IF_ERROR(op.want_float(1));
  s.block = op.integer("block_size", 0);
  if (s.block < 0) return op.bad(fmt::format("block_size is {}, 0 or more wanted", s.block));
  s.one = s.block == 0 && (s.shape.empty() || (s.shape.size() == 1 && s.shape[0].is_constant(1)));
  if (!s.one) {
    AICF_TRY(s.axis, op.axis(op.integer("axis", 1), rank));
    if (static_cast<int>(s.shape.size()) != (s.block > 0 ? rank : 1)) {
      return op.bad(fmt::format("scale has shape {} for an input {}", to_string(s.shape), to_string(shape)));
    }
    for (int d = 0; d < rank; ++d) {
      if (s.block == 0 && d != s.axis) continue;
      const bool in_blocks = s.block > 0 && d == s.axis;
      const Expr wanted = in_blocks ? op.simplify(ceildiv(shape[d], Expr(s.block))) : shape[d];
      AICF_TRY([[maybe_unused]] const Expr size,
               op.agree(s.shape[s.block > 0 ? d : 0], wanted, fmt::format("scales and places along dim {}", d)));
    }
  }
  if (!op.has(2)) return s;
  const Shape& zeros = op.in(2)->shape;
  if (zeros.size() != s.shape.size()) {
    return op.bad(fmt::format("zero point has shape {}, the scale {}", to_string(zeros), to_string(s.shape)));
  }
  for (std::size_t d = 0; d < zeros.size(); ++d) {
    AICF_TRY([[maybe_unused]] const Expr size, op.agree(zeros[d], s.shape[d], "zero points and scales"));
  }
  return s;
}

Result<DType> output_type(Lowering& op, DType absent) {
  const std::int64_t given = op.integer("output_dtype", 0);
  if (given == 0) return absent;
  const auto type = onnx_dtype(given);
  if (!type) return op.cannot(fmt::format("attribute output_dtype is element type {}", onnx_type_name(given)));
  return *type;
}

bool is_small_integer(DType type) {
  return is_integer(type) && host_size(type) <= 2;
}

}  // namespace

Result<void> dequantise_linear(Lowering& op) {
  const ValuePtr x = op.in(0), scale = op.in(1);
  if (!is_small_integer(x->type) && x->type != DType::i32) {
    return op.bad(fmt::format("input 0 is {}, an integer type of at most 32 bits wanted", name(x->type)));
  }
  AICF_TRY(const Scales scales, scales_of(op));
  AICF_TRY(const DType type, output_type(op, scale->type));
  if (!is_float(type)) return op.bad(fmt::format("the result is {}, a float type wanted", name(type)));
  Values operands{x, scale};
  if (op.has(2)) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
    operands.push_back(op.in(2));
  }
  return op.result_map(type, x->shape, operands, [&](const Index& i) {
    const Index place = scales.index(i);
    Expr steps = op.at(x, i);
    if (op.has(2)) steps = cast_to(steps, DType::i32) - cast_to(op.at(op.in(2), place), DType::i32);
    return cast_to(steps, type) * cast_to(op.at(scale, place), type);
  });
}

Result<void> quantise_linear(Lowering& op) {
  const ValuePtr x = op.in(0), scale = op.in(1);
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_TRY(const Scales scales, scales_of(op));
  AICF_TRY(const DType type, output_type(op, op.has(2) ? op.in(2)->type : DType::u8));
  if (!is_small_integer(type)) return op.cannot(fmt::format("a result of {}", name(type)));
  Values operands{x, scale};
  if (op.has(2)) {
    AICF_RETURN_IF_ERROR(op.want_type(2, type));
    operands.push_back(op.in(2));
  }
  const int bits = static_cast<int>(8 * host_size(type));
  const bool is_signed = type == DType::i8 || type == DType::i16;
  const double lowest = is_signed ? -std::exp2(bits - 1) : 0, highest = std::exp2(is_signed ? bits - 1 : bits) - 1;
  const DType real = wide(scale->type);
  return op.result_map(type, x->shape, operands, [&](const Index& i) {
    const Index place = scales.index(i);
    Expr steps = Expr::unary(Op::round_even, cast_to(op.at(x, i), real) / op.at(scale, place));
    if (op.has(2)) steps = steps + cast_to(op.at(op.in(2), place), real);
    steps = Expr::binary(Op::min, Expr::binary(Op::max, steps, number(real, lowest)), number(real, highest));
    return Expr::cast(steps, type);
  });
}

}  // namespace aicf::ops
