#pragma once

// One command buffer, recorded, submitted and waited for at a time.

#include <functional>
#include <memory>
#include <span>

#include "runtime/vulkan/buffer.h"

namespace aicf::vulkan {

/// Records and submits. Not thread-safe.
class Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Context> context);

  /// Starts a command buffer whose commands see all writes of the host and of earlier submits.
  Result<VkCommandBuffer> begin(const std::string& place);
  /// Makes all writes visible to the host, submits and waits. Errors: run_failure with `place` when the device is lost
  /// or drops work (a mark written behind the last command must arrive: some drivers report success for cancelled
  /// work).
  Result<void> finish(const std::string& place);

  /// Copies between host and device memory, in parts where staging is needed. Ranges must lie inside the buffer.
  Result<void> upload(Buffer& to, std::size_t offset, std::span<const std::byte> bytes);
  Result<void> download(const Buffer& from, std::size_t offset, std::span<std::byte> bytes);

 private:
  explicit Queue(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Result<Buffer*> staging();
  Result<void> copy(VkBuffer from, std::size_t from_offset, VkBuffer to, std::size_t to_offset, std::size_t bytes);

  std::shared_ptr<Context> context_;
  Owned<VkCommandPool> pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;  ///< Freed with its pool.
  Owned<VkFence> fence_;
  std::unique_ptr<Buffer> mark_;  ///< 4 bytes: the serial of the last submit that ran to its end.
  std::uint32_t serial_ = 0;
  std::unique_ptr<Buffer> staging_;  ///< Made at first need.
};

/// Everything before → everything after, on the device.
void record_memory_barrier(const DeviceApi& api, VkCommandBuffer commands, VkPipelineStageFlags from_stages,
                           VkAccessFlags from_access, VkPipelineStageFlags to_stages, VkAccessFlags to_access);

}  // namespace aicf::vulkan
