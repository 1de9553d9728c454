#pragma once

// CUDA devices that exist nowhere: emitted CUDA C++ is compiled by the host compiler and run thread by thread under
// checks.
//
// Environment: AICF_HOST_CXX (compiler), AICF_CACHE_DIR, AICF_CACHE=off (see host_compiler.h), AICF_EMULATION_SEED
// (order of threads, default 1), AICF_EMULATION_TRACE (how many workgroups of a launch are traced for memory
// transactions when counters are asked for: a number, default 4, or "all").

#include <cstdint>

#include "runtime/driver.h"

namespace aicf {

struct CudaEmulationOptions {
  std::uint64_t seed = 1;
  int traced_workgroups = 4;
};
CudaEmulationOptions cuda_emulation_options_from_environment();

/// `selector`: "" (sm_80) or an architecture ("sm_90"). Errors: unsupported when it is none that is modelled, or when
/// there is no host compiler.
Result<std::unique_ptr<Device>> open_cuda_emulation(const std::string& selector, const CudaEmulationOptions& options);

/// The driver's one instance, for the registry. Its devices are named "cuda-emulation:sm_80" and so on.
Driver& cuda_emulation_driver();

}  // namespace aicf
