#pragma once

// What tests of the public interface share. They include nothing of AICF but its installed headers.

#include <aicf/aicf.h>
#include <gmock/gmock.h>

#include <aicf/aicf.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

/// Declares a name with the value of a result, or fails the test.
#define API_TRY(declaration, ...) API_TRY_(API_CONCAT(api_result_, __LINE__), declaration, __VA_ARGS__)
#define API_TRY_(result, declaration, ...)                  \
  auto result = (__VA_ARGS__);                              \
  ASSERT_TRUE(result.has_value()) << result.error().text(); \
  declaration = std::move(*result)
#define API_CONCAT(a, b) API_CONCAT_(a, b)
#define API_CONCAT_(a, b) a##b

namespace aicf::testing {

inline const std::string software_device = "vulkan:llvmpipe";

/// The result is an error of that kind whose text has that part.
template <class T>
::testing::AssertionResult fails(const Result<T>& result, ErrorKind kind, const std::string& part) {
  if (result) return ::testing::AssertionFailure() << "no error, wanted one with '" << part << "'";
  if (result.error().kind != kind || result.error().text().find(part) == std::string::npos)
    return ::testing::AssertionFailure() << "kind " << static_cast<int>(result.error().kind) << ": "
                                         << result.error().text() << "; wanted kind " << static_cast<int>(kind)
                                         << " with '" << part << "'";
  return ::testing::AssertionSuccess();
}
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (!result) return ::testing::AssertionFailure() << result.error().text();
  return ::testing::AssertionSuccess();
}

inline std::vector<float> counted(std::size_t count, float first, float step) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(first + step * static_cast<float>(i));
  return out;
}

/// y = x · w + b over rows of 4, w a constant of the model, b of the same rows as x.
inline const char* const affine_text =
    "affine(x: f32[n, 4], b: f32[m, 4]) -> y\n"
    "w: f32[4, 4] = [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 1, 0, 0, 4]\n"
    "y = Add(MatMul(x, w), b)\n";
inline std::vector<float> affine(const std::vector<float>& x, const std::vector<float>& b) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); i += 4) {
    y[i] = x[i] + x[i + 3] + b[i];
    y[i + 1] = 2 * x[i + 1] + b[i + 1];
    y[i + 2] = 3 * x[i + 2] + b[i + 2];
    y[i + 3] = 4 * x[i + 3] + b[i + 3];
  }
  return y;
}

/// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "aicf-api-XXXXXX").string();
    if (mkdtemp(name.data())) path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace aicf::testing
