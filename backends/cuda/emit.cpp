#include "backends/cuda/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <sstream>

#include "mir/kernel/print_source.h"

namespace aicf {
namespace {

using Kind = ThreadStatement::Kind;

struct Function {
  std::string_view name, text;
};

// What the prelude lacks. Callees stand before their callers.
constexpr std::array functions = {
    Function{"sign_of", "AICF_DEVICE float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }\n"},
    Function{"floor_mod", R"(
// a - b * floor(a / b); the quotient may be off by one where a / b is rounded.
AICF_DEVICE float floor_mod(float a, float b) {
  float r = aicf_fma(-aicf_floor(a / b), b, a);
  if (r != 0.0f && (r < 0.0f) != (b < 0.0f)) r += b;
  return aicf_abs(r) >= aicf_abs(b) ? r - b : r;
}
)"},
    Function{"power_of_int", R"(
AICF_DEVICE int power_of_int(int a, int b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  unsigned r = 1, square = (unsigned)a;
  for (; b != 0; b >>= 1, square *= square) r *= (b & 1) != 0 ? square : 1u;
  return (int)r;
}
)"},
    Function{"to_int", R"(
// Truncated and saturated; NaN gives 0.
AICF_DEVICE int to_int(float x, int low, int high) {
  return aicf_isnan(x) ? 0 : x <= (float)low ? low : x >= (float)high ? high : (int)x;
}
)"},
    Function{"divide_int", "AICF_DEVICE int divide_int(int a, int b) { return b == 0 ? 0 : a / b; }\n"},
};

std::set<std::string, std::less<>> reserved_words() {
  constexpr std::string_view words =
      "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
      "compl "
      "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default "
      "delete "
      "do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable "
      "namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast "
      "requires return short signed sizeof static static_assert static_cast struct switch template this thread_local "
      "throw "
      "true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq "
      "threadIdx blockIdx blockDim gridDim warpSize half dim3 uint2 uint4 float2 float4 int2 int4 NULL NAN INFINITY "
      "assert "
      "linux unix main workgroup_count";
  std::set<std::string, std::less<>> result;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;) result.insert(word);
  for (const Function& f : functions) result.emplace(f.name);
  return result;
}

void collect_symbols(const ThreadBody& body, std::set<std::string>& symbols, std::set<std::string>& stored,
                     bool& shuffles) {
  for (const ThreadStatement& s : body) {
    for (const Expr& e : {s.index, s.predicate, s.fill, s.lane, s.begin, s.end, s.step}) {
      if (e) symbols.merge(symbols_of(e));
    }
    for (const Expr& e : s.exprs) {
      if (e) symbols.merge(symbols_of(e));
    }
    if (s.kind == Kind::store_global) stored.insert(s.buffer);
    shuffles = shuffles || s.kind == Kind::shuffle || s.kind == Kind::shuffle_xor;
    collect_symbols(s.body, symbols, stored, shuffles);
  }
}

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto part = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), part);
}

/// The type of an element in memory: 16-bit floats are bit patterns.
std::string element_type(DType type) {
  if (device_size(type) == 2) return "unsigned short";
  return is_float(type) ? "float" : "int";
}

class CudaPrinter final : public SourcePrinter {
 public:
  explicit CudaPrinter(const ThreadProgram& program) : SourcePrinter(program, reserved_words()) {
    collect_symbols(program.body, symbols_, stored_, shuffles_);
  }

  std::string print_kernel();

 private:
  std::string type_name(DType type) const override {
    return is_float(type) ? "float" : type == DType::boolean ? "bool" : "int";
  }
  std::string float_constant(double value) override;
  std::string call(const Expr& e, const std::vector<std::string>& args) override;
  std::string cast(DType from, DType to, const std::string& arg) override;
  void print_load(const ThreadStatement& s) override { load(s); }
  void print_store(const ThreadStatement& s) override { store(s); }
  std::string shuffle(const ThreadStatement& s, const std::string& value) override;
  std::string barrier() const override { return "aicf_barrier();"; }

  std::string use(std::string_view function) {
    used_.emplace(function);
    return std::string(function);
  }
  /// "global" or "shared" with the element type and source name of a statement's memory.
  struct Memory {
    const char* space;
    DType type;
    std::string name;
  };
  Memory memory_of(const ThreadStatement& s);
  void load(const ThreadStatement& s);
  void load_part(const ThreadStatement& s, const Memory& m, std::size_t first, std::size_t width);
  void store(const ThreadStatement& s);
  std::string stored_value(DType type, const Expr& e);
  std::string thread_coordinates();
  bool segmented() const { return program().subgroup_size != 32; }

  std::set<std::string> symbols_, stored_;
  std::set<std::string, std::less<>> used_;
  bool shuffles_ = false;
};

std::string CudaPrinter::float_constant(double value) {
  const auto f = static_cast<float>(value);
  if (std::isnan(f)) return "aicf_nan()";
  if (std::isinf(f)) return f < 0 ? "-aicf_inf()" : "aicf_inf()";
  if (f != 0 && std::fabs(f) < 0x1p-126f)
    return fmt::format("aicf_bits_float({:#x}u)", std::bit_cast<std::uint32_t>(f));
  std::string text = fmt::format("{}", f);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string CudaPrinter::call(const Expr& e, const std::vector<std::string>& args) {
  const bool floats = is_float(e.args()[0].type());
  const auto text = [&](const std::string& function) { return fmt::format("{}({})", function, fmt::join(args, ", ")); };
  switch (e.op()) {
    case Op::abs:
      return text("aicf_abs");
    case Op::sign:
      return floats ? text(use("sign_of")) : fmt::format("((({0}) > 0) - (({0}) < 0))", args[0]);
    case Op::exp:
      return text("aicf_exp");
    case Op::log:
      return text("aicf_log");
    case Op::sqrt:
      return text("aicf_sqrt");
    case Op::erf:
      return text("aicf_erf");
    case Op::tanh:
      return text("aicf_tanh");
    case Op::sin:
      return text("aicf_sin");
    case Op::cos:
      return text("aicf_cos");
    case Op::floor:
      return text("aicf_floor");
    case Op::ceil:
      return text("aicf_ceil");
    case Op::round_even:
      return text("aicf_rint");
    case Op::isnan:
      return text("aicf_isnan");
    case Op::isinf:
      return text("aicf_isinf");
    case Op::div:
      return text(use("divide_int"));
    case Op::floordiv:
      return floats ? fmt::format("aicf_floor(({}) / ({}))", args[0], args[1]) : text("aicf_floordiv");
    case Op::mod:
      return floats ? text(use("floor_mod")) : text("aicf_mod");
    case Op::pow:
      return floats ? text("aicf_pow") : text(use("power_of_int"));
    case Op::min:
      return text("aicf_min");
    case Op::max:
      return text("aicf_max");
    case Op::minnum:
      return text(floats ? "aicf_fmin" : "aicf_min");
    case Op::maxnum:
      return text(floats ? "aicf_fmax" : "aicf_max");
    default:
      AICF_BUG(fmt::format("no CUDA C++ for '{}'", op_name(e.op())));
  }
}

std::string CudaPrinter::cast(DType from, DType to, const std::string& arg) {
  if (to == DType::f16 || to == DType::bf16) {
    const std::string_view type = name(to);
    const std::string value = is_float(from) ? arg : fmt::format("(float)({})", arg);
    return fmt::format("aicf_{0}_to_f32(aicf_f32_to_{0}({1}))", type, value);
  }
  if (is_float(to)) return fmt::format("float({})", arg);
  if (!is_float(from)) return fmt::format("int({})", arg);
  const char* range = "-2147483647 - 1, 2147483647";
  switch (to) {
    case DType::i8:
      range = "-128, 127";
      break;
    case DType::u8:
      range = "0, 255";
      break;
    case DType::i16:
      range = "-32768, 32767";
      break;
    case DType::u16:
      range = "0, 65535";
      break;
    case DType::u32:
    case DType::u64:
      range = "0, 2147483647";
      break;
    default:
      break;
  }
  return fmt::format("{}({}, {})", use("to_int"), arg, range);
}

std::string CudaPrinter::shuffle(const ThreadStatement& s, const std::string& value) {
  const bool boolean = s.exprs[0].type() == DType::boolean;
  const std::string word = boolean ? fmt::format("int({})", value) : value;
  std::string result;
  if (s.kind == Kind::shuffle_xor) {
    result = fmt::format("aicf_shuffle_xor({}, {})", word, s.mask);
  } else {
    const std::string lane = segmented() ? fmt::format("aicf_first_lane + ({})", text(s.lane)) : text(s.lane);
    result = fmt::format("aicf_shuffle({}, {})", word, lane);
  }
  return boolean ? result + " != 0" : result;
}

// ---- memory ------------------------------------------------------------------------------------------------------

CudaPrinter::Memory CudaPrinter::memory_of(const ThreadStatement& s) {
  if (s.kind == Kind::load_global || s.kind == Kind::store_global) {
    return {"global", buffer_of(s).type, buffer(s.buffer)};
  }
  return {"shared", shared_of(s).type, shared(s.buffer)};
}

/// One load of 1, 2 or 4 elements.
void CudaPrinter::load_part(const ThreadStatement& s, const Memory& m, std::size_t first, std::size_t width) {
  const std::string index = text(s.index + Expr(static_cast<std::int64_t>(first)));
  const bool half = device_size(m.type) == 2;
  const auto convert = [&](const std::string& bits) { return fmt::format("aicf_{}_to_f32({})", name(m.type), bits); };
  if (width == 1) {
    const std::string value = fmt::format("aicf_ld_{}({}, {})", m.space, m.name, index);
    return line(loaded(m.type, s.names[first], half ? convert(value) : value));
  }
  std::vector<std::string> targets;
  if (!half && is_float(m.type)) {
    for (std::size_t e = first; e < first + width; ++e) targets.push_back(variable(s.names[e]));
    return line(fmt::format("aicf_ld_{}{}({}, {}, {});", m.space, width, m.name, index, fmt::join(targets, ", ")));
  }
  for (std::size_t e = 0; e < width; ++e) targets.push_back(fmt::format("aicf_e{}", e));
  width == s.names.size() ? open_access() : open("");
  line(fmt::format("{} {};", element_type(m.type), fmt::join(targets, ", ")));
  line(fmt::format("aicf_ld_{}{}({}, {}, {});", m.space, width, m.name, index, fmt::join(targets, ", ")));
  std::vector<std::string> statements;
  for (std::size_t e = 0; e < width; ++e) {
    statements.push_back(loaded(m.type, s.names[first + e], half ? convert(targets[e]) : targets[e]));
  }
  lines(statements);
  width == s.names.size() ? close_access() : close();
}

void CudaPrinter::load(const ThreadStatement& s) {
  const Memory m = memory_of(s);
  const std::size_t width = s.names.size();
  if (device_size(m.type) == 2 && width >= 8) {
    // 16 bytes at once, as four words of two elements.
    for (std::size_t first = 0; first < width; first += 8) {
      open("");
      line("unsigned aicf_w0, aicf_w1, aicf_w2, aicf_w3;");
      line(fmt::format("aicf_ld_{}4((const unsigned*){}, {}, aicf_w0, aicf_w1, aicf_w2, aicf_w3);", m.space, m.name,
                       vector_index(s.index + Expr(static_cast<std::int64_t>(first)), 2)));
      std::vector<std::string> statements;
      for (std::size_t e = 0; e < 8; ++e) {
        const std::string value =
            fmt::format("aicf_{}_to_f32(aicf_{}(aicf_w{}))", name(m.type), e % 2 ? "hi" : "lo", e / 2);
        statements.push_back(loaded(m.type, s.names[first + e], value));
      }
      lines(statements);
      close();
    }
    return;
  }
  const std::size_t part = std::min<std::size_t>(width, 4);
  for (std::size_t first = 0; first < width; first += part) load_part(s, m, first, part);
}

std::string CudaPrinter::stored_value(DType type, const Expr& e) {
  if (device_size(type) == 2) return fmt::format("aicf_f32_to_{}({})", name(type), text(e));
  return is_float(type) ? text(e) : stored_integer(e);
}

void CudaPrinter::store(const ThreadStatement& s) {
  const Memory m = memory_of(s);
  const std::size_t width = s.exprs.size();
  if (device_size(m.type) == 2 && width >= 8) {
    for (std::size_t first = 0; first < width; first += 8) {
      std::vector<std::string> words;
      for (std::size_t e = first; e < first + 8; e += 2) {
        words.push_back(fmt::format("aicf_pack_{}({}, {})", name(m.type), text(s.exprs[e]), text(s.exprs[e + 1])));
      }
      line(fmt::format("aicf_st_{}4((unsigned*){}, {}, {});", m.space, m.name,
                       vector_index(s.index + Expr(static_cast<std::int64_t>(first)), 2), fmt::join(words, ", ")));
    }
    return;
  }
  const std::size_t part = std::min<std::size_t>(width, 4);
  for (std::size_t first = 0; first < width; first += part) {
    std::vector<std::string> values;
    for (std::size_t e = first; e < first + part; ++e) values.push_back(stored_value(m.type, s.exprs[e]));
    line(fmt::format("aicf_st_{}{}({}, {}, {});", m.space, part == 1 ? "" : std::to_string(part), m.name,
                     text(s.index + Expr(static_cast<std::int64_t>(first))), fmt::join(values, ", ")));
  }
}

// ---- the kernel --------------------------------------------------------------------------------------------------

std::string CudaPrinter::thread_coordinates() {
  const int size = program().subgroup_size;
  std::string out;
  const auto define = [&](const char* what, const std::string& value) {
    if (symbols_.contains(what)) out += fmt::format("  const int {} = {};\n", symbol(what), value);
  };
  if (!segmented()) {
    define("lane", "aicf_lane()");
    define("subgroup", program().subgroups == 1 ? "0" : "aicf_subgroup()");
    return out;
  }
  define("lane", fmt::format("aicf_thread() % {}", size));
  define("subgroup", fmt::format("aicf_thread() / {}", size));
  if (shuffles_) out += fmt::format("  const int aicf_first_lane = aicf_lane() - aicf_lane() % {};\n", size);
  return out;
}

std::string CudaPrinter::print_kernel() {
  const ThreadProgram& p = program();
  AICF_CHECK(p.subgroup_size > 0 && 32 % p.subgroup_size == 0, "a CUDA kernel's subgroup size divides 32");
  AICF_CHECK(is_identifier(p.name), "the kernel's name must be an identifier: " + p.name);
  const std::string body = print_program_body();
  std::string out = header_comment();
  for (const Function& f : functions) {
    if (used_.contains(f.name)) out += f.text;
  }
  std::vector<std::string> parameters;
  for (const KernelBuffer& b : p.buffers) {
    const bool stored = stored_.contains(b.name);
    parameters.push_back(
        fmt::format("{}{}* __restrict__ {}", stored ? "" : "const ", element_type(b.type), buffer(b.name)));
  }
  for (const std::string& s : p.symbols) parameters.push_back("int " + symbol(s));
  parameters.push_back("int workgroup_count");
  out += fmt::format("\nextern \"C\" __global__ void AICF_LAUNCH_BOUNDS({}, 1)\n{}({}) {{\n",
                     p.subgroup_size * p.subgroups, p.name, fmt::join(parameters, ", "));
  const std::string& workgroup = symbol("workgroup");
  out += fmt::format("  const int {0} = aicf_workgroup();\n  if ({0} >= workgroup_count) return;\n", workgroup);
  out += thread_coordinates();
  for (const SharedArray& a : p.shared) {
    out += fmt::format("  AICF_SHARED({}, {}, {});\n", element_type(a.type), shared(a.name), a.byte_offset);
  }
  return out + body + "}\n";
}

}  // namespace

std::string emit_cuda(const ThreadProgram& program) {
  return CudaPrinter(program).print_kernel();
}

}  // namespace aicf
