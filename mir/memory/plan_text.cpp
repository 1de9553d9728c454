// Printing and reading placements; the form is in plan.h.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "mir/memory/plan.h"
#include "mir/region/text_reader.h"

namespace aicf {
namespace {

using namespace text;
using Kind = PlannedAction::Kind;

std::string numbers(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

// ---- printing ----------------------------------------------------------------------------------------------------

std::string tile_text(const PlannedTile& t) {
  std::string axes;
  for (const auto& [axis, extent] : t.axes) {
    axes += fmt::format("{}{}{}", axes.empty() ? "" : ", ", axis.empty() ? "" : name_text(axis) + " ", extent);
  }
  std::string out = fmt::format("{:<9} {}: {}[{}]  residency {}", name(t.role), name_text(t.name), name(t.type), axes,
                                name(t.residency));
  if (t.launch != 0) out += fmt::format("  launch {}", t.launch);
  if (t.delivery != Delivery::registers) out += fmt::format("  delivery {}", name(t.delivery));
  switch (t.residency) {
    case Residency::workgroup:
      out += fmt::format("  bytes {}  offset {}  row_padding {}  stages {}  vector {}", t.bytes, t.offset,
                         t.row_padding, t.stages, t.vector);
      break;
    case Residency::subgroup_register: {
      std::string spread;
      for (const Spread& f : t.spread) {
        spread += fmt::format("{}{} {} {}", spread.empty() ? "" : ", ", name_text(f.axis), name(f.level), f.size);
        if (f.stride != 1) spread += fmt::format(" *{}", f.stride);
        if (f.level != Level::reg) spread += fmt::format(" @{}", f.position);
      }
      out += fmt::format("  bytes {} per_thread {}  spread [{}]", t.bytes, t.bytes_per_thread, spread);
      break;
    }
    case Residency::off_chip:
    case Residency::open:
      break;
  }
  return out + fmt::format("  live {}..{}", t.live.first, t.live.last);
}

std::string action_text(const PlannedAction& a) {
  std::string out = fmt::format("{} [{}]", name(a.kind), join(a.writes));
  if (!a.reads.empty()) out += fmt::format(" reads [{}]", join(a.reads));
  if (!a.tensor.empty()) out += fmt::format(" of {}", name_text(a.tensor));
  if (!a.inside.empty()) out += fmt::format(" inside [{}]", join(a.inside));
  if (!a.over.empty()) out += fmt::format(" over [{}]", join(a.over));
  if (!a.lanes.empty()) out += " lanes " + numbers(a.lanes);
  if (!a.subgroups.empty()) out += " subgroups " + numbers(a.subgroups);
  if (!a.axis.empty()) out += " axis " + name_text(a.axis);
  if (a.kind == Kind::loop)
    out += fmt::format(" by {} begin {} end {}", a.step, quoted_text(a.begin), quoted_text(a.end));
  return a.note.empty() ? out : out + "   # " + a.note;
}

std::string sync_text(const SyncEdge& e) {
  std::string out = fmt::format("sync {} -> {}  {}", e.from, e.to, name(e.scope));
  if (e.by >= 0) out += fmt::format("  by {}", e.by);
  if (e.participants != 0) out += fmt::format("  participants {}", e.participants);
  if (e.distance != 0) out += fmt::format("  distance {}", e.distance);
  return out + fmt::format("  for [{}]", join(e.tiles));
}

// ---- reading -----------------------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(std::string_view text, std::string_view place) : lines_(split_lines(text)), place_(place) {}

  Result<PlacementPlan> parse() {
    while (at_ < lines_.size() && !Cursor(lines_[at_], place_).accept_word("placement")) ++at_;
    if (at_ == lines_.size())
      return bad_input("expected 'placement NAME subgroup N subgroups N workgroup_bytes N {'", std::string(place_));
    Cursor head = next();
    AICF_RETURN_IF_ERROR(head.expect_word("placement"));
    AICF_TRY(plan_.name, head.name());
    AICF_RETURN_IF_ERROR(head.expect_word("subgroup"));
    AICF_RETURN_IF_ERROR(number(head, plan_.subgroup_size));
    AICF_RETURN_IF_ERROR(head.expect_word("subgroups"));
    AICF_RETURN_IF_ERROR(number(head, plan_.subgroups));
    AICF_RETURN_IF_ERROR(head.expect_word("workgroup_bytes"));
    AICF_RETURN_IF_ERROR(number(head, plan_.workgroup_bytes));
    AICF_RETURN_IF_ERROR(head.expect('{'));
    while (at_ < lines_.size()) {
      Cursor line = next();
      if (line.accept('}')) return std::move(plan_);
      AICF_RETURN_IF_ERROR(plan_line(line));
    }
    return bad_input("the placement does not end with '}'", std::string(place_));
  }

 private:
  Cursor next() {
    current_ = &lines_[at_++];
    return Cursor(*current_, place_);
  }

  template <class Number>
  Result<void> number(Cursor& line, Number& out) {
    const std::string_view text = line.until(" ,]{}.");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      return line.error(fmt::format("expected a number instead of '{}'", text));
    return {};
  }

  Result<void> list(Cursor& line, std::vector<std::string>& out) {
    AICF_RETURN_IF_ERROR(line.expect('['));
    AICF_TRY(out, line.names_until(']'));
    return {};
  }

  Result<void> list(Cursor& line, std::vector<std::int64_t>& out) {
    AICF_RETURN_IF_ERROR(line.expect('['));
    do {
      AICF_RETURN_IF_ERROR(number(line, out.emplace_back()));
    } while (line.accept(','));
    return line.expect(']');
  }

  template <class Enum>
  static bool word(Cursor& line, std::initializer_list<Enum> all, Enum& out) {
    for (const Enum e : all) {
      if (!line.accept_word(name(e))) continue;
      out = e;
      return true;
    }
    return false;
  }

  Result<void> plan_line(Cursor& line) {
    if (line.accept_word("symbols")) {
      do {
        AICF_TRY(std::string symbol, line.name());
        scope_.symbols.insert(std::move(symbol));
      } while (line.accept(','));
      return {};
    }
    if (line.accept_word("axis")) return axis(line);
    if (line.accept_word("sync")) return sync(line);
    TileRole role;
    if (word(line,
             {TileRole::tile, TileRole::stage, TileRole::state, TileRole::local, TileRole::temporary,
              TileRole::exchange, TileRole::scratch},
             role))
      return tile(line, role);
    return action(line);
  }

  Result<void> axis(Cursor& line) {
    PlannedAxis a;
    AICF_TRY(a.name, line.name());
    AICF_RETURN_IF_ERROR(line.expect('='));
    AICF_TRY(a.extent, parse_expr(line.until("", {"tile"}), scope_, line.place()));
    AICF_RETURN_IF_ERROR(line.expect_word("tile"));
    AICF_RETURN_IF_ERROR(number(line, a.tile));
    if (!word(line, {Walk::grid, Walk::loop, Walk::whole}, a.walk)) return line.error("expected grid, loop or whole");
    a.padded = line.accept_word("padded");
    plan_.axes.push_back(std::move(a));
    return {};
  }

  Result<void> tile(Cursor& line, TileRole role) {
    PlannedTile t;
    t.role = role;
    AICF_TRY(t.name, line.name());
    AICF_RETURN_IF_ERROR(line.expect(':'));
    AICF_TRY(const std::string type, line.name());
    const auto dtype = parse_dtype(type);
    if (!dtype) return line.error(fmt::format("'{}' is not an element type", type));
    t.type = *dtype;
    AICF_RETURN_IF_ERROR(line.expect('['));
    while (!line.accept(']')) {
      auto& [axis, extent] = t.axes.emplace_back();
      if (auto read = line.name()) axis = *read;  // memory for exchange has elements but no axis
      AICF_RETURN_IF_ERROR(number(line, extent));
      line.accept(',');
    }
    AICF_RETURN_IF_ERROR(line.expect_word("residency"));
    if (!word(line, {Residency::off_chip, Residency::workgroup, Residency::subgroup_register}, t.residency))
      return line.error("expected a residency");
    while (!line.done()) AICF_RETURN_IF_ERROR(tile_fact(line, t));
    plan_.tiles.push_back(std::move(t));
    return {};
  }

  Result<void> tile_fact(Cursor& line, PlannedTile& t) {
    if (line.accept_word("launch")) return number(line, t.launch);
    if (line.accept_word("bytes")) return number(line, t.bytes);
    if (line.accept_word("per_thread")) return number(line, t.bytes_per_thread);
    if (line.accept_word("offset")) return number(line, t.offset);
    if (line.accept_word("row_padding")) return number(line, t.row_padding);
    if (line.accept_word("stages")) return number(line, t.stages);
    if (line.accept_word("vector")) return number(line, t.vector);
    if (line.accept_word("delivery")) {
      if (word(line, {Delivery::registers, Delivery::lane_broadcast, Delivery::workgroup}, t.delivery)) return {};
      return line.error("expected a delivery");
    }
    if (line.accept_word("live")) {
      AICF_RETURN_IF_ERROR(number(line, t.live.first));
      AICF_RETURN_IF_ERROR(line.expect('.'));
      AICF_RETURN_IF_ERROR(line.expect('.'));
      return number(line, t.live.last);
    }
    AICF_RETURN_IF_ERROR(line.expect_word("spread"));
    AICF_RETURN_IF_ERROR(line.expect('['));
    while (!line.accept(']')) {
      Spread& f = t.spread.emplace_back();
      AICF_TRY(f.axis, line.name());
      if (!word(line, {Level::reg, Level::lane, Level::subgroup}, f.level)) return line.error("expected a level");
      AICF_RETURN_IF_ERROR(number(line, f.size));
      if (line.accept('*')) AICF_RETURN_IF_ERROR(number(line, f.stride));
      if (line.accept('@')) AICF_RETURN_IF_ERROR(number(line, f.position));
      line.accept(',');
    }
    return {};
  }

  Result<void> action(Cursor& line) {
    std::size_t id = 0;
    AICF_RETURN_IF_ERROR(number(line, id));
    if (id != plan_.actions.size()) return line.error(fmt::format("expected action {}", plan_.actions.size()));
    PlannedAction a;
    a.note = current_->comment;
    if (!word(line,
              {Kind::launch, Kind::load, Kind::stage, Kind::fetch, Kind::exchange, Kind::barrier, Kind::compute,
               Kind::update, Kind::merge, Kind::store, Kind::loop, Kind::branch, Kind::end},
              a.kind))
      return line.error("expected a kind of action");
    AICF_RETURN_IF_ERROR(list(line, a.writes));
    while (!line.done()) AICF_RETURN_IF_ERROR(action_fact(line, a));
    plan_.actions.push_back(std::move(a));
    return {};
  }

  Result<void> action_fact(Cursor& line, PlannedAction& a) {
    if (line.accept_word("reads")) return list(line, a.reads);
    if (line.accept_word("inside")) return list(line, a.inside);
    if (line.accept_word("over")) return list(line, a.over);
    if (line.accept_word("lanes")) return list(line, a.lanes);
    if (line.accept_word("subgroups")) return list(line, a.subgroups);
    if (line.accept_word("by")) return number(line, a.step);
    const bool of = line.accept_word("of");
    if (of || line.accept_word("axis")) {
      AICF_TRY((of ? a.tensor : a.axis), line.name());
      return {};
    }
    const bool begin = line.accept_word("begin");
    if (!begin) AICF_RETURN_IF_ERROR(line.expect_word("end"));
    AICF_TRY((begin ? a.begin : a.end), line.quoted());
    return {};
  }

  Result<void> sync(Cursor& line) {
    SyncEdge e;
    AICF_RETURN_IF_ERROR(number(line, e.from));
    AICF_RETURN_IF_ERROR(line.expect('-'));
    AICF_RETURN_IF_ERROR(line.expect('>'));
    AICF_RETURN_IF_ERROR(number(line, e.to));
    if (!word(line, {SyncScope::subgroup, SyncScope::workgroup, SyncScope::device}, e.scope))
      return line.error("expected subgroup, workgroup or device");
    if (line.accept_word("by")) AICF_RETURN_IF_ERROR(number(line, e.by));
    if (line.accept_word("participants")) AICF_RETURN_IF_ERROR(number(line, e.participants));
    if (line.accept_word("distance")) AICF_RETURN_IF_ERROR(number(line, e.distance));
    AICF_RETURN_IF_ERROR(line.expect_word("for"));
    AICF_RETURN_IF_ERROR(list(line, e.tiles));
    plan_.sync.push_back(std::move(e));
    return {};
  }

  std::vector<Line> lines_;
  std::string_view place_;
  std::size_t at_ = 0;
  const Line* current_ = nullptr;
  PlacementPlan plan_;
  Scope scope_;
};

}  // namespace

std::string to_string(const PlacementPlan& plan) {
  std::string out = fmt::format("placement {}  subgroup {}  subgroups {}  workgroup_bytes {} {{\n",
                                name_text(plan.name), plan.subgroup_size, plan.subgroups, plan.workgroup_bytes);
  std::set<std::string> symbols;
  for (const PlannedAxis& a : plan.axes) symbols.merge(symbols_of(a.extent));
  if (!symbols.empty())
    out += fmt::format("  symbols {}\n", join(std::vector<std::string>(symbols.begin(), symbols.end())));
  for (const PlannedAxis& a : plan.axes) {
    out += fmt::format("  axis {} = {} tile {} {}{}\n", name_text(a.name), to_string(a.extent), a.tile, name(a.walk),
                       a.padded ? " padded" : "");
  }
  for (const PlannedTile& t : plan.tiles) out += "  " + tile_text(t) + "\n";
  std::size_t depth = 0;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlannedAction& a = plan.actions[i];
    if (a.kind == Kind::end && depth > 0) --depth;
    out += fmt::format("  {:>3} {}{}\n", i, std::string(2 * depth, ' '), action_text(a));
    if (a.kind == Kind::loop || a.kind == Kind::branch) ++depth;
  }
  for (const SyncEdge& e : plan.sync) out += "  " + sync_text(e) + "\n";
  return out + "}\n";
}

Result<PlacementPlan> parse_placement(std::string_view text, std::string_view place) {
  return Parser(text, place).parse();
}

}  // namespace aicf
