// The Attention operator (opsets 23 to 25).
//
// It follows the errata of the specification: the cap stands before the mask; a causal query i sees key j when
// j <= i + offset with offset 0, the past length, or nonpad_kv_seqlen − queries; a row without any key is 0;
// qk_matmul_output_mode 0, 1, 2, 3 are the scores scaled, capped, masked, normalised. Masked scores are −inf by a
// select, and everything between the products stays in f32 for narrow types.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/canonicalise/attention_core.h"
#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

enum Operand { query, key, value, mask, past_key, past_value, nonpad };

/// What decides which keys a query sees.
struct Visibility {
  Lowering& op;
  Shape scores;      ///< [batch, heads, queries, keys]
  Expr past;         ///< past keys; empty without a cache
  Expr mask_length;  ///< of a mask that is shorter than the keys
  std::int64_t left = -1, right = -1;
  bool causal = false;

  bool has_float_mask() const { return op.has(mask) && op.in(mask)->type != DType::boolean; }

  /// Whether query i[2] of batch i[0] may see key i[3]; empty when always. Boolean masks are part of it.
  Expr allowed(const Index& i) const {
    Expr result;
    const Expr valid = op.has(nonpad) ? cast_to(op.at(op.in(nonpad), {i[0]}), DType::i64) : Expr();
    if (causal || left >= 0 || right >= 0) {
      const Expr offset = past ? past : valid ? valid - scores[2] : Expr(0);
      const Expr position = op.simplify(i[2] + offset);
      if (causal) result = less_equal(i[3], position);
      if (left >= 0) result = logical_and(result, less_equal(position - Expr(left), i[3]));
      if (right >= 0) result = logical_and(result, less_equal(i[3], position + Expr(right)));
    }
    if (valid) result = logical_and(result, less(i[3], valid));
    const Expr within = mask_length ? less(i[3], mask_length) : Expr();
    if (op.has(mask) && !has_float_mask()) {
      const Expr seen = op.at_broadcast(op.in(mask), scores, i);  // not read past its end
      result = logical_and(result, within ? Expr::select(within, seen, Expr::boolean(false)) : seen);
    } else if (within) {
      result = logical_and(result, within);
    }
    return result;
  }
};

/// The mask broadcasts to the scores, and may end before the last keys.
Result<void> check_mask(Visibility& sight) {
  Lowering& op = sight.op;
  const ValuePtr m = op.in(mask);
  if (m->type != DType::boolean && !is_float(m->type)) {
    return op.bad(fmt::format("input 3 is {}, bool or a float type wanted", name(m->type)));
  }
  if (m->rank() > 4) return op.bad(fmt::format("input 3 has rank {}, at most 4 wanted", m->rank()));
  for (int d = 0; d < m->rank(); ++d) {
    const Expr& wanted = sight.scores[4 - m->rank() + d];
    if (m->shape[d].is_constant(1)) continue;
    const auto own = constant_of(m->shape[d]), keys = constant_of(wanted);
    if (d + 1 == m->rank() && own && keys && *own < *keys) {
      sight.mask_length = m->shape[d];
      continue;
    }
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(m->shape[d], wanted,
                                                       fmt::format("dims of the mask {} and of the scores {}",
                                                                   to_string(m->shape), to_string(sight.scores))));
  }
  return {};
}

Result<void> check_cache(Lowering& op, const Heads& fresh, int input) {
  const ValuePtr p = op.in(input);
  if (p->rank() != 4) return op.bad(fmt::format("input {} has rank {}, 4 wanted", input, p->rank()));
  AICF_TRY([[maybe_unused]] const Expr b,
           op.agree(p->shape[0], fresh.batch, "batch sizes of the cache and its new part"));
  AICF_TRY([[maybe_unused]] const Expr h, op.agree(p->shape[1], fresh.heads, "heads of the cache and its new part"));
  AICF_TRY([[maybe_unused]] const Expr d,
           op.agree(p->shape[3], fresh.size, "head sizes of the cache and its new part"));
  return {};
}

/// Reads and checks q, k and v; joins the cache into k and v.
Result<void> read_operands(Lowering& op, AttentionParts& parts, Visibility& sight) {
  const std::int64_t q_heads = op.integer("q_num_heads", 0), kv_heads = op.integer("kv_num_heads", 0);
  AICF_TRY(Heads q, heads_of(op, query, q_heads, "q_num_heads"));
  AICF_TRY(Heads k, heads_of(op, key, kv_heads, "kv_num_heads"));
  AICF_TRY(Heads v, heads_of(op, value, kv_heads, "kv_num_heads"));
  AICF_RETURN_IF_ERROR(op.want_same_type(query, key));
  AICF_RETURN_IF_ERROR(op.want_float(query));
  AICF_RETURN_IF_ERROR(op.want_float(value));
  AICF_TRY(q.batch, op.agree(q.batch, k.batch, "batch sizes of Q and K"));
  AICF_TRY(q.batch, op.agree(q.batch, v.batch, "batch sizes of Q and V"));
  AICF_TRY(k.heads, op.agree(k.heads, v.heads, "heads of K and V"));
  AICF_TRY(k.length, op.agree(k.length, v.length, "lengths of K and V"));
  AICF_TRY(q.size, op.agree(q.size, k.size, "head sizes of Q and K"));
  k.batch = v.batch = q.batch;
  v.heads = k.heads;
  v.length = k.length;
  if (op.has(past_key) != op.has(past_value)) return op.bad("past_key and past_value must be given together");
  ValuePtr old_k, old_v;
  if (op.has(past_key)) {
    if (op.has(nonpad)) return op.bad("nonpad_kv_seqlen and past_key exclude each other");
    old_k = op.in(past_key);
    old_v = op.in(past_value);
    AICF_RETURN_IF_ERROR(check_cache(op, k, past_key));
    AICF_RETURN_IF_ERROR(check_cache(op, v, past_value));
    AICF_TRY(sight.past, op.agree(old_k->shape[2], old_v->shape[2], "lengths of past_key and past_value"));
  }
  const auto cache_name = [&](int output, const char* suffix) {
    return op.wants(output) ? op.name({}, output) : op.name(suffix);
  };
  AICF_TRY(const ValuePtr keys, joined_cache(op, k, old_k, cache_name(1, "keys")));
  AICF_TRY(const ValuePtr values, joined_cache(op, v, old_v, cache_name(2, "values")));
  op.result(1, keys);
  op.result(2, values);
  parts.q = q;
  parts.k = whole(keys);
  parts.v = whole(values);
  parts.v.length = parts.k.length;
  sight.scores = {q.batch, q.heads, q.length, parts.k.length};
  return {};
}

}  // namespace

Result<void> attention(Lowering& op) {
  AttentionParts parts;
  Visibility sight{op, {}, {}, {}};
  AICF_RETURN_IF_ERROR(read_operands(op, parts, sight));
  const DType type = wide(parts.q.tensor->type);
  if (op.has(nonpad)) {
    if (!is_integer(op.in(nonpad)->type) || op.in(nonpad)->rank() != 1)
      return op.bad("nonpad_kv_seqlen must be a list of integers");
    AICF_TRY([[maybe_unused]] const Expr b,
             op.agree(op.in(nonpad)->shape[0], parts.q.batch, "nonpad_kv_seqlen and the batch"));
  }
  sight.causal = op.integer("is_causal", 0) != 0;
  sight.left = op.integer("left_window_size", -1);
  sight.right = op.integer("right_window_size", -1);
  if (op.has(mask)) AICF_RETURN_IF_ERROR(check_mask(sight));

  if (op.attribute("scale")) {
    parts.scale = number(type, op.real("scale", 0));
  } else if (const auto size = constant_of(parts.q.size)) {
    parts.scale = number(type, 1 / std::sqrt(static_cast<double>(*size)));
  } else {
    parts.scale = Expr::unary(Op::reciprocal, Expr::unary(Op::sqrt, Expr::cast(parts.q.size, type)));
  }
  parts.softcap = op.real("softcap", 0);
  parts.precision = onnx_dtype(op.integer("softmax_precision", 0)) == DType::f64 ? DType::f64 : type;
  // Without a mask, a causal row with offset 0 or more always has its first key.
  parts.may_be_empty = op.has(mask) || op.has(nonpad) || sight.left >= 0 || sight.right >= 0;
  if (sight.causal || parts.may_be_empty) {
    for (const int input : {mask, nonpad}) {
      if (op.has(input)) parts.mask_operands.push_back(op.in(input));
    }
    parts.mask = [&op, &sight, type](const Index& i, const Expr& score) {
      Expr e = score;
      if (sight.has_float_mask()) e = e + cast_to(op.at_broadcast(op.in(mask), sight.scores, i), type);
      const Expr visible = sight.allowed(i);
      return visible ? Expr::select(visible, e, number(type, -std::numeric_limits<double>::infinity())) : e;
    };
  }
  const std::int64_t mode = op.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return op.bad(fmt::format("qk_matmul_output_mode is {}, 0 to 3 wanted", mode));
  parts.expose = [&op, &parts, mode](const ValuePtr& scores, int stage) -> Result<void> {
    if (!op.wants(3) || mode != stage) return {};
    const DType out = parts.q.tensor->type;
    AICF_TRY(ValuePtr y, op.map({op.name({}, 3), out, scores->shape, {scores}},
                                [&](const Index& i) { return cast_to(op.at(scores, i), out); }));
    op.result(3, std::move(y));
    return {};
  };
  parts.result_name = op.name();
  parts.flat_result = parts.q.flat;
  AICF_TRY(ValuePtr y, attend(op, parts));
  op.result(0, std::move(y));
  return {};
}

}  // namespace aicf::ops
