#pragma once

// Private to mir/support: the normal form of integer expressions and the engine behind simplify(), range_of(),
// as_affine().

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mir/support/expr.h"
#include "mir/support/expr_node.h"

namespace aicf {

/// Inclusive bounds; ±unbounded stand for a missing side. Every operation stays within them.
struct Interval {
  using Bound = __int128;
  static constexpr Bound unbounded = static_cast<Bound>(1) << 80;
  Bound low = -unbounded, high = unbounded;

  static Interval exactly(std::int64_t v) { return {v, v}; }
  bool has_low() const { return low > -unbounded; }
  bool has_high() const { return high < unbounded; }
};

Interval operator+(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval operator-(Interval a);
Interval intersect(Interval a, Interval b);
Interval hull(Interval a, Interval b);

/// Factors of a product, sorted by compare_readable; repeated factors stand repeatedly.
using Product = std::vector<Expr>;
struct ProductLess {
  bool operator()(const Product& a, const Product& b) const;
};

/// Σ coefficient·product + constant with no zero coefficients: the normal form of a signed integer expression. Factors
/// are atoms: anything but +, −, ·. Operations give nothing on overflow or when the form would grow past `max_terms` or
/// `max_degree`.
struct Polynomial {
  static constexpr std::size_t max_terms = 64, max_degree = 32;
  std::map<Product, std::int64_t, ProductLess> terms;
  std::int64_t constant = 0;

  static Polynomial number(std::int64_t v) { return {{}, v}; }
  static Polynomial atom(const Expr& e) { return {{{Product{e}, 1}}, 0}; }
  bool is_number() const { return terms.empty(); }
  bool is_number(std::int64_t v) const { return terms.empty() && constant == v; }
  /// The single factor when this is 1·atom + constant, else null.
  const Expr* single_atom() const;
  /// Greatest common divisor of the coefficients, without the constant; 0 when there are none.
  std::int64_t coefficient_gcd() const;
  friend bool operator==(const Polynomial& a, const Polynomial& b);
};

using MaybePolynomial = std::optional<Polynomial>;
MaybePolynomial add(Polynomial a, const Polynomial& b, std::int64_t factor = 1);  ///< a + factor·b
MaybePolynomial multiply(const Polynomial& a, const Polynomial& b);
MaybePolynomial scale(const Polynomial& a, std::int64_t factor);
bool add_term(Polynomial& to, const Product& product, std::int64_t coefficient);

/// Reads the sums and products of an integer expression; anything else is an atom.
Polynomial to_polynomial(const Expr& e);
/// "8 * a + b - c - 3": positive terms, then negative ones, the number last.
Expr from_polynomial(const Polynomial& p, DType type);

class Simplifier {
 public:
  explicit Simplifier(const Ranges& ranges) : ranges_(ranges) {}

  Expr simplify(const Expr& e);
  /// Bounds of an integer or boolean expression that is already simplified.
  Interval range(const Expr& e);
  Interval range(const Polynomial& p, DType type) { return range(p, type, 0); }

  /// floordiv and mod of normal forms by a positive number.
  MaybePolynomial divide(const Polynomial& p, std::int64_t by, DType type);
  MaybePolynomial modulo(const Polynomial& p, std::int64_t by, DType type);

 private:
  struct Hash {
    std::size_t operator()(const Expr& e) const { return e.hash(); }
  };

  Expr compute(const Expr& e);
  Expr integer_binary(const Expr& e);
  Expr division(Op op, const Expr& a, const Expr& b);
  Expr symbolic_division(Op op, const Polynomial& a, const Polynomial& b, const Expr& divisor);
  Expr comparison(Op op, const Expr& a, const Expr& b);
  Expr extremum(Op op, const Expr& a, const Expr& b);
  Expr logic(Op op, const Expr& a, const Expr& b);
  Expr select(const Expr& condition, const Expr& a, const Expr& b);
  Expr unary(const Expr& e);
  Expr normal(const Polynomial& p, DType type);
  /// to_polynomial() of an expression that is already simplified.
  Polynomial polynomial(const Expr& e) const;
  Polynomial recombine(Polynomial p, DType type);
  bool recombine_once(Polynomial& p, DType type);
  bool recombine_symbolic_once(Polynomial& p);
  MaybePolynomial divide_or_modulo(const Polynomial& p, std::int64_t by, DType type, bool quotient);
  MaybePolynomial divide_grouped(const Polynomial& whole, const Polynomial& rest, std::int64_t by, DType type,
                                 bool quotient);
  MaybePolynomial divide_nested(const Polynomial& whole, const Polynomial& rest, std::int64_t by, DType type,
                                bool quotient);
  Polynomial reduce_inner_modulos(Polynomial p, std::int64_t by) const;

  Interval range(const Polynomial& p, DType type, int depth);
  Interval range_of_terms(const Polynomial& p);
  Interval refine(const Polynomial& p, DType type, int depth, Interval known);
  Interval compute_range(const Expr& e);
  Interval leaf_range(const Expr& e) const;

  const Ranges& ranges_;
  std::unordered_map<Expr, Expr, Hash> memo_;
  std::unordered_map<Expr, Polynomial, Hash>
      normal_forms_;  ///< Of large sums: a sum of n terms is read once, not n times.
  std::unordered_map<Expr, Interval, Hash> range_memo_;
};

}  // namespace aicf
