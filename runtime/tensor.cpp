#include "runtime/tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <new>

#include "runtime/no_memory.h"

namespace aicf {
namespace {

// Wide enough for any vector load and for the blobs of packages.
constexpr std::align_val_t alignment{64};
constexpr std::int64_t max_bytes = std::int64_t{1} << 46;

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes == 0 ? 1 : bytes, alignment));
  return {memory, [](std::byte* p) { ::operator delete(p, alignment); }};
}

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void write_as(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace

Result<std::int64_t> checked_size(DType type, std::span<const std::int64_t> shape) {
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return bad_input(fmt::format("shape [{}] has a negative dimension", fmt::join(shape, ", ")));
    empty |= dim == 0;
  }
  if (empty) return 0;
  std::int64_t size = 1;
  const std::int64_t limit = max_bytes / static_cast<std::int64_t>(host_size(type));
  for (const std::int64_t dim : shape) {
    if (dim > limit / size) {
      return bad_input(
          fmt::format("a tensor of shape [{}] and type {} is too large", fmt::join(shape, ", "), name(type)));
    }
    size *= dim;
  }
  return size;
}

Tensor::Tensor(DType type, std::vector<std::int64_t> shape) : type_(type), shape_(std::move(shape)) {
  const auto elements = checked_size(type_, shape_);
  AICF_CHECK(elements.has_value(), elements.error().message);
  const std::size_t bytes = static_cast<std::size_t>(*elements) * host_size(type_);
  std::shared_ptr<std::byte> memory;
  try {
    memory = allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw NoMemory(fmt::format("no memory for {}[{}], {} bytes", name(type_), fmt::join(shape_, ", "), bytes));
  }
  std::memset(memory.get(), 0, bytes);
  data_ = memory.get();
  owner_ = std::move(memory);
  writable_ = true;
}

Tensor Tensor::view(DType type, std::vector<std::int64_t> shape, const std::byte* bytes,
                    std::shared_ptr<const void> keep_alive) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.shape_ = std::move(shape);
  tensor.data_ = bytes;
  tensor.owner_ = std::move(keep_alive);
  return tensor;
}

std::int64_t Tensor::size() const {
  std::int64_t size = 1;
  for (const std::int64_t dim : shape_) size *= dim;
  return size;
}

std::size_t Tensor::byte_size() const {
  return static_cast<std::size_t>(size()) * host_size(type_);
}
std::span<const std::byte> Tensor::bytes() const {
  return {data_, byte_size()};
}

std::span<std::byte> Tensor::mutable_bytes() {
  const std::size_t count = byte_size();
  if (!writable_ || owner_.use_count() != 1) {
    std::shared_ptr<std::byte> copy = allocate(count);
    if (count > 0) std::memcpy(copy.get(), data_, count);
    data_ = copy.get();
    owner_ = std::move(copy);
    writable_ = true;
  }
  // The bytes belong to this tensor alone and were allocated writable.
  return {const_cast<std::byte*>(data_), count};
}

double Tensor::at(std::int64_t flat) const {
  const std::byte* from = data_ + static_cast<std::size_t>(flat) * host_size(type_);
  switch (type_) {
    case DType::f16:
      return f16_to_f32(read_as<std::uint16_t>(from));
    case DType::bf16:
      return bf16_to_f32(read_as<std::uint16_t>(from));
    case DType::f32:
      return read_as<float>(from);
    case DType::f64:
      return read_as<double>(from);
    case DType::u64:
      return static_cast<double>(read_as<std::uint64_t>(from));
    default:
      return static_cast<double>(int_at(flat));
  }
}

std::int64_t Tensor::int_at(std::int64_t flat) const {
  const std::byte* from = data_ + static_cast<std::size_t>(flat) * host_size(type_);
  switch (type_) {
    case DType::i8:
      return read_as<std::int8_t>(from);
    case DType::u8:
      return read_as<std::uint8_t>(from);
    case DType::i16:
      return read_as<std::int16_t>(from);
    case DType::u16:
      return read_as<std::uint16_t>(from);
    case DType::i32:
      return read_as<std::int32_t>(from);
    case DType::u32:
      return read_as<std::uint32_t>(from);
    case DType::i64:
      return read_as<std::int64_t>(from);
    case DType::u64:
      return static_cast<std::int64_t>(read_as<std::uint64_t>(from));
    case DType::boolean:
      return read_as<std::uint8_t>(from) != 0;
    default:
      AICF_BUG("int_at() of a float tensor");
  }
}

void Tensor::set(std::int64_t flat, double value) {
  std::byte* to = mutable_bytes().data() + static_cast<std::size_t>(flat) * host_size(type_);
  const double rounded = round_to(type_, value);
  switch (type_) {
    case DType::f16:
      return write_as(to, f32_to_f16(static_cast<float>(rounded)));
    case DType::bf16:
      return write_as(to, f32_to_bf16(static_cast<float>(rounded)));
    case DType::f32:
      return write_as(to, static_cast<float>(rounded));
    case DType::f64:
      return write_as(to, rounded);
    case DType::i8:
      return write_as(to, static_cast<std::int8_t>(rounded));
    case DType::u8:
      return write_as(to, static_cast<std::uint8_t>(rounded));
    case DType::i16:
      return write_as(to, static_cast<std::int16_t>(rounded));
    case DType::u16:
      return write_as(to, static_cast<std::uint16_t>(rounded));
    case DType::i32:
      return write_as(to, static_cast<std::int32_t>(rounded));
    case DType::u32:
      return write_as(to, static_cast<std::uint32_t>(rounded));
    case DType::i64:
      return write_as(to, static_cast<std::int64_t>(rounded));
    case DType::u64:
      return write_as(to, static_cast<std::uint64_t>(rounded));
    case DType::boolean:
      return write_as(to, static_cast<std::uint8_t>(rounded));
  }
}

}  // namespace aicf
