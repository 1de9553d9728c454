// Plans as data: names, look-up, and the graph that a plan describes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "mir/memory/plan.h"

namespace aicf {
namespace {

using Kind = PlannedAction::Kind;

constexpr std::array<std::string_view, 3> walk_names{"grid", "loop", "whole"};
constexpr std::array<std::string_view, 7> role_names{"tile",      "stage",    "state",  "local",
                                                     "temporary", "exchange", "scratch"};
constexpr std::array<std::string_view, 13> kind_names{"launch",  "load",    "stage",  "fetch", "exchange",
                                                      "barrier", "compute", "update", "merge", "store",
                                                      "loop",    "branch",  "end"};
constexpr std::array<std::string_view, 3> scope_names{"subgroup", "workgroup", "device"};

}  // namespace

std::string_view name(Walk walk) {
  return walk_names[static_cast<std::size_t>(walk)];
}
std::string_view name(TileRole role) {
  return role_names[static_cast<std::size_t>(role)];
}
std::string_view name(PlannedAction::Kind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}
std::string_view name(SyncScope scope) {
  return scope_names[static_cast<std::size_t>(scope)];
}

const PlannedTile* PlacementPlan::find(const std::string& tile) const {
  const auto found = std::ranges::find(tiles, tile, &PlannedTile::name);
  return found == tiles.end() ? nullptr : &*found;
}

MemoryGraph graph_of(const PlacementPlan& plan) {
  MemoryGraph graph;
  std::map<std::string, int> values;
  for (const PlannedTile& t : plan.tiles) {
    const bool off_chip = t.residency == Residency::off_chip;
    const auto shape = off_chip                    ? MemoryGraph::Shape::off_chip
                       : t.role == TileRole::state ? MemoryGraph::Shape::state
                                                   : MemoryGraph::Shape::tile;
    values[t.name] = graph.add_value(fmt::format("{}\n{}", t.name, name(t.residency)), shape);
  }
  std::vector<int> open;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlannedAction& a = plan.actions[i];
    std::string label = fmt::format("{} {}", i, name(a.kind));
    if (!a.writes.empty()) label += " " + a.writes[0];
    if (!a.tensor.empty()) label += " " + a.tensor;
    const int id = graph.add_action(label);
    if (i > 0) graph.add_control(id - 1, id);
    for (const std::string& t : a.reads)
      if (const auto v = values.find(t); v != values.end()) graph.add_read(id, v->second);
    for (const std::string& t : a.writes)
      if (const auto v = values.find(t); v != values.end()) graph.add_write(id, v->second);
    if (a.kind == Kind::loop || a.kind == Kind::branch) open.push_back(id);
    if (a.kind == Kind::end && !open.empty()) {
      const int head = open.back();
      open.pop_back();
      if (plan.actions[static_cast<std::size_t>(head)].kind == Kind::loop) graph.add_control(id, head, true);
      graph.add_control(head, id);  // no iteration at all
    }
  }
  for (const SyncEdge& e : plan.sync) graph.add_sync(e.from, e.to, fmt::format("{} {}", name(e.scope), e.participants));
  return graph;
}

}  // namespace aicf
