#pragma once

// Devices smaller than the one there is: what the driver reports is cut down to AICF_LIMITS, a list of words by commas.
// "minimum": every limit that AICF reads at the least that Vulkan 1.1 guarantees ("Required Limits" of the specification),
// and no optional feature. NAME=NUMBER: that member of VkPhysicalDeviceLimits (all of an array), later words before
// earlier ones. "" and a variable that is not set change nothing; a word that is not known ends the process.

#include "runtime/vulkan/api.h"

namespace aicf::fault {

void cut_down(VkPhysicalDeviceProperties2& properties);
void cut_down(VkPhysicalDeviceFeatures2& features);

}  // namespace aicf::fault
