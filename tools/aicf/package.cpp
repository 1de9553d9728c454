#include <fmt/format.h>

#include <fstream>

#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"

namespace aicf::command {

bool is_package(const std::string& path) {
  if (path.ends_with(".aicfpkg") || path.ends_with(".pkg")) return true;
  char start[7] = {};
  return std::ifstream(path, std::ios::binary).read(start, sizeof(start)) && std::string_view(start, 7) == "AICFPKG";
}

Result<int> run_package(const Options& asked) {
  Options options = asked;
  AICF_TRY(const Package package, read_package(options.model));
  if (options.devices.empty()) options.devices = {"vulkan"};
  if (options.devices.size() != 1) return bad_input("a package runs on one --device");
  const std::string& id = options.devices[0];
  auto device = open_device(id);
  if (!device)
    return fail(device.error().kind, fmt::format("{}; the package holds {}", device.error().text(), held(package)));
  const DeviceInfo& info = (*device)->info();
  AICF_TRY(const Target target, target_of(id, info.driver, info.name, info.properties));
  AICF_TRY(const std::vector<const Program*> programs, fitting_programs(**device, package, target.model.name));

  const Program& interface = *programs[0];  // all have the same
  std::vector<std::string> names;
  for (const Signature& input : interface.inputs) names.push_back(input.name);
  AICF_TRY(NamedTensors given, read_inputs(options.inputs, names));
  NamedTensors inputs;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Signature& input : interface.inputs) {
    auto taken = given.extract(input.name);
    if (!taken) return bad_input(fmt::format("the package needs the input '{}': give --inputs", input.name));
    shapes.push_back(taken.mapped().shape());
    inputs.insert(std::move(taken));
  }
  remark(options, "not taken, for the package has no such inputs", given);
  AICF_TRY(const auto symbols, bind_sizes(interface.inputs, shapes));
  AICF_TRY(const auto bound, bindings(options));
  for (const auto& [symbol, size] : bound)
    if (const auto it = symbols.find(symbol); it != symbols.end() && it->second != size)
      return bad_input(fmt::format("--bind {}={}: the inputs make it {}", symbol, size, it->second));

  std::size_t taken = 0;
  auto phase = std::make_unique<Phase>(fmt::format("run on {}", id));
  AICF_TRY([[maybe_unused]] const MemoryPlan memory,
           plan_memory(*programs[0], symbols, arena_alignment(**device), options.max_memory));
  auto executor = Executor::create(**device, *programs[0]);
  while (!executor && executor.error().kind == ErrorKind::refused && taken + 1 < programs.size()) {
    fmt::print(stderr, "aicf: {}; taking the kernels of {}\n", executor.error().text(), programs[taken + 1]->target);
    executor = Executor::create(**device, *programs[++taken]);
  }
  if (!executor) return std::unexpected(executor.error());
  RunOptions run;
  run.max_memory = options.max_memory;
  AICF_TRY(RunResult result, (*executor)->run(inputs, symbols, run));
  phase.reset();
  if (!options.outputs.empty()) AICF_RETURN_IF_ERROR(write_outputs(options.outputs, result.outputs));
  if (options.json) {
    fmt::print("{}\n", Json{{"device", id},
                            {"target", programs[taken]->target},
                            {"ms", result.milliseconds},
                            {"launches", result.launches.size()},
                            {"memory", memory_json(result.memory)}}
                           .dump());
  } else {
    print_outputs(result.outputs);
    fmt::print("{} ({}): kernels of {}, {} launches, {:.2f} ms\nmemory: {}\n", id, (*device)->info().name,
               programs[taken]->target, result.launches.size(), result.milliseconds, memory_text(result.memory));
  }
  return right;
}

}  // namespace aicf::command
