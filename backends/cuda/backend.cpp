#include "backends/cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/assemble.h"
#include "backends/cuda/emit.h"

namespace aicf {

std::vector<std::pair<const char*, const char*>> cuda_profile_texts();

namespace {

class CudaBackend final : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::string driver() const override { return "cuda"; }
  BinaryKind binary_kind() const override { return BinaryKind::cubin; }

  std::vector<std::string> profiles() const override {
    std::vector<std::string> out;
    for (const auto& [stem, text] : cuda_profile_texts()) out.push_back(stem);
    return out;
  }

  Result<DeviceModel> profile(const std::string& profile_name) const override {
    for (const auto& [stem, text] : cuda_profile_texts())
      if (profile_name == stem) return parse_device_model(text, profile_name + ".json");
    return bad_input(fmt::format("no CUDA profile '{}'", profile_name));
  }

  // The profile of the same architecture, else the nearest older one, with the figures that the driver reports.
  std::optional<DeviceModel> model_of(const std::string& driver_name, const std::string& device_name,
                                      const std::map<std::string, std::int64_t>& properties) const override {
    if (driver_name != "cuda" && driver_name != "cuda_emulation") return std::nullopt;
    auto property = [&](const char* key, std::int64_t otherwise) {
      auto it = properties.find(key);
      return it == properties.end() ? otherwise : it->second;
    };
    std::int64_t sm = property("compute_capability", 80);
    auto model = profile(sm >= 90 ? "sm_90" : "sm_80");
    AICF_CHECK(model.has_value(), "a CUDA profile");
    if (driver_name == "cuda") {
      model->name = fmt::format("sm_{}", sm);
      model->title = fmt::format("{} (sm_{})", device_name, sm);
      if (auto n = property("multiprocessors", 0)) model->figures["units"] = {static_cast<double>(n), 'm'};
      if (auto n = property("workgroup_memory", 0)) model->figures["shared_per_block"] = {static_cast<double>(n), 'm'};
    }
    return *model;
  }

  Result<std::vector<ChosenSchedule>> choose_schedule(const StreamingRegion& region, const DeviceModel& model,
                                                      const ScheduleOptions& options) const override {
    AICF_TRY(std::vector<Schedule> candidates,
             enumerate_schedules(region, cuda_space(model), options.forced, options.size_hints));
    auto cost = [&](std::span<const StaticCounts> kernels) { return cuda_cost(kernels, model); };
    AICF_TRY(std::vector<EvaluatedSchedule> found, search(region, candidates, cost, options.size_hints, 3));
    std::vector<ChosenSchedule> out;
    for (EvaluatedSchedule& e : found) {
      Schedule& s = e.scheduled.schedule;
      const StaticCounts& k = e.counts.front();
      s.reasons.push_back(fmt::format(
          "{:.0f} blocks on a multiprocessor: about {} registers a thread, {} of {:.0f} bytes of shared memory",
          blocks_per_unit(k.live + 24, k.subgroups, static_cast<double>(k.shared_bytes), model), k.live + 24,
          k.shared_bytes, model["shared_per_unit"]));
      s.reasons.push_back(fmt::format("limited by {}: {:.1f} of {:.1f} us", s.predicted.limit,
                                      s.predicted.microseconds[s.predicted.limit], s.predicted.total));
      out.push_back({std::move(e.scheduled), std::move(e.lowered), std::move(e.programs)});
    }
    return out;
  }

  std::string emit(const ThreadProgram& program, const DeviceModel&) const override { return emit_cuda(program); }

  Result<KernelBinary> assemble(const ThreadProgram& program, const std::string& source, const DeviceModel& model,
                                BinaryKind kind) const override {
    KernelBinary k;
    k.name = program.name;
    k.kind = kind;
    for (const KernelBuffer& b : program.buffers) k.arguments.push_back({b.name, b.type, b.written, !b.written});
    k.parameters = program.symbols;
    k.workgroup_size = static_cast<std::uint32_t>(program.subgroup_size * program.subgroups);
    k.subgroup_size = 32;
    for (const SharedArray& a : program.shared)
      k.workgroup_memory_bytes = std::max(
          k.workgroup_memory_bytes,
          static_cast<std::uint32_t>(a.byte_offset + a.elements * static_cast<std::int64_t>(device_size(a.type))));
    if (kind == BinaryKind::cuda_source) {
      k.bytes = source;
      return k;
    }
    AICF_TRY(AssembledCuda cubin, assemble_cuda(source, program.name, model.name));
    k.bytes = std::move(cubin.cubin);
    k.compiler_log = cubin.log;
    k.statistics = {{"registers", cubin.registers},
                    {"spill_store_bytes", cubin.spill_store_bytes},
                    {"spill_load_bytes", cubin.spill_load_bytes},
                    {"stack_bytes", cubin.stack_bytes}};
    return k;
  }
};

}  // namespace

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace aicf
