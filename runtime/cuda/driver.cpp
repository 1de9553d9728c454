#include "runtime/cuda/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/library.h"

namespace aicf {
namespace cuda {
namespace {

constexpr std::size_t kOffsetAlignment = 256;  // Of cuMemAlloc; no access is wider.

DeviceInfo info_of(const Library& api, int index, int device) {
  const auto attribute = [&](int which) {
    int value = 0;
    return static_cast<std::int64_t>(api.device_attribute(&value, which, device) == kSuccess ? value : 0);
  };
  DeviceInfo info;
  info.driver = "cuda";
  info.id = fmt::format("cuda:{}", index);
  char name[256] = {};
  if (api.device_name(name, sizeof(name) - 1, device) == kSuccess) info.name = name;
  int version = 0;
  api.driver_version(&version);
  info.description = fmt::format("CUDA driver {}.{}", version / 1000, version % 1000 / 10);
  std::size_t memory = 0;
  api.device_memory(&memory, device);
  info.properties = {{"subgroup_size", attribute(kWarpSize)},
                     {"workgroup_memory", attribute(kSharedPerBlockOptin)},
                     {"max_workgroup_size", attribute(kMaxThreadsPerBlock)},
                     {"compute_capability", attribute(kCapabilityMajor) * 10 + attribute(kCapabilityMinor)},
                     {"multiprocessors", attribute(kMultiprocessors)},
                     {"shared_memory_per_multiprocessor", attribute(kSharedPerMultiprocessor)},
                     {"clock_khz", attribute(kClockRate)},
                     {"memory_clock_khz", attribute(kMemoryClockRate)},
                     {"memory_bus_bits", attribute(kMemoryBusWidth)},
                     {"l2_bytes", attribute(kL2CacheSize)},
                     {"memory_bytes", static_cast<std::int64_t>(memory)}};
  return info;
}

/// A stream or an event, destroyed by the right function.
class Owned {
 public:
  Owned(const Context& context, Status (*destroy)(Handle)) : context_(context), destroy_(destroy) {}
  Owned(Owned&& other) noexcept
      : handle(std::exchange(other.handle, nullptr)), context_(other.context_), destroy_(other.destroy_) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (handle && context_.use()) destroy_(handle);
  }
  Handle handle = nullptr;

 private:
  const Context& context_;
  Status (*destroy_)(Handle);
};

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create(const Library& api, int index, int device) {
    AICF_TRY(std::shared_ptr<Context> context, Context::create(api, device));
    std::unique_ptr<CudaDevice> made(new CudaDevice(std::move(context), info_of(api, index, device)));
    AICF_RETURN_IF_ERROR(api.check(api.stream_create(&made->stream_.handle, kStreamNonBlocking), "making a stream"));
    return made;
  }

  const DeviceInfo& info() const override { return info_; }
  std::size_t offset_alignment() const override { return kOffsetAlignment; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override { return Buffer::create(context_, bytes); }

  // The plain copies wait for their end, and run() has waited for all kernels: no order is left to make.
  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    AICF_CHECK(offset <= to.size() && bytes.size() <= to.size() - offset, "upload outside its buffer");
    if (bytes.empty()) return {};
    AICF_RETURN_IF_ERROR(context_->use());
    const Pointer target = static_cast<Buffer&>(to).pointer() + offset;
    AICF_RETURN_IF_ERROR(api().check(api().copy_to_device(target, bytes.data(), bytes.size()),
                                     fmt::format("uploading {} bytes", bytes.size())));
    // From pageable memory the call may return before the last part arrived; the default stream knows.
    return api().check(api().stream_synchronize(nullptr), "uploading");
  }

  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    AICF_CHECK(offset <= from.size() && bytes.size() <= from.size() - offset, "download outside its buffer");
    if (bytes.empty()) return {};
    AICF_RETURN_IF_ERROR(context_->use());
    const Pointer source = static_cast<const Buffer&>(from).pointer() + offset;
    return api().check(api().copy_to_host(bytes.data(), source, bytes.size()),
                       fmt::format("downloading {} bytes", bytes.size()));
  }

  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    return Kernel::create(context_, kernel);
  }

  Result<std::vector<std::unique_ptr<LoadedKernel>>> load_all(std::span<const KernelBinary> kernels) override {
    std::vector<std::unique_ptr<LoadedKernel>> loaded;  // Binaries load in microseconds; nothing to gain from threads.
    for (const KernelBinary& kernel : kernels) {
      AICF_TRY(auto one, load(kernel));
      loaded.push_back(std::move(one));
    }
    return loaded;
  }

  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                   std::vector<DispatchCounters>* counters) override {
    AICF_RETURN_IF_ERROR(context_->use());
    if (counters) counters->assign(dispatches.size(), {});
    std::vector<Owned> marks;  // One event before the first dispatch and one after each.
    const auto mark = [&]() -> Result<void> {
      if (!timings) return {};
      marks.emplace_back(*context_, api().event_destroy);
      AICF_RETURN_IF_ERROR(api().check(api().event_create(&marks.back().handle, 0), "making an event"));
      return api().check(api().event_record(marks.back().handle, stream_.handle), "recording an event");
    };
    const bool synchronous = std::getenv("AICF_CUDA_SYNC") && std::strcmp(std::getenv("AICF_CUDA_SYNC"), "1") == 0;

    AICF_RETURN_IF_ERROR(mark());
    for (const Dispatch& dispatch : dispatches) {
      const auto& kernel = static_cast<const Kernel&>(*dispatch.kernel);
      AICF_CHECK(dispatch.buffers.size() == kernel.argument_count(), kernel.name() + ": one buffer per argument");
      AICF_CHECK(dispatch.parameters.size() == kernel.parameter_count(), kernel.name() + ": one value per parameter");
      if (dispatch.workgroups > 0) AICF_RETURN_IF_ERROR(kernel.launch(dispatch, stream_.handle));
      AICF_RETURN_IF_ERROR(mark());
      if (synchronous) AICF_RETURN_IF_ERROR(wait({&dispatch, 1}));
    }
    AICF_RETURN_IF_ERROR(wait(dispatches));

    if (timings) {
      timings->clear();
      for (std::size_t i = 1; i < marks.size(); ++i) {
        float milliseconds = 0;
        AICF_RETURN_IF_ERROR(api().check(api().event_elapsed(&milliseconds, marks[i - 1].handle, marks[i].handle),
                                         "reading a timestamp"));
        timings->push_back({milliseconds});
      }
    }
    return {};
  }

 private:
  CudaDevice(std::shared_ptr<Context> context, DeviceInfo info)
      : context_(std::move(context)), info_(std::move(info)), stream_(*context_, context_->api().stream_destroy) {}

  const Library& api() const { return context_->api(); }

  /// Waits for everything queued. A fault leaves the context unusable, and CUDA does not say whose it was.
  Result<void> wait(std::span<const Dispatch> dispatches) {
    const Status status = api().stream_synchronize(stream_.handle);
    if (status == kSuccess) return {};
    if (dispatches.size() == 1) {
      return run_failure(api().words(status),
                         fmt::format("kernel '{}'", static_cast<const Kernel&>(*dispatches[0].kernel).name()));
    }
    return run_failure(fmt::format("one of {} launches failed: {}; AICF_CUDA_SYNC=1 tells which", dispatches.size(),
                                   api().words(status)),
                       info_.id);
  }

  std::shared_ptr<Context> context_;
  DeviceInfo info_;
  Owned stream_;
};

class CudaDriver final : public Driver {
 public:
  std::string name() const override { return "cuda"; }

  std::vector<DeviceInfo> devices(std::string* why_empty) override {
    std::vector<DeviceInfo> found;
    const auto api = library();
    if (!api) {
      if (why_empty) *why_empty = api.error().message;
      return found;
    }
    int count = 0;
    (*api)->device_count(&count);
    for (int index = 0; index < count; ++index) {
      int device = 0;
      if ((*api)->device_get(&device, index) == kSuccess) found.push_back(info_of(**api, index, device));
    }
    if (found.empty() && why_empty) *why_empty = "the NVIDIA driver lists no GPU";
    return found;
  }

  Result<std::unique_ptr<Device>> open(const std::string& selector) override {
    AICF_TRY(const Library* api, library());
    const std::vector<DeviceInfo> all = devices(nullptr);
    const auto lower = [](std::string text) {
      for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return text;
    };
    int wanted = selector.empty() ? 0 : -1;
    const auto [end, error] = std::from_chars(selector.data(), selector.data() + selector.size(), wanted);
    const bool is_index = error == std::errc() && end == selector.data() + selector.size();
    std::string names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool named =
          !selector.empty() && !is_index && lower(all[i].name).find(lower(selector)) != std::string::npos;
      if (named || static_cast<int>(i) == wanted) {
        int device = 0;
        AICF_RETURN_IF_ERROR(api->check(api->device_get(&device, static_cast<int>(i)), all[i].id));
        return CudaDevice::create(*api, static_cast<int>(i), device);
      }
      names += fmt::format("{}{} ({})", i ? ", " : "", all[i].id, all[i].name);
    }
    if (all.empty()) return unsupported("the NVIDIA driver lists no GPU");
    return unsupported(fmt::format("no CUDA device is called '{}'; there are {}", selector, names));
  }
};

}  // namespace
}  // namespace cuda

Driver& cuda_driver() {
  static cuda::CudaDriver driver;
  return driver;
}

}  // namespace aicf
