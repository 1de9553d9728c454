#pragma once

// The independent judge of placements. It shares no code with the planner: it knows a plan only as data, and derives
// what must hold by walking the program the way threads do.
//
// Rules, by the name that an error starts with:
//   structure  loops close, names and numbers resolve, values stay in their launch
//   residency  values are on chip, staged tiles in workgroup memory, and only actions of that memory touch them
//   bounds     tiles cover their axes: padded tiles are loaded and stored under a predicate, looped axes inside their
//   loop,
//              spreads reach every element once, and no thread beyond the workgroup
//   size       bytes are those of the extents, padding and stages
//   stages     at least one, one without staging
//   alignment  staged tiles start at 16 bytes and keep their vectors inside a row
//   capacity   workgroup memory ends within the limit
//   overlap    tiles that are live together have no byte in common
//   lifecycle  a value is held from its write to its last read, round loops that it passes
//   sync       an edge orders every write and read by different threads, and what it names really stands between them

#include "mir/memory/plan.h"

namespace aicf {

/// Errors: "<rule>: <tile or edge> …"; unsupported for capacity (take another schedule), bad_input for a plan that is
/// wrong.
Result<void> check_placement(const PlacementPlan& plan, std::int64_t workgroup_limit);

}  // namespace aicf
