// Devices, their buffers, and loaded packages.

#include <algorithm>
#include <cstring>

#include "runtime/driver.h"
#include "tools/lib/objects.h"

namespace aicf::v0 {

namespace {

aicf::Result<Buffer> allocate_on(const std::shared_ptr<DeviceObject>& device, aicf::DType type, const Shape& shape) {
  AICF_TRY(const std::int64_t elements, checked_size(type, shape));
  const auto count = static_cast<std::size_t>(elements);
  AICF_TRY(auto memory, device->device->allocate(count * device_size(type)));
  auto shared = std::make_shared<DeviceMemory>(device, std::move(memory));
  return Buffer(std::make_shared<const BufferObject>(std::move(shared), type, shape, count));
}

/// The device runs what the program's buffer of this shape takes.
aicf::Result<void> check_buffer(const char* what, const std::string& name, const Buffer& buffer, aicf::DType type,
                                std::span<const std::int64_t> shape) {
  const BufferObject& b = *buffer.object();
  if (b.type != type)
    return bad_input(fmt::format("{} '{}' is bound to a buffer of {}, the model has {}", what, name, aicf::name(b.type),
                                 aicf::name(type)));
  if (!std::ranges::equal(b.shape, shape))
    return bad_input(fmt::format("{} '{}' is bound to a buffer of shape {}, it has {}", what, name, dims_text(b.shape),
                                 dims_text(shape)));
  return {};
}

aicf::Result<Shape> shape_at(std::span<const Expr> dims, const Sizes& sizes) {
  Shape shape;
  for (const Expr& d : dims) {
    AICF_TRY(const std::int64_t n, evaluate_int(d, sizes));
    shape.push_back(n);
  }
  return shape;
}

/// The bindings with names from `known` alone, all on the device.
aicf::Result<void> check_bindings(const char* what, const std::map<std::string, Buffer>& bound,
                                  const std::vector<std::string>& known, const DeviceObject& device) {
  for (const auto& [name, buffer] : bound) {
    if (std::ranges::find(known, name) == known.end())
      return bad_input(fmt::format("there is no {} '{}'; the model has {}", what, name, fmt::join(known, ", ")));
    if (buffer.object()->memory->device.get() != &device)
      return bad_input(fmt::format("{} '{}' is bound to a buffer of another device", what, name));
  }
  for (const std::string& name : known)
    if (!bound.contains(name)) return bad_input(fmt::format("{} '{}' is not bound to a buffer", what, name));
  return {};
}

std::unexpected<Error> wrong_type(const char* verb, DType elements, DType buffer) {
  return std::unexpected(
      Error{ErrorKind::bad_input,
            fmt::format("elements of {} are {} a buffer of {}", v0::name(elements), verb, v0::name(buffer)),
            {}});
}

BufferSlice slice_of(const Buffer& buffer) {
  const BufferObject& b = *buffer.object();
  return {b.memory->memory.get(), 0, b.elements * device_size(b.type)};
}

}  // namespace

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> out;
  for (Driver* d : drivers()) {
    std::string why;
    for (const aicf::DeviceInfo& info : d->devices(&why))
      out.push_back({info.id, info.driver, info.name, info.description});
  }
  return out;
}

// ---- Device ------------------------------------------------------------------------------------------------------

Result<Device> Device::open(const std::string& id) {
  return guarded([&]() -> aicf::Result<Device> {
    auto object = std::make_shared<DeviceObject>();
    AICF_TRY(object->device, open_device(id));
    const aicf::DeviceInfo& info = object->device->info();
    AICF_TRY(object->target, target_of(id, info.driver, info.name, info.properties));
    return Device(std::move(object));
  });
}

DeviceInfo Device::info() const {
  const aicf::DeviceInfo& info = object()->device->info();
  return {info.id, info.driver, info.name, info.description};
}

Result<Buffer> Device::allocate(DType type, const Shape& shape) const {
  return guarded_on(*object(), [&]() -> aicf::Result<Buffer> {
    if (!is_valid(type)) return bad_input("the element type is none");
    return allocate_on(object(), to_internal(type), shape);
  });
}

Result<Executable> Device::load(const Package& package) const {
  return guarded_on(*object(), [&]() -> aicf::Result<Executable> {
    AICF_TRY(const auto programs,
             fitting_programs(*object()->device, package.object()->package, object()->target.model.name));
    Diagnostic last;
    for (const Program* program : programs) {
      auto executor = Executor::create(*object()->device, *program);
      if (executor)
        return Executable(
            std::make_shared<const ExecutableObject>(object(), package.object(), program, std::move(*executor)));
      last = executor.error();
      if (last.kind != aicf::ErrorKind::refused) break;
    }
    return std::unexpected(last);
  });
}

// ---- Buffer ------------------------------------------------------------------------------------------------------

DType Buffer::type() const {
  return to_public(object()->type);
}
Shape Buffer::shape() const {
  return object()->shape;
}
std::size_t Buffer::byte_size() const {
  return object()->elements * host_size(object()->type);
}

Result<void> Buffer::write(std::span<const std::byte> bytes) const {
  const BufferObject& b = *object();
  return guarded_on(*b.memory->device, [&]() -> aicf::Result<void> {
    if (bytes.size() != byte_size())
      return bad_input(fmt::format("{} bytes are written to a buffer of {}", bytes.size(), byte_size()));
    aicf::Device& device = *b.memory->device->device;
    if (device_storage(b.type) == b.type) return device.upload(*b.memory->memory, 0, bytes);
    AICF_TRY(const auto stored, to_device("the buffer", Tensor::view(b.type, b.shape, bytes.data(), nullptr)));
    return device.upload(*b.memory->memory, 0, stored);
  });
}

Result<void> Buffer::read(std::span<std::byte> bytes) const {
  const BufferObject& b = *object();
  return guarded_on(*b.memory->device, [&]() -> aicf::Result<void> {
    if (bytes.size() != byte_size())
      return bad_input(fmt::format("{} bytes are read from a buffer of {}", bytes.size(), byte_size()));
    aicf::Device& device = *b.memory->device->device;
    if (device_storage(b.type) == b.type) return device.download(*b.memory->memory, 0, bytes);
    std::vector<std::byte> stored(b.elements * device_size(b.type));
    AICF_RETURN_IF_ERROR(device.download(*b.memory->memory, 0, stored));
    const Tensor tensor = from_device(b.type, b.shape, stored);
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.bytes().data(), bytes.size());
    return {};
  });
}

Result<void> Buffer::write(DType type, std::span<const std::byte> bytes) const {
  if (type != this->type()) return wrong_type("written to", type, this->type());
  return write(bytes);
}

Result<void> Buffer::read(DType type, std::span<std::byte> bytes) const {
  if (type != this->type()) return wrong_type("read from", type, this->type());
  return read(bytes);
}

Result<Buffer> Buffer::view(const Shape& shape) const {
  return guarded([&]() -> aicf::Result<Buffer> {
    const BufferObject& b = *object();
    AICF_TRY(const std::int64_t elements, checked_size(b.type, shape));
    const auto count = static_cast<std::size_t>(elements);
    if (count > b.elements)
      return bad_input(
          fmt::format("a view of shape {} has {} elements, the buffer has {}", dims_text(shape), count, b.elements));
    return Buffer(std::make_shared<const BufferObject>(b.memory, b.type, shape, count));
  });
}

// ---- Executable --------------------------------------------------------------------------------------------------

std::string Executable::target() const {
  return object()->program->target;
}
std::vector<TensorInfo> Executable::inputs() const {
  return to_public(object()->program->inputs);
}
std::vector<TensorInfo> Executable::outputs() const {
  return outputs_of(*object()->program);
}

Result<Buffer> Executable::allocate(const std::string& tensor, const Sizes& sizes) const {
  return guarded_on(*object()->device, [&]() -> aicf::Result<Buffer> {
    const Program& p = *object()->program;
    if (const auto in = std::ranges::find(p.inputs, tensor, &Signature::name); in != p.inputs.end()) {
      AICF_TRY(const Shape shape, shape_at(in->shape, sizes));
      return allocate_on(object()->device, in->type, shape);
    }
    const auto out = std::ranges::find(p.outputs, tensor, &ProgramOutput::name);
    if (out == p.outputs.end()) return bad_input(fmt::format("the model has no input or output '{}'", tensor));
    const BufferPlan& b = p.buffers[out->buffer];
    AICF_TRY(const Shape shape, shape_at(b.shape, sizes));
    return allocate_on(object()->device, b.type, shape);
  });
}

Result<RunReport> Executable::run(const std::map<std::string, Buffer>& inputs,
                                  const std::map<std::string, Buffer>& outputs) const {
  return guarded_on(*object()->device, [&]() -> aicf::Result<RunReport> {
    const Program& p = *object()->program;
    std::vector<std::string> input_names, output_names;
    for (const Signature& input : p.inputs) input_names.push_back(input.name);
    for (const ProgramOutput& output : p.outputs) output_names.push_back(output.name);
    AICF_RETURN_IF_ERROR(check_bindings("input", inputs, input_names, *object()->device));
    AICF_RETURN_IF_ERROR(check_bindings("output", outputs, output_names, *object()->device));

    std::vector<Shape> shapes;
    Bindings bindings;
    for (const Signature& input : p.inputs) {
      const Buffer& buffer = inputs.at(input.name);
      shapes.push_back(buffer.object()->shape);
      AICF_RETURN_IF_ERROR(check_buffer("input", input.name, buffer, input.type, shapes.back()));
      bindings.inputs[input.name] = slice_of(buffer);
    }
    AICF_TRY(const Sizes sizes, bind_sizes(p.inputs, shapes));
    AICF_RETURN_IF_ERROR(check_shapes(p.constraints, sizes));  // before outputs, whose shapes rest on it
    for (const ProgramOutput& output : p.outputs) {
      const BufferPlan& b = p.buffers[output.buffer];
      AICF_TRY(const Shape shape, shape_at(b.shape, sizes));
      AICF_RETURN_IF_ERROR(check_buffer("output", output.name, outputs.at(output.name), b.type, shape));
      bindings.outputs[output.name] = slice_of(outputs.at(output.name));
    }
    RunOptions options;
    options.timings = false;
    AICF_TRY(const RunResult result, object()->executor->run(bindings, sizes, options));
    return RunReport{result.milliseconds, result.launches.size(), result.memory.arena};
  });
}

}  // namespace aicf::v0
