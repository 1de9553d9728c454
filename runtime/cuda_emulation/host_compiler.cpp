#include "runtime/cuda_emulation/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "mir/support/interrupt.h"

extern char** environ;

namespace aicf {
namespace {

namespace fs = std::filesystem;

constexpr char kPrelude[] =
#include "runtime/cuda_emulation/prelude.inc"
    ;

#define AICF_EMULATION_ABI(...) #__VA_ARGS__
constexpr char kAbi[] =
#include "runtime/cuda_emulation/abi.inc"
    ;
#undef AICF_EMULATION_ABI

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<std::string> find_on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const std::string path = environment("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string file = (fs::path(path.substr(begin, end - begin)) / program).string();
    if (access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return unsupported(program + " is not on PATH");
}

struct Outcome {
  int status = -1;  ///< Exit status, −1 when it did not start or died.
  std::string output;
};

/// Runs a program with standard output and error in `log_file`, and reads that back. Its temporary files go beside that.
Outcome run_program(const std::vector<std::string>& arguments, const std::string& log_file) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  std::string temporary = "TMPDIR=" + fs::path(log_file).parent_path().string();
  std::vector<char*> variables{temporary.data()};
  for (char** v = environ; *v; ++v)
    if (!std::string_view(*v).starts_with("TMPDIR=")) variables.push_back(*v);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // A process group of its own, so that a compiler ends with those that it starts; no signal is blocked there.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  pid_t child = 0;
  int failed = 0;
  OnInterrupt end;
  {
    const NoInterrupt whole;
    failed = posix_spawn(&child, pointers[0], &actions, &attributes, pointers.data(), variables.data());
    if (failed == 0) {
      end = OnInterrupt([child] {
        kill(-child, SIGKILL);
        siginfo_t gone;
        waitid(P_PID, static_cast<id_t>(child), &gone, WEXITED | WNOWAIT);
      });
    }
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  Outcome outcome;
  if (failed) {
    outcome.output = fmt::format("{} did not start: {}", arguments[0], std::strerror(failed));
    return outcome;
  }
  int status = 0;
  siginfo_t gone;  // not reaped while it could still be ended: its number stays its own
  while (waitid(P_PID, static_cast<id_t>(child), &gone, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  end = OnInterrupt();
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  std::stringstream text;
  text << std::ifstream(log_file).rdbuf();
  outcome.output = text.str();
  return outcome;
}

/// A folder of its own for one compilation, removed at the end.
class ScratchFolder {
 public:
  explicit ScratchFolder(const fs::path& parent) {
    std::string pattern = (parent / "build-XXXXXX").string();
    const NoInterrupt whole;
    if (!mkdtemp(pattern.data())) return;
    path_ = pattern;
    removal_ = OnInterrupt([pattern] {
      std::error_code ignored;
      fs::remove_all(pattern, ignored);
    });
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }  ///< Empty when it could not be made.

 private:
  fs::path path_;
  OnInterrupt removal_;
};

/// The compiler, what identifies it in cache keys, and its options.
struct Toolchain {
  std::string path, identity;
  std::vector<std::string> flags;
};

Result<Toolchain> find_toolchain() {
  AICF_TRY(std::string path, host_compiler());
  Toolchain toolchain;
  ScratchFolder scratch(fs::temp_directory_path());
  if (scratch.path().empty()) return run_failure("no temporary folder can be made", fs::temp_directory_path().string());
  const Outcome version = run_program({path, "--version"}, (scratch.path() / "version").string());
  if (version.status != 0) {
    return unsupported(fmt::format("the host compiler does not run ({}); AICF_HOST_CXX names another", version.output),
                       path);
  }
  toolchain.path = path;
  toolchain.identity = version.output;
  toolchain.flags = {"-x",
                     "c++",
                     "-std=c++20",
                     "-O1",
                     "-w",
                     "-fPIC",
                     "-shared",
                     "-fvisibility=hidden",
                     "-fno-exceptions",
                     "-fno-rtti",
                     "-fno-asynchronous-unwind-tables",
                     "-fno-strict-aliasing",
                     "-ffp-contract=off",
                     "-fno-stack-protector",
                     "-fwrapv",
                     "-fno-math-errno",
                     "-nostdlib",
                     "-fcf-protection=none"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("f16c")) toolchain.flags.push_back("-mf16c");
  if (__builtin_cpu_supports("fma")) toolchain.flags.push_back("-mfma");
#endif
  return toolchain;
}

const Result<Toolchain>& toolchain() {
  static const Result<Toolchain> found = find_toolchain();
  return found;
}

bool cache_enabled() {
  return environment("AICF_CACHE") != "off";
}

Result<fs::path> cache_folder() {
  fs::path folder;
  if (const std::string own = environment("AICF_CACHE_DIR"); !own.empty()) {
    folder = own;
  } else if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    folder = fs::path(xdg) / "aicf";
  } else if (const std::string home = environment("HOME"); !home.empty()) {
    folder = fs::path(home) / ".cache/aicf";
  } else {
    folder = fs::temp_directory_path() / fmt::format("aicf-{}", getuid());
  }
  folder /= "emulation";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return run_failure(
        fmt::format("the cache folder cannot be made ({}); AICF_CACHE_DIR names another, AICF_CACHE=off does "
                    "without",
                    error.message()),
        folder.string());
  }
  return folder;
}

std::string key_of(const std::string& text, const Toolchain& toolchain) {
  std::string all = toolchain.identity;
  for (const std::string& flag : toolchain.flags) all += flag + '\n';
  all += text;
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// Null when the file is not a complete kernel object.
std::shared_ptr<HostKernel> open_object(const fs::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  const auto state = reinterpret_cast<AicfState* (*)()>(dlsym(library, "aicf_emulation_state"));
  const auto entry = reinterpret_cast<int (*)(const AicfWord*)>(dlsym(library, "aicf_emulation_entry"));
  if (!state || !entry) {
    dlclose(library);
    return nullptr;
  }
  return std::make_shared<HostKernel>(library, state(), entry);
}

}  // namespace

HostKernel::~HostKernel() {
  dlclose(library_);
}

Result<std::string> host_compiler() {
  if (const std::string wanted = environment("AICF_HOST_CXX"); !wanted.empty()) {
    auto found = find_on_path(wanted);
    if (!found) return unsupported(fmt::format("AICF_HOST_CXX={} is not a program", wanted));
    return found;
  }
  for (const char* name : {"g++", "c++", "clang++"}) {
    if (auto found = find_on_path(name)) return found;
  }
  return unsupported(
      "CUDA emulation needs a host C++ compiler and none of g++, c++, clang++ is on PATH; install one "
      "('apt install g++') or name it by AICF_HOST_CXX");
}

Result<std::shared_ptr<HostKernel>> compile_for_host(const std::string& source, const std::string& name,
                                                     int architecture) {
  AICF_TRY(const Toolchain tools, toolchain());
  const std::string text = fmt::format(
      "#define __CUDA_ARCH__ {}\n#define AICF_CHECKED_INLINING __attribute__((noinline))\n{}\n#line 1 "
      "\"aicf_prelude\"\n{}\n"
      "#line 1 \"{}.cu\"\n{}\nAICF_ENTRY({})\n",
      architecture * 10, kAbi, kPrelude, name, source, name);
  const bool cached = cache_enabled();
  fs::path folder = fs::temp_directory_path(), object;
  if (cached) {
    AICF_TRY(folder, cache_folder());
    object = folder / (key_of(text, tools) + ".so");
    std::error_code ignored;
    if (fs::exists(object, ignored)) {
      if (auto kernel = open_object(object)) return kernel;
      fs::remove(object, ignored);  // Damaged: make it again.
    }
  }

  ScratchFolder scratch(folder);
  if (scratch.path().empty()) return run_failure("no temporary folder can be made", folder.string());
  const fs::path input = scratch.path() / "kernel.cpp", built = scratch.path() / "kernel.so";
  if (!(std::ofstream(input, std::ios::binary) << text)) return run_failure("cannot write", input.string());
  std::vector<std::string> command = {tools.path};
  command.insert(command.end(), tools.flags.begin(), tools.flags.end());
  for (const fs::path& part : {input, fs::path("-o"), built, fs::path("-lm"), fs::path("-lc"), fs::path("-lgcc")})
    command.push_back(part.string());
  // "-x c++" applies to what follows; the libraries are no source.
  const Outcome outcome = run_program(command, (scratch.path() / "log").string());
  if (outcome.status != 0) {
    return run_failure(fmt::format("the host compiler refused the kernel's source:\n{}", outcome.output), name);
  }
  if (cached) {
    std::error_code error;
    fs::rename(built, object, error);
    if (error) return run_failure(fmt::format("cannot be written: {}", error.message()), object.string());
  }
  auto kernel = open_object(cached ? object : built);
  if (!kernel) return run_failure(fmt::format("the compiled kernel cannot be opened: {}", dlerror()), name);
  return kernel;
}

}  // namespace aicf
