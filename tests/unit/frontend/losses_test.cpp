// Losses over class scores against sums written out here.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;

const std::vector<double> scores{1, 2, 0.5, -1, 3, 0, 2, 2, -2};  // [3, 3]
const std::vector<double> weights{0.5, 2, 1.5};

double log_prob(int row, int label) {
  double sum = 0;
  for (int c = 0; c < 3; ++c) sum += std::exp(scores[3 * row + c]);
  return scores[3 * row + label] - std::log(sum);
}

NamedTensors losses(const std::string& reduction, bool weighted, const std::vector<double>& labels) {
  GraphBuilder g("loss", 17);
  std::vector<std::string> inputs{g.input("x", DType::f32, {3, 3}), g.input("labels", DType::i64, {3})};
  if (weighted) inputs.push_back(g.input("w", DType::f32, {3}));
  g.output(g.add("SoftmaxCrossEntropyLoss", inputs, {{"reduction", reduction.c_str()}, {"ignore_index", -100}}), "y");
  NamedTensors given{{"x", tensor(DType::f32, {3, 3}, scores)}, {"labels", tensor(DType::i64, {3}, labels)}};
  if (weighted) given["w"] = tensor(DType::f32, {3}, weights);
  return test::run(g.build(), given);
}

TEST(ClassLoss, EachSummedAveraged) {
  const double a = -log_prob(0, 1), b = -log_prob(1, 0), c = -log_prob(2, 2);
  expect_near(losses("none", false, {1, 0, 2}).at("y"), {3}, {a, b, c});
  expect_near(losses("sum", false, {1, 0, 2}).at("y"), {}, {a + b + c});
  expect_near(losses("mean", false, {1, 0, 2}).at("y"), {}, {(a + b + c) / 3});
  expect_near(losses("mean", true, {1, 0, 2}).at("y"), {}, {(2 * a + 0.5 * b + 1.5 * c) / 4});
}

// The label that frameworks give to padding is no class: its score is not read, and it does not count.
TEST(ClassLoss, IgnoredLabels) {
  const double a = -log_prob(0, 1), c = -log_prob(2, 2);
  expect_near(losses("none", true, {1, -100, 2}).at("y"), {3}, {2 * a, 0, 1.5 * c});
  expect_near(losses("mean", false, {1, -100, 2}).at("y"), {}, {(a + c) / 2});
  expect_near(losses("mean", true, {1, -100, 2}).at("y"), {}, {(2 * a + 1.5 * c) / 3.5});
}

TEST(ClassLoss, Places) {
  GraphBuilder g("loss", 17);
  const auto x = g.input("x", DType::f32, {1, 2, 2}), labels = g.input("labels", DType::i64, {1, 2});
  g.output(g.add("NegativeLogLikelihoodLoss", {x, labels}, {{"reduction", "none"}}), "y");
  const auto out = test::run(
      g.build(), {{"x", tensor(DType::f32, {1, 2, 2}, {1, 2, 3, 4})}, {"labels", tensor(DType::i64, {1, 2}, {1, 0})}});
  expect_near(out.at("y"), {1, 2}, {-3, -2});
}

TEST(ClassLoss, ShapesThatDoNotFit) {
  GraphBuilder g("loss", 17);
  const auto x = g.input("x", DType::f32, {3, 4}), labels = g.input("labels", DType::i64, {2});
  g.output(g.add("NegativeLogLikelihoodLoss", {x, labels}), "y");
  EXPECT_THAT(canonicalise(g.build()).error().text(), HasSubstr("dims of scores and labels"));
}

}  // namespace
}  // namespace aicf
