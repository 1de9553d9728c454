#pragma once

// A process that a signal ends leaves nothing behind: what would outlive it (temporary files, children) is undone first.

#include <functional>
#include <list>
#include <mutex>

namespace aicf {

/// SIGINT, SIGTERM and SIGHUP end the process with exit status 128 + the signal's number after every OnInterrupt has run,
/// the latest first. To be called at the start of main, before any thread; signals that the parent ignores stay ignored.
void end_cleanly_on_signals();

/// No signal ends the process while this lives. Held from making a file or child until its OnInterrupt stands, and at the
/// end of main, so that a process that is being ended reports nothing else.
class NoInterrupt {
 public:
  NoInterrupt();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Undoes something when a signal ends the process; does nothing when it goes out of scope. `undo` runs on a thread of its
/// own while all others may be anywhere, so it touches only what it owns and what the system guards.
class OnInterrupt {
 public:
  OnInterrupt() = default;
  explicit OnInterrupt(std::function<void()> undo);
  OnInterrupt(OnInterrupt&& other) noexcept;
  OnInterrupt& operator=(OnInterrupt&& other) noexcept;
  ~OnInterrupt();

 private:
  void forget();
  std::list<std::function<void()>>::iterator place_;
  bool stands_ = false;
};

}  // namespace aicf
