#pragma once

#include <memory>
#include <new>
#include <string>

namespace aicf {

/// What a Tensor throws where the machine has no memory for it: "no memory for f32[…], … bytes".
class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(const std::string& text) : text_(std::make_shared<const std::string>(text)) {}
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  std::shared_ptr<const std::string> text_;  ///< copies of an exception may not throw
};

}  // namespace aicf
