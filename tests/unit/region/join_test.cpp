// Which regions that share loads are computed together; no cost model, so laws and shapes decide alone.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mir/region/form.h"

namespace aicf {
namespace {

std::vector<PlannedRegion> regions_of(std::string_view text, const FormOptions& options = {}) {
  const auto graph = parse_graph(text, "test");
  EXPECT_TRUE(graph) << graph.error().message;
  auto plan = form_regions(*graph, options);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan->regions);
}

constexpr const char* mean_and_maximum = R"(
input x: f32[i0=rows, i1=n]
s: f32[i0=rows] = sum(x[i0, r0] over r0=n)
m: f32[i0=rows] = max(x[i0, r0] over r0=n)
output s as "s"
output m as "m"
)";

TEST(Join, ReductionsOfOneTensorShareItsLoads) {
  const auto regions = regions_of(mean_and_maximum);
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions[0].region.outputs.size(), 2U);
  ASSERT_EQ(regions[0].streaming.streams.size(), 1U);
  const Stream& stream = regions[0].streaming.streams[0];
  EXPECT_EQ(stream.states.size(), 2U);
  EXPECT_EQ(stream.tiles.size(), 1U);
}

TEST(Join, EightResultsAreTheMost) {
  std::string text = "input x: f32[i0=rows, i1=n]\n";
  for (int i = 0; i < 11; ++i) text += fmt::format("s{0}: f32[i0=rows] = sum(x[i0, r0] * {0}.5 over r0=n)\n", i);
  for (int i = 0; i < 11; ++i) text += fmt::format("output s{0} as \"s{0}\"\n", i);
  const auto graph = parse_graph(text, "test");
  ASSERT_TRUE(graph);
  const auto plan = form_regions(*graph);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->regions.size(), 2U);
  EXPECT_EQ(plan->regions[0].region.outputs.size() + plan->regions[1].region.outputs.size(), 11U);
  EXPECT_EQ(std::max(plan->regions[0].region.outputs.size(), plan->regions[1].region.outputs.size()), 8U);
  ASSERT_EQ(plan->refusals.size(), 1U);
  EXPECT_EQ(plan->refusals[0].law, "capacity");
}

// One result of seventy sums: those past the limit are written by other regions, which say so.
TEST(Growth, ReductionsOfARegionAreLimited) {
  std::string text = "input x: f32[i0=rows, i1=n]\n", all;
  for (int i = 0; i < 70; ++i) {
    text += fmt::format("s{0}: f32[i0=rows] = sum(x[i0, r0] * {0}.5 over r0=n)\n", i);
    all += fmt::format("{}s{}[i0]", i > 0 ? " + " : "", i);
  }
  const auto graph = parse_graph(text + "y: f32[i0=rows] = " + all + "\noutput y as \"y\"\n", "test");
  ASSERT_TRUE(graph);
  const auto plan = form_regions(*graph);
  ASSERT_TRUE(plan);
  EXPECT_EQ(std::ranges::count_if(plan->cuts, [](const auto& cut) { return cut.second.law == "capacity"; }), 6);
}

TEST(Join, IsAFusion) {
  EXPECT_EQ(regions_of(mean_and_maximum, {.fuse = false}).size(), 2U);
}

TEST(Join, IsRefusedWhereTheModelSaysThatItLoses) {
  FormOptions options;
  options.cost = [](const StreamingRegion& r) -> Result<double> { return r.streams[0].states.size() > 1 ? 9 : 2; };
  const auto graph = parse_graph(mean_and_maximum, "test");
  ASSERT_TRUE(graph);
  const auto plan = form_regions(*graph, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->regions.size(), 2U);
  ASSERT_EQ(plan->refusals.size(), 1U);
  EXPECT_EQ(plan->refusals[0].law, "cost");
}

TEST(Join, RowsThatNoSharedTensorHasMeetByTheirSize) {
  const auto regions = regions_of(R"(
input a: f32[i0=rows]
input b: f32[i0=rows]
input x: f32[i0=n]
s: f32[i0=rows] = sum(exp(a[i0] * x[r0]) over r0=n)
t: f32[i0=rows] = max(b[i0] - x[r0] over r0=n)
output s as "s"
output t as "t"
)");
  EXPECT_EQ(regions.size(), 1U);
}

TEST(Join, RowsOfOtherSizesDoNot) {
  const auto regions = regions_of(R"(
input a: f32[i0=rows]
input b: f32[i0=others]
input x: f32[i0=n]
s: f32[i0=rows] = sum(exp(a[i0] * x[r0]) over r0=n)
t: f32[i0=others] = max(b[i0] - x[r0] over r0=n)
output s as "s"
output t as "t"
)");
  EXPECT_EQ(regions.size(), 2U);
}

TEST(Join, RowsAndColumnsDoNot) {
  const auto regions = regions_of(R"(
input x: f32[i0=n, i1=n]
s: f32[i0=n] = sum(x[i0, r0] over r0=n)
t: f32[i0=n] = max(x[r0, i0] over r0=n)
output s as "s"
output t as "t"
)");
  EXPECT_EQ(regions.size(), 2U);
}

// Two products share one operand of two: half of what each loads.
TEST(Join, HalfOfTheLoadsIsTooLittle) {
  const auto regions = regions_of(R"(
input x: f32[i0=rows, i1=n]
input a: f32[i0=n, i1=64]
input b: f32[i0=n, i1=64]
s: f32[i0=rows, i1=64] = sum(x[i0, r0] * a[r0, i1] over r0=n)
t: f32[i0=rows, i1=64] = sum(x[i0, r0] * b[r0, i1] over r0=n)
output s as "s"
output t as "t"
)");
  EXPECT_EQ(regions.size(), 2U);
}

// The second waits for the first, through a region between them.
TEST(Join, WhatWaitsForTheOtherStaysApart) {
  const auto regions = regions_of(R"(
input x: f32[i0=rows, i1=n]
input w: f32[i0=rows, i1=rows]
s: f32[i0=rows] = sum(x[i0, r0] over r0=n)
u: f32[i0=rows] = sum(w[i0, r0] * s[r0] over r0=rows)
t: f32[i0=rows] = max(x[i0, r0] * u[i0] over r0=n)
output s as "s"
output t as "t"
)");
  for (const PlannedRegion& r : regions) {
    const auto writes = [&](const char* tensor) {
      return std::ranges::find(r.region.outputs, tensor, &RegionOutput::tensor) != r.region.outputs.end();
    };
    EXPECT_FALSE(writes("s") && writes("t"));
  }
}

}  // namespace
}  // namespace aicf
