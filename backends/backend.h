#pragma once

// What a backend gives: device models, schedules with their cost, source, binaries. A backend is one folder below
// backends/ and one line in registry.cpp; backends never include each other.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mir/hardware/device_model.h"
#include "mir/kernel/lower.h"
#include "mir/kernel/thread_program.h"
#include "mir/memory/schedule.h"
#include "runtime/artifact.h"

namespace aicf {

/// Options of a compile that reach schedules.
struct ScheduleOptions {
  /// Forced choices by key: "residency.k" = "workgroup", "tile.q" = "32", "delivery.k" = "lane_broadcast", "split" = "4".
  std::map<std::string, std::string> forced;
  bool optimize_for_first_run = false;  ///< count compile time of the driver as part of the cost
  /// Sizes to plan for when a dimension is symbolic.
  std::map<std::string, std::int64_t> size_hints;
};

/// A schedule that was chosen and everything it was turned into on the way.
struct ChosenSchedule {
  ScheduledRegion scheduled;
  LoweredRegion lowered;
  std::vector<ThreadProgram> programs;  ///< one per kernel
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Names of the profiles that come with it ("lavapipe", "navi31").
  virtual std::vector<std::string> profiles() const = 0;
  virtual Result<DeviceModel> profile(const std::string& profile_name) const = 0;
  /// The model of a live device found by a driver; nothing when the device is not this backend's. `properties` are the
  /// driver's (DeviceInfo::properties).
  virtual std::optional<DeviceModel> model_of(const std::string& driver, const std::string& device_name,
                                              const std::map<std::string, std::int64_t>& properties) const = 0;
  /// Driver that runs what is compiled for the model: "vulkan", "cuda" ("cuda_emulation" takes CUDA source).
  virtual std::string driver() const = 0;
  /// The best schedule first, those that may be tried next after it. Errors: unsupported with the reason of each
  /// candidate that failed.
  virtual Result<std::vector<ChosenSchedule>> choose_schedule(const StreamingRegion& region, const DeviceModel& model,
                                                              const ScheduleOptions& options) const = 0;
  virtual std::string emit(const ThreadProgram& program, const DeviceModel& model) const = 0;
  /// Source to binary. `kind` chooses between what drivers take (cubin or source for emulation).
  virtual Result<KernelBinary> assemble(const ThreadProgram& program, const std::string& source,
                                        const DeviceModel& model, BinaryKind kind) const = 0;
  /// Binary for real devices.
  virtual BinaryKind binary_kind() const = 0;
};

}  // namespace aicf
