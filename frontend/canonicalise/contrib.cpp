// com.microsoft operators that onnxruntime's optimiser writes: fused attention and matrix products.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/canonicalise/attention_core.h"
#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// The additive mask of onnxruntime: mask_filter_value (−10000) where a key is masked. The padding mask is a length per
/// batch [B], or zeros at masked keys, [B, keys] or [B, queries, keys].
Result<void> add_masks(Lowering& op, AttentionParts& parts, int padding, int bias) {
  const DType type = wide(parts.q.tensor->type);
  const Shape shape{parts.q.batch, parts.q.heads, parts.q.length, parts.k.length};
  const bool causal = op.integer("unidirectional", 0) != 0;
  if (op.has(padding)) {
    const ValuePtr m = op.in(padding);
    if (!is_integer(m->type)) return op.bad(fmt::format("input {} is {}, an integer wanted", padding, name(m->type)));
    if (m->rank() < 1 || m->rank() > 3) return op.cannot(fmt::format("a padding mask of rank {}", m->rank()));
    AICF_TRY([[maybe_unused]] const Expr b, op.agree(m->shape[0], shape[0], "batch sizes of the mask and the input"));
    if (m->rank() > 1) {
      AICF_TRY([[maybe_unused]] const Expr n, op.agree(m->shape.back(), shape[3], "keys of the mask and the input"));
    }
    parts.mask_operands.push_back(m);
  }
  if (op.has(bias)) {
    AICF_TRY([[maybe_unused]] const Shape joined, op.broadcast(op.in(bias)->shape, shape));
    parts.mask_operands.push_back(op.in(bias));
  }
  if (!causal && parts.mask_operands.empty()) return {};
  const Expr filter = number(type, op.real("mask_filter_value", -10000));
  const Expr offset = op.simplify(shape[3] - shape[2]);  // past keys
  parts.mask = [&op, shape, causal, filter, offset, padding, bias, type](const Index& i, const Expr& score) {
    const Expr zero = number(type, 0);
    Expr e = score;
    if (op.has(padding)) {
      const ValuePtr m = op.in(padding);
      Expr seen;
      if (m->rank() == 1) {
        seen = less(i[3], cast_to(op.at(m, {i[0]}), DType::i64));
      } else {
        const Index at = m->rank() == 2 ? Index{i[0], i[3]} : Index{i[0], i[2], i[3]};
        seen = less(Expr::integer(0, m->type), op.at(m, at));
      }
      e = e + Expr::select(seen, zero, filter);
    }
    if (causal) e = e + Expr::select(less_equal(i[3], i[2] + offset), zero, filter);
    if (op.has(bias)) e = e + cast_to(op.at_broadcast(op.in(bias), shape, i), type);
    return e;
  };
  return {};
}

void set_scale(Lowering& op, AttentionParts& parts, std::int64_t size) {
  const DType type = wide(parts.q.tensor->type);
  const double given = op.real("scale", 0);
  parts.scale = number(type, given != 0 ? given : 1 / std::sqrt(static_cast<double>(size)));
  parts.precision = type;
  parts.result_name = op.name();
  parts.flat_result = true;
}

}  // namespace

Result<void> microsoft_attention(Lowering& op) {
  const ValuePtr x = op.in(0), weight = op.in(1);
  if (op.has(4) || op.wants(1)) return op.cannot("a key-value cache");
  if (op.integer("do_rotary", 0) != 0) return op.cannot("do_rotary");
  if (x->rank() != 3 || weight->rank() != 2)
    return op.bad(fmt::format("ranks {} and {} of input and weights, 3 and 2 wanted", x->rank(), weight->rank()));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_TRY(const Expr depth, op.agree(x->shape[2], weight->shape[0], "widths of input and weights"));
  const auto width = constant_of(weight->shape[1]);
  const std::int64_t heads = op.integer("num_heads", 0);
  if (!width || heads < 1) return op.bad("num_heads and the width of the weights must be positive numbers");
  std::vector<std::int64_t> sizes(3, *width / 3);
  if (const Attribute* a = op.attribute("qkv_hidden_sizes"); a && !a->is.empty()) sizes = a->is;
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *width || sizes[0] != sizes[1] || sizes[0] % heads != 0 ||
      sizes[2] % heads != 0) {
    return op.bad(fmt::format("weights of width {} do not divide into q, k and v of {} heads", *width, heads));
  }
  const DType type = wide(x->type);
  const Shape shape{x->shape[0], x->shape[1], weight->shape[1]};
  AICF_TRY(ValuePtr packed, op.reduce({op.name(op.has(2) ? "qkv_product" : "qkv"), x->type, shape, {x, weight}},
                                      {depth}, ReduceOp::sum, [&](const Index& i, const Index& r) {
                                        return op.at(x, {i[0], i[1], r[0]}) * op.at(weight, {r[0], i[2]});
                                      }));
  if (op.has(2)) {
    AICF_TRY([[maybe_unused]] const Shape joined, op.broadcast(shape, op.in(2)->shape));
    AICF_TRY(packed, op.map({op.name("qkv"), x->type, shape, {packed, op.in(2)}}, [&](const Index& i) {
      return op.at(packed, i) + cast_to(op.at_broadcast(op.in(2), shape, i), type);
    }));
  }
  const auto part = [&](int k, std::int64_t offset) {
    return Heads{packed, true, shape[0], Expr(heads), shape[1], Expr(sizes[k] / heads), Expr(offset)};
  };
  AttentionParts parts;
  parts.q = part(0, 0);
  parts.k = part(1, sizes[0]);
  parts.v = part(2, sizes[0] + sizes[1]);
  set_scale(op, parts, sizes[0] / heads);
  AICF_RETURN_IF_ERROR(add_masks(op, parts, 3, 5));
  AICF_TRY(ValuePtr y, attend(op, parts));
  op.result(0, std::move(y));
  return {};
}

Result<void> multi_head_attention(Lowering& op) {
  enum { query, key, value, bias, padding, attention_bias, past_key, past_value };
  if (!op.has(key) || !op.has(value)) return op.cannot("packed queries, keys and values");
  AICF_RETURN_IF_ERROR(op.want_float(query));
  AICF_RETURN_IF_ERROR(op.want_same_type(query, key));
  AICF_RETURN_IF_ERROR(op.want_same_type(query, value));
  const std::int64_t heads = op.integer("num_heads", 0);
  AttentionParts parts;
  const auto read = [&](int input) -> Result<Heads> {
    AICF_TRY(Heads h, heads_of(op, input, heads, "num_heads"));
    if (!op.has(bias) || !h.flat) return h;
    // The bias holds the parts of q, k and v one after another.
    const ValuePtr b = op.in(bias), x = op.in(input);
    if (b->rank() != 1 || b->type != x->type) return op.bad("the bias must be a list of the input's element type");
    Expr offset(0);
    for (int k = query; k < input; ++k) offset = offset + op.in(k)->shape.back();
    offset = op.simplify(offset);
    AICF_TRY(h.tensor, op.map({op.name(input == query ? "q"
                                       : input == key ? "k"
                                                      : "v"),
                               x->type,
                               x->shape,
                               {x, b}},
                              [&](const Index& i) { return op.at(x, i) + op.at(b, {offset + i[2]}); }));
    return h;
  };
  AICF_TRY(parts.q, read(query));
  AICF_TRY(Heads k, read(key));
  AICF_TRY(Heads v, read(value));
  AICF_TRY(parts.q.batch, op.agree(parts.q.batch, k.batch, "batch sizes of query and key"));
  AICF_TRY(k.length, op.agree(k.length, v.length, "lengths of key and value"));
  AICF_TRY(parts.q.size, op.agree(parts.q.size, k.size, "head sizes of query and key"));
  if (op.has(past_key) != op.has(past_value)) return op.bad("past_key and past_value must be given together");
  const ValuePtr old_k = op.has(past_key) ? op.in(past_key) : ValuePtr(),
                 old_v = op.has(past_value) ? op.in(past_value) : ValuePtr();
  for (const ValuePtr& old : {old_k, old_v}) {
    if (old && old->rank() != 4) return op.bad(fmt::format("a cache of rank {}, 4 wanted", old->rank()));
  }
  if (old_k || op.wants(1) || op.wants(2)) {
    AICF_TRY(const ValuePtr keys, joined_cache(op, k, old_k, op.wants(1) ? op.name({}, 1) : op.name("keys")));
    AICF_TRY(const ValuePtr values, joined_cache(op, v, old_v, op.wants(2) ? op.name({}, 2) : op.name("values")));
    op.result(1, keys);
    op.result(2, values);
    k = whole(keys);
    v = whole(values);
  }
  parts.k = k;
  parts.v = v;
  const auto size = constant_of(parts.q.size);
  if (!size) return op.cannot("a symbolic head size");
  set_scale(op, parts, *size);
  AICF_RETURN_IF_ERROR(add_masks(op, parts, padding, attention_bias));
  AICF_TRY(ValuePtr y, attend(op, parts));
  op.result(0, std::move(y));
  return {};
}

Result<void> fused_matmul(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_float(0));
  const ValuePtr a = op.in(0), b = op.in(1);
  if (a->rank() < 2 || b->rank() < 2) return op.bad("operands of rank 2 or more wanted");
  if (op.integer("transBatchA", 0) != 0 || op.integer("transBatchB", 0) != 0) return op.cannot("transposed batch dims");
  const bool ta = op.integer("transA", 0) != 0, tb = op.integer("transB", 0) != 0;
  const auto last = [](const ValuePtr& v, int back) { return v->shape[v->rank() - back]; };
  AICF_TRY(const Expr depth, op.agree(last(a, ta ? 2 : 1), last(b, tb ? 1 : 2), "inner dims"));
  const Shape batch_a(a->shape.begin(), a->shape.end() - 2), batch_b(b->shape.begin(), b->shape.end() - 2);
  AICF_TRY(Shape shape, op.broadcast(batch_a, batch_b));
  const std::size_t batch = shape.size();
  shape.push_back(last(a, ta ? 1 : 2));
  shape.push_back(last(b, tb ? 2 : 1));
  const auto index = [&](const Shape& own, const Index& i, const Expr& row, const Expr& column, bool transposed) {
    Index at;
    const std::size_t skip = batch - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) {
      const bool stretched = own[d].is_constant(1) && !shape[skip + d].is_constant(1);
      at.push_back(stretched ? Expr(0) : i[skip + d]);
    }
    at.push_back(transposed ? column : row);
    at.push_back(transposed ? row : column);
    return at;
  };
  const double alpha = op.real("alpha", 1);
  const DType type = wide(a->type);
  AICF_TRY(ValuePtr y, op.reduce({alpha == 1 ? op.name() : op.name("product"), a->type, shape, {a, b}}, {depth},
                                 ReduceOp::sum, [&](const Index& i, const Index& r) {
                                   return op.at(a, index(batch_a, i, i[batch], r[0], ta)) *
                                          op.at(b, index(batch_b, i, r[0], i[batch + 1], tb));
                                 }));
  if (alpha == 1) {
    op.result(0, std::move(y));
    return {};
  }
  return op.result_map(a->type, shape, {y}, [&](const Index& i) { return op.at(y, i) * number(type, alpha); });
}

}  // namespace aicf::ops
