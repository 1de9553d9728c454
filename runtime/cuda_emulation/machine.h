#pragma once

// Runs emulated kernels: one fiber per thread of a workgroup, workgroups one after the other in a varied order.
// Everything a GPU would forgive or answer with garbage is an error: see docs at each check in machine.cpp and
// memory.cpp.
//
// Scheduling is adversarial: which subgroup and lane goes on after a barrier or subgroup operation varies with the
// seed, and asynchronous copies arrive at the last legal moment.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/support/dtype.h"
#include "mir/support/result.h"
#include "runtime/cuda_emulation/access_trace.h"
#include "runtime/cuda_emulation/fiber.h"
#include "runtime/cuda_emulation/host_compiler.h"
#include "runtime/cuda_emulation/shadow.h"

namespace aicf {

/// One pointer parameter of a launch.
struct LaunchArgument {
  std::string name;
  DType type = DType::f32;
  bool written = false;  ///< May be stored to.
  bool tracked = false;  ///< Something in this launch writes memory it overlaps: loads are recorded too.
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
  AicfStamps* words = nullptr;  ///< Stamps from the first byte on; set when tracked.
  AicfStamps* halves = nullptr;
};

struct LaunchPlan {
  const HostKernel* kernel = nullptr;
  std::string name;
  const std::string* source = nullptr;  ///< For the line in messages.
  std::vector<LaunchArgument> arguments;
  std::vector<std::int32_t> parameters;  ///< The number of workgroups included, last.
  std::uint64_t workgroups = 1;
  int threads = 1;
  std::size_t shared_bytes = 0;
  int traced_workgroups = 0;  ///< How many workgroups are traced for sectors and bank conflicts (evenly spread).
};

struct LaunchCounters {
  std::vector<std::uint64_t> bytes_read, bytes_written;
  std::map<std::string, std::uint64_t> events;
};

class Machine {
 public:
  explicit Machine(std::uint64_t seed);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Runs a launch. Errors: run_failure naming kernel, source line, workgroup and thread. Launches of a process take
  /// turns.
  Result<void> run(const LaunchPlan& plan, LaunchCounters& counters);

  /// From a signal handler. True when the fault came from a kernel's code: then execution has to continue at `landing`
  /// with the stack pointer `stack`, which ends the launch. False when the fault is somebody else's.
  static bool take_fault(int signal, const void* address, const void* instruction, void (*&landing)(), void*& stack);

 private:
  enum class Operation : std::uint8_t { none, barrier, shuffle, vote, warp_sync, ldmatrix, mma };
  static const char* words(Operation operation);

  struct Lane {
    unsigned in[8];  ///< Posted by the lane: value and source, or packed A, B.
    float c[4];
    unsigned out[4];  ///< Valid once the operation is complete.
  };
  struct Subgroup {
    std::uint32_t members = 0, arrived = 0, left = 0, ready = 0;
    Operation operation = Operation::none;
    int line = 0;
    AicfWord epoch = 0;  ///< aicf_warp_sync
    int rotation = 0;    ///< Lanes are resumed from here on.
    Lane lanes[32];
  };
  struct Thread {
    FiberContext context;
    Operation waits_at = Operation::none;
    int line = 0;
    int commits = 0;  ///< Groups of asynchronous copies closed so far.
  };
  struct Copy {
    AicfWord target;  ///< Offset in shared memory.
    const unsigned char* source;
    int size, bytes, thread, group, line;
  };

  // ---- scheduling (machine.cpp) ----
  void run_workgroup(std::uint64_t workgroup, bool traced);
  static void fiber_main();
  void leave();
  [[noreturn]] void resume_next_forever();
  void suspend();
  int pick();
  void enter(int thread);
  void barrier(int line);
  void meet(Operation operation, int line, bool whole);
  void complete(Subgroup& subgroup);
  void begin_epoch();
  [[noreturn]] void deadlock();
  void set_limits(bool fast);
  void install_functions(AicfState& state);
  std::uint32_t random();

  // ---- subgroup operations (subgroup.cpp) ----
  unsigned shuffle(unsigned value, int lane, int line);
  int vote(int predicate, int line);
  void ldmatrix(AicfWord address, int tiles, bool transposed, unsigned* result, int line);
  void mma(float* c, const unsigned* ab, bool bf16, int line);
  static void multiply(Subgroup& subgroup, bool bf16);

  // ---- memory (memory.cpp) ----
  unsigned char* global_access(AicfWord address, int size, int line, bool write, int counted_bytes, int alignment);
  unsigned char* shared_access(AicfWord address, int size, int line, bool write);
  void copy_async(AicfWord shared, AicfWord global, int size, int bytes, int line);
  void copy_wait(int groups);
  void drop_copies();
  void trace(AccessKind kind, AicfWord address, int size, int line);
  std::string shared_place(AicfWord offset) const;
  std::string conflict_words(const Conflict& conflict, Space space, bool write) const;

  // ---- errors (machine.cpp) ----
  /// Ends the launch with "kernel 'k' (line 7: `text`), workgroup 3, thread 5: message"; called on a fiber, whose stack
  /// is abandoned: `message()` makes the text, so that no temporary of it is left behind.
  template <class Message>
  [[noreturn]] void raise(int line, const Message& message) {
    end_launch(line, message());
  }
  [[noreturn]] void end_launch(int line, std::string&& message);
  void refuse_padding(int line);
  static void fault_landing();

  static Machine* current_;  ///< The machine that runs now; launches hold a lock.

  FiberStacks stacks_;
  FiberStacks landing_stack_;  ///< For fault_landing: the faulting thread's own may be full.
  FiberContext host_;
  const LaunchPlan* plan_ = nullptr;
  AicfState* state_ = nullptr;
  std::vector<AicfWord> words_;
  std::vector<Thread> threads_;
  std::vector<Subgroup> subgroups_;
  std::uint32_t ready_subgroups_ = 0;
  int current_thread_ = 0;
  int at_barrier_ = 0, left_ = 0, barrier_line_ = 0, barrier_thread_ = 0;
  AicfWord epoch_ = 1;    ///< Barrier epoch; counts up over the machine's life.
  bool padding_ = false;  ///< The workgroup is one past the last.
  bool traced_ = false;
  std::string error_;
  const char* fault_ = "";

  std::vector<unsigned char> shared_;
  ShadowMemory shared_shadow_;
  std::vector<std::vector<Copy>> copies_;  ///< Per thread, oldest first.
  std::size_t pending_copies_ = 0;
  AccessTrace trace_;
  std::uint64_t rng_;
  std::uint64_t barriers_ = 0, shuffles_ = 0, matrix_operations_ = 0, copied_bytes_ = 0;
};

}  // namespace aicf
