#pragma once

// The CUDA driver API, found at run time in libcuda.so.1 (never libcuda.so, which may be a toolkit's stub), or in the
// library that AICF_CUDA_LIBRARY names. Prototypes
// and the few constants are declared here, so that no toolkit header is needed; they are of the versioned ABI (_v2
// where the plain name is the one before CUDA 4), which drivers keep.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mir/support/result.h"

namespace aicf::cuda {

using Handle = void*;                ///< CUcontext, CUmodule, CUfunction, CUstream, CUevent.
using Pointer = unsigned long long;  ///< CUdeviceptr.
using Status = int;                  ///< CUresult; 0 is success.

inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2, kStubLibrary = 34, kNoDevice = 100, kDriverTooOld = 803;

// CUdevice_attribute
inline constexpr int kMaxThreadsPerBlock = 1, kWarpSize = 10, kClockRate = 13, kMultiprocessors = 16,
                     kMemoryClockRate = 36, kMemoryBusWidth = 37, kL2CacheSize = 38, kCapabilityMajor = 75,
                     kCapabilityMinor = 76, kSharedPerMultiprocessor = 81, kSharedPerBlockOptin = 97;
// CUfunction_attribute
inline constexpr int kFunctionMaxThreads = 0, kFunctionStaticShared = 1, kFunctionLocalBytes = 3,
                     kFunctionRegisters = 4, kFunctionMaxDynamicShared = 8;
// CUjit_option
inline constexpr int kJitInfoLog = 3, kJitInfoLogSize = 4, kJitErrorLog = 5, kJitErrorLogSize = 6;
// CUstream_flags
inline constexpr unsigned kStreamNonBlocking = 1;

struct Library {
  Status (*init)(unsigned) = nullptr;
  Status (*driver_version)(int*) = nullptr;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*error_string)(Status, const char**) = nullptr;
  Status (*device_count)(int*) = nullptr;
  Status (*device_get)(int*, int) = nullptr;
  Status (*device_name)(char*, int, int) = nullptr;
  Status (*device_attribute)(int*, int, int) = nullptr;
  Status (*device_memory)(std::size_t*, int) = nullptr;
  Status (*context_retain)(Handle*, int) = nullptr;
  Status (*context_release)(int) = nullptr;
  Status (*context_set)(Handle) = nullptr;
  Status (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  Status (*memory_allocate)(Pointer*, std::size_t) = nullptr;
  Status (*memory_free)(Pointer) = nullptr;
  Status (*copy_to_device)(Pointer, const void*, std::size_t) = nullptr;
  Status (*copy_to_host)(void*, Pointer, std::size_t) = nullptr;
  Status (*module_load)(Handle*, const void*, unsigned, int*, void**) = nullptr;
  Status (*module_unload)(Handle) = nullptr;
  Status (*module_function)(Handle*, Handle, const char*) = nullptr;
  Status (*function_attribute)(int*, int, Handle) = nullptr;
  Status (*function_set_attribute)(Handle, int, int) = nullptr;
  Status (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters,
                   void** extra) = nullptr;
  Status (*stream_create)(Handle*, unsigned) = nullptr;
  Status (*stream_destroy)(Handle) = nullptr;
  Status (*stream_synchronize)(Handle) = nullptr;
  Status (*event_create)(Handle*, unsigned) = nullptr;
  Status (*event_destroy)(Handle) = nullptr;
  Status (*event_record)(Handle, Handle) = nullptr;
  Status (*event_elapsed)(float* milliseconds, Handle begin, Handle end) = nullptr;

  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
  std::string words(Status status) const;
  /// Success, or run_failure "cuMemAlloc failed: NAME: text"; `place` as in Diagnostic.
  Result<void> check(Status status, std::string_view call, std::string place) const;
};

/// Loads and initialises it once per process. Errors: unsupported, with the reason (no library, no GPU, driver too old);
/// run_failure.
Result<const Library*> library();

}  // namespace aicf::cuda
