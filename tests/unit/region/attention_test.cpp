// Which regions are called attention, and what their operands are taken to be.

#include <gtest/gtest.h>

#include "mir/region/form.h"

namespace aicf {
namespace {

Region region_of(const std::string& text) {
  const auto graph = parse_graph(text, "test");
  EXPECT_TRUE(graph) << graph.error().message;
  auto plan = form_regions(*graph);
  EXPECT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->regions.size(), 1U);
  return plan->regions.at(0).region;
}

/// Softmax(Q Kᵀ) as `p`, over keys.
const std::string weights =
    "input Q: f32[q, 8]\ninput K: f32[kv, 8]\n"
    "s: f32[i=q, j=kv] = sum(Q[i, d] * K[j, d] over d=8)\n"
    "m: f32[i=q] = max(s[i, j] over j=kv)\n"
    "w: f32[i=q, j=kv] = exp(s[i, j] - m[i])\n"
    "l: f32[i=q] = sum(w[i, j] over j=kv)\n"
    "p: f32[i=q, j=kv] = w[i, j] / l[i]\n";

TEST(Attention, RowsOfValues) {
  const Region r = region_of(weights + "input V: f32[kv, 4]\no: f32[i=q, e=4] = sum(p[i, j] * V[j, e] over j=kv)\n" +
                             "output o as \"o\"\n");
  EXPECT_EQ(r.kind, RegionKind::attention);
  ASSERT_TRUE(r.roles);
  EXPECT_EQ(r.roles->q, "Q");
  EXPECT_EQ(r.roles->k, "K");
  EXPECT_EQ(r.roles->v, "V");
}

// Heads that are one number wide leave V no axis of its own.
TEST(Attention, OneValueForEachKey) {
  const Region r =
      region_of(weights + "input V: f32[kv]\no: f32[i=q] = sum(p[i, j] * V[j] over j=kv)\noutput o as \"o\"\n");
  EXPECT_EQ(r.kind, RegionKind::attention);
  ASSERT_TRUE(r.roles);
  EXPECT_EQ(r.roles->v, "V");
}

// A loss against soft labels: what the weights meet differs from row to row.
TEST(Attention, LabelsOfEachRowAreNoValues) {
  const Region r = region_of(
      weights + "input Y: f32[q, kv]\no: f32[i=q] = sum(log(p[i, j]) * Y[i, j] over j=kv)\noutput o as \"o\"\n");
  EXPECT_EQ(r.kind, RegionKind::contraction);
  EXPECT_FALSE(r.roles);
}

TEST(Attention, ChainOfProductsIsNone) {
  const Region r = region_of(
      "input Q: f32[q, 8]\ninput K: f32[kv, 8]\ninput V: f32[kv, 4]\n"
      "s: f32[i=q, j=kv] = sum(Q[i, d] * K[j, d] over d=8)\n"
      "o: f32[i=q, e=4] = sum(s[i, j] * 0.5 * V[j, e] over j=kv)\noutput o as \"o\"\n");
  EXPECT_EQ(r.kind, RegionKind::contraction);
  EXPECT_FALSE(r.roles);
}

}  // namespace
}  // namespace aicf
