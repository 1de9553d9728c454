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
  std::string tensor;
  std::vector<std::int64_t> index;
  double got = 0, wanted = 0;
};

std::vector<std::int64_t> index_of(std::int64_t flat, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % std::max<std::int64_t>(shape[d], 1);
    flat /= std::max<std::int64_t>(shape[d], 1);
  }
  return index;
}

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
      const Difference d = compare({{o.tensor, run.outputs.at(o.tensor)}}, {{o.tensor, meant.at(o.tensor)}});
      if (d.within(options.absolute, options.relative) || d.element < 0) continue;
      return Divergence{region->region.name,
                        region->region.origin,
                        o.tensor,
                        index_of(d.element, meant.at(o.tensor).shape()),
                        d.got,
                        d.wanted};
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
    return outcome && !compare(outcome->outputs, *wanted).within(options.absolute, options.relative);
  };
  const Repro whole{loaded.model.semantic, loaded.inputs};
  auto part = cut_out(whole, {divergence.nodes.begin(), divergence.nodes.end()});
  return reduced(part && differs(*part) ? *std::move(part) : whole, differs);
}

}  // namespace

Result<int> verify(const Options& given) {
  Options options = given;
  if (options.devices.empty()) options.devices = {"vulkan", "cuda-emulation"};
  AICF_TRY(LoadedModel loaded, load(options, true));
  AICF_TRY(NamedTensors reference, run_reference(loaded));
  bool ok = true;
  Json devices = Json::array(), pairs = Json::array();
  auto say = [&](const std::string& what, const Difference& d, Json& list, Json entry) {
    bool good = d.within(options.absolute, options.relative);
    ok &= good;
    const Json difference = to_json(d, options.absolute, options.relative);
    for (const auto& [key, value] : difference.items()) entry[key] = value;
    list.push_back(entry);
    if (options.json) return;
    fmt::print("{:52} {} max error {:.2e}, relative to the largest value {:.2e}\n", what, good ? "equal " : "DIFFER",
               d.max_abs, d.max_rel);
    if (!good) fmt::print("  first at '{}' element {}: {} instead of {}\n", d.tensor, d.element, d.got, d.wanted);
  };
  // Names what differs and leaves the smallest model that shows it.
  auto explain_difference = [&](Place& place, Json& entry) -> Result<void> {
    AICF_TRY(const auto divergence, first_divergence(place, loaded, options));
    if (!divergence) return {};
    const std::string shown = fmt::format("'{}' [{}]: {} instead of {}", divergence->tensor,
                                          fmt::join(divergence->index, ", "), divergence->got, divergence->wanted);
    if (!options.json)
      fmt::print("  first region that differs: {} ({}): {}\n", divergence->region, fmt::join(divergence->nodes, ", "),
                 shown);
    const Phase phase("look for the smallest model that differs");
    AICF_TRY(const Repro repro, smallest(place, loaded, options, *divergence));
    AICF_RETURN_IF_ERROR(write_repro(options.repro, repro));
    if (!options.json)
      fmt::print("  {} of {} operations still show it: aicf verify {}/model.aicf --inputs {}/inputs.npz --device {}\n",
                 repro.graph.nodes.size(), loaded.model.semantic.nodes.size(), options.repro, options.repro, place.id);
    entry["first_region"] = {{"region", divergence->region}, {"nodes", divergence->nodes},
                             {"tensor", divergence->tensor}, {"index", divergence->index},
                             {"got", divergence->got},       {"wanted", divergence->wanted}};
    entry["repro"] = options.repro;
    return {};
  };
  std::vector<std::pair<std::string, NamedTensors>> results{{"reference", reference}};
  if (!options.expect.empty()) {
    AICF_TRY(NamedTensors expected, read_tensors(options.expect));
    std::string held;
    for (const auto& [name, t] : expected) held += (held.empty() ? "" : ", ") + name;
    for (const auto& [name, t] : reference)
      if (!expected.contains(name))
        return bad_input(fmt::format("no tensor '{}'; there are: {}", name, held), options.expect);
    std::erase_if(expected, [&](const auto& e) { return !reference.contains(e.first); });
    say("reference against " + options.expect, compare(reference, expected), devices, {{"device", "reference"}});
    reference = expected;
  }
  for (const std::string& id : options.devices) {
    if (id == "reference") continue;
    AICF_TRY(Place place, open_place(id));
    AICF_TRY(Outcome outcome, run_at(place, loaded, options, options.fusion == "on"));
    say(fmt::format("{} against {}", id, options.expect.empty() ? "reference" : options.expect),
        compare(outcome.outputs, reference), devices,
        {{"device", id}, {"notes", notes(place, outcome.compiled, loaded)}});
    if (!options.json)
      for (const std::string& note : notes(place, outcome.compiled, loaded)) fmt::print("  {}\n", note);
    if (!compare(outcome.outputs, results.front().second).within(options.absolute, options.relative)) {
      // The difference is the result; that it cannot be narrowed down (no memory, no disk) is only said.
      if (auto explained = explain_difference(place, devices.back()); !explained)
        fmt::print(stderr, "the difference cannot be narrowed down: {}\n", explained.error().text());
    }
    for (std::size_t i = 1; i < results.size(); ++i)
      say(fmt::format("{} against {}", id, results[i].first), compare(outcome.outputs, results[i].second), pairs,
          {{"a", id}, {"b", results[i].first}});
    results.emplace_back(id, std::move(outcome.outputs));
  }
  if (options.json) fmt::print("{}\n", Json{{"devices", devices}, {"pairs", pairs}, {"ok", ok}}.dump());
  return ok ? right : differs;
}

}  // namespace aicf::command
