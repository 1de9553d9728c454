#include "runtime/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// System V: rbx, rbp and r12-r15 belong to the caller, everything else is dead across a call.
asm(R"(
.text
.p2align 4
.globl aicf_fiber_switch
.hidden aicf_fiber_switch
.type aicf_fiber_switch, @function
aicf_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size aicf_fiber_switch, .-aicf_fiber_switch
)");
#endif

namespace aicf {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kSpan = FiberStacks::kStackBytes + kGuardBytes;

/// Bytes left unused at the top of stack `index`: the hot ends of the stacks would otherwise share a few cache sets.
std::size_t stagger(int index) {
  return static_cast<std::size_t>(index % 61) * 64;
}

}  // namespace

FiberStacks::~FiberStacks() {
  if (base_) munmap(base_, static_cast<std::size_t>(count_) * kSpan);
}

bool FiberStacks::reserve(int count) {
  if (count <= count_) return true;
  void* memory = mmap(nullptr, static_cast<std::size_t>(count) * kSpan, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (base_) munmap(base_, static_cast<std::size_t>(count_) * kSpan);
  base_ = static_cast<unsigned char*>(memory);
  count_ = count;
  for (int i = 0; i < count; ++i) mprotect(base_ + static_cast<std::size_t>(i) * kSpan, kGuardBytes, PROT_NONE);
  return true;
}

void FiberStacks::prepare(FiberContext& context, int index, void (*entry)()) {
  unsigned char* bottom = base_ + static_cast<std::size_t>(index) * kSpan + kGuardBytes;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(bottom, kStackBytes);
  context.stack_bottom = bottom;
  context.stack_size = kStackBytes;
#endif
#if defined(__x86_64__)
  auto* top = reinterpret_cast<std::uint64_t*>(bottom + kStackBytes - stagger(index));
  // At the entry of a function the stack is 8 off a multiple of 16: one slot for a return address that is never used.
  *--top = 0;
  *--top = reinterpret_cast<std::uint64_t>(entry);
  for (int i = 0; i < 6; ++i) *--top = 0;
  context.stack_pointer = top;
#else
  getcontext(&context.context);
  context.context.uc_stack.ss_sp = bottom;
  context.context.uc_stack.ss_size = kStackBytes - stagger(index);
  context.context.uc_link = nullptr;
  makecontext(&context.context, entry, 0);
#endif
}

void* FiberStacks::top(int index) const {
  unsigned char* end = base_ + static_cast<std::size_t>(index + 1) * kSpan;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(end - kStackBytes, kStackBytes);
#endif
  return end - 8;
}

int FiberStacks::overflowed(const void* address) const {
  const auto* byte = static_cast<const unsigned char*>(address);
  if (!base_ || byte < base_ || byte >= base_ + static_cast<std::size_t>(count_) * kSpan) return -1;
  const auto offset = static_cast<std::size_t>(byte - base_);
  return offset % kSpan < kGuardBytes ? static_cast<int>(offset / kSpan) : -1;
}

#if defined(__SANITIZE_ADDRESS__)
#if defined(__x86_64__)
extern "C" void aicf_fiber_switch(void** from, void* to);
#endif

void switch_fiber(FiberContext& from, FiberContext& to) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack_bottom, to.stack_size);
#if defined(__x86_64__)
  aicf_fiber_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void fiber_entered() {
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
}

void prepare_host(FiberContext& context) {
  pthread_attr_t attributes;
  void* bottom = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  pthread_attr_getstack(&attributes, &bottom, &context.stack_size);
  context.stack_bottom = bottom;
  pthread_attr_destroy(&attributes);
}
#else
void fiber_entered() {}
void prepare_host(FiberContext&) {}
#endif

}  // namespace aicf
