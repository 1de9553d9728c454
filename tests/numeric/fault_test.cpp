// Graphs on which other systems were reported wrong, with their right values: tests/models/faults (README there).

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

struct Fault {
  struct Run {
    std::string inputs;
    std::vector<std::string> right;  ///< files; the first is the usual one
  };
  std::string name, kind, folder;
  double absolute = 0, relative = 0;
  int sites = 0;
  std::uintmax_t bytes = 0;  ///< of the largest file of inputs
  std::optional<bool> streamed;
  std::vector<Run> runs;
};
void PrintTo(const Fault& f, std::ostream* out) {
  *out << f.name;
}

std::vector<Fault> faults() {
  const std::string root = std::string(AICF_TESTS_DIR) + "/models/faults/";
  std::ifstream in(root + "index.json");
  const auto index = nlohmann::json::parse(in);
  std::vector<Fault> out;
  for (const auto& j : index.at("cases")) {
    Fault f{j.at("name"), j.at("kind"), root + std::string(j.at("name")) + "/"};
    if (j.contains("tolerance")) f.absolute = j["tolerance"].at("abs"), f.relative = j["tolerance"].at("rel");
    if (!j.at("expect_streamed").is_null()) f.streamed = j["expect_streamed"].get<bool>();
    f.sites = j.at("attention_sites");
    for (const auto& r : j.at("runs")) {
      Fault::Run run{r.at("inputs"), {}};
      if (!r.at("expected").is_null()) run.right.push_back(r["expected"]);
      for (const auto& a : j.value("alternatives", nlohmann::json::array())) run.right.push_back(a);
      std::error_code missing;
      f.bytes = std::max(f.bytes, std::filesystem::file_size(f.folder + run.inputs, missing));
      f.runs.push_back(std::move(run));
    }
    out.push_back(std::move(f));
  }
  return out;
}

/// Scores that are made and used inside of a stream: one for each attention, several of which may share a region (one cache,
/// two readers). With a value dimension of 1 the same by another name.
int streamed_scores(const CompiledModel& compiled) {
  std::ptrdiff_t scores = 0;
  for (const CompiledRegion& r : compiled.regions)
    for (const Stream& stream : r.chosen.scheduled.region.streams)
      scores += std::ranges::count_if(
          stream.step, [](const StepStatement& x) { return x.kind == StepStatement::Kind::local && !x.over.empty(); });
  return static_cast<int>(scores);
}

class Faults : public ::testing::TestWithParam<Fault> {};

// Every run of inputs by the same two programs.
void run(const Fault& f, const char* device) {
  NUMERIC_TRY(const Model model, load_model(f.folder + "model.onnx"));
  NUMERIC_TRY(Place place, open_place(device));
  if (f.kind == "must-diagnose") {
    for (const Fault::Run& r : f.runs) {
      SCOPED_TRACE(r.inputs);
      NUMERIC_TRY(const NamedTensors inputs, read_tensors(f.folder + r.inputs));
      const auto symbols = bind_symbols(model, inputs);
      const bool refused = !symbols || !run_model(place, model, inputs, *symbols);
      EXPECT_TRUE(refused) << "it ran";
    }
    return;
  }
  // On devices f64 is f32, and its results are as close as those of f32.
  const bool doubles = std::ranges::any_of(model.semantic.inputs, [](const auto& i) { return i.type == DType::f64; });
  for (const bool fuse : {true, false}) {
    SCOPED_TRACE(fuse ? "fused" : "unfused");
    CompileOptions options;
    options.fuse = fuse;
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, options));
    if (fuse && f.streamed && device == std::string(lavapipe) && !binds_too_few(compiled)) {
      // Over another axis it is no attention, in whatever region it stands.
      if (*f.streamed) {
        EXPECT_GE(streamed_scores(compiled), std::max(1, f.sites));
      } else {
        EXPECT_TRUE(std::ranges::none_of(
            compiled.regions, [](const CompiledRegion& r) { return r.region.kind == RegionKind::attention; }));
      }
    }
    NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
    for (const Fault::Run& r : f.runs) {
      SCOPED_TRACE(r.inputs);
      NUMERIC_TRY(const NamedTensors inputs, read_tensors(f.folder + r.inputs));
      NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
      NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
      const NamedTensors outputs = named_outputs(model, result);
      ::testing::AssertionResult right = ::testing::AssertionFailure() << "no right values";
      for (const std::string& file : r.right) {
        NUMERIC_TRY(const NamedTensors expected, read_tensors(f.folder + file));
        auto answer = within(outputs, expected, doubles ? 1e-5 : f.absolute, doubles ? 1e-4 : f.relative);
        if (answer || !right) right = answer;
        if (answer) break;
      }
      EXPECT_TRUE(right);
    }
  }
}

TEST_P(Faults, AreNotHere) {
  const Fault& f = GetParam();
  if (const auto model = load_model(f.folder + "model.onnx"); f.kind == "must-refuse" || !model) {
    ASSERT_FALSE(model) << "it was imported";
    EXPECT_TRUE(f.kind == "must-refuse" || f.kind == "must-diagnose") << model.error().text();
    return;
  }
  run(f, lavapipe);
}

const auto fault_name = [](const auto& info) { return test_name(info.param.name); };
INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::ValuesIn(faults()), fault_name);

// As CUDA, where a thread at a time is fast enough. Compiling for the host is what takes time, so one in four;
// AICF_EMULATED_FAULTS=all takes all of them.
std::vector<Fault> small_faults() {
  std::vector<Fault> small = faults(), out;
  std::erase_if(small, [](const Fault& f) { return f.kind != "numeric" || f.bytes > 64000; });
  const std::size_t step = std::getenv("AICF_EMULATED_FAULTS") ? 1 : 4;
  for (std::size_t i = 0; i < small.size(); i += step) out.push_back(small[i]);
  return out;
}

class EmulatedFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(EmulatedFaults, AreNotHere) {
  run(GetParam(), emulation);
}

INSTANTIATE_TEST_SUITE_P(Small, EmulatedFaults, ::testing::ValuesIn(small_faults()), fault_name);

}  // namespace
}  // namespace aicf::numeric
