// Operators that only move elements, by blocks or in reverse.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/check.h"

namespace aicf::ops {

/// SpaceToDepth and DepthToSpace: a block of `b` × `b` places is b² channels, ordered by place first (DCR) or by channel
/// first (CRD).
Result<void> depth_and_space(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (x->rank() != 4) return op.bad(fmt::format("input 0 has rank {}, 4 wanted", x->rank()));
  const std::int64_t block = op.integer("blocksize", 0);
  if (block < 1 || block > (1 << 15)) return op.bad(fmt::format("blocksize is {}, from 1 to 32768 wanted", block));
  const std::string mode = op.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return op.bad(fmt::format("mode is {}, 'DCR' or 'CRD' wanted", in_quotes(mode)));
  const bool to_space = op.op() == "DepthToSpace", place_first = mode == "DCR";
  const Expr b(block), square(block * block);
  Shape shape = x->shape;
  const auto divided = [&](int d, const Expr& by) -> Result<Expr> {
    if (const auto n = constant_of(shape[d]); n && *n % *constant_of(by) != 0)
      return op.bad(fmt::format("dim {} of {} is no multiple of {}", d, to_string(x->shape), to_string(by)));
    return op.simplify(floordiv(shape[d], by));
  };
  if (to_space) {
    AICF_TRY(shape[1], divided(1, square));
    for (const int d : {2, 3}) shape[d] = op.simplify(shape[d] * b);
  } else {
    shape[1] = op.simplify(shape[1] * square);
    for (const int d : {2, 3}) {
      AICF_TRY(shape[d], divided(d, b));
    }
  }
  // Channels of the tensor whose blocks are places.
  const Expr channels = to_space ? shape[1] : x->shape[1];
  return op.result_move(x, shape, [&](const Index& i) {
    if (to_space) {
      const Expr place = mod(i[2], b) * b + mod(i[3], b);
      const Expr channel = place_first ? place * channels + i[1] : i[1] * square + place;
      return Index{i[0], channel, floordiv(i[2], b), floordiv(i[3], b)};
    }
    const Expr place = place_first ? floordiv(i[1], channels) : mod(i[1], square);
    const Expr channel = place_first ? mod(i[1], channels) : floordiv(i[1], square);
    return Index{i[0], channel, i[2] * b + floordiv(place, b), i[3] * b + mod(place, b)};
  });
}

Result<void> reverse_sequence(Lowering& op) {
  const ValuePtr x = op.in(0), lengths = op.in(1);
  AICF_TRY(const int batch, op.axis(op.integer("batch_axis", 1), x->rank()));
  AICF_TRY(const int time, op.axis(op.integer("time_axis", 0), x->rank()));
  if (batch == time) return op.bad("batch_axis and time_axis are the same");
  AICF_RETURN_IF_ERROR(op.want_type(1, DType::i64));
  if (lengths->rank() != 1) return op.bad(fmt::format("input 1 has rank {}, 1 wanted", lengths->rank()));
  AICF_TRY([[maybe_unused]] const Expr rows, op.agree(lengths->shape[0], x->shape[batch], "lengths and the batch"));
  return op.result_move(x, x->shape,
                        [&](const Index& i) {
                          // A length beyond the dim counts as the dim.
                          const Expr length = Expr::binary(Op::min, op.at(lengths, {i[batch]}), x->shape[time]);
                          Index at = i;
                          at[time] = Expr::select(less(i[time], length), length - Expr(1) - i[time], i[time]);
                          return at;
                        },
                        {lengths});
}

Result<void> center_crop_pad(Lowering& op) {
  const ValuePtr x = op.in(0);
  std::vector<int> axes;
  if (const Attribute* a = op.attribute("axes")) {
    AICF_TRY(axes, op.axes(a->is, x->rank()));
  } else {
    for (int d = 0; d < x->rank(); ++d) axes.push_back(d);
  }
  AICF_TRY(const std::vector<Expr> sizes, op.known_sizes(1));
  if (sizes.size() != axes.size()) return op.bad(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
  Shape shape = x->shape;
  Index start(shape.size(), Expr(0));  // of the result in x; negative where it is padded
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int d = axes[k];
    shape[d] = sizes[k];
    const Expr cut = floordiv(x->shape[d] - sizes[k], Expr(2)), border = floordiv(sizes[k] - x->shape[d], Expr(2));
    start[d] = op.simplify(Expr::select(less(sizes[k], x->shape[d]), cut, -border));
  }
  return op.result_map(x->type, shape, {x}, [&](const Index& i) {
    Index at;
    Expr inside;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      at.push_back(i[d] + start[d]);
      if (start[d].is_constant(0) && op.same(shape[d], x->shape[d])) continue;
      inside = logical_and(inside, logical_and(less_equal(Expr(0), at[d]), less(at[d], x->shape[d])));
    }
    const Expr e = op.held_at(x, at);
    return inside ? Expr::select(inside, e, Expr::constant(e.type(), 0)) : e;
  });
}

}  // namespace aicf::ops
