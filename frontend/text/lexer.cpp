#include "frontend/text/lexer.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

namespace aicf {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_name_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view place) : text_(text), place_(place) {}

  Result<std::vector<Token>> run() {
    while (at_ < text_.size()) AICF_RETURN_IF_ERROR(step());
    push(Token::Kind::newline, "\n", at_);
    push(Token::Kind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  Result<void> step() {
    const char c = text_[at_];
    const std::size_t start = at_;
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\n') {
      if (depth_ == 0) push(Token::Kind::newline, "\n", start);
      ++at_;
      ++line_;
      line_start_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (is_name_start(c)) {
      while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
      push(Token::Kind::name, std::string(text_.substr(start, at_ - start)), start);
    } else if (c == '`' || c == '"') {
      return quoted(c);
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      number();
    } else if (text_.compare(at_, 2, "->") == 0) {
      at_ += 2;
      push(Token::Kind::symbol, "->", start);
    } else if (std::string_view("()[]{},=:+-*/%@.").find(c) != std::string_view::npos) {
      if (c == '(' || c == '[') ++depth_;
      if (c == ')' || c == ']') --depth_;
      if (c == '{') outer_.push_back(std::exchange(depth_, 0));  // lines count again inside
      if (c == '}' && !outer_.empty()) {
        depth_ = outer_.back();
        outer_.pop_back();
      }
      ++at_;
      push(Token::Kind::symbol, std::string(1, c), start);
    } else {
      return bad(start,
                 fmt::format("unexpected character {}", std::isprint(static_cast<unsigned char>(c)) != 0
                                                            ? fmt::format("'{}'", c)
                                                            : fmt::format("0x{:02x}", static_cast<unsigned char>(c))));
    }
    return {};
  }

  /// `name` with a doubled backtick for one, or "text" with \" \\ \n.
  Result<void> quoted(char quote) {
    const std::size_t start = at_++;
    std::string value;
    for (;; ++at_) {
      if (at_ >= text_.size() || text_[at_] == '\n') return bad(start, "a quote is not closed");
      const char c = text_[at_];
      if (c == quote) {
        if (quote == '`' && at_ + 1 < text_.size() && text_[at_ + 1] == '`') {
          value += '`';
          ++at_;
          continue;
        }
        break;
      }
      if (quote == '"' && c == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[++at_];
        value += next == 'n' ? '\n' : next;
        continue;
      }
      value += c;
    }
    ++at_;
    push(quote == '`' ? Token::Kind::name : Token::Kind::text, std::move(value), start);
    tokens_.back().quoted = true;
    return {};
  }

  void number() {
    const std::size_t start = at_;
    bool real = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_digit(c)) {
        ++at_;
      } else if (c == '.') {
        real = true;
        ++at_;
      } else if ((c == 'e' || c == 'E') && at_ + 1 < text_.size()) {
        const bool sign = text_[at_ + 1] == '+' || text_[at_ + 1] == '-';
        if (at_ + 1 + (sign ? 1 : 0) >= text_.size() || !is_digit(text_[at_ + 1 + (sign ? 1 : 0)])) break;
        real = true;
        at_ += sign ? 2 : 1;
      } else {
        break;
      }
    }
    push(real ? Token::Kind::real : Token::Kind::integer, std::string(text_.substr(start, at_ - start)), start);
  }

  void push(Token::Kind kind, std::string text, std::size_t offset) {
    tokens_.push_back({kind, std::move(text), false, offset, line_, static_cast<int>(offset - line_start_) + 1});
  }

  std::unexpected<Diagnostic> bad(std::size_t offset, std::string message) const {
    return bad_input(std::move(message), fmt::format("{}:{}:{}", place_, line_, offset - line_start_ + 1));
  }

  std::string_view text_, place_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1, depth_ = 0;
  std::vector<int> outer_;  ///< depths around the open braces
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view text, std::string_view place) {
  return Lexer(text, place).run();
}

}  // namespace aicf
