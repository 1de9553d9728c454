#include "mir/support/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace aicf {
namespace {

using testing::ElementsAre;

constexpr double inf = std::numeric_limits<double>::infinity();
const Expr a = Expr::axis("a"), b = Expr::axis("b"), n = Expr::symbol("n");
const Expr x = Expr::value("x", DType::f32), y = Expr::value("y", DType::f32);
Expr f32(double v) {
  return Expr::constant(DType::f32, v);
}

TEST(Expr, StructuralEqualityAndStableOrder) {
  EXPECT_EQ(a + 1, Expr::axis("a") + 1);
  EXPECT_FALSE(a + 1 == Expr::symbol("a") + 1);
  EXPECT_FALSE(Expr::load("Q", {a}, DType::f32) == Expr::load("Q", {a}, DType::f16));
  EXPECT_FALSE(f32(0.0) == f32(-0.0));
  EXPECT_EQ(f32(std::nan("")), f32(-std::nan("1")));
  EXPECT_NE(a + b < b + a, b + a < a + b);
  // Content hashing: a fixed value guards against hashing addresses or table order by accident.
  EXPECT_EQ((a * 8 + b).hash(), (Expr::axis("a") * Expr(8) + Expr::axis("b")).hash());
  EXPECT_NE((a * 8 + b).hash(), (b * 8 + a).hash());
}

TEST(Expr, EqualityOfSeparateDagsIsLinear) {
  Expr p = x, q = Expr::value("x", DType::f32);
  for (int i = 0; i < 200; ++i) {
    p = p * p;
    q = q * q;
  }
  EXPECT_EQ(p, q);
  int visits = 0;
  for_each(p, [&](const Expr&) { ++visits; });
  EXPECT_EQ(visits, 201);
  Environment env;
  env.value = [](const std::string&) { return 1.0; };
  EXPECT_EQ(evaluate(p, env), 1.0);
  EXPECT_EQ(evaluate(substitute_values(p, {{"x", f32(1.0)}}), {}), 1.0);
}

TEST(Expr, BuildersFoldExactly) {
  EXPECT_EQ(Expr(7) * 6, Expr(42));
  EXPECT_EQ(floordiv(Expr(-7), 2), Expr(-4));
  EXPECT_EQ(mod(Expr(-7), 4), Expr(1));
  EXPECT_EQ(Expr(-7) / 2, Expr(-3));
  EXPECT_EQ(a * 0, Expr(0));
  EXPECT_EQ(a + 0, a);
  EXPECT_EQ(a - a, Expr(0));
  EXPECT_EQ(logical_not(logical_not(less(x, y))), less(x, y));
  EXPECT_EQ(logical_not(less(a, b)), less_equal(b, a));
  EXPECT_EQ(logical_not(less(x, y)).op(), Op::not_);  // NaN: not (x < y) is not y <= x
  EXPECT_EQ(Expr::cast(Expr::cast(x, DType::f64), DType::f32), x);
  EXPECT_EQ(Expr::cast(Expr::cast(x, DType::f16), DType::f32).op(), Op::cast);
  EXPECT_EQ(Expr::cast(Expr::integer(300), DType::u8), Expr::integer(44, DType::u8));
  EXPECT_EQ(Expr::select(Expr::boolean(true), a, b), a);
}

TEST(Expr, BuildersNeverChangeFloats) {
  EXPECT_EQ((x * f32(0)).op(), Op::mul);
  EXPECT_EQ((x - x).op(), Op::sub);
  EXPECT_EQ(less_equal(x, x).op(), Op::le);
  EXPECT_EQ(x * f32(1), x);
  EXPECT_EQ((x * 2).args()[1], f32(2));
  // Constants fold only where the narrow type would give the same: 1e38·10 overflows in f32, 1e-40·1e-40 vanishes.
  EXPECT_EQ((f32(1e38) * f32(10)).op(), Op::mul);
  EXPECT_EQ((f32(1e-30) * f32(1e-30)).op(), Op::mul);
  EXPECT_EQ(f32(1.5) * f32(2), f32(3));
  EXPECT_EQ(Expr::unary(Op::exp, f32(-inf)), f32(0));
}

TEST(Expr, OverflowStaysUnfolded) {
  const Expr huge(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((huge + 1).op(), Op::add);
  EXPECT_EQ((Expr::integer(200, DType::u8) + Expr::integer(100, DType::u8)).op(), Op::add);
  EXPECT_FALSE(evaluate_int(huge + 1, {}).has_value());
  EXPECT_EQ(floordiv(a, Expr(0)).op(), Op::floordiv);
}

TEST(Expr, MistypedExpressionsAreBugs) {
  EXPECT_EXIT(x + a, testing::ExitedWithCode(70), "aicf: bug: .*types f32 and i64");
  EXPECT_EXIT(Expr::unary(Op::exp, a), testing::ExitedWithCode(70), "needs a float");
  EXPECT_EXIT(Expr() + a, testing::ExitedWithCode(70), "empty");
}

TEST(Expr, Traversal) {
  const Expr load = Expr::load("Q", {a, n - b}, DType::f32);
  const Expr e = Expr::unary(Op::exp, load * x) + load;
  EXPECT_THAT(axes_of(e), ElementsAre("a", "b"));
  EXPECT_THAT(symbols_of(e), ElementsAre("n"));
  EXPECT_THAT(values_of(e), ElementsAre("x"));
  EXPECT_THAT(loads_of(e), ElementsAre(load));
  EXPECT_TRUE(depends_on_axis(e, "b"));
  EXPECT_FALSE(depends_on_axis(e, "n"));
  EXPECT_TRUE(depends_on_value(e, "x"));
  // Substitution is simultaneous.
  EXPECT_EQ(substitute_axes(a * 2 + b, {{"a", b}, {"b", a}}), b * 2 + a);
  EXPECT_EQ(substitute_axes(a + b, {{"a", b}, {"b", Expr(0)}}), b) << "what a sum folds to is not substituted again";
  const Expr doubled = rewrite(e, [](const Expr& node) { return node.op() == Op::load ? node * 2 : Expr(); });
  EXPECT_EQ(doubled, Expr::unary(Op::exp, load * 2 * x) + load * 2);
}

TEST(Expr, LogicalOperatorsTreatEmptyAsTrue) {
  EXPECT_EQ(logical_and({}, less(a, b)), less(a, b));
  EXPECT_FALSE(logical_and({}, {}));
  EXPECT_TRUE(logical_or({}, less(a, b)).is_constant(1));
  EXPECT_TRUE(logical_not({}).is_constant(0));
}

// ---- evaluation --------------------------------------------------------------------------------------------------

double apply2(Op op, DType type, double p, double q) {
  const double args[] = {p, q};
  return apply(op, type, args);
}

TEST(Evaluate, NanSemantics) {
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(apply2(Op::max, DType::f32, nan, 1)));
  EXPECT_TRUE(std::isnan(apply2(Op::min, DType::f32, 1, nan)));
  EXPECT_EQ(apply2(Op::maxnum, DType::f32, nan, 1), 1);
  EXPECT_EQ(apply2(Op::minnum, DType::f32, 1, nan), 1);
  EXPECT_EQ(apply2(Op::lt, DType::boolean, nan, 1), 0);
  EXPECT_EQ(apply2(Op::eq, DType::boolean, nan, nan), 0);
}

TEST(Evaluate, IntegersRoundAsDocumented) {
  EXPECT_EQ(apply2(Op::div, DType::i32, -7, 2), -3);
  EXPECT_EQ(apply2(Op::floordiv, DType::i32, -7, 2), -4);
  EXPECT_EQ(apply2(Op::mod, DType::i32, -7, 4), 1);
  EXPECT_EQ(apply2(Op::mod, DType::i32, 7, -4), -1);
  const double half[] = {2.5};
  EXPECT_EQ(apply(Op::round_even, DType::f32, half), 2);
}

TEST(Evaluate, SelectReadsOnlyTheChosenSide) {
  const Expr e = Expr::select(less(a, 3), Expr::load("t", {a}, DType::f32), f32(-1));
  Environment env;
  int reads = 0;
  double at = 1;
  env.axis = [&](const std::string&) { return at; };
  env.load = [&](const std::string& tensor, std::span<const std::int64_t> index) {
    ++reads;
    EXPECT_EQ(tensor, "t");
    return 10.0 + static_cast<double>(index[0]);
  };
  EXPECT_EQ(evaluate(e, env), 11);
  at = 5;
  EXPECT_EQ(evaluate(e, env), -1);
  EXPECT_EQ(reads, 1);
}

TEST(Evaluate, RoundHookSeesEveryComputedNode) {
  const Expr e = Expr::cast(x * y, DType::f16) + Expr::constant(DType::f16, 1);
  Environment env;
  env.value = [](const std::string& name) { return name == "x" ? 1.0 : 1.0 / 3; };
  std::vector<Op> seen;
  env.round = [&](const Expr& node, std::span<const double>, double result) {
    seen.push_back(node.op());
    return round_to(node.type(), result);
  };
  EXPECT_EQ(evaluate(e, env), round_to(DType::f16, 1 + round_to(DType::f16, 1.0f / 3)));
  EXPECT_THAT(seen, ElementsAre(Op::mul, Op::cast, Op::add));
}

TEST(Evaluate, IntegersUnderBindings) {
  const Expr e = ceildiv(n, 64) * 64 - n;
  EXPECT_EQ(evaluate_int(e, {{"n", 100}}), 28);
  const auto unbound = evaluate_int(e, {{"m", 1}});
  ASSERT_FALSE(unbound.has_value());
  EXPECT_THAT(unbound.error().text(), testing::HasSubstr("'n'"));
  const auto zero = evaluate_int(floordiv(Expr(5), n), {{"n", 0}});
  ASSERT_FALSE(zero.has_value());
  EXPECT_THAT(zero.error().text(), testing::HasSubstr("division by zero"));
  EXPECT_EQ(evaluate_int(less(n, 5), {{"n", 4}}), 1);
  // Shapes that pass through floats, as Resize makes them.
  const Expr scaled =
      Expr::cast(Expr::unary(Op::floor, Expr::cast(n, DType::f64) * Expr::constant(DType::f64, 1.5)), DType::i64);
  EXPECT_EQ(evaluate_int(scaled, {{"n", 7}}), 10);
  EXPECT_EQ(evaluate_int(Expr::select(less(n, 1), floordiv(Expr(1), n), n), {{"n", 2}}), 2);
}

}  // namespace
}  // namespace aicf
