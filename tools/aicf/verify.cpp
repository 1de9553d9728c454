#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mir/graph/oracle.h"
#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"
#include "tools/aicf/repro.h"

namespace aicf::command {

namespace {

/// The first tensor written on the device, in the order of the launches, that leaves the float64 meaning.
struct Divergence {
  std::string region;
  std::vector<std::string> nodes;  ///< the model's own
  Difference difference;
};

Result<std::optional<Divergence>> first_divergence(Place& place, const LoadedModel& loaded, const Options& options) {
  AICF_TRY(CompileOptions how, compile_options(options, loaded.symbols, options.fusion == "on"));
  AICF_TRY(CompiledModel compiled, compile_for(place.target, loaded, how));
  std::set<std::string> written;
  compiled.program.outputs.clear();  // by the names of the graph, and every intermediate with them
  for (std::size_t i = 0; i < compiled.program.buffers.size(); ++i) {
    BufferPlan& b = compiled.program.buffers[i];
    if (b.kind == BufferPlan::Kind::intermediate)
      b.kind = BufferPlan::Kind::output;  // keeps its place and is read back
    if (b.kind != BufferPlan::Kind::output || !compiled.graph.find(b.name)) continue;
    written.insert(b.name);
    compiled.program.outputs.push_back({b.name, static_cast<int>(i)});
  }
  AICF_TRY(auto executor, Executor::create(*place.device, compiled.program));
  AICF_TRY(const RunResult run, executor->run(loaded.inputs, loaded.symbols));
  AICF_TRY(const NamedTensors meant,
           evaluate_graph(compiled.graph, loaded.model.constants, loaded.inputs, loaded.symbols, written));
  for (const Launch& launch : compiled.program.launches) {
    auto region =
        std::ranges::find(compiled.regions, launch.region, [](const CompiledRegion& r) { return r.region.name; });
    if (region == compiled.regions.end()) continue;
    for (const RegionOutput& o : region->region.outputs) {
      if (!meant.contains(o.tensor) || !run.outputs.contains(o.tensor)) continue;
      Difference d = compare({{o.tensor, run.outputs.at(o.tensor)}}, {{o.tensor, meant.at(o.tensor)}}, options.absolute,
                             options.relative);
      if (d.first) return Divergence{region->region.name, region->region.origin, std::move(d)};
    }
  }
  return std::nullopt;
}

/// The smallest part of the model that still differs on the device, starting from the region's own operations.
Result<Repro> smallest(Place& place, const LoadedModel& loaded, const Options& options, const Divergence& divergence) {
  const auto differs = [&](const Repro& r) {
    LoadedModel part;
    auto model = canonicalise(r.graph);
    if (!model) return false;
    part.model = *std::move(model);
    part.inputs = r.inputs;
    const auto wanted = run_reference(part);
    if (!wanted) return false;
    const auto outcome = run_at(place, part, options, options.fusion == "on");
    return outcome && !compare(outcome->outputs, *wanted, options.absolute, options.relative).none();
  };
  const Repro given{loaded.model.semantic, loaded.inputs};
  if (auto part = cut_out(given, {divergence.nodes.begin(), divergence.nodes.end()}); part && differs(*part))
    return reduced(*std::move(part), differs);
  // Of all operations, with the weights among the inputs: the text form holds only short constants.
  std::set<std::string> all;
  for (const SemanticNode& n : given.graph.nodes) all.insert(n.name);
  AICF_TRY(Repro whole, cut_out(given, all));
  if (!differs(whole)) return run_failure("with its weights as inputs the model does not show it");
  return reduced(std::move(whole), differs);
}

/// What shows the difference again, as a line for a POSIX shell.
std::string command_of(const Options& options, const std::string& folder, const std::string& device) {
  std::string out = fmt::format("aicf verify {} --inputs {} --device {}", shell_word(folder + "/model.aicf"),
                                shell_word(folder + "/inputs.npz"), shell_word(device));
  const Options standard;
  if (options.absolute != standard.absolute) out += fmt::format(" --abs {}", options.absolute);
  if (options.relative) out += fmt::format(" --rel {}", *options.relative);
  if (options.fusion != standard.fusion) out += " --fusion " + options.fusion;
  for (const std::string& forced : options.forced) out += " --schedule " + shell_word(forced);
  if (options.optimize_for != standard.optimize_for) out += " --optimize-for " + options.optimize_for;
  if (options.cache != standard.cache) out += " --cache " + options.cache;
  return out;
}

}  // namespace

Result<int> verify(const Options& given) {
  Options options = given;
  if (options.devices.empty()) options.devices = {"vulkan", "cuda-emulation"};
  AICF_TRY(LoadedModel loaded, load(options, true));
  NamedTensors expected;
  if (!options.expect.empty()) {
    AICF_TRY(expected, read_expected(options, loaded));
  }
  AICF_TRY(NamedTensors reference, run_reference(loaded));
  bool ok = true;
  int explained = 0;
  Json devices = Json::array(), pairs = Json::array();
  const auto difference_of = [&](const NamedTensors& got, const NamedTensors& wanted) {
    return compare(got, wanted, options.absolute, options.relative);
  };
  auto say = [&](const std::string& what, const Difference& d, Json& list, Json entry) {
    ok &= d.none();
    entry.update(to_json(d));
    list.push_back(std::move(entry));
    if (options.json) return;
    fmt::print("{:52} {} max error {:.2e}, relative to the largest value {:.2e}\n", what,
               d.none() ? "equal " : "DIFFER", d.max_abs, d.max_rel);
    if (!d.none()) fmt::print("  first at {}\n", to_text(d));
    std::fflush(stdout);  // a run that is interrupted later has said this
  };
  // Names what differs and leaves the smallest model that shows it.
  auto explain_difference = [&](Place& place, Json& entry) -> Result<void> {
    AICF_TRY(const auto divergence, first_divergence(place, loaded, options));
    if (!divergence) return {};
    entry["first_region"] = {{"region", divergence->region}, {"nodes", divergence->nodes}};
    entry["first_region"].update(to_json(divergence->difference)["first_bad"]);
    if (!options.json)
      fmt::print("  first region that differs: {} ({}): {}\n", divergence->region, fmt::join(divergence->nodes, ", "),
                 to_text(divergence->difference));
    std::fflush(stdout);
    const Phase phase("look for the smallest model that differs");
    AICF_TRY(const Repro repro, smallest(place, loaded, options, *divergence));
    const std::string folder = ++explained == 1 ? options.repro : fmt::format("{}-{}", options.repro, explained);
    if (auto written = write_repro(folder, repro); !written) {
      fmt::print(stderr, "the smallest model that differs is not kept: {}\n", written.error().text());
      return {};
    }
    if (!options.json)
      fmt::print("  {} of {} operations still show it: {}\n", repro.graph.nodes.size(),
                 loaded.model.semantic.nodes.size(), command_of(options, folder, place.id));
    entry["repro"] = folder;
    return {};
  };
  std::vector<std::pair<std::string, NamedTensors>> results{{"reference", reference}};
  if (!options.expect.empty()) {
    say("reference against " + options.expect, difference_of(reference, expected), devices, {{"device", "reference"}});
    reference = std::move(expected);
  }
  for (const std::string& id : options.devices) {
    if (id == "reference") continue;
    AICF_TRY(Place place, open_place(id));
    AICF_TRY(Outcome outcome, run_at(place, loaded, options, options.fusion == "on"));
    const Difference difference = difference_of(outcome.outputs, reference);
    say(fmt::format("{} against {}", id, options.expect.empty() ? "reference" : options.expect), difference, devices,
        {{"device", id}, {"notes", notes(place, outcome.compiled, loaded)}});
    if (!options.json)
      for (const std::string& note : notes(place, outcome.compiled, loaded)) fmt::print("  {}\n", note);
    const bool as_meant = difference_of(outcome.outputs, results.front().second).none();
    if (!as_meant) {
      // The difference is the result; that it cannot be narrowed down (no memory) is only said.
      if (auto narrowed = explain_difference(place, devices.back()); !narrowed)
        fmt::print(stderr, "the difference cannot be narrowed down: {}\n", narrowed.error().text());
    } else if (!difference.none()) {
      devices.back()["agrees_with_reference"] = true;
      if (!options.json)
        fmt::print("  it agrees with the reference: the expected values, or what the graph means, differ\n");
    }
    for (std::size_t i = 1; i < results.size(); ++i)
      say(fmt::format("{} against {}", id, results[i].first), difference_of(outcome.outputs, results[i].second), pairs,
          {{"a", id}, {"b", results[i].first}});
    results.emplace_back(id, std::move(outcome.outputs));
  }
  if (options.json) fmt::print("{}\n", Json{{"devices", devices}, {"pairs", pairs}, {"ok", ok}}.dump());
  return ok ? right : differs;
}

}  // namespace aicf::command
