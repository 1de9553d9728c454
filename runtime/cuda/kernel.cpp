#include "runtime/cuda/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace aicf::cuda {
namespace {

constexpr std::size_t kLogBytes = 16 * 1024;

std::string trimmed(std::string log) {
  log.resize(std::min(log.size(), log.find('\0')));
  while (!log.empty() && log.back() == '\n') log.pop_back();
  return log;
}

}  // namespace

Result<std::shared_ptr<Context>> Context::create(const Library& library, int device) {
  std::shared_ptr<Context> context(new Context(library, device));
  AICF_RETURN_IF_ERROR(library.check(library.context_retain(&context->handle_, device), "cuDevicePrimaryCtxRetain",
                                     "opening the device"));
  AICF_RETURN_IF_ERROR(context->use());
  return context;
}

Context::~Context() {
  if (handle_) library_.context_release(device_);
}

Result<void> Context::use() const {
  return library_.check(library_.context_set(handle_), "cuCtxSetCurrent", "using the device");
}

Result<std::unique_ptr<Buffer>> Buffer::create(std::shared_ptr<Context> context, std::size_t size) {
  AICF_RETURN_IF_ERROR(context->use());
  const Library& api = context->api();
  Pointer pointer = 0;
  // Zero bytes are no valid allocation.
  const Status status = api.memory_allocate(&pointer, std::max<std::size_t>(size, 1));
  if (status == kOutOfMemory) {
    std::size_t free = 0, total = 0;
    api.memory_info(&free, &total);
    return run_failure(fmt::format("cuMemAlloc failed: {}: {} of {} bytes are free", api.words(status), free, total),
                       fmt::format("allocating {} bytes", size));
  }
  AICF_RETURN_IF_ERROR(api.check(status, "cuMemAlloc", fmt::format("allocating {} bytes", size)));
  return std::make_unique<Buffer>(std::move(context), pointer, size);
}

Buffer::~Buffer() {
  if (context_->use()) context_->api().memory_free(pointer_);
}

Kernel::Kernel(std::shared_ptr<Context> context, const KernelBinary& binary)
    : context_(std::move(context)),
      name_(binary.name),
      argument_count_(binary.arguments.size()),
      parameter_count_(binary.parameters.size()),
      threads_(binary.workgroup_size),
      shared_bytes_(binary.workgroup_memory_bytes) {}

Kernel::~Kernel() {
  if (module_ && context_->use()) context_->api().module_unload(module_);
}

Result<std::unique_ptr<Kernel>> Kernel::create(std::shared_ptr<Context> context, const KernelBinary& binary) {
  const std::string place = fmt::format("kernel '{}'", binary.name);
  const auto refused = [&](std::string why) { return fail(ErrorKind::refused, std::move(why), place); };
  if (binary.kind != BinaryKind::cubin) return refused("the CUDA driver runs device binaries (cubin) only");
  AICF_RETURN_IF_ERROR(context->use());
  const Library& api = context->api();
  auto kernel = std::make_unique<Kernel>(context, binary);

  std::string info(kLogBytes, '\0'), errors(kLogBytes, '\0');
  int options[] = {kJitInfoLog, kJitInfoLogSize, kJitErrorLog, kJitErrorLogSize};
  void* values[] = {info.data(), reinterpret_cast<void*>(kLogBytes), errors.data(), reinterpret_cast<void*>(kLogBytes)};
  if (const Status status = api.module_load(&kernel->module_, binary.bytes.c_str(), 4, options, values)) {
    kernel->module_ = nullptr;
    const std::string log = trimmed(errors);
    return refused(fmt::format("cuModuleLoadDataEx failed: {}{}{}", api.words(status), log.empty() ? "" : "\n", log));
  }
  if (const Status status = api.module_function(&kernel->function_, kernel->module_, binary.name.c_str())) {
    return refused("cuModuleGetFunction failed, its binary has no such entry point: " + api.words(status));
  }

  const auto function = [&](int which) -> Result<int> {
    int value = 0;
    AICF_RETURN_IF_ERROR(
        api.check(api.function_attribute(&value, which, kernel->function_), "cuFuncGetAttribute", place));
    return value;
  };
  AICF_TRY(const int most, function(kFunctionMaxThreads));
  if (binary.workgroup_size > static_cast<unsigned>(most)) {
    AICF_TRY(const int registers, function(kFunctionRegisters));
    return refused(fmt::format("{} threads of {} registers do not fit a multiprocessor; at most {} do",
                               binary.workgroup_size, registers, most));
  }
  int optin = 0;
  AICF_RETURN_IF_ERROR(
      api.check(api.device_attribute(&optin, kSharedPerBlockOptin, context->device()), "cuDeviceGetAttribute", place));
  AICF_TRY(const int fixed, function(kFunctionStaticShared));
  const int available = optin - fixed;
  if (binary.workgroup_memory_bytes > static_cast<unsigned>(std::max(available, 0))) {
    return refused(
        fmt::format("{} bytes of shared memory are over the device's {}", binary.workgroup_memory_bytes, available));
  }
  // Over 48 KB has to be asked for. The figure belongs to the function: never lower it under another launch's need.
  const int needed = static_cast<int>(binary.workgroup_memory_bytes);
  AICF_TRY(const int allowed, function(kFunctionMaxDynamicShared));
  if (needed > allowed) {
    if (const Status status = api.function_set_attribute(kernel->function_, kFunctionMaxDynamicShared, needed)) {
      return refused(fmt::format("cuFuncSetAttribute failed: {} bytes of shared memory are refused: {}", needed,
                                 api.words(status)));
    }
  }
  return kernel;
}

Result<void> Kernel::launch(const Dispatch& dispatch, Handle stream) const {
  const Library& api = context_->api();
  const std::string place = fmt::format("kernel '{}'", name_);
  // The first grid dimension alone takes all that the kernel's int32 count can say.
  if (dispatch.workgroups > INT_MAX) {
    return unsupported(fmt::format("{} workgroups are over {}", dispatch.workgroups, INT_MAX), place);
  }
  std::vector<Pointer> pointers;
  for (const BufferSlice& slice : dispatch.buffers)
    pointers.push_back(static_cast<const Buffer&>(*slice.buffer).pointer() + slice.offset);
  std::vector<std::int32_t> parameters = dispatch.parameters;
  parameters.push_back(static_cast<std::int32_t>(dispatch.workgroups));
  std::vector<void*> addresses;
  for (Pointer& pointer : pointers) addresses.push_back(&pointer);
  for (std::int32_t& parameter : parameters) addresses.push_back(&parameter);
  const Status status = api.launch(function_, static_cast<unsigned>(dispatch.workgroups), 1, 1, threads_, 1, 1,
                                   shared_bytes_, stream, addresses.data(), nullptr);
  if (status == kSuccess) return {};
  return run_failure(
      fmt::format("cuLaunchKernel of {} workgroups of {} threads with {} bytes of shared memory failed: {}",
                  dispatch.workgroups, threads_, shared_bytes_, api.words(status)),
      place);
}

}  // namespace aicf::cuda
