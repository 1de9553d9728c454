#include "mir/support/result.h"

#include <cstdio>
#include <cstdlib>

namespace aicf {

void report_bug(const std::string& message, const char* file, int line) {
  std::fflush(stdout);
  std::fprintf(stderr, "aicf: bug: %s (%s:%d)\n", message.c_str(), file, line);
  std::fflush(stderr);
  // No static destructors: the state that broke an invariant must not run them.
  std::_Exit(70);
}

}  // namespace aicf
