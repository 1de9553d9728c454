#pragma once

// Linear workgroup numbers on devices that limit each dimension of a grid.

#include <array>
#include <cstdint>

#include "mir/support/result.h"

namespace aicf::vulkan {

/// A grid of x·y·z ≥ workgroups, padded as little as the fold allows. Kernels compute the linear number
/// x + size.x·(y + size.y·z) and return at once where it reaches the workgroup count.
struct Grid {
  std::array<std::uint32_t, 3> size{1, 1, 1};

  /// The outermost dimension with more than one workgroup: a part of a grid is a range of it, so that the linear
  /// numbers stay the same (they use no size of the outermost dimension).
  int outer() const { return size[2] > 1 ? 2 : size[1] > 1 ? 1 : 0; }
  /// Workgroups in one step of the outermost dimension.
  std::uint64_t outer_step() const {
    return outer() == 2 ? std::uint64_t{size[0]} * size[1] : outer() == 1 ? size[0] : 1;
  }
};

/// Errors: run_failure when the limits do not hold so many. Precondition: workgroups > 0.
Result<Grid> fold_grid(std::uint64_t workgroups, const std::array<std::uint32_t, 3>& limits);

}  // namespace aicf::vulkan
