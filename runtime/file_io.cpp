#include "runtime/file_io.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace aicf {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return bad_input(fmt::format("cannot be opened: {}", std::strerror(errno)), path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return bad_input("is not a regular file", path);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(descriptor);
      return run_failure(fmt::format("cannot be mapped: {}", std::strerror(error)), path);
    }
  }
  ::close(descriptor);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  AtomicFile file;
  file.path_ = path;
  struct stat status {};
  const bool in_place = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (in_place) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    file.temporary_ = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter++);
    file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file.descriptor_ < 0) {
    const int error = errno;
    file.temporary_.clear();
    return run_failure(fmt::format("cannot be written: {}", std::strerror(error)), path);
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      error_(other.error_),
      position_(other.position_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno != EINTR) error_ = errno;
      continue;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

Result<void> AtomicFile::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !temporary_.empty() && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) return run_failure(fmt::format("cannot be written: {}", std::strerror(error_)), path_);
  temporary_.clear();
  return {};
}

}  // namespace aicf
