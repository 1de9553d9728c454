#include "backends/vulkan/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/vulkan/assemble.h"
#include "backends/vulkan/emit.h"

namespace aicf {

std::vector<std::pair<const char*, const char*>> vulkan_profile_texts();

namespace {

bool feature(const DeviceModel& m, const char* name) {
  auto it = m.features.find(name);
  return it != m.features.end() && it->second;
}

GlslOptions glsl_options(const DeviceModel& m) {
  GlslOptions o;
  o.wide_loads_u64 = feature(m, "wide_loads_u64");
  o.storage_16bit = feature(m, "storage_16bit");
  o.signed_zero_inf_nan_preserve = feature(m, "signed_zero_inf_nan_preserve_f32");
  return o;
}

class VulkanBackend final : public Backend {
 public:
  std::string name() const override { return "vulkan"; }
  std::string driver() const override { return "vulkan"; }
  BinaryKind binary_kind() const override { return BinaryKind::spirv; }

  std::vector<std::string> profiles() const override {
    std::vector<std::string> out;
    for (const auto& [stem, text] : vulkan_profile_texts()) out.push_back(stem);
    return out;
  }

  Result<DeviceModel> profile(const std::string& profile_name) const override {
    for (const auto& [stem, text] : vulkan_profile_texts())
      if (profile_name == stem) return parse_device_model(text, profile_name + ".json");
    return bad_input(fmt::format("no Vulkan profile '{}'", profile_name));
  }

  // A device without a profile of its own takes the one of its class, with the limits that the driver reports.
  std::optional<DeviceModel> model_of(const std::string& driver_name, const std::string& device_name,
                                      const std::map<std::string, std::int64_t>& properties) const override {
    if (driver_name != "vulkan") return std::nullopt;
    auto property = [&](const char* key, std::int64_t otherwise) {
      auto it = properties.find(key);
      return it == properties.end() ? otherwise : it->second;
    };
    // Mesa before 23 compiles loads cheaply and shuffles dearly.
    std::int64_t mesa = property("mesa_version", 0);
    const bool lavapipe = device_name.contains("llvmpipe"), swiftshader = device_name.contains("SwiftShader");
    std::string base = swiftshader                ? "swiftshader"
                       : !lavapipe                ? "navi31"
                       : mesa > 0 && mesa < 23000 ? "lavapipe-22"
                                                  : "lavapipe";
    auto model = profile(base);
    AICF_CHECK(model.has_value(), "the profile " + base);
    if (!lavapipe && !swiftshader) model->title = fmt::format("{} (figures of {})", device_name, base);
    model->subgroup_sizes = {static_cast<int>(property("subgroup_size", model->subgroup_sizes.front()))};
    model->figures["workgroup_memory"] = {static_cast<double>(property("workgroup_memory", 16384)), 'm'};
    model->figures["max_invocations"] = {static_cast<double>(property("max_workgroup_invocations", 128)), 'm'};
    if (const auto most = properties.find("max_arguments"); most != properties.end())
      model->figures["max_arguments"] = {static_cast<double>(most->second), 'm'};
    model->features["storage_16bit"] = property("storage_16bit", 0) != 0;
    model->features["signed_zero_inf_nan_preserve_f32"] = property("signed_zero_inf_nan_preserve_f32", 0) != 0;
    model->features["wide_loads_u64"] = model->features["wide_loads_u64"] && property("shader_i64", 0) != 0;
    return *model;
  }

  Result<std::vector<ChosenSchedule>> choose_schedule(const StreamingRegion& region, const DeviceModel& model,
                                                      const ScheduleOptions& options) const override {
    AICF_TRY(std::vector<Schedule> candidates,
             enumerate_schedules(region, vulkan_space(model), options.forced, options.size_hints));
    auto cost = [&](std::span<const StaticCounts> kernels) {
      return vulkan_cost(kernels, model, options.optimize_for_first_run);
    };
    AICF_TRY(std::vector<EvaluatedSchedule> found, search(region, candidates, cost, options.size_hints, 3));
    std::vector<ChosenSchedule> out;
    for (EvaluatedSchedule& e : found) {
      Schedule& s = e.scheduled.schedule;
      if (std::isinf(s.predicted.total)) {
        if (!out.empty() || &e != &found.back()) continue;
        return unsupported(s.predicted.limit == "buffers"
                               ? fmt::format("a kernel would take more than {} buffers, the most that {} binds",
                                             model["max_arguments"], model.title)
                               : fmt::format("a thread would make more than {} loop iterations, where {} stops",
                                             model["most_iterations"], model.title),
                           region.name);
      }
      s.reasons.push_back(fmt::format("subgroup {} of {}", s.subgroup_size, model.title));
      s.reasons.push_back(fmt::format("limited by {}: {:.0f} of {:.0f} us", s.predicted.limit,
                                      s.predicted.microseconds[s.predicted.limit], s.predicted.total));
      out.push_back({std::move(e.scheduled), std::move(e.lowered), std::move(e.programs)});
    }
    return out;
  }

  std::string emit(const ThreadProgram& program, const DeviceModel& model) const override {
    return emit_glsl(program, glsl_options(model));
  }

  Result<KernelBinary> assemble(const ThreadProgram& program, const std::string& source, const DeviceModel&,
                                BinaryKind) const override {
    KernelBinary k;
    k.name = program.name;
    k.kind = BinaryKind::spirv;
    AICF_TRY(k.bytes, assemble_glsl(source, program.name, &k.compiler_log));
    for (const KernelBuffer& b : program.buffers) k.arguments.push_back({b.name, b.type, b.written, !b.written});
    k.parameters = program.symbols;
    k.workgroup_size = static_cast<std::uint32_t>(program.subgroup_size * program.subgroups);
    k.subgroup_size = static_cast<std::uint32_t>(program.subgroup_size);
    return k;
  }
};

}  // namespace

const Backend& vulkan_backend() {
  static const VulkanBackend backend;
  return backend;
}

}  // namespace aicf
