// Values that come from attributes, shapes and coordinates.

#include <fmt/format.h>

#include <cmath>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {

Result<void> constant(Lowering& op) {
  const SemanticNode& node = op.node();
  if (node.attributes.size() != 1) return op.bad(fmt::format("{} values, one wanted", node.attributes.size()));
  const auto& [key, a] = *node.attributes.begin();
  const auto count = [](std::size_t n) { return std::vector<std::int64_t>{static_cast<std::int64_t>(n)}; };
  Tensor tensor;
  switch (a.kind) {
    case Attribute::Kind::tensor:
      tensor = a.t;
      break;
    case Attribute::Kind::integer:
    case Attribute::Kind::integers: {
      const bool list = a.kind == Attribute::Kind::integers;
      tensor = Tensor(DType::i64, list ? count(a.is.size()) : std::vector<std::int64_t>{});
      auto* data = reinterpret_cast<std::int64_t*>(tensor.mutable_bytes().data());
      if (!list) data[0] = a.i;
      for (std::size_t k = 0; list && k < a.is.size(); ++k) data[k] = a.is[k];
      break;
    }
    case Attribute::Kind::real:
    case Attribute::Kind::reals: {
      const bool list = a.kind == Attribute::Kind::reals;
      tensor = Tensor(DType::f32, list ? count(a.fs.size()) : std::vector<std::int64_t>{});
      if (!list) tensor.set(0, a.f);
      for (std::size_t k = 0; list && k < a.fs.size(); ++k) tensor.set(static_cast<std::int64_t>(k), a.fs[k]);
      break;
    }
    default:
      return op.cannot(fmt::format("attribute {} holds text, which AICF does not compute with", key));
  }
  op.result(0, op.state().from_tensor(op.name(), std::move(tensor)));
  return {};
}

Result<void> constant_of_shape(Lowering& op) {
  AICF_TRY(std::vector<Expr> dims, op.known_sizes(0));
  Expr fill = number(DType::f32, 0);
  if (const Attribute* a = op.attribute("value")) {
    if (a->t.size() != 1) return op.bad(fmt::format("attribute value has {} elements, 1 wanted", a->t.size()));
    fill = is_float(a->t.type()) ? number(a->t.type(), a->t.at(0)) : Expr::integer(a->t.int_at(0), a->t.type());
  }
  Shape shape;
  for (const Expr& e : dims) {
    const Expr dim = op.simplify(e);
    if (const auto n = constant_of(dim); n && *n < 0)
      return op.bad(fmt::format("negative dim in the shape {}", to_string(dims)));
    shape.push_back(dim);
  }
  return op.result_map(fill.type(), shape, {}, [&](const Index&) { return fill; });
}

namespace {

/// The integer behind a number: itself, an integral float constant, or what was cast to float.
std::optional<Expr> integral(const Expr& e) {
  if (is_integer(e.type())) return cast_to(e, DType::i64);
  if (e.is_constant() && std::floor(e.number()) == e.number() && std::abs(e.number()) < 0x1p53) {
    return Expr(static_cast<std::int64_t>(e.number()));
  }
  if (e.op() == Op::cast && is_integer(e.args()[0].type())) return cast_to(e.args()[0], DType::i64);
  return std::nullopt;
}

}  // namespace

Result<void> range(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
  const DType type = op.in(0)->type;
  std::vector<Expr> bounds;
  for (int k = 0; k < 3; ++k) {
    AICF_TRY(const std::vector<Expr> elements, op.known(k));
    if (elements.size() != 1)
      return op.bad(fmt::format("input {} has {} elements, a scalar wanted", k, elements.size()));
    bounds.push_back(op.simplify(cast_to(elements[0], type)));
  }
  if (bounds[2].is_constant(0)) return op.bad("delta 0");
  Expr extent;
  const auto start = integral(bounds[0]), limit = integral(bounds[1]), delta = integral(bounds[2]);
  if (start && limit && delta && constant_of(*delta)) {
    // |limit − start| may pass 2^63; sizes of that order are refused below.
    const auto first = constant_of(*start), last = constant_of(*limit);
    if (first && last && std::abs(static_cast<double>(*last) - static_cast<double>(*first)) > 0x1p62) {
      return op.bad(fmt::format("the range from {} to {} is too large", *first, *last));
    }
    const std::int64_t step = *constant_of(*delta);
    const Expr length = step > 0 ? *limit - *start : *start - *limit;
    extent = op.simplify(ceildiv(length, Expr(std::abs(step))));
    const Range known = range_of(extent, op.ranges());
    if (!known.low || *known.low < 0) extent = op.simplify(Expr::binary(Op::max, extent, Expr(0)));
  } else if (bounds[0].is_constant() && bounds[1].is_constant() && bounds[2].is_constant()) {
    const double count = std::ceil((bounds[1].number() - bounds[0].number()) / bounds[2].number());
    if (!(count < 0x1p40)) return op.bad(fmt::format("a range of {:.3g} elements is too large", count));
    extent = Expr(static_cast<std::int64_t>(std::max(count, 0.0)));
  } else {
    return op.cannot(fmt::format("the length of a range from {} to {} by {}", to_string(bounds[0]),
                                 to_string(bounds[1]), to_string(bounds[2])));
  }
  AICF_TRY(ValuePtr y, op.map({op.name(), type, {extent}, {}, true}, [&](const Index& i) {
    if (start && delta) return cast_to(op.simplify(*start + *delta * i[0]), type);
    return bounds[0] + bounds[2] * cast_to(i[0], type);
  }));
  op.result(0, std::move(y));
  return {};
}

Result<void> shape(Lowering& op) {
  const Shape& dims = op.in(0)->shape;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto bound = [&](const std::string& key, std::int64_t absent) {
    const std::int64_t n = op.integer(key, absent);
    return std::clamp(n < 0 ? n + rank : n, std::int64_t{0}, rank);
  };
  const std::int64_t start = bound("start", 0), end = std::max(bound("end", rank), start);
  auto value = std::make_shared<Value>();
  value->name = op.name();
  value->type = value->held = DType::i64;
  value->shape = {Expr(end - start)};
  value->origin = {op.node().name};
  value->elements.emplace(dims.begin() + start, dims.begin() + end);
  if (value->elements->size() == 1) value->uniform = value->elements->front();
  op.result(0, std::move(value));
  return {};
}

Result<void> size(Lowering& op) {
  ValuePtr value = op.scalar(op.product(op.in(0)->shape));
  value->name = op.name();
  op.result(0, std::move(value));
  return {};
}

Result<void> eye_like(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (x->rank() != 2) return op.bad(fmt::format("input 0 has rank {}, 2 wanted", x->rank()));
  DType type = x->type;
  if (const std::int64_t given = op.integer("dtype", 0); given != 0) {
    const auto wanted = onnx_dtype(given);
    if (!wanted) return op.cannot(fmt::format("attribute dtype is element type {}", onnx_type_name(given)));
    type = *wanted;
  }
  const std::int64_t k = op.integer("k", 0);
  AICF_TRY(ValuePtr y, op.map({op.name(), type, x->shape, {}, true}, [&](const Index& i) {
    return Expr::select(equal(i[1], i[0] + Expr(k)), Expr::constant(type, 1), Expr::constant(type, 0));
  }));
  op.result(0, std::move(y));
  return {};
}

Result<void> one_hot(Lowering& op) {
  const ValuePtr indices = op.in(0), values = op.in(2);
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_RETURN_IF_ERROR(op.want_number(1));
  AICF_TRY(const std::vector<Expr> depths, op.known(1));
  if (depths.size() != 1) return op.bad(fmt::format("depth has {} elements, 1 wanted", depths.size()));
  const Expr depth = op.simplify(cast_to(depths[0], DType::i64));
  if (values->rank() != 1 || !values->shape[0].is_constant(2)) {
    return op.bad(fmt::format("values have shape {}, two wanted", to_string(values->shape)));
  }
  AICF_TRY(const int axis, op.axis(op.integer("axis", -1), indices->rank() + 1));
  Shape shape = indices->shape;
  shape.insert(shape.begin() + axis, depth);
  return op.result_map(values->type, shape, {indices, values}, [&](const Index& i) {
    Index place = i;
    place.erase(place.begin() + axis);
    const Expr given = cast_to(op.at(indices, place), DType::i64);
    const Expr at = Expr::select(less(given, Expr(0)), given + depth, given);
    return Expr::select(equal(at, i[axis]), op.at(values, {Expr(1)}), op.at(values, {Expr(0)}));
  });
}

}  // namespace aicf::ops
