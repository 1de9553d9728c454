#pragma once

// From a set of graph nodes to a Region: axes are unified through the loads between members. Private to mir/region.

#include <expected>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/region/region.h"

namespace aicf {

/// Why a node cannot be a member.
struct BuildFailure {
  NodeId node = -1;
  std::string law, reason;
};

/// At how many coordinates members may read the value of one that reduces.
enum class ReducedAt {
  one_place,       ///< an axis of the region for each of its axes
  several_places,  ///< any; it is computed for each, in a statement of its own
};

/// Bodies of nodes over axes of regions, by the loads that they stand for: candidates of regions that grow ask for the same
/// ones again and again.
class Bodies {
 public:
  struct Body {
    Expr body;
    std::vector<Expr> loads;  ///< of it
  };
  using OverAxes = std::map<Expr, Body>;
  /// Those over `axes`. Valid until the next call of over().
  OverAxes& over(const std::vector<Axis>& axes);
  /// What the body of `node` loads where `load` reads it, as it stands there. Valid until the next call of over().
  const std::vector<Expr>& loads(const Node& node, const Expr& load);

 private:
  std::map<std::vector<std::pair<std::string, Expr>>, OverAxes> known_;
  std::map<Expr, std::vector<Expr>> loads_;
};

/// Builds the region of `members` (closed under "between": no path from a member to a member leaves the set) that writes
/// `outputs`. `root` is the last of them. Members that are maps may be loaded at any index (they are substituted);
/// members that reduce are loaded as `reduced_at` says.
std::expected<Region, BuildFailure> build_region(const Graph& graph, const std::set<NodeId>& members, NodeId root,
                                                 const std::vector<NodeId>& outputs, ReducedAt reduced_at,
                                                 Bodies& bodies);

}  // namespace aicf
