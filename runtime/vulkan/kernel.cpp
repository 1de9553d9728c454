#include "runtime/vulkan/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/vulkan/spirv_check.h"

namespace aicf::vulkan {
namespace {

/// What the binary says of itself against its module and the device's limits.
Result<void> check_limits(const KernelBinary& binary, const SpirvSummary& module, const PhysicalDevice& device) {
  const auto& limits = device.limits();
  const auto& local = module.local_size;
  if (local[0] != binary.workgroup_size || local[1] != 1 || local[2] != 1) {
    return run_failure(fmt::format("its module has workgroups of {}×{}×{} threads, its description says {}×1×1",
                                   local[0], local[1], local[2], binary.workgroup_size));
  }
  if (module.bindings > binary.arguments.size()) {
    return run_failure(
        fmt::format("its module binds {} buffers, its description has {}", module.bindings, binary.arguments.size()));
  }
  const struct {
    const char* what;
    std::uint64_t wanted, limit;
  } sizes[] = {
      {"threads in a workgroup", binary.workgroup_size,
       std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0])},
      {"bytes of workgroup memory", binary.workgroup_memory_bytes, limits.maxComputeSharedMemorySize},
      {"buffers", binary.arguments.size(),
       std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxPerStageResources)},
      {"bytes of parameters", 4 * (binary.parameters.size() + 1), limits.maxPushConstantsSize},
  };
  for (const auto& [what, wanted, limit] : sizes) {
    if (wanted > limit) return run_failure(fmt::format("it needs {} {}, the device has {}", wanted, what, limit));
  }
  return {};
}

/// Whether the pipeline must ask for the binary's subgroup size. Errors when the device cannot give it.
Result<bool> must_require_subgroup_size(const KernelBinary& binary, const PhysicalDevice& device) {
  const std::uint32_t wanted = binary.subgroup_size;
  const auto& range = device.subgroup_control;
  if (wanted == 0) return false;
  // Asking for the only size there is would add the limit below for nothing.
  if (wanted == range.minSubgroupSize && wanted == range.maxSubgroupSize) return false;
  if (device.can_require_subgroup_size(wanted)) {
    const std::uint64_t most = std::uint64_t{wanted} * range.maxComputeWorkgroupSubgroups;
    if (binary.workgroup_size > most) {
      return run_failure(fmt::format("it needs {} threads in a workgroup, the device has {} with subgroups of {}",
                                     binary.workgroup_size, most, wanted));
    }
    return true;
  }
  if (range.minSubgroupSize == range.maxSubgroupSize) {
    return run_failure(fmt::format("it needs subgroups of {}, the device has {}", wanted, range.minSubgroupSize));
  }
  return run_failure(fmt::format(
      "it needs subgroups of {}, the device has {} to {} and {}", wanted, range.minSubgroupSize, range.maxSubgroupSize,
      device.features.subgroup_size.subgroupSizeControl ? "none between on request" : "no way to ask for one size"));
}

/// Whether the pipeline must ask for the binary's subgroup size, where the device takes the kernel at all.
Result<bool> check_fit(const KernelBinary& binary, const PhysicalDevice& device) {
  if (binary.kind != BinaryKind::spirv) return run_failure("it is not a SPIR-V kernel");
  AICF_TRY(const SpirvSummary module, summarise_spirv(binary.bytes));
  AICF_RETURN_IF_ERROR(check_supported(module, device));
  AICF_RETURN_IF_ERROR(check_limits(binary, module, device));
  return must_require_subgroup_size(binary, device);
}

std::string place_of(const KernelBinary& binary, const PhysicalDevice& device) {
  return fmt::format("kernel '{}' on {}", binary.name, device.info.name);
}

/// A result of making a module or pipeline. Only a lost device is more than a refusal: drivers also say that they are out
/// of memory, or nothing in particular, where a shader is too large for them.
Result<void> check_taken(VkResult result, std::string_view call, const std::string& place) {
  auto made = check(result, call, place);
  if (!made && result != VK_ERROR_DEVICE_LOST) made.error().kind = ErrorKind::refused;
  return made;
}

}  // namespace

Result<void> Kernel::fits(const PhysicalDevice& device, const KernelBinary& binary) {
  auto fit = check_fit(binary, device);
  if (!fit) return fail(ErrorKind::refused, std::move(fit.error().message), place_of(binary, device));
  return {};
}

Result<std::unique_ptr<Kernel>> Kernel::create(std::shared_ptr<Context> context, const KernelBinary& binary) {
  const PhysicalDevice& device = context->physical();
  const DeviceApi& api = context->api();
  const std::string place = place_of(binary, device);
  const auto require_size = check_fit(binary, device);
  if (!require_size) return fail(ErrorKind::refused, require_size.error().message, place);

  std::unique_ptr<Kernel> kernel(new Kernel);
  kernel->context_ = context;
  kernel->name_ = binary.name;
  for (const auto& argument : binary.arguments) kernel->argument_names_.push_back(argument.name);
  kernel->arguments_ = binary.arguments.size();
  kernel->parameters_ = binary.parameters.size();
  AICF_TRY(kernel->layout_, context->layout(kernel->arguments_, 4 * (kernel->parameters_ + 1)));

  std::vector<std::uint32_t> words(binary.bytes.size() / 4);
  std::copy(binary.bytes.begin(), binary.bytes.end(), reinterpret_cast<char*>(words.data()));
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = binary.bytes.size();
  module_info.pCode = words.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check_taken(api.vkCreateShaderModule(context->device(), &module_info, nullptr, &shader),
                                   "vkCreateShaderModule", place));
  const Owned<VkShaderModule> owned_shader(context->device(), shader, api.vkDestroyShaderModule);

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  subgroup.requiredSubgroupSize = binary.subgroup_size;
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;  // dispatches may be cut, see run.h
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = "main";
  if (*require_size) {
    info.stage.pNext = &subgroup;
    // Lane numbers follow the thread's index only in full subgroups.
    if (device.features.subgroup_size.computeFullSubgroups && binary.workgroup_size % binary.subgroup_size == 0) {
      info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
  }
  info.layout = kernel->layout_->pipeline.get();
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult created =
      api.vkCreateComputePipelines(context->device(), context->pipeline_cache(), 1, &info, nullptr, &pipeline);
  if (created != VK_SUCCESS && pipeline) api.vkDestroyPipeline(context->device(), pipeline, nullptr);
  AICF_RETURN_IF_ERROR(check_taken(created, "vkCreateComputePipelines", place));
  kernel->pipeline_ = {context->device(), pipeline, api.vkDestroyPipeline};
  return kernel;
}

}  // namespace aicf::vulkan
