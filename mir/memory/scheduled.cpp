#include "mir/memory/scheduled.h"

#include <fmt/format.h>

#include <memory>

#include "mir/memory/plan.h"

namespace aicf {
namespace {

class Resolver {
 public:
  explicit Resolver(const Schedule& schedule) : schedule_(schedule) {}

  void tiles(std::vector<TileDecl>& list) const {
    for (TileDecl& t : list) {
      const auto plan = schedule_.tiles.find(t.name);
      const bool staged = plan != schedule_.tiles.end() && plan->second.delivery == Delivery::workgroup;
      t.residency = staged ? Residency::workgroup : Residency::subgroup_register;
    }
  }

  void statements(std::vector<StepStatement>& list) const {
    for (StepStatement& s : list) {
      if (s.kind == StepStatement::Kind::local) s.residency = Residency::subgroup_register;
      if (!s.nested) continue;
      s.nested = std::make_shared<Stream>(*s.nested);  // the region it came from keeps its own
      stream(*s.nested);
    }
  }

  void stream(Stream& s) const {
    tiles(s.tiles);
    for (StateDecl& d : s.states) d.residency = Residency::subgroup_register;
    statements(s.step);
    statements(s.finish);
  }

 private:
  const Schedule& schedule_;
};

}  // namespace

StreamingRegion with_residencies(const ScheduledRegion& scheduled) {
  StreamingRegion region = scheduled.region;
  const Resolver resolver(scheduled.schedule);
  resolver.tiles(region.tiles);
  resolver.statements(region.prologue);
  for (Stream& s : region.streams) resolver.stream(s);
  resolver.statements(region.epilogue);
  return region;
}

std::string to_string(const ScheduledRegion& scheduled) {
  std::string out = to_string(with_residencies(scheduled));
  const Schedule& s = scheduled.schedule;
  if (s.predicted.total > 0) {
    std::string parts;
    for (const auto& [cause, microseconds] : s.predicted.microseconds)
      parts += fmt::format("{}{} {:.3g}", parts.empty() ? "" : ", ", cause, microseconds);
    out += fmt::format("# predicted {:.3g} us: {}; limited by {}\n", s.predicted.total, parts, s.predicted.limit);
  }
  for (const std::string& reason : s.reasons) out += "# " + reason + "\n";
  if (!s.runner_up.empty()) out += "# runner-up " + s.runner_up + "\n";
  const Result<PlacementPlan> plan = plan_placement(scheduled);
  return out + (plan ? to_string(*plan) : "# no placement: " + plan.error().text() + "\n");
}

}  // namespace aicf
