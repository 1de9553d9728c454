// The text form of a semantic graph:
//
//     attention(Q: f32[batch, head, q, d=64], K: f32[batch, head, kv, d]) -> out, scores: f32[batch, head, q, kv]
//     opset 17                                      # optional; "opset com.microsoft 1" for another domain
//     W: f32[2, 2] = [1, 2, 3, 4]                   # a constant
//     scores = MatMul(Q, Transpose(K, perm=[0, 1, 3, 2]))
//     out, _ = Dropout(Softmax(scores, axis=-1)) @"/layer/Dropout"
//
// One statement a line; lines go on inside brackets. A call's operands are names, calls, numbers (0.5 is f32, 3 is i64,
// true is bool), lists of numbers, typed numbers (f16(0.5), i32[2]([1, 2])), or _ for an absent one; then attributes by
// name; an attribute that is a graph is "then_branch=NAME() -> outputs {", its statements on lines of their own, "}". "d=64"
// in a size names the number 64. A node is called like its first output unless @"name" says otherwise.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "frontend/model.h"
#include "frontend/semantic/check.h"
#include "frontend/semantic/dimension.h"
#include "frontend/semantic/op_table.h"
#include "frontend/text/lexer.h"

namespace aicf {
namespace {

/// A number, or a (typed) list of numbers.
struct Literal {
  bool list = false, any_real = false, any_bool = false;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::optional<DType> type;
  std::optional<std::vector<std::int64_t>> dims;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view place, std::vector<Token> tokens)
      : text_(text), place_(place), tokens_(std::move(tokens)) {}

  Result<SemanticGraph> run() {
    graph_.opsets[""] = default_opset;
    skip_newlines();
    AICF_RETURN_IF_ERROR(header());
    AICF_RETURN_IF_ERROR(end_of_line());
    while (skip_newlines(), peek().kind != Token::Kind::end) AICF_RETURN_IF_ERROR(statement());
    AICF_RETURN_IF_ERROR(check_outputs());
    return std::move(graph_);
  }

 private:
  // ---- tokens ----------------------------------------------------------------------------------------------------
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(std::string_view symbol, std::size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::symbol && peek(ahead).text == symbol;
  }
  bool accept(std::string_view symbol) {
    if (!is(symbol)) return false;
    ++at_;
    return true;
  }
  Result<void> expect(std::string_view symbol) {
    if (accept(symbol)) return {};
    return bad(peek(), fmt::format("'{}' expected, found {}", symbol, shown(peek())));
  }
  void skip_newlines() {
    while (peek().kind == Token::Kind::newline) ++at_;
  }
  static std::string shown(const Token& t) {
    if (t.kind == Token::Kind::newline || t.kind == Token::Kind::end) return "the end of the line";
    return in_quotes(t.text);
  }
  std::unexpected<Diagnostic> bad(const Token& t, std::string message) const {
    return bad_input(std::move(message), fmt::format("{}:{}:{}", place_, t.line, t.column));
  }
  Result<std::string> name(std::string_view what) {
    if (peek().kind != Token::Kind::name) return bad(peek(), fmt::format("{} expected, found {}", what, shown(peek())));
    return tokens_[at_++].text;
  }

  // ---- signature -------------------------------------------------------------------------------------------------
  Result<void> header() {
    AICF_TRY(graph_.name, name("the name of the graph"));
    AICF_RETURN_IF_ERROR(expect("("));
    while (!is(")")) {
      const Token& start = peek();
      AICF_TRY(SemanticInput input, typed_name());
      if (!known_.insert(input.name).second)
        return bad(start, fmt::format("input {} is declared twice", in_quotes(input.name)));
      graph_.inputs.push_back(std::move(input));
      if (!accept(",")) break;
    }
    AICF_RETURN_IF_ERROR(expect(")"));
    AICF_RETURN_IF_ERROR(expect("->"));
    do {
      output_tokens_.push_back(peek());
      if (is(":", 1)) {
        AICF_TRY(SemanticInput output, typed_name());
        graph_.outputs.push_back(output.name);
        graph_.declared_outputs.push_back(std::move(output));
      } else {
        AICF_TRY(std::string output, name("the name of an output"));
        graph_.outputs.push_back(std::move(output));
      }
    } while (accept(","));
    output_names_.insert(graph_.outputs.begin(), graph_.outputs.end());
    return {};
  }

  Result<void> check_outputs() const {
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      if (!known_.contains(graph_.outputs[k])) {
        return bad(output_tokens_[k], fmt::format("output {} is never made", in_quotes(graph_.outputs[k])));
      }
    }
    return {};
  }

  /// A graph in braces. It reads what is made before its line; what it makes ends with it.
  Result<std::shared_ptr<const SemanticGraph>> subgraph() {
    if (++nesting_ > max_nesting)
      return bad(peek(), fmt::format("graphs stand inside each other more than {} deep", max_nesting));
    SemanticGraph outer = std::exchange(graph_, {});
    graph_.opsets = outer.opsets;
    std::vector<Token> tokens = std::exchange(output_tokens_, {});
    AICF_RETURN_IF_ERROR(header());
    AICF_RETURN_IF_ERROR(expect("{"));
    while (skip_newlines(), !is("}")) {
      if (peek().kind == Token::Kind::end) return bad(peek(), "'}' expected, found the end of the file");
      AICF_RETURN_IF_ERROR(statement());
    }
    AICF_RETURN_IF_ERROR(expect("}"));
    AICF_RETURN_IF_ERROR(check_outputs());
    output_tokens_ = std::move(tokens);
    for (const SemanticInput& input : graph_.inputs) known_.erase(input.name);
    for (const auto& [name, tensor] : graph_.initializers) known_.erase(name);
    for (const SemanticNode& node : graph_.nodes) {
      for (const std::string& output : node.outputs) known_.erase(output);
    }
    graph_.opsets.clear();
    --nesting_;
    return std::make_shared<const SemanticGraph>(std::exchange(graph_, std::move(outer)));
  }

  Result<SemanticInput> typed_name() {
    SemanticInput input;
    AICF_TRY(input.name, name("a name"));
    AICF_RETURN_IF_ERROR(expect(":"));
    AICF_TRY(input.type, type());
    AICF_TRY(input.shape, sizes());
    return input;
  }

  Result<DType> type() {
    const Token& t = peek();
    AICF_TRY(const std::string word, name("an element type"));
    const auto type = parse_dtype(word);
    if (!type) return bad(t, fmt::format("{} is no element type; f32, f16, i64 and bool are some", in_quotes(word)));
    return *type;
  }

  /// "[batch, 2 * seq, d=64]"; no brackets are rank 0.
  Result<std::vector<Expr>> sizes() {
    std::vector<Expr> shape;
    if (!accept("[")) return shape;
    while (!is("]")) {
      const Token start = peek();
      std::string bound;
      if (start.kind == Token::Kind::name && is("=", 1)) {
        bound = start.text;
        at_ += 2;
      }
      const std::size_t begin = peek().offset;
      int depth = 0;
      while (peek().kind != Token::Kind::end && (depth > 0 || !(is(",") || is("]")))) {
        if (is("(")) ++depth;
        if (is(")")) --depth;
        ++at_;
      }
      std::string words(text_.substr(begin, peek().offset - begin));
      while (!words.empty() && std::isspace(static_cast<unsigned char>(words.back())) != 0) words.pop_back();
      if (words.empty()) return bad(start, "a size expected");
      if (words.size() > 2 && words.front() == '`' && words.back() == '`') words = words.substr(1, words.size() - 2);
      auto dim = parse_dimension(words);
      if (!dim) return bad(start, dim.error().message);
      ExprMap numbers;
      for (const auto& [size, value] : sizes_) numbers.emplace(size, Expr(value));
      Expr value = simplify(substitute_symbols(*dim, numbers));
      if (!bound.empty()) {
        const auto number = value.as_int();
        if (!number) return bad(start, fmt::format("the size of {} must be a number", in_quotes(bound)));
        const auto [place, fresh] = sizes_.try_emplace(bound, *number);
        if (!fresh && place->second != *number) {
          return bad(start, fmt::format("{} is {} here and {} before", in_quotes(bound), *number, place->second));
        }
      }
      shape.push_back(std::move(value));
      if (!accept(",")) break;
    }
    AICF_RETURN_IF_ERROR(expect("]"));
    return shape;
  }

  Result<void> end_of_line() {
    if (peek().kind == Token::Kind::newline || peek().kind == Token::Kind::end || is("}")) return {};
    return bad(peek(), fmt::format("the end of the line expected, found {}", shown(peek())));
  }

  // ---- statements ------------------------------------------------------------------------------------------------
  Result<void> statement() {
    if (peek().kind == Token::Kind::name && peek().text == "opset" && !peek().quoted && !is("=", 1) && !is(",", 1) &&
        !is(":", 1)) {
      return opset();
    }
    if (is(":", 1)) return constant();
    std::vector<std::string> targets;
    const Token start = peek();
    do {
      const Token& t = peek();
      AICF_TRY(std::string target, name("a name"));
      if (target == "_" && !t.quoted)
        target.clear();
      else if (!known_.insert(target).second)
        return bad(t, fmt::format("{} is made twice", in_quotes(target)));
      targets.push_back(std::move(target));
    } while (accept(","));
    AICF_RETURN_IF_ERROR(expect("="));
    for (const std::string& t : targets) known_.erase(t);  // not yet, for the operands
    AICF_TRY(const std::string last, call(targets));
    (void)last;
    for (const std::string& t : targets) {
      if (!t.empty()) known_.insert(t);
    }
    if (accept("@")) {
      if (peek().kind != Token::Kind::text) return bad(peek(), "the name of the node in double quotes expected");
      graph_.nodes.back().name = tokens_[at_++].text;
    }
    return end_of_line();
  }

  Result<void> opset() {
    ++at_;
    std::string domain;
    while (peek().kind == Token::Kind::name) {
      AICF_TRY(const std::string word, name("a domain"));
      domain += (domain.empty() ? "" : ".") + word;
      if (!accept(".")) break;
    }
    const Token& t = peek();
    AICF_TRY(const Literal version, literal());
    if (version.list || version.any_real || version.integers[0] < 1 || version.integers[0] > 1000)
      return bad(t, "an opset number expected");
    if (nesting_ > 0 || !graph_.nodes.empty()) return bad(t, "opset lines stand before the first operation");
    graph_.opsets[domain == "ai.onnx" ? "" : domain] = static_cast<int>(version.integers[0]);
    return end_of_line();
  }

  Result<void> constant() {
    const Token start = peek();
    AICF_TRY(const SemanticInput declared, typed_name());
    if (!known_.insert(declared.name).second)
      return bad(start, fmt::format("{} is made twice", in_quotes(declared.name)));
    AICF_RETURN_IF_ERROR(expect("="));
    std::vector<std::int64_t> dims;
    for (const Expr& dim : declared.shape) {
      const auto n = dim.as_int();
      if (!n) return bad(start, "the sizes of a constant must be numbers");
      dims.push_back(*n);
    }
    if (peek().kind == Token::Kind::name && peek().text == "elided") {
      return bad(peek(),
                 fmt::format("the data of {} was left out when this text was printed", in_quotes(declared.name)));
    }
    AICF_TRY(Literal value, literal());
    value.type = declared.type;
    value.dims = dims;
    AICF_TRY(Tensor tensor, to_tensor(value, start));
    graph_.initializers.emplace(declared.name, std::move(tensor));
    return end_of_line();
  }

  // ---- calls -----------------------------------------------------------------------------------------------------
  /// Appends the node of a call (after those of its operands) with the given outputs, or with one output of a made-up
  /// name when there are none. Returns the first output's name.
  Result<std::string> call(std::vector<std::string> outputs) {
    if (++depth_ > 200) return bad(peek(), "calls are nested deeper than 200");
    const Token start = peek();
    SemanticNode node;
    AICF_TRY(node.op, name("an operator"));
    while (accept(".")) {
      node.domain += (node.domain.empty() ? "" : ".") + node.op;
      AICF_TRY(node.op, name("an operator"));
    }
    AICF_TRY(const OpRow* row, row_of(node, start));
    AICF_RETURN_IF_ERROR(expect("("));
    while (!is(")")) {
      if (peek().kind == Token::Kind::name && is("=", 1)) {
        AICF_RETURN_IF_ERROR(attribute(node, *row));
      } else {
        if (!node.attributes.empty()) return bad(peek(), "operands stand before attributes");
        AICF_TRY(std::string operand, this->operand());
        node.inputs.push_back(std::move(operand));
      }
      if (!accept(",")) break;
    }
    AICF_RETURN_IF_ERROR(expect(")"));
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    const bool made_up = outputs.empty();
    if (made_up) outputs.push_back(fresh_name(node.op));
    node.outputs = std::move(outputs);
    const auto first = std::ranges::find_if(node.outputs, [](const std::string& o) { return !o.empty(); });
    node.name = first != node.outputs.end() ? *first : fmt::format("{}_{}", node.op, graph_.nodes.size());
    const std::string result = node.outputs[0];
    if (made_up) known_.insert(result);
    graph_.nodes.push_back(std::move(node));
    --depth_;
    return result;
  }

  Result<const OpRow*> row_of(SemanticNode& node, const Token& start) const {
    const auto opset = graph_.opsets.find(node.domain);
    if (opset == graph_.opsets.end()) {
      return bad(start,
                 fmt::format("domain {} has no opset; add a line \"opset {} 1\"", in_quotes(node.domain), node.domain));
    }
    node.opset = opset->second;
    if (const OpRow* row = find_op(node.op, node.domain, node.opset)) return row;
    const OpRow* other = find_op_any_opset(node.op, node.domain);
    const std::string message =
        other ? fmt::format("operator {} is not in opset {}; it exists from {}", node.op, node.opset, other->since)
              : fmt::format("unknown operator {}", in_quotes(node.op));
    return unsupported(message, fmt::format("{}:{}:{}", place_, start.line, start.column));
  }

  Result<std::string> operand() {
    const Token& t = peek();
    if (t.kind == Token::Kind::name) {
      const bool word = !t.quoted;
      if (word && t.text == "_") {
        ++at_;
        return std::string();
      }
      const bool value = word && (t.text == "inf" || t.text == "nan" || t.text == "true" || t.text == "false");
      const bool typed = word && parse_dtype(t.text) && (is("(", 1) || is("[", 1));
      if (!value && !typed) {
        if (is("(", 1) || is(".", 1)) return call({});
        if (!known_.contains(t.text)) return bad(t, fmt::format("{} is not made before this line", in_quotes(t.text)));
        ++at_;
        return t.text;
      }
    }
    const Token start = t;
    AICF_TRY(const Literal value, literal());
    AICF_TRY(Tensor tensor, to_tensor(value, start));
    const std::string name = fresh_name("constant");
    known_.insert(name);
    graph_.initializers.emplace(name, std::move(tensor));
    return name;
  }

  std::string fresh_name(const std::string& base) {
    for (;; ++made_up_) {
      std::string name = fmt::format("{}_{}", base, made_up_);
      if (!known_.contains(name) && !output_names_.contains(name)) {
        ++made_up_;
        return name;
      }
    }
  }

  Result<void> attribute(SemanticNode& node, const OpRow& row) {
    const Token start = peek();
    AICF_TRY(const std::string key, name("an attribute"));
    AICF_RETURN_IF_ERROR(expect("="));
    const std::vector<AttributeRule> rules = row.attribute_rules();
    const auto rule = std::ranges::find(rules, key, &AttributeRule::name);
    if (rule == rules.end())
      return bad(start, fmt::format("{} of opset {} has no attribute {}", node.op, node.opset, in_quotes(key)));
    AICF_TRY(Attribute value, attribute_value(rule->kind));
    if (value.kind != rule->kind) {
      return bad(start,
                 fmt::format("attribute {} is {}, {} wanted", key, kind_name(value.kind), kind_name(rule->kind)));
    }
    if (!node.attributes.emplace(key, std::move(value)).second)
      return bad(start, fmt::format("attribute {} is given twice", key));
    return {};
  }

  Result<Attribute> attribute_value(Attribute::Kind wanted) {
    Attribute a;
    if (wanted == Attribute::Kind::graph) {
      a.kind = wanted;
      AICF_TRY(a.g, subgraph());
      return a;
    }
    if (peek().kind == Token::Kind::text) {
      a.kind = Attribute::Kind::text;
      a.s = tokens_[at_++].text;
      return a;
    }
    if (is("[") && (peek(1).kind == Token::Kind::text || (wanted == Attribute::Kind::texts && is("]", 1)))) {
      a.kind = Attribute::Kind::texts;
      ++at_;
      while (peek().kind == Token::Kind::text) {
        a.ss.push_back(tokens_[at_++].text);
        if (!accept(",")) break;
      }
      AICF_RETURN_IF_ERROR(expect("]"));
      return a;
    }
    const Token start = peek();
    AICF_TRY(Literal value, literal());
    if (wanted == Attribute::Kind::tensor || value.type) {
      a.kind = Attribute::Kind::tensor;
      AICF_TRY(a.t, to_tensor(value, start));
    } else if (value.list) {
      const bool real = value.any_real || wanted == Attribute::Kind::reals;
      a.kind = real ? Attribute::Kind::reals : Attribute::Kind::integers;
      if (real)
        a.fs = value.reals;
      else
        a.is = value.integers;
    } else {
      const bool real = value.any_real || wanted == Attribute::Kind::real;
      a.kind = real ? Attribute::Kind::real : Attribute::Kind::integer;
      if (real)
        a.f = value.reals[0];
      else
        a.i = value.integers[0];
    }
    return a;
  }

  // ---- numbers ---------------------------------------------------------------------------------------------------
  Result<Literal> literal(bool typed = false) {
    Literal value;
    if (peek().kind == Token::Kind::name && !peek().quoted) {
      if (const auto type = parse_dtype(peek().text); type && (is("(", 1) || is("[", 1))) {
        if (typed) return bad(peek(), "a number with two element types");
        ++at_;
        const Token start = peek();
        AICF_TRY(const std::vector<Expr> shape, sizes());
        AICF_RETURN_IF_ERROR(expect("("));
        AICF_TRY(value, literal(true));
        AICF_RETURN_IF_ERROR(expect(")"));
        value.type = type;
        if (start.text == "[") {
          value.dims.emplace();
          for (const Expr& dim : shape) {
            const auto n = dim.as_int();
            if (!n) return bad(start, "the sizes of a constant must be numbers");
            value.dims->push_back(*n);
          }
        }
        return value;
      }
    }
    if (!accept("[")) {
      AICF_RETURN_IF_ERROR(number(value));
      return value;
    }
    value.list = true;
    while (!is("]")) {
      AICF_RETURN_IF_ERROR(number(value));
      if (!accept(",")) break;
    }
    AICF_RETURN_IF_ERROR(expect("]"));
    return value;
  }

  Result<void> number(Literal& value) {
    const bool negative = accept("-");
    if (!negative) accept("+");
    const Token& t = peek();
    double real = 0;
    std::int64_t integer = 0;
    if (t.kind == Token::Kind::name && !t.quoted && (t.text == "inf" || t.text == "nan")) {
      real = t.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
      value.any_real = true;
    } else if (t.kind == Token::Kind::name && !t.quoted && (t.text == "true" || t.text == "false")) {
      integer = t.text == "true" ? 1 : 0;
      real = static_cast<double>(integer);
      value.any_bool = true;
    } else if (t.kind == Token::Kind::integer) {
      const std::string digits = (negative ? "-" : "") + t.text;  // with the sign: −2^63 has no positive twin
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
      if (error != std::errc()) return bad(t, "the number does not fit 64 bits");
      ++at_;
      value.integers.push_back(integer);
      value.reals.push_back(static_cast<double>(integer));
      return {};
    } else if (t.kind == Token::Kind::real) {
      const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), real);
      if (error != std::errc() || end != t.text.data() + t.text.size())
        return bad(t, fmt::format("{} is no number", in_quotes(t.text)));
      value.any_real = true;
    } else {
      return bad(t, fmt::format("a number expected, found {}", shown(t)));
    }
    ++at_;
    value.reals.push_back(negative ? -real : real);
    value.integers.push_back(negative ? -integer : integer);
    return {};
  }

  Result<Tensor> to_tensor(const Literal& value, const Token& start) {
    const DType type = value.type       ? *value.type
                       : value.any_real ? DType::f32
                       : value.any_bool ? DType::boolean
                                        : DType::i64;
    if (!is_float(type) && value.any_real)
      return bad(start, fmt::format("a number with a point for elements of {}", aicf::name(type)));
    const auto count = static_cast<std::int64_t>(value.reals.size());
    std::vector<std::int64_t> dims;
    if (value.dims)
      dims = *value.dims;
    else if (value.list)
      dims = {count};
    auto size = checked_size(type, dims);
    if (!size) return bad(start, size.error().message);
    std::int64_t elements = 1;
    for (const std::int64_t d : dims) elements *= d;
    if (elements != count && !(count == 1 && !value.list)) {
      return bad(start, fmt::format("{} numbers for {} elements", count, elements));
    }
    if (elements != count && (repeated_ += elements) > most_repeated) {
      return bad(start, fmt::format("constants that repeat one number have more than {} elements; write Expand",
                                    most_repeated));
    }
    Tensor tensor(type, dims);
    for (std::int64_t k = 0; k < elements; ++k) {
      const std::size_t from = count == 1 ? 0 : static_cast<std::size_t>(k);
      if (type == DType::i64)
        reinterpret_cast<std::int64_t*>(tensor.mutable_bytes().data())[k] = value.integers[from];
      else
        tensor.set(k, value.reals[from]);
    }
    return tensor;
  }

  std::string_view text_, place_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  SemanticGraph graph_;
  std::set<std::string> known_, output_names_;
  std::map<std::string, std::int64_t> sizes_;  ///< sizes named by "d=64"
  std::vector<Token> output_tokens_;
  int made_up_ = 0, depth_ = 0, nesting_ = 0;
  static constexpr std::int64_t most_repeated = 1 << 22;  ///< a few bytes of text ask for no more memory than this
  std::int64_t repeated_ = 0;                             ///< elements made from one number so far
};

}  // namespace

Result<SemanticGraph> parse_semantic(std::string_view text, std::string_view place) {
  AICF_TRY(std::vector<Token> tokens, tokenize(text, place));
  return Parser(text, place, std::move(tokens)).run();
}

}  // namespace aicf
