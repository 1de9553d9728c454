#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "mir/support/expr_simplifier.h"

namespace aicf {

bool ProductLess::operator()(const Product& a, const Product& b) const {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (const int order = compare_readable(a[i], b[i]); order != 0) return order < 0;
  }
  return a.size() < b.size();
}

const Expr* Polynomial::single_atom() const {
  if (terms.size() != 1) return nullptr;
  const auto& [product, coefficient] = *terms.begin();
  return product.size() == 1 && coefficient == 1 ? &product[0] : nullptr;
}

std::int64_t Polynomial::coefficient_gcd() const {
  std::int64_t g = 0;
  for (const auto& [product, coefficient] : terms) {
    if (coefficient == std::numeric_limits<std::int64_t>::min()) return 1;
    g = std::gcd(g, coefficient);
  }
  return g;
}

bool operator==(const Polynomial& a, const Polynomial& b) {
  return a.constant == b.constant && std::ranges::equal(a.terms, b.terms);
}

bool add_term(Polynomial& to, const Product& product, std::int64_t coefficient) {
  if (coefficient == 0) return true;
  const auto [at, inserted] = to.terms.try_emplace(product, coefficient);
  if (inserted) return to.terms.size() <= Polynomial::max_terms;
  if (__builtin_add_overflow(at->second, coefficient, &at->second)) return false;
  if (at->second == 0) to.terms.erase(at);
  return true;
}

MaybePolynomial add(Polynomial sum, const Polynomial& b, std::int64_t factor) {
  if (factor == 0) return sum;
  std::int64_t scaled = 0;
  for (const auto& [product, coefficient] : b.terms) {
    if (__builtin_mul_overflow(coefficient, factor, &scaled) || !add_term(sum, product, scaled)) return std::nullopt;
  }
  if (__builtin_mul_overflow(b.constant, factor, &scaled)) return std::nullopt;
  if (__builtin_add_overflow(sum.constant, scaled, &sum.constant)) return std::nullopt;
  return sum;
}

MaybePolynomial scale(const Polynomial& a, std::int64_t factor) {
  return add({}, a, factor);
}

MaybePolynomial multiply(const Polynomial& a, const Polynomial& b) {
  if (b.is_number()) return scale(a, b.constant);
  if (a.is_number()) return scale(b, a.constant);
  Polynomial result;
  for (const auto& [left, x] : a.terms) {
    for (const auto& [right, y] : b.terms) {
      if (left.size() + right.size() > Polynomial::max_degree) return std::nullopt;
      Product product;
      product.reserve(left.size() + right.size());
      std::ranges::merge(left, right, std::back_inserter(product),
                         [](const Expr& p, const Expr& q) { return compare_readable(p, q) < 0; });
      std::int64_t coefficient = 0;
      if (__builtin_mul_overflow(x, y, &coefficient) || !add_term(result, product, coefficient)) return std::nullopt;
    }
  }
  MaybePolynomial sum = add(std::move(result), a, b.constant);
  if (sum) sum = add(std::move(*sum), b, a.constant);
  if (sum && __builtin_mul_overflow(a.constant, b.constant, &sum->constant))
    return std::nullopt;  // the sums' are no part
  return sum;
}

namespace {

/// Shared subexpressions are read once; small trees need no table, and what no one shares is not kept: a copy for each
/// partial sum would make a sum quadratic.
struct Reader {
  bool large;
  std::unordered_map<const void*, Polynomial> known;

  Polynomial read(const Expr& e) {
    if (!is_signed_integer(e.type())) return Polynomial::atom(e);
    if (const auto number = e.as_int()) return Polynomial::number(*number);
    const bool keep = large && ExprNode::held_elsewhere(e);
    if (keep) {
      if (const auto found = known.find(e.identity()); found != known.end()) return found->second;
    }
    MaybePolynomial result;
    switch (e.op()) {
      case Op::neg:
        result = scale(read(e.args()[0]), -1);
        break;
      case Op::add:
        result = add(read(e.args()[0]), read(e.args()[1]));
        break;
      case Op::sub:
        result = add(read(e.args()[0]), read(e.args()[1]), -1);
        break;
      case Op::mul:
        result = multiply(read(e.args()[0]), read(e.args()[1]));
        break;
      default:
        break;
    }
    Polynomial p = result ? std::move(*result) : Polynomial::atom(e);
    if (keep) known.emplace(e.identity(), p);
    return p;
  }
};

}  // namespace

Polynomial to_polynomial(const Expr& e) {
  return Reader{ExprNode::of(e).tree_size > small_tree, {}}.read(e);
}

Expr from_polynomial(const Polynomial& p, DType type) {
  const auto term = [&](const Product& product, std::int64_t coefficient) {
    Expr e = coefficient == 1 ? product[0] : Expr::integer(coefficient, type) * product[0];
    for (std::size_t i = 1; i < product.size(); ++i) e = e * product[i];
    return e;
  };
  Expr sum;
  for (const auto& [product, coefficient] : p.terms) {
    if (coefficient < 0) continue;
    Expr next = term(product, coefficient);
    sum = sum ? sum + next : next;
  }
  bool number_used = false;
  for (const auto& [product, coefficient] : p.terms) {
    if (coefficient > 0) continue;
    const bool negatable = coefficient != std::numeric_limits<std::int64_t>::min();
    if (!sum && p.constant > 0) {
      sum = Expr::integer(p.constant, type);
      number_used = true;
    }
    if (!sum) {
      sum = coefficient == -1 ? -term(product, 1) : term(product, coefficient);
    } else {
      sum = negatable ? sum - term(product, -coefficient) : sum + term(product, coefficient);
    }
  }
  if (number_used) return sum;
  return sum ? sum + Expr::integer(p.constant, type) : Expr::integer(p.constant, type);
}

}  // namespace aicf
