// The reader of kernel text: one operation a line, bodies by indentation (two spaces a level).

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "mir/kernel/kernel_text.h"

namespace aicf {
namespace kernel_text {
namespace {

struct Line {
  int depth = 0;
  std::string_view text;
  std::string place;
  std::string note;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// Position of `token` outside of brackets and quoted names, npos when there is none.
std::size_t find_top(std::string_view text, std::string_view token) {
  int depth = 0;
  bool in_name = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!in_name && depth == 0 && text.substr(i).starts_with(token)) return i;
    if (c == '`') in_name = !in_name;
    if (in_name) continue;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split_top(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  if (trimmed(text).empty()) return parts;
  for (;;) {
    const std::size_t at = find_top(text, separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

/// Cuts `text` at `token` and returns what follows; empty when the token does not occur.
std::optional<std::string_view> cut(std::string_view& text, std::string_view token) {
  const std::size_t at = find_top(text, token);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = trimmed(text.substr(at + token.size()));
  text = trimmed(text.substr(0, at));
  return rest;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  if (text.size() > word.size() && text[word.size()] != ' ' && text[word.size()] != ':') return false;
  text = trimmed(text.substr(word.size()));
  return true;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view place) {
    int number = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      ++number;
      Line l;
      l.place = place.empty() ? fmt::format("line {}", number) : fmt::format("{}:{}", place, number);
      if (const auto note = cut_note(line)) l.note = *note;
      const std::size_t indent = line.find_first_not_of(' ');
      line = trimmed(line);
      if (line.empty()) continue;
      l.depth = static_cast<int>(indent);
      l.text = line;
      lines_.push_back(std::move(l));
    }
    end_.place = place.empty() ? "the end of the text" : std::string(place);
  }

  Result<Kernel> run() {
    AICF_RETURN_IF_ERROR(head());
    AICF_RETURN_IF_ERROR(prescan());
    AICF_RETURN_IF_ERROR(declarations());
    AICF_RETURN_IF_ERROR(body(kernel_.body, lines_[0].depth));
    if (at_ < lines_.size()) return error("the line belongs to no body; check its indentation");
    return std::move(kernel_);
  }

 private:
  static std::optional<std::string> cut_note(std::string_view& line) {
    const std::size_t at = find_top(line, "# ");
    if (at == std::string_view::npos) return std::nullopt;
    std::string note(trimmed(line.substr(at + 2)));
    line = line.substr(0, at);
    return note;
  }

  const Line& line() const { return at_ < lines_.size() ? lines_[at_] : end_; }
  std::unexpected<Diagnostic> error(std::string message) const { return bad_input(std::move(message), line().place); }

  // ---- small parts -----------------------------------------------------------------------------------------------

  /// A name at the start of `text`, taken off.
  Result<std::string> take_name(std::string_view& text) const {
    text = trimmed(text);
    std::string name;
    if (text.starts_with('`')) {
      std::size_t i = 1;
      for (; i < text.size(); ++i) {
        if (text[i] == '`') {
          if (i + 1 >= text.size() || text[i + 1] != '`') break;
          ++i;
        }
        name += text[i];
      }
      if (i >= text.size()) return error("a quoted name has no closing backtick");
      text.remove_prefix(i + 1);
    } else {
      const std::size_t end = std::min(text.find_first_of(" ,:;()[]="), text.size());
      name = std::string(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (name.empty()) return error(fmt::format("expected a name at '{}'", text));
    text = trimmed(text);
    return name;
  }

  Result<std::vector<std::string>> names(std::string_view text) const {
    std::vector<std::string> result;
    for (std::string_view part : split_top(text, ",")) {
      AICF_TRY(std::string name, take_name(part));
      if (!part.empty()) return error(fmt::format("unexpected '{}' after '{}'", part, name));
      result.push_back(std::move(name));
    }
    return result;
  }

  Result<std::int64_t> integer(std::string_view text) const {
    std::int64_t value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || stop != text.data() + text.size())
      return error(fmt::format("'{}' is not an integer", text));
    return value;
  }

  Result<std::vector<std::int64_t>> integers(std::string_view text) const {
    std::vector<std::int64_t> result;
    for (const std::string_view part : split_top(text, ",")) {
      AICF_TRY(const std::int64_t n, integer(part));
      result.push_back(n);
    }
    return result;
  }

  Result<Expr> expression(std::string_view text, const Order& order,
                          const std::map<std::string, DType>& extra = {}) const {
    Scope scope = words_.scope(order);
    scope.values.insert(extra.begin(), extra.end());
    AICF_TRY(const Expr e, parse_expr(text, scope, line().place));
    return words_.resolved(e);
  }

  Result<std::vector<Expr>> expressions(std::string_view text, const Order& order) const {
    std::vector<Expr> result;
    for (const std::string_view part : split_top(text, ",")) {
      AICF_TRY(Expr e, expression(part, order));
      result.push_back(std::move(e));
    }
    return result;
  }

  /// "axis = expression", with "base" already taken.
  Result<void> base(std::string_view text, std::map<std::string, Expr>& bases) const {
    AICF_TRY(const std::string axis, take_name(text));
    if (!text.starts_with('=')) return error("expected '=' after the axis of a base");
    AICF_TRY(bases[axis], expression(text.substr(1), sizes_first));
    return {};
  }

  /// "for axis_tile in grid: " before a base of the whole kernel, taken off; false where text is something else.
  bool take_grid_loop(std::string_view& text) const {
    std::string_view rest = text;
    if (!take_word(rest, "for") || !take_name(rest)) return false;
    if (!take_word(rest, "in") || !take_word(rest, "grid") || !rest.starts_with(':')) return false;
    text = trimmed(rest.substr(1));
    return true;
  }

  /// "name[index, …]" at the start of text, taken off.
  Result<std::pair<std::string, std::vector<Expr>>> access(std::string_view& text, const Order& order) const {
    AICF_TRY(const std::string name, take_name(text));
    if (!text.starts_with('[')) return error(fmt::format("expected '[' after '{}'", name));
    text.remove_prefix(1);
    const std::size_t close = find_top(text, "]");
    if (close == std::string_view::npos) return error("a bracket is not closed");
    AICF_TRY(auto index, expressions(text.substr(0, close), order));
    text = trimmed(text.substr(close + 1));
    return std::pair(name, std::move(index));
  }

  // ---- head ------------------------------------------------------------------------------------------------------

  Result<void> head() {
    if (lines_.empty()) return error("expected 'kernel'");
    std::string_view text = line().text;
    if (!take_word(text, "kernel")) return error("expected 'kernel'");
    AICF_TRY(kernel_.name, take_name(text));
    const auto subgroup = cut(text, "subgroup ");
    if (!take_word(text, "work_items") || !subgroup) return error("expected 'work_items … subgroup lanes x subgroups'");
    workgroups_ = text;
    std::string_view lanes = *subgroup;
    const auto subgroups = cut(lanes, "x");
    if (!subgroups) return error("expected 'subgroup lanes x subgroups'");
    AICF_TRY(const std::int64_t size, integer(lanes));
    AICF_TRY(const std::int64_t count, integer(*subgroups));
    if (size < 1 || size > 128 || count < 1 || count > 64)
      return error("a subgroup has 1 to 128 lanes, a workgroup 1 to 64 subgroups");
    kernel_.subgroup_size = static_cast<int>(size);
    kernel_.subgroups = static_cast<int>(count);
    at_ = 1;
    return {};
  }

  /// Names that expressions may use anywhere: symbols, axes, tiles, loop variables.
  Result<void> prescan() {
    words_.sizes = {"workgroup", "lane", "subgroup"};
    for (; at_ < lines_.size(); ++at_) {
      std::string_view text = line().text;
      if (take_word(text, "symbols")) {
        AICF_TRY(kernel_.symbols, names(text));
        words_.sizes.insert(kernel_.symbols.begin(), kernel_.symbols.end());
      } else if (take_word(text, "axes")) {
        AICF_TRY(const auto axes, names(text));
        words_.axes.insert(axes.begin(), axes.end());
      } else if (take_grid_loop(text)) {
        if (!take_word(text, "base")) return error("expected 'base axis = …' after 'in grid:'");
        AICF_TRY(const std::string axis, take_name(text));
        words_.axes.insert(axis);
      } else if (take_word(text, "tile")) {
        AICF_TRY(KernelTile t, tile(text));
        words_.tiles[t.name] = t.type;
        for (const TileAxis& a : t.axes) words_.axes.insert(a.name);
        kernel_.tiles.push_back(std::move(t));
      } else if (take_word(text, "for")) {
        AICF_TRY(const std::string variable, take_name(text));
        words_.sizes.insert(variable);
        const auto bases = cut(text, ":");
        for (std::string_view part : split_top(bases.value_or(""), ";")) {
          if (!take_word(part, "base")) return error("expected 'base axis = …' after ':'");
          AICF_TRY(const std::string axis, take_name(part));
          words_.axes.insert(axis);
        }
      }
    }
    at_ = 0;
    AICF_TRY(kernel_.workgroups, expression(workgroups_, sizes_first));
    at_ = 1;
    return {};
  }

  Result<KernelTile> tile(std::string_view text) const {
    KernelTile t;
    AICF_TRY(t.name, take_name(text));
    if (!text.starts_with(':')) return error("expected ':' after the tile's name");
    text = trimmed(text.substr(1));
    AICF_TRY(const std::string type, take_name(text));
    const auto parsed = parse_dtype(type);
    if (!parsed) return error(fmt::format("unknown type '{}'", type));
    t.type = *parsed;
    if (!text.starts_with('[')) return error("expected '[' after the tile's type");
    text.remove_prefix(1);
    const std::size_t close = find_top(text, "]");
    if (close == std::string_view::npos) return error("a bracket is not closed");
    for (std::string_view part : split_top(text.substr(0, close), ",")) {
      TileAxis axis;
      AICF_TRY(axis.name, take_name(part));
      if (!part.starts_with('=')) return error("expected 'axis=extent'");
      AICF_TRY(axis.extent, integer(trimmed(part.substr(1))));
      t.axes.push_back(std::move(axis));
    }
    text = trimmed(text.substr(close + 1));
    if (take_word(text, "workgroup")) {
      t.space = Space::workgroup;
      if (take_word(text, "pad")) {
        AICF_TRY(t.row_padding, integer(text));
        text = {};
      }
      if (!text.empty()) return error(fmt::format("unexpected '{}'", text));
      return t;
    }
    if (take_word(text, "fragment")) {
      t.space = Space::fragment;
      AICF_TRY(t.fragment, take_name(text));
    } else if (!take_word(text, "registers")) {
      return error("expected 'registers', 'workgroup' or 'fragment'");
    }
    std::map<std::string, std::int64_t> natural;
    while (!text.empty()) {
      AICF_TRY(const std::string axis, take_name(text));
      const std::size_t end = text.find(')');
      if (!text.starts_with('(') || end == std::string_view::npos) return error("expected '(factors)' after an axis");
      for (std::string_view part : split_top(text.substr(1, end - 1), ",")) {
        AICF_TRY(Factor f, factor(part, axis, natural));
        t.distribution.factors.push_back(std::move(f));
      }
      text = trimmed(text.substr(end + 1));
    }
    return t;
  }

  /// "lane 8 @1 stride 1", "reg 2 stride 8", "reg 64".
  Result<Factor> factor(std::string_view text, const std::string& axis,
                        std::map<std::string, std::int64_t>& natural) const {
    Factor f;
    f.axis = axis;
    bool known = false;
    for (const Level level : {Level::reg, Level::lane, Level::subgroup}) {
      if (known || !take_word(text, name(level))) continue;
      f.level = level;
      known = true;
    }
    if (!known) return error(fmt::format("expected 'reg', 'lane' or 'subgroup' at '{}'", text));
    const auto stride = cut(text, "stride ");
    const auto position = cut(text, "@");
    AICF_TRY(f.size, integer(text));
    if (position) {
      AICF_TRY(f.position, integer(*position));
    }
    std::int64_t& next = natural.try_emplace(axis, 1).first->second;
    f.stride = next;
    if (stride) {
      AICF_TRY(f.stride, integer(*stride));
    }
    if (f.size < 1 || f.size > 1 << 20) return error("a factor's size is not in 1 .. 1048576");
    if (next > 1 << 20) return error("the factors of an axis cover more than 1048576 elements");
    next *= f.size;
    return f;
  }

  Result<void> declarations() {
    for (; at_ < lines_.size(); ++at_) {
      std::string_view text = line().text;
      if (take_word(text, "symbols") || take_word(text, "axes") || take_word(text, "tile")) continue;
      if (take_word(text, "range")) {
        AICF_TRY(const std::string name, take_name(text));
        const auto high = cut(text, "..");
        if (!high) return error("expected 'low .. high'");
        Range& range = kernel_.ranges["axis:" + name];
        if (text != "?") {
          AICF_TRY(range.low, integer(text));
        }
        if (*high != "?") {
          AICF_TRY(range.high, integer(*high));
        }
      } else if (take_grid_loop(text)) {
        if (!take_word(text, "base")) return error("expected 'base axis = …' after 'in grid:'");
        AICF_RETURN_IF_ERROR(base(text, kernel_.bases));
      } else if (take_word(text, "buffer")) {
        AICF_RETURN_IF_ERROR(buffer(text));
      } else {
        return {};
      }
    }
    return {};
  }

  Result<void> buffer(std::string_view text) {
    KernelBuffer b;
    AICF_TRY(b.name, take_name(text));
    if (!text.starts_with(':')) return error("expected ':' after the buffer's name");
    text = trimmed(text.substr(1));
    AICF_TRY(auto declared, access(text, sizes_first));
    const auto type = parse_dtype(declared.first);
    if (!type) return error(fmt::format("unknown type '{}'", declared.first));
    b.type = *type;
    b.shape = std::move(declared.second);
    b.written = text == "written";
    if (!b.written && !text.empty()) return error(fmt::format("unexpected '{}'", text));
    kernel_.buffers.push_back(std::move(b));
    return {};
  }

  // ---- body ------------------------------------------------------------------------------------------------------

  Result<void> body(KernelBody& ops, int parent_depth) {
    if (at_ >= lines_.size() || line().depth <= parent_depth) return {};
    const int depth = line().depth;
    while (at_ < lines_.size() && line().depth == depth) {
      AICF_TRY(KernelOp op, operation(line().text));
      op.note = line().note;
      ++at_;
      if (op.kind == KernelOp::Kind::loop || op.kind == KernelOp::Kind::branch) {
        AICF_RETURN_IF_ERROR(body(op.body, depth));
      }
      ops.push_back(std::move(op));
    }
    if (at_ < lines_.size() && line().depth > depth) return error("the indentation opens a body that nothing heads");
    return {};
  }

  Result<void> condition(std::string_view& text, KernelOp& op) const {
    if (const auto width = cut(text, " width ")) {
      AICF_TRY(const std::int64_t n, integer(*width));
      if (n < 1 || n > 16) return error("a vector has 1 to 16 elements");
      op.vector_width = static_cast<int>(n);
    }
    if (const auto fill = cut(text, " else ")) {
      AICF_TRY(op.fill, expression(*fill, axes_first));
    }
    if (const auto predicate = cut(text, " if ")) {
      AICF_TRY(op.predicate, expression(*predicate, axes_first));
    }
    return {};
  }

  Result<KernelOp> operation(std::string_view text) const {
    KernelOp op;
    using Kind = KernelOp::Kind;
    if (take_word(text, "load")) return load(text);
    if (take_word(text, "store")) return store(text);
    if (take_word(text, "cross")) return cross(text);
    if (take_word(text, "multiply")) return multiply(text);
    if (take_word(text, "for")) return loop(text);
    if (take_word(text, "if")) {
      op.kind = Kind::branch;
      if (!text.ends_with(':')) return error("expected ':' after the condition");
      AICF_TRY(op.predicate, expression(text.substr(0, text.size() - 1), axes_first));
      return op;
    }
    if (take_word(text, "barrier")) {
      op.kind = Kind::barrier;
      if (!text.empty()) return error(fmt::format("unexpected '{}'", text));
      return op;
    }
    for (const Kind kind : {Kind::to_workgroup, Kind::from_workgroup}) {
      if (!take_word(text, kind == Kind::to_workgroup ? "stage" : "fetch")) continue;
      op.kind = kind;
      AICF_TRY(op.tile, take_name(text));
      if (!text.starts_with("<-")) return error("expected '<-'");
      text = trimmed(text.substr(2));
      AICF_TRY(op.source, take_name(text));
      if (!text.empty()) return error(fmt::format("unexpected '{}'", text));
      return op;
    }
    return assignment(text);
  }

  Result<KernelOp> load(std::string_view text) const {
    KernelOp op;
    op.kind = KernelOp::Kind::load;
    AICF_TRY(op.tile, take_name(text));
    if (!text.starts_with("<-")) return error("expected '<-' after the tile");
    text = trimmed(text.substr(2));
    std::string rest = " " + std::string(text);  // so that " if " is found right after the access
    std::string_view view = rest;
    AICF_RETURN_IF_ERROR(condition(view, op));
    AICF_TRY(auto element, access(view, axes_first));
    if (!view.empty()) return error(fmt::format("unexpected '{}'", view));
    op.buffer = std::move(element.first);
    op.index = std::move(element.second);
    return op;
  }

  Result<KernelOp> store(std::string_view text) const {
    KernelOp op;
    op.kind = KernelOp::Kind::store;
    AICF_TRY(auto element, access(text, axes_first));
    op.buffer = std::move(element.first);
    op.index = std::move(element.second);
    if (!text.starts_with("<-")) return error("expected '<- tile = value'");
    text = trimmed(text.substr(2));
    AICF_RETURN_IF_ERROR(condition(text, op));
    AICF_TRY(op.tile, take_name(text));
    if (!text.starts_with('=')) return error("expected '=' after the tile");
    AICF_TRY(op.expr, expression(text.substr(1), tiles_first));
    return op;
  }

  Result<KernelOp> cross(std::string_view text) const {
    KernelOp op;
    op.kind = KernelOp::Kind::cross;
    const auto rules = cut(text, ":");
    if (!rules) return error("expected ':' before the merge rules");
    if (const auto masks = cut(text, " subgroups ")) {
      AICF_TRY(op.subgroup_masks, integers(*masks));
    }
    if (const auto masks = cut(text, " lanes ")) {
      AICF_TRY(op.lane_masks, integers(*masks));
    }
    AICF_TRY(op.states, names(text));
    std::map<std::string, DType> sides;
    for (const std::string& state : op.states) {
      const auto type = words_.tiles.find(state);
      if (type == words_.tiles.end()) return error(fmt::format("no tile '{}'", state));
      sides["a." + state] = type->second;
      sides["b." + state] = type->second;
    }
    for (std::string_view part : split_top(*rules, ";")) {
      MergeRule rule;
      AICF_TRY(rule.state, take_name(part));
      if (!part.starts_with('=')) return error("expected 'state = value'");
      AICF_TRY(rule.value, expression(part.substr(1), tiles_first, sides));
      op.merge.push_back(std::move(rule));
    }
    return op;
  }

  /// "c += a * b unit NAME", with "multiply" already taken.
  Result<KernelOp> multiply(std::string_view text) const {
    KernelOp op;
    op.kind = KernelOp::Kind::multiply;
    op.operands.resize(2);
    AICF_TRY(op.tile, take_name(text));
    if (!text.starts_with("+=")) return error("expected '+=' after the tile");
    text.remove_prefix(2);
    AICF_TRY(op.operands[0], take_name(text));
    if (!text.starts_with('*')) return error("expected '*' after the first operand");
    text.remove_prefix(1);
    AICF_TRY(op.operands[1], take_name(text));
    if (!take_word(text, "unit")) return error("expected 'unit name' after the operands");
    AICF_TRY(op.unit, take_name(text));
    if (!text.empty()) return error(fmt::format("unexpected '{}'", text));
    return op;
  }

  Result<KernelOp> loop(std::string_view text) const {
    KernelOp op;
    op.kind = KernelOp::Kind::loop;
    AICF_TRY(op.variable, take_name(text));
    if (!take_word(text, "in")) return error("expected 'in' after the loop's variable");
    const auto bases = cut(text, ":");
    if (!bases) return error("expected ':' after the bounds");
    for (std::string_view part : split_top(*bases, ";")) {
      if (!take_word(part, "base")) return error("expected 'base axis = …' after ':'");
      AICF_RETURN_IF_ERROR(base(part, op.bases));
    }
    op.step = 1;
    if (const auto step = cut(text, " step ")) {
      AICF_TRY(op.step, expression(*step, sizes_first));
    }
    const auto end = cut(text, " .. ");
    if (!end) return error("expected 'begin .. end'");
    AICF_TRY(op.begin, expression(text, sizes_first));
    AICF_TRY(op.end, expression(*end, sizes_first));
    return op;
  }

  /// "tile = value", "tile += value over axes", "tile max= value over axes".
  Result<KernelOp> assignment(std::string_view text) const {
    KernelOp op;
    AICF_TRY(op.tile, take_name(text));
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return error(fmt::format("'{}' starts no operation", op.tile));
    const std::string_view sign = trimmed(text.substr(0, equals));
    text = trimmed(text.substr(equals + 1));
    op.kind = sign.empty() ? KernelOp::Kind::compute : KernelOp::Kind::reduce;
    if (!sign.empty()) {
      const auto reduce = sign == "+" ? ReduceOp::sum : parse_reduce_op(sign);
      if (!reduce || *reduce == ReduceOp::none) return error(fmt::format("unknown reduction '{}'", sign));
      op.reduce = *reduce;
      if (const auto over = cut(text, " over ")) {
        AICF_TRY(op.over, names(*over));
      }
    }
    AICF_TRY(op.expr, expression(text, tiles_first));
    return op;
  }

  std::vector<Line> lines_;
  Line end_;
  std::size_t at_ = 0;
  std::string_view workgroups_;
  Kernel kernel_;
  Vocabulary words_;
};

}  // namespace
}  // namespace kernel_text

Result<Kernel> parse_kernel(std::string_view text, std::string_view place) {
  return kernel_text::Parser(text, place).run();
}

}  // namespace aicf
