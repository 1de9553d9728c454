#pragma once

// The normal form of a summand. Private to mir/stream.
//
// Along the streamed axis n a subexpression is *constant* (neither n nor a result of this pass), *along* (n, no running
// result), *running* (results of this pass, no n) or *mixed*. A summand that the cascade law covers is a sum of terms
//
//     outer · ([condition] · [indicator] · coefficient · weight · exp(exp_x + exp_b) · Π (xᵢ + bᵢ)^kᵢ)
//
// where coefficient, condition and every b are constant or running (so they leave the sum and are needed at finish
// only), and indicator, weight and every x are along; outer is a coefficient and a weight that multiply the 0 of what a
// select leaves out too, for 0 · NaN is NaN. What is not of this form is refused with the law that failed.

#include <array>
#include <string>
#include <vector>

#include "mir/stream/facts.h"

namespace aicf::stream {

/// Π num / Π den.
struct Factors {
  std::vector<Expr> num, den;
  bool trivial() const { return num.empty() && den.empty(); }
  Factors& operator*=(const Factors& other);
};

/// (x + b)^power; an empty b is 0.
struct Linear {
  Expr x, b;
  int power = 1;
};

struct Term {
  Factors coefficient;
  Expr condition;  ///< running or constant; empty = always. Where false the term is 0
  Expr indicator;  ///< along; empty = always
  Factors weight;
  Factors outer_coefficient, outer_weight;  ///< both empty without a select
  Expr exp_x, exp_b;                        ///< both empty: no exponential. exp_b alone may be empty (0)
  /// A summand of exp_x from which the graph takes a maximum away, and the state of that.
  struct Exponent {
    Expr x;
    std::string maximum;
  };
  std::vector<Exponent> exponents;  ///< what exp_x is the sum of, each kept by itself; empty: it is kept whole
  std::vector<Linear> linears;

  /// Every list of factors.
  std::array<std::vector<Expr>*, 8> factors() {
    return {&coefficient.num,       &coefficient.den,       &weight.num,       &weight.den,
            &outer_coefficient.num, &outer_coefficient.den, &outer_weight.num, &outer_weight.den};
  }
};

enum class Kind { constant, along, running, mixed };

class Expander {
 public:
  /// `running`: the results of the pass being formed. All parts of terms have type `type`.
  Expander(const Problem& problem, const Facts& facts, const std::set<std::string>& running, DType type)
      : problem_(problem), facts_(facts), running_(running), type_(type) {}

  Kind kind(const Expr& e) const;
  /// The summand as terms, or the law that failed.
  Attempt<std::vector<Term>> expand(const Expr& e);
  /// A condition that is the same along n as a running or constant expression; empty when that cannot be shown.
  Expr uniform(const Expr& condition);
  /// Sides of x + b, x along and b not; an empty part is 0.
  struct Sides {
    Expr x, b;
  };
  Attempt<Sides> affine(const Expr& e);

  /// Laws used so far with what was shown: (law, condition).
  const std::vector<std::pair<std::string, std::string>>& used() const { return used_; }

 private:
  Expr typed(const Expr& e) const;
  Attempt<std::vector<Term>> expand_select(const Expr& e);
  Expr difference_in_select(const Expr& e);
  Attempt<std::vector<Term>> expand_power(const Expr& e);
  Attempt<Term> inverse(Term t) const;
  Attempt<Term> root(Term t);
  Attempt<std::vector<Term>> product(const std::vector<Term>& a, const std::vector<Term>& b) const;
  Term times(Term a, Term b) const;
  void join_exponentials(Term& t) const;
  Attempt<Sides> logarithm(const Expr& argument);
  Expr uniform_nan(const Expr& e);
  void use(std::string law, std::string condition);

  const Problem& problem_;
  const Facts& facts_;
  const std::set<std::string>& running_;
  DType type_;
  std::vector<std::pair<std::string, std::string>> used_;
};

/// A product of factors as one expression; 1 for none.
Expr product_of(const std::vector<Expr>& factors, DType type);
Expr value_of(const Factors& f, DType type);

/// `e` as a list of signed atoms: sums, differences and negations flattened, no empties. A very large sum is one atom.
struct SignedAtom {
  bool negative = false;
  Expr e;
};
void flatten_sum(const Expr& e, bool negative, std::vector<SignedAtom>& out);
/// The sum of atoms; an empty Expr for none. Positive atoms first, so that differences print as such.
Expr sum_of(const std::vector<SignedAtom>& atoms);
/// The atoms of a + b without pairs of one from a and its opposite from b. Pairs within one of them stay: they may be
/// inf − inf.
std::vector<SignedAtom> cancelled(std::vector<SignedAtom> a, const std::vector<SignedAtom>& b);

}  // namespace aicf::stream
