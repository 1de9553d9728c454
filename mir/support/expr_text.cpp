// Printing. The text parses back to an equal expression: parentheses where the tree needs them, and constants of other
// types than i64 and f32 in a cast ("f16(0.5)") wherever nothing beside them gives their type.

#include <fmt/format.h>

#include <cmath>

#include "mir/support/expr_brief.h"
#include "mir/support/expr_node.h"
#include "mir/support/expr_syntax.h"

namespace aicf {
namespace {

using namespace expr_syntax;

bool is_default_type(DType type) {
  return type == DType::i64 || type == DType::f32;
}

std::string number_text(const ExprNode& node) {
  if (!is_float(node.type)) return fmt::format("{}", node.integer);
  if (std::isnan(node.number)) return "nan";
  if (std::isinf(node.number)) return node.number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", node.number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string name_text(const std::string& name) {
  if (is_plain_name(name)) return name;
  std::string text = "`";
  for (const char c : name) {
    text += c;
    if (c == '`') text += c;
  }
  return text + "`";
}

class Printer {
 public:
  /// `known`: the reader learns the type of constants in `e` from what stands beside it.
  void print(const Expr& e, int min_precedence, bool known) {
    const ExprNode& node = ExprNode::of(e);
    const int precedence = precedence_of(node);
    const bool parentheses = precedence < min_precedence;
    if (parentheses) text_ += '(';
    print_node(node, precedence, known);
    if (parentheses) text_ += ')';
  }

  std::string take() { return std::move(text_); }

 private:
  static int precedence_of(const ExprNode& node) {
    if (node.op == Op::constant) {
      const bool negative = std::signbit(node.number) && !std::isnan(node.number);
      return negative && node.type != DType::boolean ? unary_precedence : primary_precedence;
    }
    const Infix* infix = infix_of(node.op);
    if (infix) return infix->precedence;
    if (node.op == Op::neg) return unary_precedence;
    if (node.op == Op::not_) return not_precedence;
    return primary_precedence;
  }

  void print_node(const ExprNode& node, int precedence, bool known) {
    switch (node.op) {
      case Op::constant:
        return print_constant(node, known);
      case Op::symbol:
      case Op::axis:
      case Op::value:
        text_ += name_text(node.name);
        return;
      case Op::load:
        text_ += name_text(node.name) + "[";
        print_list(node.args);
        text_ += ']';
        return;
      case Op::neg:
        text_ += '-';
        // "-(5)": a minus before digits belongs to the number.
        print(node.args[0], node.args[0].is_constant() ? primary_precedence + 1 : unary_precedence, false);
        return;
      case Op::not_:
        text_ += "not ";
        print(node.args[0], precedence, false);
        return;
      case Op::cast:
        text_ += name(node.type);
        text_ += '(';
        print(node.args[0], 0, false);
        text_ += ')';
        return;
      case Op::select: {
        text_ += "where(";
        print(node.args[0], 0, false);
        text_ += ", ";
        print_pair(node.args[1], node.args[2], ", ", 0, 0, known);
        text_ += ')';
        return;
      }
      default:
        break;
    }
    if (node.args.size() == 1) {
      text_ += op_name(node.op);
      text_ += '(';
      print(node.args[0], 0, false);
      text_ += ')';
      return;
    }
    const Infix* infix = infix_of(node.op);
    if (!infix) {
      text_ += op_name(node.op);
      text_ += '(';
      print_pair(node.args[0], node.args[1], ", ", 0, 0, false);
      text_ += ')';
      return;
    }
    if (node.op == Op::add && print_as_difference(node)) return;
    // Left-associative; comparisons do not chain.
    const int left = infix->precedence == comparison_precedence ? precedence + 1 : precedence;
    print_pair(node.args[0], node.args[1], fmt::format(" {} ", infix->text), left, precedence + 1, false);
  }

  void print_constant(const ExprNode& node, bool known) {
    if (node.type == DType::boolean) {
      text_ += node.integer ? "true" : "false";
    } else if (known || is_default_type(node.type)) {
      text_ += number_text(node);
    } else {
      text_ += fmt::format("{}({})", name(node.type), number_text(node));
    }
  }

  /// Two operands of one type: a literal is printed bare beside an operand whose type shows.
  void print_pair(const Expr& a, const Expr& b, std::string_view between, int left, int right, bool known) {
    const bool first_known = known || !is_literal(b);
    print(a, left, first_known);
    text_ += between;
    print(b, right, known || !is_literal(a) || (is_literal(b) && !is_default_type(a.type())));
  }

  /// "a - 5" for the integer a + (−5), which is how the builder writes differences.
  bool print_as_difference(const ExprNode& node) {
    const auto c = node.args[1].as_int();
    if (!c || *c >= 0 || node.args[0].is_constant() || !is_signed_integer(node.type)) return false;
    std::int64_t positive = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, *c, &positive) || !fits(node.type, positive)) return false;
    print_pair(node.args[0], Expr::integer(positive, node.type), " - ", additive_precedence, additive_precedence + 1,
               false);
    return true;
  }

  void print_list(const std::vector<Expr>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ", ";
      print(list[i], 0, false);
    }
  }

  std::string text_;
};

}  // namespace

namespace expr_syntax {

const Infix* infix_of(Op op) {
  for (const Infix& infix : infix_table) {
    if (infix.op == op && !infix.swapped && !infix.negated) return &infix;
  }
  return nullptr;
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '\'';
}

std::size_t plain_name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return 0;
  std::size_t end = 1;
  while (end < text.size()) {
    if (is_name_part(text[end])) {
      ++end;
    } else if (text[end] == '.' && end + 1 < text.size() && is_name_part(text[end + 1])) {
      end += 2;
    } else {
      break;
    }
  }
  return end;
}

bool is_reserved(std::string_view name) {
  for (const std::string_view word : {"and", "or", "not", "true", "false", "inf", "nan"}) {
    if (name == word) return true;
  }
  return false;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && plain_name_length(name) == name.size() && !is_reserved(name);
}

bool is_literal(const Expr& e) {
  if (e.op() == Op::constant) return e.type() != DType::boolean;
  return e.op() == Op::select && is_literal(e.args()[1]) && is_literal(e.args()[2]);
}

}  // namespace expr_syntax

std::string to_string(const Expr& e) {
  if (!e) return "";
  Printer printer;
  printer.print(e, 0, false);
  return printer.take();
}

std::string brief(const Expr& e) {
  constexpr std::uint64_t longest = 256;
  if (!e || e.tree_size() <= longest) return to_string(e);
  return fmt::format("an expression of more than {} operations", longest);
}

}  // namespace aicf
