#pragma once

// Scalar expressions, shared by every level: dimensions and index maps (integers over symbols and axes), bodies of
// primitives, stream states, masks, and the arithmetic of kernels. An `Expr` is an immutable DAG; equality is structural.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mir/support/dtype.h"
#include "mir/support/result.h"

namespace aicf {

/// Operations of scalar expressions. Comparisons with NaN are false. `min`/`max` propagate NaN (as numpy and ONNX do);
/// `minnum`/`maxnum` drop it (IEEE 754 minNum: what a GPU's fmin/fmax gives) and are used where only the size matters.
/// floordiv/mod round toward minus infinity and are for integers; `div` on integers truncates toward zero (as ONNX).
/// `select(c, a, b)` evaluates only the chosen side's loads. `bool` results come from comparisons, isnan, isinf, not_/and_/or_.
enum class Op : std::uint8_t {
  // leaves
  constant,
  symbol,
  axis,
  load,
  value,
  // unary
  neg,
  abs,
  sign,
  exp,
  log,
  sqrt,
  reciprocal,
  erf,
  tanh,
  sin,
  cos,
  floor,
  ceil,
  round_even,
  isnan,
  isinf,
  not_,
  cast,
  // binary
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,
  min,
  max,
  minnum,
  maxnum,
  lt,
  le,
  eq,
  and_,
  or_,
  // ternary
  select,
};

class Expr;
struct ExprNode;
using ExprMap = std::map<std::string, Expr>;

/// A scalar expression; default-constructed it is empty (`!e`). Cheap to copy.
class Expr {
 public:
  Expr() = default;
  Expr(std::int64_t value);  // NOLINT: an i64 constant; dims and indices read naturally
  Expr(int value) : Expr(static_cast<std::int64_t>(value)) {}  // NOLINT

  /// A constant of `type` (integers exact through int64, floats through double).
  static Expr constant(DType type, double value);
  static Expr integer(std::int64_t value, DType type = DType::i64);
  static Expr boolean(bool value);
  /// A dimension symbol (i64): the same name means the same size.
  static Expr symbol(std::string name);
  /// A loop coordinate (i64): local to the node or region that declares it.
  static Expr axis(std::string name);
  /// Element of tensor `tensor` at `index` (one expression per dimension, i64).
  static Expr load(std::string tensor, std::vector<Expr> index, DType type);
  /// A named scalar: a statement's result at the current coordinates (regions), a state, a register (kernels).
  static Expr value(std::string name, DType type);
  /// Builds with light exact simplification (constant folding; x+0, x·1 on integers; never changes a float's meaning).
  static Expr unary(Op op, Expr a);
  static Expr binary(Op op, Expr a, Expr b);
  static Expr select(Expr condition, Expr a, Expr b);
  static Expr cast(Expr a, DType to);
  /// Rebuilds the same operation on other arguments (leaves: load only).
  static Expr rebuild(const Expr& like, std::vector<Expr> args);

  explicit operator bool() const { return node_ != nullptr; }
  Op op() const;
  DType type() const;
  std::span<const Expr> args() const;
  const std::string& name() const;  ///< symbol, axis, load (tensor), value
  double number() const;            ///< constant as double
  std::int64_t int_number() const;  ///< integer or boolean constant
  std::uint64_t hash() const;
  /// Nodes where sharing is expanded: what printing takes. Saturates at 2^62.
  std::uint64_t tree_size() const;
  bool is_constant() const { return op() == Op::constant; }
  bool is_constant(double v) const { return is_constant() && number() == v; }
  std::optional<std::int64_t> as_int() const;           ///< the value of an integer constant
  const void* identity() const { return node_.get(); }  ///< for memo tables

  friend bool operator==(const Expr& a, const Expr& b);
  friend bool operator<(const Expr& a, const Expr& b);  ///< a total order (hash, then structure); stable across runs

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
  friend struct ExprNode;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr floordiv(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr less(const Expr& a, const Expr& b);
Expr less_equal(const Expr& a, const Expr& b);
Expr equal(const Expr& a, const Expr& b);
Expr logical_and(const Expr& a, const Expr& b);  ///< an empty operand is "true"
Expr logical_or(const Expr& a, const Expr& b);
Expr logical_not(const Expr& a);

/// Words of an op in the text form ("exp", "add", …) and their number of arguments (0 for leaves).
std::string_view op_name(Op op);
int op_arity(Op op);

// ---- traversal ---------------------------------------------------------------------------------------------------

/// Calls `visit` once per distinct subexpression, arguments before users.
void for_each(const Expr& e, const std::function<void(const Expr&)>& visit);
/// Bottom-up rewrite: `replace` sees a node whose arguments are already rewritten and may return an empty Expr to keep it. Leaves
/// are replaced once: what a node folds to is not replaced again.
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& replace);
Expr substitute_axes(const Expr& e, const ExprMap& axes);
Expr substitute_symbols(const Expr& e, const ExprMap& symbols);
Expr substitute_values(const Expr& e, const ExprMap& values);

std::set<std::string> axes_of(const Expr& e);  ///< Names of axes, also inside load indices.
std::set<std::string> symbols_of(const Expr& e);
std::set<std::string> values_of(const Expr& e);
std::vector<Expr> loads_of(const Expr& e);  ///< Distinct loads, in order of first visit.
bool depends_on_axis(const Expr& e, const std::string& axis);
bool depends_on_value(const Expr& e, const std::string& value);

// ---- integers ----------------------------------------------------------------------------------------------------

/// Inclusive bounds of an integer; a missing side is unbounded.
struct Range {
  std::optional<std::int64_t> low, high;
};
/// Known ranges by name: "axis:q" of an axis, "symbol:q" of a symbol, "value:q" of an integer value, "q" of an axis or symbol that
/// has none of its own. Symbols default to [0, ∞).
using Ranges = std::map<std::string, Range>;
Range range_of(const Expr& e, const Ranges& ranges);

/// Normal form of integer expressions: sums of products sorted, floordiv/mod by constants resolved where the ranges allow
/// ((8·a + b) div 8 with 0 ≤ b < 8 is a), comparisons decided. Floats inside are left alone.
Expr simplify(const Expr& e, const Ranges& ranges = {});
/// True when a − b simplifies to 0.
bool provably_equal(const Expr& a, const Expr& b, const Ranges& ranges = {});

/// Σ coefficient·axis + offset, coefficients and offset free of those axes. Empty when not of that form.
struct Affine {
  ExprMap coefficients;
  Expr offset;
};
std::optional<Affine> as_affine(const Expr& e, const std::set<std::string>& axes);

/// Integer value under full bindings of symbols and axes; error names the unbound one or a division by zero.
Result<std::int64_t> evaluate_int(const Expr& e, const std::map<std::string, std::int64_t>& bindings);

// ---- scalars -----------------------------------------------------------------------------------------------------

/// What evaluate() needs for leaves. Any may be empty if the expression has no such leaf.
struct Environment {
  std::function<double(const std::string&)> symbol, axis, value;
  std::function<double(const std::string& tensor, std::span<const std::int64_t> index)> load;
  /// Called on each computed node's result; lets an oracle round. Default: identity (float64 throughout).
  std::function<double(const Expr& node, std::span<const double> args, double result)> round;
};
double evaluate(const Expr& e, const Environment& env);
/// One operation on already evaluated arguments, in float64 with the semantics above. `type` is the result type (cast rounds to it).
double apply(Op op, DType type, std::span<const double> args);

// ---- text --------------------------------------------------------------------------------------------------------

/// Infix text, minimal parentheses: "exp(s - m)", "where(kv <= q, 0, -inf)", "Q[batch, head, q, d]". Parses back with the
/// same names in scope. Integer constants print plain, float constants with a point or exponent ("1.0", "0.125").
std::string to_string(const Expr& e);

/// Names in scope for parse_expr. Anything else is an error with its column.
struct Scope {
  std::set<std::string> axes, symbols;
  std::map<std::string, DType> values, tensors;
};
/// Errors: "<place>:<column>: …". Numbers without a point next to floats become floats of that type.
Result<Expr> parse_expr(std::string_view text, const Scope& scope, std::string_view place = {});

}  // namespace aicf
