// Layer, RMS, batch, instance and group normalisation. Statistics are computed in f32 for narrow types; each step of the
// textbook form is a node of its own.

#include <fmt/format.h>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// The leading `split` dims are rows, the others are normalised together.
struct Rows {
  Shape rows, over;
  int split;

  Rows(const Shape& shape, int axis)
      : rows(shape.begin(), shape.begin() + axis), over(shape.begin() + axis, shape.end()), split(axis) {}
  Index row(const Index& i) const { return {i.begin(), i.begin() + split}; }
  static Index join(const Index& i, const Index& r) {
    Index index = i;
    index.insert(index.end(), r.begin(), r.end());
    return index;
  }
};

/// Mean over the rows of body(full index): a sum node and its quotient.
Result<ValuePtr> mean_of(Lowering& op, const Rows& rows, DType type, const std::string& suffix, const Values& operands,
                         const std::function<Expr(const Index&)>& body) {
  AICF_TRY(const ValuePtr sum,
           op.reduce({op.name(suffix + "_sum"), type, rows.rows, operands}, rows.over, ReduceOp::sum,
                     [&](const Index& i, const Index& r) { return body(Rows::join(i, r)); }));
  return op.map({op.name(suffix), type, rows.rows, {sum}},
                [&](const Index& i) { return op.at(sum, i) / cast_to(op.product(rows.over), type); });
}

Result<Rows> rows_of(Lowering& op, const ValuePtr& x) {
  if (!is_float(x->type)) return op.bad(fmt::format("input 0 is {}, a float type wanted", name(x->type)));
  AICF_TRY(const int axis, op.axis(op.integer("axis", -1), x->rank()));
  return Rows(x->shape, axis);
}

/// scale and bias broadcast to the whole input; a dim that does not fit is named.
Result<void> want_broadcast(Lowering& op, int input, const ValuePtr& x, std::string_view what) {
  const ValuePtr v = op.in(input);
  if (v->rank() > x->rank()) {
    return op.bad(fmt::format("{} {} has a higher rank than the input {}", what, to_string(v->shape), to_string(x->shape)));
  }
  for (int d = 0; d < v->rank(); ++d) {
    if (v->shape[d].is_constant(1)) continue;
    AICF_TRY([[maybe_unused]] const Expr dim,
             op.agree(v->shape[d], x->shape[x->rank() - v->rank() + d],
                      fmt::format("dims of {} {} and input {}", what, to_string(v->shape), to_string(x->shape))));
  }
  return {};
}

/// y = normalised · scale (+ bias) in the type of the scale, for LayerNormalization and its kin.
Result<void> scaled(Lowering& op, const ValuePtr& x, const ValuePtr& normalised, bool has_bias) {
  Values operands{normalised, op.in(1)};
  if (has_bias) operands.push_back(op.in(2));
  const DType type = op.in(1)->type;
  return op.result_map(type, x->shape, operands, [&](const Index& i) {
    Expr y = op.at(normalised, i) * cast_to(op.at_broadcast(op.in(1), x->shape, i), normalised->type);
    if (has_bias) y = y + cast_to(op.at_broadcast(op.in(2), x->shape, i), normalised->type);
    return cast_to(y, type);
  });
}

}  // namespace

Result<void> layer_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const Rows rows, rows_of(op, x));
  AICF_RETURN_IF_ERROR(want_broadcast(op, 1, x, "scale"));
  if (op.has(2)) AICF_RETURN_IF_ERROR(want_broadcast(op, 2, x, "bias"));
  const DType type = wide(x->type);
  const double epsilon = op.real("epsilon", 1e-5);
  AICF_TRY(const ValuePtr mean,
           mean_of(op, rows, type, "mean", {x}, [&](const Index& i) { return op.wide_at(x, i); }));
  AICF_TRY(const ValuePtr centred, op.map({op.name("centred"), type, x->shape, {x, mean}}, [&](const Index& i) {
    return op.wide_at(x, i) - op.at(mean, rows.row(i));
  }));
  AICF_TRY(const ValuePtr variance, mean_of(op, rows, type, "variance", {centred}, [&](const Index& i) {
    const Expr e = op.at(centred, i);
    return e * e;
  }));
  AICF_TRY(const ValuePtr deviation, op.map({op.name("deviation"), type, rows.rows, {variance}}, [&](const Index& i) {
    return Expr::unary(Op::sqrt, op.at(variance, i) + number(type, epsilon));
  }));
  AICF_TRY(const ValuePtr normalised,
           op.map({op.name("normalised"), type, x->shape, {centred, deviation}},
                  [&](const Index& i) { return op.at(centred, i) / op.at(deviation, rows.row(i)); }));
  AICF_RETURN_IF_ERROR(scaled(op, x, normalised, op.has(2)));
  // Mean and InvStdDev keep the normalised dims as 1.
  Shape kept = rows.rows;
  kept.resize(x->shape.size(), Expr(1));
  if (op.wants(1)) {
    AICF_TRY(ValuePtr y, op.map({op.name({}, 1), type, kept, {mean}}, [&](const Index& i) { return op.at(mean, rows.row(i)); }));
    op.result(1, std::move(y));
  }
  if (op.wants(2)) {
    AICF_TRY(ValuePtr y, op.map({op.name({}, 2), type, kept, {deviation}}, [&](const Index& i) {
      return Expr::unary(Op::reciprocal, op.at(deviation, rows.row(i)));
    }));
    op.result(2, std::move(y));
  }
  return {};
}

Result<void> rms_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const Rows rows, rows_of(op, x));
  AICF_RETURN_IF_ERROR(want_broadcast(op, 1, x, "scale"));
  const DType type = wide(x->type);
  AICF_TRY(const ValuePtr mean, mean_of(op, rows, type, "mean_square", {x}, [&](const Index& i) {
    const Expr e = op.wide_at(x, i);
    return e * e;
  }));
  AICF_TRY(const ValuePtr root, op.map({op.name("root"), type, rows.rows, {mean}}, [&](const Index& i) {
    return Expr::unary(Op::sqrt, op.at(mean, i) + number(type, op.real("epsilon", 1e-5)));
  }));
  AICF_TRY(const ValuePtr normalised,
           op.map({op.name("normalised"), type, x->shape, {x, root}},
                  [&](const Index& i) { return op.wide_at(x, i) / op.at(root, rows.row(i)); }));
  return scaled(op, x, normalised, false);
}

Result<void> batch_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (op.integer("training_mode", 0) != 0 || op.wants(1)) return op.cannot("training mode is not supported");
  if (x->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, 2 or more wanted", x->rank()));
  Values operands{x};
  for (int k = 1; k < 5; ++k) {
    if (op.in(k)->rank() != 1) return op.bad(fmt::format("input {} has rank {}, 1 wanted", k, op.in(k)->rank()));
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(op.in(k)->shape[0], x->shape[1], fmt::format("input {} and the channels", k)));
    operands.push_back(op.in(k));
  }
  const DType type = wide(x->type);
  return op.result_map(x->type, x->shape, operands, [&](const Index& i) {
    const auto channel = [&](int k) { return cast_to(op.at(op.in(k), {i[1]}), type); };
    const Expr deviation = Expr::unary(Op::sqrt, channel(4) + number(type, op.real("epsilon", 1e-5)));
    return cast_to((op.wide_at(x, i) - channel(3)) / deviation * channel(1) + channel(2), x->type);
  });
}

namespace {

/// Instance and group normalisation: statistics over a group of channels and all places.
Result<void> channel_groups(Lowering& op, std::int64_t groups, bool per_group_scale) {
  const ValuePtr x = op.in(0);
  if (x->rank() < 3 && op.op() == "InstanceNormalization") {
    return op.bad(fmt::format("input 0 has rank {}, 3 or more wanted", x->rank()));
  }
  const auto channels = constant_of(x->shape[1]);
  if (!channels) return op.cannot("the channels must be constant");
  if (groups == 0) groups = *channels;
  if (groups < 1 || *channels % groups != 0) {
    return op.bad(fmt::format("{} channels are no multiple of {} groups", *channels, groups));
  }
  const std::int64_t width = *channels / groups;
  const DType type = wide(x->type);
  Shape over{Expr(width)};
  over.insert(over.end(), x->shape.begin() + 2, x->shape.end());
  const Shape rows{x->shape[0], Expr(groups)};
  const auto place = [&](const Index& i, const Index& r) {
    Index index{i[0], i[1] * Expr(width) + r[0]};
    index.insert(index.end(), r.begin() + 1, r.end());
    return index;
  };
  const auto group = [&](const Index& i) { return Index{i[0], floordiv(i[1], Expr(width))}; };
  const auto mean_over = [&](const std::string& suffix, const Values& operands, const Lowering::ReduceBody& body) -> Result<ValuePtr> {
    AICF_TRY(const ValuePtr sum, op.reduce({op.name(suffix + "_sum"), type, rows, operands}, over, ReduceOp::sum, body));
    return op.map({op.name(suffix), type, rows, {sum}},
                  [&](const Index& i) { return op.at(sum, i) / cast_to(op.product(over), type); });
  };
  AICF_TRY(const ValuePtr mean, mean_over("mean", {x}, [&](const Index& i, const Index& r) { return op.wide_at(x, place(i, r)); }));
  AICF_TRY(const ValuePtr centred, op.map({op.name("centred"), type, x->shape, {x, mean}}, [&](const Index& i) {
    return op.wide_at(x, i) - op.at(mean, group(i));
  }));
  AICF_TRY(const ValuePtr variance, mean_over("variance", {centred}, [&](const Index& i, const Index& r) {
    const Expr e = op.at(centred, place(i, r));
    return e * e;
  }));
  const double epsilon = op.real("epsilon", 1e-5);
  return op.result_map(x->type, x->shape, {centred, variance, op.in(1), op.in(2)}, [&](const Index& i) {
    const Expr deviation = Expr::unary(Op::sqrt, op.at(variance, group(i)) + number(type, epsilon));
    const Index scale{per_group_scale ? floordiv(i[1], Expr(width)) : i[1]};
    return cast_to(op.at(centred, i) / deviation * cast_to(op.at(op.in(1), scale), type) + cast_to(op.at(op.in(2), scale), type),
                   x->type);
  });
}

}  // namespace

Result<void> instance_normalisation(Lowering& op) { return channel_groups(op, 0, false); }

Result<void> group_normalisation(Lowering& op) {
  return channel_groups(op, op.integer("num_groups", 1), op.opset() < 21);
}

}  // namespace aicf::ops
