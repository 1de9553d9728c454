#include "runtime/cuda_emulation/fault_guard.h"

#if defined(__x86_64__)
#include <ucontext.h>
#endif

#include <memory>

#include "runtime/cuda_emulation/machine.h"

namespace aicf {
namespace {

constexpr std::size_t kAlternateStack = 64 * 1024;

void on_fault(int number, siginfo_t* info, void* context) {
#if defined(__x86_64__)
  // The thread continues at the landing once this handler returns, in no signal handler's context. A kernel's code
  // holds no locks and no allocator state, so that the thread can simply be dropped there.
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  void (*landing)() = nullptr;
  void* stack = nullptr;
  if (Machine::take_fault(number, info->si_addr, reinterpret_cast<const void*>(registers[REG_RIP]), landing, stack)) {
    registers[REG_RIP] = reinterpret_cast<greg_t>(landing);
    registers[REG_RSP] = reinterpret_cast<greg_t>(stack);
    return;
  }
#else
  static_cast<void>(info);
  static_cast<void>(context);
#endif
  // Not a fault of a kernel: it happens again, with its usual meaning.
  std::signal(number, SIG_DFL);
}

}  // namespace

FaultGuard::FaultGuard() {
  static const std::unique_ptr<char[]> memory(new char[kAlternateStack]);
  stack_t stack{};
  stack.ss_sp = memory.get();
  stack.ss_size = kAlternateStack;
  sigaltstack(&stack, &old_stack_);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &old_segv_);
  sigaction(SIGBUS, &action, &old_bus_);
  sigaction(SIGFPE, &action, &old_fpe_);
}

FaultGuard::~FaultGuard() {
  sigaction(SIGSEGV, &old_segv_, nullptr);
  sigaction(SIGBUS, &old_bus_, nullptr);
  sigaction(SIGFPE, &old_fpe_, nullptr);
  sigaltstack(&old_stack_, nullptr);
}

}  // namespace aicf
