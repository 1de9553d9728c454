// Random graphs against their float64 meaning: fused and unfused, on the kernel interpreter and on devices.
//
//     AICF_GENERATED_COUNT=20000 AICF_GENERATED_SEED=7 build/tests/generated_tests
//     AICF_GENERATED_SEED=7 AICF_GENERATED_INDEX=123 build/tests/generated_tests      one graph

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/generate/judge.h"
#include "tests/generate/random_backend.h"
#include "tools/aicf/repro.h"

namespace aicf::generate {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// A place that runs graphs: a device, or the interpreter.
struct Runner {
  std::string name;
  numeric::Place place;  ///< empty: the interpreter, with schedules at random

  static Result<Runner> device(const std::string& id) {
    Runner out{id, {}};
    AICF_TRY(out.place, numeric::open_place(id));
    return out;
  }
  static Runner any_schedule() { return {"the interpreter with random schedules", {}}; }

  Result<NamedTensors> run(const Model& model, const CompiledModel& compiled, const NamedTensors& inputs,
                           const numeric::Sizes& symbols) {
    if (!place.device) return interpret(model, compiled, inputs, symbols);
    AICF_TRY(const auto executor, Executor::create(*place.device, compiled.program));
    AICF_TRY(const RunResult result, executor->run(inputs, symbols));
    return numeric::named_outputs(model, result);
  }
};

struct Tally {
  std::int64_t graphs = 0;
  double undetermined = 0, widened = 0;  ///< sums of each graph's part
};

/// What is wrong with one plan of a graph; "" when nothing is.
std::string fault(const Generated& g, Runner& runner, bool fuse, Tally* tally) {
  const Result<Model> model = canonicalise(g.graph);
  if (!model) return "refused: " + model.error().text();
  const auto symbols = bind_symbols(*model, g.inputs);
  if (!symbols) return "refused: " + symbols.error().text();
  const auto expected = reference_of(*model, g.inputs, *symbols, g.infinite_data);
  if (!expected) return "no reference: " + expected.error().text();
  if (tally && fuse) {
    ++tally->graphs;
    tally->undetermined += expected->undetermined;
    tally->widened += expected->widened;
  }
  CompileOptions options;
  options.fuse = fuse;
  options.assemble = runner.place.device != nullptr;
  RandomBackend chance(g.seed * 1000003 + g.index * 2 + fuse);
  const Target target = runner.place.target.backend ? runner.place.target : chance.target();
  const auto compiled = compile(model->graph, model->constants, target, options);
  if (!compiled) return "refused: " + compiled.error().text();
  if (std::getenv("AICF_GENERATED_TRACE"))
    for (const CompiledRegion& r : compiled->regions) {
      fmt::print(stderr, "{}", to_string(r.chosen.scheduled));
      for (const Kernel& k : r.chosen.lowered.kernels) fmt::print(stderr, "{}", to_string(k));
    }
  if (fuse)
    if (const std::string why = unexplained(g, *model, *compiled); !why.empty()) return "unexplained: " + why;
  const auto actual = runner.run(*model, *compiled, g.inputs, *symbols);
  if (!actual) return "failed: " + actual.error().text();
  const auto leeway = fuse ? leeway_of(g, *model, *symbols) : Leeway{};
  if (!leeway) return "no reference: " + leeway.error().text();
  return difference(*actual, *expected, *leeway);
}

/// The smallest graph found that has a fault of the same kind; sizes are fixed in it.
std::string reduced_text(const Generated& g, Runner& runner, bool fuse, const std::string& message) {
  const std::string how = message.substr(0, message.find(' '));
  command::Repro start{g.graph, g.inputs};
  for (SemanticInput& input : start.graph.inputs) {
    const std::vector<std::int64_t>& shape = g.inputs.at(input.name).shape();
    input.shape.assign(shape.begin(), shape.end());
  }
  const auto with = [&](const command::Repro& r) {
    Generated part = g;
    part.graph = r.graph, part.inputs = r.inputs, part.sites.clear();
    return part;
  };
  const auto fails = [&](const command::Repro& r) {
    Generated part = with(r);
    const std::string found = fault(part, runner, fuse, nullptr);
    const bool refusal = found.starts_with("refused") || found.starts_with("no reference");
    return !found.empty() && (how == "refused:" ? found.starts_with("refused") : !refusal);
  };
  if (how == "unexplained:" || !fails(start)) return {};
  const command::Repro least = command::reduced(start, fails);
  Generated part = with(least);
  std::string out = fmt::format("reduced to (seed {} index {}): {}\n{}", g.seed, g.index,
                                fault(part, runner, fuse, nullptr), to_string(least.graph));
  if (const char* folder = std::getenv("AICF_GENERATED_REPRO")) {
    const std::string path = fmt::format("{}/{}-{}", folder, g.seed, g.index);
    if (command::write_repro(path, least)) out += "written to " + path + "\n";
  }
  return out;
}

/// Runs graph `index` on `runner`, both plans.
void check(std::uint64_t seed, std::uint64_t index, Runner& runner, Tally* tally) {
  const Generated g = generate(seed, index);
  if (std::getenv("AICF_GENERATED_TRACE")) fmt::print(stderr, "graph {}\n{}", index, to_string(g.graph));
  for (const bool fuse : {true, false}) {
    const std::string found = fault(g, runner, fuse, tally);
    if (found.empty()) continue;
    ADD_FAILURE() << fmt::format("AICF_GENERATED_SEED={} AICF_GENERATED_INDEX={} ({}), {} on {}: {}\n", seed, index,
                                 name(g.family), fuse ? "fused" : "unfused", runner.name, found)
                  << (g.data.empty() ? "" : "inputs: " + g.data + "\n") << to_string(g.graph)
                  << reduced_text(g, runner, fuse, found);
    return;
  }
}

constexpr std::uint64_t none = ~std::uint64_t{0};

/// Part `shard` of `shards` of `count` graphs, or the one that the environment names.
void check_all(Runner& runner, std::uint64_t count, std::uint64_t shard, std::uint64_t shards) {
  const std::uint64_t seed = setting("AICF_GENERATED_SEED", 1), only = setting("AICF_GENERATED_INDEX", none);
  std::uint64_t begin = count * shard / shards, end = count * (shard + 1) / shards;
  if (only != none) begin = only, end = only + (shard == 0);
  Tally tally;
  for (std::uint64_t i = begin; i < end; ++i) check(seed, i, runner, &tally);
  fmt::print("{} graphs, of them undetermined {:.2f}, widened {:.2f}\n", tally.graphs, tally.undetermined,
             tally.widened);
  if (only != none) return;
  // What is judged by less than the plain tolerance stays the exception; a shard may be a few graphs.
  const double most = static_cast<double>(tally.graphs) / 10 + 2;
  EXPECT_LE(tally.undetermined, most);
  EXPECT_LE(tally.widened, most);
}

constexpr int shards = 8;
class Interpreted : public ::testing::TestWithParam<int> {};

TEST_P(Interpreted, Graphs) {
  Runner runner = Runner::any_schedule();
  check_all(runner, setting("AICF_GENERATED_COUNT", 2000), static_cast<std::uint64_t>(GetParam()), shards);
}

INSTANTIATE_TEST_SUITE_P(Shard, Interpreted, ::testing::Range(0, shards));

class OnDevice : public ::testing::TestWithParam<int> {};

TEST_P(OnDevice, Lavapipe) {
  NUMERIC_TRY(Runner runner, Runner::device(numeric::lavapipe));
  check_all(runner, setting("AICF_GENERATED_DEVICE_COUNT", 120), static_cast<std::uint64_t>(GetParam()), 4);
}

TEST_P(OnDevice, Emulation) {
  NUMERIC_TRY(Runner runner, Runner::device(numeric::emulation));
  check_all(runner, setting("AICF_GENERATED_DEVICE_COUNT", 120) / 4, static_cast<std::uint64_t>(GetParam()), 4);
}

INSTANTIATE_TEST_SUITE_P(Shard, OnDevice, ::testing::Range(0, 4));

}  // namespace
}  // namespace aicf::generate
