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

/// One branch's values. What it demands of the sizes counts where `guard` holds (an expression over sizes; empty: always).
Result<Values> branch(Lowering& op, const char* name, const Expr& guard) {
  Canonicaliser& state = op.state();
  const std::size_t shapes = state.constraints.size(), indices = state.indices.size();
  AICF_TRY(Values values, op.inlined(*op.attribute(name)->g));
  if (!guard) return values;
  for (std::size_t k = shapes; k < state.constraints.size(); ++k) {
    ShapeConstraint& c = state.constraints[k];
    c.left = Expr::select(guard, c.left, c.right);
  }
  for (std::size_t k = indices; k < state.indices.size(); ++k) {
    Expr& size = state.indices[k].size;
    size = Expr::select(guard, size, Expr(std::numeric_limits<std::int64_t>::max()));
  }
  return values;
}

/// A condition that two sizes are equal, or that they are not, with branches that differ in rank (an exporter's Squeeze
/// of a dim that may be 1): the sizes are taken for equal, which every run checks. Bound sizes choose either branch.
Result<Values> branch_of_equal_sizes(Lowering& op, const Expr& condition) {
  const bool negated = condition.op() == Op::not_;
  const Expr equality = negated ? condition.args()[0] : condition;
  op.state().constraints.push_back({equality.args()[0], equality.args()[1], place_of(op.node())});
  return branch(op, negated ? "else_branch" : "then_branch", {});
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
  // Branches are pure: both are computed, and the condition selects.
  const std::vector<ShapeConstraint> constraints = op.state().constraints;
  const std::vector<IndexConstraint> indices = op.state().indices;
  const Result<Values> then_values = branch(op, "then_branch", known);
  const Result<Values> else_values =
      then_values ? branch(op, "else_branch", known ? logical_not(known) : Expr()) : then_values;
  if (compares_sizes(known) && (!else_values || !alike(op, *then_values, *else_values, true))) {
    op.state().constraints = constraints;
    op.state().indices = indices;
    AICF_TRY(const Values values, branch_of_equal_sizes(op, known));
    for (std::size_t k = 0; k < results; ++k) op.result(static_cast<int>(k), values[k]);
    return {};
  }
  if (!else_values) return std::unexpected(else_values.error());
  for (int k = 0; k < static_cast<int>(results); ++k) {
    const ValuePtr &a = (*then_values)[k], &b = (*else_values)[k];
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
