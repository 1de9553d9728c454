// Each call of a driver that can fail is made to fail, one after the other: the run must end with an error that names the
// call and what it was for, leave nothing alive on the device, and not keep the next run from working.

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "runtime/vulkan/api.h"
#include "tests/fault/layer.h"
#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

using fault::Layer;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Layer& vulkan() {
  static Layer layer("AICF_VULKAN_LIBRARY", AICF_FAULT_VULKAN);
  return layer;
}
Layer& cuda() {
  static Layer layer("AICF_CUDA_LIBRARY", AICF_FAULT_CUDA);
  return layer;
}

/// A model with weights, compiled once.
struct Subject {
  Model model;
  NamedTensors inputs, expected;
  Sizes symbols;
  CompiledModel compiled;
};

Result<Subject> subject(const Target& target) {
  const CorpusCase& c = corpus_case("near-layernorm-matmul-ts17");
  Subject s;
  AICF_TRY(s.model, load_model(c.model));
  AICF_TRY(s.inputs, read_tensors(c.runs[0].inputs));
  AICF_TRY(s.expected, read_tensors(c.runs[0].expected));
  AICF_TRY(s.symbols, bind_symbols(s.model, s.inputs));
  AICF_TRY(s.compiled, compile(s.model.graph, s.model.constants, target, {}));
  return s;
}

/// Opens the device, loads, runs, and closes everything.
Result<NamedTensors> attempt(const std::string& device_id, const Subject& s) {
  AICF_TRY(const auto device, open_device(device_id));
  AICF_TRY(const auto executor, Executor::create(*device, s.compiled.program));
  AICF_TRY(const RunResult run, executor->run(s.inputs, s.symbols));
  return named_outputs(s.model, run);
}

/// `unseen`: calls that free or close, where an error changes nothing any more. Returns the names of the calls that failed.
std::set<std::string> fail_each(Layer& layer, const std::function<Result<NamedTensors>()>& run, long choices,
                                const std::set<std::string>& unseen) {
  std::set<std::string> failed;
  layer.arm(0, 0);
  EXPECT_TRUE(ok(run()));
  EXPECT_EQ(layer.alive(), "");
  for (long call = 1;; ++call) {
    for (long choice = 0; choice < choices; ++choice) {
      layer.arm(call, choice);
      const auto result = run();
      const std::string name = layer.fired();
      if (name.empty()) {
        EXPECT_TRUE(ok(result)) << "no call failed";
        return failed;
      }
      SCOPED_TRACE(testing::Message() << "call " << call << ", " << name << ", result " << choice);
      failed.insert(name);
      EXPECT_EQ(layer.alive(), "");
      if (result) {
        EXPECT_TRUE(unseen.contains(name)) << "the failure was not noticed";
        continue;
      }
      const Diagnostic& error = result.error();
      EXPECT_THAT(error.kind, AnyOf(ErrorKind::run_failure, ErrorKind::refused)) << error.text();
      // CUDA's functions are named without the suffix of their version.
      EXPECT_THAT(error.text(), HasSubstr(name.substr(0, name.rfind("_v2")))) << error.text();
      EXPECT_THAT(error.message, AnyOf(HasSubstr("VK_"), HasSubstr("CUDA_ERROR_")));
      EXPECT_NE(error.place, "") << error.text();
      if (testing::Test::HasFailure()) return failed;
    }
  }
}

class VulkanFaults : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    vulkan();
    ::setenv("AICF_VULKAN_STAGING", GetParam() ? "1" : "0", 1);
  }
  void TearDown() override { ::unsetenv("AICF_VULKAN_STAGING"); }
};

TEST_P(VulkanFaults, EachCallThatFailsIsAnError) {
  vulkan().arm(0, 0);
  NUMERIC_TRY(const Target target, find_target("lavapipe-22"));
  NUMERIC_TRY(const Subject s, subject(target));
  const auto run = [&] { return attempt(lavapipe, s); };
  const std::set<std::string> failed = fail_each(vulkan(), run, 3, {"vkDeviceWaitIdle"});
  for (const char* name : {"vkCreateInstance",
                           "vkEnumeratePhysicalDevices",
                           "vkCreateDevice",
                           "vkCreateBuffer",
                           "vkAllocateMemory",
                           "vkBindBufferMemory",
                           "vkMapMemory",
                           "vkCreateShaderModule",
                           "vkCreateDescriptorSetLayout",
                           "vkCreatePipelineLayout",
                           "vkCreatePipelineCache",
                           "vkCreateComputePipelines",
                           "vkCreateDescriptorPool",
                           "vkAllocateDescriptorSets",
                           "vkResetDescriptorPool",
                           "vkCreateCommandPool",
                           "vkResetCommandPool",
                           "vkAllocateCommandBuffers",
                           "vkBeginCommandBuffer",
                           "vkEndCommandBuffer",
                           "vkCreateQueryPool",
                           "vkGetQueryPoolResults",
                           "vkCreateFence",
                           "vkResetFences",
                           "vkWaitForFences",
                           "vkQueueSubmit"})
    EXPECT_TRUE(failed.contains(name)) << name << " was never called";
  vulkan().arm(0, 0);
  NUMERIC_TRY(const NamedTensors outputs, run());
  EXPECT_TRUE(within(outputs, s.expected, 1e-5, 1e-4));
}

INSTANTIATE_TEST_SUITE_P(Copies, VulkanFaults, testing::Bool(),
                         [](const auto& info) { return info.param ? "staged" : "mapped"; });

TEST(VulkanEntryPoints, AMissingFunctionIsNamed) {
  vulkan().arm(0, 0);
#define AICF_NAME(function) #function,
  for (const std::string name : {AICF_VK_INSTANCE_FUNCTIONS(AICF_NAME) AICF_VK_DEVICE_FUNCTIONS(AICF_NAME)}) {
    if (name == "vkDestroyInstance" || name == "vkDestroyDevice") continue;  // nothing could close what is open
    vulkan().hide(name.c_str());
    const auto device = open_device(lavapipe);
    vulkan().hide(nullptr);
    ASSERT_FALSE(device) << name;
    EXPECT_THAT(device.error().text(), HasSubstr(name));
    EXPECT_EQ(vulkan().alive(), "") << name;
  }
}

TEST(CudaFaults, EachCallThatFailsIsAnError) {
  if (cuda().calls() == 0) {  // only the first use of a process initialises the driver
    cuda().arm(1, 1);
    const auto device = open_device("cuda:0");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().text(), "opening CUDA: cuInit failed: CUDA_ERROR_UNKNOWN: text");
  }
  cuda().arm(0, 0);
  NUMERIC_TRY(const Target target, find_target("cuda-emulation:sm_80"));
  NUMERIC_TRY(Subject s, subject(target));
  for (KernelBinary& k : s.compiled.program.kernels) {
    k.kind = BinaryKind::cubin;  // the layer does not look into it
    k.workgroup_memory_bytes = 64 << 10;
  }
  const auto run = [&] { return attempt("cuda:0", s); };
  const std::set<std::string> failed =
      fail_each(cuda(), run, 4,
                {"cuMemFree_v2", "cuModuleUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2",
                 "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent"});
  for (const char* name : {"cuDriverGetVersion",
                           "cuDeviceGetCount",
                           "cuDeviceGet",
                           "cuDeviceGetName",
                           "cuDeviceGetAttribute",
                           "cuDeviceTotalMem_v2",
                           "cuDevicePrimaryCtxRetain",
                           "cuCtxSetCurrent",
                           "cuMemAlloc_v2",
                           "cuMemcpyHtoD_v2",
                           "cuMemcpyDtoH_v2",
                           "cuModuleLoadDataEx",
                           "cuModuleGetFunction",
                           "cuFuncGetAttribute",
                           "cuFuncSetAttribute",
                           "cuLaunchKernel",
                           "cuStreamCreate",
                           "cuStreamSynchronize",
                           "cuEventCreate",
                           "cuEventRecord",
                           "cuEventElapsedTime"})
    EXPECT_TRUE(failed.contains(name)) << name << " was never called";
}

}  // namespace
}  // namespace aicf::numeric
