#include "runtime/vulkan/spirv_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace aicf::vulkan {
namespace {

// Numbers of the SPIR-V specification, unified1.
constexpr std::uint32_t kMagic = 0x07230203;
enum Opcode : std::uint32_t {
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpFunctionEnd = 56,
  kOpDecorate = 71,
};
constexpr std::uint32_t kGlCompute = 5, kModeLocalSize = 17, kDecorationBinding = 33;
constexpr std::uint32_t kDenormPreserve = 4459, kDenormFlush = 4460, kPreserve = 4461, kRte = 4462, kRtz = 4463;

/// Which device facts a capability needs: all properties named must be non-zero. An empty name is "always there".
struct CapabilityRule {
  std::uint32_t capability;
  const char* name;
  const char* property;
};
constexpr CapabilityRule kCapabilities[] = {
    {0, "Matrix", ""},
    {1, "Shader", ""},
    {9, "Float16", "shader_f16"},
    {10, "Float64", "shader_f64"},
    {11, "Int64", "shader_i64"},
    {22, "Int16", "shader_i16"},
    {39, "Int8", "shader_i8"},
    {50, "ImageQuery", ""},
    {61, "GroupNonUniform", "subgroup_basic"},
    {62, "GroupNonUniformVote", "subgroup_vote"},
    {63, "GroupNonUniformArithmetic", "subgroup_arithmetic"},
    {64, "GroupNonUniformBallot", "subgroup_ballot"},
    {65, "GroupNonUniformShuffle", "subgroup_shuffle"},
    {66, "GroupNonUniformShuffleRelative", "subgroup_shuffle_relative"},
    {67, "GroupNonUniformClustered", "subgroup_clustered"},
    {68, "GroupNonUniformQuad", "subgroup_quad"},
    {4433, "StorageBuffer16BitAccess", "storage_16bit"},
    {4448, "StorageBuffer8BitAccess", "storage_8bit"},
    {4464, "DenormPreserve", "float_controls"},
    {4465, "DenormFlushToZero", "float_controls"},
    {4466, "SignedZeroInfNanPreserve", "float_controls"},
    {4467, "RoundingModeRTE", "float_controls"},
    {4468, "RoundingModeRTZ", "float_controls"},
    {5345, "VulkanMemoryModel", "vulkan_memory_model"},
};

const char* float_mode_property(std::uint32_t mode) {
  switch (mode) {
    case kDenormPreserve:
      return "denorm_preserve";
    case kDenormFlush:
      return "denorm_flush";
    case kPreserve:
      return "signed_zero_inf_nan_preserve";
    case kRte:
      return "rounding_rte";
    default:
      return "rounding_rtz";
  }
}

/// The string literal that starts at `words`, at most `count` words long.
std::string_view literal(const std::uint32_t* words, std::size_t count) {
  const char* text = reinterpret_cast<const char*>(words);
  return {text, strnlen(text, count * 4)};
}

}  // namespace

Result<SpirvSummary> summarise_spirv(std::string_view bytes) {
  if (bytes.size() % 4 != 0 || bytes.size() < 20) {
    return run_failure(fmt::format("the SPIR-V module has {} bytes, which is no whole module", bytes.size()));
  }
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  if (words[0] != kMagic)
    return run_failure(fmt::format("the SPIR-V module starts with {:#010x}, not {:#010x}", words[0], kMagic));

  SpirvSummary summary;
  summary.version = words[1];
  bool entry_point = false;
  std::uint32_t last = 0;
  for (std::size_t at = 5; at < words.size();) {
    const std::uint32_t opcode = words[at] & 0xffff, length = words[at] >> 16;
    if (length == 0 || at + length > words.size()) {
      return run_failure(fmt::format("the SPIR-V module is damaged at word {}", at));
    }
    const std::uint32_t* args = &words[at] + 1;
    switch (opcode) {
      case kOpCapability:
        if (length >= 2) summary.capabilities.push_back(args[0]);
        break;
      case kOpEntryPoint:
        if (length >= 4 && args[0] == kGlCompute && literal(args + 2, length - 3) == "main") entry_point = true;
        break;
      case kOpExecutionMode:
        if (length >= 6 && args[1] == kModeLocalSize) std::copy_n(args + 2, 3, summary.local_size);
        if (length >= 4 && args[1] >= kDenormPreserve && args[1] <= kRtz) {
          summary.float_modes.push_back({args[1], args[2]});
        }
        break;
      case kOpDecorate:
        if (length >= 4 && args[1] == kDecorationBinding) {
          if (args[2] == UINT32_MAX) return run_failure("the SPIR-V module has a binding number out of range");
          summary.bindings = std::max(summary.bindings, args[2] + 1);
        }
        break;
      default:
        break;
    }
    last = opcode;
    at += length;
  }
  if (!entry_point) return run_failure("the SPIR-V module has no compute entry point \"main\"");
  if (last != kOpFunctionEnd) return run_failure("the SPIR-V module ends within a function");
  return summary;
}

Result<void> check_supported(const SpirvSummary& module, const PhysicalDevice& device) {
  const auto property = [&](const std::string& name) {
    const auto found = device.info.properties.find(name);
    return found == device.info.properties.end() ? 0 : found->second;
  };
  const std::uint32_t newest = device.version >= VK_API_VERSION_1_3   ? 0x00010600
                               : device.version >= VK_API_VERSION_1_2 ? 0x00010500
                                                                      : 0x00010300;
  if (module.version > newest) {
    return run_failure(fmt::format("it is SPIR-V {}.{}, the device takes at most {}.{}", module.version >> 16,
                                   module.version >> 8 & 0xff, newest >> 16, newest >> 8 & 0xff));
  }
  for (const std::uint32_t capability : module.capabilities) {
    const auto* rule = std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                                    [&](const auto& r) { return r.capability == capability; });
    if (rule == std::end(kCapabilities)) {
      return run_failure(fmt::format("it needs SPIR-V capability {}, which this driver does not enable", capability));
    }
    if (rule->property[0] && !property(rule->property)) {
      return run_failure(
          fmt::format("it needs SPIR-V capability {}, which the device lacks ({} = 0)", rule->name, rule->property));
    }
  }
  for (const auto& [mode, width] : module.float_modes) {
    const std::string name = fmt::format("{}_f{}", float_mode_property(mode), width);
    if (!property(name)) return run_failure(fmt::format("it needs float control {}, which the device lacks", name));
  }
  return {};
}

}  // namespace aicf::vulkan
