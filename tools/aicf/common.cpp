#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <ranges>

#include "mir/graph/oracle.h"
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

Result<std::map<std::string, std::int64_t>> bindings(const Options& options) {
  std::map<std::string, std::int64_t> out;
  for (const std::string& b : options.bind) {
    auto eq = b.find('=');
    std::string value = eq == std::string::npos ? "" : b.substr(eq + 1);
    if (eq == 0 || value.empty() || value.size() > 15 ||
        !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; }))
      return bad_input(fmt::format("--bind {}: NAME=VALUE with a whole number is needed", b));
    out[b.substr(0, eq)] = std::stoll(value);
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
    fmt::print(stderr, "fixed at the values given, for they decide what is computed: {}\n",
               fmt::join(std::views::keys(own.fixed), ", "));
  import = std::move(own);
  return model;
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
      if (auto it = given.find(i.name); it != given.end()) out.inputs.insert(*it);
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
  std::mt19937_64 bits(options.seed);
  bool made = false;
  std::uint64_t bytes = 0;
  for (const SemanticInput& i : out.model.semantic.inputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& d : i.shape) {
      auto v = evaluate_int(d, out.symbols);
      if (!v)
        return bad_input(fmt::format("input '{}' has the symbolic size '{}': give --inputs or --bind {}=N", i.name,
                                     to_string(d), to_string(d)));
      shape.push_back(*v);
    }
    if (out.inputs.contains(i.name)) continue;
    if (!options.inputs.empty())
      return bad_input(fmt::format("{} has no array for the input '{}'", out.inputs_from, i.name));
    AICF_TRY(const std::int64_t elements, checked_size(i.type, shape));
    bytes += static_cast<std::uint64_t>(elements) * device_size(i.type);
    if (options.max_memory != 0 && bytes > options.max_memory)
      return unsupported(fmt::format("the inputs up to '{}' alone need {}, --max-memory allows {}", i.name,
                                     bytes_text(bytes), bytes_text(options.max_memory)));
    const bool is_false = std::ranges::count(out.model.must_be_false, i.name, &InputConstraint::input) > 0;
    out.inputs[i.name] = is_false ? Tensor(i.type, shape) : make_tensor(i.type, shape, bits);
    made = true;
  }
  if (made) out.inputs_from = fmt::format("values from seed {}", options.seed);
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

Difference compare(const NamedTensors& got, const NamedTensors& wanted) {
  Difference d;
  double worst = -1;
  for (const auto& [name, w] : wanted) {
    auto it = got.find(name);
    if (it == got.end() || it->second.shape() != w.shape()) {
      d.shape_differs = true;
      d.tensor = name;
      continue;
    }
    double largest = 0, error = 0;
    std::int64_t at = -1;
    for (std::int64_t i = 0; i < w.size(); ++i) {
      double a = it->second.at(i), b = w.at(i);
      if (std::isnan(a) != std::isnan(b) && !d.nan_differs) {
        d.nan_differs = true;
        d.tensor = name, d.element = i, d.got = a, d.wanted = b;
      }
      if (std::isnan(a) || std::isnan(b) || a == b) {
        if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
        continue;
      }
      if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
      double e = std::isinf(a) || std::isinf(b) ? std::numeric_limits<double>::infinity() : std::abs(a - b);
      if (e > error) error = e, at = i;
    }
    d.max_abs = std::max(d.max_abs, error);
    d.max_rel = std::max(d.max_rel, error == 0    ? 0
                                    : largest > 0 ? error / largest
                                                  : std::numeric_limits<double>::infinity());
    if (error > worst && at >= 0 && !d.nan_differs)
      worst = error, d.tensor = name, d.element = at, d.got = it->second.at(at), d.wanted = w.at(at);
  }
  return d;
}

Json to_json(const Difference& d, double absolute, double relative) {
  Json j{{"ok", d.within(absolute, relative)}, {"max_abs", d.max_abs}, {"max_rel", d.max_rel}};
  j["first_bad"] = nullptr;
  if (!d.within(absolute, relative)) {
    Json bad{{"tensor", d.tensor}, {"element", d.element}, {"got", d.got}, {"wanted", d.wanted}};
    if (d.nan_differs) bad["reason"] = "NaN in different places";
    if (d.shape_differs) bad["reason"] = "missing or of another shape";
    j["first_bad"] = bad;
  }
  return j;
}

}  // namespace aicf::command
