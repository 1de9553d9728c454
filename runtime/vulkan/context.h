#pragma once

// The logical device and what all objects of an open device share. Buffers and kernels keep it alive, so they may
// outlive the Device that made them.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/vulkan/driver.h"
#include "runtime/vulkan/physical_device.h"

namespace aicf::vulkan {

/// The layouts of all kernels with the same numbers of arguments and push-constant bytes.
struct Layout {
  Owned<VkDescriptorSetLayout> set;
  Owned<VkPipelineLayout> pipeline;
};

class Context {
 public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                                                 const VulkanOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Instance& instance() const { return *instance_; }
  const PhysicalDevice& physical() const { return physical_; }
  const VulkanOptions& options() const { return options_; }
  const DeviceApi& api() const { return api_; }
  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }
  /// Notes that a call ended with VK_ERROR_DEVICE_LOST; returns `result`.
  VkResult note(VkResult result) {
    if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
    return result;
  }
  bool lost() const { return lost_; }
  VkPipelineCache pipeline_cache() const { return pipeline_cache_.get(); }

  /// Storage buffers at bindings 0 … arguments − 1 of set 0. Thread-safe; the layout lives as long as the context.
  Result<const Layout*> layout(std::uint32_t arguments, std::uint32_t push_constant_bytes);

 private:
  Context() = default;
  Result<void> open();
  std::shared_ptr<Instance> instance_;
  PhysicalDevice physical_;
  VulkanOptions options_;
  DeviceApi api_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  Owned<VkPipelineCache> pipeline_cache_;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;  ///< Guards layouts_.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Layout> layouts_;
};

}  // namespace aicf::vulkan
