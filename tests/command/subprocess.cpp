#include "tests/command/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace aicf {

namespace {

/// Appends what can be read now; false at the end.
bool drain(int descriptor, std::string& to) {
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t n = read(descriptor, block.data(), block.size());
    if (n > 0)
      to.append(block.data(), static_cast<std::size_t>(n));
    else
      return n < 0 && (errno == EAGAIN || errno == EINTR);  // a closed terminal reads EIO
  }
}

}  // namespace

Ended run_command(const std::vector<std::string>& arguments, const CommandOptions& options) {
  std::vector<char*> pointers{const_cast<char*>(AICF_COMMAND)};
  for (const std::string& a : arguments) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  int out[2] = {-1, -1}, err[2] = {-1, -1}, terminal = -1;
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  if (options.terminal) {
    winsize size{24, 80, 0, 0};
    child = forkpty(&terminal, nullptr, nullptr, &size);
  } else {
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    child = fork();
  }
  if (child == 0) {
    if (!options.terminal) {
      dup2(out[1], 1);
      dup2(err[1], 2);
      dup2(open("/dev/null", O_RDONLY), 0);
    }
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    execv(AICF_COMMAND, pointers.data());
    _exit(127);
  }
  Ended ended;
  if (child < 0) return ended;
  std::vector<std::pair<int, std::string*>> sources;
  if (options.terminal) {
    sources = {{terminal, &ended.out}};
  } else {
    close(out[1]);
    close(err[1]);
    sources = {{out[0], &ended.out}, {err[0], &ended.err}};
  }
  for (const auto& [descriptor, text] : sources) fcntl(descriptor, F_SETFL, O_NONBLOCK);
  bool watching = static_cast<bool>(options.watch);
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int status = 0;
  rusage usage{};
  for (bool alive = true; alive;) {
    std::vector<pollfd> waiting;
    for (const auto& [descriptor, text] : sources) waiting.push_back({descriptor, POLLIN, 0});
    poll(waiting.data(), waiting.size(), 10);
    std::erase_if(sources, [](const auto& s) { return !drain(s.first, *s.second); });
    if (watching) watching = !options.watch(child, ended.out + ended.err);
    if (seconds() > options.seconds_most) kill(child, SIGKILL);
    alive = wait4(child, &status, WNOHANG, &usage) != child;
  }
  for (const auto& [descriptor, text] : sources) drain(descriptor, *text);
  for (const int d : {out[0], err[0], terminal})
    if (d >= 0) close(d);
  const auto spent = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  ended.seconds = spent(usage.ru_utime) + spent(usage.ru_stime);
  ended.peak_kib = usage.ru_maxrss;
  if (WIFEXITED(status)) ended.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

}  // namespace aicf
