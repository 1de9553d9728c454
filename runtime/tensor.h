#pragma once

// Host tensors and the files that hold them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mir/support/dtype.h"
#include "mir/support/result.h"

namespace aicf {

/// A dense row-major host tensor. Copies share the bytes (immutable once shared); `keep_alive` may own a mapped file, so
/// weights of a model are read in place.
class Tensor {
 public:
  Tensor() = default;
  /// Zero-filled. Precondition: the byte size fits in memory (callers check shapes from files before this).
  Tensor(DType type, std::vector<std::int64_t> shape);
  /// A view of bytes owned by `keep_alive` (for example a mapped file). `bytes` must hold size() elements of `type`.
  static Tensor view(DType type, std::vector<std::int64_t> shape, const std::byte* bytes,
                     std::shared_ptr<const void> keep_alive);

  DType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const;  ///< Number of elements; 1 for rank 0.
  std::size_t byte_size() const;
  std::span<const std::byte> bytes() const;
  std::span<std::byte> mutable_bytes();  ///< Copies first when the bytes are shared or mapped.

  /// Element at flat row-major position as float64 (exact for all but 64-bit integers above 2^53).
  double at(std::int64_t flat) const;
  /// Stores `value` rounded to the type.
  void set(std::int64_t flat, double value);
  std::int64_t int_at(std::int64_t flat) const;  ///< For integer and boolean tensors, exact.

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(size())};
  }

 private:
  DType type_ = DType::f32;
  std::vector<std::int64_t> shape_{0};
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
};

/// Product of the dims, or an error when a dim is negative or the byte size of `type` passes 2^46.
Result<std::int64_t> checked_size(DType type, std::span<const std::int64_t> shape);

using NamedTensors = std::map<std::string, Tensor>;

/// .npz (stored or deflated entries, zip64 extras; sizes are read from the central directory), .npy (named by file stem),
/// ONNX TensorProto .pb is read by frontend/onnx. Errors name file and entry.
Result<NamedTensors> read_tensors(const std::string& path);
/// Writes an .npz (stored) through a temporary file and rename; order of names is the map's.
Result<void> write_npz(const std::string& path, const NamedTensors& tensors);
Result<void> write_npy(const std::string& path, const Tensor& tensor);

}  // namespace aicf
