#pragma once

#include <span>
#include <string>

#include "backends/backend.h"

namespace aicf {

std::span<const Backend* const> backends();

/// A compile target: a backend, one of its device models, and the binary kind that the target's driver runs.
struct Target {
  std::string name;  ///< as the user wrote it
  const Backend* backend = nullptr;
  DeviceModel model;
  BinaryKind kind = BinaryKind::spirv;
  std::string driver;
};

/// A profile name ("sm_90", "lavapipe") or "cuda-emulation[:PROFILE]". Errors list what there is.
Result<Target> find_target(const std::string& name);
/// The target of a live device that a driver found: its id, driver, name and properties (DeviceInfo's). Errors:
/// unsupported when no backend compiles for it.
Result<Target> target_of(const std::string& id, const std::string& driver, const std::string& device_name,
                         const std::map<std::string, std::int64_t>& properties);

}  // namespace aicf
