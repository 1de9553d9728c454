#pragma once

#include <memory>

#include "runtime/cuda/library.h"
#include "runtime/driver.h"

namespace aicf::cuda {

/// An open device's context; buffers, kernels and streams keep it alive. It is the primary context, shared with
/// whatever else the process runs on the GPU.
class Context {
 public:
  static Result<std::shared_ptr<Context>> create(const Library& library, int device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Library& api() const { return library_; }
  int device() const { return device_; }
  /// Makes it current for the calling thread; to be called before any use.
  Result<void> use() const;

 private:
  Context(const Library& library, int device) : library_(library), device_(device) {}
  const Library& library_;
  int device_;
  Handle handle_ = nullptr;
};

class Buffer final : public DeviceBuffer {
 public:
  static Result<std::unique_ptr<Buffer>> create(std::shared_ptr<Context> context, std::size_t size);
  Buffer(std::shared_ptr<Context> context, Pointer pointer, std::size_t size)
      : context_(std::move(context)), pointer_(pointer), size_(size) {}
  ~Buffer() override;
  std::size_t size() const override { return size_; }
  Pointer pointer() const { return pointer_; }

 private:
  std::shared_ptr<Context> context_;
  Pointer pointer_;
  std::size_t size_;
};

/// A loaded module and its one function.
class Kernel final : public LoadedKernel {
 public:
  /// Loads a cubin (or PTX) and allows its dynamic shared memory. Errors: refused, naming the kernel, with the JIT's log;
  /// run_failure.
  static Result<std::unique_ptr<Kernel>> create(std::shared_ptr<Context> context, const KernelBinary& binary);
  Kernel(std::shared_ptr<Context> context, const KernelBinary& binary);
  ~Kernel() override;

  const std::string& name() const { return name_; }
  std::size_t argument_count() const { return argument_count_; }
  std::size_t parameter_count() const { return parameter_count_; }
  /// Queues one launch. Precondition: buffers and parameters match the kernel.
  Result<void> launch(const Dispatch& dispatch, Handle stream) const;

 private:
  std::shared_ptr<Context> context_;
  Handle module_ = nullptr, function_ = nullptr;
  std::string name_;
  std::size_t argument_count_, parameter_count_;
  unsigned threads_, shared_bytes_;
};

}  // namespace aicf::cuda
