#pragma once

// A model as the frontend hands it on: the semantic graph (operations as the user wrote them) and its canonical form.

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/support/interface.h"
#include "mir/support/result.h"
#include "runtime/tensor.h"

namespace aicf {

/// Bytes of the largest tensor a model may contain; a larger one is taken for a mistake and refused.
inline constexpr std::int64_t max_tensor_bytes = std::int64_t{1} << 40;
/// Dimensions of a tensor; a loop nest has as many.
inline constexpr std::size_t max_rank = 64;

struct SemanticGraph;

/// An attribute value as written.
struct Attribute {
  enum class Kind { integer, real, text, integers, reals, texts, tensor, graph } kind = Kind::integer;
  std::int64_t i = 0;
  double f = 0;
  std::string s;
  std::vector<std::int64_t> is;
  std::vector<double> fs;
  std::vector<std::string> ss;
  Tensor t;
  std::shared_ptr<const SemanticGraph> g;  ///< a subgraph; it also sees the tensors made before its node
};

/// One operation as the user wrote it. Names are the model's own.
struct SemanticNode {
  std::string name;    ///< the node's name; made from op and position ("MatMul_3") when the model has none
  std::string op;      ///< "MatMul", "Softmax", …
  std::string domain;  ///< "" for ai.onnx
  int opset = 0;
  std::vector<std::string> inputs;  ///< tensor names; "" = absent optional input
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;
};

using SemanticInput = Signature;

/// The graph as written: operations in order, with no device and no decomposition. Edges are tensor names.
struct SemanticGraph {
  std::string name;
  std::vector<SemanticInput> inputs;
  /// Inputs with a default, which is the initializer of their name: constants, unless ImportOptions::fixed gives another.
  std::vector<SemanticInput> defaulted;
  std::vector<std::string> outputs;
  std::map<std::string, Tensor> initializers;
  std::vector<SemanticNode> nodes;
  std::map<std::string, int> opsets;  ///< domain → version
  /// Output types as the file declares them, checked against what shape inference finds; may lack some or all.
  std::vector<SemanticInput> declared_outputs;
};

/// A compiled-for-nothing-yet model.
struct Model {
  std::string name;  ///< file stem
  SemanticGraph semantic;
  Graph graph;                      ///< canonical
  std::vector<Tensor> constants;    ///< Node::constant indexes these
  std::vector<std::string> folded;  ///< names of semantic nodes that vanished into shapes, constants or index maps
  std::map<std::string, std::string> output_of;  ///< model output name → canonical node name
  std::vector<ShapeConstraint> constraints;      ///< checked by bind_symbols
  std::vector<IndexConstraint> indices;          ///< …
  std::vector<InputConstraint> must_be_false;    ///< …
};

struct ImportOptions {
  std::map<std::string, std::int64_t> bindings;  ///< symbols fixed before shape inference ("batch" → 2)
  NamedTensors fixed;  ///< inputs, with a default or none, that are constants of this import ("axes" → [1])
  /// Sizes of inputs, by name: they bind the symbols that stand alone as a dim there. Whether they fit is not checked.
  std::map<std::string, std::vector<std::int64_t>> sizes;
};

/// MODEL is an ONNX file (protobuf) or the text form; told apart by content. Errors: bad_input (broken file, place named),
/// unsupported (operator named with node, domain, opset).
Result<Model> load_model(const std::string& path, const ImportOptions& options = {});
/// The same of a file's content. `path` names it in messages, and its folder is where external data lies.
Result<Model> load_model(std::span<const std::byte> file, const std::string& path, const ImportOptions& options = {});

/// frontend/onnx: protobuf → semantic graph. External data is mapped in place, never from outside the folder of `path`.
Result<SemanticGraph> read_onnx(std::span<const std::byte> file, const std::string& path);
/// One ONNX TensorProto .pb file: its name (may be empty) and value.
Result<std::pair<std::string, Tensor>> read_tensor_pb(const std::string& path);
Result<void> write_tensor_pb(const std::string& path, const std::string& name, const Tensor& tensor);
/// frontend/text: the text form of a semantic graph; print and parse round-trip.
Result<SemanticGraph> parse_semantic(std::string_view text, std::string_view place);
std::string to_string(const SemanticGraph& graph);
std::string to_dot(const SemanticGraph& graph);
/// frontend/canonicalise: decomposition into primitives, shape inference and shape arithmetic folded symbolically.
Result<Model> canonicalise(SemanticGraph semantic, const ImportOptions& options = {});

/// What of the model a compiled program keeps.
Interface interface_of(const Model& model);

/// Symbol values from the shapes of given inputs; bad_input when a fixed dim or a repeated symbol disagrees (names both),
/// unsupported when an input asks for what AICF does not do.
Result<std::map<std::string, std::int64_t>> bind_symbols(const Model& model, const NamedTensors& inputs);

}  // namespace aicf
