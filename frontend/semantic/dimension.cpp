#include "frontend/semantic/dimension.h"

#include <algorithm>
#include <cctype>

namespace aicf {

Result<Expr> parse_dimension(const std::string& text) {
  Scope scope;
  std::string word;
  bool plain = true;  // only names, numbers and the operators of sizes
  for (std::size_t k = 0; k <= text.size(); ++k) {
    const char c = k < text.size() ? text[k] : ' ';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0) scope.symbols.insert(word);
    word.clear();
    plain = plain && std::string_view(" +-*/%()").find(c) != std::string_view::npos;
  }
  if (plain) {
    auto parsed = parse_expr(text, scope);
    if (parsed && is_integer(parsed->type())) {
      const Expr simple = simplify(*parsed);
      const auto value = simple.as_int();
      if (value && *value < 0) return bad_input("the negative size " + text);
      return simple;
    }
  }
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; }))
    return bad_input("the size " + text + " does not fit 63 bits");
  return Expr::symbol(text);
}

}  // namespace aicf
