#pragma once

// Device memory and copies to and from it.

#include <memory>
#include <span>

#include "runtime/vulkan/context.h"

namespace aicf::vulkan {

/// A VkBuffer with memory of its own. `mapped` is null where the host cannot reach it.
class Buffer final : public DeviceBuffer {
 public:
  enum class Use {
    kernel,   ///< Device-local; mapped where the device's own memory is host-visible (integrated GPUs, CPUs, full
              ///< ReBAR).
    staging,  ///< Host memory, mapped, cached where possible.
  };
  /// Errors: run_failure with the sizes when memory is short or a limit is passed.
  static Result<std::unique_ptr<Buffer>> create(std::shared_ptr<Context> context, std::size_t bytes, Use use);

  std::size_t size() const override { return size_; }
  /// Allocated bytes: size() rounded up to 16, so that the widest vector access to the last element stays inside.
  std::size_t capacity() const { return capacity_; }
  VkBuffer handle() const { return buffer_.get(); }
  std::byte* mapped() const { return mapped_; }
  /// True when reads by the host are not painfully slow (write-combined memory is not cached).
  bool host_cached() const { return host_cached_; }

 private:
  explicit Buffer(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  std::shared_ptr<Context> context_;
  Owned<VkDeviceMemory> memory_;
  Owned<VkBuffer> buffer_;
  std::size_t size_ = 0, capacity_ = 0;
  std::byte* mapped_ = nullptr;
  bool host_cached_ = false;
};

}  // namespace aicf::vulkan
