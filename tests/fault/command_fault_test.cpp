// The command where a driver fails: its exit status, its message, and what it leaves behind.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/numeric/command.h"
#include "tests/numeric/harness.h"
#include "tests/runtime/temp_dir.h"

namespace aicf::numeric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CommandFaults : public testing::Test {
 protected:
  /// `aicf ARGUMENTS` with a fault of the Vulkan driver ("" = none).
  Ended vulkan(const std::string& fault, const std::string& arguments) {
    return shell(
        fmt::format("AICF_VULKAN_LIBRARY={} AICF_FAULT='{}' {} {}", AICF_FAULT_VULKAN, fault, AICF_COMMAND, arguments));
  }
  std::string run() const {
    return fmt::format("run {} --device {} --inputs {} --outputs {}", case_.model, lavapipe, case_.runs[0].inputs,
                       outputs_);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  void expect_right_outputs() {
    NUMERIC_TRY(const NamedTensors outputs, read_tensors(outputs_));
    NUMERIC_TRY(const NamedTensors expected, read_tensors(case_.runs[0].expected));
    EXPECT_TRUE(within(outputs, expected, 1e-5, 1e-4));
  }

  const CorpusCase& case_ = corpus_case("near-layernorm-matmul-ts17");
  TempDir folder_;
  std::string outputs_ = folder_.file("outputs.npz");
};

TEST_F(CommandFaults, EndsWithStatus1AndNamesTheCall) {
  for (const char* fault :
       {"vkCreateInstance", "vkEnumerateInstanceExtensionProperties", "vkEnumeratePhysicalDevices",
        "vkEnumerateDeviceExtensionProperties", "vkCreateDevice=-4", "vkAllocateMemory=-2", "vkAllocateMemory#3=-1",
        "vkMapMemory=-5", "vkCreateFence", "vkCreateComputePipelines=-4", "vkQueueSubmit=-4", "vkWaitForFences=2",
        "vkWaitForFences=-4", "vkGetQueryPoolResults=-4"}) {
    SCOPED_TRACE(fault);
    const Ended ended = vulkan(fault, run());
    EXPECT_EQ(ended.status, 1) << ended.output;
    const std::string name = std::string(fault).substr(0, std::string(fault).find_first_of("#="));
    EXPECT_THAT(ended.output, HasSubstr(name)) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(fmt::format("failed {}, alive: \n", name))) << ended.output;
    EXPECT_EQ(files(), 0U) << "something was written";
  }
}

TEST_F(CommandFaults, ARefusedPipelineGivesWayToTheNextSchedule) {
  const Ended ended = vulkan("vkCreateComputePipelines=-1000012000", run());
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("vkCreateComputePipelines failed: VK_ERROR_INVALID_SHADER_NV"));
  EXPECT_THAT(ended.output, HasSubstr("taking the next best schedule"));
  EXPECT_THAT(ended.output, HasSubstr("alive: \n"));
  expect_right_outputs();
}

TEST_F(CommandFaults, NoScheduleIsLeft) {
  const Ended ended = vulkan("vkCreateComputePipelines#*=-1000012000", run());
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("no schedule is left"));
  EXPECT_EQ(files(), 0U);
}

// A disk that is full: a limit of the shell on the size of files.
TEST_F(CommandFaults, AFileThatCannotBeWrittenLeavesNothing) {
  const std::string package = folder_.file("p.aicfpkg");
  for (const std::string& arguments :
       {fmt::format("compile {} -o {} --target lavapipe", case_.model, package), run()}) {
    const Ended ended = shell(fmt::format("ulimit -f 1; {} {}", AICF_COMMAND, arguments));
    EXPECT_EQ(ended.status, 1) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("cannot be written: File too large"));
    EXPECT_EQ(files(), 0U);
  }
  const Ended device = shell(fmt::format("{} compile {} -o /dev/full --target lavapipe", AICF_COMMAND, case_.model));
  EXPECT_EQ(device.status, 1) << device.output;
  EXPECT_THAT(device.output, HasSubstr("/dev/full: cannot be written: No space left on device"));
}

// More bytes than a kernel of the device sees of one tensor.
TEST_F(CommandFaults, AWeightBeyondTheDevicesRangeIsRefused) {
  const auto limited = [&](int bytes) {
    return shell(fmt::format("AICF_VULKAN_LIBRARY={} AICF_FAULT=999999 AICF_LIMITS=maxStorageBufferRange={} {} {}",
                             AICF_FAULT_VULKAN, bytes, AICF_COMMAND, run()));
  };
  const Ended ended = limited(4096);
  EXPECT_EQ(ended.status, 3) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("sees at most 4096 bytes of one"));
  EXPECT_THAT(ended.output, HasSubstr("alive: \n"));
  EXPECT_EQ(files(), 0U);
  EXPECT_EQ(limited(1 << 20).status, 0);
  expect_right_outputs();
}

TEST_F(CommandFaults, ListingDevicesSaysWhyThereIsNone) {
  const Ended ended = vulkan("vkEnumeratePhysicalDevices=-1", "devices");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("none: listing devices: vkEnumeratePhysicalDevices failed"));
}

}  // namespace
}  // namespace aicf::numeric
