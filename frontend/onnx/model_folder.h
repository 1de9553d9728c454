#pragma once

// Files of external data, mapped in place and never from outside the model's folder.

#include <map>
#include <memory>
#include <string>

#include "runtime/file_io.h"

namespace aicf {

/// The folder of a model: files of external data are opened relative to it and never outside of it. Absolute paths,
/// "..", symbolic links on any part of the path, files with a second hard link, and anything but plain files are
/// refused.
class ModelFolder {
 public:
  explicit ModelFolder(std::string path) : path_(std::move(path)) {}
  Result<std::shared_ptr<const MappedFile>> open(const std::string& location);

 private:
  std::string path_;
  std::map<std::string, std::shared_ptr<const MappedFile>> opened_;
};

}  // namespace aicf
