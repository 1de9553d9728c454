// Elementwise operators against values computed by hand or with <cmath> in double.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::ramp;
using test::tensor;
using ::testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor unary(const std::string& op, const std::vector<double>& x, const std::vector<NamedAttribute>& attributes = {}) {
  GraphBuilder g("unary", 24);
  const auto in = g.input("x", DType::f32, {static_cast<int>(x.size())});
  g.output(g.add(op, {in}, attributes), "y");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {static_cast<std::int64_t>(x.size())}, x)}});
  return out.contains("y") ? out.at("y") : Tensor();
}

TEST(Elementwise, Unary) {
  const std::vector<double> x{-2, -0.5, 0, 0.25, 3};
  const auto check = [&](const std::string& op, double (*f)(double),
                         const std::vector<NamedAttribute>& attributes = {}) {
    std::vector<double> wanted;
    for (const double v : x) wanted.push_back(f(v));
    SCOPED_TRACE(op);
    expect_near(unary(op, x, attributes), {5}, wanted);
  };
  check("Neg", [](double v) { return -v; });
  check("Abs", [](double v) { return std::fabs(v); });
  check("Exp", [](double v) { return std::exp(v); });
  check("Erf", [](double v) { return std::erf(v); });
  check("Tanh", [](double v) { return std::tanh(v); });
  check("Sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); });
  check("Sin", [](double v) { return std::sin(v); });
  check("Cos", [](double v) { return std::cos(v); });
  check("Tan", [](double v) { return std::tan(v); });
  check("Sinh", [](double v) { return std::sinh(v); });
  check("Cosh", [](double v) { return std::cosh(v); });
  check("Sign", [](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; });
  check("Relu", [](double v) { return v > 0 ? v : 0; });
  check("LeakyRelu", [](double v) { return v > 0 ? v : 0.1 * v; }, {{"alpha", 0.1}});
  check("Elu", [](double v) { return v > 0 ? v : 2 * std::expm1(v); }, {{"alpha", 2.0}});
  check("Celu", [](double v) { return v > 0 ? v : 2 * std::expm1(v / 2); }, {{"alpha", 2.0}});
  check("Selu", [](double v) { return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); });
  check("Softplus", [](double v) { return std::log1p(std::exp(v)); });
  check("Softsign", [](double v) { return v / (1 + std::fabs(v)); });
  check("Mish", [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check("Swish", [](double v) { return v / (1 + std::exp(-v)); });
  check("HardSigmoid", [](double v) { return std::fmin(1, std::fmax(0, 0.2 * v + 0.5)); });
  check("HardSwish", [](double v) { return v * std::fmin(1, std::fmax(0, v / 6 + 0.5)); });
  check("ThresholdedRelu", [](double v) { return v > 1 ? v : 0; });
  check("Gelu", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check(
      "Gelu",
      [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v))); },
      {{"approximate", "tanh"}});
  check("com.microsoft.QuickGelu", [](double v) { return v / (1 + std::exp(-1.702 * v)); });
}

TEST(Elementwise, RoundingAndSpecialValues) {
  expect_near(unary("Round", {-2.5, -1.5, 0.5, 1.5, 2.4}), {5}, {-2, -2, 0, 2, 2});
  expect_near(unary("Floor", {-1.5, 1.5}), {2}, {-2, 1});
  expect_near(unary("Ceil", {-1.5, 1.5}), {2}, {-1, 2});
  expect_near(unary("Log", {1, 0, -1}), {3}, {0, -inf, nan});
  expect_near(unary("Softplus", {1000, -1000}), {2}, {1000, 0});
  expect_near(unary("Sigmoid", {-1000, 1000}), {2}, {0, 1});
  expect_near(unary("Relu", {nan, -inf}), {2}, {nan, 0});
  expect_near(unary("IsNaN", {nan, inf, 1}), {3}, {1, 0, 0});
  expect_near(unary("IsInf", {-inf, inf, nan}), {3}, {1, 1, 0});
  expect_near(unary("IsInf", {-inf, inf, nan}, {{"detect_negative", 0}}), {3}, {0, 1, 0});
}

Tensor binary(const std::string& op, DType type, const std::vector<double>& a, const std::vector<double>& b,
              const std::vector<NamedAttribute>& attributes = {}) {
  GraphBuilder g("binary", 17);
  const int n = static_cast<int>(a.size());
  g.output(g.add(op, {g.input("a", type, {n}), g.input("b", type, {n})}, attributes), "y");
  const auto out = test::run(g.build(), {{"a", tensor(type, {n}, a)}, {"b", tensor(type, {n}, b)}});
  return out.contains("y") ? out.at("y") : Tensor();
}

TEST(Elementwise, BinaryOnIntegersAndFloats) {
  expect_near(binary("Div", DType::i64, {7, -7, 7, -7}, {2, 2, -2, -2}), {4}, {3, -3, -3, 3});
  expect_near(binary("Div", DType::f32, {7, -7}, {2, 0}), {2}, {3.5, -inf});
  expect_near(binary("Mod", DType::i64, {7, -7, 7, -7}, {3, 3, -3, -3}), {4}, {1, 2, -2, -1});
  expect_near(binary("Mod", DType::i64, {7, -7, 7, -7}, {3, 3, -3, -3}, {{"fmod", 1}}), {4}, {1, -1, 1, -1});
  expect_near(binary("Mod", DType::f32, {7.5, -7.5}, {2, 2}, {{"fmod", 1}}), {2}, {1.5, -1.5});
  // Without fmod the sign is b's, as for integers.
  expect_near(binary("Mod", DType::f32, {7.5, -7.5, 7.5, -7.5, -4, 3, -3, inf}, {2, 2, -2, -2, 2, inf, inf, 2}), {8},
              {1.5, 0.5, -0.5, -1.5, 0, 3, inf, nan});
  expect_near(binary("Pow", DType::f32, {2, 9, -2}, {10, 0.5, 3}), {3}, {1024, 3, -8});
  expect_near(binary("Max", DType::f32, {1, nan}, {2, 0}), {2}, {2, nan});
  expect_near(binary("Equal", DType::i32, {1, 2}, {1, 3}), {2}, {1, 0});
  expect_near(binary("GreaterOrEqual", DType::f32, {1, 2, nan}, {1, 3, 0}), {3}, {1, 0, 0});
  expect_near(binary("Xor", DType::boolean, {0, 0, 1, 1}, {0, 1, 0, 1}), {4}, {0, 1, 1, 0});
}

TEST(Elementwise, InverseFunctions) {
  const auto check = [&](const std::string& op, double (*f)(double), const std::vector<double>& x) {
    SCOPED_TRACE(op);
    std::vector<double> wanted;
    for (const double v : x) wanted.push_back(f(static_cast<float>(v)));
    const Tensor y = unary(op, x);
    ASSERT_EQ(y.size(), static_cast<std::int64_t>(x.size()));
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double got = y.at(static_cast<std::int64_t>(k));
      if (std::isnan(wanted[k]) || std::isinf(wanted[k]))
        EXPECT_TRUE(std::isnan(wanted[k]) ? std::isnan(got) : got == wanted[k]) << x[k];
      else
        EXPECT_NEAR(got, wanted[k], 2e-7 * std::fabs(wanted[k])) << x[k];
    }
  };
  check("Atan", [](double v) { return std::atan(v); }, {0, 1e-5, -0.3, 0.66, 0.67, -1, 2.4, 2.5, -100, inf, -inf, nan});
  check("Asin", [](double v) { return std::asin(v); }, {0, 1e-5, -0.3, 0.7, -0.99, 1, -1, 1.5});
  check("Acos", [](double v) { return std::acos(v); }, {0, 1e-5, -0.3, 0.7, 0.9999, 1, -1, -1.5});
  check("Asinh", [](double v) { return std::asinh(v); }, {0, 1e-5, -0.03, 0.07, -1, 20, -1e6, 1e30, inf});
  check("Acosh", [](double v) { return std::acosh(v); }, {1, 1.00001, 1.5, 20, 1e6, 1e30, 0.5, inf});
  check("Atanh", [](double v) { return std::atanh(v); }, {0, 1e-5, -0.03, 0.5, -0.999, 1, -1, 1.5});
}

TEST(Elementwise, Shrink) {
  expect_near(unary("Shrink", {-2, -1, 0.5, 1.5}, {{"lambd", 1.0}, {"bias", 0.25}}), {4}, {-1.75, 0, 0, 1.25});
}

TEST(Elementwise, SwiGlu) {
  GraphBuilder g("swiglu", 28);
  const auto a = g.input("a", DType::f32, {2}), b = g.input("b", DType::f32, {2});
  g.output(g.add("SwiGLU", {a, b}, {{"alpha", 2.0}}), "y");
  const auto out =
      test::run(g.build(), {{"a", tensor(DType::f32, {2}, {1, -3})}, {"b", tensor(DType::f32, {2}, {5, 2})}});
  expect_near(out.at("y"), {2}, {5 / (1 + std::exp(-2)), -6 / (1 + std::exp(6))});
}

TEST(Elementwise, PowByAConstantKeepsTheSign) {
  GraphBuilder g("pow");
  const auto x = g.input("x", DType::f32, {3});
  for (const int p : {1, 2, 3, 4}) g.output(g.add("Pow", {x, g.scalar(DType::i64, p)}), "y" + std::to_string(p));
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {3}, {-2, 0.5, 3})}});
  expect_near(out.at("y1"), {3}, {-2, 0.5, 3});
  expect_near(out.at("y2"), {3}, {4, 0.25, 9});
  expect_near(out.at("y3"), {3}, {-8, 0.125, 27});
  expect_near(out.at("y4"), {3}, {16, 0.0625, 81});
}

TEST(Elementwise, Broadcasting) {
  GraphBuilder g("broadcast");
  const auto a = g.input("a", DType::f32, {2, 1, 3}), b = g.input("b", DType::f32, {2, 1});
  g.output(g.add("Sub", {a, b}), "y");
  const auto out =
      test::run(g.build(), {{"a", ramp(DType::f32, {2, 1, 3}, 0, 1)}, {"b", tensor(DType::f32, {2, 1}, {10, 20})}});
  expect_near(out.at("y"), {2, 2, 3}, {-10, -9, -8, -20, -19, -18, -7, -6, -5, -17, -16, -15});
}

TEST(Elementwise, SelectClipCastAndVariadic) {
  GraphBuilder g("mixed");
  const auto c = g.input("c", DType::boolean, {3}), x = g.input("x", DType::f32, {3});
  g.output(g.add("Where", {c, x, g.scalar(DType::f32, -inf)}), "where");
  g.output(g.add("Clip", {x, "", g.scalar(DType::f32, 1)}), "clip");
  g.output(g.add("Cast", {x}, {{"to", 7}}), "whole");
  g.output(g.add("Cast", {c}, {{"to", 1}}), "real");
  g.output(g.add("CastLike", {x, c}), "truth");
  g.output(g.add("Mean", {x, x, g.scalar(DType::f32, 3)}), "mean");
  g.output(g.add("Min", {x, g.scalar(DType::f32, 0)}), "min");
  g.output(g.add("PRelu", {x, g.scalar(DType::f32, 0.5)}), "prelu");
  const auto out = test::run(
      g.build(), {{"c", tensor(DType::boolean, {3}, {1, 0, 1})}, {"x", tensor(DType::f32, {3}, {-1.75, 0, 2.75})}});
  expect_near(out.at("where"), {3}, {-1.75, -inf, 2.75});
  expect_near(out.at("clip"), {3}, {-1.75, 0, 1});
  expect_near(out.at("whole"), {3}, {-1, 0, 2});
  EXPECT_EQ(out.at("whole").type(), DType::i64);
  expect_near(out.at("real"), {3}, {1, 0, 1});
  expect_near(out.at("truth"), {3}, {1, 0, 1});
  expect_near(out.at("mean"), {3}, {-0.5 / 3, 1, 8.5 / 3});
  expect_near(out.at("min"), {3}, {-1.75, 0, 0});
  expect_near(out.at("prelu"), {3}, {-0.875, 0, 2.75});
}

TEST(Elementwise, ScalarsAreInlinedAndExact) {
  GraphBuilder g("scale");
  const auto x = g.input("x", DType::f32, {"n"});
  const auto size = g.add("Cast", {g.integers({64})}, {{"to", 1}});
  g.output(g.add("Mul", {x, g.add("Div", {g.scalar(DType::f32, 1), g.add("Sqrt", {size})})}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  EXPECT_THAT(to_string(model->graph), HasSubstr("x[i0] * 0.125"));
  EXPECT_EQ(model->folded.size(), 3u);
}

TEST(Elementwise, Errors) {
  GraphBuilder g("bad");
  const auto a = g.input("a", DType::f32, {2, 3, 4}), b = g.input("b", DType::f32, {5});
  const auto y = g.add("Add", {a, b});
  g.output(y);
  EXPECT_THAT(test::error_of(g.build()),
              HasSubstr("node 'Add_0' (Add): dims of [2, 3, 4] and [5] disagree: 4 against 5"));
  GraphBuilder h("bad");
  h.output(
      h.add("Where", {h.input("c", DType::f32, {2}), h.input("p", DType::f32, {2}), h.input("q", DType::f32, {2})}));
  EXPECT_THAT(test::error_of(h.build()), HasSubstr("input 0 is f32, bool wanted"));
  GraphBuilder k("bad");
  k.output(k.add("Cast", {k.input("c", DType::f32, {2})}, {{"to", 17}}));
  EXPECT_THAT(test::error_of(k.build()), HasSubstr("FLOAT8E4M3FN"));
}

}  // namespace
}  // namespace aicf
