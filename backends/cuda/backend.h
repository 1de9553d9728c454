#pragma once

#include <span>

#include "backends/backend.h"
#include "mir/kernel/search.h"

namespace aicf {

/// CUDA C++ over a small set of intrinsics → NVRTC cubins, or the source itself for host emulation.
const Backend& cuda_backend();

/// Predicted cost by resource and clock: multiply-add and exp pipes, shared-memory bandwidth, issue slots, L2 and DRAM
/// bytes, stretched by occupancy and the tail of the grid.
PredictedCost cuda_cost(std::span<const StaticCounts> kernels, const DeviceModel& model);
ScheduleSpace cuda_space(const DeviceModel& model);

/// Blocks of one multiprocessor: registers per warp rounded to the granule, shared memory with its reserve, thread and
/// block limits (NVIDIA's occupancy rule).
double blocks_per_unit(double registers_per_thread, int warps_per_block, double shared_bytes, const DeviceModel& model);

}  // namespace aicf
