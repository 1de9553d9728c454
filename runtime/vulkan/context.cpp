#include "runtime/vulkan/context.h"

#include <vector>

namespace aicf::vulkan {

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                                                 const VulkanOptions& options) {
  std::shared_ptr<Context> context(new Context);
  context->instance_ = std::move(instance);
  context->physical_ = std::move(physical);
  context->options_ = options;
  AICF_RETURN_IF_ERROR(context->open());
  return context;
}

Result<void> Context::open() {
  const std::string& place = physical_.info.name;
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = physical_.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;

  Features enabled = physical_.features;
  if (!options_.robust) enabled.core.features.robustBufferAccess = VK_FALSE;
  const auto extensions = needed_extensions(physical_);
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = link_features(enabled, physical_);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = extensions.size();
  info.ppEnabledExtensionNames = extensions.data();
  AICF_RETURN_IF_ERROR(
      check(instance_->api().vkCreateDevice(physical_.handle, &info, nullptr, &device_), "vkCreateDevice", place));
  AICF_TRY(api_, device_api(instance_->api(), device_));
  api_.vkGetDeviceQueue(device_, physical_.queue_family, 0, &queue_);

  VkPipelineCacheCreateInfo cache_info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(
      check(api_.vkCreatePipelineCache(device_, &cache_info, nullptr, &cache), "vkCreatePipelineCache", place));
  pipeline_cache_ = {device_, cache, api_.vkDestroyPipelineCache};
  return {};
}

Context::~Context() {
  if (!device_) return;
  if (!api_.vkDestroyDevice) {  // the driver lacked an entry point: open() failed half-way
    auto destroy =
        reinterpret_cast<PFN_vkDestroyDevice>(instance_->api().vkGetDeviceProcAddr(device_, "vkDestroyDevice"));
    if (destroy) destroy(device_, nullptr);
    return;
  }
  api_.vkDeviceWaitIdle(device_);
  layouts_.clear();
  pipeline_cache_ = {};
  api_.vkDestroyDevice(device_, nullptr);
}

Result<const Layout*> Context::layout(std::uint32_t arguments, std::uint32_t push_constant_bytes) {
  std::lock_guard lock(mutex_);
  auto [entry, is_new] = layouts_.try_emplace({arguments, push_constant_bytes});
  if (!is_new && entry->second.pipeline) return &entry->second;

  std::vector<VkDescriptorSetLayoutBinding> bindings(arguments);
  for (std::uint32_t i = 0; i < arguments; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set_info.bindingCount = arguments;
  set_info.pBindings = bindings.data();
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check(api_.vkCreateDescriptorSetLayout(device_, &set_info, nullptr, &set),
                             "vkCreateDescriptorSetLayout", physical_.info.name));
  entry->second.set = {device_, set, api_.vkDestroyDescriptorSetLayout};

  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_constant_bytes};
  VkPipelineLayoutCreateInfo pipeline_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  pipeline_info.setLayoutCount = 1;
  pipeline_info.pSetLayouts = &set;
  pipeline_info.pushConstantRangeCount = 1;
  pipeline_info.pPushConstantRanges = &range;
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check(api_.vkCreatePipelineLayout(device_, &pipeline_info, nullptr, &pipeline),
                             "vkCreatePipelineLayout", physical_.info.name));
  entry->second.pipeline = {device_, pipeline, api_.vkDestroyPipelineLayout};
  return &entry->second;
}

}  // namespace aicf::vulkan
