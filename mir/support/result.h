#pragma once

// Errors as values. A user's mistake is a `Diagnostic` with a place and a way out; a bug of AICF is `AICF_CHECK`, which
// prints and aborts (exit status 70 in the command).

#include <expected>
#include <string>
#include <utility>

namespace aicf {

/// What a failure means for the caller. The command maps kinds to exit statuses (1, 2, 3).
enum class ErrorKind {
  bad_input,    ///< The file, value or option is wrong: exit 2.
  unsupported,  ///< The input is valid, AICF cannot do it (named operator, missing device feature): exit 3.
  run_failure,  ///< The machine failed while running (out of memory, device lost, I/O): exit 1.
  refused,      ///< A driver does not take a kernel, the device still works: another schedule may do; else exit 1.
};

/// One message: lower case, one sentence; says what is wrong, where, and what to do when that is known.
struct Diagnostic {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
  std::string place;  ///< Where: "model.onnx: node 'MatMul_3'", "file.aicf:4:12"; empty when the message says it.

  /// "place: message", or the message alone.
  std::string text() const { return place.empty() ? message : place + ": " + message; }
};

template <class T>
using Result = std::expected<T, Diagnostic>;

inline std::unexpected<Diagnostic> fail(ErrorKind kind, std::string message, std::string place = {}) {
  return std::unexpected(Diagnostic{kind, std::move(message), std::move(place)});
}
inline std::unexpected<Diagnostic> bad_input(std::string message, std::string place = {}) {
  return fail(ErrorKind::bad_input, std::move(message), std::move(place));
}
inline std::unexpected<Diagnostic> unsupported(std::string message, std::string place = {}) {
  return fail(ErrorKind::unsupported, std::move(message), std::move(place));
}
inline std::unexpected<Diagnostic> run_failure(std::string message, std::string place = {}) {
  return fail(ErrorKind::run_failure, std::move(message), std::move(place));
}

/// Prints "aicf: bug: <message> (<file>:<line>)" and exits the process with status 70 after flushing; never returns.
[[noreturn]] void report_bug(const std::string& message, const char* file, int line);

}  // namespace aicf

#define AICF_CONCAT_(a, b) a##b
#define AICF_CONCAT(a, b) AICF_CONCAT_(a, b)

/// AICF_TRY(auto x, f()): declares x from the value of f() or returns its error.
#define AICF_TRY(declaration, ...) AICF_TRY_(AICF_CONCAT(aicf_result_, __LINE__), declaration, __VA_ARGS__)
#define AICF_TRY_(result, declaration, ...)                       \
  auto result = (__VA_ARGS__);                                    \
  if (!result) return std::unexpected(std::move(result).error()); \
  declaration = std::move(*result)

/// AICF_RETURN_IF_ERROR(f()): for Result<void>.
#define AICF_RETURN_IF_ERROR(...)                                                                               \
  do {                                                                                                          \
    if (auto aicf_status = (__VA_ARGS__); !aicf_status) return std::unexpected(std::move(aicf_status).error()); \
  } while (false)

/// An invariant of AICF itself. Never for user input.
#define AICF_CHECK(condition, message)                                                                   \
  do {                                                                                                   \
    if (!(condition))                                                                                    \
      ::aicf::report_bug(std::string("check failed: " #condition ": ") + (message), __FILE__, __LINE__); \
  } while (false)
#define AICF_BUG(message) ::aicf::report_bug((message), __FILE__, __LINE__)
