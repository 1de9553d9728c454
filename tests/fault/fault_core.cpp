#include "tests/fault/fault_core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace aicf::fault {
namespace {

constexpr long every = -1;

struct State {
  std::mutex mutex;
  long calls = 0, armed = 0, choice = 0;
  std::string function;  ///< only calls of this name count towards `armed`; "" = all
  long of_function = 0;
  bool has_result = false;
  int result = 0;
  std::string fired, hide, alive_text;
  std::map<std::string, long> alive;
  bool report = false;

  State() {
    const char* text = std::getenv("AICF_FAULT");
    if (!text || !*text) return;
    report = true;
    std::string spec = text;
    if (const auto equals = spec.find('='); equals != std::string::npos) {
      has_result = true;
      result = std::atoi(spec.c_str() + equals + 1);
      spec.resize(equals);
    }
    armed = 1;
    if (const auto number = spec.find('#'); number != std::string::npos) {
      armed = spec.substr(number + 1) == "*" ? every : std::atol(spec.c_str() + number + 1);
      spec.resize(number);
    }
    if (spec.find_first_not_of("0123456789") == std::string::npos) {
      armed = std::atol(spec.c_str());
    } else {
      function = spec;
    }
  }
  ~State() {
    if (report)
      std::fprintf(stderr, "fault layer: %ld calls, failed %s, alive: %s\n", calls,
                   fired.empty() ? "none" : fired.c_str(), aicf_fault_alive());
  }
};

State& state() {
  static State s;
  return s;
}

}  // namespace

bool fails(const char* function, std::span<const int> codes, int& result) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  ++s.calls;
  if (!s.function.empty() && s.function != function) return false;
  if (++s.of_function != s.armed && s.armed != every) return false;
  s.fired = function;
  result = s.has_result ? s.result : codes[std::min<std::size_t>(s.choice, codes.size() - 1)];
  return true;
}

void made(const char* kind) {
  std::lock_guard lock(state().mutex);
  ++state().alive[kind];
}
void freed(const char* kind) {
  std::lock_guard lock(state().mutex);
  --state().alive[kind];
}
void freed_all(std::span<const char* const> kinds) {
  std::lock_guard lock(state().mutex);
  for (const char* kind : kinds) state().alive.erase(kind);
}
bool hidden(const char* function) {
  return state().hide == function;
}

}  // namespace aicf::fault

using aicf::fault::state;

extern "C" {

void aicf_fault_arm(long call, long choice) {
  std::lock_guard lock(state().mutex);
  state().armed = call;
  state().choice = choice;
  state().calls = state().of_function = 0;
  state().fired.clear();
}

void aicf_fault_hide(const char* function) {
  state().hide = function ? function : "";
}

long aicf_fault_calls() {
  return state().calls;
}

const char* aicf_fault_fired() {
  return state().fired.empty() ? nullptr : state().fired.c_str();
}

const char* aicf_fault_alive() {
  auto& s = state();
  s.alive_text.clear();
  for (const auto& [kind, count] : s.alive)
    if (count != 0) s.alive_text += (s.alive_text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return s.alive_text.c_str();
}
}
