#pragma once

// Which nodes a region takes in, before it is asked whether it streams. Private to mir/region.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/region/region.h"

namespace aicf {

/// How far a region may grow; tried from the widest.
enum class Reach {
  places,   // as copies; what reduces is computed for each place of it that is read (tried by itself)
  copies,   // as chain; what others read too is computed again between an inner contraction and the root
  chain,    // cascades and contractions that carry the streamed axis
  cascade,  // reductions over the same rows, no other contraction
  single,   // one reduction or contraction with its maps
  maps,     // maps only
};

/// Where growth stays.
struct Bounds {
  const std::set<NodeId>* within = nullptr;   ///< only these nodes
  const std::set<NodeId>* without = nullptr;  ///< never these
};

/// Why values that a region reads are not computed in it.
using Cuts = std::map<NodeId, Reason>;

Refusal refusal(const Graph& graph, const std::set<NodeId>& members, std::string law, std::string reason);

class Growth {
 public:
  /// `done`: nodes that a region writes. `needed`: outputs and what regions read. Both may grow between calls.
  Growth(const Graph& graph, bool fuse, const std::set<NodeId>& done, const std::set<NodeId>& needed)
      : graph_(graph),
        fuse_(fuse),
        done_(done),
        needed_(needed),
        cheap_(static_cast<std::size_t>(graph.size())),
        rests_on_reduction_(cheap_),
        contracts_(cheap_) {}

  /// The members, and in `copies` those that others read too and that are computed here again. What stays outside though a
  /// member reads it is in `cuts`, but for what `bounds` leave out and what `reach` does not reach.
  std::set<NodeId> grow(NodeId root, Reach reach, const Bounds& bounds, std::vector<Refusal>* refusals,
                        std::set<NodeId>& copies, Cuts& cuts) const;
  /// Copies are for what an inner contraction makes: larger than its operands, it never reaches memory when each reader
  /// computes it. Others go to `dropped`. False: nothing is made inside.
  bool drop_idle_copies(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies,
                        std::set<NodeId>& dropped, Cuts& cuts) const;
  /// May be computed again by each reader: nothing but index arithmetic and loads of tensors much smaller than itself.
  bool cheap(NodeId id) const;

 private:
  bool reduces(NodeId id) const { return graph_.node(id).reduce != ReduceOp::none; }
  Reason needed_outside(NodeId id) const;
  bool rests_on_reduction(NodeId id) const;
  bool is_row_value(NodeId id, NodeId root) const;
  bool same_operation(NodeId a, NodeId b) const;
  bool contracts(NodeId id) const;
  void prune(NodeId root, std::set<NodeId>& members, Cuts& cuts) const;

  const Graph& graph_;
  bool fuse_;
  const std::set<NodeId>& done_;
  const std::set<NodeId>& needed_;
  mutable std::vector<std::optional<bool>> cheap_, rests_on_reduction_, contracts_;  ///< as far as they were asked for
};

}  // namespace aicf
