// Printing of semantic graphs: text that parses back to the same graph, and Graphviz.

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "frontend/model.h"
#include "frontend/semantic/check.h"
#include "frontend/semantic/op_table.h"

namespace aicf {
namespace {

/// Constants of more elements print as "elided", which does not parse back.
constexpr std::int64_t most_printed_elements = 256;

bool is_plain(std::string_view name) {
  if (name.empty() || name == "_" || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  static const std::set<std::string_view> words{"inf", "nan", "true", "false", "opset", "elided"};
  return !words.contains(name) && !parse_dtype(name);
}

std::string name_text(const std::string& name) {
  if (is_plain(name)) return name;
  std::string text = "`";
  for (const char c : name) {
    if (c == '`') text += '`';
    text += c;
  }
  return text + "`";
}

std::string string_text(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text + "\"";
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class List, class Text>
std::string list_text(const List& list, Text text) {
  std::string result = "[";
  for (std::size_t k = 0; k < list.size(); ++k) result += (k > 0 ? ", " : "") + text(list[k]);
  return result + "]";
}

std::string sizes_text(const std::vector<Expr>& shape) {
  if (shape.empty()) return "";
  return list_text(shape, [](const Expr& e) { return to_string(e); });
}

std::string elements_text(const Tensor& tensor) {
  const auto element = [&](std::int64_t k) {
    if (is_float(tensor.type())) return real_text(tensor.at(k));
    if (tensor.type() == DType::boolean) return std::string(tensor.int_at(k) != 0 ? "true" : "false");
    return fmt::format("{}", tensor.int_at(k));
  };
  if (tensor.shape().empty()) return element(0);
  std::string text = "[";
  for (std::int64_t k = 0; k < tensor.size(); ++k) text += (k > 0 ? ", " : "") + element(k);
  return text + "]";
}

std::string type_text(const Tensor& tensor) {
  std::vector<Expr> shape(tensor.shape().begin(), tensor.shape().end());
  return std::string(name(tensor.type())) + sizes_text(shape);
}

/// Name that the parser would give the node.
std::string implied_name(const SemanticNode& node, std::size_t position) {
  for (const std::string& output : node.outputs) {
    if (!output.empty()) return output;
  }
  return fmt::format("{}_{}", node.op, position);
}

std::string header_text(const SemanticGraph& graph) {
  std::string text = name_text(graph.name.empty() ? "graph" : graph.name) + "(";
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const SemanticInput& input = graph.inputs[k];
    text +=
        fmt::format("{}{}: {}{}", k > 0 ? ", " : "", name_text(input.name), name(input.type), sizes_text(input.shape));
  }
  text += ") -> ";
  std::map<std::string, const SemanticInput*> declared;
  for (const SemanticInput& output : graph.declared_outputs) declared[output.name] = &output;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    text += (k > 0 ? ", " : "") + name_text(graph.outputs[k]);
    if (const auto found = declared.find(graph.outputs[k]); found != declared.end()) {
      text += fmt::format(": {}{}", name(found->second->type), sizes_text(found->second->shape));
    }
  }
  return text;
}

std::string body_text(const SemanticGraph& graph, const std::string& indent);

std::string attribute_text(const Attribute& a, const std::string& indent) {
  const auto integer = [](std::int64_t i) { return fmt::format("{}", i); };
  switch (a.kind) {
    case Attribute::Kind::integer:
      return integer(a.i);
    case Attribute::Kind::real:
      return real_text(a.f);
    case Attribute::Kind::text:
      return string_text(a.s);
    case Attribute::Kind::integers:
      return list_text(a.is, integer);
    case Attribute::Kind::reals:
      return list_text(a.fs, real_text);
    case Attribute::Kind::texts:
      return list_text(a.ss, string_text);
    case Attribute::Kind::tensor:
      return fmt::format("{}({})", type_text(a.t), a.t.size() > most_printed_elements ? "elided" : elements_text(a.t));
    case Attribute::Kind::graph:
      return fmt::format("{} {{\n{}{}}}", header_text(*a.g), body_text(*a.g, indent + "  "), indent);
  }
  AICF_BUG("attribute kind");
}

/// Constants and nodes, a line each.
std::string body_text(const SemanticGraph& graph, const std::string& indent) {
  std::string text;
  for (const auto& [constant, tensor] : graph.initializers) {
    text += fmt::format("{}{}: {} = {}\n", indent, name_text(constant), type_text(tensor),
                        tensor.size() > most_printed_elements ? "elided" : elements_text(tensor));
  }
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    const SemanticNode& node = graph.nodes[k];
    text += indent;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      text += (o > 0 ? ", " : "") + (node.outputs[o].empty() ? std::string("_") : name_text(node.outputs[o]));
    }
    text += fmt::format(" = {}{}{}(", node.domain, node.domain.empty() ? "" : ".", node.op);
    bool first = true;
    const auto separate = [&] { return std::exchange(first, false) ? "" : ", "; };
    for (const std::string& input : node.inputs) {
      text += separate();
      text += input.empty() ? "_" : name_text(input);
    }
    for (const auto& [key, value] : node.attributes) {
      text += separate();
      text += fmt::format("{}={}", key, attribute_text(value, indent));
    }
    text += ")";
    if (node.name != implied_name(node, k)) text += " @" + string_text(node.name);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string to_string(const SemanticGraph& graph) {
  std::string text = header_text(graph) + "\n";
  for (const auto& [domain, version] : graph.opsets) {
    if (domain.empty() && version == default_opset) continue;
    text += fmt::format("opset {}{}{}\n", domain, domain.empty() ? "" : " ", version);
  }
  return text + body_text(graph, "");
}

std::string to_dot(const SemanticGraph& graph) {
  std::string text = "digraph semantic {\n  node [shape=box];\n";
  std::map<std::string, std::string> maker;  // tensor → dot node
  for (const SemanticInput& input : graph.inputs) {
    const std::string id = string_text("input " + input.name);
    text += fmt::format("  {} [shape=ellipse, label={}];\n", id,
                        string_text(fmt::format("{}: {}{}", input.name, name(input.type), sizes_text(input.shape))));
    maker[input.name] = id;
  }
  for (const SemanticNode& node : graph.nodes) {
    const std::string id = string_text("node " + node.name);
    text += fmt::format("  {} [label={}];\n", id, string_text(node.op + "\n" + node.name));
    for (const std::string& output : node.outputs) maker[output] = id;
    const std::vector<std::string> reads = reads_of(node);
    for (std::size_t k = 0; k < reads.size(); ++k) {
      if (const auto from = maker.find(reads[k]); from != maker.end()) {
        text += fmt::format("  {} -> {} [label={}];\n", from->second, id, k);
      }
    }
  }
  for (const std::string& output : graph.outputs) {
    const std::string id = string_text("output " + output);
    text += fmt::format("  {} [shape=ellipse, label={}];\n", id, string_text(output));
    if (const auto from = maker.find(output); from != maker.end())
      text += fmt::format("  {} -> {};\n", from->second, id);
  }
  return text + "}\n";
}

}  // namespace aicf
