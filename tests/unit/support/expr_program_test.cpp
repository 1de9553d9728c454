#include "mir/support/expr_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace aicf {
namespace {

const Expr i = Expr::axis("i"), j = Expr::axis("j"), n = Expr::symbol("n");
Expr f32(double v) {
  return Expr::constant(DType::f32, v);
}

TEST(ScalarProgram, MatchesEvaluateEverywhere) {
  const Expr t = Expr::load("t", {i * 4 + j}, DType::f32), x = Expr::value("x", DType::f32);
  const Expr e = Expr::select(less(j, n), Expr::unary(Op::exp, t - x) * t, f32(-1) * x) + Expr::cast(i, DType::f32);
  ScalarProgram program(e, {"j", "i"}, {{"n", 3}});
  ASSERT_THAT(program.values(), testing::ElementsAre("x"));
  ASSERT_THAT(program.tensors(), testing::ElementsAre("t"));
  const auto element = [](std::int64_t at) { return std::sin(static_cast<double>(at)); };
  for (std::int64_t a = 0; a < 5; ++a) {
    for (std::int64_t b = 0; b < 4; ++b) {
      const std::int64_t at[] = {b, a};
      const double values[] = {0.25};
      const double actual = program.run(at, values, [&](std::size_t tensor, std::span<const std::int64_t> index) {
        EXPECT_EQ(tensor, 0u);
        return element(index[0]);
      });
      const double v = element(a * 4 + b);
      EXPECT_EQ(actual, (b < 3 ? std::exp(v - 0.25) * v : -0.25) + static_cast<double>(a));
    }
  }
}

TEST(ScalarProgram, LoadsOfTheOtherSideAreNotMadeAndSharedOnesOnce) {
  const Expr a = Expr::load("a", {i}, DType::f32), b = Expr::load("b", {i}, DType::f32);
  const Expr shared = Expr::unary(Op::exp, b);
  // `shared` stands in both a branch and another branch's branch; `a` is needed always and inside a branch.
  const Expr e = a + Expr::select(less(i, 2), a * shared + shared, Expr::select(less(i, 4), shared, f32(7)));
  ScalarProgram program(e, {"i"});
  std::vector<std::size_t> loads;
  const ScalarProgram::Load load = [&](std::size_t tensor, std::span<const std::int64_t>) {
    loads.push_back(tensor);
    return 2.0;
  };
  const auto at = [&](std::int64_t v) {
    loads.clear();
    return program.run(std::span(&v, 1), {}, load);
  };
  EXPECT_EQ(at(0), 2 + 2 * std::exp(2.0) + std::exp(2.0));
  EXPECT_THAT(loads, testing::ElementsAre(0, 1));
  EXPECT_EQ(at(3), 2 + std::exp(2.0));
  EXPECT_THAT(loads, testing::ElementsAre(0, 1));
  EXPECT_EQ(at(5), 9);
  EXPECT_THAT(loads, testing::ElementsAre(0));
}

TEST(ScalarProgram, SharedSubexpressionsStayLinear) {
  Expr e = Expr::value("x", DType::f32);
  for (int k = 0; k < 300; ++k) e = e * f32(0.5) + e * f32(0.5);
  ScalarProgram program(e, {});
  const double x[] = {3.0};
  int rounded = 0;
  EXPECT_EQ(program.run({}, x, {}, [&](const Expr&, std::span<const double>, double r) { return ++rounded, r; }), 3.0);
  EXPECT_EQ(rounded, 600);
}

TEST(ScalarProgram, ConstantsAndLeavesAlone) {
  EXPECT_EQ(ScalarProgram(f32(2.5), {}).run({}), 2.5);
  const std::int64_t at[] = {9};
  EXPECT_EQ(ScalarProgram(i, {"i"}).run(at), 9);
  EXPECT_EQ(ScalarProgram(n + 1, {}, {{"n", 4}}).run({}), 5);
  EXPECT_EXIT(ScalarProgram(n, {}), testing::ExitedWithCode(70), "symbol 'n'");
}

}  // namespace
}  // namespace aicf
