#include "backends/null/backend.h"

#include <fmt/format.h>

#include "mir/kernel/search.h"

namespace aicf {

namespace {

class NullBackend final : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::string driver() const override { return "null"; }
  // A real backend adds its kind to BinaryKind; the null driver takes text.
  BinaryKind binary_kind() const override { return BinaryKind::cuda_source; }
  std::vector<std::string> profiles() const override { return {"null"}; }

  // A real backend reads profiles/*.json through parse_device_model.
  Result<DeviceModel> profile(const std::string& profile_name) const override {
    if (profile_name != "null") return bad_input(fmt::format("no null profile '{}'", profile_name));
    return parse_device_model(R"({"name": "null", "backend": "null", "title": "nothing", "subgroup_sizes": [4]})",
                              "null");
  }

  std::optional<DeviceModel> model_of(const std::string& driver_name, const std::string&,
                                      const std::map<std::string, std::int64_t>&) const override {
    if (driver_name != "null") return std::nullopt;
    return *profile("null");
  }

  // What it allows (ScheduleSpace) and what it prefers (the cost function) are all that a backend decides.
  Result<std::vector<ChosenSchedule>> choose_schedule(const StreamingRegion& region, const DeviceModel& model,
                                                      const ScheduleOptions& options) const override {
    ScheduleSpace space;
    space.subgroup_size = model.subgroup_sizes.front();
    space.most = 8;
    AICF_TRY(std::vector<Schedule> candidates, enumerate_schedules(region, space, options.forced, options.size_hints));
    auto statements = [](std::span<const StaticCounts> kernels) {
      PredictedCost cost;
      cost.limit = "statements";
      for (const StaticCounts& k : kernels) cost.total += k["static.op"] + k["static.load"] + k["static.store"];
      cost.microseconds["statements"] = cost.total;
      return cost;
    };
    AICF_TRY(std::vector<EvaluatedSchedule> found, search(region, candidates, statements, options.size_hints, 1));
    std::vector<ChosenSchedule> out;
    for (EvaluatedSchedule& e : found)
      out.push_back({std::move(e.scheduled), std::move(e.lowered), std::move(e.programs)});
    return out;
  }

  std::string emit(const ThreadProgram& program, const DeviceModel&) const override { return to_string(program); }

  Result<KernelBinary> assemble(const ThreadProgram& program, const std::string& source, const DeviceModel&,
                                BinaryKind kind) const override {
    KernelBinary k;
    k.name = program.name;
    k.kind = kind;
    k.bytes = source;
    for (const KernelBuffer& b : program.buffers) k.arguments.push_back({b.name, b.type, b.written, !b.written});
    k.parameters = program.symbols;
    k.workgroup_size = static_cast<std::uint32_t>(program.subgroup_size * program.subgroups);
    return k;
  }
};

}  // namespace

const Backend& null_backend() {
  static const NullBackend backend;
  return backend;
}

}  // namespace aicf
