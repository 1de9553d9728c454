#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tools/aicf/report.h"

namespace aicf::command {

namespace {

std::string attention_text(const Region& r) {
  if (!r.roles) return "";
  return fmt::format("AttentionRegion {}: q = {}, k = {}, v = {}, scale = {}, mask = {}, normalised over {}\n", r.name,
                     r.roles->q, r.roles->k, r.roles->v, r.roles->scale, r.roles->mask, r.roles->normalised_axis);
}

// Whose kernels a region runs, and on which tensors.
std::string tensors_text(const CompiledRegion& r) {
  std::string out = fmt::format("{}: kernels of {} with ", r.region.name, r.form);
  bool first = true;
  for (const auto& [in_source, tensor] : r.tensors)
    out += fmt::format("{}{} = {}", std::exchange(first, false) ? "" : ", ", in_source, tensor);
  return out + "\n";
}

std::string certificate_text(const StreamingRegion& r) {
  std::string out;
  for (const CertificateEntry& e : r.certificate.entries)
    out += fmt::format("  law {} on '{}': {}\n", e.law, e.statement, e.condition);
  return out;
}

void heading(const std::string& text) {
  fmt::print("== {}\n", text);
}

/// Device memory of a run, where all sizes are known.
struct Sizes {
  std::optional<MemoryPlan> plan;
  std::vector<std::string> unbound;
};

Result<Sizes> sizes_of(const Program& program, const LoadedModel& loaded, const Options& options) {
  constexpr std::size_t alignment = 256;  // the largest that a driver asks for
  Sizes out;
  for (const std::string& s : program.symbols)
    if (!loaded.symbols.contains(s)) out.unbound.push_back(s);
  if (out.unbound.empty()) {
    AICF_TRY(out.plan, plan_memory(program, loaded.symbols, alignment, options.max_memory));
  } else if (options.max_memory != 0) {
    return bad_input(
        fmt::format("--max-memory: the sizes {} are not known: give --bind NAME=VALUE", fmt::join(out.unbound, ", ")));
  }
  return out;
}

}  // namespace

Result<int> explain(const Options& given) {
  Options options = given;
  if (options.targets.empty()) options.targets = {"lavapipe"};
  AICF_TRY(LoadedModel loaded, load(options, false));
  auto wants = [&](const char* stage) { return options.stage == "all" || options.stage == stage; };
  if (options.dot) {
    if (options.stage == "semantic")
      fmt::print("{}", to_dot(loaded.model.semantic));
    else if (options.stage == "canonical")
      fmt::print("{}", to_dot(loaded.model.graph));
  }
  Json report;
  report["regions"] = Json::array();
  report["refusals"] = Json::array();
  if (!options.json && !options.dot) {
    if (wants("semantic")) heading("semantic graph"), fmt::print("{}\n", to_string(loaded.model.semantic));
    if (wants("canonical")) heading("canonical graph"), fmt::print("{}\n", to_string(loaded.model.graph));
  }
  Json targets = Json::object(), counts = Json::object(), memory = Json::object();
  bool first = true;
  for (const std::string& t : options.targets) {
    Target target;
    if (t.find(':') == std::string::npos || t.starts_with("cuda-emulation")) {
      AICF_TRY(target, find_target(t));
    } else {
      AICF_TRY(Place place, open_place(t));
      target = std::move(place.target);
    }
    AICF_TRY(CompileOptions compile, compile_options(options, loaded.symbols, options.fusion == "on"));
    compile.assemble = options.stage == "binary";
    AICF_TRY(CompiledModel compiled, compile_for(target, loaded, compile));
    AICF_TRY(const Sizes sizes, sizes_of(compiled.program, loaded, options));
    bool found = options.region.empty();
    if (options.json) {
      Json regions = Json::array();
      for (const CompiledRegion& r : compiled.regions)
        if (options.region.empty() || r.region.name == options.region) regions.push_back(region_json(r)), found = true;
      targets[t] = regions;
      memory[t] = sizes.plan ? memory_json(*sizes.plan) : Json{{"unbound", sizes.unbound}};
      counts[t] = {{"launches", compiled.launches}, {"kernels", compiled.kernels}};
      if (first)
        report["regions"] = regions, report["refusals"] = refusals_json(compiled.refusals),
        report["written"] = written_json(compiled), report["folded"] = loaded.model.folded;
      first = false;
      if (!found) return bad_input(fmt::format("no region '{}'", options.region));
      continue;
    }
    auto each = [&](auto&& print) {
      for (const CompiledRegion& r : compiled.regions)
        if (options.region.empty() || r.region.name == options.region) print(r), found = true;
    };
    if (options.dot) {
      if (options.stage != "semantic" && options.stage != "canonical")
        each([&](const CompiledRegion& r) { fmt::print("{}", to_dot(r.chosen.scheduled.region)); });
      break;
    }
    if (first) {
      // What does not depend on the device.
      if (wants("region")) {
        heading("regions");
        each([&](const CompiledRegion& r) { fmt::print("{}{}\n", attention_text(r.region), to_string(r.region)); });
        for (const Refusal& r : compiled.refusals)
          fmt::print("refused: {}: {} ({})\n", fmt::join(r.nodes, ", "), r.reason, r.law);
        for (const CompiledRegion& r : compiled.regions)
          for (const RegionOutput& o : r.region.outputs)
            if (const auto why = compiled.cuts.find(o.tensor); why != compiled.cuts.end())
              fmt::print("written: {} by {}: {} ({})\n", o.tensor, r.region.name, why->second.text, why->second.law);
      }
      if (wants("stream")) {
        heading("streaming regions");
        each([&](const CompiledRegion& r) {
          fmt::print("{}{}\n", to_string(r.chosen.scheduled.region), certificate_text(r.chosen.scheduled.region));
        });
      }
      first = false;
    }
    if (wants("summary") || wants("schedule"))
      fmt::print("memory on {}: {}\n", t,
                 sizes.plan ? memory_text(*sizes.plan)
                            : fmt::format("depends on {}: --bind NAME=VALUE", fmt::join(sizes.unbound, ", ")));
    if (options.stage == "summary") {
      each([&](const CompiledRegion& r) {
        fmt::print("{}\n{}{}", region_line(r), schedule_text(r.chosen.scheduled.schedule),
                   steps_text(r, loaded.symbols));
      });
      fmt::print("{}: {}\n", t, launches_text(compiled));
    }
    if (wants("schedule")) {
      heading(fmt::format("scheduled for {} ({})", t, target.model.title));
      each([&](const CompiledRegion& r) {
        fmt::print("{}{}{}\n", to_string(r.chosen.scheduled), schedule_text(r.chosen.scheduled.schedule),
                   steps_text(r, loaded.symbols));
      });
    }
    if (wants("kernel")) {
      heading(fmt::format("kernels for {}", t));
      each([&](const CompiledRegion& r) {
        for (const Kernel& k : r.chosen.lowered.kernels) fmt::print("{}\n", to_string(k));
      });
    }
    if (wants("source")) {
      heading(fmt::format("source for {} ({})", t, target.backend->name()));
      std::set<std::string> printed;
      each([&](const CompiledRegion& r) {
        fmt::print("{}", tensors_text(r));
        if (printed.insert(r.form).second)
          for (const std::string& s : r.sources) fmt::print("{}\n", s);
      });
    }
    if (options.stage == "binary") {
      heading(fmt::format("binaries for {}", t));
      each([&](const CompiledRegion& r) {
        for (const std::string& s : r.binaries) fmt::print("{}: {}\n", r.region.name, s);
      });
    }
    if (!found) return bad_input(fmt::format("no region '{}'", options.region));
  }
  if (options.json) {
    report["targets"] = targets;
    report["counts"] = counts;
    report["memory"] = memory;
    fmt::print("{}\n", report.dump());
  }
  return right;
}

}  // namespace aicf::command
