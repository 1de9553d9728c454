#pragma once

// An expression prepared for many evaluations: leaves become slots, shared subexpressions are computed once, and only
// what the chosen side of a select needs is computed. The loops of oracles and interpreters run this; evaluate() is for
// one value.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mir/support/expr.h"

namespace aicf {

/// Same meaning as evaluate(): float64, op semantics of expr.h, a rounding hook on computed nodes. Not thread-safe (it
/// keeps scratch space); copies are independent.
class ScalarProgram {
 public:
  /// `axes` is the order of coordinates in run(). Symbols take their values here.
  /// Precondition: every axis and symbol of `e` is given.
  ScalarProgram(const Expr& e, const std::vector<std::string>& axes,
                const std::map<std::string, std::int64_t>& symbols = {});

  const std::vector<std::string>& values() const {
    return values_;
  }  ///< Names, in the order run() takes their numbers.
  const std::vector<std::string>& tensors() const { return tensors_; }  ///< Names, in the order `Load` numbers them.

  using Load = std::function<double(std::size_t tensor, std::span<const std::int64_t> index)>;
  using Round = std::function<double(const Expr& node, std::span<const double> args, double result)>;

  double run(std::span<const std::int64_t> coordinates, std::span<const double> values = {}, const Load& load = {},
             const Round& round = {});

 private:
  struct Instruction {
    Op op;
    DType type;
    DType argument_type;                         ///< Of the first argument; casts need it.
    bool eager = false;                          ///< Needed whatever the selects choose.
    std::uint32_t slot = 0;                      ///< Axis, value or tensor number.
    std::uint32_t first_arg = 0, arg_count = 0;  ///< Into args_.
    std::uint64_t stamp = 0;                     ///< The run that computed `result`; `always` for constants.
    double result = 0;
  };
  static constexpr std::uint64_t always = ~std::uint64_t{0};

  std::uint32_t add(const Expr& e);
  void mark_eager(std::uint32_t id);
  template <bool rounded>
  double get(std::uint32_t id);
  template <bool rounded>
  double compute(std::uint32_t id);
  double load(const std::uint32_t* args, const Instruction& instruction);

  struct Hash {
    std::size_t operator()(const Expr& e) const { return e.hash(); }
  };
  struct Builder;
  Builder* builder_ = nullptr;  ///< Only during construction.

  std::vector<Instruction> instructions_;  ///< Arguments before users; the root is last.
  std::vector<Expr> nodes_;                ///< What each instruction computes, for the rounding hook.
  std::vector<std::uint32_t> args_;
  std::vector<std::uint32_t> schedule_;  ///< Eager instructions that compute something, in order.
  std::vector<std::string> values_, tensors_;
  std::uint64_t run_ = 0;

  // Arguments of the current run().
  std::span<const std::int64_t> coordinates_;
  std::span<const double> given_;
  const Load* load_ = nullptr;
  const Round* round_ = nullptr;
};

}  // namespace aicf
