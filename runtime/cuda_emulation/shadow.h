#pragma once

// Access rules of one launch: which accesses to a word are ordered, after which they are recorded. Works on the stamps
// of abi.inc; where 16-bit elements are used the two halves of a word have stamps of their own.

#include <cstddef>

#include "runtime/cuda_emulation/abi.h"

namespace aicf {

/// Marks of AicfStamps::write that are no stamps. They are above every stamp, so that fast paths never take them.
inline constexpr AicfWord kSplitMark = ~AicfWord{0};        ///< See the halves.
inline constexpr AicfWord kPendingMark = ~AicfWord{0} - 1;  ///< Target of an asynchronous copy not waited for.

inline constexpr AicfWord kSeveral = 63;  ///< Subgroup or lane field: more than one.

inline AicfWord make_stamp(AicfWord epoch, AicfWord subgroup, AicfWord lane, AicfWord subgroup_epoch) {
  return epoch << 32 | subgroup << 26 | lane << 20 | (subgroup_epoch & 0xfffff);
}
inline AicfWord stamp_subgroup(AicfWord stamp) {
  return stamp >> 26 & 63;
}
inline AicfWord stamp_lane(AicfWord stamp) {
  return stamp >> 20 & 63;
}

/// Stamps for a range of bytes: mapped lazily, zero ("never touched") at first.
class ShadowMemory {
 public:
  ShadowMemory() = default;
  ShadowMemory(const ShadowMemory&) = delete;
  ShadowMemory& operator=(const ShadowMemory&) = delete;
  ~ShadowMemory();

  /// For `bytes` bytes. False when address space is short. Idempotent.
  bool reserve(std::size_t bytes);
  /// Forgets everything.
  void clear();
  AicfStamps* words() const { return words_; }
  /// Halves of word i are [2·i] and [2·i + 1].
  AicfStamps* halves() const { return halves_; }

 private:
  AicfStamps* words_ = nullptr;
  AicfStamps* halves_ = nullptr;
  std::size_t word_count_ = 0;
};

/// What is wrong with an access.
struct Conflict {
  enum class Kind {
    none,
    uninitialised,
    pending_copy,
    race_with_write,
    race_with_read,
    other_workgroup_wrote,
    other_workgroup_read
  };
  Kind kind = Kind::none;
  AicfWord other = 0;  ///< Stamp of the earlier access.
  AicfWord word = 0;   ///< Index of the word, from the range's begin.
};

enum class Space { global, shared };

/// Checks and records an access of the running thread (`state`) to [offset, offset + size) of the range whose stamps
/// start at `words` and `halves`. Precondition: size 2, 4, 8 or 16, offset a multiple of it.
Conflict record_read(const AicfState& state, Space space, AicfStamps* words, AicfStamps* halves, AicfWord offset,
                     int size);
Conflict record_write(const AicfState& state, Space space, AicfStamps* words, AicfStamps* halves, AicfWord offset,
                      int size);

}  // namespace aicf
