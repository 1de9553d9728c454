#pragma once

// Thread programs that every emitter must print right: one list, run by the interpreter and on each device present.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "mir/kernel/thread_program.h"

namespace aicf::emit_cases {

struct Case {
  std::string name;
  /// Built for a subgroup size and a number of subgroups (the total of threads is at least 32).
  std::function<ThreadProgram(int size, int subgroups)> program;
  std::map<std::string, std::vector<double>> buffers;
  std::map<std::string, std::int64_t> symbols;
  /// Largest |difference| ≤ relative · |expected| + absolute; both 0: the same bits (any NaN equals any NaN).
  double relative = 0, absolute = 0;
};

inline void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const std::vector<Case>& all();

}  // namespace aicf::emit_cases
