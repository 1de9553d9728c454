#include "mir/graph/oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "mir/graph/oracle_program.h"

namespace aicf {
namespace {

using oracle::Buffer;
using oracle::Buffers;

using Symbols = std::map<std::string, std::int64_t>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::vector<oracle::LoopAxis>> bind(const std::vector<Axis>& axes, const Symbols& symbols, const Node& node) {
  std::vector<oracle::LoopAxis> bound;
  for (const Axis& axis : axes) {
    auto extent = evaluate_int(axis.extent, symbols);
    if (!extent)
      return bad_input(extent.error().message, fmt::format("extent of axis '{}' of node '{}'", axis.name, node.name));
    if (*extent < 0) {
      return bad_input(fmt::format("axis '{}' of node '{}' has the negative extent {}", axis.name, node.name, *extent));
    }
    bound.push_back({axis.name, *extent});
  }
  return bound;
}

/// Copies a host tensor into the oracle's form: f64, i64 or bytes.
Result<Buffer> import_tensor(const Tensor& tensor) {
  AICF_TRY(Buffer buffer, oracle::make_buffer(tensor.type(), tensor.shape()));
  const auto copy = [&]<class T>(T, auto* to) {
    const auto from = tensor.as<T>();
    std::copy(from.begin(), from.end(), to);
  };
  double* reals = buffer.reals.get();
  std::int64_t* integers = buffer.integers.get();
  switch (tensor.type()) {
    case DType::f32:
      copy(float{}, reals);
      break;
    case DType::f64:
      copy(double{}, reals);
      break;
    case DType::f16:
      std::ranges::transform(tensor.as<std::uint16_t>(), reals, [](std::uint16_t x) { return f16_to_f32(x); });
      break;
    case DType::bf16:
      std::ranges::transform(tensor.as<std::uint16_t>(), reals, [](std::uint16_t x) { return bf16_to_f32(x); });
      break;
    case DType::i8:
      copy(std::int8_t{}, integers);
      break;
    case DType::u8:
      copy(std::uint8_t{}, integers);
      break;
    case DType::i16:
      copy(std::int16_t{}, integers);
      break;
    case DType::u16:
      copy(std::uint16_t{}, integers);
      break;
    case DType::i32:
      copy(std::int32_t{}, integers);
      break;
    case DType::u32:
      copy(std::uint32_t{}, integers);
      break;
    case DType::i64:
      copy(std::int64_t{}, integers);
      break;
    case DType::u64:
      copy(std::uint64_t{}, integers);
      break;
    case DType::boolean:
      std::ranges::transform(tensor.as<std::uint8_t>(), buffer.booleans.get(), [](std::uint8_t x) { return x != 0; });
      break;
  }
  return buffer;
}

/// Floats become f64 tensors, others their own type.
Tensor export_tensor(const Buffer& buffer) {
  Tensor tensor(is_float(buffer.type) ? DType::f64 : buffer.type, buffer.shape);
  std::byte* bytes = tensor.mutable_bytes().data();
  const auto copy = [&]<class T>(T, const auto* from) {
    std::transform(from, from + buffer.size, reinterpret_cast<T*>(bytes), [](auto x) { return static_cast<T>(x); });
  };
  const std::int64_t* integers = buffer.integers.get();
  switch (tensor.type()) {
    case DType::f64:
      copy(double{}, buffer.reals.get());
      break;
    case DType::boolean:
      copy(std::uint8_t{}, buffer.booleans.get());
      break;
    case DType::i8:
      copy(std::int8_t{}, integers);
      break;
    case DType::u8:
      copy(std::uint8_t{}, integers);
      break;
    case DType::i16:
      copy(std::int16_t{}, integers);
      break;
    case DType::u16:
      copy(std::uint16_t{}, integers);
      break;
    case DType::i32:
      copy(std::int32_t{}, integers);
      break;
    case DType::u32:
      copy(std::uint32_t{}, integers);
      break;
    case DType::i64:
      copy(std::int64_t{}, integers);
      break;
    case DType::u64:
      copy(std::uint64_t{}, integers);
      break;
    default:
      AICF_BUG("no such host type");
  }
  return tensor;
}

class GraphEvaluator {
 public:
  GraphEvaluator(const Graph& graph, const std::vector<Tensor>& constants, const NamedTensors& inputs,
                 const Symbols& symbols)
      : graph_(graph), constants_(constants), inputs_(inputs), symbols_(symbols) {
    for (const auto& [name, value] : symbols) symbol_values_[name] = Expr(value);
  }

  Result<NamedTensors> run(std::set<std::string> wanted) {
    if (wanted.empty()) {
      for (const Graph::Output& output : graph_.outputs()) wanted.insert(graph_.node(output.node).name);
    }
    std::map<NodeId, int> pending_uses;  // of every needed node
    std::vector<NodeId> stack;
    for (const std::string& name : wanted) {
      const auto id = graph_.find(name);
      if (!id) return bad_input(fmt::format("the graph has no tensor '{}'", name));
      if (pending_uses.emplace(*id, 0).second) stack.push_back(*id);
    }
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      for (const NodeId producer : graph_.producers(id)) {
        const auto [entry, added] = pending_uses.emplace(producer, 0);
        ++entry->second;
        if (added) stack.push_back(producer);
      }
    }
    NamedTensors results;
    for (const NodeId id : graph_.topological_order()) {
      if (!pending_uses.contains(id)) continue;
      const Node& node = graph_.node(id);
      auto buffer = evaluate(node);
      if (!buffer) {
        Diagnostic error = std::move(buffer).error();
        if (error.place.empty()) error.place = fmt::format("node '{}'", node.name);
        return std::unexpected(std::move(error));
      }
      if (wanted.contains(node.name)) results[node.name] = export_tensor(*buffer);
      if (pending_uses[id] > 0) buffers_[node.name] = std::move(*buffer);
      for (const NodeId producer : graph_.producers(id)) {
        if (--pending_uses[producer] == 0) buffers_.erase(graph_.node(producer).name);
      }
    }
    return results;
  }

 private:
  Result<Buffer> evaluate(const Node& node) {
    AICF_TRY(const std::vector<oracle::LoopAxis> axes, bind(node.axes, symbols_, node));
    std::vector<std::int64_t> shape;
    for (const oracle::LoopAxis& axis : axes) shape.push_back(axis.extent);
    if (node.kind == NodeKind::input) {
      const auto found = inputs_.find(node.name);
      if (found == inputs_.end()) return bad_input(fmt::format("input '{}' has no value", node.name));
      return import(found->second, node, shape);
    }
    if (node.kind == NodeKind::constant) {
      const auto index = static_cast<std::size_t>(node.constant);
      AICF_CHECK(node.constant >= 0 && index < constants_.size(), fmt::format("'{}' has no constant", node.name));
      return import(constants_[index], node, shape);
    }
    AICF_TRY(Buffer buffer, oracle::make_buffer(node.type, shape));
    if (buffer.size == 0) return buffer;
    AICF_TRY(const std::vector<oracle::LoopAxis> reduce_axes, bind(node.reduce_axes, symbols_, node));
    Ranges ranges;
    for (const auto* list : {&axes, &reduce_axes}) {
      for (const oracle::LoopAxis& axis : *list) ranges["axis:" + axis.name] = {.low = 0, .high = axis.extent - 1};
    }
    const Expr body = simplify(substitute_symbols(node.body, symbol_values_), ranges);
    if (const auto unbound = symbols_of(body); !unbound.empty()) {
      return bad_input(fmt::format("symbol '{}' has no value", *unbound.begin()));
    }
    const oracle::Reduction what{node.reduce, node.type, axes, reduce_axes, body};
    AICF_TRY(const bool contracted, oracle::evaluate_contraction(what, buffers_, buffer.reals.get()));
    if (!contracted) {
      AICF_RETURN_IF_ERROR(oracle::evaluate_positions(what, buffers_, 0, buffer.size, buffer.reals.get(),
                                                      buffer.integers.get(), buffer.booleans.get()));
    }
    return buffer;
  }

  static Result<Buffer> import(const Tensor& tensor, const Node& node, const std::vector<std::int64_t>& shape) {
    // Wider floats are welcome: they are the same mathematical input without its rounding.
    const bool same_kind =
        is_float(tensor.type()) == is_float(node.type) && is_integer(tensor.type()) == is_integer(node.type);
    if (!same_kind) {
      return bad_input(fmt::format("'{}' is {}, its value {}", node.name, name(node.type), name(tensor.type())));
    }
    if (tensor.shape() != shape) {
      return bad_input(
          fmt::format("'{}' has shape {}, its value {}", node.name, shape_text(shape), shape_text(tensor.shape())));
    }
    AICF_TRY(Buffer buffer, import_tensor(tensor));
    buffer.type = node.type;
    return buffer;
  }

  const Graph& graph_;
  const std::vector<Tensor>& constants_;
  const NamedTensors& inputs_;
  const Symbols& symbols_;
  ExprMap symbol_values_;
  Buffers buffers_;
};

}  // namespace

Result<NamedTensors> evaluate_graph(const Graph& graph, const std::vector<Tensor>& constants,
                                    const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                                    const std::set<std::string>& wanted) {
  return GraphEvaluator(graph, constants, inputs, symbols).run(wanted);
}

}  // namespace aicf
