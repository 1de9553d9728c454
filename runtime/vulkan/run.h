#pragma once

// Turns a list of dispatches into submits of bounded time.
//
// Systems with a watchdog reset a device whose submit takes seconds. Work per submit is therefore bounded by the
// measured time per workgroup of each kernel: a kernel never measured starts with a small part of its grid, and a grid
// that does not fit the budget is cut into ranges of its outermost dimension (vkCmdDispatchBase), which kernels do not
// notice.

#include <memory>
#include <span>
#include <vector>

#include "runtime/vulkan/grid.h"
#include "runtime/vulkan/kernel.h"
#include "runtime/vulkan/queue.h"

namespace aicf::vulkan {

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(std::shared_ptr<Context> context, Queue& queue);

  /// Device::run. `timings` may be null; one entry per dispatch.
  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings);

 private:
  /// A range of a dispatch's grid, recorded in the current submit.
  struct Piece {
    std::size_t dispatch = 0;
    std::uint64_t workgroups = 0;
  };
  /// What is still to do.
  struct Cursor {
    std::size_t dispatch = 0;
    std::uint32_t outer = 0;  ///< Steps of the grid's outermost dimension already submitted.
  };

  Runner(std::shared_ptr<Context> context, Queue& queue);
  Result<void> prepare();
  /// Records from the cursor as much as one submit takes; at least one piece unless nothing is left.
  Result<void> fill_submit(std::span<const Dispatch> dispatches, Cursor& cursor, std::vector<Piece>& pieces,
                           bool time_each, const std::string** last_kernel);
  /// Errors: run_failure naming the kernel, the argument and the sizes.
  Result<VkDescriptorSet> bind(const Kernel& kernel, const Dispatch& dispatch);
  /// Nanoseconds of each piece; empty when the device has no timestamps.
  Result<std::vector<double>> read_timestamps(std::size_t pieces);
  /// How many of `steps` outermost steps of `step_workgroups` each fit into `budget` nanoseconds.
  std::uint32_t fitting_steps(const Kernel& kernel, std::uint32_t steps, std::uint64_t step_workgroups,
                              double budget) const;

  std::shared_ptr<Context> context_;
  Queue& queue_;
  Owned<VkDescriptorPool> descriptors_;
  Owned<VkQueryPool> queries_;       ///< Only with timestamps.
  std::unique_ptr<Buffer> nothing_;  ///< Bound where an argument has no bytes.
  std::array<std::uint32_t, 3> grid_limits_{};
  double budget_nanoseconds_ = 0;  ///< 0 = no bound.
};

}  // namespace aicf::vulkan
