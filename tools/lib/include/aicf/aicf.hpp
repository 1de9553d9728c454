#pragma once

// AICF as a library: from a model to tensors that stay on a device.
//
//     auto model = aicf::Model::load("encoder.onnx");
//     auto device = aicf::Device::open("vulkan");
//     auto package = aicf::compile(*model, *device);
//     auto executable = device->load(*package);
//     auto x = executable->allocate("x", {{"batch", 2}}), y = executable->allocate("y", {{"batch", 2}});
//     x->write(values);                                   // std::vector<float>
//     executable->run({{"x", *x}}, {{"y", *y}});
//     y->read(results);
//
// Everything that can fail returns a Result; nothing throws. Model, Package, Device, Buffer and Executable are handles: a
// copy means the same object, which lives as long as a handle or something made from it, and none of them is ever empty.
// C++23.
//
// Threads. All functions of this header may be called from any thread at any time, except that a GraphBuilder is for one
// thread at a time. Model and Package never change. Calls that use one Device (its buffers, its executables) wait for each
// other; devices opened separately run at the same time, also where they are the same hardware. Two threads that write one
// buffer, or read it while another writes, each see a whole write, in an order of no promise.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <aicf/export.h>

// The version of the binary interface is part of every symbol; users write aicf::Model. (The library itself names it.)
#ifndef AICF_NAMESPACE
#define AICF_NAMESPACE aicf::inline v0
#endif

namespace AICF_NAMESPACE {

// ---- errors ------------------------------------------------------------------------------------------------------

enum class ErrorKind {
  bad_input,    ///< the file, value, name, type or size given is wrong
  unsupported,  ///< valid, but AICF or the device cannot do it
  run_failure,  ///< the machine failed: memory, files, the driver
  device_lost   ///< the device failed for good: open it again, allocate again, write again
};

/// One sentence that says what is wrong, where, and what to do when that is known.
struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
  std::string place;  ///< "model.onnx: node 'MatMul_3'"; empty when the message says it
  std::string text() const { return place.empty() ? message : place + ": " + message; }
};

template <class T>
using Result = std::expected<T, Error>;

/// What all handles are: a shared object. Copying is the only way to move one, so that none is ever empty.
template <class T>
class Handle {
 public:
  explicit Handle(std::shared_ptr<T> object) : object_(std::move(object)) {}
  Handle(const Handle&) = default;
  Handle& operator=(const Handle&) = default;
  const std::shared_ptr<T>& object() const { return object_; }  ///< for the library itself

 private:
  std::shared_ptr<T> object_;
};
struct ModelObject;
struct PackageObject;
struct DeviceObject;
struct BufferObject;
struct ExecutableObject;

// ---- tensors -----------------------------------------------------------------------------------------------------

/// Element types. On the host `boolean` is one byte, all others have their own size. Devices hold integers as 32 bits and
/// f64 as f32: Buffer::write refuses integers beyond that.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

AICF_API std::size_t size_of(DType type);    ///< bytes of one element on the host
AICF_API std::string_view name(DType type);  ///< "f32", "i64", "bool"

/// The element type of T: float, double, bool and the integers of fixed width.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? DType::f32 : DType::f64;
  else if constexpr (std::is_signed_v<T>)
    return sizeof(T) == 1 ? DType::i8 : sizeof(T) == 2 ? DType::i16 : sizeof(T) == 4 ? DType::i32 : DType::i64;
  else
    return sizeof(T) == 1 ? DType::u8 : sizeof(T) == 2 ? DType::u16 : sizeof(T) == 4 ? DType::u32 : DType::u64;
}
template <class T>
concept Element = std::is_arithmetic_v<T> && sizeof(T) <= 8;

using Shape = std::vector<std::int64_t>;            ///< row-major; [] is a scalar
using Sizes = std::map<std::string, std::int64_t>;  ///< symbol → size

/// An input or output of a model.
struct TensorInfo {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> shape;  ///< "64", "batch", "2 * past"
};

// ---- models ------------------------------------------------------------------------------------------------------

/// A model, checked, with all shapes inferred; compiled for nothing yet.
class AICF_API Model : public Handle<const ModelObject> {
 public:
  /// An ONNX file or AICF's text form, told apart by content. `sizes` fixes symbols for good ({"batch", 1}).
  static Result<Model> load(const std::string& path, const Sizes& sizes = {});
  /// The text form.
  static Result<Model> parse(std::string_view text, const Sizes& sizes = {});

  std::string name() const;
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  std::string text() const;  ///< the text form

  using Handle::Handle;
};

/// A size in a graph: a number, or a text that is a symbol ("seq") or arithmetic of symbols ("2 * seq").
class Dimension {
 public:
  Dimension(std::int64_t size) : value(size) {}              // NOLINT
  Dimension(int size) : value(std::int64_t{size}) {}         // NOLINT
  Dimension(const char* text) : value(std::string(text)) {}  // NOLINT
  Dimension(std::string text) : value(std::move(text)) {}    // NOLINT
  std::variant<std::int64_t, std::string> value;
};

/// An attribute of an operation, by its ONNX name.
class Attribute {
 public:
  Attribute(std::string n, int v) : Attribute(std::move(n), std::int64_t{v}) {}
  Attribute(std::string n, std::int64_t v) : name(std::move(n)), value(v) {}
  Attribute(std::string n, double v) : name(std::move(n)), value(v) {}
  Attribute(std::string n, const char* v) : name(std::move(n)), value(std::string(v)) {}
  Attribute(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
  Attribute(std::string n, std::initializer_list<int> v) : name(std::move(n)), value(Shape(v.begin(), v.end())) {}
  Attribute(std::string n, Shape v) : name(std::move(n)), value(std::move(v)) {}
  Attribute(std::string n, std::vector<double> v) : name(std::move(n)), value(std::move(v)) {}
  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>> value;
};

/// A graph of ONNX operations in code. Tensors are known by their names; mistakes are found by build().
class AICF_API GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, int opset = 0);  ///< opset of ai.onnx; 0: AICF's default, 23
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// Returns `name`.
  std::string input(const std::string& name, DType type, const std::vector<Dimension>& shape);
  /// A constant of the graph under `name`; `bytes` in host layout, copied. Returns `name`.
  std::string constant(const std::string& name, DType type, const Shape& shape, std::span<const std::byte> bytes);
  template <Element T>
  std::string constant(const std::string& name, const Shape& shape, const std::vector<T>& elements) {
    return constant(name, dtype_of<T>(), shape, std::as_bytes(std::span(elements)));
  }
  /// One operation ("MatMul", "com.microsoft.FastGelu"); "" among the inputs is an absent one. Returns the name made for
  /// its result.
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {});
  /// The same with results under the given names.
  void add(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
           const std::vector<Attribute>& attributes);
  /// Makes the tensor an output of the graph.
  void output(const std::string& tensor);

  /// The model. Errors: bad_input or unsupported with the operation's name.
  Result<Model> build(const Sizes& sizes = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- compiling ---------------------------------------------------------------------------------------------------

struct CompileOptions {
  bool fusion = true;                           ///< false: every operation alone
  bool optimize_for_first_run = false;          ///< counts the driver's compile time as part of the cost
  Sizes size_hints;                             ///< sizes to plan for where a dimension is symbolic; others run as well
  std::map<std::string, std::string> schedule;  ///< forced choices: "tile.q" → "32", "residency.k" → "workgroup"
};

class Device;

/// A compiled model: kernels for one or several targets, and the model's constants.
class AICF_API Package : public Handle<const PackageObject> {
 public:
  /// Errors: bad_input where the file is foreign, damaged or of another version.
  static Result<Package> load(const std::string& path);
  /// Appears under its name when complete.
  Result<void> save(const std::string& path) const;

  std::string name() const;  ///< of the model
  std::vector<std::string> targets() const;
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;

  using Handle::Handle;
};

/// The profiles that can be compiled for with no device: "lavapipe", "sm_90", …
AICF_API std::vector<std::string> targets();

/// For each of `targets`: a profile, "cuda-emulation[:PROFILE]", or the id of a device ("vulkan:0"), which is opened.
AICF_API Result<Package> compile(const Model& model, const std::vector<std::string>& targets,
                                 const CompileOptions& options = {});
/// For an open device, which tries the kernels: where it refuses one, the next best schedule is taken.
AICF_API Result<Package> compile(const Model& model, const Device& device, const CompileOptions& options = {});

// ---- devices -----------------------------------------------------------------------------------------------------

struct DeviceInfo {
  std::string id;           ///< what Device::open takes: "vulkan:0", "cuda-emulation:sm_80"
  std::string driver;       ///< "vulkan", "cuda", "cuda_emulation", "null"
  std::string name;         ///< the device's own
  std::string description;  ///< driver and version
};

/// What can be opened now; a driver that is missing lists nothing.
AICF_API std::vector<DeviceInfo> devices();

/// Memory on a device with the type and shape of a tensor.
class AICF_API Buffer : public Handle<const BufferObject> {
 public:
  DType type() const;
  Shape shape() const;
  std::size_t byte_size() const;  ///< on the host: elements · size_of(type())

  /// The whole tensor in host layout: exactly byte_size() bytes. Errors: bad_input for another size and for integers
  /// beyond 32 bits (i64's extremes saturate), run_failure, device_lost.
  Result<void> write(std::span<const std::byte> bytes) const;
  Result<void> read(std::span<std::byte> bytes) const;
  /// The same for elements of the buffer's own type (f16, bf16: bytes, or std::uint16_t bits by the functions above).
  template <Element T>
  Result<void> write(const std::vector<T>& elements) const {
    return write(dtype_of<T>(), std::as_bytes(std::span(elements)));
  }
  template <class T, std::size_t N>
  requires Element<std::remove_const_t<T>> Result<void> write(std::span<T, N> elements)
  const { return write(dtype_of<std::remove_const_t<T>>(), std::as_bytes(elements)); }
  template <Element T>
  Result<void> read(std::vector<T>& elements) const {
    return read(dtype_of<T>(), std::as_writable_bytes(std::span(elements)));
  }
  template <Element T, std::size_t N>
  Result<void> read(std::span<T, N> elements) const {
    return read(dtype_of<T>(), std::as_writable_bytes(elements));
  }
  /// The same memory as a tensor of another shape with at most as many elements: its first ones. Memory for the largest
  /// size serves all sizes.
  Result<Buffer> view(const Shape& shape) const;

  using Handle::Handle;

 private:
  Result<void> write(DType type, std::span<const std::byte> bytes) const;
  Result<void> read(DType type, std::span<std::byte> bytes) const;
};

struct RunReport {
  double milliseconds = 0;  ///< of all launches, transfers excluded
  std::size_t launches = 0;
  std::uint64_t arena_bytes = 0;  ///< device memory of intermediates
};

/// A package loaded on a device: kernels built, constants uploaded. It serves every size its symbols allow.
class AICF_API Executable : public Handle<const ExecutableObject> {
 public:
  std::string target() const;
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;

  /// A buffer for the input or output of that name at these sizes. Errors: bad_input for an unknown name or a symbol
  /// without a size; run_failure when memory is short.
  Result<Buffer> allocate(const std::string& tensor, const Sizes& sizes = {}) const;
  /// Runs where the buffers lie and waits. Every input and output is bound to a buffer of this device of its type and
  /// shape; the shapes of the inputs give the sizes of the symbols. An output shares no memory with another binding.
  /// Inputs that index a tensor of the model are read back and checked. Errors: bad_input naming the tensor, run_failure,
  /// device_lost.
  Result<RunReport> run(const std::map<std::string, Buffer>& inputs,
                        const std::map<std::string, Buffer>& outputs) const;

  using Handle::Handle;
};

class AICF_API Device : public Handle<DeviceObject> {
 public:
  /// "vulkan", "vulkan:0", "vulkan:PART-OF-NAME", "cuda[:INDEX]", "cuda-emulation[:sm_NN]". Errors: bad_input for an
  /// unknown driver, unsupported when there is no such device, with what there is.
  static Result<Device> open(const std::string& id);

  DeviceInfo info() const;
  /// Errors: bad_input for a negative or overflowing shape, run_failure when memory is short.
  Result<Buffer> allocate(DType type, const Shape& shape) const;
  /// Takes the program compiled for the device, else the first that fits. Errors: unsupported with what the package holds; run_failure with
  /// the driver's words.
  Result<Executable> load(const Package& package) const;

  using Handle::Handle;
};

}  // namespace AICF_NAMESPACE
