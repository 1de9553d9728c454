// Schedules that the cost model may not choose give the same results: K and V staged in workgroup memory, a split
// stream, several subgroups.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/vulkan/driver.h"
#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

using Forced = std::map<std::string, std::string>;

const CompiledRegion* streamed_region(const CompiledModel& compiled) {
  const auto r =
      std::ranges::find_if(compiled.regions, [](const CompiledRegion& x) { return x.region.roles.has_value(); });
  return r == compiled.regions.end() ? nullptr : &*r;
}

// The stream's tiles of the tensors that have the roles of k and v.
std::vector<std::string> key_and_value_tiles(const CompiledRegion& region) {
  std::vector<std::string> out;
  for (const TileDecl& t : region.chosen.scheduled.region.streams.at(0).tiles)
    if (t.tensor == region.region.roles->k || t.tensor == region.region.roles->v) out.push_back(t.name);
  return out;
}

struct Case {
  std::string model, device;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " on " << c.device;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* model : {"attn-plain-ts17", "attn-bool-empty-dy18", "attn-causal-dy23", "attn-causal-short-q-ts17",
                            "attn-cross-dy18", "attn-dynamic-dy24", "attn-fill-inf-nan-ts17", "attn-eager-bshd-dy18"})
    for (const char* device : {lavapipe, emulation}) out.push_back({model, device});
  return out;
}

class ForcedSchedule : public ::testing::TestWithParam<Case> {
 public:
  void SetUp() override {
    const CorpusCase& c = corpus_case(GetParam().model);
    NUMERIC_TRY(place_, open_place(GetParam().device));
    NUMERIC_TRY(model_, load_model(c.model));
    NUMERIC_TRY(inputs_, read_tensors(c.runs[0].inputs));
    NUMERIC_TRY(expected_, read_tensors(c.runs[0].expected));
    NUMERIC_TRY(symbols_, bind_symbols(model_, inputs_));
    NUMERIC_TRY(chosen_, run_model(place_, model_, inputs_, symbols_));
    ASSERT_TRUE(streamed_region(chosen_.compiled));
  }

  // Runs with the choices forced; results equal the expected ones and those of the model's own choice.
  void run(const Forced& forced, Outcome& outcome) {
    const CorpusCase& c = corpus_case(GetParam().model);
    CompileOptions options;
    options.schedule.forced = forced;
    NUMERIC_TRY(outcome, run_model(place_, model_, inputs_, symbols_, options));
    EXPECT_TRUE(within(outcome.outputs, expected_, c.absolute, c.relative));
    EXPECT_TRUE(within(outcome.outputs, chosen_.outputs, c.absolute, c.relative));
    ASSERT_TRUE(streamed_region(outcome.compiled));
  }

  void keys_and_values_in_workgroup_memory();
  void keys_and_values_by_lane_broadcast();
  void stream_split_in_three();
  void several_subgroups();

  Place place_;
  Model model_;
  NamedTensors inputs_, expected_;
  Sizes symbols_;
  Outcome chosen_;
};

void ForcedSchedule::keys_and_values_in_workgroup_memory() {
  const std::vector<std::string> tiles = key_and_value_tiles(*streamed_region(chosen_.compiled));
  ASSERT_EQ(tiles.size(), 2u);
  Forced forced;
  for (const std::string& t : tiles) forced["residency." + t] = "workgroup";
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(run(forced, outcome));
  const CompiledRegion& region = *streamed_region(outcome.compiled);
  for (const std::string& t : tiles) {
    EXPECT_EQ(region.chosen.scheduled.schedule.tiles.at(t).residency, Residency::workgroup) << t;
    EXPECT_EQ(region.chosen.lowered.kernels[0].tile(t).space, Space::workgroup) << t;
  }
  // The program has the arrays, stores and loads each of them, with barriers around.
  const ThreadProgram& program = region.chosen.programs[0];
  std::set<std::string> stored, loaded;
  int barriers = 0;
  auto walk = [&](auto&& self, const ThreadBody& body) -> void {
    for (const ThreadStatement& s : body) {
      if (s.kind == ThreadStatement::Kind::store_shared) stored.insert(s.buffer);
      if (s.kind == ThreadStatement::Kind::load_shared) loaded.insert(s.buffer);
      barriers += s.kind == ThreadStatement::Kind::barrier;
      self(self, s.body);
    }
  };
  walk(walk, program.body);
  EXPECT_GE(program.shared.size(), tiles.size());
  for (const SharedArray& a : program.shared) EXPECT_TRUE(stored.contains(a.name) && loaded.contains(a.name)) << a.name;
  EXPECT_GE(barriers, 2);
  const bool vulkan = outcome.compiled.program.driver == "vulkan";
  EXPECT_NE(region.sources[0].find(vulkan ? "\nshared " : "AICF_SHARED("), std::string::npos) << region.sources[0];
}

void ForcedSchedule::keys_and_values_by_lane_broadcast() {
  Forced forced;
  for (const std::string& t : key_and_value_tiles(*streamed_region(chosen_.compiled)))
    forced["delivery." + t] = "lane_broadcast";
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(run(forced, outcome));
  EXPECT_TRUE(streamed_region(outcome.compiled)->chosen.programs[0].shared.empty());
}

void ForcedSchedule::stream_split_in_three() {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(run({{"split", "3"}}, outcome));
  EXPECT_EQ(streamed_region(outcome.compiled)->chosen.programs.size(), 2u) << "partial states, then their merge";
}

void ForcedSchedule::several_subgroups() {
  // The model of lavapipe does not try them: they cost and gain nothing there.
  place_.target.model.figures["subgroups_most"].value = 2;  // from here on: the last of the choices
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(run({{"subgroups", "2"}}, outcome));
  EXPECT_EQ(streamed_region(outcome.compiled)->chosen.programs[0].subgroups, 2);
}

// All against one run of the model's own choice.
TEST_P(ForcedSchedule, GivesTheSameResults) {
  const std::pair<const char*, void (ForcedSchedule::*)()> choices[] = {
      {"keys and values in workgroup memory", &ForcedSchedule::keys_and_values_in_workgroup_memory},
      {"keys and values by lane broadcast", &ForcedSchedule::keys_and_values_by_lane_broadcast},
      {"stream split in three", &ForcedSchedule::stream_split_in_three},
      {"several subgroups", &ForcedSchedule::several_subgroups}};
  for (const auto& [name, check] : choices) {
    SCOPED_TRACE(name);
    (this->*check)();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForcedSchedule, ::testing::ValuesIn(cases()), [](const auto& info) {
  return test_name(info.param.model + "_" + (info.param.device == lavapipe ? "lavapipe" : "emulation"));
});

// LP_NATIVE_VECTOR_WIDTH in the environment of the whole process sets the subgroup size of lavapipe; CTest runs part of
// this program once for each size.
TEST(Subgroups, SizeIsWhatTheEnvironmentSays) {
  const char* width = std::getenv("LP_NATIVE_VECTOR_WIDTH");
  ASSERT_TRUE(width) << "set LP_NATIVE_VECTOR_WIDTH, as numeric_vectors_128 to 512 of CTest do";
  NUMERIC_TRY(const Place place, open_place(lavapipe));
  EXPECT_EQ(place.device->info().properties.at("subgroup_size") * 32, std::atoi(width));
  NUMERIC_TRY(const Model model, load_model(corpus_case("attn-plain-ts17").model));
  NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, {}));
  for (const CompiledRegion& r : compiled.regions)
    for (const ThreadProgram& p : r.chosen.programs) EXPECT_EQ(p.subgroup_size * 32, std::atoi(width)) << p.name;
}

// A run under validation that was asked for and is not there would prove nothing.
TEST(Validation, LayerIsThereWhenTheEnvironmentAsksForIt) {
  const char* asked = std::getenv("AICF_VULKAN_VALIDATION");
  ASSERT_TRUE(asked && std::string(asked) == "1")
      << "set AICF_VULKAN_VALIDATION=1, as numeric_validation of CTest does";
  EXPECT_TRUE(vulkan_options_from_environment().validation) << "install the Khronos validation layer";
}

}  // namespace
}  // namespace aicf::numeric
