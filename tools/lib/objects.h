#pragma once

// What the handles of the public interface stand for, and the way from errors of the compiler to errors of the interface.

#define AICF_NAMESPACE aicf::v0  // here aicf::Model is the compiler's, aicf::v0::Model the interface's
#include <aicf/aicf.hpp>

#include <fmt/format.h>

#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>

#include "backends/compile.h"
#include "frontend/model.h"
#include "runtime/executor/executor.h"

namespace aicf::v0 {

struct ModelObject {
  aicf::Model model;
};

struct PackageObject {
  aicf::Package package;
};

struct DeviceObject {
  std::unique_ptr<aicf::Device> device;
  Target target;
  std::recursive_mutex mutex;  ///< held by every use of the device
};

/// Memory that buffers and their views share.
struct DeviceMemory {
  std::shared_ptr<DeviceObject> device;
  std::unique_ptr<DeviceBuffer> memory;
  ~DeviceMemory() {
    const std::lock_guard lock(device->mutex);
    memory.reset();
  }
};

struct BufferObject {
  std::shared_ptr<const DeviceMemory> memory;
  aicf::DType type;
  Shape shape;
  std::size_t elements;
};

struct ExecutableObject {
  std::shared_ptr<DeviceObject> device;
  std::shared_ptr<const PackageObject> package;
  const Program* program;
  std::unique_ptr<Executor> executor;
  ~ExecutableObject() {
    const std::lock_guard lock(device->mutex);
    executor.reset();
  }
};

Error to_error(const Diagnostic& diagnostic);

/// Runs `f`, which returns an aicf::Result, and turns its error into one of the interface. What the standard library
/// throws where the machine fails becomes a value too; any other exception is a bug and ends the process.
template <class F>
auto guarded(F&& f) noexcept -> Result<typename std::invoke_result_t<F>::value_type> {
  try {
    auto result = f();
    if (!result) return std::unexpected(to_error(result.error()));
    if constexpr (std::is_void_v<typename std::invoke_result_t<F>::value_type>)
      return {};
    else
      return std::move(*result);
  } catch (const std::bad_alloc&) {
    return std::unexpected(Error{ErrorKind::run_failure, "out of memory", {}});
  } catch (const std::length_error&) {
    return std::unexpected(Error{ErrorKind::run_failure, "out of memory", {}});
  } catch (const std::system_error& e) {
    return std::unexpected(Error{ErrorKind::run_failure, e.what(), {}});
  }
}

/// The same for work on a device: waits for the device, and tells one that is lost.
template <class F>
auto guarded_on(DeviceObject& object, F&& f) noexcept -> Result<typename std::invoke_result_t<F>::value_type> {
  const std::lock_guard lock(object.mutex);
  const auto lost = [&](std::string why) {
    const std::string& id = object.device->info().id;
    return std::unexpected(
        Error{ErrorKind::device_lost, fmt::format("{}; the device '{}' is lost: open it again", why, id), {}});
  };
  if (object.device->lost()) return lost("an earlier call failed");
  auto result = guarded(std::forward<F>(f));
  if (!result && object.device->lost()) return lost(result.error().text());
  return result;
}

inline aicf::DType to_internal(DType type) {
  return static_cast<aicf::DType>(type);
}
inline DType to_public(aicf::DType type) {
  return static_cast<DType>(type);
}
/// Whether the value, which may come from a caller in C, is one of the enumerators.
inline bool is_valid(DType type) {
  return type <= DType::boolean;
}

std::vector<TensorInfo> to_public(const std::vector<Signature>& tensors);
std::vector<TensorInfo> outputs_of(const Program& program);

}  // namespace aicf::v0
