#include "frontend/semantic/builder.h"

#include <fmt/format.h>

namespace aicf {

NamedAttribute::NamedAttribute(std::string n, std::int64_t i) : name(std::move(n)) {
  value.kind = Attribute::Kind::integer;
  value.i = i;
}
NamedAttribute::NamedAttribute(std::string n, double f) : name(std::move(n)) {
  value.kind = Attribute::Kind::real;
  value.f = f;
}
NamedAttribute::NamedAttribute(std::string n, const char* s) : name(std::move(n)) {
  value.kind = Attribute::Kind::text;
  value.s = s;
}
NamedAttribute::NamedAttribute(std::string n, std::initializer_list<int> is) : name(std::move(n)) {
  value.kind = Attribute::Kind::integers;
  value.is.assign(is.begin(), is.end());
}
NamedAttribute::NamedAttribute(std::string n, std::vector<std::int64_t> is) : name(std::move(n)) {
  value.kind = Attribute::Kind::integers;
  value.is = std::move(is);
}
NamedAttribute::NamedAttribute(std::string n, Tensor t) : name(std::move(n)) {
  value.kind = Attribute::Kind::tensor;
  value.t = std::move(t);
}

GraphBuilder::GraphBuilder(std::string name, int opset) {
  graph_.name = std::move(name);
  graph_.opsets = {{"", opset}, {"com.microsoft", 1}};
}

std::string GraphBuilder::fresh(const std::string& base) {
  return fmt::format("{}_{}", base, count_++);
}

std::string GraphBuilder::input(const std::string& name, DType type, const std::vector<Size>& shape) {
  SemanticInput input{name, type, {}};
  for (const Size& size : shape) input.shape.push_back(size.value);
  graph_.inputs.push_back(std::move(input));
  return name;
}

std::string GraphBuilder::constant(const std::string& name, Tensor value) {
  graph_.initializers[name] = std::move(value);
  return name;
}

std::string GraphBuilder::constant(DType type, std::vector<std::int64_t> shape, const std::vector<double>& elements) {
  Tensor tensor(type, std::move(shape));
  AICF_CHECK(tensor.size() == static_cast<std::int64_t>(elements.size()), "elements of a constant");
  for (std::size_t k = 0; k < elements.size(); ++k) tensor.set(static_cast<std::int64_t>(k), elements[k]);
  return constant(fresh("constant"), std::move(tensor));
}

std::string GraphBuilder::integers(const std::vector<std::int64_t>& values) {
  Tensor tensor(DType::i64, {static_cast<std::int64_t>(values.size())});
  auto* data = reinterpret_cast<std::int64_t*>(tensor.mutable_bytes().data());
  for (std::size_t k = 0; k < values.size(); ++k) data[k] = values[k];
  return constant(fresh("constant"), std::move(tensor));
}

std::string GraphBuilder::add(const std::string& op, std::vector<std::string> inputs,
                              const std::vector<NamedAttribute>& attributes) {
  return add_many(op, std::move(inputs), 1, attributes)[0];
}

std::vector<std::string> GraphBuilder::add_many(const std::string& op, std::vector<std::string> inputs, int outputs,
                                                const std::vector<NamedAttribute>& attributes) {
  std::vector<std::string> names{fresh(op.substr(op.rfind('.') + 1))};
  for (int k = 1; k < outputs; ++k) names.push_back(fmt::format("{}_out{}", names[0], k));
  add(op, std::move(inputs), names, attributes);
  return names;
}

void GraphBuilder::add(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                       const std::vector<NamedAttribute>& attributes) {
  SemanticNode node;
  const std::size_t dot = op.rfind('.');
  node.op = dot == std::string::npos ? op : op.substr(dot + 1);
  node.domain = dot == std::string::npos ? "" : op.substr(0, dot);
  const auto opset = graph_.opsets.find(node.domain);
  node.opset = opset == graph_.opsets.end() ? 0 : opset->second;
  node.name = outputs.empty() ? fresh(node.op) : outputs[0];
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  for (const NamedAttribute& a : attributes) node.attributes[a.name] = a.value;
  graph_.nodes.push_back(std::move(node));
}

void GraphBuilder::output(const std::string& tensor, const std::string& name) {
  if (name.empty() || name == tensor) {
    graph_.outputs.push_back(tensor);
    return;
  }
  // The tensor is renamed where it is made, so that the output costs no operation.
  for (SemanticNode& node : graph_.nodes) {
    for (std::string& o : node.outputs) o = o == tensor ? name : o;
    for (std::string& i : node.inputs) i = i == tensor ? name : i;
  }
  for (std::string& o : graph_.outputs) o = o == tensor ? name : o;
  graph_.outputs.push_back(name);
}

}  // namespace aicf
