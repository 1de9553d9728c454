#pragma once

#include <span>

#include "backends/backend.h"
#include "mir/kernel/search.h"

namespace aicf {

/// GLSL compute shaders → SPIR-V. Schedules: schedule.cpp; device models: profiles/ and the driver's properties.
const Backend& vulkan_backend();

/// Predicted cost of a region's kernels on a Vulkan device model: an instruction-time sum on CPU drivers ("instruction_model"),
/// a roofline over memory, multiply-add, exp and workgroup memory with occupancy elsewhere.
PredictedCost vulkan_cost(std::span<const StaticCounts> kernels, const DeviceModel& model, bool first_run);
ScheduleSpace vulkan_space(const DeviceModel& model);

}  // namespace aicf
