#pragma once

#include "runtime/driver.h"

namespace aicf {

/// The template of a driver: memory is host memory, kernels load and do nothing. Start a new driver from this folder.
Driver& null_driver();

}  // namespace aicf
