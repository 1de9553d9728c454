#include "mir/memory/plan.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "mir/kernel/search.h"
#include "mir/kernel/thread_program.h"
#include "mir/memory/checker.h"
#include "mir/memory/scheduled.h"
#include "tests/unit/memory/placement_cases.h"

namespace aicf {
namespace {

using aicf::testing::PlacementCase;
using ::testing::HasSubstr;

class Placement : public ::testing::TestWithParam<PlacementCase> {};

// AICF_BLESS=1 writes what is printed now.
TEST_P(Placement, IsGolden) {
  const std::string text = to_string(aicf::testing::planned(GetParam()));
  const std::string file = GetParam().name + ".placement";
  if (std::getenv("AICF_BLESS")) std::ofstream(aicf::testing::golden_path(file)) << text;
  EXPECT_EQ(text, aicf::testing::read_golden(file));
}

TEST_P(Placement, RoundTrips) {
  const PlacementPlan plan = aicf::testing::planned(GetParam());
  const Result<PlacementPlan> read = parse_placement(to_string(plan), "test");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, plan);
}

TEST_P(Placement, IsChecked) {
  for (const bool share : {false, true}) {
    const PlacementPlan plan = aicf::testing::planned(GetParam(), share);
    const Result<void> ok = check_placement(plan, plan.workgroup_bytes);
    EXPECT_TRUE(ok) << ok.error().text() << "\n" << to_string(plan);
  }
}

TEST_P(Placement, ScheduledTextHasResidenciesAndThePlacement) {
  if (GetParam().most_stages > 1) GTEST_SKIP() << "lowering stages one buffer";
  const ScheduledRegion scheduled{aicf::testing::region(GetParam().region), GetParam().schedule};
  const std::string text = to_string(scheduled);
  const std::string head = text.substr(0, text.find("\n}\n") + 3);
  EXPECT_EQ(head.find('?'), std::string::npos) << head;
  const Result<StreamingRegion> region = parse_streaming_region(head, "test");
  ASSERT_TRUE(region) << region.error().text();
  EXPECT_EQ(to_string(*region), to_string(with_residencies(scheduled)));
  const Result<PlacementPlan> plan = parse_placement(text, "test");
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(*plan, aicf::testing::planned(GetParam()));
}

/// Every workgroup tile of the plan against the arrays of the expanded programs, by name, offset and size.
void expect_offsets_of(const PlacementPlan& plan, const LoweredRegion& lowered) {
  for (std::size_t launch = 0; launch < lowered.kernels.size(); ++launch) {
    const Result<ThreadProgram> program = expand(lowered.kernels[launch]);
    ASSERT_TRUE(program) << program.error().text();
    std::vector<std::pair<std::int64_t, std::int64_t>> arrays, tiles;
    for (const SharedArray& a : program->shared)
      arrays.emplace_back(a.byte_offset, a.elements * static_cast<std::int64_t>(device_size(a.type)));
    for (const PlannedTile& t : plan.tiles)
      if (t.residency == Residency::workgroup && t.launch == static_cast<int>(launch))
        tiles.emplace_back(t.offset, t.bytes);
    EXPECT_EQ(tiles, arrays) << to_string(plan);
  }
}

TEST_P(Placement, OffsetsAreThoseOfTheThreadProgram) {
  if (GetParam().most_stages > 1) GTEST_SKIP() << "lowering stages one buffer";
  const Result<LoweredRegion> lowered = lower({aicf::testing::region(GetParam().region), GetParam().schedule});
  ASSERT_TRUE(lowered) << lowered.error().text();
  expect_offsets_of(aicf::testing::planned(GetParam()), *lowered);
}

TEST_P(Placement, GraphIsInProgramOrder) {
  const PlacementPlan plan = aicf::testing::planned(GetParam());
  const MemoryGraph graph = graph_of(plan);
  const std::vector<int> order = graph.topological_order();
  ASSERT_EQ(order.size(), plan.actions.size());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
  EXPECT_THAT(graph.to_dot(plan.name), HasSubstr("digraph"));
}

INSTANTIATE_TEST_SUITE_P(Cases, Placement, ::testing::ValuesIn(aicf::testing::placement_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(PlacementGolden, EveryFileHasACase) {
  std::set<std::string> wanted;
  for (const PlacementCase& c : aicf::testing::placement_cases()) {
    wanted.insert(c.name + ".placement");
    wanted.insert(c.region + ".region");
  }
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(aicf::testing::golden_path("")))
    there.insert(entry.path().filename().string());
  EXPECT_EQ(there, wanted);
}

// ---- facts worked out by hand ------------------------------------------------------------------------------------

TEST(PlacementFacts, BytesOfTilesAndStates) {
  const PlacementPlan plan = aicf::testing::planned(aicf::testing::placement_cases()[1]);  // staged
  // k: 4 rows of 16 f32 with 4 elements of padding.
  ASSERT_TRUE(plan.find("kt"));
  EXPECT_EQ(plan.find("kt")->bytes, 4 * (16 + 4) * 4);
  EXPECT_EQ(plan.find("kt")->residency, Residency::workgroup);
  // s: 2 rows and 4 columns a thread; o: 2 rows of 16. Both in registers: on chip.
  EXPECT_EQ(plan.find("s")->bytes_per_thread, 2 * 4 * 4);
  EXPECT_EQ(plan.find("o")->bytes_per_thread, 2 * 16 * 4);
  EXPECT_EQ(plan.find("o")->bytes, 2 * 16 * 4 * 16);
  for (const char* name : {"s", "p", "m", "l", "o"})
    EXPECT_EQ(plan.find(name)->residency, Residency::subgroup_register) << name;
}

TEST(PlacementFacts, SyncOfBroadcastIsOneShuffleEach) {
  const PlacementPlan plan = aicf::testing::planned(aicf::testing::placement_cases()[0]);
  ASSERT_EQ(plan.sync.size(), 2U);  // k into the scores, v into o
  for (const SyncEdge& e : plan.sync) {
    EXPECT_EQ(e.scope, SyncScope::subgroup);
    EXPECT_EQ(e.participants, 8);
    EXPECT_EQ(e.distance, 0);
  }
  EXPECT_EQ(plan.workgroup_bytes, 0);
}

TEST(PlacementFacts, SyncOfStagingGoesBothWays) {
  const PlacementPlan plan = aicf::testing::planned(aicf::testing::placement_cases()[1]);
  int forward = 0, carried = 0;
  for (const SyncEdge& e : plan.sync) {
    EXPECT_EQ(e.scope, SyncScope::workgroup);
    EXPECT_EQ(e.participants, 16);
    (e.distance == 0 ? forward : carried) += 1;
  }
  EXPECT_EQ(forward, 2);
  EXPECT_EQ(carried, 2);
}

TEST(PlacementFacts, PartialStatesMergeOverLanesAndSubgroups) {
  const PlacementPlan plan = aicf::testing::planned(aicf::testing::placement_cases()[3]);  // rows
  int shuffles = 0, exchanges = 0;
  for (const PlannedAction& a : plan.actions) {
    if (a.kind != PlannedAction::Kind::merge) continue;
    (a.lanes.empty() ? exchanges : shuffles) += 1;
    EXPECT_TRUE(a.lanes.empty() || a.lanes == (std::vector<std::int64_t>{1, 2, 4, 8}));
  }
  EXPECT_EQ(shuffles, 1);
  EXPECT_EQ(exchanges, 2);  // 4 subgroups along the columns
  // One f32 a thread for m and for l.
  EXPECT_EQ(plan.find("exchange_0")->bytes, 16 * 8 * 4);
  EXPECT_EQ(plan.find("exchange_1")->offset, 16 * 8 * 4);
}

TEST(PlacementFacts, TilesShareBytesOnlyBehindABarrier) {
  const PlacementPlan apart = aicf::testing::planned(aicf::testing::placement_cases()[1]);
  const PlacementPlan shared = aicf::testing::planned(aicf::testing::placement_cases()[1], true);
  EXPECT_EQ(apart.workgroup_bytes, 640);
  // Lowering keeps no barrier between the last read of k and the staging of v, so they may not share bytes.
  EXPECT_EQ(shared.workgroup_bytes, 640);
  // Both operands of a product are live together.
  EXPECT_EQ(aicf::testing::planned(aicf::testing::placement_cases()[4], true).workgroup_bytes,
            aicf::testing::planned(aicf::testing::placement_cases()[4]).workgroup_bytes);
}

TEST(PlacementFacts, StagesThatLoweringDoesNotSupportAreRefused) {
  const PlacementCase c = aicf::testing::placement_cases()[5];
  const Result<PlacementPlan> plan = plan_placement({aicf::testing::region(c.region), c.schedule});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(plan.error().message, HasSubstr("2 stages"));
}

TEST(PlacementText, ErrorsNameTheLine) {
  const std::string text = to_string(aicf::testing::planned(aicf::testing::placement_cases()[4]));
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string copy = text;
    const std::size_t at = copy.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    copy.replace(at, from.size(), to);
    const Result<PlacementPlan> plan = parse_placement(copy, "p");
    EXPECT_FALSE(plan) << from;
    return plan ? std::string() : plan.error().text();
  };
  EXPECT_THAT(broken("offset 256", "offset x"), HasSubstr("expected a number"));
  EXPECT_THAT(broken("residency workgroup", "residency lds"), HasSubstr("expected a residency"));
  EXPECT_THAT(broken("lane 16", "thread 16"), HasSubstr("expected a level"));
  EXPECT_THAT(broken(" 1 compute", " 2 compute"), HasSubstr("expected action 1"));
  EXPECT_THAT(broken("f16[", "f17["), HasSubstr("not an element type"));
  EXPECT_THAT(broken("->", "-"), HasSubstr("p:"));
  EXPECT_FALSE(parse_placement("nothing here"));
  EXPECT_FALSE(parse_placement(text.substr(0, text.size() - 3)));
}

// ---- many schedules ----------------------------------------------------------------------------------------------

// What the search proposes is placed, accepted, not without any of its edges, and placed where the thread program has
// it.
TEST(PlacementSearch, EverySchedulePasses) {
  int staged = 0, plans = 0;
  for (const char* name : {"cascade", "rows", "gemm"}) {
    const StreamingRegion region = aicf::testing::region(name);
    ScheduleSpace space;
    space.subgroup_size = 8;
    space.subgroups = {1, 2, 4};
    space.splits = {1, 2};
    space.row_registers = space.step_registers = {1, 2, 4};
    space.most = 20;
    const auto schedules = enumerate_schedules(region, space, {}, {{"n", 200}});
    ASSERT_TRUE(schedules) << schedules.error().text();
    for (const Schedule& s : *schedules) {
      const ScheduledRegion scheduled{region, s};
      const Result<LoweredRegion> lowered = lower(scheduled);
      if (!lowered) continue;
      const Result<PlacementPlan> plan = plan_placement(scheduled, *lowered);
      if (!plan) {
        EXPECT_FALSE(expand(lowered->kernels[0])) << plan.error().text();
        continue;
      }
      const Result<void> ok = check_placement(*plan, 64 * 1024);
      EXPECT_TRUE(ok) << summary(s) << ": " << ok.error().text() << "\n" << to_string(*plan);
      for (std::size_t i = 0; i < plan->sync.size(); ++i) {
        PlacementPlan without = *plan;
        without.sync.erase(without.sync.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_FALSE(check_placement(without, 64 * 1024)) << i << " of\n" << to_string(*plan);
      }
      if (plan->workgroup_bytes > 0) {
        expect_offsets_of(*plan, *lowered);
        ++staged;
      }
      ++plans;
    }
  }
  EXPECT_GT(plans, 30);
  EXPECT_GT(staged, 5);
}

}  // namespace
}  // namespace aicf
