#include <gtest/gtest.h>

#include <random>

#include "runtime/executor/executor.h"

namespace aicf {
namespace {

/// A program of `launches` empty launches and these intermediates: elements of f32, first and last launch.
Program program_of(int launches, const std::vector<std::array<int, 3>>& blocks) {
  Program p;
  p.launches.resize(static_cast<std::size_t>(launches));
  for (const auto& [elements, first, last] : blocks) {
    BufferPlan b;
    b.name = "t" + std::to_string(p.buffers.size());
    b.shape = {Expr(elements)};
    b.first_use = first;
    b.last_use = last;
    p.buffers.push_back(b);
  }
  return p;
}

void expect_sound(const Program& p, const MemoryPlan& plan) {
  std::uint64_t live_peak = 0;
  for (int t = 0; t < static_cast<int>(p.launches.size()); ++t) {
    std::uint64_t live = 0;
    for (std::size_t i = 0; i < p.buffers.size(); ++i) {
      const BufferPlan& a = p.buffers[i];
      const std::uint64_t size = static_cast<std::uint64_t>(*a.shape[0].as_int()) * 4;
      if (t < a.first_use || t > a.last_use) continue;
      live += size;
      EXPECT_LE(plan.offsets[i] + size, plan.arena);
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      for (std::size_t j = 0; j < i; ++j) {
        const BufferPlan& b = p.buffers[j];
        if (t < b.first_use || t > b.last_use) continue;
        const std::uint64_t other = static_cast<std::uint64_t>(*b.shape[0].as_int()) * 4;
        EXPECT_TRUE(plan.offsets[i] + size <= plan.offsets[j] || plan.offsets[j] + other <= plan.offsets[i])
            << a.name << " and " << b.name << " overlap at launch " << t;
      }
    }
    live_peak = std::max(live_peak, live);
  }
  EXPECT_EQ(plan.live_peak, live_peak);
}

TEST(MemoryPlan, LargestFirstAloneWouldWaste) {
  // By hand, in units of 64 bytes: 5 at launch 4, 3 each at 2 to 5, at 1, and at 1 to 2; at launch 4 live 8. Largest first
  // puts the 5 at 0, the long 3 on top of it at 5, and what meets that at 8: 11.
  const Program p = program_of(6, {{48, 1, 1}, {80, 4, 4}, {48, 2, 5}, {48, 1, 2}});
  const auto plan = plan_memory(p, {}, 64);
  ASSERT_TRUE(plan.has_value());
  expect_sound(p, *plan);
  EXPECT_EQ(plan->arena, 8u * 64);
}

TEST(MemoryPlan, RandomLifetimesFitNearlyWhatLives) {
  std::mt19937 bits(3);
  const auto below = [&](int n) { return static_cast<int>(bits() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 5 + below(60);
    std::vector<std::array<int, 3>> blocks;
    for (int i = 0; i < n; ++i) {
      const int last = i + (below(10) < 7 ? 1 : 1 + below(10));
      blocks.push_back({16 * (1 << (2 * below(4))) * (1 + below(3)), i, std::min(last, n)});
    }
    const Program p = program_of(n + 1, blocks);
    const auto plan = plan_memory(p, {}, 64);
    ASSERT_TRUE(plan.has_value());
    expect_sound(p, *plan);
    EXPECT_LE(static_cast<double>(plan->arena), 1.15 * static_cast<double>(plan->live_peak)) << "trial " << trial;
  }
}

TEST(MemoryPlan, ALimitNamesWhatNeedsHowMuch) {
  Program p = program_of(2, {{1024, 0, 1}, {512, 1, 1}});
  p.buffers[1].scratch = true;
  const auto fits = plan_memory(p, {}, 64, 6144);
  ASSERT_TRUE(fits.has_value());
  EXPECT_EQ(fits->workspace, 2048u);
  EXPECT_EQ(fits->total(), 6144u);
  const auto refused = plan_memory(p, {}, 64, 6143);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(
      refused.error().message,
      "the run needs 6144 bytes on the device and may take 6143 bytes: weights 0 bytes, inputs and outputs 0 bytes, "
      "arena 6144 bytes; the largest tensor is 't0' with 4096 bytes");
}

}  // namespace
}  // namespace aicf
