#pragma once

// Runs hand-written CUDA kernels on an emulated device.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda_emulation/driver.h"

namespace aicf {

/// One buffer argument with its bytes, which a run updates.
struct TestArgument {
  std::string name;
  DType type;
  bool written;
  std::vector<std::byte> bytes;

  template <class T>
  std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

template <class T>
TestArgument argument(std::string name, DType type, const std::vector<T>& values, bool written = false) {
  TestArgument made{std::move(name), type, written, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

/// An output of `size` elements that starts as NaN (all bits set).
inline TestArgument output(std::string name, DType type, std::size_t size) {
  return {std::move(name), type, true, std::vector<std::byte>(size * device_size(type), std::byte{0xff})};
}

struct TestLaunch {
  std::string name, source;
  std::vector<std::string> parameters;
  std::vector<std::int32_t> values;
  std::uint32_t threads = 32, shared_bytes = 0;
  std::uint64_t workgroups = 1;
};

inline KernelBinary binary_of(const TestLaunch& launch, const std::vector<TestArgument>& arguments) {
  KernelBinary binary;
  binary.name = launch.name;
  binary.kind = BinaryKind::cuda_source;
  binary.bytes = binary.source = launch.source;
  for (const TestArgument& a : arguments) binary.arguments.push_back({a.name, a.type, a.written, true});
  binary.parameters = launch.parameters;
  binary.workgroup_size = launch.threads;
  binary.subgroup_size = 32;
  binary.workgroup_memory_bytes = launch.shared_bytes;
  return binary;
}

/// Runs once and reads the arguments back; the counters, or the error.
inline Result<DispatchCounters> run_emulated(const TestLaunch& launch, std::vector<TestArgument>& arguments,
                                             std::uint64_t seed = 1, const std::string& architecture = "sm_80") {
  AICF_TRY(auto device, open_cuda_emulation(architecture, {.seed = seed, .traced_workgroups = 1 << 30}));
  AICF_TRY(auto kernel, device->load(binary_of(launch, arguments)));
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  Dispatch dispatch{.kernel = kernel.get(), .parameters = launch.values, .workgroups = launch.workgroups};
  for (const TestArgument& a : arguments) {
    AICF_TRY(auto buffer, device->allocate(a.bytes.size()));
    AICF_RETURN_IF_ERROR(device->upload(*buffer, 0, a.bytes));
    dispatch.buffers.push_back({buffer.get(), 0, a.bytes.size()});
    buffers.push_back(std::move(buffer));
  }
  std::vector<DispatchCounters> counters;
  AICF_RETURN_IF_ERROR(device->run({&dispatch, 1}, nullptr, &counters));
  for (std::size_t i = 0; i < arguments.size(); ++i)
    AICF_RETURN_IF_ERROR(device->download(*buffers[i], 0, arguments[i].bytes));
  return counters.front();
}

/// The message of a run that must fail.
inline std::string emulation_error(const TestLaunch& launch, std::vector<TestArgument> arguments,
                                   std::uint64_t seed = 1) {
  auto result = run_emulated(launch, arguments, seed);
  if (result) return "no error";
  EXPECT_EQ(result.error().kind, ErrorKind::run_failure);
  return result.error().text();
}

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

}  // namespace aicf
