#pragma once

// ThreadProgram → GLSL compute source for Vulkan 1.1 (assemble.h turns it into SPIR-V).
//
// Subgroups. A program that shuffles takes lane and subgroup from gl_SubgroupInvocationID and gl_SubgroupID, since only
// they say which invocations exchange values; the driver must give subgroups of `subgroup_size` invocations, all full.
// A program that does not shuffle takes both from gl_LocalInvocationIndex and runs at any subgroup size.
//
// Workgroup memory. Each shared array is an array of its own, whatever its byte offset. 16-bit elements are packed in
// pairs where every access moves an even number of them; one at a time they take 4 bytes each.
//
// Floats. Multiply and add may be contracted by the driver (no NoContraction); nothing is reassociated. Where the
// device preserves signed zeros, infinities and NaN, the module asks for it; elsewhere isnan and isinf test bits. exp,
// log and sqrt are the device's, exp gives 0 below 2^-126; erf, tanh, sin, cos and pow are written out, since devices
// differ.

#include <string>

#include "mir/kernel/thread_program.h"

namespace aicf {

struct GlslOptions {
  /// Vector loads of 8 and 16 bytes as uint64_t and u64vec2 (needs shaderInt64): software devices load these fastest.
  bool wide_loads_u64 = false;
  /// 16-bit elements may be accessed one at a time (storageBuffer16BitAccess). Without it they live in 32-bit words,
  /// and storing a single one takes two atomic operations.
  bool storage_16bit = false;
  /// shaderSignedZeroInfNanPreserveFloat32.
  bool signed_zero_inf_nan_preserve = false;
  /// The size of subgroups that the driver gives, a multiple of the program's; 0 = the program's.
  int device_subgroup_size = 0;
};

/// Precondition: can_emit(program). The workgroup's dimension is subgroup_size · subgroups; bindings are the positions
/// in program.buffers, push constants are program.symbols and the number of workgroups, int each.
std::string emit_glsl(const ThreadProgram& program, const GlslOptions& options = {});

/// True when the program exchanges values between lanes: its pipeline must require the subgroup size.
bool uses_subgroups(const ThreadProgram& program);

}  // namespace aicf
