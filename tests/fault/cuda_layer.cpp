// A stand-in for libcuda.so.1 (AICF_CUDA_LIBRARY): the functions that AICF calls, over host memory, with two GPUs. It checks
// how kernels are launched; "vector_add" adds, "fault" makes its stream fail, every other kernel does nothing.

#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/fault/fault_core.h"

namespace {

using namespace aicf::fault;
using Pointer = unsigned long long;

constexpr int out_of_memory[] = {2, 999};
constexpr int broken[] = {700, 702, 719, 2};
constexpr int bad_image[] = {200, 209, 2};
constexpr const char* of_context[] = {"memory", "module", "stream", "event"};

int launches, dynamic_limit = 49152, contexts, sticky;
std::set<void*> objects;  ///< memory and handles of the context

/// The result of a call that may fail. Faults of kernels stay: every later call of the context gives them.
int entered(const char* function, std::span<const int> codes = out_of_memory) {
  int code = 0;
  if (fails(function, codes, code)) {
    if (code >= 700 && code < 800) sticky = code;
    return code;
  }
  return contexts > 0 ? sticky : 0;
}

template <class Handle>
int make(Handle* to, const char* kind) {
  void* object = std::malloc(1);
  objects.insert(object);
  *to = reinterpret_cast<Handle>(object);
  made(kind);
  return 0;
}
int discard(void* handle, const char* kind, int result) {
  objects.erase(handle);
  std::free(handle);
  freed(kind);
  return result;
}

}  // namespace

#define ENTER(...) \
  if (const int failed = entered(__func__ __VA_OPT__(, ) __VA_ARGS__)) return failed
#define EXPORT extern "C" __attribute__((visibility("default"))) int

EXPORT fake_launches() {
  return launches;
}
EXPORT fake_dynamic_limit() {
  return dynamic_limit;
}

EXPORT cuInit(unsigned) {
  ENTER();
  return 0;
}
EXPORT cuDriverGetVersion(int* version) {
  ENTER();
  *version = 13000;
  return 0;
}
EXPORT cuGetErrorName(int code, const char** text) {
  *text = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 200 ? "CUDA_ERROR_INVALID_IMAGE"
          : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : code == 218 ? "CUDA_ERROR_INVALID_PTX"
          : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == 702 ? "CUDA_ERROR_LAUNCH_TIMEOUT"
          : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
                        : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT cuGetErrorString(int, const char** text) {
  *text = "text";
  return 0;
}
EXPORT cuDeviceGetCount(int* count) {
  ENTER();
  *count = 2;
  return 0;
}
EXPORT cuDeviceGet(int* device, int index) {
  ENTER();
  *device = 10 + index;
  return 0;
}
EXPORT cuDeviceGetName(char* name, int, int device) {
  ENTER();
  std::strcpy(name, device == 10 ? "Fake GPU One" : "Fake GPU Two");
  return 0;
}
EXPORT cuDeviceGetAttribute(int* value, int which, int) {
  ENTER();
  *value = which == 75 ? 8 : which == 76 ? 0 : which == 97 ? 101376 : which == 10 ? 32 : 1024;
  return 0;
}
EXPORT cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  ENTER();
  *bytes = std::size_t{64} << 20;
  return 0;
}
EXPORT cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER();
  if (contexts++ == 0) sticky = 0;
  *context = reinterpret_cast<void*>(static_cast<std::size_t>(device));
  made("context");
  return 0;
}
EXPORT cuDevicePrimaryCtxRelease_v2(int) {
  const int result = entered(__func__);
  freed("context");
  // With its last user a context goes, and all that it holds.
  if (--contexts == 0) {
    for (void* object : objects) std::free(object);
    objects.clear();
    freed_all(of_context);
    sticky = 0;
    dynamic_limit = 49152;
  }
  return result;
}
EXPORT cuCtxSetCurrent(void*) {
  ENTER();
  return 0;
}
EXPORT cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = 100;
  *total = std::size_t{64} << 20;
  return 0;
}
EXPORT cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  ENTER();
  if (bytes > std::size_t{64} << 20) return 2;
  void* m = std::calloc(1, bytes);
  objects.insert(m);
  made("memory");
  *pointer = reinterpret_cast<Pointer>(m);
  return 0;
}
EXPORT cuMemFree_v2(Pointer pointer) {
  return discard(reinterpret_cast<void*>(pointer), "memory", entered(__func__));
}
EXPORT cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t bytes) {
  ENTER(broken);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
EXPORT cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  ENTER(broken);
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
EXPORT cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  ENTER(bad_image);
  if (std::strncmp(static_cast<const char*>(image), "nonsense", 8) != 0) return make(module, "module");
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas says no\n");
  return 218;
}
EXPORT cuModuleUnload(void* module) {
  return discard(module, "module", entered(__func__));
}
EXPORT cuModuleGetFunction(void** function, void*, const char* name) {
  ENTER(bad_image);
  *function = reinterpret_cast<void*>(!std::strcmp(name, "vector_add") ? 1L : !std::strcmp(name, "fault") ? 2L : 3L);
  return 0;
}
EXPORT cuFuncGetAttribute(int* value, int which, void*) {
  ENTER();
  *value = which == 8 ? dynamic_limit : which == 0 ? 512 : 0;
  return 0;
}
EXPORT cuFuncSetAttribute(void*, int which, int value) {
  ENTER();
  if (which != 8) return 1;
  dynamic_limit = value;
  return 0;
}
EXPORT cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments,
                      void** extra) {
  ENTER(broken);
  ++launches;
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || extra || !stream ||
      static_cast<int>(shared) > dynamic_limit)
    return 1;
  if (function == reinterpret_cast<void*>(2L)) sticky = 700;
  if (function != reinterpret_cast<void*>(1L)) return 0;
  const auto *a = *static_cast<const float**>(arguments[0]), *b = *static_cast<const float**>(arguments[1]);
  float* c = *static_cast<float**>(arguments[2]);
  const int n = *static_cast<int*>(arguments[3]), count = *static_cast<int*>(arguments[4]);
  for (int w = 0; w < static_cast<int>(grid_x) && w < count; ++w)
    for (int i = w * 256; i < w * 256 + static_cast<int>(block_x) && i < n; ++i) c[i] = a[i] + b[i];
  return 0;
}
EXPORT cuStreamCreate(void** stream, unsigned) {
  ENTER();
  return make(stream, "stream");
}
EXPORT cuStreamDestroy_v2(void* stream) {
  return discard(stream, "stream", entered(__func__));
}
EXPORT cuStreamSynchronize(void*) {
  ENTER(broken);
  return 0;
}
EXPORT cuEventCreate(void** event, unsigned) {
  ENTER();
  return make(event, "event");
}
EXPORT cuEventDestroy_v2(void* event) {
  return discard(event, "event", entered(__func__));
}
EXPORT cuEventRecord(void*, void*) {
  ENTER(broken);
  return 0;
}
EXPORT cuEventElapsedTime(float* milliseconds, void*, void*) {
  ENTER();
  *milliseconds = 0.5F;
  return 0;
}
