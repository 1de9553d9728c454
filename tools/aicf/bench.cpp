#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "tools/aicf/progress.h"
#include "tools/aicf/report.h"

namespace aicf::command {

namespace {

struct Measured {
  std::string label;
  std::vector<double> ms, cpu_ms;
  double first_s = 0;
  RunResult run;
  Outcome loaded;
  std::unique_ptr<Executor> executor;
  std::size_t place = 0;
};

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

/// CPU time of this process so far, all threads: on software devices it is the kernels' own, whatever else runs.
double cpu_milliseconds() {
  return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

}  // namespace

Result<int> bench(const Options& given) {
  Options options = given;
  if (options.devices.empty()) options.devices = {"vulkan"};
  const auto process_start = std::chrono::steady_clock::now();
  AICF_TRY(LoadedModel loaded, load(options, true));
  std::vector<Place> places;
  std::vector<std::unique_ptr<Measured>> all;
  for (const std::string& id : options.devices) {
    if (id == "reference") return bad_input("bench measures devices; the reference is not one");
    AICF_TRY(Place place, open_place(id));
    places.push_back(std::move(place));
  }
  for (std::size_t p = 0; p < places.size(); ++p)
    for (bool fuse : {options.fusion == "on", false}) {
      if (!fuse && options.fusion == "on" && options.against != "unfused") continue;
      auto m = std::make_unique<Measured>();
      m->label = places[p].id + (fuse ? "" : " unfused");
      m->place = p;
      AICF_TRY(m->executor, compile_and_load(places[p], loaded, options, fuse, m->loaded));
      {
        const Phase phase("first run of " + m->label);
        AICF_TRY(m->run, m->executor->run(loaded.inputs, loaded.symbols));
      }
      m->first_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - process_start).count();
      all.push_back(std::move(m));
      if (options.fusion == "off") break;
    }
  // Interleaved, so that drift of the machine meets every plan alike.
  auto phase = std::make_unique<Phase>("measure");
  for (int i = 0; i < options.repetitions; ++i)
    for (auto& m : all) {
      phase->at("repetition", i + 1, options.repetitions);
      double cpu = cpu_milliseconds();
      AICF_TRY(m->run, m->executor->run(loaded.inputs, loaded.symbols));
      m->cpu_ms.push_back(cpu_milliseconds() - cpu);
      m->ms.push_back(m->run.milliseconds);
    }
  phase.reset();
  Json list = Json::array();
  for (auto& m : all) {
    double low = *std::ranges::min_element(m->ms), high = *std::ranges::max_element(m->ms);
    if (options.json) {
      list.push_back({{"device", places[m->place].id},
                      {"plan", m->label},
                      {"median_ms", median(m->ms)},
                      {"min_ms", low},
                      {"max_ms", high},
                      {"cpu_ms", median(m->cpu_ms)},
                      {"first_s", m->first_s},
                      {"launches", m->run.launches.size()},
                      {"arena", m->run.memory.arena},
                      {"notes", notes(places[m->place], m->loaded.compiled, loaded)},
                      {"kernels", launches_json(m->loaded.compiled, m->run)}});
      continue;
    }
    fmt::print(
        "{}: median {:.3f} ms (min {:.3f}, max {:.3f}) of {}; {} launches, arena {}, first result after {:.2f} s\n",
        m->label, median(m->ms), low, high, options.repetitions, m->run.launches.size(),
        bytes_text(m->run.memory.arena), m->first_s);
    for (const std::string& note : notes(places[m->place], m->loaded.compiled, loaded)) fmt::print("  {}\n", note);
    for (std::size_t i = 0; i < m->run.launches.size(); ++i) {
      double predicted = 0;
      for (const CompiledRegion& r : m->loaded.compiled.regions)
        if (r.region.name == m->run.launches[i].region) predicted = r.chosen.scheduled.schedule.predicted.total / 1000;
      fmt::print("  {:28} {:10.3f} ms   predicted {:.3f}\n", m->run.launches[i].kernel, m->run.launches[i].milliseconds,
                 predicted);
    }
  }
  if (options.json) fmt::print("{}\n", Json{{"devices", list}, {"inputs", loaded.inputs_from}}.dump());
  return right;
}

}  // namespace aicf::command
