// These loops are the interpreter's whole running time, and tests run it in debug builds too.
#pragma GCC optimize("O3", "inline")

#include "mir/kernel/interpret_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace aicf::interpreter {
namespace {

template <class D, class A, class F>
inline void each(int n, D* dst, const A* a, F f) {
  for (int t = 0; t < n; ++t) dst[t] = f(a[t]);
}

template <class D, class A, class F>
inline void each(int n, D* dst, const A* a, const A* b, F f) {
  for (int t = 0; t < n; ++t) dst[t] = f(a[t], b[t]);
}

template <class F>
inline void in_double(int n, float* dst, const float* a, F f) {
  for (int t = 0; t < n; ++t) dst[t] = static_cast<float>(f(static_cast<double>(a[t])));
}

float floor_mod(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

float round_bf16(float x) {
  if (x != x) return x;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

std::int64_t int_power(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(
      std::clamp(std::trunc(std::pow(static_cast<double>(a), static_cast<double>(b))), -9e15, 9e15));
}

template <class F>
inline IntegerFault checked(int n, std::int32_t* dst, const std::int32_t* a, const std::int32_t* b,
                            const std::uint8_t* mask, F f) {
  bool bad = false;
  for (int t = 0; t < n; ++t) {
    const std::int64_t r = f(static_cast<std::int64_t>(a[t]), static_cast<std::int64_t>(b[t]));
    bad |= (r != static_cast<std::int32_t>(r)) & (mask[t] != 0);
  }
  if (bad) {
    for (int t = 0; t < n; ++t) {
      const std::int64_t r = f(static_cast<std::int64_t>(a[t]), static_cast<std::int64_t>(b[t]));
      if (mask[t] && r != static_cast<std::int32_t>(r)) return {t, false};
    }
  }
  for (int t = 0; t < n; ++t) {
    dst[t] = static_cast<std::int32_t>(f(static_cast<std::int64_t>(a[t]), static_cast<std::int64_t>(b[t])));
  }
  return {};
}

template <class F>
inline IntegerFault divided(int n, std::int32_t* dst, const std::int32_t* a, const std::int32_t* b,
                            const std::uint8_t* mask, F f) {
  for (int t = 0; t < n; ++t) {
    if (b[t] == 0 && mask[t]) return {t, true};
  }
  return checked(n, dst, a, b, mask, [f](std::int64_t x, std::int64_t y) { return y == 0 ? 0 : f(x, y); });
}

}  // namespace

void float_operation(Op op, int n, float* dst, const float* a, const float* b) {
  using F = float;
  switch (op) {
    case Op::neg:
      return each(n, dst, a, [](F x) { return -x; });
    case Op::abs:
      return each(n, dst, a, [](F x) { return std::fabs(x); });
    case Op::sign:
      return each(n, dst, a, [](F x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; });
    case Op::sqrt:
      return each(n, dst, a, [](F x) { return std::sqrt(x); });
    case Op::reciprocal:
      return each(n, dst, a, [](F x) { return 1.0f / x; });
    case Op::floor:
      return each(n, dst, a, [](F x) { return std::floor(x); });
    case Op::ceil:
      return each(n, dst, a, [](F x) { return std::ceil(x); });
    case Op::round_even:
      return each(n, dst, a, [](F x) { return std::nearbyint(x); });
    case Op::exp:
      return in_double(n, dst, a, [](double x) { return std::exp(x); });
    case Op::log:
      return in_double(n, dst, a, [](double x) { return std::log(x); });
    case Op::erf:
      return in_double(n, dst, a, [](double x) { return std::erf(x); });
    case Op::tanh:
      return in_double(n, dst, a, [](double x) { return std::tanh(x); });
    case Op::sin:
      return in_double(n, dst, a, [](double x) { return std::sin(x); });
    case Op::cos:
      return in_double(n, dst, a, [](double x) { return std::cos(x); });
    case Op::add:
      return each(n, dst, a, b, [](F x, F y) { return x + y; });
    case Op::sub:
      return each(n, dst, a, b, [](F x, F y) { return x - y; });
    case Op::mul:
      return each(n, dst, a, b, [](F x, F y) { return x * y; });
    case Op::div:
      return each(n, dst, a, b, [](F x, F y) { return x / y; });
    case Op::floordiv:
      return each(n, dst, a, b, [](F x, F y) { return std::floor(x / y); });
    case Op::mod:
      return each(n, dst, a, b, floor_mod);
    case Op::pow:
      return each(n, dst, a, b,
                  [](F x, F y) { return static_cast<F>(std::pow(static_cast<double>(x), static_cast<double>(y))); });
    case Op::min:
      return each(n, dst, a, b, [](F x, F y) { return x != x ? x : y != y ? y : y < x ? y : x; });
    case Op::max:
      return each(n, dst, a, b, [](F x, F y) { return x != x ? x : y != y ? y : x < y ? y : x; });
    case Op::minnum:
      return each(n, dst, a, b, [](F x, F y) { return x != x ? y : y < x ? y : x; });
    case Op::maxnum:
      return each(n, dst, a, b, [](F x, F y) { return x != x ? y : x < y ? y : x; });
    default:
      AICF_BUG("not an operation on floats");
  }
}

void round_floats(DType type, int n, float* dst, const float* a) {
  if (type == DType::bf16) return each(n, dst, a, round_bf16);
  each(n, dst, a, [](float x) { return x != x ? x : f16_to_f32(f32_to_f16(x)); });
}

void compare_floats(Op op, int n, std::int32_t* dst, const float* a, const float* b) {
  switch (op) {
    case Op::lt:
      return each(n, dst, a, b, [](float x, float y) { return x < y ? 1 : 0; });
    case Op::le:
      return each(n, dst, a, b, [](float x, float y) { return x <= y ? 1 : 0; });
    case Op::eq:
      return each(n, dst, a, b, [](float x, float y) { return x == y ? 1 : 0; });
    case Op::isnan:
      return each(n, dst, a, [](float x) { return x != x ? 1 : 0; });
    case Op::isinf:
      return each(n, dst, a, [](float x) { return std::fabs(x) == std::numeric_limits<float>::infinity() ? 1 : 0; });
    default:
      AICF_BUG("not a comparison of floats");
  }
}

IntegerFault int_operation(Op op, int n, std::int32_t* dst, const std::int32_t* a, const std::int32_t* b,
                           const std::uint8_t* mask) {
  using I = std::int64_t;
  using W = std::int32_t;
  switch (op) {
    case Op::neg:
      return checked(n, dst, a, b, mask, [](I x, I) { return -x; });
    case Op::abs:
      return checked(n, dst, a, b, mask, [](I x, I) { return x < 0 ? -x : x; });
    case Op::add:
      return checked(n, dst, a, b, mask, [](I x, I y) { return x + y; });
    case Op::sub:
      return checked(n, dst, a, b, mask, [](I x, I y) { return x - y; });
    case Op::mul:
      return checked(n, dst, a, b, mask, [](I x, I y) { return x * y; });
    case Op::div:
      return divided(n, dst, a, b, mask, [](I x, I y) { return x / y; });
    case Op::floordiv:
      return divided(n, dst, a, b, mask, [](I x, I y) { return x / y - ((x % y != 0) & ((x < 0) != (y < 0))); });
    case Op::mod:
      return divided(n, dst, a, b, mask, [](I x, I y) {
        const I r = x % y;
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
      });
    case Op::pow:
      return checked(n, dst, a, b, mask, int_power);
    case Op::sign:
      each(n, dst, a, [](W x) { return (x > 0) - (x < 0); });
      break;
    case Op::not_:
      each(n, dst, a, [](W x) { return x == 0; });
      break;
    case Op::min:
    case Op::minnum:
      each(n, dst, a, b, [](W x, W y) { return y < x ? y : x; });
      break;
    case Op::max:
    case Op::maxnum:
      each(n, dst, a, b, [](W x, W y) { return x < y ? y : x; });
      break;
    case Op::lt:
      each(n, dst, a, b, [](W x, W y) { return x < y; });
      break;
    case Op::le:
      each(n, dst, a, b, [](W x, W y) { return x <= y; });
      break;
    case Op::eq:
      each(n, dst, a, b, [](W x, W y) { return x == y; });
      break;
    case Op::and_:
      each(n, dst, a, b, [](W x, W y) { return (x != 0) & (y != 0); });
      break;
    case Op::or_:
      each(n, dst, a, b, [](W x, W y) { return (x != 0) | (y != 0); });
      break;
    default:
      AICF_BUG("not an operation on integers");
  }
  return {};
}

void wrap_ints(DType type, int n, std::int32_t* dst, const std::int32_t* a) {
  switch (type) {
    case DType::i8:
      return each(n, dst, a, [](std::int32_t x) { return static_cast<std::int8_t>(x); });
    case DType::u8:
      return each(n, dst, a, [](std::int32_t x) { return static_cast<std::uint8_t>(x); });
    case DType::i16:
      return each(n, dst, a, [](std::int32_t x) { return static_cast<std::int16_t>(x); });
    case DType::u16:
      return each(n, dst, a, [](std::int32_t x) { return static_cast<std::uint16_t>(x); });
    default:
      return each(n, dst, a, [](std::int32_t x) { return x; });
  }
}

void floats_to_ints(DType type, int n, std::int32_t* dst, const float* a) {
  if (type == DType::boolean) return each(n, dst, a, [](float x) { return x != 0 ? 1 : 0; });
  double low = -2147483648.0, high = 2147483647.0;
  if (type == DType::i8) low = -128, high = 127;
  if (type == DType::u8) low = 0, high = 255;
  if (type == DType::i16) low = -32768, high = 32767;
  if (type == DType::u16) low = 0, high = 65535;
  if (type == DType::u32 || type == DType::u64) low = 0;
  each(n, dst, a, [=](float x) {
    return x != x ? 0 : static_cast<std::int32_t>(std::clamp(std::trunc(static_cast<double>(x)), low, high));
  });
}

}  // namespace aicf::interpreter
