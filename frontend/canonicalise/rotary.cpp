// RotaryEmbedding (opset 23): pairs of elements turned by an angle that depends on the position.

#include <fmt/format.h>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {

Result<void> rotary_embedding(Lowering& op) {
  const ValuePtr x = op.in(0), cosines = op.in(1), sines = op.in(2);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
  const bool flat = x->rank() == 3;
  if (!flat && x->rank() != 4) return op.bad(fmt::format("input 0 has rank {}, 3 or 4 wanted", x->rank()));
  const Expr batch = x->shape[0], length = flat ? x->shape[1] : x->shape[2];
  Expr size = x->shape.back();
  if (flat) {
    const std::int64_t heads = op.integer("num_heads", 0);
    if (heads < 1) return op.bad("attribute num_heads is missing, which an input of rank 3 needs");
    const auto width = constant_of(size);
    if (!width) return op.cannot("a symbolic width");
    if (*width % heads != 0) return op.bad(fmt::format("width {} is no multiple of {} heads", *width, heads));
    size = Expr(*width / heads);
  }
  const auto whole = constant_of(size);
  if (!whole) return op.cannot("a symbolic head size");
  const std::int64_t given = op.integer("rotary_embedding_dim", 0);
  const std::int64_t turned = given == 0 ? *whole : given;
  if (turned < 0 || turned > *whole || turned % 2 != 0) {
    return op.bad(fmt::format("rotary size {} of a head of {}, an even part wanted", turned, *whole));
  }
  const std::int64_t half = turned / 2;
  const bool positions = op.has(3);
  for (const int input : {1, 2}) {
    const ValuePtr cache = op.in(input);
    const char* what = input == 1 ? "cos_cache" : "sin_cache";
    if (cache->rank() != (positions ? 2 : 3)) {
      return op.bad(fmt::format("{} has rank {}, {} wanted {} position_ids", what, cache->rank(), positions ? 2 : 3,
                                positions ? "with" : "without"));
    }
    AICF_TRY([[maybe_unused]] const Expr width,
             op.agree(cache->shape.back(), Expr(half), fmt::format("{} width and half the rotary size", what)));
    if (positions) continue;
    AICF_TRY([[maybe_unused]] const Expr b,
             op.agree(cache->shape[0], batch, fmt::format("{} batch and the input's", what)));
    AICF_TRY([[maybe_unused]] const Expr n,
             op.agree(cache->shape[1], length, fmt::format("{} length and the input's", what)));
  }
  Values operands{x, cosines, sines};
  if (positions) {
    const ValuePtr ids = op.in(3);
    if (!is_integer(ids->type) || ids->rank() != 2) return op.bad("position_ids must be integers of rank 2");
    AICF_TRY([[maybe_unused]] const Expr b, op.agree(ids->shape[0], batch, "position_ids batch and the input's"));
    AICF_TRY([[maybe_unused]] const Expr n, op.agree(ids->shape[1], length, "position_ids length and the input's"));
    operands.push_back(ids);
  }
  const bool interleaved = op.integer("interleaved", 0) != 0;
  return op.result_map(x->type, x->shape, operands, [&](const Index& i) {
    const Expr n = flat ? i[1] : i[2];
    const Expr d = flat ? op.simplify(mod(i[2], size)) : i[3];  // within the head
    const auto element = [&](const Expr& at) {
      if (!flat) return op.at(x, {i[0], i[1], i[2], at});
      return op.at(x, {i[0], i[1], i[2] - d + at});
    };
    const auto angle = [&](const ValuePtr& cache, const Expr& pair) {
      if (!positions) return op.at(cache, {i[0], n, pair});
      const Expr id = cast_to(op.at(op.in(3), {i[0], n}), DType::i64);
      return op.at(cache, {id, pair});
    };
    const Expr first = interleaved ? equal(mod(d, Expr(2)), Expr(0)) : less(d, Expr(half));
    const Expr pair = interleaved ? floordiv(d, Expr(2)) : mod(d, Expr(half));
    const Expr near = interleaved ? Expr(2) * pair : pair,
               far = interleaved ? Expr(2) * pair + Expr(1) : pair + Expr(half);
    // (near, far) turns into (cos·near − sin·far, sin·near + cos·far).
    const Expr turned_near = angle(cosines, pair) * element(near) - angle(sines, pair) * element(far);
    const Expr turned_far = angle(sines, pair) * element(near) + angle(cosines, pair) * element(far);
    Expr e = Expr::select(first, turned_near, turned_far);
    if (turned < *whole) e = Expr::select(less(d, Expr(turned)), e, op.at(x, i));
    return e;
  });
}

}  // namespace aicf::ops
