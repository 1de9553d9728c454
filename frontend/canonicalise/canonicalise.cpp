// The run over a semantic graph: inputs and weights become values, each node is lowered, outputs are marked.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "frontend/canonicalise/lowering.h"
#include "frontend/semantic/check.h"
#include "mir/graph/simplify.h"
#include "runtime/file_io.h"

namespace aicf {
namespace {

std::set<std::string> symbols_of(const SemanticGraph& graph) {
  std::set<std::string> symbols;
  for (const SemanticInput& input : graph.inputs) {
    for (const Expr& dim : input.shape) symbols.merge(aicf::symbols_of(dim));
  }
  return symbols;
}

/// Inputs whose values are given become initializers, in place of a default; their sizes bind the symbols of their shapes,
/// which count among the model's `symbols`.
Result<void> fix_inputs(SemanticGraph& graph, ImportOptions& options, std::set<std::string>& symbols) {
  for (const auto& [name, tensor] : options.fixed) {
    auto* from = &graph.inputs;
    auto input = std::ranges::find(*from, name, &SemanticInput::name);
    if (input == from->end()) {
      from = &graph.defaulted;
      input = std::ranges::find(*from, name, &SemanticInput::name);
    }
    if (input == from->end()) return bad_input(fmt::format("value for {}: no input of the model", in_quotes(name)));
    for (const Expr& dim : input->shape) symbols.merge(aicf::symbols_of(dim));
    bool fits = tensor.type() == input->type && tensor.shape().size() == input->shape.size();
    for (std::size_t d = 0; fits && d < input->shape.size(); ++d) {
      const Expr& dim = input->shape[d];
      const std::int64_t size = tensor.shape()[d];
      if (!dim.is_constant() && dim.op() == Op::symbol)
        fits = options.bindings.try_emplace(dim.name(), size).first->second == size;
      else if (const auto n = constant_of(dim))
        fits = *n == size;
    }
    if (!fits)
      return bad_input(fmt::format("value for input {} is {}{} and does not have its type and shape, {}{}",
                                   in_quotes(name), aicf::name(tensor.type()), dims_text(tensor.shape()),
                                   aicf::name(input->type), dims_text(input->shape)));
    graph.initializers[name] = tensor;
    from->erase(input);
  }
  return {};
}

void bind_input_sizes(const SemanticGraph& graph, ImportOptions& options) {
  for (const SemanticInput& input : graph.inputs) {
    const auto given = options.sizes.find(input.name);
    if (given == options.sizes.end() || given->second.size() != input.shape.size()) continue;
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d].op() == Op::symbol) options.bindings.try_emplace(input.shape[d].name(), given->second[d]);
    }
  }
}

/// Replaces bound symbols in the sizes of inputs and declared outputs.
Result<void> bind_sizes(SemanticGraph& graph, const ImportOptions& options, const std::set<std::string>& symbols) {
  ExprMap values;
  for (const auto& [name, value] : options.bindings) {
    if (!symbols.contains(name)) {
      std::string known;
      for (const std::string& s : symbols) known += (known.empty() ? "" : ", ") + s;
      return bad_input(fmt::format("binding of {}: the model has {}", in_quotes(name),
                                   known.empty() ? "no symbols" : "the symbols " + known));
    }
    if (value < 0) return bad_input(fmt::format("binding of {} to the negative size {}", in_quotes(name), value));
    values.emplace(name, Expr(value));
  }
  if (values.empty()) return {};
  for (auto* list : {&graph.inputs, &graph.declared_outputs}) {
    for (SemanticInput& input : *list) {
      for (Expr& dim : input.shape) dim = simplify(substitute_symbols(dim, values));
    }
  }
  return {};
}

/// Axis names that no symbol of the model has.
void choose_axis_names(Canonicaliser& state, const std::set<std::string>& symbols) {
  const auto clashes = [&](const std::string& prefix) {
    return std::ranges::any_of(symbols, [&](const std::string& s) {
      return s.size() > prefix.size() && s.starts_with(prefix) &&
             s.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    });
  };
  while (clashes(state.axis_prefix)) state.axis_prefix += "i";
  while (clashes(state.reduce_prefix)) state.reduce_prefix += "r";
}

Result<void> add_inputs(Canonicaliser& state, const SemanticGraph& graph) {
  choose_axis_names(state, symbols_of(graph));
  for (const SemanticInput& input : graph.inputs) {
    if (input.shape.size() > max_rank)
      return unsupported(fmt::format("input {} has rank {}, at most {} are supported", in_quotes(input.name),
                                     input.shape.size(), max_rank));
    auto value = std::make_shared<Value>();
    value->name = input.name;
    value->type = value->held = input.type;
    std::vector<Axis> axes;
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      value->shape.push_back(simplify(input.shape[d]));
      axes.push_back({state.axis_prefix + std::to_string(d), value->shape.back()});
    }
    value->tensor = input.name;
    state.graph.add_input(input.name, input.type, std::move(axes));
    state.values[input.name] = std::move(value);
  }
  return {};
}

/// The canonical node of an output: its own; a copy where that is an input or a constant, or is held in another type.
NodeId output_node(Canonicaliser& state, Value& value, const std::string& output) {
  const std::string& tensor = state.tensor_of(value);
  const Node& made = state.graph.node(tensor);
  if (made.kind == NodeKind::compute && value.held == value.type) return made.id;
  Node copy;
  copy.name = state.graph.unique_name(identifier(output) + (identifier(output) == tensor ? "_out" : ""));
  copy.type = value.type;
  copy.axes = made.axes;
  copy.origin = value.origin;
  std::vector<Expr> index;
  for (const Axis& axis : copy.axes) index.push_back(Expr::axis(axis.name));
  const Expr element = Expr::load(tensor, std::move(index), made.type);
  copy.body = value.held == value.type ? element : Expr::cast(element, value.type);
  return state.graph.add(std::move(copy));
}

Result<void> check_declared(const SemanticInput& declared, const Value& value) {
  const auto differs = [&](const std::string& told, const std::string& found) {
    return bad_input(fmt::format("output {} is declared as {}, but it is {}", in_quotes(declared.name), told, found));
  };
  if (declared.type != value.type) return differs(std::string(name(declared.type)), std::string(name(value.type)));
  bool same = declared.shape.size() == value.shape.size();
  for (std::size_t d = 0; same && d < value.shape.size(); ++d) {
    const auto told = constant_of(declared.shape[d]), found = constant_of(value.shape[d]);
    same = !told || !found || *told == *found;
  }
  if (!same) return differs(to_string(declared.shape), to_string(value.shape));
  return {};
}

}  // namespace

Result<void> Canonicaliser::lower(const SemanticGraph& graph) {
  for (const auto& [name, tensor] : graph.initializers) values[name] = from_tensor(name, tensor);
  for (const SemanticNode& node : graph.nodes) {
    const OpRow* row = find_op(node.op, node.domain, node.opset);
    AICF_CHECK(row != nullptr, "checked operator " + node.op);
    Lowering lowering(*this, node, *row);
    AICF_RETURN_IF_ERROR(row->lower(lowering));
    for (const std::string& output : node.outputs) {
      if (!output.empty() && !values.contains(output)) {
        return unsupported(fmt::format("output {} of this operator", in_quotes(output)), place_of(node));
      }
    }
    lowered.push_back(node.name);
  }
  return {};
}

Result<Values> Lowering::inlined(const SemanticGraph& graph) {
  for (const SemanticNode& node : graph.nodes) AICF_RETURN_IF_ERROR(check_node(node));
  const Result<void> lowered = state_.lower(graph);
  Values outputs;
  for (const std::string& output : graph.outputs) {
    if (lowered) outputs.push_back(state_.values.at(output));
  }
  // Another branch may use the names again.
  for (const auto& [name, tensor] : graph.initializers) state_.values.erase(name);
  for (const SemanticNode& node : graph.nodes) {
    for (const std::string& output : node.outputs) state_.values.erase(output);
  }
  if (!lowered) return std::unexpected(lowered.error());
  return outputs;
}

Result<Model> canonicalise(SemanticGraph semantic, const ImportOptions& options) {
  AICF_RETURN_IF_ERROR(check_semantic(semantic));
  ImportOptions own = options;
  std::set<std::string> symbols = symbols_of(semantic);
  AICF_RETURN_IF_ERROR(fix_inputs(semantic, own, symbols));
  bind_input_sizes(semantic, own);
  AICF_RETURN_IF_ERROR(bind_sizes(semantic, own, symbols));
  Canonicaliser state;
  AICF_RETURN_IF_ERROR(add_inputs(state, semantic));
  AICF_RETURN_IF_ERROR(state.lower(semantic));
  Model model;
  model.name = semantic.name;
  for (const SemanticInput& declared : semantic.declared_outputs)
    AICF_RETURN_IF_ERROR(check_declared(declared, *state.values.at(declared.name)));
  for (const std::string& output : semantic.outputs) {
    Value& value = *state.values.at(output);
    const NodeId id = output_node(state, value, output);
    state.graph.mark_output(id, output);
    model.output_of[output] = state.graph.node(id).name;
  }
  fold_empty(state.graph);
  state.graph.remove_unused();
  if (const auto sound = verify(state.graph); !sound) AICF_BUG("canonical graph: " + sound.error().text());
  std::set<std::string> present;
  for (const NodeId id : state.graph.topological_order()) {
    const Node& node = state.graph.node(id);
    present.insert(node.origin.begin(), node.origin.end());
  }
  for (const std::string& name : state.lowered) {
    if (!present.contains(name)) model.folded.push_back(name);
  }
  model.semantic = std::move(semantic);
  model.graph = std::move(state.graph);
  model.constants = std::move(state.constants);
  model.constraints = std::move(state.constraints);
  model.indices = std::move(state.indices);
  model.must_be_false = std::move(state.must_be_false);
  return model;
}

Interface interface_of(const Model& model) {
  Interface out{model.semantic.inputs, {}, model.constraints, model.indices, model.must_be_false};
  for (const std::string& name : model.semantic.outputs) out.outputs.emplace_back(name, model.output_of.at(name));
  return out;
}

Result<std::map<std::string, std::int64_t>> bind_symbols(const Model& model, const NamedTensors& inputs) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Signature& input : model.semantic.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      std::string names;
      for (const auto& [name, tensor] : inputs) names += (names.empty() ? "" : ", ") + in_quotes(name);
      return bad_input(
          fmt::format("input {} is missing; given are {}", in_quotes(input.name), names.empty() ? "none" : names));
    }
    const Tensor& tensor = given->second;
    if (tensor.type() != input.type) {
      return bad_input(fmt::format("input {} is {}, the model takes {}", in_quotes(input.name), name(tensor.type()),
                                   name(input.type)));
    }
    shapes.push_back(tensor.shape());
  }
  AICF_TRY(auto bindings, bind_sizes(model.semantic.inputs, shapes));
  AICF_RETURN_IF_ERROR(check_shapes(model.constraints, bindings));
  for (const IndexConstraint& c : model.indices) {
    AICF_TRY(const std::int64_t size, evaluate_int(c.size, bindings));
    const Tensor& index = inputs.at(c.input);
    for (std::int64_t k = 0; k < index.size(); ++k) AICF_RETURN_IF_ERROR(check_index(c, size, index.int_at(k), k));
  }
  for (const InputConstraint& c : model.must_be_false) {
    if (inputs.at(c.input).int_at(0) != 0) return refusal(c);
  }
  return bindings;
}

namespace {

Result<Model> load(std::span<const std::byte> file, const std::string& path, const ImportOptions& options) {
  constexpr std::size_t longest_text = 4 << 20;  // its words take some 70 bytes each
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const bool is_text = !text.empty() && std::ranges::none_of(text.substr(0, 4096), [](unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
  });
  if (is_text && path.ends_with(".onnx"))
    return bad_input("the file is text, not a protobuf model; name a text model otherwise", path);
  if (is_text && text.size() > longest_text)
    return bad_input(fmt::format("the text has {} bytes, at most {} are read; store a larger model as ONNX",
                                 text.size(), longest_text),
                     path);
  Result<SemanticGraph> semantic = is_text ? parse_semantic(text, path) : read_onnx(file, path);
  if (!semantic) return std::unexpected(semantic.error());
  if (semantic->name.empty() || !is_text) semantic->name = std::filesystem::path(path).stem().string();
  Result<Model> model = canonicalise(*std::move(semantic), options);
  if (!model) {
    Diagnostic d = model.error();
    d.place = d.place.empty() ? path : fmt::format("{}: {}", path, d.place);
    return std::unexpected(std::move(d));
  }
  return model;
}

}  // namespace

Result<Model> load_model(std::span<const std::byte> file, const std::string& path, const ImportOptions& options) {
  Result<Model> model = load(file, path, options);
  if (model) return model;
  // Names and texts of a broken file may hold anything; a message is one printable line.
  constexpr std::size_t longest_message = 900;
  Diagnostic d = std::move(model).error();
  d.message = printable(d.message, longest_message);
  d.place = printable(d.place, longest_message);
  return std::unexpected(std::move(d));
}

Result<Model> load_model(const std::string& path, const ImportOptions& options) {
  AICF_TRY(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  return load_model(file->bytes(), path, options);
}

}  // namespace aicf
