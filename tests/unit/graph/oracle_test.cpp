#include "mir/graph/oracle.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "helpers.h"

namespace aicf {
namespace {

using test::graph_of;
using test::run;
using test::tensor;
using test::values;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::NanSensitiveDoubleEq;
using testing::Pointwise;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

MATCHER_P(Same, expected, "") {
  return testing::ExplainMatchResult(Pointwise(testing::NanSensitiveDoubleEq(), std::vector<double>(expected)), arg,
                                     result_listener);
}
auto same(std::vector<double> expected) {
  return Same(std::move(expected));
}

Tensor f32(std::vector<std::int64_t> shape, const std::vector<double>& v) {
  return tensor(DType::f32, std::move(shape), v);
}
Tensor i64(std::vector<std::int64_t> shape, const std::vector<double>& v) {
  return tensor(DType::i64, std::move(shape), v);
}
Tensor flags(std::vector<std::int64_t> shape, const std::vector<double>& v) {
  return tensor(DType::boolean, std::move(shape), v);
}

TEST(Oracle, MatMulByHand) {
  const auto out = run(R"(
input a: f32[2, 3]
input b: f32[3, 2]
c: f32[i=2, j=2] = sum(a[i, k] * b[k, j] over k=3)
output c as "c")",
                       {{"a", f32({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", f32({3, 2}, {7, 8, 9, 10, 11, 12})}});
  EXPECT_THAT(out, ElementsAre(58, 64, 139, 154));
}

TEST(Oracle, SoftmaxChain) {
  const auto out = run(R"(
input x: f32[1, n]
m: f32[r=1] = max(x[r, k] over k=n)
e: f32[r=1, k=n] = exp(x[r, k] - m[r])
l: f32[r=1] = sum(e[r, k] over k=n)
p: f32[r=1, k=n] = e[r, k] / l[r]
output p as "p")",
                       {{"x", f32({1, 3}, {0, 1, 3})}}, {{"n", 3}});
  const double l = std::exp(-3.0) + std::exp(-2.0) + 1;
  EXPECT_THAT(out, Pointwise(testing::DoubleEq(), {std::exp(-3.0) / l, std::exp(-2.0) / l, 1 / l}));
}

TEST(Oracle, MovesReadTheRightElements) {
  const NamedTensors inputs{
      {"a", f32({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", f32({1, 3}, {7, 8, 9})}, {"ids", i64({3}, {1, 0, 1})}};
  const std::string head = "input a: f32[2, 3]\ninput b: f32[1, 3]\ninput ids: i64[3]\n";
  const auto eval = [&](const std::string& node) { return run(head + node + "\noutput y as \"y\"", inputs); };
  EXPECT_THAT(eval("y: f32[j=3, i=2] = a[i, j]"), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(eval("y: f32[i=3, j=3] = where(i < 2, a[i, j], b[i - 2, j])"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(eval("y: f32[i=2, j=5] = where(j >= 1 and j < 4, a[i, j - 1], 0.5)"),
              ElementsAre(0.5, 1, 2, 3, 0.5, 0.5, 4, 5, 6, 0.5));
  EXPECT_THAT(eval("y: f32[i=3, j=3] = a[ids[i], j]"), ElementsAre(4, 5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(eval("y: f32[i=3, j=2] = a[(i * 2 + j) // 3, (i * 2 + j) % 3]"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(eval("y: f32[i=2, j=3] = a[1 - i, 2 - j]"), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(eval("y: f32[i=2, j=2] = a[i, j * 2]"), ElementsAre(1, 3, 4, 6));
  EXPECT_THAT(eval("y: f32[i=2, j=3] = b[0, j]"), ElementsAre(7, 8, 9, 7, 8, 9));
  EXPECT_THAT(eval("y: f32[i=1, j=3] = a[i + 1, j]"), ElementsAre(4, 5, 6));
  EXPECT_THAT(eval("y: f32[] = a[1, 2]"), ElementsAre(6));
  EXPECT_THAT(eval("y: i64[i=2, j=3] = i * 10 + j"), ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST(Oracle, Reductions) {
  const auto eval = [&](const std::string& type, const std::string& reduction, const Tensor& x) {
    const std::string input = x.type() == DType::boolean ? "bool" : x.type() == DType::f32 ? "f32" : "i8";
    return run(
        "input x: " + input + "[2, n]\ny: " + type + "[i=2] = " + reduction + "(x[i, k] over k=n)\noutput y as \"y\"",
        {{"x", x}}, {{"n", x.shape()[1]}});
  };
  const Tensor x = f32({2, 3}, {1, -2, 4, 0.5, 8, 0.25});
  EXPECT_THAT(eval("f32", "sum", x), ElementsAre(3, 8.75));
  EXPECT_THAT(eval("f32", "prod", x), ElementsAre(-8, 1));
  EXPECT_THAT(eval("f32", "max", x), ElementsAre(4, 8));
  EXPECT_THAT(eval("f32", "min", x), ElementsAre(-2, 0.25));
  EXPECT_THAT(eval("f32", "first", x), ElementsAre(1, 0.5));
  const Tensor with_nan = f32({2, 3}, {1, nan, 4, nan, nan, nan});
  EXPECT_THAT(eval("f32", "max", with_nan), same({nan, nan}));
  EXPECT_THAT(eval("f32", "min", with_nan), same({nan, nan}));
  EXPECT_THAT(eval("f32", "maxnum", with_nan), same({4, -inf}));
  EXPECT_THAT(eval("f32", "minnum", with_nan), same({1, inf}));
  EXPECT_THAT(eval("f32", "sum", with_nan), same({nan, nan}));
  const Tensor bools = flags({2, 2}, {0, 1, 0, 0});
  EXPECT_THAT(eval("bool", "any", bools), ElementsAre(1, 0));
  EXPECT_THAT(eval("bool", "all", flags({2, 2}, {1, 1, 0, 1})), ElementsAre(1, 0));
  // Sums of narrow integers wrap as the type does: 100 + 100 is -56.
  EXPECT_THAT(eval("i8", "sum", tensor(DType::i8, {2, 2}, {100, 100, -3, 5})), ElementsAre(-56, 2));
  EXPECT_THAT(eval("i8", "max", tensor(DType::i8, {2, 2}, {100, -100, -3, -5})), ElementsAre(100, -3));
}

TEST(Oracle, EmptyReductionsAreNeutral) {
  const auto eval = [&](const std::string& type, const std::string& reduction) {
    return run(
        "input x: " + type + "[2, 0]\ny: " + type + "[i=2] = " + reduction + "(x[i, k] over k=0)\noutput y as \"y\"",
        {{"x", Tensor(*parse_dtype(type), {2, 0})}});
  };
  EXPECT_THAT(eval("f32", "sum"), ElementsAre(0, 0));
  EXPECT_THAT(eval("f32", "prod"), ElementsAre(1, 1));
  EXPECT_THAT(eval("f32", "max"), ElementsAre(-inf, -inf));
  EXPECT_THAT(eval("f32", "min"), ElementsAre(inf, inf));
  EXPECT_THAT(eval("i8", "max"), ElementsAre(-128, -128));
  EXPECT_THAT(eval("bool", "any"), ElementsAre(0, 0));
  EXPECT_THAT(eval("bool", "all"), ElementsAre(1, 1));
  // 0/0 of the empty softmax, and a result without elements.
  EXPECT_THAT(run("input x: f32[0, 3]\ny: f32[i=0, j=3] = exp(x[i, j])\noutput y as \"y\"",
                  {{"x", Tensor(DType::f32, {0, 3})}}),
              IsEmpty());
  EXPECT_THAT(run("input a: f32[2, 0]\ninput b: f32[0, 2]\ny: f32[i=2, j=2] = sum(a[i, k] * b[k, j] over k=0)\noutput "
                  "y as \"y\"",
                  {{"a", Tensor(DType::f32, {2, 0})}, {"b", Tensor(DType::f32, {0, 2})}}),
              ElementsAre(0, 0, 0, 0));
}

TEST(Oracle, NanInScalars) {
  const auto eval = [&](const std::string& body, const std::string& type = "f32") {
    return run("input x: f32[4]\ninput z: f32[4]\ny: " + type + "[i=4] = " + body + "\noutput y as \"y\"",
               {{"x", f32({4}, {nan, 1, inf, -inf})}, {"z", f32({4}, {2, nan, 0, 0})}});
  };
  EXPECT_THAT(eval("max(x[i], z[i])"), same({nan, nan, inf, 0}));
  EXPECT_THAT(eval("min(x[i], z[i])"), same({nan, nan, 0, -inf}));
  EXPECT_THAT(eval("maxnum(x[i], z[i])"), same({2, 1, inf, 0}));
  EXPECT_THAT(eval("minnum(x[i], z[i])"), same({2, 1, 0, -inf}));
  EXPECT_THAT(eval("isnan(x[i])", "bool"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(eval("isinf(x[i])", "bool"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(eval("x[i] < z[i]", "bool"), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(eval("x[i] != z[i]", "bool"), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(eval("where(isnan(x[i]), 0.0, x[i])"), same({0, 1, inf, -inf}));
  EXPECT_THAT(eval("x[i] * z[i]"), same({nan, nan, nan, nan}));
  EXPECT_THAT(eval("sign(x[i])"), same({nan, 1, 1, -1}));
  EXPECT_THAT(eval("round_even(z[i] + 0.5)"), same({2, nan, 0, 0}));
}

TEST(Oracle, IntegersAreExact) {
  const auto eval = [&](const std::string& body, const std::string& type = "i64") {
    return run("input x: i64[4]\ninput z: i64[4]\ny: " + type + "[i=4] = " + body + "\noutput y as \"y\"",
               {{"x", i64({4}, {7, -7, 7, -7})}, {"z", i64({4}, {2, 2, -2, -2})}});
  };
  EXPECT_THAT(eval("x[i] / z[i]"), ElementsAre(3, -3, -3, 3));
  EXPECT_THAT(eval("x[i] // z[i]"), ElementsAre(3, -4, -4, 3));
  EXPECT_THAT(eval("x[i] % z[i]"), ElementsAre(1, 1, -1, -1));
  EXPECT_THAT(eval("pow(z[i], i64(3))"), ElementsAre(8, 8, -8, -8));
  EXPECT_THAT(eval("i8(x[i] * 100)", "i8"), ElementsAre(-68, 68, -68, 68));  // ±700 modulo 256
  EXPECT_THAT(eval("f32(x[i]) / 2.0", "f32"), ElementsAre(3.5, -3.5, 3.5, -3.5));
  // 2^53 + 1 has no double.
  const Graph g = graph_of("input x: i64[1]\ny: i64[i=1] = x[i] * x[i] + 1\noutput y as \"y\"");
  const auto out = evaluate_graph(g, {}, {{"x", i64({1}, {94906266})}}, {});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at("y").type(), DType::i64);
  EXPECT_EQ(out->at("y").int_at(0), 9007199326062757);
}

TEST(Oracle, CastsRoundAndOtherOperationsDoNot) {
  const double third = 1.0f / 3.0f;
  const NamedTensors inputs{{"x", f32({2}, {1, -1})}};
  const auto eval = [&](const std::string& body, const std::string& type) {
    return run("input x: f32[2]\ny: " + type + "[i=2] = " + body + "\noutput y as \"y\"", inputs);
  };
  EXPECT_THAT(eval("x[i] / 3.0", "f32"), ElementsAre(1.0 / 3.0, -1.0 / 3.0));
  EXPECT_THAT(eval("f32(f64(x[i]) / 3.0)", "f32"), ElementsAre(third, -third));
  EXPECT_THAT(eval("f16(x[i] / 3.0)", "f16"), ElementsAre(0.333251953125, -0.333251953125));
  EXPECT_THAT(eval("f16(x[i] * 1e6)", "f16"), ElementsAre(inf, -inf));
  // In f16 the sum would be 1: f16 intermediates count as f32.
  EXPECT_THAT(eval("f16(x[i]) + 0.0001220703125", "f16"), ElementsAre(1.0001220703125, -0.9998779296875));
  EXPECT_THAT(eval("i32(x[i] * 2.75)", "i32"), ElementsAre(2, -2));
  EXPECT_THAT(eval("bool(x[i] - 1.0)", "bool"), ElementsAre(0, 1));
  // 2.9999999999999996 in float64, 3 in f32: a float is of its own type before it becomes an integer.
  EXPECT_THAT(eval("i32(x[i] * (log(abs(x[i]) * 1000.0) / log(abs(x[i]) * 10.0)))", "i32"), ElementsAre(3, -3));
}

TEST(Oracle, SumsWithSentinelsRound) {
  const NamedTensors inputs{{"x", f32({3}, {3.3, -70, 1})}, {"m", f32({3}, {-1e9, 0, -9999})}};
  const auto eval = [&](const std::string& body, const std::string& type = "f32") {
    return run("input x: f32[3]\ninput m: f32[3]\ny: " + type + "[i=3] = " + body + "\noutput y as \"y\"", inputs);
  };
  const double x0 = static_cast<float>(3.3);
  // One ulp of f32 at 1e9 is 64: the score is absorbed; without a sentinel nothing rounds.
  EXPECT_THAT(eval("x[i] + m[i]"), ElementsAre(-1e9, -70, 1.0 - 9999));
  EXPECT_THAT(eval("m[i] - x[i]"), ElementsAre(-1e9, 70, -1.0 - 9999));
  EXPECT_THAT(eval("x[i] + -1e9"), ElementsAre(-1e9, -1000000064, -1e9));
  EXPECT_THAT(eval("x[i] - (0.0 - m[i])"), ElementsAre(-1e9, -70, 1.0 - 9999));
  EXPECT_THAT(eval("f64(x[i]) + -1e9", "f64"), ElementsAre(x0 - 1e9, -1e9 - 70, 1 - 1e9));
  EXPECT_THAT(eval("f16(x[i]) + -10000.0", "f16"), ElementsAre(static_cast<float>(3.30078125 - 1e4), -10070, -9999));
  // A select rounds what it chooses, and only if that is a sentinel.
  EXPECT_THAT(eval("where(x[i] > 2.0, -1e9, x[i] / 3.0)"), ElementsAre(-1e9, -70.0 / 3.0, 1.0 / 3.0));
  EXPECT_THAT(eval("where(x[i] > 2.0, m[i] * 1.0000000001, x[i])"),
              ElementsAre(static_cast<float>(-1e9 * 1.0000000001), -70, 1));
}

TEST(Oracle, LogarithmsOfProbabilitiesRound) {
  const NamedTensors inputs{{"x", tensor(DType::f64, {4}, {1e-60, 0.3, 1, 3})}};
  const auto out = run("input x: f32[4]\ny: f32[i=4] = log(x[i])\noutput y as \"y\"", inputs);
  // 1e-60 is 0 in f32.
  EXPECT_THAT(out, ElementsAre(-inf, static_cast<float>(std::log(static_cast<double>(0.3f))), 0, std::log(3.0)));
  const auto wide = run("input x: f64[4]\ny: f64[i=4] = log(x[i])\noutput y as \"y\"", inputs);
  EXPECT_THAT(wide[0], DoubleNear(-138.155105579643, 1e-11));
}

TEST(Oracle, OnlyTheChosenSideIsLoaded) {
  const NamedTensors inputs{{"x", f32({4}, {1, 2, 3, 4})}, {"ids", i64({6}, {0, 9, 3, -1, 1, 9})}};
  const auto eval = [&](const std::string& body) {
    return run("input x: f32[4]\ninput ids: i64[6]\ny: f32[i=6] = " + body + "\noutput y as \"y\"", inputs);
  };
  EXPECT_THAT(eval("where(ids[i] >= 0 and ids[i] < 4, x[ids[i]], -1.0)"), ElementsAre(1, -1, 4, -1, 2, -1));
  EXPECT_THAT(eval("where(i < 4, x[i], where(i == 4, x[i - 4], x[i - 3] * 10.0))"), ElementsAre(1, 2, 3, 4, 1, 30));
  // The same unsafe load behind two different conditions, and inside both sides of one.
  EXPECT_THAT(eval("where(i < 4, x[i], 0.0) + where(i < 3, x[i] * 2.0, 1.0)"), ElementsAre(3, 6, 9, 5, 1, 1));
  EXPECT_THAT(eval("where(i < 4, where(i < 2, x[i] + 1.0, x[i]), 0.0)"), ElementsAre(2, 3, 3, 4, 0, 0));
  // A condition that itself needs a guarded load.
  EXPECT_THAT(eval("where(where(i < 4, x[i] > 2.0, false), x[i], 0.0)"), ElementsAre(0, 0, 3, 4, 0, 0));
  // An empty tensor that is never read.
  EXPECT_THAT(run("input e: f32[n]\ninput x: f32[2]\ny: f32[i=n + 2] = where(i < n, e[i], x[i - n])\noutput y as \"y\"",
                  {{"e", Tensor(DType::f32, {0})}, {"x", f32({2}, {5, 6})}}, {{"n", 0}}),
              ElementsAre(5, 6));
}

TEST(Oracle, ErrorsNameWhatIsWrong) {
  const Graph g = graph_of("input x: f32[n]\ninput ids: i64[2]\ny: f32[i=2] = x[ids[i]]\noutput y as \"y\"");
  const auto error = [&](const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                         const std::set<std::string>& wanted = {}) {
    const auto result = evaluate_graph(g, {}, inputs, symbols, wanted);
    return result ? "no error" : result.error().text();
  };
  const Tensor x = f32({4}, {1, 2, 3, 4});
  EXPECT_EQ(error({{"x", x}, {"ids", i64({2}, {3, 0})}}, {{"n", 4}}), "no error");
  EXPECT_EQ(error({{"x", x}, {"ids", i64({2}, {3, 4})}}, {{"n", 4}}),
            "node 'y': index 4 leaves dimension 0 of 'x', which has extent 4, at i = 1");
  EXPECT_EQ(error({{"x", x}, {"ids", i64({2}, {-1, 4})}}, {{"n", 4}}),
            "node 'y': index -1 leaves dimension 0 of 'x', which has extent 4, at i = 0");
  EXPECT_THAT(error({{"x", x}}, {{"n", 4}}), HasSubstr("input 'ids' has no value"));
  EXPECT_THAT(error({{"x", x}, {"ids", i64({2}, {0, 0})}}, {}), HasSubstr("'n' has no value"));
  EXPECT_THAT(error({{"x", x}, {"ids", i64({2}, {0, 0})}}, {{"n", 5}}), HasSubstr("'x' has shape [5], its value [4]"));
  EXPECT_THAT(error({{"x", x}, {"ids", f32({2}, {0, 0})}}, {{"n", 4}}), HasSubstr("'ids' is i64, its value f32"));
  EXPECT_THAT(error({}, {}, {"z"}), HasSubstr("no tensor 'z'"));
  const Graph huge = graph_of("y: f32[i=n, j=n] = f32(i + j)\noutput y as \"y\"");
  const auto too_large = evaluate_graph(huge, {}, {}, {{"n", 1'000'000}});
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().kind, ErrorKind::run_failure);
}

TEST(Oracle, WantedTensorsConstantsAndTypes) {
  const Graph g = graph_of(R"(
input x: f16[2]
input unused: f32[2]
constant c: f32[2] = #1
a: f32[i=2] = f32(x[i]) + c[i]
b: bool[i=2] = a[i] > 2.0
output b as "result")");
  const std::vector<Tensor> constants{f32({2}, {9, 9}), f32({2}, {1, 0.5})};
  const NamedTensors inputs{{"x", tensor(DType::f16, {2}, {1.5, 1})}};
  auto out = evaluate_graph(g, constants, inputs, {});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(out->at("b").type(), DType::boolean);
  EXPECT_THAT(values(out->at("b")), ElementsAre(1, 0));
  out = evaluate_graph(g, constants, inputs, {}, {"a", "c", "x"});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(out->size(), 3u);
  EXPECT_EQ(out->at("a").type(), DType::f64);
  EXPECT_THAT(values(out->at("a")), ElementsAre(2.5, 1.5));
  EXPECT_THAT(values(out->at("c")), ElementsAre(1, 0.5));
}

}  // namespace
}  // namespace aicf
