#pragma once

#include <random>

#include "backends/registry.h"

namespace aicf::generate {

/// A backend for the interpreter that takes any schedule of the shared space and any fusion that the laws allow: what it
/// predicts is chance. One object compiles one plan; the same number gives the same plan.
class RandomBackend final : public Backend {
 public:
  explicit RandomBackend(std::uint64_t seed) : random_(seed) {}
  /// For compile() without binaries. `this` must outlive the target.
  Target target();

  std::string name() const override { return "random"; }
  std::string driver() const override { return "none"; }
  BinaryKind binary_kind() const override { return BinaryKind::cuda_source; }
  std::vector<std::string> profiles() const override { return {}; }
  Result<DeviceModel> profile(const std::string& profile_name) const override;
  std::optional<DeviceModel> model_of(const std::string&, const std::string&,
                                      const std::map<std::string, std::int64_t>&) const override {
    return std::nullopt;
  }
  Result<std::vector<ChosenSchedule>> choose_schedule(const StreamingRegion& region, const DeviceModel& model,
                                                      const ScheduleOptions& options) const override;
  std::string emit(const ThreadProgram& program, const DeviceModel& model) const override;
  Result<KernelBinary> assemble(const ThreadProgram& program, const std::string& source, const DeviceModel& model,
                                BinaryKind kind) const override;

 private:
  int any(std::initializer_list<int> list) const { return *(list.begin() + random_() % list.size()); }
  mutable std::mt19937_64 random_;
};

}  // namespace aicf::generate
