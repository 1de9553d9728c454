#pragma once

// The facts of memory that a scheduled region fixes: for every value where it lives, how large it is there, how it is
// spread over threads and how long it is held; for every pair of actions through which threads meet, the edge that
// orders them. The plan is read off the program that lowering makes, so that what is checked (checker.h) is what runs.
//
// Text form (round-trips; `to_string` and `parse_placement`):
//
//   placement NAME  subgroup 32  subgroups 2  workgroup_bytes 4096 {
//     symbols n
//     axis q = 77 tile 16 grid padded
//     tile  k: f32[kv 8, d 64]  residency workgroup  bytes 2176  offset 0  row_padding 4  stages 1  vector 4  live 9..12
//     state m: f32[q 16]  residency subgroup_register  bytes 64 per_thread 8  spread [q lane 8 @1, q reg 2 *8]  live 4..30
//     0 launch [] of attend
//     6 loop [] axis kv by 8 begin "0" end "n"
//       7 load [k_stage] of K inside [kv]
//       8 barrier []
//       9 stage [k] reads [k_stage]
//     20 end []
//     sync 9 -> 11  workgroup  by 10  participants 64  for [k]
//     sync 11 -> 9  workgroup  by 8  participants 64  distance 1  for [k]
//   }
//
// `reg 2 *8` is a factor of 2 elements, 8 apart; `lane 8 @1` says that lane digits start at bit value 1.

#include <string>
#include <vector>

#include "mir/memory/memory_graph.h"
#include "mir/memory/schedule.h"

namespace aicf {

struct LoweredRegion;

/// How work items walk an axis: a block each, a loop inside, or the whole axis in one tile.
enum class Walk : std::uint8_t { grid, loop, whole };
std::string_view name(Walk walk);

struct PlannedAxis {
  std::string name;
  Expr extent;  ///< over symbols
  std::int64_t tile = 1;
  Walk walk = Walk::whole;
  bool padded = false;  ///< the last tile passes the extent
  bool operator==(const PlannedAxis&) const = default;
};

/// One factor of a tile's distribution over threads: `size` elements `stride` apart along `axis`; at lane and subgroup
/// level the digit is (id / position) % size.
struct Spread {
  std::string axis;
  Level level = Level::reg;
  std::int64_t size = 1, stride = 1, position = 1;
  bool operator==(const Spread&) const = default;
};

enum class TileRole : std::uint8_t {
  tile,       ///< a block of a tensor
  stage,      ///< registers on the way from a tensor to workgroup memory
  state,      ///< of a stream
  local,      ///< of the region
  temporary,  ///< made by lowering: the next value of a state, a part computed at fewer axes, what is stored
  exchange,   ///< workgroup memory through which subgroups merge partial states
  scratch,    ///< a buffer that only the region's launches share
};
std::string_view name(TileRole role);

struct PlannedTile {
  std::string name;  ///< unique in the plan; a value that two launches have stands there once for each
  TileRole role = TileRole::tile;
  int launch = 0;
  DType type = DType::f32;
  std::vector<std::pair<std::string, std::int64_t>> axes;  ///< with tile extents; `exchange`: [("", elements)]
  Residency residency = Residency::subgroup_register;
  Delivery delivery = Delivery::registers;
  std::vector<Spread> spread;         ///< registers
  std::int64_t bytes_per_thread = 0;  ///< registers
  std::int64_t bytes = 0;             ///< of the workgroup: all threads, or all stages with padding; off_chip: 0
  std::int64_t offset = 0;            ///< workgroup: first byte in workgroup memory
  std::int64_t row_padding = 0;       ///< workgroup: elements after each row of the last axis
  int stages = 1;                     ///< workgroup: buffers used in turn
  int vector = 1;                     ///< workgroup: elements that one access may take
  MemoryGraph::Interval live;         ///< positions of actions; a value that passes from iteration to iteration is held
                                      ///< over its loop
  bool operator==(const PlannedTile&) const = default;
};

/// A step of the program. Its number is its place in the list.
struct PlannedAction {
  enum class Kind : std::uint8_t {
    launch,    ///< a kernel starts; everything before it is done
    load,      ///< registers from a tensor
    stage,     ///< workgroup memory from registers
    fetch,     ///< registers from workgroup memory
    exchange,  ///< partial states into workgroup memory, reads[i] into writes[i]
    barrier,   ///< all threads of the workgroup
    compute,   ///< elementwise
    update,    ///< writes = writes op (reduced over `over`)
    merge,     ///< partial states of other lanes (or, from `exchange`, of other subgroups) into one's own
    store,     ///< a tensor from registers
    loop,      ///< opens a loop; its body is up to the matching `end`
    branch,    ///< opens a part that the whole workgroup takes or leaves
    end,
  };
  Kind kind = Kind::compute;
  std::vector<std::string> writes, reads;      ///< tiles
  std::string tensor;                          ///< load, store; launch: the kernel
  std::vector<std::string> inside;             ///< load, store: axes whose end the predicate keeps
  std::vector<std::string> over;               ///< update
  std::vector<std::int64_t> lanes, subgroups;  ///< merge, exchange: xor masks on the id
  std::string axis;                            ///< loop: what it walks; empty for a loop over parts
  std::int64_t step = 0;                       ///< loop
  std::string begin, end;                      ///< loop: expressions as text
  std::string note;                            ///< printed as a comment
  bool operator==(const PlannedAction&) const = default;
};
std::string_view name(PlannedAction::Kind kind);

/// Threads that see what others did: the lanes of a subgroup, the threads of a workgroup, all work items.
enum class SyncScope : std::uint8_t { subgroup, workgroup, device };
std::string_view name(SyncScope scope);

/// Everything that `from` did is done when `to` begins, for all participants. By a shuffle (subgroup; `by` is `to`), a
/// barrier action (workgroup) or a launch (device).
struct SyncEdge {
  int from = 0, to = 0;
  SyncScope scope = SyncScope::subgroup;
  int by = -1;                     ///< the action that orders them; −1: nothing does
  std::int64_t participants = 0;   ///< threads; 0 for all work items
  int distance = 0;                ///< iterations from `from` to `to`: 0 in the same one
  std::vector<std::string> tiles;  ///< why
  bool operator==(const SyncEdge&) const = default;
};

struct PlacementPlan {
  std::string name;
  int subgroup_size = 32;
  int subgroups = 1;
  std::int64_t workgroup_bytes = 0;  ///< the largest of the launches
  std::vector<PlannedAxis> axes;
  std::vector<PlannedTile> tiles;
  std::vector<PlannedAction> actions;
  std::vector<SyncEdge> sync;
  bool operator==(const PlacementPlan&) const = default;

  std::int64_t threads() const { return std::int64_t{subgroup_size} * subgroups; }
  const PlannedTile* find(const std::string& tile) const;
};

struct PlacementOptions {
  /// Workgroup tiles of disjoint lifecycles share bytes where a barrier lies between every two of their uses. Off: one
  /// after the other in order of first use, which is what expand() does.
  bool share_workgroup_memory = false;
  int most_stages = 1;  ///< buffers in flight that lowering supports
};

/// Errors (unsupported): a schedule that lowering refuses, or with more stages than it supports.
Result<PlacementPlan> plan_placement(const ScheduledRegion& scheduled, const PlacementOptions& options = {});
/// The same for a region that was lowered already.
Result<PlacementPlan> plan_placement(const ScheduledRegion& scheduled, const LoweredRegion& lowered,
                                     const PlacementOptions& options = {});

/// The plan's actions with their control flow, values and sync edges.
MemoryGraph graph_of(const PlacementPlan& plan);

std::string to_string(const PlacementPlan& plan);
/// Reads the first placement in `text`; what stands before it is skipped.
Result<PlacementPlan> parse_placement(std::string_view text, std::string_view place = {});

}  // namespace aicf
