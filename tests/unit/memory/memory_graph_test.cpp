#include "mir/memory/memory_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace aicf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Meeting = MemoryGraph::Meeting;

MATCHER_P3(Meets, from, to, distance, "") {
  return arg.from == from && arg.to == to && arg.distance == distance;
}

/// 0 start, 1 loop { 2 load, 3 barrier, 4 stage, 5 barrier, 6 use } 7 end, 8 store
struct StagedLoop {
  MemoryGraph graph;
  int tile, state, registers;

  StagedLoop() {
    for (const char* label : {"start", "loop", "load", "barrier", "stage", "barrier", "use", "end", "store"})
      graph.add_action(label);
    for (int i = 1; i < 9; ++i) graph.add_control(i - 1, i);
    graph.add_control(7, 1, true);
    graph.add_control(1, 7);
    tile = graph.add_value("tile", MemoryGraph::Shape::tile);
    registers = graph.add_value("registers", MemoryGraph::Shape::tile);
    state = graph.add_value("state", MemoryGraph::Shape::state);
    graph.add_write(2, registers);
    graph.add_read(4, registers);
    graph.add_write(4, tile);
    graph.add_read(6, tile);
    graph.add_write(0, state);
    graph.add_read(6, state);
    graph.add_write(6, state);
    graph.add_read(8, state);
  }
};

TEST(MemoryGraph, LivenessFollowsUsesAroundLoops) {
  StagedLoop s;
  EXPECT_EQ(s.graph.live(s.registers), (MemoryGraph::Interval{2, 4}));
  // Written anew in each iteration, so that nothing of it passes the loop's end.
  EXPECT_EQ(s.graph.live(s.tile), (MemoryGraph::Interval{4, 6}));
  // Written before the loop, changed in it, read after it.
  EXPECT_EQ(s.graph.live(s.state), (MemoryGraph::Interval{0, 8}));
}

TEST(MemoryGraph, AValueReadInTheNextIterationIsHeldOverTheLoop) {
  StagedLoop s;
  s.graph.add_read(3, s.tile);  // before it is written again
  EXPECT_EQ(s.graph.live(s.tile), (MemoryGraph::Interval{0, 7}));
}

TEST(MemoryGraph, MeetingsGoBothWaysInALoop) {
  StagedLoop s;
  const std::array tile{s.tile};
  EXPECT_THAT(s.graph.meetings(tile), ElementsAre(Meets(4, 4, 1), Meets(4, 6, 0), Meets(6, 4, 1)));
  const std::array state{s.state};
  EXPECT_THAT(s.graph.meetings(state), ElementsAre(Meets(0, 6, 0), Meets(0, 8, 0), Meets(6, 6, 1), Meets(6, 8, 0)));
}

TEST(MemoryGraph, ASecondBufferIsOverwrittenOneIterationLater) {
  StagedLoop s;
  const std::array tile{s.tile};
  EXPECT_THAT(s.graph.meetings(tile, 2), ElementsAre(Meets(4, 4, 2), Meets(4, 6, 0), Meets(6, 4, 2)));
}

TEST(MemoryGraph, SeparationIsAboutEveryPath) {
  StagedLoop s;
  EXPECT_TRUE(s.graph.separates(5, 4, 6));
  EXPECT_FALSE(s.graph.separates(3, 4, 6));
  EXPECT_TRUE(s.graph.separates(3, 6, 4));   // round the loop
  EXPECT_FALSE(s.graph.separates(5, 6, 8));  // the loop may end
  EXPECT_FALSE(s.graph.separates(3, 0, 8));  // or not run at all
  EXPECT_FALSE(s.graph.separates(4, 4, 6));
}

TEST(MemoryGraph, TopologicalOrderIsTheProgram) {
  StagedLoop s;
  s.graph.add_sync(4, 6, "workgroup 32");
  s.graph.add_sync(6, 4, "workgroup 32");  // carried: no cycle
  EXPECT_THAT(s.graph.topological_order(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(MemoryGraph, DotShowsValuesAndSync) {
  StagedLoop s;
  s.graph.add_sync(4, 6, "workgroup 32");
  const std::string dot = s.graph.to_dot("staged \"loop\"");
  EXPECT_THAT(dot, HasSubstr("octagon"));
  EXPECT_THAT(dot, HasSubstr("workgroup 32"));
  EXPECT_THAT(dot, HasSubstr("\\\"loop\\\""));
}

}  // namespace
}  // namespace aicf
