#include "tests/runtime/cuda/emulation_fixture.h"

#include <gmock/gmock.h>

#include "tests/runtime/cuda/kernels.h"

// What a GPU would forgive or answer with garbage is an error that names kernel, line, workgroup and thread. Each case
// has a twin that differs in the one thing that makes it right.

namespace aicf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A kernel x -> y of `threads` threads with the given body; t is the thread.
TestLaunch kernel(const std::string& body, std::uint32_t threads = 64, std::uint32_t shared_bytes = 4096,
                  std::uint64_t workgroups = 1) {
  return {"probe",
          "extern \"C\" __global__ void probe(const float* x, float* y, int workgroup_count) {\n"
          "  if (aicf_workgroup() >= workgroup_count) return;\n"
          "  const int t = aicf_thread();\n"
          "  AICF_SHARED(float, s, 0);\n" +
              body + "}\n",
          {},
          {},
          threads,
          shared_bytes,
          workgroups};
}

std::vector<TestArgument> x_and_y(std::size_t size = 256) {
  return {argument("x", DType::f32, random_floats(size, 1)), output("y", DType::f32, size)};
}

/// Errors on the traced and on the fast path, which must agree.
std::string error_of(const TestLaunch& launch, const std::vector<TestArgument>& arguments = x_and_y()) {
  const std::string traced = emulation_error(launch, arguments);
  auto device = open_cuda_emulation("sm_80", {.seed = 7, .traced_workgroups = 0});
  auto loaded = (*device)->load(binary_of(launch, arguments));
  if (!loaded) return loaded.error().text();
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  Dispatch dispatch{.kernel = loaded->get(), .parameters = launch.values, .workgroups = launch.workgroups};
  for (const TestArgument& a : arguments) {
    buffers.push_back(*(*device)->allocate(a.bytes.size()));
    EXPECT_TRUE((*device)->upload(*buffers.back(), 0, a.bytes));
    dispatch.buffers.push_back({buffers.back().get(), 0, a.bytes.size()});
  }
  for (int repeat = 0; repeat < 2; ++repeat) {  // An error leaves nothing behind.
    auto result = (*device)->run({&dispatch, 1}, nullptr, nullptr);
    EXPECT_EQ(result.has_value(), traced == "no error") << (result ? traced : result.error().text());
  }
  return traced;
}

TEST(EmulationErrors, MissingBarrierIsARace) {
  const std::string store = "aicf_st_shared(s, t, aicf_ld_global(x, t));\n";
  const std::string load = "aicf_st_global(y, t, aicf_ld_shared(s, t ^ 32));\n";
  EXPECT_THAT(error_of(kernel(store + load)),
              AllOf(HasSubstr("probe"), testing::AnyOf(HasSubstr("race"), HasSubstr("nothing was stored"))));
  EXPECT_EQ(error_of(kernel(store + "aicf_barrier();\n" + load)), "no error");
}

TEST(EmulationErrors, RaceOfALateReadWithAnOverwrite) {
  const std::string first =
      "aicf_st_shared(s, t, 1.0f);\naicf_barrier();\nconst float v = aicf_ld_shared(s, t ^ 32);\n";
  const std::string second = "aicf_st_shared(s, t, 2.0f);\naicf_st_global(y, t, v);\n";
  EXPECT_THAT(error_of(kernel(first + second)), AllOf(HasSubstr("race"), HasSubstr("line")));
  EXPECT_EQ(error_of(kernel(first + "aicf_barrier();\n" + second)), "no error");
}

TEST(EmulationErrors, TwoWritesRace) {
  EXPECT_THAT(error_of(kernel("aicf_st_shared(s, t / 2, 1.0f);\n")), HasSubstr("two writes"));
  EXPECT_EQ(error_of(kernel("aicf_st_shared(s, t, 1.0f);\n")), "no error");
}

TEST(EmulationErrors, SubgroupOrderNeedsWarpSync) {
  const std::string store = "aicf_st_shared(s, t, 1.0f);\n", load = "aicf_st_global(y, t, aicf_ld_shared(s, t ^ 1));\n";
  // A shuffle brings the lanes together but orders no memory.
  EXPECT_THAT(error_of(kernel(store + "const float z = aicf_shuffle(1.0f, 0);\n" + load, 32)), HasSubstr("race"));
  EXPECT_EQ(error_of(kernel(store + "aicf_warp_sync();\n" + load, 32)), "no error");
  // And it orders nothing between subgroups.
  EXPECT_THAT(error_of(kernel(store + "aicf_warp_sync();\naicf_st_global(y, t, aicf_ld_shared(s, t ^ 32));\n")),
              testing::AnyOf(HasSubstr("race"), HasSubstr("nothing was stored")));
}

TEST(EmulationErrors, HalvesOfAWordAreApart) {
  const std::string begin = "AICF_SHARED(unsigned short, h, 0);\nAICF_SHARED(unsigned, u, 0);\n";
  const std::string store = begin + "aicf_st_shared(h, t, t);\naicf_barrier();\n";
  EXPECT_EQ(error_of(kernel(store + "aicf_st_global(y, t, aicf_ld_shared(u, t / 2));\n")), "no error");
  EXPECT_THAT(error_of(kernel(begin + "aicf_st_shared(h, t / 2, t);\n")), HasSubstr("race"));
  EXPECT_THAT(error_of(kernel(store + "aicf_st_shared(h, t, 0);\naicf_st_global(y, t, aicf_ld_shared(u, t / 2));\n")),
              HasSubstr("race"));
  EXPECT_THAT(error_of(kernel(begin + "if (t < 32) aicf_st_shared(h, 2 * t, t);\naicf_barrier();\n"
                                      "aicf_st_global(y, t, aicf_ld_shared(u, t % 32));\n")),
              HasSubstr("nothing was stored"));
}

TEST(EmulationErrors, RaceInGlobalMemory) {
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t / 2, 1.0f);\n")), AllOf(HasSubstr("y["), HasSubstr("race")));
  const std::string store = "aicf_st_global(y, t, 1.0f);\n";
  const std::string load = "const float v = aicf_ld_global(y, t ^ 32);\naicf_st_global(y, 64 + t, v);\n";
  EXPECT_THAT(error_of(kernel(store + load)), HasSubstr("race"));
  EXPECT_EQ(error_of(kernel(store + "aicf_barrier();\n" + load)), "no error");
}

TEST(EmulationErrors, WorkgroupsOfALaunchAreNotOrdered) {
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, 1.0f);\n", 64, 0, 2)), HasSubstr("another workgroup"));
  EXPECT_EQ(error_of(kernel("aicf_st_global(y, 64 * aicf_workgroup() + t, 1.0f);\n", 64, 0, 2)), "no error");
  EXPECT_THAT(error_of(kernel("if (aicf_workgroup() == 0) aicf_st_global(y, t, 1.0f);\n"
                              "else aicf_st_global(y, 64 + t, aicf_ld_global(y, t));\n",
                              64, 0, 2)),
              HasSubstr("another workgroup"));
}

TEST(EmulationErrors, DivergentBarriers) {
  EXPECT_THAT(error_of(kernel("if (t < 32)\naicf_barrier();\nelse\naicf_barrier();\n")),
              HasSubstr("divergent barrier"));
  EXPECT_THAT(error_of(kernel("if (t < 40) aicf_barrier();\n")),
              AllOf(HasSubstr("barrier"), HasSubstr("left the kernel")));
  EXPECT_EQ(error_of(kernel("if (t < 100) aicf_barrier();\n")), "no error");
}

TEST(EmulationErrors, LanesMissFromSubgroupOperations) {
  EXPECT_THAT(error_of(kernel("if (t != 5) aicf_st_global(y, t, aicf_shuffle(1.0f, 0));\n")),
              AllOf(HasSubstr("shuffle"), HasSubstr("left the kernel")));
  EXPECT_THAT(error_of(kernel("if (t < 7)\naicf_st_global(y, t, aicf_shuffle(1.0f, 0));\nelse\n"
                              "aicf_st_global(y, t, aicf_shuffle(2.0f, 0));\n")),
              HasSubstr("divergent subgroup"));
  EXPECT_THAT(error_of(kernel("if (t < 7) aicf_st_global(y, t, aicf_shuffle(1.0f, 0));\naicf_barrier();\n")),
              AllOf(HasSubstr("wait for each other"), HasSubstr("a shuffle"), HasSubstr("aicf_barrier")));
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, aicf_shuffle(1.0f, 20));\n", 16)), HasSubstr("lane 20"));
}

TEST(EmulationErrors, BoundsAndPermissions) {
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, aicf_ld_global(x, 193 + t));\n")),
              AllOf(HasSubstr("x[256]"), HasSubstr("out of bounds"), HasSubstr("thread 63"), HasSubstr("line 5")));
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t - 1, 0);\n")), AllOf(HasSubstr("y[-1]"), HasSubstr("thread 0")));
  EXPECT_THAT(error_of(kernel("aicf_st_global((float*)x, t, 0);\n")), HasSubstr("declared as not written"));
  EXPECT_THAT(error_of(kernel("aicf_st_shared(s, t + 961, 0);\n")), HasSubstr("out of bounds"));
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, aicf_ld_global(s, t));\n")), HasSubstr("shared memory"));
  EXPECT_THAT(error_of(kernel("y[t] = 1.0f;\n")), HasSubstr("without an intrinsic"));
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, t / (t / 64));\n")), HasSubstr("division by zero"));
  EXPECT_THAT(error_of(kernel("float z[80000]; for (int i = t; i < 80000; ++i) z[i] = i;\n"
                              "float sum = 0; for (int i = t; i < 80000; ++i) sum += z[(i * 7919) % 80000];\n"
                              "aicf_st_global(y, t, sum);\n")),
              HasSubstr("stack"));
}

TEST(EmulationErrors, MisalignedVectors) {
  EXPECT_THAT(error_of(kernel("float a, b, c, d;\naicf_ld_global4(x, 2 + 4 * (t % 32), a, b, c, d);\n"
                              "aicf_st_global(y, t, a);\n")),
              AllOf(HasSubstr("misaligned"), HasSubstr("16 bytes")));
  EXPECT_THAT(error_of(kernel("aicf_st_shared2(s, 1 + 2 * t, 0, 0);\n")), HasSubstr("misaligned"));
  EXPECT_EQ(
      error_of(kernel("float a, b, c, d;\naicf_ld_global4(x, 4 * (t % 32), a, b, c, d);\naicf_st_global(y, t, a);\n")),
      "no error");
}

TEST(EmulationErrors, UninitialisedSharedMemory) {
  EXPECT_THAT(error_of(kernel("aicf_st_global(y, t, aicf_ld_shared(s, t));\n")), HasSubstr("nothing was stored"));
  // Also what an earlier workgroup stored is gone.
  EXPECT_THAT(error_of(kernel("if (aicf_workgroup() == 0) aicf_st_shared(s, t, 1.0f);\naicf_barrier();\n"
                              "aicf_st_global(y, 64 * aicf_workgroup() + t, aicf_ld_shared(s, t));\n",
                              64, 4096, 4)),
              HasSubstr("nothing was stored"));
}

TEST(EmulationErrors, AsyncCopiesArriveLate) {
  const std::string copy = "aicf_cp_async16(s, 4 * t, x, 4 * t);\n";
  const std::string read = "aicf_st_global(y, t, aicf_ld_shared(s, 4 * t));\n";
  const std::string commit = "aicf_cp_async_commit();\n", wait = "aicf_cp_async_wait<0>();\n";
  EXPECT_THAT(error_of(kernel(copy + commit + "aicf_barrier();\n" + read)),
              AllOf(HasSubstr("asynchronous copy"), HasSubstr("line 5")));
  EXPECT_THAT(error_of(kernel(copy + wait + read)), HasSubstr("asynchronous copy"));  // The group was not closed.
  EXPECT_THAT(error_of(kernel(copy + commit + "aicf_cp_async_wait<1>();\n" + read)), HasSubstr("asynchronous copy"));
  EXPECT_EQ(error_of(kernel(copy + commit + wait + read)), "no error");
  EXPECT_EQ(error_of(kernel(copy + commit + commit + "aicf_cp_async_wait<1>();\n" + read)), "no error");
  // Others need a barrier after the wait.
  EXPECT_THAT(error_of(kernel(copy + commit + wait + "aicf_st_global(y, t, aicf_ld_shared(s, 4 * (t ^ 32)));\n")),
              testing::AnyOf(HasSubstr("race"), HasSubstr("asynchronous copy"), HasSubstr("nothing was stored")));
  EXPECT_THAT(error_of(kernel("aicf_cp_async16(s, 4 * t, x, 4 * t + 1);\n")), HasSubstr("misaligned"));
  EXPECT_THAT(error_of(kernel("aicf_cp_async16(s, 4 * t, x, 4 * t + 200);\n")), HasSubstr("out of bounds"));
}

TEST(EmulationErrors, OverwritingATileThatIsStillRead) {
  // Without the barrier that ends a step, the next step's copies meet readers of the same stage.
  std::string source = kernels::kTiledMatmul;
  const std::string last = "    aicf_barrier();\n  }\n";
  ASSERT_NE(source.find(last), std::string::npos);
  source.replace(source.find(last), last.size(), "  }\n");
  const std::vector<TestArgument> arguments = {argument("A", DType::f32, random_floats(32 * 128, 1)),
                                               argument("B", DType::f32, random_floats(32 * 128, 2)),
                                               output("C", DType::f32, 1024)};
  EXPECT_THAT(error_of({"tiled_matmul", source, {"n", "k"}, {32, 128}, 64, 4 * 4096, 1}, arguments),
              testing::AnyOf(AllOf(HasSubstr("aicf_cp_async16"), HasSubstr("race"), HasSubstr("read it")),
                             AllOf(HasSubstr("aicf_ld_shared"), HasSubstr("asynchronous copy"))));
}

TEST(EmulationErrors, PartialAsyncCopiesFillWithZeros) {
  auto arguments = x_and_y(64);
  const auto x = arguments[0].as<float>();
  const auto launch = kernel(
      "if (t < 16) aicf_cp_async16_zfill(s, 4 * t, x, 4 * t + 56, t == 0 ? 16 : t == 1 ? 12 : 0);\n"
      "aicf_cp_async_commit();\naicf_cp_async_wait<0>();\naicf_barrier();\naicf_st_global(y, t, aicf_ld_shared(s, "
      "t));\n");
  const auto counters = run_emulated(launch, arguments);
  ASSERT_TRUE(counters) << counters.error().text();
  const auto y = arguments[1].as<float>();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], i < 7 ? x[56 + i] : 0.0f) << i;
  EXPECT_EQ(counters->bytes_read[0], 28u);
}

TEST(EmulationErrors, WorkgroupsPastTheLastMustReturn) {
  TestLaunch launch = kernel("");
  launch.source =
      "extern \"C\" __global__ void probe(const float* x, float* y, int workgroup_count) {\n"
      "  aicf_st_global(y, aicf_workgroup(), 1.0f);\n}\n";
  launch.threads = 1;
  EXPECT_THAT(error_of(launch), HasSubstr("return at once"));
}

TEST(EmulationErrors, WhatCannotBeLoaded) {
  const auto arguments = x_and_y();
  auto device = open_cuda_emulation("sm_86", {});
  ASSERT_TRUE(device);
  auto wrong = (*device)->load(binary_of(kernel("no_such_function(t);\n"), arguments));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), AllOf(HasSubstr("probe"), HasSubstr("no_such_function"), HasSubstr("probe.cu:5")));
  auto big = (*device)->load(binary_of(kernel("", 64, 100 * 1024), arguments));
  ASSERT_FALSE(big);
  EXPECT_EQ(big.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(big.error().text(), HasSubstr("99 KiB"));
  EXPECT_TRUE((*open_cuda_emulation("sm_90", {}))->load(binary_of(kernel("", 64, 100 * 1024), arguments)));
  auto extra = arguments;
  extra.push_back(output("z", DType::f32, 4));
  EXPECT_FALSE((*device)->load(binary_of(kernel(""), extra)));
  const auto unknown = open_cuda_emulation("sm_33", {});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), HasSubstr("sm_90"));
}

}  // namespace
}  // namespace aicf
