#include "backends/vulkan/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/vulkan/glsl_functions.h"
#include "mir/kernel/print_source.h"

namespace aicf {
namespace {

using Kind = ThreadStatement::Kind;

/// What the whole program needs of one buffer or shared array.
struct Use {
  bool loaded = false, stored = false, scalar_stored = false;
  std::int64_t least_width = 16;
};

/// Everything that is decided by looking at the program once.
struct Facts {
  std::map<std::string, Use> buffers, shared;
  bool shuffles = false;
  std::set<std::string> symbols;
};

void collect(const ThreadBody& body, Facts& facts) {
  for (const ThreadStatement& s : body) {
    const bool load = s.kind == Kind::load_global || s.kind == Kind::load_shared;
    const bool global = s.kind == Kind::load_global || s.kind == Kind::store_global;
    if (load || s.kind == Kind::store_global || s.kind == Kind::store_shared) {
      Use& use = (global ? facts.buffers : facts.shared)[s.buffer];
      const auto width = static_cast<std::int64_t>(load ? s.names.size() : s.exprs.size());
      (load ? use.loaded : use.stored) = true;
      use.scalar_stored = use.scalar_stored || (!load && width == 1);
      use.least_width = std::min(use.least_width, width);
    }
    facts.shuffles = facts.shuffles || s.kind == Kind::shuffle || s.kind == Kind::shuffle_xor;
    for (const Expr& e : {s.index, s.predicate, s.fill, s.lane, s.begin, s.end, s.step}) {
      if (e) facts.symbols.merge(symbols_of(e));
    }
    for (const Expr& e : s.exprs) {
      if (e) facts.symbols.merge(symbols_of(e));
    }
    collect(s.body, facts);
  }
}

bool is_16bit(DType type) {
  return device_size(type) == 2;
}

constexpr const char* component = "xyzw";

class GlslPrinter final : public SourcePrinter {
 public:
  GlslPrinter(const ThreadProgram& program, const GlslOptions& options)
      : SourcePrinter(program, glsl_reserved_words()),
        options_(options),
        functions_(options.signed_zero_inf_nan_preserve) {
    collect(program.body, facts_);
  }

  std::string print_kernel();

 private:
  std::string type_name(DType type) const override {
    return is_float(type) ? "float" : type == DType::boolean ? "bool" : "int";
  }
  std::string float_constant(double value) override;
  std::string call(const Expr& e, const std::vector<std::string>& args) override;
  std::string cast(DType from, DType to, const std::string& arg) override;
  std::string with_zero(Op op, int zero, const std::string& other, bool negative_zero) override {
    const char* name = op == Op::mul ? "aicf_times_zero" : zero == 1 ? "aicf_over_zero" : "aicf_zero_over";
    return fmt::format("{}({}, {})", functions_.use(name), other, negative_zero ? "0x80000000u" : "0u");
  }
  void print_load(const ThreadStatement& s) override;
  void print_store(const ThreadStatement& s) override;
  std::string shuffle(const ThreadStatement& s, const std::string& value) override;
  std::string barrier() const override { return "barrier();"; }

  // Global memory: one declaration of a binding for each element type that accesses need.
  std::string view(const std::string& buffer_name, const std::string& element, std::int64_t width);
  void load_words(const ThreadStatement& s, std::size_t first, std::int64_t width, const std::string& words);
  void load_16bit_scalar(const ThreadStatement& s);
  void store_16bit_scalar(const ThreadStatement& s);
  std::string pair(DType type, const Expr& low, const Expr& high);
  std::string half_value(DType type, const std::string& bits) {
    return fmt::format("{}({})", functions_.use(type == DType::bf16 ? "aicf_bf16_value" : "aicf_f16_value"), bits);
  }

  // Workgroup memory.
  std::int64_t shared_width(const SharedArray& a) const;
  bool shared_is_packed(const SharedArray& a) const { return is_16bit(a.type) && shared_width(a) > 1; }
  void load_shared(const ThreadStatement& s);
  void store_shared(const ThreadStatement& s);
  std::string shared_declarations();
  std::string thread_coordinates() const;

  int lanes() const { return program().subgroup_size; }
  bool segmented() const { return facts_.shuffles && options_.device_subgroup_size > lanes(); }

  const GlslOptions& options_;
  GlslFunctions functions_;
  Facts facts_;
  std::map<std::pair<std::string, std::string>, std::string> views_;  ///< (buffer, element type) to name
  std::string declarations_;                                          ///< in order of first use
  bool int64_ = false, storage16_ = false;
};

std::string GlslPrinter::float_constant(double value) {
  const auto f = static_cast<float>(value);
  if (std::isnan(f)) return functions_.use("aicf_nan");
  if (std::isinf(f)) return (f < 0 ? "-" : "") + functions_.use("aicf_inf");
  // Compilers may flush subnormal literals.
  if (f != 0 && std::fabs(f) < 0x1p-126f)
    return fmt::format("uintBitsToFloat({:#x}u)", std::bit_cast<std::uint32_t>(f));
  std::string text = fmt::format("{}", f);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string GlslPrinter::call(const Expr& e, const std::vector<std::string>& args) {
  const bool floats = is_float(e.args()[0].type());
  const auto text = [&](const std::string& function) { return fmt::format("{}({})", function, fmt::join(args, ", ")); };
  const auto own = [&](const char* function) { return text(functions_.use(function)); };
  switch (e.op()) {
    case Op::abs:
      return text("abs");
    case Op::sign:
      return floats ? own("aicf_sign") : text("sign");
    case Op::exp:
      return text("exp");
    case Op::log:
      return text("log");
    case Op::sqrt:
      return text("sqrt");
    case Op::erf:
      return own("aicf_erf");
    case Op::tanh:
      return own("aicf_tanh");
    case Op::sin:
      return fmt::format("{}({}, 0)", functions_.use("aicf_sincos"), args[0]);
    case Op::cos:
      return fmt::format("{}({}, 1)", functions_.use("aicf_sincos"), args[0]);
    case Op::floor:
      return text("floor");
    case Op::ceil:
      return text("ceil");
    case Op::round_even:
      return text("roundEven");
    case Op::isnan:
      return own("aicf_isnan");
    case Op::isinf:
      return own("aicf_isinf");
    case Op::div:
      return fmt::format("({} / {})", "(" + args[0] + ")", "(" + args[1] + ")");
    case Op::floordiv:
      return floats ? fmt::format("floor(({}) / ({}))", args[0], args[1]) : own("aicf_floordiv_int");
    case Op::mod:
      return own(floats ? "aicf_floormod" : "aicf_floormod_int");
    case Op::pow:
      return own(floats ? "aicf_pow" : "aicf_pow_int");
    case Op::min:
      return floats ? own("aicf_min") : text("min");
    case Op::max:
      return floats ? own("aicf_max") : text("max");
    case Op::minnum:
      return floats ? own("aicf_minnum") : text("min");
    case Op::maxnum:
      return floats ? own("aicf_maxnum") : text("max");
    default:
      AICF_BUG(fmt::format("no GLSL for '{}'", op_name(e.op())));
  }
}

std::string GlslPrinter::cast(DType from, DType to, const std::string& arg) {
  if (to == DType::f16 || to == DType::bf16) {
    const std::string round = functions_.use(to == DType::f16 ? "aicf_round_f16" : "aicf_round_bf16");
    return is_float(from) ? fmt::format("{}({})", round, arg) : fmt::format("{}(float({}))", round, arg);
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
  return fmt::format("{}({}, {})", functions_.use("aicf_to_int"), arg, range);
}

std::string GlslPrinter::shuffle(const ThreadStatement& s, const std::string& value) {
  if (s.kind == Kind::shuffle_xor) return fmt::format("subgroupShuffleXor({}, {}u)", value, s.mask);
  const auto constant = s.lane.as_int();
  std::string lane = constant ? fmt::format("{}u", *constant) : fmt::format("uint({})", text(s.lane));
  // Several of the program's subgroups may share one of the device's.
  if (segmented()) lane = "aicf_first_lane + " + lane;
  return fmt::format("subgroupShuffle({}, {})", value, lane);
}

// ---- global memory -----------------------------------------------------------------------------------------------

std::string GlslPrinter::view(const std::string& buffer_name, const std::string& element, std::int64_t width) {
  const Use& use = facts_.buffers.at(buffer_name);
  const auto [entry, added] = views_.try_emplace({buffer_name, element});
  if (!added) return entry->second;
  // Accesses of another width see the same memory through a declaration of their own.
  const std::string name =
      width == 1 ? buffer(buffer_name) : names().fresh(fmt::format("{}_x{}", buffer(buffer_name), width));
  entry->second = name;
  std::size_t binding = 0;
  while (program().buffers[binding].name != buffer_name) ++binding;
  // Views of a binding alias each other, which "restrict" would deny where one is written.
  const bool atomic = use.scalar_stored && is_16bit(program().buffers[binding].type) && !options_.storage_16bit;
  const char* access = !use.stored ? "restrict readonly " : use.loaded || atomic ? "" : "writeonly ";
  declarations_ += fmt::format("layout(std430, set = 0, binding = {}) {}buffer aicf_{} {{ {} {}[]; }};\n", binding,
                               access, name, element, name);
  return name;
}

/// The elements of one access of `width` · element size ≤ 16 bytes, from variable `words` (uint, uvec2, uvec4, or their
/// u64 forms, which are split here).
void GlslPrinter::load_words(const ThreadStatement& s, std::size_t first, std::int64_t width,
                             const std::string& words) {
  const KernelBuffer& b = buffer_of(s);
  const std::int64_t bytes = width * static_cast<std::int64_t>(device_size(b.type));
  const std::int64_t count = bytes / 4;
  const bool u64 = options_.wide_loads_u64 && count > 1;
  if (u64) {
    for (std::int64_t pair = 0; pair < count / 2; ++pair) {
      const std::string half = count == 2 ? words : fmt::format("{}.{}", words, component[pair]);
      line(fmt::format("const uvec2 {}_{} = unpackUint2x32({});", words, pair, half));
    }
  }
  const auto word = [&](std::int64_t w) {
    if (u64) return fmt::format("{}_{}.{}", words, w / 2, component[w % 2]);
    return count == 1 ? words : fmt::format("{}.{}", words, component[w]);
  };
  std::vector<std::string> statements;
  for (std::int64_t e = 0; e < width; ++e) {
    const bool half = is_16bit(b.type);
    const std::string w = word(half ? e / 2 : e);
    std::string value;
    if (b.type == DType::bf16) {
      value = fmt::format("uintBitsToFloat({})", e % 2 ? w + " & 0xffff0000u" : w + " << 16");
    } else if (half) {
      value = fmt::format("unpackHalf2x16({}).{}", w, component[e % 2]);
    } else {
      value = fmt::format("{}({})", is_float(b.type) ? "uintBitsToFloat" : "int", w);
    }
    statements.push_back(loaded(b.type, s.names[first + static_cast<std::size_t>(e)], value));
  }
  lines(statements);
}

void GlslPrinter::print_load(const ThreadStatement& s) {
  if (s.kind == Kind::load_shared) return load_shared(s);
  const KernelBuffer& b = buffer_of(s);
  const auto size = static_cast<std::int64_t>(device_size(b.type));
  const auto width = static_cast<std::int64_t>(s.names.size());
  if (width == 1) {
    if (is_16bit(b.type)) return load_16bit_scalar(s);
    const std::string value =
        fmt::format("{}[{}]", view(s.buffer, type_name(device_storage(b.type)), 1), text(s.index));
    return line(loaded(b.type, s.names[0], value));
  }
  const std::int64_t chunk = std::min(width, 16 / size);
  const std::int64_t words = chunk * size / 4;
  const bool u64 = options_.wide_loads_u64 && words > 1;
  int64_ = int64_ || u64;
  const bool scope = chunk < width;  // each part names its vector alike
  for (std::int64_t first = 0; first < width; first += chunk) {
    const std::string index = vector_index(s.index + Expr(first), chunk);
    scope ? open("") : open_access();
    if (u64 || is_16bit(b.type)) {
      const std::string element = u64          ? (words == 2 ? "uint64_t" : "u64vec2")
                                  : words == 1 ? "uint"
                                               : fmt::format("uvec{}", words);
      line(fmt::format("const {} aicf_v = {}[{}];", element, view(s.buffer, element, chunk), index));
      load_words(s, static_cast<std::size_t>(first), chunk, "aicf_v");
    } else {
      const std::string element = fmt::format("{}vec{}", is_float(b.type) ? "" : "i", chunk);
      line(fmt::format("const {} aicf_v = {}[{}];", element, view(s.buffer, element, chunk), index));
      std::vector<std::string> statements;
      for (std::int64_t e = 0; e < chunk; ++e) {
        statements.push_back(
            loaded(b.type, s.names[static_cast<std::size_t>(first + e)], fmt::format("aicf_v.{}", component[e])));
      }
      lines(statements);
    }
    scope ? close() : close_access();
  }
}

void GlslPrinter::load_16bit_scalar(const ThreadStatement& s) {
  const DType type = buffer_of(s).type;
  const std::string& name = variable(s.names[0]);
  if (options_.storage_16bit) {
    storage16_ = true;
    const std::string bits = fmt::format("uint({}[{}])", view(s.buffer, "uint16_t", 1), text(s.index));
    return line(fmt::format("{} = {};", name, half_value(type, bits)));
  }
  open_access();
  line(fmt::format("const int aicf_i = {};", text(s.index)));
  const std::string words = view(s.buffer, "uint", 2);
  line(fmt::format("{} = {};", name,
                   half_value(type, fmt::format("({}[aicf_i >> 1] >> ((aicf_i & 1) << 4)) & 0xffffu", words))));
  close_access();
}

void GlslPrinter::store_16bit_scalar(const ThreadStatement& s) {
  const DType type = buffer_of(s).type;
  const std::string bits =
      fmt::format("{}({})", functions_.use(type == DType::bf16 ? "aicf_bf16_bits" : "aicf_f16_bits"), text(s.exprs[0]));
  if (options_.storage_16bit) {
    storage16_ = true;
    return line(fmt::format("{}[{}] = uint16_t({});", view(s.buffer, "uint16_t", 1), text(s.index), bits));
  }
  // The other half of the word may be another thread's. Its bits take part in neither operation, so the result does not
  // depend on their order.
  open_access();
  line(fmt::format("const int aicf_i = {};", text(s.index)));
  const std::string words = view(s.buffer, "uint", 2);
  line(fmt::format("atomicAnd({}[aicf_i >> 1], 0xffff0000u >> ((aicf_i & 1) << 4));", words));
  line(fmt::format("atomicOr({}[aicf_i >> 1], {} << ((aicf_i & 1) << 4));", words, bits));
  close_access();
}

std::string GlslPrinter::pair(DType type, const Expr& low, const Expr& high) {
  const std::string function = functions_.use(type == DType::bf16 ? "aicf_bf16_pair" : "aicf_f16_pair");
  return fmt::format("{}({}, {})", function, text(low), text(high));
}

void GlslPrinter::print_store(const ThreadStatement& s) {
  if (s.kind == Kind::store_shared) return store_shared(s);
  const KernelBuffer& b = buffer_of(s);
  const auto size = static_cast<std::int64_t>(device_size(b.type));
  const auto width = static_cast<std::int64_t>(s.exprs.size());
  const auto value = [&](std::int64_t e) {
    const Expr& x = s.exprs[static_cast<std::size_t>(e)];
    return is_float(b.type) ? text(x) : stored_integer(x);
  };
  if (width == 1) {
    if (is_16bit(b.type)) return store_16bit_scalar(s);
    return line(
        fmt::format("{}[{}] = {};", view(s.buffer, type_name(device_storage(b.type)), 1), text(s.index), value(0)));
  }
  const std::int64_t chunk = std::min(width, 16 / size);
  for (std::int64_t first = 0; first < width; first += chunk) {
    const std::string index = vector_index(s.index + Expr(first), chunk);
    std::vector<std::string> values;
    std::string element;
    if (is_16bit(b.type)) {
      for (std::int64_t e = first; e < first + chunk; e += 2) {
        values.push_back(pair(b.type, s.exprs[static_cast<std::size_t>(e)], s.exprs[static_cast<std::size_t>(e + 1)]));
      }
      element = values.size() == 1 ? "uint" : fmt::format("uvec{}", values.size());
    } else {
      for (std::int64_t e = first; e < first + chunk; ++e) values.push_back(value(e));
      element = fmt::format("{}vec{}", is_float(b.type) ? "" : "i", chunk);
    }
    const std::string target = fmt::format("{}[{}]", view(s.buffer, element, chunk), index);
    line(values.size() == 1 ? fmt::format("{} = {};", target, values[0])
                            : fmt::format("{} = {}({});", target, element, fmt::join(values, ", ")));
  }
}

// ---- workgroup memory --------------------------------------------------------------------------------------------

/// Elements of one access to a shared array, the same for all: what the narrowest statement moves, at most 16 bytes.
std::int64_t GlslPrinter::shared_width(const SharedArray& a) const {
  const auto use = facts_.shared.find(a.name);
  if (use == facts_.shared.end()) return 1;
  return std::min(use->second.least_width, 16 / static_cast<std::int64_t>(device_size(a.type)));
}

void GlslPrinter::load_shared(const ThreadStatement& s) {
  const SharedArray& a = shared_of(s);
  const std::int64_t chunk = shared_width(a);
  const std::string& name = shared(a.name);
  const bool packed = shared_is_packed(a);
  for (std::int64_t first = 0; first < static_cast<std::int64_t>(s.names.size()); first += chunk) {
    const std::string access = fmt::format("{}[{}]", name, vector_index(s.index + Expr(first), chunk));
    if (chunk == 1) {
      line(loaded(a.type, s.names[static_cast<std::size_t>(first)], access));
      continue;
    }
    const std::string element = packed ? (chunk == 2 ? "uint" : fmt::format("uvec{}", chunk / 2))
                                       : fmt::format("{}vec{}", is_float(a.type) ? "" : "i", chunk);
    open("");
    line(fmt::format("const {} aicf_v = {};", element, access));
    std::vector<std::string> statements;
    for (std::int64_t e = 0; e < chunk; ++e) {
      std::string value = fmt::format("aicf_v.{}", component[packed ? e / 2 : e]);
      if (packed) {
        const std::string word = chunk == 2 ? "aicf_v" : value;
        value = half_value(a.type, e % 2 ? word + " >> 16" : word + " & 0xffffu");
      }
      statements.push_back(loaded(a.type, s.names[static_cast<std::size_t>(first + e)], value));
    }
    lines(statements);
    close();
  }
}

void GlslPrinter::store_shared(const ThreadStatement& s) {
  const SharedArray& a = shared_of(s);
  const std::int64_t chunk = shared_width(a);
  for (std::int64_t first = 0; first < static_cast<std::int64_t>(s.exprs.size()); first += chunk) {
    std::vector<std::string> values;
    for (std::int64_t e = first; e < first + chunk; ++e) {
      const Expr& x = s.exprs[static_cast<std::size_t>(e)];
      if (shared_is_packed(a)) {
        values.push_back(pair(a.type, x, s.exprs[static_cast<std::size_t>(++e)]));
      } else if (is_16bit(a.type)) {
        values.push_back(text(Expr::cast(x, a.type)));
      } else {
        values.push_back(is_float(a.type) ? text(x) : stored_integer(x));
      }
    }
    const std::string target = fmt::format("{}[{}]", shared(a.name), vector_index(s.index + Expr(first), chunk));
    const char* vector = shared_is_packed(a) ? "uvec" : is_float(a.type) ? "vec" : "ivec";
    line(values.size() == 1 ? fmt::format("{} = {};", target, values[0])
                            : fmt::format("{} = {}{}({});", target, vector, values.size(), fmt::join(values, ", ")));
  }
}

std::string GlslPrinter::shared_declarations() {
  std::string out;
  for (const SharedArray& a : program().shared) {
    const std::int64_t width = shared_width(a);
    std::string element = is_float(a.type) ? "float" : "int";
    std::string note;
    if (shared_is_packed(a)) {
      element = width == 2 ? "uint" : fmt::format("uvec{}", width / 2);
      note = fmt::format("  // {} pairs", name(a.type));
    } else if (width > 1) {
      element = fmt::format("{}vec{}", is_float(a.type) ? "" : "i", width);
    } else if (is_16bit(a.type)) {
      note = fmt::format("  // {} values, accessed one at a time", name(a.type));
    }
    out += fmt::format("shared {} {}[{}];{}\n", element, shared(a.name), (a.elements + width - 1) / width, note);
  }
  return out;
}

// ---- the kernel --------------------------------------------------------------------------------------------------

std::string GlslPrinter::thread_coordinates() const {
  auto* self = const_cast<GlslPrinter*>(this);
  const int size = lanes(), count = program().subgroups;
  std::string out;
  const auto define = [&](const char* what, const std::string& value) {
    if (facts_.symbols.contains(what)) out += fmt::format("  const int {} = int({});\n", self->symbol(what), value);
  };
  const bool power = std::has_single_bit(static_cast<unsigned>(size));
  const auto low = [&](const char* id) {
    return power ? fmt::format("{} & {}u", id, size - 1) : fmt::format("{} % {}u", id, size);
  };
  if (!facts_.shuffles) {
    const char* id = "gl_LocalInvocationIndex";
    define("lane", count == 1 ? id : low(id));
    define("subgroup", count == 1 ? "0" : fmt::format("{} / {}u", id, size));
  } else if (!segmented()) {
    define("lane", "gl_SubgroupInvocationID");
    define("subgroup", count == 1 ? "0" : "gl_SubgroupID");
  } else {
    const char* id = "gl_SubgroupInvocationID";
    define("lane", low(id));
    define("subgroup", fmt::format("gl_SubgroupID * {}u + {} / {}u", options_.device_subgroup_size / size, id, size));
    out += fmt::format("  const uint aicf_first_lane = {} - ({});\n", id, low(id));
  }
  return out;
}

std::string GlslPrinter::print_kernel() {
  const std::string body = print_program_body();
  const std::string shared_arrays = shared_declarations();
  std::string out = "#version 450\n";
  const auto extension = [&](bool needed, const char* name) {
    if (needed) out += fmt::format("#extension {} : require\n", name);
  };
  const bool preserve = options_.signed_zero_inf_nan_preserve;
  extension(facts_.shuffles, "GL_KHR_shader_subgroup_basic");
  extension(facts_.shuffles, "GL_KHR_shader_subgroup_shuffle");
  extension(int64_, "GL_EXT_shader_explicit_arithmetic_types_int64");
  extension(storage16_, "GL_EXT_shader_16bit_storage");
  extension(preserve || functions_.uses_spirv_instructions(), "GL_EXT_spirv_intrinsics");
  out += "\n" + header_comment() + "\n";
  if (preserve) {
    out +=
        "// SignedZeroInfNanPreserve for 32-bit floats.\n"
        "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);\n";
  }
  out += fmt::format("layout(local_size_x = {}) in;\n", lanes() * program().subgroups);
  out += declarations_;
  out += "layout(push_constant) uniform aicf_parameters {";
  for (const std::string& s : program().symbols) out += fmt::format(" int {};", symbol(s));
  out += " int workgroup_count; };\n" + shared_arrays;
  out += functions_.definitions();
  const std::string& workgroup = symbol("workgroup");
  out += fmt::format(
      "\nvoid main() {{\n"
      "  // A large grid is folded into three dimensions; what is left over of the last one returns, as a whole "
      "workgroup.\n"
      "  const int {0} = int(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * "
      "gl_WorkGroupID.z));\n"
      "  if ({0} >= workgroup_count) return;\n",
      workgroup);
  return out + thread_coordinates() + body + "}\n";
}

}  // namespace

std::string emit_glsl(const ThreadProgram& program, const GlslOptions& options) {
  return GlslPrinter(program, options).print_kernel();
}

bool uses_subgroups(const ThreadProgram& program) {
  Facts facts;
  collect(program.body, facts);
  return facts.shuffles;
}

}  // namespace aicf
