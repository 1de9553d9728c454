#pragma once

// Turns faults of emulated threads (an address used without an intrinsic, a stack overflow, an integer division by
// zero) into errors of the launch while it is alive. Faults of anything else keep their meaning.

#include <csignal>

namespace aicf {

class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

 private:
  struct sigaction old_segv_, old_bus_, old_fpe_;
  stack_t old_stack_;
};

}  // namespace aicf
