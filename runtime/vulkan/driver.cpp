#include "runtime/vulkan/driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <thread>

#include "runtime/vulkan/run.h"

namespace aicf {
namespace vulkan {
namespace {

class VulkanDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create(std::shared_ptr<Context> context) {
    std::unique_ptr<VulkanDevice> made(new VulkanDevice);
    made->context_ = context;
    AICF_TRY(made->queue_, Queue::create(context));
    AICF_TRY(made->runner_, Runner::create(context, *made->queue_));
    AICF_RETURN_IF_ERROR(made->context_->instance().check_validation("opening " + made->info().name));
    return made;
  }

  const DeviceInfo& info() const override { return context_->physical().info; }

  std::size_t offset_alignment() const override {
    // A cache line, so that tensors of an arena share none; limits are powers of two of at most 256.
    return std::max<std::size_t>(64, context_->physical().limits().minStorageBufferOffsetAlignment);
  }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    return Buffer::create(context_, bytes, Buffer::Use::kernel);
  }

  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    auto& buffer = static_cast<Buffer&>(to);
    AICF_CHECK(offset <= buffer.size() && bytes.size() <= buffer.size() - offset, "upload outside its buffer");
    return queue_->upload(buffer, offset, bytes);
  }

  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    const auto& buffer = static_cast<const Buffer&>(from);
    AICF_CHECK(offset <= buffer.size() && bytes.size() <= buffer.size() - offset, "download outside its buffer");
    return queue_->download(buffer, offset, bytes);
  }

  Result<void> fits(const KernelBinary& kernel) override { return Kernel::fits(context_->physical(), kernel); }

  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    auto loaded = Kernel::create(context_, kernel);
    AICF_RETURN_IF_ERROR(context_->instance().check_validation(fmt::format("kernel '{}'", kernel.name)));
    return loaded;
  }

  Result<std::vector<std::unique_ptr<LoadedKernel>>> load_all(std::span<const KernelBinary> kernels,
                                                              std::size_t* failed) override {
    std::vector<Result<std::unique_ptr<Kernel>>> results(kernels.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < kernels.size();) results[i] = Kernel::create(context_, kernels[i]);
    };
    {
      std::vector<std::jthread> helpers;  // joined at the end of the block
      const std::size_t threads = std::min<std::size_t>(std::thread::hardware_concurrency(), kernels.size());
      for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
      work();
    }
    std::vector<std::unique_ptr<LoadedKernel>> loaded;
    for (auto& result : results) {
      if (failed) *failed = loaded.size();
      if (!result) return std::unexpected(std::move(result).error());
      loaded.push_back(std::move(*result));
    }
    AICF_RETURN_IF_ERROR(context_->instance().check_validation("loading kernels"));
    return loaded;
  }

  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                   std::vector<DispatchCounters>* counters) override {
    if (counters) counters->assign(dispatches.size(), {});  // a GPU counts no bytes
    auto done = runner_->run(dispatches, timings);
    AICF_RETURN_IF_ERROR(context_->instance().check_validation("running"));
    return done;
  }

  bool lost() const override { return context_->lost(); }

 private:
  VulkanDevice() = default;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Runner> runner_;
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool flag(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::string_view(value) != "0";
}

/// Usable devices; `problems` gets a line for each that is not. Errors: that of a call that failed, where it leaves none.
Result<std::vector<PhysicalDevice>> list(const Instance& instance, std::vector<std::string>* problems) {
  AICF_TRY(const auto handles, instance.physical_devices());
  std::vector<PhysicalDevice> found;
  std::optional<Diagnostic> failure;
  for (VkPhysicalDevice handle : handles) {
    auto device = describe(instance, handle, static_cast<int>(found.size()));
    if (device) {
      found.push_back(std::move(*device));
    } else {
      problems->push_back(device.error().text());
      if (device.error().kind == ErrorKind::run_failure) failure = device.error();
    }
  }
  if (found.empty() && failure) return std::unexpected(*failure);
  return found;
}

std::string why_none(const std::vector<std::string>& problems) {
  return problems.empty() ? "the Vulkan loader lists no device; install a driver (mesa-vulkan-drivers has a CPU one)"
                          : fmt::format("no usable Vulkan device: {}", fmt::join(problems, "; "));
}

class VulkanDriver final : public Driver {
 public:
  std::string name() const override { return "vulkan"; }

  std::vector<DeviceInfo> devices(std::string* why_empty) override {
    std::vector<DeviceInfo> infos;
    std::string why;
    std::vector<std::string> problems;
    if (auto instance = Instance::acquire(false); !instance) {
      why = instance.error().text();
    } else if (auto found = list(**instance, &problems); !found) {
      why = found.error().text();
    } else {
      for (auto& device : *found) infos.push_back(std::move(device.info));
      if (infos.empty()) why = why_none(problems);
    }
    if (why_empty) *why_empty = why;
    return infos;
  }

  Result<std::unique_ptr<Device>> open(const std::string& selector) override {
    return open_vulkan(selector, vulkan_options_from_environment());
  }
};

}  // namespace
}  // namespace vulkan

VulkanOptions vulkan_options_from_environment() {
  VulkanOptions options;
  options.validation = vulkan::flag("AICF_VULKAN_VALIDATION") && vulkan::Instance::validation_available();
  options.robust = vulkan::flag("AICF_VULKAN_ROBUST");
  options.force_staging = vulkan::flag("AICF_VULKAN_STAGING");
  if (const char* text = std::getenv("AICF_VULKAN_SUBMIT_MS")) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end != text && *end == 0 && value >= 0) options.submit_milliseconds = value;
  }
  return options;
}

Result<std::unique_ptr<Device>> open_vulkan(const std::string& selector, const VulkanOptions& options) {
  AICF_TRY(auto instance, vulkan::Instance::acquire(options.validation));
  std::vector<std::string> problems;
  AICF_TRY(auto found, vulkan::list(*instance, &problems));
  if (found.empty()) return unsupported(vulkan::why_none(problems));

  std::size_t index = found.size();
  const char* end = selector.data() + selector.size();
  const auto [stop, error] = std::from_chars(selector.data(), end, index);
  if (selector.empty()) {
    index = 0;
  } else if (error != std::errc() || stop != end) {
    const std::string wanted = vulkan::lower(selector);
    index = std::find_if(found.begin(), found.end(),
                         [&](const auto& d) { return vulkan::lower(d.info.name).contains(wanted); }) -
            found.begin();
  }
  if (index >= found.size()) {
    std::vector<std::string> names;
    for (const auto& device : found) names.push_back(fmt::format("{} ({})", device.info.id, device.info.name));
    return unsupported(fmt::format("no Vulkan device '{}'; there is {}", selector, fmt::join(names, ", ")));
  }
  AICF_TRY(auto context, vulkan::Context::create(std::move(instance), std::move(found[index]), options));
  return vulkan::VulkanDevice::create(std::move(context));
}

Driver& vulkan_driver() {
  static vulkan::VulkanDriver driver;
  return driver;
}

}  // namespace aicf
