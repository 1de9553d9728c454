#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

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

/// An intermediate in the arena.
struct Block {
  std::size_t index;  ///< into Program::buffers
  std::uint64_t size;
  int first, last;  ///< launches, inclusive
};

struct Placement {
  std::vector<std::uint64_t> offsets;  ///< per block
  std::uint64_t arena = 0;
};

/// Places blocks in the order given, each at the lowest offset free through its lifetime.
Placement place(const std::vector<Block>& blocks, const std::vector<std::size_t>& order) {
  Placement out{std::vector<std::uint64_t>(blocks.size()), 0};
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Block& block = blocks[order[k]];
    std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
    for (const std::size_t o : std::span(order).first(k)) {
      if (blocks[o].last < block.first || block.last < blocks[o].first) continue;
      busy.emplace_back(out.offsets[o], out.offsets[o] + blocks[o].size);
    }
    std::ranges::sort(busy);
    std::uint64_t at = 0;
    for (const auto& [begin, end] : busy) {
      if (at + block.size <= begin) break;
      at = std::max(at, end);
    }
    out.offsets[order[k]] = at;
    out.arena = std::max(out.arena, at + block.size);
  }
  return out;
}

/// Tries orders that fail on different graphs; then, from the best, places the block at the top of the arena first and
/// again. Stops where the arena is as small as what lives at once, or when it has done enough.
Placement place_tightly(const std::vector<Block>& blocks, std::uint64_t live_peak) {
  using Key = std::function<std::int64_t(const Block&)>;
  const auto size = [](const Block& b) { return static_cast<std::int64_t>(b.size); };
  const Key keys[] = {[&](const Block& b) { return -size(b); }, [](const Block& b) { return b.first - b.last; },
                      [&](const Block& b) { return -size(b) / 64 * (b.last - b.first + 1); },
                      [](const Block& b) { return b.first; }, [](const Block& b) { return -b.last; }};
  std::vector<std::size_t> by_size(blocks.size()), best_order;
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, {}, [&](std::size_t k) { return keys[0](blocks[k]); });
  Placement best;
  for (const Key& key : keys) {
    std::vector<std::size_t> order = by_size;
    std::ranges::stable_sort(order, {}, [&](std::size_t k) { return key(blocks[k]); });
    Placement tried = place(blocks, order);
    if (best_order.empty() || tried.arena < best.arena) best = std::move(tried), best_order = std::move(order);
    if (best.arena <= live_peak) return best;
  }
  constexpr std::size_t most_tries = 64, most_pairs = 1 << 25;
  std::size_t tries = std::min(most_tries, most_pairs / (blocks.size() * blocks.size() + 1));
  for (Placement now = best; tries > 0 && best.arena > live_peak; --tries) {
    const auto top =
        std::ranges::find_if(best_order, [&](std::size_t k) { return now.offsets[k] + blocks[k].size == now.arena; });
    std::rotate(best_order.begin(), top, top + 1);
    now = place(blocks, best_order);
    if (now.arena < best.arena) best = now;
  }
  return best;
}

std::string in_mib(std::uint64_t bytes) {
  return bytes < 10 << 20 ? fmt::format("{} bytes", bytes)
                          : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

Result<MemoryPlan> plan_memory(const Program& program, const std::map<std::string, std::int64_t>& symbols,
                               std::size_t alignment, std::uint64_t most) {
  MemoryPlan plan;
  std::vector<Block> blocks;
  std::vector<std::uint64_t> live(program.launches.size() + 1, 0), scratch(live);
  std::uint64_t largest = 0;
  std::string largest_name;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& b = program.buffers[i];
    AICF_TRY(std::uint64_t bytes, device_bytes(b, symbols));
    if (bytes > largest) largest = bytes, largest_name = b.name;
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
        blocks.push_back({i, rounded, b.first_use, b.last_use});
        for (int t = b.first_use; t <= b.last_use && t < static_cast<int>(live.size()); ++t) {
          live[t] += rounded;
          if (b.scratch) scratch[t] += rounded;
        }
        break;
      }
    }
  }
  plan.live_peak = *std::ranges::max_element(live);
  plan.workspace = *std::ranges::max_element(scratch);
  const Placement placed = place_tightly(blocks, plan.live_peak);
  plan.arena = placed.arena;
  plan.offsets.assign(program.buffers.size(), 0);
  for (std::size_t k = 0; k < blocks.size(); ++k) plan.offsets[blocks[k].index] = placed.offsets[k];
  if (most != 0 && plan.total() > most)
    return unsupported(
        fmt::format("the run needs {} on the device and may take {}: weights {}, inputs and outputs {}, arena {}; the "
                    "largest tensor is '{}' with {}",
                    in_mib(plan.total()), in_mib(most), in_mib(plan.weights), in_mib(plan.inputs_outputs),
                    in_mib(plan.arena), largest_name, in_mib(largest)));
  return plan;
}

}  // namespace aicf
