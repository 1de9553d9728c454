// Cascades that nobody named, the monotone law, and what is refused or takes another pass.

#include "derive_harness.h"

namespace aicf::test {
namespace {

std::string rows(const std::string& body, const std::string& output = "output y as Y: f32[2] at [r]") {
  return "region row_0 reduction {\n  symbols len\n  axes r=2, n=len\n  input X: f32[2, len]\n  input V: f32[2, "
         "len]\n" +
         body + "  " + output + "\n}\n";
}
const std::string about_maximum =
    "  m: f32[r] = max(X[r, n] over n)\n  p: f32[r, n] = exp(X[r, n] - m)\n  l: f32[r] = sum(p over n)\n";
const std::string about_mean = "  t: f32[r] = sum(X[r, n] over n)\n  mean: f32[r] = t / f32(len)\n";
const std::vector<std::int64_t> lengths{1, 2, 7, 31, 100};

TEST(Cascade, ExponentialTimesSquare) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(p * (X[r, n] - m) * (X[r, n] - m) over n)\n"),
         .data = finite_data,
         .scale = 1,
         .lengths = lengths});
}

TEST(Cascade, WeightedVariance) {
  const std::string body = about_maximum + R"(
  w: f32[r, n] = p / l
  u: f32[r] = sum(w * V[r, n] over n)
  d: f32[r, n] = V[r, n] - u
  y: f32[r] = sum(w * d * d over n)
)";
  check({.text = rows(body),
         .adversarial = {"X"},
         .data = {Data::normal, Data::all_equal, Data::mean_zero, Data::minus_infinity_prefix, Data::minus_infinity,
                  Data::nan},
         .scale = 1e-2,
         .lengths = lengths});
  check({.text = rows(body),
         .adversarial = {"V"},
         .data = {Data::normal, Data::offset, Data::all_equal, Data::leading_zeros, Data::mean_zero},
         .single_tolerance = 5e-5,
         .scale = 1,
         .lengths = lengths});
}

TEST(Cascade, DifferencesFromMaximumAndMean) {
  // Powers about the maximum beside powers about a weighted mean.
  const std::string mixed = about_maximum + R"(
  u: f32[r] = sum(p / l * V[r, n] over n)
  y: f32[r] = sum(p * (X[r, n] - m) * (V[r, n] - u) * (V[r, n] - u) over n)
)";
  check({.text = rows(mixed), .data = tame_data, .scale = 10, .lengths = lengths});
  // With the bare power about the maximum as well, one group would repair its own reference: the later sum waits.
  const std::string both = mixed + "  h: f32[r] = sum(p * (X[r, n] - m) over n)\n";
  check({.text = rows(both, "output y as Y: f32[2] at [r]\n  output h as H: f32[2] at [r]"),
         .data = tame_data,
         .passes = 2,
         .scale = 10,
         .lengths = lengths});
}

TEST(Cascade, LogOfWeightedSum) {
  check({.text = rows(about_maximum +
                      "  z: f32[r] = sum(p * V[r, n] * V[r, n] over n)\n  y: f32[r] = log(z) + m - log(l)\n"),
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
}

TEST(Cascade, TwoTemperatures) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(exp((X[r, n] - m) * 0.5) * V[r, n] over n)\n"),
         .data = finite_data,
         .scale = 10,
         .lengths = lengths});
}

TEST(Cascade, RootOfWeights) {
  check({.text = rows(about_maximum + "  w: f32[r, n] = p / l\n  y: f32[r] = sum(sqrt(w) * V[r, n] over n)\n"),
         .data = tame_data,
         .scale = 10,
         .lengths = lengths});
}

TEST(Cascade, SquareOfWeights) {
  check({.text = rows(about_maximum + "  w: f32[r, n] = p / l\n  y: f32[r] = sum(w * w over n)\n"),
         .data = finite_data,
         .scale = 1e-2,
         .lengths = lengths});
}

TEST(Cascade, NestedMeans) {
  // A sum that needs a weighted mean that needs a sum that needs a maximum: one pass.
  check({.text = rows(about_maximum + R"(
  u: f32[r] = sum(p / l * V[r, n] over n)
  z: f32[r] = sum(p / l * (V[r, n] + u) over n)
  y: f32[r] = sum(X[r, n] * z over n)
)"),
         .data = tame_data,
         .scale = 30,
         .lengths = lengths});
}

TEST(Cascade, CrossEntropyWithSoftTargets) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(V[r, n] * (X[r, n] - m - log(l)) over n)\n"),
         .data = {Data::normal, Data::all_equal, Data::mean_zero, Data::offset},
         .single_tolerance = 5e-5,
         .scale = 30,
         .lengths = lengths});
}

TEST(Cascade, DifferencesFromTheMaximum) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(V[r, n] * (X[r, n] - m) over n)\n"),
         .data = {Data::normal, Data::offset, Data::leading_zeros, Data::minus_infinity, Data::nan},
         .single_tolerance = 5e-5,
         .scale = 30,
         .lengths = lengths});
}

TEST(Cascade, ExponentialAboutTheMean) {
  // The running result is a mean; the engine keeps the sum about its own maximum and corrects at finish.
  check({.text = rows(about_mean + "  y: f32[r] = sum(exp(X[r, n] - mean) * V[r, n] over n)\n"),
         .data = tame_data,
         .scale = 100,
         .lengths = lengths});
}

TEST(Cascade, KeptAxisIsSummedAtFinish) {
  check({.text = R"(region kept_0 reduction {
  symbols len
  axes b=2, q=3, n=len
  input X: f32[2, 3, len]
  input V: f32[2, len]
  m: f32[b, q] = max(X[b, q, n] over n)
  p: f32[b, q, n] = exp(X[b, q, n] - m)
  l: f32[b, q] = sum(p over n)
  y: f32[b] = sum(p / l * V[b, n] over q, n)
  output y as Y: f32[2] at [b]
}
)",
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
}

TEST(Cascade, BranchOnARunningResult) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(where(m < 1.0, p, X[r, n]) over n)\n"),
         .data = finite_data,
         .scale = 100,
         .lengths = lengths});
}

TEST(Cascade, SelectedElements) {
  check({.text = rows(about_maximum + "  y: f32[r] = sum(where(V[r, n] < 0.0, p / l, 0.0) over n)\n"),
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
}

// ---- monotone ----------------------------------------------------------------------------------------------------

TEST(Monotone, LargestDeviation) {
  Case c{.text = rows(about_mean + "  y: f32[r] = max(abs(X[r, n] - mean) over n)\n"),
         .data = {Data::normal, Data::one_huge, Data::all_equal, Data::mean_zero},
         .scale = 1,
         .lengths = lengths};
  check(c);
  std::set<ReduceOp> ops;
  const StreamingRegion r = Harness::derived(c);
  for (const StateDecl& d : r.streams[0].states) ops.insert(d.reduce);
  EXPECT_TRUE(ops.contains(ReduceOp::max) && ops.contains(ReduceOp::min));
}

TEST(Monotone, IncreasingAndDecreasing) {
  check({.text = rows(about_maximum + "  y: f32[r] = max(p over n)\n"),
         .data = finite_data,
         .scale = 1,
         .lengths = lengths});
  check({.text = rows(about_maximum + "  y: f32[r] = min(p / l over n)\n"),
         .data = finite_data,
         .scale = 1e-3,
         .lengths = lengths});
  check({.text = rows(about_mean + "  y: f32[r] = max(mean - X[r, n] over n)\n"),
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
}

TEST(Monotone, UnknownSignCarriesBothEnds) {
  check({.text = rows(about_mean + "  y: f32[r] = max(X[r, n] * mean over n)\n"),
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
  check({.text = rows(about_mean + "  y: f32[r] = min(tanh(X[r, n] * mean) over n)\n"),
         .data = tame_data,
         .scale = 1,
         .lengths = lengths});
}

TEST(Monotone, PartialFunctionShowsNaN) {
  check({.text = rows(about_mean + "  y: f32[r] = max(sqrt(X[r, n] - mean) over n)\n"),
         .data = {Data::normal, Data::mean_zero},
         .scale = 1,
         .lengths = lengths});
}

TEST(Monotone, NaNAndInfinity) {
  check({.text = rows(about_maximum + "  y: f32[r] = max(X[r, n] - m over n)\n"),
         .data = {Data::nan, Data::minus_infinity_prefix},
         .scale = 1,
         .lengths = {0, 1, 2, 7}});
}

// ---- passes and refusals -----------------------------------------------------------------------------------------

Refusal refused(const std::string& text, int max_passes = 1) {
  const auto outcome = derive(parse_region(text).value(), {.max_passes = max_passes});
  if (const auto* r = std::get_if<Refusal>(&outcome)) return *r;
  ADD_FAILURE() << "derived:\n" << to_string(std::get<StreamingRegion>(outcome));
  return {};
}

TEST(Refusal, NotMonotone) {
  const std::string text = rows(about_mean + "  y: f32[r] = max(sin(X[r, n] * mean) over n)   # from \"peak\"\n");
  const Refusal r = refused(text);
  EXPECT_EQ(r.law, "monotone");
  EXPECT_EQ(r.nodes, std::vector<std::string>{"peak"});
  EXPECT_NE(r.reason.find("sin"), std::string::npos) << r.reason;
  check({.text = text, .data = tame_data, .passes = 2, .scale = 1, .lengths = lengths});
}

TEST(Refusal, MinimumOfADistance) {
  const std::string text = rows(about_mean + "  y: f32[r] = min(abs(X[r, n] - mean) over n)\n");
  EXPECT_EQ(refused(text).law, "monotone");
  check({.text = text, .data = tame_data, .passes = 2, .scale = 1, .lengths = lengths});
}

TEST(Refusal, GaussianAboutTheMean) {
  const std::string text =
      rows(about_mean + "  d: f32[r, n] = X[r, n] - mean\n  y: f32[r] = sum(X[r, n] * exp(-(d * d)) over n)\n");
  EXPECT_EQ(refused(text).law, "cascade");
  check({.text = text, .data = tame_data, .passes = 2, .scale = 10, .lengths = lengths});
}

TEST(Refusal, PredicateThatIsNotUniform) {
  const std::string text = rows(about_mean + "  y: f32[r] = sum(where(mean < X[r, n], X[r, n], 0.0) over n)\n");
  EXPECT_EQ(refused(text).law, "uniform predicate");
  check({.text = text,
         .data = {Data::normal, Data::mean_zero},
         .passes = 2,
         .scale = 10,
         .lengths = lengths,
         .single = false});
}

TEST(Refusal, TwoNormalisationsInARow) {
  // The second one's exponent is a normalised weight: its maximum and sums need the first one's sums.
  check({.text = rows(about_maximum + R"(
  w: f32[r, n] = p / l
  m2: f32[r] = max(w over n)
  p2: f32[r, n] = exp(w - m2)
  l2: f32[r] = sum(p2 over n)
  y: f32[r] = sum(p2 / l2 * V[r, n] over n)
)"),
         .data = tame_data,
         .passes = 2,
         .scale = 1,
         .lengths = lengths});
}

TEST(Refusal, WhyAnotherPassIsInTheCertificate) {
  const Case c{.text = rows(about_mean + "  y: f32[r] = max(sin(X[r, n] * mean) over n)\n")};
  const StreamingRegion r = Harness::derived(c);
  EXPECT_TRUE(std::ranges::find_if(r.certificate.entries, [](const auto& e) {
                return e.law == "passes" && e.statement == "y";
              }) != r.certificate.entries.end());
}

}  // namespace
}  // namespace aicf::test
