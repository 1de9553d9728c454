#pragma once

// NVRTC's entry points, found at run time. The prototypes are declared here so that no toolkit header is needed;
// handles are opaque pointers and results are ints (0 = success), as in NVRTC's ABI since version 11.

#include <cstddef>
#include <string>

#include "mir/support/result.h"

namespace aicf {

struct NvrtcLibrary {
  std::string path;  ///< File it was loaded from.
  int major = 0, minor = 0;

  const char* (*get_error_string)(int) = nullptr;
  int (*version)(int* major, int* minor) = nullptr;
  int (*create_program)(void** program, const char* source, const char* name, int headers, const char* const* contents,
                        const char* const* include_names) = nullptr;
  int (*destroy_program)(void** program) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* texts) = nullptr;
  int (*get_log_size)(void* program, std::size_t* size) = nullptr;
  int (*get_log)(void* program, char* text) = nullptr;
  int (*get_cubin_size)(void* program, std::size_t* size) = nullptr;
  int (*get_cubin)(void* program, char* bytes) = nullptr;
  int (*get_number_of_architectures)(int* count) = nullptr;  ///< May be null (older than 11.2).
  int (*get_architectures)(int* numbers) = nullptr;
};

/// Loads it once per process. Searched in this order: AICF_NVRTC (the file, its folder or a virtual environment), the
/// executable's folder and ../lib, the loader's own path, CUDA_HOME, CUDA_PATH and /usr/local/cuda*, then the
/// site-packages of VIRTUAL_ENV, of the user and of the pythons on PATH. Error: unsupported, with the way to get it.
Result<const NvrtcLibrary*> nvrtc_library();

}  // namespace aicf
