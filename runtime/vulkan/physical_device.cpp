#include "runtime/vulkan/physical_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace aicf::vulkan {
namespace {

/// A device extension that became core in `core_version`.
struct Extension {
  const char* name;
  std::uint32_t core_version;
};
constexpr Extension kStorage8{"VK_KHR_8bit_storage", VK_API_VERSION_1_2};
constexpr Extension kNarrow{"VK_KHR_shader_float16_int8", VK_API_VERSION_1_2};
constexpr Extension kSubgroupTypes{"VK_KHR_shader_subgroup_extended_types", VK_API_VERSION_1_2};
constexpr Extension kSubgroupSize{"VK_EXT_subgroup_size_control", VK_API_VERSION_1_3};
constexpr Extension kScalarLayout{"VK_EXT_scalar_block_layout", VK_API_VERSION_1_2};
constexpr Extension kMemoryModel{"VK_KHR_vulkan_memory_model", VK_API_VERSION_1_2};
constexpr Extension kFloatControls{"VK_KHR_shader_float_controls", VK_API_VERSION_1_2};
constexpr Extension kDriverProperties{"VK_KHR_driver_properties", VK_API_VERSION_1_2};
constexpr const char* kPortabilitySubset = "VK_KHR_portability_subset";

bool has(const PhysicalDevice& device, const Extension& extension) {
  return device.version >= extension.core_version || device.has_extension(extension.name);
}

/// Prepends `next` to the chain that starts at `head`.
template <class Head, class Next>
void link(Head& head, Next& next) {
  next.pNext = const_cast<void*>(static_cast<const void*>(head.pNext));
  head.pNext = &next;
}

Result<void> choose_queue_family(const InstanceApi& api, PhysicalDevice& device) {
  std::uint32_t count = 0;
  api.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  bool found = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    if (found && device.timestamp_valid_bits >= families[i].timestampValidBits) continue;
    device.queue_family = i;
    device.timestamp_valid_bits = families[i].timestampValidBits;
    found = true;
  }
  if (!found) return unsupported("the device has no compute queue");
  return {};
}

Result<void> read_extensions(const InstanceApi& api, PhysicalDevice& device) {
  std::uint32_t count = 0;
  constexpr const char* call = "vkEnumerateDeviceExtensionProperties";
  const std::string& place = device.info.name;
  AICF_RETURN_IF_ERROR(
      check(api.vkEnumerateDeviceExtensionProperties(device.handle, nullptr, &count, nullptr), call, place));
  std::vector<VkExtensionProperties> found(count);
  AICF_RETURN_IF_ERROR(
      check(api.vkEnumerateDeviceExtensionProperties(device.handle, nullptr, &count, found.data()), call, place));
  for (const auto& extension : found) device.extensions.emplace_back(extension.extensionName);
  return {};
}

void clear_links(Features& f) {
  f.core.pNext = f.storage16.pNext = f.storage8.pNext = f.narrow.pNext = f.subgroup_types.pNext =
      f.subgroup_size.pNext = f.scalar_layout.pNext = f.memory_model.pNext = nullptr;
}

/// Keeps the core features that kernels use; the rest (textures, geometry, …) stays off.
VkPhysicalDeviceFeatures kernel_features(const VkPhysicalDeviceFeatures& all) {
  VkPhysicalDeviceFeatures kept{};
  kept.shaderFloat64 = all.shaderFloat64;
  kept.shaderInt64 = all.shaderInt64;
  kept.shaderInt16 = all.shaderInt16;
  kept.robustBufferAccess = all.robustBufferAccess;
  return kept;
}

const char* type_name(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "CPU";
    default:
      return "device";
  }
}

/// Mesa's version as MAJOR·1000 + MINOR, from the driver's own words ("Mesa 25.0.7-2 (LLVM 15)"); 0 of other drivers.
/// Software drivers of Mesa report driverVersion 1 whatever they are.
std::int64_t mesa_version(const char* driver_info) {
  int major = 0, minor = 0;
  const char* at = std::strstr(driver_info, "Mesa ");
  return at && std::sscanf(at, "Mesa %d.%d", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

std::int64_t device_local_bytes(const VkPhysicalDeviceMemoryProperties& memory) {
  VkDeviceSize largest = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      largest = std::max(largest, memory.memoryHeaps[i].size);
    }
  }
  return static_cast<std::int64_t>(largest);
}

void fill_properties(PhysicalDevice& device) {
  auto& p = device.info.properties;
  const auto& limits = device.limits();
  const auto& f = device.features;
  const auto& fc = device.float_controls;
  const auto count = [](std::uint64_t value) {  // some drivers say 2^64 − 1 for "no limit"
    return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
  };
  p["vendor_id"] = device.properties.vendorID;
  p["device_id"] = device.properties.deviceID;
  p["driver_version"] = device.properties.driverVersion;
  p["vulkan_version"] = VK_API_VERSION_MAJOR(device.version) * 100 + VK_API_VERSION_MINOR(device.version);
  p["is_cpu"] = device.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  p["is_integrated"] = device.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;

  p["subgroup_size"] = device.subgroup.subgroupSize;
  p["min_subgroup_size"] = device.subgroup_control.minSubgroupSize;
  p["max_subgroup_size"] = device.subgroup_control.maxSubgroupSize;
  p["subgroup_size_control"] = device.can_require_subgroup_size(device.subgroup_control.minSubgroupSize);
  p["full_subgroups"] = f.subgroup_size.computeFullSubgroups;
  p["max_workgroup_subgroups"] = device.subgroup_control.maxComputeWorkgroupSubgroups;
  p["subgroup_extended_types"] = f.subgroup_types.shaderSubgroupExtendedTypes;
  const bool compute = device.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
  const std::pair<const char*, VkSubgroupFeatureFlagBits> operations[] = {
      {"subgroup_basic", VK_SUBGROUP_FEATURE_BASIC_BIT},
      {"subgroup_vote", VK_SUBGROUP_FEATURE_VOTE_BIT},
      {"subgroup_arithmetic", VK_SUBGROUP_FEATURE_ARITHMETIC_BIT},
      {"subgroup_ballot", VK_SUBGROUP_FEATURE_BALLOT_BIT},
      {"subgroup_shuffle", VK_SUBGROUP_FEATURE_SHUFFLE_BIT},
      {"subgroup_shuffle_relative", VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT},
      {"subgroup_clustered", VK_SUBGROUP_FEATURE_CLUSTERED_BIT},
      {"subgroup_quad", VK_SUBGROUP_FEATURE_QUAD_BIT},
  };
  for (const auto& [name, bit] : operations) p[name] = compute && (device.subgroup.supportedOperations & bit);

  p["workgroup_memory"] = limits.maxComputeSharedMemorySize;
  p["max_workgroup_invocations"] = limits.maxComputeWorkGroupInvocations;
  p["max_workgroup_size_x"] = limits.maxComputeWorkGroupSize[0];
  p["max_workgroups_x"] = limits.maxComputeWorkGroupCount[0];
  p["max_workgroups_y"] = limits.maxComputeWorkGroupCount[1];
  p["max_workgroups_z"] = limits.maxComputeWorkGroupCount[2];
  p["max_buffer_range"] = limits.maxStorageBufferRange;
  p["max_allocation"] = count(device.allocation.maxMemoryAllocationSize);
  p["max_arguments"] = std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxPerStageResources);
  p["push_constant_bytes"] = limits.maxPushConstantsSize;
  p["storage_offset_alignment"] = count(limits.minStorageBufferOffsetAlignment);
  p["timestamp_valid_bits"] = device.timestamp_valid_bits;
  p["timestamp_period_ps"] = static_cast<std::int64_t>(limits.timestampPeriod * 1000.0F);
  p["device_memory"] = device_local_bytes(device.memory);

  p["shader_f16"] = f.narrow.shaderFloat16;
  p["shader_i8"] = f.narrow.shaderInt8;
  p["shader_i16"] = f.core.features.shaderInt16;
  p["shader_i64"] = f.core.features.shaderInt64;
  p["shader_f64"] = f.core.features.shaderFloat64;
  p["storage_16bit"] = f.storage16.storageBuffer16BitAccess;
  p["storage_8bit"] = f.storage8.storageBuffer8BitAccess;
  p["scalar_block_layout"] = f.scalar_layout.scalarBlockLayout;
  p["vulkan_memory_model"] = f.memory_model.vulkanMemoryModel;

  p["float_controls"] = has(device, kFloatControls);
  p["signed_zero_inf_nan_preserve_f16"] = fc.shaderSignedZeroInfNanPreserveFloat16;
  p["signed_zero_inf_nan_preserve_f32"] = fc.shaderSignedZeroInfNanPreserveFloat32;
  p["signed_zero_inf_nan_preserve_f64"] = fc.shaderSignedZeroInfNanPreserveFloat64;
  p["denorm_preserve_f16"] = fc.shaderDenormPreserveFloat16;
  p["denorm_preserve_f32"] = fc.shaderDenormPreserveFloat32;
  p["denorm_preserve_f64"] = fc.shaderDenormPreserveFloat64;
  p["denorm_flush_f16"] = fc.shaderDenormFlushToZeroFloat16;
  p["denorm_flush_f32"] = fc.shaderDenormFlushToZeroFloat32;
  p["denorm_flush_f64"] = fc.shaderDenormFlushToZeroFloat64;
  p["rounding_rte_f16"] = fc.shaderRoundingModeRTEFloat16;
  p["rounding_rte_f32"] = fc.shaderRoundingModeRTEFloat32;
  p["rounding_rte_f64"] = fc.shaderRoundingModeRTEFloat64;
  // Independence: 0 = f32 may differ from the rest, 1 = all types independent, 2 = one setting for all.
  p["denorm_independence"] = fc.denormBehaviorIndependence;
  p["rounding_independence"] = fc.roundingModeIndependence;
}

}  // namespace

bool PhysicalDevice::has_extension(std::string_view name) const {
  return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

bool PhysicalDevice::can_require_subgroup_size(std::uint32_t size) const {
  return features.subgroup_size.subgroupSizeControl && size >= subgroup_control.minSubgroupSize &&
         size <= subgroup_control.maxSubgroupSize &&
         (subgroup_control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
}

VkPhysicalDeviceFeatures2* link_features(Features& features, const PhysicalDevice& device) {
  clear_links(features);
  link(features.core, features.storage16);
  if (has(device, kStorage8)) link(features.core, features.storage8);
  if (has(device, kNarrow)) link(features.core, features.narrow);
  if (has(device, kSubgroupTypes)) link(features.core, features.subgroup_types);
  if (has(device, kSubgroupSize)) link(features.core, features.subgroup_size);
  if (has(device, kScalarLayout)) link(features.core, features.scalar_layout);
  if (has(device, kMemoryModel)) link(features.core, features.memory_model);
  return &features.core;
}

std::vector<const char*> needed_extensions(const PhysicalDevice& device) {
  std::vector<const char*> names;
  for (const Extension* extension :
       {&kStorage8, &kNarrow, &kSubgroupTypes, &kSubgroupSize, &kScalarLayout, &kMemoryModel, &kFloatControls}) {
    if (device.version < extension->core_version && device.has_extension(extension->name)) {
      names.push_back(extension->name);
    }
  }
  if (device.has_extension(kPortabilitySubset)) names.push_back(kPortabilitySubset);  // required where present
  return names;
}

Result<PhysicalDevice> describe(const Instance& instance, VkPhysicalDevice handle, int index) {
  const InstanceApi& api = instance.api();
  PhysicalDevice device;
  device.handle = handle;

  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  api.vkGetPhysicalDeviceProperties2(handle, &properties);
  device.properties = properties.properties;
  device.version = std::min(device.properties.apiVersion, instance.version());
  device.info.driver = "vulkan";
  device.info.id = fmt::format("vulkan:{}", index);
  device.info.name = device.properties.deviceName;
  if (device.version < VK_API_VERSION_1_1) {
    return unsupported("the driver is of Vulkan 1.0; 1.1 is needed", device.info.name);
  }
  AICF_RETURN_IF_ERROR(read_extensions(api, device));
  AICF_RETURN_IF_ERROR(choose_queue_family(api, device));

  device.subgroup = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  device.subgroup_control = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  device.float_controls = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
  device.allocation = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  link(properties, device.subgroup);
  link(properties, device.allocation);
  if (has(device, kSubgroupSize)) link(properties, device.subgroup_control);
  if (has(device, kFloatControls)) link(properties, device.float_controls);
  if (has(device, kDriverProperties)) link(properties, driver);
  api.vkGetPhysicalDeviceProperties2(handle, &properties);
  device.subgroup.pNext = device.subgroup_control.pNext = device.float_controls.pNext = device.allocation.pNext =
      nullptr;
  if (!has(device, kSubgroupSize)) {
    device.subgroup_control.minSubgroupSize = device.subgroup_control.maxSubgroupSize = device.subgroup.subgroupSize;
  }
  api.vkGetPhysicalDeviceMemoryProperties(handle, &device.memory);

  api.vkGetPhysicalDeviceFeatures2(handle, link_features(device.features, device));
  clear_links(device.features);
  device.features.core.features = kernel_features(device.features.core.features);

  device.info.description =
      fmt::format("{}{}{}{}Vulkan {}.{}, {}", driver.driverName, driver.driverName[0] ? " " : "", driver.driverInfo,
                  driver.driverInfo[0] || driver.driverName[0] ? ", " : "", VK_API_VERSION_MAJOR(device.version),
                  VK_API_VERSION_MINOR(device.version), type_name(device.properties.deviceType));
  fill_properties(device);
  device.info.properties["mesa_version"] = mesa_version(driver.driverInfo);
  return device;
}

}  // namespace aicf::vulkan
