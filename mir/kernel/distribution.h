#pragma once

// Distributions as maps from (register, lane, subgroup) to element coordinates.
//
// Normal form, checked by covers(): the factors of an axis, ordered by stride, form a mixed radix system (strides 1,
// n0, n0·n1, …; product = extent); every size but that of the outermost register factor is a power of two, so all
// strides are powers of two and a coordinate splits into bits, each of which comes from the register index or from one
// bit of the lane or subgroup id. No id bit serves two factors.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "mir/kernel/kernel.h"

namespace aicf {

/// Where an element of a tile lives.
struct Place {
  std::int64_t reg = 0, lane = 0, subgroup = 0;
  bool operator==(const Place&) const = default;
};

/// The part of the coordinate along `axis` that register index `reg` decides.
std::int64_t register_part(const Distribution& distribution, const std::string& axis, std::int64_t reg);
/// The lane and subgroup factors along `axis`, sizes of 1 dropped, ordered by stride.
std::vector<Factor> thread_factors(const Distribution& distribution, const std::string& axis);
/// Σ digit·stride of thread factors, over symbol("lane") and symbol("subgroup").
Expr thread_part(std::span<const Factor> factors, int subgroup_size, int subgroups);
/// Coordinate along `axis` of what `place` holds: register part + thread part.
std::int64_t coordinate(const Distribution& distribution, const std::string& axis, const Place& place);
/// The holder of an element whose replicated digits are 0. Coordinates by axis name; all axes of the factors are
/// needed.
Place owner(const Distribution& distribution, const std::map<std::string, std::int64_t>& coordinates);

/// Every element of the tile is held exactly once up to replication, in the normal form above.
Result<void> covers(const KernelTile& tile, int subgroup_size, int subgroups);

/// True in exactly one of the threads that hold the same elements (replicated digits 0); empty = every thread is the
/// only one.
Expr sole_holder(const Distribution& distribution, int subgroup_size, int subgroups);

/// Every thread holds the same elements under both (in whatever registers).
bool equivalent(const KernelTile& a, const KernelTile& b);

/// What it takes to bring the elements of `from` to where `to` holds them.
enum class Conversion : std::uint8_t {
  renaming,   ///< every thread already has what it needs
  shuffle,    ///< from another lane of the subgroup, the register known at compile time
  workgroup,  ///< another subgroup, or a register that depends on the lane: through workgroup memory
};
Conversion classify_conversion(const KernelTile& from, const KernelTile& to);

}  // namespace aicf
