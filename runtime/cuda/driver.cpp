#include "runtime/cuda/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/library.h"

namespace aicf {
namespace cuda {
namespace {

constexpr std::size_t kOffsetAlignment = 256;  // Of cuMemAlloc; no access is wider.

Result<DeviceInfo> info_of(const Library& api, int index, int device) {
  DeviceInfo info;
  info.driver = "cuda";
  info.id = fmt::format("cuda:{}", index);
  char name[256] = {};
  AICF_RETURN_IF_ERROR(api.check(api.device_name(name, sizeof(name) - 1, device), "cuDeviceGetName", info.id));
  info.name = name;
  int version = 0;
  AICF_RETURN_IF_ERROR(api.check(api.driver_version(&version), "cuDriverGetVersion", info.id));
  info.description = fmt::format("CUDA driver {}.{}", version / 1000, version % 1000 / 10);
  std::size_t memory = 0;
  AICF_RETURN_IF_ERROR(api.check(api.device_memory(&memory, device), "cuDeviceTotalMem", info.id));
  info.properties["memory_bytes"] = static_cast<std::int64_t>(memory);
  constexpr std::pair<const char*, int> attributes[] = {{"subgroup_size", kWarpSize},
                                                        {"workgroup_memory", kSharedPerBlockOptin},
                                                        {"max_workgroup_size", kMaxThreadsPerBlock},
                                                        {"multiprocessors", kMultiprocessors},
                                                        {"shared_memory_per_multiprocessor", kSharedPerMultiprocessor},
                                                        {"clock_khz", kClockRate},
                                                        {"memory_clock_khz", kMemoryClockRate},
                                                        {"memory_bus_bits", kMemoryBusWidth},
                                                        {"l2_bytes", kL2CacheSize},
                                                        {"capability_major", kCapabilityMajor},
                                                        {"capability_minor", kCapabilityMinor}};
  for (const auto& [key, which] : attributes) {
    int value = 0;
    AICF_RETURN_IF_ERROR(api.check(api.device_attribute(&value, which, device), "cuDeviceGetAttribute",
                                   fmt::format("{}: {}", info.id, key)));
    info.properties[key] = value;
  }
  info.properties["compute_capability"] =
      info.properties["capability_major"] * 10 + info.properties["capability_minor"];
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
  static Result<std::unique_ptr<Device>> create(const Library& api, int device, DeviceInfo info) {
    AICF_TRY(std::shared_ptr<Context> context, Context::create(api, device));
    std::unique_ptr<CudaDevice> made(new CudaDevice(std::move(context), std::move(info)));
    AICF_RETURN_IF_ERROR(
        api.check(api.stream_create(&made->stream_.handle, kStreamNonBlocking), "cuStreamCreate", made->info_.id));
    return made;
  }

  const DeviceInfo& info() const override { return info_; }
  bool lost() const override { return lost_; }
  std::size_t offset_alignment() const override { return kOffsetAlignment; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override { return Buffer::create(context_, bytes); }

  // The plain copies wait for their end, and run() has waited for all kernels: no order is left to make.
  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    AICF_CHECK(offset <= to.size() && bytes.size() <= to.size() - offset, "upload outside its buffer");
    if (bytes.empty()) return {};
    AICF_RETURN_IF_ERROR(context_->use());
    const Pointer target = static_cast<Buffer&>(to).pointer() + offset;
    const std::string place = fmt::format("uploading {} bytes", bytes.size());
    AICF_RETURN_IF_ERROR(api().check(api().copy_to_device(target, bytes.data(), bytes.size()), "cuMemcpyHtoD", place));
    // From pageable memory the call may return before the last part arrived; the default stream knows.
    return api().check(api().stream_synchronize(nullptr), "cuStreamSynchronize", place);
  }

  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    AICF_CHECK(offset <= from.size() && bytes.size() <= from.size() - offset, "download outside its buffer");
    if (bytes.empty()) return {};
    AICF_RETURN_IF_ERROR(context_->use());
    const Pointer source = static_cast<const Buffer&>(from).pointer() + offset;
    return api().check(api().copy_to_host(bytes.data(), source, bytes.size()), "cuMemcpyDtoH",
                       fmt::format("downloading {} bytes", bytes.size()));
  }

  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    return Kernel::create(context_, kernel);
  }

  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                   std::vector<DispatchCounters>* counters) override {
    auto ran = queue_and_wait(dispatches, timings, counters);
    // What queued kernels use may be freed next.
    if (!ran) api().stream_synchronize(stream_.handle);
    return ran;
  }

 private:
  Result<void> queue_and_wait(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                              std::vector<DispatchCounters>* counters) {
    AICF_RETURN_IF_ERROR(context_->use());
    if (counters) counters->assign(dispatches.size(), {});
    std::vector<Owned> marks;  // One event before the first dispatch and one after each.
    const auto mark = [&]() -> Result<void> {
      if (!timings) return {};
      marks.emplace_back(*context_, api().event_destroy);
      AICF_RETURN_IF_ERROR(api().check(api().event_create(&marks.back().handle, 0), "cuEventCreate", "running"));
      return api().check(api().event_record(marks.back().handle, stream_.handle), "cuEventRecord", "running");
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
                                         "cuEventElapsedTime", "reading timestamps"));
        timings->push_back({milliseconds});
      }
    }
    return {};
  }

  CudaDevice(std::shared_ptr<Context> context, DeviceInfo info)
      : context_(std::move(context)), info_(std::move(info)), stream_(*context_, context_->api().stream_destroy) {}

  const Library& api() const { return context_->api(); }

  /// Waits for everything queued. A fault leaves the context unusable, and CUDA does not say whose it was.
  Result<void> wait(std::span<const Dispatch> dispatches) {
    const Status status = api().stream_synchronize(stream_.handle);
    if (status == kSuccess) return {};
    lost_ = true;
    if (dispatches.size() == 1) {
      return run_failure("cuStreamSynchronize failed: " + api().words(status),
                         fmt::format("kernel '{}'", static_cast<const Kernel&>(*dispatches[0].kernel).name()));
    }
    return run_failure(fmt::format("cuStreamSynchronize failed: {}; one of {} launches, AICF_CUDA_SYNC=1 tells which",
                                   api().words(status), dispatches.size()),
                       info_.id);
  }

  std::shared_ptr<Context> context_;
  DeviceInfo info_;
  Owned stream_;
  bool lost_ = false;
};

struct Found {
  int device = 0;
  DeviceInfo info;
};

/// Devices that answer, up to the first that is `wanted`; `failure` gets the error of the last one that does not.
Result<std::vector<Found>> list(const Library& api, std::optional<Diagnostic>& failure,
                                const std::function<bool(const DeviceInfo&)>& wanted) {
  int count = 0;
  AICF_RETURN_IF_ERROR(api.check(api.device_count(&count), "cuDeviceGetCount", "listing devices"));
  std::vector<Found> found;
  for (int index = 0; index < count; ++index) {
    int device = 0;
    auto got = api.check(api.device_get(&device, index), "cuDeviceGet", fmt::format("cuda:{}", index));
    auto info = got ? info_of(api, index, device) : std::unexpected(got.error());
    if (info) {
      found.push_back({device, std::move(*info)});
      if (wanted(found.back().info)) break;
    } else {
      failure = info.error();
    }
  }
  return found;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

constexpr const char* kNoGpu = "the NVIDIA driver lists no GPU";

class CudaDriver final : public Driver {
 public:
  std::string name() const override { return "cuda"; }

  std::vector<DeviceInfo> devices(std::string* why_empty) override {
    std::vector<DeviceInfo> infos;
    std::optional<Diagnostic> failure;
    std::string why = kNoGpu;
    if (const auto api = library(); !api) {
      why = api.error().text();
    } else if (auto found = list(**api, failure, [](const DeviceInfo&) { return false; }); !found) {
      why = found.error().text();
    } else {
      for (Found& f : *found) infos.push_back(std::move(f.info));
      if (failure) why = failure->text();
    }
    if (why_empty && infos.empty()) *why_empty = why;
    return infos;
  }

  Result<std::unique_ptr<Device>> open(const std::string& selector) override {
    AICF_TRY(const Library* api, library());
    const bool is_index = std::ranges::all_of(selector, [](unsigned char c) { return std::isdigit(c); });
    const std::string id = "cuda:" + (selector.empty() ? "0" : selector);
    const auto wanted = [&](const DeviceInfo& info) {
      return is_index ? info.id == id : lower(info.name).find(lower(selector)) != std::string::npos;
    };
    std::optional<Diagnostic> failure;
    AICF_TRY(std::vector<Found> found, list(*api, failure, wanted));
    if (!found.empty() && wanted(found.back().info))
      return CudaDevice::create(*api, found.back().device, std::move(found.back().info));
    std::string names;
    for (const Found& f : found) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", f.info.id, f.info.name);
    if (failure) return std::unexpected(*failure);
    if (found.empty()) return unsupported(kNoGpu);
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
