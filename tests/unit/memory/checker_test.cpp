// Mutations of accepted placements: each must be refused by the rule that it breaks, or be shown to change nothing.

#include "mir/memory/checker.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "tests/unit/memory/placement_cases.h"

namespace aicf {
namespace {

using aicf::testing::PlacementCase;
using ::testing::AnyOf;
using ::testing::StartsWith;
using Kind = PlannedAction::Kind;

constexpr std::int64_t limit = 48 * 1024;

std::string verdict(const PlacementPlan& plan, std::int64_t bytes = limit) {
  const Result<void> ok = check_placement(plan, bytes);
  return ok ? "accepted" : ok.error().message;
}

/// The end of workgroup memory after a change of offsets or sizes, so that only the change itself is wrong.
void settle(PlacementPlan& plan) {
  plan.workgroup_bytes = 0;
  for (const PlannedTile& t : plan.tiles)
    if (t.residency == Residency::workgroup) plan.workgroup_bytes = std::max(plan.workgroup_bytes, t.offset + t.bytes);
}

class Mutation : public ::testing::TestWithParam<PlacementCase> {
 protected:
  void SetUp() override {
    plan_ = aicf::testing::planned(GetParam());
    ASSERT_EQ(verdict(plan_), "accepted");
  }

  std::string changed(const std::function<void(PlacementPlan&)>& change) const {
    PlacementPlan copy = plan_;
    change(copy);
    return verdict(copy);
  }

  /// Indices of workgroup tiles.
  std::vector<std::size_t> staged() const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < plan_.tiles.size(); ++i)
      if (plan_.tiles[i].residency == Residency::workgroup) result.push_back(i);
    return result;
  }

  PlacementPlan plan_;
};

TEST_P(Mutation, EveryEdgeIsNeeded) {
  ASSERT_FALSE(plan_.sync.empty());
  for (std::size_t i = 0; i < plan_.sync.size(); ++i) {
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.sync.erase(p.sync.begin() + static_cast<std::ptrdiff_t>(i)); }),
                StartsWith("sync: "))
        << "edge " << plan_.sync[i].from << " -> " << plan_.sync[i].to;
  }
}

TEST_P(Mutation, EveryFactOfAnEdgeIsNeeded) {
  for (std::size_t i = 0; i < plan_.sync.size(); ++i) {
    const auto edge = [&](const std::function<void(SyncEdge&)>& change) {
      return changed([&](PlacementPlan& p) { change(p.sync[i]); });
    };
    EXPECT_THAT(edge([](SyncEdge& e) { e.by = -1; }), StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) { e.by = 0; }), StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) { e.participants += 1; }), StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) { e.distance += 1; }), StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) {
                  e.scope = e.scope == SyncScope::subgroup ? SyncScope::workgroup : SyncScope::subgroup;
                }),
                StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) { std::swap(e.from, e.to); }), StartsWith("sync: "));
    EXPECT_THAT(edge([](SyncEdge& e) { e.to = 1000; }), StartsWith("structure: "));
    EXPECT_THAT(edge([](SyncEdge& e) { e.tiles = {"nothing"}; }), StartsWith("structure: "));
  }
}

TEST_P(Mutation, EveryNamedBarrierIsNeeded) {
  for (const SyncEdge& e : plan_.sync) {
    if (e.scope != SyncScope::workgroup) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.actions[static_cast<std::size_t>(e.by)].kind = Kind::compute; }),
                StartsWith("sync: "));
  }
}

// A barrier inside a branch is not on every path.
TEST_P(Mutation, ABarrierThatMayBeSkippedDoesNotCount) {
  for (const SyncEdge& e : plan_.sync) {
    if (e.scope != SyncScope::workgroup) continue;
    PlacementPlan p = plan_;
    // Two actions more: one before the barrier, one after it.
    const auto moved = [&](int at) { return at < e.by ? at : at == e.by ? at + 1 : at + 2; };
    PlannedAction branch, end;
    branch.kind = Kind::branch;
    end.kind = Kind::end;
    p.actions.insert(p.actions.begin() + e.by + 1, end);
    p.actions.insert(p.actions.begin() + e.by, branch);
    for (SyncEdge& s : p.sync) s.from = moved(s.from), s.to = moved(s.to), s.by = moved(s.by);
    for (PlannedTile& t : p.tiles) t.live = {moved(t.live.first), moved(t.live.last)};
    EXPECT_THAT(verdict(p), StartsWith("sync: "));
  }
}

TEST_P(Mutation, EveryLifecycleIsTight) {
  for (std::size_t i = 0; i < plan_.tiles.size(); ++i) {
    EXPECT_THAT(changed([&](PlacementPlan& p) { ++p.tiles[i].live.first; }),
                AnyOf(StartsWith("lifecycle: "), StartsWith("structure: ")))
        << plan_.tiles[i].name;
    EXPECT_THAT(changed([&](PlacementPlan& p) { --p.tiles[i].live.last; }),
                AnyOf(StartsWith("lifecycle: "), StartsWith("structure: ")))
        << plan_.tiles[i].name;
  }
}

// Moved by less than a vector: misaligned. Moved by one: onto another tile, or into free memory, which changes nothing.
TEST_P(Mutation, EveryOffsetCounts) {
  for (const std::size_t i : staged()) {
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.tiles[i].offset += 4; }), StartsWith("alignment: "));
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.tiles[i].offset -= 8; }), StartsWith("alignment: "));
    for (const int by : {-16, 16}) {
      PlacementPlan p = plan_;
      PlannedTile& t = p.tiles[i];
      t.offset += by;
      settle(p);
      bool meets = t.offset < 0;
      for (const std::size_t j : staged()) {
        const PlannedTile& o = p.tiles[j];
        meets |= j != i && o.launch == t.launch && t.offset < o.offset + o.bytes && o.offset < t.offset + t.bytes;
      }
      if (meets) {
        EXPECT_THAT(verdict(p), AnyOf(StartsWith("overlap: "), StartsWith("sync: "), StartsWith("capacity: ")));
      } else {
        EXPECT_EQ(verdict(p), "accepted");
      }
    }
  }
}

TEST_P(Mutation, TwoTilesDoNotShareARange) {
  const std::vector<std::size_t> tiles = staged();
  for (const std::size_t i : tiles) {
    for (const std::size_t j : tiles) {
      if (i == j || plan_.tiles[i].launch != plan_.tiles[j].launch) continue;
      const MemoryGraph::Interval a = plan_.tiles[i].live, b = plan_.tiles[j].live;
      const bool together = a.first <= b.last && b.first <= a.last;
      EXPECT_THAT(changed([&](PlacementPlan& p) {
                    p.tiles[i].offset = p.tiles[j].offset;
                    settle(p);
                  }),
                  StartsWith(together ? "overlap: " : "sync: "))
          << plan_.tiles[i].name << " onto " << plan_.tiles[j].name;
    }
  }
}

TEST_P(Mutation, StagesAreCounted) {
  for (const std::size_t i : staged()) {
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.tiles[i].stages = 0; }), StartsWith("stages: "));
    const bool exchange = plan_.tiles[i].role == TileRole::exchange;
    EXPECT_THAT(changed([&](PlacementPlan& p) { ++p.tiles[i].stages; }), StartsWith(exchange ? "stages: " : "size: "));
    if (plan_.tiles[i].stages < 2) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) { --p.tiles[i].stages; }), StartsWith("size: "));
    // With the memory of one buffer, edges that wait for the second iteration come too late.
    EXPECT_THAT(changed([&](PlacementPlan& p) {
                  --p.tiles[i].stages;
                  p.tiles[i].bytes /= 2;
                  settle(p);
                }),
                StartsWith("sync: "));
  }
}

TEST_P(Mutation, CapacityIsALimit) {
  if (plan_.workgroup_bytes == 0) GTEST_SKIP() << "no workgroup memory";
  EXPECT_EQ(verdict(plan_, plan_.workgroup_bytes), "accepted");
  const Result<void> less = check_placement(plan_, plan_.workgroup_bytes - 1);
  ASSERT_FALSE(less);
  EXPECT_THAT(less.error().message, StartsWith("capacity: "));
  EXPECT_EQ(less.error().kind, ErrorKind::unsupported);
}

TEST_P(Mutation, SizesFollowFromExtents) {
  for (std::size_t i = 0; i < plan_.tiles.size(); ++i) {
    const PlannedTile& t = plan_.tiles[i];
    if (t.residency == Residency::off_chip) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) {
                  p.tiles[i].bytes -= 4;
                  settle(p);
                }),
                StartsWith("size: "))
        << t.name;
    for (std::size_t a = 0; a < t.axes.size(); ++a) {
      EXPECT_THAT(changed([&](PlacementPlan& p) { p.tiles[i].axes[a].second *= 2; }),
                  AnyOf(StartsWith("bounds: "), StartsWith("size: ")))
          << t.name;
    }
    for (std::size_t f = 0; f < t.spread.size(); ++f) {
      EXPECT_THAT(changed([&](PlacementPlan& p) {
                    p.tiles[i].spread.erase(p.tiles[i].spread.begin() + static_cast<std::ptrdiff_t>(f));
                  }),
                  StartsWith("bounds: "))
          << t.name;
      EXPECT_THAT(changed([&](PlacementPlan& p) { p.tiles[i].spread[f].stride *= 3; }), StartsWith("bounds: "))
          << t.name;
    }
  }
}

TEST_P(Mutation, PaddedTilesNeedTheirPredicates) {
  for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
    for (std::size_t a = 0; a < plan_.actions[i].inside.size(); ++a) {
      EXPECT_THAT(changed([&](PlacementPlan& p) {
                    auto& inside = p.actions[i].inside;
                    inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(a));
                  }),
                  StartsWith("bounds: "));
    }
  }
  for (std::size_t a = 0; a < plan_.axes.size(); ++a) {
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.axes[a].padded = !p.axes[a].padded; }), StartsWith("bounds: "));
    if (plan_.axes[a].walk != Walk::loop) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.axes[a].walk = Walk::grid; }), StartsWith("bounds: "));
  }
  for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
    if (plan_.actions[i].axis.empty()) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.actions[i].step *= 2; }), StartsWith("bounds: "));
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.actions[i].axis.clear(); }), StartsWith("bounds: "));
  }
}

TEST_P(Mutation, ValuesStayWhereTheirRoleIs) {
  for (std::size_t i = 0; i < plan_.tiles.size(); ++i) {
    EXPECT_THAT(changed([&](PlacementPlan& p) {
                  Residency& r = p.tiles[i].residency;
                  r = r == Residency::off_chip ? Residency::workgroup : Residency::off_chip;
                  settle(p);
                }),
                AnyOf(StartsWith("residency: "), StartsWith("structure: ")))
        << plan_.tiles[i].name;
  }
}

TEST_P(Mutation, LoopsClose) {
  for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
    if (plan_.actions[i].kind != Kind::end && plan_.actions[i].kind != Kind::loop) continue;
    EXPECT_THAT(changed([&](PlacementPlan& p) { p.actions[i].kind = Kind::compute; }),
                AnyOf(StartsWith("structure: "), StartsWith("bounds: ")));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Mutation, ::testing::ValuesIn(aicf::testing::placement_cases()),
                         [](const auto& info) { return info.param.name; });

// ---- forms that no golden has ------------------------------------------------------------------------------------

TEST(Checker, SharedBytesNeedEdgesBetweenTheirTiles) {
  const PlacementPlan plan = aicf::testing::planned(aicf::testing::placement_cases()[1], true);
  ASSERT_EQ(verdict(plan), "accepted");
  ASSERT_EQ(plan.sync.size(), 4U);  // each tile's write before its read, and its read before the other's write
  for (std::size_t i = 0; i < plan.sync.size(); ++i) {
    PlacementPlan p = plan;
    p.sync.erase(p.sync.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(verdict(p), StartsWith("sync: "));
  }
}

// A plan whose states keep an axis that no tile covers: only its first elements would be computed.
TEST(Checker, AnAxisThatIsNeitherHeldNorWalkedIsFound) {
  PlacementCase c = aicf::testing::placement_cases()[0];
  c.schedule.axes["e"].factors = {{Level::reg, 8}};  // of 16
  const Result<PlacementPlan> plan = plan_placement({aicf::testing::region(c.region), c.schedule});
  if (!plan) return;  // lowering refused it first
  EXPECT_THAT(verdict(*plan), StartsWith("bounds: "));
}

TEST(Checker, VectorsStayInsideRows) {
  PlacementPlan p = aicf::testing::planned(aicf::testing::placement_cases()[1]);
  for (PlannedTile& t : p.tiles) {
    if (t.name != "kt") continue;
    t.row_padding = 1;  // rows of 17 elements, read 4 at a time
    t.bytes = 4 * 17 * 4;
  }
  EXPECT_THAT(verdict(p), StartsWith("alignment: "));
}

}  // namespace
}  // namespace aicf
