#pragma once

// Vulkan entry points, found at run time in libvulkan.so.1, or in the library that AICF_VULKAN_LIBRARY names: AICF links
// no Vulkan library, so a machine without one only lists no device.
// Tables by level; a function that a driver does not export stays null only where it is listed as optional.

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include <string>
#include <string_view>
#include <utility>

#include "mir/support/result.h"

namespace aicf::vulkan {

// clang-format off
#define AICF_VK_GLOBAL_FUNCTIONS(X) \
  X(vkEnumerateInstanceVersion) X(vkEnumerateInstanceExtensionProperties) X(vkEnumerateInstanceLayerProperties) \
  X(vkCreateInstance)

#define AICF_VK_INSTANCE_FUNCTIONS(X) \
  X(vkDestroyInstance) X(vkEnumeratePhysicalDevices) X(vkGetPhysicalDeviceProperties2) \
  X(vkGetPhysicalDeviceFeatures2) X(vkGetPhysicalDeviceMemoryProperties) \
  X(vkGetPhysicalDeviceQueueFamilyProperties) X(vkEnumerateDeviceExtensionProperties) X(vkCreateDevice) \
  X(vkGetDeviceProcAddr)

#define AICF_VK_DEVICE_FUNCTIONS(X) \
  X(vkDestroyDevice) X(vkGetDeviceQueue) X(vkDeviceWaitIdle) X(vkCreateBuffer) X(vkDestroyBuffer) \
  X(vkGetBufferMemoryRequirements) X(vkAllocateMemory) X(vkFreeMemory) X(vkBindBufferMemory) X(vkMapMemory) \
  X(vkCreateShaderModule) X(vkDestroyShaderModule) X(vkCreateDescriptorSetLayout) X(vkDestroyDescriptorSetLayout) \
  X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) X(vkCreatePipelineCache) X(vkDestroyPipelineCache) \
  X(vkCreateComputePipelines) X(vkDestroyPipeline) X(vkCreateDescriptorPool) X(vkDestroyDescriptorPool) \
  X(vkResetDescriptorPool) X(vkAllocateDescriptorSets) X(vkUpdateDescriptorSets) X(vkCreateCommandPool) \
  X(vkDestroyCommandPool) X(vkResetCommandPool) X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) \
  X(vkEndCommandBuffer) X(vkCmdBindPipeline) X(vkCmdBindDescriptorSets) X(vkCmdPushConstants) X(vkCmdDispatch) \
  X(vkCmdDispatchBase) X(vkCmdPipelineBarrier) X(vkCmdCopyBuffer) X(vkCmdFillBuffer) X(vkCmdResetQueryPool) \
  X(vkCmdWriteTimestamp) X(vkCreateQueryPool) X(vkDestroyQueryPool) X(vkGetQueryPoolResults) X(vkCreateFence) \
  X(vkDestroyFence) X(vkResetFences) X(vkWaitForFences) X(vkQueueSubmit)
// clang-format on

#define AICF_VK_MEMBER(function) PFN_##function function = nullptr;

/// The loader library and its global functions. Loaded once per process and never unloaded (drivers keep threads in
/// it).
struct GlobalApi {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  AICF_VK_GLOBAL_FUNCTIONS(AICF_VK_MEMBER)
};
struct InstanceApi {
  AICF_VK_INSTANCE_FUNCTIONS(AICF_VK_MEMBER)
  PFN_vkCreateDebugUtilsMessengerEXT vkCreateDebugUtilsMessengerEXT = nullptr;    ///< null without VK_EXT_debug_utils
  PFN_vkDestroyDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT = nullptr;  ///< same
};
struct DeviceApi {
  AICF_VK_DEVICE_FUNCTIONS(AICF_VK_MEMBER)
};

/// Errors (unsupported): no Vulkan loader, or one of Vulkan 1.0.
Result<const GlobalApi*> global_api();
Result<InstanceApi> instance_api(const GlobalApi& global, VkInstance instance);
Result<DeviceApi> device_api(const InstanceApi& instance, VkDevice device);

/// "VK_ERROR_DEVICE_LOST", or the number of a code this header does not know.
std::string result_name(VkResult result);

/// Success, or run_failure "<call> failed: <code>"; `place` as in Diagnostic.
Result<void> check(VkResult result, std::string_view call, std::string place = {});

/// Owns one child handle of a VkDevice, which must outlive it.
template <class Handle>
class Owned {
 public:
  using Destroy = void(VKAPI_PTR*)(VkDevice, Handle, const VkAllocationCallbacks*);
  Owned() = default;
  Owned(VkDevice device, Handle handle, Destroy destroy) : device_(device), handle_(handle), destroy_(destroy) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned(std::move(other)).swap(*this);
    return *this;
  }
  ~Owned() {
    if (handle_ != VK_NULL_HANDLE) destroy_(device_, handle_, nullptr);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != VK_NULL_HANDLE; }

 private:
  void swap(Owned& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
  }
  VkDevice device_ = VK_NULL_HANDLE;
  Handle handle_ = VK_NULL_HANDLE;
  Destroy destroy_ = nullptr;
};

}  // namespace aicf::vulkan
