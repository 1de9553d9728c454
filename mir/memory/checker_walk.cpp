// Lifecycles and sync: an abstract run of the program. Loops are walked until nothing new is learnt; the first walk may
// also not happen at all.

#include <fmt/format.h>

#include <algorithm>

#include "mir/memory/checker_state.h"
#include "mir/support/contains.h"

namespace aicf::checking {
namespace {

using Kind = PlannedAction::Kind;

Pending joined(const Pending& a, const Pending& b) {
  Pending result = a;
  for (const auto& [action, passed] : b) {
    const auto [mine, fresh] = result.emplace(action, passed);
    if (!fresh) std::erase_if(mine->second, [&](int barrier) { return !passed.contains(barrier); });
  }
  return result;
}

Flow joined(const Flow& a, const Flow& b) {
  Flow result = a;
  for (const auto& [name, copies] : b.memory) {
    const auto [mine, fresh] = result.memory.emplace(name, copies);
    if (fresh) continue;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      mine->second[i].writes = joined(mine->second[i].writes, copies[i].writes);
      mine->second[i].reads = joined(mine->second[i].reads, copies[i].reads);
    }
  }
  for (const auto& [name, passed] : b.held) {
    const auto [mine, fresh] = result.held.emplace(name, passed);
    if (fresh) continue;
    for (std::size_t i = 0; i < passed.size(); ++i) mine->second[i] = mine->second[i] || passed[i];
  }
  return result;
}

/// Which bit of a thread's id decides which bit of the coordinate.
struct ThreadBit {
  std::string axis;
  std::int64_t coordinate;
  Level level;
  std::int64_t id;
  auto operator<=>(const ThreadBit&) const = default;
};

std::set<ThreadBit> thread_bits(const PlannedTile& t) {
  std::set<ThreadBit> bits;
  for (const Spread& f : t.spread) {
    if (f.level == Level::reg) continue;
    for (std::int64_t digit = 1; digit < f.size; digit *= 2)
      bits.insert({f.axis, f.stride * digit, f.level, f.position * digit});
  }
  return bits;
}

bool has_axis(const PlannedTile& t, const std::string& axis) {
  return std::ranges::any_of(t.axes, [&](const auto& a) { return a.first == axis; });
}

void pass(Pending& pending, int barrier) {
  for (auto& [action, passed] : pending) passed.insert(barrier);
}

}  // namespace

Walker::Walker(const PlacementPlan& plan)
    : plan_(plan), match_(plan.actions.size(), -1), launch_(plan.actions.size(), -1) {
  for (const PlannedTile& t : plan.tiles) tiles_[t.name] = &t;
  std::vector<int> open;
  int launch = -1;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const int at = static_cast<int>(i);
    if (plan.actions[i].kind == Kind::launch) ++launch;
    launch_[i] = launch;
    if (plan.actions[i].kind == Kind::loop || plan.actions[i].kind == Kind::branch) open.push_back(at);
    if (plan.actions[i].kind == Kind::end) {
      match_[static_cast<std::size_t>(open.back())] = at;
      open.pop_back();
    }
  }
}

std::string Walker::describe(int at) const {
  const PlannedAction& a = plan_.actions[static_cast<std::size_t>(at)];
  std::string out = fmt::format("{} {}", at, name(a.kind));
  if (!a.writes.empty()) out += " " + a.writes[0];
  if (!a.tensor.empty()) out += " " + a.tensor;
  return out;
}

/// The tile's elements that `at` needs are in other threads' registers. An id bit of the tile is at home when the
/// result has it in the same place, or when the result leaves it alone, the axis is reduced, and all operands along the
/// axis agree on it: then every thread reduces its own part.
bool Walker::foreign(int at, const PlannedTile& t) const {
  const PlannedAction& a = plan_.actions[static_cast<std::size_t>(at)];
  if (a.kind == Kind::merge) return !a.lanes.empty() && contains(a.writes, t.name);
  if (a.kind != Kind::compute && a.kind != Kind::update && a.kind != Kind::load && a.kind != Kind::store) return false;
  const PlannedTile* result = nullptr;
  if (a.kind == Kind::store) {
    for (const std::string& r : a.reads)
      if (!result && tiles_.at(r)->residency == Residency::subgroup_register) result = tiles_.at(r);
  } else {
    for (const std::string& w : a.writes)
      if (tiles_.at(w)->residency == Residency::subgroup_register) result = tiles_.at(w);
  }
  if (!result || result == &t) return false;
  const std::set<ThreadBit> home = thread_bits(*result);
  const auto kept = [&](const ThreadBit& bit) {
    if (!contains(a.over, bit.axis)) return false;
    for (const ThreadBit& h : home)
      if (h.level == bit.level && h.id == bit.id) return false;
    return std::ranges::all_of(a.reads, [&](const std::string& other) {
      const PlannedTile& o = *tiles_.at(other);
      return o.residency != Residency::subgroup_register || !has_axis(o, bit.axis) || thread_bits(o).contains(bit);
    });
  };
  return std::ranges::any_of(thread_bits(t), [&](const ThreadBit& bit) { return !home.contains(bit) && !kept(bit); });
}

Result<void> Walker::ordered(int from, const std::set<int>& passed, int to, SyncScope scope,
                             const PlannedTile& t) const {
  const std::string what = fmt::format("tile '{}': {} -> {}", t.name, describe(from), describe(to));
  const auto edge = std::ranges::find_if(
      plan_.sync, [&](const SyncEdge& e) { return e.from == from && e.to == to && e.scope == scope; });
  if (edge == plan_.sync.end())
    return violation(plan_, "sync",
                     fmt::format("{} meet in different threads without an edge of scope {}", what, name(scope)));
  const int distance = from < to ? 0 : t.stages;
  if (edge->distance > distance)
    return violation(plan_, "sync",
                     fmt::format("{} meet after {} iterations, the edge orders {}", what, distance, edge->distance));
  const std::int64_t participants = scope == SyncScope::subgroup    ? plan_.subgroup_size
                                    : scope == SyncScope::workgroup ? plan_.threads()
                                                                    : 0;
  if (edge->participants != participants) {
    return violation(plan_, "sync",
                     fmt::format("{} needs {} participants, the edge has {}", what, participants, edge->participants));
  }
  if (scope == SyncScope::subgroup) {
    if (edge->by != to) return violation(plan_, "sync", what + " is ordered by the shuffle of its reader alone");
    return {};
  }
  const Kind needed = scope == SyncScope::workgroup ? Kind::barrier : Kind::launch;
  const bool there =
      edge->by >= 0 && plan_.actions[static_cast<std::size_t>(edge->by)].kind == needed && passed.contains(edge->by);
  if (!there)
    return violation(plan_, "sync",
                     fmt::format("{}: no {} that the edge names lies on every path between", what, name(needed)));
  return {};
}

Result<void> Walker::read(int at, const PlannedTile& t, Flow& flow) const {
  std::deque<Copy>& copies = flow.memory[t.name];
  if (copies.empty()) copies.resize(static_cast<std::size_t>(t.stages));
  Copy& newest = copies.front();
  switch (t.residency) {
    case Residency::subgroup_register:
      // The holder takes part in the shuffle, so that its later writes follow by themselves.
      if (foreign(at, t))
        for (const auto& [from, passed] : newest.writes)
          AICF_RETURN_IF_ERROR(ordered(from, passed, at, SyncScope::subgroup, t));
      return {};
    case Residency::workgroup:
      if (plan_.threads() == 1) return {};
      for (const auto& [from, passed] : newest.writes)
        AICF_RETURN_IF_ERROR(ordered(from, passed, at, SyncScope::workgroup, t));
      break;
    case Residency::off_chip:
      for (const auto& [from, passed] : newest.writes) {
        const bool same = launch_[static_cast<std::size_t>(from)] == launch_[static_cast<std::size_t>(at)];
        AICF_RETURN_IF_ERROR(ordered(from, passed, at, same ? SyncScope::workgroup : SyncScope::device, t));
      }
      break;
    case Residency::open:
      break;
  }
  newest.reads[at] = {};
  return {};
}

Result<void> Walker::write(int at, const PlannedTile& t, Flow& flow) const {
  std::deque<Copy>& copies = flow.memory[t.name];
  if (copies.empty()) copies.resize(static_cast<std::size_t>(t.stages));
  if (t.residency == Residency::workgroup && plan_.threads() > 1) {
    for (const auto& [from, passed] : copies.back().reads)
      AICF_RETURN_IF_ERROR(ordered(from, passed, at, SyncScope::workgroup, t));
    // Tiles in the same bytes: what was done to them must be over.
    for (const PlannedTile& o : plan_.tiles) {
      const bool shared = &o != &t && o.residency == Residency::workgroup && o.launch == t.launch &&
                          o.offset < t.offset + t.bytes && t.offset < o.offset + o.bytes;
      const auto other = flow.memory.find(o.name);
      if (!shared || other == flow.memory.end()) continue;
      for (Copy& copy : other->second) {
        // Readers were ordered after the writer.
        for (const auto& [from, passed] : copy.reads.empty() ? copy.writes : copy.reads)
          AICF_RETURN_IF_ERROR(ordered(from, passed, at, SyncScope::workgroup, o));
        copy = {};
      }
    }
  }
  if (t.residency == Residency::off_chip) {
    for (const auto& [from, passed] : copies.back().reads) {
      const bool same = launch_[static_cast<std::size_t>(from)] == launch_[static_cast<std::size_t>(at)];
      AICF_RETURN_IF_ERROR(ordered(from, passed, at, same ? SyncScope::workgroup : SyncScope::device, t));
    }
  }
  copies.pop_back();
  copies.push_front({{{at, {}}}, {}});
  return {};
}

Result<void> Walker::lifecycles(int at, Flow& flow) const {
  const auto inside = [&](const PlannedTile& t, int position) {
    return t.live.first <= position && position <= t.live.last;
  };
  const PlannedAction& a = plan_.actions[static_cast<std::size_t>(at)];
  for (auto& [name, passed] : flow.held) passed[static_cast<std::size_t>(at)] = true;
  for (const std::string& name : a.reads) {
    const PlannedTile& t = *tiles_.at(name);
    const auto held = flow.held.find(name);
    if (held == flow.held.end())
      return violation(plan_, "lifecycle",
                       fmt::format("tile '{}' is read by {} before it is written", name, describe(at)));
    for (std::size_t i = 0; i < held->second.size(); ++i) {
      if (!held->second[i] || inside(t, static_cast<int>(i))) continue;
      return violation(plan_, "lifecycle",
                       fmt::format("tile '{}' is read by {} and passes {}, which is outside of its lifecycle {}..{}",
                                   name, describe(at), describe(static_cast<int>(i)), t.live.first, t.live.last));
    }
  }
  for (const std::string& name : a.writes) {
    const PlannedTile& t = *tiles_.at(name);
    if (!inside(t, at))
      return violation(plan_, "lifecycle",
                       fmt::format("tile '{}' is written by {} outside of its lifecycle {}..{}", name, describe(at),
                                   t.live.first, t.live.last));
    std::vector<bool>& passed = flow.held[name];
    if (passed.empty() || !contains(a.reads, name)) passed.assign(plan_.actions.size(), false);
    passed[static_cast<std::size_t>(at)] = true;
  }
  return {};
}

Result<void> Walker::action(int at, Flow& flow) {
  const PlannedAction& a = plan_.actions[static_cast<std::size_t>(at)];
  AICF_RETURN_IF_ERROR(lifecycles(at, flow));
  if (a.kind == Kind::barrier || a.kind == Kind::launch) {
    for (auto& [name, copies] : flow.memory) {
      for (Copy& c : copies) pass(c.writes, at), pass(c.reads, at);
    }
    return {};
  }
  for (const std::string& t : a.reads) AICF_RETURN_IF_ERROR(read(at, *tiles_.at(t), flow));
  for (const std::string& t : a.writes) AICF_RETURN_IF_ERROR(write(at, *tiles_.at(t), flow));
  return {};
}

Result<void> Walker::loop(int head, int end, Flow& flow) {
  const bool repeats = plan_.actions[static_cast<std::size_t>(head)].kind == Kind::loop;
  AICF_RETURN_IF_ERROR(action(head, flow));
  // Grows with every round: more pending accesses, fewer barriers that all paths share.
  for (Flow before;;) {
    Flow round = flow;
    AICF_RETURN_IF_ERROR(range(head + 1, end, round));
    AICF_RETURN_IF_ERROR(action(end, round));
    if (repeats) AICF_RETURN_IF_ERROR(action(head, round));
    before = flow;
    flow = joined(flow, round);
    if (!repeats || flow == before) break;
  }
  return action(end, flow);
}

Result<void> Walker::range(int begin, int end, Flow& flow) {
  for (int at = begin; at < end; ++at) {
    const int close = match_[static_cast<std::size_t>(at)];
    if (close < 0) {
      AICF_RETURN_IF_ERROR(action(at, flow));
    } else {
      AICF_RETURN_IF_ERROR(loop(at, close, flow));
      at = close;
    }
  }
  return {};
}

Result<void> Walker::run() {
  Flow flow;
  return range(0, static_cast<int>(plan_.actions.size()), flow);
}

}  // namespace aicf::checking
