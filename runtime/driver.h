#pragma once

// What a driver gives the executor. A driver is one folder below runtime/ and one line in runtime/drivers/drivers.cpp; it knows
// nothing of backends or of any IR.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mir/support/result.h"
#include "runtime/artifact.h"

namespace aicf {

/// Memory on a device. Destroying it frees the memory.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::size_t size() const = 0;
};

/// A kernel ready to launch (pipeline, module function, shared object). Keeps what it needs alive.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

/// A part of a buffer bound to a kernel argument. Offsets are multiples of Device::offset_alignment().
struct BufferSlice {
  DeviceBuffer* buffer = nullptr;
  std::size_t offset = 0, size = 0;
};

/// One dispatch with everything bound. Counting drivers fill `counters`.
struct Dispatch {
  const LoadedKernel* kernel = nullptr;
  std::vector<BufferSlice> buffers;
  std::vector<std::int32_t> parameters;
  std::uint64_t workgroups = 1;
};

/// Bytes moved by one dispatch, per kernel argument; only drivers that instrument (emulation) know them.
struct DispatchCounters {
  std::vector<std::uint64_t> bytes_read, bytes_written;  ///< One entry per kernel argument; empty when not counted.
  std::map<std::string, std::uint64_t> events;           ///< "shared_bank_conflicts", "global_transactions", …
};

struct DispatchTiming {
  double milliseconds = 0;  ///< Device timestamp difference, host time where the device has none.
};

struct DeviceInfo {
  std::string driver;                              ///< "vulkan", "cuda", "cuda_emulation", "null"
  std::string id;                                  ///< As typed by a user: "vulkan:0", "cuda-emulation:sm_80"
  std::string name;                                ///< The device's own name.
  std::string description;                         ///< Driver name and version.
  std::map<std::string, std::int64_t> properties;  ///< "subgroup_size", "workgroup_memory", "max_buffer_range", …
};

/// An open device. Not thread-safe; one executor uses one device.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::size_t offset_alignment() const = 0;
  /// Errors: run_failure with sizes when memory is short.
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) = 0;
  virtual Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) = 0;
  /// Success where the kernel keeps the device's limits and features. Nothing is compiled. Errors as load().
  virtual Result<void> fits(const KernelBinary&) { return {}; }
  /// Errors: refused, naming kernel and cause (compiler log), when device or driver do not take it; run_failure when the
  /// device fails.
  virtual Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) = 0;
  /// Loads several kernels, in parallel where that helps; same order. `failed` gets the place of the one whose error is
  /// returned.
  virtual Result<std::vector<std::unique_ptr<LoadedKernel>>> load_all(std::span<const KernelBinary> kernels,
                                                                      std::size_t* failed = nullptr);
  /// Runs dispatches in order with full memory dependencies between them and waits. `timings` and `counters` may be null.
  virtual Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>* timings,
                           std::vector<DispatchCounters>* counters) = 0;
  /// True once the driver has said that the device is gone (lost, or its context unusable after a fault): every later
  /// call fails, the contents of its buffers are undefined, and only opening it again helps.
  virtual bool lost() const { return false; }
};

/// A way to find and open devices.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string name() const = 0;
  /// Devices that can be opened now. Never fails: a missing library gives an empty list and `why_empty`.
  virtual std::vector<DeviceInfo> devices(std::string* why_empty) = 0;
  /// `selector` is what follows the colon of a device id: an index or a part of the name (any case); "" = the first.
  virtual Result<std::unique_ptr<Device>> open(const std::string& selector) = 0;
};

/// All drivers, in the order of listing.
std::span<Driver* const> drivers();
/// "vulkan:llvmpipe", "vulkan:0", "cuda:0", "cuda-emulation:sm_80", "null". Errors say what is there.
Result<std::unique_ptr<Device>> open_device(const std::string& id);

}  // namespace aicf
