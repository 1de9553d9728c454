#include "runtime/null/driver.h"

#include <fmt/format.h>

#include <cstring>

namespace aicf {

namespace {

class NullBuffer final : public DeviceBuffer {
 public:
  explicit NullBuffer(std::size_t size) : bytes_(size) {}
  std::size_t size() const override { return bytes_.size(); }
  std::vector<std::byte> bytes_;
};

class NullKernel final : public LoadedKernel {
 public:
  explicit NullKernel(std::size_t arguments) : arguments_(arguments) {}
  std::size_t arguments_;
};

class NullDevice final : public Device {
 public:
  NullDevice() { info_ = {"null", "null", "null device", "does nothing", {{"subgroup_size", 4}}}; }
  const DeviceInfo& info() const override { return info_; }
  std::size_t offset_alignment() const override { return 64; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    return std::make_unique<NullBuffer>(bytes);
  }

  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    auto& buffer = static_cast<NullBuffer&>(to);
    if (offset > buffer.size() || bytes.size() > buffer.size() - offset)
      return run_failure(
          fmt::format("an upload of {} bytes at {} passes the buffer's {}", bytes.size(), offset, buffer.size()));
    if (!bytes.empty()) std::memcpy(buffer.bytes_.data() + offset, bytes.data(), bytes.size());
    return {};
  }

  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    const auto& buffer = static_cast<const NullBuffer&>(from);
    if (offset > buffer.size() || bytes.size() > buffer.size() - offset)
      return run_failure(
          fmt::format("a download of {} bytes at {} passes the buffer's {}", bytes.size(), offset, buffer.size()));
    if (!bytes.empty()) std::memcpy(bytes.data(), buffer.bytes_.data() + offset, bytes.size());
    return {};
  }

  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    if (kernel.bytes.empty()) return run_failure(fmt::format("kernel '{}' is empty", kernel.name));
    return std::make_unique<NullKernel>(kernel.arguments.size());
  }

  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                   std::vector<DispatchCounters>* counters) override {
    for (const Dispatch& d : dispatches)
      if (d.buffers.size() != static_cast<const NullKernel*>(d.kernel)->arguments_)
        return run_failure("a dispatch binds the wrong number of buffers");
    if (timings) timings->assign(dispatches.size(), {});
    if (counters) counters->assign(dispatches.size(), {});
    return {};
  }

 private:
  DeviceInfo info_;
};

class NullDriver final : public Driver {
 public:
  std::string name() const override { return "null"; }
  std::vector<DeviceInfo> devices(std::string*) override { return {NullDevice().info()}; }
  Result<std::unique_ptr<Device>> open(const std::string&) override { return std::make_unique<NullDevice>(); }
};

}  // namespace

Driver& null_driver() {
  static NullDriver driver;
  return driver;
}

}  // namespace aicf
