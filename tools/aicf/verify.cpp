#include <fmt/format.h>

#include "tools/aicf/report.h"

namespace aicf::command {

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
        compare(outcome.outputs, reference), devices, {{"device", id}});
    for (std::size_t i = 1; i < results.size(); ++i)
      say(fmt::format("{} against {}", id, results[i].first), compare(outcome.outputs, results[i].second), pairs,
          {{"a", id}, {"b", results[i].first}});
    results.emplace_back(id, std::move(outcome.outputs));
  }
  if (options.json) fmt::print("{}\n", Json{{"devices", devices}, {"pairs", pairs}, {"ok", ok}}.dump());
  return ok ? right : differs;
}

}  // namespace aicf::command
