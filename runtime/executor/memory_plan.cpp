#include <fmt/format.h>

#include <algorithm>

#include "runtime/executor/executor.h"

namespace aicf {

namespace {

Result<std::uint64_t> device_bytes(const BufferPlan& b, const std::map<std::string, std::int64_t>& symbols) {
  std::uint64_t n = device_size(b.type);
  for (const Expr& d : b.shape) {
    AICF_TRY(std::int64_t v, evaluate_int(d, symbols));
    if (v < 0) return bad_input(fmt::format("tensor '{}' has the dimension {}", b.name, v));
    if (v != 0 && n > (std::uint64_t{1} << 46) / static_cast<std::uint64_t>(v))
      return bad_input(fmt::format("tensor '{}' is larger than 2^46 bytes", b.name));
    n *= static_cast<std::uint64_t>(v);
  }
  return n;
}

}  // namespace

Result<MemoryPlan> plan_memory(const Program& program, const std::map<std::string, std::int64_t>& symbols,
                               std::size_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(program.buffers.size(), 0);
  struct Block {
    std::size_t index;
    std::uint64_t size;
  };
  std::vector<Block> blocks;
  std::vector<std::uint64_t> live(program.launches.size() + 1, 0);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& b = program.buffers[i];
    AICF_TRY(std::uint64_t bytes, device_bytes(b, symbols));
    switch (b.kind) {
      case BufferPlan::Kind::constant:
        plan.weights += bytes;
        break;
      case BufferPlan::Kind::input:
      case BufferPlan::Kind::output:
        plan.inputs_outputs += bytes;
        break;
      case BufferPlan::Kind::intermediate: {
        std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
        plan.sum_of_tensors += rounded;
        blocks.push_back({i, rounded});
        for (int t = b.first_use; t <= b.last_use && t < static_cast<int>(live.size()); ++t) live[t] += rounded;
        break;
      }
    }
  }
  plan.live_peak = live.empty() ? 0 : *std::ranges::max_element(live);
  // Largest first, each at the lowest offset free through its lifetime.
  std::ranges::stable_sort(blocks, std::greater{}, &Block::size);
  std::vector<Block> placed;
  for (const Block& block : blocks) {
    const BufferPlan& b = program.buffers[block.index];
    std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
    for (const Block& other : placed) {
      const BufferPlan& o = program.buffers[other.index];
      if (o.last_use < b.first_use || b.last_use < o.first_use) continue;
      busy.emplace_back(plan.offsets[other.index], plan.offsets[other.index] + other.size);
    }
    std::ranges::sort(busy);
    std::uint64_t at = 0;
    for (const auto& [begin, end] : busy) {
      if (at + block.size <= begin) break;
      at = std::max(at, end);
    }
    plan.offsets[block.index] = at;
    plan.arena = std::max(plan.arena, at + block.size);
    placed.push_back(block);
  }
  return plan;
}

}  // namespace aicf
