// A libvulkan.so.1 that passes everything on to the system's loader and can make every submit fail as on a lost device.

#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<bool> lost = false;
PFN_vkGetInstanceProcAddr next_instance_proc = nullptr;
PFN_vkGetDeviceProcAddr next_device_proc = nullptr;
PFN_vkQueueSubmit next_submit = nullptr;

VkResult submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  return lost ? VK_ERROR_DEVICE_LOST : next_submit(queue, count, infos, fence);
}

PFN_vkVoidFunction device_proc(VkDevice device, const char* name) {
  const PFN_vkVoidFunction found = next_device_proc(device, name);
  if (!found || std::strcmp(name, "vkQueueSubmit") != 0) return found;
  next_submit = reinterpret_cast<PFN_vkQueueSubmit>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(&submit);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void lose_device(int now) {
  lost = now != 0;
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (!next_instance_proc) {
    void* const library = dlopen(AICF_SYSTEM_VULKAN_LOADER, RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
    next_instance_proc = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }
  const PFN_vkVoidFunction found = next_instance_proc(instance, name);
  if (!found || std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  next_device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(&device_proc);
}
}
