#pragma once

// Counts what a warp-level access costs in the memory system: 32-byte sectors of global memory and passes through the
// 32 banks of shared memory. The lanes' accesses are collected one by one and matched afterwards: those of one source
// line that are the n-th there since the lanes last met are one instruction.

#include <cstdint>
#include <vector>

namespace aicf {

enum class AccessKind : std::uint8_t { global_load, global_store, shared_load, shared_store };

struct AccessTotals {
  std::uint64_t requests = 0;     ///< Warp-level instructions.
  std::uint64_t units = 0;        ///< Global: sectors touched. Shared: passes (wavefronts).
  std::uint64_t least_units = 0;  ///< Shared: passes without any bank conflict.
};

class AccessTrace {
 public:
  /// Starts a workgroup of `threads` threads.
  void begin(int threads);
  /// Global addresses may be offset freely as long as 32-byte sectors keep their alignment.
  void record(int thread, AccessKind kind, std::uint64_t address, int size, int line);
  /// The lanes of `subgroup` have met: accesses so far are matched and counted.
  void converge(int subgroup);
  void converge_all();
  const AccessTotals& totals(AccessKind kind) const { return totals_[static_cast<int>(kind)]; }
  void reset();

 private:
  struct Entry {
    std::uint64_t address;
    std::int32_t line;
    std::uint8_t size;
    AccessKind kind;
    bool same_instruction(const Entry& other) const {
      return line == other.line && size == other.size && kind == other.kind;
    }
  };
  void match_divergent(int first, int last);
  void count(AccessKind kind, int size, const std::uint64_t* addresses, int lanes);

  std::vector<std::vector<Entry>> lanes_;
  int threads_ = 0;
  AccessTotals totals_[4];
};

}  // namespace aicf
