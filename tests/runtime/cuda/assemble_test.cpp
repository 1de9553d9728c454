#include "backends/cuda/assemble.h"

#include <gmock/gmock.h>

#include <ostream>

#include "tests/runtime/cuda/kernels.h"

namespace aicf {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  const char* source;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Assemble : public testing::TestWithParam<Case> {};

TEST_P(Assemble, ForEachArchitectureWithItsFigures) {
  if (const auto version = nvrtc_version(); !version) GTEST_SKIP() << version.error().text();
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    if (std::string(architecture) == "sm_75" && std::string(GetParam().name) == "ldmatrix_mma") continue;  // bf16
    const auto binary = assemble_cuda(GetParam().source, GetParam().name, architecture);
    ASSERT_TRUE(binary) << binary.error().text();
    EXPECT_EQ(binary->cubin.substr(1, 3), "ELF") << architecture;
    EXPECT_GT(binary->registers, 4) << binary->log;
    EXPECT_LE(binary->registers, 255);
    EXPECT_EQ(binary->spill_store_bytes, 0) << binary->log;
    EXPECT_EQ(binary->static_shared_bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Assemble,
    testing::Values(Case{"vector_add", kernels::kVectorAdd}, Case{"tiled_matmul", kernels::kTiledMatmul},
                    Case{"row_reduce", kernels::kRowReduce}, Case{"fragments", kernels::kFragments},
                    Case{"ldmatrix_mma", kernels::kLdmatrix}, Case{"every", kernels::kEveryIntrinsic}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(AssembleCuda, TheSameSourceGivesTheSameBytes) {
  if (const auto version = nvrtc_version(); !version) GTEST_SKIP() << version.error().text();
  const auto once = assemble_cuda(kernels::kTiledMatmul, "tiled_matmul", "sm_80");
  const auto again = assemble_cuda(kernels::kTiledMatmul, "tiled_matmul", "sm_80");
  ASSERT_TRUE(once && again);
  EXPECT_TRUE(once->cubin == again->cubin);
  EXPECT_EQ(once->log, again->log);
  EXPECT_THAT(once->log, testing::Not(HasSubstr(" ms")));
}

TEST(AssembleCuda, OptionsReachTheCompiler) {
  if (const auto version = nvrtc_version(); !version) GTEST_SKIP() << version.error().text();
  const auto few = assemble_cuda(kernels::kTiledMatmul, "tiled_matmul", "sm_80", {.max_registers = 32});
  ASSERT_TRUE(few) << few.error().text();
  EXPECT_LE(few->registers, 32);
  const auto all = assemble_cuda(kernels::kTiledMatmul, "tiled_matmul", "sm_80");
  ASSERT_TRUE(all);
  EXPECT_GT(all->registers, 32);
}

TEST(AssembleCuda, ErrorsNameKernelAndLine) {
  if (const auto version = nvrtc_version(); !version) GTEST_SKIP() << version.error().text();
  const auto wrong = assemble_cuda("extern \"C\" __global__ void bad(float* p) {\n  nothing(p);\n}\n", "bad", "sm_80");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::run_failure);
  EXPECT_THAT(wrong.error().text(), testing::AllOf(HasSubstr("bad.cu(2)"), HasSubstr("nothing")));
  const auto old = assemble_cuda(kernels::kVectorAdd, "vector_add", "sm_20");
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(old.error().text(), HasSubstr("sm_80"));
  const auto odd = assemble_cuda(kernels::kVectorAdd, "vector_add", "gfx1100");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().kind, ErrorKind::bad_input);
}

TEST(AssembleCuda, ReadsThePtxasLog) {
  AssembledCuda result;
  parse_ptxas_log(
      "ptxas info    : 24 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas         .     232 bytes stack frame, 320 bytes spill stores, 344 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 232 bytes cumulative stack size, 1024 bytes smem, 392 "
      "bytes "
      "cmem[0]\n",
      result);
  EXPECT_EQ(result.registers, 255);
  EXPECT_EQ(result.stack_bytes, 232);
  EXPECT_EQ(result.spill_store_bytes, 320);
  EXPECT_EQ(result.spill_load_bytes, 344);
  EXPECT_EQ(result.static_shared_bytes, 1024);
  EXPECT_EQ(result.constant_bytes, 392);
}

TEST(AssembleCudaDeathTest, SaysHowToGetNvrtc) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("AICF_NVRTC", "/nonexistent", 1);
        const auto version = nvrtc_version();
        if (!version) std::fputs(version.error().text().c_str(), stderr);
        std::exit(version ? 0 : 3);
      },
      testing::ExitedWithCode(3), "nvidia-cuda-nvrtc");
}

}  // namespace
}  // namespace aicf
