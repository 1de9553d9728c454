#pragma once

// Files of external data, mapped in place and never from outside the model's folder.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "mir/support/result.h"

namespace aicf {

/// A read-only mapping; lives as long as something holds it.
class ExternalFile {
 public:
  /// Maps the file behind an open descriptor, which stays the caller's.
  static Result<std::shared_ptr<const ExternalFile>> map(int descriptor, const std::string& shown);
  ~ExternalFile();
  ExternalFile(const ExternalFile&) = delete;
  ExternalFile& operator=(const ExternalFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  ExternalFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

/// The folder of a model: files of external data are opened relative to it and never outside of it. Absolute paths,
/// "..", symbolic links on any part of the path, files with a second hard link, and anything but plain files are
/// refused.
class ModelFolder {
 public:
  explicit ModelFolder(std::string path) : path_(std::move(path)) {}
  Result<std::shared_ptr<const ExternalFile>> open(const std::string& location);

 private:
  std::string path_;
  std::map<std::string, std::shared_ptr<const ExternalFile>> opened_;
};

}  // namespace aicf
