#pragma once

// Schedules a region can take, and the one that a cost function likes best. A backend owns its space (what it allows) and
// its cost; the mechanics are shared.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mir/kernel/count.h"
#include "mir/kernel/lower.h"

namespace aicf {

/// What a backend allows.
struct ScheduleSpace {
  int subgroup_size = 32;
  std::vector<int> subgroups{1};  ///< subgroups per workgroup to try
  std::vector<int> vector_widths{4, 2, 1};
  std::vector<Delivery> shared_delivery{Delivery::lane_broadcast,
                                        Delivery::workgroup};  ///< for operands not every lane holds
  int register_budget = 200;                                   ///< scalars per thread, estimated before expansion
  std::int64_t workgroup_bytes = 32 * 1024;
  std::vector<int> row_registers{1, 2, 4, 8, 16};   ///< register factors of a parallel axis
  std::vector<int> step_registers{1, 2, 4, 8, 16};  ///< register factors of the streamed axis
  std::vector<int> splits{1};
  double split_below = 0;  ///< streams are split only where fewer work items fill the grid
  int row_padding = 0;     ///< elements after each staged row
  std::size_t most = 48;   ///< candidates kept for lowering
};

/// Schedules in the order of a quick estimate, every one structurally possible; `forced` keys filter or overwrite
/// ("tile.q", "residency.k", "delivery.k", "split", "subgroups", "lanes" = axis). Errors: an unknown key or value.
Result<std::vector<Schedule>> enumerate_schedules(const StreamingRegion& region, const ScheduleSpace& space,
                                                  const std::map<std::string, std::string>& forced,
                                                  const std::map<std::string, std::int64_t>& sizes);

struct EvaluatedSchedule {
  ScheduledRegion scheduled;
  LoweredRegion lowered;
  std::vector<ThreadProgram> programs;
  std::vector<StaticCounts> counts;
};

/// Lowers, expands and counts every candidate, on several threads that call `cost` at the same time, and sorts by predicted
/// total. The best `keep` are returned with `runner_up` filled, and after them the one that runs in the least time once it is
/// compiled, where it is none of them; the result does not depend on the number of threads. Errors:
/// unsupported, when none can be lowered, with the reasons.
Result<std::vector<EvaluatedSchedule>> search(const StreamingRegion& region, const std::vector<Schedule>& candidates,
                                              const std::function<PredictedCost(std::span<const StaticCounts>)>& cost,
                                              const std::map<std::string, std::int64_t>& sizes, std::size_t keep);

/// "q 16 (lane 8, reg 2), kv 2 (reg 2), k by lane_broadcast": a schedule in one line.
std::string summary(const Schedule& schedule);

}  // namespace aicf
