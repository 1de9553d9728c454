#include "runtime/file_io.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

namespace aicf {

/// One mapping as the handler of SIGBUS sees it. Entries live for ever and are used again; `path` changes only while `size`
/// is 0.
struct Mapping {
  std::atomic<const std::byte*> data{nullptr};
  std::atomic<std::size_t> size{0};
  std::atomic<bool> cut{false};
  std::string path;
  Mapping* next = nullptr;
};

namespace {

std::atomic<Mapping*> mappings{nullptr};
std::mutex mappings_mutex;  ///< for all but the handler
struct sigaction before;    ///< what SIGBUS did

/// Pages of a mapped file that do not exist (any more) become zeros.
void on_bus_error(int number, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (Mapping* m = mappings.load(); m; m = m->next) {
    const std::byte* data = m->data.load();
    if (std::less<>()(at, data) || !std::less<>()(at, data + m->size.load())) continue;
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t from = static_cast<std::size_t>(at - data) / page * page;
    void* zeros = ::mmap(const_cast<std::byte*>(data + from), m->size.load() - from, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    m->cut.store(true);
    return;
  }
  ::sigaction(number, &before, nullptr);  // not ours: it happens again, with its meaning from before
}

Mapping* register_mapping(const std::byte* data, std::size_t size, const std::string& path) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &before);
  });
  std::lock_guard lock(mappings_mutex);
  Mapping* entry = mappings.load();
  while (entry && (entry->size.load() != 0 || entry->cut.load())) entry = entry->next;
  if (!entry) {
    entry = new Mapping;
    entry->next = mappings.load();
    mappings.store(entry);
  }
  entry->path = path;
  entry->data.store(data);
  entry->size.store(size);
  return entry;
}

}  // namespace

MappedFile::MappedFile(const std::byte* data, std::size_t size, const std::string& path)
    : data_(data), size_(size), entry_(data ? register_mapping(data, size, path) : nullptr) {}

std::optional<FileRange> mapped_range(std::span<const std::byte> bytes) {
  std::lock_guard lock(mappings_mutex);
  for (Mapping* m = mappings.load(); m; m = m->next) {
    const std::byte* data = m->data.load();
    const std::size_t size = m->size.load();
    if (std::less<>()(bytes.data(), data) || std::less<>()(data + size, bytes.data() + bytes.size())) continue;
    if (size != 0) return FileRange{m->path, static_cast<std::uint64_t>(bytes.data() - data)};
  }
  return std::nullopt;
}

Result<void> check_mapped_files() {
  std::lock_guard lock(mappings_mutex);
  for (Mapping* m = mappings.load(); m; m = m->next)
    if (m->cut.exchange(false)) return run_failure("was cut off, or cannot be read, while it was in use", m->path);
  return {};
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return bad_input(fmt::format("cannot be opened: {}", std::strerror(errno)), path);
  auto file = map(descriptor, path);
  ::close(descriptor);
  return file;
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return bad_input("is not a regular file", path);
  const auto size = static_cast<std::size_t>(status.st_size);
  const void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return run_failure(fmt::format("cannot be mapped: {}", std::strerror(errno)), path);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size, path));
}

MappedFile::~MappedFile() {
  if (!data_) return;
  entry_->size.store(0);
  ::munmap(const_cast<std::byte*>(data_), size_);
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
    const NoInterrupt whole;
    file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor_ >= 0)
      file.removal_ = OnInterrupt([temporary = file.temporary_] { ::unlink(temporary.c_str()); });
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
      removal_(std::move(other.removal_)),
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
  AICF_RETURN_IF_ERROR(check_mapped_files());
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !temporary_.empty() && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) return run_failure(fmt::format("cannot be written: {}", std::strerror(error_)), path_);
  temporary_.clear();
  return {};
}

}  // namespace aicf
