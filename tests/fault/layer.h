#pragma once

// A fault layer (fault_core.h) as a test in the same process uses it.

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace aicf::fault {

class Layer {
 public:
  /// The library at `path` becomes the driver's, by the environment variable that says so.
  Layer(const char* variable, const char* path) {
    ::setenv(variable, path, 1);
    library_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw std::runtime_error(::dlerror());
  }
  void arm(long call, long choice) { get<void (*)(long, long)>("aicf_fault_arm")(call, choice); }
  void hide(const char* function) { get<void (*)(const char*)>("aicf_fault_hide")(function); }
  long calls() { return get<long (*)()>("aicf_fault_calls")(); }
  /// "" when no call was made to fail.
  std::string fired() {
    const char* name = get<const char* (*)()>("aicf_fault_fired")();
    return name ? name : "";
  }
  std::string alive() { return get<const char* (*)()>("aicf_fault_alive")(); }
  int count(const char* function) { return get<int (*)()>(function)(); }

 private:
  template <class Function>
  Function get(const char* name) {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }
  void* library_ = nullptr;
};

}  // namespace aicf::fault
