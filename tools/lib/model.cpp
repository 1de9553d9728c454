// Models, graphs in code, packages.

#include <cstring>

#include "frontend/semantic/builder.h"
#include "frontend/semantic/check.h"
#include "frontend/semantic/dimension.h"
#include "runtime/driver.h"
#include "tools/lib/objects.h"

namespace aicf::v0 {

namespace {

static_assert(static_cast<int>(DType::boolean) == static_cast<int>(aicf::DType::boolean));
static_assert(static_cast<int>(DType::i32) == static_cast<int>(aicf::DType::i32));

/// The program of one target; an open device gives its own.
aicf::Result<Program> compile_for(const aicf::Model& model, const Target& target, const CompileOptions& options,
                                  const std::map<std::string, std::string>& refused = {}) {
  aicf::CompileOptions compile;
  compile.refused = refused;
  compile.fuse = options.fusion;
  compile.schedule.optimize_for_first_run = options.optimize_for_first_run;
  compile.schedule.size_hints = options.size_hints;
  compile.schedule.forced = options.schedule;
  AICF_TRY(CompiledModel compiled, aicf::compile(model.graph, model.constants, target, compile));
  set_interface(compiled.program, interface_of(model));
  return std::move(compiled.program);
}

}  // namespace

Error to_error(const Diagnostic& d) {
  // Names and texts of a broken file may hold anything; a message is one printable line.
  constexpr std::size_t longest = 900;
  Error error{ErrorKind::run_failure, printable(d.message, longest), printable(d.place, longest)};
  if (d.kind == aicf::ErrorKind::bad_input) error.kind = ErrorKind::bad_input;
  if (d.kind == aicf::ErrorKind::unsupported) error.kind = ErrorKind::unsupported;
  return error;
}

std::vector<TensorInfo> to_public(const std::vector<Signature>& tensors) {
  std::vector<TensorInfo> out;
  for (const Signature& t : tensors) {
    out.push_back({t.name, to_public(t.type), {}});
    for (const Expr& dim : t.shape) out.back().shape.push_back(to_string(dim));
  }
  return out;
}

std::vector<TensorInfo> outputs_of(const Program& program) {
  std::vector<Signature> out;
  for (const ProgramOutput& o : program.outputs)
    out.push_back({o.name, program.buffers[o.buffer].type, program.buffers[o.buffer].shape});
  return to_public(out);
}

std::size_t size_of(DType type) {
  return is_valid(type) ? host_size(to_internal(type)) : 0;
}
std::string_view name(DType type) {
  return is_valid(type) ? aicf::name(to_internal(type)) : "?";
}

// ---- Model -------------------------------------------------------------------------------------------------------

Result<Model> Model::load(const std::string& path, const Sizes& sizes) {
  return guarded([&]() -> aicf::Result<Model> {
    AICF_TRY(aicf::Model model, load_model(path, ImportOptions{sizes}));
    return Model(std::make_shared<const ModelObject>(std::move(model)));
  });
}

Result<Model> Model::parse(std::string_view text, const Sizes& sizes) {
  return guarded([&]() -> aicf::Result<Model> {
    AICF_TRY(SemanticGraph graph, parse_semantic(text, "text"));
    AICF_TRY(aicf::Model model, canonicalise(std::move(graph), ImportOptions{sizes}));
    return Model(std::make_shared<const ModelObject>(std::move(model)));
  });
}

std::string Model::name() const {
  return object()->model.name;
}
std::vector<TensorInfo> Model::inputs() const {
  return to_public(object()->model.semantic.inputs);
}
std::vector<TensorInfo> Model::outputs() const {
  std::vector<Signature> out;
  for (const auto& [output, node] : interface_of(object()->model).outputs) {
    const Node& n = object()->model.graph.node(node);
    out.push_back({output, n.type, n.shape()});
  }
  return to_public(out);
}
std::string Model::text() const {
  return to_string(object()->model.semantic);
}

// ---- GraphBuilder ------------------------------------------------------------------------------------------------

struct GraphBuilder::Impl {
  aicf::GraphBuilder graph;
  std::optional<Diagnostic> mistake;  ///< the first one

  void note(Diagnostic d) {
    if (!mistake) mistake = std::move(d);
  }
};

namespace {

NamedAttribute to_internal(const Attribute& a) {
  NamedAttribute out(a.name, 0);
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, std::vector<double>>) {
          out.value.kind = aicf::Attribute::Kind::reals;
          out.value.fs = v;
        } else if constexpr (std::is_same_v<T, std::string>) {
          out = NamedAttribute(a.name, v.c_str());
          out.value.s = v;
        } else {
          out = NamedAttribute(a.name, v);
        }
      },
      a.value);
  return out;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, int opset)
    : impl_(new Impl{aicf::GraphBuilder(std::move(name), opset == 0 ? default_opset : opset), {}}) {}
GraphBuilder::~GraphBuilder() = default;

std::string GraphBuilder::input(const std::string& name, DType type, const std::vector<Dimension>& shape) {
  const std::string place = fmt::format("input '{}'", name);
  if (!is_valid(type)) impl_->note({aicf::ErrorKind::bad_input, "the element type is none", place});
  std::vector<Size> dims;
  for (const Dimension& d : shape) {
    const auto* number = std::get_if<std::int64_t>(&d.value);
    auto parsed = parse_dimension(number ? std::to_string(*number) : std::get<std::string>(d.value));
    if (parsed)
      dims.emplace_back(std::move(*parsed));
    else
      impl_->note({parsed.error().kind, parsed.error().message, place});
  }
  return impl_->graph.input(name, to_internal(type), dims);
}

std::string GraphBuilder::constant(const std::string& name, DType type, const Shape& shape,
                                   std::span<const std::byte> bytes) {
  const std::string place = fmt::format("constant '{}'", name);
  const auto elements = is_valid(type) ? checked_size(to_internal(type), shape)
                                       : aicf::Result<std::int64_t>(bad_input("the element type is none"));
  if (!elements) {
    impl_->note({elements.error().kind, elements.error().message, place});
  } else if (const std::size_t wanted = static_cast<std::size_t>(*elements) * size_of(type); bytes.size() != wanted) {
    impl_->note(
        {aicf::ErrorKind::bad_input, fmt::format("{} bytes given, the shape takes {}", bytes.size(), wanted), place});
  } else {
    Tensor tensor(to_internal(type), shape);
    if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
    impl_->graph.constant(name, std::move(tensor));
  }
  return name;
}

std::string GraphBuilder::add(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<Attribute>& attributes) {
  std::vector<NamedAttribute> named;
  for (const Attribute& a : attributes) named.push_back(to_internal(a));
  return impl_->graph.add(op, inputs, named);
}

void GraphBuilder::add(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes) {
  std::vector<NamedAttribute> named;
  for (const Attribute& a : attributes) named.push_back(to_internal(a));
  impl_->graph.add(op, inputs, outputs, named);
}

void GraphBuilder::output(const std::string& tensor) {
  impl_->graph.output(tensor);
}

Result<Model> GraphBuilder::build(const Sizes& sizes) const {
  return guarded([&]() -> aicf::Result<Model> {
    if (impl_->mistake) return std::unexpected(*impl_->mistake);
    AICF_TRY(aicf::Model model, canonicalise(impl_->graph.build(), ImportOptions{sizes}));
    return Model(std::make_shared<const ModelObject>(std::move(model)));
  });
}

// ---- Package -----------------------------------------------------------------------------------------------------

Result<Package> Package::load(const std::string& path) {
  return guarded([&]() -> aicf::Result<Package> {
    AICF_TRY(aicf::Package package, read_package(path));
    if (package.programs.empty()) return bad_input("holds no program", path);
    return Package(std::make_shared<const PackageObject>(std::move(package)));
  });
}

Result<void> Package::save(const std::string& path) const {
  return guarded([&] { return write_package(path, object()->package); });
}

std::string Package::name() const {
  return object()->package.model_name;
}
std::vector<std::string> Package::targets() const {
  std::vector<std::string> out;
  for (const Program& p : object()->package.programs) out.push_back(p.target);
  return out;
}
std::vector<TensorInfo> Package::inputs() const {
  return to_public(object()->package.programs[0].inputs);
}
std::vector<TensorInfo> Package::outputs() const {
  return outputs_of(object()->package.programs[0]);
}

std::vector<std::string> targets() {
  std::vector<std::string> out;
  for (const Backend* b : backends())
    for (const std::string& p : b->profiles()) out.push_back(p);
  return out;
}

Result<Package> compile(const Model& model, const std::vector<std::string>& targets, const CompileOptions& options) {
  return guarded([&]() -> aicf::Result<Package> {
    if (targets.empty()) return bad_input("a package needs a target");
    aicf::Package package{model.name(), {}};
    for (const std::string& name : targets) {
      AICF_TRY(const Target target, [&]() -> aicf::Result<Target> {
        if (name.find(':') == std::string::npos || name.starts_with("cuda-emulation")) return find_target(name);
        AICF_TRY(const auto device, open_device(name));
        const aicf::DeviceInfo& info = device->info();
        return target_of(name, info.driver, info.name, info.properties);
      }());
      AICF_TRY(Program program, compile_for(model.object()->model, target, options));
      package.programs.push_back(std::move(program));
    }
    return Package(std::make_shared<const PackageObject>(std::move(package)));
  });
}

Result<Package> compile(const Model& model, const Device& device, const CompileOptions& options) {
  std::map<std::string, std::string> refused;
  for (;;) {
    auto program =
        guarded([&] { return compile_for(model.object()->model, device.object()->target, options, refused); });
    if (!program) return std::unexpected(program.error());
    // A kernel that the device does not take gives way to the next best schedule.
    const auto taken = guarded_on(*device.object(), [&]() -> aicf::Result<bool> {
      std::size_t failed = 0;
      const auto loaded = device.object()->device->load_all(program->kernels, &failed);
      if (loaded) return true;
      if (loaded.error().kind != aicf::ErrorKind::refused) return std::unexpected(loaded.error());
      refused[program->kernels[failed].source] = loaded.error().text();
      return false;
    });
    if (!taken) return std::unexpected(taken.error());
    if (!*taken) continue;
    aicf::Package package{model.name(), {}};
    package.programs.push_back(std::move(*program));
    return Package(std::make_shared<const PackageObject>(std::move(package)));
  }
}

}  // namespace aicf::v0
