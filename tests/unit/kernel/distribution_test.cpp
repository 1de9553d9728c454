#include "mir/kernel/distribution.h"

#include <gtest/gtest.h>

#include <set>

namespace aicf {
namespace {

Factor reg(std::string axis, std::int64_t size, std::int64_t stride) {
  return {std::move(axis), Level::reg, size, stride, 1};
}
Factor lane(std::string axis, std::int64_t size, std::int64_t stride, std::int64_t position) {
  return {std::move(axis), Level::lane, size, stride, position};
}
Factor subgroup(std::string axis, std::int64_t size, std::int64_t stride, std::int64_t position) {
  return {std::move(axis), Level::subgroup, size, stride, position};
}

KernelTile tile(std::vector<TileAxis> axes, std::vector<Factor> factors) {
  KernelTile t;
  t.name = "t";
  t.axes = std::move(axes);
  t.distribution.factors = std::move(factors);
  return t;
}

// m = 32 over 2 subgroups, 4 lanes, 4 registers; n = 10 = 5 registers of 2 lanes. 8 lanes.
KernelTile mixed() {
  return tile({{"m", 32}, {"n", 10}},
              {reg("m", 4, 1), lane("m", 4, 4, 2), subgroup("m", 2, 16, 1), lane("n", 2, 1, 1), reg("n", 5, 2)});
}

TEST(Distribution, CoordinatesFollowTheDigits) {
  const Distribution& d = mixed().distribution;
  EXPECT_EQ(d.registers(), 20);
  // Register 13 = 1 + 4 * 3; lane 5 = 1 + 2 * 2.
  EXPECT_EQ(coordinate(d, "m", {13, 5, 1}), 1 + 4 * 2 + 16);
  EXPECT_EQ(coordinate(d, "n", {13, 5, 1}), 1 + 2 * 3);
  EXPECT_EQ(register_part(d, "n", 13), 6);
}

TEST(Distribution, ThreadPartIsTheLaneAndSubgroupPart) {
  const Distribution d = mixed().distribution;
  const Expr part = thread_part(thread_factors(d, "m"), 8, 2);
  for (int lane_id = 0; lane_id < 8; ++lane_id) {
    for (int subgroup_id = 0; subgroup_id < 2; ++subgroup_id) {
      EXPECT_EQ(*evaluate_int(part, {{"lane", lane_id}, {"subgroup", subgroup_id}}),
                lane_id / 2 % 4 * 4 + subgroup_id * 16);
    }
  }
}

TEST(Distribution, OwnerIsTheInverse) {
  const KernelTile t = mixed();
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> places;
  for (int m = 0; m < 32; ++m) {
    for (int n = 0; n < 10; ++n) {
      const Place p = owner(t.distribution, {{"m", m}, {"n", n}});
      EXPECT_EQ(coordinate(t.distribution, "m", p), m);
      EXPECT_EQ(coordinate(t.distribution, "n", p), n);
      places.emplace(p.reg, p.lane, p.subgroup);
    }
  }
  EXPECT_EQ(places.size(), 320u);
}

TEST(Distribution, CoversAcceptsExactCovers) {
  EXPECT_TRUE(covers(mixed(), 8, 2));
  EXPECT_TRUE(covers(tile({}, {}), 8, 1));
  EXPECT_TRUE(covers(tile({{"m", 80}}, {lane("m", 16, 1, 1), reg("m", 5, 16)}), 32, 1));
}

TEST(Distribution, CoversRejects) {
  const auto message = [](const KernelTile& t) {
    const auto result = covers(t, 8, 2);
    return result ? std::string() : result.error().message;
  };
  // Half the elements.
  EXPECT_NE(message(tile({{"m", 16}}, {lane("m", 8, 1, 1)})).find("8 of 16"), std::string::npos);
  // Element 1 twice, element 3 never.
  EXPECT_NE(message(tile({{"m", 16}}, {lane("m", 8, 1, 1), reg("m", 2, 4)})).find("stride 4"), std::string::npos);
  // More lanes than there are.
  EXPECT_NE(message(tile({{"m", 16}}, {lane("m", 16, 1, 1)})).find("exceeds"), std::string::npos);
  EXPECT_NE(message(tile({{"m", 4}}, {lane("m", 4, 1, 4)})).find("exceeds"), std::string::npos);
  // One lane bit for two axes: only the diagonal is held.
  EXPECT_NE(message(tile({{"m", 8}, {"n", 8}}, {lane("m", 8, 1, 1), lane("n", 8, 1, 1)})).find("overlaps"),
            std::string::npos);
  EXPECT_NE(message(tile({{"m", 6}}, {reg("m", 3, 1), lane("m", 2, 3, 1)})).find("not outermost"), std::string::npos);
  EXPECT_NE(message(tile({{"m", 3}}, {lane("m", 3, 1, 1)})).find("powers of two"), std::string::npos);
  EXPECT_NE(message(tile({{"m", 8}}, {lane("n", 8, 1, 1)})).find("which the tile has not"), std::string::npos);
}

TEST(Distribution, SoleHolderPicksOneOfTheReplicas) {
  // Lane bit 1 (weight 2) holds n; bits 0 and 2 and the subgroup are replicas.
  const KernelTile t = tile({{"n", 2}}, {lane("n", 2, 1, 2)});
  const Expr sole = sole_holder(t.distribution, 8, 2);
  std::multiset<std::int64_t> holders;
  for (int l = 0; l < 8; ++l) {
    for (int g = 0; g < 2; ++g) {
      Environment env;
      env.symbol = [&](const std::string& name) { return name == "lane" ? l : g; };
      if (evaluate(sole, env) != 0) holders.insert(coordinate(t.distribution, "n", {0, l, g}));
    }
  }
  EXPECT_EQ(holders, (std::multiset<std::int64_t>{0, 1}));
  EXPECT_FALSE(sole_holder(tile({{"m", 16}}, {lane("m", 8, 1, 1), subgroup("m", 2, 8, 1)}).distribution, 8, 2));
}

TEST(Distribution, ConversionsAreClassified) {
  const KernelTile rows = tile({{"m", 16}}, {lane("m", 8, 1, 1), reg("m", 2, 8)});
  const KernelTile held = tile({{"m", 16}}, {reg("m", 16, 1)});
  const KernelTile blocked = tile({{"m", 16}}, {reg("m", 2, 1), lane("m", 8, 2, 1)});
  const KernelTile swapped = tile({{"m", 16}}, {lane("m", 2, 1, 4), lane("m", 4, 2, 1), reg("m", 2, 8)});
  const KernelTile spread = tile({{"m", 16}}, {lane("m", 8, 1, 1), subgroup("m", 2, 8, 1)});
  EXPECT_EQ(classify_conversion(rows, rows), Conversion::renaming);
  EXPECT_TRUE(equivalent(rows, rows));
  EXPECT_EQ(classify_conversion(rows, held), Conversion::shuffle);     // every element from a constant lane
  EXPECT_EQ(classify_conversion(held, rows), Conversion::workgroup);   // the register depends on the lane
  EXPECT_EQ(classify_conversion(rows, swapped), Conversion::shuffle);  // lane bits move
  EXPECT_EQ(classify_conversion(rows, blocked), Conversion::workgroup);
  EXPECT_EQ(classify_conversion(spread, rows), Conversion::workgroup);  // another subgroup holds it
  // A replicated tile serves any lane; not the other way round.
  const KernelTile replicated = tile({{"m", 2}}, {reg("m", 2, 1)});
  const KernelTile one_each = tile({{"m", 2}}, {lane("m", 2, 1, 1)});
  EXPECT_EQ(classify_conversion(one_each, replicated), Conversion::shuffle);
  EXPECT_FALSE(equivalent(one_each, replicated));
  // The order of registers does not matter for what a thread holds.
  const KernelTile ab = tile({{"a", 2}, {"b", 2}}, {reg("a", 2, 1), reg("b", 2, 1)});
  const KernelTile ba = tile({{"a", 2}, {"b", 2}}, {reg("b", 2, 1), reg("a", 2, 1)});
  EXPECT_TRUE(equivalent(ab, ba));
}

}  // namespace
}  // namespace aicf
