// Operands, attributes, errors and results of one node.

#include "frontend/canonicalise/lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/semantic/check.h"

namespace aicf {

bool Lowering::has(int input) const {
  return input < inputs() && !node_.inputs[input].empty();
}

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

Result<std::vector<Expr>> Lowering::known_sizes(int input) const {
  const Value& value = *in(input);
  if (!is_integer(value.type)) {
    return bad(fmt::format("input {} is {}, an integer type wanted", input, aicf::name(value.type)));
  }
  if (value.rank() > 1) return bad(fmt::format("input {} has rank {}, 1 wanted", input, value.rank()));
  AICF_TRY(std::vector<Expr> elements, known(input));
  for (Expr& e : elements) e = simplify(cast_to(e, DType::i64));
  return elements;
}

Result<std::vector<std::int64_t>> Lowering::known_integers(int input) const {
  AICF_TRY(const std::vector<Expr> elements, known_sizes(input));
  std::vector<std::int64_t> numbers;
  for (const Expr& e : elements) {
    const auto n = constant_of(e);
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

// ---- errors
// ----------------------------------------------------------------------------------------------------------

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

Result<void> Lowering::want_number(int input) const {
  if (in(input)->type != DType::boolean) return {};
  return bad(fmt::format("input {} is bool, a number wanted", input));
}

Result<void> Lowering::want_float(int input) const {
  if (is_float(in(input)->type)) return {};
  return bad(fmt::format("input {} is {}, a float type wanted", input, aicf::name(in(input)->type)));
}

// ---- results
// ---------------------------------------------------------------------------------------------------------

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

Result<void> Lowering::result_move(const ValuePtr& x, Shape shape, const Source& source, Values also) {
  AICF_TRY(ValuePtr value, move(name(), x, std::move(shape), source, std::move(also)));
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
