// Tests interpret whole kernels in debug builds too.
#pragma GCC optimize("O2", "inline")

#include "mir/kernel/interpret_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace aicf::interpreter {
namespace {

bool is_in_range(std::int64_t index, std::int64_t width, std::int64_t size) {
  return index >= 0 && index <= size - width && (index & (width - 1)) == 0;
}

/// What is wrong with an access that is not in range.
std::string range_error(const std::string& what, std::int64_t index, std::int64_t width, std::int64_t size) {
  if (index >= 0 && index <= size - width) {
    return fmt::format("{}[{} ..+ {}] is misaligned: a vector access starts at a multiple of its width", what, index,
                       width);
  }
  return width == 1 ? fmt::format("{}[{}] is out of bounds, it has {} elements", what, index, size)
                    : fmt::format("{}[{} ..+ {}] is out of bounds, it has {} elements", what, index, width, size);
}

}  // namespace

void GlobalBuffer::bind(const KernelBuffer& buffer, std::vector<double>& values, bool tracked) {
  buffer_ = &buffer;
  values_ = &values;
  if (tracked) touches_.resize(values.size());
}

std::optional<std::string> GlobalBuffer::check_range(std::int64_t index, std::int64_t width) const {
  if (is_in_range(index, width, size())) return std::nullopt;
  return range_error(fmt::format("buffer '{}'", buffer_->name), index, width, size());
}

std::string GlobalBuffer::conflict(const char* what, std::int64_t index, std::int64_t other, const char* did,
                                   int workgroup_size) const {
  return fmt::format("buffer '{}'[{}] is {} here, and thread {} of workgroup {} {} it", buffer_->name, index, what,
                     other % workgroup_size, other / workgroup_size, did);
}

std::optional<std::string> GlobalBuffer::note_read(std::int64_t index, std::int64_t thread, int workgroup_size) {
  if (touches_.empty()) return std::nullopt;
  Touch& touch = touches_[static_cast<std::size_t>(index)];
  if (touch.writer >= 0 && touch.writer != thread) {
    return conflict("read", index, touch.writer, "wrote", workgroup_size);
  }
  touch.reader = touch.reader == -1 || touch.reader == thread ? thread : -2;
  return std::nullopt;
}

std::optional<std::string> GlobalBuffer::note_write(std::int64_t index, std::int64_t thread, int workgroup_size) {
  if (touches_.empty()) return std::nullopt;
  Touch& touch = touches_[static_cast<std::size_t>(index)];
  if (touch.writer >= 0 && touch.writer != thread) {
    return conflict("written", index, touch.writer, "wrote", workgroup_size);
  }
  if (touch.reader == -2)
    return fmt::format("buffer '{}'[{}] is written here, and other threads read it", buffer_->name, index);
  if (touch.reader >= 0 && touch.reader != thread) {
    return conflict("written", index, touch.reader, "read", workgroup_size);
  }
  touch.writer = thread;
  return std::nullopt;
}

void GlobalBuffer::write(std::int64_t index, double value) {
  const DType storage = device_storage(buffer_->type);
  const bool boolean = buffer_->type == DType::boolean;
  (*values_)[static_cast<std::size_t>(index)] = round_to(boolean ? DType::boolean : storage, value);
}

SharedMemory::SharedMemory(const std::vector<SharedArray>& arrays) : arrays_(arrays) {
  std::int64_t bytes = 0;
  for (const SharedArray& a : arrays) {
    unit_bytes_ = std::min(unit_bytes_, device_size(a.type));
    bytes = std::max(bytes, a.byte_offset + a.elements * static_cast<std::int64_t>(device_size(a.type)));
  }
  units_.resize(static_cast<std::size_t>(bytes) / unit_bytes_ + 1);
}

void SharedMemory::begin_workgroup() {
  std::fill(units_.begin(), units_.end(), Unit{});
  epoch_ = 1;
}

std::optional<std::string> SharedMemory::check_range(std::uint32_t array, std::int64_t index,
                                                     std::int64_t width) const {
  if (is_in_range(index, width, arrays_[array].elements)) return std::nullopt;
  return range_error(fmt::format("shared '{}'", arrays_[array].name), index, width, arrays_[array].elements);
}

std::optional<std::string> SharedMemory::read(std::uint32_t array, std::int64_t index, std::int32_t thread,
                                              double& value) {
  const SharedArray& a = arrays_[array];
  const std::size_t size = device_size(a.type);
  const std::size_t first =
      (static_cast<std::size_t>(a.byte_offset) + static_cast<std::size_t>(index) * size) / unit_bytes_;
  for (std::size_t i = first; i < first + size / unit_bytes_; ++i) {
    Unit& unit = units_[i];
    if (unit.owner != static_cast<std::int32_t>(array)) {
      return fmt::format("shared '{}'[{}] is read before it is written{}", a.name, index,
                         unit.owner < 0 ? "" : fmt::format(", its bytes hold '{}'", arrays_[unit.owner].name));
    }
    if (unit.write_epoch == epoch_ && unit.writer != thread) {
      return fmt::format("race: shared '{}'[{}] is read here, thread {} wrote it, and no barrier stands between",
                         a.name, index, unit.writer);
    }
    const bool alone = unit.read_epoch != epoch_ || unit.reader == thread;
    unit.reader = alone ? thread : -2;
    unit.read_epoch = epoch_;
  }
  value = units_[first].value;
  return std::nullopt;
}

std::optional<std::string> SharedMemory::write(std::uint32_t array, std::int64_t index, std::int32_t thread,
                                               double value) {
  const SharedArray& a = arrays_[array];
  const std::size_t size = device_size(a.type);
  const std::size_t first =
      (static_cast<std::size_t>(a.byte_offset) + static_cast<std::size_t>(index) * size) / unit_bytes_;
  for (std::size_t i = first; i < first + size / unit_bytes_; ++i) {
    Unit& unit = units_[i];
    if (unit.write_epoch == epoch_ && unit.writer != thread) {
      return fmt::format("race: shared '{}'[{}] is written here, thread {} wrote it, and no barrier stands between",
                         a.name, index, unit.writer);
    }
    if (unit.read_epoch == epoch_ && unit.reader != thread) {
      return unit.reader == -2
                 ? fmt::format(
                       "race: shared '{}'[{}] is written here, other threads read it, and no barrier stands between",
                       a.name, index)
                 : fmt::format(
                       "race: shared '{}'[{}] is written here, thread {} read it, and no barrier stands between",
                       a.name, index, unit.reader);
    }
    unit.write_epoch = epoch_;
    unit.writer = thread;
    unit.owner = static_cast<std::int32_t>(array);
  }
  units_[first].value = round_to(device_storage(a.type), value);
  return std::nullopt;
}

}  // namespace aicf::interpreter
