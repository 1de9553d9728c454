#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "tools/aicf/report.h"

namespace aicf::command {

Result<int> run(const Options& given) {
  Options options = given;
  if (is_package(options.model)) return run_package(options);
  if (options.devices.empty()) options.devices = {"vulkan"};
  if (options.devices.size() > 1) return bad_input("run takes one --device; verify and bench take several");
  AICF_TRY(LoadedModel loaded, load(options, true));
  AICF_TRY(Place place, open_place(options.devices[0]));
  AICF_TRY(Outcome outcome, run_at(place, loaded, options, options.fusion == "on"));
  if (!options.outputs.empty()) AICF_RETURN_IF_ERROR(write_outputs(options.outputs, outcome.outputs));
  if (options.json) {
    Json j{{"device", place.id},
           {"inputs", loaded.inputs_from},
           {"compile_s", outcome.compile_seconds},
           {"load_s", outcome.load_seconds},
           {"ms", outcome.run.milliseconds},
           {"launches", outcome.run.launches.size()},
           {"memory", memory_json(outcome.run.memory)},
           {"notes", notes(place, outcome.compiled, loaded)},
           {"kernels", launches_json(outcome.compiled, outcome.run)}};
    fmt::print("{}\n", j.dump());
    return right;
  }
  if (!options.quiet) fmt::print(stderr, "{}\n", loaded.inputs_from);
  print_outputs(outcome.outputs);
  if (!place.reference) {
    fmt::print("{} ({}): {} launches, {:.2f} ms; compiled in {:.2f} s, loaded in {:.2f} s\n", place.id,
               place.target.model.title, outcome.run.launches.size(), outcome.run.milliseconds, outcome.compile_seconds,
               outcome.load_seconds);
    fmt::print("memory: {}\n", memory_text(outcome.run.memory));
    for (const std::string& note : notes(place, outcome.compiled, loaded)) fmt::print("{}\n", note);
  }
  return right;
}

Result<int> compile(const Options& options) {
  AICF_TRY(LoadedModel loaded, load(options, false));
  Package package;
  package.model_name = loaded.model.name;
  Json report = Json::array();
  for (const std::string& t : options.targets) {
    AICF_TRY(Target target, [&]() -> Result<Target> {
      if (t.find(':') == std::string::npos || t.starts_with("cuda-emulation")) return find_target(t);
      AICF_TRY(Place place, open_place(t));
      return std::move(place.target);
    }());
    AICF_TRY(CompileOptions compile, compile_options(options, loaded.symbols, options.fusion == "on"));
    AICF_TRY(CompiledModel compiled, compile_for(target, loaded, compile));
    Json kernels = Json::array();
    for (const KernelBinary& k : compiled.program.kernels) {
      Json j{{"name", k.name}, {"bytes", k.bytes.size()}};
      for (const auto& [key, value] : k.statistics) j[key] = value;
      kernels.push_back(j);
      if (!options.json && !k.statistics.empty())
        fmt::print("{} {}: {} registers, {} bytes of spills\n", t, k.name, k.statistics.at("registers"),
                   k.statistics.at("spill_store_bytes") + k.statistics.at("spill_load_bytes"));
    }
    report.push_back({{"target", t}, {"launches", compiled.launches}, {"kernels", kernels}});
    if (!options.json) fmt::print("{}: {}\n", t, launches_text(compiled));
    package.programs.push_back(std::move(compiled.program));
  }
  AICF_RETURN_IF_ERROR(write_package(
      options.output, package, options.weights == "reference" ? WeightStorage::referenced : WeightStorage::embedded));
  if (options.json)
    fmt::print("{}\n", Json{{"package", options.output}, {"targets", report}}.dump());
  else
    fmt::print("{}: {} targets\n", options.output, package.programs.size());
  return right;
}

Result<int> devices(const Options& options) {
  Json list = Json::array();
  for (Driver* d : drivers()) {
    std::string why;
    for (const DeviceInfo& info : d->devices(&why)) {
      std::string model = "no model";
      for (const Backend* b : backends())
        if (auto m = b->model_of(info.driver, info.name, info.properties)) {
          model = m->title;
          break;
        }
      if (options.json)
        list.push_back({{"id", info.id}, {"name", info.name}, {"description", info.description}, {"model", model}});
      else
        fmt::print("{:24} {} ({}); scheduled as {}\n", info.id, info.name, info.description, model);
    }
    if (!why.empty() && !options.json) fmt::print("{:24} none: {}\n", d->name(), why);
  }
  Json profiles = Json::array();
  for (const Backend* b : backends())
    for (const std::string& p : b->profiles()) {
      AICF_TRY(DeviceModel m, b->profile(p));
      if (options.json)
        profiles.push_back({{"target", p}, {"backend", b->name()}, {"title", m.title}});
      else
        fmt::print("target {:17} {} ({})\n", p, m.title, b->name());
    }
  if (options.json)
    fmt::print("{}\n", Json{{"devices", list}, {"targets", profiles}}.dump());
  else
    fmt::print("reference                float64, node by node\n");
  return right;
}

}  // namespace aicf::command
