#include "runtime/cuda_emulation/hot.h"
//
#include "runtime/cuda_emulation/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <mutex>
#include <numeric>

#include "runtime/cuda_emulation/fault_guard.h"

namespace aicf {

Machine* Machine::current_ = nullptr;

Machine::Machine(std::uint64_t seed) : rng_(seed * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL) {}

std::uint32_t Machine::random() {
  rng_ ^= rng_ << 13;
  rng_ ^= rng_ >> 7;
  rng_ ^= rng_ << 17;
  return static_cast<std::uint32_t>(rng_ >> 32);
}

const char* Machine::words(Operation operation) {
  switch (operation) {
    case Operation::none:
      return "nothing";
    case Operation::barrier:
      return "aicf_barrier";
    case Operation::shuffle:
      return "a shuffle";
    case Operation::vote:
      return "a vote";
    case Operation::warp_sync:
      return "aicf_warp_sync";
    case Operation::ldmatrix:
      return "aicf_ldmatrix";
    case Operation::mma:
      return "aicf_mma";
  }
  return "";
}

// ---- errors ------------------------------------------------------------------------------------------------------

void Machine::end_launch(int line, std::string&& message) {
  {
    std::string_view text;
    if (line > 0) {
      text = *plan_->source;
      for (int i = 1; i < line && !text.empty(); ++i)
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
      text = text.substr(0, text.find('\n'));
      while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    }
    error_ = fmt::format("{}workgroup {}, thread {}: {}",
                         line > 0 ? fmt::format("line {} `{}`, ", line, text.substr(0, 160)) : "", state_->workgroup,
                         state_->thread, message);
    std::string().swap(message);  // Assigning an empty text would keep the memory.
  }
  // Nothing on this stack is destroyed any more, so nothing on it may own memory here.
  FiberContext abandoned;
  switch_fiber(abandoned, host_);
  AICF_BUG("an abandoned emulated thread was resumed");
}

void Machine::refuse_padding(int line) {
  if (padding_) {
    raise(line, [&] {
      return fmt::format(
          "the launch has only {} workgroups; the kernel must return at once where aicf_workgroup() is "
          "not below its last parameter",
          plan_->workgroups);
    });
  }
}

bool Machine::take_fault(int signal, const void* address, const void* instruction, void (*&landing)(), void*& stack) {
  Machine* machine = current_;
  if (!machine) return false;
  if (machine->stacks_.overflowed(address) >= 0) {
    machine->fault_ = "the thread needs more stack than emulation has for its registers and arrays (256 KiB)";
  } else {
    Dl_info fault{}, kernel{};
    dladdr(machine->state_, &kernel);
    if (!dladdr(instruction, &fault) || fault.dli_fbase != kernel.dli_fbase) return false;
    machine->fault_ = signal == SIGFPE
                          ? "integer division by zero"
                          : "memory is touched without an intrinsic (a pointer is dereferenced or subscripted)";
  }
  landing = &Machine::fault_landing;
  stack = machine->landing_stack_.top(0);
  return true;
}

/// Runs in place of the faulting thread, on a stack of its own.
void Machine::fault_landing() {
  current_->raise(0, [] { return std::string(current_->fault_); });
}

/// No thread can go on: name two that wait for different things.
void Machine::deadlock() {
  int first = -1;
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    if (threads_[t].waits_at == Operation::none) continue;
    if (first < 0) first = static_cast<int>(t);
    const Thread& a = threads_[static_cast<std::size_t>(first)];
    const Thread& b = threads_[t];
    if (a.waits_at != b.waits_at || a.line != b.line) {
      raise(a.line, [&] {
        return fmt::format("threads wait for each other: thread {} at {} (line {}), thread {} at {} (line {})", first,
                           words(a.waits_at), a.line, t, words(b.waits_at), b.line);
      });
    }
  }
  raise(0, [] { return std::string("threads wait for each other"); });
}

// ---- scheduling --------------------------------------------------------------------------------------------------

void Machine::enter(int thread) {
  current_thread_ = thread;
  const AicfWord subgroup = static_cast<AicfWord>(thread) / 32;
  AicfState& state = *state_;
  state.thread = thread;
  state.stamp = make_stamp(epoch_, subgroup, static_cast<AicfWord>(thread) % 32, subgroups_[subgroup].epoch);
  state.stamp_lanes = make_stamp(epoch_, subgroup, kSeveral, subgroups_[subgroup].epoch);
}

/// The next thread to run, taken off its ready set; −1 when there is none.
int Machine::pick() {
  if (!ready_subgroups_) return -1;
  int chosen = current_thread_ / 32;
  if (!(ready_subgroups_ >> chosen & 1)) {
    const int turn = static_cast<int>(random() % 32);
    chosen = (std::countr_zero(std::rotr(ready_subgroups_, turn)) + turn) % 32;
  }
  Subgroup& subgroup = subgroups_[static_cast<std::size_t>(chosen)];
  const int lane = (std::countr_zero(std::rotr(subgroup.ready, subgroup.rotation)) + subgroup.rotation) % 32;
  subgroup.ready &= ~(1u << lane);
  if (!subgroup.ready) ready_subgroups_ &= ~(1u << chosen);
  return chosen * 32 + lane;
}

/// Lets another thread run; returns when this one is resumed.
void Machine::suspend() {
  const int self = current_thread_;
  const int next = pick();
  if (next < 0) deadlock();
  enter(next);
  if (next != self) {
    switch_fiber(threads_[static_cast<std::size_t>(self)].context, threads_[static_cast<std::size_t>(next)].context);
  }
  threads_[static_cast<std::size_t>(self)].waits_at = Operation::none;
}

void Machine::fiber_main() {
  fiber_entered();
  Machine& machine = *current_;
  machine.plan_->kernel->run(machine.words_.data());
  machine.leave();
  AICF_BUG("an emulated thread that has left was resumed");
}

/// The running thread has returned from the kernel.
void Machine::leave() {
  const int self = current_thread_;
  Subgroup& subgroup = subgroups_[static_cast<std::size_t>(self / 32)];
  if (at_barrier_ > 0) {
    raise(barrier_line_, [&] {
      return fmt::format("the thread left the kernel while thread {} waits at aicf_barrier (line {})", barrier_thread_,
                         barrier_line_);
    });
  }
  if (subgroup.arrived) {
    raise(subgroup.line, [&] {
      return fmt::format("the thread left the kernel while thread {} waits at {} (line {})",
                         self / 32 * 32 + std::countr_zero(subgroup.arrived), words(subgroup.operation), subgroup.line);
    });
  }
  subgroup.left |= 1u << (self % 32);
  ++left_;
  const int next = pick();
  FiberContext abandoned;
  if (next < 0) {
    if (left_ < plan_->threads) deadlock();
    switch_fiber(abandoned, host_);
  }
  enter(next);
  switch_fiber(abandoned, threads_[static_cast<std::size_t>(next)].context);
}

void Machine::begin_epoch() {
  ++epoch_;
  AICF_CHECK(epoch_ < 0xfffffff0U, "the emulator's barrier epochs are used up");
  state_->epoch_low = epoch_ << 32;
  state_->stamp_groups = make_stamp(epoch_, kSeveral, kSeveral, 0);
}

void Machine::barrier(int line) {
  refuse_padding(line);
  const int self = current_thread_;
  if (left_ > 0) {
    int gone = 0;
    while (!(subgroups_[static_cast<std::size_t>(gone / 32)].left >> (gone % 32) & 1)) ++gone;
    raise(line,
          [&] { return fmt::format("aicf_barrier is reached though thread {} has already left the kernel", gone); });
  }
  if (at_barrier_ == 0) {
    barrier_line_ = line;
    barrier_thread_ = self;
  } else if (barrier_line_ != line) {
    raise(line, [&] {
      return fmt::format(
          "divergent barrier: thread {} waits at the aicf_barrier of line {}, this one reached that of "
          "line {}",
          barrier_thread_, barrier_line_, line);
    });
  }
  Thread& thread = threads_[static_cast<std::size_t>(self)];
  thread.waits_at = Operation::barrier;
  thread.line = line;
  if (++at_barrier_ == plan_->threads) {
    at_barrier_ = 0;
    ++barriers_;
    begin_epoch();
    if (traced_) trace_.converge_all();
    const std::uint32_t turn = random();
    for (std::size_t s = 0; s < subgroups_.size(); ++s) {
      subgroups_[s].ready = subgroups_[s].members;
      subgroups_[s].rotation = static_cast<int>((turn >> (s % 8)) % 32);
    }
    ready_subgroups_ = subgroups_.size() == 32 ? ~0u : (1u << subgroups_.size()) - 1;
    // Start elsewhere than where the barrier completed.
    current_thread_ = static_cast<int>(random() % static_cast<unsigned>(plan_->threads));
    const int next = pick();
    enter(next);
    if (next != self) {
      switch_fiber(thread.context, threads_[static_cast<std::size_t>(next)].context);
    }
    thread.waits_at = Operation::none;
    return;
  }
  suspend();
}

/// Waits until every lane of the subgroup has arrived at the same operation; the last one completes it. `whole`: the
/// subgroup must have 32 lanes.
void Machine::meet(Operation operation, int line, bool whole) {
  refuse_padding(line);
  const int self = current_thread_;
  Subgroup& subgroup = subgroups_[static_cast<std::size_t>(self / 32)];
  const std::uint32_t bit = 1u << (self % 32);
  if (subgroup.left) {
    raise(line, [&] {
      return fmt::format("{} is reached though lane {} of its subgroup has already left the kernel", words(operation),
                         std::countr_zero(subgroup.left));
    });
  }
  if (whole && subgroup.members != ~0u) {
    raise(line, [&] {
      return fmt::format("{} needs all 32 lanes and this subgroup has {}", words(operation),
                         std::popcount(subgroup.members));
    });
  }
  if (!subgroup.arrived) {
    subgroup.operation = operation;
    subgroup.line = line;
  } else if (subgroup.operation != operation || subgroup.line != line) {
    raise(line, [&] {
      return fmt::format("divergent subgroup: lane {} waits at {} (line {}), this one reached {} (line {})",
                         std::countr_zero(subgroup.arrived), words(subgroup.operation), subgroup.line, words(operation),
                         line);
    });
  }
  subgroup.arrived |= bit;
  if (subgroup.arrived != subgroup.members) {
    Thread& thread = threads_[static_cast<std::size_t>(self)];
    thread.waits_at = operation;
    thread.line = line;
    suspend();
    return;
  }
  complete(subgroup);
  subgroup.arrived = 0;
  subgroup.ready = subgroup.members & ~bit;
  if (subgroup.ready) ready_subgroups_ |= 1u << (self / 32);
  if (traced_) trace_.converge(self / 32);
  enter(self);  // Its subgroup epoch may have changed.
  if (random() % 8 == 0) {
    // Now and then let others overtake: another lane first, or another subgroup altogether.
    subgroup.rotation = static_cast<int>(random() % 32);
    subgroup.ready |= bit;
    ready_subgroups_ |= 1u << (self / 32);
    const int elsewhere = static_cast<int>(random() % static_cast<unsigned>(plan_->threads));
    current_thread_ = elsewhere;
    const int next = pick();
    enter(next);
    if (next != self) {
      switch_fiber(threads_[static_cast<std::size_t>(self)].context, threads_[static_cast<std::size_t>(next)].context);
    }
  }
}

// ---- launch ------------------------------------------------------------------------------------------------------

/// With `fast` false every access goes through the functions, which check, count and trace it.
void Machine::set_limits(bool fast) {
  AicfState& state = *state_;
  for (std::size_t i = 0; i < plan_->arguments.size(); ++i) {
    const LaunchArgument& argument = plan_->arguments[i];
    state.arguments[i].read_limit = fast && !argument.tracked ? argument.size : 0;
    state.arguments[i].write_limit = fast && argument.written ? argument.size : 0;
  }
  state.shared_limit = fast ? plan_->shared_bytes : 0;
}

void Machine::install_functions(AicfState& state) {
  state.global_read = [](AicfWord address, int size, int line) {
    return current_->global_access(address, size, line, false, size, size);
  };
  state.global_write = [](AicfWord address, int size, int line) {
    return current_->global_access(address, size, line, true, size, size);
  };
  state.shared_read = [](AicfWord address, int size, int line) {
    return current_->shared_access(address, size, line, false);
  };
  state.shared_write = [](AicfWord address, int size, int line) {
    return current_->shared_access(address, size, line, true);
  };
  state.barrier = [](int line) { current_->barrier(line); };
  state.warp_sync = [](int line) { current_->meet(Operation::warp_sync, line, false); };
  state.copy_async = [](AicfWord shared, AicfWord global, int size, int bytes, int line) {
    current_->copy_async(shared, global, size, bytes, line);
  };
  state.copy_commit = [] { ++current_->threads_[static_cast<std::size_t>(current_->current_thread_)].commits; };
  state.copy_wait = [](int groups) { current_->copy_wait(groups); };
  state.shuffle = [](unsigned value, int lane, int line) { return current_->shuffle(value, lane, line); };
  state.vote = [](int predicate, int line) { return current_->vote(predicate, line); };
  state.ldmatrix = [](AicfWord address, int tiles, int transposed, unsigned* result, int line) {
    current_->ldmatrix(address, tiles, transposed != 0, result, line);
  };
  state.mma = [](float* c, const unsigned* ab, int bf16, int line) { current_->mma(c, ab, bf16 != 0, line); };
}

void Machine::run_workgroup(std::uint64_t workgroup, bool traced) {
  const int threads = plan_->threads;
  begin_epoch();
  state_->workgroup = static_cast<int>(workgroup);
  state_->block_low = state_->epoch_low;
  if (traced || traced_ || padding_) set_limits(!traced && !padding_);
  traced_ = traced;
  if (traced) trace_.begin(threads);
  at_barrier_ = left_ = 0;
  for (std::size_t s = 0; s < subgroups_.size(); ++s) {
    Subgroup& subgroup = subgroups_[s];
    const int lanes = std::min(32, threads - static_cast<int>(s) * 32);
    subgroup.members = lanes == 32 ? ~0u : (1u << lanes) - 1;
    subgroup.ready = subgroup.members;
    subgroup.arrived = subgroup.left = 0;
    subgroup.epoch = 0;
    subgroup.rotation = static_cast<int>(random() % 32);
  }
  ready_subgroups_ = subgroups_.size() == 32 ? ~0u : (1u << subgroups_.size()) - 1;
  for (int t = 0; t < threads; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    thread.waits_at = Operation::none;
    thread.commits = 0;
    stacks_.prepare(thread.context, t, &Machine::fiber_main);
  }
  current_thread_ = static_cast<int>(random() % static_cast<unsigned>(threads));
  const int first = pick();
  enter(first);
  switch_fiber(host_, threads_[static_cast<std::size_t>(first)].context);
  drop_copies();
  if (traced && error_.empty()) trace_.converge_all();
}

Result<void> Machine::run(const LaunchPlan& plan, LaunchCounters& counters) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (!stacks_.reserve(plan.threads) || !landing_stack_.reserve(1) || !shared_shadow_.reserve(1 << 18)) {
    return run_failure(fmt::format("not enough memory for {} emulated threads", plan.threads), plan.name);
  }
  prepare_host(host_);
  current_ = this;
  plan_ = &plan;
  state_ = &plan.kernel->state();
  *state_ = {};
  install_functions(*state_);
  threads_.resize(static_cast<std::size_t>(plan.threads));
  subgroups_.resize(static_cast<std::size_t>(plan.threads + 31) / 32);
  copies_.resize(static_cast<std::size_t>(plan.threads));
  shared_.resize(plan.shared_bytes);
  state_->shared = shared_.data();
  state_->shared_stamps = shared_shadow_.words();
  words_.clear();
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    AicfArgument& argument = state_->arguments[i];
    argument.base = plan.arguments[i].bytes;
    argument.stamps = plan.arguments[i].words;
    words_.push_back((static_cast<AicfWord>(i) << kAicfArgumentShift) + kAicfArgumentMiddle);
  }
  for (const std::int32_t parameter : plan.parameters) words_.push_back(static_cast<AicfWord>(parameter));
  barriers_ = shuffles_ = matrix_operations_ = copied_bytes_ = 0;
  trace_.reset();
  error_.clear();
  begin_epoch();  // An epoch of no workgroup.
  state_->launch_low = state_->epoch_low;
  traced_ = padding_ = false;
  set_limits(true);

  // Workgroups in the order start + i·step mod count, step prime to count.
  const std::uint64_t count = plan.workgroups;
  const std::uint64_t traced = std::min<std::uint64_t>(static_cast<std::uint64_t>(plan.traced_workgroups), count);
  std::uint64_t step = count > 2 ? random() % count | 1 : 1;
  while (std::gcd(step, count) != 1) step += 2;
  const std::uint64_t start = random() % std::max<std::uint64_t>(count, 1);
  {
    FaultGuard guard;
    for (std::uint64_t i = 0; i < count && error_.empty(); ++i) {
      const std::uint64_t workgroup = (start + i * step) % count;
      // Evenly spread: the workgroups where workgroup·traced/count steps.
      const bool trace_this = traced && (workgroup * traced) / count != ((workgroup + 1) * traced) / count;
      run_workgroup(workgroup, trace_this);
    }
    if (error_.empty()) {
      padding_ = true;
      run_workgroup(count, false);
    }
  }
  current_ = nullptr;
  if (!error_.empty()) {
    shared_shadow_.clear();
    return run_failure(error_, fmt::format("kernel '{}'", plan.name));
  }

  counters = {};
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    counters.bytes_read.push_back(state_->arguments[i].bytes_read);
    counters.bytes_written.push_back(state_->arguments[i].bytes_written);
  }
  auto& events = counters.events;
  events["workgroups"] = count;
  events["barriers"] = barriers_;
  events["shuffles"] = shuffles_;
  events["matrix_operations"] = matrix_operations_;
  events["async_copy_bytes"] = copied_bytes_;
  if (traced) {
    const auto scaled = [&](std::uint64_t n) { return (n * count + traced / 2) / traced; };
    const AccessTotals &loads = trace_.totals(AccessKind::global_load),
                       &stores = trace_.totals(AccessKind::global_store);
    const AccessTotals &reads = trace_.totals(AccessKind::shared_load),
                       &writes = trace_.totals(AccessKind::shared_store);
    events["traced_workgroups"] = traced;
    events["global_load_requests"] = scaled(loads.requests);
    events["global_load_sectors"] = scaled(loads.units);
    events["global_store_requests"] = scaled(stores.requests);
    events["global_store_sectors"] = scaled(stores.units);
    events["global_transactions"] = scaled(loads.units + stores.units);
    events["shared_load_wavefronts"] = scaled(reads.units);
    events["shared_store_wavefronts"] = scaled(writes.units);
    events["shared_bank_conflicts"] = scaled(reads.units + writes.units - reads.least_units - writes.least_units);
  }
  return {};
}

}  // namespace aicf
