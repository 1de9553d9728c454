#pragma once

// The .npy format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to 3.
// bf16 has no numpy name; it is written as two-byte void ("<V2"), as ml_dtypes does, and "V2" is read as bf16.

#include <span>
#include <string>

#include "runtime/tensor.h"

namespace aicf {

/// Everything before the elements; its size is a multiple of 64.
std::string npy_header(DType type, std::span<const std::int64_t> shape);
/// Copies the elements. Errors (bad_input, at `place`): damaged, Fortran order, big-endian or unsupported element type.
Result<Tensor> parse_npy(std::span<const std::byte> file, const std::string& place);
bool looks_like_npy(std::span<const std::byte> file);

}  // namespace aicf
