#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace aicf {

/// Element types of tensors and scalars. `boolean` is one byte on the host.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

/// Bytes of one element in a host tensor (.npy layout).
std::size_t host_size(DType type);

/// How an element is stored in device buffers: boolean and all integers of at most 32 bits are i32 words, i64/u64 are i32
/// words too (the executor checks the range at upload), f64 is f32 on devices without doubles (said in `explain`).
/// f16 and bf16 keep their 2 bytes where the device has 16-bit storage.
DType device_storage(DType type);
std::size_t device_size(DType type);

bool is_float(DType type);
bool is_integer(DType type);  ///< i8 … u64; not boolean

/// "f32", "i64", "bool", …; the text form's words.
std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);

/// IEEE 754 binary16 and bfloat16, round to nearest even; NaN stays NaN.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);

/// `value` rounded to `type` and back (f16, bf16, f32 by rounding; integers by truncation toward zero; boolean to 0 or 1).
double round_to(DType type, double value);

}  // namespace aicf
