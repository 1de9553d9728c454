#pragma once

// GLSL compute source → SPIR-V 1.3 for Vulkan 1.1: glslang → spirv-opt → spirv-val.
//
// Floating point keeps the source's operations. The passes of spirv-opt -O that simplify reassociate and fold floats
// ((x·2)·3 → x·6, x·0 → 0) in modules without float controls, so none of them runs. Drivers may still do so unless the
// source asks for SignedZeroInfNanPreserve, which emitters write (where the device has it) as
//   #extension GL_EXT_spirv_intrinsics : require
//   spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
// (capability, mode: SignedZeroInfNanPreserve 4466, 4461; DenormPreserve 4464, 4459; DenormFlushToZero 4465, 4460;
// RoundingModeRTE 4467, 4462; RoundingModeRTZ 4468, 4463; the last number is the width of the float type.)

#include <string>

#include "mir/support/result.h"

namespace aicf {

/// SPIR-V words as bytes, entry point "main". Thread-safe. `log` (may be null) gets one line with sizes and times.
/// Errors: unsupported, with the compiler's message and the source line it names, or the validator's message. An error
/// in source that AICF emitted is a bug of the emitter; it is returned so that the caller can say which kernel and why.
Result<std::string> assemble_glsl(const std::string& glsl, const std::string& kernel_name, std::string* log);

}  // namespace aicf
