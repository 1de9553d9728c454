#include "runtime/cuda_emulation/hot.h"
//
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/cuda_emulation/machine.h"

// Every access that the prelude's fast paths do not decide: bounds, alignment, permission, order, and counts.

namespace aicf {
namespace {

/// "line" of an earlier access is not known, only who made it.
std::string who(AicfWord stamp) {
  const AicfWord subgroup = stamp_subgroup(stamp), lane = stamp_lane(stamp);
  if (subgroup == kSeveral) return "threads of several subgroups";
  if (lane == kSeveral) return fmt::format("several lanes of subgroup {}", subgroup);
  return fmt::format("thread {}", 32 * subgroup + lane);
}

}  // namespace

std::string Machine::shared_place(AicfWord offset) const {
  return fmt::format("shared memory at byte {}", static_cast<std::int64_t>(offset));
}

std::string Machine::conflict_words(const Conflict& conflict, Space space, bool write) const {
  const char* fence = "no barrier lies between";
  switch (conflict.kind) {
    case Conflict::Kind::none:
      return "";
    case Conflict::Kind::uninitialised:
      return "nothing was stored there in this workgroup";
    case Conflict::Kind::pending_copy: {
      for (const auto& copies : copies_) {
        for (const Copy& copy : copies) {
          if (conflict.word * 4 >= copy.target && conflict.word * 4 < copy.target + static_cast<AicfWord>(copy.size)) {
            return fmt::format(
                "it is the target of thread {}'s asynchronous copy (line {}), which has not been waited for",
                copy.thread, copy.line);
          }
        }
      }
      return "it is the target of an asynchronous copy that has not been waited for";
    }
    case Conflict::Kind::race_with_write:
      return fmt::format("race: {} wrote it and {}{}", who(conflict.other), fence,
                         space == Space::shared && write ? " (two writes)" : "");
    case Conflict::Kind::race_with_read:
      return fmt::format("race: {} read it and {}", who(conflict.other), fence);
    case Conflict::Kind::other_workgroup_wrote:
      return "another workgroup of the launch wrote it";
    case Conflict::Kind::other_workgroup_read:
      return "another workgroup of the launch read it";
  }
  return "";
}

/// `size` is checked and recorded, `counted_bytes` is added to the argument's count.
unsigned char* Machine::global_access(AicfWord address, int size, int line, bool write, int counted_bytes,
                                      int alignment) {
  refuse_padding(line);
  const char* verb = write ? "stores to" : "loads from";
  const std::size_t index = address >> kAicfArgumentShift & 63;
  if (index >= plan_->arguments.size()) {
    raise(line, [&] {
      return fmt::format("{} an address that belongs to no pointer parameter{}", verb,
                         index == kAicfSharedArgument ? " (it is in shared memory)" : "");
    });
  }
  const LaunchArgument& argument = plan_->arguments[index];
  const AicfWord offset = (address & kAicfArgumentMask) - kAicfArgumentMiddle;
  const auto element = static_cast<std::int64_t>(device_size(argument.type));
  const auto place = [&] {
    const auto at = static_cast<std::int64_t>(offset);
    return at % element == 0 ? fmt::format("{}[{}]", argument.name, at / element)
                             : fmt::format("{} at byte {}", argument.name, at);
  };
  if (offset >= argument.size || argument.size - offset < static_cast<AicfWord>(size)) {
    raise(line, [&] {
      return fmt::format("{} {} ({} bytes), out of bounds: it has {} elements", verb, place(), size,
                         argument.size / static_cast<std::size_t>(element));
    });
  }
  if (offset % static_cast<AicfWord>(alignment)) {
    raise(line, [&] {
      return fmt::format("{} {}, misaligned: an access of {} bytes needs a multiple of that", verb, place(), alignment);
    });
  }
  if (write && !argument.written)
    raise(line, [&] { return fmt::format("stores to {}, which is declared as not written", place()); });
  if (argument.tracked || argument.written) {
    // Partial copies may be of any size: whole halves of what they touch.
    AicfWord at = offset;
    for (int left = size; left > 0;) {
      const int part = left >= 4 && at % 4 == 0 ? 4 : 2;
      const Conflict conflict = write ? record_write(*state_, Space::global, argument.words, argument.halves, at, part)
                                      : record_read(*state_, Space::global, argument.words, argument.halves, at, part);
      if (conflict.kind != Conflict::Kind::none) {
        raise(line,
              [&] { return fmt::format("{} {}: {}", verb, place(), conflict_words(conflict, Space::global, write)); });
      }
      left -= part;
      at += static_cast<AicfWord>(part);
    }
  }
  AicfArgument& counted = state_->arguments[index];
  (write ? counted.bytes_written : counted.bytes_read) += static_cast<AicfWord>(counted_bytes);
  if (traced_) trace(write ? AccessKind::global_store : AccessKind::global_load, address, size, line);
  return argument.bytes + offset;
}

unsigned char* Machine::shared_access(AicfWord address, int size, int line, bool write) {
  refuse_padding(line);
  const char* verb = write ? "stores to" : "loads from";
  const AicfWord offset = address - kAicfSharedBase;
  if ((address >> kAicfArgumentShift & 63) != kAicfSharedArgument) {
    raise(line, [&] { return fmt::format("{} an address that is not in shared memory", verb); });
  }
  if (offset >= plan_->shared_bytes || plan_->shared_bytes - offset < static_cast<AicfWord>(size)) {
    raise(line, [&] {
      return fmt::format("{} {} ({} bytes), out of bounds: the kernel has {} bytes", verb, shared_place(offset), size,
                         plan_->shared_bytes);
    });
  }
  if (offset % static_cast<AicfWord>(size)) {
    raise(line, [&] {
      return fmt::format("{} {}, misaligned: an access of {} bytes needs a multiple of that", verb,
                         shared_place(offset), size);
    });
  }
  const Conflict conflict =
      write ? record_write(*state_, Space::shared, shared_shadow_.words(), shared_shadow_.halves(), offset, size)
            : record_read(*state_, Space::shared, shared_shadow_.words(), shared_shadow_.halves(), offset, size);
  if (conflict.kind != Conflict::Kind::none) {
    raise(line, [&] {
      return fmt::format("{} {}: {}", verb, shared_place(offset), conflict_words(conflict, Space::shared, write));
    });
  }
  if (traced_) trace(write ? AccessKind::shared_store : AccessKind::shared_load, offset, size, line);
  return shared_.data() + offset;
}

void Machine::trace(AccessKind kind, AicfWord address, int size, int line) {
  trace_.record(current_thread_, kind, address, size, line);
}

/// The target is checked as a store at once and holds nothing until the issuing thread waits; the source is checked at
/// once and read then.
void Machine::copy_async(AicfWord shared, AicfWord global, int size, int bytes, int line) {
  refuse_padding(line);
  if (bytes < 0 || bytes > size || bytes % 2) {
    raise(line,
          [&] { return fmt::format("an asynchronous copy of {} bytes is given {} bytes of source", size, bytes); });
  }
  unsigned char* target = shared_access(shared, size, line, true);
  const unsigned char* source = bytes ? global_access(global, bytes, line, false, bytes, size) : nullptr;
  const AicfWord offset = shared - kAicfSharedBase;
  std::memset(target, 0xff, static_cast<std::size_t>(size));
  for (AicfWord i = offset / 4; i < (offset + static_cast<AicfWord>(size)) / 4; ++i)
    shared_shadow_.words()[i] = {kPendingMark, kPendingMark};
  const int self = current_thread_;
  copies_[static_cast<std::size_t>(self)].push_back(
      {offset, source, size, bytes, self, threads_[static_cast<std::size_t>(self)].commits, line});
  ++pending_copies_;
  copied_bytes_ += static_cast<std::uint64_t>(bytes);
}

void Machine::copy_wait(int groups) {
  auto& copies = copies_[static_cast<std::size_t>(current_thread_)];
  const int commits = threads_[static_cast<std::size_t>(current_thread_)].commits;
  std::size_t arrived = 0;
  // Only closed groups arrive: group g is closed when g < commits.
  for (; arrived < copies.size() && copies[arrived].group + groups < commits; ++arrived) {
    const Copy& copy = copies[arrived];
    unsigned char* target = shared_.data() + copy.target;
    if (copy.bytes) std::memcpy(target, copy.source, static_cast<std::size_t>(copy.bytes));
    std::memset(target + copy.bytes, 0, static_cast<std::size_t>(copy.size - copy.bytes));
    for (AicfWord i = copy.target / 4; i < (copy.target + static_cast<AicfWord>(copy.size)) / 4; ++i)
      shared_shadow_.words()[i] = {state_->stamp, 0};
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(arrived));
  pending_copies_ -= arrived;
}

/// The workgroup is over: what was never waited for is forgotten.
void Machine::drop_copies() {
  if (!pending_copies_) return;
  for (auto& copies : copies_) {
    for (const Copy& copy : copies) {
      for (AicfWord i = copy.target / 4; i < (copy.target + static_cast<AicfWord>(copy.size)) / 4; ++i)
        shared_shadow_.words()[i] = {0, 0};
    }
    copies.clear();
  }
  pending_copies_ = 0;
}

}  // namespace aicf
