#include "mir/memory/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "mir/memory/checker_state.h"
#include "mir/support/contains.h"

namespace aicf {
namespace checking {

std::unexpected<Diagnostic> violation(const PlacementPlan& plan, std::string_view rule, const std::string& message) {
  const std::string text = fmt::format("{}: {}", rule, message);
  const std::string place = fmt::format("placement '{}'", plan.name);
  return rule == "capacity" ? unsupported(text, place) : bad_input(text, place);
}

namespace {

using Kind = PlannedAction::Kind;

bool power_of_two(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// Rules that hold of each tile, action and edge by itself.
class Facts {
 public:
  Facts(const PlacementPlan& plan, std::int64_t limit) : plan_(plan), limit_(limit) {}

  Result<void> run() {
    AICF_RETURN_IF_ERROR(structure());
    for (const PlannedAxis& a : plan_.axes) AICF_RETURN_IF_ERROR(axis(a));
    for (const PlannedTile& t : plan_.tiles) {
      AICF_RETURN_IF_ERROR(residency(t));
      AICF_RETURN_IF_ERROR(extents(t));
      switch (t.residency) {
        case Residency::workgroup:
          AICF_RETURN_IF_ERROR(staged(t));
          break;
        case Residency::subgroup_register:
          AICF_RETURN_IF_ERROR(spread(t));
          break;
        case Residency::off_chip:
        case Residency::open:
          if (t.stages != 1) return broken("stages", t, "has stages without being staged");
          break;
      }
    }
    AICF_RETURN_IF_ERROR(actions());
    return workgroup_memory();
  }

 private:
  std::unexpected<Diagnostic> broken(std::string_view rule, const std::string& message) const {
    return violation(plan_, rule, message);
  }
  std::unexpected<Diagnostic> broken(std::string_view rule, const PlannedTile& t, const std::string& message) const {
    return violation(plan_, rule, fmt::format("tile '{}' {}", t.name, message));
  }

  // ---- structure -------------------------------------------------------------------------------------------------

  Result<void> structure() {
    if (!power_of_two(plan_.subgroup_size) || !power_of_two(plan_.subgroups))
      return broken("structure", fmt::format("{} x {} threads", plan_.subgroup_size, plan_.subgroups));
    for (const PlannedAxis& a : plan_.axes)
      if (!axes_.emplace(a.name, &a).second) return broken("structure", fmt::format("axis '{}' stands twice", a.name));
    for (const PlannedTile& t : plan_.tiles)
      if (!tiles_.emplace(t.name, &t).second) return broken("structure", fmt::format("tile '{}' stands twice", t.name));
    const int count = static_cast<int>(plan_.actions.size());
    if (count == 0 || plan_.actions[0].kind != Kind::launch)
      return broken("structure", "the program starts with a launch");
    int depth = 0, launch = -1;
    for (int i = 0; i < count; ++i) {
      const PlannedAction& a = plan_.actions[static_cast<std::size_t>(i)];
      if (a.kind == Kind::launch) {
        if (depth != 0) return broken("structure", fmt::format("action {} launches inside a loop", i));
        ++launch;
      }
      if (a.kind == Kind::loop || a.kind == Kind::branch) ++depth;
      if (a.kind == Kind::end && --depth < 0) return broken("structure", fmt::format("action {} closes no loop", i));
      for (const auto* list : {&a.reads, &a.writes}) {
        for (const std::string& name : *list) {
          const auto t = tiles_.find(name);
          if (t == tiles_.end()) return broken("structure", fmt::format("action {} names no tile '{}'", i, name));
          if (t->second->residency != Residency::off_chip && t->second->launch != launch)
            return broken("structure", *t->second, fmt::format("is used by action {} of another launch", i));
        }
      }
    }
    if (depth != 0) return broken("structure", "a loop does not end");
    for (const PlannedTile& t : plan_.tiles)
      if (t.live.first < 0 || t.live.first > t.live.last || t.live.last >= count)
        return broken("structure", t, fmt::format("lives {}..{} of {} actions", t.live.first, t.live.last, count));
    for (const SyncEdge& e : plan_.sync) {
      const auto in = [&](int at) { return at >= 0 && at < count; };
      if (!in(e.from) || !in(e.to) || e.by < -1 || e.by >= count)
        return broken("structure", fmt::format("edge {} -> {} names an action that is not there", e.from, e.to));
      for (const std::string& t : e.tiles) {
        const PlannedAction &from = plan_.actions[static_cast<std::size_t>(e.from)],
                            &to = plan_.actions[static_cast<std::size_t>(e.to)];
        const bool first = contains(from.reads, t) || contains(from.writes, t);
        const bool shared = contains(to.reads, t) || contains(to.writes, t) || overwrites(to, t);
        if (!first || !shared)
          return broken("structure",
                        fmt::format("edge {} -> {} is for tile '{}', which they do not share", e.from, e.to, t));
      }
    }
    return {};
  }

  /// `a` writes a tile in the bytes of `name`.
  bool overwrites(const PlannedAction& a, const std::string& name) const {
    const auto t = tiles_.find(name);
    return t != tiles_.end() &&
           std::ranges::any_of(a.writes, [&](const std::string& w) { return meet(*t->second, *tiles_.at(w)); });
  }

  static bool meet(const PlannedTile& a, const PlannedTile& b) {
    return a.residency == Residency::workgroup && b.residency == Residency::workgroup && a.launch == b.launch &&
           a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  // ---- tiles -----------------------------------------------------------------------------------------------------

  Result<void> axis(const PlannedAxis& a) const {
    const auto n = a.extent.as_int();
    if (a.tile < 1) return broken("bounds", fmt::format("axis '{}' has tiles of {}", a.name, a.tile));
    const bool fits = n ? *n % a.tile == 0 : a.tile == 1;
    if (a.padded == fits)
      return broken("bounds", fmt::format("axis '{}' of {} elements in tiles of {} is {}padded", a.name,
                                          to_string(a.extent), a.tile, a.padded ? "" : "not "));
    if (a.walk == Walk::whole && !(n && *n <= a.tile))
      return broken("bounds", fmt::format("axis '{}' of {} elements is held whole by tiles of {}", a.name,
                                          to_string(a.extent), a.tile));
    return {};
  }

  Result<void> residency(const PlannedTile& t) const {
    const auto expect = [&](Residency r) -> Result<void> {
      if (t.residency == r) return {};
      return broken("residency", t, fmt::format("is a {} in {}, not in {}", name(t.role), name(t.residency), name(r)));
    };
    switch (t.role) {
      case TileRole::tile:
        return expect(t.delivery == Delivery::workgroup ? Residency::workgroup : Residency::subgroup_register);
      case TileRole::exchange:
        return expect(Residency::workgroup);
      case TileRole::scratch:
        return expect(Residency::off_chip);
      case TileRole::stage:
      case TileRole::state:
      case TileRole::local:
      case TileRole::temporary:
        return expect(Residency::subgroup_register);
    }
    return {};
  }

  Result<void> extents(const PlannedTile& t) const {
    if (t.role == TileRole::exchange || t.role == TileRole::scratch) return {};
    std::vector<std::string> seen;
    for (const auto& [axis, extent] : t.axes) {
      const auto a = axes_.find(axis);
      if (a == axes_.end() || contains(seen, axis))
        return broken("structure", t, fmt::format("has a bad axis '{}'", axis));
      seen.push_back(axis);
      if (extent != a->second->tile)
        return broken("bounds", t,
                      fmt::format("has {} elements along '{}', tiles have {}", extent, axis, a->second->tile));
    }
    return {};
  }

  Result<void> staged(const PlannedTile& t) const {
    if (t.stages < 1) return broken("stages", t, fmt::format("has {} stages", t.stages));
    if (t.role == TileRole::exchange && t.stages != 1) return broken("stages", t, "has stages without being staged");
    const auto element = static_cast<std::int64_t>(device_size(t.type));
    std::int64_t rows = 1, pitch = 1;
    for (std::size_t i = 0; i < t.axes.size(); ++i) (i + 1 < t.axes.size() ? rows : pitch) *= t.axes[i].second;
    if (t.row_padding < 0) return broken("size", t, "has negative padding");
    if (!t.axes.empty()) pitch += t.row_padding;
    const std::int64_t one = rows * pitch * element;
    const std::int64_t bytes = one + (t.stages - 1) * ((one + 15) / 16 * 16);
    if (t.bytes != bytes)
      return broken("size", t, fmt::format("has {} bytes, {} stages of it need {}", t.bytes, t.stages, bytes));
    if (t.offset % 16 != 0) return broken("alignment", t, fmt::format("starts at byte {}", t.offset));
    if (t.vector < 1 || !power_of_two(t.vector) || t.vector * element > 16)
      return broken("alignment", t, fmt::format("is accessed {} elements at a time", t.vector));
    if (rows > 1 && pitch % t.vector != 0)
      return broken("alignment", t, fmt::format("has rows of {} elements, accessed {} at a time", pitch, t.vector));
    return {};
  }

  Result<void> spread(const PlannedTile& t) const {
    if (t.stages != 1) return broken("stages", t, "has stages in registers");
    std::int64_t registers = 1, lanes = 0, subgroups = 0;
    for (const Spread& f : t.spread) {
      if (f.size < 2 || f.stride < 1 || f.position < 1)
        return broken("bounds", t, fmt::format("has a bad factor along '{}'", f.axis));
      if (f.level == Level::reg) {
        registers *= f.size;
        continue;
      }
      const std::int64_t limit = f.level == Level::lane ? plan_.subgroup_size : plan_.subgroups;
      std::int64_t& used = f.level == Level::lane ? lanes : subgroups;
      const std::int64_t bits = (f.size - 1) * f.position;
      if (!power_of_two(f.size) || !power_of_two(f.position) || f.size * f.position > limit || (used & bits))
        return broken(
            "bounds", t,
            fmt::format("spreads '{}' over {} {}s from {} of {}", f.axis, f.size, name(f.level), f.position, limit));
      used |= bits;
    }
    for (const auto& [axis, extent] : t.axes) {
      // Digits of a mixed radix number: each stride is the product of the sizes below it.
      std::int64_t covered = 1;
      for (bool found = true; found;) {
        found = false;
        for (const Spread& f : t.spread) {
          if (f.axis != axis || f.stride != covered) continue;
          covered *= f.size;
          found = true;
          break;
        }
      }
      std::int64_t product = 1;
      for (const Spread& f : t.spread)
        if (f.axis == axis) product *= f.size;
      if (covered != extent || product != extent)
        return broken(
            "bounds", t,
            fmt::format("is spread over {} of {} elements along '{}'", std::min(covered, product), extent, axis));
    }
    const std::int64_t bytes = registers * static_cast<std::int64_t>(device_size(t.type));
    if (t.bytes_per_thread != bytes || t.bytes != bytes * plan_.threads())
      return broken("size", t,
                    fmt::format("has {} bytes, {} a thread; {} registers need {}", t.bytes, t.bytes_per_thread,
                                registers, bytes));
    return {};
  }

  // ---- actions ---------------------------------------------------------------------------------------------------

  Result<void> actions() const {
    std::vector<const PlannedAction*> loops;
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const PlannedAction& a = plan_.actions[i];
      const std::string what = fmt::format("action {} {}", i, name(a.kind));
      if (a.kind == Kind::loop || a.kind == Kind::branch) {
        AICF_RETURN_IF_ERROR(opened(what, a));
        loops.push_back(&a);
      }
      if (a.kind == Kind::end) loops.pop_back();
      for (const auto* list : {&a.reads, &a.writes})
        for (const std::string& name : *list) AICF_RETURN_IF_ERROR(walked(what, *tiles_.at(name), loops));
      AICF_RETURN_IF_ERROR(memories(what, a));
      if (a.kind == Kind::load || a.kind == Kind::store) AICF_RETURN_IF_ERROR(predicated(what, a));
      if (a.kind == Kind::exchange) AICF_RETURN_IF_ERROR(exchanged(what, a));
    }
    return {};
  }

  Result<void> opened(const std::string& what, const PlannedAction& a) const {
    if (a.kind == Kind::branch || a.axis.empty()) return {};
    const auto axis = axes_.find(a.axis);
    if (axis == axes_.end()) return broken("structure", fmt::format("{} walks '{}', which is no axis", what, a.axis));
    if (axis->second->walk == Walk::grid)
      return broken("bounds", fmt::format("{} walks '{}', which work items share out", what, a.axis));
    if (a.step != axis->second->tile)
      return broken("bounds",
                    fmt::format("{} walks '{}' by {}, its tiles have {}", what, a.axis, a.step, axis->second->tile));
    return {};
  }

  /// Axes that no tile covers are walked by a loop around the action.
  Result<void> walked(const std::string& what, const PlannedTile& t,
                      const std::vector<const PlannedAction*>& loops) const {
    if (t.role == TileRole::exchange || t.role == TileRole::scratch) return {};
    for (const auto& [axis, extent] : t.axes) {
      const PlannedAxis& a = *axes_.at(axis);
      const bool around = std::ranges::any_of(loops, [&](const PlannedAction* l) { return l->axis == axis; });
      const auto n = a.extent.as_int();
      if (a.walk != Walk::loop || around || (n && *n <= a.tile)) continue;
      return broken(
          "bounds", t,
          fmt::format("is used by {} outside of a loop over '{}', of which it holds {} elements", what, axis, extent));
    }
    return {};
  }

  Result<void> memories(const std::string& what, const PlannedAction& a) const {
    for (const std::string& name : a.writes) {
      const PlannedTile& t = *tiles_.at(name);
      Residency wanted = Residency::subgroup_register;
      if (a.kind == Kind::stage || a.kind == Kind::exchange) wanted = Residency::workgroup;
      if (a.kind == Kind::store) wanted = Residency::off_chip;
      if (t.residency != wanted)
        return broken("residency", t, fmt::format("is in {} and written by {}", aicf::name(t.residency), what));
    }
    for (const std::string& name : a.reads) {
      const PlannedTile& t = *tiles_.at(name);
      // A tile of indices into the tensor may have the tensor's name.
      const bool from_memory = a.kind == Kind::load && name == a.tensor && t.role == TileRole::scratch;
      const bool off_chip = t.residency == Residency::off_chip;
      const bool only_registers =
          (a.kind == Kind::stage || a.kind == Kind::exchange) && t.residency != Residency::subgroup_register;
      if (off_chip != from_memory || only_registers || (a.kind == Kind::fetch && t.residency != Residency::workgroup))
        return broken("residency", t, fmt::format("is in {} and read by {}", aicf::name(t.residency), what));
    }
    return {};
  }

  Result<void> predicated(const std::string& what, const PlannedAction& a) const {
    for (const std::string& name : a.kind == Kind::load ? a.writes : a.reads) {
      const PlannedTile& t = *tiles_.at(name);
      for (const auto& [axis, extent] : t.axes) {
        const auto found = axes_.find(axis);
        if (found == axes_.end() || !found->second->padded || contains(a.inside, axis)) continue;
        return broken("bounds", t, fmt::format("passes the end of '{}' and {} has no predicate there", axis, what));
      }
    }
    return {};
  }

  Result<void> exchanged(const std::string& what, const PlannedAction& a) const {
    if (a.reads.size() != a.writes.size() || a.subgroups.size() != 1)
      return broken("structure", what + " needs one memory for each state and one mask");
    for (std::size_t i = 0; i < a.reads.size(); ++i) {
      const PlannedTile &state = *tiles_.at(a.reads[i]), &memory = *tiles_.at(a.writes[i]);
      if (std::ranges::count(a.writes, a.writes[i]) != 1)
        return broken("structure", memory, fmt::format("takes two states in {}", what));
      if (memory.bytes < state.bytes || memory.type != state.type)
        return broken("size", memory,
                      fmt::format("has {} bytes, '{}' needs {} in {}", memory.bytes, state.name, state.bytes, what));
    }
    return {};
  }

  // ---- workgroup memory ------------------------------------------------------------------------------------------

  Result<void> workgroup_memory() const {
    std::int64_t end = 0;
    for (const PlannedTile& t : plan_.tiles) {
      if (t.residency != Residency::workgroup) continue;
      if (t.offset < 0 || t.bytes < 0) return broken("capacity", t, fmt::format("starts at byte {}", t.offset));
      if (t.offset > limit_ - t.bytes)
        return broken("capacity", t,
                      fmt::format("ends at byte {}, workgroup memory has {}", t.offset + t.bytes, limit_));
      end = std::max(end, t.offset + t.bytes);
    }
    if (end != plan_.workgroup_bytes)
      return broken("size",
                    fmt::format("workgroup memory ends at byte {}, the plan says {}", end, plan_.workgroup_bytes));
    for (const PlannedTile& a : plan_.tiles) {
      for (const PlannedTile& b : plan_.tiles) {
        if (&a >= &b || !meet(a, b)) continue;
        if (a.live.first <= b.live.last && b.live.first <= a.live.last)
          return broken("overlap", a, fmt::format("and tile '{}' are live together and share bytes", b.name));
      }
    }
    return {};
  }

  const PlacementPlan& plan_;
  std::int64_t limit_;
  std::map<std::string, const PlannedAxis*> axes_;
  std::map<std::string, const PlannedTile*> tiles_;
};

}  // namespace
}  // namespace checking

Result<void> check_placement(const PlacementPlan& plan, std::int64_t workgroup_limit) {
  AICF_RETURN_IF_ERROR(checking::Facts(plan, workgroup_limit).run());
  return checking::Walker(plan).run();
}

}  // namespace aicf
