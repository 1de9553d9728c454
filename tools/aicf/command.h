#pragma once

// What every subcommand shares: options, loading, devices, inputs, and the two ways to speak (text, one JSON document).

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/compile.h"
#include "frontend/model.h"
#include "runtime/driver.h"
#include "runtime/executor/executor.h"
#include "tools/aicf/difference.h"

namespace aicf::command {

struct Options {
  std::string model;
  std::vector<std::string> devices, targets, forced, bind, inputs;
  std::string outputs, expect, output, stage = "all", region, against;
  std::string repro = "aicf-repro";  ///< folder
  std::string fusion = "on", optimize_for = "throughput", cache = "on", weights = "embed";
  std::uint64_t seed = 1, max_memory = 0;
  int repetitions = 10;
  double absolute = 1e-5;
  std::optional<double> relative;  ///< usual_relative() of each type where it is not given
  bool json = false, dot = false, quiet = false;
};

/// Exit statuses of the command.
enum Exit : int { right = 0, differs = 1, bad = 2, not_supported = 3 };

/// A place that computes a model: the float64 reference, or a device with the target compiled for it.
struct Place {
  std::string id;
  bool reference = false;
  std::unique_ptr<Device> device;
  Target target;
};

/// "reference", "vulkan:…", "cuda-emulation:…", "cuda:…".
Result<Place> open_place(const std::string& id);

struct LoadedModel {
  Model model;
  NamedTensors inputs;
  std::map<std::string, std::int64_t> symbols;
  std::string inputs_from;  ///< "values from seed 1" or the file
};

/// Tensors of .npz, .npy and ONNX .pb files. A .pb file without a name inside takes the name of the input at its place in
/// the list (`names`).
Result<NamedTensors> read_inputs(const std::vector<std::string>& paths, const std::vector<std::string>& names);
/// The tensors of --expect, one of each output and of its shape. Errors: bad_input naming the output and both shapes.
Result<NamedTensors> read_expected(const Options& options, const LoadedModel& loaded);
/// "what: names" on stderr where there are any, unless --quiet.
void remark(const Options& options, const char* what, const NamedTensors& tensors);
/// .npz; .npy or .pb where there is one output.
Result<void> write_outputs(const std::string& path, const NamedTensors& outputs);
/// --bind NAME=VALUE entries.
Result<std::map<std::string, std::int64_t>> bindings(const Options& options);
/// The model with its dims bound by the given inputs or --bind; inputs from the file or made from the seed.
Result<LoadedModel> load(const Options& options, bool need_inputs);
Result<CompileOptions> compile_options(const Options& options, const std::map<std::string, std::int64_t>& symbols,
                                       bool fuse);

/// Runs at a place. Outputs carry the model's output names.
struct Outcome {
  NamedTensors outputs;
  RunResult run;
  CompiledModel compiled;
  double compile_seconds = 0, load_seconds = 0;
};
/// Compiles for a target, with progress and the model's interface.
Result<CompiledModel> compile_for(const Target& target, const LoadedModel& loaded, const CompileOptions& options);
/// Fills `out` but for outputs and run. What --max-memory does not allow is refused before the device is asked for
/// anything. A schedule with a kernel that the device refuses gives way to the next best one,
/// with a line on stderr. `out` must outlive the executor.
Result<std::unique_ptr<Executor>> compile_and_load(Place& place, const LoadedModel& loaded, const Options& options,
                                                   bool fuse, Outcome& out);
Result<Outcome> run_at(Place& place, const LoadedModel& loaded, const Options& options, bool fuse);
Result<NamedTensors> run_reference(const LoadedModel& loaded);

/// Text as one word of a POSIX shell, in quotes where it needs them.
std::string shell_word(const std::string& text);
std::string bytes_text(std::uint64_t bytes);

bool is_package(const std::string& path);
/// A package runs from its file alone; inputs and outputs carry the model's names.
Result<int> run_package(const Options& options);
Result<int> devices(const Options& options);
Result<int> compile(const Options& options);
Result<int> run(const Options& options);
Result<int> verify(const Options& options);
Result<int> explain(const Options& options);
Result<int> bench(const Options& options);
/// Fused and unfused plan side by side on every device.
Result<int> compare_plans(const Options& options);

}  // namespace aicf::command
