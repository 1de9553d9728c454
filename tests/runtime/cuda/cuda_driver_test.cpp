#include "runtime/cuda/driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>

#include "backends/cuda/assemble.h"
#include "tests/fault/layer.h"
#include "tests/runtime/cuda/emulation_fixture.h"
#include "tests/runtime/cuda/kernels.h"

// The driver for real GPUs: on one where there is one, and against a stand-in for libcuda.so.1 that checks what it is
// called with and adds vectors on the host.

namespace aicf {
namespace {

KernelBinary vector_add_binary() {
  KernelBinary binary;
  binary.name = "vector_add";
  binary.kind = BinaryKind::cubin;
  binary.arguments = {{"a", DType::f32}, {"b", DType::f32}, {"c", DType::f32, true}};
  binary.parameters = {"n"};
  binary.workgroup_size = 256;
  return binary;
}

/// a + b through `device`; "" when right.
std::string add_vectors(Device& device, const KernelBinary& binary, std::uint64_t* launches = nullptr) {
  const int n = 1000;
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  auto kernels = device.load_all({&binary, 1});
  if (!kernels) return kernels.error().text();
  auto arena = device.allocate(3 * 4096);
  if (!arena) return arena.error().text();
  Dispatch dispatch{.kernel = kernels->front().get(), .parameters = {n}, .workgroups = 4};
  for (std::size_t i = 0; i < 3; ++i) dispatch.buffers.push_back({arena->get(), i * 4096, 4 * n});
  for (std::size_t i = 0; i < 2; ++i) {
    if (auto up = device.upload(**arena, i * 4096, std::as_bytes(std::span(i ? b : a))); !up) return up.error().text();
  }
  std::vector<DispatchTiming> timings;
  std::vector<DispatchCounters> counters;
  const std::vector<Dispatch> all = {dispatch, dispatch};
  if (auto ran = device.run(all, &timings, &counters); !ran) return ran.error().text();
  if (timings.size() != 2 || counters.size() != 2) return "timings or counters are missing";
  if (launches) *launches += 2;
  std::vector<float> c(n);
  if (auto down = device.download(**arena, 2 * 4096, std::as_writable_bytes(std::span(c))); !down)
    return down.error().text();
  for (int i = 0; i < n; ++i) {
    if (c[i] != a[i] + b[i]) return fmt::format("c[{}] is {} and not {}", i, c[i], a[i] + b[i]);
  }
  return "";
}

TEST(CudaDriver, ListsDevicesOrSaysWhyNot) {
  std::string why;
  const auto devices = cuda_driver().devices(&why);
  EXPECT_EQ(devices.empty(), !why.empty());
  const auto missing = cuda_driver().open("no such gpu");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
}

TEST(CudaDriver, AddsVectorsOnAGpu) {
  std::string why;
  const auto devices = cuda_driver().devices(&why);
  if (devices.empty()) GTEST_SKIP() << why;
  auto device = cuda_driver().open("0");
  ASSERT_TRUE(device) << device.error().text();
  auto binary = vector_add_binary();
  const auto assembled = assemble_cuda(kernels::kVectorAdd, binary.name,
                                       fmt::format("sm_{}", devices[0].properties.at("compute_capability")));
  if (!assembled) GTEST_SKIP() << assembled.error().text();
  binary.bytes = assembled->cubin;
  EXPECT_EQ(add_vectors(**device, binary), "");
}

/// Runs in a process of its own, whose driver is tests/fault/cuda_layer.cpp; "" when everything was right.
std::string with_fake_driver(const std::function<std::string(const std::function<int(const char*)>& counter)>& body) {
  fault::Layer layer("AICF_CUDA_LIBRARY", AICF_FAULT_CUDA);
  return body([&](const char* name) { return layer.count(name); });
}

std::string check_launches(const std::function<int(const char*)>& counter) {
  auto device = cuda_driver().open("two");
  if (!device) return device.error().text();
  if ((*device)->info().id != "cuda:1" || (*device)->info().properties.at("compute_capability") != 80)
    return "wrong device";
  auto binary = vector_add_binary();
  binary.bytes = "cubin";
  std::uint64_t launches = 0;
  if (const auto wrong = add_vectors(**device, binary, &launches); !wrong.empty()) return wrong;
  if (counter("fake_launches") != static_cast<int>(launches)) return "wrong number of launches";
  if (counter("fake_dynamic_limit") != 49152) return "the limit was changed for a kernel without need";
  binary.workgroup_memory_bytes = 90 * 1024;
  if (const auto wrong = add_vectors(**device, binary); !wrong.empty()) return wrong;
  if (counter("fake_dynamic_limit") != 90 * 1024) return "the limit was not raised";
  binary.workgroup_memory_bytes = 60 * 1024;
  if (const auto wrong = add_vectors(**device, binary); !wrong.empty()) return wrong;
  if (counter("fake_dynamic_limit") != 90 * 1024) return "the limit was lowered";
  return "";
}

std::string check_errors(const std::function<int(const char*)>&) {
  auto device = cuda_driver().open("");
  if (!device) return device.error().text();
  const auto must_say = [](const auto& result, const std::string& text) -> std::string {
    if (result) return "no error where '" + text + "' was due";
    return result.error().text().find(text) != std::string::npos ? "" : result.error().text();
  };
  auto binary = vector_add_binary();
  binary.bytes = "nonsense";
  std::string wrong = must_say((*device)->load(binary), "ptxas says no");
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "CUDA_ERROR_INVALID_PTX");
  binary.bytes = "cubin";
  binary.workgroup_memory_bytes = 100 * 1024;
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "101376");
  binary.workgroup_memory_bytes = 0;
  binary.workgroup_size = 1024;
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "512");
  if (wrong.empty()) wrong = must_say((*device)->allocate(65 << 20), "68157440");
  if (wrong.empty()) wrong = must_say(cuda_driver().open("three"), "cuda:1 (Fake GPU Two)");
  if (!wrong.empty()) return wrong;
  KernelBinary fault;
  fault.name = "fault";
  fault.kind = BinaryKind::cubin;
  fault.bytes = "cubin";
  auto kernel = (*device)->load(fault);
  if (!kernel) return kernel.error().text();
  const Dispatch dispatch{.kernel = kernel->get(), .workgroups = 1};
  return must_say((*device)->run({&dispatch, 1}, nullptr, nullptr),
                  "kernel 'fault': cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(CudaDriverDeathTest, LaunchesWithTheRightArguments) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const std::string wrong = with_fake_driver(check_launches);
        std::fputs((wrong.empty() ? "all right" : wrong).c_str(), stderr);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^all right$");
}

TEST(CudaDriverDeathTest, NamesItsErrors) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const std::string wrong = with_fake_driver(check_errors);
        std::fputs((wrong.empty() ? "all right" : wrong).c_str(), stderr);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^all right$");
}

}  // namespace
}  // namespace aicf
