#pragma once

// A schedule is data: what a backend chose for one StreamingRegion on one device. `lower` and the checker read it.

#include <map>
#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"

namespace aicf {

/// Where a factor of an axis is spread. What the factors leave of an axis' extent goes to the grid (parallel axes) or to
/// a loop (streamed and inner reduction axes).
enum class Level : std::uint8_t { reg, lane, subgroup };
std::string_view name(Level level);

/// One factor, `size` elements at `level`. Lane and subgroup sizes are powers of two.
struct AxisFactor {
  Level level = Level::reg;
  std::int64_t size = 1;
};

/// Factors of one axis from minor (adjacent elements) to major; the tile extent is their product. The register factor
/// listed first is what vector loads can cover.
struct AxisSchedule {
  std::vector<AxisFactor> factors;
  std::int64_t tile() const;
  std::int64_t size(Level level) const;
};

/// How a contraction gets an operand that not every lane holds.
enum class Delivery : std::uint8_t {
  registers,       ///< each lane loads and holds what it uses
  lane_broadcast,  ///< loaded once across the lanes of a subgroup, broadcast by shuffle at use
  workgroup,       ///< staged in workgroup memory, read at use
};
std::string_view name(Delivery delivery);

struct TilePlan {
  Residency residency = Residency::subgroup_register;
  Delivery delivery = Delivery::registers;
  int vector_width = 1;  ///< elements per load along the contiguous axis (1, 2, 4)
  int stages = 1;        ///< buffers in flight (workgroup delivery)
  int row_padding = 0;   ///< elements added to each row of the staged tile, against bank conflicts
};

/// Predicted time of one launch, split by cause, in microseconds; `limit` names the largest.
struct PredictedCost {
  std::map<std::string, double> microseconds;  ///< "memory", "multiply-add", "exp", "shared", "launch", "jit", …
  double total = 0;
  double compiling = 0;  ///< the part of `total` that is the driver's compiler, spread over runs
  std::string limit;
};

struct Schedule {
  std::map<std::string, AxisSchedule>
      axes;  ///< every axis of the region; absent = all of it in one register loop (size 1 tile)
  std::map<std::string, TilePlan> tiles;  ///< every TileDecl by name
  int subgroup_size = 32;
  int subgroups = 1;                 ///< subgroups per workgroup = product of the axes' subgroup factors
  int store_width = 4;               ///< widest store, elements
  int split = 1;                     ///< parts of the (single) stream along the grid, closed by a merge kernel
  std::vector<std::string> reasons;  ///< one sentence each, resting on the device model's facts
  PredictedCost predicted;
  std::string runner_up;  ///< what it was and by how much it lost
};

/// The same region with every open fact fixed: residency of tiles, locals and states from the schedule, sizes from the
/// tile extents. What `--stage schedule` prints.
struct ScheduledRegion {
  StreamingRegion region;
  Schedule schedule;
};

std::string to_string(const ScheduledRegion& scheduled);

}  // namespace aicf
