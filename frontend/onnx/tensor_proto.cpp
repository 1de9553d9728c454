#include "frontend/onnx/tensor_proto.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "frontend/model.h"
#include "frontend/onnx/wire_check.h"
#include "frontend/semantic/check.h"
#include "frontend/semantic/onnx_types.h"
#include "runtime/file_io.h"

static_assert(std::endian::native == std::endian::little, "raw tensor data is little-endian");

namespace aicf {
namespace {

using Dims = std::vector<std::int64_t>;

Result<std::int64_t> byte_count(const Dims& dims, DType type, const std::string& what) {
  std::int64_t bytes = static_cast<std::int64_t>(host_size(type));
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return bad_input(fmt::format("{} has the negative dim {}", what, dim));
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  for (const std::int64_t dim : dims) {
    if (bytes > max_tensor_bytes / dim)
      return bad_input(fmt::format("the size of {} overflows: more than 1 TiB", what));
    bytes *= dim;
  }
  return bytes;
}

/// A decimal number of at most 63 bits.
Result<std::int64_t> parse_number(const std::string& text, const std::string& key, const std::string& what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return bad_input(fmt::format("{}: {} {} is no 63-bit number", what, key, in_quotes(text)));
  if (error != std::errc() || end != text.data() + text.size())
    return bad_input(fmt::format("{}: {} {} is no number", what, key, in_quotes(text)));
  if (value < 0) return bad_input(fmt::format("{}: {} {} is negative", what, key, value));
  return value;
}

Result<Tensor> external(const onnx::TensorProto& proto, DType type, Dims dims, std::int64_t bytes,
                        const std::string& what, ModelFolder* folder) {
  std::string location;
  bool located = false;
  std::int64_t offset = 0, length = bytes;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
      located = true;
    } else if (entry.key() == "offset") {
      AICF_TRY(offset, parse_number(entry.value(), "offset", what));
    } else if (entry.key() == "length") {
      AICF_TRY(length, parse_number(entry.value(), "length", what));
    }
  }
  if (!located) return bad_input(fmt::format("{} has external data, but its location is missing", what));
  if (length != bytes)
    return bad_input(fmt::format("{} has {} bytes of external data, its shape and type need {}", what, length, bytes));
  if (!folder) return bad_input(fmt::format("{} has external data, which a lone tensor file may not", what));
  auto file = folder->open(location);
  if (!file) {
    Diagnostic d = file.error();
    d.place = d.place.empty() ? what : what + ": " + d.place;
    return std::unexpected(std::move(d));
  }
  const auto size = static_cast<std::int64_t>((*file)->bytes().size());
  if (offset > size || length > size - offset) {
    return bad_input(
        fmt::format("{} needs {} + {} bytes of {}, which has {}", what, offset, length, in_quotes(location), size));
  }
  const std::byte* data = (*file)->bytes().data() + offset;
  if (bytes == 0 || reinterpret_cast<std::uintptr_t>(data) % host_size(type) == 0) {
    return Tensor::view(type, std::move(dims), data, *file);
  }
  Tensor copy(type, std::move(dims));  // elements would straddle their alignment
  std::memcpy(copy.mutable_bytes().data(), data, static_cast<std::size_t>(bytes));
  return copy;
}

/// Copies a typed field element by element; `store` writes element k.
template <class Field, class Store>
Result<Tensor> typed(const Field& field, DType type, Dims dims, const std::string& what, const char* field_name,
                     Store store) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  if (field.size() != count) {
    return bad_input(fmt::format("{} has {} values in {}, its shape needs {}", what, field.size(), field_name, count));
  }
  Tensor tensor(type, std::move(dims));
  if (count > 0) {
    std::byte* data = tensor.mutable_bytes().data();
    for (int k = 0; k < field.size(); ++k) store(data, k, field.Get(k));
  }
  return tensor;
}

template <class T, class Source>
void store_as(std::byte* data, int k, Source value) {
  const T element = static_cast<T>(value);
  std::memcpy(data + static_cast<std::size_t>(k) * sizeof(T), &element, sizeof(T));
}

Result<Tensor> from_fields(const onnx::TensorProto& proto, DType type, Dims dims, const std::string& what) {
  const auto ints = [&](auto store) {
    return typed(proto.int32_data(), type, std::move(dims), what, "int32_data", store);
  };
  switch (type) {
    case DType::f32:
      return typed(proto.float_data(), type, std::move(dims), what, "float_data", store_as<float, float>);
    case DType::f64:
      return typed(proto.double_data(), type, std::move(dims), what, "double_data", store_as<double, double>);
    case DType::i64:
      return typed(proto.int64_data(), type, std::move(dims), what, "int64_data", store_as<std::int64_t, std::int64_t>);
    case DType::u64:
      return typed(proto.uint64_data(), type, std::move(dims), what, "uint64_data",
                   store_as<std::uint64_t, std::uint64_t>);
    case DType::u32:
      return typed(proto.uint64_data(), type, std::move(dims), what, "uint64_data",
                   store_as<std::uint32_t, std::uint64_t>);
    case DType::i32:
      return ints(store_as<std::int32_t, std::int32_t>);
    case DType::f16:
    case DType::bf16:
    case DType::u16:
    case DType::i16:
      return ints(store_as<std::uint16_t, std::int32_t>);
    case DType::u8:
    case DType::i8:
      return ints(store_as<std::uint8_t, std::int32_t>);
    case DType::boolean:
      return ints([](std::byte* data, int k, std::int32_t value) { data[k] = std::byte{value != 0}; });
  }
  AICF_BUG("element type");
}

bool has_typed_data(const onnx::TensorProto& p) {
  return p.float_data_size() + p.int32_data_size() + p.int64_data_size() + p.double_data_size() + p.uint64_data_size() +
             p.string_data_size() >
         0;
}

}  // namespace

Result<Tensor> to_tensor(onnx::TensorProto& proto, const std::string& what, ModelFolder* folder) {
  if (!is_onnx_type(proto.data_type()) || proto.data_type() == 0) {
    return bad_input(fmt::format("{} has the unknown element type {}", what, proto.data_type()));
  }
  const auto type = onnx_dtype(proto.data_type());
  if (!type)
    return unsupported(
        fmt::format("{} has element type {}, which AICF does not have", what, onnx_type_name(proto.data_type())));
  if (proto.has_segment()) return unsupported(fmt::format("{} is stored in segments", what));
  Dims dims(proto.dims().begin(), proto.dims().end());
  AICF_TRY(const std::int64_t bytes, byte_count(dims, *type, what));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return external(proto, *type, std::move(dims), bytes, what, folder);
  if (proto.has_raw_data() && !proto.raw_data().empty() && has_typed_data(proto)) {
    return bad_input(fmt::format("{} has both raw_data and a typed data field", what));
  }
  if (!proto.has_raw_data() || (proto.raw_data().empty() && has_typed_data(proto)))
    return from_fields(proto, *type, std::move(dims), what);
  const auto given = static_cast<std::int64_t>(proto.raw_data().size());
  if (given != bytes)
    return bad_input(fmt::format("{} has {} bytes of raw_data, its shape and type need {}", what, given, bytes));
  if (*type == DType::boolean) {  // any byte but 0 is true; the host form is 0 or 1
    Tensor tensor(*type, std::move(dims));
    for (std::int64_t k = 0; k < bytes; ++k)
      tensor.mutable_bytes()[static_cast<std::size_t>(k)] =
          std::byte{proto.raw_data()[static_cast<std::size_t>(k)] != 0};
    return tensor;
  }
  auto owner = std::make_shared<std::string>(std::move(*proto.mutable_raw_data()));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  return Tensor::view(*type, std::move(dims), data, std::move(owner));
}

Result<std::pair<std::string, Tensor>> read_tensor_pb(const std::string& path) {
  AICF_TRY(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const auto bytes = file->bytes();
  AICF_RETURN_IF_ERROR(check_wire(bytes, WireMessage::tensor, path));
  onnx::TensorProto proto;
  if (bytes.size() > 0x7fffffff || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return bad_input("not a TensorProto", path);
  }
  const std::string name = proto.name();
  auto tensor = to_tensor(proto, "tensor " + in_quotes(name), nullptr);
  if (!tensor) {
    Diagnostic d = tensor.error();
    d.place = d.place.empty() ? path : path + ": " + d.place;
    return std::unexpected(std::move(d));
  }
  return std::pair{name, std::move(*tensor)};
}

Result<void> write_tensor_pb(const std::string& path, const std::string& name, const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(static_cast<int>(onnx_number(tensor.type())));
  for (std::int64_t d : tensor.shape()) proto.add_dims(d);
  proto.set_raw_data(tensor.bytes().data(), tensor.byte_size());
  AICF_TRY(AtomicFile file, AtomicFile::create(path));
  file.write(proto.SerializeAsString());
  return file.commit();
}

}  // namespace aicf
