#include "frontend/semantic/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/semantic/op_table.h"

namespace aicf {
namespace {

/// Length of the UTF-8 sequence at the start of `text`; 0 when it is broken, overlong or a surrogate.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t n = (byte(0) >> 5) == 6 ? 2 : (byte(0) >> 4) == 14 ? 3 : (byte(0) >> 3) == 30 ? 4 : 0;
  if (n == 0 || n > text.size()) return 0;
  std::uint32_t code = byte(0) & (0x7fu >> n);
  for (std::size_t k = 1; k < n; ++k) {
    if ((byte(k) >> 6) != 2) return 0;
    code = code << 6 | (byte(k) & 0x3fu);
  }
  const std::uint32_t least = n == 2 ? 0x80 : n == 3 ? 0x800 : 0x10000;
  return code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

std::string domain_name(std::string_view domain) {
  return domain.empty() ? "ai.onnx" : printable(domain, 60);
}

Result<void> check_attributes(const SemanticNode& node, const OpRow& row) {
  const std::vector<AttributeRule> rules = row.attribute_rules();
  for (const auto& [name, attribute] : node.attributes) {
    const auto rule = std::ranges::find(rules, name, &AttributeRule::name);
    if (rule == rules.end()) {
      return bad_input(fmt::format("{} of opset {} has no attribute {}", node.op, node.opset, in_quotes(name)),
                       place_of(node));
    }
    // An empty list has no kind of its own.
    const bool empty_list = attribute.kind == Attribute::Kind::integers && attribute.is.empty() &&
                            (rule->kind == Attribute::Kind::reals || rule->kind == Attribute::Kind::texts);
    if (rule->kind != attribute.kind && !empty_list) {
      return bad_input(
          fmt::format("attribute {} is {}, {} wanted", name, kind_name(attribute.kind), kind_name(rule->kind)),
          place_of(node));
    }
  }
  for (const AttributeRule& rule : rules) {
    if (rule.required && !node.attributes.contains(std::string(rule.name))) {
      return bad_input(fmt::format("attribute {} is missing", rule.name), place_of(node));
    }
  }
  return {};
}

Result<void> check_operands(const SemanticNode& node, const OpRow& row) {
  const auto range = [](int low, int high) {
    if (high >= variadic) return fmt::format("at least {}", low);
    return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
  };
  const auto inputs = static_cast<int>(node.inputs.size()), outputs = static_cast<int>(node.outputs.size());
  if (inputs < row.min_inputs || inputs > row.max_inputs) {
    return bad_input(fmt::format("{} inputs, {} wanted", inputs, range(row.min_inputs, row.max_inputs)),
                     place_of(node));
  }
  if (outputs < row.min_outputs || outputs > row.max_outputs) {
    return bad_input(fmt::format("{} outputs, {} wanted", outputs, range(row.min_outputs, row.max_outputs)),
                     place_of(node));
  }
  const int required = row.max_inputs >= variadic ? inputs : row.min_inputs;
  for (int k = 0; k < required; ++k) {
    if (node.inputs[k].empty()) return bad_input(fmt::format("input {} is required but left empty", k), place_of(node));
  }
  return {};
}

/// Names of the nodes on a cycle that contains or is reached from `start`; empty when there is none.
std::vector<std::string> find_cycle(const SemanticGraph& graph, const std::vector<std::vector<std::string>>& reads,
                                    const std::map<std::string, std::size_t>& maker, std::size_t start) {
  // Depth-first with an explicit stack; a node met again while open closes a cycle.
  std::vector<char> colour(graph.nodes.size(), 0);
  std::vector<std::pair<std::size_t, std::size_t>> stack{{start, 0}};
  colour[start] = 1;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == reads[node].size()) {
      colour[node] = 2;
      stack.pop_back();
      continue;
    }
    const auto made = maker.find(reads[node][next++]);
    if (made == maker.end()) continue;
    const std::size_t producer = made->second;
    if (colour[producer] == 1) {
      std::vector<std::string> names;
      for (std::size_t k = stack.size(); k-- > 0;) {
        names.push_back(graph.nodes[stack[k].first].name);
        if (stack[k].first == producer) break;
      }
      return names;
    }
    if (colour[producer] == 0) {
      colour[producer] = 1;
      stack.emplace_back(producer, 0);
    }
  }
  return {};
}

/// Names of a graph and of those inside it: made once, and before they are read.
class NameCheck {
 public:
  Result<void> graph(const SemanticGraph& graph, int depth) {
    if (depth > max_nesting)
      return unsupported(fmt::format("graphs stand inside each other more than {} deep", max_nesting));
    if (graph.outputs.empty()) return bad_input("the graph has no outputs");
    std::vector<std::string> own;  // names that end with this graph
    for (const SemanticInput& input : graph.inputs) {
      if (!add(input.name, own)) return bad_input(fmt::format("two inputs are named {}", in_quotes(input.name)));
    }
    for (const auto& [name, tensor] : graph.initializers) {
      if (!add(name, own) && depth > 0)
        return bad_input(
            fmt::format("initializer {} has the name of a tensor outside of the subgraph", in_quotes(name)));
    }
    std::map<std::string, std::size_t> maker;
    std::vector<std::vector<std::string>> reads;
    for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
      reads.push_back(reads_of(graph.nodes[k]));
      AICF_RETURN_IF_ERROR(outputs(graph, k, depth, maker));
    }
    for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
      const SemanticNode& node = graph.nodes[k];
      AICF_RETURN_IF_ERROR(operands(graph, k, reads, maker));
      if (depth == 0) AICF_RETURN_IF_ERROR(check_node(node));
      for (const auto& [name, attribute] : node.attributes) {
        if (attribute.g) AICF_RETURN_IF_ERROR(inside(*attribute.g, node, name, depth));
      }
      for (const std::string& output : node.outputs) add(output, own);
    }
    for (const std::string& output : graph.outputs) {
      if (!known_.contains(output) || output.empty())
        return bad_input(fmt::format("output {} is made by no node", in_quotes(output)));
    }
    for (const std::string& name : own) known_.erase(name);
    return {};
  }

 private:
  bool add(const std::string& name, std::vector<std::string>& own) {
    if (!known_.insert(name).second) return false;
    own.push_back(name);
    return true;
  }

  Result<void> inside(const SemanticGraph& graph, const SemanticNode& node, const std::string& attribute, int depth) {
    auto sound = this->graph(graph, depth + 1);
    if (!sound && sound.error().place.empty())
      sound.error().place = fmt::format("{}: attribute {}", place_of(node), printable(attribute, 60));
    return sound;
  }

  Result<void> outputs(const SemanticGraph& graph, std::size_t k, int depth,
                       std::map<std::string, std::size_t>& maker) const {
    for (const std::string& output : graph.nodes[k].outputs) {
      if (output.empty()) continue;
      if (known_.contains(output)) {
        return bad_input(fmt::format("output {} has the name of {}", in_quotes(output),
                                     depth > 0 ? "a tensor outside of the subgraph, an input or an initializer"
                                               : "an input or initializer"),
                         place_of(graph.nodes[k]));
      }
      const auto [place, fresh] = maker.try_emplace(output, k);
      if (!fresh) {
        return bad_input(fmt::format("{} is made twice, by {} and {}", in_quotes(output),
                                     in_quotes(graph.nodes[place->second].name), in_quotes(graph.nodes[k].name)));
      }
    }
    return {};
  }

  Result<void> operands(const SemanticGraph& graph, std::size_t k, const std::vector<std::vector<std::string>>& reads,
                        const std::map<std::string, std::size_t>& maker) const {
    const SemanticNode& node = graph.nodes[k];
    for (std::size_t i = 0; i < reads[k].size(); ++i) {
      const std::string& input = reads[k][i];
      if (input.empty() || known_.contains(input)) continue;
      const std::string what = fmt::format(
          "{} {}", i < node.inputs.size() ? fmt::format("input {}", i) : "its subgraph's", in_quotes(input));
      if (!maker.contains(input)) return bad_input(fmt::format("{} is made by no node", what), place_of(node));
      if (const std::vector<std::string> cycle = find_cycle(graph, reads, maker, k); !cycle.empty()) {
        std::string names;
        for (const std::string& name : cycle) names += (names.empty() ? "" : ", ") + in_quotes(name);
        return bad_input(fmt::format("nodes feed each other in a cycle: {}", names));
      }
      return bad_input(fmt::format("{} is read before {} makes it; sort the nodes", what,
                                   in_quotes(graph.nodes[maker.at(input)].name)),
                       place_of(node));
    }
    return {};
  }

  std::set<std::string> known_;  ///< at this point, outer graphs' too
};

}  // namespace

std::string printable(std::string_view name, std::size_t limit) {
  std::string text;
  for (std::size_t shown = 0; !name.empty();) {
    if (shown >= limit) return text + fmt::format("… ({} more bytes)", name.size());
    const std::size_t n = utf8_length(name);
    const auto first = static_cast<unsigned char>(name[0]);
    if (n == 0 || first < 0x20 || first == 0x7f) {
      text += fmt::format("\\x{:02x}", first);
      shown += 4;
      name.remove_prefix(1);
    } else {
      text += name.substr(0, n);
      ++shown;
      name.remove_prefix(n);
    }
  }
  return text;
}

std::string in_quotes(std::string_view name) {
  return "'" + printable(name, 60) + "'";
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string place_of(const SemanticNode& node) {
  return fmt::format("node {} ({})", in_quotes(node.name), printable(node.op, 60));
}

Result<void> check_node(const SemanticNode& node) {
  if (node.opset == 0) {
    return bad_input(fmt::format("domain {} is not imported by the model", domain_name(node.domain)), place_of(node));
  }
  if (node.domain.empty() && (node.opset < oldest_opset || node.opset > newest_opset)) {
    return unsupported(fmt::format("opset {} of ai.onnx; AICF knows {} to {}", node.opset, oldest_opset, newest_opset),
                       place_of(node));
  }
  const OpRow* row = find_op(node.op, node.domain, node.opset);
  if (!row) {
    const OpRow* other = find_op_any_opset(node.op, node.domain);
    if (other && other->since > node.opset) {
      return bad_input(
          fmt::format("operator {} exists from opset {}, the model imports {}", node.op, other->since, node.opset),
          place_of(node));
    }
    if (!is_known_domain(node.domain)) {
      return unsupported(
          fmt::format("operator {} of the unknown domain {}", in_quotes(node.op), domain_name(node.domain)),
          place_of(node));
    }
    return unsupported(fmt::format("operator {} of {} opset {} is not supported", in_quotes(node.op),
                                   domain_name(node.domain), node.opset),
                       place_of(node));
  }
  AICF_RETURN_IF_ERROR(check_operands(node, *row));
  return check_attributes(node, *row);
}

std::vector<std::string> reads_of(const SemanticNode& node) {
  std::vector<std::string> names = node.inputs;
  for (const auto& [key, attribute] : node.attributes) {
    if (!attribute.g) continue;
    const SemanticGraph& graph = *attribute.g;
    std::set<std::string> own;
    for (const SemanticInput& input : graph.inputs) own.insert(input.name);
    for (const auto& [name, tensor] : graph.initializers) own.insert(name);
    for (const SemanticNode& inner : graph.nodes) own.insert(inner.outputs.begin(), inner.outputs.end());
    const auto add = [&](const std::string& name) {
      if (!name.empty() && !own.contains(name)) names.push_back(name);
    };
    for (const SemanticNode& inner : graph.nodes) std::ranges::for_each(reads_of(inner), add);
    std::ranges::for_each(graph.outputs, add);
  }
  return names;
}

Result<void> check_semantic(const SemanticGraph& graph) {
  return NameCheck().graph(graph, 0);
}

}  // namespace aicf
