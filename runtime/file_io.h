#pragma once

// Whole files: reading by mapping, writing through a temporary file and a rename.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mir/support/interrupt.h"
#include "mir/support/result.h"

namespace aicf {

struct Mapping;

/// A read-only mapping; lives as long as its owner. Where the file is cut off by somebody else, or its disk fails, the rest
/// reads as zeros and check_mapped_files() says so.
class MappedFile {
 public:
  /// Errors: bad_input naming the file and the system's reason; folders and devices are refused.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  /// The file behind a descriptor, which stays the caller's; `path` is its name. Errors likewise.
  static Result<std::shared_ptr<const MappedFile>> map(int descriptor, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size, const std::string& path);
  const std::byte* data_;
  std::size_t size_;
  struct Mapping* entry_;  ///< null where nothing is mapped
};

/// Where bytes of a mapped file stand in it; nothing for other memory.
struct FileRange {
  std::string path;
  std::uint64_t offset = 0;
};
std::optional<FileRange> mapped_range(std::span<const std::byte> bytes);

/// Success, or run_failure naming a mapped file whose content could not be read since the last call.
Result<void> check_mapped_files();

/// A file that appears under its name only when complete; the temporary one goes when a signal ends the process. Write errors are kept and reported by commit(), so callers
/// need not check each write. An existing path that is no regular file (a pipe, a device) is written in place.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  ///< Removes the temporary file if commit() has not succeeded.

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  std::uint64_t position() const { return position_; }
  /// Errors: run_failure naming the file and the system's reason, or as check_mapped_files(): nothing is written from what
  /// could not be read.
  Result<void> commit();

 private:
  AtomicFile() = default;
  std::string path_, temporary_;  ///< `temporary_` is empty when writing in place.
  OnInterrupt removal_;
  int descriptor_ = -1;
  int error_ = 0;
  std::uint64_t position_ = 0;
};

/// Little-endian bytes of an unsigned integer, for file formats.
template <class T>
void append_little_endian(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to += static_cast<char>((value >> (8 * i)) & 0xff);
}
/// Precondition: `from` holds sizeof(T) bytes at `offset`.
template <class T>
T read_little_endian(std::span<const std::byte> from, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(from[offset + i]) << (8 * i));
  return value;
}

}  // namespace aicf
