#pragma once

// Vulkan compute as a driver: every physical device of the system's Vulkan loader.

#include <memory>
#include <string>

#include "runtime/driver.h"

namespace aicf {

/// How a device is opened. The defaults of a user come from vulkan_options_from_environment(); tests set members.
struct VulkanOptions {
  /// Khronos validation with synchronisation checks; its messages become errors of load() and run().
  bool validation = false;
  /// Enables robustBufferAccess: accesses out of a binding's range become harmless, and kernels may be slower.
  bool robust = false;
  /// Never maps device memory, so that every copy goes through staging, as on a GPU with memory of its own.
  bool force_staging = false;
  /// Work in one submit is kept below about this time, against watchdogs that reset the device (2 s on some systems);
  /// larger dispatches are cut. Negative: 400 ms on GPUs, no bound on CPUs. 0: no bound.
  double submit_milliseconds = -1;
  /// Upper bound for workgroups in x, y and z, below the device's own.
  std::uint32_t max_workgroups_per_dimension = 0xffffffffU;
};

/// AICF_VULKAN_VALIDATION=1 (where the layer is installed), AICF_VULKAN_ROBUST=1, AICF_VULKAN_STAGING=1,
/// AICF_VULKAN_SUBMIT_MS=N.
VulkanOptions vulkan_options_from_environment();

/// `selector` as in Driver::open. Errors: unsupported when there is no device or none is named so (lists what is
/// there); run_failure when the device does not open.
Result<std::unique_ptr<Device>> open_vulkan(const std::string& selector, const VulkanOptions& options);

/// The driver's one instance, for the registry.
Driver& vulkan_driver();

}  // namespace aicf
