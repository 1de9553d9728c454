#include "mir/support/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace aicf {
namespace {

struct TypeRow {
  std::string_view name;
  std::size_t size;
  bool floating, integer;
  DType storage;
};

// Indexed by DType.
constexpr std::array<TypeRow, 13> type_table{{
    {"f16", 2, true, false, DType::f16},
    {"bf16", 2, true, false, DType::bf16},
    {"f32", 4, true, false, DType::f32},
    {"f64", 8, true, false, DType::f32},
    {"i8", 1, false, true, DType::i32},
    {"u8", 1, false, true, DType::i32},
    {"i16", 2, false, true, DType::i32},
    {"u16", 2, false, true, DType::i32},
    {"i32", 4, false, true, DType::i32},
    {"u32", 4, false, true, DType::i32},
    {"i64", 8, false, true, DType::i32},
    {"u64", 8, false, true, DType::i32},
    {"bool", 1, false, false, DType::i32},
}};

const TypeRow& row(DType type) {
  return type_table[static_cast<std::size_t>(type)];
}

/// `value` rounded to nearest even with `dropped` low mantissa bits of a double removed. Below `min_normal` the grid is
/// `1 / inverse_quantum`; results above `max` become infinite. Both products are exact: powers of two.
double round_narrow(double value, int dropped, double min_normal, double inverse_quantum, double max) {
  if (!std::isfinite(value)) return value;
  const double magnitude = std::fabs(value);
  double rounded;
  if (magnitude < min_normal) {
    rounded = std::nearbyint(magnitude * inverse_quantum) / inverse_quantum;
  } else {
    std::uint64_t bits = std::bit_cast<std::uint64_t>(magnitude);
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    bits += half - 1 + ((bits >> dropped) & 1);
    bits &= ~((half << 1) - 1);
    rounded = std::bit_cast<double>(bits);
    if (rounded > max) rounded = std::numeric_limits<double>::infinity();
  }
  return std::copysign(rounded, value);
}

double round_f16(double value) {
  return round_narrow(value, 42, 0x1p-14, 0x1p24, 65504.0);
}
double round_bf16(double value) {
  return round_narrow(value, 45, 0x1p-126, 0x1p133, 0x1.fep127);
}

template <class T>
double saturate(double value) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  // The upper bounds of 64-bit types are not doubles; the nearest double below them is the largest exact result.
  double high = static_cast<double>(std::numeric_limits<T>::max());
  if (sizeof(T) == 8) high = std::nextafter(high, 0.0);
  return std::clamp(whole, static_cast<double>(std::numeric_limits<T>::min()), high) + 0.0;
}

}  // namespace

std::size_t host_size(DType type) {
  return row(type).size;
}
DType device_storage(DType type) {
  return row(type).storage;
}
std::size_t device_size(DType type) {
  return row(row(type).storage).size;
}
bool is_float(DType type) {
  return row(type).floating;
}
bool is_integer(DType type) {
  return row(type).integer;
}
std::string_view name(DType type) {
  return row(type).name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < type_table.size(); ++i) {
    if (type_table[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x1ffu));
  const double magnitude = std::fabs(round_f16(value));
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(magnitude * 0x1p24));
  // Exact in float now: drop 13 mantissa bits and rebias the exponent from 127 to 15.
  const std::uint32_t exact = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude));
  return static_cast<std::uint16_t>(sign | ((exact >> 13) - (112u << 10)));
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f32_to_bf16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::f16:
      return round_f16(value);
    case DType::bf16:
      return round_bf16(value);
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f64:
      return value;
    case DType::i8:
      return saturate<std::int8_t>(value);
    case DType::u8:
      return saturate<std::uint8_t>(value);
    case DType::i16:
      return saturate<std::int16_t>(value);
    case DType::u16:
      return saturate<std::uint16_t>(value);
    case DType::i32:
      return saturate<std::int32_t>(value);
    case DType::u32:
      return saturate<std::uint32_t>(value);
    case DType::i64:
      return saturate<std::int64_t>(value);
    case DType::u64:
      return saturate<std::uint64_t>(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
  }
  return value;
}

}  // namespace aicf
