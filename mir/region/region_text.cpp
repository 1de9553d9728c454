// The text form of regions:
//
//     region attention_0 attention {
//       symbols seq
//       axes    batch=2, q=seq, kv=seq, d=64
//       from    "MatMul_0", "Softmax_1"
//       input   Q: f32[2, seq, 64]
//       qk: f32[batch, q, kv] = sum(Q[batch, q, d] * K[batch, kv, d] over d)   # from "MatMul_0"
//       s: f32[batch, q, kv] of node "scores" = 0.125 * qk
//       output  s as out: f32[2, seq, seq] at [batch, q, kv]
//     }

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mir/region/region.h"
#include "mir/region/text_reader.h"

namespace aicf {
namespace {

using namespace text;

std::string axes_text(const std::vector<Axis>& axes) {
  std::string result;
  for (const Axis& a : axes) {
    result += fmt::format("{}{}={}", result.empty() ? "" : ", ", name_text(a.name), to_string(a.extent));
  }
  return result;
}

std::set<std::string> all_symbols(const Region& region) {
  std::set<std::string> symbols;
  const auto add = [&](const Expr& e) {
    if (e) symbols.merge(symbols_of(e));
  };
  for (const Axis& a : region.axes) add(a.extent);
  for (const RegionInput& i : region.inputs) std::ranges::for_each(i.shape, add);
  for (const Statement& s : region.statements) add(s.body);
  for (const RegionOutput& o : region.outputs) {
    std::ranges::for_each(o.index, add);
    std::ranges::for_each(o.shape, add);
  }
  return symbols;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view place) : lines_(split_lines(text)), place_(place) {}

  Result<Region> parse() {
    if (lines_.empty()) return bad_input("expected 'region NAME KIND {'", std::string(place_));
    Cursor head(lines_[0], place_);
    AICF_RETURN_IF_ERROR(head.expect_word("region"));
    AICF_TRY(region_.name, head.name());
    AICF_TRY(const std::string kind, head.name());
    const auto parsed = parse_region_kind(kind);
    if (!parsed) return head.error(fmt::format("'{}' is not a kind of region", kind));
    region_.kind = *parsed;
    AICF_RETURN_IF_ERROR(head.expect('{'));
    for (std::size_t i = 1; i < lines_.size(); ++i) {
      Cursor line(lines_[i], place_);
      if (line.accept('}')) {
        if (i + 1 < lines_.size()) return Cursor(lines_[i + 1], place_).error("expected nothing after the region");
        return std::move(region_);
      }
      AICF_RETURN_IF_ERROR(parse_line(line, lines_[i]));
    }
    return Cursor(lines_.back(), place_).error("the region does not end with '}'");
  }

 private:
  Result<Expr> expression(std::string_view text, const Cursor& line) { return parse_expr(text, scope_, line.place()); }

  Result<std::vector<Expr>> expressions(std::string_view text, const Cursor& line) {
    std::vector<Expr> list;
    for (const std::string_view part : split_list(text)) {
      AICF_TRY(Expr e, expression(part, line));
      list.push_back(std::move(e));
    }
    return list;
  }

  Result<DType> type(Cursor& line) {
    AICF_TRY(const std::string text, line.name());
    const auto type = parse_dtype(text);
    if (!type) return line.error(fmt::format("'{}' is not an element type", text));
    return *type;
  }

  Result<void> parse_line(Cursor& line, const Line& source) {
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
      // Axis names may shadow symbols only after every extent is read.
      for (const Axis& a : region_.axes) scope_.axes.insert(a.name);
      return {};
    }
    if (line.accept_word("from")) return quoted_list(line, region_.origin);
    if (line.accept_word("roles")) return parse_roles(line);
    if (line.accept_word("input")) {
      RegionInput input;
      AICF_TRY(input.tensor, line.name());
      AICF_RETURN_IF_ERROR(line.expect(':'));
      AICF_TRY(input.type, type(line));
      AICF_TRY(const std::string_view shape, line.bracketed('[', ']'));
      AICF_TRY(input.shape, dimensions(shape, line));
      scope_.tensors[input.tensor] = input.type;
      region_.inputs.push_back(std::move(input));
      return {};
    }
    if (line.accept_word("output")) {
      RegionOutput output;
      AICF_TRY(output.value, line.name());
      AICF_RETURN_IF_ERROR(line.expect_word("as"));
      AICF_TRY(output.tensor, line.name());
      AICF_RETURN_IF_ERROR(line.expect(':'));
      AICF_TRY(output.type, type(line));
      AICF_TRY(const std::string_view shape, line.bracketed('[', ']'));
      AICF_TRY(output.shape, dimensions(shape, line));
      AICF_RETURN_IF_ERROR(line.expect_word("at"));
      AICF_TRY(const std::string_view index, line.bracketed('[', ']'));
      AICF_TRY(output.index, expressions(index, line));
      region_.outputs.push_back(std::move(output));
      return {};
    }
    return parse_statement(line, source);
  }

  /// Dimensions are over symbols; an axis may have a symbol's name.
  Result<std::vector<Expr>> dimensions(std::string_view text, const Cursor& line) {
    Scope saved = scope_;
    scope_.axes.clear();
    auto list = expressions(text, line);
    scope_ = std::move(saved);
    return list;
  }

  Result<void> quoted_list(Cursor& line, std::vector<std::string>& list) {
    do {
      AICF_TRY(std::string text, line.quoted());
      list.push_back(std::move(text));
    } while (line.accept(','));
    return {};
  }

  Result<void> parse_roles(Cursor& line) {
    AttentionRoles roles;
    for (std::string* field : {&roles.q, &roles.k, &roles.v, &roles.scale, &roles.mask, &roles.normalised_axis}) {
      AICF_TRY(const std::string key, line.name());
      AICF_RETURN_IF_ERROR(line.expect('='));
      AICF_TRY(*field, line.quoted());
    }
    region_.roles = roles;
    return {};
  }

  Result<void> parse_statement(Cursor& line, const Line& source) {
    Statement s;
    AICF_TRY(s.name, line.name());
    AICF_RETURN_IF_ERROR(line.expect(':'));
    AICF_TRY(s.type, type(line));
    AICF_RETURN_IF_ERROR(line.expect('['));
    AICF_TRY(s.axes, line.names_until(']'));
    if (line.accept_word("of")) {
      AICF_RETURN_IF_ERROR(line.expect_word("node"));
      AICF_TRY(s.node, line.quoted());
    }
    AICF_RETURN_IF_ERROR(line.expect('='));
    const ReductionText parts = split_reduction(line.rest());
    if (!parts.reduce.empty()) {
      const auto op = parse_reduce_op(parts.reduce);
      if (!op || *op == ReduceOp::none) return line.error(fmt::format("'{}' is not a reduction", parts.reduce));
      s.reduce = *op;
      Line over_line{source.number, std::string(parts.over) + ")", {}};
      Cursor over(over_line, place_);
      AICF_TRY(s.over, over.names_until(')'));
    }
    AICF_TRY(s.body, expression(parts.body, line));
    if (s.body.is_constant() && s.body.type() != s.type) s.body = Expr::cast(s.body, s.type);
    s.origin = origin_of(source, place_);
    scope_.values[s.name] = s.type;
    region_.statements.push_back(std::move(s));
    return {};
  }

  std::vector<Line> lines_;
  std::string_view place_;
  Region region_;
  Scope scope_;
};

}  // namespace

std::string to_string(const Region& region) {
  std::string out = fmt::format("region {} {} {{\n", name_text(region.name), name(region.kind));
  const std::set<std::string> symbols = all_symbols(region);
  if (!symbols.empty())
    out += fmt::format("  symbols {}\n", join(std::vector<std::string>(symbols.begin(), symbols.end())));
  out += fmt::format("  axes    {}\n", axes_text(region.axes));
  if (!region.origin.empty()) out += fmt::format("  from    {}\n", join_quoted(region.origin));
  if (const auto& r = region.roles) {
    out += fmt::format("  roles   q={} k={} v={} scale={} mask={} normalised_axis={}\n", quoted_text(r->q),
                       quoted_text(r->k), quoted_text(r->v), quoted_text(r->scale), quoted_text(r->mask),
                       quoted_text(r->normalised_axis));
  }
  for (const RegionInput& i : region.inputs) {
    out += fmt::format("  input   {}: {}[{}]\n", name_text(i.tensor), name(i.type), join(i.shape));
  }
  for (const Statement& s : region.statements) {
    out += fmt::format("  {}: {}[{}]", name_text(s.name), name(s.type), join(s.axes));
    if (!s.node.empty()) out += fmt::format(" of node {}", quoted_text(s.node));
    if (s.reduce == ReduceOp::none) {
      out += fmt::format(" = {}", to_string(s.body));
    } else {
      out += fmt::format(" = {}({} over {})", name(s.reduce), to_string(s.body), join(s.over));
    }
    out += origin_text(s.origin) + "\n";
  }
  for (const RegionOutput& o : region.outputs) {
    out += fmt::format("  output  {} as {}: {}[{}] at [{}]\n", name_text(o.value), name_text(o.tensor), name(o.type),
                       join(o.shape), join(o.index));
  }
  return out + "}\n";
}

Result<Region> parse_region(std::string_view text, std::string_view place) {
  return Parser(text, place).parse();
}

}  // namespace aicf
