#include "runtime/vulkan/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace aicf::vulkan {
namespace {

Result<GlobalApi> load_global_api() {
  // The device-selection layer of Mesa dereferences null for devices without a display; nothing here needs it.
  setenv("NODEVICE_SELECT", "1", /*overwrite=*/0);
  const char* other = std::getenv("AICF_VULKAN_LIBRARY");
  const std::string name = other && *other ? other : "libvulkan.so.1";
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return unsupported(
        fmt::format("no Vulkan loader ({}); install libvulkan1 and a Vulkan driver", why ? why : name + " not found"));
  }
  GlobalApi api;
  api.vkGetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (!api.vkGetInstanceProcAddr) return unsupported(name + " has no vkGetInstanceProcAddr");
#define AICF_VK_LOAD(function)                                                                    \
  api.function = reinterpret_cast<PFN_##function>(api.vkGetInstanceProcAddr(nullptr, #function)); \
  if (!api.function) return unsupported("the Vulkan loader has no " #function "; Vulkan 1.1 is needed");
  AICF_VK_GLOBAL_FUNCTIONS(AICF_VK_LOAD)
#undef AICF_VK_LOAD
  return api;
}

}  // namespace

Result<const GlobalApi*> global_api() {
  static const Result<GlobalApi> api = load_global_api();
  if (!api) return std::unexpected(api.error());
  return &*api;
}

Result<InstanceApi> instance_api(const GlobalApi& global, VkInstance instance) {
  InstanceApi api;
#define AICF_VK_LOAD(function)                                                                        \
  api.function = reinterpret_cast<PFN_##function>(global.vkGetInstanceProcAddr(instance, #function)); \
  if (!api.function) return unsupported("the Vulkan loader has no " #function "; Vulkan 1.1 is needed");
  AICF_VK_INSTANCE_FUNCTIONS(AICF_VK_LOAD)
#undef AICF_VK_LOAD
  api.vkCreateDebugUtilsMessengerEXT = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
      global.vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT"));
  api.vkDestroyDebugUtilsMessengerEXT = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
      global.vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT"));
  return api;
}

Result<DeviceApi> device_api(const InstanceApi& instance, VkDevice device) {
  DeviceApi api;
#define AICF_VK_LOAD(function)                                                                      \
  api.function = reinterpret_cast<PFN_##function>(instance.vkGetDeviceProcAddr(device, #function)); \
  if (!api.function) return run_failure("the Vulkan driver does not export " #function);
  AICF_VK_DEVICE_FUNCTIONS(AICF_VK_LOAD)
#undef AICF_VK_LOAD
  return api;
}

std::string result_name(VkResult result) {
  switch (result) {
#define AICF_VK_NAME(code) \
  case code:               \
    return #code;
    AICF_VK_NAME(VK_SUCCESS)
    AICF_VK_NAME(VK_NOT_READY)
    AICF_VK_NAME(VK_TIMEOUT)
    AICF_VK_NAME(VK_INCOMPLETE)
    AICF_VK_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    AICF_VK_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    AICF_VK_NAME(VK_ERROR_INITIALIZATION_FAILED)
    AICF_VK_NAME(VK_ERROR_DEVICE_LOST)
    AICF_VK_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    AICF_VK_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    AICF_VK_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    AICF_VK_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    AICF_VK_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    AICF_VK_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    AICF_VK_NAME(VK_ERROR_FRAGMENTED_POOL)
    AICF_VK_NAME(VK_ERROR_UNKNOWN)
    AICF_VK_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    AICF_VK_NAME(VK_ERROR_INVALID_SHADER_NV)
    AICF_VK_NAME(VK_PIPELINE_COMPILE_REQUIRED)
#undef AICF_VK_NAME
    default:
      return fmt::format("VkResult {}", static_cast<int>(result));
  }
}

Result<void> check(VkResult result, std::string_view call, std::string place) {
  if (result == VK_SUCCESS) return {};
  return run_failure(fmt::format("{} failed: {}", call, result_name(result)), std::move(place));
}

}  // namespace aicf::vulkan
