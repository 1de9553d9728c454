#include "tools/aicf/repro.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontend/semantic/check.h"
#include "mir/graph/oracle.h"
#include "runtime/file_io.h"

namespace aicf::command {

namespace {

/// What may be sizes, axes or pads, which an import wants to know.
bool is_list(const Tensor& t) {
  return !is_float(t.type()) && t.shape().size() <= 1 && t.size() <= 64;
}

Tensor with_type(const Tensor& t, DType type) {
  if (t.type() == type) return t;
  Tensor out(type, t.shape());
  for (std::int64_t i = 0; i < t.size(); ++i) out.set(i, t.at(i));
  return out;
}

/// Values of tensors that operations of the model make.
Result<NamedTensors> values_of(const Repro& whole, const std::vector<std::string>& names) {
  NamedTensors out;
  if (names.empty()) return out;
  SemanticGraph graph = whole.graph;
  graph.outputs = names;
  graph.declared_outputs.clear();
  AICF_TRY(const Model model, canonicalise(std::move(graph)));
  AICF_TRY(const NamedTensors values, evaluate_graph(model.graph, model.constants, whole.inputs, {}));
  for (const std::string& name : names) {
    const std::string& node = model.output_of.at(name);
    out[name] = with_type(values.at(node), model.graph.node(node).type);
  }
  return out;
}

/// Whether a node, or one in its subgraphs, has one of the names.
bool is_named(const SemanticNode& node, const std::set<std::string>& names) {
  return names.contains(node.name) || std::ranges::any_of(node.attributes, [&](const auto& a) {
           return a.second.g &&
                  std::ranges::any_of(a.second.g->nodes, [&](const SemanticNode& n) { return is_named(n, names); });
         });
}

std::set<std::string> node_names(const SemanticGraph& graph) {
  std::set<std::string> out;
  for (const SemanticNode& n : graph.nodes) out.insert(n.name);
  return out;
}

/// The model with inputs as constants.
Repro with_fixed(Repro r, const std::set<std::string>& names) {
  std::erase_if(r.graph.inputs, [&](const SemanticInput& input) { return names.contains(input.name); });
  for (const std::string& name : names) {
    r.graph.initializers[name] = std::move(r.inputs.at(name));
    r.inputs.erase(name);
  }
  return r;
}

/// The first `size` elements along every axis of `from` elements, and the same in lists of sizes.
Repro shrunk(const Repro& r, std::int64_t from, std::int64_t size) {
  Repro out = r;
  for (SemanticInput& input : out.graph.inputs) {
    Tensor& t = out.inputs.at(input.name);
    std::vector<std::int64_t> shape = t.shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != from) continue;
      shape[d] = size;
      input.shape[d] = Expr(size);
    }
    if (shape == t.shape()) continue;
    Tensor part(t.type(), shape);
    std::vector<std::int64_t> at(shape.size(), 0);
    for (std::int64_t i = 0; i < part.size(); ++i) {
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * t.shape()[d] + at[d];
      part.set(i, t.at(flat));
      for (std::size_t d = shape.size(); d-- > 0;) {
        if (++at[d] < shape[d]) break;
        at[d] = 0;
      }
    }
    t = std::move(part);
  }
  for (auto& [name, t] : out.graph.initializers) {
    if (is_float(t.type())) continue;
    for (std::int64_t i = 0; i < t.size(); ++i)
      if (t.int_at(i) == from) t.set(i, static_cast<double>(size));
  }
  return out;
}

}  // namespace

Result<Repro> cut_out(const Repro& whole, const std::set<std::string>& keep) {
  Repro out;
  out.graph.name = whole.graph.name;
  out.graph.opsets = whole.graph.opsets;
  std::set<std::string> made, read, wanted(whole.graph.outputs.begin(), whole.graph.outputs.end());
  for (const SemanticNode& n : whole.graph.nodes) {
    const std::vector<std::string> reads = reads_of(n);
    if (is_named(n, keep)) {
      out.graph.nodes.push_back(n);
      made.insert(n.outputs.begin(), n.outputs.end());
      read.insert(reads.begin(), reads.end());
    } else {
      wanted.insert(reads.begin(), reads.end());
    }
  }
  const bool ends = std::ranges::none_of(made, [&](const std::string& t) { return wanted.contains(t); });
  for (const SemanticNode& n : out.graph.nodes)
    for (const std::string& t : n.outputs)
      if (!t.empty() && (ends ? !read.contains(t) : wanted.contains(t))) out.graph.outputs.push_back(t);

  std::vector<std::string> computed;
  for (const std::string& t : read)
    if (!t.empty() && !made.contains(t) && !whole.inputs.contains(t) && !whole.graph.initializers.contains(t))
      computed.push_back(t);
  AICF_TRY(NamedTensors values, values_of(whole, computed));
  std::set<std::string> lists;  // among the inputs
  for (const std::string& t : read) {
    if (t.empty() || made.contains(t)) continue;
    if (auto i = whole.inputs.find(t); i != whole.inputs.end()) values[t] = i->second;
    if (auto i = whole.graph.initializers.find(t); i != whole.graph.initializers.end()) values[t] = i->second;
    const Tensor& value = values.at(t);
    if (is_list(value) && whole.graph.initializers.contains(t)) {
      out.graph.initializers[t] = value;
      continue;
    }
    SemanticInput input{t, value.type(), {}};
    input.shape.assign(value.shape().begin(), value.shape().end());
    out.graph.inputs.push_back(std::move(input));
    out.inputs[t] = value;
    if (is_list(value)) lists.insert(t);
  }
  // A constant folds what reads it away, so a list is one only where the import must know it.
  if (lists.empty() || canonicalise(out.graph)) return out;
  std::set<std::string> fixed = lists;
  for (const std::string& t : lists) {
    fixed.erase(t);
    if (!canonicalise(with_fixed(out, fixed).graph)) fixed.insert(t);
  }
  return with_fixed(std::move(out), fixed);
}

Repro reduced(Repro r, const std::function<bool(const Repro&)>& fails, int tries) {
  auto accept = [&](Result<Repro> candidate) {
    if (!candidate || candidate->graph.outputs.empty() || tries-- <= 0 || !fails(*candidate)) return false;
    r = *std::move(candidate);
    return true;
  };
  auto remove_nodes = [&] {
    bool removed = false;
    std::set<std::string> names = node_names(r.graph);
    // Halves first: most of a large model has nothing to do with the difference.
    for (std::size_t part = names.size() / 2; part >= 1; part /= 2) {
      std::vector<std::string> order;
      for (const SemanticNode& n : r.graph.nodes) order.push_back(n.name);
      for (std::size_t end = order.size(); end > 0 && tries > 0;) {
        const std::size_t begin = end > part ? end - part : 0;
        std::set<std::string> rest = names;
        for (std::size_t i = begin; i < end; ++i) rest.erase(order[i]);
        if (!rest.empty() && accept(cut_out(r, rest))) names = rest, removed = true;
        end = begin;
      }
    }
    return removed;
  };
  auto remove_outputs = [&] {
    for (std::size_t i = r.graph.outputs.size(); r.graph.outputs.size() > 1 && i-- > 0;) {
      Repro fewer = r;
      fewer.graph.outputs.erase(fewer.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      accept(std::move(fewer));
    }
  };
  auto shrink = [&] {
    std::set<std::int64_t, std::greater<>> sizes;
    for (const auto& [name, t] : r.inputs)
      for (const std::int64_t d : t.shape())
        if (d > 1) sizes.insert(d);
    bool changed = false;
    for (std::int64_t size : sizes) {
      // The smallest size that still fails, by halving steps from 1.
      std::int64_t low = 0;
      while (size - low > 1 && tries > 0) {
        const std::int64_t middle = low == 0 ? 1 : low + (size - low) / 2;
        if (accept(shrunk(r, size, middle)))
          size = middle, changed = true;
        else
          low = middle;
      }
    }
    return changed;
  };
  while (tries > 0) {
    bool changed = remove_nodes();
    remove_outputs();
    changed = shrink() || changed;
    if (!changed) break;
  }
  return r;
}

Result<void> write_repro(const std::string& folder, const Repro& repro) {
  AICF_TRY(const Model model, canonicalise(repro.graph));
  AICF_TRY(const NamedTensors values, evaluate_graph(model.graph, model.constants, repro.inputs, {}));
  NamedTensors expected;
  for (const auto& [output, node] : model.output_of) expected[output] = values.at(node);
  std::error_code failed;
  const bool made = std::filesystem::create_directories(folder, failed);
  if (failed) return run_failure("cannot be written: " + failed.message(), folder);
  const std::string text = folder + "/model.aicf", given = folder + "/inputs.npz", right = folder + "/expected.npz";
  const auto undo = [=] {
    std::error_code ignored;
    for (const std::string& path : {text, given, right}) std::filesystem::remove(path, ignored);
    if (made) std::filesystem::remove(folder, ignored);
  };
  const OnInterrupt interrupted(undo);
  const Result<void> written = [&]() -> Result<void> {
    AICF_TRY(AtomicFile file, AtomicFile::create(text));
    file.write(to_string(repro.graph));
    AICF_RETURN_IF_ERROR(file.commit());
    AICF_RETURN_IF_ERROR(write_npz(given, repro.inputs));
    return write_npz(right, expected);
  }();
  if (!written) undo();
  return written;
}

}  // namespace aicf::command
