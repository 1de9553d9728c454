#pragma once

// The compiler's path from a canonical graph to a program: the one place that knows the order of the steps.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "mir/graph/graph.h"
#include "mir/region/form.h"
#include "runtime/artifact.h"

namespace aicf {

struct CompileOptions {
  bool fuse = true;
  ScheduleOptions schedule;
  /// false: stop before binaries (explain needs no compiler); the program then has launches and buffers, no kernels.
  bool assemble = true;
  /// Sources of kernels that the device refused, with its words: schedules that need one are passed over.
  std::map<std::string, std::string> refused;
  /// Progress of long work: step, done, total (0: not known).
  std::function<void(const std::string& step, int done, int total)> progress;
};

/// One region on one target: every level of it, for `explain`.
struct CompiledRegion {
  Region region;
  ChosenSchedule chosen;
  std::string form;                            ///< the region whose kernels it runs: the first of its form
  std::map<std::string, std::string> tensors;  ///< what the sources call tensors (in0, out0) → their names
  std::vector<std::string> sources;            ///< one per kernel
  std::vector<std::string> binaries;           ///< compiler logs, one per kernel
};

struct CompiledModel {
  Graph graph;  ///< after simplification
  std::vector<CompiledRegion> regions;
  std::vector<Refusal> refusals;
  std::map<std::string, Reason> cuts;  ///< why tensors that regions write are in memory
  Program program;
  int launches = 0, kernels = 0;  ///< kernels are distinct sources
};

/// `constants` are the model's (Node::constant). Regions that differ only in names share their kernels, which are compiled
/// once. The program's inputs and outputs are the graph's, named as its nodes; set_interface gives them the model's own.
Result<CompiledModel> compile(const Graph& graph, const std::vector<Tensor>& constants, const Target& target,
                              const CompileOptions& options);

/// Gives a compiled program the interface of the model whose graph was compiled.
void set_interface(Program& program, const Interface& interface);

}  // namespace aicf
