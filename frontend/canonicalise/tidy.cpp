// Selects between constants absorb what is done to them, so that masks by index come out as where(condition, a, b).

#include <array>

#include "frontend/canonicalise/lowering.h"

namespace aicf {
namespace {

bool between_constants(const Expr& e) {
  return e.op() == Op::select && e.args()[1].is_constant() && e.args()[2].is_constant();
}

/// `op` on constants in float64, rounded to the type as one operation of a narrow graph would be.
Expr computed(Op op, DType type, std::span<const Expr> args) {
  std::array<double, 3> values{};
  for (std::size_t k = 0; k < args.size(); ++k) values[k] = args[k].number();
  const double result = apply(op, type, std::span(values).first(args.size()));
  return Expr::constant(type, round_to(type, result));
}

Expr step(const Expr& e) {
  if (e.op() == Op::select) {
    const auto args = e.args();
    if (args[0].op() == Op::not_) return Expr::select(args[0].args()[0], args[2], args[1]);
    if (e.type() == DType::boolean && between_constants(e)) {
      const bool on_true = args[1].int_number() != 0, on_false = args[2].int_number() != 0;
      if (on_true == on_false) return Expr::boolean(on_true);
      return on_true ? args[0] : logical_not(args[0]);
    }
    return {};
  }
  if (e.op() == Op::cast && e.args()[0].type() == DType::boolean && !e.args()[0].is_constant()) {
    return Expr::select(e.args()[0], Expr::constant(e.type(), 1), Expr::constant(e.type(), 0));
  }
  // One select between constants, all other operands constant. Integers of 64 bits do not fit a double.
  if (op_arity(e.op()) == 0 || e.type() == DType::i64 || e.type() == DType::u64) return {};
  std::size_t chosen = e.args().size();
  for (std::size_t k = 0; k < e.args().size(); ++k) {
    const Expr& arg = e.args()[k];
    if (arg.is_constant()) continue;
    if (!between_constants(arg) || chosen != e.args().size()) return {};
    chosen = k;
  }
  if (chosen == e.args().size()) return {};
  const Expr select = e.args()[chosen];
  std::array<Expr, 2> sides;
  for (std::size_t side = 0; side < 2; ++side) {
    std::vector<Expr> args(e.args().begin(), e.args().end());
    args[chosen] = select.args()[1 + side];
    sides[side] = computed(e.op(), e.type(), args);
  }
  const Expr result = Expr::select(select.args()[0], sides[0], sides[1]);
  const Expr again = result.op() == Op::select ? step(result) : Expr();
  return again ? again : result;
}

}  // namespace

Expr tidy(const Expr& e) {
  return rewrite(e, step);
}

}  // namespace aicf
