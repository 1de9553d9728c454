#include "mir/memory/schedule.h"
namespace aicf {
__attribute__((weak)) std::string to_string(const ScheduledRegion& s) { return to_string(s.region); }
}
