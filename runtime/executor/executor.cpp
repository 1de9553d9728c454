#include "runtime/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace aicf {

namespace {

// Host layout → device storage: integers and booleans are 32-bit words, f64 is f32.
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

}  // namespace

struct Executor::Impl {
  Device& device;
  const Program& program;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  std::vector<std::unique_ptr<DeviceBuffer>> constants;  ///< per program constant
  std::unique_ptr<DeviceBuffer> arena;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;  ///< inputs and outputs, per program buffer
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(Device& device, const Program& program, std::size_t* failed_kernel) {
  auto impl = std::unique_ptr<Impl>(new Impl{device, program, {}, {}, {}, {}});
  AICF_TRY(impl->kernels, device.load_all(program.kernels, failed_kernel));
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    auto named = std::ranges::find(program.buffers, static_cast<std::int64_t>(i), &BufferPlan::constant);
    std::string name = named == program.buffers.end() ? fmt::format("constant {}", i) : named->name;
    AICF_TRY(std::vector<std::byte> bytes, to_device(name, program.constants[i]));
    AICF_TRY(auto buffer, device.allocate(bytes.size()));
    AICF_RETURN_IF_ERROR(device.upload(*buffer, 0, bytes));
    impl->constants.push_back(std::move(buffer));
  }
  impl->buffers.resize(program.buffers.size());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Result<RunResult> Executor::run(const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                                const RunOptions& options) {
  Impl& m = *impl_;
  const Program& program = m.program;
  RunResult out;
  AICF_RETURN_IF_ERROR(check_shapes(program.constraints, symbols));
  for (const IndexConstraint& c : program.indices) {
    AICF_TRY(const std::int64_t size, evaluate_int(c.size, symbols));
    const auto given = inputs.find(c.input);
    if (given == inputs.end() || !is_integer(given->second.type())) continue;  // said below
    for (std::int64_t k = 0; k < given->second.size(); ++k) {
      AICF_RETURN_IF_ERROR(check_index(c, size, given->second.int_at(k), k));
    }
  }
  for (const InputConstraint& c : program.must_be_false) {
    const auto given = inputs.find(c.input);
    if (given != inputs.end() && given->second.type() == DType::boolean && given->second.size() == 1 &&
        given->second.int_at(0) != 0) {
      return refusal(c);
    }
  }
  AICF_TRY(out.memory, plan_memory(program, symbols, arena_alignment(m.device), options.max_memory));
  std::vector<std::vector<std::int64_t>> shapes(program.buffers.size());
  std::vector<std::size_t> sizes(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    std::size_t bytes = device_size(program.buffers[i].type);
    for (const Expr& d : program.buffers[i].shape) {
      AICF_TRY(std::int64_t v, evaluate_int(d, symbols));
      shapes[i].push_back(v);
      bytes *= static_cast<std::size_t>(v);
    }
    sizes[i] = bytes;
  }
  if (!m.arena || m.arena->size() < out.memory.arena) {
    m.arena.reset();
    AICF_TRY(m.arena, m.device.allocate(out.memory.arena));
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& b = program.buffers[i];
    if (b.kind != BufferPlan::Kind::input && b.kind != BufferPlan::Kind::output) continue;
    if (!m.buffers[i] || m.buffers[i]->size() != sizes[i]) {
      m.buffers[i].reset();
      AICF_TRY(m.buffers[i], m.device.allocate(sizes[i]));
    }
    if (b.kind != BufferPlan::Kind::input) continue;
    auto given = inputs.find(b.name);
    if (given == inputs.end()) return bad_input(fmt::format("input '{}' is missing", b.name));
    if (given->second.type() != b.type)
      return bad_input(
          fmt::format("input '{}' is {}, the model takes {}", b.name, name(given->second.type()), name(b.type)));
    if (given->second.shape() != shapes[i])
      return bad_input(fmt::format("input '{}' has the shape [{}], the model takes [{}]", b.name,
                                   fmt::join(given->second.shape(), ", "), fmt::join(shapes[i], ", ")));
    AICF_TRY(std::vector<std::byte> bytes, to_device(b.name, given->second));
    AICF_RETURN_IF_ERROR(m.device.upload(*m.buffers[i], 0, bytes));
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
    d.kernel = m.kernels[launch.kernel].get();
    for (int id : launch.buffers) {
      const BufferPlan& b = program.buffers[id];
      switch (b.kind) {
        case BufferPlan::Kind::constant:
          d.buffers.push_back({m.constants[b.constant].get(), 0, sizes[id]});
          break;
        case BufferPlan::Kind::intermediate:
          d.buffers.push_back({m.arena.get(), out.memory.offsets[id], sizes[id]});
          break;
        default:
          d.buffers.push_back({m.buffers[id].get(), 0, sizes[id]});
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
  AICF_RETURN_IF_ERROR(m.device.run(dispatches, options.timings ? &timings : nullptr, &counters));
  out.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const Launch& launch = program.launches[launch_of[i]];
    LaunchRecord r{launch.region, program.kernels[launch.kernel].name, 0, dispatches[i].workgroups, {}};
    if (i < timings.size()) r.milliseconds = timings[i].milliseconds;
    if (i < counters.size()) r.counters = counters[i];
    out.launches.push_back(std::move(r));
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& b = program.buffers[i];
    if (b.kind != BufferPlan::Kind::output) continue;
    std::vector<std::byte> bytes(sizes[i]);
    AICF_RETURN_IF_ERROR(m.device.download(*m.buffers[i], 0, bytes));
    out.outputs[b.name] = from_device(b.type, shapes[i], bytes);
  }
  return out;
}

}  // namespace aicf
