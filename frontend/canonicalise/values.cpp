// Scalars, shapes and values, and the canonical nodes made for values on demand.

#include "frontend/canonicalise/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace aicf {

DType wide(DType type) {
  return type == DType::f16 || type == DType::bf16 ? DType::f32 : type;
}

Expr number(DType type, double value) {
  return Expr::constant(type, value);
}

Expr cast_to(const Expr& e, DType type) {
  return e.type() == wide(type) ? e : Expr::cast(e, wide(type));
}

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
    if (legal)
      id += c;
    else if (!id.empty() && id.back() != '_')
      id += '_';
    if (id.size() == 200) break;
  }
  if (id.empty() || std::isdigit(static_cast<unsigned char>(id.front()))) id = "t" + id;
  return id;
}

std::int64_t element_count(const std::vector<std::int64_t>& dims, std::int64_t limit) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim == 0) return 0;
    if (count > limit / dim) return limit + 1;
    count *= dim;
  }
  return count;
}

std::int64_t known_limit(DType type) {
  return is_float(type) ? max_known_floats : max_known_integers;
}

namespace {

/// start + Σ step·coordinate for an integer tensor whose elements are so; empty otherwise.
Expr progression(const Canonicaliser& state, const Tensor& tensor) {
  constexpr std::int64_t largest = 1 << 20;
  if (!is_integer(tensor.type()) || tensor.size() < 2 || tensor.size() > largest) return {};
  constexpr std::int64_t farthest = std::int64_t{1} << 40;  // keeps the sums below from overflowing
  for (std::int64_t k = 0; k < tensor.size(); ++k) {
    if (tensor.int_at(k) > farthest || tensor.int_at(k) < -farthest) return {};
  }
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

}  // namespace

ValuePtr Canonicaliser::from_tensor(const std::string& name, Tensor tensor) {
  auto value = std::make_shared<Value>();
  value->name = name;
  value->type = value->held = tensor.type();
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
  const bool all_constant =
      value.elements && std::ranges::all_of(*value.elements, [](const Expr& e) { return e.is_constant(); });
  if (value.constant < 0 && all_constant && !value.elements->empty()) {
    Tensor tensor(value.held, *constant_shape(value.shape));
    for (std::size_t k = 0; k < value.elements->size(); ++k) {
      tensor.set(static_cast<std::int64_t>(k), (*value.elements)[k].number());
    }
    value.constant = static_cast<int>(constants.size());
    constants.push_back(std::move(tensor));
  }
  if (value.constant >= 0) {
    graph.add_constant(name, value.held, std::move(axes), value.constant);
    value.tensor = name;
    return value.tensor;
  }
  Node node;
  node.name = name;
  node.type = value.held;
  node.axes = std::move(axes);
  node.origin = value.origin;
  if (value.uniform || value.formula) {
    node.body = value.uniform ? value.uniform : value.formula;
  } else if (value.elements->empty()) {
    node.body = Expr::constant(value.held, 0);
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

}  // namespace aicf
