#include "frontend/onnx/model_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "frontend/semantic/check.h"

namespace aicf {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> ModelFolder::open(const std::string& location) {
  if (const auto found = opened_.find(location); found != opened_.end()) return found->second;
  const std::string shown = in_quotes(location);
  if (location.empty()) return bad_input("the location of external data is empty");
  if (location.front() == '/') return bad_input(fmt::format("external data at the absolute path {} is refused", shown));
  if (location.find('\0') != std::string::npos)
    return bad_input(fmt::format("external data at {}: the path holds a zero byte", shown));
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find('/', begin), location.size());
    const std::string part = location.substr(begin, end - begin);
    if (part == "..") return bad_input(fmt::format("external data at {} leaves the model's folder", shown));
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  if (parts.empty()) return bad_input(fmt::format("external data at {} names no file", shown));
  // Part by part without following links, so that none can lead out between a check and the opening.
  Descriptor at(::open(path_.empty() ? "." : path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (std::size_t k = 0; k < parts.size() && at.get() >= 0; ++k) {
    const bool last = k + 1 == parts.size();
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    at.reset(::openat(at.get(), parts[k].c_str(), flags));
  }
  if (at.get() < 0) {
    const int reason = errno;
    if (reason == ELOOP || reason == ENOTDIR) {
      return bad_input(
          fmt::format("external data at {} goes through a link or a file that is no folder, which is refused", shown));
    }
    return bad_input(fmt::format("external data at {}: {}", shown, std::strerror(reason)));
  }
  struct stat status {};
  if (::fstat(at.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    return bad_input(
        fmt::format("external data at {} is a file with a second hard link, which is refused; copy it", shown));
  }
  auto file = MappedFile::map(at.get(), (std::filesystem::path(path_) / location).string());
  if (!file) return fail(file.error().kind, file.error().message, "external data at " + shown);
  opened_[location] = *file;
  return *file;
}

}  // namespace aicf
