#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "mir/kernel/search.h"
#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"
#include "tools/aicf/scores.h"

namespace aicf::command {

namespace {

struct PlanFigures {
  std::size_t launches = 0, tensors = 0;
  std::uint64_t bytes = 0, score_bytes = 0;
  double ms = 0;
  Difference difference;
};

std::uint64_t buffer_bytes(const BufferPlan& b, const std::map<std::string, std::int64_t>& symbols) {
  std::uint64_t n = device_size(b.type);
  for (const Expr& d : b.shape) n *= static_cast<std::uint64_t>(evaluate_int(d, symbols).value_or(0));
  return n;
}

Result<PlanFigures> measure(Place& place, const LoadedModel& loaded, const Options& options, bool fuse,
                            const NamedTensors& expected, const std::set<std::string>& scores, CompiledModel* keep,
                            NamedTensors& outputs) {
  PlanFigures f;
  Outcome ready;
  AICF_TRY(auto executor, compile_and_load(place, loaded, options, fuse, ready));
  CompiledModel& compiled = ready.compiled;
  Phase phase(fmt::format("run the {} plan on {}", fuse ? "fused" : "unfused", place.id));
  std::vector<double> ms;
  RunResult run;
  int repetitions = place.target.kind == BinaryKind::cuda_source ? 1 : 6;
  for (int i = 0; i < repetitions; ++i) {
    phase.at("repetition", i + 1, repetitions);
    AICF_TRY(run, executor->run(loaded.inputs, loaded.symbols));
    if (i > 0 || repetitions == 1) ms.push_back(run.milliseconds);
  }
  std::ranges::sort(ms);
  f.ms = ms[ms.size() / 2];
  f.launches = run.launches.size();
  for (const BufferPlan& b : compiled.program.buffers) {
    if (b.kind != BufferPlan::Kind::intermediate && b.kind != BufferPlan::Kind::output) continue;
    ++f.tensors;
    f.bytes += buffer_bytes(b, loaded.symbols);
    if (scores.contains(b.name)) f.score_bytes += buffer_bytes(b, loaded.symbols);
  }
  outputs = run.outputs;
  f.difference = compare(outputs, expected, options.absolute, options.relative);
  if (keep) *keep = std::move(compiled);
  return f;
}

// The last path component of each node's name.
std::string short_origin(const std::vector<std::string>& origin) {
  std::string out;
  for (const std::string& o : origin) out += (out.empty() ? "" : ", ") + o.substr(o.rfind('/') + 1);
  return out;
}

// Models are often called model.onnx: then the folder names them.
std::string shown_name(const std::string& path, const std::string& stem) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path().filename();
  return stem == "model" && !folder.empty() ? folder.string() : stem;
}

std::string derived_text(const CompiledRegion& r) {
  std::string out;
  for (const Stream& s : r.chosen.scheduled.region.streams) {
    out += fmt::format("derived  one pass over {}; states", s.axis);
    for (const StateDecl& d : s.states) out += fmt::format(" {}[{}]", d.name, fmt::join(d.axes, ", "));
    out += "\n";
    for (const RepairGroup& g : s.repairs)
      out += fmt::format("         repair of ({}) when {} moves: {}\n", fmt::join(g.states, ", "),
                         fmt::join(g.references, ", "), to_string(g.repair.front()));
  }
  return out;
}

void print_found(const LoadedModel& loaded, const CompiledModel& compiled, const std::string& path) {
  std::map<std::string, int> kinds;
  for (const CompiledRegion& r : compiled.regions) ++kinds[std::string(name(r.region.kind))];
  std::string regions;
  for (const auto& [kind, n] : kinds) regions += fmt::format("{}{} {}", regions.empty() ? "" : ", ", n, kind);
  fmt::print("{}: {} operations become {} regions: {}\n", shown_name(path, loaded.model.name),
             loaded.model.semantic.nodes.size(), compiled.regions.size(), regions);
  std::vector<std::string> order;  // what is said, and of which regions
  std::map<std::string, std::vector<const CompiledRegion*>> said;
  for (const CompiledRegion& r : compiled.regions) {
    if (!r.region.roles) continue;
    const std::string text = derived_text(r);
    if (!said.contains(text)) order.push_back(text);
    said[text].push_back(&r);
  }
  for (const std::string& text : order) {
    const CompiledRegion& r = *said[text].front();
    const AttentionRoles& roles = *r.region.roles;
    fmt::print("found    {}: q = {}, k = {}, v = {}\n         scale {}, mask {}\n         from {}\n", r.region.name,
               roles.q, roles.k, roles.v, roles.scale, roles.mask, short_origin(r.region.origin));
    if (said[text].size() > 1) {
      std::string others;
      for (const CompiledRegion* other : said[text] | std::views::drop(1)) others += " " + other->region.name;
      fmt::print("         and in the same form{}\n", others);
    }
    fmt::print("{}", text);
  }
}

}  // namespace

Result<int> compare_plans(const Options& given) {
  Options options = given;
  if (options.devices.empty()) options.devices = {"vulkan"};
  AICF_TRY(LoadedModel loaded, load(options, true));
  NamedTensors expected;
  if (options.expect.empty()) {
    AICF_TRY(expected, run_reference(loaded));
  } else {
    AICF_TRY(expected, read_expected(options, loaded));
  }
  const std::set<std::string> scores = score_tensors(loaded.model.graph);
  bool ok = true, said = false;
  Json report = Json::array();
  for (const std::string& id : options.devices) {
    AICF_TRY(Place place, open_place(id));
    CompiledModel compiled;
    NamedTensors outputs, same;
    AICF_TRY(PlanFigures fused, measure(place, loaded, options, true, expected, scores, &compiled, outputs));
    AICF_TRY(PlanFigures unfused, measure(place, loaded, options, false, expected, scores, nullptr, same));
    if (!options.outputs.empty() && id == options.devices.front())
      AICF_RETURN_IF_ERROR(write_outputs(options.outputs, outputs));
    ok &= fused.difference.none() && unfused.difference.none();
    if (options.json) {
      auto figures = [&](const PlanFigures& f) {
        Json j{{"launches", f.launches},
               {"tensors_written", f.tensors},
               {"bytes_written", f.bytes},
               {"score_bytes", f.score_bytes},
               {"median_ms", f.ms}};
        j["difference"] = to_json(f.difference);
        return j;
      };
      report.push_back({{"device", id},
                        {"fused", figures(fused)},
                        {"unfused", figures(unfused)},
                        {"notes", notes(place, compiled, loaded)}});
      continue;
    }
    if (!said) print_found(loaded, compiled, options.model);
    said = true;
    fmt::print("\n{} ({}, {})\n", id, place.device->info().name, place.target.model.title);
    std::set<std::string> schedules;
    for (const CompiledRegion& r : compiled.regions) {
      if (!r.region.roles) continue;
      const Schedule& s = r.chosen.scheduled.schedule;
      if (!schedules.insert(summary(s)).second) continue;
      fmt::print("schedule {}\n", summary(s));
      for (const std::string& reason : s.reasons) fmt::print("  because {}\n", reason);
      if (!s.runner_up.empty()) fmt::print("  runner-up {}\n", s.runner_up);
    }
    for (const std::string& note : notes(place, compiled, loaded) | std::views::drop(1)) fmt::print("{}\n", note);
    fmt::print("  {:10} {:>9} {:>16} {:>14} {:>26} {:>11} {:>11}\n", "plan", "launches", "tensors written",
               "bytes written", "of scores, probabilities", "median ms", "max error");
    for (const auto& [label, f] : {std::pair{"fused", &fused}, std::pair{"unfused", &unfused}})
      fmt::print("  {:10} {:>9} {:>16} {:>14} {:>26} {:>11.2f} {:>11.1e}{}\n", label, f->launches, f->tensors, f->bytes,
                 f->score_bytes, f->ms, f->difference.max_abs, f->difference.none() ? "" : "  DIFFERS");
  }
  if (options.json)
    fmt::print("{}\n", Json{{"devices", report}, {"ok", ok}}.dump());
  else
    fmt::print("\n{}\n", ok ? "every plan equals the expected values" : "a plan differs from the expected values");
  return ok ? right : differs;
}

}  // namespace aicf::command
