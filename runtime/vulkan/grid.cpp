#include "runtime/vulkan/grid.h"

#include <fmt/format.h>

namespace aicf::vulkan {

Result<Grid> fold_grid(std::uint64_t workgroups, const std::array<std::uint32_t, 3>& limits) {
  const auto ceildiv = [](std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; };
  AICF_CHECK(workgroups > 0 && limits[0] > 0 && limits[1] > 0 && limits[2] > 0, "an empty grid has no fold");
  const std::uint64_t planes = ceildiv(workgroups, std::uint64_t{limits[0]} * limits[1]);
  // The linear number is a 32-bit integer in kernels, and the count an int32 parameter.
  if (planes > limits[2] || workgroups > INT32_MAX) {
    return run_failure(fmt::format("{} workgroups do not fit the device's grid of {}×{}×{}", workgroups, limits[0],
                                   limits[1], limits[2]));
  }
  const std::uint64_t in_plane = ceildiv(workgroups, planes);
  const std::uint64_t rows = ceildiv(in_plane, limits[0]);
  const std::uint64_t columns = ceildiv(in_plane, rows);
  return Grid{
      {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(planes)}};
}

}  // namespace aicf::vulkan
