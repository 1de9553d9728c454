#pragma once

// What a lowering function works with: the values of one run, and the node at hand.
//
// A Value is a tensor in up to four forms, and every move or map works on all of them through Lowering::map:
//   uniform    one scalar expression for every element (a constant, 1/sqrt(64), ConstantOfShape, Expand of a scalar);
//              users inline it;
//   formula    an expression over the coordinates with no load (Range, Trilu, masks by index, position ids); users
//              inline it, so masks and index arithmetic reach their consumers as index expressions and never as data;
//   elements   few known scalars (shapes and what is computed from them), symbolic where the sizes are; this is how
//              shape arithmetic folds;
//   tensor     a canonical node that bodies load from, made on demand for the others.
//
// f16 and bf16 are types of the model, not of its arithmetic. What an operation of such a type computes counts as f32: it
// is held in f32, and rounded only where the model has a Cast and where it leaves as an output. A tensor that is held in
// f16 or bf16 (an input, a constant, the result of a Cast) holds exactly what it means. Bodies never see a narrow type:
// at() widens.
//
// Values that stem from coordinates are `indexed`: even when their elements are known, users take the formula.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/model.h"
#include "frontend/semantic/op_table.h"

namespace aicf {

using Shape = std::vector<Expr>;
using Index = std::vector<Expr>;

struct Value {
  DType type = DType::f32;  ///< what the model says
  DType held = DType::f32;  ///< of the elements below: `type`, or f32 for what a narrow operation computed
  Shape shape;
  std::string name;    ///< what the model calls it; a tensor made on demand gets this name
  std::string tensor;  ///< canonical node; empty until made
  int constant = -1;   ///< index into the constant table, when it is one
  Expr uniform;
  Expr formula;  ///< over the axes that Canonicaliser::coordinate names
  std::optional<std::vector<Expr>> elements;
  bool indexed = false;
  std::vector<std::string> origin;

  int rank() const { return static_cast<int>(shape.size()); }
  /// True when every element can be asked for as an expression without coordinates.
  bool known() const { return uniform || elements; }
};
using ValuePtr = std::shared_ptr<Value>;
using Values = std::vector<ValuePtr>;

/// Load-free bodies with decided selects: casts of conditions and operations on a select between two constants become a
/// select, select(c, true, false) is c. Exact.
Expr tidy(const Expr& e);

/// Elements that a value may have to be folded element by element.
inline constexpr std::int64_t max_known_integers = 256;
inline constexpr std::int64_t max_known_floats = 64;

/// State of one canonicalisation.
struct Canonicaliser {
  Graph graph;
  std::vector<Tensor> constants;
  std::map<std::string, ValuePtr> values;  ///< by the model's tensor name
  std::vector<ShapeConstraint> constraints;
  std::vector<IndexConstraint> indices;
  std::vector<InputConstraint> must_be_false;
  Ranges ranges;                                       ///< of the model's symbols
  std::string axis_prefix = "i", reduce_prefix = "r";  ///< no symbol is named like an axis
  std::int64_t fold_steps = 0;                         ///< elements folded so far
  std::int64_t unrolled_steps = 0;                     ///< of recurrent operators so far
  std::vector<std::string> lowered;                    ///< nodes, those of subgraphs that were taken too

  /// Registers `tensor` as a value; small ones become known.
  ValuePtr from_tensor(const std::string& name, Tensor tensor);
  /// Axis `d` of a canonical node.
  Expr coordinate(std::size_t d) const { return Expr::axis(axis_prefix + std::to_string(d)); }
  /// The canonical node of a value, made now if there is none.
  const std::string& tensor_of(Value& value);
  /// Initializers become values and nodes are lowered in order.
  Result<void> lower(const SemanticGraph& graph);
};

/// A legal name for a canonical tensor: letters, digits and underscores.
std::string identifier(std::string_view name);

class Lowering {
 public:
  Lowering(Canonicaliser& state, const SemanticNode& node, const OpRow& row) : state_(state), node_(node), row_(row) {}

  const SemanticNode& node() const { return node_; }
  const std::string& op() const { return node_.op; }
  int opset() const { return node_.opset; }
  Canonicaliser& state() { return state_; }

  // ---- operands and attributes -----------------------------------------------------------------------------------
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has(int input) const;
  /// Precondition: has(input).
  const ValuePtr& in(int input) const;
  std::int64_t integer(const std::string& name, std::int64_t absent) const;
  double real(const std::string& name, double absent) const;
  std::string text(const std::string& name, const std::string& absent) const;
  const Attribute* attribute(const std::string& name) const;
  /// Elements of an operand that must be known while compiling; unsupported when its contents depend on data.
  Result<std::vector<Expr>> known(int input) const;
  /// … as simplified i64 expressions: a list of sizes. bad_input for other element types and ranks above 1.
  Result<std::vector<Expr>> known_sizes(int input) const;
  Result<std::vector<std::int64_t>> known_integers(int input) const;
  /// axes given as attribute (old opsets) or as input; empty optional when absent.
  Result<std::optional<std::vector<std::int64_t>>> integers(const std::string& name, int input) const;
  /// `axis` in [0, rank), or an error that names it.
  Result<int> axis(std::int64_t axis, int rank) const;
  Result<std::vector<int>> axes(const std::vector<std::int64_t>& axes, int rank) const;

  // ---- errors ----------------------------------------------------------------------------------------------------
  std::unexpected<Diagnostic> bad(std::string message) const;
  std::unexpected<Diagnostic> cannot(std::string message) const;
  Result<void> want_same_type(int a, int b) const;
  Result<void> want_type(int input, DType type) const;
  Result<void> want_number(int input) const;
  Result<void> want_float(int input) const;

  // ---- sizes -----------------------------------------------------------------------------------------------------
  /// With the ranges of the model's symbols and, inside a body, of the node's axes.
  Expr simplify(const Expr& e) const;
  const Ranges& ranges() const { return axis_ranges_.empty() ? state_.ranges : axis_ranges_; }
  bool same(const Expr& a, const Expr& b) const;
  /// The common size of two dims that must agree: a constant where one is, else a constraint is recorded.
  Result<Expr> agree(const Expr& a, const Expr& b, std::string_view what);
  /// numpy's rule, from the right.
  Result<Shape> broadcast(const Shape& a, const Shape& b);
  Result<Shape> broadcast(const Values& operands);
  /// The same number of elements in every dim product: a ÷ b when b divides a, symbolically.
  Expr quotient(const Shape& dividend, const Shape& divisor) const;
  Expr product(std::span<const Expr> dims) const;

  // ---- bodies ----------------------------------------------------------------------------------------------------
  /// Element of `value` at `index` (one expression per dim), of type wide(value->type).
  Expr at(const ValuePtr& value, const Index& index);
  /// Element under numpy broadcasting of `value` to a result of `shape` at `index`.
  Expr at_broadcast(const ValuePtr& value, const Shape& shape, const Index& index);
  /// Where that element is in `value`.
  Index broadcast_index(const ValuePtr& value, const Shape& shape, const Index& index) const;
  /// Element as it is held, for operators that only move elements.
  Expr held_at(const ValuePtr& value, const Index& index);
  /// Element among those of `values`: as all are held, if they are held alike, else widened.
  Expr joined_at(const Values& values, const ValuePtr& value, const Index& index);

  /// Called where a body reads at `index` of a dim: an index that is an input's element, or that grows with the sizes, is
  /// checked in every run; one that certainly leaves the dim is an error of the node.
  void require_index(const Expr& index, const Expr& dim, bool negative);

  using Body = std::function<Expr(const Index& i)>;
  using ReduceBody = std::function<Expr(const Index& i, const Index& r)>;
  struct Spec {
    std::string name;  ///< of the tensor; see name()
    DType type;        ///< the model's; the body is of this type, or of wide(type)
    Shape shape;
    Values operands;       ///< everything the body loads from
    bool indexed = false;  ///< the body makes values from coordinates
  };
  /// A new value whose element at i is body(i). Folds when every operand is known and the result is small.
  Result<ValuePtr> map(Spec spec, const Body& body);
  /// `body` is of wide(spec.type). Over no dimension: the element.
  Result<ValuePtr> reduce(Spec spec, const Shape& over, ReduceOp op, const ReduceBody& body);
  /// `x` addressed differently: element i of the result is element source(i) of x, held as x is. `also` is what `source`
  /// reads.
  using Source = std::function<Index(const Index& i)>;
  Result<ValuePtr> move(std::string name, const ValuePtr& x, Shape shape, const Source& source, Values also = {});
  /// `value` as `type`, rounded; itself when it has it. A constant whose range `type` does not have is not rounded.
  Result<ValuePtr> converted(const ValuePtr& value, DType type, const std::string& name);
  ValuePtr scalar(const Expr& e, Shape shape = {});
  /// The outputs of a subgraph without inputs, computed here.
  Result<Values> inlined(const SemanticGraph& graph);

  /// Tensor name of output `k`, with a suffix for intermediate tensors ("y_max").
  std::string name(std::string_view suffix = {}, int output = 0) const;
  bool wants(int output) const;
  void result(int output, ValuePtr value);
  /// map() and result() in one.
  Result<void> result_map(DType type, Shape shape, Values operands, const Body& body);
  Result<void> result_move(const ValuePtr& x, Shape shape, const Source& source, Values also = {});

 private:
  Result<void> check_size(const Spec& spec) const;
  bool leaves_range(const Value& value, DType type) const;
  Expr element(const Value& value, const Index& index) const;

  Canonicaliser& state_;
  const SemanticNode& node_;
  const OpRow& row_;
  bool folding_ = false;
  Ranges axis_ranges_;  ///< while a body is built: the model's symbols and the node's axes
  ExprMap extents_;     ///< … of the node's axes
  std::string wrong_index_;
};

/// f32 for f16 and bf16, else the type itself.
DType wide(DType type);
/// A float constant of `type`.
Expr number(DType type, double value);
/// `e` as an operand among values of `type`: of type wide(type).
Expr cast_to(const Expr& e, DType type);
/// "[batch, 4, 64]".
std::string to_string(const Shape& shape);
/// The value as an integer when the expression is one.
std::optional<std::int64_t> constant_of(const Expr& e);
/// Product of the dims, or limit + 1 when it is larger.
std::int64_t element_count(const std::vector<std::int64_t>& dims, std::int64_t limit);
std::int64_t known_limit(DType type);
/// Constant dims of a shape, or nothing when one is symbolic.
std::optional<std::vector<std::int64_t>> constant_shape(const Shape& shape);

/// Elementwise result over broadcast operands.
Result<ValuePtr> elementwise(Lowering& op, std::string name, DType type, const Values& operands,
                             const std::function<Expr(const std::vector<Expr>&)>& body);

}  // namespace aicf
