#pragma once

// ONNX's numbers of element types, without its headers.

#include <cstdint>
#include <optional>
#include <string>

#include "mir/support/dtype.h"

namespace aicf {

/// Empty for types that AICF does not have (strings, complex, float8, 4 bits) and for numbers that mean nothing.
std::optional<DType> onnx_dtype(std::int64_t number);
std::int64_t onnx_number(DType type);
/// "FLOAT", "FLOAT8E4M3FN", …; "99" for numbers that mean nothing.
std::string onnx_type_name(std::int64_t number);
/// True for numbers that ONNX defines.
bool is_onnx_type(std::int64_t number);

}  // namespace aicf
