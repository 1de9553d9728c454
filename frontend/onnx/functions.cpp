#include "frontend/onnx/functions.h"

#include <fmt/format.h>

#include <algorithm>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "frontend/semantic/check.h"

namespace aicf {
namespace {

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string call_name(const onnx::NodeProto& proto, std::int64_t position) {
  return proto.name().empty() ? fmt::format("{}_{}", proto.op_type(), position) : proto.name();
}

/// Defaults of function attributes came with IR version 9 (field 11), after the header this is built with.
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function) {
  constexpr int attribute_proto_field = 11;
  std::vector<onnx::AttributeProto> defaults;
  const auto& unknown = function.GetReflection()->GetUnknownFields(function);
  for (int k = 0; k < unknown.field_count(); ++k) {
    const auto& field = unknown.field(k);
    if (field.number() != attribute_proto_field ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      continue;
    onnx::AttributeProto a;
    if (a.ParseFromString(field.length_delimited())) defaults.push_back(std::move(a));
  }
  return defaults;
}

using AttributeValues = std::map<std::string, const onnx::AttributeProto*>;
using Rename = std::function<std::string(const std::string&)>;

/// Puts the call's values in the place of attribute references, and renames tensors, in subgraphs too. A reference to an
/// attribute that the call leaves out means the operator's own default.
void fill(google::protobuf::RepeatedPtrField<onnx::AttributeProto>& attributes, const AttributeValues& values,
          const Rename& renamed) {
  for (int k = 0; k < attributes.size();) {
    onnx::AttributeProto& a = attributes[k];
    if (!a.ref_attr_name().empty()) {
      const auto value = values.find(a.ref_attr_name());
      if (value == values.end()) {
        attributes.DeleteSubrange(k, 1);
        continue;
      }
      const std::string name = a.name();
      a = *value->second;
      a.set_name(name);
    } else if (a.has_g()) {
      onnx::GraphProto& graph = *a.mutable_g();
      for (auto& info : *graph.mutable_input()) info.set_name(renamed(info.name()));
      for (auto& info : *graph.mutable_output()) info.set_name(renamed(info.name()));
      for (auto& tensor : *graph.mutable_initializer()) tensor.set_name(renamed(tensor.name()));
      for (auto& node : *graph.mutable_node()) {
        for (auto& name : *node.mutable_input()) name = renamed(name);
        for (auto& name : *node.mutable_output()) name = renamed(name);
        fill(*node.mutable_attribute(), values, renamed);
      }
    }
    ++k;
  }
}

}  // namespace

Result<void> FunctionTable::add(const onnx::FunctionProto& function) {
  const auto key = std::pair(normal_domain(function.domain()), function.name());
  if (functions_.emplace(key, &function).second) return {};
  return unsupported(
      fmt::format("two functions named {} in domain {}", in_quotes(function.name()), in_quotes(function.domain())));
}

const onnx::FunctionProto* FunctionTable::find(const std::string& domain, const std::string& name) const {
  const auto found = functions_.find({normal_domain(domain), name});
  return found == functions_.end() ? nullptr : found->second;
}

Result<void> Inliner::expand(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Opsets& opsets,
                             const Visit& visit) {
  for (const onnx::NodeProto& proto : nodes) AICF_RETURN_IF_ERROR(node(proto, opsets, visit));
  return {};
}

Result<void> Inliner::node(const onnx::NodeProto& proto, const Opsets& opsets, const Visit& visit) {
  constexpr std::int64_t most_nodes = 1 << 16;
  if (!open_.empty() && ++count_ > most_nodes)
    return bad_input(fmt::format("the functions expand to more than {} nodes", most_nodes));
  if (const onnx::FunctionProto* function = functions_.find(proto.domain(), proto.op_type()))
    return call(proto, *function, visit);
  onnx::NodeProto copy = proto;
  return visit(copy, opsets);
}

Result<void> Inliner::call(const onnx::NodeProto& proto, const onnx::FunctionProto& function, const Visit& visit) {
  if (std::ranges::find(open_, &function) != open_.end()) {
    return bad_input(fmt::format("function {} calls itself", in_quotes(function.name())),
                     fmt::format("node {}", in_quotes(proto.name())));
  }
  constexpr std::size_t deepest = 256;
  if (open_.size() >= deepest) {
    return unsupported(fmt::format("functions call each other more than {} deep", deepest),
                       fmt::format("node {}", in_quotes(proto.name())));
  }
  if (proto.input_size() > function.input_size() || proto.output_size() > function.output_size()) {
    return bad_input(
        fmt::format("function {} takes {} inputs and gives {} outputs, not {} and {}", in_quotes(function.name()),
                    function.input_size(), function.output_size(), proto.input_size(), proto.output_size()),
        fmt::format("node {}", in_quotes(proto.name())));
  }
  // Tensors inside are told apart by the prefix, so two calls may not share one.
  const auto [next, fresh] = prefixes_.try_emplace(call_name(proto, 0) + "/", 1);
  std::string prefix = next->first;
  while (!fresh) {
    prefix = fmt::format("{}_{}/", call_name(proto, 0), next->second++);
    if (prefixes_.try_emplace(prefix, 1).second) break;
  }
  std::map<std::string, std::string> names{{"", ""}};
  for (int k = 0; k < function.input_size(); ++k)
    names[function.input(k)] = k < proto.input_size() ? proto.input(k) : "";
  for (int k = 0; k < proto.output_size(); ++k) {
    if (!proto.output(k).empty()) names[function.output(k)] = proto.output(k);
  }
  const auto renamed = [&](const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? prefix + name : found->second;
  };
  AttributeValues values;
  const std::vector<onnx::AttributeProto> defaults = default_attributes(function);
  for (const auto& a : defaults) values[a.name()] = &a;
  for (const auto& a : proto.attribute()) values[a.name()] = &a;
  Opsets opsets;
  for (const auto& import : function.opset_import())
    opsets[normal_domain(import.domain())] = static_cast<int>(std::clamp<std::int64_t>(import.version(), -1, 1 << 30));

  open_.push_back(&function);
  int position = 0;
  for (const onnx::NodeProto& inner : function.node()) {
    onnx::NodeProto copy = inner;
    copy.set_name(prefix + call_name(inner, position++));
    for (auto& name : *copy.mutable_input()) name = renamed(name);
    for (auto& name : *copy.mutable_output()) name = renamed(name);
    fill(*copy.mutable_attribute(), values, renamed);
    AICF_RETURN_IF_ERROR(node(copy, opsets, visit));
  }
  open_.pop_back();
  return {};
}

}  // namespace aicf
