#include "tests/generate/random_backend.h"

#include <algorithm>

#include "mir/kernel/search.h"

namespace aicf::generate {

Target RandomBackend::target() {
  Target out;
  out.name = out.model.name = "random";
  out.model.backend = out.driver = "none";
  out.backend = this;
  out.kind = binary_kind();
  out.model.figures["row_capacity"].value = any({8, 64, 520});
  out.model.figures["workgroup_memory"].value = 48 * 1024;
  out.model.subgroup_sizes = {any({4, 8, 16, 32})};
  return out;
}

Result<DeviceModel> RandomBackend::profile(const std::string& profile_name) const {
  return bad_input("no profile '" + profile_name + "'");
}

Result<std::vector<ChosenSchedule>> RandomBackend::choose_schedule(const StreamingRegion& region,
                                                                   const DeviceModel& model,
                                                                   const ScheduleOptions& options) const {
  ScheduleSpace space;
  space.subgroup_size = model.subgroup_sizes.front();
  space.subgroups = {any({1, 1, 1, 2, 4})};
  space.splits = {any({1, 1, 2, 3})};
  space.split_below = 1e30;
  space.row_padding = any({0, 4});
  space.row_registers = {1, any({2, 4})};
  space.step_registers = {1, any({2, 3, 4})};
  space.shared_delivery = {any({0, 1}) ? Delivery::lane_broadcast : Delivery::workgroup};
  space.most = 256;
  std::vector<Schedule> found;
  if (auto some = enumerate_schedules(region, space, options.forced, options.size_hints)) found = std::move(*some);
  std::ranges::shuffle(found, random_);
  if (found.size() > 8) found.resize(8);
  // What every region has: one element a thread, registers as many as it takes.
  space = ScheduleSpace{.subgroup_size = space.subgroup_size, .row_registers = {1}, .step_registers = {1}};
  space.register_budget = 1 << 20;
  AICF_TRY(const std::vector<Schedule> last, enumerate_schedules(region, space, options.forced, options.size_hints));
  found.insert(found.end(), last.begin(), last.end());
  std::vector<ChosenSchedule> out;
  Diagnostic last_failure;
  for (Schedule& s : found) {
    s.predicted.total = static_cast<double>(1 + random_() % 1000);
    s.predicted.limit = "chance";
    ChosenSchedule chosen{{region, std::move(s)}, {}, {}};
    const auto lowered = lower(chosen.scheduled);
    if (!lowered) {
      last_failure = lowered.error();
      continue;
    }
    bool expands = true;
    for (const Kernel& k : lowered->kernels)
      if (const auto program = expand(k); !program) expands = false, last_failure = program.error();
    if (!expands) continue;
    out.push_back(std::move(chosen));
    return out;
  }
  return std::unexpected(last_failure);
}

std::string RandomBackend::emit(const ThreadProgram& program, const DeviceModel&) const {
  return to_string(program);
}

Result<KernelBinary> RandomBackend::assemble(const ThreadProgram&, const std::string&, const DeviceModel&,
                                             BinaryKind) const {
  return unsupported("programs are interpreted");
}

}  // namespace aicf::generate
