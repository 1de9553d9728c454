#include "tools/aicf/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mir/kernel/search.h"

namespace aicf::command {

std::string launches_text(const CompiledModel& compiled) {
  return fmt::format("{} launch{}, {} kernel{}", compiled.launches, compiled.launches == 1 ? "" : "es",
                     compiled.kernels, compiled.kernels == 1 ? "" : "s");
}

std::vector<std::string> materialised(const CompiledRegion& region) {
  std::vector<std::string> out;
  for (const RegionOutput& o : region.region.outputs) out.push_back(o.tensor);
  for (const ScratchBuffer& s : region.chosen.lowered.scratch) out.push_back(s.name);
  return out;
}

std::string region_line(const CompiledRegion& r) {
  std::string streams;
  for (const Stream& s : r.chosen.scheduled.region.streams) {
    std::string states;
    for (const StateDecl& d : s.states) states += (states.empty() ? "" : ", ") + d.name;
    streams += fmt::format("{}streams {}{}", streams.empty() ? "" : "; ", s.axis,
                           states.empty() ? "" : fmt::format(" (states {})", states));
  }
  return fmt::format("{}: {}; writes {}", r.region.name, streams.empty() ? "no reduction" : streams,
                     fmt::join(materialised(r), ", "));
}

std::string cost_text(const PredictedCost& cost) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [cause, us] : cost.microseconds)
    if (us >= 0.005 * cost.total) parts.emplace_back(us, cause);
  std::ranges::sort(parts, std::greater{});
  std::string out = fmt::format("{:.1f} us", cost.total);
  for (std::size_t i = 0; i < parts.size(); ++i)
    out += fmt::format("{}{} {:.1f}", i == 0 ? ": " : ", ", parts[i].second, parts[i].first);
  return out;
}

std::string schedule_text(const Schedule& schedule) {
  std::string out = "  " + summary(schedule) + "\n  predicted " + cost_text(schedule.predicted) + "\n";
  for (const std::string& r : schedule.reasons) out += "  because: " + r + "\n";
  if (!schedule.runner_up.empty()) out += "  runner-up: " + schedule.runner_up + "\n";
  return out;
}

std::string steps_text(const CompiledRegion& r, const std::map<std::string, std::int64_t>& sizes) {
  std::string out;
  for (const StreamSteps& s : stream_steps(r.chosen.lowered, r.chosen.scheduled.region, sizes))
    out += fmt::format("  tiles of {}: {:.0f} of {:.0f} ({:.1f} %), masks exclude the rest\n", s.axis, s.run, s.whole,
                       s.whole > 0 ? 100 * s.run / s.whole : 100);
  return out;
}

Json region_json(const CompiledRegion& r) {
  const Schedule& s = r.chosen.scheduled.schedule;
  Json states = Json::array(), laws = Json::array(), axes = Json::object(), tiles = Json::object(),
       predicted = Json::object();
  for (const Stream& stream : r.chosen.scheduled.region.streams)
    for (const StateDecl& d : stream.states) {
      std::string repair;
      for (const RepairGroup& g : stream.repairs)
        for (std::size_t i = 0; i < g.states.size(); ++i)
          if (g.states[i] == d.name) repair = to_string(g.repair[i]);
      states.push_back(
          {{"name", d.name}, {"op", std::string(name(d.reduce))}, {"repair", repair.empty() ? Json() : Json(repair)}});
    }
  for (const CertificateEntry& e : r.chosen.scheduled.region.certificate.entries)
    laws.push_back({{"law", e.law}, {"statement", e.statement}, {"condition", e.condition}});
  for (const auto& [axis, plan] : s.axes) {
    Json factors = Json::array();
    for (const AxisFactor& f : plan.factors)
      factors.push_back({{"level", std::string(name(f.level))}, {"size", f.size}});
    axes[axis] = {{"tile", plan.tile()}, {"factors", factors}};
  }
  for (const auto& [tile, plan] : s.tiles)
    tiles[tile] = {{"residency", std::string(name(plan.residency))},
                   {"delivery", std::string(name(plan.delivery))},
                   {"vector_width", plan.vector_width}};
  for (const auto& [cause, us] : s.predicted.microseconds) predicted[cause] = us;
  bool streamed = false;  // a cascade or a chain that a plain plan would have written to memory
  for (const Stream& stream : r.chosen.scheduled.region.streams)
    streamed |= !stream.repairs.empty() || std::ranges::any_of(stream.step, [](const StepStatement& x) {
      return x.kind == StepStatement::Kind::local && !x.over.empty();
    });
  return {{"name", r.region.name},
          {"kind", std::string(name(r.region.kind))},
          {"streamed", streamed},
          {"nodes", r.region.origin},
          {"states", states},
          {"laws", laws},
          {"materialised", materialised(r)},
          {"schedule",
           {{"summary", summary(s)},
            {"axes", axes},
            {"tiles", tiles},
            {"subgroup_size", s.subgroup_size},
            {"subgroups", s.subgroups},
            {"split", s.split},
            {"reasons", s.reasons},
            {"runner_up", s.runner_up}}},
          {"predicted", {{"total_us", s.predicted.total}, {"limit", s.predicted.limit}, {"us", predicted}}}};
}

Json refusals_json(const std::vector<Refusal>& refusals) {
  Json out = Json::array();
  for (const Refusal& r : refusals) out.push_back({{"nodes", r.nodes}, {"law", r.law}, {"reason", r.reason}});
  return out;
}

Json written_json(const CompiledModel& compiled) {
  Json out = Json::array();
  for (const CompiledRegion& r : compiled.regions)
    for (const RegionOutput& o : r.region.outputs)
      if (const auto why = compiled.cuts.find(o.tensor); why != compiled.cuts.end())
        out.push_back(
            {{"tensor", o.tensor}, {"region", r.region.name}, {"law", why->second.law}, {"reason", why->second.text}});
  return out;
}

Json memory_json(const MemoryPlan& m) {
  Json j{{"weights", m.weights},     {"inputs_outputs", m.inputs_outputs}, {"arena", m.arena},
         {"workspace", m.workspace}, {"live_peak", m.live_peak},           {"sum_of_tensors", m.sum_of_tensors},
         {"total", m.total()}};
  j["arena_over_live"] = m.live_peak ? static_cast<double>(m.arena) / static_cast<double>(m.live_peak) : 1.0;
  return j;
}

std::string memory_text(const MemoryPlan& m) {
  return fmt::format(
      "weights {}, inputs and outputs {}, arena {} (workspace {}; live at once {}, all intermediates {})",
      bytes_text(m.weights), bytes_text(m.inputs_outputs), bytes_text(m.arena), bytes_text(m.workspace),
      bytes_text(m.live_peak), bytes_text(m.sum_of_tensors));
}

namespace {

std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

}  // namespace

std::vector<std::string> notes(const Place& place, const CompiledModel& compiled, const LoadedModel& loaded) {
  std::vector<std::string> out;
  if (place.reference) return out;
  out.push_back(
      fmt::format("{} is {}, scheduled as {}", place.id, place.device->info().name, place.target.model.title));
  std::map<std::string, int> by_law, by_reason;
  for (const Refusal& r : compiled.refusals) {
    ++by_law[r.law];
    if (r.law == "cost") ++by_reason[r.reason];
  }
  for (const Refusal& r : compiled.refusals) {  // layers of one form are refused alike: said once
    if (r.law != "cost" || by_reason[r.reason] == 0) continue;
    const int alike = std::exchange(by_reason[r.reason], 0) - 1;
    out.push_back(fmt::format("not fused: {}{}: {}", first_of(r.nodes),
                              alike > 0 ? fmt::format(" (and {} alike)", alike) : "", r.reason));
  }
  by_law.erase("cost");
  std::string laws;
  int refused = 0;
  for (const auto& [law, count] : by_law)
    laws += fmt::format("{}{} {}", laws.empty() ? "" : ", ", law, count), refused += count;
  if (refused > 0)
    out.push_back(fmt::format("{} wider fusion{} refused ({}): aicf explain --stage region names the operations",
                              refused, refused == 1 ? "" : "s", laws));
  std::vector<std::string> doubles;
  for (const NodeId id : loaded.model.graph.topological_order())
    if (loaded.model.graph.node(id).type == DType::f64) doubles.push_back(loaded.model.graph.node(id).name);
  if (!doubles.empty()) out.push_back("computed in f32 in place of f64: " + first_of(doubles));
  return out;
}

void print_outputs(const NamedTensors& outputs) {
  for (const auto& [name, t] : outputs) {
    std::string values;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(t.size(), 4); ++i)
      values += fmt::format("{}{:.6g}", i ? ", " : "", t.at(i));
    fmt::print("{}: {}[{}] = {}{}\n", name, aicf::name(t.type()), fmt::join(t.shape(), ", "), values,
               t.size() > 4 ? ", …" : "");
  }
}

Json launches_json(const CompiledModel& compiled, const RunResult& run) {
  Json out = Json::array();
  for (std::size_t i = 0; i < run.launches.size(); ++i) {
    const LaunchRecord& l = run.launches[i];
    Json j{{"region", l.region}, {"kernel", l.kernel}, {"ms", l.milliseconds}, {"workgroups", l.workgroups}};
    if (!l.counters.bytes_read.empty()) {
      Json read = Json::object(), written = Json::object();
      const Launch& launch = compiled.program.launches[i];
      for (std::size_t a = 0; a < launch.buffers.size(); ++a) {
        const std::string& tensor = compiled.program.buffers[launch.buffers[a]].name;
        if (l.counters.bytes_read[a]) read[tensor] = l.counters.bytes_read[a];
        if (l.counters.bytes_written[a]) written[tensor] = l.counters.bytes_written[a];
      }
      j["bytes_read"] = read;
      j["bytes_written"] = written;
    }
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace aicf::command
