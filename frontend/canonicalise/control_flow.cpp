// Operators with subgraphs.

#include <fmt/format.h>

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
  AICF_TRY(const Values yes, op.inlined(*op.attribute("then_branch")->g));
  AICF_TRY(const Values no, op.inlined(*op.attribute("else_branch")->g));
  for (int k = 0; k < static_cast<int>(results); ++k) {
    const ValuePtr &a = yes[k], &b = no[k];
    bool alike = a->type == b->type && a->rank() == b->rank();
    for (int d = 0; alike && d < a->rank(); ++d) {
      const Range difference = range_of(op.simplify(a->shape[d] - b->shape[d]), op.ranges());
      alike = (!difference.low || *difference.low <= 0) && (!difference.high || *difference.high >= 0);
    }
    if (!alike) {
      return op.cannot(fmt::format("the branches give {}{} and {}{}, and {}", name(a->type), to_string(a->shape),
                                   name(b->type), to_string(b->shape), undecided(op, known)));
    }
    Shape shape;
    for (int d = 0; d < a->rank(); ++d) {
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
