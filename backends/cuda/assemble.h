#pragma once

// CUDA C++ to a cubin by NVRTC, which is loaded at run time: no toolkit is needed to build AICF and no GPU to assemble.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mir/support/result.h"

namespace aicf {

struct AssembleCudaOptions {
  int max_registers = 0;           ///< Per thread; 0 lets the compiler choose.
  bool fast_math = false;          ///< --use_fast_math: approximate divisions and functions, flushed subnormals.
  std::vector<std::string> extra;  ///< More options of NVRTC, as on its command line.
};

/// A device binary and what ptxas said of it.
struct AssembledCuda {
  std::string cubin;
  std::string log;            ///< Warnings and ptxas -v lines.
  int registers = 0;          ///< Per thread.
  int stack_bytes = 0;        ///< Per thread, spills included.
  int spill_store_bytes = 0;  ///< Per thread, static count over the code.
  int spill_load_bytes = 0;
  int static_shared_bytes = 0;  ///< Dynamic shared memory is not part of it.
  std::int64_t constant_bytes = 0;
};

/// The intrinsics that emitted kernels use (documented at its top); assemble_cuda() puts it before the source.
std::string_view cuda_prelude();

/// Compiles `source`, whose entry point is the extern "C" kernel `name`, for `architecture` ("sm_80"). Thread-safe.
/// Errors: unsupported when NVRTC is missing (says how to get it) or does not know the architecture; run_failure with
/// the compiler's log, lines counted in `source`, when it refuses the source.
Result<AssembledCuda> assemble_cuda(const std::string& source, const std::string& name, const std::string& architecture,
                                    const AssembleCudaOptions& options = {});

/// "NVRTC 13.0 (path)"; part of cache keys. Same error as assemble_cuda() when it is missing.
Result<std::string> nvrtc_version();

/// Adds the figures of a ptxas -v log to `result` (its text lines "Used 32 registers, …", "… bytes spill stores, …").
void parse_ptxas_log(std::string_view log, AssembledCuda& result);

}  // namespace aicf
