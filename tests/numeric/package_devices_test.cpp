// One package for several devices: each takes the kernels that fit it, results agree, and what does not fit is named.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "backends/cuda/assemble.h"
#include "tests/numeric/command.h"
#include "tests/numeric/form_data.h"
#include "tests/runtime/temp_dir.h"

namespace aicf::numeric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Environment of a process that finds only SwiftShader; "" where `tools/testbed swiftshader` has not fetched it.
std::string swiftshader_environment() {
  const char* testbed = std::getenv("AICF_TESTBED");
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string cache = testbed ? testbed : (xdg ? xdg : std::string(home ? home : "/tmp") + "/.cache") + "/aicf";
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(cache, none)) {
    const auto icd = entry.path() / "swiftshader.json";
    if (entry.path().filename().string().starts_with("swiftshader-") && std::filesystem::exists(icd))
      return fmt::format("VK_DRIVER_FILES={0} VK_ICD_FILENAMES={0} ", icd.string());
  }
  return "";
}

struct Case {
  std::string model;
  Sizes sizes;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model;
}

class DevicePackage : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    source_ = std::string(AICF_TESTS_DIR) + "/models/" + GetParam().model;
    NUMERIC_TRY(model_, load_model(source_));
    NUMERIC_TRY(inputs_, make_inputs(model_, GetParam().sizes, {}));
    NUMERIC_TRY(const Sizes symbols, bind_symbols(model_, inputs_));
    NUMERIC_TRY(expected_, reference(model_, inputs_, symbols));
    ASSERT_TRUE(ok(write_npz(folder_.file("inputs.npz"), inputs_)));
  }

  Ended aicf(const std::string& arguments, const std::string& environment = "") const {
    return shell(fmt::format("cd {} && {}{} {}", folder_.path().string(), environment, AICF_COMMAND, arguments));
  }
  void pack(const std::string& targets) {
    const Ended ended = aicf(fmt::format("compile {} -o p.aicfpkg {}", source_, targets));
    ASSERT_EQ(ended.status, 0) << ended.output;
  }
  /// The outputs of the package on a device, which has to say that it took the kernels of `target`.
  Result<NamedTensors> run(const std::string& device, const std::string& target, const std::string& environment = "") {
    const Ended ended =
        aicf(fmt::format("run p.aicfpkg --device {} --inputs inputs.npz --outputs outputs.npz", device), environment);
    if (ended.status != 0) return run_failure(ended.output);
    if (!ended.output.contains("kernels of " + target + ",")) return run_failure(ended.output);
    return read_tensors(folder_.file("outputs.npz"));
  }

  std::string source_;
  Model model_;
  NamedTensors inputs_, expected_;
  TempDir folder_;
};

TEST_P(DevicePackage, EachDeviceTakesItsKernels) {
  pack(
      "--target cuda-emulation:sm_90 --target navi31 --target swiftshader --target lavapipe --target "
      "cuda-emulation:sm_80");
  NUMERIC_TRY(const NamedTensors lava, run(lavapipe, "lavapipe"));
  EXPECT_TRUE(within(lava, expected_, 2e-5, 2e-5));
  NUMERIC_TRY(const NamedTensors again, run(lavapipe, "lavapipe"));
  EXPECT_TRUE(same_bits(lava, again));
  NUMERIC_TRY(const NamedTensors emulated, run("cuda-emulation:sm_80", "sm_80"));
  EXPECT_TRUE(within(emulated, expected_, 2e-5, 2e-5));
  EXPECT_TRUE(within(emulated, lava, 2e-5, 2e-5));
  NUMERIC_TRY(const NamedTensors other, run("cuda-emulation:sm_90", "sm_90"));
  EXPECT_TRUE(within(other, expected_, 2e-5, 2e-5));
}

TEST_P(DevicePackage, SwiftShaderTakesItsKernels) {
  const std::string environment = swiftshader_environment();
  if (environment.empty()) GTEST_SKIP() << "SwiftShader is not there: tools/testbed swiftshader fetches it";
  pack("--target navi31 --target lavapipe --target swiftshader");
  NUMERIC_TRY(const NamedTensors swift, run("vulkan", "swiftshader", environment));
  EXPECT_TRUE(within(swift, expected_, 2e-5, 2e-5));
  NUMERIC_TRY(const NamedTensors lava, run(lavapipe, "lavapipe"));
  EXPECT_TRUE(within(swift, lava, 2e-5, 2e-5));
}

TEST_P(DevicePackage, WhatDoesNotFitIsNamed) {
  pack("--target navi31 --target cuda-emulation:sm_80");
  const Ended vulkan = aicf(fmt::format("run p.aicfpkg --device {} --inputs inputs.npz", lavapipe));
  EXPECT_EQ(vulkan.status, 3) << vulkan.output;
  EXPECT_THAT(vulkan.output,
              HasSubstr("the package holds navi31 (vulkan), sm_80 (cuda_emulation), none for 'llvmpipe"));
  EXPECT_THAT(vulkan.output, HasSubstr("navi31: it needs subgroups of"));
  const Ended cuda = aicf("run p.aicfpkg --device cuda:7 --inputs inputs.npz", "AICF_CUDA_LIBRARY=/none ");
  EXPECT_EQ(cuda.status, 3) << cuda.output;
  EXPECT_THAT(cuda.output, HasSubstr("the package holds navi31 (vulkan), sm_80 (cuda_emulation)"));
}

// Elsewhere and on one core, threads meet in another order.
TEST_P(DevicePackage, BytesDependOnNothingElse) {
  std::string targets = "--target lavapipe --target navi31 --target cuda-emulation:sm_80";
  if (nvrtc_version()) targets += " --target sm_80 --target sm_90";
  pack(targets);
  const TempDir other;
  const std::string name = std::filesystem::path(source_).filename().string();
  std::filesystem::copy_file(source_, other.file(name));
  const Ended ended = shell(fmt::format("cd {} && taskset -c 0 {} compile {} -o q.aicfpkg {}", other.path().string(),
                                        AICF_COMMAND, name, targets));
  ASSERT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(read_file(folder_.file("p.aicfpkg")) == read_file(other.file("q.aicfpkg")));
}

TEST_P(DevicePackage, ItIsKnownByItsContent) {
  pack("--target lavapipe");
  std::filesystem::rename(folder_.file("p.aicfpkg"), folder_.file("any_name"));
  const Ended ended = aicf(fmt::format("run any_name --device {} --inputs inputs.npz", lavapipe));
  EXPECT_EQ(ended.status, 0) << ended.output;
  write_file(folder_.file("x.aicfpkg"), "AICFPKG9" + std::string(100, '\0'));
  const Ended newer = aicf(fmt::format("run x.aicfpkg --device {}", lavapipe));
  EXPECT_EQ(newer.status, 2) << newer.output;
  EXPECT_THAT(newer.output, HasSubstr("use a newer AICF"));
}

INSTANTIATE_TEST_SUITE_P(Models, DevicePackage,
                         ::testing::Values(Case{"forms/masked_attention.aicf", {{"head", 2}, {"q", 9}, {"kv", 21}}},
                                           Case{"forms/layer_normalisation.aicf", {{"rows", 5}}}),
                         [](const auto& info) { return test_name(std::filesystem::path(info.param.model).stem()); });

}  // namespace
}  // namespace aicf::numeric
