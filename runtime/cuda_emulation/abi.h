#pragma once

// The types of abi.inc as code.

#define AICF_EMULATION_ABI(...) __VA_ARGS__
#include "runtime/cuda_emulation/abi.inc"
#undef AICF_EMULATION_ABI
