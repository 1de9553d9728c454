#include "runtime/vulkan/grid.h"

#include <gtest/gtest.h>

namespace aicf::vulkan {
namespace {

TEST(FoldGrid, StaysInOneDimensionWhereItFits) {
  const auto grid = fold_grid(65535, {65535, 65535, 65535});
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->size, (std::array<std::uint32_t, 3>{65535, 1, 1}));
  EXPECT_EQ(grid->outer(), 0);
  EXPECT_EQ(grid->outer_step(), 1U);
}

TEST(FoldGrid, PadsLittle) {
  const auto grid = fold_grid(65536, {65535, 65535, 65535});
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->size, (std::array<std::uint32_t, 3>{32768, 2, 1}));
  EXPECT_EQ(grid->outer(), 1);
  EXPECT_EQ(grid->outer_step(), 32768U);
}

TEST(FoldGrid, HoldsEveryCountWithinTheLimits) {
  const std::array<std::uint32_t, 3> limits{5, 3, 4};
  for (std::uint64_t count = 1; count <= 60; ++count) {
    const auto grid = fold_grid(count, limits);
    ASSERT_TRUE(grid) << count;
    std::uint64_t held = 1;
    for (int i = 0; i < 3; ++i) {
      EXPECT_LE(grid->size[i], limits[i]) << count;
      held *= grid->size[i];
    }
    EXPECT_GE(held, count);
    EXPECT_EQ(grid->outer_step() * grid->size[grid->outer()], held);
  }
  EXPECT_FALSE(fold_grid(61, limits));
}

TEST(FoldGrid, RefusesCountsBeyondTheParameter) {
  const auto grid = fold_grid(std::uint64_t{1} << 31, {65535, 65535, 65535});
  ASSERT_FALSE(grid);
  EXPECT_NE(grid.error().text().find("2147483648 workgroups"), std::string::npos);
}

}  // namespace
}  // namespace aicf::vulkan
