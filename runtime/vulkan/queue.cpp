#include "runtime/vulkan/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace aicf::vulkan {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{16} << 20;
/// Below this, reading uncached memory is no slower than a copy and a wait.
constexpr std::size_t kUncachedReadBytes = std::size_t{64} << 10;

constexpr VkPipelineStageFlags kDeviceStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kDeviceWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags kDeviceAll = kDeviceWrites | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

}  // namespace

void record_memory_barrier(const DeviceApi& api, VkCommandBuffer commands, VkPipelineStageFlags from_stages,
                           VkAccessFlags from_access, VkPipelineStageFlags to_stages, VkAccessFlags to_access) {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = from_access;
  barrier.dstAccessMask = to_access;
  api.vkCmdPipelineBarrier(commands, from_stages, to_stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Context> context) {
  const DeviceApi& api = context->api();
  const VkDevice device = context->device();
  const std::string& place = context->physical().info.name;
  std::unique_ptr<Queue> made(new Queue(context));

  VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.queueFamilyIndex = context->physical().queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(
      check(api.vkCreateCommandPool(device, &pool_info, nullptr, &pool), "vkCreateCommandPool", place));
  made->pool_ = {device, pool, api.vkDestroyCommandPool};

  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  AICF_RETURN_IF_ERROR(
      check(api.vkAllocateCommandBuffers(device, &allocate, &made->commands_), "vkAllocateCommandBuffers", place));

  VkFenceCreateInfo fence_info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check(api.vkCreateFence(device, &fence_info, nullptr, &fence), "vkCreateFence", place));
  made->fence_ = {device, fence, api.vkDestroyFence};

  AICF_TRY(made->mark_, Buffer::create(context, 4, Buffer::Use::staging));
  return made;
}

Result<VkCommandBuffer> Queue::begin(const std::string& place) {
  const DeviceApi& api = context_->api();
  AICF_RETURN_IF_ERROR(check(api.vkResetCommandPool(context_->device(), pool_.get(), 0), "vkResetCommandPool", place));
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  AICF_RETURN_IF_ERROR(check(api.vkBeginCommandBuffer(commands_, &info), "vkBeginCommandBuffer", place));
  // A submit makes the host's earlier writes visible by itself; earlier submits were waited for, but a fence orders
  // only execution towards the device's own later accesses.
  record_memory_barrier(api, commands_, kDeviceStages, kDeviceWrites, kDeviceStages, kDeviceAll);
  return commands_;
}

Result<void> Queue::finish(const std::string& place) {
  const DeviceApi& api = context_->api();
  ++serial_;
  // The mark waits for the work (execution barrier) and the host for both.
  record_memory_barrier(api, commands_, kDeviceStages, kDeviceWrites, VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  api.vkCmdFillBuffer(commands_, mark_->handle(), 0, 4, serial_);
  record_memory_barrier(api, commands_, kDeviceStages, kDeviceWrites, VK_PIPELINE_STAGE_HOST_BIT,
                        VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
  AICF_RETURN_IF_ERROR(check(api.vkEndCommandBuffer(commands_), "vkEndCommandBuffer", place));

  const VkFence fence = fence_.get();
  AICF_RETURN_IF_ERROR(check(api.vkResetFences(context_->device(), 1, &fence), "vkResetFences", place));
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  AICF_RETURN_IF_ERROR(
      check(context_->note(api.vkQueueSubmit(context_->queue(), 1, &submit, fence)), "vkQueueSubmit", place));
  if (const VkResult waited = context_->note(api.vkWaitForFences(context_->device(), 1, &fence, VK_TRUE, UINT64_MAX))) {
    api.vkDeviceWaitIdle(context_->device());  // what the work uses is freed next
    return check(waited, "vkWaitForFences", place);
  }
  std::uint32_t arrived = 0;
  std::memcpy(&arrived, mark_->mapped(), 4);
  if (arrived != serial_) {
    return run_failure("the device reported success but dropped work (a watchdog may have cancelled it)", place);
  }
  return {};
}

Result<Buffer*> Queue::staging() {
  if (!staging_) {
    AICF_TRY(staging_, Buffer::create(context_, kStagingBytes, Buffer::Use::staging));
  }
  return staging_.get();
}

Result<void> Queue::copy(VkBuffer from, std::size_t from_offset, VkBuffer to, std::size_t to_offset,
                         std::size_t bytes) {
  const std::string place = fmt::format("copying {} bytes", bytes);
  AICF_TRY(VkCommandBuffer commands, begin(place));
  const VkBufferCopy region{from_offset, to_offset, bytes};
  context_->api().vkCmdCopyBuffer(commands, from, to, 1, &region);
  return finish(place);
}

Result<void> Queue::upload(Buffer& to, std::size_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (to.mapped()) {
    std::memcpy(to.mapped() + offset, bytes.data(), bytes.size());
    return {};
  }
  AICF_TRY(Buffer * stage, staging());
  for (std::size_t done = 0; done < bytes.size(); done += kStagingBytes) {
    const auto part = bytes.subspan(done, std::min(kStagingBytes, bytes.size() - done));
    std::memcpy(stage->mapped(), part.data(), part.size());
    AICF_RETURN_IF_ERROR(copy(stage->handle(), 0, to.handle(), offset + done, part.size()));
  }
  return {};
}

Result<void> Queue::download(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (from.mapped() && (from.host_cached() || bytes.size() <= kUncachedReadBytes)) {
    std::memcpy(bytes.data(), from.mapped() + offset, bytes.size());
    return {};
  }
  AICF_TRY(Buffer * stage, staging());
  for (std::size_t done = 0; done < bytes.size(); done += kStagingBytes) {
    const auto part = bytes.subspan(done, std::min(kStagingBytes, bytes.size() - done));
    AICF_RETURN_IF_ERROR(copy(from.handle(), offset + done, stage->handle(), 0, part.size()));
    std::memcpy(part.data(), stage->mapped(), part.size());
  }
  return {};
}

}  // namespace aicf::vulkan
