#pragma once

// A structural look at SPIR-V before a driver sees it: drivers may crash on a damaged module and do not check that the
// capabilities it declares are enabled. Full validation (spirv-val) is the compiler's work.

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "mir/support/result.h"
#include "runtime/vulkan/physical_device.h"

namespace aicf::vulkan {

/// What a compute module says about itself.
struct SpirvSummary {
  std::uint32_t version = 0;  ///< 0x00010300 for 1.3
  std::vector<std::uint32_t> capabilities;
  struct Mode {
    std::uint32_t mode, width;
  };
  std::vector<Mode> float_modes;            ///< Float-control execution modes of the entry point.
  std::uint32_t local_size[3] = {0, 0, 0};  ///< 0 where the module has no LocalSize.
  std::uint32_t bindings = 0;               ///< 1 + the highest binding number; 0 without any.
};

/// `bytes` must be whole words, host-endian. Errors (run_failure): what is damaged, or no compute entry point "main".
Result<SpirvSummary> summarise_spirv(std::string_view bytes);

/// Errors (run_failure): the first capability, float mode or version that the device does not have, by name.
Result<void> check_supported(const SpirvSummary& module, const PhysicalDevice& device);

}  // namespace aicf::vulkan
