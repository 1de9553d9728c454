#pragma once

// What tests of the Vulkan driver share: a device, kernels from GLSL, and typed copies.
// AICF_TEST_VULKAN_DEVICE names another device than lavapipe.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/assemble.h"
#include "runtime/vulkan/driver.h"

namespace aicf::testing {

/// The value of a Result, or a test failure and the default.
template <class T>
T value_of(Result<T> result, const char* what) {
  if (!result) {
    ADD_FAILURE() << what << ": " << result.error().text();
    return T{};
  }
  return std::move(*result);
}

inline std::string device_selector() {
  const char* named = std::getenv("AICF_TEST_VULKAN_DEVICE");
  return named ? named : "llvmpipe";
}

/// The options of the environment, so that one run of all tests can validate or stage.
inline std::unique_ptr<Device> open_device(const VulkanOptions& options = vulkan_options_from_environment()) {
  return value_of(open_vulkan(device_selector(), options), "no device to test on (mesa-vulkan-drivers has llvmpipe)");
}

/// What every kernel starts with: `linear` is its workgroup's number. `parameters` are the names of int32 parameters.
inline std::string glsl_kernel(std::uint32_t workgroup_size, const std::string& declarations,
                               const std::vector<std::string>& parameters, const std::string& body,
                               const std::string& extensions = "") {
  std::string text = "#version 450\n" + extensions + "layout(local_size_x = " + std::to_string(workgroup_size) +
                     ") in;\n" + declarations + "layout(push_constant) uniform Parameters { ";
  for (const auto& name : parameters) text += "int " + name + "; ";
  return text +
         "int workgroups; };\nvoid main() {\n"
         "  uint linear = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * "
         "gl_WorkGroupID.z);\n"
         "  if (linear >= uint(workgroups)) return;\n  uint lane = gl_LocalInvocationID.x;\n" +
         body + "}\n";
}

inline KernelBinary kernel_binary(const std::string& name, const std::string& glsl, std::uint32_t workgroup_size,
                                  std::size_t arguments, std::vector<std::string> parameters = {}) {
  KernelBinary binary;
  binary.name = name;
  binary.bytes = value_of(assemble_glsl(glsl, name, nullptr), "assemble");
  binary.source = glsl;
  for (std::size_t i = 0; i < arguments; ++i)
    binary.arguments.push_back({"b" + std::to_string(i), DType::f32, true, true});
  binary.parameters = std::move(parameters);
  binary.workgroup_size = workgroup_size;
  return binary;
}

template <class T>
std::unique_ptr<DeviceBuffer> make_buffer(Device& device, const std::vector<T>& values) {
  auto buffer = value_of(device.allocate(values.size() * sizeof(T)), "allocate");
  if (buffer) {
    const auto done = device.upload(*buffer, 0, std::as_bytes(std::span(values)));
    EXPECT_TRUE(done) << done.error().text();
  }
  return buffer;
}

template <class T>
std::vector<T> read_buffer(Device& device, const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  const auto done = device.download(buffer, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(done) << done.error().text();
  return values;
}

inline BufferSlice whole(const std::unique_ptr<DeviceBuffer>& buffer) {
  return {buffer.get(), 0, buffer->size()};
}

}  // namespace aicf::testing
