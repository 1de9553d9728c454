#pragma once

// What a long command is doing: one line on a terminal, rewritten in place; nothing anywhere else.

#include <string>

namespace aicf::command {

/// Shows the lines of phases on standard error from now on. Called once, and only where that is a terminal.
void show_progress();

/// A step of a command that may take long. Its line comes after a third of a second, counts the seconds, and is gone when
/// the phase ends. One at a time.
class Phase {
 public:
  explicit Phase(const std::string& what);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  /// "what: detail 3 of 9"; `total` 0 is not known.
  void at(const std::string& detail, int done, int total = 0);

 private:
  std::string what_;
};

}  // namespace aicf::command
