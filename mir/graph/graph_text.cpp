// The text form of a graph. Expressions print and parse in mir/support; this file adds nodes, axes and provenance.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "mir/graph/graph.h"

namespace aicf {
namespace {

// ---- printing ----------------------------------------------------------------------------------------------------

/// A name as expressions spell it: bare, or in backticks.
std::string name_text(const std::string& name) {
  return to_string(Expr::axis(name));
}

std::string default_axis(std::size_t position) {
  return fmt::format("d{}", position);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

bool is_plain_origin(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_./:-@+").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string origin_text(const Node& node) {
  if (node.origin.empty()) return "";
  std::string text;
  for (const std::string& origin : node.origin) {
    text += text.empty() ? "   # from " : ", ";
    text += is_plain_origin(origin) ? origin : quoted(origin);
  }
  return text;
}

/// "b=batch, q=seq"; inputs and constants leave out names that the reader gives by position.
std::string axes_text(const std::vector<Axis>& axes, bool positional) {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += ", ";
    if (!positional || axes[i].name != default_axis(i)) text += name_text(axes[i].name) + "=";
    text += to_string(axes[i].extent);
  }
  return text;
}

// ---- parsing -----------------------------------------------------------------------------------------------------

/// Positions in `text` outside of quotes and backticks, with the depth of brackets; stops when `visit` returns false.
template <class Visit>
void scan(std::string_view text, std::size_t begin, Visit visit) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`' || c == '"') {
      for (++i; i < text.size() && text[i] != c; ++i) {
        if (c == '"' && text[i] == '\\') ++i;
      }
      continue;
    }
    if (c == ')' || c == ']') --depth;
    if (!visit(i, c, depth)) return;
    if (c == '(' || c == '[') ++depth;
  }
}

/// "#0" is a constant; "# …" runs to the end of the line.
bool starts_comment(std::string_view text, std::size_t i) {
  return text[i] == '#' && (i + 1 >= text.size() || !std::isdigit(static_cast<unsigned char>(text[i + 1])));
}

struct Line {
  int number;
  std::string_view text;
};

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> lines;
  std::size_t begin = 0;
  int number = 1;
  const auto finish = [&](std::size_t end) {
    const std::string_view line = text.substr(begin, end - begin);
    lines.push_back({number, line});
    number += 1 + static_cast<int>(std::count(line.begin(), line.end(), '\n'));
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_comment(text, i)) i = std::min(text.find('\n', i), text.size());
    if (i < text.size() && text[i] == '`') i = text.find('`', i + 1);  // a name may hold a line feed
    if (i >= text.size()) break;
    if (text[i] == '\n') finish(i);
  }
  if (begin < text.size()) finish(text.size());
  return lines;
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/// Names in `text`, bare or in backticks: what may be a symbol in a dimension.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (text[i] == '`') {
      std::string name;
      for (++i; i < text.size(); ++i) {
        if (text[i] == '`' && (i + 1 >= text.size() || text[i + 1] != '`')) break;
        if (text[i] == '`') ++i;
        name += text[i];
      }
      ++i;
      names.insert(name);
    } else if (std::isalpha(c) || c == '_') {
      const std::size_t begin = i;
      while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' ||
                                 text[i] == '\'' || text[i] == '.')) {
        ++i;
      }
      names.emplace(text.substr(begin, i - begin));
    } else if (std::isdigit(c)) {
      while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '.')) ++i;
    } else {
      ++i;
    }
  }
  return names;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view place) : text_(text), place_(place) {}

  Result<Graph> run() {
    for (const Line& line : split_lines(text_)) {
      line_ = line;
      at_ = 0;
      end_ = line.text.size();
      AICF_TRY(std::vector<std::string> origin, take_comment());
      while (end_ > 0 && is_space(line_.text[end_ - 1])) --end_;
      skip_space();
      if (at_ == end_) continue;
      AICF_RETURN_IF_ERROR(statement(std::move(origin)));
    }
    for (const auto& [line, name, as] : outputs_) {
      const auto id = graph_.find(name);
      if (!id) return bad_input(fmt::format("output of '{}', which is not in the graph", name), place(line, 0));
      graph_.mark_output(*id, as);
    }
    if (auto valid = verify(graph_); !valid) {
      Diagnostic error = std::move(valid).error();
      if (!place_.empty()) error.place = fmt::format("{}: {}", place_, error.place);
      return std::unexpected(std::move(error));
    }
    return std::move(graph_);
  }

 private:
  std::string place(int line, std::size_t column) const {
    return fmt::format("{}{}{}:{}", place_, place_.empty() ? "" : ":", line, column + 1);
  }

  std::unexpected<Diagnostic> error(std::string message) const {
    return bad_input(std::move(message), place(line_.number, at_));
  }

  void skip_space() {
    while (at_ < end_ && (is_space(line_.text[at_]) || line_.text[at_] == '\n')) ++at_;
  }

  char peek() const { return at_ < end_ ? line_.text[at_] : '\0'; }

  Result<void> expect(std::string_view what) {
    skip_space();
    if (line_.text.substr(at_, std::min(end_ - at_, what.size())) != what)
      return error(fmt::format("expected '{}'", what));
    at_ += what.size();
    return {};
  }

  Result<std::string> take_name(const char* what) {
    skip_space();
    const std::size_t begin = at_;
    std::string name;
    if (peek() == '`') {
      for (++at_; at_ < end_; ++at_) {
        if (peek() == '`') {
          if (at_ + 1 >= end_ || line_.text[at_ + 1] != '`') break;
          ++at_;
        }
        name += peek();
      }
      if (at_ == end_) {
        at_ = begin;
        return error("this backtick is not closed");
      }
      ++at_;
    } else {
      while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '\'' ||
             (peek() == '.' && at_ > begin)) {
        name += line_.text[at_++];
      }
    }
    if (name.empty() || (name[0] >= '0' && name[0] <= '9' && line_.text[begin] != '`')) {
      at_ = begin;
      return error(fmt::format("expected {}", what));
    }
    return name;
  }

  Result<std::string> take_quoted() {
    AICF_RETURN_IF_ERROR(expect("\""));
    std::string value;
    for (; peek() != '"'; ++at_) {
      if (at_ >= end_) return error("this quote is not closed");
      if (peek() == '\\' && ++at_ < end_ && peek() == 'n') {
        value += '\n';
      } else {
        value += peek();
      }
    }
    ++at_;
    return value;
  }

  /// Cuts a comment off the line and reads provenance from it.
  Result<std::vector<std::string>> take_comment() {
    std::size_t start = std::string_view::npos;
    scan(line_.text, 0, [&](std::size_t i, char c, int) {
      if (c == '#' && starts_comment(line_.text, i)) start = i;
      return start == std::string_view::npos;
    });
    std::vector<std::string> origin;
    if (start == std::string_view::npos) return origin;
    at_ = start + 1;
    skip_space();
    constexpr std::string_view from = "from ";
    const bool provenance = line_.text.substr(at_, from.size()) == from;
    at_ += provenance ? from.size() : 0;
    while (provenance) {
      skip_space();
      if (peek() == '"') {
        AICF_TRY(std::string name, take_quoted());
        origin.push_back(std::move(name));
      } else {
        const std::size_t begin = at_;
        while (at_ < end_ && peek() != ',' && !is_space(peek())) ++at_;
        if (at_ == begin) return error("expected the name of a model's node");
        origin.emplace_back(line_.text.substr(begin, at_ - begin));
      }
      skip_space();
      if (peek() != ',') break;
      ++at_;
    }
    if (provenance && at_ < end_) return error("expected ',' or the end of the line");
    end_ = start;
    at_ = 0;
    return origin;
  }

  /// Parses [begin, end) of the line; its columns stay those of the line.
  Result<Expr> expression(std::size_t begin, std::size_t end, const Scope& scope) {
    std::string padded(begin, ' ');
    padded += line_.text.substr(begin, end - begin);
    std::replace(padded.begin(), padded.end(), '\n', ' ');
    return parse_expr(padded, scope, fmt::format("{}{}{}", place_, place_.empty() ? "" : ":", line_.number));
  }

  /// Splits [begin, end) at commas outside of brackets.
  std::vector<std::pair<std::size_t, std::size_t>> split(std::size_t begin, std::size_t end) const {
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    std::size_t start = begin;
    scan(line_.text.substr(0, end), begin, [&](std::size_t i, char c, int depth) {
      if (c == ',' && depth == 0) {
        parts.emplace_back(start, i);
        start = i + 1;
      }
      return true;
    });
    if (start < end || !parts.empty()) parts.emplace_back(start, end);
    return parts;
  }

  /// "b=batch, 64" in [begin, end).
  Result<std::vector<Axis>> axis_list(std::size_t begin, std::size_t end) {
    std::vector<Axis> axes;
    const std::size_t line_end = std::exchange(end_, end);
    for (const auto& [first, last] : split(begin, end)) {
      Axis axis{.name = default_axis(axes.size()), .extent = {}};
      at_ = first;
      skip_space();
      if (at_ >= last) return error("expected a dimension");
      std::size_t extent = at_;
      if (peek() == '`' || peek() == '_' || std::isalpha(static_cast<unsigned char>(peek()))) {
        AICF_TRY(std::string name, take_name("an axis"));
        skip_space();
        if (peek() == '=' && !(at_ + 1 < last && line_.text[at_ + 1] == '=')) {
          axis.name = std::move(name);
          extent = at_ + 1;
        }
      }
      const Scope scope{.symbols = names_in(line_.text.substr(extent, last - extent))};
      AICF_TRY(axis.extent, expression(extent, last, scope));
      symbols_.merge(symbols_of(axis.extent));
      axes.push_back(std::move(axis));
    }
    at_ = end;
    end_ = line_end;
    return axes;
  }

  /// Position of the bracket that closes the one at `open`.
  Result<std::size_t> closing(std::size_t open) const {
    std::size_t close = std::string_view::npos;
    scan(line_.text.substr(0, end_), open, [&](std::size_t i, char c, int depth) {
      if ((c == ')' || c == ']') && depth == 0) close = i;
      return close == std::string_view::npos;
    });
    if (close == std::string_view::npos) return bad_input("this bracket is not closed", place(line_.number, open));
    return close;
  }

  Result<void> statement(std::vector<std::string> origin) {
    AICF_TRY(std::string word, take_name("a node"));
    skip_space();
    NodeKind kind = NodeKind::compute;
    if (peek() != ':') {
      if (word == "output") return output();
      if (word != "input" && word != "constant") return error("expected ':' after the name of a node");
      kind = word == "input" ? NodeKind::input : NodeKind::constant;
      AICF_TRY(word, take_name("a node"));
    }
    if (graph_.find(word)) return error(fmt::format("node '{}' is defined twice", word));
    AICF_RETURN_IF_ERROR(expect(":"));
    AICF_TRY(const std::string type_name, take_name("an element type"));
    const auto type = parse_dtype(type_name);
    if (!type) return error(fmt::format("'{}' is not an element type", type_name));
    AICF_RETURN_IF_ERROR(expect("["));
    AICF_TRY(const std::size_t close, closing(at_ - 1));
    AICF_TRY(std::vector<Axis> axes, axis_list(at_, close));
    at_ = close + 1;
    skip_space();
    if (kind == NodeKind::input) {
      scope_.tensors[word] = *type;
      if (at_ != end_) return error("expected the end of the line");
      graph_.add_input(std::move(word), *type, std::move(axes));
      return {};
    }
    AICF_RETURN_IF_ERROR(expect("="));
    if (kind == NodeKind::constant) return constant(std::move(word), *type, std::move(axes));
    Node node{.name = std::move(word), .type = *type, .axes = std::move(axes), .origin = std::move(origin)};
    AICF_RETURN_IF_ERROR(definition(node));
    scope_.tensors[node.name] = *type;  // only now: a node cannot load itself
    graph_.add(std::move(node));
    return {};
  }

  Result<void> output() {
    AICF_TRY(std::string name, take_name("a node"));
    AICF_RETURN_IF_ERROR(expect("as"));
    AICF_TRY(std::string as, take_quoted());
    if (at_ != end_) return error("expected the end of the line");
    outputs_.push_back({line_.number, std::move(name), std::move(as)});
    return {};
  }

  Result<void> constant(std::string name, DType type, std::vector<Axis> axes) {
    AICF_RETURN_IF_ERROR(expect("#"));
    int index = -1;
    const char* begin = line_.text.data() + at_;
    const char* end = line_.text.data() + end_;
    const auto [stop, status] = std::from_chars(begin, end, index);
    if (status != std::errc() || stop != end || index < 0)
      return error("expected the number of a constant, as in '#0'");
    scope_.tensors[name] = type;
    graph_.add_constant(std::move(name), type, std::move(axes), index);
    return {};
  }

  /// The right side: an expression, or "sum(expression over d=64)".
  Result<void> definition(Node& node) {
    skip_space();
    std::size_t begin = at_, end = end_;
    std::size_t word = begin;
    while (word < end && std::isalpha(static_cast<unsigned char>(line_.text[word]))) ++word;
    const auto op = parse_reduce_op(line_.text.substr(begin, word - begin));
    if (op && *op != ReduceOp::none && word < end && line_.text[word] == '(') {
      AICF_TRY(const std::size_t close, closing(word));
      std::size_t over = std::string_view::npos;
      constexpr std::string_view keyword = " over ";
      scan(line_.text.substr(0, close), word + 1, [&](std::size_t i, char c, int depth) {
        if (c == ' ' && depth == 0 && line_.text.substr(i, keyword.size()) == keyword) over = i;
        return true;
      });
      if (over != std::string_view::npos && close + 1 == end) {
        node.reduce = *op;
        AICF_TRY(node.reduce_axes, axis_list(over + keyword.size(), close));
        begin = word + 1;
        end = over;
      }
    }
    scope_.axes.clear();
    scope_.symbols = symbols_;
    for (const auto* list : {&node.axes, &node.reduce_axes}) {
      for (const Axis& axis : *list) {
        scope_.axes.insert(axis.name);
        scope_.symbols.erase(axis.name);  // an axis hides a symbol: verify() rejects bodies that would need both
      }
    }
    AICF_TRY(node.body, expression(begin, end, scope_));
    return {};
  }

  struct PendingOutput {
    int line;
    std::string name, as;
  };

  std::string_view text_;
  std::string place_;
  Line line_{};
  std::size_t at_ = 0, end_ = 0;  // the part of the line that is still to be read
  Graph graph_;
  std::set<std::string> symbols_;
  Scope scope_;  // of the body that is being read; its tensors are the nodes so far
  std::vector<PendingOutput> outputs_;
};

}  // namespace

std::string to_string(const Node& node) {
  const bool computes = node.kind == NodeKind::compute;
  const std::string head =
      fmt::format("{}: {}[{}]", name_text(node.name), name(node.type), axes_text(node.axes, !computes));
  if (node.kind == NodeKind::input) return "input    " + head;
  if (node.kind == NodeKind::constant) return fmt::format("constant {} = #{}", head, node.constant);
  std::string body = to_string(node.body);
  if (node.reduce != ReduceOp::none) {
    body = fmt::format("{}({} over {})", name(node.reduce), body, axes_text(node.reduce_axes, false));
  }
  return fmt::format("{} = {}{}", head, body, origin_text(node));
}

std::string to_string(const Graph& graph) {
  std::string text;
  const std::vector<NodeId> order = graph.topological_order();
  for (const NodeKind kind : {NodeKind::input, NodeKind::constant, NodeKind::compute}) {
    for (const NodeId id : order) {
      if (graph.node(id).kind == kind) text += to_string(graph.node(id)) + "\n";
    }
  }
  for (const Graph::Output& output : graph.outputs()) {
    text += fmt::format("output   {} as {}\n", name_text(graph.node(output.node).name), quoted(output.name));
  }
  return text;
}

Result<Graph> parse_graph(std::string_view text, std::string_view place) {
  return Parser(text, place).run();
}

std::string to_dot(const Graph& graph) {
  std::string text = "digraph graph_ {\n  node [shape=box, fontname=monospace];\n";
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const std::string kind(node.kind == NodeKind::input      ? "input"
                           : node.kind == NodeKind::constant ? "constant"
                                                             : name(primitive(node)));
    Node bare = node;
    bare.origin.clear();
    text += fmt::format("  n{} [label={}{}];\n", id, quoted(kind + "\n" + to_string(bare)),
                        graph.is_output(id) ? ", peripheries=2" : "");
    for (const NodeId producer : graph.producers(id)) text += fmt::format("  n{} -> n{};\n", producer, id);
  }
  return text + "}\n";
}

}  // namespace aicf
