#pragma once

// The text of a scheduled region: the streaming region with every residency fixed, then its placement (plan.h).

#include "mir/memory/schedule.h"

namespace aicf {

/// The region with the residencies that the schedule chose: of tiles as planned, of locals and states in registers.
StreamingRegion with_residencies(const ScheduledRegion& scheduled);

}  // namespace aicf
