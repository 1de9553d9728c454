#include "frontend/canonicalise/attention_core.h"

#include <fmt/format.h>

#include <limits>

namespace aicf {

Result<Heads> heads_of(Lowering& op, int input, std::int64_t heads, const char* attribute) {
  const ValuePtr x = op.in(input);
  if (x->rank() == 4) return whole(x);
  if (x->rank() != 3) return op.bad(fmt::format("input {} has rank {}, 3 or 4 wanted", input, x->rank()));
  if (heads == 0) return op.bad(fmt::format("attribute {} is missing, which inputs of rank 3 need", attribute));
  const auto width = constant_of(x->shape[2]);
  if (!width) return op.cannot(fmt::format("a symbolic width {} of input {}", to_string(x->shape[2]), input));
  if (heads < 1 || *width % heads != 0) {
    return op.bad(fmt::format("width {} of input {} is no multiple of {} heads", *width, input, heads));
  }
  return Heads{x, true, x->shape[0], Expr(heads), x->shape[1], Expr(*width / heads)};
}

Heads whole(const ValuePtr& x) {
  return Heads{x, false, x->shape[0], x->shape[1], x->shape[2], x->shape[3]};
}

Result<ValuePtr> joined_cache(Lowering& op, const Heads& fresh, const ValuePtr& past, const std::string& name) {
  if (!past && !fresh.flat) return fresh.tensor;
  Values operands{fresh.tensor};
  Expr length = fresh.length;
  if (past) {
    operands.push_back(past);
    if (past->type != fresh.tensor->type) {
      return op.bad(
          fmt::format("the cache is {}, its new part {}", aicf::name(past->type), aicf::name(fresh.tensor->type)));
    }
    length = op.simplify(past->shape[2] + fresh.length);
  }
  return op.map(
      {name, fresh.tensor->type, {fresh.batch, fresh.heads, length, fresh.size}, operands}, [&](const Index& i) {
        if (!past) return op.held_at(fresh.tensor, fresh.index(i[0], i[1], i[2], i[3]));
        const Expr added = op.joined_at(operands, fresh.tensor, fresh.index(i[0], i[1], i[2] - past->shape[2], i[3]));
        return Expr::select(less(i[2], past->shape[2]), op.joined_at(operands, past, i), added);
      });
}

Result<ValuePtr> attend(Lowering& op, const AttentionParts& parts) {
  const Heads &q = parts.q, &k = parts.k, &v = parts.v;
  const DType type = wide(q.tensor->type), precision = parts.precision;
  Expr group(1);
  if (!op.same(q.heads, k.heads)) {
    const auto all = constant_of(q.heads), own = constant_of(k.heads);
    if (!all || !own) return op.cannot("symbolic numbers of heads that differ");
    if (*own == 0 || *all % *own != 0) {
      return op.bad(fmt::format("{} query heads are no multiple of {} key heads", *all, *own));
    }
    group = Expr(*all / *own);
  }
  const auto kv_head = [&](const Expr& h) { return group.is_constant(1) ? h : floordiv(h, group); };
  const auto expose = [&](const ValuePtr& scores, int stage) -> Result<void> {
    return parts.expose ? parts.expose(scores, stage) : Result<void>{};
  };

  const Shape shape{q.batch, q.heads, q.length, k.length};
  AICF_TRY(ValuePtr scores, op.reduce({op.name("scores"), type, shape, {q.tensor, k.tensor}}, {q.size}, ReduceOp::sum,
                                      [&](const Index& i, const Index& r) {
                                        return op.at(q.tensor, q.index(i[0], i[1], i[2], r[0])) *
                                               cast_to(op.at(k.tensor, k.index(i[0], kv_head(i[1]), i[3], r[0])), type);
                                      }));
  if (!parts.scale.is_constant(1)) {
    AICF_TRY(scores, op.map({op.name("scaled"), type, shape, {scores}},
                            [&](const Index& i) { return op.at(scores, i) * parts.scale; }));
  }
  AICF_RETURN_IF_ERROR(expose(scores, 0));
  if (parts.softcap != 0) {
    AICF_TRY(scores, op.map({op.name("capped"), type, shape, {scores}}, [&](const Index& i) {
      return number(type, parts.softcap) * Expr::unary(Op::tanh, op.at(scores, i) / number(type, parts.softcap));
    }));
  }
  AICF_RETURN_IF_ERROR(expose(scores, 1));
  if (parts.mask) {
    Values operands{scores};
    operands.insert(operands.end(), parts.mask_operands.begin(), parts.mask_operands.end());
    AICF_TRY(scores, op.map({op.name("masked"), type, shape, operands},
                            [&](const Index& i) { return parts.mask(i, op.at(scores, i)); }));
  }
  AICF_RETURN_IF_ERROR(expose(scores, 2));

  const Shape rows{shape[0], shape[1], shape[2]};
  const auto row = [](const Index& i) { return Index{i[0], i[1], i[2]}; };
  const auto element = [](const Index& i, const Index& r) { return Index{i[0], i[1], i[2], r[0]}; };
  AICF_TRY(const ValuePtr max,
           op.reduce({op.name("max"), precision, rows, {scores}}, {k.length}, ReduceOp::max,
                     [&](const Index& i, const Index& r) { return cast_to(op.at(scores, element(i, r)), precision); }));
  AICF_TRY(const ValuePtr exp, op.map({op.name("exp"), precision, shape, {scores, max}}, [&](const Index& i) {
    return Expr::unary(Op::exp, cast_to(op.at(scores, i), precision) - op.at(max, row(i)));
  }));
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("sum"), precision, rows, {exp}}, {k.length}, ReduceOp::sum,
                                         [&](const Index& i, const Index& r) { return op.at(exp, element(i, r)); }));
  AICF_TRY(ValuePtr weights, op.map({op.name("weights"), precision, shape, {exp, sum, max}}, [&](const Index& i) {
    const Expr p = op.at(exp, i) / op.at(sum, row(i));
    if (!parts.may_be_empty) return p;
    const Expr none = equal(op.at(max, row(i)), number(precision, -std::numeric_limits<double>::infinity()));
    return Expr::select(none, number(precision, 0), p);
  }));
  AICF_TRY(weights, op.converted(weights, type, op.name("weights_" + std::string(aicf::name(type)))));
  AICF_RETURN_IF_ERROR(expose(weights, 3));

  const DType out = q.tensor->type;
  AICF_TRY(ValuePtr y, op.reduce({parts.flat_result ? parts.result_name + "_heads" : parts.result_name,
                                  out,
                                  {q.batch, q.heads, q.length, v.size},
                                  {weights, v.tensor}},
                                 {k.length}, ReduceOp::sum, [&](const Index& i, const Index& r) {
                                   const Expr value = op.at(v.tensor, v.index(i[0], kv_head(i[1]), r[0], i[3]));
                                   return op.at(weights, element(i, r)) * cast_to(value, type);
                                 }));
  if (!parts.flat_result) return y;
  const Shape flat{q.batch, q.length, op.simplify(q.heads * v.size)};
  return op.move(parts.result_name, y, flat, [&](const Index& i) {
    return Index{i[0], floordiv(i[2], v.size), i[1], mod(i[2], v.size)};
  });
}

}  // namespace aicf
