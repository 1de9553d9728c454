// Layer, RMS, batch, instance and group normalisation. Statistics are computed in f32 for narrow types; each step of
// the textbook form is a node of its own.

#include <fmt/format.h>

#include <algorithm>

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

/// scale and bias broadcast to the whole input; a dim that does not fit is named.
Result<void> want_broadcast(Lowering& op, int input, const ValuePtr& x, std::string_view what) {
  const ValuePtr v = op.in(input);
  if (v->rank() > x->rank()) {
    return op.bad(
        fmt::format("{} {} has a higher rank than the input {}", what, to_string(v->shape), to_string(x->shape)));
  }
  for (int d = 0; d < v->rank(); ++d) {
    if (v->shape[d].is_constant(1)) continue;
    AICF_TRY([[maybe_unused]] const Expr dim,
             op.agree(v->shape[d], x->shape[x->rank() - v->rank() + d],
                      fmt::format("dims of {} {} and input {}", what, to_string(v->shape), to_string(x->shape))));
  }
  return {};
}

/// What differs between the operators: which inputs scale and shift (−1: none), and whether the mean is subtracted.
struct NormalisationRule {
  int axis = 0;
  int scale = 1, bias = -1;
  bool centre = true;
  double epsilon = 1e-5;
  int mean_output = -1, deviation_output = -1;
};

Result<void> normalise(Lowering& op, const ValuePtr& x, const NormalisationRule& rule) {
  if (!is_float(x->type)) return op.bad(fmt::format("the input is {}, a float type wanted", name(x->type)));
  const Rows rows(x->shape, rule.axis);
  const bool has_bias = rule.bias >= 0 && op.has(rule.bias);
  AICF_RETURN_IF_ERROR(want_broadcast(op, rule.scale, x, "scale"));
  if (has_bias) AICF_RETURN_IF_ERROR(want_broadcast(op, rule.bias, x, "bias"));
  const DType type = wide(x->type);
  ValuePtr mean, centred = x;
  if (rule.centre) {
    AICF_TRY(mean, mean_of(op, rows, type, "mean", {x}, [&](const Index& i) { return op.at(x, i); }));
    AICF_TRY(centred, op.map({op.name("centred"), type, x->shape, {x, mean}},
                             [&](const Index& i) { return op.at(x, i) - op.at(mean, rows.row(i)); }));
  }
  AICF_TRY(const ValuePtr variance,
           mean_of(op, rows, type, rule.centre ? "variance" : "mean_square", {centred}, [&](const Index& i) {
             const Expr e = op.at(centred, i);
             return e * e;
           }));
  AICF_TRY(const ValuePtr deviation, op.map({op.name("deviation"), type, rows.rows, {variance}}, [&](const Index& i) {
    return Expr::unary(Op::sqrt, op.at(variance, i) + number(type, rule.epsilon));
  }));
  AICF_TRY(const ValuePtr normalised,
           op.map({op.name("normalised"), type, x->shape, {centred, deviation}},
                  [&](const Index& i) { return op.at(centred, i) / op.at(deviation, rows.row(i)); }));
  Values operands{normalised, op.in(rule.scale)};
  if (has_bias) operands.push_back(op.in(rule.bias));
  const DType out = op.in(rule.scale)->type;
  AICF_RETURN_IF_ERROR(op.result_map(out, x->shape, operands, [&](const Index& i) {
    Expr y = op.at(normalised, i) * cast_to(op.at_broadcast(op.in(rule.scale), x->shape, i), type);
    if (has_bias) y = y + cast_to(op.at_broadcast(op.in(rule.bias), x->shape, i), type);
    return cast_to(y, out);
  }));
  // The statistics keep the normalised dims as 1.
  Shape kept = rows.rows;
  kept.resize(x->shape.size(), Expr(1));
  if (mean && op.wants(rule.mean_output)) {
    AICF_TRY(ValuePtr y, op.map({op.name({}, rule.mean_output), type, kept, {mean}},
                                [&](const Index& i) { return op.at(mean, rows.row(i)); }));
    op.result(rule.mean_output, std::move(y));
  }
  if (op.wants(rule.deviation_output)) {
    AICF_TRY(ValuePtr y, op.map({op.name({}, rule.deviation_output), type, kept, {deviation}}, [&](const Index& i) {
      return Expr::unary(Op::reciprocal, op.at(deviation, rows.row(i)));
    }));
    op.result(rule.deviation_output, std::move(y));
  }
  return {};
}

}  // namespace

Result<void> layer_normalisation(Lowering& op) {
  AICF_TRY(const int axis, op.axis(op.integer("axis", -1), op.in(0)->rank()));
  return normalise(op, op.in(0), {axis, 1, 2, true, op.real("epsilon", 1e-5), 1, 2});
}

Result<void> rms_normalisation(Lowering& op) {
  AICF_TRY(const int axis, op.axis(op.integer("axis", -1), op.in(0)->rank()));
  return normalise(op, op.in(0), {axis, 1, -1, false, op.real("epsilon", 1e-5), -1, 1});
}

Result<void> skip_normalisation(Lowering& op) {
  const bool simplified = op.op() == "SkipSimplifiedLayerNormalization";
  const int bias = simplified ? 3 : 4;
  const ValuePtr x = op.in(0);
  if (x->rank() < 1) return op.bad("input 0 has rank 0");
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(want_broadcast(op, 1, x, "skip"));
  Values operands{x, op.in(1)};
  if (op.has(bias)) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, bias));
    AICF_RETURN_IF_ERROR(want_broadcast(op, bias, x, "bias"));
    operands.push_back(op.in(bias));
  }
  AICF_TRY(const ValuePtr sum,
           elementwise(op, op.wants(3) ? op.name({}, 3) : op.name("skipped"), x->type, operands,
                       [](const std::vector<Expr>& s) { return s.size() > 2 ? s[0] + s[1] + s[2] : s[0] + s[1]; }));
  op.result(3, sum);
  return normalise(op, sum, {x->rank() - 1, 2, simplified ? -1 : 3, !simplified, op.real("epsilon", 1e-12), 1, 2});
}

Result<void> embed_layer_normalisation(Lowering& op) {
  // ids, segment ids, word, position and segment tables, scale, bias, mask, position ids.
  const ValuePtr ids = op.in(0), words = op.in(2), places = op.in(3);
  if (ids->rank() != 2 || words->rank() != 2 || places->rank() != 2) return op.bad("ids and tables must have rank 2");
  const bool segments = op.has(1) && op.has(4);
  AICF_RETURN_IF_ERROR(op.want_float(2));
  AICF_RETURN_IF_ERROR(op.want_same_type(2, 3));
  if (segments) AICF_RETURN_IF_ERROR(op.want_same_type(2, 4));
  Values operands{ids, words, places};
  for (const int input : {1, 4, 8}) {
    if (op.has(input)) operands.push_back(op.in(input));
  }
  const Shape shape{ids->shape[0], ids->shape[1], words->shape[1]};
  AICF_TRY(
      const ValuePtr sum,
      op.map({op.wants(2) ? op.name({}, 2) : op.name("embedded"), words->type, shape, operands}, [&](const Index& i) {
        const auto row = [&](const ValuePtr& table, int input) {
          Expr id = i[1];  // of a position, where none is given
          if (input >= 0) {
            const ValuePtr v = op.in(input);
            id = cast_to(op.at(v, {v->shape[0].is_constant(1) ? Expr(0) : i[0], i[1]}), DType::i64);
          }
          op.require_index(id, table->shape[0], false);
          return op.at(table, {id, i[2]});
        };
        const Expr e = row(words, 0) + row(places, op.has(8) ? 8 : -1);
        return segments ? e + row(op.in(4), 1) : e;
      }));
  op.result(2, sum);
  if (op.wants(1)) {  // the number of ones in each row of the mask
    const ValuePtr mask = op.has(7) ? op.in(7) : ValuePtr();
    AICF_TRY(ValuePtr lengths, op.reduce({op.name({}, 1), DType::i32, {shape[0]}, mask ? Values{mask} : Values{}},
                                         {shape[1]}, ReduceOp::sum, [&](const Index& i, const Index& r) {
                                           if (!mask) return Expr::integer(0, DType::i32);
                                           const Expr one = Expr::integer(1, mask->type);
                                           return cast_to(equal(op.at(mask, {i[0], r[0]}), one), DType::i32);
                                         }));
    op.result(1, std::move(lengths));
  }
  return normalise(op, sum, {2, 5, 6, true, op.real("epsilon", 1e-12), -1, -1});
}

Result<void> batch_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (op.integer("training_mode", 0) != 0 || op.wants(1)) return op.cannot("training mode is not supported");
  AICF_RETURN_IF_ERROR(op.want_float(0));
  if (x->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, 2 or more wanted", x->rank()));
  Values operands{x};
  for (int k = 1; k < 5; ++k) {
    if (op.in(k)->rank() != 1) return op.bad(fmt::format("input {} has rank {}, 1 wanted", k, op.in(k)->rank()));
    AICF_TRY([[maybe_unused]] const Expr dim,
             op.agree(op.in(k)->shape[0], x->shape[1], fmt::format("input {} and the channels", k)));
    operands.push_back(op.in(k));
  }
  const DType type = wide(x->type);
  return op.result_map(x->type, x->shape, operands, [&](const Index& i) {
    const auto channel = [&](int k) { return cast_to(op.at(op.in(k), {i[1]}), type); };
    const Expr deviation = Expr::unary(Op::sqrt, channel(4) + number(type, op.real("epsilon", 1e-5)));
    return (op.at(x, i) - channel(3)) / deviation * channel(1) + channel(2);
  });
}

namespace {

/// Instance and group normalisation: statistics over a group of channels and all places.
Result<void> channel_groups(Lowering& op, std::int64_t groups, bool per_group_scale) {
  const ValuePtr x = op.in(0);
  if (x->rank() < 3 && op.op() == "InstanceNormalization") {
    return op.bad(fmt::format("input 0 has rank {}, 3 or more wanted", x->rank()));
  }
  AICF_RETURN_IF_ERROR(op.want_float(0));
  if (x->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, 2 or more wanted", x->rank()));
  for (const int input : {1, 2}) {
    if (op.in(input)->rank() != 1)
      return op.bad(fmt::format("input {} has rank {}, 1 wanted", input, op.in(input)->rank()));
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
  const auto mean_over = [&](const std::string& suffix, const Values& operands,
                             const Lowering::ReduceBody& body) -> Result<ValuePtr> {
    AICF_TRY(const ValuePtr sum,
             op.reduce({op.name(suffix + "_sum"), type, rows, operands}, over, ReduceOp::sum, body));
    return op.map({op.name(suffix), type, rows, {sum}},
                  [&](const Index& i) { return op.at(sum, i) / cast_to(op.product(over), type); });
  };
  AICF_TRY(const ValuePtr mean,
           mean_over("mean", {x}, [&](const Index& i, const Index& r) { return op.at(x, place(i, r)); }));
  AICF_TRY(const ValuePtr centred, op.map({op.name("centred"), type, x->shape, {x, mean}},
                                          [&](const Index& i) { return op.at(x, i) - op.at(mean, group(i)); }));
  AICF_TRY(const ValuePtr variance, mean_over("variance", {centred}, [&](const Index& i, const Index& r) {
             const Expr e = op.at(centred, place(i, r));
             return e * e;
           }));
  const double epsilon = op.real("epsilon", 1e-5);
  return op.result_map(x->type, x->shape, {centred, variance, op.in(1), op.in(2)}, [&](const Index& i) {
    const Expr deviation = Expr::unary(Op::sqrt, op.at(variance, group(i)) + number(type, epsilon));
    const Index scale{per_group_scale ? floordiv(i[1], Expr(width)) : i[1]};
    return op.at(centred, i) / deviation * cast_to(op.at(op.in(1), scale), type) +
           cast_to(op.at(op.in(2), scale), type);
  });
}

}  // namespace

Result<void> instance_normalisation(Lowering& op) {
  return channel_groups(op, 0, false);
}

Result<void> group_normalisation(Lowering& op) {
  return channel_groups(op, op.integer("num_groups", 1), op.opset() < 21);
}

Result<void> lp_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_TRY(const int axis, op.axis(op.integer("axis", -1), x->rank()));
  const std::int64_t p = op.integer("p", 2);
  if (p != 1 && p != 2) return op.bad(fmt::format("p is {}, 1 or 2 wanted", p));
  const auto without = [&](Index i) {
    i.erase(i.begin() + axis);
    return i;
  };
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("norm"), wide(x->type), without(x->shape), {x}}, {x->shape[axis]},
                                         ReduceOp::sum, [&](const Index& i, const Index& r) {
                                           Index at = i;
                                           at.insert(at.begin() + axis, r[0]);
                                           const Expr e = op.at(x, at);
                                           return p == 1 ? Expr::unary(Op::abs, e) : e * e;
                                         }));
  return op.result_map(x->type, x->shape, {x, sum}, [&](const Index& i) {
    const Expr total = op.at(sum, without(i)), zero = number(total.type(), 0);
    const Expr norm = p == 1 ? total : Expr::unary(Op::sqrt, total);
    return Expr::select(equal(total, zero), zero, op.at(x, i) / norm);
  });
}

Result<void> mean_variance_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  const Attribute* a = op.attribute("axes");
  AICF_TRY(std::vector<int> axes, op.axes(a ? a->is : std::vector<std::int64_t>{0, 2, 3}, x->rank()));
  std::ranges::sort(axes);
  const auto split = [&](const Index& all, bool reduced) {
    Index some;
    for (int d = 0; d < x->rank(); ++d) {
      if (std::ranges::binary_search(axes, d) == reduced) some.push_back(all[d]);
    }
    return some;
  };
  const auto joined = [&](const Index& i, const Index& r) {
    Index all;
    std::size_t next_i = 0, next_r = 0;
    for (int d = 0; d < x->rank(); ++d) all.push_back(std::ranges::binary_search(axes, d) ? r[next_r++] : i[next_i++]);
    return all;
  };
  const Shape rows = split(x->shape, false), over = split(x->shape, true);
  const DType type = wide(x->type);
  const Expr count = cast_to(op.product(over), type);
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("sum"), type, rows, {x}}, over, ReduceOp::sum,
                                         [&](const Index& i, const Index& r) { return op.at(x, joined(i, r)); }));
  AICF_TRY(const ValuePtr squares, op.reduce({op.name("squares"), type, rows, {x, sum}}, over, ReduceOp::sum,
                                             [&](const Index& i, const Index& r) {
                                               const Expr e = op.at(x, joined(i, r)) - op.at(sum, i) / count;
                                               return e * e;
                                             }));
  return op.result_map(x->type, x->shape, {x, sum, squares}, [&](const Index& i) {
    const Index row = split(i, false);
    const Expr deviation = Expr::unary(Op::sqrt, op.at(squares, row) / count);
    return (op.at(x, i) - op.at(sum, row) / count) / (deviation + number(type, 1e-9));
  });
}

Result<void> local_response_normalisation(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  if (x->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, at least 2 wanted", x->rank()));
  const std::int64_t size = op.integer("size", 1);
  if (size < 1) return op.bad(fmt::format("size is {}, 1 or more wanted", size));
  const DType type = wide(x->type);
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("squares"), type, x->shape, {x}}, {Expr(size)}, ReduceOp::sum,
                                         [&](const Index& i, const Index& r) {
                                           Index at = i;
                                           at[1] = i[1] + r[0] - Expr((size - 1) / 2);
                                           const Expr e = op.at(x, at);
                                           const Expr inside =
                                               logical_and(less_equal(Expr(0), at[1]), less(at[1], x->shape[1]));
                                           return Expr::select(inside, e * e, number(type, 0));
                                         }));
  return op.result_map(x->type, x->shape, {x, sum}, [&](const Index& i) {
    const Expr base = number(type, op.real("bias", 1)) +
                      number(type, op.real("alpha", 1e-4) / static_cast<double>(size)) * op.at(sum, i);
    return op.at(x, i) / Expr::binary(Op::pow, base, number(type, op.real("beta", 0.75)));
  });
}

}  // namespace aicf::ops
