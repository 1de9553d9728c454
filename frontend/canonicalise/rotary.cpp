// RotaryEmbedding (opset 23, and onnxruntime's): pairs of elements turned by an angle that depends on the position.

#include <fmt/format.h>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {

namespace {

/// Which inputs are what; `ids` may be absent.
struct RotaryInputs {
  int cosines, sines, ids;
};

Result<void> turned(Lowering& op, const RotaryInputs& inputs) {
  const ValuePtr x = op.in(0), cosines = op.in(inputs.cosines), sines = op.in(inputs.sines);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, inputs.cosines));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, inputs.sines));
  // One id of onnxruntime's form is the position of the first element.
  const auto from_first = [&](const ValuePtr& ids) { return !op.node().domain.empty() && ids->rank() == 1; };
  const bool flat = x->rank() == 3;
  if (!flat && x->rank() != 4) return op.bad(fmt::format("input 0 has rank {}, 3 or 4 wanted", x->rank()));
  const Expr batch = x->shape[0], length = flat ? x->shape[1] : x->shape[2];
  Expr size = x->shape.back();
  if (flat) {
    std::int64_t heads = op.integer("num_heads", 0);
    if (const auto half = constant_of(cosines->shape.back()), all = constant_of(size);
        heads == 0 && !op.node().domain.empty() && half && all && *half > 0 && *all % (2 * *half) == 0) {
      heads = *all / (2 * *half);  // onnxruntime: the caches tell the head size
    }
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
  const bool positions = op.has(inputs.ids);
  for (const int input : {inputs.cosines, inputs.sines}) {
    const ValuePtr cache = op.in(input);
    const char* what = input == inputs.cosines ? "cos_cache" : "sin_cache";
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
    const ValuePtr ids = op.in(inputs.ids);
    if (!is_integer(ids->type)) return op.bad(fmt::format("position_ids are {}, integers wanted", name(ids->type)));
    if (!from_first(ids)) {
      if (ids->rank() != 2) return op.bad(fmt::format("position_ids have rank {}, 2 wanted", ids->rank()));
      AICF_TRY([[maybe_unused]] const Expr b, op.agree(ids->shape[0], batch, "position_ids batch and the input's"));
      AICF_TRY([[maybe_unused]] const Expr n, op.agree(ids->shape[1], length, "position_ids length and the input's"));
    }
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
      const ValuePtr ids = op.in(inputs.ids);
      const Expr id =
          from_first(ids) ? cast_to(op.at(ids, {Expr(0)}), DType::i64) + n : cast_to(op.at(ids, {i[0], n}), DType::i64);
      op.require_index(id, cache->shape[0], false);
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

}  // namespace

Result<void> rotary_embedding(Lowering& op) {
  return turned(op, {1, 2, 3});
}

Result<void> microsoft_rotary_embedding(Lowering& op) {
  if (op.integer("is_packed_batching", 0) != 0) return op.cannot("is_packed_batching");
  if (op.real("scale", 1) != 1) return op.cannot("a scale");
  if (op.in(1)->rank() == 1 && !op.in(1)->shape[0].is_constant(1)) {
    return op.bad(
        fmt::format("position_ids have shape {}, one number or [batch, length] wanted", to_string(op.in(1)->shape)));
  }
  return turned(op, {2, 3, 1});
}

}  // namespace aicf::ops
