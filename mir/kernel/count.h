#pragma once

// What one launch of a ThreadProgram does, counted without running it: the facts that cost models weigh.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/kernel/lower.h"
#include "mir/kernel/thread_program.h"

namespace aicf {

/// Counts per subgroup of an average work item, multiplied by trip counts (sampled over the grid). Keys:
///   load.uniform|contiguous|strided.w1|w2|w4, store.….w…      global accesses by address pattern over the lanes
///   shared_load.w…, shared_store.w…, shuffle.constant|xor|dynamic, barrier, iteration (of loops)
///   op.add, op.mul, op.exp (exp, log, tanh, erf, pow, sin, cos), op.div (div, reciprocal, sqrt), op.select (compare,
///   select, min, max, logic), op.integer
///   bytes.read, bytes.written   distinct 32-byte sectors touched by a subgroup's accesses, in bytes
///   static.load, static.store, static.shuffle, static.op, static.shared   statements as written (what a JIT compiles)
struct StaticCounts {
  std::map<std::string, double> counts;
  double workgroups = 1;
  int subgroups = 1;
  int subgroup_size = 1;
  int live = 0;     ///< largest number of scalars live at once
  int buffers = 0;  ///< kernel arguments
  std::int64_t shared_bytes = 0;
  double buffer_bytes =
      0;  ///< device bytes of the buffers, or of all accesses where those are fewer: moved at least once
  double operator[](const std::string& key) const {
    auto it = counts.find(key);
    return it == counts.end() ? 0.0 : it->second;
  }
};

/// `sizes` binds the program's symbols (or hints for them); unbound symbols count as 64.
StaticCounts count(const ThreadProgram& program, const std::map<std::string, std::int64_t>& sizes);

/// Steps of a stream over all work items: those its bounds leave (the first sweep of a stream that defers tiles), and those of
/// the whole axis.
struct StreamSteps {
  std::string axis;
  double run = 0, whole = 0;
};
/// Of the streams in `lowered` whose bounds leave something out; sizes that `sizes` does not bind make it empty.
std::vector<StreamSteps> stream_steps(const LoweredRegion& lowered, const StreamingRegion& region,
                                      const std::map<std::string, std::int64_t>& sizes);

}  // namespace aicf
