#pragma once

// The partial states of one pass: from the terms of its reductions to states, repairs, merge rules and finish
// expressions. Private to mir/stream.
//
// Every state is kept about references that this module chooses, never about a running result of the region, so that
// its repair is finite for whatever a prefix reaches:
//   * an exponential exp(x + b) about the running maximum m of x: Σ g exp(x − m), where m = −inf counts as 0 (only
//     masked elements seen) and leaves the states as they are; exp(m + b) multiplies at finish;
//   * powers (x + b)^k about a centre c of x: Σ g (x − c)^j for j <= k, and binomials at finish. The centre is the running mean
//     of what the term counts, kept as a pivot, the first element (0 where it does not count), plus a difference, so that an
//     offset costs no digits; beside exp(x − m) with the same x it is m itself.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"
#include "mir/stream/monotone.h"
#include "mir/stream/terms.h"

namespace aicf::stream {

/// Unique names within a region.
class Names {
 public:
  void take(const std::string& name) { used_.insert(name); }
  std::string fresh(const std::string& base);

 private:
  std::set<std::string> used_;
  std::map<std::string, int> next_;  ///< suffix to try for a name that is taken
};

/// A statement of the step in terms of the region's values and loads: a local, or the update of a state.
struct StepItem {
  bool update = false;
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes, over;
  ReduceOp reduce = ReduceOp::none;
  Expr body;
  std::vector<std::string> origin;
};

/// A result at finish: an expression over states, other results and region values; reduced over `over` when not empty.
struct FinishItem {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes, over;
  ReduceOp reduce = ReduceOp::none;
  Expr body;
};

/// A mean that is kept as pivot + difference: x − mean is (x − pivot) − difference.
struct CentredMean {
  Expr pivot, difference;  ///< over values of the finish
};

class PassStates {
 public:
  PassStates(const Problem& problem, const Facts& facts, Names& names, std::set<std::string> running,
             std::vector<CertificateEntry>& certificate)
      : problem_(problem), facts_(facts), names_(names), running_(std::move(running)), certificate_(certificate) {}

  /// Adds a reduction; on failure nothing has changed. Reductions are added in the region's order.
  Attempt<void> add(const Statement& reduction);
  /// Allocates states for everything added. The failure names the reduction that must wait for a later pass.
  Attempt<void> allocate();
  const std::string& failed() const { return failed_; }

  std::vector<StateDecl> states() const;
  std::vector<RepairGroup> repairs() const;
  std::vector<MergeRule> merges() const;
  const std::vector<StepItem>& step() const { return step_; }
  const std::vector<FinishItem>& finish() const { return finish_; }
  /// What the value of a result is after the pass: a state or a finish item by name. In the bodies of step and finish
  /// items a name is first one of this pass (a state, an item), else a value of the region.
  const std::map<std::string, Expr>& finals() const { return finals_; }
  /// The centred form of a running or final expression that is a mean of this pass.
  std::optional<CentredMean> centred(const Expr& e);
  /// Every exponential's and maximum's x with the state that holds its maximum ("" where that is of x less a constant).
  struct Stabilised {
    Expr x;
    std::string maximum;
  };
  const std::vector<Stabilised>& stabilised() const { return stabilised_; }
  /// Every update is one of those: neutral where x is −∞.
  bool all_stabilised() const { return all_stabilised_; }
  /// Maxima that only stabilise may drop NaN, because the sums show it: those that nothing in `read` needs. Before
  /// states(), step() and merges().
  void drop_nan_unless(const std::set<std::string>& read);

 private:
  struct Reduction {
    const Statement* statement;
    std::vector<Term> terms;           // sums of floats; rewritten by allocate()
    std::optional<Monotone> monotone;  // maxima and minima of mixed bodies
    std::vector<std::pair<std::string, std::string>> laws;
    std::vector<int> moments{};           // of each term
    std::vector<std::string> selected{};  // of each term: the state that says whether its indicator ever held, or ""
    std::string maximum{}, minimum{};     // states: a plain reduction's, or the extremes of a monotone one
    int unset_by = -1;                    // exponential whose m = -inf makes the result NaN
  };
  struct Plain {
    ReduceOp op;
    Expr canonical;
    std::vector<std::string> over;
    std::string state;
    bool stabiliser;  // nothing but exponentials asked for it
  };
  /// A summand of an exponent, kept about a maximum of its own.
  struct Part {
    Expr x;
    std::string maximum;  // state
    Expr offset;          // x - (what the maximum is of), constant; may be empty
    std::string taken;    // the state of the maximum that the graph takes away; empty where there is one part
  };
  struct Exponential {
    Expr x, canonical;
    std::vector<std::string> over;
    std::vector<Part> parts;  // several where the graph takes a maximum away from each: a sum of them loses digits
    int times = 1;        // x is so many equal parts, and the maximum is of one: the whole may overflow where exp(x) of
                          // the graph, a product of exponentials, does not
    bool shared = false;  // the maxima are results of the region
    bool always = true;   // every element meets exp(x - m) in some state
    std::string name;
    Expr shifted, local;  // of the step: x - m, exp(x - m); local is empty until asked for
  };
  /// What elements count in a centre: |weight| under `indicator`, each empty for 1 and always.
  struct Counted {
    Expr weight, indicator;
    bool operator==(const Counted&) const;
  };
  /// What a term weighs its powers by.
  struct Weights {
    std::set<Expr> conditions;
    std::multiset<Expr> factors;
    bool operator==(const Weights&) const = default;
    bool within(const Weights& more) const {
      const auto all = [](const auto& of, const auto& in) {
        return std::includes(in.begin(), in.end(), of.begin(), of.end());
      };
      return all(conditions, more.conditions) && all(factors, more.factors);
    }
  };
  struct Family {
    Expr x, canonical;
    Counted counted;
    int exponential = -1;
    std::vector<std::string> over;
    std::string name, pivot, weight, total;  // states; no pivot when x is not elementwise
    Expr y, centre, c;                       // of the step: x - pivot, the centre of y, y - centre
    std::string finish_centre;
  };
  /// What a power is kept about: the maximum of an exponential or the centre of a family.
  struct Shift {
    enum class Kind { maximum, family } kind = Kind::family;
    int index = -1;
    auto operator<=>(const Shift&) const = default;
  };
  using Powers = std::vector<std::pair<Shift, int>>;
  struct Moment {
    std::string state;
    Factors weight, outer;  // outer: outside of the indicator's select
    Expr canonical_weight, canonical_outer, indicator;
    int exponential = -1;
    Powers powers;
    std::vector<std::string> over;
    /// Whether it sums the same but for powers.
    bool counts_as(const Moment& other) const;
  };
  struct State {
    StateDecl decl;
    int group = -1;                       // union-find parent
    std::vector<std::string> references;  // of the group, at its root
    Expr repaired;                        // over values and primed references
    std::string law;
    Expr seen;  // pivots: where 0 < seen the left side of a merge has one
  };
  /// One summand of Π (x_f - c_f + δ_f)^k_f.
  struct Expansion {
    Powers powers;
    double binomial;
    Powers missing;  // exponents of δ
  };

  // states.cpp
  std::vector<std::string> others(const Statement& s) const;
  std::string name_of(const Expr& x) const;
  std::string take_name(const std::string& wanted);
  std::vector<std::string> kept(const Term& t, const std::vector<std::string>& others) const;
  std::vector<std::string> axes(const Expr& body) const;
  std::vector<std::string> state_axes(const Expr& body, const std::vector<std::string>& over) const;
  std::string plain(ReduceOp op, const Expr& body, const std::vector<std::string>& over, const std::string& wanted,
                    bool stabiliser);
  int exponential(const Expr& x, const std::vector<std::string>& over, std::vector<Part> parts = {});
  bool takes_away(const Expr& b, const std::string& maximum) const;
  std::vector<Term::Exponent> exponents_of(const Term& t) const;
  std::vector<Part> parts_of(const Term& t) const;
  int exponential_of(const Term& t);
  Expr exponential_value(int index);
  Expr shifted_value(int index);
  std::optional<std::pair<std::string, Expr>> existing_maximum(const Expr& x) const;
  std::pair<Expr, int> part_of(const Expr& x) const;  // Exponential::times
  Expr exponent_factor(const Exponential& e) const;   // exp(x - m) becomes exp(x - m') by it
  std::string hint(const Expr& canonical, const std::string& maximum) const;
  bool adds_rows(const Expr& e, std::initializer_list<Expr> to) const;
  Expr mask_of(Expr factor) const;
  Expr guarded_exponent(const Term& t) const;
  Expr guarded_part(const Expr& x, const Term& t, int times) const;
  std::vector<Expr> split_products(const std::vector<Expr>& list) const;
  Weights weights_of(const Term& t) const;
  std::optional<Term> mean_of(const Linear& l) const;
  bool sums_weights(const Reduction& l, const Term& t) const;
  Counted own_weights(const Linear& l, const Term& t) const;
  Counted counted(const Linear& l, const Term& t) const;
  std::vector<Term> powers_apart(const Term& t) const;
  int family(const Expr& x, const Counted& counted, int exponential, const std::vector<std::string>& over);
  bool find_family(const Expr& x, const Counted& counted, const Term& t) const;
  int moment(const Moment& wanted, const std::string& name, DType type);
  Attempt<int> closed_moment(const Moment& wanted, const std::string& name, DType type);
  bool same_as_exponential(const Expr& x, const Term& t) const;
  std::vector<std::string> reduced_over(const Term& t) const;
  int free_degree(const Term& t) const;
  bool is_about_mean(const Linear& l) const;
  int maximum_of(const Linear& l);
  Shift shift_of(const Linear& l, const Term& t, const Moment& m);
  std::vector<Term> split_single(const Term& t);
  void centre_plain(Term& t);
  void certify(const Reduction& r);
  State& state(const std::string& name);
  int state_index(const std::string& name) const;
  int root(int i) const;
  bool join(int a, int b);
  void add_state(const std::string& name, DType type, const std::vector<std::string>& axes, ReduceOp op);
  void add_update(const std::string& name, const Expr& body, const std::vector<std::string>& over);
  Expr add_local(const std::string& base, const Expr& body);

  // repairs.cpp
  std::vector<Expansion> expansion(const Powers& powers) const;
  Expr is_unset(const Exponential& e) const;
  Expr movement(const Exponential& e) const;
  Expr centre_of(const Family& f, bool primed) const;
  Expr movement(const Shift& s) const;
  void make_repairs();
  Expr side(const State& s, const std::string& mark, const std::map<std::string, Expr>& merged) const;

  // finals.cpp
  void finish(Reduction& r);
  Expr finish_term(Reduction& r, std::size_t i, bool& trivial);
  Expr outer_exponential(const Term& t, int exponential, Factors& factors, bool& unset);
  Expr finished(const Expr& e) const;
  Expr polynomial(const Term& t, const Moment& m);
  std::vector<SignedAtom> centre_atoms(const Shift& s) const;
  std::vector<SignedAtom> resolve(const Expr& b, bool negative);
  Factors factorise(const Expr& e) const;
  bool is_inverse_extent(const Factors& f, const std::vector<std::string>& over) const;
  Expr empty_guarded(const Statement& s, const Expr& value) const;
  const Reduction* reduction(const std::string& result) const;

  const Problem& problem_;
  const Facts& facts_;
  Names& names_;
  std::set<std::string> running_;
  std::vector<CertificateEntry>& certificate_;
  std::string failed_;
  const Statement* current_ = nullptr;
  std::vector<Reduction> reductions_;
  std::vector<Plain> plains_;
  std::vector<Exponential> exponentials_;
  std::vector<Family> families_;
  std::vector<Moment> moments_;
  std::vector<State> states_;
  std::map<std::string, int> index_;                          // of states, by name
  std::map<std::string, std::vector<std::string>> own_axes_;  // of states and locals made here
  std::vector<StepItem> step_;
  std::vector<FinishItem> finish_;
  std::map<std::string, Expr> finals_;
  std::vector<Stabilised> stabilised_;
  bool all_stabilised_ = true;
};

}  // namespace aicf::stream
