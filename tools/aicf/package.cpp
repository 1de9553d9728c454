#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"

namespace aicf::command {

namespace {

// The number of "sm_80"; 0 for anything else.
int architecture(const std::string& target) {
  int number = 0;
  if (target.starts_with("sm_")) std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return number;
}

// Whether the device takes a program's kernels. CUDA binaries run on their own architecture and on later ones of the same
// major number; source under emulation is checked when it is compiled.
Result<void> fits(Device& device, const Program& program) {
  const DeviceInfo& info = device.info();
  if (program.driver != info.driver) return unsupported(fmt::format("it is for the driver '{}'", program.driver));
  if (auto cc = info.properties.find("compute_capability"); info.driver == "cuda" && cc != info.properties.end()) {
    const int wanted = architecture(program.target);
    if (wanted / 10 != cc->second / 10 || wanted > cc->second)
      return unsupported(fmt::format("its kernels do not run on sm_{}", cc->second));
  }
  for (const KernelBinary& k : program.kernels) AICF_RETURN_IF_ERROR(device.fits(k));
  return {};
}

// Programs that the device takes: the one compiled for its own model first, the others in the package's order.
std::vector<const Program*> fitting(Device& device, const Package& package, std::string& why_not) {
  const DeviceInfo& info = device.info();
  std::string own;
  for (const Backend* b : backends())
    if (auto model = b->model_of(info.driver, info.name, info.properties); model && own.empty()) own = model->name;
  std::vector<const Program*> out;
  for (const Program& p : package.programs) {
    if (auto fit = fits(device, p)) {
      out.push_back(&p);
    } else {
      why_not += fmt::format("; {}: {}", p.target, fit.error().message);
    }
  }
  std::ranges::stable_partition(out, [&](const Program* p) { return p->target == own; });
  return out;
}

std::string held(const Package& package) {
  std::string out;
  for (const Program& p : package.programs)
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", p.target, p.driver);
  return out;
}

// Sizes that the inputs give to the program's symbols.
Result<void> bind_inputs(const Program& program, const NamedTensors& given, NamedTensors& inputs,
                         std::map<std::string, std::int64_t>& symbols) {
  for (const BufferPlan& b : program.buffers) {
    if (b.kind != BufferPlan::Kind::input) continue;
    auto it = given.find(b.name);
    if (it == given.end()) return bad_input(fmt::format("the package needs the input '{}': give --inputs", b.name));
    inputs.insert(*it);
    const std::vector<std::int64_t>& shape = it->second.shape();
    if (shape.size() != b.shape.size())
      return bad_input(
          fmt::format("input '{}' has {} dimensions, the package takes {}", b.name, shape.size(), b.shape.size()));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (b.shape[i].op() != Op::symbol) continue;
      auto [known, inserted] = symbols.try_emplace(b.shape[i].name(), shape[i]);
      if (known->second != shape[i])
        return bad_input(fmt::format("input '{}' makes {} = {}, it is {} already", b.name, b.shape[i].name(), shape[i],
                                     known->second));
    }
  }
  return {};
}

}  // namespace

bool is_package(const std::string& path) {
  if (path.ends_with(".aicfpkg") || path.ends_with(".pkg")) return true;
  char start[7] = {};
  return std::ifstream(path, std::ios::binary).read(start, sizeof(start)) && std::string_view(start, 7) == "AICFPKG";
}

Result<int> run_package(const Options& given) {
  Options options = given;
  AICF_TRY(const Package package, read_package(options.model));
  if (options.devices.empty()) options.devices = {"vulkan"};
  if (options.devices.size() != 1) return bad_input("a package runs on one --device");
  const std::string& id = options.devices[0];
  auto device = open_device(id);
  if (!device)
    return fail(device.error().kind, fmt::format("{}; the package holds {}", device.error().text(), held(package)));
  std::string why_not;
  const std::vector<const Program*> programs = fitting(**device, package, why_not);
  if (programs.empty())
    return unsupported(
        fmt::format("the package holds {}, none for '{}' ({}){}", held(package), id, (*device)->info().name, why_not));

  NamedTensors tensors, inputs;
  if (!options.inputs.empty()) {
    std::vector<std::string> names;
    for (const BufferPlan& b : programs[0]->buffers)
      if (b.kind == BufferPlan::Kind::input) names.push_back(b.name);
    AICF_TRY(tensors, read_inputs(options.inputs, names));
  }
  std::map<std::string, std::int64_t> symbols;
  AICF_TRY(symbols, bindings(options));
  AICF_RETURN_IF_ERROR(bind_inputs(*programs[0], tensors, inputs, symbols));

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
