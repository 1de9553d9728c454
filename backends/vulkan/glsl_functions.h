#pragma once

// Functions that emitted GLSL may call and the language lacks, or leaves to the device.

#include <set>
#include <string>
#include <string_view>

namespace aicf {

class GlslFunctions {
 public:
  explicit GlslFunctions(bool preserve_nan) : preserve_nan_(preserve_nan) {}

  /// Marks the function and what it calls as needed; returns `name`.
  std::string use(std::string_view name);
  /// Definitions of what was used, callees first.
  std::string definitions() const;
  bool uses_spirv_instructions() const;

 private:
  std::set<std::string, std::less<>> used_;
  bool preserve_nan_;
};

/// Words that names in GLSL may not be.
std::set<std::string, std::less<>> glsl_reserved_words();

}  // namespace aicf
