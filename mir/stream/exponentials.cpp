// Exponentials among the factors of a term.

#include <algorithm>
#include <cmath>
#include <optional>

#include "mir/stream/terms.h"

namespace aicf::stream {
namespace {

/// where(c, value, 0) or where(c, 0, value).
struct Selected {
  Expr condition, value;
  bool first;
  Expr with(const Expr& v, const Expr& otherwise) const {
    return first ? Expr::select(condition, v, otherwise) : Expr::select(condition, otherwise, v);
  }
};

std::optional<Selected> selected(const Problem& problem, const Expr& e) {
  if (e.op() != Op::select) return std::nullopt;
  const bool first = e.args()[2].is_constant(0);
  if (!first && !e.args()[1].is_constant(0)) return std::nullopt;
  return Selected{e.args()[0], problem.opened(e.args()[first ? 1 : 2]), first};
}

/// x of a factor exp(x), as which where(c, exp(a), 0) has where(c, a, −∞); else empty.
Expr exponent_of(const Problem& problem, const Expr& factor, DType type) {
  const auto typed = [&](const Expr& x) { return x.type() == type ? x : Expr::cast(x, type); };
  const Expr e = problem.opened(factor);
  if (e.op() == Op::exp) return typed(e.args()[0]);
  const auto chosen = selected(problem, e);
  if (!chosen || chosen->value.op() != Op::exp) return {};
  return chosen->with(typed(chosen->value.args()[0]), Expr::constant(type, -INFINITY));
}

/// A product as its factors; where(c, a·b, 0) is where(c, a, 0)·where(c, b, 0).
std::vector<Expr> split(const Problem& problem, const std::vector<Expr>& list) {
  std::vector<Expr> out, pending(list.rbegin(), list.rend());
  while (!pending.empty()) {
    const Expr factor = pending.back(), e = problem.opened(factor);
    pending.pop_back();
    const auto chosen = selected(problem, e);
    if (e.op() == Op::mul) {
      pending.insert(pending.end(), e.args().rbegin(), e.args().rend());
    } else if (chosen && chosen->value.op() == Op::mul) {
      for (const Expr& a : chosen->value.args()) pending.push_back(chosen->with(a, Expr::constant(a.type(), 0)));
    } else {
      out.push_back(factor);
    }
  }
  return out;
}

}  // namespace

// exp(a)·exp(b) with a along and b running, however it was written, is one exponential: only then has it a repair that
// cannot overflow. So is exp(a)·exp(a) over divisors: exp(a)/l may be near 1 where the square of either is no number.
void Expander::join_exponentials(Term& t) const {
  /// Takes exponents of factors out of the list: all, or running ones.
  const auto taken = [&](std::vector<Expr>& list, bool only_running) {
    Expr sum;
    std::erase_if(list, [&](const Expr& factor) {
      const Expr x = exponent_of(problem_, factor, type_);
      if (!x || (only_running && kind(x) != Kind::running)) return false;
      sum = sum ? sum + x : x;
      return true;
    });
    return sum;
  };
  const auto count = [&](const std::vector<Expr>& list, bool only_running) {
    return std::ranges::count_if(list, [&](const Expr& factor) {
      const Expr x = exponent_of(problem_, factor, type_);
      return x && (!only_running || kind(x) == Kind::running);
    });
  };
  const auto any = [&](const Factors& f, bool only_running) {
    return count(f.num, only_running) + count(f.den, only_running) > 0;
  };
  const bool outside = any(t.coefficient, true) || any(t.outer_coefficient, true);
  const bool inside = t.exp_x || any(t.weight, false) || any(t.outer_weight, false);
  const std::vector<Expr> weight = split(problem_, t.weight.num), outer_weight = split(problem_, t.outer_weight.num);
  const bool power = count(weight, false) + count(outer_weight, false) + (t.exp_x ? 1 : 0) > 1 &&
                     t.coefficient.den.size() + t.outer_coefficient.den.size() > 1;
  if (!(outside && inside) && !power) return;
  if (power) t.weight.num = weight, t.outer_weight.num = outer_weight;
  for (Factors* f : {&t.coefficient, &t.outer_coefficient}) {
    if (const Expr x = taken(f->num, true)) t.exp_b = t.exp_b ? t.exp_b + x : x;
    if (const Expr x = taken(f->den, true)) t.exp_b = t.exp_b ? t.exp_b - x : -x;
  }
  for (Factors* f : {&t.weight, &t.outer_weight}) {
    if (const Expr x = taken(f->num, false)) t.exp_x = t.exp_x ? t.exp_x + x : x;
    if (const Expr x = taken(f->den, false)) t.exp_x = t.exp_x ? t.exp_x - x : -x;
  }
}

}  // namespace aicf::stream
