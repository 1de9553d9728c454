#include "frontend/semantic/onnx_types.h"

#include "mir/support/result.h"

#include <array>
#include <string_view>

namespace aicf {
namespace {

struct Row {
  std::string_view name;
  std::optional<DType> type;
};

// Indexed by TensorProto.DataType.
constexpr std::array<Row, 29> rows{{
    {"UNDEFINED", {}},
    {"FLOAT", DType::f32},
    {"UINT8", DType::u8},
    {"INT8", DType::i8},
    {"UINT16", DType::u16},
    {"INT16", DType::i16},
    {"INT32", DType::i32},
    {"INT64", DType::i64},
    {"STRING", {}},
    {"BOOL", DType::boolean},
    {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},
    {"UINT32", DType::u32},
    {"UINT64", DType::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", DType::bf16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
    {"UINT2", {}},
    {"INT2", {}},
    {"FLOAT6E2M3", {}},
    {"FLOAT6E3M2", {}},
}};

}  // namespace

bool is_onnx_type(std::int64_t number) {
  return number >= 0 && number < static_cast<std::int64_t>(rows.size());
}

std::optional<DType> onnx_dtype(std::int64_t number) {
  return is_onnx_type(number) ? rows[static_cast<std::size_t>(number)].type : std::nullopt;
}

std::int64_t onnx_number(DType type) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (rows[k].type == type) return static_cast<std::int64_t>(k);
  }
  return 0;
}

std::string onnx_type_name(std::int64_t number) {
  return is_onnx_type(number) ? std::string(rows[static_cast<std::size_t>(number)].name) : std::to_string(number);
}

}  // namespace aicf
