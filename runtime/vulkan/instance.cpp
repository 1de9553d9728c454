#include "runtime/vulkan/instance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace aicf::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr const char* kPortability = "VK_KHR_portability_enumeration";

/// A list that the loader gives in two calls; it may grow in between (VK_INCOMPLETE).
template <class Entry, class Call>
Result<std::vector<Entry>> listed(const char* name, const char* place, Call call) {
  std::uint32_t count = 0;
  AICF_RETURN_IF_ERROR(check(call(&count, nullptr), name, place));
  std::vector<Entry> entries(count);
  if (count == 0) return entries;
  if (const VkResult r = call(&count, entries.data()); r != VK_INCOMPLETE) AICF_RETURN_IF_ERROR(check(r, name, place));
  entries.resize(count);
  return entries;
}

Result<bool> has_layer(const GlobalApi& global, const char* name) {
  AICF_TRY(const auto layers,
           listed<VkLayerProperties>("vkEnumerateInstanceLayerProperties", "opening Vulkan", [&](auto* n, auto to) {
             return global.vkEnumerateInstanceLayerProperties(n, to);
           }));
  return std::any_of(layers.begin(), layers.end(), [&](const auto& layer) { return !strcmp(layer.layerName, name); });
}

Result<bool> has_extension(const GlobalApi& global, const char* name) {
  AICF_TRY(const auto found, listed<VkExtensionProperties>(
                                 "vkEnumerateInstanceExtensionProperties", "opening Vulkan", [&](auto* n, auto to) {
                                   return global.vkEnumerateInstanceExtensionProperties(nullptr, n, to);
                                 }));
  return std::any_of(found.begin(), found.end(), [&](const auto& e) { return !strcmp(e.extensionName, name); });
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::acquire(bool validation) {
  static std::mutex mutex;
  static std::weak_ptr<Instance> live[2];
  std::lock_guard lock(mutex);
  if (auto found = live[validation].lock()) return found;
  std::shared_ptr<Instance> made(new Instance);
  AICF_RETURN_IF_ERROR(made->create(validation));
  live[validation] = made;
  return made;
}

bool Instance::validation_available() {
  const auto global = global_api();
  return global && has_layer(**global, kValidationLayer).value_or(false);
}

Result<void> Instance::create(bool validation) {
  AICF_TRY(const GlobalApi* global, global_api());
  std::uint32_t loader_version = 0;
  AICF_RETURN_IF_ERROR(
      check(global->vkEnumerateInstanceVersion(&loader_version), "vkEnumerateInstanceVersion", "opening Vulkan"));
  if (loader_version < VK_API_VERSION_1_1) return unsupported("the Vulkan loader is of version 1.0; 1.1 is needed");
  version_ = std::min<std::uint32_t>(loader_version, VK_API_VERSION_1_3);
  validation_ = validation;

  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "aicf";
  application.pEngineName = "aicf";
  application.apiVersion = version_;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;

  std::vector<const char*> layers, extensions;
  AICF_TRY(const bool portability, has_extension(*global, kPortability));
  if (portability) {
    extensions.push_back(kPortability);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  VkValidationFeaturesEXT checks{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  const VkValidationFeatureEnableEXT synchronisation = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  if (validation) {
    AICF_TRY(const bool installed, has_layer(*global, kValidationLayer));
    if (!installed) {
      return run_failure(fmt::format("validation was asked for but {} is not installed", kValidationLayer));
    }
    layers.push_back(kValidationLayer);
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    checks.enabledValidationFeatureCount = 1;
    checks.pEnabledValidationFeatures = &synchronisation;
    info.pNext = &checks;
  }
  info.enabledLayerCount = layers.size();
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = extensions.size();
  info.ppEnabledExtensionNames = extensions.data();

  VkInstance handle = VK_NULL_HANDLE;
  const VkResult created = global->vkCreateInstance(&info, nullptr, &handle);
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER) return unsupported("no Vulkan driver is installed");
  AICF_RETURN_IF_ERROR(check(created, "vkCreateInstance", "opening Vulkan"));
  auto api = instance_api(*global, handle);
  if (!api) {
    auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(global->vkGetInstanceProcAddr(handle, "vkDestroyInstance"));
    if (destroy) destroy(handle, nullptr);
    return std::unexpected(api.error());
  }
  instance_ = handle;
  api_ = *api;

  if (validation) {
    if (!api_.vkCreateDebugUtilsMessengerEXT) return run_failure("VK_EXT_debug_utils has no messenger");
    VkDebugUtilsMessengerCreateInfoEXT messenger{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = on_message;
    messenger.pUserData = this;
    AICF_RETURN_IF_ERROR(check(api_.vkCreateDebugUtilsMessengerEXT(instance_, &messenger, nullptr, &messenger_),
                               "vkCreateDebugUtilsMessengerEXT", "opening Vulkan"));
  }
  return {};
}

Instance::~Instance() {
  if (messenger_) api_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  if (instance_) api_.vkDestroyInstance(instance_, nullptr);
}

VkBool32 Instance::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  auto* self = static_cast<Instance*>(user);
  std::lock_guard lock(self->mutex_);
  // One broken call repeated in a loop must not fill memory.
  if (self->messages_.size() < 32) self->messages_.emplace_back(data->pMessage ? data->pMessage : "(no text)");
  return VK_FALSE;
}

Result<std::vector<VkPhysicalDevice>> Instance::physical_devices() const {
  return listed<VkPhysicalDevice>("vkEnumeratePhysicalDevices", "listing devices",
                                  [&](auto* n, auto to) { return api_.vkEnumeratePhysicalDevices(instance_, n, to); });
}

Result<void> Instance::check_validation(const std::string& place) {
  if (!validation_) return {};
  std::lock_guard lock(mutex_);
  if (messages_.empty()) return {};
  auto text = fmt::format("Vulkan validation: {}", fmt::join(messages_, "\n"));
  messages_.clear();
  return run_failure(std::move(text), place);
}

}  // namespace aicf::vulkan
