#pragma once

// Private to the interpreter: one operation over all threads of a workgroup.

#include <cstdint>

#include "mir/support/expr.h"

namespace aicf::interpreter {

/// dst[t] = op(a[t], b[t]) in f32; functions are computed in double and rounded once.
void float_operation(Op op, int n, float* dst, const float* a, const float* b);
/// dst[t] = a[t] rounded to f16 or bf16.
void round_floats(DType type, int n, float* dst, const float* a);
/// lt, le, eq, isnan, isinf.
void compare_floats(Op op, int n, std::int32_t* dst, const float* a, const float* b);

/// What went wrong in which thread, or `thread` = -1.
struct IntegerFault {
  int thread = -1;
  bool division = false;  ///< by zero; else an overflow of 32 bits
};
/// Results are only checked where `mask` is set.
IntegerFault int_operation(Op op, int n, std::int32_t* dst, const std::int32_t* a, const std::int32_t* b,
                           const std::uint8_t* mask);
void wrap_ints(DType type, int n, std::int32_t* dst, const std::int32_t* a);
/// Truncated and saturated to `type` (at most 32 bits); NaN gives 0; boolean: a != 0.
void floats_to_ints(DType type, int n, std::int32_t* dst, const float* a);

}  // namespace aicf::interpreter
