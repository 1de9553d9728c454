#pragma once

// The plan of a compiled model in text and JSON; used by explain, run and bench.

#include "tools/aicf/command.h"

namespace aicf::command {

/// "58 launches, 10 kernels": kernels of equal form are compiled once.
std::string launches_text(const CompiledModel& compiled);
/// One line per region: what it is, whether it streams, states, and what it writes.
std::string region_line(const CompiledRegion& region);
/// Names of the tensors that a region writes to memory.
std::vector<std::string> materialised(const CompiledRegion& region);
Json region_json(const CompiledRegion& region);
Json refusals_json(const std::vector<Refusal>& refusals);
/// Tensors that regions write, and why they are in memory.
Json written_json(const CompiledModel& compiled);
/// Predicted cost, split by cause, largest first.
std::string cost_text(const PredictedCost& cost);
/// "what was decided and why" of one schedule.
std::string schedule_text(const Schedule& schedule);
/// How much of each stream is run where masks exclude the rest; empty when they exclude nothing or sizes are unknown.
std::string steps_text(const CompiledRegion& r, const std::map<std::string, std::int64_t>& sizes);
/// Sizes of one run, and how close the arena is to what lives at once.
Json memory_json(const MemoryPlan& memory);
std::string memory_text(const MemoryPlan& memory);
/// What a user of the results must know: what was not fused and why, what is computed in another type than the model's,
/// where a device is not the one that the schedules are made for.
std::vector<std::string> notes(const Place& place, const CompiledModel& compiled, const LoadedModel& loaded);
/// The first values of each output, on stdout.
void print_outputs(const NamedTensors& outputs);
/// Launch records with bytes per tensor where the driver counts them.
Json launches_json(const CompiledModel& compiled, const RunResult& run);

}  // namespace aicf::command
