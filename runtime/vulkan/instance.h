#pragma once

// The Vulkan instance and what it says about its physical devices.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/vulkan/api.h"

namespace aicf::vulkan {

/// One VkInstance, shared by everything opened from it.
class Instance {
 public:
  /// The live instance of this kind, or a new one (validation layers cannot be added later). Errors: run_failure for
  /// validation without the layer installed; unsupported when there is no loader or it refuses.
  static Result<std::shared_ptr<Instance>> acquire(bool validation);
  /// True when the Khronos validation layer is installed.
  static bool validation_available();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const InstanceApi& api() const { return api_; }
  /// The Vulkan version asked for: no device is used beyond it.
  std::uint32_t version() const { return version_; }
  bool validation() const { return validation_; }
  Result<std::vector<VkPhysicalDevice>> physical_devices() const;

  /// Success, or run_failure with the validation messages since the last call.
  Result<void> check_validation(const std::string& place);

 private:
  Instance() = default;
  Result<void> create(bool validation);
  static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT types,
                                                   const VkDebugUtilsMessengerCallbackDataEXT* data, void* user);
  InstanceApi api_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::uint32_t version_ = 0;
  bool validation_ = false;
  std::mutex mutex_;  ///< Guards messages_: layers call back from any thread.
  std::vector<std::string> messages_;
};

}  // namespace aicf::vulkan
