#pragma once

// The reference semantics of the Memory-Centric IR: runs a StreamingRegion step by step on host data. For tests and for
// checking rewrites; knows nothing of devices.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// Row-major elements by tensor name.
using HostTensors = std::map<std::string, std::vector<double>>;

struct EvaluateOptions {
  std::map<std::string, std::int64_t> symbols;
  /// Every float operation is rounded to f32; false: float64 throughout.
  bool single_precision = false;
  /// Lengths of the steps along a streamed axis, used in turn, the last one repeated. Empty: one step.
  std::vector<std::int64_t> steps;
  /// Positions at which a streamed axis is cut into parts that run apart and are merged. Out of range ones are ignored.
  std::vector<std::int64_t> cuts;
  /// Which of n parts to take next while merging (any number below n); null: in order.
  std::function<std::size_t(std::size_t)> pick;
  /// Steps whose every coordinate is in `skip` are left out.
  bool use_skip = true;
};

/// Outputs by tensor name. Errors (bad_input): a missing input, a load out of bounds, an unbound symbol.
Result<HostTensors> evaluate(const StreamingRegion& region, const HostTensors& inputs,
                             const EvaluateOptions& options = {});

}  // namespace aicf
