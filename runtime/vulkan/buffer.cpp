#include "runtime/vulkan/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace aicf::vulkan {
namespace {

struct MemoryType {
  std::uint32_t index = 0;
  VkMemoryPropertyFlags flags = 0;
  std::uint32_t heap = 0;
};

std::uint32_t largest_device_heap(const VkPhysicalDeviceMemoryProperties& memory) {
  std::uint32_t best = 0;
  VkDeviceSize size = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    const auto& heap = memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap.size > size) {
      best = i;
      size = heap.size;
    }
  }
  return best;
}

/// The best type among `allowed` (bits), by points. A host-visible device-local type counts for kernels only in the
/// largest device heap: the small window of a GPU without resizable BAR must not be filled with tensors.
std::optional<MemoryType> choose_type(const VkPhysicalDeviceMemoryProperties& memory, std::uint32_t allowed,
                                      Buffer::Use use, bool want_mapped) {
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kAvoid = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                           VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                                           VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
  const std::uint32_t main_heap = largest_device_heap(memory);
  std::optional<MemoryType> best;
  int best_points = -1;
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const auto [flags, heap] = memory.memoryTypes[i];
    if (!(allowed & (1U << i)) || (flags & kAvoid)) continue;
    const bool local = flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const bool host = (flags & kHost) == kHost;
    const bool cached = flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    int points = 0;
    if (use == Buffer::Use::staging) {
      if (!host) continue;
      points = 2 * cached + !local;
    } else {
      if (local && host && heap != main_heap) continue;
      points = 4 * local + (want_mapped ? 2 * host + (host && cached) : 0);
    }
    if (points > best_points) {
      best_points = points;
      best = MemoryType{i, flags, heap};
    }
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<Buffer>> Buffer::create(std::shared_ptr<Context> context, std::size_t bytes, Use use) {
  const DeviceApi& api = context->api();
  const PhysicalDevice& physical = context->physical();
  const std::size_t capacity = std::max<std::size_t>(16, (bytes + 15) / 16 * 16);
  if (capacity < bytes || capacity > physical.allocation.maxMemoryAllocationSize) {
    return run_failure(fmt::format("a buffer of {} bytes is larger than the device's largest allocation of {} bytes",
                                   bytes, physical.allocation.maxMemoryAllocationSize),
                       physical.info.name);
  }
  std::unique_ptr<Buffer> made(new Buffer(context));
  made->size_ = bytes;
  made->capacity_ = capacity;

  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = capacity;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (use == Use::kernel) info.usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  const auto out_of_memory = [&](VkResult result, const char* call) {
    return run_failure(fmt::format("{} of {} bytes failed: {}", call, capacity, result_name(result)),
                       physical.info.name);
  };
  VkBuffer buffer = VK_NULL_HANDLE;
  if (const VkResult r = api.vkCreateBuffer(context->device(), &info, nullptr, &buffer); r != VK_SUCCESS) {
    return out_of_memory(r, "vkCreateBuffer");
  }
  made->buffer_ = {context->device(), buffer, api.vkDestroyBuffer};

  VkMemoryRequirements needs{};
  api.vkGetBufferMemoryRequirements(context->device(), buffer, &needs);
  const bool want_mapped = use == Use::staging || !context->options().force_staging;
  const auto type = choose_type(physical.memory, needs.memoryTypeBits, use, want_mapped);
  if (!type) return run_failure("the device has no memory type for buffers of kernels", physical.info.name);
  const VkDeviceSize heap_size = physical.memory.memoryHeaps[type->heap].size;
  if (needs.size > heap_size) {
    return run_failure(
        fmt::format("a buffer of {} bytes does not fit the device's memory of {} bytes", needs.size, heap_size),
        physical.info.name);
  }
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type->index;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  if (const VkResult r = api.vkAllocateMemory(context->device(), &allocate, nullptr, &memory); r != VK_SUCCESS) {
    return out_of_memory(r, "vkAllocateMemory");
  }
  made->memory_ = {context->device(), memory, api.vkFreeMemory};
  AICF_RETURN_IF_ERROR(
      check(api.vkBindBufferMemory(context->device(), buffer, memory, 0), "vkBindBufferMemory", physical.info.name));
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (want_mapped && (type->flags & kHost) == kHost) {
    void* mapped = nullptr;  // freeing the memory unmaps it
    AICF_RETURN_IF_ERROR(check(api.vkMapMemory(context->device(), memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory",
                               physical.info.name));
    made->mapped_ = static_cast<std::byte*>(mapped);
    made->host_cached_ = type->flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  }
  return made;
}

}  // namespace aicf::vulkan
