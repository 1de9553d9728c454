# The target aicf::aicf: libaicf with <aicf/aicf.hpp> (C++23) and <aicf/aicf.h> (C99).
include(${CMAKE_CURRENT_LIST_DIR}/aicfTargets.cmake)
