// The oracle's arithmetic: one loop over lanes per operation. Meaning as in mir/support (apply), integers exact in 64
// bits.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mir/graph/oracle_program.h"

namespace aicf::oracle {
namespace {

constexpr double sentinel = -1e4;

double narrow(double x) {
  return static_cast<double>(static_cast<float>(x));
}

// Results never share a register with operands.
template <class In, class Out, class F>
void each(int n, const In* __restrict a, Out* __restrict out, F f) {
  for (int l = 0; l < n; ++l) out[l] = f(a[l]);
}

template <class In, class Out, class F>
void each(int n, const In* a, const In* b, Out* __restrict out, F f) {
  for (int l = 0; l < n; ++l) out[l] = f(a[l], b[l]);
}

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t wrap(DType type, std::int64_t v) {
  switch (type) {
    case DType::i8:
      return static_cast<std::int8_t>(v);
    case DType::u8:
      return static_cast<std::uint8_t>(v);
    case DType::i16:
      return static_cast<std::int16_t>(v);
    case DType::u16:
      return static_cast<std::uint16_t>(v);
    case DType::i32:
      return static_cast<std::int32_t>(v);
    case DType::u32:
      return static_cast<std::uint32_t>(v);
    case DType::boolean:
      return v != 0;
    default:
      return v;
  }
}

/// Arithmetic modulo 2^64: overflow of a signed integer wraps, as tensors' integers do.
std::int64_t modular(std::uint64_t v) {
  return static_cast<std::int64_t>(v);
}
std::uint64_t bits(std::int64_t v) {
  return static_cast<std::uint64_t>(v);
}

// Division by zero gives 0, as apply() does: graphs that reach it are undefined.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? modular(-bits(a)) : a / b;
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return quotient(a, b);
  const std::int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

std::int64_t floor_rest(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  std::uint64_t result = 1, square = bits(base);
  for (auto e = static_cast<std::uint64_t>(exponent); e != 0; e >>= 1, square *= square) {
    if (e & 1) result *= square;
  }
  return modular(result);
}

/// Small non-negative operands, the rule for index arithmetic, divide in 32 bits: several times faster.
template <class Fast, class Slow>
void divide(int n, const std::int64_t* a, const std::int64_t* b, std::int64_t* out, Fast fast, Slow slow) {
  for (int l = 0; l < n; ++l) {
    if (((bits(a[l]) | bits(b[l])) >> 32) == 0 && b[l] != 0) {
      out[l] = fast(static_cast<std::uint32_t>(a[l]), static_cast<std::uint32_t>(b[l]));
    } else {
      out[l] = slow(a[l], b[l]);
    }
  }
}

}  // namespace

bool is_test(Op op) {
  return op == Op::isnan || op == Op::isinf || op == Op::lt || op == Op::le || op == Op::eq;
}

void real_lanes(const Instruction& i, int n, const double* a, const double* b, double* out) {
  const bool rounding = i.rounding != Rounding::none;
  switch (i.op) {
    case Op::neg:
      return each(n, a, out, [](double x) { return -x; });
    case Op::abs:
      return each(n, a, out, [](double x) { return std::fabs(x); });
    case Op::sign:
      return each(n, a, out, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; });
    case Op::exp:
      return each(n, a, out, [](double x) { return std::exp(x); });
    case Op::log:
      if (!rounding) return each(n, a, out, [](double x) { return std::log(x); });
      // The probability itself is rounded: one that the graph's type cannot hold has the logarithm −inf.
      return each(n, a, out, [](double x) { return x >= 0 && x <= 1 ? narrow(std::log(narrow(x))) : std::log(x); });
    case Op::sqrt:
      return each(n, a, out, [](double x) { return std::sqrt(x); });
    case Op::reciprocal:
      return each(n, a, out, [](double x) { return 1.0 / x; });
    case Op::erf:
      return each(n, a, out, [](double x) { return std::erf(x); });
    case Op::tanh:
      return each(n, a, out, [](double x) { return std::tanh(x); });
    case Op::sin:
      return each(n, a, out, [](double x) { return std::sin(x); });
    case Op::cos:
      return each(n, a, out, [](double x) { return std::cos(x); });
    case Op::floor:
      return each(n, a, out, [](double x) { return std::floor(x); });
    case Op::ceil:
      return each(n, a, out, [](double x) { return std::ceil(x); });
    case Op::round_even:
      return each(n, a, out, [](double x) { return std::nearbyint(x); });
    case Op::add:
      if (!rounding) return each(n, a, b, out, [](double x, double y) { return x + y; });
      return each(n, a, b, out,
                  [](double x, double y) { return (x <= sentinel) | (y <= sentinel) ? narrow(x + y) : x + y; });
    case Op::sub:
      if (!rounding) return each(n, a, b, out, [](double x, double y) { return x - y; });
      return each(n, a, b, out, [](double x, double y) {
        return (x <= sentinel) | (y <= sentinel) | (y >= -sentinel) ? narrow(x - y) : x - y;
      });
    case Op::mul:
      return each(n, a, b, out, [](double x, double y) { return x * y; });
    case Op::div:
      return each(n, a, b, out, [](double x, double y) { return x / y; });
    case Op::floordiv:
      return each(n, a, b, out, [](double x, double y) { return std::floor(x / y); });
    case Op::mod:
      return each(n, a, b, out, floor_mod);
    case Op::pow:
      return each(n, a, b, out, [](double x, double y) { return y == 2 ? x * x : std::pow(x, y); });
    case Op::min:
      return each(n, a, b, out, [](double x, double y) { return x != x || x < y ? x : y; });
    case Op::max:
      return each(n, a, b, out, [](double x, double y) { return x != x || x > y ? x : y; });
    case Op::minnum:
      return each(n, a, b, out, [](double x, double y) { return std::fmin(x, y); });
    case Op::maxnum:
      return each(n, a, b, out, [](double x, double y) { return std::fmax(x, y); });
    default:
      AICF_BUG(fmt::format("'{}' on floats", op_name(i.op)));
  }
}

void real_test_lanes(const Instruction& i, int n, const double* a, const double* b, std::int64_t* out) {
  switch (i.op) {
    case Op::isnan:
      return each(n, a, out, [](double x) -> std::int64_t { return x != x; });
    case Op::isinf:
      return each(n, a, out, [](double x) -> std::int64_t { return std::isinf(x); });
    case Op::lt:
      return each(n, a, b, out, [](double x, double y) -> std::int64_t { return x < y; });
    case Op::le:
      return each(n, a, b, out, [](double x, double y) -> std::int64_t { return x <= y; });
    case Op::eq:
      return each(n, a, b, out, [](double x, double y) -> std::int64_t { return x == y; });
    default:
      AICF_BUG(fmt::format("'{}' is not a test", op_name(i.op)));
  }
}

void integer_lanes(const Instruction& i, int n, const std::int64_t* a, const std::int64_t* b, std::int64_t* out) {
  using I = std::int64_t;
  bool may_overflow = false;
  switch (i.op) {
    case Op::neg:
      each(n, a, out, [](I x) { return modular(-bits(x)); });
      may_overflow = true;
      break;
    case Op::abs:
      each(n, a, out, [](I x) { return x < 0 ? modular(-bits(x)) : x; });
      may_overflow = true;
      break;
    case Op::sign:
      each(n, a, out, [](I x) { return static_cast<I>((x > 0) - (x < 0)); });
      break;
    case Op::floor:
    case Op::ceil:
    case Op::round_even:
      each(n, a, out, [](I x) { return x; });
      break;
    case Op::isnan:
    case Op::isinf:
      std::fill_n(out, n, 0);
      break;
    case Op::not_:
      each(n, a, out, [](I x) { return static_cast<I>(x == 0); });
      break;
    case Op::add:
      each(n, a, b, out, [](I x, I y) { return modular(bits(x) + bits(y)); });
      may_overflow = true;
      break;
    case Op::sub:
      each(n, a, b, out, [](I x, I y) { return modular(bits(x) - bits(y)); });
      may_overflow = true;
      break;
    case Op::mul:
      each(n, a, b, out, [](I x, I y) { return modular(bits(x) * bits(y)); });
      may_overflow = true;
      break;
    case Op::div:
      divide(
          n, a, b, out, [](std::uint32_t x, std::uint32_t y) { return x / y; }, quotient);
      may_overflow = true;
      break;
    case Op::floordiv:
      divide(
          n, a, b, out, [](std::uint32_t x, std::uint32_t y) { return x / y; }, floor_quotient);
      may_overflow = true;
      break;
    case Op::mod:
      divide(
          n, a, b, out, [](std::uint32_t x, std::uint32_t y) { return x % y; }, floor_rest);
      break;
    case Op::pow:
      each(n, a, b, out, power);
      may_overflow = true;
      break;
    case Op::min:
    case Op::minnum:
      each(n, a, b, out, [](I x, I y) { return std::min(x, y); });
      break;
    case Op::max:
    case Op::maxnum:
      each(n, a, b, out, [](I x, I y) { return std::max(x, y); });
      break;
    case Op::lt:
      each(n, a, b, out, [](I x, I y) { return static_cast<I>(x < y); });
      break;
    case Op::le:
      each(n, a, b, out, [](I x, I y) { return static_cast<I>(x <= y); });
      break;
    case Op::eq:
      each(n, a, b, out, [](I x, I y) { return static_cast<I>(x == y); });
      break;
    case Op::and_:
      each(n, a, b, out, [](I x, I y) { return static_cast<I>((x != 0) & (y != 0)); });
      break;
    case Op::or_:
      each(n, a, b, out, [](I x, I y) { return static_cast<I>((x != 0) | (y != 0)); });
      break;
    default:
      AICF_BUG(fmt::format("'{}' on integers", op_name(i.op)));
  }
  if (may_overflow && i.type != DType::i64 && i.type != DType::u64) {
    for (int l = 0; l < n; ++l) out[l] = wrap(i.type, out[l]);
  }
}

void cast_lanes(DType to, int n, const double* a, double* out) {
  if (to == DType::f32) return each(n, a, out, narrow);
  each(n, a, out, [to](double x) { return round_to(to, x); });
}

void cast_lanes(const Instruction& i, int n, const double* a, std::int64_t* out) {
  each(n, a, out, [&](double x) -> std::int64_t {
    const double whole = round_to(i.type, i.rounding == Rounding::operand ? narrow(x) : x);
    return whole >= 0x1p63 ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(whole);
  });
}

void cast_lanes(DType to, int n, const std::int64_t* a, double* out) {
  each(n, a, out, [to](std::int64_t x) { return round_to(to, static_cast<double>(x)); });
}

void cast_lanes(DType to, int n, const std::int64_t* a, std::int64_t* out) {
  each(n, a, out, [to](std::int64_t x) { return wrap(to, x); });
}

void choose_lanes(const Instruction& i, int n, const std::int64_t* c, const double* a, const double* b, double* out) {
  if (i.rounding == Rounding::none) {
    for (int l = 0; l < n; ++l) out[l] = c[l] != 0 ? a[l] : b[l];
    return;
  }
  for (int l = 0; l < n; ++l) {
    const double chosen = c[l] != 0 ? a[l] : b[l];
    out[l] = chosen <= sentinel ? narrow(chosen) : chosen;
  }
}

void choose_lanes(int n, const std::int64_t* c, const std::int64_t* a, const std::int64_t* b, std::int64_t* out) {
  for (int l = 0; l < n; ++l) out[l] = c[l] != 0 ? a[l] : b[l];
}

}  // namespace aicf::oracle
