#include "runtime/cuda_emulation/driver.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/cuda_emulation/host_compiler.h"
#include "runtime/cuda_emulation/machine.h"

namespace aicf {
namespace {

/// Largest shared memory of a workgroup (opt-in), from the compute capability tables of the CUDA documentation.
struct Architecture {
  int number;
  int shared_kib;
};
constexpr Architecture kArchitectures[] = {{80, 163}, {75, 64},  {86, 99},   {87, 163},
                                           {89, 99},  {90, 227}, {100, 227}, {120, 99}};

constexpr std::size_t kOffsetAlignment = 256;
constexpr int kMaxThreads = 1024;

DeviceInfo info_of(const Architecture& architecture) {
  DeviceInfo info;
  info.driver = "cuda_emulation";
  info.id = fmt::format("cuda-emulation:sm_{}", architecture.number);
  info.name = fmt::format("host emulation of CUDA sm_{}", architecture.number);
  info.description = "one fiber per thread; checks bounds, alignment, races, barriers and asynchronous copies";
  info.properties = {{"subgroup_size", 32},
                     {"workgroup_memory", architecture.shared_kib * 1024},
                     {"max_workgroup_size", kMaxThreads},
                     {"compute_capability", architecture.number}};
  return info;
}

class EmulationBuffer final : public DeviceBuffer {
 public:
  explicit EmulationBuffer(std::size_t size) : size_(size) {}
  ~EmulationBuffer() override {
    if (bytes_) munmap(bytes_, mapped());
  }
  bool map() {
    void* memory = mmap(nullptr, mapped(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    bytes_ = static_cast<unsigned char*>(memory);
    // Every float type reads NaN, integers −1, until something is stored.
    std::memset(bytes_, 0xff, size_);
    return true;
  }
  std::size_t size() const override { return size_; }
  unsigned char* bytes() const { return bytes_; }
  ShadowMemory& shadow() { return shadow_; }

 private:
  std::size_t mapped() const { return size_ ? size_ : 1; }
  std::size_t size_;
  unsigned char* bytes_ = nullptr;
  ShadowMemory shadow_;
};

class EmulationKernel final : public LoadedKernel {
 public:
  EmulationKernel(const KernelBinary& binary, std::shared_ptr<HostKernel> kernel)
      : binary_(binary), kernel_(std::move(kernel)) {}
  const KernelBinary& binary() const { return binary_; }
  const HostKernel& kernel() const { return *kernel_; }
  const std::string& source() const { return binary_.bytes; }

 private:
  KernelBinary binary_;
  std::shared_ptr<HostKernel> kernel_;
};

bool overlap(const LaunchArgument& a, const LaunchArgument& b) {
  return a.bytes < b.bytes + b.size && b.bytes < a.bytes + a.size;
}

class EmulationDevice final : public Device {
 public:
  EmulationDevice(const Architecture& architecture, const CudaEmulationOptions& options)
      : architecture_(architecture), options_(options), info_(info_of(architecture)), machine_(options.seed) {}

  const DeviceInfo& info() const override { return info_; }
  std::size_t offset_alignment() const override { return kOffsetAlignment; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    auto buffer = std::make_unique<EmulationBuffer>(bytes);
    if (!buffer->map()) return run_failure(fmt::format("no memory for a buffer of {} bytes", bytes), info_.id);
    return buffer;
  }

  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    AICF_CHECK(offset <= to.size() && bytes.size() <= to.size() - offset, "upload outside its buffer");
    if (!bytes.empty()) std::memcpy(static_cast<EmulationBuffer&>(to).bytes() + offset, bytes.data(), bytes.size());
    return {};
  }

  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    AICF_CHECK(offset <= from.size() && bytes.size() <= from.size() - offset, "download outside its buffer");
    if (!bytes.empty())
      std::memcpy(bytes.data(), static_cast<const EmulationBuffer&>(from).bytes() + offset, bytes.size());
    return {};
  }

  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    if (kernel.kind != BinaryKind::cuda_source) {
      return unsupported(fmt::format("{} runs CUDA source only", info_.id), fmt::format("kernel '{}'", kernel.name));
    }
    if (kernel.workgroup_size < 1 || kernel.workgroup_size > kMaxThreads) {
      return unsupported(
          fmt::format("a workgroup of {} threads is outside 1 to {}", kernel.workgroup_size, kMaxThreads),
          fmt::format("kernel '{}'", kernel.name));
    }
    if (kernel.workgroup_memory_bytes > static_cast<std::uint32_t>(architecture_.shared_kib) * 1024) {
      return unsupported(fmt::format("{} bytes of shared memory are over the {} KiB of sm_{}",
                                     kernel.workgroup_memory_bytes, architecture_.shared_kib, architecture_.number),
                         fmt::format("kernel '{}'", kernel.name));
    }
    if (kernel.arguments.size() > 60) {
      return unsupported("emulation passes at most 60 buffers", fmt::format("kernel '{}'", kernel.name));
    }
    AICF_TRY(auto compiled, compile_for_host(kernel.bytes, kernel.name, architecture_.number));
    const std::size_t expected = kernel.arguments.size() + kernel.parameters.size() + 1;
    if (static_cast<std::size_t>(compiled->parameter_count()) != expected) {
      return run_failure(
          fmt::format("the source has {} parameters; {} pointers, {} integers and the number of workgroups "
                      "are {}",
                      compiled->parameter_count(), kernel.arguments.size(), kernel.parameters.size(), expected),
          fmt::format("kernel '{}'", kernel.name));
    }
    return std::make_unique<EmulationKernel>(kernel, std::move(compiled));
  }

  Result<std::vector<std::unique_ptr<LoadedKernel>>> load_all(std::span<const KernelBinary> kernels,
                                                              std::size_t* failed) override {
    std::vector<Result<std::unique_ptr<LoadedKernel>>> results(kernels.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < kernels.size(); i = next++) results[i] = load(kernels[i]);
    };
    const std::size_t workers =
        std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), kernels.size());
    {
      std::vector<std::jthread> pool;
      for (std::size_t i = 1; i < workers; ++i) pool.emplace_back(work);
      work();
    }
    std::vector<std::unique_ptr<LoadedKernel>> loaded;
    for (auto& result : results) {
      if (failed) *failed = loaded.size();
      if (!result) return std::unexpected(std::move(result.error()));
      loaded.push_back(std::move(*result));
    }
    return loaded;
  }

  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                   std::vector<DispatchCounters>* counters) override {
    if (timings) timings->clear();
    if (counters) counters->clear();
    for (const Dispatch& dispatch : dispatches) {
      AICF_TRY(LaunchPlan plan, plan_of(dispatch));
      if (counters) plan.traced_workgroups = options_.traced_workgroups;
      LaunchCounters counted;
      const auto begin = std::chrono::steady_clock::now();
      if (dispatch.workgroups > 0) {
        AICF_RETURN_IF_ERROR(machine_.run(plan, counted));
      } else {
        counted.bytes_read.resize(plan.arguments.size());
        counted.bytes_written.resize(plan.arguments.size());
      }
      const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
      if (timings) timings->push_back({elapsed.count()});
      if (counters) {
        counters->push_back(
            {std::move(counted.bytes_read), std::move(counted.bytes_written), std::move(counted.events)});
      }
    }
    return {};
  }

 private:
  Result<LaunchPlan> plan_of(const Dispatch& dispatch) {
    const auto& kernel = static_cast<const EmulationKernel&>(*dispatch.kernel);
    const KernelBinary& binary = kernel.binary();
    AICF_CHECK(dispatch.buffers.size() == binary.arguments.size(), binary.name + ": one buffer per argument");
    AICF_CHECK(dispatch.parameters.size() == binary.parameters.size(), binary.name + ": one value per parameter");
    if (dispatch.workgroups > INT_MAX) {
      return unsupported(fmt::format("{} workgroups are over {}", dispatch.workgroups, INT_MAX),
                         fmt::format("kernel '{}'", binary.name));
    }
    LaunchPlan plan;
    plan.kernel = &kernel.kernel();
    plan.name = binary.name;
    plan.source = &kernel.source();
    plan.parameters = dispatch.parameters;
    plan.parameters.push_back(static_cast<std::int32_t>(dispatch.workgroups));
    plan.workgroups = dispatch.workgroups;
    plan.threads = static_cast<int>(binary.workgroup_size);
    plan.shared_bytes = binary.workgroup_memory_bytes;
    for (std::size_t i = 0; i < dispatch.buffers.size(); ++i) {
      const BufferSlice& slice = dispatch.buffers[i];
      auto& buffer = static_cast<EmulationBuffer&>(*slice.buffer);
      AICF_CHECK(slice.offset % kOffsetAlignment == 0, binary.name + ": a buffer's offset is misaligned");
      AICF_CHECK(slice.offset <= buffer.size() && slice.size <= buffer.size() - slice.offset,
                 binary.name + ": a slice passes its buffer's end");
      plan.arguments.push_back({.name = binary.arguments[i].name,
                                .type = binary.arguments[i].type,
                                .written = binary.arguments[i].written,
                                .bytes = buffer.bytes() + slice.offset,
                                .size = slice.size});
    }
    for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
      LaunchArgument& argument = plan.arguments[i];
      for (const LaunchArgument& other : plan.arguments) argument.tracked |= other.written && overlap(argument, other);
      if (!argument.tracked) continue;
      auto& buffer = static_cast<EmulationBuffer&>(*dispatch.buffers[i].buffer);
      if (!buffer.shadow().reserve(buffer.size())) {
        return run_failure(fmt::format("no memory to track a buffer of {} bytes", buffer.size()), info_.id);
      }
      argument.words = buffer.shadow().words() + dispatch.buffers[i].offset / 4;
      argument.halves = buffer.shadow().halves() + dispatch.buffers[i].offset / 2;
    }
    return plan;
  }

  Architecture architecture_;
  CudaEmulationOptions options_;
  DeviceInfo info_;
  Machine machine_;
};

class CudaEmulationDriver final : public Driver {
 public:
  std::string name() const override { return "cuda_emulation"; }

  std::vector<DeviceInfo> devices(std::string* why_empty) override {
    std::vector<DeviceInfo> found;
    if (const auto compiler = host_compiler(); !compiler) {
      if (why_empty) *why_empty = compiler.error().message;
      return found;
    }
    for (const Architecture& architecture : kArchitectures) found.push_back(info_of(architecture));
    return found;
  }

  Result<std::unique_ptr<Device>> open(const std::string& selector) override {
    return open_cuda_emulation(selector, cuda_emulation_options_from_environment());
  }
};

}  // namespace

CudaEmulationOptions cuda_emulation_options_from_environment() {
  CudaEmulationOptions options;
  if (const char* seed = std::getenv("AICF_EMULATION_SEED")) options.seed = std::strtoull(seed, nullptr, 10);
  if (const char* traced = std::getenv("AICF_EMULATION_TRACE")) {
    options.traced_workgroups = std::strcmp(traced, "all") == 0 ? INT_MAX : std::max(0, std::atoi(traced));
  }
  return options;
}

Result<std::unique_ptr<Device>> open_cuda_emulation(const std::string& selector, const CudaEmulationOptions& options) {
  AICF_RETURN_IF_ERROR(host_compiler());
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    const std::string name = fmt::format("sm_{}", architecture.number);
    if (selector.empty() || selector == name) return std::make_unique<EmulationDevice>(architecture, options);
    known += (known.empty() ? "" : ", ") + name;
  }
  return unsupported(fmt::format("no emulated CUDA device is called '{}'; there are {}", selector, known));
}

Driver& cuda_emulation_driver() {
  static CudaEmulationDriver driver;
  return driver;
}

}  // namespace aicf
