#include "runtime/cuda_emulation/hot.h"
//
#include "runtime/cuda_emulation/shadow.h"

#include <sys/mman.h>

namespace aicf {
namespace {

using Kind = Conflict::Kind;

AicfStamps* map_stamps(std::size_t count) {
  void* memory = mmap(nullptr, count * sizeof(AicfStamps), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<AicfStamps*>(memory);
}

/// True when an access stamped `earlier`, in this workgroup, is ordered before the running thread's next one: a
/// barrier, or within its own subgroup aicf_warp_sync, or program order lies between them.
bool ordered(const AicfState& state, AicfWord earlier) {
  if (earlier < state.epoch_low) return true;
  if (stamp_subgroup(earlier) != stamp_subgroup(state.stamp)) return false;
  if ((earlier ^ state.stamp) & 0xfffff) return true;
  return stamp_lane(earlier) == stamp_lane(state.stamp);
}

/// True when the stamp is of another workgroup in this launch. Shared memory is new to each workgroup.
bool foreign(const AicfState& state, Space space, AicfWord stamp) {
  return space == Space::global && stamp >= state.launch_low && stamp < state.block_low;
}

/// Stamps below this are of no interest.
AicfWord begin_of_interest(const AicfState& state, Space space) {
  return space == Space::global ? state.launch_low : state.block_low;
}

Kind read_unit(const AicfState& state, Space space, AicfStamps& s, AicfWord& other) {
  other = s.write;
  if (s.write == kPendingMark) return Kind::pending_copy;
  if (s.write < begin_of_interest(state, space)) {
    if (space == Space::shared) return Kind::uninitialised;
  } else if (foreign(state, space, s.write)) {
    return Kind::other_workgroup_wrote;
  } else if (!ordered(state, s.write)) {
    return Kind::race_with_write;
  }
  // A write has to be ordered after every read since the last write: remember who reads, as exactly as matters.
  const AicfWord r = s.read;
  if (foreign(state, space, r)) {
    s.read = state.launch_low;  // No epoch of a workgroup: stays foreign to all later ones.
  } else if (r < state.epoch_low) {
    s.read = state.stamp;
  } else if (stamp_subgroup(r) != stamp_subgroup(state.stamp)) {
    s.read = state.stamp_groups;
  } else if ((r ^ state.stamp) & 0xfffff) {
    s.read = state.stamp;
  } else if (stamp_lane(r) != stamp_lane(state.stamp)) {
    s.read = state.stamp_lanes;
  }
  return Kind::none;
}

Kind write_unit(const AicfState& state, Space space, AicfStamps& s, AicfWord& other) {
  other = s.write;
  if (s.write == kPendingMark) return Kind::pending_copy;
  if (s.write >= begin_of_interest(state, space)) {
    if (foreign(state, space, s.write)) return Kind::other_workgroup_wrote;
    if (!ordered(state, s.write)) return Kind::race_with_write;
  }
  other = s.read;
  if (s.read >= begin_of_interest(state, space)) {
    if (foreign(state, space, s.read)) return Kind::other_workgroup_read;
    if (!ordered(state, s.read)) return Kind::race_with_read;
  }
  s.write = state.stamp;
  s.read = 0;
  return Kind::none;
}

/// Applies `unit` to every word or half of an access and keeps the split marks.
template <bool kWrite>
Conflict record(const AicfState& state, Space space, AicfStamps* words, AicfStamps* halves, AicfWord offset, int size) {
  Conflict conflict;
  const auto unit = [&](AicfStamps& s) {
    conflict.kind = kWrite ? write_unit(state, space, s, conflict.other) : read_unit(state, space, s, conflict.other);
    return conflict.kind == Kind::none;
  };
  const AicfWord first = offset / 4;
  if (size < 4) {
    conflict.word = first;
    AicfStamps& word = words[first];
    AicfStamps* half = halves + 2 * first;
    if (word.write == kPendingMark) {
      conflict.kind = Kind::pending_copy;
      return conflict;
    }
    if (word.write != kSplitMark) {
      half[0] = half[1] = word;
      word = {kSplitMark, kSplitMark};
    }
    unit(half[offset / 2 % 2]);
    return conflict;
  }
  for (AicfWord i = first; i < first + static_cast<AicfWord>(size) / 4; ++i) {
    conflict.word = i;
    if (words[i].write != kSplitMark) {
      if (!unit(words[i])) return conflict;
      continue;
    }
    AicfStamps* half = halves + 2 * i;
    if (!unit(half[0]) || !unit(half[1])) return conflict;
    if (kWrite) words[i] = half[0];  // Both halves have the same history again.
  }
  return conflict;
}

}  // namespace

ShadowMemory::~ShadowMemory() {
  if (words_) munmap(words_, word_count_ * sizeof(AicfStamps));
  if (halves_) munmap(halves_, 2 * word_count_ * sizeof(AicfStamps));
}

bool ShadowMemory::reserve(std::size_t bytes) {
  if (halves_) return true;
  if (!words_) {
    word_count_ = (bytes + 3) / 4 + 4;
    words_ = map_stamps(word_count_);
  }
  if (words_) halves_ = map_stamps(2 * word_count_);
  return halves_ != nullptr;
}

void ShadowMemory::clear() {
  if (words_) madvise(words_, word_count_ * sizeof(AicfStamps), MADV_DONTNEED);
  if (halves_) madvise(halves_, 2 * word_count_ * sizeof(AicfStamps), MADV_DONTNEED);
}

Conflict record_read(const AicfState& state, Space space, AicfStamps* words, AicfStamps* halves, AicfWord offset,
                     int size) {
  return record<false>(state, space, words, halves, offset, size);
}

Conflict record_write(const AicfState& state, Space space, AicfStamps* words, AicfStamps* halves, AicfWord offset,
                      int size) {
  return record<true>(state, space, words, halves, offset, size);
}

}  // namespace aicf
