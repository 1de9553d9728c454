// floordiv and mod of normal forms. With p = by·Q + R: p div by = Q + R div by and p mod by = R mod by; the rest is
// what ranges and common divisors say about R.

#include <algorithm>
#include <numeric>
#include <set>

#include "mir/support/expr_simplifier.h"

namespace aicf {
namespace {

/// The bounds' common quotient by `by`, when R stays within one multiple.
std::optional<std::int64_t> common_quotient(Interval r, std::int64_t by) {
  if (!r.has_low() || !r.has_high() || r.low > r.high) return std::nullopt;
  const auto low = floor_division(static_cast<std::int64_t>(r.low), by);
  return low == floor_division(static_cast<std::int64_t>(r.high), by) ? low : std::nullopt;
}

/// x and c of the atom x mod c with c > 0.
std::optional<std::pair<Expr, std::int64_t>> constant_division(const Expr& atom, Op op) {
  if (atom.op() != op) return std::nullopt;
  const auto by = atom.args()[1].as_int();
  if (!by || *by <= 0) return std::nullopt;
  return std::pair(atom.args()[0], *by);
}

}  // namespace

MaybePolynomial Simplifier::divide(const Polynomial& p, std::int64_t by, DType type) {
  return divide_or_modulo(p, by, type, true);
}

MaybePolynomial Simplifier::modulo(const Polynomial& p, std::int64_t by, DType type) {
  return divide_or_modulo(p, by, type, false);
}

/// k·(x mod a) ≡ k·x modulo `by` when by divides k·a.
Polynomial Simplifier::reduce_inner_modulos(Polynomial p, std::int64_t by) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [product, coefficient] : p.terms) {
      if (product.size() != 1) continue;
      const auto inner = constant_division(product[0], Op::mod);
      std::int64_t scaled = 0;
      if (!inner || __builtin_mul_overflow(coefficient, inner->second, &scaled) || scaled % by != 0) continue;
      Polynomial rest = p;
      rest.terms.erase(product);
      MaybePolynomial flat = add(rest, to_polynomial(inner->first), coefficient);
      if (!flat) continue;
      p = std::move(*flat);
      changed = true;
      break;
    }
  }
  return p;
}

MaybePolynomial Simplifier::divide_or_modulo(const Polynomial& p, std::int64_t by, DType type, bool quotient) {
  if (by == 1) return quotient ? p : Polynomial{};
  Polynomial whole, rest;
  for (const auto& [product, coefficient] : p.terms) {
    if (!add_term(whole, product, coefficient / by) || !add_term(rest, product, coefficient % by)) return std::nullopt;
  }
  whole.constant = *floor_division(p.constant, by);
  rest.constant = *floor_modulo(p.constant, by);

  if (const auto k = common_quotient(range(rest, type), by)) {
    if (quotient) return add(whole, Polynomial::number(*k));
    return add(rest, Polynomial::number(by), -*k);
  }
  if (!quotient) {
    Polynomial flat = reduce_inner_modulos(rest, by);
    if (!(flat == rest)) return divide_or_modulo(flat, by, type, false);
  }
  if (MaybePolynomial grouped = divide_grouped(whole, rest, by, type, quotient)) return grouped;
  if (MaybePolynomial nested = divide_nested(whole, rest, by, type, quotient)) return nested;

  const Expr divisor = Expr::integer(by, type);
  const Expr dividend = from_polynomial(rest, type);
  if (!quotient) return Polynomial::atom(mod(dividend, divisor));
  return add(whole, Polynomial::atom(floordiv(dividend, divisor)));
}

/// R = g·A + B with g dividing `by` and 0 ≤ B < g (or another multiple): R div by = A div (by / g), R mod by = g·(A mod
/// (by / g)) + B.
MaybePolynomial Simplifier::divide_grouped(const Polynomial& whole, const Polynomial& rest, std::int64_t by, DType type,
                                           bool quotient) {
  std::set<std::int64_t, std::greater<>> candidates;
  for (const auto& [product, coefficient] : rest.terms) {
    const std::int64_t g = std::gcd(coefficient, by);
    if (g > 1) candidates.insert(g);
  }
  for (const std::int64_t g : candidates) {
    Polynomial group, remainder;
    for (const auto& [product, coefficient] : rest.terms) {
      if (coefficient % g == 0) {
        group.terms.emplace(product, coefficient / g);
      } else {
        remainder.terms.emplace(product, coefficient);
      }
    }
    group.constant = *floor_division(rest.constant, g);
    remainder.constant = *floor_modulo(rest.constant, g);
    const auto k = common_quotient(range(remainder, type), g);
    if (!k) continue;
    group.constant += *k;
    remainder.constant -= *k * g;
    const MaybePolynomial inner = divide_or_modulo(group, by / g, type, quotient);
    if (!inner) return std::nullopt;
    return quotient ? add(whole, *inner) : add(remainder, *inner, g);
  }
  return std::nullopt;
}

/// (x div a + r) div by = (x + r·a) div (a·by); (x mod a) div by = (x div by) mod (a / by) where by divides a.
MaybePolynomial Simplifier::divide_nested(const Polynomial& whole, const Polynomial& rest, std::int64_t by, DType type,
                                          bool quotient) {
  const Expr* atom = rest.single_atom();
  if (!atom || !quotient) return std::nullopt;
  if (const auto inner = constant_division(*atom, Op::floordiv)) {
    std::int64_t shift = 0, divisor = 0;
    if (__builtin_mul_overflow(rest.constant, inner->second, &shift) ||
        __builtin_mul_overflow(by, inner->second, &divisor) || !fits(type, divisor)) {
      return std::nullopt;
    }
    MaybePolynomial dividend = add(to_polynomial(inner->first), Polynomial::number(shift));
    if (dividend) dividend = divide_or_modulo(*dividend, divisor, type, true);
    return dividend ? add(whole, *dividend) : std::nullopt;
  }
  if (const auto inner = constant_division(*atom, Op::mod)) {
    if (inner->second % by != 0 || rest.constant != 0) return std::nullopt;
    MaybePolynomial result = divide_or_modulo(to_polynomial(inner->first), by, type, true);
    if (result) result = divide_or_modulo(*result, inner->second / by, type, false);
    return result ? add(whole, *result) : std::nullopt;
  }
  return std::nullopt;
}

/// k·(x mod c) + k·c·(x div c) is k·x, also where x div c has become several terms.
bool Simplifier::recombine_once(Polynomial& p, DType type) {
  for (const auto& [product, coefficient] : p.terms) {
    if (product.size() != 1) continue;
    const auto modulo_atom = constant_division(product[0], Op::mod);
    std::int64_t scaled = 0;
    if (!modulo_atom || __builtin_mul_overflow(coefficient, modulo_atom->second, &scaled)) continue;
    const auto& [x, c] = *modulo_atom;
    const MaybePolynomial quotient = divide(to_polynomial(x), c, type);
    if (!quotient || quotient->is_number()) continue;
    const auto covers = [&](const Polynomial& parts) {
      return std::ranges::all_of(parts.terms, [&](const auto& part) {
        const auto found = p.terms.find(part.first);
        std::int64_t needed = 0;
        return found != p.terms.end() && !__builtin_mul_overflow(part.second, scaled, &needed) &&
               found->second == needed;
      });
    };
    Polynomial rest = p;
    rest.terms.erase(product);
    MaybePolynomial result;
    if (covers(*quotient)) {
      result = add(rest, to_polynomial(x), coefficient);
      if (result) result = add(*result, *quotient, -scaled);
    } else {
      // (x div c) mod d beside x mod c is x mod (c·d).
      for (const auto& [other, other_coefficient] : p.terms) {
        if (other.size() != 1 || other_coefficient != scaled) continue;
        const auto outer = constant_division(other[0], Op::mod);
        std::int64_t divisor = 0;
        if (!outer || __builtin_mul_overflow(c, outer->second, &divisor) || !fits(type, divisor)) continue;
        const MaybePolynomial expected = modulo(*quotient, outer->second, type);
        if (!expected || !(*expected == Polynomial::atom(other[0]))) continue;
        rest.terms.erase(other);
        const MaybePolynomial joined = modulo(to_polynomial(x), divisor, type);
        if (joined) result = add(rest, *joined, coefficient);
        break;
      }
    }
    if (!result) continue;
    p = std::move(*result);
    return true;
  }
  return false;
}

/// k·(x mod c) + k·c·(x div c) is k·x for a product c of symbols, each times what else the terms share.
bool Simplifier::recombine_symbolic_once(Polynomial& p) {
  for (const auto& [product, coefficient] : p.terms) {
    for (std::size_t i = 0; i < product.size(); ++i) {
      const Expr& atom = product[i];
      if (atom.op() != Op::mod || atom.args()[1].is_constant()) continue;
      const Polynomial divisor = to_polynomial(atom.args()[1]);
      if (divisor.terms.size() != 1 || divisor.constant != 0) continue;
      Product others = product;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const Polynomial shared = others.empty() ? Polynomial::number(1) : Polynomial{{{others, 1}}, 0};
      const Expr quotient = floordiv(atom.args()[0], atom.args()[1]);
      MaybePolynomial whole = multiply(Polynomial::atom(quotient), divisor);
      if (whole) whole = multiply(*whole, shared);
      if (!whole || whole->terms.size() != 1) continue;
      const auto& [beside, scale_of] = *whole->terms.begin();
      const auto found = p.terms.find(beside);
      std::int64_t needed = 0;
      if (found == p.terms.end() || __builtin_mul_overflow(coefficient, scale_of, &needed) || found->second != needed)
        continue;
      const MaybePolynomial joined = multiply(to_polynomial(atom.args()[0]), shared);
      Polynomial rest = p;
      rest.terms.erase(product);
      rest.terms.erase(beside);
      const MaybePolynomial result = joined ? add(std::move(rest), *joined, coefficient) : std::nullopt;
      if (!result) continue;
      p = *result;
      return true;
    }
  }
  return false;
}

Polynomial Simplifier::recombine(Polynomial p, DType type) {
  // Each step removes a mod, but what it expands to may hold others: bound the steps.
  for (int steps = 0; steps < 16 && p.terms.size() > 1; ++steps) {
    if (!recombine_once(p, type) && !recombine_symbolic_once(p)) break;
  }
  return p;
}

}  // namespace aicf
