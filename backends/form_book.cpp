#include "backends/form_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "mir/kernel/print_source.h"
#include "mir/memory/rename.h"

namespace aicf {

namespace {

std::string place_name(std::size_t place) {
  return fmt::format("#{}", place);
}

// Tiles of a schedule under other names, in its plans and in its words.
Schedule with_names(const Schedule& s, const std::map<std::string, std::string>& names) {
  Schedule out = s;
  out.tiles.clear();
  for (const auto& [from, to] : names) {
    if (auto it = s.tiles.find(from); it != s.tiles.end()) out.tiles[to] = it->second;
    replace_word(out.runner_up, from + " by", to + " by");
  }
  return out;
}

std::map<std::string, std::string> to_places(const std::vector<std::string>& names) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = place_name(i);
  return out;
}

std::map<std::string, std::string> from_places(const std::vector<std::string>& names) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < names.size(); ++i) out[place_name(i)] = names[i];
  return out;
}

// Names of values for a source. What the derivation named keeps its name; where a name begins with one of the model's,
// that part becomes x0, x1, …
std::vector<std::string> value_names(const std::vector<std::string>& own, const std::set<std::string>& model) {
  std::map<std::string, std::string> short_names;
  std::set<std::string> taken;
  std::vector<std::string> out;
  for (const std::string& name : own) {
    std::string of_model = name;
    while (!of_model.empty() && !model.contains(of_model)) {
      const auto cut = of_model.rfind('_');
      of_model.resize(cut == std::string::npos ? 0 : cut);
    }
    std::string to = name;
    if (!of_model.empty())
      to = short_names.try_emplace(of_model, fmt::format("x{}", short_names.size())).first->second +
           name.substr(of_model.size());
    while (!taken.insert(to).second) to += "_";
    out.push_back(std::move(to));
  }
  return out;
}

std::set<std::string> written_tensors(const StreamingRegion& region) {
  std::set<std::string> out;
  auto stores = [&](const std::vector<StepStatement>& list) {
    for (const StepStatement& s : list)
      if (s.kind == StepStatement::Kind::store) out.insert(s.name);
  };
  stores(region.prologue);
  for (const Stream& s : region.streams) stores(s.step), stores(s.finish);
  stores(region.epilogue);
  return out;
}

}  // namespace

FormBook::FormBook(const Graph& graph, const Target& target, ScheduleOptions options,
                   const std::map<std::string, std::string>& refused)
    : target_(target), options_(std::move(options)), refused_(refused) {
  for (NodeId id : graph.topological_order()) model_names_.insert(graph.node(id).name);
}

Result<FormBook::Entry*> FormBook::entry(const StreamingRegion& region, const RegionForm& form) {
  const auto places = to_places(form.values);
  std::string key = form.text;
  for (const auto& [choice, value] : options_.forced) {
    auto dot = choice.find('.');
    auto tile = dot == std::string::npos ? places.end() : places.find(choice.substr(dot + 1));
    if (tile != places.end()) key += fmt::format("{}.{}={}\n", choice.substr(0, dot), tile->second, value);
  }
  auto [it, inserted] = known_.try_emplace(std::move(key));
  if (inserted) {
    auto found = target_.backend->choose_schedule(region, target_.model, options_);
    if (!found) {
      known_.erase(it);
      return std::unexpected(found.error());
    }
    for (const ChosenSchedule& c : *found) it->second.schedules.push_back(with_names(c.scheduled.schedule, places));
  }
  return &it->second;
}

Result<std::vector<Schedule>> FormBook::ranked(const StreamingRegion& region) {
  const RegionForm form = form_of(region);
  AICF_TRY(const Entry* known, entry(region, form));
  std::vector<Schedule> out;
  for (const Schedule& s : known->schedules) out.push_back(with_names(s, from_places(form.values)));
  return out;
}

Result<FormBook::Chosen> FormBook::choose(const StreamingRegion& region) {
  Chosen out;
  out.form = form_of(region);
  AICF_TRY(Entry * known, entry(region, out.form));
  const bool first = known->kernels.programs.empty();
  Diagnostic last;
  for (std::size_t i = known->taken; i < known->schedules.size(); ++i) {
    Schedule schedule = with_names(known->schedules[i], from_places(out.form.values));
    ChosenSchedule chosen{{region, std::move(schedule)}, {}, {}};
    auto lowered = lower(chosen.scheduled);
    if (!lowered) {
      last = lowered.error();
      continue;
    }
    chosen.lowered = std::move(*lowered);
    if (first) {
      AICF_TRY(FormKernels kernels, make_kernels(region, out.form, known->schedules[i]));
      auto bad = std::ranges::find_if(kernels.sources, [&](const std::string& s) { return refused_.contains(s); });
      if (bad != kernels.sources.end()) {
        last = {ErrorKind::refused, "no schedule is left: " + refused_.at(*bad), region.name};
        continue;
      }
      known->kernels = std::move(kernels);
      known->taken = i;
    }
    chosen.programs = known->kernels.programs;
    out.schedule = std::move(chosen);
    out.kernels = &known->kernels;
    return out;
  }
  return std::unexpected(last);
}

Result<FormKernels> FormBook::make_kernels(const StreamingRegion& region, const RegionForm& form,
                                           const Schedule& schedule) const {
  FormKernels out;
  out.region = region.name;
  const std::set<std::string> written = written_tensors(region);
  int inputs = 0, outputs = 0;
  for (const std::string& t : form.tensors)
    out.tensors.push_back(written.contains(t) ? fmt::format("out{}", outputs++) : fmt::format("in{}", inputs++));
  std::map<std::string, std::string> tensors;
  for (std::size_t i = 0; i < form.tensors.size(); ++i) tensors[form.tensors[i]] = out.tensors[i];
  const std::vector<std::string> values = value_names(form.values, model_names_);

  ScheduledRegion neutral{region, with_names(schedule, from_places(values))};
  // By way of the places, which no name can collide with.
  rename_values(neutral.region, to_places(form.values));
  rename_values(neutral.region, from_places(values));
  rename_tensors(neutral.region, tensors);
  AICF_TRY(out.lowered, lower(neutral));
  for (const Kernel& k : out.lowered.kernels) {
    AICF_TRY(ThreadProgram program, expand(k));
    AICF_RETURN_IF_ERROR(can_emit(program));
    out.sources.push_back(target_.backend->emit(program, target_.model));
    out.programs.push_back(std::move(program));
  }
  return out;
}

}  // namespace aicf
