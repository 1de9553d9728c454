#include "backends/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

namespace aicf {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Entries of `folder` whose name starts with `prefix`, newest name first; empty when it is no folder.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

bool is_nvrtc(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("libnvrtc.so") && name.find(".alt.") == std::string::npos;
}

/// NVRTC files directly in `folder`, versioned names first.
void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  for (const fs::path& file : entries(folder, "libnvrtc.so")) {
    if (is_nvrtc(file)) files.push_back(file);
  }
}

/// NVRTC of PyPI's wheels below `prefix`/lib/python3*: nvidia/cuda_nvrtc/lib (version 12), nvidia/cu13/lib (13).
void add_python_prefix(const fs::path& prefix, std::vector<fs::path>& files) {
  for (const char* library : {"lib", "lib64", "local/lib"}) {
    for (const fs::path& python : entries(prefix / library, "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& part : entries(python / packages / "nvidia", "cu")) add_folder(part / "lib", files);
      }
    }
  }
}

/// Everything that a folder can be: it holds the library, is a toolkit, or is a Python environment.
void add_any(const fs::path& place, std::vector<fs::path>& files) {
  std::error_code error;
  if (fs::is_regular_file(place, error)) {
    files.push_back(place);
    return;
  }
  add_folder(place, files);
  for (const char* library : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
    add_folder(place / library, files);
  add_python_prefix(place, files);
}

std::vector<fs::path> own_candidates() {
  std::vector<fs::path> files;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    add_folder(executable.parent_path(), files);
    add_folder(executable.parent_path().parent_path() / "lib", files);
    for (const char* venv : {"venv", ".venv"}) {
      add_python_prefix(executable.parent_path() / venv, files);
      add_python_prefix(executable.parent_path().parent_path() / venv, files);
    }
  }
  return files;
}

std::vector<fs::path> installed_candidates() {
  std::vector<fs::path> files;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string place = environment(name); !place.empty()) add_any(place, files);
  }
  add_any("/usr/local/cuda", files);
  for (const fs::path& toolkit : entries("/usr/local", "cuda-")) add_any(toolkit, files);
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty()) add_python_prefix(venv, files);
  if (const std::string home = environment("HOME"); !home.empty()) {
    add_python_prefix(fs::path(home) / ".local", files);
    for (const fs::path& version : entries(fs::path(home) / ".pyenv/versions", "3")) add_python_prefix(version, files);
  }
  const std::string path = environment("PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    add_python_prefix(fs::path(path.substr(begin, end - begin)).parent_path(), files);
    begin = end + 1;
  }
  return files;
}

/// NVRTC opens its builtins by name when it compiles; having them loaded from its own folder makes that succeed
/// wherever the folder is.
void load_builtins(const fs::path& library) {
  for (const fs::path& file : entries(library.parent_path(), "libnvrtc-builtins.so")) {
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) return;
  }
}

/// Loads one file; null and a reason in `why` when it is not a usable NVRTC.
std::unique_ptr<NvrtcLibrary> load(const fs::path& file, std::string& why) {
  if (file.has_parent_path()) load_builtins(file);
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    why = dlerror();
    return nullptr;
  }
  auto library = std::make_unique<NvrtcLibrary>();
  bool complete = true;
  const auto bind = [&](auto& function, const char* name, bool required) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function && required) {
      why = fmt::format("{} has no {}", file.string(), name);
      complete = false;
    }
  };
  bind(library->get_error_string, "nvrtcGetErrorString", true);
  bind(library->version, "nvrtcVersion", true);
  bind(library->create_program, "nvrtcCreateProgram", true);
  bind(library->destroy_program, "nvrtcDestroyProgram", true);
  bind(library->compile_program, "nvrtcCompileProgram", true);
  bind(library->get_log_size, "nvrtcGetProgramLogSize", true);
  bind(library->get_log, "nvrtcGetProgramLog", true);
  bind(library->get_cubin_size, "nvrtcGetCUBINSize", true);
  bind(library->get_cubin, "nvrtcGetCUBIN", true);
  bind(library->get_number_of_architectures, "nvrtcGetNumSupportedArchs", false);
  bind(library->get_architectures, "nvrtcGetSupportedArchs", false);
  if (!complete || library->version(&library->major, &library->minor) != 0) {
    dlclose(handle);
    return nullptr;
  }
  Dl_info info{};
  library->path =
      dladdr(reinterpret_cast<void*>(library->version), &info) && info.dli_fname ? info.dli_fname : file.string();
  return library;
}

Result<std::unique_ptr<NvrtcLibrary>> find() {
  std::string why;
  if (const std::string wanted = environment("AICF_NVRTC"); !wanted.empty()) {
    std::vector<fs::path> files;
    add_any(wanted, files);
    for (const fs::path& file : files) {
      if (auto library = load(file, why)) return library;
    }
    return unsupported(
        fmt::format("AICF_NVRTC={} leads to no usable libnvrtc.so{}{}; give the file, its folder or a "
                    "Python environment that has the package nvidia-cuda-nvrtc",
                    wanted, why.empty() ? "" : ": ", why));
  }
  std::vector<fs::path> files = own_candidates();
  files.insert(files.end(), {"libnvrtc.so.13", "libnvrtc.so.12"});
  for (fs::path& file : installed_candidates()) files.push_back(std::move(file));
  for (const fs::path& file : files) {
    if (auto library = load(file, why)) return library;
  }
  return unsupported(
      "NVRTC, the compiler of CUDA kernels, is not installed; 'pip install nvidia-cuda-nvrtc' is enough (no GPU "
      "needed), "
      "and AICF_NVRTC names the library, its folder or the Python environment when it is not found by itself");
}

}  // namespace

Result<const NvrtcLibrary*> nvrtc_library() {
  // Never unloaded: NVRTC keeps thread-local state of its own.
  static const auto* const found = new Result<std::unique_ptr<NvrtcLibrary>>(find());
  if (!*found) return std::unexpected(found->error());
  return (*found)->get();
}

}  // namespace aicf
