#include "backends/registry.h"

#include <fmt/format.h>

#include "backends/cuda/backend.h"
#include "backends/null/backend.h"
#include "backends/vulkan/backend.h"

namespace aicf {

std::span<const Backend* const> backends() {
  static const Backend* const all[] = {
      &vulkan_backend(),
      &cuda_backend(),
      &null_backend(),
  };
  return all;
}

Result<Target> find_target(const std::string& name) {
  std::string profile = name;
  bool emulated = name.starts_with("cuda-emulation");
  if (emulated) {
    auto colon = name.find(':');
    profile = colon == std::string::npos ? "sm_80" : name.substr(colon + 1);
  }
  std::string known;
  for (const Backend* b : backends()) {
    for (const std::string& p : b->profiles()) {
      known += known.empty() ? p : ", " + p;
      if (p != profile) continue;
      AICF_TRY(DeviceModel model, b->profile(p));
      Target t{name, b, std::move(model), b->binary_kind(), b->driver()};
      if (emulated) {
        if (b->driver() != "cuda")
          return bad_input(fmt::format("'{}' cannot be emulated; cuda-emulation takes a CUDA profile", p));
        t.kind = BinaryKind::cuda_source;
        t.driver = "cuda_emulation";
      }
      return t;
    }
  }
  return bad_input(fmt::format("no target '{}'; known: {}", name, known));
}

Result<Target> target_of(const std::string& id, const std::string& driver, const std::string& device_name,
                         const std::map<std::string, std::int64_t>& properties) {
  for (const Backend* b : backends()) {
    auto model = b->model_of(driver, device_name, properties);
    if (!model) continue;
    const BinaryKind kind = driver == "cuda_emulation" ? BinaryKind::cuda_source : b->binary_kind();
    return Target{id, b, std::move(*model), kind, driver};
  }
  return unsupported(fmt::format("no backend compiles for the device '{}'", id));
}

}  // namespace aicf
