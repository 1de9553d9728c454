// Runs compiled thread programs: all threads of a workgroup in lockstep, workgroup after workgroup.
//
// Counts are per thread: a shuffle or a shared access by 32 active lanes counts 32; a vector access counts its elements
// once per access for shared memory and its bytes for global memory. A barrier counts once per workgroup.

// Tests interpret whole kernels in debug builds too.
#pragma GCC optimize("O2", "inline")

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "mir/kernel/interpret_code.h"
#include "mir/kernel/interpret_math.h"
#include "mir/kernel/interpret_memory.h"
#include "mir/kernel/thread_text.h"

namespace aicf {
namespace interpreter {
namespace {

struct LoopFrame {
  std::int32_t current = 0, end = 0, step = 1;
};

class Machine {
 public:
  Machine(const ThreadProgram& program, const Compiled& code, std::vector<GlobalBuffer>& buffers)
      : program_(program),
        code_(code),
        buffers_(buffers),
        shared_(program.shared),
        n_(program.subgroup_size * program.subgroups),
        floats_(static_cast<std::size_t>(code.float_slots) * n_),
        ints_(static_cast<std::size_t>(code.int_slots) * n_),
        defined_(code.variables.size() * n_),
        masks_(static_cast<std::size_t>(code.max_masks) * n_),
        loops_(code.loops.size()) {
    for (const auto& [slot, value] : code.float_constants) std::fill_n(f(slot), n_, value);
    for (const auto& [slot, value] : code.int_constants) std::fill_n(i(slot), n_, value);
    for (int t = 0; t < n_; ++t) {
      i(code.lane)[t] = t % program.subgroup_size;
      i(code.subgroup)[t] = t / program.subgroup_size;
    }
  }

  Result<void> run(std::int64_t workgroup);
  KernelCounts& counts() { return counts_; }

 private:
  float* f(std::uint32_t slot) { return floats_.data() + static_cast<std::size_t>(slot) * n_; }
  std::int32_t* i(std::uint32_t slot) { return ints_.data() + static_cast<std::size_t>(slot) * n_; }
  std::uint8_t* mask() { return masks_.data() + static_cast<std::size_t>(depth_) * n_; }

  std::unexpected<Diagnostic> fault(const Instruction& at, int thread, const std::string& what) const {
    return run_failure(fmt::format("workgroup {}, thread {} (subgroup {}, lane {}): {}, in '{}'", workgroup_, thread,
                                   thread / program_.subgroup_size, thread % program_.subgroup_size, what,
                                   statement_text(*code_.sites[at.site])),
                       fmt::format("kernel '{}'", program_.name));
  }

  int first_active() {
    const std::uint8_t* m = mask();
    for (int t = 0; t < n_; ++t) {
      if (m[t]) return t;
    }
    return -1;
  }

  bool push(const std::int32_t* condition, bool negated) {
    const std::uint8_t* outer = mask();
    ++depth_;
    std::uint8_t* inner = mask();
    std::uint8_t any = 0;
    for (int t = 0; t < n_; ++t) {
      inner[t] = outer[t] && (condition[t] != 0) != negated ? 1 : 0;
      any |= inner[t];
    }
    return any != 0;
  }

  /// The value that all active threads agree on.
  Result<std::int32_t> uniform(const Instruction& at, std::uint32_t slot, const char* what) {
    const int first = first_active();
    if (first < 0) return 0;
    const std::int32_t* values = i(slot);
    for (int t = first; t < n_; ++t) {
      if (mask()[t] && values[t] != values[first]) {
        return fault(at, t,
                     fmt::format("{} is not uniform: {} here, {} in thread {}", what, values[t], values[first], first));
      }
    }
    return values[first];
  }

  template <class T>
  void masked_copy(T* dst, const T* src) {
    const std::uint8_t* m = mask();
    for (int t = 0; t < n_; ++t) {
      if (m[t]) dst[t] = src[t];
    }
  }

  Result<void> global_access(const Instruction& at, const Access& access, bool load);
  Result<void> shared_access(const Instruction& at, const Access& access, bool load);
  Result<void> shuffle(const Instruction& at);
  Result<void> matrix_product(const Instruction& at);
  Result<std::size_t> control(const Instruction& at, std::size_t next);
  void fill_loaded(const Access& access, int thread);
  void put_loaded(const Access& access, std::size_t element, int thread, double value);

  const ThreadProgram& program_;
  const Compiled& code_;
  std::vector<GlobalBuffer>& buffers_;
  SharedMemory shared_;
  int n_;
  std::vector<float> floats_;
  std::vector<std::int32_t> ints_;
  std::vector<std::uint8_t> defined_;
  std::vector<std::uint8_t> masks_;
  int depth_ = 0;
  std::vector<LoopFrame> loops_;
  std::int64_t workgroup_ = 0;
  KernelCounts counts_;
};

void Machine::put_loaded(const Access& access, std::size_t element, int thread, double value) {
  const std::uint32_t slot = access.slots[element];
  if (access.floats) {
    f(slot)[thread] = static_cast<float>(value);
  } else {
    i(slot)[thread] = access.boolean ? value != 0 : static_cast<std::int32_t>(value);
  }
  if (access.defines[element] != no_slot) defined_[static_cast<std::size_t>(access.defines[element]) * n_ + thread] = 1;
}

void Machine::fill_loaded(const Access& access, int thread) {
  if (access.fill == no_slot) return;
  const double value = access.floats ? static_cast<double>(f(access.fill)[thread]) : i(access.fill)[thread];
  for (std::size_t e = 0; e < access.slots.size(); ++e) put_loaded(access, e, thread, value);
}

Result<void> Machine::global_access(const Instruction& at, const Access& access, bool load) {
  GlobalBuffer& buffer = buffers_[access.memory];
  const auto width = static_cast<std::int64_t>(access.slots.size());
  const std::int32_t* index = i(access.index);
  const std::uint8_t* m = mask();
  for (int t = 0; t < n_; ++t) {
    if (!m[t]) continue;
    if (access.predicate != no_slot && !i(access.predicate)[t]) {
      if (load) fill_loaded(access, t);
      continue;
    }
    if (auto wrong = buffer.check_range(index[t], width)) return fault(at, t, *wrong);
    const std::int64_t thread = workgroup_ * n_ + t;
    for (std::int64_t e = 0; e < width; ++e) {
      auto wrong = load ? buffer.note_read(index[t] + e, thread, n_) : buffer.note_write(index[t] + e, thread, n_);
      if (wrong) return fault(at, t, *wrong);
      const std::uint32_t slot = access.slots[static_cast<std::size_t>(e)];
      if (load) {
        put_loaded(access, static_cast<std::size_t>(e), t, buffer.read(index[t] + e));
      } else {
        buffer.write(index[t] + e, access.floats ? static_cast<double>(f(slot)[t]) : i(slot)[t]);
      }
    }
    (load ? buffer.read_elements : buffer.written_elements) += static_cast<std::uint64_t>(width);
  }
  return {};
}

Result<void> Machine::shared_access(const Instruction& at, const Access& access, bool load) {
  const auto width = static_cast<std::int64_t>(access.slots.size());
  const std::int32_t* index = i(access.index);
  const std::uint8_t* m = mask();
  for (int t = 0; t < n_; ++t) {
    if (!m[t]) continue;
    if (access.predicate != no_slot && !i(access.predicate)[t]) {
      if (load) fill_loaded(access, t);
      continue;
    }
    if (auto wrong = shared_.check_range(access.memory, index[t], width)) return fault(at, t, *wrong);
    for (std::int64_t e = 0; e < width; ++e) {
      const std::uint32_t slot = access.slots[static_cast<std::size_t>(e)];
      double value = 0;
      if (!load) value = access.floats ? static_cast<double>(f(slot)[t]) : i(slot)[t];
      auto wrong = load ? shared_.read(access.memory, index[t] + e, t, value)
                        : shared_.write(access.memory, index[t] + e, t, value);
      if (wrong) return fault(at, t, *wrong);
      if (load) put_loaded(access, static_cast<std::size_t>(e), t, value);
    }
    ++(load ? counts_.shared_loads : counts_.shared_stores);
  }
  return {};
}

Result<void> Machine::shuffle(const Instruction& at) {
  const int size = program_.subgroup_size;
  const bool exclusive = at.code == Code::shuffle_xor;
  const std::uint8_t* m = mask();
  for (int t = 0; t < n_; ++t) {
    if (!m[t]) continue;
    const int lane = exclusive ? (t % size) ^ static_cast<int>(at.target) : i(at.b)[t];
    if (lane < 0 || lane >= size) {
      return fault(at, t, fmt::format("a shuffle from lane {}, the subgroup has {}", lane, size));
    }
    const int source = t - t % size + lane;
    if (!m[source]) return fault(at, t, fmt::format("a shuffle from lane {}, which is not active here", lane));
    if (is_float(at.type)) {
      f(at.dst)[t] = f(at.a)[source];
    } else {
      i(at.dst)[t] = i(at.a)[source];
    }
    ++counts_.shuffles;
  }
  return {};
}

/// Index of the next instruction.
Result<void> Machine::matrix_product(const Instruction& at) {
  const int size = program_.subgroup_size;
  const std::uint8_t* m = mask();
  for (int first = 0; first < n_; first += size) {
    const auto active = std::count(m + first, m + first + size, std::uint8_t{1});
    if (active == 0) continue;
    if (active != size) {
      const int missing = static_cast<int>(std::find(m + first, m + first + size, std::uint8_t{0}) - m);
      return fault(at, missing, "a matrix product that this lane does not reach");
    }
    multiply(code_.products[at.a], floats_.data(), n_, first);
    ++counts_.multiplies;
  }
  return {};
}

Result<std::size_t> Machine::control(const Instruction& at, std::size_t next) {
  switch (at.code) {
    case Code::branch: {
      if (at.dst) {
        AICF_TRY(const std::int32_t taken, uniform(at, at.a, "a condition that is marked uniform"));
        return taken ? next : at.target;
      }
      if (push(i(at.a), false)) return next;
      --depth_;
      return at.target;
    }
    case Code::loop_begin: {
      const LoopBounds& bounds = code_.loops[at.a];
      LoopFrame& frame = loops_[at.a];
      AICF_TRY(frame.current, uniform(at, bounds.begin, "the begin of a loop"));
      AICF_TRY(frame.end, uniform(at, bounds.end, "the end of a loop"));
      AICF_TRY(frame.step, uniform(at, bounds.step, "the step of a loop"));
      if (first_active() < 0 || frame.current >= frame.end) return at.target;
      if (frame.step <= 0) return fault(at, first_active(), fmt::format("a loop with step {}", frame.step));
      std::fill_n(i(bounds.variable), n_, frame.current);
      return next;
    }
    default: {
      LoopFrame& frame = loops_[at.a];
      const std::int64_t following = static_cast<std::int64_t>(frame.current) + frame.step;
      if (following >= frame.end) return next;
      frame.current = static_cast<std::int32_t>(following);
      std::fill_n(i(code_.loops[at.a].variable), n_, frame.current);
      return at.target;
    }
  }
}

Result<void> Machine::run(std::int64_t workgroup) {
  workgroup_ = workgroup;
  depth_ = 0;
  std::fill_n(mask(), n_, std::uint8_t{1});
  std::fill_n(i(code_.workgroup), n_, static_cast<std::int32_t>(workgroup));
  if (!program_.shared.empty()) shared_.begin_workgroup();
  const Instruction* code = code_.code.data();
  const std::size_t count = code_.code.size();
  for (std::size_t pc = 0; pc < count;) {
    const Instruction& at = code[pc++];
    switch (at.code) {
      case Code::float_op:
        float_operation(at.op, n_, f(at.dst), f(at.a), f(at.b));
        break;
      case Code::float_compare:
        compare_floats(at.op, n_, i(at.dst), f(at.a), f(at.b));
        break;
      case Code::int_op: {
        const IntegerFault wrong = int_operation(at.op, n_, i(at.dst), i(at.a), i(at.b), mask());
        if (wrong.thread < 0) break;
        const std::int32_t a = i(at.a)[wrong.thread], b = i(at.b)[wrong.thread];
        return fault(at, wrong.thread,
                     wrong.division ? fmt::format("division of {} by zero", a)
                                    : fmt::format("{}({}, {}) overflows 32 bits", op_name(at.op), a, b));
      }
      case Code::int_wrap:
        wrap_ints(at.type, n_, i(at.dst), i(at.a));
        break;
      case Code::float_round:
        round_floats(at.type, n_, f(at.dst), f(at.a));
        break;
      case Code::float_to_int:
        floats_to_ints(at.type, n_, i(at.dst), f(at.a));
        break;
      case Code::int_to_float:
        std::copy_n(i(at.a), n_, f(at.dst));
        break;
      case Code::int_to_bool:
        std::transform(i(at.a), i(at.a) + n_, i(at.dst), [](auto x) { return x != 0; });
        break;
      case Code::select_float:
        for (int t = 0; t < n_; ++t) f(at.dst)[t] = i(at.c)[t] ? f(at.a)[t] : f(at.b)[t];
        break;
      case Code::select_int:
        for (int t = 0; t < n_; ++t) i(at.dst)[t] = i(at.c)[t] ? i(at.a)[t] : i(at.b)[t];
        break;
      case Code::copy_float:
        std::memmove(f(at.dst), f(at.a), sizeof(float) * n_);
        break;
      case Code::copy_int:
        std::memmove(i(at.dst), i(at.a), sizeof(std::int32_t) * n_);
        break;
      case Code::masked_copy_float:
        masked_copy(f(at.dst), f(at.a));
        break;
      case Code::masked_copy_int:
        masked_copy(i(at.dst), i(at.a));
        break;
      case Code::clear_defined:
        std::fill_n(&defined_[static_cast<std::size_t>(at.a) * n_], n_, std::uint8_t{0});
        break;
      case Code::mark_defined:
        for (int t = 0; t < n_; ++t) defined_[static_cast<std::size_t>(at.a) * n_ + t] |= mask()[t];
        break;
      case Code::check_defined:
        for (int t = 0; t < n_; ++t) {
          if (mask()[t] && !defined_[static_cast<std::size_t>(at.a) * n_ + t]) {
            return fault(at, t, fmt::format("'{}' is read before it is defined", code_.variables[at.a]));
          }
        }
        break;
      case Code::mask_and:
        push(i(at.a), false);
        break;
      case Code::mask_and_not:
        push(i(at.a), true);
        break;
      case Code::mask_pop:
        --depth_;
        break;
      case Code::branch:
      case Code::loop_begin:
      case Code::loop_end: {
        AICF_TRY(pc, control(at, pc));
        break;
      }
      case Code::load_global:
        AICF_RETURN_IF_ERROR(global_access(at, code_.accesses[at.a], true));
        break;
      case Code::store_global:
        AICF_RETURN_IF_ERROR(global_access(at, code_.accesses[at.a], false));
        break;
      case Code::load_shared:
        AICF_RETURN_IF_ERROR(shared_access(at, code_.accesses[at.a], true));
        break;
      case Code::store_shared:
        AICF_RETURN_IF_ERROR(shared_access(at, code_.accesses[at.a], false));
        break;
      case Code::shuffle:
      case Code::shuffle_xor:
        AICF_RETURN_IF_ERROR(shuffle(at));
        break;
      case Code::multiply:
        AICF_RETURN_IF_ERROR(matrix_product(at));
        break;
      case Code::barrier:
        for (int t = 0; t < n_; ++t) {
          if (!mask()[t]) return fault(at, t, "a barrier that this thread does not reach");
        }
        shared_.barrier();
        ++counts_.barriers;
        break;
    }
  }
  return {};
}

/// Binds the buffers of `io`, checking sizes; a written buffer that is absent is made, full of NaN (integers: 0).
Result<void> bind_buffers(const ThreadProgram& program, const Compiled& code, InterpreterInput& io,
                          std::vector<GlobalBuffer>& buffers) {
  const std::string place = fmt::format("kernel '{}'", program.name);
  buffers.resize(program.buffers.size());
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const KernelBuffer& buffer = program.buffers[b];
    std::int64_t elements = 1;
    for (const Expr& dim : buffer.shape) {
      AICF_TRY(const std::int64_t extent, evaluate_int(dim, io.symbols));
      elements *= extent;
    }
    auto found = io.buffers.find(buffer.name);
    if (found == io.buffers.end()) {
      if (!buffer.written) return bad_input(fmt::format("buffer '{}' has no values", buffer.name), place);
      const double initial = is_float(buffer.type) ? std::numeric_limits<double>::quiet_NaN() : 0;
      found = io.buffers.emplace(buffer.name, std::vector<double>(static_cast<std::size_t>(elements), initial)).first;
    }
    if (static_cast<std::int64_t>(found->second.size()) != elements) {
      return bad_input(
          fmt::format("buffer '{}' has {} values, its shape has {}", buffer.name, found->second.size(), elements),
          place);
    }
    if (!is_float(buffer.type)) {
      for (const double v : found->second) {
        if (v != static_cast<double>(static_cast<std::int32_t>(std::clamp(v, -2147483648.0, 2147483647.0)))) {
          return bad_input(fmt::format("buffer '{}': {} does not fit in 32 bits", buffer.name, v), place);
        }
      }
    }
    buffers[b].bind(buffer, found->second, code.stored[b]);
  }
  return {};
}

Result<KernelCounts> run_program(const ThreadProgram& program, const std::map<std::string, MatrixUnit>& units,
                                 InterpreterInput& io) {
  AICF_TRY(const Compiled code, compile(program, io.symbols, units));
  std::vector<GlobalBuffer> buffers;
  AICF_RETURN_IF_ERROR(bind_buffers(program, code, io, buffers));
  AICF_TRY(const std::int64_t workgroups, evaluate_int(program.workgroups, io.symbols));
  if (workgroups != static_cast<std::int32_t>(workgroups)) {
    return bad_input(fmt::format("{} workgroups do not fit in 32 bits", workgroups),
                     fmt::format("kernel '{}'", program.name));
  }
  Machine machine(program, code, buffers);
  for (std::int64_t w = 0; w < workgroups; ++w) AICF_RETURN_IF_ERROR(machine.run(w));
  KernelCounts counts = std::move(machine.counts());
  for (const GlobalBuffer& b : buffers) {
    const std::uint64_t bytes = device_size(b.buffer().type);
    counts.bytes_read[b.buffer().name] += b.read_elements * bytes;
    counts.bytes_written[b.buffer().name] += b.written_elements * bytes;
  }
  return counts;
}

}  // namespace
}  // namespace interpreter

Result<KernelCounts> interpret(const ThreadProgram& program, InterpreterInput& io) {
  using namespace interpreter;
  if (!has_opaque_matrices(program.body)) return run_program(program, {}, io);
  AICF_TRY(const LaidOut laid_out, lay_out(program, io.layout_seed));
  return run_program(laid_out.program, laid_out.units, io);
}

}  // namespace aicf
