#pragma once

// Names in emitted source. Tensors come from models ("/encoder/layer.0/Q:0"), variables from lowering; a C-like
// language wants letters, digits and underscores, has words of its own, and one scope for all of them.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aicf {

class SourceNames {
 public:
  enum class Kind : char { buffer = 'b', shared = 's', variable = 'v', symbol = 'i' };

  /// Keywords, built-in functions and the like, which no name may be. Names that begin with "aicf_" or "gl_" or hold
  /// "__" are never given out: emitters use the first for helpers, languages reserve the others.
  explicit SourceNames(std::set<std::string, std::less<>> reserved) : reserved_(std::move(reserved)) {}

  /// The source name of `name`: the same one for every call, different for different (kind, name).
  const std::string& of(Kind kind, const std::string& name);

  /// A new name like `base`, for declarations that no name of the program stands for.
  std::string fresh(const std::string& base);

  /// (source name, original) where they differ, in order of first use.
  const std::vector<std::pair<std::string, std::string>>& changed() const { return changed_; }

 private:
  std::string unique(const std::string& name);

  std::set<std::string, std::less<>> reserved_;
  std::map<std::pair<Kind, std::string>, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::pair<std::string, std::string>> changed_;
};

/// `text` made safe inside a "//" comment: control characters become spaces, a last backslash (a continued line) is
/// kept from being last.
std::string comment_text(std::string_view text);

}  // namespace aicf
