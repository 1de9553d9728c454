#pragma once

// Small kernels that mutation tests change: golden regions under fixed schedules, with data and the right results from
// plain float64 loops.

#include <map>
#include <string>
#include <vector>

#include "mir/kernel/lower.h"
#include "mir/kernel/thread_program.h"
#include "mir/memory/schedule.h"

namespace aicf::numeric {

using Arrays = std::map<std::string, std::vector<double>>;

struct Subject {
  std::string name;
  ScheduledRegion scheduled;
  LoweredRegion lowered;
  std::vector<ThreadProgram> programs;
  Arrays inputs;
  Arrays expected;  ///< float64
};
void PrintTo(const Subject& s, std::ostream* out);

/// broadcast: a cascade whose streamed tiles are broadcast between lanes. staged: by two subgroups from workgroup
/// memory. split: two launches. rows: a row over lanes and subgroups, partial states merged. product: both operands of
/// a matrix product staged.
const std::vector<Subject>& subjects();

/// Who noticed that a kernel is wrong.
enum class Catcher { verify, expand, interpreter, result, nobody };
const char* name(Catcher catcher);

/// Runs the launches one after another under the interpreter; outputs hold no right value before. `message` says what
/// was caught.
Catcher run(const Subject& subject, const std::vector<ThreadProgram>& programs, std::string* message);
/// The same from kernels, which are verified and expanded first.
Catcher run(const Subject& subject, const std::vector<Kernel>& kernels, std::string* message);

}  // namespace aicf::numeric
