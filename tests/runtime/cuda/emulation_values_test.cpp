#include <cmath>
#include <limits>

#include "tests/runtime/cuda/emulation_fixture.h"
#include "tests/runtime/cuda/kernels.h"

// Values and counts of emulated kernels against plain loops in double.

namespace aicf {
namespace {

TEST(EmulationValues, VectorAddWithTailCountsBytes) {
  const int n = 1000;
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  std::vector<TestArgument> arguments = {argument("a", DType::f32, a), argument("b", DType::f32, b),
                                         output("c", DType::f32, n)};
  const auto counters = run_emulated({"vector_add", kernels::kVectorAdd, {"n"}, {n}, 256, 0, 4}, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  const auto c = arguments[2].as<float>();
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  EXPECT_EQ(counters->bytes_read, (std::vector<std::uint64_t>{4 * n, 4 * n, 0}));
  EXPECT_EQ(counters->bytes_written, (std::vector<std::uint64_t>{0, 0, 4 * n}));
  // 1000 floats are 125 sectors; 32 subgroups, of which the last touches 8 elements.
  EXPECT_EQ(counters->events.at("global_load_sectors"), 250u);
  EXPECT_EQ(counters->events.at("global_store_sectors"), 125u);
  EXPECT_EQ(counters->events.at("global_load_requests"), 64u);
  EXPECT_EQ(counters->events.at("workgroups"), 4u);
}

TEST(EmulationValues, FastPathGivesTheSameAsTheTracedOne) {
  const int n = 1024;
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  auto device = open_cuda_emulation("", {.seed = 3, .traced_workgroups = 0});
  ASSERT_TRUE(device) << device.error().text();
  std::vector<TestArgument> arguments = {argument("a", DType::f32, a), argument("b", DType::f32, b),
                                         output("c", DType::f32, n)};
  const TestLaunch launch{"vector_add", kernels::kVectorAdd, {"n"}, {n}, 256, 0, 4};
  auto kernel = (*device)->load(binary_of(launch, arguments));
  ASSERT_TRUE(kernel) << kernel.error().text();
  auto arena = (*device)->allocate(3 * 4096 + 512);
  ASSERT_TRUE(arena);
  Dispatch dispatch{.kernel = kernel->get(), .parameters = {n}, .workgroups = 4};
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE((*device)->upload(**arena, i * 4096 + 256, arguments[i].bytes));
    dispatch.buffers.push_back({arena->get(), i * 4096 + 256, 4096});
  }
  std::vector<DispatchCounters> counters;
  std::vector<DispatchTiming> timings;
  const std::vector<Dispatch> twice = {dispatch, dispatch};
  const auto ran = (*device)->run(twice, &timings, &counters);
  ASSERT_TRUE(ran) << ran.error().text();
  ASSERT_EQ(counters.size(), 2u);
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(counters[1].bytes_read, (std::vector<std::uint64_t>{4096, 4096, 0}));
  std::vector<float> c(n);
  ASSERT_TRUE((*device)->download(**arena, 2 * 4096 + 256, std::as_writable_bytes(std::span(c))));
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
}

TEST(EmulationValues, InPlaceThroughTwoArguments) {
  // b and c are the same memory: each thread reads its element before it writes it.
  const int n = 1024;
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  auto device = open_cuda_emulation("", {});
  ASSERT_TRUE(device) << device.error().text();
  const std::vector<TestArgument> arguments = {argument("a", DType::f32, a), argument("b", DType::f32, b),
                                               output("c", DType::f32, n)};
  auto kernel = (*device)->load(binary_of({"vector_add", kernels::kVectorAdd, {"n"}, {n}, 256, 0, 4}, arguments));
  ASSERT_TRUE(kernel) << kernel.error().text();
  auto first = (*device)->allocate(4 * n), second = (*device)->allocate(4 * n);
  ASSERT_TRUE((*device)->upload(**first, 0, arguments[0].bytes));
  ASSERT_TRUE((*device)->upload(**second, 0, arguments[1].bytes));
  Dispatch dispatch{.kernel = kernel->get(), .parameters = {n}, .workgroups = 4};
  for (DeviceBuffer* buffer : {first->get(), second->get(), second->get()}) {
    dispatch.buffers.push_back({buffer, 0, static_cast<std::size_t>(4 * n)});
  }
  const std::vector<Dispatch> twice = {dispatch, dispatch};
  const auto ran = (*device)->run(twice, nullptr, nullptr);
  ASSERT_TRUE(ran) << ran.error().text();
  std::vector<float> c(n);
  ASSERT_TRUE((*device)->download(**second, 0, std::as_writable_bytes(std::span(c))));
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + (a[i] + b[i])) << i;
}

TEST(EmulationValues, TiledMatmulWithAsyncCopies) {
  const int m = 64, n = 96, k = 128;
  const auto a = random_floats(m * k, 3), b = random_floats(k * n, 4);
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::vector<TestArgument> arguments = {argument("A", DType::f32, a), argument("B", DType::f32, b),
                                           output("C", DType::f32, m * n)};
    const auto counters = run_emulated(
        {"tiled_matmul", kernels::kTiledMatmul, {"n", "k"}, {n, k}, 64, 4 * 4096, m / 32 * (n / 32)}, arguments, seed);
    ASSERT_TRUE(counters) << counters.error().text();
    const auto c = arguments[2].as<float>();
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int x = 0; x < k; ++x) sum += static_cast<double>(a[i * k + x]) * b[x * n + j];
        ASSERT_NEAR(c[i * n + j], sum, 2e-5) << i << "," << j;
      }
    }
    // Each of the 3 column blocks reads all of A, each of the 2 row blocks all of B.
    EXPECT_EQ(counters->bytes_read, (std::vector<std::uint64_t>{4 * m * k * 3, 4 * k * n * 2, 0}));
    EXPECT_EQ(counters->bytes_written[2], 4u * m * n);
    EXPECT_EQ(counters->events.at("barriers"), 6u * 2 * (k / 32));
    EXPECT_EQ(counters->events.at("async_copy_bytes"), 4u * (m * k * 3 + k * n * 2));
    // 16-byte copies, fully used sectors.
    EXPECT_EQ(counters->events.at("global_load_sectors"), 4u * (m * k * 3 + k * n * 2) / 32);
    // Rows of A: the 4 row groups of a subgroup lie 4·32 words apart, in one bank: 4 passes for 1 in each of the
    // 4·32 loads of a step and subgroup.
    EXPECT_EQ(counters->events.at("shared_bank_conflicts"), 6u * 2 * 4 * 32 * 4 * 3);
  }
}

TEST(EmulationValues, ShuffleReductions) {
  const int rows = 8, columns = 77;
  auto x = random_floats(rows * columns, 5);
  x[3 * columns + 40] = std::numeric_limits<float>::quiet_NaN();
  std::vector<TestArgument> arguments = {argument("x", DType::f32, x), output("sums", DType::f32, rows),
                                         output("maxima", DType::f32, rows)};
  const auto counters = run_emulated({"row_reduce", kernels::kRowReduce, {"columns"}, {columns}, 128, 0, 2}, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  const auto sums = arguments[1].as<float>(), maxima = arguments[2].as<float>();
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    float maximum = -2;
    for (int c = 0; c < columns; ++c) {
      sum += x[r * columns + c];
      maximum = std::max(maximum, x[r * columns + c]);
    }
    if (r == 3) {
      EXPECT_TRUE(std::isnan(sums[r]) && std::isnan(maxima[r]));
    } else {
      EXPECT_NEAR(sums[r], sum, 1e-5) << r;
      EXPECT_EQ(maxima[r], maximum) << r;
    }
  }
  EXPECT_EQ(counters->events.at("shuffles"), 8u * 11);
}

void expect_product(const std::vector<double>& a, const std::vector<double>& b, const std::vector<float>& d, int k) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0, size = 0;
      for (int x = 0; x < k; ++x) {
        sum += a[i * k + x] * b[x * 8 + j];
        size += std::abs(a[i * k + x] * b[x * 8 + j]);
      }
      EXPECT_NEAR(d[i * 8 + j], sum, 1e-6 * size + 1e-7) << i << "," << j;
    }
  }
}

TEST(EmulationValues, MatrixUnitF16) {
  const int k = 48;
  std::vector<std::uint16_t> a(16 * k), b(k * 8);
  std::vector<double> a64, b64;
  const auto fill = [](std::vector<std::uint16_t>& bits, std::vector<double>& exact, unsigned seed) {
    const auto values = random_floats(bits.size(), seed);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = f32_to_f16(values[i]);
      exact.push_back(f16_to_f32(bits[i]));
    }
  };
  fill(a, a64, 6);
  fill(b, b64, 7);
  std::vector<TestArgument> arguments = {argument("A", DType::f16, a), argument("B", DType::f16, b),
                                         output("D", DType::f32, 16 * 8)};
  const auto counters = run_emulated({"fragments", kernels::kFragments, {"k"}, {k}, 32, 0, 1}, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  expect_product(a64, b64, arguments[2].as<float>(), k);
  EXPECT_EQ(counters->events.at("matrix_operations"), 3u);
}

TEST(EmulationValues, LdmatrixAndMatrixUnitBf16) {
  const int k = 64;
  std::vector<std::uint16_t> a(16 * k), b(k * 8);
  std::vector<double> a64, b64;
  const auto fill = [](std::vector<std::uint16_t>& bits, std::vector<double>& exact, unsigned seed) {
    const auto values = random_floats(bits.size(), seed);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = f32_to_bf16(values[i]);
      exact.push_back(bf16_to_f32(bits[i]));
    }
  };
  fill(a, a64, 8);
  fill(b, b64, 9);
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    std::vector<TestArgument> arguments = {argument("A", DType::bf16, a), argument("B", DType::bf16, b),
                                           output("D", DType::f32, 16 * 8)};
    const auto counters =
        run_emulated({"ldmatrix_mma", kernels::kLdmatrix, {"k"}, {k}, 32, 1024 + 256, 1}, arguments, seed, "sm_90");
    ASSERT_TRUE(counters) << counters.error().text();
    expect_product(a64, b64, arguments[2].as<float>(), k);
    // Rows of 48 bytes: the 8 rows of a tile are in different banks, no conflict for ldmatrix. The copies of A put 4
    // rows of 32 bytes in a quarter warp; those in 16-byte units 0, 1, 3, 4, 6, 7, 9, 10 collide once (1 and 9), in
    // each of 4 quarters and 4 steps.
    EXPECT_EQ(counters->events.at("shared_bank_conflicts"), 16u);
  }
}

TEST(EmulationValues, TheLargestWorkgroup) {
  constexpr char kSource[] = R"(
extern "C" __global__ void largest(const int* x, int* y, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  AICF_SHARED(int, s, 0);
  const int t = aicf_thread();
  aicf_st_shared(s, t, aicf_ld_global(x, t));
  aicf_barrier();
  for (int half = 512; half; half /= 2) {
    if (t < half) aicf_st_shared(s, t, aicf_ld_shared(s, t) + aicf_ld_shared(s, t + half));
    aicf_barrier();
  }
  aicf_st_global(y, 1024 * aicf_workgroup() + t, aicf_ld_shared(s, 0) + t);
}
)";
  std::vector<int> x(1024);
  for (int i = 0; i < 1024; ++i) x[i] = i * i;
  std::vector<TestArgument> arguments = {argument("x", DType::i32, x), output("y", DType::i32, 3 * 1024)};
  const auto counters = run_emulated({"largest", kSource, {}, {}, 1024, 4096, 3}, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  const auto y = arguments[1].as<int>();
  for (int i = 0; i < 3 * 1024; ++i) ASSERT_EQ(y[i], 1023 * 1024 * 2047 / 6 + i % 1024);
}

TEST(EmulationValues, EveryIntrinsicRunsOnEveryArchitecture) {
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    std::vector<TestArgument> arguments = {argument("A", DType::f32, random_floats(4096, 1)),
                                           argument("H", DType::f16, std::vector<std::uint16_t>(4096, 0x3c00)),
                                           argument("D", DType::f64, std::vector<double>(4096, 1.5)),
                                           output("C", DType::f32, 2048)};
    const auto counters =
        run_emulated({"every", kernels::kEveryIntrinsic, {"n"}, {4}, 128, 16384, 1}, arguments, 1, architecture);
    ASSERT_TRUE(counters) << counters.error().text();
    EXPECT_EQ(arguments[3].as<float>()[1024 + 4], -1 + 2.0f);
  }
}

TEST(EmulationValues, NumbersFollowTheirDefinitions) {
  constexpr char kSource[] = R"(
extern "C" __global__ void numbers(const float* x, float* y, int n, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  const int i = aicf_thread();
  const float v = aicf_ld_global(x, i);
  aicf_st_global(y, i, aicf_f16_to_f32(aicf_f32_to_f16(v)));
  aicf_st_global(y, 32 + i, aicf_bf16_to_f32(aicf_f32_to_bf16(v)));
  aicf_st_global(y, 64 + i, aicf_min(v, 1.0f));
  aicf_st_global(y, 96 + i, aicf_fmin(v, 1.0f));
  aicf_st_global(y, 128 + i, aicf_exp2(v));
  aicf_st_global(y, 160 + i, aicf_floordiv(i - 16, 3) * 100 + aicf_mod(i - 16, 3));
  aicf_st_global(y, 192 + i, aicf_any(i == 40) ? 1 : aicf_all(i < 32) ? 2 : 3);
  aicf_st_global(y, 224 + i, aicf_rint(v * 0.5f));
}
)";
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i)
    x[i] = static_cast<float>(std::ldexp(1.0 + i / 31.0 * 0.99, i * 2 - 40)) * (i % 2 ? -1 : 1);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  x[1] = std::numeric_limits<float>::infinity();
  x[2] = 65520.0f;
  x[3] = -65519.0f;
  x[4] = 2.9802322e-8f;  // 2^-25: a tie that rounds to 0 in f16
  x[5] = 3.0e-8f;
  x[6] = 5.0f;
  std::vector<TestArgument> arguments = {argument("x", DType::f32, x), output("y", DType::f32, 256)};
  const auto counters = run_emulated({"numbers", kSource, {"n"}, {32}, 32, 0, 1}, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  const auto y = arguments[1].as<float>();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[32]) && std::isnan(y[64]));
  EXPECT_EQ(y[96], 1.0f);
  EXPECT_TRUE(std::isinf(y[1]) && std::isinf(y[2]));
  EXPECT_EQ(y[3], -65504.0f);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_EQ(y[5], std::ldexp(1.0f, -24));
  EXPECT_EQ(y[224 + 6], 2.0f);
  for (int i = 1; i < 32; ++i) {
    EXPECT_EQ(y[i], f16_to_f32(f32_to_f16(x[i]))) << x[i];
    EXPECT_EQ(y[32 + i], bf16_to_f32(f32_to_bf16(x[i]))) << x[i];
    EXPECT_EQ(y[160 + i], std::floor((i - 16) / 3.0) * 100 + (i - 16) - 3 * std::floor((i - 16) / 3.0));
    EXPECT_EQ(y[192 + i], 2.0f);
    const double power = std::exp2(static_cast<double>(x[i]));
    if (power > 1.2e-38 && power < 3e38) {
      EXPECT_NEAR(y[128 + i] / power, 1, 1e-6) << x[i];
    }
  }
}

}  // namespace
}  // namespace aicf
