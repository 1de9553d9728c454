#pragma once

// What the numeric tests share: the corpus, devices, a compiled model's run, and a comparison of their own (nothing of
// the command's code, so that a mistake there cannot hide here).

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/compile.h"
#include "frontend/model.h"
#include "runtime/driver.h"
#include "runtime/executor/executor.h"

namespace aicf::numeric {

using Sizes = std::map<std::string, std::int64_t>;

/// One entry of tests/models/index.json.
struct CorpusCase {
  struct Run {
    std::string inputs, expected;  ///< paths
  };
  std::string name;
  std::string model;  ///< path
  std::string needs;  ///< path of a file that the repository does not hold; empty = nothing
  int stage = 1;
  int attention_sites = 0;
  double absolute = 0, relative = 0;
  bool emulation = false, dynamic = false;
  std::vector<Run> runs;
};
void PrintTo(const CorpusCase& c, std::ostream* out);

/// Every case of tests/models/index.json.
const std::vector<CorpusCase>& corpus();
const CorpusCase& corpus_case(const std::string& name);
/// A name that CTest and GoogleTest take: letters, digits and underscores.
std::string test_name(std::string text);

/// A device and the target that is compiled for it.
struct Place {
  std::string id;
  std::unique_ptr<Device> device;
  Target target;
};
inline constexpr const char* lavapipe = "vulkan:llvmpipe";
inline constexpr const char* emulation = "cuda-emulation";
Result<Place> open_place(const std::string& id);

struct Outcome {
  CompiledModel compiled;
  RunResult run;
  NamedTensors outputs;  ///< by the model's output names
};
/// Compiles `model` for the place and runs it once.
Result<Outcome> run_model(Place& place, const Model& model, const NamedTensors& inputs, const Sizes& symbols,
                          const CompileOptions& options = {});
/// True where a region was refused because the device binds fewer buffers than its kernel would take.
bool binds_too_few(const CompiledModel& compiled);
/// The outputs of a run under the model's names.
NamedTensors named_outputs(const Model& model, const RunResult& run);

/// float64, node by node; by the model's output names.
Result<NamedTensors> reference(const Model& model, const NamedTensors& inputs, const Sizes& symbols);

/// Every tensor of `expected` is there with the same shape, NaN and infinities in the same places, and
/// max |error| ≤ absolute or ≤ relative · max |expected finite value|.
::testing::AssertionResult within(const NamedTensors& actual, const NamedTensors& expected, double absolute,
                                  double relative);
/// As within, element by element: |error| ≤ absolute + relative · |expected|.
::testing::AssertionResult close(const NamedTensors& actual, const NamedTensors& expected, double absolute = 1e-5,
                                 double relative = 1e-4);
/// The same bits (any NaN equals any NaN).
::testing::AssertionResult same_bits(const NamedTensors& a, const NamedTensors& b);

/// The text of a failure, for EXPECT_TRUE(ok(result)).
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().text();
}

}  // namespace aicf::numeric

/// Declares `name` from a Result or fails the test with its message.
#define NUMERIC_TRY(declaration, ...) NUMERIC_TRY_(AICF_CONCAT(numeric_result_, __LINE__), declaration, __VA_ARGS__)
#define NUMERIC_TRY_(result, declaration, ...) \
  auto result = (__VA_ARGS__);                 \
  ASSERT_TRUE(::aicf::numeric::ok(result));    \
  declaration = std::move(*result)
