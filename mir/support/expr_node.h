#pragma once

// Private to mir/support: the node behind Expr, and helpers that the expression files share.

#include <optional>

#include "mir/support/expr.h"

namespace aicf {

struct ExprNode {
  Op op = Op::constant;
  DType type = DType::i64;
  std::int64_t integer = 0;  ///< Constants of integer and boolean type.
  double number = 0;         ///< Constants of any type, as double; NaN has one bit pattern.
  std::string name;          ///< symbol, axis, load, value
  std::vector<Expr> args;
  // Set by make().
  std::uint64_t hash = 0;       ///< Over content only, never addresses: stable across runs.
  std::uint64_t tree_size = 1;  ///< Nodes when sharing is expanded; saturates at 2^62.
  std::uint32_t depth = 1;

  static const ExprNode& of(const Expr& e) { return *e.node_; }
  /// False when the expression that `e` is an argument of is all that holds it: a walk meets it once.
  static bool held_elsewhere(const Expr& e) { return e.node_.use_count() > 1; }
  static Expr make(ExprNode node);
};

/// Above this many nodes (sharing expanded) algorithms keep memo tables; below, plain recursion is faster.
inline constexpr std::uint64_t small_tree = 64;

/// Total order by kind, name and structure, for orders that a reader sees (simplified sums). Not by hash.
int compare_readable(const Expr& a, const Expr& b);

/// True when `value` is representable in integer or boolean type `type`.
bool fits(DType type, std::int64_t value);
/// Integers whose arithmetic the simplifier treats as exact: signed ones.
bool is_signed_integer(DType type);
/// `value` wrapped to `type` as a cast between integers does.
std::int64_t wrap_integer(DType type, std::int64_t value);
/// What a cast from `from` to `to` gives (integers wrap, floats to integers saturate, anything to bool is `!= 0`).
double cast_value(DType from, DType to, double value);
/// floor(a / b) and a − b·floor(a / b) for b ≠ 0; empty on overflow.
std::optional<std::int64_t> floor_division(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> floor_modulo(std::int64_t a, std::int64_t b);

}  // namespace aicf
