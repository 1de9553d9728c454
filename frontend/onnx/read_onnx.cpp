// ModelProto → SemanticGraph: types, attributes, weights and names, with no knowledge of operators.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "frontend/onnx/functions.h"
#include "frontend/onnx/tensor_proto.h"
#include "frontend/onnx/wire_check.h"
#include "frontend/semantic/check.h"
#include "frontend/semantic/dimension.h"
#include "frontend/semantic/onnx_types.h"
#include "frontend/semantic/op_table.h"

namespace aicf {
namespace {

constexpr std::int64_t newest_ir_version = 14;

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

/// A size as written: a number, a symbol, or an expression over symbols ("past + seq").
Result<Expr> dimension(const onnx::TensorShapeProto::Dimension& dim, const std::string& what, int position) {
  // Some exporters write −1 for a size that is open.
  if (dim.has_dim_value() && dim.dim_value() != -1) {
    if (dim.dim_value() < 0) return bad_input(fmt::format("{} has the negative dim {}", what, dim.dim_value()));
    return Expr(static_cast<std::int64_t>(dim.dim_value()));
  }
  // "?" and the like name nothing: two of them are two sizes.
  const bool named = std::ranges::any_of(dim.dim_param(), [](unsigned char c) { return std::isalnum(c) != 0; });
  if (dim.has_dim_param() && named) return parse_dimension(dim.dim_param());
  return Expr::symbol(
      fmt::format("{}_d{}", what.substr(what.find('\'') + 1, what.rfind('\'') - what.find('\'') - 1), position));
}

enum class Missing { refuse, accept };

/// A graph input or output. Outputs may lack type and shape (`Missing::accept`); then `type` stays empty.
struct DeclaredValue {
  SemanticInput value;
  bool complete = false;
};

Result<DeclaredValue> declared(const onnx::ValueInfoProto& info, const char* role, Missing missing) {
  const std::string what = fmt::format("{} {}", role, in_quotes(info.name()));
  DeclaredValue result;
  result.value.name = info.name();
  if (missing == Missing::refuse && info.name().empty()) return bad_input(fmt::format("an {} has no name", role));
  if (!info.has_type() || info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
    if (missing == Missing::accept) return result;
    return bad_input(fmt::format("{} has no type", what));
  }
  if (!info.type().has_tensor_type()) return unsupported(fmt::format("{} is no tensor", what));
  const auto& tensor = info.type().tensor_type();
  const std::int64_t number = tensor.elem_type();
  if (number == 0) {
    if (missing == Missing::accept) return result;
    return bad_input(fmt::format("{} has no element type", what));
  }
  if (!is_onnx_type(number)) return bad_input(fmt::format("{} has the unknown element type {}", what, number));
  const auto type = onnx_dtype(number);
  if (!type)
    return unsupported(fmt::format("{} has element type {}, which AICF does not have", what, onnx_type_name(number)));
  result.value.type = *type;
  if (!tensor.has_shape()) {
    if (missing == Missing::accept) return result;
    return unsupported(fmt::format("{} has no shape; AICF needs its rank", what));
  }
  for (int d = 0; d < tensor.shape().dim_size(); ++d) {
    AICF_TRY(Expr dim, dimension(tensor.shape().dim(d), what, d));
    result.value.shape.push_back(std::move(dim));
  }
  result.complete = true;
  return result;
}

/// The field that attribute type `type` uses, and whether the attribute has a value only elsewhere.
bool value_elsewhere(const onnx::AttributeProto& a) {
  using A = onnx::AttributeProto;
  const bool has[] = {a.has_i(),         a.has_f(),           a.has_s(),           a.has_t(),
                      a.ints_size() > 0, a.floats_size() > 0, a.strings_size() > 0};
  const A::AttributeType types[] = {A::INT, A::FLOAT, A::STRING, A::TENSOR, A::INTS, A::FLOATS, A::STRINGS};
  bool own = false, other = false;
  for (int k = 0; k < 7; ++k) (types[k] == a.type() ? own : other) |= has[k];
  return other && !own;
}

class Reader {
 public:
  Reader(onnx::ModelProto& model, const std::string& folder) : model_(model), folder_(folder) {}

  Result<SemanticGraph> run() {
    AICF_RETURN_IF_ERROR(check_header());
    onnx::GraphProto& graph = *model_.mutable_graph();
    result_.name = graph.name();
    for (const auto& function : model_.functions()) AICF_RETURN_IF_ERROR(functions_.add(function));
    AICF_RETURN_IF_ERROR(read_graph(graph, result_.opsets, Missing::refuse, "", result_));
    return std::move(result_);
  }

 private:
  Result<void> check_header() {
    if (!model_.has_ir_version() && !model_.has_graph()) return bad_input("the file holds no model");
    if (model_.ir_version() > newest_ir_version) {
      return bad_input(fmt::format("IR version {}, the newest known is {}", model_.ir_version(), newest_ir_version));
    }
    if (!model_.has_graph()) return bad_input("the model has no graph");
    if (model_.opset_import_size() == 0) return bad_input("opset_import is missing");
    for (const auto& import : model_.opset_import()) {
      const std::string domain = normal_domain(import.domain());
      const std::int64_t version = import.version();
      const auto [place, fresh] =
          result_.opsets.try_emplace(domain, static_cast<int>(std::clamp<std::int64_t>(version, -1, 1 << 30)));
      if (!fresh && place->second != version) {
        return bad_input(fmt::format("domain {} is imported with opsets {} and {}",
                                     in_quotes(domain.empty() ? "ai.onnx" : domain), place->second, version));
      }
      if (domain.empty() && version > newest_opset) {
        return unsupported(fmt::format("opset {} of ai.onnx, the newest known is {}", version, newest_opset));
      }
      if (domain.empty() && version < oldest_opset) {
        return unsupported(fmt::format("opset {} of ai.onnx, the oldest known is {}", version, oldest_opset));
      }
    }
    return {};
  }

  /// `missing`: of the inputs' types. `prefix` of names that nodes without one get.
  Result<void> read_graph(onnx::GraphProto& graph, const Inliner::Opsets& opsets, Missing missing,
                          const std::string& prefix, SemanticGraph& to) {
    AICF_RETURN_IF_ERROR(read_weights(graph, to));
    for (const auto& info : graph.input()) {
      const auto given = to.initializers.find(info.name());
      const bool has_default = given != to.initializers.end();
      AICF_TRY(DeclaredValue input, declared(info, "input", has_default ? Missing::accept : missing));
      if (has_default && !input.complete) {
        input.value.type = given->second.type();
        input.value.shape.assign(given->second.shape().begin(), given->second.shape().end());
      }
      (has_default ? to.defaulted : to.inputs).push_back(std::move(input.value));
    }
    for (const auto& info : graph.output()) {
      AICF_TRY(DeclaredValue output, declared(info, "output", Missing::accept));
      to.outputs.push_back(info.name());
      if (output.complete) to.declared_outputs.push_back(std::move(output.value));
    }
    return inliner_.expand(graph.node(), opsets, [&](onnx::NodeProto& node, const Inliner::Opsets& own) {
      return read_node(node, own, prefix, to);
    });
  }

  Result<void> read_weights(onnx::GraphProto& graph, SemanticGraph& to) {
    if (graph.sparse_initializer_size() > 0) return unsupported("sparse initializers");
    for (auto& proto : *graph.mutable_initializer()) {
      const std::string what = "tensor " + in_quotes(proto.name());
      if (proto.name().empty()) return bad_input("an initializer has no name");
      AICF_TRY(Tensor tensor, to_tensor(proto, what, &folder_));
      if (!to.initializers.emplace(proto.name(), std::move(tensor)).second) {
        return bad_input(fmt::format("two initializers are named {}", in_quotes(proto.name())));
      }
    }
    return {};
  }

  Result<void> read_node(onnx::NodeProto& proto, const Inliner::Opsets& opsets, const std::string& prefix,
                         SemanticGraph& to) {
    SemanticNode node;
    node.op = proto.op_type();
    node.domain = normal_domain(proto.domain());
    constexpr std::size_t most_nodes = 1 << 17;
    if (++nodes_ > most_nodes) return unsupported(fmt::format("the model has more than {} nodes", most_nodes));
    node.name = proto.name();
    if (node.name.empty()) node.name = fmt::format("{}{}_{}", prefix, node.op, to.nodes.size());
    if (!is_utf8(node.name) || !is_utf8(node.op)) return bad_input("its name is not UTF-8", place_of(node));
    constexpr std::size_t longest_name = 65536;
    if (node.name.size() > longest_name) {
      return bad_input(fmt::format("its name has {} bytes, at most {} are allowed", node.name.size(), longest_name),
                       place_of(node));
    }
    if (node.op.empty()) return bad_input("it has no op_type", place_of(node));
    if (const auto opset = opsets.find(node.domain); opset != opsets.end()) node.opset = opset->second;
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (auto& a : *proto.mutable_attribute()) {
      AICF_TRY(Attribute attribute, read_attribute(a, node, opsets));
      if (!node.attributes.emplace(a.name(), std::move(attribute)).second) {
        return bad_input(fmt::format("attribute {} is given twice", in_quotes(a.name())), place_of(node));
      }
    }
    name_uniquely(node);
    to.nodes.push_back(std::move(node));
    return {};
  }

  /// Provenance goes by name, so two nodes may not share one.
  void name_uniquely(SemanticNode& node) {
    const auto [next, fresh] = names_.try_emplace(node.name, 1);
    if (fresh) return;
    const std::string base = node.name;
    do {
      node.name = fmt::format("{}_{}", base, next->second++);
    } while (!names_.try_emplace(node.name, 1).second);
  }

  Result<Attribute> read_attribute(onnx::AttributeProto& proto, const SemanticNode& node,
                                   const Inliner::Opsets& opsets) {
    using A = onnx::AttributeProto;
    const std::string key = in_quotes(proto.name());
    A::AttributeType type = proto.type();
    if (!proto.has_type() || type == A::UNDEFINED) {  // files of the first IR version: the field says it
      type = proto.has_i()          ? A::INT
             : proto.has_f()        ? A::FLOAT
             : proto.has_s()        ? A::STRING
             : proto.has_t()        ? A::TENSOR
             : proto.has_g()        ? A::GRAPH
             : proto.ints_size()    ? A::INTS
             : proto.floats_size()  ? A::FLOATS
             : proto.strings_size() ? A::STRINGS
                                    : A::UNDEFINED;
    } else if (value_elsewhere(proto)) {
      return bad_input(
          fmt::format("attribute {} is {}, but its value stands in another field", key, A::AttributeType_Name(type)),
          place_of(node));
    }
    Attribute a;
    switch (type) {
      case A::INT:
        a.kind = Attribute::Kind::integer;
        a.i = proto.i();
        break;
      case A::FLOAT:
        a.kind = Attribute::Kind::real;
        a.f = proto.f();
        break;
      case A::STRING:
        a.kind = Attribute::Kind::text;
        a.s = proto.s();
        break;
      case A::INTS:
        a.kind = Attribute::Kind::integers;
        a.is.assign(proto.ints().begin(), proto.ints().end());
        break;
      case A::FLOATS:
        a.kind = Attribute::Kind::reals;
        a.fs.assign(proto.floats().begin(), proto.floats().end());
        break;
      case A::STRINGS:
        a.kind = Attribute::Kind::texts;
        a.ss.assign(proto.strings().begin(), proto.strings().end());
        break;
      case A::TENSOR: {
        a.kind = Attribute::Kind::tensor;
        AICF_TRY(a.t, to_tensor(*proto.mutable_t(), fmt::format("{}: attribute {}", place_of(node), key), &folder_));
        break;
      }
      case A::GRAPH: {
        a.kind = Attribute::Kind::graph;
        auto graph = std::make_shared<SemanticGraph>();
        // Of an operator that is refused anyway, by its name, the graph is not read.
        if (find_op_any_opset(node.op, node.domain)) {
          const std::string prefix = fmt::format("{}/{}/", node.name, proto.name());
          AICF_RETURN_IF_ERROR(read_graph(*proto.mutable_g(), opsets, Missing::accept, prefix, *graph));
        }
        a.g = std::move(graph);
        break;
      }
      case A::UNDEFINED:
        return bad_input(fmt::format("attribute {} has no value", key), place_of(node));
      default:
        return unsupported(fmt::format("attribute {} of kind {}", key, A::AttributeType_Name(type)), place_of(node));
    }
    return a;
  }

  onnx::ModelProto& model_;
  ModelFolder folder_;
  SemanticGraph result_;
  FunctionTable functions_;
  Inliner inliner_{functions_};
  std::size_t nodes_ = 0;             ///< of all graphs
  std::map<std::string, int> names_;  ///< of nodes, with the suffix to try next
};

}  // namespace

Result<SemanticGraph> read_onnx(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.empty()) return bad_input("the file is empty and holds no model", path);
  if (bytes.size() > 0x7fffffff)
    return bad_input("the file passes protobuf's limit of 2 GiB; store the weights as external data", path);
  AICF_RETURN_IF_ERROR(check_wire(bytes, WireMessage::model, path));
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return bad_input("the file is not a protobuf model", path);
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  auto graph = Reader(model, folder).run();
  if (!graph) {
    Diagnostic d = graph.error();
    d.place = d.place.empty() ? path : fmt::format("{}: {}", path, d.place);
    return std::unexpected(std::move(d));
  }
  return graph;
}

}  // namespace aicf
