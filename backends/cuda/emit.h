#pragma once

// ThreadProgram → CUDA C++ in the intrinsics of the device prelude (assemble.h: cuda_prelude()), for NVRTC and for the
// host emulation alike.

#include <string>

#include "mir/kernel/thread_program.h"

namespace aicf {

/// Preconditions: can_emit(program); program.name is an identifier (the entry point); subgroup_size divides 32.
/// Parameters are the buffers in order, then an int for each symbol, then int workgroup_count. The workgroup has
/// subgroup_size · subgroups threads, and shared arrays lie at their byte offsets in dynamic shared memory.
std::string emit_cuda(const ThreadProgram& program);

}  // namespace aicf
