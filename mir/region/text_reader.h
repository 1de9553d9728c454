#pragma once

// Lines and words of the text forms of regions and streaming regions. Expressions are cut out by their delimiters and
// parsed by mir/support.

#include <string>
#include <string_view>
#include <vector>

#include "mir/support/expr.h"

namespace aicf::text {

/// A line without its comment; empty lines are dropped. `comment` is what follows '#', trimmed.
struct Line {
  int number = 0;
  std::string text, comment;
};
std::vector<Line> split_lines(std::string_view text);

/// Reads one line from left to right. Every failing read leaves the position where it was.
class Cursor {
 public:
  Cursor(const Line& line, std::string_view place) : line_(line), place_(place) {}

  bool done();
  bool accept(char c);
  bool accept_word(std::string_view word);
  Result<void> expect(char c);
  Result<void> expect_word(std::string_view word);
  /// A bare name or one in backticks (a doubled backtick is one).
  Result<std::string> name();
  /// A text in double quotes with \" \\ \n escapes.
  Result<std::string> quoted();
  /// name, name, …; possibly none before `close`, which is consumed.
  Result<std::vector<std::string>> names_until(char close);
  /// Text up to one of `stops` (a character) or `words` outside brackets and quotes, or the end of the line.
  std::string_view until(std::string_view stops, const std::vector<std::string_view>& words = {});
  /// The text inside the bracket that opens here, which is consumed with its closing one.
  Result<std::string_view> bracketed(char open, char close);
  std::string_view rest();
  std::unexpected<Diagnostic> error(const std::string& message) const;
  std::string place() const;

 private:
  void skip_space();
  const Line& line_;
  std::string_view place_;
  std::size_t at_ = 0;
};

/// Pieces of `text` between top-level commas.
std::vector<std::string_view> split_list(std::string_view text, char separator = ',');
std::string_view trim(std::string_view text);
std::string name_text(const std::string& name);
std::string quoted_text(const std::string& text);
std::string join(const std::vector<std::string>& names);         ///< "a, b" in the spelling of names
std::string join_quoted(const std::vector<std::string>& texts);  ///< "\"a\", \"b\""
std::string join(const std::vector<Expr>& list);

/// `# from "a", "b"`; other comments give an empty list.
std::vector<std::string> origin_of(const Line& line, std::string_view place);
std::string origin_text(const std::vector<std::string>& origin);

/// "body" or "sum(body over a, b)".
struct ReductionText {
  std::string_view body, reduce, over;
};
ReductionText split_reduction(std::string_view text);

}  // namespace aicf::text
