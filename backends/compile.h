#pragma once

// The compiler's path from a canonical graph to a program: the one place that knows the order of the steps.

#include <functional>
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
  /// false: stop before binaries (explain needs no compiler).
  bool assemble = true;
  /// Progress of long work: step, done, total.
  std::function<void(const std::string& step, int done, int total)> progress;
};

/// One region on one target: every level of it, for `explain`.
struct CompiledRegion {
  Region region;
  ChosenSchedule chosen;
  std::vector<std::string> sources;   ///< one per kernel
  std::vector<std::string> binaries;  ///< compiler logs, one per kernel
};

struct CompiledModel {
  Graph graph;  ///< after simplification
  std::vector<CompiledRegion> regions;
  std::vector<Refusal> refusals;
  Program program;
};

/// `constants` are the model's (Node::constant). Kernels of equal text are compiled once.
Result<CompiledModel> compile(const Graph& graph, const std::vector<Tensor>& constants, const Target& target,
                              const CompileOptions& options);

}  // namespace aicf
