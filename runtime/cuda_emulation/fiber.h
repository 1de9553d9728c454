#pragma once

// Stackful coroutines, one per emulated thread. Switching saves callee-saved registers only (about 2 ns); signal masks
// and floating-point modes are shared by all fibers.

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace aicf {

/// Where a suspended fiber (or the host thread) continues.
struct FiberContext {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
#if defined(__SANITIZE_ADDRESS__)
  const void* stack_bottom = nullptr;  ///< The sanitizer has to know on which stack the code runs.
  std::size_t stack_size = 0;
#endif
};

/// Stacks for a workgroup's threads, allocated once and reused; untouched pages cost nothing.
class FiberStacks {
 public:
  static constexpr std::size_t kStackBytes = 256 * 1024;

  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  /// Makes room for `count` stacks. False when memory is short.
  bool reserve(int count);
  /// Sets `context` to start `entry` on stack `index`. `entry` must never return. Whatever ran there before is dropped.
  void prepare(FiberContext& context, int index, void (*entry)());
  /// A value for the stack pointer at the entry of a function that takes over stack `index`.
  void* top(int index) const;
  /// Index of the stack whose guard page holds `address`; −1 when none does.
  int overflowed(const void* address) const;

 private:
  unsigned char* base_ = nullptr;
  int count_ = 0;
};

/// Suspends the caller into `from` and continues `to`.
#if defined(__SANITIZE_ADDRESS__)
void switch_fiber(FiberContext& from, FiberContext& to);
#elif defined(__x86_64__)
extern "C" void aicf_fiber_switch(void** from, void* to);
inline void switch_fiber(FiberContext& from, FiberContext& to) {
  aicf_fiber_switch(&from.stack_pointer, to.stack_pointer);
}
#else
inline void switch_fiber(FiberContext& from, FiberContext& to) {
  swapcontext(&from.context, &to.context);
}
#endif

/// To be called first in a fiber's entry.
void fiber_entered();
/// Makes `context` one that stands for the calling thread's own stack; to be called before switching away from it.
void prepare_host(FiberContext& context);

}  // namespace aicf
