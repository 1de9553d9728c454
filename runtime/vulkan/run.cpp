#include "runtime/vulkan/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace aicf::vulkan {
namespace {

constexpr std::uint32_t kMaxPieces = 256;        ///< Per submit; timestamps are one more.
constexpr std::uint32_t kMaxDescriptors = 4096;  ///< Per submit.
constexpr double kGpuSubmitNanoseconds = 4e8;    ///< A fifth of the shortest watchdog (2 s).
/// First part of a kernel that was never measured: small enough for slow kernels on small devices.
constexpr std::uint64_t kProbeWorkgroups = 256;

using Clock = std::chrono::steady_clock;

}  // namespace

Runner::Runner(std::shared_ptr<Context> context, Queue& queue) : context_(std::move(context)), queue_(queue) {
  const auto& options = context_->options();
  const bool is_cpu = context_->physical().properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  budget_nanoseconds_ = options.submit_milliseconds >= 0 ? options.submit_milliseconds * 1e6
                        : is_cpu                         ? 0
                                                         : kGpuSubmitNanoseconds;
  for (int i = 0; i < 3; ++i) {
    grid_limits_[i] =
        std::min(context_->physical().limits().maxComputeWorkGroupCount[i], options.max_workgroups_per_dimension);
  }
}

Result<std::unique_ptr<Runner>> Runner::create(std::shared_ptr<Context> context, Queue& queue) {
  std::unique_ptr<Runner> made(new Runner(std::move(context), queue));
  AICF_RETURN_IF_ERROR(made->prepare());
  return made;
}

Result<void> Runner::prepare() {
  const DeviceApi& api = context_->api();
  const VkDevice device = context_->device();
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kMaxDescriptors};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = kMaxPieces;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check(api.vkCreateDescriptorPool(device, &pool_info, nullptr, &pool), "vkCreateDescriptorPool",
                             context_->physical().info.name));
  descriptors_ = {device, pool, api.vkDestroyDescriptorPool};

  if (context_->physical().timestamp_valid_bits > 0) {
    VkQueryPoolCreateInfo query_info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    query_info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    query_info.queryCount = kMaxPieces + 1;
    VkQueryPool queries = VK_NULL_HANDLE;
    AICF_RETURN_IF_ERROR(check(api.vkCreateQueryPool(device, &query_info, nullptr, &queries), "vkCreateQueryPool",
                               context_->physical().info.name));
    queries_ = {device, queries, api.vkDestroyQueryPool};
  }
  AICF_TRY(nothing_, Buffer::create(context_, 0, Buffer::Use::kernel));
  return {};
}

Result<VkDescriptorSet> Runner::bind(const Kernel& kernel, const Dispatch& dispatch) {
  const DeviceApi& api = context_->api();
  AICF_CHECK(dispatch.buffers.size() == kernel.arguments(), "kernel " + kernel.name() + ": wrong number of buffers");
  const VkDeviceSize max_range = context_->physical().limits().maxStorageBufferRange;

  const VkDescriptorSetLayout layout = kernel.layout().set.get();
  VkDescriptorSetAllocateInfo allocate{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  allocate.descriptorPool = descriptors_.get();
  allocate.descriptorSetCount = 1;
  allocate.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  AICF_RETURN_IF_ERROR(check(api.vkAllocateDescriptorSets(context_->device(), &allocate, &set),
                             "vkAllocateDescriptorSets", fmt::format("running kernel '{}'", kernel.name())));

  std::vector<VkDescriptorBufferInfo> infos(dispatch.buffers.size());
  std::vector<VkWriteDescriptorSet> writes(dispatch.buffers.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const BufferSlice& slice = dispatch.buffers[i];
    if (slice.size == 0) {
      infos[i] = {nothing_->handle(), 0, nothing_->capacity()};
    } else {
      const auto* buffer = static_cast<const Buffer*>(slice.buffer);
      AICF_CHECK(buffer && slice.offset <= buffer->size() && slice.size <= buffer->size() - slice.offset,
                 "kernel " + kernel.name() + ": a slice lies outside its buffer");
      if (slice.size > max_range) {
        return run_failure(fmt::format("buffer '{}' has {} bytes, a kernel of this device sees at most {} bytes",
                                       kernel.argument_name(i), slice.size, max_range),
                           fmt::format("kernel '{}' on {}", kernel.name(), context_->physical().info.name));
      }
      // Wide accesses to the last elements may reach to the next 16 bytes, which every allocation has.
      const VkDeviceSize padded =
          std::min<VkDeviceSize>((slice.size + 15) / 16 * 16, buffer->capacity() - slice.offset);
      infos[i] = {buffer->handle(), slice.offset, std::min(padded, max_range)};
    }
    writes[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[i].dstSet = set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &infos[i];
  }
  api.vkUpdateDescriptorSets(context_->device(), writes.size(), writes.data(), 0, nullptr);
  return set;
}

std::uint32_t Runner::fitting_steps(const Kernel& kernel, std::uint32_t steps, std::uint64_t step_workgroups,
                                    double budget) const {
  if (budget_nanoseconds_ == 0) return steps;
  const double each = kernel.workgroup_nanoseconds() * static_cast<double>(step_workgroups);
  const double fit = each > 0 ? budget / each : static_cast<double>(kProbeWorkgroups / step_workgroups);
  return static_cast<std::uint32_t>(std::clamp<double>(std::floor(fit), 0, steps));
}

Result<void> Runner::fill_submit(std::span<const Dispatch> dispatches, Cursor& cursor, std::vector<Piece>& pieces,
                                 bool time_each, const std::string** last_kernel) {
  const DeviceApi& api = context_->api();
  pieces.clear();
  AICF_RETURN_IF_ERROR(
      check(api.vkResetDescriptorPool(context_->device(), descriptors_.get(), 0), "vkResetDescriptorPool", "running"));
  AICF_TRY(VkCommandBuffer commands, queue_.begin("running"));
  if (queries_) {
    api.vkCmdResetQueryPool(commands, queries_.get(), 0, kMaxPieces + 1);
    api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(), 0);
  }
  double budget = budget_nanoseconds_;
  std::uint32_t descriptors = 0;
  while (cursor.dispatch < dispatches.size() && pieces.size() < kMaxPieces) {
    const Dispatch& dispatch = dispatches[cursor.dispatch];
    if (dispatch.workgroups == 0) {
      ++cursor.dispatch;
      continue;
    }
    AICF_CHECK(dispatch.kernel, "a dispatch has no kernel");
    const auto& kernel = static_cast<const Kernel&>(*dispatch.kernel);
    const bool unmeasured = budget_nanoseconds_ > 0 && kernel.workgroup_nanoseconds() == 0;
    // Without timestamps a part is measured by the host's clock, so it must be alone.
    const bool alone = !queries_ && (time_each || unmeasured);
    descriptors += kernel.arguments();
    if (!pieces.empty() && (descriptors > kMaxDescriptors || alone)) break;

    AICF_CHECK(dispatch.parameters.size() == kernel.parameters(), "kernel " + kernel.name() + ": wrong parameters");
    auto folded = fold_grid(dispatch.workgroups, grid_limits_);
    if (!folded) return run_failure(folded.error().message, fmt::format("kernel '{}'", kernel.name()));
    const int outer = folded->outer();
    const std::uint32_t steps_left = folded->size[outer] - cursor.outer;
    std::uint32_t steps = fitting_steps(kernel, steps_left, folded->outer_step(), budget);
    if (steps == 0 && !pieces.empty()) break;
    steps = std::max(steps, 1U);

    AICF_TRY(VkDescriptorSet set, bind(kernel, dispatch));
    std::vector<std::int32_t> constants = dispatch.parameters;
    constants.push_back(static_cast<std::int32_t>(dispatch.workgroups));
    const VkPipelineLayout layout = kernel.layout().pipeline.get();
    api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline());
    api.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    api.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * constants.size(), constants.data());
    std::array<std::uint32_t, 3> base{0, 0, 0}, size = folded->size;
    base[outer] = cursor.outer;
    size[outer] = steps;
    if (steps == folded->size[outer]) {
      api.vkCmdDispatch(commands, size[0], size[1], size[2]);
    } else {
      api.vkCmdDispatchBase(commands, base[0], base[1], base[2], size[0], size[1], size[2]);
    }
    record_memory_barrier(api, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    pieces.push_back({cursor.dispatch, steps * folded->outer_step()});
    if (queries_) {
      api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(), pieces.size());
    }
    *last_kernel = &kernel.name();
    budget -= kernel.workgroup_nanoseconds() * static_cast<double>(pieces.back().workgroups);
    if (steps == steps_left) {
      cursor = {cursor.dispatch + 1, 0};
    } else {
      cursor.outer += steps;
      break;
    }
    if (unmeasured || alone) break;
  }
  return {};
}

Result<std::vector<double>> Runner::read_timestamps(std::size_t pieces) {
  std::vector<double> nanoseconds;
  if (!queries_) return nanoseconds;
  std::vector<std::uint64_t> stamps(pieces + 1);
  AICF_RETURN_IF_ERROR(check(context_->note(context_->api().vkGetQueryPoolResults(
                                 context_->device(), queries_.get(), 0, stamps.size(), stamps.size() * 8, stamps.data(),
                                 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT)),
                             "vkGetQueryPoolResults", "reading timestamps"));
  const std::uint32_t bits = context_->physical().timestamp_valid_bits;
  const std::uint64_t mask = bits >= 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::uint64_t ticks = (stamps[i + 1] - stamps[i]) & mask;  // modulo 2^bits: one wrap is right
    nanoseconds.push_back(static_cast<double>(ticks) * context_->physical().limits().timestampPeriod);
  }
  return nanoseconds;
}

Result<void> Runner::run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings) {
  if (timings) timings->assign(dispatches.size(), {});
  Cursor cursor;
  std::vector<Piece> pieces;
  while (cursor.dispatch < dispatches.size()) {
    const std::string* kernel = nullptr;
    AICF_RETURN_IF_ERROR(fill_submit(dispatches, cursor, pieces, timings != nullptr, &kernel));
    if (pieces.empty()) break;
    const auto start = Clock::now();
    AICF_RETURN_IF_ERROR(queue_.finish(fmt::format("running up to kernel '{}'", *kernel)));
    const double host = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    if (!timings && budget_nanoseconds_ == 0) continue;
    AICF_TRY(auto nanoseconds, read_timestamps(pieces.size()));
    if (nanoseconds.empty() && pieces.size() == 1) nanoseconds.push_back(host);
    for (std::size_t i = 0; i < nanoseconds.size(); ++i) {
      const auto& piece = pieces[i];
      if (timings) (*timings)[piece.dispatch].milliseconds += nanoseconds[i] * 1e-6;
      // Never 0 again, also where the clock is too coarse to see the piece.
      static_cast<const Kernel*>(dispatches[piece.dispatch].kernel)
          ->set_workgroup_nanoseconds(std::max(nanoseconds[i], 1.0) / static_cast<double>(piece.workgroups));
    }
  }
  return {};
}

}  // namespace aicf::vulkan
