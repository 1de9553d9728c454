// The Attention operator (opsets 23 to 25) in parts: scaled scores, soft cap, mask, softmax, sum of values.
//
// It follows the errata of the specification: the cap stands before the mask; a causal query i sees key j when
// j <= i + offset with offset 0, the past length, or nonpad_kv_seqlen − queries; a row without any key is 0;
// qk_matmul_output_mode 0, 1, 2, 3 are the scores scaled, capped, masked, normalised. Masked scores are −inf by a select,
// and everything between the products stays in f32 for narrow types.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

enum Operand { query, key, value, mask, past_key, past_value, nonpad };

/// A [batch, heads, length, size] view of an operand given so or as [batch, length, heads · size].
struct Heads {
  ValuePtr tensor;
  bool flat = false;
  Expr batch, heads, length, size;

  Expr at(Lowering& op, const Expr& b, const Expr& h, const Expr& n, const Expr& d) const {
    return flat ? op.wide_at(tensor, {b, n, h * size + d}) : op.wide_at(tensor, {b, h, n, d});
  }
};

struct Attention {
  Lowering& op;
  Heads q, k, v;
  Expr group{1};        ///< query heads per key head
  Expr length;          ///< keys seen, past ones included
  Expr past;            ///< past keys; empty without a cache
  Expr mask_length;     ///< of a mask that is shorter than the keys
  std::int64_t left = -1, right = -1;
  bool causal = false;

  bool has_mask() const { return op.has(mask); }
  /// Whether a row may have no key at all.
  bool may_be_empty() const { return has_mask() || op.has(nonpad) || left >= 0 || right >= 0; }
};

Result<Heads> heads_of(Lowering& op, int input, const char* attribute) {
  const ValuePtr x = op.in(input);
  if (x->rank() == 4) return Heads{x, false, x->shape[0], x->shape[1], x->shape[2], x->shape[3]};
  if (x->rank() != 3) return op.bad(fmt::format("input {} has rank {}, 3 or 4 wanted", input, x->rank()));
  const std::int64_t heads = op.integer(attribute, 0);
  if (!op.attribute(attribute)) return op.bad(fmt::format("attribute {} is missing, which inputs of rank 3 need", attribute));
  const auto width = constant_of(x->shape[2]);
  if (!width) return op.cannot(fmt::format("a symbolic width {} of input {}", to_string(x->shape[2]), input));
  if (heads < 1 || *width % heads != 0) {
    return op.bad(fmt::format("width {} of input {} is no multiple of {} heads", *width, input, heads));
  }
  return Heads{x, true, x->shape[0], Expr(heads), x->shape[1], Expr(*width / heads)};
}

Result<void> check_mask(Attention& a) {
  Lowering& op = a.op;
  const ValuePtr m = op.in(mask);
  if (m->type != DType::boolean && !is_float(m->type)) {
    return op.bad(fmt::format("input 3 is {}, bool or a float type wanted", name(m->type)));
  }
  if (m->rank() > 4) return op.bad(fmt::format("input 3 has rank {}, at most 4 wanted", m->rank()));
  const Shape whole{a.q.batch, a.q.heads, a.q.length, a.length};
  for (int d = 0; d < m->rank(); ++d) {
    const Expr& wanted = whole[4 - m->rank() + d];
    if (m->shape[d].is_constant(1)) continue;
    const auto own = constant_of(m->shape[d]), keys = constant_of(wanted);
    if (d + 1 == m->rank() && own && keys && *own < *keys) {
      a.mask_length = m->shape[d];
      continue;
    }
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(m->shape[d], wanted, fmt::format("dims of the mask {} and of the scores {}",
                                                                         to_string(m->shape), to_string(whole))));
  }
  return {};
}

Result<Attention> parse(Lowering& op) {
  Attention a{op, {}, {}, {}};
  AICF_TRY(a.q, heads_of(op, query, "q_num_heads"));
  AICF_TRY(a.k, heads_of(op, key, "kv_num_heads"));
  AICF_TRY(a.v, heads_of(op, value, "kv_num_heads"));
  AICF_RETURN_IF_ERROR(op.want_same_type(query, key));
  if (!is_float(a.q.tensor->type)) return op.bad(fmt::format("input 0 is {}, a float type wanted", name(a.q.tensor->type)));
  AICF_TRY(a.q.batch, op.agree(a.q.batch, a.k.batch, "batch sizes of Q and K"));
  AICF_TRY(a.q.batch, op.agree(a.q.batch, a.v.batch, "batch sizes of Q and V"));
  AICF_TRY(a.k.heads, op.agree(a.k.heads, a.v.heads, "heads of K and V"));
  AICF_TRY(a.k.length, op.agree(a.k.length, a.v.length, "lengths of K and V"));
  AICF_TRY(a.q.size, op.agree(a.q.size, a.k.size, "head sizes of Q and K"));
  if (!op.same(a.q.heads, a.k.heads)) {
    const auto all = constant_of(a.q.heads), own = constant_of(a.k.heads);
    if (!all || !own) return op.cannot("symbolic numbers of heads that differ");
    if (*own == 0 || *all % *own != 0) return op.bad(fmt::format("{} query heads are no multiple of {} key heads", *all, *own));
    a.group = Expr(*all / *own);
  }
  if (op.has(past_key) != op.has(past_value)) return op.bad("past_key and past_value must be given together");
  a.length = a.k.length;
  if (op.has(past_key)) {
    if (op.has(nonpad)) return op.bad("nonpad_kv_seqlen and past_key exclude each other");
    for (const int input : {past_key, past_value}) {
      const ValuePtr p = op.in(input);
      if (p->rank() != 4) return op.bad(fmt::format("input {} has rank {}, 4 wanted", input, p->rank()));
      const Heads& fresh = input == past_key ? a.k : a.v;
      AICF_TRY([[maybe_unused]] const Expr b, op.agree(p->shape[0], a.q.batch, "batch sizes of the cache and Q"));
      AICF_TRY([[maybe_unused]] const Expr h, op.agree(p->shape[1], fresh.heads, "heads of the cache and K"));
      AICF_TRY([[maybe_unused]] const Expr d, op.agree(p->shape[3], fresh.size, "head sizes of the cache and its new part"));
    }
    AICF_TRY(a.past, op.agree(op.in(past_key)->shape[2], op.in(past_value)->shape[2], "lengths of past_key and past_value"));
    a.length = op.simplify(a.past + a.k.length);
  }
  if (op.has(nonpad)) {
    if (!is_integer(op.in(nonpad)->type) || op.in(nonpad)->rank() != 1) return op.bad("nonpad_kv_seqlen must be a list of integers");
    AICF_TRY([[maybe_unused]] const Expr b, op.agree(op.in(nonpad)->shape[0], a.q.batch, "nonpad_kv_seqlen and the batch"));
  }
  a.causal = op.integer("is_causal", 0) != 0;
  a.left = op.integer("left_window_size", -1);
  a.right = op.integer("right_window_size", -1);
  if (op.has(mask)) AICF_RETURN_IF_ERROR(check_mask(a));
  return a;
}

/// [batch, heads, past + new, size] of a cached operand; the operand itself, split into heads, without a cache.
Result<ValuePtr> present(Attention& a, const Heads& fresh, int past_input, int output) {
  Lowering& op = a.op;
  if (!op.has(past_input) && !fresh.flat) return fresh.tensor;
  Values operands{fresh.tensor};
  if (op.has(past_input)) operands.push_back(op.in(past_input));
  const DType type = fresh.tensor->type;
  const std::string name = op.wants(output) ? op.name({}, output) : op.name(past_input == past_key ? "keys" : "values");
  return op.map({name, type, {a.q.batch, fresh.heads, a.length, fresh.size}, operands}, [&](const Index& i) {
    const auto added = [&](const Expr& n) {
      return fresh.flat ? op.at(fresh.tensor, {i[0], n, i[1] * fresh.size + i[3]}) : op.at(fresh.tensor, {i[0], i[1], n, i[3]});
    };
    if (!op.has(past_input)) return added(i[2]);
    return Expr::select(less(i[2], a.past), op.at(op.in(past_input), i), added(i[2] - a.past));
  });
}

/// Whether query i[2] of batch i[0] may see key i[3]; empty when always. Boolean masks are part of it.
Expr allowed(Attention& a, const Shape& shape, const Index& i) {
  Lowering& op = a.op;
  Expr result;
  const Expr valid = op.has(nonpad) ? cast_to(op.at(op.in(nonpad), {i[0]}), DType::i64) : Expr();
  if (a.causal || a.left >= 0 || a.right >= 0) {
    const Expr offset = a.past ? a.past : valid ? valid - a.q.length : Expr(0);
    const Expr position = op.simplify(i[2] + offset);
    if (a.causal) result = less_equal(i[3], position);
    if (a.left >= 0) result = logical_and(result, less_equal(position - Expr(a.left), i[3]));
    if (a.right >= 0) result = logical_and(result, less_equal(i[3], position + Expr(a.right)));
  }
  if (valid) result = logical_and(result, less(i[3], valid));
  if (a.mask_length) result = logical_and(result, less(i[3], a.mask_length));
  if (a.has_mask() && op.in(mask)->type == DType::boolean) {
    result = logical_and(result, op.at_broadcast(op.in(mask), shape, i));
  }
  return result;
}

/// A debugging output in the operator's type.
Result<void> expose(Attention& a, const ValuePtr& scores, int mode) {
  Lowering& op = a.op;
  if (!op.wants(3) || op.integer("qk_matmul_output_mode", 0) != mode) return {};
  const DType type = a.q.tensor->type;
  AICF_TRY(ValuePtr y, op.converted(scores, type, op.name({}, 3)));
  op.result(3, std::move(y));
  return {};
}

}  // namespace

Result<void> attention(Lowering& op) {
  AICF_TRY(Attention a, parse(op));
  const DType type = wide(a.q.tensor->type);
  AICF_TRY(const ValuePtr keys, present(a, a.k, past_key, 1));
  AICF_TRY(const ValuePtr values, present(a, a.v, past_value, 2));
  op.result(1, keys);
  op.result(2, values);
  const auto kv_head = [&](const Expr& h) { return a.group.is_constant(1) ? h : floordiv(h, a.group); };

  const Shape shape{a.q.batch, a.q.heads, a.q.length, a.length};
  AICF_TRY(ValuePtr scores, op.reduce({op.name("scores"), type, shape, {a.q.tensor, keys}}, {a.q.size}, ReduceOp::sum,
                                      [&](const Index& i, const Index& r) {
                                        return a.q.at(op, i[0], i[1], i[2], r[0]) *
                                               op.wide_at(keys, {i[0], kv_head(i[1]), i[3], r[0]});
                                      }));
  Expr scale = number(type, op.real("scale", 0));
  if (!op.attribute("scale")) {
    const auto size = constant_of(a.q.size);
    scale = size ? number(type, 1 / std::sqrt(static_cast<double>(*size)))
                 : Expr::unary(Op::reciprocal, Expr::unary(Op::sqrt, Expr::cast(a.q.size, type)));
  }
  if (!scale.is_constant(1)) {
    AICF_TRY(scores, op.map({op.name("scaled"), type, shape, {scores}}, [&](const Index& i) { return op.at(scores, i) * scale; }));
  }
  AICF_RETURN_IF_ERROR(expose(a, scores, 0));
  if (const double cap = op.real("softcap", 0); cap != 0) {
    AICF_TRY(scores, op.map({op.name("capped"), type, shape, {scores}}, [&](const Index& i) {
      return number(type, cap) * Expr::unary(Op::tanh, op.at(scores, i) / number(type, cap));
    }));
  }
  AICF_RETURN_IF_ERROR(expose(a, scores, 1));

  const bool added = a.has_mask() && op.in(mask)->type != DType::boolean;
  if (a.causal || a.may_be_empty()) {
    Values operands{scores};
    if (a.has_mask()) operands.push_back(op.in(mask));
    if (op.has(nonpad)) operands.push_back(op.in(nonpad));
    AICF_TRY(scores, op.map({op.name("masked"), type, shape, operands}, [&](const Index& i) {
      Expr e = op.at(scores, i);
      if (added) e = e + cast_to(op.at_broadcast(op.in(mask), shape, i), type);
      const Expr visible = allowed(a, shape, i);
      return visible ? Expr::select(visible, e, number(type, -std::numeric_limits<double>::infinity())) : e;
    }));
  }
  AICF_RETURN_IF_ERROR(expose(a, scores, 2));

  const DType precision = onnx_dtype(op.integer("softmax_precision", 0)) == DType::f64 ? DType::f64 : type;
  const Shape rows{shape[0], shape[1], shape[2]};
  const auto row = [](const Index& i) { return Index{i[0], i[1], i[2]}; };
  const auto element = [](const Index& i, const Index& r) { return Index{i[0], i[1], i[2], r[0]}; };
  AICF_TRY(const ValuePtr max, op.reduce({op.name("max"), precision, rows, {scores}}, {a.length}, ReduceOp::max,
                                         [&](const Index& i, const Index& r) { return cast_to(op.at(scores, element(i, r)), precision); }));
  AICF_TRY(const ValuePtr exp, op.map({op.name("exp"), precision, shape, {scores, max}}, [&](const Index& i) {
    return Expr::unary(Op::exp, cast_to(op.at(scores, i), precision) - op.at(max, row(i)));
  }));
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("sum"), precision, rows, {exp}}, {a.length}, ReduceOp::sum,
                                         [&](const Index& i, const Index& r) { return op.at(exp, element(i, r)); }));
  AICF_TRY(ValuePtr weights, op.map({op.name("weights"), precision, shape, {exp, sum, max}}, [&](const Index& i) {
    const Expr p = op.at(exp, i) / op.at(sum, row(i));
    if (!a.may_be_empty()) return p;
    const Expr none = equal(op.at(max, row(i)), number(precision, -std::numeric_limits<double>::infinity()));
    return Expr::select(none, number(precision, 0), p);
  }));
  AICF_TRY(weights, op.converted(weights, type, op.name("weights_f32")));
  AICF_RETURN_IF_ERROR(expose(a, weights, 3));

  const Shape result_shape{a.q.batch, a.q.heads, a.q.length, a.v.size};
  const std::string name = a.q.flat ? op.name("heads") : op.name();
  const DType out = a.q.tensor->type;
  AICF_TRY(ValuePtr y, op.accumulate({name, out, result_shape, {weights, values}}, {a.length}, ReduceOp::sum,
                                     [&](const Index& i, const Index& r) {
                                       return op.at(weights, element(i, r)) *
                                              cast_to(op.wide_at(values, {i[0], kv_head(i[1]), r[0], i[3]}), type);
                                     }));
  if (!a.q.flat) {
    op.result(0, std::move(y));
    return {};
  }
  const Shape flat{a.q.batch, a.q.length, op.simplify(a.q.heads * a.v.size)};
  return op.result_map(out, flat, {y}, [&](const Index& i) {
    return op.at(y, {i[0], floordiv(i[2], a.v.size), i[1], mod(i[2], a.v.size)});
  });
}

}  // namespace aicf::ops
