#include "tools/aicf/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "mir/support/interrupt.h"

namespace aicf::command {

namespace {

using Clock = std::chrono::steady_clock;

/// The line and the thread that rewrites it.
class Line {
 public:
  void start() {
    if (std::exchange(shown_, true)) return;
    clearing_ = OnInterrupt([this] {
      ended_ = true;
      clear();
    });
    std::thread([this] { run(); }).detach();  // ends with the process
  }
  void begin(const std::string& text) {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    text_ = text;
    since_ = Clock::now();
    changed_.notify_one();
  }
  void change(const std::string& text) {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    text_ = text;
  }
  void end() {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    text_.clear();
    if (std::exchange(drawn_, false)) clear();
  }

 private:
  static void write_all(const std::string& text) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  static void clear() { write_all("\r\x1b[K"); }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (text_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto age = Clock::now() - since_;
      if (age >= std::chrono::milliseconds(300) && !ended_) draw(std::chrono::duration_cast<std::chrono::seconds>(age));
      changed_.wait_for(lock, std::chrono::milliseconds(200));
    }
  }

  void draw(std::chrono::seconds age) {
    struct winsize size {};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    std::string text = age.count() > 0 ? fmt::format("{}, {} s", text_, age.count()) : text_;
    // A wrapped line would not be rewritten but repeated. Bytes, so other alphabets are cut earlier than need be.
    text.resize(std::min<std::size_t>(text.size(), known ? size.ws_col - 1u : 79u));
    write_all("\r\x1b[K" + text);
    drawn_ = true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  Clock::time_point since_;
  bool shown_ = false, drawn_ = false;
  std::atomic<bool> ended_ = false;
  OnInterrupt clearing_;
};

Line& line() {
  static auto* line = new Line;  // never destroyed: its thread lives as long as the process
  return *line;
}

}  // namespace

void show_progress() {
  line().start();
}

Phase::Phase(const std::string& what) : what_(what) {
  line().begin(what_);
}

Phase::~Phase() {
  line().end();
}

void Phase::at(const std::string& detail, int done, int total) {
  line().change(total > 0  ? fmt::format("{}: {} {} of {}", what_, detail, done, total)
                : done > 0 ? fmt::format("{}: {} {}", what_, detail, done)
                           : fmt::format("{}: {}", what_, detail));
}

}  // namespace aicf::command
