// Every model of the corpus on the devices of a machine without a GPU, against the expected values that come
// with it, with fusion on and off.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

std::vector<CorpusCase> with_emulation() {
  std::vector<CorpusCase> out;
  std::ranges::copy_if(corpus(), std::back_inserter(out), &CorpusCase::emulation);
  return out;
}

std::string case_name(const ::testing::TestParamInfo<CorpusCase>& info) {
  return test_name(info.param.name);
}

// Nothing over (query row, key) is a tensor of the program: of the region's own values none that lies along the
// streamed axis, and no buffer of scores' shape whatever its name.
void expect_streamed(const CorpusCase& c, const CompiledModel& compiled, const NamedTensors& inputs,
                     const Sizes& symbols) {
  int sites = 0;
  for (const CompiledRegion& r : compiled.regions) {
    if (r.region.kind != RegionKind::attention) continue;
    ++sites;
    ASSERT_TRUE(r.region.roles) << r.region.name;
    const StreamingRegion& streaming = r.chosen.scheduled.region;
    EXPECT_EQ(streaming.streams.size(), 1u) << to_string(streaming);
    const std::string& axis = r.region.roles->normalised_axis;
    int along = 0;
    for (const Statement& s : r.region.statements) {
      if (std::ranges::find(s.axes, axis) == s.axes.end()) continue;
      ++along;
      EXPECT_FALSE(std::ranges::any_of(compiled.program.buffers, [&](const BufferPlan& b) { return b.name == s.node; }))
          << "'" << s.node << "' of " << r.region.name << " is written to memory";
    }
    EXPECT_GT(along, 0) << "no value along " << axis << "\n" << to_string(r.region);
  }
  // A device model may prefer separate kernels; then it says so. The model of lavapipe never does for the cases of stage
  // 1. A variant may have a law against it, which is said too.
  if (binds_too_few(compiled)) return;
  const bool refused =
      c.stage > 1 ? !compiled.refusals.empty()
                  : compiled.program.driver != "vulkan" &&
                        std::ranges::any_of(compiled.refusals, [](const Refusal& r) { return r.law == "cost"; });
  if (refused && sites < c.attention_sites) return;
  EXPECT_EQ(sites, c.attention_sites);
  if (!inputs.contains("q") || !inputs.contains("k")) return;
  const std::vector<std::int64_t>&q = inputs.at("q").shape(), &k = inputs.at("k").shape();
  const std::int64_t rows = q[q.size() - 2], keys = k[k.size() - 2];
  for (const BufferPlan& b : compiled.program.buffers) {
    if (b.kind == BufferPlan::Kind::input || b.kind == BufferPlan::Kind::constant || b.shape.size() < 2) continue;
    const auto last = evaluate_int(b.shape.back(), symbols), before = evaluate_int(b.shape.end()[-2], symbols);
    ASSERT_TRUE(last && before) << b.name;
    EXPECT_FALSE(*before == rows && *last == keys) << "'" << b.name << "' has the shape of the scores";
  }
}

// The model as loaded without sizes serves every input set; a model with symbols is also compiled for known sizes.
void check(const CorpusCase& c, const std::string& device, bool fuse) {
  if (!c.needs.empty() && !std::filesystem::exists(c.needs))
    GTEST_SKIP() << c.needs << " is not there; tools/test fetches it";
  NUMERIC_TRY(Place place, open_place(device));
  NUMERIC_TRY(const Model model, load_model(c.model));
  CompileOptions options;
  options.fuse = fuse;
  NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, options));
  NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
  for (const CorpusCase::Run& run : c.runs) {
    SCOPED_TRACE(run.inputs);
    NUMERIC_TRY(const NamedTensors inputs, read_tensors(run.inputs));
    NUMERIC_TRY(const NamedTensors expected, read_tensors(run.expected));
    ASSERT_EQ(expected.size(), model.output_of.size());
    NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
    NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
    const NamedTensors outputs = named_outputs(model, result);
    EXPECT_TRUE(within(outputs, expected, c.absolute, c.relative));
    if (fuse) expect_streamed(c, compiled, inputs, symbols);
    if (!c.dynamic) continue;
    NUMERIC_TRY(const Model bound, load_model(c.model, {symbols}));
    NUMERIC_TRY(const Outcome outcome, run_model(place, bound, inputs, symbols, options));
    EXPECT_TRUE(within(outcome.outputs, expected, c.absolute, c.relative)) << "compiled for these sizes";
    if (fuse) expect_streamed(c, outcome.compiled, inputs, symbols);
  }
}

class Corpus : public ::testing::TestWithParam<CorpusCase> {};
TEST_P(Corpus, LavapipeFused) {
  check(GetParam(), lavapipe, true);
}
TEST_P(Corpus, LavapipeUnfused) {
  check(GetParam(), lavapipe, false);
}
INSTANTIATE_TEST_SUITE_P(Models, Corpus, ::testing::ValuesIn(corpus()), case_name);

class EmulatedCorpus : public ::testing::TestWithParam<CorpusCase> {};
TEST_P(EmulatedCorpus, Fused) {
  check(GetParam(), emulation, true);
}
TEST_P(EmulatedCorpus, Unfused) {
  check(GetParam(), emulation, false);
}
INSTANTIATE_TEST_SUITE_P(Models, EmulatedCorpus, ::testing::ValuesIn(with_emulation()), case_name);

TEST(CorpusIndex, HoldsTheCases) {
  EXPECT_GE(corpus().size(), 107u);
  int sites = 0;
  for (const CorpusCase& c : corpus()) {
    sites += c.attention_sites;
    EXPECT_FALSE(c.runs.empty()) << c.name;
    EXPECT_GT(c.absolute, 0) << c.name;
  }
  EXPECT_GE(sites, 72);
}

}  // namespace
}  // namespace aicf::numeric
