// The interface for C: handles are numbers in a table, so that a closed one is known as such.

#include <aicf/aicf.h>

#include <aicf/aicf.hpp>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

namespace {

/// An executable with the names that C is given pointers to.
struct NamedExecutable {
  aicf::Executable executable;
  std::vector<std::string> inputs, outputs;
};

using Object =
    std::variant<std::shared_ptr<aicf::GraphBuilder>, std::shared_ptr<aicf::Model>, std::shared_ptr<aicf::Package>,
                 std::shared_ptr<aicf::Device>, std::shared_ptr<aicf::Buffer>, std::shared_ptr<NamedExecutable>>;
constexpr const char* kinds[] = {"builder", "model", "package", "device", "buffer", "executable"};

class Table {
 public:
  void* add(Object object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t key = ++last_;
    objects_.emplace(key, std::move(object));
    return reinterpret_cast<void*>(key);
  }
  /// Nothing where the handle is not open.
  std::optional<Object> find(const void* handle) const {
    const std::shared_lock lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return it == objects_.end() ? std::nullopt : std::optional(it->second);
  }
  /// Nothing where the handle is not open. The object ends with the result, outside of the lock.
  std::optional<Object> remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (it == objects_.end()) return std::nullopt;
    std::optional<Object> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, Object> objects_;
  std::uintptr_t last_ = 0;
};

/// Never destroyed: handles may be closed by destructors that run after those of this file.
Table& table() {
  static Table* const all = new Table;
  return *all;
}

thread_local std::string last_error;

/// A failure of a call; thrown and caught within this file alone.
struct Failure {
  aicf::Error error;
};
[[noreturn]] void refuse(std::string message) {
  throw Failure{{aicf::ErrorKind::bad_input, std::move(message), {}}};
}

/// The body of a function of the interface: any failure becomes a status and a message.
template <class F>
aicf_status call(F&& body) noexcept {
  try {
    body();
    return AICF_OK;
  } catch (const Failure& f) {
    last_error = f.error.text();
    switch (f.error.kind) {
      case aicf::ErrorKind::bad_input:
        return AICF_BAD_INPUT;
      case aicf::ErrorKind::unsupported:
        return AICF_UNSUPPORTED;
      case aicf::ErrorKind::run_failure:
        return AICF_RUN_FAILURE;
      case aicf::ErrorKind::device_lost:
        return AICF_DEVICE_LOST;
    }
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // fits in the string itself
  } catch (const std::length_error&) {
    last_error = "out of memory";
  }
  return AICF_RUN_FAILURE;
}

template <class T>
T value(aicf::Result<T> result) {
  if (!result) throw Failure{std::move(result).error()};
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

template <class T>
constexpr std::size_t kind_of = [] {
  std::size_t k = 0;
  [&]<class... A>(std::type_identity<std::variant<A...>>) {
    ((std::is_same_v<A, std::shared_ptr<T>> || (++k, false)) || ...);
  }(std::type_identity<Object>());
  return k;
}();

template <class T>
std::shared_ptr<T> object(const void* handle) {
  constexpr std::size_t kind = kind_of<T>;
  auto found = table().find(handle);
  if (!found)
    refuse(std::string("the ") + kinds[kind] + (handle ? " handle is closed or was never open" : " handle is NULL"));
  if (found->index() != kind) refuse(std::string("the handle of a ") + kinds[found->index()] + " is no " + kinds[kind]);
  return std::get<std::shared_ptr<T>>(*found);
}

template <class T>
T& out(T* where) {
  if (!where) refuse("the place for the result is NULL");
  return *where;
}

std::string text(const char* given, const char* what) {
  if (!given) refuse(std::string("the ") + what + " is NULL");
  return given;
}

template <class T>
std::span<const T> array(const T* data, std::size_t count, const char* what) {
  if (!data && count > 0) refuse(std::string("the array of ") + what + " is NULL and not empty");
  return {data, count};
}

aicf::Sizes sizes(const aicf_size* given, std::size_t count) {
  aicf::Sizes out;
  for (const aicf_size& s : array(given, count, "sizes")) out[text(s.name, "name of a symbol")] = s.value;
  return out;
}

aicf::Shape shape(const std::int64_t* given, std::size_t rank) {
  const auto dims = array(given, rank, "a shape");
  return {dims.begin(), dims.end()};
}

std::vector<std::string> texts(const char* const* given, std::size_t count, const char* what) {
  std::vector<std::string> out;
  for (const char* t : array(given, count, what)) out.push_back(text(t, what));
  return out;
}

aicf::DType type(aicf_type given) {
  static_assert(AICF_BOOL == static_cast<int>(aicf::DType::boolean) && AICF_I32 == static_cast<int>(aicf::DType::i32));
  if (given < AICF_F16 || given > AICF_BOOL) refuse("the element type is none of aicf_type");
  return static_cast<aicf::DType>(given);
}

void check_type(const char* verb, aicf::DType given, aicf::DType buffer) {
  if (given != buffer)
    refuse("elements of " + std::string(name(given)) + " are " + verb + " a buffer of " + std::string(name(buffer)));
}

aicf::Attribute attribute(const aicf_attribute& a) {
  const std::string name = text(a.name, "name of an attribute");
  switch (a.kind) {
    case AICF_INTEGER:
      return {name, a.integer};
    case AICF_REAL:
      return {name, a.real};
    case AICF_TEXT:
      return {name, text(a.text, "text of an attribute")};
    case AICF_INTEGERS:
      return {name, shape(a.integers, a.count)};
    case AICF_REALS: {
      const auto reals = array(a.reals, a.count, "reals");
      return {name, std::vector<double>(reals.begin(), reals.end())};
    }
  }
  refuse("the kind of attribute '" + name + "' is none of aicf_attribute_kind");
}

aicf::CompileOptions options(const aicf_compile_options* given) {
  aicf::CompileOptions out;
  if (!given) return out;
  out.fusion = !given->no_fusion;
  out.optimize_for_first_run = given->optimize_for_first_run;
  out.size_hints = sizes(given->size_hints, given->size_hint_count);
  return out;
}

std::map<std::string, aicf::Buffer> bindings(const aicf_binding* given, std::size_t count) {
  std::map<std::string, aicf::Buffer> out;
  for (const aicf_binding& b : array(given, count, "bindings")) {
    const std::string name = text(b.name, "name of a binding");
    if (!out.emplace(name, *object<aicf::Buffer>(b.buffer)).second) refuse("'" + name + "' is bound twice");
  }
  return out;
}

std::vector<std::string> names(const std::vector<aicf::TensorInfo>& tensors) {
  std::vector<std::string> out;
  for (const aicf::TensorInfo& t : tensors) out.push_back(t.name);
  return out;
}

/// Puts a new object under a handle of the caller's type.
template <class T, class H>
void give(T object, H* where) {
  *where = static_cast<H>(table().add(std::make_shared<T>(std::move(object))));
}

const char* name_at(const std::vector<std::string>& names, std::size_t position, const char* what) {
  if (position >= names.size())
    refuse("there is no " + std::string(what) + " " + std::to_string(position) + ", only " +
           std::to_string(names.size()));
  return names[position].c_str();
}

}  // namespace

extern "C" {

const char* aicf_version(void) {
  return AICF_VERSION;
}

const char* aicf_error(void) {
  return last_error.c_str();
}

aicf_status aicf_close(void* handle) {
  return call([&] {
    if (handle && !table().remove(handle)) refuse("the handle is closed or was never open");
  });
}

aicf_status aicf_model_load(const char* path, const aicf_size* given, size_t count, aicf_model* model) {
  return call([&] { give(value(aicf::Model::load(text(path, "path"), sizes(given, count))), &out(model)); });
}

aicf_status aicf_model_parse(const char* source, const aicf_size* given, size_t count, aicf_model* model) {
  return call([&] { give(value(aicf::Model::parse(text(source, "text"), sizes(given, count))), &out(model)); });
}

aicf_status aicf_builder_create(const char* name, int opset, aicf_builder* builder) {
  return call([&] {
    aicf_builder& made = out(builder);
    made = static_cast<aicf_builder>(
        table().add(std::make_shared<aicf::GraphBuilder>(text(name, "name of the graph"), opset)));
  });
}

aicf_status aicf_builder_input(aicf_builder builder, const char* name, aicf_type element, const aicf_size* dims,
                               size_t rank) {
  return call([&] {
    const auto graph = object<aicf::GraphBuilder>(builder);
    std::vector<aicf::Dimension> given;
    for (const aicf_size& d : array(dims, rank, "a shape"))
      given.push_back(d.name ? aicf::Dimension(d.name) : aicf::Dimension(d.value));
    graph->input(text(name, "name of the input"), type(element), given);
  });
}

aicf_status aicf_builder_constant(aicf_builder builder, const char* name, aicf_type element, const int64_t* dims,
                                  size_t rank, const void* data, size_t bytes) {
  return call([&] {
    const auto graph = object<aicf::GraphBuilder>(builder);
    graph->constant(text(name, "name of the constant"), type(element), shape(dims, rank),
                    array(static_cast<const std::byte*>(data), bytes, "bytes"));
  });
}

aicf_status aicf_builder_add(aicf_builder builder, const char* op, const char* const* inputs, size_t input_count,
                             const char* const* outputs, size_t output_count, const aicf_attribute* attributes,
                             size_t attribute_count) {
  return call([&] {
    const auto graph = object<aicf::GraphBuilder>(builder);
    std::vector<aicf::Attribute> given;
    for (const aicf_attribute& a : array(attributes, attribute_count, "attributes")) given.push_back(attribute(a));
    graph->add(text(op, "operation"), texts(inputs, input_count, "inputs"), texts(outputs, output_count, "outputs"),
               given);
  });
}

aicf_status aicf_builder_output(aicf_builder builder, const char* tensor) {
  return call([&] { object<aicf::GraphBuilder>(builder)->output(text(tensor, "name of the tensor")); });
}

aicf_status aicf_builder_build(aicf_builder builder, const aicf_size* given, size_t count, aicf_model* model) {
  return call([&] { give(value(object<aicf::GraphBuilder>(builder)->build(sizes(given, count))), &out(model)); });
}

aicf_status aicf_compile(aicf_model model, const char* const* targets, size_t target_count,
                         const aicf_compile_options* given, aicf_package* package) {
  return call([&] {
    give(value(aicf::compile(*object<aicf::Model>(model), texts(targets, target_count, "targets"), options(given))),
         &out(package));
  });
}

aicf_status aicf_compile_for_device(aicf_model model, aicf_device device, const aicf_compile_options* given,
                                    aicf_package* package) {
  return call([&] {
    give(value(aicf::compile(*object<aicf::Model>(model), *object<aicf::Device>(device), options(given))),
         &out(package));
  });
}

aicf_status aicf_package_load(const char* path, aicf_package* package) {
  return call([&] { give(value(aicf::Package::load(text(path, "path"))), &out(package)); });
}

aicf_status aicf_package_save(aicf_package package, const char* path) {
  return call([&] { value(object<aicf::Package>(package)->save(text(path, "path"))); });
}

aicf_status aicf_device_open(const char* id, aicf_device* device) {
  return call([&] { give(value(aicf::Device::open(text(id, "id of the device"))), &out(device)); });
}

aicf_status aicf_device_allocate(aicf_device device, aicf_type element, const int64_t* dims, size_t rank,
                                 aicf_buffer* buffer) {
  return call(
      [&] { give(value(object<aicf::Device>(device)->allocate(type(element), shape(dims, rank))), &out(buffer)); });
}

aicf_status aicf_device_load(aicf_device device, aicf_package package, aicf_executable* executable) {
  return call([&] {
    auto loaded = value(object<aicf::Device>(device)->load(*object<aicf::Package>(package)));
    auto inputs = names(loaded.inputs()), outputs = names(loaded.outputs());
    give(NamedExecutable{std::move(loaded), std::move(inputs), std::move(outputs)}, &out(executable));
  });
}

aicf_status aicf_buffer_write(aicf_buffer buffer, aicf_type element, const void* data, size_t bytes) {
  return call([&] {
    const auto memory = object<aicf::Buffer>(buffer);
    check_type("written to", type(element), memory->type());
    value(memory->write(array(static_cast<const std::byte*>(data), bytes, "bytes")));
  });
}

aicf_status aicf_buffer_read(aicf_buffer buffer, aicf_type element, void* data, size_t bytes) {
  return call([&] {
    const auto memory = object<aicf::Buffer>(buffer);
    check_type("read from", type(element), memory->type());
    array(static_cast<const std::byte*>(data), bytes, "bytes");
    value(memory->read(std::span(static_cast<std::byte*>(data), bytes)));
  });
}

aicf_status aicf_buffer_view(aicf_buffer buffer, const int64_t* dims, size_t rank, aicf_buffer* view) {
  return call([&] { give(value(object<aicf::Buffer>(buffer)->view(shape(dims, rank))), &out(view)); });
}

aicf_status aicf_executable_input(aicf_executable executable, size_t position, const char** name) {
  return call([&] { out(name) = name_at(object<NamedExecutable>(executable)->inputs, position, "input"); });
}

aicf_status aicf_executable_output(aicf_executable executable, size_t position, const char** name) {
  return call([&] { out(name) = name_at(object<NamedExecutable>(executable)->outputs, position, "output"); });
}

aicf_status aicf_executable_allocate(aicf_executable executable, const char* tensor, const aicf_size* given,
                                     size_t count, aicf_buffer* buffer) {
  return call([&] {
    const auto loaded = object<NamedExecutable>(executable);
    give(value(loaded->executable.allocate(text(tensor, "name of the tensor"), sizes(given, count))), &out(buffer));
  });
}

aicf_status aicf_executable_run(aicf_executable executable, const aicf_binding* inputs, size_t input_count,
                                const aicf_binding* outputs, size_t output_count, aicf_run_report* report) {
  return call([&] {
    const auto loaded = object<NamedExecutable>(executable);
    const aicf::RunReport done =
        value(loaded->executable.run(bindings(inputs, input_count), bindings(outputs, output_count)));
    if (report) *report = {done.milliseconds, done.launches, done.arena_bytes};
  });
}

}  // extern "C"
