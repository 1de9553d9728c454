// Reductions, softmax and normalisation on small tensors.

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

const std::vector<double> small{1, -2, 3, 4, 5, -6};  // [2, 3]

Tensor reduced(const std::string& op, const std::vector<NamedAttribute>& attributes, DType type = DType::f32) {
  GraphBuilder g("reduce", 17);
  g.output(g.add(op, {g.input("x", type, {2, 3})}, attributes), "y");
  const auto out = test::run(g.build(), {{"x", tensor(type, {2, 3}, small)}});
  return out.contains("y") ? out.at("y") : Tensor();
}

TEST(Reduction, EveryKindOverTheLastAxis) {
  const std::vector<NamedAttribute> last{{"axes", {-1}}, {"keepdims", 0}};
  expect_near(reduced("ReduceMean", last), {2}, {2.0 / 3, 1});
  expect_near(reduced("ReduceMax", last), {2}, {3, 5});
  expect_near(reduced("ReduceMin", last), {2}, {-2, -6});
  expect_near(reduced("ReduceProd", last), {2}, {-6, -120});
  expect_near(reduced("ReduceL1", last), {2}, {6, 15});
  expect_near(reduced("ReduceL2", last), {2}, {std::sqrt(14.0), std::sqrt(77.0)});
  expect_near(reduced("ReduceSumSquare", last), {2}, {14, 77});
  expect_near(reduced("ReduceLogSum", last), {2}, {std::log(2.0), std::log(3.0)});
  expect_near(reduced("ReduceLogSumExp", last), {2},
              {std::log(std::exp(1.0) + std::exp(-2.0) + std::exp(3.0)),
               std::log(std::exp(4.0) + std::exp(5.0) + std::exp(-6.0))});
  expect_near(reduced("ReduceMean", last, DType::i32), {2}, {0, 1});
}

TEST(Reduction, AxesAsInputAndKeptDims) {
  GraphBuilder g("reduce", 18);
  const auto x = g.input("x", DType::f32, {2, 3});
  g.output(g.add("ReduceSum", {x, g.integers({0})}), "kept");
  g.output(g.add("ReduceSum", {x}, {{"keepdims", 0}}), "all");
  g.output(g.add("ReduceSum", {x}, {{"noop_with_empty_axes", 1}}), "none");
  g.output(g.add("ReduceSum", {x, g.integers({1, 0})}, {{"keepdims", 0}}), "both");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {2, 3}, small)}});
  expect_near(out.at("kept"), {1, 3}, {5, 3, -3});
  expect_near(out.at("all"), {}, {5});
  expect_near(out.at("none"), {2, 3}, small);
  expect_near(out.at("both"), {}, {5});
}

TEST(Reduction, AxesFixedWhileImporting) {
  GraphBuilder g("reduce", 18);
  const auto x = g.input("x", DType::f32, {2, 3});
  g.output(g.add("ReduceSum", {x, g.input("axes", DType::i64, {"k"})}, {{"keepdims", 0}}), "y");
  const SemanticGraph graph = g.build();
  EXPECT_THAT(canonicalise(graph).error().text(), HasSubstr("must be known while compiling"));
  const NamedTensors inputs{{"x", tensor(DType::f32, {2, 3}, small)}};
  expect_near(test::run(graph, inputs, {{}, {{"axes", tensor(DType::i64, {1}, {1})}}}).at("y"), {2}, {2, 3});
  expect_near(test::run(graph, inputs, {{}, {{"axes", tensor(DType::i64, {2}, {0, 1})}}}).at("y"), {}, {5});
  EXPECT_THAT(canonicalise(graph, {{}, {{"axes", tensor(DType::i32, {1}, {1})}}}).error().text(),
              HasSubstr("does not have its type and shape"));
  EXPECT_THAT(canonicalise(graph, {{}, {{"axis", tensor(DType::i64, {1}, {1})}}}).error().text(),
              HasSubstr("no input of the model"));
}

TEST(Reduction, EmptyAxisGivesTheNeutralElement) {
  GraphBuilder g("reduce", 18);
  const auto x = g.input("x", DType::f32, {2, "n"});
  g.output(g.add("ReduceSum", {x, g.integers({1})}, {{"keepdims", 0}}), "sum");
  g.output(g.add("ReduceMax", {x, g.integers({1})}, {{"keepdims", 0}}), "max");
  const auto out = test::run(g.build(), {{"x", Tensor(DType::f32, {2, 0})}});
  expect_near(out.at("sum"), {2}, {0, 0});
  expect_near(out.at("max"), {2}, {-inf, -inf});
}

TEST(Reduction, ArgAndCumulative) {
  GraphBuilder g("arg", 17);
  const auto x = g.input("x", DType::f32, {2, 3});
  g.output(g.add("ArgMax", {x}, {{"axis", 1}, {"keepdims", 0}}), "first");
  g.output(g.add("ArgMax", {x}, {{"axis", 1}, {"select_last_index", 1}}), "last");
  g.output(g.add("ArgMin", {x}, {{"axis", 0}, {"keepdims", 0}}), "min");
  g.output(g.add("CumSum", {x, g.scalar(DType::i64, 1)}), "sums");
  g.output(g.add("CumSum", {x, g.scalar(DType::i64, 1)}, {{"exclusive", 1}, {"reverse", 1}}), "after");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {2, 3}, {5, 1, 5, 0, 2, 1})}});
  expect_near(out.at("first"), {2}, {0, 1});
  expect_near(out.at("last"), {2, 1}, {2, 1});
  expect_near(out.at("min"), {3}, {1, 0, 1});
  expect_near(out.at("sums"), {2, 3}, {5, 6, 11, 0, 2, 3});
  expect_near(out.at("after"), {2, 3}, {6, 5, 0, 3, 1, 0});
}

// As numpy's argmax and argmin have it: the extreme of a row with NaN is NaN, at the first (last) NaN.
TEST(Reduction, PlaceOfNan) {
  GraphBuilder g("arg", 17);
  const auto x = g.input("x", DType::f32, {2, 4});
  g.output(g.add("ArgMax", {x}, {{"axis", 1}, {"keepdims", 0}}), "first");
  g.output(g.add("ArgMax", {x}, {{"axis", 1}, {"keepdims", 0}, {"select_last_index", 1}}), "last");
  g.output(g.add("ArgMin", {x}, {{"axis", 1}, {"keepdims", 0}}), "min");
  g.output(g.add("Hardmax", {x}), "hard");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {2, 4}, {5, nan, nan, 0, inf, 2, 1, nan})}});
  expect_near(out.at("first"), {2}, {1, 3});
  expect_near(out.at("last"), {2}, {2, 3});
  expect_near(out.at("min"), {2}, {1, 3});
  expect_near(out.at("hard"), {2, 4}, {0, 1, 0, 0, 0, 0, 0, 1});
}

/// Sums of the softmax over runs of `run` elements.
std::vector<double> row_sums(const Tensor& t, std::int64_t run) {
  std::vector<double> sums;
  for (std::int64_t k = 0; k < t.size(); ++k) {
    if (k % run == 0) sums.push_back(0);
    sums.back() += t.at(k);
  }
  return sums;
}

TEST(Softmax, OldOpsetsFlattenTheTail) {
  const auto result = [](int opset, const std::vector<NamedAttribute>& attributes) {
    GraphBuilder g("softmax", opset);
    g.output(g.add("Softmax", {g.input("x", DType::f32, {2, 3, 4})}, attributes), "y");
    return test::run(g.build(), {{"x", ramp(DType::f32, {2, 3, 4}, -1, 0.1)}}).at("y");
  };
  for (const double sum : row_sums(result(11, {}), 12)) EXPECT_NEAR(sum, 1, 1e-9);
  for (const double sum : row_sums(result(11, {{"axis", 1}}), 12)) EXPECT_NEAR(sum, 1, 1e-9);
  for (const double sum : row_sums(result(13, {}), 4)) EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_NEAR(result(11, {{"axis", 2}}).at(0), std::exp(0.0) / (1 + std::exp(.1) + std::exp(.2) + std::exp(.3)), 1e-7);
}

TEST(Softmax, MiddleAxisLogAndSizeOne) {
  GraphBuilder g("softmax", 13);
  const auto x = g.input("x", DType::f32, {2, 2}), one = g.input("one", DType::f32, {1, 5});
  g.output(g.add("Softmax", {x}, {{"axis", 0}}), "columns");
  g.output(g.add("LogSoftmax", {x}), "log");
  g.output(g.add("Softmax", {one}, {{"axis", -2}}), "ones");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {2, 2}, {0, 1000, std::log(3.0), 1000})},
                                         {"one", ramp(DType::f32, {1, 5}, 7, 3)}});
  expect_near(out.at("columns"), {2, 2}, {0.25, 0.5, 0.75, 0.5});
  expect_near(out.at("log"), {2, 2}, {-1000, 0, std::log(3.0) - 1000, 0}, 1e-3);
  expect_near(out.at("ones"), {1, 5}, {1, 1, 1, 1, 1});
}

TEST(Softmax, MaskedRowIsNaNAsTheGraphSays) {
  GraphBuilder g("softmax", 13);
  g.output(g.add("Softmax", {g.input("x", DType::f32, {2, 2})}), "y");
  expect_near(test::run(g.build(), {{"x", tensor(DType::f32, {2, 2}, {-inf, -inf, -inf, 0})}}).at("y"), {2, 2},
              {nan, nan, 0, 1});
}

TEST(LogSumExp, InfinityAndLargeValues) {
  GraphBuilder g("lse", 13);
  g.output(g.add("ReduceLogSumExp", {g.input("x", DType::f32, {3, 2})}, {{"axes", {1}}, {"keepdims", 0}}), "y");
  expect_near(test::run(g.build(), {{"x", tensor(DType::f32, {3, 2}, {-inf, -inf, 1000, 1000, 0, inf})}}).at("y"), {3},
              {-inf, 1000 + std::log(2.0), inf}, 1e-4);
}

TEST(LayerNorm, MiddleAxisWithPerRowScale) {
  // Case (a) of a report where a scale of one row was taken for the whole tail.
  GraphBuilder g("norm", 17);
  const auto x = g.input("x", DType::f32, {1, 3, 2});
  const auto scale = g.constant(DType::f32, {2}, {-.6953, 5.1824}), bias = g.constant(DType::f32, {2}, {.6435, -.3964});
  g.output(g.add("LayerNormalization", {x, scale, bias}, {{"axis", 1}}), "y");
  const auto out =
      test::run(g.build(), {{"x", tensor(DType::f32, {1, 3, 2}, {1.2416, .946123, 13.1685, .36423, 21.145, .03941})}});
  expect_near(out.at("y"), {1, 3, 2}, {1.06361, -3.71611, .04296, -4.08726, -.63963, -4.29444}, 2e-5);
}

TEST(LayerNorm, StatisticsAndBroadcastScale) {
  GraphBuilder g("norm", 17);
  const auto x = g.input("x", DType::f32, {2, 1, 2}), scale = g.constant(DType::f32, {2, 1, 2}, {1, 2, 3, 4});
  const auto y = g.add_many("LayerNormalization", {x, scale}, 3, {{"epsilon", 0.0}});
  g.output(y[0], "y");
  g.output(y[1], "mean");
  g.output(y[2], "inverse");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {2, 1, 2}, {1, 3, -2, 2})}});
  expect_near(out.at("y"), {2, 1, 2}, {-1, 2, -3, 4});
  expect_near(out.at("mean"), {2, 1, 1}, {2, 0});
  expect_near(out.at("inverse"), {2, 1, 1}, {1, 0.5});
}

TEST(Norms, RmsBatchInstanceAndGroup) {
  GraphBuilder g("norm", 23);
  const auto x = g.input("x", DType::f32, {1, 2, 2}), s = g.constant(DType::f32, {2}, {1, 10}),
             b = g.constant(DType::f32, {2}, {0, 100});
  g.output(g.add("RMSNormalization", {x, s}, {{"epsilon", 0.0}}), "rms");
  g.output(
      g.add("BatchNormalization", {x, s, b, g.constant(DType::f32, {2}, {1, 2}), g.constant(DType::f32, {2}, {4, 1})},
            {{"epsilon", 0.0}}),
      "batch");
  g.output(g.add("InstanceNormalization", {x, s, b}, {{"epsilon", 0.0}}), "instance");
  g.output(g.add("GroupNormalization", {x, s, b}, {{"epsilon", 0.0}, {"num_groups", 1}}), "group");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {1, 2, 2}, {3, 4, 1, 5})}});
  const double r0 = std::sqrt(12.5), r1 = std::sqrt(13.0);
  expect_near(out.at("rms"), {1, 2, 2}, {3 / r0, 40 / r0, 1 / r1, 50 / r1});
  expect_near(out.at("batch"), {1, 2, 2}, {1, 1.5, 90, 130});
  expect_near(out.at("instance"), {1, 2, 2}, {-1, 1, 90, 110});
  const double mean = 13.0 / 4, deviation = std::sqrt((9 + 16 + 1 + 25) / 4.0 - mean * mean);
  expect_near(out.at("group"), {1, 2, 2},
              {(3 - mean) / deviation, (4 - mean) / deviation, 100 + 10 * (1 - mean) / deviation,
               100 + 10 * (5 - mean) / deviation});
}

TEST(Norms, SkipLayerNormalizationGivesTheSum) {
  GraphBuilder g("skip");
  const auto x = g.input("x", DType::f32, {1, 1, 2}), skip = g.input("skip", DType::f32, {1, 1, 2});
  const auto ones = g.constant(DType::f32, {2}, {1, 1});
  const auto y = g.add_many("com.microsoft.SkipLayerNormalization", {x, skip, ones}, 4, {{"epsilon", 0.0}});
  g.output(y[0], "y");
  g.output(y[3], "sum");
  const auto out = test::run(
      g.build(), {{"x", tensor(DType::f32, {1, 1, 2}, {1, 2})}, {"skip", tensor(DType::f32, {1, 1, 2}, {2, 5})}});
  expect_near(out.at("sum"), {1, 1, 2}, {3, 7});
  expect_near(out.at("y"), {1, 1, 2}, {-1, 1});
}

TEST(Narrow, SumsOfF16AreAccumulatedInF32) {
  GraphBuilder g("narrow", 13);
  const auto x = g.input("x", DType::f16, {4096});
  g.output(g.add("ReduceSum", {x}, {{"keepdims", 0}}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value());
  const std::string text = to_string(model->graph);
  EXPECT_THAT(text, HasSubstr("sum(f32(x[r0]) over r0=4096)"));
  EXPECT_THAT(text, HasSubstr("y: f32[] = sum("));
  EXPECT_THAT(text, HasSubstr("y_out: f16[] = f16(y[])"));
}

TEST(Contraction, MatMulOfEveryRank) {
  const auto product = [](std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
    GraphBuilder g("matmul");
    const auto size = [](const std::vector<std::int64_t>& s) { return std::vector<Size>(s.begin(), s.end()); };
    g.output(g.add("MatMul", {g.input("a", DType::f32, size(a)), g.input("b", DType::f32, size(b))}), "y");
    return test::run(g.build(), {{"a", ramp(DType::f32, a, 1, 1)}, {"b", ramp(DType::f32, b, 1, 1)}}).at("y");
  };
  expect_near(product({2, 2}, {2, 2}), {2, 2}, {7, 10, 15, 22});
  expect_near(product({2}, {2}), {}, {5});
  expect_near(product({2}, {2, 3}), {3}, {9, 12, 15});
  expect_near(product({2, 2}, {2}), {2}, {5, 11});
  expect_near(product({2, 1, 1, 2}, {3, 2, 1}), {2, 3, 1, 1}, {5, 11, 17, 11, 25, 39});
  expect_near(product({0, 2}, {2, 2}), {0, 2}, {});
  expect_near(product({2, 0}, {0, 2}), {2, 2}, {0, 0, 0, 0});
}

TEST(Contraction, GemmWithEveryOption) {
  GraphBuilder g("gemm", 13);
  const auto a = g.input("a", DType::f32, {2, 1}), b = g.input("b", DType::f32, {3, 2}),
             c = g.input("c", DType::f32, {3});
  g.output(g.add("Gemm", {a, b, c}, {{"transA", 1}, {"transB", 1}, {"alpha", 2.0}, {"beta", 0.5}}), "y");
  const auto out = test::run(g.build(), {{"a", tensor(DType::f32, {2, 1}, {1, 2})},
                                         {"b", ramp(DType::f32, {3, 2}, 1, 1)},
                                         {"c", tensor(DType::f32, {3}, {2, 4, 6})}});
  expect_near(out.at("y"), {1, 3}, {2 * 5 + 1, 2 * 11 + 2, 2 * 17 + 3});
}

TEST(Contraction, Einsum) {
  const auto einsum = [](const std::string& equation, std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
    GraphBuilder g("einsum", 13);
    const auto size = [](const std::vector<std::int64_t>& s) { return std::vector<Size>(s.begin(), s.end()); };
    std::vector<std::string> inputs{g.input("a", DType::f32, size(a))};
    NamedTensors in{{"a", ramp(DType::f32, a, 1, 1)}};
    if (!b.empty()) {
      inputs.push_back(g.input("b", DType::f32, size(b)));
      in["b"] = ramp(DType::f32, b, 1, 1);
    }
    g.output(g.add("Einsum", inputs, {{"equation", equation.c_str()}}), "y");
    return test::run(g.build(), in).at("y");
  };
  expect_near(einsum("ij,jk->ik", {2, 2}, {2, 2}), {2, 2}, {7, 10, 15, 22});
  expect_near(einsum("ij,jk", {2, 2}, {2, 2}), {2, 2}, {7, 10, 15, 22});
  expect_near(einsum("bct,bcs->bts", {1, 2, 1}, {1, 2, 3}), {1, 1, 3}, {1 + 8, 2 + 10, 3 + 12});
  expect_near(einsum("ij->ji", {2, 3}, {}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_near(einsum("ii->i", {2, 2}, {}), {2}, {1, 4});
  expect_near(einsum("ii", {2, 2}, {}), {}, {5});
  expect_near(einsum("...j,jk->...k", {2, 1, 2}, {2, 1}), {2, 1, 1}, {5, 11});
  expect_near(einsum("i,j->ij", {2}, {2}), {2, 2}, {1, 2, 2, 4});
}

TEST(Contraction, ConvolutionAndPooling) {
  GraphBuilder g("conv", 19);
  const auto x = g.input("x", DType::f32, {1, 2, 3}), w = g.constant(DType::f32, {2, 1, 2}, {1, 2, 3, 4}),
             b = g.constant(DType::f32, {2}, {10, 20});
  g.output(g.add("Conv", {x, w, b}, {{"group", 2}, {"pads", {1, 0}}}), "grouped");
  g.output(g.add("Conv", {x, g.constant(DType::f32, {1, 2, 2}, {1, 1, 1, 1})},
                 {{"strides", {2}}, {"auto_pad", "SAME_UPPER"}}),
           "same");
  g.output(g.add("Conv", {x, g.constant(DType::f32, {1, 2, 2}, {1, 0, 0, 1})}, {{"dilations", {2}}}), "dilated");
  g.output(g.add("MaxPool", {x}, {{"kernel_shape", {2}}, {"pads", {1, 1}}}), "max");
  g.output(g.add("AveragePool", {x}, {{"kernel_shape", {2}}, {"pads", {1, 1}}}), "mean");
  g.output(g.add("AveragePool", {x}, {{"kernel_shape", {2}}, {"strides", {2}}, {"ceil_mode", 1}}), "ceil");
  g.output(g.add("GlobalAveragePool", {x}), "global");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {1, 2, 3}, {1, -2, 3, 4, 5, 6})}});
  expect_near(out.at("grouped"), {1, 2, 3}, {12, 10 + 1 - 4, 10 - 2 + 6, 36, 20 + 12 + 20, 20 + 15 + 24});
  expect_near(out.at("same"), {1, 1, 2}, {1 - 2 + 4 + 5, 3 + 6});
  expect_near(out.at("dilated"), {1, 1, 1}, {1 + 6});
  expect_near(out.at("max"), {1, 2, 4}, {1, 1, 3, 3, 4, 5, 6, 6});
  expect_near(out.at("mean"), {1, 2, 4}, {1, -0.5, 0.5, 3, 4, 4.5, 5.5, 6});
  expect_near(out.at("ceil"), {1, 2, 2}, {-0.5, 3, 4.5, 6});
  expect_near(out.at("global"), {1, 2, 1}, {2.0 / 3, 5});
}

TEST(Contraction, Errors) {
  GraphBuilder g("bad");
  g.output(g.add("MatMul", {g.input("a", DType::f32, {2, 3, 4}), g.input("b", DType::f32, {5, 6})}));
  EXPECT_THAT(test::error_of(g.build()), HasSubstr("inner dims of [2, 3, 4] and [5, 6] disagree: 4 against 5"));
  GraphBuilder h("bad");
  h.output(h.add("Einsum", {h.input("a", DType::f32, {2, 3})}, {{"equation", "ij->k"}}));
  EXPECT_THAT(test::error_of(h.build()), HasSubstr("the result names 'k'"));
}

/// One node of `op` over a constant-shaped `x`.
Tensor over(const std::string& op, const Tensor& x, const std::vector<NamedAttribute>& attributes, int opset,
            const std::vector<double>& axis = {}) {
  GraphBuilder g("over", opset);
  std::vector<Size> shape;
  for (const std::int64_t d : x.shape()) shape.emplace_back(d);
  std::vector<std::string> operands{g.input("x", x.type(), shape)};
  if (!axis.empty()) operands.push_back(g.scalar(DType::i64, axis[0]));
  g.output(g.add(op, operands, attributes), "y");
  const auto out = test::run(g.build(), {{"x", x}});
  return out.contains("y") ? out.at("y") : Tensor();
}

TEST(Reduction, HardmaxTakesTheFirstMaximum) {
  const Tensor x = tensor(DType::f32, {2, 3}, {1, 3, 3, 5, 0, 4});
  expect_near(over("Hardmax", x, {}, 13), {2, 3}, {0, 1, 0, 1, 0, 0});
  expect_near(over("Hardmax", x, {{"axis", 0}}, 13), {2, 3}, {0, 1, 0, 1, 0, 1});
  // Before opset 13 the dims from the axis on are one.
  const Tensor cube = tensor(DType::f32, {1, 2, 2}, {1, 2, 7, 7});
  expect_near(over("Hardmax", cube, {{"axis", 1}}, 11), {1, 2, 2}, {0, 0, 1, 0});
}

TEST(Reduction, RunningProducts) {
  const Tensor x = tensor(DType::f32, {3}, {2, 3, 5});
  expect_near(over("CumProd", x, {}, 26, {0}), {3}, {2, 6, 30});
  expect_near(over("CumProd", x, {{"exclusive", 1}}, 26, {0}), {3}, {1, 2, 6});
  expect_near(over("CumProd", x, {{"reverse", 1}}, 26, {0}), {3}, {30, 15, 5});
}

TEST(Reduction, NormsOfRows) {
  const Tensor x = tensor(DType::f32, {2, 2}, {3, -4, 0, 0});
  expect_near(over("LpNormalization", x, {}, 22), {2, 2}, {0.6, -0.8, 0, 0});
  expect_near(over("LpNormalization", x, {{"p", 1}, {"axis", 0}}, 22), {2, 2}, {1, -1, 0, 0});
  const Tensor y = tensor(DType::f32, {2, 1, 1, 2}, {1, 3, 5, 7});  // mean 4, variance 5
  expect_near(over("MeanVarianceNormalization", y, {}, 13), {2, 1, 1, 2},
              {-3 / std::sqrt(5), -1 / std::sqrt(5), 1 / std::sqrt(5), 3 / std::sqrt(5)});
  expect_near(
      over("LRN", tensor(DType::f32, {1, 3, 1, 1}, {1, 2, 3}), {{"size", 3}, {"alpha", 0.3}, {"beta", 0.5}}, 13),
      {1, 3, 1, 1}, {1 / std::sqrt(1.5), 2 / std::sqrt(2.4), 3 / std::sqrt(2.3)});
}

}  // namespace
}  // namespace aicf
