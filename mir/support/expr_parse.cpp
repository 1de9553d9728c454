// The reader of expr_syntax.h's grammar. Every mistake in the text is a Diagnostic with its column; nothing that the
// text says can reach a builder's check.

#include <fmt/core.h>

#include <charconv>
#include <limits>

#include "mir/support/expr.h"
#include "mir/support/expr_node.h"
#include "mir/support/expr_syntax.h"

namespace aicf {
namespace {

using namespace expr_syntax;

// Bounds on what a text may ask of the stack; generated expressions stay far below.
constexpr int max_nesting = 400;
constexpr std::uint32_t max_depth = 5000;

/// An expression whose literals may still take another type ("flexible") or not.
struct Operand {
  Expr e;
  bool flexible = false;
};

std::optional<Op> function_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Op::select); ++i) {
    const Op op = static_cast<Op>(i);
    if (op_arity(op) > 0 && op != Op::cast && op != Op::not_ && !infix_of(op) && op_name(op) == name) return op;
  }
  return std::nullopt;
}

bool needs_float_argument(Op op) {
  switch (op) {
    case Op::exp:
    case Op::log:
    case Op::sqrt:
    case Op::reciprocal:
    case Op::erf:
    case Op::tanh:
    case Op::sin:
    case Op::cos:
      return true;
    default:
      return false;
  }
}

class Parser {
 public:
  Parser(std::string_view text, const Scope& scope, std::string_view place)
      : text_(text), scope_(scope), place_(place) {}

  Result<Expr> parse() {
    AICF_TRY(const Operand whole, infix(or_precedence));
    skip_space();
    if (at_ < text_.size()) return error(at_, fmt::format("unexpected '{}' after the expression", text_[at_]));
    return whole.e;
  }

 private:
  std::unexpected<Diagnostic> error(std::size_t at, std::string message) const {
    const std::size_t column = at + 1;
    return bad_input(std::move(message),
                     place_.empty() ? fmt::format("column {}", column) : fmt::format("{}:{}", place_, column));
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<void> expect(char c, std::string_view where) {
    if (accept(c)) return {};
    if (at_ >= text_.size()) return error(at_, fmt::format("expected '{}' {} but the text ends", c, where));
    return error(at_, fmt::format("expected '{}' {}, found '{}'", c, where, text_[at_]));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    const std::size_t end = at_ + word.size();
    if (end < text_.size() && is_name_part(text_[end])) return false;
    at_ = end;
    return true;
  }

  // ---- types of literals -----------------------------------------------------------------------------------------

  /// `e`, a literal, with its constants in `type`; empty when one does not fit.
  static Expr retype(const Expr& e, DType type) {
    if (e.type() == type) return e;
    if (e.op() == Op::select) {
      Expr a = retype(e.args()[1], type), b = retype(e.args()[2], type);
      return a && b ? Expr::select(e.args()[0], std::move(a), std::move(b)) : Expr();
    }
    if (is_float(type)) return Expr::constant(type, e.number());
    if (is_float(e.type()) || !is_integer(type) || !fits(type, e.int_number())) return {};
    return Expr::integer(e.int_number(), type);
  }

  /// Gives both operands one type, that of the firm one; two literals become floats when one is.
  Result<bool> unify(Operand& a, Operand& b, std::string_view what, std::size_t at) const {
    const bool flexible = a.flexible && b.flexible;
    if (a.e.type() == b.e.type()) return flexible;
    if (flexible) {
      Operand& whole = is_float(a.e.type()) ? b : a;
      whole.e = retype(whole.e, DType::f32);
      return true;
    }
    Operand& literal = a.flexible ? a : b;
    const DType type = a.flexible ? b.e.type() : a.e.type();
    if (literal.flexible) {
      if (Expr typed = retype(literal.e, type)) {
        literal.e = std::move(typed);
        return false;
      }
    }
    return error(at, fmt::format("operands of '{}' have types {} and {}; cast one, as in {}(x)", what, name(a.e.type()),
                                 name(b.e.type()), name(type)));
  }

  Result<Operand> checked(Operand operand, std::size_t at) const {
    if (ExprNode::of(operand.e).depth > max_depth) return error(at, "the expression is nested too deeply");
    return operand;
  }

  Result<Operand> combine(const Infix& infix, Operand a, Operand b, std::size_t at) const {
    const bool logic = infix.op == Op::and_ || infix.op == Op::or_;
    const bool bools = a.e.type() == DType::boolean && b.e.type() == DType::boolean;
    if (logic && !bools) return error(at, fmt::format("'{}' needs conditions on both sides", infix.text));
    AICF_TRY(const bool flexible, unify(a, b, infix.text, at));
    if (bools && !logic && infix.op != Op::eq) return error(at, fmt::format("'{}' of conditions", infix.text));
    if (infix.op == Op::div && flexible && a.e.as_int() && b.e.as_int() && *b.e.as_int() != 0 &&
        floor_modulo(*a.e.as_int(), *b.e.as_int()) != 0) {
      return error(at, fmt::format("{} / {} is a division of integers; write {}.0 for a fraction or // to round down",
                                   *a.e.as_int(), *b.e.as_int(), *a.e.as_int()));
    }
    if (infix.swapped) std::swap(a.e, b.e);
    Expr result = Expr::binary(infix.op, std::move(a.e), std::move(b.e));
    if (infix.negated) result = logical_not(result);
    const bool still_literal = flexible && result.is_constant() && result.type() != DType::boolean;
    return checked({std::move(result), still_literal}, at);
  }

  // ---- grammar ---------------------------------------------------------------------------------------------------

  const Infix* accept_infix(int min_precedence) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    for (const Infix& infix : infix_table) {
      if (!rest.starts_with(infix.text)) continue;
      const bool word = is_name_start(infix.text[0]);
      if (word && rest.size() > infix.text.size() && is_name_part(rest[infix.text.size()])) continue;
      if (infix.precedence < min_precedence) return nullptr;
      at_ += infix.text.size();
      return &infix;
    }
    return nullptr;
  }

  Result<Operand> infix(int min_precedence) {
    if (++nesting_ > max_nesting) return error(at_, "the expression is nested too deeply");
    AICF_TRY(Operand left, prefix(min_precedence));
    for (;;) {
      skip_space();
      const std::size_t at = at_;
      const Infix* found = accept_infix(min_precedence);
      if (!found) break;
      AICF_TRY(Operand right, infix(found->precedence + 1));
      AICF_TRY(left, combine(*found, std::move(left), std::move(right), at));
      // Comparisons do not chain: "a < b < c" stops here and is reported at the second sign.
      if (found->precedence == comparison_precedence) {
        const std::size_t next = at_;
        const Infix* chained = accept_infix(comparison_precedence);
        if (chained) return error(next, "comparisons do not chain; join them with 'and'");
      }
    }
    --nesting_;
    return left;
  }

  Result<Operand> prefix(int min_precedence) {
    skip_space();
    const std::size_t at = at_;
    if (min_precedence <= not_precedence && accept_word("not")) {
      AICF_TRY(const Operand operand, infix(not_precedence));
      if (operand.e.type() != DType::boolean) return error(at, "'not' needs a condition");
      return checked({logical_not(operand.e)}, at);
    }
    if (!accept('-')) return primary();
    skip_space();
    if (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.')) return number(true);
    if (accept_word("inf")) return Operand{Expr::constant(DType::f32, -std::numeric_limits<double>::infinity()), true};
    AICF_TRY(const Operand operand, infix(unary_precedence));
    if (operand.e.type() == DType::boolean) return error(at, "'-' of a condition");
    Expr negated = -operand.e;
    const bool flexible = operand.flexible && negated.is_constant();
    return checked({std::move(negated), flexible}, at);
  }

  Result<Operand> number(bool negative) {
    const std::size_t start = at_;
    std::size_t end = at_;
    bool real = false;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool exponent = c == 'e' || c == 'E';
      if ((c >= '0' && c <= '9') || c == '.' || exponent) {
        real |= c == '.' || exponent;
        ++end;
        if (exponent && end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
      } else {
        break;
      }
    }
    std::string digits = (negative ? "-" : "") + std::string(text_.substr(start, end - start));
    at_ = end;
    const char* last = digits.data() + digits.size();
    if (end < text_.size() && is_name_start(text_[end])) return error(end, "a letter follows a number");
    if (!real) {
      std::int64_t value = 0;
      const auto [stop, code] = std::from_chars(digits.data(), last, value);
      if (code != std::errc() || stop != last) return error(start, fmt::format("{} does not fit in 64 bits", digits));
      return Operand{Expr::integer(value), true};
    }
    double value = 0;
    const auto [stop, code] = std::from_chars(digits.data(), last, value);
    if (code == std::errc::result_out_of_range)
      return error(start, fmt::format("{} is out of the range of floats", digits));
    if (code != std::errc() || stop != last) return error(start, fmt::format("'{}' is not a number", digits));
    return Operand{Expr::constant(DType::f32, value), true};
  }

  Result<std::string> name_token() {
    if (text_[at_] == '`') {
      const std::size_t start = at_++;
      std::string name;
      while (at_ < text_.size()) {
        if (text_[at_] == '`') {
          if (at_ + 1 >= text_.size() || text_[at_ + 1] != '`') {
            ++at_;
            return name;
          }
          ++at_;
        }
        name += text_[at_++];
      }
      return error(start, "a quoted name has no closing backtick");
    }
    const std::size_t length = plain_name_length(text_.substr(at_));
    std::string name(text_.substr(at_, length));
    at_ += length;
    return name;
  }

  Result<Operand> primary() {
    skip_space();
    if (at_ >= text_.size()) return error(at_, "expected an expression but the text ends");
    const std::size_t at = at_;
    const char c = text_[at_];
    if ((c >= '0' && c <= '9') || c == '.') return number(false);
    if (accept('(')) {
      AICF_TRY(Operand inner, infix(or_precedence));
      AICF_RETURN_IF_ERROR(expect(')', "to close the parenthesis"));
      return inner;
    }
    if (!is_name_start(c) && c != '`') return error(at, fmt::format("expected an expression, found '{}'", c));
    const bool quoted = c == '`';
    AICF_TRY(const std::string name, name_token());
    if (!quoted) {
      if (name == "true" || name == "false") return Operand{Expr::boolean(name == "true")};
      if (name == "inf") return Operand{Expr::constant(DType::f32, std::numeric_limits<double>::infinity()), true};
      if (name == "nan") return Operand{Expr::constant(DType::f32, std::numeric_limits<double>::quiet_NaN()), true};
      if (is_reserved(name)) return error(at, fmt::format("expected an expression, found '{}'", name));
      if (accept('(')) return call(name, at);
    }
    if (accept('[')) return load(name, at);
    return leaf(name, at);
  }

  Result<Operand> leaf(const std::string& name, std::size_t at) const {
    if (const auto found = scope_.values.find(name); found != scope_.values.end()) {
      return Operand{Expr::value(name, found->second)};
    }
    if (scope_.axes.contains(name)) return Operand{Expr::axis(name)};
    if (scope_.symbols.contains(name)) return Operand{Expr::symbol(name)};
    if (scope_.tensors.contains(name))
      return error(at, fmt::format("tensor '{0}' needs indices, as in {0}[i, j]", name));
    return error(at, fmt::format("unknown name '{}'", name));
  }

  Result<Operand> load(const std::string& name, std::size_t at) {
    const auto found = scope_.tensors.find(name);
    if (found == scope_.tensors.end()) return error(at, fmt::format("unknown tensor '{}'", name));
    std::vector<Expr> index;
    if (!accept(']')) {
      do {
        skip_space();
        const std::size_t index_at = at_;
        AICF_TRY(Operand operand, infix(or_precedence));
        if (!is_integer(operand.e.type())) return error(index_at, "an index must be an integer");
        index.push_back(std::move(operand.e));
      } while (accept(','));
      AICF_RETURN_IF_ERROR(expect(']', "to close the indices"));
    }
    return checked({Expr::load(name, std::move(index), found->second)}, at);
  }

  Result<Operand> call(const std::string& name, std::size_t at) {
    std::vector<Operand> args;
    if (!accept(')')) {
      do {
        AICF_TRY(Operand operand, infix(or_precedence));
        args.push_back(std::move(operand));
      } while (accept(','));
      AICF_RETURN_IF_ERROR(expect(')', "to close the arguments"));
    }
    const auto count_error = [&](int wanted) {
      return error(at,
                   fmt::format("'{}' takes {} argument{}, not {}", name, wanted, wanted == 1 ? "" : "s", args.size()));
    };
    if (const auto type = parse_dtype(name)) {
      if (args.size() != 1) return count_error(1);
      return cast(args[0], *type, at);
    }
    const auto op = function_named(name);
    if (!op) return error(at, fmt::format("unknown function '{}'", name));
    if (static_cast<int>(args.size()) != op_arity(*op)) return count_error(op_arity(*op));
    if (*op == Op::select) return select(std::move(args), at);
    if (args.size() == 1) return unary(*op, name, std::move(args[0]), at);
    AICF_TRY(const bool flexible, unify(args[0], args[1], name, at));
    if (args[0].e.type() == DType::boolean) return error(at, fmt::format("'{}' of conditions", name));
    Expr result = Expr::binary(*op, args[0].e, args[1].e);
    const bool still_literal = flexible && result.is_constant();
    return checked({std::move(result), still_literal}, at);
  }

  Result<Operand> unary(Op op, const std::string& name, Operand arg, std::size_t at) const {
    if (arg.e.type() == DType::boolean) return error(at, fmt::format("'{}' of a condition", name));
    if (needs_float_argument(op) && !is_float(arg.e.type())) {
      if (!arg.flexible) return error(at, fmt::format("'{}' needs a float, not {}", name, aicf::name(arg.e.type())));
      arg.e = retype(arg.e, DType::f32);
    }
    Expr result = Expr::unary(op, arg.e);
    const bool still_literal = arg.flexible && result.is_constant() && result.type() != DType::boolean;
    return checked({std::move(result), still_literal}, at);
  }

  Result<Operand> select(std::vector<Operand> args, std::size_t at) const {
    if (args[0].e.type() != DType::boolean) return error(at, "the first argument of 'where' must be a condition");
    AICF_TRY(const bool flexible, unify(args[1], args[2], "where", at));
    Expr result = Expr::select(args[0].e, args[1].e, args[2].e);
    return checked({result, flexible && is_literal(result)}, at);
  }

  /// "f16(0.1)" is a constant of that type as written; a cast of anything else rounds.
  Result<Operand> cast(const Operand& arg, DType type, std::size_t at) const {
    if (arg.flexible && arg.e.is_constant() && type != DType::boolean) {
      if (Expr typed = retype(arg.e, type)) return Operand{std::move(typed)};
      if (!is_float(arg.e.type())) {
        return error(at, fmt::format("{} does not fit in {}", arg.e.int_number(), name(type)));
      }
    }
    return checked({Expr::cast(arg.e, type)}, at);
  }

  std::string_view text_;
  const Scope& scope_;
  std::string_view place_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

Result<Expr> parse_expr(std::string_view text, const Scope& scope, std::string_view place) {
  return Parser(text, scope, place).parse();
}

}  // namespace aicf
