#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <type_traits>

namespace aicf::cuda {
namespace {

Result<std::unique_ptr<Library>> load() {
  const char* other = std::getenv("AICF_CUDA_LIBRARY");
  const std::string name = other && *other ? other : "libcuda.so.1";
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    return unsupported(
        fmt::format("the NVIDIA driver's {} is not installed here; cuda-emulation runs CUDA kernels without it", name));
  }
  auto library = std::make_unique<Library>();
  std::string missing;
  const auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function) missing = name;
  };
  bind(library->init, "cuInit");
  bind(library->driver_version, "cuDriverGetVersion");
  bind(library->error_name, "cuGetErrorName");
  bind(library->error_string, "cuGetErrorString");
  bind(library->device_count, "cuDeviceGetCount");
  bind(library->device_get, "cuDeviceGet");
  bind(library->device_name, "cuDeviceGetName");
  bind(library->device_attribute, "cuDeviceGetAttribute");
  bind(library->device_memory, "cuDeviceTotalMem_v2");
  bind(library->context_retain, "cuDevicePrimaryCtxRetain");
  bind(library->context_release, "cuDevicePrimaryCtxRelease_v2");
  bind(library->context_set, "cuCtxSetCurrent");
  bind(library->memory_info, "cuMemGetInfo_v2");
  bind(library->memory_allocate, "cuMemAlloc_v2");
  bind(library->memory_free, "cuMemFree_v2");
  bind(library->copy_to_device, "cuMemcpyHtoD_v2");
  bind(library->copy_to_host, "cuMemcpyDtoH_v2");
  bind(library->module_load, "cuModuleLoadDataEx");
  bind(library->module_unload, "cuModuleUnload");
  bind(library->module_function, "cuModuleGetFunction");
  bind(library->function_attribute, "cuFuncGetAttribute");
  bind(library->function_set_attribute, "cuFuncSetAttribute");
  bind(library->launch, "cuLaunchKernel");
  bind(library->stream_create, "cuStreamCreate");
  bind(library->stream_destroy, "cuStreamDestroy_v2");
  bind(library->stream_synchronize, "cuStreamSynchronize");
  bind(library->event_create, "cuEventCreate");
  bind(library->event_destroy, "cuEventDestroy_v2");
  bind(library->event_record, "cuEventRecord");
  bind(library->event_elapsed, "cuEventElapsedTime");
  if (!missing.empty()) {
    return unsupported(
        fmt::format("{} has no {}; the NVIDIA driver is too old (11.0 or later is needed)", name, missing));
  }
  return library;
}

}  // namespace

std::string Library::words(Status status) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(status, &name) != kSuccess || !name) return fmt::format("CUDA error {}", status);
  if (error_string(status, &text) != kSuccess || !text) return name;
  return fmt::format("{}: {}", name, text);
}

Result<void> Library::check(Status status, std::string_view call, std::string place) const {
  if (status == kSuccess) return {};
  return run_failure(fmt::format("{} failed: {}", call, words(status)), std::move(place));
}

Result<const Library*> library() {
  // Never unloaded: the driver has threads and exit handlers of its own.
  static const auto* const found = new Result<std::unique_ptr<Library>>(load());
  if (!*found) return std::unexpected(found->error());
  const Library& api = *found->value();
  static std::mutex mutex;
  static bool initialised = false;
  std::lock_guard lock(mutex);
  if (!initialised) {
    const Status status = api.init(0);
    if (status == kNoDevice || status == kStubLibrary || status == kDriverTooOld)
      return unsupported("the NVIDIA driver finds no usable GPU: cuInit: " + api.words(status));
    AICF_RETURN_IF_ERROR(api.check(status, "cuInit", "opening CUDA"));
    initialised = true;
  }
  return &api;
}

}  // namespace aicf::cuda
