#include <gtest/gtest.h>

#include <random>

#include "mir/support/expr.h"

namespace aicf {
namespace {

const Expr a = Expr::axis("a"), b = Expr::axis("b"), c = Expr::axis("c"), z = Expr::axis("z");
const Expr n = Expr::symbol("n"), m = Expr::symbol("m");
const Ranges small{{"a", {0, 99}}, {"b", {0, 7}}, {"c", {0, 3}}};

std::string simplified(const Expr& e, const Ranges& ranges = small) {
  return to_string(simplify(e, ranges));
}

TEST(Simplify, SumsOfProductsAreSorted) {
  EXPECT_EQ(simplified(b + a * 8 + 3 - a * 2 - 5), "6 * a + b - 2");
  EXPECT_EQ(simplified((a + b) * (a - b)), "a * a - b * b");
  EXPECT_EQ(simplified((n + 1) * 64 - n * 64), "64");
  EXPECT_EQ(simplified(5 - a), "5 - a");
  EXPECT_EQ(simplified(-a - b), "-a - b");
  EXPECT_EQ(simplify(a * b + n), simplify(n + b * a));
}

TEST(Simplify, FloorDivAndModByConstants) {
  EXPECT_EQ(simplified(floordiv(a * 8 + b, 8)), "a");
  EXPECT_EQ(simplified(mod(a * 8 + b, 8)), "b");
  EXPECT_EQ(simplified(floordiv(a * 8 + z, 8)), "a + z // 8");
  EXPECT_EQ(simplified(floordiv(floordiv(z, 4), 6)), "z // 24");
  EXPECT_EQ(simplified(floordiv(floordiv(z, 4) + 1, 6)), "(z + 4) // 24");
  EXPECT_EQ(simplified(floordiv(a * 4 + c, 8)), "a // 2");
  EXPECT_EQ(simplified(mod(a * 4 + c, 8)), "c + 4 * (a % 2)");
  EXPECT_EQ(simplified(floordiv(z * 6 + 5, 9)), "(2 * z + 1) // 3");
  EXPECT_EQ(simplified(mod(mod(z, 24), 8)), "z % 8");
  EXPECT_EQ(simplified(floordiv(mod(z, 24), 8)), "z // 8 % 3");
  EXPECT_EQ(simplified(mod(z + 16, 8)), "z % 8");
  EXPECT_EQ(simplified(floordiv(b + 8, 8)), "1");
  EXPECT_EQ(simplified(floordiv(b - 8, 8)), "-1");
  EXPECT_EQ(simplified(mod(b - 8, 8)), "b");
  EXPECT_EQ(simplified(ceildiv(n * 64, 64)), "n");
}

TEST(Simplify, DivAndModJoinAgain) {
  EXPECT_EQ(simplified(floordiv(z, 8) * 8 + mod(z, 8)), "z");
  EXPECT_EQ(simplified((floordiv(z, 8) * 8 + mod(z, 8)) * n), "n * z");
  EXPECT_EQ(simplified(floordiv(z, 8) * 24 + mod(z, 8) * 3 + 1), "3 * z + 1");
  EXPECT_EQ(simplified(mod(floordiv(z, 4), 8) * 4 + mod(z, 4)), "z % 32");
  // A reshape there and back: (z div 32, z div 4 mod 8, z mod 4) is z.
  EXPECT_EQ(simplified((floordiv(z, 32) * 8 + mod(floordiv(z, 4), 8)) * 4 + mod(z, 4)), "z");
  EXPECT_EQ(simplified(floordiv(floordiv(z, 4), 8) * 8 + mod(floordiv(z, 4), 8)), "z // 4");
}

TEST(Simplify, SymbolicDivisors) {
  EXPECT_EQ(simplified(floordiv(n * a, n)), "a");
  EXPECT_EQ(simplified(floordiv(n * a + b, n)), "a + b // n");
  EXPECT_EQ(simplified(mod(n * a + b, n)), "b % n");
  EXPECT_EQ(simplified(floordiv(n * a + b, n), {{"n", {8, {}}}, {"b", {0, 7}}}), "a");
  EXPECT_EQ(simplified(mod(n * m * a + m * b, m)), "0");
  EXPECT_EQ(simplified(floordiv(n, n)), "1");
  EXPECT_EQ(simplified(m * floordiv(z, m) + mod(z, m)), "z");
  EXPECT_EQ(simplified(n * m * a + 3 * (m * floordiv(b, m)) + 3 * mod(b, m)), "m * n * a + 3 * b");
  EXPECT_EQ(simplified(m * floordiv(z, m) + mod(b, m)), "m * (z // m) + b % m");
  EXPECT_EQ(simplified((n + m) / (n + m)), "1");
  EXPECT_EQ(simplified(n / 4), "n // 4");
  EXPECT_EQ(simplified(z / 4), "z / 4");
  EXPECT_EQ(simplified(z * 12 / 4), "3 * z");
}

TEST(Simplify, Comparisons) {
  EXPECT_EQ(simplified(less(b, 8)), "true");
  EXPECT_EQ(simplified(less_equal(b, 6)), "b <= 6");
  EXPECT_EQ(simplified(less(b, 7)), "b <= 6");
  EXPECT_EQ(simplified(less(a + n, b + n)), "a < b");
  EXPECT_EQ(simplified(less_equal(a * 2, b * 2 + 1)), "a <= b");
  EXPECT_EQ(simplified(equal(a * 2, b * 2 + 1)), "false");
  EXPECT_EQ(simplified(equal(n, n + 1)), "false");
  EXPECT_EQ(simplified(less_equal(Expr(0), n)), "true");
  EXPECT_EQ(simplified(less(z, n)), "z < n");
  EXPECT_EQ(simplified(less_equal(Expr(3), z)), "3 <= z");
  EXPECT_EQ(simplified(less(Expr(0), z)), "0 < z");
  EXPECT_EQ(simplified(less_equal(floordiv(z, 8) * 8, z)), "true");
  EXPECT_EQ(simplified(less_equal(n, ceildiv(n, 64) * 64)), "true");
  EXPECT_EQ(simplified(less(ceildiv(n, 64) * 64, n + 64)), "true");
  const Expr x = Expr::value("x", DType::f32);
  EXPECT_EQ(simplified(less(x, x)), "false");
  EXPECT_EQ(simplified(less_equal(x, x)), "x <= x");  // x may be NaN
  EXPECT_EQ(simplified(equal(x, x)), "x == x");
}

TEST(Simplify, MinAndMax) {
  const auto low = [](const Expr& p, const Expr& q) { return Expr::binary(Op::min, p, q); };
  EXPECT_EQ(simplified(low(n, n + 3)), "n");
  EXPECT_EQ(simplified(low(low(n + 3, m), n)), "min(m, n)");
  EXPECT_EQ(simplified(low(b, Expr(9))), "b");
  EXPECT_EQ(simplified(Expr::binary(Op::max, n, Expr(0))), "n");
  // The tail of a tile holds at most the tile.
  EXPECT_EQ(simplified(less_equal(low(n, a * 64 + 64) - a * 64, 64)), "true");
}

TEST(Simplify, Logic) {
  const Expr p = less(z, n), q = less(z, m);
  EXPECT_EQ(simplified(Expr::binary(Op::and_, p, Expr::binary(Op::and_, q, p))), "z < n and z < m");
  EXPECT_EQ(simplified(Expr::binary(Op::and_, p, logical_not(p))), "false");
  EXPECT_EQ(simplified(Expr::binary(Op::or_, p, logical_not(p))), "true");
  EXPECT_EQ(simplified(Expr::binary(Op::and_, less_equal(n, 64), less_equal(n, 128))), "n <= 64");
  EXPECT_EQ(simplified(Expr::binary(Op::or_, less_equal(n, 64), less_equal(n, 128))), "n <= 128");
  EXPECT_EQ(simplified(Expr::binary(Op::and_, less_equal(n, 64), less_equal(65, n))), "false");
  EXPECT_EQ(simplified(Expr::binary(Op::or_, less_equal(n, 64), less_equal(65, n))), "true");
  EXPECT_EQ(simplified(Expr::select(p, Expr::select(p, a, b), c)), "where(z < n, a, c)");
  EXPECT_EQ(simplified(Expr::select(less(b, 8), a, b)), "a");
}

TEST(Simplify, SharedSubexpressionsAreReadOnce) {
  // v -> v * v + v: as a polynomial its degree doubles with each step, as a tree its size does.
  const auto steps = [](int count) {
    Expr e = Expr::symbol("n");
    for (int k = 0; k < count; ++k) e = e * e + e;
    return e;
  };
  EXPECT_EQ(evaluate_int(simplify(steps(5)), {{"n", 1}}), 3263442);  // 1, 2, 6, 42, 1806, 3263442
  EXPECT_EQ(evaluate_int(simplify(steps(60)), {{"n", 0}}), 0);
}

TEST(Simplify, FloatsKeepTheirMeaning) {
  const Expr x = Expr::value("x", DType::f32), zero = Expr::constant(DType::f32, 0);
  EXPECT_EQ(simplified(x * zero), "x * 0.0");
  EXPECT_EQ(simplified((x + x) - x), "x + x - x");
  EXPECT_EQ(simplified(Expr::load("Q", {floordiv(a * 8 + b, 8)}, DType::f32) - x), "Q[a] - x");
}

TEST(RangeOf, Bounds) {
  const auto range = [](const Expr& e) {
    const Range r = range_of(e, small);
    return std::pair(r.low, r.high);
  };
  using Bounds = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;
  EXPECT_EQ(range(a * 8 + b), (Bounds{0, 799}));
  EXPECT_EQ(range(n), (Bounds{0, {}}));
  EXPECT_EQ(range(z), (Bounds{{}, {}}));
  EXPECT_EQ(range(mod(z, 5)), (Bounds{0, 4}));
  EXPECT_EQ(range(b - c), (Bounds{-3, 7}));
  EXPECT_EQ(range(a - a), (Bounds{0, 0}));
  EXPECT_EQ(range(floordiv(b - 4, 3)), (Bounds{-2, 1}));
  EXPECT_EQ(range(Expr::binary(Op::min, n, Expr(5))), (Bounds{0, 5}));
  EXPECT_EQ(range(ceildiv(n, 64) * 64 - n), (Bounds{0, 63}));
  EXPECT_EQ(range(n * n), (Bounds{0, {}}));
  EXPECT_EQ(range(Expr::value("w", DType::u8) + Expr::integer(0, DType::u8)), (Bounds{0, 255}));
}

TEST(RangeOf, NamesWithAndWithoutPrefix) {
  EXPECT_EQ(range_of(z, {{"axis:z", {2, 5}}}).high, 5);
  EXPECT_EQ(range_of(n, {{"axis:n", {2, 5}}}).high, std::nullopt);  // an axis named like the symbol
  EXPECT_EQ(range_of(Expr::value("w", DType::i32), {{"value:w", {2, 5}}}).low, 2);
  EXPECT_EQ(range_of(n, {{"n", {{}, 9}}}).low, 0);
}

TEST(AsAffine, CoefficientsMayBeSymbols) {
  const auto affine = as_affine(a * n * 4 + b + m * 2 + 3 + a, {"a", "b"});
  ASSERT_TRUE(affine.has_value());
  EXPECT_EQ(to_string(affine->coefficients.at("a")), "4 * n + 1");
  EXPECT_EQ(to_string(affine->coefficients.at("b")), "1");
  EXPECT_EQ(to_string(affine->offset), "2 * m + 3");
  EXPECT_FALSE(as_affine(a * b, {"a", "b"}).has_value());
  EXPECT_TRUE(as_affine(a * b, {"a"}).has_value());
  EXPECT_FALSE(as_affine(floordiv(a, 3), {"a"}).has_value());
  EXPECT_FALSE(as_affine(Expr::load("i", {a}, DType::i64), {"a"}).has_value());
  EXPECT_TRUE(as_affine(a - a + floordiv(b, 3), {"a"})->coefficients.empty());
}

TEST(ProvablyEqual, ByDifference) {
  EXPECT_TRUE(provably_equal((n + m) * 2, n * 2 + m + m));
  EXPECT_FALSE(provably_equal(n, m));
  EXPECT_TRUE(provably_equal(mod(a * 8 + b, 8), b, small));
}

// ---- random expressions against their own evaluation -------------------------------------------------------------

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }

  Expr integer(int depth) {
    if (depth == 0 || below(6) == 0) {
      const Expr leaves[] = {a, b, c, z, n, m, Expr(below(20) - 6), Expr(1 << below(6))};
      return leaves[below(8)];
    }
    const auto sub = [&] { return integer(depth - 1); };
    const Expr divisor = below(5) == 0 ? Expr::binary(Op::max, n, Expr(1)) : Expr(1 + below(4) * (1 << below(4)));
    switch (below(13)) {
      case 0:
      case 1:
        return sub() + sub();
      case 2:
        return sub() - sub();
      case 3:
      case 4:
        return sub() * Expr(below(17) - 4);
      case 5:
      case 6:
        return floordiv(sub(), divisor);
      case 7:
      case 8:
        return mod(sub(), divisor);
      case 9:
        return Expr::binary(below(2) ? Op::min : Op::max, sub(), sub());
      case 10:
        return Expr::select(condition(depth - 1), sub(), sub());
      case 11:
        return below(2) ? Expr::unary(Op::abs, sub()) : -sub();
      default:
        return below(2) ? sub() / divisor : sub() * sub();
    }
  }

  Expr condition(int depth) {
    const auto sub = [&] { return integer(std::max(depth - 1, 0)); };
    switch (below(depth > 0 ? 6 : 3)) {
      case 0:
        return less(sub(), sub());
      case 1:
        return less_equal(sub(), sub());
      case 2:
        return equal(sub(), sub());
      case 3:
        return Expr::binary(Op::and_, condition(depth - 1), condition(depth - 1));
      case 4:
        return Expr::binary(Op::or_, condition(depth - 1), condition(depth - 1));
      default:
        return logical_not(condition(depth - 1));
    }
  }

 private:
  std::mt19937 engine_;
};

TEST(SimplifyProperty, KeepsValuesRangesAndText) {
  const Ranges ranges{{"a", {0, 99}}, {"b", {0, 7}}, {"c", {0, 3}}, {"m", {1, 1000}}};
  const Scope scope{{"a", "b", "c", "z"}, {"n", "m"}, {}, {}};
  Random random(20240607);
  for (int trial = 0; trial < 3000; ++trial) {
    const Expr e = trial % 4 == 0 ? random.condition(4) : random.integer(4);
    const Expr s = simplify(e, ranges);
    const Range range = range_of(e, ranges);
    const auto parsed = parse_expr(to_string(e), scope);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text() << ": " << to_string(e);
    ASSERT_EQ(*parsed, e) << to_string(e) << " read as " << to_string(*parsed);
    ASSERT_EQ(simplify(s, ranges), s) << to_string(e) << "\n once  " << to_string(s) << "\n twice "
                                      << to_string(simplify(s, ranges));
    for (int point = 0; point < 12; ++point) {
      const std::map<std::string, std::int64_t> at{{"a", random.below(100)}, {"b", random.below(8)},
                                                   {"c", random.below(4)},   {"z", random.below(400) - 200},
                                                   {"n", random.below(70)},  {"m", 1 + random.below(1000)}};
      const auto expected = evaluate_int(e, at);
      const auto actual = evaluate_int(s, at);
      ASSERT_TRUE(expected.has_value() && actual.has_value()) << to_string(e);
      ASSERT_EQ(*expected, *actual) << to_string(e) << " became " << to_string(s);
      ASSERT_TRUE(!range.low || *range.low <= *expected) << to_string(e);
      ASSERT_TRUE(!range.high || *expected <= *range.high) << to_string(e);
      Environment env;
      env.axis = env.symbol = [&](const std::string& name) { return static_cast<double>(at.at(name)); };
      ASSERT_EQ(evaluate(e, env), static_cast<double>(*expected)) << to_string(e);
    }
  }
}

}  // namespace
}  // namespace aicf
