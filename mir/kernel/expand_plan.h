#pragma once

// How the elements of one tile reach the threads that compute with them. Used by verify() (is it possible?) and
// expand() (which register, which lane?), so that the two cannot disagree.

#include <span>
#include <string>
#include <vector>

#include "mir/kernel/distribution.h"

namespace aicf {

/// The coordinates that an operation runs through: per slot (an axis) a part that is constant in the unrolled code and
/// a part that the thread decides.
struct CoordinateSpace {
  struct Slot {
    std::string axis;
    std::int64_t extent = 1;
    std::vector<Factor>
        threads;  ///< lane and subgroup factors, ordered by stride; their digits are 0 in the constant part
  };
  std::vector<Slot> slots;

  static CoordinateSpace of(const KernelTile& tile);
  int find(const std::string& axis) const;  ///< slot of an axis, -1 when there is none
};

/// Constant parts, one per slot.
using Coordinates = std::vector<std::int64_t>;

/// The constant parts of every register of a tile, slots in the order of its axes.
std::vector<Coordinates> register_coordinates(const KernelTile& tile);
/// The constant parts that a slot runs through, ascending.
std::vector<std::int64_t> constants_of(const CoordinateSpace::Slot& slot);

/// Delivery of a register tile's element at coordinates of a space: from register Σ digit·weight, in this lane, in a
/// lane that only the constant parts decide, or in one that depends on the thread.
struct FetchPlan {
  enum class Kind : std::uint8_t { own, constant_lane, computed_lane };
  struct Digit {
    int slot = 0;
    std::int64_t stride = 1, size = 1, weight = 1;
  };
  Kind kind = Kind::own;
  std::vector<Digit> registers;
  std::vector<Digit> lanes;
  Expr lane_part;  ///< computed_lane: the thread's part of the lane, over symbol("lane") and symbol("subgroup")

  std::int64_t register_at(const Coordinates& at) const { return sum(registers, at); }
  std::int64_t lane_at(const Coordinates& at) const { return sum(lanes, at); }

 private:
  static std::int64_t sum(const std::vector<Digit>& digits, const Coordinates& at) {
    std::int64_t result = 0;
    for (const Digit& d : digits) result += at[static_cast<std::size_t>(d.slot)] / d.stride % d.size * d.weight;
    return result;
  }
};

/// Errors: "value used in a lane that does not hold it", with the axis and the reason. `operand` is a register tile in
/// the normal form that covers() checks.
Result<FetchPlan> plan_fetch(const KernelTile& operand, const CoordinateSpace& space);

/// The space of a reduction: the axes of the result, then `over`.
///
/// Rule for the over axes: a lane or subgroup factor of an over axis stays with its threads (each accumulates a partial
/// result of its own elements, which a `cross` closes later) exactly when every register operand that holds the axis
/// has this factor and the result does not use its id bits. All other parts of an over axis run through every
/// coordinate in every thread: operands that are spread there are broadcast. `first` needs coordinate 0, so nothing
/// stays spread.
Result<CoordinateSpace> reduction_space(const Kernel& kernel, const KernelOp& op);

/// Element offset of an index into a row-major buffer.
Expr row_major(const std::vector<Expr>& index, const std::vector<Expr>& shape);

/// Calls `visit` for the op's expressions that are evaluated per element: expr, or index, predicate and fill.
std::vector<Expr> element_expressions(const KernelOp& op);

}  // namespace aicf
