#pragma once

// Runs a program on a device: binds symbols, plans the arena, uploads constants once, launches, downloads outputs.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/driver.h"

namespace aicf {

/// Sizes before anything runs.
struct MemoryPlan {
  std::uint64_t weights = 0;  ///< bytes of constants on the device
  std::uint64_t inputs_outputs = 0;
  std::uint64_t arena = 0;             ///< bytes of the arena for intermediates (peak, with reuse)
  std::uint64_t workspace = 0;         ///< part of the arena: largest sum of live scratch (BufferPlan::scratch)
  std::uint64_t live_peak = 0;         ///< largest sum of live intermediates at any launch
  std::uint64_t sum_of_tensors = 0;    ///< what the intermediates would take without reuse
  std::vector<std::uint64_t> offsets;  ///< arena offset per Program::buffers entry (intermediates only)

  std::uint64_t total() const { return weights + inputs_outputs + arena; }
};

/// Liveness and reuse; `alignment` is the device's. Nothing is allocated. `most` is the number of bytes that a run may take
/// on the device, 0: any. Errors: unbound symbols, sizes beyond 2^46 bytes, more than `most` (unsupported: says what
/// needs how much, and which tensor is the largest).
Result<MemoryPlan> plan_memory(const Program& program, const std::map<std::string, std::int64_t>& symbols,
                               std::size_t alignment, std::uint64_t most = 0);
/// Arena alignment on a device.
inline std::size_t arena_alignment(const Device& device) {
  return std::max<std::size_t>(device.offset_alignment(), 64);
}

struct LaunchRecord {
  std::string region, kernel;
  double milliseconds = 0;
  std::uint64_t workgroups = 0;
  DispatchCounters counters;  ///< per kernel argument, where the driver counts
};

struct RunResult {
  NamedTensors outputs;  ///< by output name; empty where the outputs were bound to device memory
  std::vector<LaunchRecord> launches;
  MemoryPlan memory;
  double milliseconds = 0;  ///< wall time of launches and waits, transfers excluded
};

struct RunOptions {
  bool timings = true;
  std::uint64_t max_memory = 0;  ///< bytes on the device; 0 = no limit. Refused before anything is allocated.
};

/// Memory on the executor's device for the model's inputs and outputs by name, in device storage (device_size bytes an
/// element). An output shares no memory with another binding.
struct Bindings {
  std::map<std::string, BufferSlice> inputs, outputs;
};

/// Host layout → device storage and back: integers and Booleans are 32-bit words, f64 is f32. Errors: bad_input naming
/// `name` and the element beyond 32 bits (the extremes of i64 saturate).
Result<std::vector<std::byte>> to_device(const std::string& name, const Tensor& tensor);
/// `bytes` holds device_size(type) bytes an element of the shape.
Tensor from_device(DType type, std::vector<std::int64_t> shape, std::span<const std::byte> bytes);

/// The programs of a package that the device takes: the one compiled for its own model (`own`, DeviceModel::name) first,
/// the others in the package's order. CUDA binaries run on their own architecture and on later ones of the same major
/// number. Errors: unsupported with what the package holds and why it does not fit.
Result<std::vector<const Program*>> fitting_programs(Device& device, const Package& package, const std::string& own);
/// "sm_80 (cuda), lavapipe (vulkan)".
std::string held(const Package& package);

/// Of a tensor: kernels compute indices in 32 bits.
inline constexpr std::uint64_t most_elements = 2147483647;

/// A program loaded on a device; reusable for many runs. Kernels are loaded and constants uploaded once. Device and
/// program must outlive it; like its device it is for one thread at a time.
class Executor {
 public:
  /// Errors: refused when the device does not take a kernel, whose place `failed_kernel` gets; unsupported when a weight
  /// is larger than what a kernel of the device sees of one tensor (run: any tensor); run_failure.
  static Result<std::unique_ptr<Executor>> create(Device& device, const Program& program,
                                                  std::size_t* failed_kernel = nullptr);
  ~Executor();
  /// Inputs by name in the model's types; symbols must be bound. Uploads them, downloads the outputs. Integers are checked against the 32-bit device
  /// storage (bad_input names tensor and value); sizes and inputs against the program's constraints.
  Result<RunResult> run(const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                        const RunOptions& options = {});
  /// Runs where the tensors lie, under the same checks; what an index constraint is about is read back for them. Every input
  /// that a kernel reads and every output is bound, with the bytes of its shape (bad_input names the one that is not).
  Result<RunResult> run(const Bindings& bindings, const std::map<std::string, std::int64_t>& symbols,
                        const RunOptions& options = {});

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace aicf
