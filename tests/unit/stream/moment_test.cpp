// Powers about a running mean: variance and its relatives over offsets, outliers and prefixes.

#include "derive_harness.h"

namespace aicf::test {
namespace {

std::string rows(const std::string& body, const std::string& output = "output y as Y: f32[2] at [r]",
                 const std::string& kind = "normalisation") {
  return "region row_0 " + kind +
         " {\n  symbols len\n  axes r=2, n=len\n  input X: f32[2, len]\n  input Z: f32[2, len]\n  input G: f32[len]\n" +
         body + "  " + output + "\n}\n";
}

const std::string mean = R"(
  t: f32[r] = sum(X[r, n] over n)
  mean: f32[r] = t / f32(len)
)";
const std::string deviation = mean + "  d: f32[r, n] = X[r, n] - mean\n";
const std::string row_output = "output y as Y: f32[2, len] at [r, n]";

/// Lengths above one: the variance of one element is 0 and relative errors mean nothing.
const std::vector<std::int64_t> several{2, 3, 7, 31, 127};

TEST(Moments, Mean) {
  check({.text = rows(mean + "  y: f32[r] = mean\n"), .scale = 1e-3, .lengths = {1, 2, 7, 127}});
}

TEST(Moments, Variance) {
  check(
      {.text = rows(deviation + "  v: f32[r] = sum(d * d over n)\n  y: f32[r] = v / f32(len)\n"), .lengths = several});
}

TEST(Moments, VarianceOfOneAndOfNothing) {
  check({.text = rows(deviation + "  v: f32[r] = sum(d * d over n)\n  y: f32[r] = v / f32(len)\n"),
         .data = tame_data,
         .lengths = {0, 1}});
}

TEST(Moments, VarianceAsPower) {
  check({.text = rows(deviation + "  v: f32[r] = sum(pow(d, 2.0) over n)\n  y: f32[r] = sqrt(v / f32(len))\n"),
         .lengths = several});
}

TEST(Moments, NonFiniteDataIsLiteral) {
  check({.text = rows(deviation + "  v: f32[r] = sum(d * d over n)\n",
                      "output v as Y: f32[2] at [r]\n  output mean as M: f32[2] at [r]"),
         .data = {Data::plus_infinity, Data::nan, Data::minus_infinity},
         .lengths = {1, 2, 7, 31}});
}

TEST(Moments, LayerNorm) {
  // The normalised values of adjacent elements differ by about 1: an absolute scale of 1.
  check(
      {.text = rows(
           deviation +
               "  v: f32[r] = sum(d * d over n)\n  y: f32[r, n] = d / sqrt(v / f32(len) + 0.00001) * G[n] + Z[r, n]\n",
           row_output),
       .passes = 2,
       .scale = 1,
       .lengths = several});
}

TEST(Moments, LayerNormOfFloat32Rows) {
  // Four neighbours at 40000 and 80000: by hand ∓1.3416354, ∓0.4472118 (with epsilon 1e-5 over variance 1.25).
  Case c{.text =
             rows(deviation + "  v: f32[r] = sum(d * d over n)\n  y: f32[r, n] = d / sqrt(v / f32(len) + 0.00001)\n",
                  row_output)};
  const StreamingRegion r = Harness::derived(c);
  HostTensors inputs{{"X", {40000, 40001, 40002, 40003, 80000, 80001, 80002, 80003}}};
  for (const std::int64_t step : {1, 2, 3, 4}) {
    const auto got =
        evaluate(r, inputs, {.symbols = {{"len", 4}}, .single_precision = true, .steps = {step}, .cuts = {2}});
    ASSERT_TRUE(got) << got.error().text();
    const double expected[] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got->at("Y")[i], expected[i % 4], 2e-6);
  }
}

TEST(Moments, OneOutlierAmongEquals) {
  // 10239 times 256 and one 255: the variance is (N − 1) / N² = 9.765e-5·(1 − 1/N), by hand.
  Case c{.text = rows(deviation + "  v: f32[r] = sum(d * d over n)\n  y: f32[r] = v / f32(len)\n")};
  const StreamingRegion r = Harness::derived(c);
  const std::int64_t n = 10240;
  HostTensors inputs{{"X", std::vector<double>(static_cast<std::size_t>(2 * n), 256.0)}};
  inputs["X"].back() = 255;
  const auto got =
      evaluate(r, inputs, {.symbols = {{"len", n}}, .single_precision = true, .steps = {64}, .cuts = {5000}});
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_EQ(got->at("Y")[0], 0.0);
  const double exact = (static_cast<double>(n) - 1) / (static_cast<double>(n) * static_cast<double>(n));
  EXPECT_NEAR(got->at("Y")[1], exact, exact * 1e-4);
}

TEST(Moments, RmsNorm) {
  check({.text = rows("  q: f32[r, n] = X[r, n] * X[r, n]\n  t: f32[r] = sum(q over n)\n  y: f32[r, n] = X[r, n] / "
                      "sqrt(t / f32(len) + 0.00001) * G[n]\n",
                      row_output),
         .passes = 2,
         .lengths = {1, 2, 7, 127}});
}

TEST(Moments, Covariance) {
  check({.text = rows(deviation + R"(
  u: f32[r] = sum(Z[r, n] over n)
  e: f32[r, n] = Z[r, n] - u / f32(len)
  y: f32[r] = sum(d * e over n)
)"),
         .adversarial = {"X", "Z"},
         .data = {Data::normal, Data::offset, Data::leading_zeros, Data::mean_zero},
         .single_tolerance = 3e-5,
         .scale = 3,
         .lengths = several});
}

TEST(Moments, SkewnessInOnePass) {
  // Third powers of a normalised difference: σ leaves the sum, the rest is a polynomial shift of degree three.
  check({.text = rows(deviation + R"(
  v: f32[r] = sum(d * d over n)
  sigma: f32[r] = sqrt(v / f32(len) + 0.00001)
  z: f32[r, n] = d / sigma
  y: f32[r] = sum(z * z * z over n)
)"),
         .data = {Data::normal, Data::offset, Data::mean_zero},
         .double_tolerance = 1e-7,
         .single_tolerance = 3e-5,
         .scale = 30,
         .lengths = several});
}

TEST(Moments, FourthPower) {
  check({.text = rows(deviation + "  y: f32[r] = sum(pow(d, 4.0) over n)\n"),
         .data = {Data::normal, Data::offset, Data::mean_zero},
         .single_tolerance = 3e-5,
         .scale = 10,
         .lengths = several});
}

TEST(Moments, WeightedByData) {
  check({.text = rows(deviation + "  y: f32[r] = sum(d * d * Z[r, n] over n)\n"),
         .data = {Data::normal, Data::offset, Data::mean_zero},
         .single_tolerance = 3e-5,
         .scale = 30,
         .lengths = several});
}

/// Mean and variance of the elements for which `kept` holds.
std::string moments_of(const std::string& kept, const std::string& result = "v / c", const std::string& more = {}) {
  return rows("  c: f32[r] = sum(where(" + kept + ", 1.0, 0.0) over n)\n  t: f32[r] = sum(where(" + kept +
              ", X[r, n], 0.0) over n)\n  mean: f32[r] = t / c\n  d: f32[r, n] = X[r, n] - mean\n" +
              "  v: f32[r] = sum(where(" + kept + ", d * d, 0.0) over n)\n" + more + "  y: f32[r] = " + result + "\n");
}

TEST(Moments, OfWhatIsKept) {
  // What is masked may be far away or no number at all.
  check({.text = moments_of("X[r, n] < 100.0"),
         .data = {Data::normal, Data::one_huge, Data::nan, Data::plus_infinity},
         .lengths = several});
  check({.text = moments_of("100.0 < X[r, n]"), .data = {Data::padded}, .lengths = {7, 31, 127}});
}

TEST(Moments, OfAllAboutTheMeanOfWhatIsKept) {
  // Elements before the first that is kept are in the sum, about no mean yet.
  check({.text = moments_of("0.5 < Z[r, n]", "u / sqrt(v / (c + 1.0) + 0.1)", "  u: f32[r] = sum(d * G[n] over n)\n"),
         .data = tame_data,
         .scale = 10,
         .lengths = {7, 31, 127}});
}

TEST(Moments, MeanThenProduct) {
  // Normalisation feeding a product: one pass, the mean leaves the sum.
  check({.text = rows(deviation + "  y: f32[r] = sum(d * G[n] over n)\n"),
         .data = tame_data,
         .scale = 10,
         .lengths = several});
}

TEST(Moments, OverTwoAxes) {
  check({.text = R"(region group_0 normalisation {
  symbols len
  axes g=2, c=3, n=len
  input X: f32[2, 3, len]
  t: f32[g] = sum(X[g, c, n] over c, n)
  mean: f32[g] = t / (3.0 * f32(len))
  d: f32[g, c, n] = X[g, c, n] - mean
  v: f32[g] = sum(d * d over c, n)
  y: f32[g, c, n] = d / sqrt(v / f32(3 * len) + 0.00001)
  output y as Y: f32[2, 3, len] at [g, c, n]
}
)",
         .data = {Data::normal, Data::offset, Data::all_equal, Data::mean_zero},
         .passes = 2,
         .scale = 1,
         .lengths = {1, 2, 7, 31}});
}

}  // namespace
}  // namespace aicf::test
