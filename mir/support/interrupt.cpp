#include "mir/support/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <ranges>
#include <thread>
#include <utility>

namespace aicf {
namespace {

std::recursive_mutex& guard() {
  static auto* mutex = new std::recursive_mutex;  // never destroyed: the watcher outlives static objects
  return *mutex;
}
std::list<std::function<void()>>& undo_list() {
  static auto* list = new std::list<std::function<void()>>;
  return *list;
}

[[noreturn]] void watch(sigset_t signals) {
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  guard().lock();  // for good: whoever else wants it waits for the end
  for (const auto& undo : std::views::reverse(undo_list())) undo();
  _exit(128 + number);
}

}  // namespace

void end_cleanly_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    if (sigaction(number, nullptr, &present) == 0 && present.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // every later thread inherits the mask
  std::thread(watch, signals).detach();
}

NoInterrupt::NoInterrupt() : lock_(guard()) {}

OnInterrupt::OnInterrupt(std::function<void()> undo) : stands_(true) {
  const std::lock_guard lock(guard());
  place_ = undo_list().insert(undo_list().end(), std::move(undo));
}

OnInterrupt::OnInterrupt(OnInterrupt&& other) noexcept
    : place_(other.place_), stands_(std::exchange(other.stands_, false)) {}

OnInterrupt& OnInterrupt::operator=(OnInterrupt&& other) noexcept {
  forget();
  place_ = other.place_;
  stands_ = std::exchange(other.stands_, false);
  return *this;
}

OnInterrupt::~OnInterrupt() {
  forget();
}

void OnInterrupt::forget() {
  if (!stands_) return;
  const std::lock_guard lock(guard());
  undo_list().erase(place_);
  stands_ = false;
}

}  // namespace aicf
