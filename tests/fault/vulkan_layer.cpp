// A stand-in for libvulkan.so.1 (AICF_VULKAN_LIBRARY) that passes every call on to it, unless the call has to fail.

#include <dlfcn.h>

#include <cstring>
#include <string_view>
#include <tuple>

#include "runtime/vulkan/api.h"
#include "tests/fault/fault_core.h"
#include "tests/fault/vulkan_limits.h"

namespace {

using namespace aicf::fault;

#define ALL_FUNCTIONS(X) AICF_VK_GLOBAL_FUNCTIONS(X) AICF_VK_INSTANCE_FUNCTIONS(X) AICF_VK_DEVICE_FUNCTIONS(X)

/// Results a function may give, after the Vulkan specification's list of return codes.
std::span<const int> codes_of(std::string_view function) {
  static constexpr int memory[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
  static constexpr int lost[] = {VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
  static constexpr int wait[] = {VK_TIMEOUT, VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_HOST_MEMORY};
  static constexpr int open[] = {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_DEVICE_LOST};
  static constexpr int instance[] = {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_OUT_OF_HOST_MEMORY,
                                     VK_ERROR_LAYER_NOT_PRESENT};
  static constexpr int map[] = {VK_ERROR_MEMORY_MAP_FAILED, VK_ERROR_OUT_OF_DEVICE_MEMORY};
  static constexpr int pipeline[] = {VK_ERROR_INVALID_SHADER_NV, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_UNKNOWN};
  static constexpr int allocate[] = {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY,
                                     VK_ERROR_TOO_MANY_OBJECTS};
  static constexpr int sets[] = {VK_ERROR_OUT_OF_POOL_MEMORY, VK_ERROR_FRAGMENTED_POOL};
  static constexpr int queries[] = {VK_NOT_READY, VK_ERROR_DEVICE_LOST};
  if (function == "vkCreateDevice") return open;
  if (function == "vkCreateInstance") return instance;
  if (function == "vkMapMemory") return map;
  if (function == "vkCreateComputePipelines" || function == "vkCreateShaderModule") return pipeline;
  if (function == "vkAllocateMemory") return allocate;
  if (function == "vkAllocateDescriptorSets") return sets;
  if (function == "vkGetQueryPoolResults") return queries;
  if (function == "vkWaitForFences") return wait;
  if (function == "vkQueueSubmit" || function == "vkDeviceWaitIdle") return lost;
  return memory;
}

/// The kind of object that a function makes or frees; null for other functions.
const char* kind_of(const char* function) {
  if (!std::strcmp(function, "vkCreateComputePipelines")) return "Pipeline";
  for (std::string_view start : {"vkCreate", "vkDestroy", "vkAllocateMemory", "vkFreeMemory"})
    if (std::string_view(function).starts_with(start))
      return function + (start.ends_with("Memory") ? start.size() - 6 : start.size());
  return nullptr;
}

template <class Tag, class Function>
struct Wrapper;
template <class Tag, class R, class... A>
struct Wrapper<Tag, R(VKAPI_PTR*)(A...)> {
  static inline R(VKAPI_PTR* real)(A...) = nullptr;

  static R VKAPI_CALL call(A... arguments) {
    const char* kind = kind_of(Tag::name);
    if constexpr (std::is_same_v<R, VkResult>) {
      if (int code = 0; fails(Tag::name, codes_of(Tag::name), code)) {
        // A wait that fails on a device that works: let the work end, since what it uses is freed next.
        if (std::string_view(Tag::name).find("Wait") != std::string_view::npos) real(arguments...);
        return static_cast<VkResult>(code);
      }
      const VkResult result = real(arguments...);
      if (kind && result == VK_SUCCESS) made(kind);
      return result;
    } else {
      if (kind) {
        const auto all = std::tuple(arguments...);
        bool null = false;
        if constexpr (sizeof...(A) >= 2) null = !std::get<sizeof...(A) - 2>(all);
        if (!null) freed(kind);
      }
      if constexpr (sizeof...(A) == 2) {
        auto* second = std::get<1>(std::tuple(arguments...));
        if constexpr (requires { cut_down(*second); }) {
          real(arguments...);
          return cut_down(*second);
        }
      }
      return real(arguments...);
    }
  }
};

#define TAG(function)                              \
  struct Tag_##function {                          \
    static constexpr const char* name = #function; \
  };
ALL_FUNCTIONS(TAG)

PFN_vkGetInstanceProcAddr loader() {
  static const auto real = [] {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr")) : nullptr;
  }();
  return real;
}

PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice, const char* name);

PFN_vkVoidFunction wrapped(VkInstance instance, const char* name) {
  if (!loader() || hidden(name)) return nullptr;
  const PFN_vkVoidFunction real = loader()(instance, name);
  if (!std::strcmp(name, "vkGetDeviceProcAddr")) return reinterpret_cast<PFN_vkVoidFunction>(device_function);
#define WRAP(function)                                    \
  if (real && !std::strcmp(name, #function)) {            \
    using W = Wrapper<Tag_##function, PFN_##function>;    \
    W::real = reinterpret_cast<PFN_##function>(real);     \
    return reinterpret_cast<PFN_vkVoidFunction>(W::call); \
  }
  ALL_FUNCTIONS(WRAP)
  return real;
}

VkInstance& latest_instance() {
  static VkInstance instance = VK_NULL_HANDLE;
  return instance;
}

// The loader's own functions for devices go by their handles, so that one table serves every device.
PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice, const char* name) {
  return wrapped(latest_instance(), name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (instance) latest_instance() = instance;
  return wrapped(instance, name);
}
