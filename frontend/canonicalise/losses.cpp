// Losses over class scores: scores [n, classes, places…], labels [n, places…], weights [classes].

#include <fmt/format.h>

#include <optional>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

Shape without_classes(const Shape& shape) {
  Shape out = shape;
  out.erase(out.begin() + 1);
  return out;
}
Index with_class(const Index& place, const Expr& c) {
  Index out = place;
  out.insert(out.begin() + 1, c);
  return out;
}

/// x − max − log Σ e^(x − max) along the classes.
Result<ValuePtr> log_softmax(Lowering& op, const ValuePtr& x) {
  const Shape places = without_classes(x->shape), classes{x->shape[1]};
  const DType type = wide(x->type);
  AICF_TRY(const ValuePtr max,
           op.reduce({op.name("max"), type, places, {x}}, classes, ReduceOp::max,
                     [&](const Index& i, const Index& r) { return op.at(x, with_class(i, r[0])); }));
  AICF_TRY(const ValuePtr sum, op.reduce({op.name("sum"), type, places, {x, max}}, classes, ReduceOp::sum,
                                         [&](const Index& i, const Index& r) {
                                           return Expr::unary(Op::exp, op.at(x, with_class(i, r[0])) - op.at(max, i));
                                         }));
  return op.map({op.name("log_prob", 1), x->type, x->shape, {x, max, sum}}, [&](const Index& i) {
    Index place = i;
    place.erase(place.begin() + 1);
    return cast_to(op.at(x, i) - op.at(max, place) - Expr::unary(Op::log, op.at(sum, place)), x->type);
  });
}

}  // namespace

Result<void> class_loss(Lowering& op) {
  const bool normalises = op.op() == "SoftmaxCrossEntropyLoss";
  const ValuePtr scores = op.in(0), labels = op.in(1);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  if (scores->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, at least 2 wanted", scores->rank()));
  if (!is_integer(labels->type)) return op.bad(fmt::format("input 1 is {}, an integer wanted", name(labels->type)));
  const Shape places = without_classes(scores->shape);
  if (labels->rank() != static_cast<int>(places.size()))
    return op.bad(fmt::format("input 1 has rank {}, {} wanted", labels->rank(), places.size()));
  for (std::size_t d = 0; d < places.size(); ++d) {
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(places[d], labels->shape[d], "dims of scores and labels"));
  }
  const bool weighted = op.has(2);
  if (weighted) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
    if (op.in(2)->rank() != 1) return op.bad(fmt::format("input 2 has rank {}, 1 wanted", op.in(2)->rank()));
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(scores->shape[1], op.in(2)->shape[0], "the number of classes"));
  }
  const std::string reduction = op.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return op.bad(fmt::format("reduction '{}' is none of none, sum, mean", reduction));

  ValuePtr log_prob = scores;
  if (normalises) {
    AICF_TRY(log_prob, log_softmax(op, scores));
    if (op.wants(1)) op.result(1, log_prob);
  }
  const DType type = wide(scores->type);
  const Attribute* ignored = op.attribute("ignore_index");
  auto is_ignored = [&](const Index& i) {
    return ignored ? equal(cast_to(op.at(labels, i), DType::i64), Expr(ignored->i)) : Expr::boolean(false);
  };
  // An ignored label need not be a class: nothing is read at it.
  auto label = [&](const Index& i) {
    const Expr own = cast_to(op.at(labels, i), DType::i64);
    return ignored ? Expr::select(is_ignored(i), Expr(0), own) : own;
  };
  auto weight = [&](const Index& i) {
    const Expr own = weighted ? op.at(op.in(2), {label(i)}) : Expr::constant(type, 1);
    return ignored ? Expr::select(is_ignored(i), Expr::constant(type, 0), own) : own;
  };
  auto loss = [&](const Index& i) {
    const Expr own = Expr::unary(Op::neg, op.at(log_prob, with_class(i, label(i))));
    const Expr scaled = weighted ? own * op.at(op.in(2), {label(i)}) : own;
    return ignored ? Expr::select(is_ignored(i), Expr::constant(type, 0), scaled) : scaled;
  };
  Values read{log_prob, labels};
  if (weighted) read.push_back(op.in(2));
  if (reduction == "none")
    return op.result_map(scores->type, places, read, [&](const Index& i) { return cast_to(loss(i), scores->type); });

  AICF_TRY(const ValuePtr total, op.reduce({op.name("total"), type, {}, read}, places, ReduceOp::sum,
                                           [&](const Index&, const Index& r) { return loss(r); }));
  std::optional<ValuePtr> weights;  // the mean's divisor, when it depends on data
  if (reduction == "mean" && (weighted || ignored)) {
    AICF_TRY(weights, op.reduce({op.name("weights"), type, {}, read}, places, ReduceOp::sum,
                                [&](const Index&, const Index& r) { return weight(r); }));
  }
  Values parts{total};
  if (weights) parts.push_back(*weights);
  return op.result_map(scores->type, {}, parts, [&](const Index&) {
    Expr y = op.at(total, {});
    if (reduction == "mean") y = y / (weights ? op.at(*weights, {}) : cast_to(op.product(places), type));
    return cast_to(y, scores->type);
  });
}

}  // namespace aicf::ops
