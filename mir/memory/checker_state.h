#pragma once

// The walk of the checker over a program; private to mir/memory/checker*.cpp.

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/memory/checker.h"

namespace aicf::checking {

/// An access that later ones must be ordered after, with the barriers and launches that every path has passed since.
using Pending = std::map<int, std::set<int>>;

/// One copy of a memory: who wrote what it holds and who read that.
struct Copy {
  Pending writes, reads;
  bool operator==(const Copy&) const = default;
};

/// What is known between two actions.
struct Flow {
  std::map<std::string, std::deque<Copy>> memory;  ///< newest copy first, as many as the tile has stages
  std::map<std::string, std::vector<bool>> held;   ///< positions passed since the value was written
  bool operator==(const Flow&) const = default;
};

/// Checks `lifecycle` and `sync` of a plan whose structure is right.
class Walker {
 public:
  explicit Walker(const PlacementPlan& plan);
  Result<void> run();

 private:
  Result<void> range(int begin, int end, Flow& flow);
  Result<void> loop(int head, int end, Flow& flow);
  Result<void> action(int at, Flow& flow);
  Result<void> lifecycles(int at, Flow& flow) const;
  Result<void> read(int at, const PlannedTile& t, Flow& flow) const;
  Result<void> write(int at, const PlannedTile& t, Flow& flow) const;
  Result<void> ordered(int from, const std::set<int>& passed, int to, SyncScope scope, const PlannedTile& t) const;
  bool foreign(int at, const PlannedTile& t) const;
  std::string describe(int at) const;

  const PlacementPlan& plan_;
  std::map<std::string, const PlannedTile*> tiles_;
  std::vector<int> match_;   ///< loop or branch → its end
  std::vector<int> launch_;  ///< of each action
};

std::unexpected<Diagnostic> violation(const PlacementPlan& plan, std::string_view rule, const std::string& message);

}  // namespace aicf::checking
