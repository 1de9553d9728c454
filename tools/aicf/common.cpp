#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <ranges>

#include "mir/graph/oracle.h"
#include "runtime/no_memory.h"
#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"

namespace aicf::command {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Standard normal values for floats; small integers elsewhere. The same seed gives the same values on every machine:
// only the generator's raw bits are used, no library distribution.
Tensor make_tensor(DType type, const std::vector<std::int64_t>& shape, std::mt19937_64& bits) {
  Tensor t(type, shape);
  auto uniform = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (is_float(type))
      t.set(i, std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()));
    else
      t.set(i, type == DType::boolean ? static_cast<double>(bits() & 1) : static_cast<double>(bits() % 8));
  }
  return t;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10240) return fmt::format("{} B", bytes);
  if (bytes < 10ull << 20) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<std::map<std::string, std::int64_t>> bindings(const Options& options) {
  std::map<std::string, std::int64_t> out;
  for (const std::string& b : options.bind) {
    const auto eq = b.rfind('=');
    const std::string value = eq == std::string::npos ? "" : b.substr(eq + 1);
    if (eq == 0 || value.empty() || value.size() > 15 ||
        !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; }))
      return bad_input(fmt::format("--bind {}: NAME=VALUE with a whole number is needed", b));
    const auto [bound, fresh] = out.try_emplace(b.substr(0, eq), std::stoll(value));
    if (!fresh && bound->second != std::stoll(value))
      return bad_input(fmt::format("--bind {}: '{}' is bound to {} already", b, bound->first, bound->second));
  }
  return out;
}

Result<NamedTensors> read_inputs(const std::vector<std::string>& paths, const std::vector<std::string>& names) {
  NamedTensors out;
  std::size_t position = 0;
  for (const std::string& path : paths) {
    if (!path.ends_with(".pb")) {
      AICF_TRY(NamedTensors some, read_tensors(path));
      out.insert(some.begin(), some.end());
      continue;
    }
    AICF_TRY(auto named, read_tensor_pb(path));
    if (named.first.empty()) {
      if (position >= names.size()) return bad_input("the tensor has no name and there are no more inputs", path);
      named.first = names[position];
    }
    ++position;
    out[named.first] = std::move(named.second);
  }
  return out;
}

void remark(const Options& options, const char* what, const NamedTensors& tensors) {
  if (!options.quiet && !tensors.empty())
    fmt::print(stderr, "{}: {}\n", what, fmt::join(std::views::keys(tensors), ", "));
}

Result<NamedTensors> read_expected(const Options& options, const LoadedModel& loaded) {
  AICF_TRY(NamedTensors held, read_tensors(options.expect));
  NamedTensors out;
  for (const auto& [output, node] : loaded.model.output_of) {
    const auto given = held.find(output);
    if (given == held.end())
      return bad_input(fmt::format("no tensor '{}'; there are: {}", output, fmt::join(std::views::keys(held), ", ")),
                       options.expect);
    std::vector<std::int64_t> shape;
    for (const Expr& d : loaded.model.graph.node(node).shape()) {
      AICF_TRY(const std::int64_t size, evaluate_int(d, loaded.symbols));
      shape.push_back(size);
    }
    if (given->second.shape() != shape)
      return bad_input(fmt::format("'{}' has the shape {}, the model's output has {}", output,
                                   dims_text(given->second.shape()), dims_text(shape)),
                       options.expect);
    out[output] = given->second;
  }
  for (const auto& [output, tensor] : out) held.erase(output);
  remark(options, "not compared, for the model has no such outputs", held);
  return out;
}

Result<void> write_outputs(const std::string& path, const NamedTensors& outputs) {
  const bool pb = path.ends_with(".pb"), npy = path.ends_with(".npy");
  if (!pb && !npy) return write_npz(path, outputs);
  if (outputs.size() != 1)
    return bad_input(
        fmt::format("there are {} outputs, a {} file holds one: write an .npz", outputs.size(), pb ? ".pb" : ".npy"),
        path);
  const auto& [name, tensor] = *outputs.begin();
  return pb ? write_tensor_pb(path, name, tensor) : write_npy(path, tensor);
}

Result<Place> open_place(const std::string& id) {
  Place place{id, id == "reference", nullptr, {}};
  if (place.reference) return place;
  AICF_TRY(place.device, open_device(id));
  const DeviceInfo& info = place.device->info();
  AICF_TRY(place.target, target_of(id, info.driver, info.name, info.properties));
  return place;
}

namespace {

/// The model with what the inputs say at import: their sizes, and those that may decide what is computed (axes, sizes,
/// pads, scales, a condition) as constants, of floats only where integers are not enough. `import` gets both.
Result<Model> load_decided(const Options& options, ImportOptions& import) {
  AICF_TRY(const NamedTensors given, read_inputs(options.inputs, {}));
  ImportOptions own = import;
  for (const auto& [name, tensor] : given) own.sizes[name] = tensor.shape();
  Result<Model> model = load_model(options.model, own);
  for (const bool floats : {false, true}) {
    if (model) break;
    for (const auto& [name, tensor] : given)
      if (is_float(tensor.type()) == floats && tensor.shape().size() <= 1 && tensor.size() <= 256)
        own.fixed[name] = tensor;
    model = load_model(options.model, own);
  }
  if (!model) return model;
  if (own.fixed.size() > import.fixed.size())
    remark(options, "fixed at the values given, for they decide what is computed", own.fixed);
  import = std::move(own);
  return model;
}

}  // namespace

namespace {

struct Wanted {
  const SemanticInput* input;
  std::vector<std::int64_t> shape;
  std::uint64_t elements, bytes;  ///< bytes on a device
};

/// Refuses an input that no kernel of a device can see whole, and more of them than its memory holds, before any is made.
Result<void> check_devices(const Options& options, const Graph& graph, const std::vector<Wanted>& inputs,
                           std::uint64_t together) {
  constexpr std::uint64_t every_device = 1 << 27;  // Vulkan guarantees this
  if (together <= every_device) return {};
  for (const std::string& id : options.devices) {
    AICF_TRY(const Place place, open_place(id));
    if (place.reference) continue;
    const DeviceInfo& info = place.device->info();
    for (const Wanted& w : inputs)
      if (w.elements > most_elements)
        return unsupported(fmt::format("input '{}' has {} elements, and kernels count them in 32 bits: at most {}",
                                       w.input->name, w.elements, most_elements));
    if (const auto most = info.properties.find("max_buffer_range"); most != info.properties.end())
      for (const Wanted& w : inputs)
        if (w.bytes > static_cast<std::uint64_t>(most->second) && !graph.users(*graph.find(w.input->name)).empty())
          return unsupported(
              fmt::format("input '{}' has {} bytes, and a kernel of {} sees at most {} bytes of a tensor",
                          w.input->name, w.bytes, info.name, most->second));
    if (const auto memory = info.properties.find("memory_bytes");
        memory != info.properties.end() && together > static_cast<std::uint64_t>(memory->second))
      return unsupported(
          fmt::format("the inputs take {} bytes, the memory of {} has {}", together, info.name, memory->second));
  }
  return {};
}

}  // namespace

Result<LoadedModel> load(const Options& options, bool need_inputs) {
  LoadedModel out;
  AICF_TRY(auto bound, bindings(options));
  ImportOptions import{bound, {}};
  auto model = load_model(options.model, import);
  if (!model && model.error().kind == ErrorKind::unsupported && !options.inputs.empty()) {
    auto decided = load_decided(options, import);
    if (decided || decided.error().kind == ErrorKind::unsupported) model = std::move(decided);
  }
  if (!model) return std::unexpected(model.error());
  out.model = *std::move(model);
  if (!options.inputs.empty()) {
    std::vector<std::string> names;
    for (const SemanticInput& i : out.model.semantic.inputs) names.push_back(i.name);
    AICF_TRY(NamedTensors given, read_inputs(options.inputs, names));
    for (const SemanticInput& i : out.model.semantic.inputs)
      if (auto taken = given.extract(i.name)) out.inputs.insert(std::move(taken));
    for (const auto& [name, tensor] : import.fixed) given.erase(name);
    NamedTensors replaced;
    for (const SemanticInput& i : out.model.semantic.defaulted)
      if (auto taken = given.extract(i.name)) replaced.insert(std::move(taken));
    if (!replaced.empty()) {
      import.fixed.insert(replaced.begin(), replaced.end());
      AICF_TRY(out.model, load_model(options.model, import));
    }
    remark(options, "fixed at the values given, in place of their defaults", replaced);
    remark(options, "not taken, for the model has no such inputs", given);
    out.inputs_from = fmt::format("{}", fmt::join(options.inputs, ", "));
    auto symbols = bind_symbols(out.model, out.inputs);
    if (!symbols) {
      // Sizes that an If took for equal, and are not, choose its other branch.
      if (auto decided = load_decided(options, import)) {
        if (auto again = bind_symbols(*decided, out.inputs)) {
          out.model = *std::move(decided);
          symbols = std::move(again);
        }
      }
    }
    if (!symbols) return std::unexpected(symbols.error());
    out.symbols = *std::move(symbols);
  }
  out.symbols.insert(bound.begin(), bound.end());
  // Sizes that are known now make a plan for exactly them.
  if (!out.symbols.empty()) {
    import.bindings = out.symbols;
    AICF_TRY(out.model, load_model(options.model, import));
  }
  if (!need_inputs) return out;
  std::vector<Wanted> wanted;
  std::uint64_t bytes = 0;
  for (const SemanticInput& i : out.model.semantic.inputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& d : i.shape) {
      auto v = evaluate_int(d, out.symbols);
      if (!v) {
        std::string binds;
        for (const std::string& symbol : symbols_of(d))
          if (!out.symbols.contains(symbol)) binds += " --bind " + shell_word(symbol + "=N");
        return bad_input(
            fmt::format("input '{}' has the symbolic size {}: give --inputs or{}", i.name, to_string(d), binds));
      }
      shape.push_back(*v);
    }
    if (out.inputs.contains(i.name)) continue;
    if (!options.inputs.empty())
      return bad_input(fmt::format("{} has no array for the input '{}'", out.inputs_from, i.name));
    AICF_TRY(const std::int64_t elements, checked_size(i.type, shape));
    const auto count = static_cast<std::uint64_t>(elements);
    wanted.push_back({&i, std::move(shape), count, count * device_size(i.type)});
    bytes += wanted.back().bytes;
    if (options.max_memory != 0 && bytes > options.max_memory)
      return unsupported(fmt::format("the inputs up to '{}' alone need {}, --max-memory allows {}", i.name,
                                     bytes_text(bytes), bytes_text(options.max_memory)));
  }
  AICF_RETURN_IF_ERROR(check_devices(options, out.model.graph, wanted, bytes));
  std::mt19937_64 bits(options.seed);
  for (Wanted& w : wanted) {
    const std::string& name = w.input->name;
    const bool is_false = std::ranges::count(out.model.must_be_false, name, &InputConstraint::input) > 0;
    try {
      out.inputs[name] =
          is_false ? Tensor(w.input->type, std::move(w.shape)) : make_tensor(w.input->type, w.shape, bits);
    } catch (const NoMemory& e) {
      return run_failure(e.what(), fmt::format("input '{}'", name));
    }
  }
  if (!wanted.empty()) out.inputs_from = fmt::format("values from seed {}", options.seed);
  return out;
}

Result<CompileOptions> compile_options(const Options& options, const std::map<std::string, std::int64_t>& symbols,
                                       bool fuse) {
  CompileOptions out;
  out.fuse = fuse;
  out.schedule.optimize_for_first_run = options.optimize_for == "first-run";
  out.schedule.size_hints = symbols;
  for (const std::string& f : options.forced) {
    auto eq = f.find('=');
    if (eq == std::string::npos || eq == 0) return bad_input(fmt::format("--schedule {}: KEY=VALUE is needed", f));
    out.schedule.forced[f.substr(0, eq)] = f.substr(eq + 1);
  }
  return out;
}

Result<NamedTensors> run_reference(const LoadedModel& loaded) {
  const Phase phase("reference in float64");
  AICF_TRY(NamedTensors values,
           evaluate_graph(loaded.model.graph, loaded.model.constants, loaded.inputs, loaded.symbols));
  NamedTensors out;
  for (const auto& [output, node] : loaded.model.output_of) {
    const Tensor& value = values.at(node);
    Tensor rounded(loaded.model.graph.node(node).type, value.shape());
    if (rounded.type() == value.type()) {
      out[output] = value;
      continue;
    }
    for (std::int64_t k = 0; k < value.size(); ++k) rounded.set(k, value.at(k));
    out[output] = std::move(rounded);
  }
  return out;
}

Result<CompiledModel> compile_for(const Target& target, const LoadedModel& loaded, const CompileOptions& options) {
  Phase phase("compile for " + target.name);
  CompileOptions shown = options;
  shown.progress = [&](const std::string& step, int done, int total) { phase.at(step, done, total); };
  AICF_TRY(CompiledModel compiled, aicf::compile(loaded.model.graph, loaded.model.constants, target, shown));
  set_interface(compiled.program, interface_of(loaded.model));
  return compiled;
}

Result<std::unique_ptr<Executor>> compile_and_load(Place& place, const LoadedModel& loaded, const Options& options,
                                                   bool fuse, Outcome& out) {
  AICF_TRY(CompileOptions compile, compile_options(options, loaded.symbols, fuse));
  for (;;) {
    auto start = std::chrono::steady_clock::now();
    AICF_TRY(out.compiled, compile_for(place.target, loaded, compile));
    out.compile_seconds += seconds_since(start);
    AICF_TRY(out.run.memory,
             plan_memory(out.compiled.program, loaded.symbols, arena_alignment(*place.device), options.max_memory));
    start = std::chrono::steady_clock::now();
    std::size_t failed = 0;
    auto executor = [&] {
      const Phase phase(fmt::format("load {} kernels on {}", out.compiled.program.kernels.size(), place.id));
      return Executor::create(*place.device, out.compiled.program, &failed);
    }();
    out.load_seconds += seconds_since(start);
    if (executor || executor.error().kind != ErrorKind::refused) return executor;
    fmt::print(stderr, "aicf: {}; taking the next best schedule\n", executor.error().text());
    compile.refused[out.compiled.program.kernels[failed].source] = executor.error().text();
  }
}

Result<Outcome> run_at(Place& place, const LoadedModel& loaded, const Options& options, bool fuse) {
  Outcome out;
  if (place.reference) {
    AICF_TRY(out.outputs, run_reference(loaded));
    return out;
  }
  AICF_TRY(auto executor, compile_and_load(place, loaded, options, fuse, out));
  const Phase phase("run on " + place.id);
  AICF_TRY(out.run, executor->run(loaded.inputs, loaded.symbols));
  out.outputs = out.run.outputs;
  return out;
}

}  // namespace aicf::command
