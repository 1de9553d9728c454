#include "mir/support/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace aicf {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Every finite binary16 value by its definition: sign · 2^(e − 25) · (1024 + m), subnormals 2^−24 · m.
double f16_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(type)), type);
  }
  EXPECT_EQ(name(DType::boolean), "bool");
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
}

TEST(DType, SizesAndStorage) {
  EXPECT_EQ(host_size(DType::boolean), 1u);
  EXPECT_EQ(host_size(DType::i64), 8u);
  EXPECT_EQ(device_size(DType::i64), 4u);
  EXPECT_EQ(device_size(DType::boolean), 4u);
  EXPECT_EQ(device_size(DType::f16), 2u);
  EXPECT_EQ(device_storage(DType::f64), DType::f32);
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_TRUE(is_integer(DType::u64));
}

TEST(DType, EveryHalfSurvivesAndMatchesItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_f32(half);
    if (((bits >> 10) & 31) == 31) {
      if (bits & 1023) {
        EXPECT_TRUE(std::isnan(value));
        EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      } else {
        EXPECT_EQ(value, bits & 0x8000 ? -inf : inf);
        EXPECT_EQ(f32_to_f16(value), half);
      }
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), f16_by_definition(half)) << bits;
    ASSERT_EQ(f32_to_f16(value), half) << bits;
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  // Between each pair of neighbours: the midpoint goes to the even one, its neighbours in float to the nearer one.
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = f16_by_definition(bits), high = f16_by_definition(static_cast<std::uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    const auto even = static_cast<std::uint16_t>(bits & 1 ? bits + 1 : bits);
    ASSERT_EQ(f32_to_f16(static_cast<float>(middle)), even) << bits;
    ASSERT_EQ(round_to(DType::f16, middle), f16_by_definition(even)) << bits;
    // In double, the least step off the middle decides: no double rounding through float.
    ASSERT_EQ(round_to(DType::f16, std::nextafter(middle, inf)), high) << bits;
    ASSERT_EQ(round_to(DType::f16, -std::nextafter(middle, 0.0)), -low) << bits;
  }
  EXPECT_EQ(round_to(DType::f16, 65519.99), 65504.0);
  EXPECT_EQ(round_to(DType::f16, 65520.0), inf);
  EXPECT_EQ(f32_to_f16(-65520.0f), 0xfc00);
  EXPECT_TRUE(std::signbit(round_to(DType::f16, -1e-30)));
}

TEST(DType, Bfloat16) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(bf16_to_f32(0x4049), 3.140625f);
  EXPECT_EQ(f32_to_bf16(3.14159265f), 0x4049);
  EXPECT_EQ(f32_to_bf16(1.00390625f), 0x3f80);  // 1 + 2^-8, the middle: even
  EXPECT_EQ(f32_to_bf16(1.01171875f), 0x3f82);  // 1 + 3·2^-8: even is up
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload is only in the low bits must not become infinite.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float value = bf16_to_f32(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(f32_to_bf16(value), bits);
    ASSERT_EQ(round_to(DType::bf16, value), static_cast<double>(value));
    // The float rounding and the double rounding agree on float inputs.
    const float next = std::nextafter(value, std::numeric_limits<float>::infinity()) * 1.003f;
    if (std::isfinite(next)) {
      ASSERT_EQ(round_to(DType::bf16, next), static_cast<double>(bf16_to_f32(f32_to_bf16(next)))) << bits;
    }
  }
}

TEST(DType, RoundToIntegersTruncatesAndSaturates) {
  EXPECT_EQ(round_to(DType::i32, -2.9), -2.0);
  EXPECT_EQ(round_to(DType::u8, 300.0), 255.0);
  EXPECT_EQ(round_to(DType::u8, -1.0), 0.0);
  EXPECT_EQ(round_to(DType::i8, -129.0), -128.0);
  EXPECT_EQ(round_to(DType::i32, std::nan("")), 0.0);
  EXPECT_EQ(round_to(DType::boolean, 0.25), 1.0);
  EXPECT_LT(round_to(DType::i64, 1e30), 9223372036854775808.0);
  EXPECT_EQ(round_to(DType::f32, 0.1), static_cast<double>(0.1f));
}

}  // namespace
}  // namespace aicf
