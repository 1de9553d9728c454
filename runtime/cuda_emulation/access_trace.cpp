#include "runtime/cuda_emulation/hot.h"
//
#include "runtime/cuda_emulation/access_trace.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace aicf {
namespace {

/// Distinct values in [begin, end), which it sorts.
int distinct(std::uint64_t* begin, std::uint64_t* end) {
  if (!std::is_sorted(begin, end)) std::sort(begin, end);
  return static_cast<int>(std::unique(begin, end) - begin);
}

int sectors(int size, const std::uint64_t* addresses, int lanes) {
  std::uint64_t touched[32];
  for (int i = 0; i < lanes; ++i) touched[i] = addresses[i] / 32;
  static_cast<void>(size);  // Accesses are aligned and at most 16 bytes: one sector each.
  return distinct(touched, touched + lanes);
}

/// Passes for lanes served together: the most distinct words that one bank must give.
int passes(int size, const std::uint64_t* addresses, int lanes) {
  std::uint64_t words[32 * 4];
  int count = 0;
  for (int i = 0; i < lanes; ++i) {
    for (int byte = 0; byte < std::max(size, 4); byte += 4)
      words[count++] = (addresses[i] + static_cast<unsigned>(byte)) / 4;
  }
  count = distinct(words, words + count);
  int banks[32] = {};
  int most = 1;
  for (int i = 0; i < count; ++i) most = std::max(most, ++banks[words[i] % 32]);
  return most;
}

}  // namespace

void AccessTrace::begin(int threads) {
  threads_ = threads;
  lanes_.resize(static_cast<std::size_t>(threads));
  for (auto& lane : lanes_) lane.clear();
}

void AccessTrace::reset() {
  for (AccessTotals& totals : totals_) totals = {};
}

void AccessTrace::record(int thread, AccessKind kind, std::uint64_t address, int size, int line) {
  lanes_[static_cast<std::size_t>(thread)].push_back({address, line, static_cast<std::uint8_t>(size), kind});
}

void AccessTrace::count(AccessKind kind, int size, const std::uint64_t* addresses, int lanes) {
  AccessTotals& totals = totals_[static_cast<int>(kind)];
  ++totals.requests;
  if (kind == AccessKind::global_load || kind == AccessKind::global_store) {
    totals.units += static_cast<std::uint64_t>(sectors(size, addresses, lanes));
    return;
  }
  // 8-byte accesses are served a half warp at a time, 16-byte accesses a quarter.
  const int together = size <= 4 ? 32 : 128 / size;
  for (int first = 0; first < lanes; first += together) {
    totals.units += static_cast<std::uint64_t>(passes(size, addresses + first, std::min(together, lanes - first)));
    ++totals.least_units;
  }
}

void AccessTrace::converge(int subgroup) {
  const int first = subgroup * 32, last = std::min(first + 32, threads_);
  const auto& leader = lanes_[static_cast<std::size_t>(first)];
  bool uniform = true;
  for (int t = first + 1; t < last && uniform; ++t) {
    const auto& lane = lanes_[static_cast<std::size_t>(t)];
    uniform = lane.size() == leader.size() &&
              std::equal(lane.begin(), lane.end(), leader.begin(),
                         [](const Entry& a, const Entry& b) { return a.same_instruction(b); });
  }
  if (uniform) {
    std::uint64_t addresses[32];
    for (std::size_t i = 0; i < leader.size(); ++i) {
      for (int t = first; t < last; ++t) addresses[t - first] = lanes_[static_cast<std::size_t>(t)][i].address;
      count(leader[i].kind, leader[i].size, addresses, last - first);
    }
  } else {
    match_divergent(first, last);
  }
  for (int t = first; t < last; ++t) lanes_[static_cast<std::size_t>(t)].clear();
}

void AccessTrace::match_divergent(int first, int last) {
  using Instruction = std::tuple<int, AccessKind, int>;  // line, kind, size
  std::map<std::tuple<Instruction, int>, std::vector<std::uint64_t>> groups;
  for (int t = first; t < last; ++t) {
    std::map<Instruction, int> seen;
    for (const Entry& entry : lanes_[static_cast<std::size_t>(t)]) {
      const Instruction instruction{entry.line, entry.kind, entry.size};
      groups[{instruction, seen[instruction]++}].push_back(entry.address);
    }
  }
  for (const auto& [key, addresses] : groups) {
    const auto& [line, kind, size] = std::get<0>(key);
    count(kind, size, addresses.data(), static_cast<int>(addresses.size()));
  }
}

void AccessTrace::converge_all() {
  for (int subgroup = 0; subgroup * 32 < threads_; ++subgroup) converge(subgroup);
}

}  // namespace aicf
