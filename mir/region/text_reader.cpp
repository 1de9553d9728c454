#include "mir/region/text_reader.h"

#include <fmt/format.h>

#include <cctype>

namespace aicf::text {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\'' || c == '.';
}

/// End of the quoted text that starts at `i` (its closing mark, or the end of `text`).
std::size_t skip_quoted(std::string_view text, std::size_t i) {
  const char mark = text[i];
  for (++i; i < text.size() && text[i] != mark; ++i) {
    if (mark == '"' && text[i] == '\\') ++i;
  }
  return std::min(i, text.size());
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> lines;
  int number = 1;
  while (!text.empty()) {
    std::size_t end = 0;
    std::size_t comment = std::string_view::npos;
    for (; end < text.size() && text[end] != '\n'; ++end) {
      if (comment != std::string_view::npos) continue;
      if (text[end] == '#') comment = end;
      if (text[end] == '`' || text[end] == '"') end = std::min(skip_quoted(text, end), text.size() - 1);
    }
    const std::string_view whole = text.substr(0, end);
    Line line{number, std::string(trim(whole.substr(0, comment))), {}};
    if (comment != std::string_view::npos) line.comment = std::string(trim(whole.substr(comment + 1)));
    if (!line.text.empty()) lines.push_back(std::move(line));
    for (const char c : whole) number += c == '\n';
    ++number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// ---- Cursor ------------------------------------------------------------------------------------------------------

void Cursor::skip_space() {
  while (at_ < line_.text.size() && is_space(line_.text[at_])) ++at_;
}

bool Cursor::done() {
  skip_space();
  return at_ >= line_.text.size();
}

bool Cursor::accept(char c) {
  if (done() || line_.text[at_] != c) return false;
  ++at_;
  return true;
}

bool Cursor::accept_word(std::string_view word) {
  skip_space();
  const std::string_view left = std::string_view(line_.text).substr(at_);
  if (!left.starts_with(word) || (left.size() > word.size() && is_word(left[word.size()]))) return false;
  at_ += word.size();
  return true;
}

Result<void> Cursor::expect(char c) {
  if (!accept(c)) return error(fmt::format("expected '{}'", c));
  return {};
}

Result<void> Cursor::expect_word(std::string_view word) {
  if (!accept_word(word)) return error(fmt::format("expected '{}'", word));
  return {};
}

Result<std::string> Cursor::name() {
  skip_space();
  const std::string_view text = line_.text;
  if (at_ < text.size() && text[at_] == '`') {
    std::string result;
    for (std::size_t i = at_ + 1; i < text.size(); ++i) {
      if (text[i] == '`') {
        if (i + 1 >= text.size() || text[i + 1] != '`') {
          at_ = i + 1;
          return result;
        }
        ++i;
      }
      result += text[i];
    }
    return error("a name in backticks does not end");
  }
  std::size_t end = at_;
  while (end < text.size() && is_word(text[end])) ++end;
  if (end == at_ || std::isdigit(static_cast<unsigned char>(text[at_]))) return error("expected a name");
  std::string result(text.substr(at_, end - at_));
  at_ = end;
  return result;
}

Result<std::string> Cursor::quoted() {
  skip_space();
  const std::string_view text = line_.text;
  if (at_ >= text.size() || text[at_] != '"') return error("expected a text in quotes");
  std::string result;
  for (std::size_t i = at_ + 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      at_ = i + 1;
      return result;
    }
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      result += text[i] == 'n' ? '\n' : text[i];
    } else {
      result += text[i];
    }
  }
  return error("a text in quotes does not end");
}

Result<std::vector<std::string>> Cursor::names_until(char close) {
  std::vector<std::string> names;
  if (accept(close)) return names;
  do {
    AICF_TRY(std::string name, this->name());
    names.push_back(std::move(name));
  } while (accept(','));
  AICF_RETURN_IF_ERROR(expect(close));
  return names;
}

std::string_view Cursor::until(std::string_view stops, const std::vector<std::string_view>& words) {
  skip_space();
  const std::string_view text = line_.text;
  int depth = 0;
  std::size_t i = at_;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`' || c == '"') {
      i = skip_quoted(text, i);
      continue;
    }
    if (depth == 0) {
      if (stops.find(c) != std::string_view::npos) break;
      bool found = false;
      for (const std::string_view word : words) {
        const bool starts = i == 0 || !is_word(text[i - 1]);
        const bool ends = i + word.size() >= text.size() || !is_word(text[i + word.size()]);
        found |= starts && ends && text.substr(i).starts_with(word);
      }
      if (found) break;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  const std::string_view result = trim(text.substr(at_, std::min(i, text.size()) - at_));
  at_ = std::min(i, text.size());
  return result;
}

Result<std::string_view> Cursor::bracketed(char open, char close) {
  AICF_RETURN_IF_ERROR(expect(open));
  const std::string_view inside = until(std::string_view(&close, 1));
  AICF_RETURN_IF_ERROR(expect(close));
  return inside;
}

std::string_view Cursor::rest() {
  skip_space();
  const std::string_view result = trim(std::string_view(line_.text).substr(at_));
  at_ = line_.text.size();
  return result;
}

std::string Cursor::place() const {
  return place_.empty() ? fmt::format("line {}", line_.number) : fmt::format("{}:{}", place_, line_.number);
}

std::unexpected<Diagnostic> Cursor::error(const std::string& message) const {
  return bad_input(
      fmt::format("{} at '{}'", message, std::string_view(line_.text).substr(std::min(at_, line_.text.size()))),
      place());
}

// ---- lists and names ---------------------------------------------------------------------------------------------

std::vector<std::string_view> split_list(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`' || c == '"') {
      i = skip_quoted(text, i);
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  const std::string_view last = trim(text.substr(std::min(begin, text.size())));
  if (!last.empty() || !parts.empty()) parts.push_back(last);
  return parts;
}

std::string name_text(const std::string& name) {
  return to_string(Expr::axis(name));
}

std::string quoted_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string join(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name_text(name);
  return result;
}

std::string join_quoted(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += (result.empty() ? "" : ", ") + quoted_text(text);
  return result;
}

std::string join(const std::vector<Expr>& list) {
  std::string result;
  for (const Expr& e : list) result += (result.empty() ? "" : ", ") + to_string(e);
  return result;
}

std::vector<std::string> origin_of(const Line& line, std::string_view place) {
  Line comment{line.number, line.comment, {}};
  Cursor cursor(comment, place);
  std::vector<std::string> origin;
  if (!cursor.accept_word("from")) return origin;
  do {
    auto text = cursor.quoted();
    if (!text) return {};
    origin.push_back(std::move(*text));
  } while (cursor.accept(','));
  return origin;
}

std::string origin_text(const std::vector<std::string>& origin) {
  return origin.empty() ? "" : "   # from " + join_quoted(origin);
}

ReductionText split_reduction(std::string_view text) {
  text = trim(text);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return {text, {}, {}};
  for (std::size_t i = 0; i < open; ++i) {
    if (!is_word(text[i])) return {text, {}, {}};
  }
  int depth = 0;
  std::size_t over = std::string_view::npos;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`' || c == '"') {
      i = skip_quoted(text, i);
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && i + 1 < text.size()) return {text, {}, {}};  // the first bracket does not span the text
    if (depth == 1 && text.substr(i).starts_with(" over ")) over = i;
  }
  if (over == std::string_view::npos) return {text, {}, {}};
  return {trim(text.substr(open + 1, over - open - 1)), text.substr(0, open),
          trim(text.substr(over + 6, text.size() - over - 7))};
}

}  // namespace aicf::text
