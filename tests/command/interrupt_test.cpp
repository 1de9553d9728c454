// Progress on a terminal, and the end on a signal: exit status, no half-written file, no child, no temporary folder.

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string model = AICF_TESTS_DIR "/models/attention.aicf";

/// Arguments of a run whose kernels the emulation's host compiler must build first.
std::vector<std::string> emulated(const std::string& command) {
  return {command,  model,  "--bind", "batch=1", "--bind",   "head=2",
          "--bind", "q=64", "--bind", "kv=64",   "--device", "cuda-emulation"};
}

class Interrupted : public ::testing::Test {
 protected:
  CommandOptions options() {
    CommandOptions o;
    fs::create_directories(dir_.path() / "tmp");
    fs::create_directories(dir_.path() / "cache");
    o.environment = {{"AICF_CACHE_DIR", dir_.file("cache")}, {"TMPDIR", dir_.file("tmp")}, {"TERM", "xterm"}};
    return o;
  }
  /// Files below the test's folder, by relative path.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
      if (!entry.is_directory()) out.push_back(fs::relative(entry.path(), dir_.path()).string());
    return out;
  }
  /// A compiler that never ends, and a child of it; both write their process ids.
  std::string endless_compiler() {
    const std::string path = dir_.file("slow-c++");
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && echo slow 1.0 && exit\nsleep 1000 &\necho $$ $! > "
                        << dir_.file("pids") << "\nfor last; do :; done\nwhile :; do sleep 1000; done\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  /// Whether a process is still there after seconds: one that was killed on a busy machine takes its time.
  static bool stays_alive(int process) {
    for (int i = 0; i < 100; ++i) {
      // A child that nobody has waited for yet is dead too.
      const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
      if (stat.empty() || stat.find(") Z") != std::string::npos) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }
  TempDir dir_;
};

TEST_F(Interrupted, CompilersOfTheEmulationEndAndNothingStays) {
  for (const auto& [number, status] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}}) {
    CommandOptions o = options();
    o.environment.emplace_back("AICF_HOST_CXX", endless_compiler());
    bool sent = false;
    o.watch = [&](int child, const std::string&) {
      if (read_file(dir_.file("pids")).find('\n') == std::string::npos) return false;
      sent = true;
      kill(child, number);
      return true;
    };
    const Ended ended = run_command(emulated("run"), o);
    ASSERT_TRUE(sent) << ended.err;
    EXPECT_EQ(ended.exit, status) << "signal " << ended.signal;
    std::istringstream pids(read_file(dir_.file("pids")));
    for (int process = 0; pids >> process;) EXPECT_FALSE(stays_alive(process)) << process;
    EXPECT_THAT(files(), ::testing::UnorderedElementsAre("pids", "slow-c++"));
    fs::remove(dir_.file("pids"));
  }
}

TEST_F(Interrupted, AnOutputIsWholeOrAbsent) {
  // The output stands complete under its name or not at all, whenever the signal comes; the old file stays otherwise.
  const std::string old = "what stood here before";
  const std::string package = dir_.file("m.aicfpkg");
  int ended_early = 0;
  for (int delay = 0; delay < 40; delay += 4) {
    write_file(package, old);
    CommandOptions o = options();
    int left = delay;
    o.watch = [&](int child, const std::string&) {
      if (left-- > 0) return false;
      kill(child, SIGINT);
      return true;
    };
    const Ended ended = run_command({"compile", model, "--target", "null", "--target", "lavapipe", "-o", package}, o);
    // One that comes before main ends the process by itself.
    const bool interrupted = ended.exit == 130 || ended.signal == SIGINT;
    EXPECT_TRUE(interrupted || ended.exit == 0) << ended.exit << " " << ended.err;
    const std::string now = read_file(package);
    EXPECT_EQ(now == old, interrupted);
    EXPECT_TRUE(now == old || now.starts_with("AICFPKG")) << now.substr(0, 100);
    EXPECT_THAT(files(), ::testing::UnorderedElementsAre("m.aicfpkg"));
    ended_early += ended.exit == 130;
  }
  EXPECT_GT(ended_early, 0) << "no signal came in time";
}

TEST_F(Interrupted, IgnoredSignalsStayIgnored) {
  signal(SIGINT, SIG_IGN);
  CommandOptions o = options();
  o.watch = [](int child, const std::string&) {
    kill(child, SIGINT);
    return true;
  };
  const Ended ended = run_command({"explain", model, "--stage", "summary"}, o);
  signal(SIGINT, SIG_DFL);
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

TEST_F(Interrupted, WhatWasFoundBeforeIsSaid) {
  CommandOptions o = options();
  o.environment.emplace_back("AICF_HOST_CXX", endless_compiler());
  o.watch = [&](int child, const std::string&) {
    if (read_file(dir_.file("pids")).find('\n') == std::string::npos) return false;
    kill(child, SIGINT);
    return true;
  };
  std::vector<std::string> arguments = emulated("verify");
  arguments.insert(arguments.end() - 1, {"vulkan:llvmpipe", "--device"});
  const Ended ended = run_command(arguments, o);
  EXPECT_EQ(ended.exit, 130);
  EXPECT_THAT(ended.out, HasSubstr("vulkan:llvmpipe against reference"));
}

TEST_F(Interrupted, TheLineOfATerminalIsCleared) {
  CommandOptions o = options();
  o.terminal = true;
  o.environment.emplace_back("AICF_HOST_CXX", endless_compiler());
  o.watch = [](int child, const std::string& said) {
    if (said.find("load 1 kernels") == std::string::npos) return false;
    kill(child, SIGINT);
    return true;
  };
  const Ended ended = run_command(emulated("run"), o);
  EXPECT_EQ(ended.exit, 130);
  EXPECT_TRUE(ended.out.ends_with("\r\x1b[K")) << ended.out;
}

TEST_F(Interrupted, ProgressStandsOnTerminalsAlone) {
  CommandOptions o = options();
  o.environment.emplace_back("AICF_CACHE", "off");
  const Ended plain = run_command(emulated("verify"), o);
  EXPECT_EQ(plain.exit, 0) << plain.err;
  EXPECT_THAT(plain.err + plain.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plain.err, Not(HasSubstr("load 1 kernels")));
  o.terminal = true;
  const Ended shown = run_command(emulated("verify"), o);
  EXPECT_EQ(shown.exit, 0);
  EXPECT_THAT(shown.out, HasSubstr("\r\x1b[Kload 1 kernels on cuda-emulation"));
  // Each line ends erased before what follows is printed.
  EXPECT_THAT(shown.out, HasSubstr("\r\x1b[Kcuda-emulation against reference"));
  for (const char* silent : {"--quiet", "--json"}) {
    std::vector<std::string> arguments = emulated("verify");
    arguments.emplace_back(silent);
    EXPECT_THAT(run_command(arguments, o).out, Not(HasSubstr("\x1b"))) << silent;
  }
}

}  // namespace
}  // namespace aicf
