#include "frontend/canonicalise/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/semantic/check.h"

namespace aicf {

DType wide(DType type) { return type == DType::f16 || type == DType::bf16 ? DType::f32 : type; }

Expr number(DType type, double value) { return Expr::constant(type, value); }

Expr cast_to(const Expr& e, DType type) { return e.type() == type ? e : Expr::cast(e, type); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(shape[i]);
  }
  return text + "]";
}

std::optional<std::int64_t> constant_of(const Expr& e) {
  if (!e.is_constant() || is_float(e.type())) return std::nullopt;
  return e.int_number();
}

std::optional<std::vector<std::int64_t>> constant_shape(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (const Expr& dim : shape) {
    const auto value = constant_of(dim);
    if (!value) return std::nullopt;
    dims.push_back(*value);
  }
  return dims;
}

std::string identifier(std::string_view name) {
  std::string id;
  for (const char c : name) {
    const bool legal = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (legal) id += c;
    else if (!id.empty() && id.back() != '_') id += '_';
    if (id.size() == 200) break;
  }
  if (id.empty() || std::isdigit(static_cast<unsigned char>(id.front()))) id = "t" + id;
  return id;
}

namespace {

std::int64_t element_count(const std::vector<std::int64_t>& dims, std::int64_t limit) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim == 0) return 0;
    if (count > limit / dim) return limit + 1;
    count *= dim;
  }
  return count;
}

/// start + Σ step·coordinate for an integer tensor whose elements are so; empty otherwise.
Expr progression(const Canonicaliser& state, const Tensor& tensor) {
  constexpr std::int64_t largest = 1 << 20;
  if (!is_integer(tensor.type()) || tensor.size() < 2 || tensor.size() > largest) return {};
  const std::vector<std::int64_t>& dims = tensor.shape();
  std::vector<std::int64_t> steps(dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (dims[d] > 1) steps[d] = tensor.int_at(stride) - tensor.int_at(0);
    stride *= dims[d];
  }
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t k = 0; k < tensor.size(); ++k) {
    std::int64_t expected = tensor.int_at(0);
    for (std::size_t d = 0; d < dims.size(); ++d) expected += steps[d] * at[d];
    if (tensor.int_at(k) != expected) return {};
    for (std::size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  Expr formula(tensor.int_at(0));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (steps[d] != 0) formula = formula + Expr(steps[d]) * state.coordinate(d);
  }
  return cast_to(formula, tensor.type());
}

std::int64_t known_limit(DType type) { return is_float(type) ? max_known_floats : max_known_integers; }

}  // namespace

// ---- values --------------------------------------------------------------------------------------------------------

ValuePtr Canonicaliser::from_tensor(const std::string& name, Tensor tensor) {
  auto value = std::make_shared<Value>();
  value->name = name;
  value->type = tensor.type();
  for (const std::int64_t dim : tensor.shape()) value->shape.emplace_back(dim);
  const std::int64_t size = tensor.size();
  const auto element = [&](std::int64_t k) {
    return is_float(tensor.type()) ? Expr::constant(tensor.type(), tensor.at(k))
                                   : Expr::integer(tensor.int_at(k), tensor.type());
  };
  if (size == 1) {
    value->uniform = element(0);
  } else if (size <= known_limit(tensor.type())) {
    value->elements.emplace();
    for (std::int64_t k = 0; k < size; ++k) value->elements->push_back(element(k));
  }
  if (!value->uniform) value->formula = progression(*this, tensor);
  value->constant = static_cast<int>(constants.size());
  constants.push_back(std::move(tensor));
  return value;
}

const std::string& Canonicaliser::tensor_of(Value& value) {
  if (!value.tensor.empty()) return value.tensor;
  AICF_CHECK(value.known() || value.formula || value.constant >= 0, "value '" + value.name + "' has no contents");
  std::vector<Axis> axes;
  Index index;
  for (int d = 0; d < value.rank(); ++d) {
    axes.push_back({axis_prefix + std::to_string(d), value.shape[d]});
    index.push_back(Expr::axis(axes.back().name));
  }
  const std::string name = graph.unique_name(identifier(value.name));
  const bool all_constant = value.elements && std::ranges::all_of(*value.elements, [](const Expr& e) { return e.is_constant(); });
  if (value.constant < 0 && all_constant && !value.elements->empty()) {
    Tensor tensor(value.type, *constant_shape(value.shape));
    for (std::size_t k = 0; k < value.elements->size(); ++k) {
      tensor.set(static_cast<std::int64_t>(k), (*value.elements)[k].number());
    }
    value.constant = static_cast<int>(constants.size());
    constants.push_back(std::move(tensor));
  }
  if (value.constant >= 0) {
    graph.add_constant(name, value.type, std::move(axes), value.constant);
    value.tensor = name;
    return value.tensor;
  }
  Node node;
  node.name = name;
  node.type = value.type;
  node.axes = std::move(axes);
  node.origin = value.origin;
  if (value.uniform || value.formula) {
    node.body = value.uniform ? value.uniform : value.formula;
  } else if (value.elements->empty()) {
    node.body = Expr::constant(value.type, 0);
  } else {
    Expr flat(0);
    for (int d = 0; d < value.rank(); ++d) flat = flat * value.shape[d] + index[d];
    node.body = value.elements->back();
    for (std::size_t k = value.elements->size() - 1; k-- > 0;) {
      node.body = Expr::select(equal(flat, Expr(static_cast<std::int64_t>(k))), (*value.elements)[k], node.body);
    }
  }
  value.tensor = graph.node(graph.add(std::move(node))).name;
  return value.tensor;
}

// ---- operands and attributes ---------------------------------------------------------------------------------------

bool Lowering::has(int input) const { return input < inputs() && !node_.inputs[input].empty(); }

const ValuePtr& Lowering::in(int input) const {
  AICF_CHECK(has(input), fmt::format("{} has no input {}", place_of(node_), input));
  const auto found = state_.values.find(node_.inputs[input]);
  AICF_CHECK(found != state_.values.end(), "no value named " + node_.inputs[input]);
  return found->second;
}

const Attribute* Lowering::attribute(const std::string& name) const {
  const auto found = node_.attributes.find(name);
  return found == node_.attributes.end() ? nullptr : &found->second;
}

std::int64_t Lowering::integer(const std::string& name, std::int64_t absent) const {
  const Attribute* a = attribute(name);
  return a ? a->i : absent;
}
double Lowering::real(const std::string& name, double absent) const {
  const Attribute* a = attribute(name);
  return a ? a->f : absent;
}
std::string Lowering::text(const std::string& name, const std::string& absent) const {
  const Attribute* a = attribute(name);
  return a ? a->s : absent;
}

Result<std::vector<Expr>> Lowering::known(int input) const {
  const Value& value = *in(input);
  const auto dims = constant_shape(value.shape);
  if (value.elements) return *value.elements;
  if (value.uniform && dims) {
    const std::int64_t count = element_count(*dims, max_known_integers);
    if (count <= max_known_integers) return std::vector<Expr>(static_cast<std::size_t>(count), value.uniform);
  }
  return cannot(fmt::format("input {} {} must be known while compiling, but it depends on the data", input,
                            in_quotes(node_.inputs[input])));
}

Result<std::vector<std::int64_t>> Lowering::known_integers(int input) const {
  AICF_TRY(const std::vector<Expr> elements, known(input));
  std::vector<std::int64_t> numbers;
  for (const Expr& e : elements) {
    const auto n = constant_of(simplify(e));
    if (!n) {
      return cannot(fmt::format("input {} {} must be constant, but it is {}; bind the symbol", input,
                                in_quotes(node_.inputs[input]), to_string(e)));
    }
    numbers.push_back(*n);
  }
  return numbers;
}

Result<std::optional<std::vector<std::int64_t>>> Lowering::integers(const std::string& name, int input) const {
  if (const Attribute* a = attribute(name)) return a->is;
  if (input < 0 || !has(input)) return std::nullopt;
  AICF_TRY(std::vector<std::int64_t> numbers, known_integers(input));
  return numbers;
}

Result<int> Lowering::axis(std::int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) return bad(fmt::format("axis {} is out of range for rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> Lowering::axes(const std::vector<std::int64_t>& axes, int rank) const {
  std::vector<int> result;
  for (const std::int64_t a : axes) {
    AICF_TRY(const int normal, axis(a, rank));
    if (std::ranges::find(result, normal) != result.end()) return bad(fmt::format("axes repeat {}", a));
    result.push_back(normal);
  }
  return result;
}

// ---- errors --------------------------------------------------------------------------------------------------------

std::unexpected<Diagnostic> Lowering::bad(std::string message) const {
  return bad_input(std::move(message), place_of(node_));
}
std::unexpected<Diagnostic> Lowering::cannot(std::string message) const {
  return unsupported(std::move(message), place_of(node_));
}

Result<void> Lowering::want_same_type(int a, int b) const {
  if (in(a)->type == in(b)->type) return {};
  return bad(fmt::format("inputs {} and {} have element types {} and {}, which must be the same", a, b,
                         aicf::name(in(a)->type), aicf::name(in(b)->type)));
}

Result<void> Lowering::want_type(int input, DType type) const {
  if (in(input)->type == type) return {};
  return bad(fmt::format("input {} is {}, {} wanted", input, aicf::name(in(input)->type), aicf::name(type)));
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

Expr Lowering::simplify(const Expr& e) const { return aicf::simplify(e, ranges()); }

bool Lowering::same(const Expr& a, const Expr& b) const { return a == b || provably_equal(a, b, ranges()); }

Result<Expr> Lowering::agree(const Expr& a, const Expr& b, std::string_view what) {
  if (same(a, b)) return constant_of(b) ? b : a;
  if (constant_of(a) && constant_of(b)) {
    return bad(fmt::format("{} disagree: {} against {}", what, to_string(a), to_string(b)));
  }
  const Range difference = range_of(simplify(a - b), state_.ranges);
  if ((difference.low && *difference.low > 0) || (difference.high && *difference.high < 0)) {
    return bad(fmt::format("{} disagree: {} is never {}", what, to_string(a), to_string(b)));
  }
  const bool recorded = std::ranges::any_of(
      state_.constraints, [&](const ShapeConstraint& c) { return c.left == a && c.right == b; });
  if (!recorded) state_.constraints.push_back({a, b, place_of(node_)});
  return constant_of(b) ? b : a;
}

Result<Shape> Lowering::broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t pad_a = rank - a.size(), pad_b = rank - b.size();
    if (d < pad_a) {
      result[d] = b[d - pad_b];
    } else if (d < pad_b) {
      result[d] = a[d - pad_a];
    } else {
      const Expr &x = a[d - pad_a], &y = b[d - pad_b];
      if (x.is_constant(1)) result[d] = y;
      else if (y.is_constant(1)) result[d] = x;
      else {
        auto dim = agree(x, y, fmt::format("dims of {} and {}", to_string(a), to_string(b)));
        if (!dim) return std::unexpected(dim.error());
        result[d] = *dim;
      }
    }
  }
  return result;
}

Result<Shape> Lowering::broadcast(const Values& operands) {
  Shape shape;
  for (const ValuePtr& v : operands) {
    AICF_TRY(shape, broadcast(shape, v->shape));
  }
  return shape;
}

Expr Lowering::product(std::span<const Expr> dims) const {
  Expr result(1);
  for (const Expr& d : dims) result = result * d;
  return simplify(result);
}

namespace {

/// Splits a product into a constant and its symbolic factors.
void collect_factors(const Expr& e, std::int64_t& constant, std::vector<Expr>& factors) {
  if (const auto n = constant_of(e)) {
    constant *= *n;
  } else if (e.op() == Op::mul) {
    for (const Expr& arg : e.args()) collect_factors(arg, constant, factors);
  } else {
    factors.push_back(e);
  }
}

}  // namespace

Expr Lowering::quotient(const Shape& dividend, const Shape& divisor) const {
  std::int64_t top = 1, bottom = 1;
  std::vector<Expr> top_factors, bottom_factors;
  for (const Expr& e : dividend) collect_factors(simplify(e), top, top_factors);
  for (const Expr& e : divisor) collect_factors(simplify(e), bottom, bottom_factors);
  std::vector<Expr> rest;
  for (const Expr& b : bottom_factors) {
    const auto found = std::ranges::find_if(top_factors, [&](const Expr& t) { return same(t, b); });
    if (found == top_factors.end()) rest.push_back(b);
    else top_factors.erase(found);
  }
  if (rest.empty() && bottom != 0 && top % bottom == 0) {
    Expr result(top / bottom);
    for (const Expr& t : top_factors) result = result * t;
    return simplify(result);
  }
  Expr numerator(top), denominator(bottom);
  for (const Expr& t : top_factors) numerator = numerator * t;
  for (const Expr& b : rest) denominator = denominator * b;
  return simplify(floordiv(numerator, denominator));
}

// ---- bodies --------------------------------------------------------------------------------------------------------

Expr Lowering::element(const Value& value, const Index& index) const {
  if (value.uniform) return value.uniform;
  std::int64_t flat = 0;
  for (int d = 0; d < value.rank(); ++d) {
    const auto coordinate = constant_of(simplify(index[d]));
    AICF_CHECK(coordinate.has_value(), "folding at a symbolic coordinate of '" + value.name + "'");
    const std::int64_t extent = *constant_of(value.shape[d]);
    // The side of a select that is not taken may lie outside.
    if (*coordinate < 0 || *coordinate >= extent) return Expr::constant(value.type, 0);
    flat = flat * extent + *coordinate;
  }
  return (*value.elements)[static_cast<std::size_t>(flat)];
}

Expr Lowering::at(const ValuePtr& value, const Index& index) {
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
  return Expr::load(state_.tensor_of(*value), std::move(simple), value->type);
}

Expr Lowering::at_broadcast(const ValuePtr& value, const Shape& shape, const Index& index) {
  Index own;
  const std::size_t skip = shape.size() - value->shape.size();
  for (std::size_t d = 0; d < value->shape.size(); ++d) {
    const bool stretched = value->shape[d].is_constant(1) && !shape[skip + d].is_constant(1);
    own.push_back(stretched ? Expr(0) : index[skip + d]);
  }
  return at(value, own);
}

Expr Lowering::wide_at(const ValuePtr& value, const Index& index) { return cast_to(at(value, index), wide(value->type)); }

Result<void> Lowering::check_size(const Spec& spec) const {
  double bytes = static_cast<double>(host_size(spec.type));
  for (const Expr& dim : spec.shape) {
    const auto n = constant_of(dim);
    if (n && *n < 0) return bad(fmt::format("the result {} has a negative dim", to_string(spec.shape)));
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
  int operations = 0;
  for_each(e, [&](const Expr& x) {
    switch (x.op()) {
      case Op::exp: case Op::log: case Op::sqrt: case Op::reciprocal: case Op::erf: case Op::tanh: case Op::sin:
      case Op::cos: case Op::pow:
        operations += most_operations;
        break;
      default: ++operations;
    }
  });
  return operations <= most_operations;
}

}  // namespace

Result<ValuePtr> Lowering::map(Spec spec, const Body& body) {
  return reduce(std::move(spec), {}, ReduceOp::none, [&](const Index& i, const Index&) { return body(i); });
}

Result<ValuePtr> Lowering::reduce(Spec spec, const Shape& over, ReduceOp op, const ReduceBody& body) {
  AICF_RETURN_IF_ERROR(check_size(spec));
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
          e = neutral(op, spec.type);
          for (std::int64_t r = 0; r < inner; ++r) e = combine(op, e, body(i, coordinates(r, *extents)));
        }
        elements.push_back(simplify(e));
      }
      folding_ = false;
      if (count == 1) value->uniform = elements[0];
      else value->elements = std::move(elements);
      if (!value->indexed || value->uniform) return value;
    }
  }

  Node node;
  node.name = state_.graph.unique_name(identifier(spec.name));
  node.type = spec.type;
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
  };
  std::ranges::for_each(node.axes, range_of_axis);
  std::ranges::for_each(node.reduce_axes, range_of_axis);
  node.body = empty ? Expr::constant(spec.type, 0) : body(i, r);
  if (empty) {
    node.reduce = ReduceOp::none;
    node.reduce_axes.clear();
  }
  AICF_CHECK(node.body.type() == spec.type, fmt::format("{}: body of type {} for a tensor of {}", place_of(node_),
                                                        aicf::name(node.body.type()), aicf::name(spec.type)));
  if (node.reduce == ReduceOp::none && loads_of(node.body).empty()) {
    const Expr tidied = simplify(tidy(simplify(node.body)));
    if (axes_of(tidied).empty()) value->uniform = tidied;
    else if (is_cheap(tidied)) value->formula = tidied;
    node.body = tidied;
  }
  axis_ranges_.clear();
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

Result<ValuePtr> Lowering::accumulate(Spec spec, const Shape& over, ReduceOp op, const ReduceBody& body) {
  const DType narrow = spec.type;
  if (wide(narrow) == narrow) return reduce(std::move(spec), over, op, body);
  const std::string final_name = spec.name;
  spec.name += "_f32";
  spec.type = wide(narrow);
  AICF_TRY(const ValuePtr sum, reduce(std::move(spec), over, op, body));
  return converted(sum, narrow, final_name);
}

Result<ValuePtr> Lowering::converted(const ValuePtr& value, DType type, const std::string& name) {
  if (value->type == type) return value;
  return map({name, type, value->shape, {value}}, [&](const Index& i) { return Expr::cast(at(value, i), type); });
}

ValuePtr Lowering::scalar(const Expr& e, Shape shape) {
  auto value = std::make_shared<Value>();
  value->name = name("scalar");
  value->type = e.type();
  value->shape = std::move(shape);
  value->uniform = e;
  value->origin = {node_.name};
  return value;
}

// ---- results -------------------------------------------------------------------------------------------------------

std::string Lowering::name(std::string_view suffix, int output) const {
  std::string base;
  if (output < static_cast<int>(node_.outputs.size())) base = node_.outputs[output];
  if (base.empty()) base = fmt::format("{}_{}", node_.name, output);
  return suffix.empty() ? base : fmt::format("{}_{}", base, suffix);
}

bool Lowering::wants(int output) const {
  return output >= 0 && output < static_cast<int>(node_.outputs.size()) && !node_.outputs[output].empty();
}

void Lowering::result(int output, ValuePtr value) {
  if (wants(output)) state_.values[node_.outputs[output]] = std::move(value);
}

Result<void> Lowering::result_map(DType type, Shape shape, Values operands, const Body& body) {
  AICF_TRY(ValuePtr value, map({name(), type, std::move(shape), std::move(operands)}, body));
  result(0, std::move(value));
  return {};
}

Result<ValuePtr> elementwise(Lowering& op, std::string name, DType type, const Values& operands,
                             const std::function<Expr(const std::vector<Expr>&)>& body) {
  AICF_TRY(const Shape shape, op.broadcast(operands));
  return op.map({std::move(name), type, shape, operands}, [&](const Index& i) {
    std::vector<Expr> scalars;
    for (const ValuePtr& v : operands) scalars.push_back(op.at_broadcast(v, shape, i));
    return body(scalars);
  });
}

}  // namespace aicf
