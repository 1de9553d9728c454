#pragma once

// What one physical device can do: read once, kept as plain data, and the source of DeviceInfo::properties.

#include <string>
#include <vector>

#include "runtime/driver.h"
#include "runtime/vulkan/instance.h"

namespace aicf::vulkan {

/// The feature structures that AICF reads, and enables exactly as read.
struct Features {
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDevice16BitStorageFeatures storage16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features narrow{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures subgroup_types{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceScalarBlockLayoutFeatures scalar_layout{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::uint32_t version = 0;  ///< min(the device's, the instance's)
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceSubgroupSizeControlProperties
      subgroup_control{};  ///< min = max = the only size without the extension
  VkPhysicalDeviceFloatControlsProperties float_controls{};
  VkPhysicalDeviceMaintenance3Properties allocation{};
  VkPhysicalDeviceMemoryProperties memory{};
  Features features;                    ///< pNext pointers are null: link_features() sets them.
  std::vector<std::string> extensions;  ///< All that the device has.
  std::uint32_t queue_family = 0;       ///< A family with compute, with timestamps if any has.
  std::uint32_t timestamp_valid_bits = 0;
  DeviceInfo info;

  bool has_extension(std::string_view name) const;
  /// True when subgroups of exactly `size` can be asked for in compute pipelines.
  bool can_require_subgroup_size(std::uint32_t size) const;
  const VkPhysicalDeviceLimits& limits() const { return properties.limits; }
};

/// Chains those members of `features` that the device's version and extensions allow; returns the head. `features` must
/// stay where it is while the chain is in use.
VkPhysicalDeviceFeatures2* link_features(Features& features, const PhysicalDevice& device);

/// Device extensions to enable for what link_features chains (names with static lifetime).
std::vector<const char*> needed_extensions(const PhysicalDevice& device);

/// Errors: unsupported, saying what the device lacks (Vulkan 1.1, a compute queue). `index` is its place in the
/// listing.
Result<PhysicalDevice> describe(const Instance& instance, VkPhysicalDevice handle, int index);

}  // namespace aicf::vulkan
