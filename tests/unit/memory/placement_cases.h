#pragma once

// Scheduled regions whose placements are golden, and what the tests of this folder share.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mir/memory/plan.h"

namespace aicf::testing {

inline std::string golden_path(const std::string& file) {
  return std::string(AICF_TESTS_DIR) + "/golden/memory/" + file;
}

inline std::string read_golden(const std::string& file) {
  std::ifstream in(golden_path(file));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline StreamingRegion region(const std::string& name) {
  const std::string file = name + ".region";
  Result<StreamingRegion> r = parse_streaming_region(read_golden(file), file);
  if (!r) {
    ADD_FAILURE() << r.error().text();
    return {};
  }
  if (const auto ok = verify(*r); !ok) ADD_FAILURE() << ok.error().text();
  return std::move(*r);
}

struct PlacementCase {
  std::string name;
  std::string region;
  Schedule schedule;
  int most_stages = 1;
};

inline Schedule cascade_schedule(Delivery delivery, int subgroups) {
  Schedule s;
  s.subgroup_size = 8;
  s.subgroups = subgroups;
  s.axes["q"].factors = {{Level::lane, 8}, {Level::reg, 2}};
  if (subgroups > 1) s.axes["q"].factors.push_back({Level::subgroup, subgroups});
  s.axes["kv"].factors = {{Level::reg, 4}};
  s.axes["d"].factors = {{Level::reg, 16}};
  s.axes["e"].factors = {{Level::reg, 16}};
  s.tiles["qt"].vector_width = 4;
  for (const char* t : {"kt", "vt"}) {
    TilePlan& plan = s.tiles[t];
    plan.delivery = delivery;
    plan.residency = delivery == Delivery::workgroup ? Residency::workgroup : Residency::subgroup_register;
    plan.vector_width = 4;
    plan.row_padding = delivery == Delivery::workgroup ? 4 : 0;
  }
  return s;
}

inline Schedule rows_schedule() {
  Schedule s;
  s.subgroup_size = 16;
  s.subgroups = 8;
  s.axes["col"].factors = {{Level::reg, 2}, {Level::lane, 16}, {Level::subgroup, 4}};
  s.axes["row"].factors = {{Level::subgroup, 2}};
  return s;
}

inline Schedule gemm_schedule() {
  Schedule s;
  s.subgroup_size = 16;
  s.subgroups = 2;
  s.axes["i"].factors = {{Level::reg, 8}, {Level::subgroup, 2}};
  s.axes["j"].factors = {{Level::reg, 2}, {Level::lane, 16}};
  s.axes["k"].factors = {{Level::reg, 8}};
  for (const char* t : {"at", "bt"}) {
    s.tiles[t].delivery = Delivery::workgroup;
    s.tiles[t].residency = Residency::workgroup;
    s.tiles[t].vector_width = 4;
  }
  return s;
}

inline std::vector<PlacementCase> placement_cases() {
  std::vector<PlacementCase> cases{{"cascade_broadcast", "cascade", cascade_schedule(Delivery::lane_broadcast, 1)},
                                   {"cascade_staged", "cascade", cascade_schedule(Delivery::workgroup, 2)},
                                   {"cascade_split", "cascade", cascade_schedule(Delivery::workgroup, 2)},
                                   {"rows", "rows", rows_schedule()},
                                   {"gemm", "gemm", gemm_schedule()},
                                   {"gemm_stages", "gemm", gemm_schedule(), 2}};
  cases[2].schedule.split = 3;
  for (auto& [name, tile] : cases[5].schedule.tiles) tile.stages = 2;
  return cases;
}

inline PlacementPlan planned(const PlacementCase& c, bool share = false) {
  PlacementOptions options;
  options.most_stages = c.most_stages;
  options.share_workgroup_memory = share;
  Result<PlacementPlan> plan = plan_placement({region(c.region), c.schedule}, options);
  if (!plan) {
    ADD_FAILURE() << plan.error().text();
    return {};
  }
  return std::move(*plan);
}

inline void PrintTo(const PlacementCase& c, std::ostream* out) {
  *out << c.name;
}

}  // namespace aicf::testing
