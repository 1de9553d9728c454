#pragma once

// NVIDIA GPUs through the CUDA driver API; devices are called cuda:0, cuda:1, … in the driver's order.
//
// Environment: AICF_CUDA_SYNC=1 waits after each launch, so that a fault names its kernel.

#include "runtime/driver.h"

namespace aicf {

/// The driver's one instance, for the registry.
Driver& cuda_driver();

}  // namespace aicf
