#pragma once

// Words of the text form. Private to frontend/text.

#include <string>
#include <string_view>
#include <vector>

#include "mir/support/result.h"

namespace aicf {

struct Token {
  enum class Kind { name, integer, real, text, symbol, newline, end } kind = Kind::end;
  std::string text;     ///< a name or string without its quotes, a number or symbol as written
  bool quoted = false;  ///< a name in backticks: never a keyword
  std::size_t offset = 0;
  int line = 0, column = 0;
};

/// Newlines inside parentheses and brackets are left out, as are comments ("# …"). The last token is `end`.
Result<std::vector<Token>> tokenize(std::string_view text, std::string_view place);

}  // namespace aicf
