// Reads the text form that streaming_text.cpp prints; the grammar is there.

#include <fmt/format.h>

#include <algorithm>

#include "mir/memory/streaming_region.h"
#include "mir/region/text_reader.h"

namespace aicf {
namespace {

using namespace text;

class Parser {
 public:
  Parser(std::string_view text, std::string_view place) : lines_(split_lines(text)), place_(place) {}

  Result<StreamingRegion> parse() {
    if (lines_.empty()) return bad_input("expected 'streaming_region NAME KIND for AXES {'", std::string(place_));
    Cursor head = next();
    AICF_RETURN_IF_ERROR(head.expect_word("streaming_region"));
    AICF_TRY(region_.name, head.name());
    AICF_RETURN_IF_ERROR(kind(head));
    AICF_RETURN_IF_ERROR(head.expect_word("for"));
    while (!head.accept('{')) {
      if (head.accept_word("reduction_axis")) {
        Stream s;
        AICF_RETURN_IF_ERROR(stream_head(head, s));
        AICF_RETURN_IF_ERROR(head.expect('{'));
        region_.streams.push_back(std::move(s));
        break;
      }
      AICF_TRY(std::string axis, head.name());
      region_.parallel.push_back(std::move(axis));
      head.accept(',');
    }
    Stream* stream = region_.streams.empty() ? nullptr : &region_.streams[0];
    while (at_ < lines_.size()) {
      Cursor line = next();
      if (line.accept('}')) {
        if (at_ < lines_.size()) return next().error("expected nothing after the region");
        return std::move(region_);
      }
      AICF_RETURN_IF_ERROR(region_line(line, stream));
    }
    return bad_input("the region does not end with '}'", std::string(place_));
  }

 private:
  Cursor next() {
    current_ = &lines_[at_++];
    return Cursor(*current_, place_);
  }

  Result<void> kind(Cursor& head) {
    AICF_TRY(const std::string text, head.name());
    const auto parsed = parse_region_kind(text);
    if (!parsed) return head.error(fmt::format("'{}' is not a kind of region", text));
    region_.kind = *parsed;
    return {};
  }

  Result<void> stream_head(Cursor& line, Stream& s) {
    AICF_TRY(s.axis, line.name());
    AICF_RETURN_IF_ERROR(line.expect_word("order"));
    if (line.accept_word("descending")) {
      s.order = StreamOrder::descending;
      return {};
    }
    return line.expect_word("ascending");
  }

  Result<Expr> expression(std::string_view text, const Cursor& line) { return parse_expr(text, scope_, line.place()); }

  Result<std::vector<Expr>> expressions(std::string_view text, const Cursor& line) {
    std::vector<Expr> list;
    for (const std::string_view part : split_list(text)) {
      AICF_TRY(Expr e, expression(part, line));
      list.push_back(std::move(e));
    }
    return list;
  }

  /// Over symbols only: an axis may have a symbol's name.
  Result<std::vector<Expr>> dimensions(Cursor& line) {
    AICF_TRY(const std::string_view text, line.bracketed('[', ']'));
    std::set<std::string> axes;
    std::swap(axes, scope_.axes);
    auto list = expressions(text, line);
    std::swap(axes, scope_.axes);
    return list;
  }

  Result<DType> type(Cursor& line) {
    AICF_TRY(const std::string text, line.name());
    const auto type = parse_dtype(text);
    if (!type) return line.error(fmt::format("'{}' is not an element type", text));
    return *type;
  }

  /// NAME: TYPE[AXES]
  Result<void> typed(Cursor& line, std::string& name, DType& dtype, std::vector<std::string>& axes) {
    AICF_TRY(name, line.name());
    AICF_RETURN_IF_ERROR(line.expect(':'));
    AICF_TRY(dtype, type(line));
    AICF_RETURN_IF_ERROR(line.expect('['));
    AICF_TRY(axes, line.names_until(']'));
    return {};
  }

  Result<Residency> residency(Cursor& line) {
    AICF_RETURN_IF_ERROR(line.expect_word("residency"));
    if (line.accept('?')) return Residency::open;
    AICF_TRY(const std::string text, line.name());
    for (const Residency r : {Residency::off_chip, Residency::workgroup, Residency::subgroup_register}) {
      if (text == name(r)) return r;
    }
    return line.error(fmt::format("'{}' is not a residency", text));
  }

  Result<void> region_line(Cursor& line, Stream* stream) {
    if (line.accept_word("symbols")) {
      do {
        AICF_TRY(std::string symbol, line.name());
        scope_.symbols.insert(std::move(symbol));
      } while (line.accept(','));
      return {};
    }
    if (line.accept_word("axes")) {
      while (!line.done()) {
        AICF_TRY(std::string axis, line.name());
        AICF_RETURN_IF_ERROR(line.expect('='));
        AICF_TRY(Expr extent, expression(line.until(","), line));
        region_.axes.push_back({axis, std::move(extent)});
        if (!line.accept(',')) break;
      }
      for (const Axis& a : region_.axes) scope_.axes.insert(a.name);
      return {};
    }
    if (line.accept_word("from")) {
      do {
        AICF_TRY(std::string text, line.quoted());
        region_.origin.push_back(std::move(text));
      } while (line.accept(','));
      return {};
    }
    if (line.accept_word("tile")) return tile(line, region_.tiles);
    if (line.accept_word("prologue")) return block(line, region_.prologue, nullptr);
    if (line.accept_word("epilogue")) return block(line, region_.epilogue, nullptr);
    if (line.accept_word("law")) {
      CertificateEntry entry;
      AICF_TRY(entry.law, line.quoted());
      AICF_RETURN_IF_ERROR(line.expect_word("of"));
      AICF_TRY(entry.statement, line.quoted());
      AICF_RETURN_IF_ERROR(line.expect(':'));
      AICF_TRY(entry.condition, line.quoted());
      region_.certificate.entries.push_back(std::move(entry));
      return {};
    }
    if (line.accept_word("label")) {
      AICF_TRY(std::string label, line.quoted());
      region_.certificate.labels.push_back(std::move(label));
      return {};
    }
    if (line.accept_word("pass")) {
      AICF_TRY(Stream s, pass(line));
      region_.streams.push_back(std::move(s));
      return {};
    }
    if (!stream) return line.error("expected a line of a streaming region");
    return stream_line(line, *stream);
  }

  Result<Stream> pass(Cursor& line) {
    Stream s;
    AICF_RETURN_IF_ERROR(stream_head(line, s));
    AICF_RETURN_IF_ERROR(line.expect('{'));
    while (at_ < lines_.size()) {
      Cursor inner = next();
      if (inner.accept('}')) return s;
      AICF_RETURN_IF_ERROR(stream_line(inner, s));
    }
    return line.error("the pass does not end with '}'");
  }

  Result<void> tile(Cursor& line, std::vector<TileDecl>& tiles) {
    TileDecl t;
    AICF_RETURN_IF_ERROR(typed(line, t.name, t.type, t.axes));
    AICF_RETURN_IF_ERROR(line.expect_word("from"));
    AICF_TRY(t.tensor, line.name());
    AICF_TRY(const std::string_view index, line.bracketed('[', ']'));
    AICF_TRY(t.index, expressions(index, line));
    AICF_RETURN_IF_ERROR(line.expect_word("of"));
    AICF_TRY(t.shape, dimensions(line));
    if (line.accept_word("where")) {
      AICF_TRY(t.guard, expression(line.until("", {"else"}), line));
      AICF_RETURN_IF_ERROR(line.expect_word("else"));
      AICF_TRY(t.fill, expression(line.until("", {"lifecycle"}), line));
      if (t.fill.type() != t.type) t.fill = Expr::cast(t.fill, t.type);
    }
    AICF_RETURN_IF_ERROR(line.expect_word("lifecycle"));
    AICF_TRY(const std::string lifecycle, line.name());
    bool known = false;
    for (const Lifecycle l : {Lifecycle::region, Lifecycle::stream, Lifecycle::step}) {
      if (lifecycle == name(l)) t.lifecycle = l, known = true;
    }
    if (!known) return line.error(fmt::format("'{}' is not a lifecycle", lifecycle));
    AICF_TRY(t.residency, residency(line));
    scope_.values[t.name] = t.type;
    tiles.push_back(std::move(t));
    return {};
  }

  Result<void> stream_line(Cursor& line, Stream& s) {
    if (line.accept_word("stream")) return tile(line, s.tiles);
    if (line.accept_word("state")) return state(line, s);
    if (line.accept_word("repair")) return repair(line, s);
    if (line.accept_word("segment")) {
      Segment g;
      AICF_RETURN_IF_ERROR(line.expect('['));
      AICF_TRY(g.begin, expression(line.until(","), line));
      AICF_RETURN_IF_ERROR(line.expect(','));
      AICF_TRY(g.end, expression(line.until(")"), line));
      AICF_RETURN_IF_ERROR(line.expect(')'));
      AICF_RETURN_IF_ERROR(line.expect_word("tiles"));
      while (!line.done()) {
        AICF_TRY(std::string t, line.name());
        g.tiles.push_back(std::move(t));
        line.accept(',');
      }
      s.segments.push_back(std::move(g));
      return {};
    }
    if (line.accept_word("step")) return block(line, s.step, &s);
    if (line.accept_word("finish")) return block(line, s.finish, &s);
    if (line.accept_word("merge")) return merge(line, s);
    for (const auto& [word, condition] : {std::pair("skip", &s.skip), std::pair("defer", &s.defer)}) {
      if (!line.accept_word(word)) continue;
      AICF_TRY(const std::string axis, line.name());
      AICF_RETURN_IF_ERROR(line.expect_word("tiles"));
      AICF_RETURN_IF_ERROR(line.expect_word("where"));
      AICF_TRY(*condition, expression(line.rest(), line));
      return {};
    }
    if (line.accept_word("settled")) {
      AICF_RETURN_IF_ERROR(line.expect_word("where"));
      AICF_TRY(s.settled, expression(line.rest(), line));
      return {};
    }
    return line.error("expected a line of a stream");
  }

  Result<void> state(Cursor& line, Stream& s) {
    const std::string law = current_->comment;
    std::vector<StateDecl> group;
    const bool grouped = line.accept('(');
    do {
      StateDecl d;
      AICF_RETURN_IF_ERROR(typed(line, d.name, d.type, d.axes));
      scope_.values[d.name] = d.type;
      group.push_back(std::move(d));
    } while (grouped && line.accept(','));
    if (grouped) AICF_RETURN_IF_ERROR(line.expect(')'));
    AICF_RETURN_IF_ERROR(line.expect_word("init"));
    AICF_TRY(Expr init, expression(line.until(" ", {}), line));
    AICF_TRY(const std::string op, line.name());
    const auto reduce = parse_reduce_op(op);
    if (!reduce || *reduce == ReduceOp::none) return line.error(fmt::format("'{}' is not a reduction", op));
    AICF_TRY(const Residency where, residency(line));
    for (StateDecl& d : group) {
      d.reduce = *reduce;
      d.init = init.type() == d.type ? init : Expr::cast(init, d.type);
      d.residency = where;
    }
    if (grouped) {
      AICF_RETURN_IF_ERROR(line.expect_word("repair"));
      std::string product(line.until("", {"by"}));
      const std::size_t open = product.rfind('(');
      AICF_RETURN_IF_ERROR(line.expect_word("by"));
      RepairGroup g;
      AICF_RETURN_IF_ERROR(references(line, g, ""));
      g.law = law;
      if (open == std::string::npos) return line.error("expected 'factor * (states)'");
      for (const StateDecl& d : group) {
        g.states.push_back(d.name);
        AICF_TRY(Expr e, expression(product.substr(0, open) + name_text(d.name), line));
        g.repair.push_back(std::move(e));
      }
      s.repairs.push_back(std::move(g));
    }
    for (StateDecl& d : group) s.states.push_back(std::move(d));
    return {};
  }

  /// References, comma-separated, up to `stop`; puts their primed names in scope.
  Result<void> references(Cursor& line, RepairGroup& g, std::string_view stop) {
    while (!line.done()) {
      if (!stop.empty() && line.accept(stop[0])) break;
      AICF_TRY(std::string r, line.name());
      auto it = scope_.values.find(r);
      if (it == scope_.values.end()) return line.error(fmt::format("'{}' is not a state", r));
      scope_.values[r + "'"] = it->second;
      g.references.push_back(std::move(r));
      line.accept(',');
    }
    return {};
  }

  Result<void> repair(Cursor& line, Stream& s) {
    RepairGroup g;
    g.law = current_->comment;
    AICF_RETURN_IF_ERROR(line.expect('('));
    AICF_TRY(g.states, line.names_until(')'));
    AICF_RETURN_IF_ERROR(line.expect_word("by"));
    AICF_RETURN_IF_ERROR(references(line, g, "{"));
    for (const std::string& state : g.states) {
      AICF_TRY(const std::string name, line.name());
      if (name != state) return line.error(fmt::format("expected the repair of '{}'", state));
      AICF_RETURN_IF_ERROR(line.expect('='));
      AICF_TRY(Expr e, expression(line.until(";}"), line));
      g.repair.push_back(std::move(e));
      line.accept(';');
    }
    AICF_RETURN_IF_ERROR(line.expect('}'));
    s.repairs.push_back(std::move(g));
    return {};
  }

  Result<void> merge(Cursor& head, Stream& s) {
    AICF_RETURN_IF_ERROR(head.expect('{'));
    for (const StateDecl& d : s.states) scope_.values["a." + d.name] = scope_.values["b." + d.name] = d.type;
    ExprMap merged;
    while (at_ < lines_.size()) {
      Cursor line = next();
      if (line.accept('}')) return {};
      MergeRule rule;
      AICF_TRY(rule.state, line.name());
      AICF_RETURN_IF_ERROR(line.expect('='));
      AICF_TRY(rule.value, expression(line.rest(), line));
      rule.value = substitute_values(rule.value, merged);
      merged[rule.state] = rule.value;
      s.merge.push_back(std::move(rule));
    }
    return head.error("the merge rules do not end with '}'");
  }

  Result<void> block(Cursor& head, std::vector<StepStatement>& list, const Stream* s) {
    AICF_RETURN_IF_ERROR(head.expect('{'));
    while (at_ < lines_.size()) {
      Cursor line = next();
      if (line.accept('}')) return {};
      AICF_TRY(StepStatement x, statement(line, s));
      list.push_back(std::move(x));
    }
    return head.error("the block does not end with '}'");
  }

  Result<void> body(Cursor& line, StepStatement& x, std::string_view text) {
    const ReductionText parts = split_reduction(text);
    if (!parts.reduce.empty()) {
      const auto op = parse_reduce_op(parts.reduce);
      if (!op || *op == ReduceOp::none) return line.error(fmt::format("'{}' is not a reduction", parts.reduce));
      x.reduce = *op;
      Line over_line{current_->number, std::string(parts.over) + ")", {}};
      Cursor over(over_line, place_);
      AICF_TRY(x.over, over.names_until(')'));
    }
    AICF_TRY(x.body, expression(parts.body, line));
    if (x.body.is_constant() && x.body.type() != x.type) x.body = Expr::cast(x.body, x.type);
    return {};
  }

  Result<StepStatement> statement(Cursor& line, const Stream* s) {
    StepStatement x;
    x.origin = origin_of(*current_, place_);
    if (line.accept_word("pass")) {
      AICF_TRY(Stream nested, pass(line));
      x.kind = StepStatement::Kind::nested;
      x.nested = std::make_shared<Stream>(std::move(nested));
      return x;
    }
    if (line.accept_word("local")) {
      AICF_RETURN_IF_ERROR(typed(line, x.name, x.type, x.axes));
      AICF_TRY(x.residency, residency(line));
      AICF_RETURN_IF_ERROR(line.expect('='));
      AICF_RETURN_IF_ERROR(body(line, x, line.rest()));
      scope_.values[x.name] = x.type;
      return x;
    }
    if (line.accept_word("store")) {
      x.kind = StepStatement::Kind::store;
      AICF_TRY(x.name, line.name());
      AICF_TRY(const std::string_view index, line.bracketed('[', ']'));
      AICF_TRY(x.index, expressions(index, line));
      AICF_RETURN_IF_ERROR(line.expect_word("of"));
      AICF_TRY(x.shape, dimensions(line));
      AICF_RETURN_IF_ERROR(line.expect_word("for"));
      AICF_RETURN_IF_ERROR(line.expect('['));
      while (true) {
        AICF_TRY(std::string word, line.name());
        if (line.accept(']')) {
          const auto type = parse_dtype(word);
          if (!type) return line.error(fmt::format("'{}' is not an element type", word));
          x.type = *type;
          break;
        }
        x.axes.push_back(std::move(word));
        if (!line.accept(',')) AICF_RETURN_IF_ERROR(line.expect(';'));
      }
      AICF_RETURN_IF_ERROR(line.expect('='));
      AICF_TRY(x.body, expression(line.rest(), line));
      if (x.body.is_constant() && x.body.type() != x.type) x.body = Expr::cast(x.body, x.type);
      return x;
    }
    x.kind = StepStatement::Kind::update;
    AICF_TRY(x.name, line.name());
    if (!s) return line.error("expected 'local' or 'store'");
    auto state = std::ranges::find(s->states, x.name, &StateDecl::name);
    if (state == s->states.end()) return line.error(fmt::format("'{}' is not a state of the stream", x.name));
    x.type = state->type;
    x.axes = state->axes;
    if (!line.accept('+')) {
      AICF_TRY(const std::string op, line.name());
      if (op != name(state->reduce)) return line.error(fmt::format("expected '{}='", name(state->reduce)));
    }
    AICF_RETURN_IF_ERROR(line.expect('='));
    AICF_RETURN_IF_ERROR(body(line, x, line.rest()));
    x.reduce = state->reduce;
    std::erase(x.over, s->axis);
    return x;
  }

  std::vector<Line> lines_;
  std::string_view place_;
  std::size_t at_ = 0;
  const Line* current_ = nullptr;
  StreamingRegion region_;
  Scope scope_;
};

}  // namespace

Result<StreamingRegion> parse_streaming_region(std::string_view text, std::string_view place) {
  return Parser(text, place).parse();
}

}  // namespace aicf
