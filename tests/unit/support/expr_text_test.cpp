#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "mir/support/expr.h"

namespace aicf {
namespace {

using testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity();

const Scope scope{{"batch", "head", "q", "kv", "d"},
                  {"n", "seq len", "order"},
                  {{"s", DType::f32},
                   {"m", DType::f32},
                   {"m'", DType::f32},
                   {"a.m", DType::f32},
                   {"h", DType::f16},
                   {"w", DType::f64},
                   {"i", DType::i32},
                   {"u", DType::u8},
                   {"ok", DType::boolean},
                   {"exp", DType::f32},
                   {"true", DType::f32}},
                  {{"Q", DType::f16}, {"/layer/MatMul:0", DType::f32}}};

Expr parsed(std::string_view text) {
  auto e = parse_expr(text, scope, "t");
  EXPECT_TRUE(e.has_value()) << text << ": " << (e ? "" : e.error().text());
  return e ? *e : Expr();
}

std::string error_of(std::string_view text) {
  const auto e = parse_expr(text, scope, "t");
  EXPECT_FALSE(e.has_value()) << text << " read as " << (e ? to_string(*e) : "");
  return e ? "" : e.error().text();
}

/// Text that the printer gives back unchanged.
TEST(ExprText, NormalTextIsAFixpoint) {
  for (const std::string text : {"exp(s - m)",
                                 "where(kv <= q, 0.0, -inf)",
                                 "Q[batch, head, q, d]",
                                 "exp(m - m') * s",
                                 "a.m + 0.125 * s",
                                 "(q + kv) * 2 - (q - 3)",
                                 "q // 8 % 3",
                                 "q % 8 // 3",
                                 "q * (kv // 2)",
                                 "-s * m",
                                 "-(s * m)",
                                 "q - 5",
                                 "not (ok and q < kv) or ok",
                                 "ok == (q < kv)",
                                 "not ok and ok",
                                 "(ok or ok == isnan(s)) and q == 0",
                                 "f32(h) * s",
                                 "h + 0.5",
                                 "f16(s) + where(ok, 0.0, -inf)",
                                 "where(ok, f16(0.5), 1.0)",
                                 "f16(0.1)",
                                 "i32(5)",
                                 "i - 5",
                                 "i + 7",
                                 "w * 0.1",
                                 "f64(0.1)",
                                 "u + 3",
                                 "f32(where(ok, 1, 2))",
                                 "min(q, kv)",
                                 "maxnum(s, m)",
                                 "pow(s, 2.0)",
                                 "reciprocal(s)",
                                 "round_even(s)",
                                 "isnan(s) or isinf(m)",
                                 "tanh(erf(s))",
                                 "true",
                                 "nan",
                                 "inf",
                                 "-0.0",
                                 "1e+300",
                                 "5e-324",
                                 "-9223372036854775808",
                                 "`seq len` + n",
                                 "`/layer/MatMul:0`[q, order]",
                                 "exp(exp)",
                                 "`true` * s",
                                 "s - -1.0",
                                 "s + -1.0",
                                 "2.0 - s",
                                 "s / m / s",
                                 "s / (m / s)",
                                 "s - (m - s)",
                                 "bool(q)",
                                 "i64(i) + q",
                                 "where(q < 3, where(kv < 2, q, 1), 0)",
                                 "Q[0, 1]",
                                 "sign(-s)"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
}

TEST(ExprText, ReadsTheWordsOfTheDesign) {
  const Expr s = Expr::value("s", DType::f32), q = Expr::axis("q"), kv = Expr::axis("kv");
  EXPECT_EQ(parsed("where(kv <= q, 0, -inf) + s"),
            Expr::select(less_equal(kv, q), Expr::constant(DType::f32, 0), Expr::constant(DType::f32, -inf)) + s);
  EXPECT_EQ(parsed("q >= kv"), less_equal(kv, q));
  EXPECT_EQ(parsed("q != kv"), logical_not(equal(q, kv)));
  EXPECT_EQ(parsed("s * 2"), s * Expr::constant(DType::f32, 2));
  EXPECT_EQ(parsed("s * (1/2.0)"), s * Expr::constant(DType::f32, 0.5));
  EXPECT_EQ(parsed("sqrt(4) * s"), s.type() == DType::f32 ? Expr::constant(DType::f32, 2) * s : s);
  EXPECT_EQ(parsed("h * where(ok, 0, 1.5)").type(), DType::f16);
  EXPECT_EQ(parsed("q+kv*2//3%5-1"), q + mod(floordiv(kv * 2, 3), 5) - 1);
  EXPECT_EQ(parsed("2 + 3 < q and not ok"),
            Expr::binary(Op::and_, less(5, q), logical_not(Expr::value("ok", DType::boolean))));
}

TEST(ExprText, ErrorsHaveAPlaceAndAReason) {
  EXPECT_EQ(error_of("q + zz"), "t:5: unknown name 'zz'");
  EXPECT_EQ(error_of("q +"), "t:4: expected an expression but the text ends");
  EXPECT_THAT(error_of("s + q"), HasSubstr("t:3: operands of '+' have types f32 and i64"));
  EXPECT_THAT(error_of("(q + 1"), HasSubstr("expected ')'"));
  EXPECT_THAT(error_of("q q"), HasSubstr("t:3: unexpected 'q'"));
  EXPECT_THAT(error_of("exp(s, s)"), HasSubstr("takes 1 argument"));
  EXPECT_THAT(error_of("exp(q)"), HasSubstr("needs a float"));
  EXPECT_THAT(error_of("foo(s)"), HasSubstr("unknown function 'foo'"));
  EXPECT_THAT(error_of("q < kv < d"), HasSubstr("do not chain"));
  EXPECT_THAT(error_of("s and ok"), HasSubstr("needs conditions"));
  EXPECT_THAT(error_of("not s"), HasSubstr("condition"));
  EXPECT_THAT(error_of("1/2 * s"), HasSubstr("division of integers"));
  EXPECT_THAT(error_of("Q"), HasSubstr("needs indices"));
  EXPECT_THAT(error_of("Q[s]"), HasSubstr("index must be an integer"));
  EXPECT_THAT(error_of("R[q]"), HasSubstr("unknown tensor 'R'"));
  EXPECT_THAT(error_of("u8(300)"), HasSubstr("does not fit in u8"));
  EXPECT_THAT(error_of("9223372036854775808"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("1e999"), HasSubstr("out of the range"));
  EXPECT_THAT(error_of("1.2.3"), HasSubstr("not a number"));
  EXPECT_THAT(error_of("`q"), HasSubstr("closing backtick"));
  EXPECT_THAT(error_of("where(s, 1, 2)"), HasSubstr("condition"));
  EXPECT_THAT(error_of(""), HasSubstr("text ends"));
  EXPECT_THAT(error_of("q + not ok"), HasSubstr("found 'not'"));
  EXPECT_THAT(error_of("ok < ok"), HasSubstr("of conditions"));
  EXPECT_THAT(error_of("3q"), HasSubstr("letter"));
  EXPECT_THAT(error_of("i + 3000000000"), HasSubstr("types"));
}

TEST(ExprText, HostileDepthIsAnError) {
  EXPECT_THAT(error_of(std::string(100000, '(')), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(std::string(100000, '-') + "q"), HasSubstr("nested too deeply"));
  std::string sum = "q", calls;
  for (int i = 0; i < 20000; ++i) sum += "+kv";
  EXPECT_THAT(error_of(sum), HasSubstr("nested too deeply"));
  for (int i = 0; i < 100000; ++i) calls += "not ";
  EXPECT_THAT(error_of(calls + "ok"), HasSubstr("nested too deeply"));
}

TEST(ExprText, FloatConstantsRoundTripExactly) {
  std::mt19937_64 engine(7);
  const Scope none;
  for (int i = 0; i < 3000; ++i) {
    const double v = std::bit_cast<double>(engine());
    for (const DType type : {DType::f64, DType::f32, DType::f16}) {
      const Expr e = Expr::constant(type, i % 2 ? v : static_cast<double>(static_cast<float>(v)));
      const auto back = parse_expr(to_string(e), none);
      ASSERT_TRUE(back.has_value()) << to_string(e);
      ASSERT_EQ(*back, e) << to_string(e);
    }
  }
}

/// Random float expressions over every op and type: parse(print(x)) == x.
TEST(ExprText, RandomExpressionsRoundTrip) {
  std::mt19937 engine(11);
  const auto below = [&](int bound) { return static_cast<int>(engine() % static_cast<unsigned>(bound)); };
  const DType types[] = {DType::f32, DType::f16, DType::f64, DType::i32, DType::u8, DType::i64};
  Scope names;
  for (const DType type : types) names.values["v_" + std::string(name(type))] = type;
  names.values["p"] = DType::boolean;
  names.tensors["T"] = DType::f16;
  std::function<Expr(DType, int)> any;
  any = [&](DType type, int depth) -> Expr {
    if (type == DType::boolean) {
      if (depth == 0) return below(3) ? Expr::value("p", type) : Expr::boolean(below(2));
      const DType inner = types[below(6)];
      const Op ops[] = {Op::lt, Op::le, Op::eq, Op::and_, Op::or_};
      const Op op = ops[below(5)];
      if (below(5) == 0) return logical_not(any(type, depth - 1));
      if (op == Op::and_ || op == Op::or_) return Expr::binary(op, any(type, depth - 1), any(type, depth - 1));
      const DType compared = op == Op::eq && below(4) == 0 ? DType::boolean : inner;
      return Expr::binary(op, any(compared, depth - 1), any(compared, depth - 1));
    }
    if (depth == 0) {
      if (below(2)) return Expr::value("v_" + std::string(name(type)), type);
      return is_float(type) ? Expr::constant(type, below(2) ? -inf : below(1000) / 7.0 - 50)
                            : Expr::integer(type == DType::u8 ? below(200) : below(2000000000) - 1000000000, type);
    }
    const auto sub = [&] { return any(type, depth - 1); };
    switch (below(8)) {
      case 0:
        return Expr::select(any(DType::boolean, depth - 1), sub(), sub());
      case 1:
        return Expr::cast(any(types[below(6)], depth - 1), type);
      case 2:
        return type == DType::f16 ? Expr::load("T", {any(DType::i64, depth - 1), any(DType::i32, 0)}, type) : -sub();
      case 3:
        return is_float(type) ? Expr::unary(static_cast<Op>(static_cast<int>(Op::neg) + below(14)), sub())
                              : Expr::unary(Op::abs, sub());
      default:
        return Expr::binary(static_cast<Op>(static_cast<int>(Op::add) + below(11)), sub(), sub());
    }
  };
  for (int trial = 0; trial < 4000; ++trial) {
    const Expr e = any(trial % 7 == 6 ? DType::boolean : types[trial % 7], 1 + trial % 4);
    const auto back = parse_expr(to_string(e), names);
    ASSERT_TRUE(back.has_value()) << back.error().text() << ": " << to_string(e);
    ASSERT_EQ(*back, e) << to_string(e) << "\n" << to_string(*back);
  }
}

}  // namespace
}  // namespace aicf
