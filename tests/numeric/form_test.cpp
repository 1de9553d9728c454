// Derived forms on devices against the float64 meaning of the graph: data that breaks careless recurrences, lengths that
// break careless tiles, and cascades that have no name.

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "tests/numeric/form_data.h"

namespace aicf::numeric {
namespace {

struct Case {
  Form form;
  std::string device;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.form.name << " on " << c.device;
}

std::vector<Case> cases(const std::string& device) {
  std::vector<Case> out;
  for (const Form& f : forms()) out.push_back({f, device});
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.form.name;
}

/// Sizes of one tile of the schedules taken, one less and one more, and a tile after whole ones: where predicates and
/// remainders begin. Of symbols that are tiled; the others stay as in `base`.
std::vector<Sizes> around_tiles(const CompiledModel& compiled, const Sizes& base) {
  constexpr std::int64_t longest = 160;  // rows that grow stay within the range of exp
  std::set<Sizes> out;
  for (const CompiledRegion& r : compiled.regions) {
    const ScheduledRegion& s = r.chosen.scheduled;
    for (const Axis& a : s.region.axes) {
      if (a.extent.op() != Op::symbol || !base.contains(a.extent.name())) continue;
      const auto plan = s.schedule.axes.find(a.name);
      const std::int64_t tile = plan == s.schedule.axes.end() ? 1 : plan->second.tile();
      for (const std::int64_t n : {tile - 1, tile, tile + 1, 3 * tile - 1, 3 * tile, 3 * tile + 1}) {
        if (tile == 1 || n < 1 || n > longest) continue;
        Sizes sizes = base;
        sizes[a.extent.name()] = n;
        out.insert(sizes);
      }
    }
  }
  return {out.begin(), out.end()};
}

// One program for all sizes and data.
void check(const Case& c, const CompileOptions& options, int regions) {
  const Form& form = c.form;
  NUMERIC_TRY(Place place, open_place(c.device));
  NUMERIC_TRY(const Model model, load_model(form.path()));
  NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, options));
  if (regions > 0) {
    EXPECT_EQ(compiled.regions.size(), static_cast<std::size_t>(regions));
  }
  if (options.schedule.forced.contains("split"))
    for (const CompiledRegion& r : compiled.regions) {
      const ScheduledRegion& s = r.chosen.scheduled;
      if (s.region.streams.size() == 1 && s.region.streams[0].finish.size() > 0) {
        EXPECT_EQ(r.chosen.programs.size(), 2u);
      }
    }
  NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
  int failures = 0;
  std::vector<Sizes> all = form.sizes;
  const std::vector<Sizes> tiles = around_tiles(compiled, form.sizes[form.sizes.size() / 2]);
  all.insert(all.end(), tiles.begin(), tiles.end());
  for (std::size_t k = 0; k < all.size(); ++k)
    for (std::size_t v = 0; v < form.variants.size(); ++v) {
      // Of the tiles' neighbours each takes a third of the data.
      if (k >= form.sizes.size() && v % 3 != k % 3) continue;
      const Sizes& sizes = all[k];
      const Form::Variant& variant = form.variants[v];
      if (!options.fuse && !variant.unfused) continue;
      std::string where = variant.name;
      for (const auto& [symbol, n] : sizes) where += fmt::format(" {} = {}", symbol, n);
      SCOPED_TRACE(where);
      NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, sizes, variant.data));
      NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
      NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
      NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
      const NamedTensors outputs = named_outputs(model, result);
      const auto good = within(outputs, expected, form.tolerance, form.tolerance);
      EXPECT_TRUE(good);
      failures += !good;
      if (failures > 5) FAIL() << "and perhaps more";
    }
}

class Forms : public ::testing::TestWithParam<Case> {};

TEST_P(Forms, Fused) {
  check(GetParam(), {}, GetParam().device == lavapipe ? GetParam().form.regions : 0);
}

TEST_P(Forms, Unfused) {
  CompileOptions options;
  options.fuse = false;
  check(GetParam(), options, 0);
}

// Parts of a stream may be empty or hold only masked elements: merging meets every state's neutral element.
TEST_P(Forms, SplitInThree) {
  CompileOptions options;
  options.schedule.forced = {{"split", "3"}};
  check(GetParam(), options, 0);
}

INSTANTIATE_TEST_SUITE_P(Lavapipe, Forms, ::testing::ValuesIn(cases(lavapipe)), case_name);
INSTANTIATE_TEST_SUITE_P(Emulation, Forms, ::testing::ValuesIn(cases(emulation)), case_name);

// Sizes known at compile time: other tiles, no predicates where they divide.
class FormsOfKnownSize : public ::testing::TestWithParam<Case> {};

TEST_P(FormsOfKnownSize, Fused) {
  const Form& form = GetParam().form;
  NUMERIC_TRY(Place place, open_place(GetParam().device));
  NUMERIC_TRY(const Model symbolic, load_model(form.path()));
  for (std::size_t s = 0; s < form.sizes.size(); s += 2) {
    ImportOptions import;
    for (const std::string& symbol : symbolic.graph.symbols()) import.bindings[symbol] = form.sizes[s].at(symbol);
    NUMERIC_TRY(const Model model, load_model(form.path(), import));
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, {}));
    NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
    for (const Form::Variant& variant : {form.variants.front(), form.variants.back()}) {
      SCOPED_TRACE(fmt::format("{}, sizes {}", variant.name, s));
      NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, form.sizes[s], variant.data));
      NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
      NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
      NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
      EXPECT_TRUE(within(named_outputs(model, result), expected, form.tolerance, form.tolerance));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lavapipe, FormsOfKnownSize, ::testing::ValuesIn(cases(lavapipe)), case_name);

TEST(FormFiles, EveryFileIsTried) {
  std::set<std::string> tried, there;
  for (const Form& f : forms()) tried.insert(f.name + ".aicf");
  for (const auto& entry : std::filesystem::directory_iterator(std::string(AICF_TESTS_DIR) + "/models/forms"))
    there.insert(entry.path().filename().string());
  EXPECT_EQ(tried, there);
}

}  // namespace
}  // namespace aicf::numeric
