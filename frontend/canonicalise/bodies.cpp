// Bodies: elements of operands in whatever form they are known, folding, and the nodes that come of it.

#include "frontend/canonicalise/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/semantic/check.h"
#include "mir/support/expr_extents.h"

namespace aicf {

Expr Lowering::element(const Value& value, const Index& index) const {
  if (value.uniform) return value.uniform;
  std::int64_t flat = 0;
  for (int d = 0; d < value.rank(); ++d) {
    const auto coordinate = constant_of(simplify(index[d]));
    AICF_CHECK(coordinate.has_value(), "folding at a symbolic coordinate of '" + value.name + "'");
    const std::int64_t extent = *constant_of(value.shape[d]);
    // The side of a select that is not taken may lie outside.
    if (*coordinate < 0 || *coordinate >= extent) return Expr::constant(value.held, 0);
    flat = flat * extent + *coordinate;
  }
  return (*value.elements)[static_cast<std::size_t>(flat)];
}

Expr Lowering::at(const ValuePtr& value, const Index& index) {
  return cast_to(held_at(value, index), value->type);
}

Expr Lowering::held_at(const ValuePtr& value, const Index& index) {
  AICF_CHECK(index.size() == value->shape.size(), "rank of an index differs from '" + value->name + "'");
  if (value->uniform) return value->uniform;
  if (folding_) return element(*value, index);
  if (value->formula) {
    ExprMap coordinates;
    for (std::size_t d = 0; d < index.size(); ++d) coordinates.emplace(state_.coordinate(d).name(), index[d]);
    return simplify(substitute_axes(value->formula, coordinates));
  }
  Index simple;
  for (const Expr& e : index) simple.push_back(simplify(e));
  return Expr::load(state_.tensor_of(*value), std::move(simple), value->held);
}

Index Lowering::broadcast_index(const ValuePtr& value, const Shape& shape, const Index& index) const {
  Index own;
  const std::size_t skip = shape.size() - value->shape.size();
  for (std::size_t d = 0; d < value->shape.size(); ++d) {
    const bool stretched = value->shape[d].is_constant(1) && !shape[skip + d].is_constant(1);
    own.push_back(stretched ? Expr(0) : index[skip + d]);
  }
  return own;
}

Expr Lowering::at_broadcast(const ValuePtr& value, const Shape& shape, const Index& index) {
  return at(value, broadcast_index(value, shape, index));
}

Expr Lowering::joined_at(const Values& values, const ValuePtr& value, const Index& index) {
  const bool alike = std::ranges::all_of(values, [&](const ValuePtr& v) { return v->held == value->held; });
  return alike ? held_at(value, index) : at(value, index);
}

namespace {

/// The integer input whose elements `e` reads, all of them, directly or through moves; empty if it reads no such input.
std::string input_behind(const Graph& graph, Expr e, ExprMap extents) {
  while (e.op() == Op::cast) e = e.args()[0];
  if (e.op() != Op::load) return {};
  const Node& node = graph.node(e.name());
  for (std::size_t d = 0; d < node.axes.size(); ++d) {
    const Expr &index = e.args()[d], &dim = node.axes[d].extent;
    if (dim.is_constant(1) && index.is_constant(0)) continue;
    const auto extent = index.op() == Op::axis ? extents.find(index.name()) : extents.end();
    if (extent == extents.end() || extent->second != dim) return {};
    extents.erase(extent);  // a second dim at the same coordinate would leave elements out
  }
  if (node.kind == NodeKind::input) return is_integer(node.type) ? node.name : "";
  if (node.kind != NodeKind::compute || node.reduce != ReduceOp::none) return {};
  ExprMap own;
  for (const Axis& axis : node.axes) own[axis.name] = axis.extent;
  return input_behind(graph, node.body, std::move(own));
}

}  // namespace

void Lowering::require_index(const Expr& index, const Expr& dim, bool negative) {
  if (folding_) return;
  const std::string place = place_of(node_);
  if (!loads_of(index).empty()) {
    const std::string input = input_behind(state_.graph, index, extents_);
    const auto same = [&](const IndexConstraint& c) { return c.input == input && c.size == dim && c.place == place; };
    if (!input.empty() && std::ranges::none_of(state_.indices, same)) {
      state_.indices.push_back({input, dim, negative, place});
    }
    return;
  }
  const auto require = [&](const std::optional<Expr>& low, const std::optional<Expr>& high) {
    if (!low || !high) return;
    const Expr left = simplify(*low), right = simplify(*high);
    const Range room = range_of(simplify(right - left), state_.ranges);
    if (room.low && *room.low >= 0) return;
    if (room.high && *room.high < 0) {
      wrong_index_ = fmt::format("an index reaches {} in a dim of {}", to_string(simplify(index)), to_string(dim));
    }
    const auto same = [&](const ShapeConstraint& c) { return c.at_most && c.left == left && c.right == right; };
    if (std::ranges::none_of(state_.constraints, same)) state_.constraints.push_back({left, right, place, true});
  };
  const Expr e = simplify(index);
  if (const auto top = extreme(e, extents_, true)) require(*top + Expr(1), dim);
  const Range known = range_of(e, ranges());
  if (known.low && *known.low >= 0) return;
  const std::optional<Expr> bottom = extreme(e, extents_, false);
  if (bottom && negative) require(-*bottom, dim);
  if (bottom && !negative) require(Expr(0), bottom);
}

Result<void> Lowering::check_size(const Spec& spec) const {
  double bytes = static_cast<double>(host_size(spec.type));
  for (const Expr& dim : spec.shape) {
    const auto n = constant_of(dim);
    // What is neither a number nor symbolic has overflowed.
    if (!n && symbols_of(dim).empty())
      return bad(fmt::format("the result {} has a dim beyond 64 bits", to_string(spec.shape)));
    const auto most = range_of(dim, state_.ranges).high;
    if (most && *most < 0) return bad(fmt::format("the result {} has a negative dim", to_string(spec.shape)));
    if (n) bytes *= static_cast<double>(*n);
  }
  if (bytes > static_cast<double>(max_tensor_bytes)) {
    return bad(fmt::format("the result {} of {} would take {:.4g} TiB, more than the limit of 1 TiB",
                           to_string(spec.shape), aicf::name(spec.type), bytes / 0x1p40));
  }
  return {};
}

namespace {

/// Worth computing at every use: few operations, none of them transcendental.
bool is_cheap(const Expr& e) {
  constexpr int most_operations = 48;
  if (e.tree_size() > 4 * most_operations) return false;
  int operations = 0;
  for_each(e, [&](const Expr& x) {
    switch (x.op()) {
      case Op::exp:
      case Op::log:
      case Op::sqrt:
      case Op::reciprocal:
      case Op::erf:
      case Op::tanh:
      case Op::sin:
      case Op::cos:
      case Op::pow:
        operations += most_operations;
        break;
      default:
        ++operations;
    }
  });
  return operations <= most_operations;
}

}  // namespace

Result<ValuePtr> Lowering::map(Spec spec, const Body& body) {
  return reduce(std::move(spec), {}, ReduceOp::none, [&](const Index& i, const Index&) { return body(i); });
}

Result<ValuePtr> Lowering::reduce(Spec spec, const Shape& over, ReduceOp op, const ReduceBody& body) {
  if (over.empty()) op = ReduceOp::none;
  AICF_RETURN_IF_ERROR(check_size(spec));
  if (spec.shape.size() + over.size() > max_rank)
    return cannot(
        fmt::format("a tensor of rank {}, at most {} are supported", spec.shape.size() + over.size(), max_rank));
  auto value = std::make_shared<Value>();
  value->name = spec.name;
  value->type = spec.type;
  value->shape = spec.shape;
  value->origin = {node_.name};
  value->indexed = spec.indexed || std::ranges::any_of(spec.operands, [](const ValuePtr& v) { return v->indexed; });

  const bool all_known = std::ranges::all_of(spec.operands, [](const ValuePtr& v) { return v->known(); });
  const auto dims = constant_shape(spec.shape);
  const auto extents = constant_shape(over);
  if (all_known && dims && extents) {
    const std::int64_t limit = known_limit(spec.type);
    const std::int64_t count = element_count(*dims, limit);
    const std::int64_t inner = element_count(*extents, max_known_integers);
    constexpr std::int64_t fold_budget = 1 << 20;
    constexpr std::uint64_t largest_size = 4096;
    if (count <= limit && inner <= max_known_integers && state_.fold_steps + count * inner <= fold_budget) {
      state_.fold_steps += count * inner;
      folding_ = true;
      std::vector<Expr> elements;
      const auto coordinates = [](std::int64_t flat, const std::vector<std::int64_t>& sizes) {
        Index index(sizes.size());
        for (std::size_t d = sizes.size(); d-- > 0;) {
          index[d] = Expr(flat % sizes[d]);
          flat /= sizes[d];
        }
        return index;
      };
      for (std::int64_t k = 0; k < count; ++k) {
        const Index i = coordinates(k, *dims);
        Expr e;
        if (op == ReduceOp::none) {
          e = body(i, {});
        } else {
          e = neutral(op, wide(spec.type));
          for (std::int64_t r = 0; r < inner; ++r) e = combine(op, e, body(i, coordinates(r, *extents)));
        }
        elements.push_back(simplify(e));
        if (elements.back().tree_size() > largest_size) {
          folding_ = false;
          return cannot(fmt::format("a size is an expression of more than {} operations; bind symbols", largest_size));
        }
      }
      folding_ = false;
      value->held = elements.empty() ? spec.type : elements[0].type();
      const bool equal = std::ranges::all_of(elements, [&](const Expr& e) { return e == elements[0]; });
      if (count > 0 && equal)
        value->uniform = elements[0];
      else
        value->elements = std::move(elements);
      if (!value->indexed || value->uniform) return value;
    }
  }

  Node node;
  node.name = state_.graph.unique_name(identifier(spec.name));
  node.origin = {node_.name};
  node.reduce = op;
  Index i, r;
  for (std::size_t d = 0; d < spec.shape.size(); ++d) {
    node.axes.push_back({state_.axis_prefix + std::to_string(d), spec.shape[d]});
    i.push_back(Expr::axis(node.axes.back().name));
  }
  for (std::size_t d = 0; d < over.size(); ++d) {
    node.reduce_axes.push_back({state_.reduce_prefix + std::to_string(d), over[d]});
    r.push_back(Expr::axis(node.reduce_axes.back().name));
  }
  // An empty result has no element to describe; its body must not divide by its zero dims.
  const bool empty = std::ranges::any_of(spec.shape, [](const Expr& d) { return d.is_constant(0); });
  axis_ranges_ = state_.ranges;
  const auto range_of_axis = [&](const Axis& axis) {
    Range range{0, {}};
    if (const auto high = range_of(axis.extent, state_.ranges).high) range.high = std::max<std::int64_t>(*high - 1, 0);
    axis_ranges_[axis.name] = range;
    extents_[axis.name] = axis.extent;
  };
  std::ranges::for_each(node.axes, range_of_axis);
  std::ranges::for_each(node.reduce_axes, range_of_axis);
  node.body = empty ? Expr::constant(spec.type, 0) : body(i, r);
  if (empty) {
    node.reduce = ReduceOp::none;
    node.reduce_axes.clear();
  }
  node.type = value->held = node.body.type();
  AICF_CHECK(node.type == spec.type || node.type == wide(spec.type),
             fmt::format("{}: body of type {} for a tensor of {}", place_of(node_), aicf::name(node.body.type()),
                         aicf::name(spec.type)));
  if (node.reduce == ReduceOp::none && loads_of(node.body).empty()) {
    const Expr tidied = simplify(tidy(simplify(node.body)));
    if (axes_of(tidied).empty())
      value->uniform = tidied;
    else if (is_cheap(tidied))
      value->formula = tidied;
    node.body = tidied;
  }
  axis_ranges_.clear();
  extents_.clear();
  if (!wrong_index_.empty() && !empty) return bad(wrong_index_);
  // What was inlined is part of where this value comes from.
  for (const ValuePtr& operand : spec.operands) {
    if (!operand->formula || !operand->tensor.empty()) continue;
    for (const std::string& name : operand->origin) {
      if (std::ranges::find(node.origin, name) == node.origin.end()) node.origin.push_back(name);
    }
  }
  value->origin = node.origin;
  if (value->uniform || value->formula) return value;
  value->tensor = state_.graph.node(state_.graph.add(std::move(node))).name;
  return value;
}

Result<ValuePtr> Lowering::move(std::string name, const ValuePtr& x, Shape shape, const Source& source, Values also) {
  also.push_back(x);
  return map({std::move(name), x->type, std::move(shape), std::move(also)},
             [&](const Index& i) { return held_at(x, source(i)); });
}

/// Whether f16 or bf16 would make a finite constant infinite, a choice between such too, or a single one 0. Converters of models write such Casts of
/// f32 mask constants and epsilons; the model means the number.
bool Lowering::leaves_range(const Value& value, DType type) const {
  if (wide(type) == type || !is_float(value.type)) return false;
  const auto overflows = [&](double x) { return std::isfinite(x) && !std::isfinite(round_to(type, x)); };
  if (value.uniform) {
    if (!value.uniform.is_constant()) return false;
    const double x = value.uniform.number();
    return overflows(x) || (x != 0 && round_to(type, x) == 0);
  }
  if (value.elements) {
    return std::ranges::any_of(*value.elements,
                               [&](const Expr& e) { return e.is_constant() && overflows(e.number()); });
  }
  const auto any = [&](int constant) {
    const Tensor& tensor = state_.constants[static_cast<std::size_t>(constant)];
    for (std::int64_t k = 0; k < tensor.size(); ++k) {
      if (overflows(tensor.at(k))) return true;
    }
    return false;
  };
  if (value.constant >= 0) return any(value.constant);
  // Made of constants by selects and moves: whether one overflows; else empty.
  int steps = 256;
  constexpr std::int64_t most_elements = 1 << 22;
  const std::function<std::optional<bool>(const Expr&)> made = [&](const Expr& e) -> std::optional<bool> {
    if (--steps < 0) return std::nullopt;
    if (e.is_constant()) return overflows(e.number());
    if (e.op() == Op::cast && is_float(e.args()[0].type())) return made(e.args()[0]);
    if (e.op() == Op::select) {
      const std::optional<bool> a = made(e.args()[1]), b = a ? made(e.args()[2]) : a;
      if (!b) return b;
      return *a || *b;
    }
    if (e.op() != Op::load) return std::nullopt;
    const Node& node = state_.graph.node(e.name());
    if (node.kind == NodeKind::constant) {
      if (state_.constants[static_cast<std::size_t>(node.constant)].size() > most_elements) return std::nullopt;
      return any(node.constant);
    }
    if (node.kind != NodeKind::compute || node.reduce != ReduceOp::none) return std::nullopt;
    return made(node.body);
  };
  if (value.formula) return made(value.formula).value_or(false);
  const Node& node = state_.graph.node(value.tensor);
  return node.kind == NodeKind::compute && node.reduce == ReduceOp::none && made(node.body).value_or(false);
}

Result<ValuePtr> Lowering::converted(const ValuePtr& value, DType type, const std::string& name) {
  if (value->type == type) return value;
  const DType held = leaves_range(*value, type) ? wide(type) : type;
  return map({name, type, value->shape, {value}}, [&](const Index& i) { return Expr::cast(at(value, i), held); });
}

ValuePtr Lowering::scalar(const Expr& e, Shape shape) {
  auto value = std::make_shared<Value>();
  value->name = name("scalar");
  value->type = value->held = e.type();
  value->shape = std::move(shape);
  value->uniform = e;
  value->origin = {node_.name};
  return value;
}

}  // namespace aicf
