// Builders of expressions with the light simplification that is exact for every value: constant folding, neutral
// elements, and identities of integers and booleans. Everything that needs ranges is in expr_simplify.cpp.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mir/support/expr.h"
#include "mir/support/expr_node.h"

namespace aicf {
namespace {

/// A vector of them; braces would copy.
template <class... E>
std::vector<Expr> list(E... args) {
  std::vector<Expr> out;
  out.reserve(sizeof...(args));
  (out.push_back(std::move(args)), ...);
  return out;
}

bool is_comparison(Op op) {
  return op == Op::lt || op == Op::le || op == Op::eq;
}
bool is_logic(Op op) {
  return op == Op::and_ || op == Op::or_;
}

bool needs_float(Op op) {
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

/// A plain integer constant takes the type of what stands beside it: `x * 2` for a float x.
void unify(Expr& a, Expr& b) {
  if (a.type() == b.type()) return;
  const auto adapt = [](Expr& number, const Expr& other) {
    if (!number.is_constant() || number.type() != DType::i64) return false;
    const DType type = other.type();
    if (type == DType::boolean || (is_integer(type) && !fits(type, number.int_number()))) return false;
    number = Expr::integer(number.int_number(), type);
    return true;
  };
  if (!adapt(b, a)) adapt(a, b);
}

/// A folded float must be what the narrow type would have seen: not finite where it overflows, not nonzero where it
/// underflows.
bool safe_to_fold(DType type, double result) {
  const double narrow = round_to(type, result);
  return std::isfinite(result) == std::isfinite(narrow) && (result == 0) == (narrow == 0);
}

std::optional<std::int64_t> fold_integers(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  switch (op) {
    case Op::add:
      return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::sub:
      return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::mul:
      return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::div:
      if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
      return a / b;
    case Op::floordiv:
      return floor_division(a, b);
    case Op::mod:
      return floor_modulo(a, b);
    case Op::pow: {
      if (b < 0) return std::nullopt;
      r = 1;
      for (std::int64_t i = 0; i < b; ++i) {
        if (i == 64 && a != 0 && a != 1 && a != -1) return std::nullopt;
        if (i == 64) return a == -1 && b % 2 != 0 ? -1 : a * a;
        if (__builtin_mul_overflow(r, a, &r)) return std::nullopt;
      }
      return r;
    }
    case Op::min:
    case Op::minnum:
      return std::min(a, b);
    case Op::max:
    case Op::maxnum:
      return std::max(a, b);
    default:
      return std::nullopt;
  }
}

/// The value of `op` on two constants, or empty when it must stay.
Expr fold_constants(Op op, const Expr& a, const Expr& b) {
  const DType type = a.type();
  if (is_float(type)) {
    const double args[] = {a.number(), b.number()};
    if (is_comparison(op)) return Expr::boolean(apply(op, DType::boolean, args) != 0);
    const double result = apply(op, type, args);
    return safe_to_fold(type, result) ? Expr::constant(type, result) : Expr();
  }
  const std::int64_t x = a.int_number(), y = b.int_number();
  switch (op) {
    case Op::lt:
      return Expr::boolean(x < y);
    case Op::le:
      return Expr::boolean(x <= y);
    case Op::eq:
      return Expr::boolean(x == y);
    case Op::and_:
      return Expr::boolean(x && y);
    case Op::or_:
      return Expr::boolean(x || y);
    default:
      break;
  }
  const auto result = fold_integers(op, x, y);
  return result && fits(type, *result) ? Expr::integer(*result, type) : Expr();
}

/// Neutral and absorbing elements and equal operands; empty when none applies.
Expr fold_identities(Op op, const Expr& a, const Expr& b) {
  const bool whole = !is_float(a.type());
  switch (op) {
    case Op::add:
      if (b.is_constant(0)) return a;
      if (a.is_constant(0)) return b;
      break;
    case Op::sub:
      if (b.is_constant(0)) return a;
      if (whole && a == b) return Expr::integer(0, a.type());
      if (const auto c = b.as_int(); c && is_signed_integer(a.type())) {
        // Integers subtract constants as "+ (-c)": one form for both spellings.
        std::int64_t negated = 0;
        if (!__builtin_sub_overflow(std::int64_t{0}, *c, &negated) && fits(a.type(), negated)) {
          return Expr::binary(Op::add, a, Expr::integer(negated, a.type()));
        }
      }
      break;
    case Op::mul:
      if (b.is_constant(1)) return a;
      if (a.is_constant(1)) return b;
      if (whole && (a.is_constant(0) || b.is_constant(0))) return Expr::integer(0, a.type());
      break;
    case Op::div:
      if (b.is_constant(1)) return a;
      break;
    case Op::floordiv:
      if (whole && b.is_constant(1)) return a;
      if (whole && a.is_constant(0)) return a;
      break;
    case Op::mod:
      if (whole && (b.is_constant(1) || a.is_constant(0))) return Expr::integer(0, a.type());
      break;
    case Op::pow:
      if (b.is_constant(1)) return a;
      break;
    case Op::min:
    case Op::max:
    case Op::minnum:
    case Op::maxnum:
      if (a == b) return a;
      break;
    case Op::lt:
      if (a == b) return Expr::boolean(false);  // NaN too
      break;
    case Op::le:
    case Op::eq:
      if (whole && a == b) return Expr::boolean(true);
      break;
    case Op::and_:
      if (a.is_constant()) return a.int_number() ? b : a;
      if (b.is_constant()) return b.int_number() ? a : b;
      if (a == b) return a;
      break;
    case Op::or_:
      if (a.is_constant()) return a.int_number() ? a : b;
      if (b.is_constant()) return b.int_number() ? b : a;
      if (a == b) return a;
      break;
    default:
      break;
  }
  return {};
}

/// A cast to a type that holds every value of `from` exactly.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (is_float(from)) return is_float(to) && (to == DType::f64 || (to == DType::f32 && from != DType::f64));
  if (from == DType::boolean) return true;
  if (!is_integer(to)) return false;
  const bool from_signed = is_signed_integer(from), to_signed = is_signed_integer(to);
  if (from_signed == to_signed) return host_size(to) > host_size(from);
  return to_signed && host_size(to) > host_size(from);
}

DType unary_type(Op op, const Expr& a) {
  const DType type = a.type();
  switch (op) {
    case Op::isnan:
    case Op::isinf:
      return DType::boolean;
    case Op::not_:
      AICF_CHECK(type == DType::boolean, "'not' needs a bool");
      return type;
    default:
      AICF_CHECK(!needs_float(op) || is_float(type),
                 fmt::format("'{}' needs a float, not {}", op_name(op), name(type)));
      AICF_CHECK(type != DType::boolean, fmt::format("'{}' of a bool", op_name(op)));
      return type;
  }
}

}  // namespace

Expr Expr::unary(Op op, Expr a) {
  AICF_CHECK(op_arity(op) == 1 && op != Op::cast, fmt::format("'{}' is not an operation of one argument", op_name(op)));
  const DType type = unary_type(op, a);
  if (!is_float(a.type())) {
    if (op == Op::floor || op == Op::ceil || op == Op::round_even) return a;
    if (op == Op::isnan || op == Op::isinf) return boolean(false);
  }
  if (a.is_constant()) {
    if (op == Op::not_) return boolean(!a.int_number());
    if (is_integer(a.type())) {
      const std::int64_t v = a.int_number();
      std::int64_t r = op == Op::sign ? (v > 0) - (v < 0) : v;
      const bool negate = op == Op::neg || (op == Op::abs && v < 0);
      if (!(negate && __builtin_sub_overflow(std::int64_t{0}, v, &r)) && fits(type, r)) return integer(r, type);
    } else if (is_float(a.type())) {
      const double args[] = {a.number()};
      const double result = apply(op, type, args);
      if (type == DType::boolean) return boolean(result != 0);
      if (safe_to_fold(type, result)) return constant(type, result);
    }
  }
  if ((op == Op::neg || op == Op::not_) && a.op() == op) return a.args()[0];
  if (op == Op::not_ && (a.op() == Op::lt || a.op() == Op::le) && is_integer(a.args()[0].type())) {
    return binary(a.op() == Op::lt ? Op::le : Op::lt, a.args()[1], a.args()[0]);
  }
  if ((op == Op::abs || op == Op::floor || op == Op::ceil || op == Op::round_even) && a.op() == op) return a;
  return ExprNode::make({.op = op, .type = type, .args = list(std::move(a))});
}

Expr Expr::binary(Op op, Expr a, Expr b) {
  AICF_CHECK(op_arity(op) == 2, fmt::format("'{}' is not an operation of two arguments", op_name(op)));
  AICF_CHECK(a && b, fmt::format("'{}' of an empty expression", op_name(op)));
  unify(a, b);
  AICF_CHECK(a.type() == b.type(), fmt::format("operands of '{}' have types {} and {}: {} and {}", op_name(op),
                                               aicf::name(a.type()), aicf::name(b.type()), to_string(a), to_string(b)));
  const bool logic = is_logic(op);
  AICF_CHECK(logic == (a.type() == DType::boolean) || op == Op::eq,
             fmt::format("'{}' of operands of type {}", op_name(op), aicf::name(a.type())));
  if (a.is_constant() && b.is_constant()) {
    if (Expr folded = fold_constants(op, a, b)) return folded;
  }
  if (Expr simpler = fold_identities(op, a, b)) return simpler;
  const DType type = is_comparison(op) || logic ? DType::boolean : a.type();
  return ExprNode::make({.op = op, .type = type, .args = list(std::move(a), std::move(b))});
}

Expr Expr::select(Expr condition, Expr a, Expr b) {
  AICF_CHECK(condition && a && b, "select of an empty expression");
  AICF_CHECK(condition.type() == DType::boolean, "the condition of a select must be a bool");
  unify(a, b);
  AICF_CHECK(a.type() == b.type(), fmt::format("branches of a select have types {} and {}: {} and {}",
                                               aicf::name(a.type()), aicf::name(b.type()), to_string(a), to_string(b)));
  if (condition.is_constant()) return condition.int_number() ? a : b;
  if (a == b) return a;
  if (a.type() == DType::boolean && a.is_constant() && b.is_constant()) {
    return a.int_number() ? condition : unary(Op::not_, condition);
  }
  const DType type = a.type();
  return ExprNode::make(
      {.op = Op::select, .type = type, .args = list(std::move(condition), std::move(a), std::move(b))});
}

Expr Expr::cast(Expr a, DType to) {
  const DType from = a.type();
  if (from == to) return a;
  if (a.is_constant()) {
    if (is_float(from)) {
      if (is_float(to)) return constant(to, round_to(to, a.number()));
      if (to == DType::boolean) return boolean(a.number() != 0);
      const double whole = round_to(to, a.number());
      return integer(static_cast<std::int64_t>(std::min(whole, 0x1.fffffffffffffp62)), to);
    }
    if (is_float(to)) return constant(to, round_to(to, static_cast<double>(a.int_number())));
    if (to != DType::u64 || a.int_number() >= 0) return integer(wrap_integer(to, a.int_number()), to);
  }
  // There and back through a type that holds every value.
  if (a.op() == Op::cast && widens(a.args()[0].type(), from)) return cast(a.args()[0], to);
  return ExprNode::make({.op = Op::cast, .type = to, .args = list(std::move(a))});
}

Expr Expr::rebuild(const Expr& like, std::vector<Expr> args) {
  const Op op = like.op();
  if (op == Op::load) return load(like.name(), std::move(args), like.type());
  AICF_CHECK(static_cast<int>(args.size()) == op_arity(op), "rebuild with another number of arguments");
  switch (args.size()) {
    case 0:
      return like;
    case 1:
      return op == Op::cast ? cast(std::move(args[0]), like.type()) : unary(op, std::move(args[0]));
    case 2:
      return binary(op, std::move(args[0]), std::move(args[1]));
    default:
      return select(std::move(args[0]), std::move(args[1]), std::move(args[2]));
  }
}

// ---- operators ---------------------------------------------------------------------------------------------------

Expr operator+(const Expr& a, const Expr& b) {
  return Expr::binary(Op::add, a, b);
}
Expr operator-(const Expr& a, const Expr& b) {
  return Expr::binary(Op::sub, a, b);
}
Expr operator*(const Expr& a, const Expr& b) {
  return Expr::binary(Op::mul, a, b);
}
Expr operator/(const Expr& a, const Expr& b) {
  return Expr::binary(Op::div, a, b);
}
Expr operator-(const Expr& a) {
  return Expr::unary(Op::neg, a);
}
Expr floordiv(const Expr& a, const Expr& b) {
  return Expr::binary(Op::floordiv, a, b);
}
Expr ceildiv(const Expr& a, const Expr& b) {
  return floordiv(a + (b - 1), b);
}
Expr mod(const Expr& a, const Expr& b) {
  return Expr::binary(Op::mod, a, b);
}
Expr less(const Expr& a, const Expr& b) {
  return Expr::binary(Op::lt, a, b);
}
Expr less_equal(const Expr& a, const Expr& b) {
  return Expr::binary(Op::le, a, b);
}
Expr equal(const Expr& a, const Expr& b) {
  return Expr::binary(Op::eq, a, b);
}

Expr logical_and(const Expr& a, const Expr& b) {
  if (!a) return b;
  return b ? Expr::binary(Op::and_, a, b) : a;
}

Expr logical_or(const Expr& a, const Expr& b) {
  if (!a || !b) return Expr::boolean(true);
  return Expr::binary(Op::or_, a, b);
}

Expr logical_not(const Expr& a) {
  return a ? Expr::unary(Op::not_, a) : Expr::boolean(false);
}

}  // namespace aicf
