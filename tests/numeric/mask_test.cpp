// Tiles that masks leave to run, against those that hold a kept key by brute force; results on a device against float64.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/registry.h"
#include "mir/kernel/count.h"
#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

/// A mask over row (of q) and column (of kv), in the text form and as the right answer.
struct Mask {
  const char* name;
  const char* text;  ///< defines `kept` from row, column and the constants below
  bool (*kept)(std::int64_t q, std::int64_t kv, std::int64_t queries, std::int64_t keys);
};

constexpr Mask masks[] = {
    {"causal", "kept = LessOrEqual(column, row)", [](auto q, auto kv, auto, auto) { return kv <= q; }},
    {"causal_to_the_last_key", "kept = LessOrEqual(Sub(column, keys), Sub(row, queries))",
     [](auto q, auto kv, auto n, auto m) { return kv - m <= q - n; }},
    {"window", "kept = And(LessOrEqual(column, row), Less(Sub(row, column), width))",
     [](auto q, auto kv, auto, auto) { return kv <= q && q - kv < 100; }},
    {"two_sided_window", "kept = Less(Abs(Sub(row, column)), width)",
     [](auto q, auto kv, auto, auto) { return std::abs(q - kv) < 100; }},
    {"prefix", "kept = Or(LessOrEqual(column, row), Less(column, width))",
     [](auto q, auto kv, auto, auto) { return kv <= q || kv < 100; }},
    {"window_after_a_prefix_only",
     "kept = And(Or(LessOrEqual(column, row), Less(column, width)), Less(column, Add(row, width)))",
     [](auto q, auto kv, auto, auto) { return (kv <= q || kv < 100) && kv < q + 100; }},
    {"blocks", "kept = Equal(Div(row, width), Div(column, width))",
     [](auto q, auto kv, auto, auto) { return q / 100 == kv / 100; }},
    {"earlier_blocks", "kept = LessOrEqual(Div(column, width), Div(row, width))",
     [](auto q, auto kv, auto, auto) { return kv / 100 <= q / 100; }},
    {"window_and_first_keys",
     "kept = And(LessOrEqual(column, row), Or(Less(column, few), Less(Sub(row, column), width)))",
     [](auto q, auto kv, auto, auto) { return kv <= q && (kv < 20 || q - kv < 100); }},
    {"window_and_both_ends",
     "kept = Or(Or(Less(column, few), LessOrEqual(Sub(keys, few), column)), Less(Abs(Sub(row, column)), width))",
     [](auto q, auto kv, auto, auto m) { return kv < 20 || kv >= m - 20 || std::abs(q - kv) < 100; }},
    {"all_but_a_band", "kept = Or(Less(Add(column, width), row), Less(row, column))",
     [](auto q, auto kv, auto, auto) { return kv + 100 < q || kv > q; }},
};

struct Case {
  Mask mask;
  bool finite;
  std::string target;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.mask.name << (c.finite ? " finite" : " infinite") << " on " << c.target;
}

Result<Model> model_of(const Case& c, int d) {
  const std::string text = fmt::format(
      "masked(Q: f32[head, q, d={}], K: f32[head, kv, d], V: f32[head, kv, d]) -> out\n"
      "zero: i64 = 0\none: i64 = 1\nwidth: i64 = 100\nfew: i64 = 20\nlast: i64[1] = [1]\nfill: f32[1] = [{}]\n"
      "queries = Squeeze(Shape(Q, start=1, end=2))\nkeys = Squeeze(Shape(K, start=1, end=2))\n"
      "row = Unsqueeze(Range(zero, queries, one), last)\ncolumn = Range(zero, keys, one)\n{}\n"
      "scores = MatMul(Q, Transpose(K, perm=[0, 2, 1]))\n"
      "out = MatMul(Softmax(Where(kept, scores, fill), axis=-1), V)\n",
      d, c.finite ? "-3.4028234663852886e38" : "-inf", c.mask.text);
  return load_model(std::as_bytes(std::span(text)), "masked.aicf");
}

class MaskedTiles : public ::testing::TestWithParam<Case> {};

TEST_P(MaskedTiles, AreThoseOfTheMask) {
  NUMERIC_TRY(const Model model, model_of(GetParam(), 64));
  NUMERIC_TRY(const Target target, find_target(GetParam().target));
  for (const auto& [queries, keys] : {std::pair(4096, 4096), std::pair(1000, 3000), std::pair(3000, 1000)}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys", queries, keys));
    const Sizes sizes{{"head", 4}, {"q", queries}, {"kv", keys}};
    CompileOptions options;
    options.schedule.size_hints = sizes;
    if (queries != keys) options.schedule.forced["split"] = "1";  // parts of a split do not defer
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, options));
    const auto region =
        std::ranges::find_if(compiled.regions, [](const CompiledRegion& r) { return r.region.roles.has_value(); });
    ASSERT_NE(region, compiled.regions.end());
    const StreamingRegion& streaming = region->chosen.scheduled.region;
    const Schedule& schedule = region->chosen.scheduled.schedule;
    ASSERT_EQ(streaming.streams.size(), 1U);
    std::string rows;
    for (const std::string& a : streaming.parallel)
      if (streaming.axis(a).extent == Expr::symbol("q")) rows = a;
    ASSERT_FALSE(rows.empty());
    const std::int64_t tile_q = tile_extent(schedule, rows), tile_kv = tile_extent(schedule, streaming.streams[0].axis);
    double needed = 0, whole = 0;
    for (std::int64_t q = 0; q < queries; q += tile_q)
      for (std::int64_t kv = 0; kv < keys; kv += tile_kv) {
        bool any = false;
        for (std::int64_t i = q; i < std::min<std::int64_t>(q + tile_q, queries) && !any; ++i)
          for (std::int64_t j = kv; j < std::min<std::int64_t>(kv + tile_kv, keys) && !any; ++j)
            any = GetParam().mask.kept(i, j, queries, keys);
        needed += any, whole += 1;
      }
    const auto steps = stream_steps(region->chosen.lowered, streaming, sizes);
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_NEAR(steps[0].whole / whole, steps[0].run / needed, 0.05 * steps[0].run / needed)
        << steps[0].run << " of " << steps[0].whole << " steps are run; " << needed << " of " << whole
        << " tiles hold a kept key";
    if (std::string(GetParam().mask.name) == "causal" && queries == keys) {
      EXPECT_LE(steps[0].run, 0.55 * steps[0].whole);
    }
  }
}

// Threads that take contiguous parts of a grid (lavapipe's do) finish together.
TEST_P(MaskedTiles, AreTheSameInEachPartOfTheGrid) {
  NUMERIC_TRY(const Model model, model_of(GetParam(), 64));
  NUMERIC_TRY(const Target target, find_target(GetParam().target));
  for (const int heads : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} heads", heads));
    Sizes sizes{{"head", heads}, {"q", 4096}, {"kv", 4096}};
    CompileOptions options;
    options.schedule.size_hints = sizes;
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, options));
    const auto region =
        std::ranges::find_if(compiled.regions, [](const CompiledRegion& r) { return r.region.roles.has_value(); });
    ASSERT_NE(region, compiled.regions.end());
    const StreamingRegion& streaming = region->chosen.scheduled.region;
    const Kernel& kernel = region->chosen.lowered.kernels.front();
    const auto rows = std::ranges::find_if(
        streaming.parallel, [&](const std::string& a) { return streaming.axis(a).extent == Expr::symbol("q"); });
    ASSERT_NE(rows, streaming.parallel.end());
    const std::int64_t tile = tile_extent(region->chosen.scheduled.schedule, *rows);
    NUMERIC_TRY(const std::int64_t items, evaluate_int(kernel.workgroups, sizes));
    constexpr std::int64_t parts = 4;
    std::map<std::int64_t, double> kept;  // elements, by first row of a block
    std::vector<double> work(parts);
    for (sizes["workgroup"] = 0; sizes["workgroup"] < items; ++sizes["workgroup"]) {
      NUMERIC_TRY(const std::int64_t first, evaluate_int(kernel.bases.at(*rows), sizes));
      const auto [block, is_new] = kept.try_emplace(first);
      for (std::int64_t i = first; is_new && i < std::min<std::int64_t>(first + tile, 4096); ++i)
        for (std::int64_t j = 0; j < 4096; ++j) block->second += GetParam().mask.kept(i, j, 4096, 4096);
      work[static_cast<std::size_t>(sizes["workgroup"] * parts / items)] += block->second;
    }
    EXPECT_EQ(kept.size(), static_cast<std::size_t>((4096 + tile - 1) / tile));
    const auto [least, most] = std::ranges::minmax(work);
    EXPECT_LE(most, 1.1 * least) << fmt::format("{} work items of {} rows: {}", items, tile, fmt::join(work, ", "));
  }
}

class MaskedResults : public ::testing::TestWithParam<Case> {};

TEST_P(MaskedResults, AreRightOnLavapipe) {
  NUMERIC_TRY(const Model model, model_of(GetParam(), 8));
  NUMERIC_TRY(Place place, open_place(lavapipe));
  std::map<int, CompiledModel> compiled;  // by split
  std::map<int, std::unique_ptr<Executor>> executors;
  for (const int split : {0, 3}) {
    CompileOptions options;
    if (split > 0) options.schedule.forced["split"] = std::to_string(split);
    NUMERIC_TRY(compiled[split], compile(model.graph, model.constants, place.target, options));
    NUMERIC_TRY(executors[split], Executor::create(*place.device, compiled[split].program));
  }
  for (const auto& [queries, keys] : {std::pair(250, 250), std::pair(97, 301), std::pair(301, 97)}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys", queries, keys));
    const Sizes sizes{{"head", 1}, {"q", queries}, {"kv", keys}};
    NamedTensors inputs;
    unsigned seed = 1;
    for (const auto& [name, rows] : {std::pair("Q", queries), std::pair("K", keys), std::pair("V", keys)}) {
      Tensor t(DType::f32, {1, rows, 8});
      for (std::int64_t i = 0; i < t.size(); ++i) {
        seed = seed * 1664525 + 1013904223;
        t.set(i, static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F);
      }
      inputs.emplace(name, std::move(t));
    }
    NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, sizes));
    for (const int split : queries < keys ? std::vector{0, 3} : std::vector{0}) {
      SCOPED_TRACE(fmt::format("split {}", split));
      NUMERIC_TRY(const RunResult result, executors.at(split)->run(inputs, sizes));
      EXPECT_TRUE(within(named_outputs(model, result), expected, 1e-5, 1e-4));
    }
  }
}

std::vector<Case> lavapipe_cases() {
  std::vector<Case> out;
  for (const Mask& m : masks)
    for (const bool finite : {false, true}) out.push_back({m, finite, "lavapipe"});
  return out;
}

std::vector<Case> tile_cases() {
  std::vector<Case> out = lavapipe_cases();
  for (const char* target : {"sm_80", "navi31"}) out.push_back({masks[0], true, target});
  return out;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return test_name(fmt::format("{}_{}_{}", c.mask.name, c.finite ? "finite" : "infinite", c.target));
}

INSTANTIATE_TEST_SUITE_P(All, MaskedTiles, ::testing::ValuesIn(tile_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(All, MaskedResults, ::testing::ValuesIn(lavapipe_cases()), name_of);

}  // namespace
}  // namespace aicf::numeric
