// Polynomials are Chebyshev fits computed for these intervals in extended precision; errors are given with each.

#include "backends/vulkan/glsl_functions.h"

#include <array>
#include <sstream>

#include "mir/support/result.h"

namespace aicf {
namespace {

struct Function {
  std::string_view name;
  std::string_view calls;  ///< names separated by spaces
  std::string_view text;
};

// Callees stand before their callers. The constants are macros: glslang does not take these calls as constant.
constexpr std::array functions = {
    Function{"aicf_inf", "", "#define aicf_inf uintBitsToFloat(0x7f800000u)\n"},
    Function{"aicf_nan", "", "#define aicf_nan uintBitsToFloat(0x7fc00000u)\n"},
    // The instructions leave no choice with one NaN; GLSL's min and max do.
    Function{"aicf_minnum", "",
             "spirv_instruction(set = \"GLSL.std.450\", id = 79) float aicf_minnum(float a, float b);\n"},
    Function{"aicf_maxnum", "",
             "spirv_instruction(set = \"GLSL.std.450\", id = 80) float aicf_maxnum(float a, float b);\n"},
    Function{"aicf_isnan", "", R"(
bool aicf_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
)"},
    Function{"aicf_isinf", "", R"(
bool aicf_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
)"},
    Function{"aicf_min", "aicf_isnan", R"(
float aicf_min(float a, float b) { return a <= b || aicf_isnan(a) ? a : b; }
)"},
    Function{"aicf_max", "aicf_isnan", R"(
float aicf_max(float a, float b) { return a >= b || aicf_isnan(a) ? a : b; }
)"},
    Function{"aicf_sign", "", R"(
float aicf_sign(float x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
)"},
    Function{"aicf_times_zero", "aicf_nan", R"(
// x * 0.0: compilers drop x, though it may be infinite or NaN.
float aicf_times_zero(float x, uint sign) {
  uint bits = floatBitsToUint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? aicf_nan : uintBitsToFloat((bits ^ sign) & 0x80000000u);
}
)"},
    Function{"aicf_over_zero", "aicf_nan", R"(
// x / 0.0: compilers fold it, to nothing at all on some.
float aicf_over_zero(float x, uint sign) {
  uint bits = floatBitsToUint(x);
  uint size = bits & 0x7fffffffu;
  return size == 0u || size > 0x7f800000u ? aicf_nan : uintBitsToFloat(((bits ^ sign) & 0x80000000u) | 0x7f800000u);
}
)"},
    Function{"aicf_zero_over", "aicf_nan", R"(
// 0.0 / x: compilers take it for 0, though x may be zero or NaN.
float aicf_zero_over(float x, uint sign) {
  uint bits = floatBitsToUint(x);
  uint size = bits & 0x7fffffffu;
  return size == 0u || size > 0x7f800000u ? aicf_nan : uintBitsToFloat((bits ^ sign) & 0x80000000u);
}
)"},
    Function{"aicf_erf", "", R"(
// Absolute error below 3e-7, from exp; |x| < 1: x times a polynomial in x^2 (1e-9), else 1 - exp(polynomial) (2e-8).
float aicf_erf(float x) {
  float a = abs(x);
  if (a >= 4.0) return x > 0.0 ? 1.0 : -1.0;
  if (a < 1.0) {
    float t = x * x;
    float p = 7.875874871388078e-05;
    p = p * t - 0.000801686430349946;
    p = p * t + 0.005189087241888046;
    p = p * t - 0.02685421146452427;
    p = p * t + 0.11283594369888306;
    p = p * t - 0.3761262595653534;
    p = p * t + 1.1283791065216064;
    return x * p;
  }
  float p = -1.6371513993362896e-06;
  p = p * a + 4.605804133461788e-05;
  p = p * a - 0.0005968056502752006;
  p = p * a + 0.004759596195071936;
  p = p * a - 0.026421135291457176;
  p = p * a + 0.11008008569478989;
  p = p * a + 0.6318260431289673;
  p = p * a + 1.1302334070205688;
  p = p * a - 0.0003201380604878068;
  float r = 1.0 - exp(-p);
  return x < 0.0 ? -r : r;
}
)"},
    Function{"aicf_tanh", "", R"(
// |x| < 0.625: x plus x^3 times a polynomial in x^2 (relative 2e-8); exp would overflow from 44 on.
float aicf_tanh(float x) {
  float a = abs(x);
  if (a >= 9.02) return x > 0.0 ? 1.0 : -1.0;
  if (a < 0.625) {
    float t = x * x;
    float p = -0.006096714176237583;
    p = p * t + 0.020997179672122;
    p = p * t - 0.05385090783238411;
    p = p * t + 0.1333276927471161;
    p = p * t - 0.333333283662796;
    return x + x * t * p;
  }
  float r = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
  return x < 0.0 ? -r : r;
}
)"},
    Function{"aicf_sincos", "aicf_nan", R"(
// sin(x + quadrant * pi / 2). x is reduced by a pi / 2 of three parts, whose products with the quotient are exact up to
// |x| = 12000; beyond, the device's own function (x at once).
float aicf_sincos(float x, int quadrant) {
  if (!(abs(x) < 12000.0)) {
    if ((floatBitsToUint(x) & 0x7f800000u) == 0x7f800000u) return aicf_nan;
    return (quadrant & 1) == 0 ? sin(x) : cos(x);
  }
  float k = roundEven(x * 0.63661975);
  float r = ((x - k * 1.5703125) - k * 0.0004837512969970703) - k * 7.549789948768648e-08;
  int q = int(k) + quadrant;
  float t = r * r;
  float s = 2.7243811473454116e-06;
  s = s * t - 0.00019840039021801203;
  s = s * t + 0.008333331905305386;
  s = s * t - 0.1666666716337204;
  s = r + r * t * s;
  float c = -2.729585730776307e-07;
  c = c * t + 2.48005599132739e-05;
  c = c * t - 0.00138888880610466;
  c = c * t + 0.0416666679084301;
  c = 1.0 - 0.5 * t + t * t * c;
  float y = (q & 1) == 0 ? s : c;
  return (q & 2) == 0 ? y : -y;
}
)"},
    Function{"aicf_pow", "aicf_inf aicf_nan aicf_isnan", R"(
// As IEEE 754 pow: 1 for y = 0 and x = 1, negative x for whole y, infinities by size and parity. Small whole exponents
// multiply; others use the device's pow of |x|.
float aicf_pow(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (aicf_isnan(x) || aicf_isnan(y)) return aicf_nan;
  float a = abs(x);
  bool whole = abs(y) >= 16777216.0 || floor(y) == y;
  bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  float r;
  if (abs(y) == aicf_inf) {
    r = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? aicf_inf : 0.0;
  } else if (a == 0.0 || a == aicf_inf) {
    r = (a == 0.0) == (y > 0.0) ? 0.0 : aicf_inf;
  } else if (whole && abs(y) <= 8.0) {
    r = a;
    for (int i = 1; i < int(abs(y)); ++i) r *= a;
    if (y < 0.0) r = 1.0 / r;
  } else {
    r = pow(a, y);
  }
  if ((floatBitsToUint(x) & 0x80000000u) == 0u) return r;
  if (odd) return -r;
  return whole || a == 0.0 || a == aicf_inf ? r : aicf_nan;
}
)"},
    Function{"aicf_floormod", "", R"(
// a - b * floor(a / b); the quotient may be off by one where a / b is rounded.
float aicf_floormod(float a, float b) {
  float r = a - b * floor(a / b);
  if (r != 0.0 && (r < 0.0) != (b < 0.0)) r += b;
  return abs(r) >= abs(b) ? r - b : r;
}
)"},
    Function{"aicf_floordiv_int", "", R"(
int aicf_floordiv_int(int a, int b) {
  int q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
    Function{"aicf_floormod_int", "aicf_floordiv_int", R"(
int aicf_floormod_int(int a, int b) { return a - b * aicf_floordiv_int(a, b); }
)"},
    Function{"aicf_pow_int", "", R"(
int aicf_pow_int(int a, int b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  int r = 1;
  for (; b != 0; b >>= 1, a *= a) r *= (b & 1) != 0 ? a : 1;
  return r;
}
)"},
    Function{"aicf_to_int", "aicf_isnan", R"(
// Truncated and saturated; NaN gives 0.
int aicf_to_int(float x, int low, int high) {
  if (aicf_isnan(x)) return 0;
  return x <= float(low) ? low : x >= float(high) ? high : int(x);
}
)"},
    Function{"aicf_f16_bits", "", R"(
// Nearest even, whatever the device's own conversion does. Adding 0.5 shifts a subnormal's bits into place and rounds.
uint aicf_f16_bits(float x) {
  uint u = floatBitsToUint(x);
  uint sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return sign | 0x7e00u;
  if (u >= 0x477ff000u) return sign | 0x7c00u;
  if (u < 0x38800000u) return sign | (floatBitsToUint(uintBitsToFloat(u) + 0.5) - 0x3f000000u);
  return sign | ((u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13);
}
)"},
    Function{"aicf_f16_pair", "aicf_f16_bits", R"(
uint aicf_f16_pair(float x, float y) { return aicf_f16_bits(x) | (aicf_f16_bits(y) << 16); }
)"},
    Function{"aicf_f16_value", "", R"(
float aicf_f16_value(uint bits) { return unpackHalf2x16(bits).x; }
)"},
    Function{"aicf_round_f16", "aicf_f16_bits", R"(
float aicf_round_f16(float x) { return unpackHalf2x16(aicf_f16_bits(x)).x; }
)"},
    Function{"aicf_bf16_bits", "", R"(
uint aicf_bf16_bits(float x) {
  uint u = floatBitsToUint(x);
  return (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
)"},
    Function{"aicf_bf16_pair", "aicf_bf16_bits", R"(
uint aicf_bf16_pair(float x, float y) { return aicf_bf16_bits(x) | (aicf_bf16_bits(y) << 16); }
)"},
    Function{"aicf_bf16_value", "", R"(
float aicf_bf16_value(uint bits) { return uintBitsToFloat(bits << 16); }
)"},
    Function{"aicf_round_bf16", "aicf_bf16_bits", R"(
float aicf_round_bf16(float x) { return uintBitsToFloat(aicf_bf16_bits(x) << 16); }
)"},
};

const Function& find(std::string_view name) {
  for (const Function& f : functions) {
    if (f.name == name) return f;
  }
  AICF_BUG("no GLSL function " + std::string(name));
}

}  // namespace

std::string GlslFunctions::use(std::string_view name) {
  const Function& f = find(name);
  if (used_.emplace(name).second) {
    std::istringstream calls{std::string(f.calls)};
    for (std::string callee; calls >> callee;) use(callee);
  }
  return std::string(name);
}

std::string GlslFunctions::definitions() const {
  std::string out;
  for (const Function& f : functions) {
    if (!used_.contains(f.name)) continue;
    std::string_view text = f.text;
    // With NaN and infinities preserved the language's own tests may not be assumed away.
    if (preserve_nan_ && f.name == "aicf_isnan") text = "\nbool aicf_isnan(float x) { return isnan(x); }\n";
    if (preserve_nan_ && f.name == "aicf_isinf") text = "\nbool aicf_isinf(float x) { return isinf(x); }\n";
    out += text;
  }
  return out;
}

bool GlslFunctions::uses_spirv_instructions() const {
  return used_.contains("aicf_minnum") || used_.contains("aicf_maxnum");
}

std::set<std::string, std::less<>> glsl_reserved_words() {
  // Keywords and words reserved for future use (GLSL 4.60, 3.6), then built-in functions and types that the emitter or
  // a reader may mean.
  constexpr std::string_view words =
      "attribute const uniform varying buffer shared coherent volatile restrict readonly writeonly atomic_uint layout "
      "centroid flat smooth noperspective patch sample invariant precise break continue do for while switch case "
      "default "
      "if else subroutine in out inout int void bool true false float double discard return vec2 vec3 vec4 ivec2 ivec3 "
      "ivec4 bvec2 bvec3 bvec4 uint uvec2 uvec3 uvec4 dvec2 dvec3 dvec4 mat2 mat3 mat4 mat2x2 mat2x3 mat2x4 mat3x2 "
      "mat3x3 "
      "mat3x4 mat4x2 mat4x3 mat4x4 dmat2 dmat3 dmat4 lowp mediump highp precision sampler1D sampler2D sampler3D "
      "samplerCube texture texture1D texture2D texture3D image1D image2D image3D struct common partition active asm "
      "class "
      "union enum typedef template this resource goto inline noinline public static extern external interface long "
      "short "
      "half fixed unsigned superp input output hvec2 hvec3 hvec4 fvec2 fvec3 fvec4 filter sizeof cast namespace using "
      "sampler subpassInput demote nonuniformEXT accelerationStructureEXT rayQueryEXT "
      "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float16_t float32_t float64_t u64vec2 u32vec2 "
      "main abs sign floor ceil fract mod min max clamp mix step smoothstep isnan isinf exp exp2 log log2 sqrt "
      "inversesqrt "
      "sin cos tan asin acos atan sinh cosh tanh pow round roundEven trunc fma ldexp frexp modf length distance dot "
      "cross "
      "normalize reflect refract radians degrees any all not equal lessThan greaterThan barrier memoryBarrier "
      "memoryBarrierShared groupMemoryBarrier atomicAdd atomicAnd atomicOr atomicMin atomicMax atomicXor "
      "floatBitsToUint "
      "floatBitsToInt uintBitsToFloat intBitsToFloat unpackHalf2x16 packHalf2x16 unpackUint2x32 packUint2x32 "
      "subgroupShuffle subgroupShuffleXor subgroupAdd subgroupMax subgroupMin determinant transpose inverse "
      "bitCount findLSB findMSB bitfieldExtract bitfieldInsert workgroup_count";
  std::istringstream stream{std::string(words)};
  std::set<std::string, std::less<>> result;
  for (std::string word; stream >> word;) result.insert(word);
  return result;
}

}  // namespace aicf
