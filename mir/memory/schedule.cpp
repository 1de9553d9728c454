#include "mir/memory/schedule.h"

namespace aicf {

std::string_view name(Level level) {
  switch (level) {
    case Level::reg:
      return "reg";
    case Level::lane:
      return "lane";
    case Level::subgroup:
      return "subgroup";
  }
  return "?";
}

std::string_view name(Delivery delivery) {
  switch (delivery) {
    case Delivery::registers:
      return "registers";
    case Delivery::lane_broadcast:
      return "lane_broadcast";
    case Delivery::workgroup:
      return "workgroup";
  }
  return "?";
}

std::int64_t AxisSchedule::tile() const {
  std::int64_t n = 1;
  for (const AxisFactor& f : factors) n *= f.size;
  return n;
}

std::int64_t AxisSchedule::size(Level level) const {
  std::int64_t n = 1;
  for (const AxisFactor& f : factors)
    if (f.level == level) n *= f.size;
  return n;
}

}  // namespace aicf
