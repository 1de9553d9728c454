#pragma once

// Runs the built command (AICF_COMMAND) as a user does, and measures it.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace aicf {

struct Ended {
  int exit = -1;         ///< exit status; −1 when a signal ended it
  int signal = 0;        ///< that signal; SIGKILL after `seconds_most`
  std::string out, err;  ///< with a terminal, everything stands in `out`
  double seconds = 0;    ///< of the processor: a limit on it holds however busy the machine is
  long peak_kib = 0;     ///< most memory resident at once
};

struct CommandOptions {
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to this process's
  bool terminal = false;  ///< standard streams are a pseudo-terminal of 80 columns
  double seconds_most = 60;
  /// Called about every 10 ms with the child's process id and what it has written so far, until it returns true.
  std::function<bool(int, const std::string&)> watch;
};

Ended run_command(const std::vector<std::string>& arguments, const CommandOptions& options = {});

}  // namespace aicf
