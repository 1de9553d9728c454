#pragma once

// The built command as a process of its own.

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace aicf::numeric {

struct Ended {
  int status = -1;
  std::string output;  ///< both streams
};

/// Runs a line of the shell.
inline Ended shell(const std::string& command) {
  Ended ended;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return ended;
  char part[4096];
  while (const std::size_t n = std::fread(part, 1, sizeof(part), pipe)) ended.output.append(part, n);
  const int status = ::pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace aicf::numeric
