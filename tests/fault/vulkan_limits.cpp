#include "tests/fault/vulkan_limits.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace aicf::fault {

namespace {

/// Sets `name`, never above what the device has (alignments: never below). False where there is no such limit.
bool set(VkPhysicalDeviceLimits& limits, std::string_view name, std::uint64_t value) {
  const auto cut = [&](auto& limit) {
    limit = static_cast<std::remove_reference_t<decltype(limit)>>(std::min<std::uint64_t>(limit, value));
  };
#define LIMIT(member) \
  if (name == #member) return cut(limits.member), true
#define LIMITS(member) \
  if (name == #member) return std::ranges::for_each(limits.member, cut), true
  LIMIT(maxComputeSharedMemorySize);
  LIMIT(maxComputeWorkGroupInvocations);
  LIMITS(maxComputeWorkGroupSize);
  LIMITS(maxComputeWorkGroupCount);
  LIMIT(maxPerStageDescriptorStorageBuffers);
  LIMIT(maxPerStageResources);
  LIMIT(maxStorageBufferRange);
  LIMIT(maxPushConstantsSize);
#undef LIMIT
#undef LIMITS
  if (name != "minStorageBufferOffsetAlignment") return false;
  limits.minStorageBufferOffsetAlignment = std::max<VkDeviceSize>(limits.minStorageBufferOffsetAlignment, value);
  return true;
}

constexpr std::pair<const char*, std::uint64_t> minimum[] = {
    {"maxComputeSharedMemorySize", 16384},      {"maxComputeWorkGroupInvocations", 128},
    {"maxComputeWorkGroupSize", 128},           {"maxComputeWorkGroupCount", 65535},
    {"maxPerStageDescriptorStorageBuffers", 4}, {"maxPerStageResources", 128},
    {"maxStorageBufferRange", 1 << 27},         {"maxPushConstantsSize", 128},
    {"minStorageBufferOffsetAlignment", 256}};

[[noreturn]] void unknown(std::string_view word) {
  std::fprintf(stderr, "AICF_LIMITS: '%.*s' is not known\n", static_cast<int>(word.size()), word.data());
  std::abort();
}

/// Calls `with` for each word.
template <class With>
void words(With with) {
  const char* text = std::getenv("AICF_LIMITS");
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    with(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

/// All members of the structure of a chain with this type, where it is there, as if the device had none of them.
template <class T>
void clear(void* chain, VkStructureType type) {
  for (auto* s = static_cast<VkBaseOutStructure*>(chain); s; s = s->pNext) {
    if (s->sType != type) continue;
    auto* found = reinterpret_cast<T*>(s);
    void* next = found->pNext;
    *found = T{};
    found->sType = type;
    found->pNext = next;
  }
}

#define CLEAR(chain, structure, TYPE) clear<structure>(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##TYPE)

}  // namespace

void cut_down(VkPhysicalDeviceProperties2& properties) {
  words([&](std::string_view word) {
    if (word == "minimum") {
      for (const auto& [name, value] : minimum) set(properties.properties.limits, name, value);
      CLEAR(properties.pNext, VkPhysicalDeviceFloatControlsProperties, FLOAT_CONTROLS_PROPERTIES);
      return;
    }
    const auto equals = word.find('=');
    std::uint64_t value = 0;
    if (equals == std::string_view::npos ||
        std::from_chars(word.data() + equals + 1, word.data() + word.size(), value).ptr != word.data() + word.size() ||
        !set(properties.properties.limits, word.substr(0, equals), value))
      unknown(word);
  });
}

void cut_down(VkPhysicalDeviceFeatures2& features) {
  words([&](std::string_view word) {
    if (word != "minimum") return;
    features.features = {};
    features.features.robustBufferAccess = VK_TRUE;  // every device has it
    CLEAR(features.pNext, VkPhysicalDevice16BitStorageFeatures, 16BIT_STORAGE_FEATURES);
    CLEAR(features.pNext, VkPhysicalDevice8BitStorageFeatures, 8BIT_STORAGE_FEATURES);
    CLEAR(features.pNext, VkPhysicalDeviceShaderFloat16Int8Features, SHADER_FLOAT16_INT8_FEATURES);
    CLEAR(features.pNext, VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures, SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES);
    CLEAR(features.pNext, VkPhysicalDeviceSubgroupSizeControlFeatures, SUBGROUP_SIZE_CONTROL_FEATURES);
    CLEAR(features.pNext, VkPhysicalDeviceScalarBlockLayoutFeatures, SCALAR_BLOCK_LAYOUT_FEATURES);
    CLEAR(features.pNext, VkPhysicalDeviceVulkanMemoryModelFeatures, VULKAN_MEMORY_MODEL_FEATURES);
  });
}

}  // namespace aicf::fault
