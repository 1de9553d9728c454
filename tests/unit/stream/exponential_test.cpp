// Sums of exponentials about a running maximum: weighted sums, normalisation, masks, guards.

#include "derive_harness.h"

namespace aicf::test {
namespace {

std::string row_region(const std::string& body, const std::string& output = "output  y as Y: f32[2] at [r]") {
  return "region row_0 normalisation {\n  symbols len\n  axes r=2, n=len\n  input X: f32[2, len]\n  input V: f32[2, "
         "len]\n" +
         body + "  " + output + "\n}\n";
}

const std::string normalised = R"(
  m: f32[r] = max(X[r, n] over n)
  p: f32[r, n] = exp(X[r, n] - m)
  l: f32[r] = sum(p over n)
  w: f32[r, n] = p / l
)";
const std::string row_output = "output  y as Y: f32[2, len] at [r, n]";

std::vector<Data> all_data() {
  std::vector<Data> all = finite_data;
  all.insert(all.end(), masked_data.begin(), masked_data.end());
  return all;
}

std::string weighing(const std::string& score, const std::string& weight = "w", const std::string& extra = "") {
  return R"(region weighing_0 contraction {
  symbols len
  axes b=2, q=5, kv=len, d=4, e=3
  input Q: f32[2, 5, 4]
  input K: f32[2, len, 4]
  input V: f32[2, len, 3]
  input M: f32[5, len]
  input B: bool[5, len]
  qk: f32[b, q, kv] = sum(Q[b, q, d] * K[b, kv, d] over d)
  s: f32[b, q, kv] = )" +
         score + R"(
  m: f32[b, q] = max(s over kv)
  p: f32[b, q, kv] = exp(s - m)
  l: f32[b, q] = sum(p over kv)
  w: f32[b, q, kv] = p / l
)" + extra +
         "  o: f32[b, q, e] = sum(" + weight + R"( * V[b, kv, e] over kv)
  output o as O: f32[2, 5, 3] at [b, q, e]
}
)";
}

Case weighing_case(std::string text, std::vector<Data> data = {Data::normal}) {
  return {.text = std::move(text),
          .adversarial = {"M"},
          .data = std::move(data),
          .scale = 0.1,
          .lengths = {0, 1, 2, 5, 13, 31}};
}

TEST(Exponentials, OfWhatIsKept) {
  // Neither the maximum nor the sum of the graph counts what is masked, however large.
  const std::string kept = "X[r, n] < 100.0";
  const std::string text = "  m: f32[r] = max(where(" + kept + ", X[r, n], -1e30) over n)\n" +
                           "  p: f32[r, n] = where(" + kept + ", exp(X[r, n] - m), 0.0)\n" +
                           "  l: f32[r] = sum(p over n)\n  y: f32[r] = sum(p / l * V[r, n] over n)\n";
  check({.text = row_region(text),
         .data = {Data::normal, Data::one_huge, Data::nan, Data::plus_infinity, Data::minus_infinity},
         .lengths = {1, 2, 7, 31, 127}});
}

TEST(Weighing, AdditiveMask) {
  check(weighing_case(weighing("qk * 0.5 + M[q, kv]"), {Data::normal, Data::one_huge, Data::minus_infinity_prefix,
                                                        Data::minus_infinity, Data::plus_infinity, Data::nan}));
}

TEST(Weighing, SelectMask) {
  check(weighing_case(weighing("where(B[q, kv], qk * 0.5, -inf)")));
}

TEST(Weighing, TriangularMaskSkipsTiles) {
  const Case c = weighing_case(weighing("where(kv <= q, qk * 0.5, -inf)"));
  const StreamingRegion r = Harness::derived(c);
  ASSERT_EQ(r.streams.size(), 1u);
  EXPECT_EQ(to_string(r.streams[0].skip), "q < kv");
  check(c);
}

TEST(Weighing, AddedTriangularMask) {
  const Case c = weighing_case(weighing("qk * 0.5 + where(kv <= q, 0.0, -inf)"));
  EXPECT_TRUE(Harness::derived(c).streams[0].skip);
  check(c);
}

TEST(Weighing, RowsWithoutAnyKey) {
  // Rows 0 and 1 see nothing: NaN, as the graph has it; with the guard, 0.
  check(weighing_case(weighing("where(kv + 2 <= q, qk * 0.5, -inf)")));
  check(weighing_case(
      weighing("where(kv + 2 <= q, qk * 0.5, -inf)", "g", "  g: f32[b, q, kv] = where(isnan(w), 0.0, w)\n")));
}

TEST(Weighing, FiniteMaskDefersTiles) {
  for (const char* masked : {"where(kv <= q, qk * 0.5, -10000.0)", "where(kv + 2 <= q, qk * 0.5, -2000.0)",
                             "qk * 0.5 + where(kv + 2 <= q, 0.0, -3.0e38)"}) {
    const Case c = weighing_case(weighing(masked));
    const StreamingRegion r = Harness::derived(c);
    EXPECT_FALSE(r.streams[0].skip);
    EXPECT_TRUE(r.streams[0].defer) << masked;
    check(c);
  }
}

TEST(Weighing, AddedConstantThatScoresShowThroughDefersNothing) {
  const Case c = weighing_case(weighing("qk * 0.5 + where(kv <= q, 0.0, -10000.0)"));
  EXPECT_FALSE(Harness::derived(c).streams[0].defer);
  check(c);
}

TEST(Weighing, GuardLeavesTheReduction) {
  Case c =
      weighing_case(weighing("qk * 0.5 + M[q, kv]", "g", "  g: f32[b, q, kv] = where(isnan(w), 0.0, w)\n"),
                    {Data::normal, Data::minus_infinity_prefix, Data::minus_infinity, Data::plus_infinity, Data::nan});
  const StreamingRegion r = Harness::derived(c);
  EXPECT_TRUE(std::ranges::any_of(r.certificate.entries, [](const auto& e) { return e.law == "uniform predicate"; }));
  check(c);
}

TEST(Weighing, SoftcapAndMultipliedMask) {
  check(weighing_case(weighing("tanh(qk * 0.5) * 3.0 + M[q, kv]")));
  check(weighing_case(weighing("qk * 0.5 * M[q, kv]")));                                   // a factor of the scores
  check(weighing_case(weighing("qk * 0.5", "g", "  g: f32[b, q, kv] = w * M[q, kv]\n")));  // a factor of the weights
}

TEST(Weighing, NarrowTypesCountAsF32) {
  std::string text = weighing("qk * 0.5 + M[q, kv]", "f32(h)", "  h: f16[b, q, kv] = f16(w)\n");
  Case c = weighing_case(text);
  c.scale = 1;
  check(c);
}

TEST(Weighing, StatesAreThoseOfOneMaximum) {
  const StreamingRegion r = Harness::derived(weighing_case(weighing("qk * 0.5 + M[q, kv]")));
  ASSERT_EQ(r.streams.size(), 1u);
  const Stream& s = r.streams[0];
  ASSERT_EQ(s.states.size(), 3u);
  EXPECT_EQ(s.states[0].name, "m");
  EXPECT_EQ(s.states[0].reduce, ReduceOp::maxnum);  // it only stabilises
  EXPECT_EQ(s.states[1].name, "l");
  EXPECT_EQ(s.states[2].name, "o");
  ASSERT_EQ(s.repairs.size(), 1u);
  EXPECT_EQ(s.repairs[0].references, std::vector<std::string>{"m"});
  EXPECT_EQ(r.parallel, (std::vector<std::string>{"b", "q"}));
  ASSERT_EQ(r.certificate.labels.size(), 1u);
  EXPECT_EQ(r.certificate.labels[0], "online_softmax: m, l   accumulate: o");
}

TEST(Row, NormalisedTakesTwoPasses) {
  check({.text = row_region(normalised + "  y: f32[r, n] = w\n", row_output),
         .data = all_data(),
         .passes = 2,
         .scale = 1e-2,
         .lengths = {0, 1, 3, 31, 127}});
}

TEST(Row, LogNormalised) {
  check({.text = row_region(normalised + "  y: f32[r, n] = X[r, n] - m - log(l)\n", row_output),
         .data = all_data(),
         .passes = 2,
         .scale = 1});
}

TEST(Row, LogSumExp) {
  check({.text = row_region(normalised + "  y: f32[r] = m + log(l)\n"), .data = all_data(), .scale = 1});
}

TEST(Row, MaximumThatIsWrittenKeepsNaN) {
  const Case c{.text = row_region(normalised + "  y: f32[r] = log(l)\n",
                                  "output y as Y: f32[2] at [r]\n  output m as M: f32[2] at [r]"),
               .data = all_data(),
               .scale = 1};
  EXPECT_EQ(Harness::derived(c).streams[0].states[0].reduce, ReduceOp::max);
  check(c);
}

TEST(Row, WithoutMaximumStaysLiteral) {
  check({.text = row_region("  p: f32[r, n] = exp(X[r, n])\n  l: f32[r] = sum(p over n)\n  y: f32[r] = log(l)\n"),
         .data = {Data::normal},
         .scale = 1});
}

TEST(Row, EntropyInBothSpellings) {
  for (const char* spelling : {"w * log(w)", "w * (X[r, n] - m - log(l))"}) {
    std::vector<Data> data = tame_data;
    data.push_back(Data::minus_infinity_prefix);
    data.push_back(Data::minus_infinity);
    data.push_back(Data::nan);
    check({.text = row_region(normalised + "  t: f32[r, n] = " + spelling +
                              "\n  h: f32[r] = sum(t over n)\n  y: f32[r] = -h\n"),
           .data = data,
           .scale = 1});
  }
}

TEST(Row, WeightedMean) {
  check({.text = row_region(normalised + "  y: f32[r] = sum(w * V[r, n] over n)\n"),
         .adversarial = {"X"},
         .data = all_data(),
         .scale = 1});
}

TEST(Row, QuotientAndProductOfExponentials) {
  check({.text = row_region(
             "  m: f32[r] = max(X[r, n] over n)\n  y: f32[r] = sum(exp(X[r, n]) / exp(m) * V[r, n] over n)\n"),
         .data = tame_data,
         .scale = 1});
  check({.text = row_region("  m: f32[r] = max(X[r, n] over n)\n  y: f32[r] = sum(exp(X[r, n] * 0.5) * exp(X[r, n] * "
                            "0.5 - m) over n)\n"),
         .data = tame_data,
         .scale = 1});
}

TEST(Row, SinkInTheDenominator) {
  const std::string body = R"(
  mx: f32[r] = max(X[r, n] over n)
  m: f32[r] = max(mx, 0.5)
  p: f32[r, n] = exp(X[r, n] - m)
  l: f32[r] = sum(p over n)
  z: f32[r] = l + exp(0.5 - m)
  w: f32[r, n] = p / z
  y: f32[r] = sum(w * V[r, n] over n)
)";
  check({.text = row_region(body), .data = all_data(), .scale = 1, .lengths = {0, 1, 2, 7, 31}});
}

}  // namespace
}  // namespace aicf::test
