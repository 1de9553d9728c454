// Operators with subgraphs.

#include <fmt/format.h>

#include <limits>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/check.h"

namespace aicf::ops {
namespace {

/// What stands in the way of choosing while importing, and what to do about it.
std::string undecided(const Lowering& op, const Expr& condition) {
  const std::string name = in_quotes(op.node().inputs[0]);
  if (!condition) return fmt::format("the condition {} depends on the data; fix the inputs that it is made of", name);
  return fmt::format("the condition {} is {}; bind the symbols", name, to_string(condition));
}

/// Whether one value can stand for either: the same type and rank and, where the sizes do not decide, the same sizes.
bool alike(const Lowering& op, const Value& a, const Value& b, bool by_size) {
  if (a.type != b.type || a.rank() != b.rank()) return false;
  for (int d = 0; !by_size && d < a.rank(); ++d) {
    const Range difference = range_of(op.simplify(a.shape[d] - b.shape[d]), op.ranges());
    if ((difference.low && *difference.low > 0) || (difference.high && *difference.high < 0)) return false;
  }
  return true;
}

bool alike(const Lowering& op, const Values& a, const Values& b, bool by_size) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!alike(op, *a[k], *b[k], by_size)) return false;
  }
  return true;
}

/// What the constraints from `shapes` and `indices` on demand counts only where `guard` holds, an expression over sizes.
void guard_constraints(Canonicaliser& state, std::size_t shapes, std::size_t indices, const Expr& guard) {
  for (std::size_t k = shapes; k < state.constraints.size(); ++k) {
    ShapeConstraint& c = state.constraints[k];
    c.left = Expr::select(guard, c.left, c.right);
  }
  for (std::size_t k = indices; k < state.indices.size(); ++k) {
    Expr& size = state.indices[k].size;
    size = Expr::select(guard, size, Expr(std::numeric_limits<std::int64_t>::max()));
  }
}

bool compares_sizes(const Expr& condition) {
  if (!condition) return false;
  const Expr e = condition.op() == Op::not_ ? condition.args()[0] : condition;
  return e.op() == Op::eq && is_integer(e.args()[0].type());
}

}  // namespace

Result<void> conditional(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_type(0, DType::boolean));
  const ValuePtr c = op.in(0);
  for (const Expr& dim : c->shape) {
    if (!dim.is_constant(1))
      return op.bad(fmt::format("the condition has shape {}, one element wanted", to_string(c->shape)));
  }
  const std::size_t results = op.node().outputs.size();
  for (const char* name : {"then_branch", "else_branch"}) {
    const SemanticGraph& graph = *op.attribute(name)->g;
    if (!graph.inputs.empty()) return op.bad(fmt::format("{} takes inputs, which a branch has not", name));
    if (graph.outputs.size() != results)
      return op.bad(fmt::format("{} has {} outputs, {} wanted", name, graph.outputs.size(), results));
  }
  const Expr known = c->known() ? op.simplify(c->uniform ? c->uniform : (*c->elements)[0]) : Expr();
  if (known && known.is_constant()) {
    const char* taken = known.number() != 0 ? "then_branch" : "else_branch";
    AICF_TRY(const Values values, op.inlined(*op.attribute(taken)->g));
    for (std::size_t k = 0; k < results; ++k) op.result(static_cast<int>(k), values[k]);
    return {};
  }
  // Branches are pure: both are computed, and the condition selects. That two sizes are equal (or are not), where the
  // branches differ in rank (an exporter's Squeeze of a dim that may be 1), is taken for true and checked by every run.
  const bool by_equality = compares_sizes(known), negated = by_equality && known.op() == Op::not_;
  const char* names[] = {"then_branch", "else_branch"};
  if (negated) std::swap(names[0], names[1]);  // first the one for equal sizes
  const Expr first = negated ? known.args()[0] : known;
  Canonicaliser& state = op.state();
  const std::size_t shapes = state.constraints.size(), indices = state.indices.size();
  AICF_TRY(const Values first_values, op.inlined(*op.attribute(names[0])->g));
  std::vector<ShapeConstraint> equal_shapes;
  std::vector<IndexConstraint> equal_indices;
  if (by_equality) {
    equal_shapes.assign(state.constraints.begin() + static_cast<std::ptrdiff_t>(shapes), state.constraints.end());
    equal_indices.assign(state.indices.begin() + static_cast<std::ptrdiff_t>(indices), state.indices.end());
  }
  if (known) guard_constraints(state, shapes, indices, first);
  const std::size_t other_shapes = state.constraints.size(), other_indices = state.indices.size();
  const Result<Values> other_values = op.inlined(*op.attribute(names[1])->g);
  if (by_equality && (!other_values || !alike(op, first_values, *other_values, true))) {
    state.constraints.resize(shapes);
    state.indices.resize(indices);
    state.constraints.insert(state.constraints.end(), equal_shapes.begin(), equal_shapes.end());
    state.indices.insert(state.indices.end(), equal_indices.begin(), equal_indices.end());
    state.constraints.push_back({first.args()[0], first.args()[1], place_of(op.node())});
    for (std::size_t k = 0; k < results; ++k) op.result(static_cast<int>(k), first_values[k]);
    return {};
  }
  if (!other_values) return std::unexpected(other_values.error());
  if (known) guard_constraints(state, other_shapes, other_indices, logical_not(first));
  const Values &then_values = negated ? *other_values : first_values,
               &else_values = negated ? first_values : *other_values;
  for (int k = 0; k < static_cast<int>(results); ++k) {
    const ValuePtr &a = then_values[k], &b = else_values[k];
    if (!alike(op, *a, *b, static_cast<bool>(known))) {
      return op.cannot(fmt::format("the branches give {}{} and {}{}, and {}", name(a->type), to_string(a->shape),
                                   name(b->type), to_string(b->shape), undecided(op, known)));
    }
    Shape shape;
    for (int d = 0; d < a->rank(); ++d) {
      if (known) {
        shape.push_back(op.simplify(Expr::select(known, a->shape[d], b->shape[d])));
        continue;
      }
      AICF_TRY(Expr dim, op.agree(a->shape[d], b->shape[d], "dims of the branches"));
      shape.push_back(std::move(dim));
    }
    AICF_TRY(ValuePtr value, op.map({op.name({}, k), a->type, shape, {c, a, b}}, [&](const Index& i) {
      return Expr::select(op.at(c, Index(c->shape.size(), Expr(0))), op.joined_at({a, b}, a, i),
                          op.joined_at({a, b}, b, i));
    }));
    op.result(k, std::move(value));
  }
  return {};
}

}  // namespace aicf::ops
