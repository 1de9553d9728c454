// Streams that nest in a step and follow one another: text, rules and meaning of the Memory-Centric IR. No derivation
// makes them yet, and lowering says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "mir/kernel/lower.h"
#include "mir/memory/schedule.h"
#include "mir/stream/evaluate.h"

namespace aicf::test {
namespace {

using ::testing::HasSubstr;

/// total[i] = sum over n of log(sum over k of exp(X[i, n, k])), the inner sum online in a stream of its own;
/// then Y[i] = sum over j of (Z[i, j] - total[i])^2 in a second pass.
constexpr const char* nested = R"(streaming_region nested_0 reduction for i {
  symbols len, w
  axes    i=3, n=len, k=w, j=5
  pass n  order ascending {
    state   total: f32[i]  init 0.0  sum  residency ?
    step {
      pass k  order ascending {
        stream  x: f32[i, n, k]  from X[i, n, k] of [3, len, w]  lifecycle step  residency ?
        state   m: f32[i, n]  init -inf  max  residency ?
        state   (l: f32[i, n])  init 0.0  sum  residency ?  repair exp(m - m') * (l) by m   # cascade
        step {
          m max= x
          l += sum(exp(x - m) over k)
        }
        merge {
          m = max(a.m, b.m)
          l = exp(a.m - m) * a.l + exp(b.m - m) * b.l
        }
        finish {
          local y: f32[i, n]  residency ? = m + log(l)
        }
      }
      total += sum(y over n)
    }
    merge {
      total = a.total + b.total
    }
  }
  pass j  order descending {
    stream  z: f32[i, j]  from Z[i, j] of [3, 5]  lifecycle step  residency ?
    state   d: f32[i]  init 0.0  sum  residency ?
    step {
      d += sum((z - total) * (z - total) over j)
    }
    merge {
      d = a.d + b.d
    }
    finish {
      store Y[i] of [3] for [i; f32] = d
    }
  }
}
)";

StreamingRegion parsed(const std::string& text) {
  Result<StreamingRegion> region = parse_streaming_region(text, "nested");
  if (!region) {
    ADD_FAILURE() << region.error().text();
    return {};
  }
  return std::move(*region);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Nested, TextRoundTrips) {
  const StreamingRegion region = parsed(nested);
  ASSERT_EQ(region.streams.size(), 2u);
  ASSERT_EQ(region.streams[0].step.size(), 2u);
  const StepStatement& inner = region.streams[0].step[0];
  ASSERT_EQ(inner.kind, StepStatement::Kind::nested);
  EXPECT_EQ(inner.nested->axis, "k");
  EXPECT_EQ(inner.nested->states.size(), 2u);
  EXPECT_EQ(inner.nested->finish.size(), 1u);
  EXPECT_EQ(region.streams[1].order, StreamOrder::descending);
  EXPECT_EQ(to_string(region), nested);
}

TEST(Nested, RulesReachIntoTheInnerStream) {
  const auto refusal = [](const std::string& text) {
    const Result<void> result = verify(parsed(text));
    return result ? std::string() : result.error().text();
  };
  EXPECT_EQ(refusal(nested), "");
  EXPECT_THAT(refusal(replaced(nested, "          m max= x\n", "")), HasSubstr("no statement updates"));
  EXPECT_THAT(refusal(replaced(nested, "state   m: f32[i, n]", "state   m: f32[i, k]")),
              HasSubstr("carries the stream axis"));
  EXPECT_THAT(
      refusal(replaced(nested, "          m = max(a.m, b.m)\n          l = exp(a.m - m) * a.l + exp(b.m - m) * b.l\n",
                       "          m = max(a.m, b.m)\n")),
      HasSubstr("'l'"));
  EXPECT_THAT(refusal(replaced(nested, "state   (l: f32[i, n])", "state   (l: f32[i])")), HasSubstr("axis"));
  // What the inner step holds ends with it.
  EXPECT_THAT(refusal(replaced(nested, "total += sum(y over n)", "total += sum(x over n)")), HasSubstr("'x'"));
}

TEST(Nested, MeaningUnderStepsAndCuts) {
  const StreamingRegion region = parsed(nested);
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 3);
  for (const auto& [len, w] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {4, 3}, {7, 10}, {0, 2}}) {
    HostTensors inputs{{"X", {}}, {"Z", {}}};
    for (std::int64_t e = 0; e < 3 * len * w; ++e) inputs["X"].push_back(normal(random));
    for (int e = 0; e < 15; ++e) inputs["Z"].push_back(normal(random));
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 3; ++i) {
      double total = 0, squares = 0;
      for (std::int64_t n = 0; n < len; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < w; ++k)
          sum += std::exp(inputs["X"][static_cast<std::size_t>((i * len + n) * w + k)]);
        total += std::log(sum);
      }
      for (std::int64_t j = 0; j < 5; ++j) {
        const double difference = inputs["Z"][static_cast<std::size_t>(i * 5 + j)] - total;
        squares += difference * difference;
      }
      expected.push_back(squares);
    }
    for (const std::vector<std::int64_t>& steps : {std::vector<std::int64_t>{}, {1}, {2, 3}, {3, 1, 2}}) {
      for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{}, {2}, {1, 4}}) {
        EvaluateOptions options;
        options.symbols = {{"len", len}, {"w", w}};
        options.steps = steps;
        options.cuts = cuts;
        const Result<HostTensors> out = evaluate(region, inputs, options);
        ASSERT_TRUE(out) << out.error().text();
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_NEAR(out->at("Y")[i], expected[i], 1e-9 * (1 + expected[i])) << len << " " << w << " row " << i;
      }
    }
  }
}

// The test above sees a wrong repair and a wrong merge of the inner stream.
TEST(Nested, MutantsOfTheInnerStreamAreSeen) {
  HostTensors inputs{{"X", {}}, {"Z", std::vector<double>(15, 0)}};
  for (int e = 0; e < 3 * 2 * 6; ++e) inputs["X"].push_back(e % 6);
  EvaluateOptions options;
  options.symbols = {{"len", 2}, {"w", 6}};
  options.steps = {2};
  options.cuts = {3};
  const auto result = [&](const std::string& text) {
    const Result<HostTensors> out = evaluate(parsed(text), inputs, options);
    EXPECT_TRUE(out) << out.error().text();
    return out->at("Y");
  };
  const std::vector<double> right = result(nested);
  EXPECT_NE(result(replaced(nested, "exp(m - m')", "exp(m' - m)")), right);
  EXPECT_NE(result(replaced(nested, "exp(a.m - m) * a.l", "a.l")), right);
}

TEST(Nested, LoweringRefusesByName) {
  ScheduledRegion scheduled{parsed(nested), {}};
  const Result<LoweredRegion> lowered = lower(scheduled);
  ASSERT_FALSE(lowered);
  EXPECT_EQ(lowered.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(lowered.error().message, HasSubstr("nested in a step"));
}

}  // namespace
}  // namespace aicf::test
