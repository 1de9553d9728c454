#include "mir/kernel/source_names.h"

namespace aicf {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Letters, digits and single inner underscores, beginning with a letter.
std::string plain_form(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (is_letter(c) || is_digit(c)) {
      result += c;
    } else if (c == '\'') {
      result += "_new";  // states spell "the next m" as m'
    } else if (!result.empty() && result.back() != '_') {
      result += '_';
    }
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  if (result.empty() || is_digit(result[0])) result = result.empty() ? "x" : "x_" + result;
  if (result.starts_with("gl_") || result.starts_with("aicf_")) result = "x_" + result;
  return result;
}

}  // namespace

std::string SourceNames::unique(const std::string& name) {
  const std::string base = plain_form(name);
  std::string candidate = reserved_.contains(base) ? base + '_' : base;
  for (int i = 2; reserved_.contains(candidate) || taken_.contains(candidate); ++i) {
    candidate = base + '_' + std::to_string(i);
  }
  taken_.insert(candidate);
  return candidate;
}

std::string SourceNames::fresh(const std::string& base) {
  return unique(base);
}

const std::string& SourceNames::of(Kind kind, const std::string& name) {
  const auto [entry, added] = names_.try_emplace({kind, name});
  if (!added) return entry->second;
  entry->second = unique(name);
  if (entry->second != name) changed_.emplace_back(entry->second, name);
  return entry->second;
}

std::string comment_text(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  if (!result.empty() && result.back() == '\\') result += " .";
  return result;
}

}  // namespace aicf
