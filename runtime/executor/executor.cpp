#include "runtime/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <optional>

namespace aicf {

Result<std::vector<std::byte>> to_device(const std::string& name, const Tensor& t) {
  const DType storage = device_storage(t.type());
  if (storage == t.type()) return std::vector<std::byte>(t.bytes().begin(), t.bytes().end());
  std::vector<std::byte> out(static_cast<std::size_t>(t.size()) * device_size(t.type()));
  if (storage == DType::f32) {
    auto* to = reinterpret_cast<float*>(out.data());
    for (std::int64_t i = 0; i < t.size(); ++i) to[i] = static_cast<float>(t.at(i));
    return out;
  }
  AICF_CHECK(storage == DType::i32, "unknown device storage");
  auto* to = reinterpret_cast<std::int32_t*>(out.data());
  for (std::int64_t i = 0; i < t.size(); ++i) {
    std::int64_t v = t.int_at(i);
    if (v > std::numeric_limits<std::int32_t>::max()) {
      if (v == std::numeric_limits<std::int64_t>::max())
        v = std::numeric_limits<std::int32_t>::max();
      else
        return bad_input(fmt::format("element {} of '{}' is {}, devices hold integers of 32 bits", i, name, v));
    }
    if (v < std::numeric_limits<std::int32_t>::min()) {
      if (v == std::numeric_limits<std::int64_t>::min())
        v = std::numeric_limits<std::int32_t>::min();
      else
        return bad_input(fmt::format("element {} of '{}' is {}, devices hold integers of 32 bits", i, name, v));
    }
    to[i] = static_cast<std::int32_t>(v);
  }
  return out;
}

Tensor from_device(DType type, std::vector<std::int64_t> shape, std::span<const std::byte> bytes) {
  Tensor t(type, std::move(shape));
  const DType storage = device_storage(type);
  if (storage == type) {
    std::memcpy(t.mutable_bytes().data(), bytes.data(), bytes.size());
  } else if (storage == DType::f32) {
    const auto* from = reinterpret_cast<const float*>(bytes.data());
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, from[i]);
  } else {
    const auto* from = reinterpret_cast<const std::int32_t*>(bytes.data());
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, from[i]);
  }
  return t;
}

namespace {

/// `f()`, which needs host memory for a tensor.
auto with_memory(const std::string& tensor, std::size_t bytes, const auto& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return run_failure(fmt::format("no host memory for '{}', {} bytes", tensor, bytes));
  }
}

/// The number of "sm_80"; 0 for anything else.
int architecture(const std::string& target) {
  int number = 0;
  if (target.starts_with("sm_")) std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return number;
}

Result<void> fits(Device& device, const Program& program) {
  const DeviceInfo& info = device.info();
  if (program.driver != info.driver) return unsupported(fmt::format("it is for the driver '{}'", program.driver));
  if (auto cc = info.properties.find("compute_capability"); info.driver == "cuda" && cc != info.properties.end()) {
    const int wanted = architecture(program.target);
    if (wanted / 10 != cc->second / 10 || wanted > cc->second)
      return unsupported(fmt::format("its kernels do not run on sm_{}", cc->second));
  }
  for (const KernelBinary& k : program.kernels) AICF_RETURN_IF_ERROR(device.fits(k));
  return {};
}

/// Kernels that read or write a buffer see all of it, up to the device's limit. Said before anything is allocated.
Result<void> check_range(const Device& device, const Program& program, std::size_t buffer, std::uint64_t bytes) {
  const auto& properties = device.info().properties;
  const auto most = properties.find("max_buffer_range");
  const bool is_seen = most == properties.end() || bytes <= static_cast<std::uint64_t>(most->second);
  const std::uint64_t elements = bytes / device_size(program.buffers[buffer].type);
  if (is_seen && elements <= most_elements) return {};
  const auto binds = [&](const Launch& l) { return std::ranges::count(l.buffers, static_cast<int>(buffer)) > 0; };
  const auto launch = std::ranges::find_if(program.launches, binds);
  if (launch == program.launches.end()) return {};
  if (is_seen)
    return unsupported(
        fmt::format("tensor '{}' has {} elements, and kernels count them in 32 bits: at most {}; smaller "
                    "sizes, or fusion where it is an intermediate, help",
                    program.buffers[buffer].name, elements, most_elements),
        launch->region);
  return unsupported(
      fmt::format("tensor '{}' has {} bytes, and a kernel of {} sees at most {} bytes of one; smaller sizes, fusion "
                  "where it is an intermediate, or another device help",
                  program.buffers[buffer].name, bytes, device.info().name, most->second),
      launch->region);
}

}  // namespace

std::string held(const Package& package) {
  std::string out;
  for (const Program& p : package.programs)
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", p.target, p.driver);
  return out;
}

Result<std::vector<const Program*>> fitting_programs(Device& device, const Package& package, const std::string& own) {
  std::vector<const Program*> out;
  std::string why_not;
  for (const Program& p : package.programs) {
    if (auto fit = fits(device, p)) {
      out.push_back(&p);
    } else {
      why_not += fmt::format("; {}: {}", p.target, fit.error().message);
    }
  }
  if (out.empty())
    return unsupported(
        fmt::format("the package holds {}, none for '{}'{}", held(package), device.info().name, why_not));
  std::ranges::stable_partition(out, [&](const Program* p) { return p->target == own; });
  return out;
}

struct Executor::Impl {
  Device& device;
  const Program& program;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  std::vector<std::unique_ptr<DeviceBuffer>> constants;  ///< per program constant
  std::unique_ptr<DeviceBuffer> arena;
  std::vector<std::unique_ptr<DeviceBuffer>>
      buffers;  ///< inputs and outputs of run() from the host, per program buffer

  /// What the symbols decide.
  struct Sizes {
    MemoryPlan memory;
    std::vector<std::vector<std::int64_t>> shapes;  ///< per program buffer
    std::vector<std::size_t> bytes;
  };
  Result<Sizes> sizes(const std::map<std::string, std::int64_t>& symbols, const RunOptions& options) const;
  /// The program's constraints; `input` gives the values of an input of that name, or nothing where it is not given.
  Result<void> check(const std::map<std::string, std::int64_t>& symbols,
                     const std::function<Result<std::optional<Tensor>>(const std::string&)>& input) const;
  /// `buffers`: memory of the program's inputs and outputs; other entries are ignored.
  Result<RunResult> launch(const std::vector<BufferSlice>& buffers, const Sizes& sizes,
                           const std::map<std::string, std::int64_t>& symbols, const RunOptions& options);
  /// Copies within the device, through the host: only for outputs that are handed through.
  Result<void> copy(const BufferSlice& from, const BufferSlice& to);
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(Device& device, const Program& program, std::size_t* failed_kernel) {
  auto impl = std::unique_ptr<Impl>(new Impl{device, program, {}, {}, {}, {}});
  AICF_TRY(impl->kernels, device.load_all(program.kernels, failed_kernel));
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    auto named = std::ranges::find(program.buffers, static_cast<std::int64_t>(i), &BufferPlan::constant);
    std::string name = named == program.buffers.end() ? fmt::format("constant {}", i) : named->name;
    if (named != program.buffers.end())
      AICF_RETURN_IF_ERROR(check_range(device, program, static_cast<std::size_t>(named - program.buffers.begin()),
                                       program.constants[i].size() * device_size(program.constants[i].type())));
    AICF_TRY(std::vector<std::byte> bytes, to_device(name, program.constants[i]));
    AICF_TRY(auto buffer, device.allocate(bytes.size()));
    AICF_RETURN_IF_ERROR(device.upload(*buffer, 0, bytes));
    impl->constants.push_back(std::move(buffer));
  }
  impl->buffers.resize(program.buffers.size());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Result<Executor::Impl::Sizes> Executor::Impl::sizes(const std::map<std::string, std::int64_t>& symbols,
                                                    const RunOptions& options) const {
  Sizes out;
  AICF_TRY(out.memory, plan_memory(program, symbols, arena_alignment(device), options.max_memory));
  out.shapes.resize(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    std::size_t bytes = device_size(program.buffers[i].type);
    for (const Expr& d : program.buffers[i].shape) {
      AICF_TRY(std::int64_t v, evaluate_int(d, symbols));
      out.shapes[i].push_back(v);
      bytes *= static_cast<std::size_t>(v);
    }
    AICF_RETURN_IF_ERROR(check_range(device, program, i, bytes));
    out.bytes.push_back(bytes);
  }
  return out;
}

Result<void> Executor::Impl::check(
    const std::map<std::string, std::int64_t>& symbols,
    const std::function<Result<std::optional<Tensor>>(const std::string&)>& input) const {
  AICF_RETURN_IF_ERROR(check_shapes(program.constraints, symbols));
  for (const IndexConstraint& c : program.indices) {
    AICF_TRY(const std::int64_t size, evaluate_int(c.size, symbols));
    AICF_TRY(const std::optional<Tensor> given, input(c.input));
    if (!given || !is_integer(given->type())) continue;  // said where inputs are bound
    for (std::int64_t k = 0; k < given->size(); ++k) AICF_RETURN_IF_ERROR(check_index(c, size, given->int_at(k), k));
  }
  for (const InputConstraint& c : program.must_be_false) {
    AICF_TRY(const std::optional<Tensor> given, input(c.input));
    if (given && given->type() == DType::boolean && given->size() == 1 && given->int_at(0) != 0) return refusal(c);
  }
  return {};
}

Result<RunResult> Executor::Impl::launch(const std::vector<BufferSlice>& bound, const Sizes& sizes,
                                         const std::map<std::string, std::int64_t>& symbols,
                                         const RunOptions& options) {
  RunResult out;
  out.memory = sizes.memory;
  if (!arena || arena->size() < out.memory.arena) {
    arena.reset();
    AICF_TRY(arena, device.allocate(out.memory.arena));
  }
  std::vector<Dispatch> dispatches;
  std::vector<std::size_t> launch_of;
  for (std::size_t l = 0; l < program.launches.size(); ++l) {
    const Launch& launch = program.launches[l];
    if (launch.guard) {
      AICF_TRY(std::int64_t live, evaluate_int(launch.guard, symbols));
      if (live == 0) continue;
    }
    Dispatch d;
    d.kernel = kernels[launch.kernel].get();
    for (int id : launch.buffers) {
      const BufferPlan& b = program.buffers[id];
      switch (b.kind) {
        case BufferPlan::Kind::constant:
          d.buffers.push_back({constants[b.constant].get(), 0, sizes.bytes[id]});
          break;
        case BufferPlan::Kind::intermediate:
          d.buffers.push_back({arena.get(), out.memory.offsets[id], sizes.bytes[id]});
          break;
        default:
          d.buffers.push_back(bound[id]);
          break;
      }
    }
    for (const Expr& p : launch.parameters) {
      AICF_TRY(std::int64_t v, evaluate_int(p, symbols));
      d.parameters.push_back(static_cast<std::int32_t>(v));
    }
    AICF_TRY(std::int64_t workgroups, evaluate_int(launch.workgroups, symbols));
    d.workgroups = static_cast<std::uint64_t>(std::max<std::int64_t>(0, workgroups));
    dispatches.push_back(std::move(d));
    launch_of.push_back(l);
  }
  std::vector<DispatchTiming> timings;
  std::vector<DispatchCounters> counters;
  auto start = std::chrono::steady_clock::now();
  AICF_RETURN_IF_ERROR(device.run(dispatches, options.timings ? &timings : nullptr, &counters));
  out.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const Launch& launch = program.launches[launch_of[i]];
    LaunchRecord r{launch.region, program.kernels[launch.kernel].name, 0, dispatches[i].workgroups, {}};
    if (i < timings.size()) r.milliseconds = timings[i].milliseconds;
    if (i < counters.size()) r.counters = counters[i];
    out.launches.push_back(std::move(r));
  }
  return out;
}

Result<void> Executor::Impl::copy(const BufferSlice& from, const BufferSlice& to) {
  std::vector<std::byte> bytes(to.size);
  AICF_RETURN_IF_ERROR(device.download(*from.buffer, from.offset, bytes));
  return device.upload(*to.buffer, to.offset, bytes);
}

Result<RunResult> Executor::run(const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                                const RunOptions& options) {
  Impl& m = *impl_;
  const Program& program = m.program;
  AICF_RETURN_IF_ERROR(m.check(symbols, [&](const std::string& name) -> Result<std::optional<Tensor>> {
    const auto given = inputs.find(name);
    return given == inputs.end() ? std::nullopt : std::optional(given->second);
  }));
  AICF_TRY(const Impl::Sizes sizes, m.sizes(symbols, options));
  std::vector<BufferSlice> bound(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& b = program.buffers[i];
    if (b.kind != BufferPlan::Kind::input && b.kind != BufferPlan::Kind::output) continue;
    if (!m.buffers[i] || m.buffers[i]->size() != sizes.bytes[i]) {
      m.buffers[i].reset();
      AICF_TRY(m.buffers[i], m.device.allocate(sizes.bytes[i]));
    }
    bound[i] = {m.buffers[i].get(), 0, sizes.bytes[i]};
    if (b.kind != BufferPlan::Kind::input) continue;
    auto given = inputs.find(b.name);
    if (given == inputs.end()) return bad_input(fmt::format("input '{}' is missing", b.name));
    if (given->second.type() != b.type)
      return bad_input(
          fmt::format("input '{}' is {}, the model takes {}", b.name, name(given->second.type()), name(b.type)));
    if (given->second.shape() != sizes.shapes[i])
      return bad_input(fmt::format("input '{}' has the shape {}, the model takes {}", b.name,
                                   dims_text(given->second.shape()), dims_text(sizes.shapes[i])));
    AICF_TRY(const std::vector<std::byte> bytes,
             with_memory(b.name, sizes.bytes[i], [&] { return to_device(b.name, given->second); }));
    AICF_RETURN_IF_ERROR(m.device.upload(*m.buffers[i], 0, bytes));
  }
  AICF_TRY(RunResult out, m.launch(bound, sizes, symbols, options));
  for (const ProgramOutput& o : program.outputs) {
    const BufferPlan& b = program.buffers[o.buffer];
    if (b.kind == BufferPlan::Kind::constant) {
      out.outputs[o.name] = program.constants[b.constant];
      continue;
    }
    const std::size_t size = sizes.bytes[o.buffer];
    AICF_TRY(out.outputs[o.name], with_memory(o.name, size, [&]() -> Result<Tensor> {
               std::vector<std::byte> bytes(size);
               AICF_RETURN_IF_ERROR(m.device.download(*bound[o.buffer].buffer, 0, bytes));
               return from_device(b.type, sizes.shapes[o.buffer], bytes);
             }));
  }
  return out;
}

Result<RunResult> Executor::run(const Bindings& bindings, const std::map<std::string, std::int64_t>& symbols,
                                const RunOptions& options) {
  Impl& m = *impl_;
  const Program& program = m.program;
  AICF_RETURN_IF_ERROR(m.check(symbols, [&](const std::string& name) -> Result<std::optional<Tensor>> {
    const auto given = bindings.inputs.find(name);
    const auto input = std::ranges::find(program.inputs, name, &Signature::name);
    if (given == bindings.inputs.end() || input == program.inputs.end()) return std::nullopt;
    std::vector<std::byte> bytes(given->second.size);
    AICF_RETURN_IF_ERROR(m.device.download(*given->second.buffer, given->second.offset, bytes));
    return from_device(input->type, {static_cast<std::int64_t>(bytes.size() / device_size(input->type))}, bytes);
  }));
  AICF_TRY(const Impl::Sizes sizes, m.sizes(symbols, options));
  const auto find = [&](const std::map<std::string, BufferSlice>& given, const char* what, const std::string& name,
                        std::size_t buffer) -> Result<BufferSlice> {
    const auto it = given.find(name);
    if (it == given.end() || !it->second.buffer) return bad_input(fmt::format("{} '{}' is not bound", what, name));
    if (it->second.size != sizes.bytes[buffer])
      return bad_input(fmt::format("{} '{}' is bound to {} bytes, its shape {} takes {}", what, name, it->second.size,
                                   dims_text(sizes.shapes[buffer]), sizes.bytes[buffer]));
    return it->second;
  };
  std::vector<BufferSlice> bound(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].kind == BufferPlan::Kind::input) {
      AICF_TRY(bound[i], find(bindings.inputs, "input", program.buffers[i].name, i));
    }
  std::vector<BufferSlice> outputs;
  for (const ProgramOutput& o : program.outputs) {
    AICF_TRY(const BufferSlice slice, find(bindings.outputs, "output", o.name, o.buffer));
    outputs.push_back(slice);
    // The first name of a buffer is where kernels write it; other names get copies.
    if (program.buffers[o.buffer].kind == BufferPlan::Kind::output && !bound[o.buffer].buffer) bound[o.buffer] = slice;
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const auto overlaps = [&](const BufferSlice& other) {
      return other.buffer == outputs[k].buffer && other.offset < outputs[k].offset + outputs[k].size &&
             outputs[k].offset < other.offset + other.size;
    };
    for (const auto& [name, slice] : bindings.inputs)
      if (overlaps(slice))
        return bad_input(fmt::format("output '{}' shares memory with the input '{}'", program.outputs[k].name, name));
    for (std::size_t j = 0; j < k; ++j)
      if (overlaps(outputs[j]))
        return bad_input(fmt::format("output '{}' shares memory with the output '{}'", program.outputs[k].name,
                                     program.outputs[j].name));
  }
  AICF_TRY(RunResult out, m.launch(bound, sizes, symbols, options));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const int id = program.outputs[k].buffer;
    const BufferPlan& b = program.buffers[id];
    BufferSlice from = bound[id];
    if (b.kind == BufferPlan::Kind::constant) from = {m.constants[b.constant].get(), 0, sizes.bytes[id]};
    if (from.buffer != outputs[k].buffer || from.offset != outputs[k].offset)
      AICF_RETURN_IF_ERROR(m.copy(from, outputs[k]));
  }
  return out;
}

}  // namespace aicf
