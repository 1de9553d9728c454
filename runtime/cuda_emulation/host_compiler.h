#pragma once

// Emitted CUDA C++ to a host shared object: the emulation's prelude and the kernel's source through g++, cached on
// disk.

#include <memory>
#include <string>

#include "mir/support/result.h"
#include "runtime/cuda_emulation/abi.h"

namespace aicf {

/// An opened shared object of one kernel; closed when the last reference goes.
class HostKernel {
 public:
  HostKernel(void* library, AicfState* state, int (*entry)(const AicfWord*))
      : library_(library), state_(state), entry_(entry) {}
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;
  ~HostKernel();

  AicfState& state() const { return *state_; }
  /// Runs the calling fiber's thread: pointers and int32 parameters as 64-bit words, in the kernel's order.
  void run(const AicfWord* words) const { entry_(words); }
  int parameter_count() const { return entry_(nullptr); }

 private:
  void* library_;
  AicfState* state_;
  int (*entry_)(const AicfWord*);
};

/// Path of the host compiler: AICF_HOST_CXX, else the first of g++, c++, clang++ on PATH. Error: unsupported.
Result<std::string> host_compiler();

/// Compiles and opens `source` with the extern "C" kernel `name`, as __CUDA_ARCH__ = 10·architecture. Thread-safe.
/// Objects are kept under $AICF_CACHE_DIR/emulation, else $XDG_CACHE_HOME/aicf/emulation, else ~/.cache/aicf/emulation,
/// by a hash of source, prelude, compiler and flags; AICF_CACHE=off compiles each time. Errors: run_failure with the
/// compiler's messages, lines counted in `source`.
Result<std::shared_ptr<HostKernel>> compile_for_host(const std::string& source, const std::string& name,
                                                     int architecture);

}  // namespace aicf
