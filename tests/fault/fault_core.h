#pragma once

// The core of the fault layers: libraries that stand where a driver's library stands, count the calls that can fail, make
// one of them fail, and know which objects are alive.
//
// AICF_FAULT in the environment arms a layer for the built program: "17" fails the 17th call, "vkQueueSubmit" the first
// call of that name, "vkQueueSubmit#2" its second, "vkQueueSubmit#*" all of them; "…=-4" with that result. At exit a layer then says on stderr what it saw.
// Tests in one process call the functions below, found by dlsym.

#include <span>

namespace aicf::fault {

/// Counts a call of `function`; true when it has to fail, with `result`: the armed one, else the armed choice of `codes`.
bool fails(const char* function, std::span<const int> codes, int& result);
void made(const char* kind);
void freed(const char* kind);
/// Everything of these kinds is gone with what owned it.
void freed_all(std::span<const char* const> kinds);
/// True for the function that is hidden: a driver that lacks it.
bool hidden(const char* function);

}  // namespace aicf::fault

extern "C" {
/// Fails call number `call` (from 1; 0: none) with the `choice`-th result that its function may give (the last one beyond
/// them). Counts begin anew.
void aicf_fault_arm(long call, long choice);
/// Hides a function from the next look-ups; null: none.
void aicf_fault_hide(const char* function);
long aicf_fault_calls();
/// The function that failed, or null when none has yet.
const char* aicf_fault_fired();
/// What is alive: "2 Buffer, 1 Device", or "".
const char* aicf_fault_alive();
}
