#pragma once

// Private to the interpreter: global and workgroup memory with the checks that a GPU does not make.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mir/kernel/thread_program.h"

namespace aicf::interpreter {

/// One global buffer. An element that some thread writes may be touched by no other thread of the launch, in any
/// workgroup: neither order nor visibility is promised between work items.
class GlobalBuffer {
 public:
  /// `tracked`: some statement stores to it.
  void bind(const KernelBuffer& buffer, std::vector<double>& values, bool tracked);

  const KernelBuffer& buffer() const { return *buffer_; }
  std::int64_t size() const { return static_cast<std::int64_t>(values_->size()); }
  /// Threads are numbered over the launch, from 0. Both give what is wrong, or nothing.
  std::optional<std::string> check_range(std::int64_t index, std::int64_t width) const;
  std::optional<std::string> note_read(std::int64_t index, std::int64_t thread, int workgroup_size);
  std::optional<std::string> note_write(std::int64_t index, std::int64_t thread, int workgroup_size);

  double read(std::int64_t index) const { return (*values_)[static_cast<std::size_t>(index)]; }
  /// Rounds to the buffer's type.
  void write(std::int64_t index, double value);

  std::uint64_t read_elements = 0, written_elements = 0;

 private:
  struct Touch {
    std::int64_t writer = -1;  ///< thread, or -1
    std::int64_t reader = -1;  ///< thread, -1, or -2 for several
  };
  std::string conflict(const char* what, std::int64_t index, std::int64_t other, const char* did,
                       int workgroup_size) const;

  const KernelBuffer* buffer_ = nullptr;
  std::vector<double>* values_ = nullptr;
  std::vector<Touch> touches_;  ///< empty when not tracked
};

/// The memory of one workgroup. Arrays may overlap (memory reused behind a barrier): state is kept per unit of bytes,
/// and bytes written through one array are not initialised for another.
///
/// Between two barriers, a unit that one thread writes may be touched by no other thread; lockstep inside a subgroup
/// orders nothing.
class SharedMemory {
 public:
  explicit SharedMemory(const std::vector<SharedArray>& arrays);

  const SharedArray& array(std::uint32_t i) const { return arrays_[i]; }
  void begin_workgroup();
  void barrier() { ++epoch_; }

  std::optional<std::string> check_range(std::uint32_t array, std::int64_t index, std::int64_t width) const;
  std::optional<std::string> read(std::uint32_t array, std::int64_t index, std::int32_t thread, double& value);
  std::optional<std::string> write(std::uint32_t array, std::int64_t index, std::int32_t thread, double value);

 private:
  struct Unit {
    double value = 0;
    std::uint64_t write_epoch = 0, read_epoch = 0;
    std::int32_t writer = -1, reader = -1;  ///< reader: -2 for several
    std::int32_t owner = -1;                ///< array that wrote it, -1: not initialised
  };
  const std::vector<SharedArray>& arrays_;
  std::size_t unit_bytes_ = 4;
  std::vector<Unit> units_;
  std::uint64_t epoch_ = 1;
};

}  // namespace aicf::interpreter
