// The Attention operator and rotary embeddings against hand-made sums, by the cases in which implementations differed.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity();

/// All scores 0 and V = 1, 2, 4, 8, … in one column: a row's result is the mean over the keys it sees.
struct Zeros {
  GraphBuilder g;
  NamedTensors in;
  std::vector<std::string> operands;

  Zeros(int queries, int keys, int opset = 24, int batch = 1) : g("attention", opset) {
    operands = {add("Q", {batch, 1, queries, 8}, 0), add("K", {batch, 1, keys, 8}, 0),
                add("V", {batch, 1, keys, 1}, 1)};
  }
  std::string add(const std::string& name, std::vector<std::int64_t> shape, double first) {
    Tensor t(DType::f32, shape);
    if (first != 0) {
      const std::int64_t n = shape[2];
      for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, first * std::exp2(static_cast<double>(k % n)));
    }
    in[name] = t;
    return g.input(name, DType::f32, std::vector<Size>(shape.begin(), shape.end()));
  }
  std::string add(const std::string& name, Tensor t) {
    const DType type = t.type();
    const std::vector<std::int64_t> shape = t.shape();
    in[name] = std::move(t);
    return g.input(name, type, std::vector<Size>(shape.begin(), shape.end()));
  }
  std::vector<double> result(const std::vector<NamedAttribute>& attributes) {
    g.output(g.add("Attention", operands, attributes), "y");
    const auto out = test::run(g.build(), in);
    return out.contains("y") ? test::elements(out.at("y")) : std::vector<double>{};
  }
};

void expect_rows(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(got[k], wanted[k], 1e-6) << "row " << k;
}

TEST(Attention, CausalWithFewerQueriesStartsAtTheFirstKey) {
  expect_rows(Zeros(1, 4).result({{"is_causal", 1}}), {1});
  expect_rows(Zeros(2, 4).result({{"is_causal", 1}}), {1, 1.5});
  expect_rows(Zeros(4, 2).result({{"is_causal", 1}}), {1, 1.5, 1.5, 1.5});
}

TEST(Attention, CausalWithACacheSeesThePast) {
  Zeros z(1, 1);
  z.operands.insert(z.operands.end(), {"", z.add("past_key", {1, 1, 3, 8}, 0), z.add("past_value", {1, 1, 3, 1}, 16)});
  expect_rows(z.result({{"is_causal", 1}}), {(16 + 32 + 64 + 1) / 4.0});
}

TEST(Attention, CausalWithValidLengthsPerBatch) {
  Zeros z(2, 6, 24, 2);
  z.operands.insert(z.operands.end(), {"", "", "", z.add("nonpad", tensor(DType::i64, {2}, {4, 6}))});
  expect_rows(z.result({{"is_causal", 1}}), {7 / 3.0, 15 / 4.0, 31 / 5.0, 63 / 6.0});
  Zeros shorter(2, 6, 24, 1);
  shorter.operands.insert(shorter.operands.end(), {"", "", "", shorter.add("nonpad", tensor(DType::i64, {1}, {1}))});
  expect_rows(shorter.result({{"is_causal", 1}}), {0, 1});
}

TEST(Attention, WindowsOfOpset25) {
  expect_rows(Zeros(4, 6, 25).result({{"left_window_size", 2}, {"right_window_size", 1}}),
              {(1 + 2) / 2.0, (1 + 2 + 4) / 3.0, (1 + 2 + 4 + 8) / 4.0, (2 + 4 + 8 + 16) / 4.0});
}

TEST(Attention, CapStandsBeforeTheMask) {
  for (const int mode : {0, 1, 2, 3}) {
    GraphBuilder g("cap", 24);
    const auto mask = g.constant(DType::f32, {1, 4}, {0, 0, -inf, -inf}),
               v = g.constant(DType::f32, {1, 1, 4, 1}, {1, 1, 1000, 1000});
    const auto y = g.add_many("Attention",
                              {g.input("q", DType::f32, {1, 1, 1, 8}), g.input("k", DType::f32, {1, 1, 4, 8}), v, mask},
                              4, {{"softcap", 1.0}, {"qk_matmul_output_mode", mode}, {"scale", 1.0}});
    g.output(y[0], "y");
    g.output(y[3], "debug");
    Tensor q(DType::f32, {1, 1, 1, 8}), k(DType::f32, {1, 1, 4, 8});
    q.set(0, 1);
    for (int j = 0; j < 4; ++j) k.set(8 * j, 2);  // every score is 2
    const auto out = test::run(g.build(), {{"q", q}, {"k", k}});
    expect_near(out.at("y"), {1, 1, 1, 1}, {1});
    const double cap = std::tanh(2.0);
    const std::vector<std::vector<double>> wanted{
        {2, 2, 2, 2}, {cap, cap, cap, cap}, {cap, cap, -inf, -inf}, {.5, .5, 0, 0}};
    expect_near(out.at("debug"), {1, 1, 1, 4}, wanted[static_cast<std::size_t>(mode)]);
  }
}

TEST(Attention, DecomposedMaskThenCapStaysLiteral) {
  GraphBuilder g("literal", 17);
  const auto s = g.input("s", DType::f32, {1, 4});
  const auto masked = g.add("Add", {s, g.constant(DType::f32, {4}, {0, 0, -inf, -inf})});
  const auto p = g.add("Softmax", {g.add("Tanh", {masked})});
  g.output(g.add("MatMul", {p, g.constant(DType::f32, {4, 1}, {1, 1, 1000, 1000})}), "y");
  g.output(p, "p");
  const auto out = test::run(g.build(), {{"s", Tensor(DType::f32, {1, 4})}});
  expect_near(out.at("p"), {1, 4}, {.365529, .365529, .134471, .134471}, 1e-6);
  expect_near(out.at("y"), {1, 1}, {269.67}, 5e-3);
}

TEST(Attention, MaskedRowsAreZero) {
  Zeros boolean(2, 2);
  boolean.operands.push_back(boolean.add("mask", tensor(DType::boolean, {2, 2}, {0, 0, 1, 0})));
  expect_rows(boolean.result({}), {0, 1});
  Zeros additive(2, 2);
  additive.operands.push_back(additive.add("mask", tensor(DType::f32, {2, 2}, {-inf, -inf, 0, -inf})));
  expect_rows(additive.result({}), {0, 1});
}

TEST(Attention, MasksBroadcastFromTheRightAndMayBeShort) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3}, {1, 3}, {2, 1}, {1, 1, 2, 3}}) {
    Zeros z(2, 3);
    Tensor mask(DType::boolean, shape);
    for (std::int64_t k = 0; k < mask.size(); ++k) mask.set(k, 1);
    z.operands.push_back(z.add("mask", mask));
    expect_rows(z.result({}), {7 / 3.0, 7 / 3.0});
  }
  Zeros z(1, 4);
  z.operands.push_back(z.add("mask", tensor(DType::f32, {1, 2}, {0, 0})));
  expect_rows(z.result({}), {1.5});
  Zeros boolean(1, 4);
  boolean.operands.push_back(boolean.add("mask", tensor(DType::boolean, {1, 2}, {0, 1})));
  expect_rows(boolean.result({}), {2});
}

TEST(Attention, GroupsOfHeadsInRank3) {
  // Four query heads share two key heads; key head h has V = 10 h + 1.
  GraphBuilder g("groups", 23);
  const auto q = g.input("q", DType::f32, {1, 2, 4 * 2}), k = g.input("k", DType::f32, {1, 3, 2 * 2}),
             v = g.input("v", DType::f32, {1, 3, 2 * 1});
  const auto y = g.add_many("Attention", {q, k, v}, 3, {{"q_num_heads", 4}, {"kv_num_heads", 2}});
  g.output(y[0], "y");
  g.output(y[2], "present");
  Tensor values(DType::f32, {1, 3, 2});
  for (int n = 0; n < 3; ++n) {
    values.set(2 * n, 1);
    values.set(2 * n + 1, 11);
  }
  const auto out = test::run(g.build(), {{"q", test::ramp(DType::f32, {1, 2, 8}, 0, .1)},
                                         {"k", test::ramp(DType::f32, {1, 3, 4}, 0, .1)},
                                         {"v", values}});
  expect_near(out.at("y"), {1, 2, 4}, {1, 1, 11, 11, 1, 1, 11, 11});
  expect_near(out.at("present"), {1, 2, 3, 1}, {1, 1, 1, 11, 11, 11});
}

TEST(Attention, ScaleAndF16) {
  GraphBuilder g("scale", 23);
  const auto q = g.input("q", DType::f16, {1, 1, 1, 4}), k = g.input("k", DType::f16, {1, 1, 2, 4}),
             v = g.input("v", DType::f16, {1, 1, 2, 1});
  g.output(g.add("Attention", {q, k, v}), "default");
  g.output(g.add("Attention", {q, k, v}, {{"scale", 1.0}}), "one");
  const auto out = test::run(g.build(), {{"q", tensor(DType::f16, {1, 1, 1, 4}, {2, 0, 0, 0})},
                                         {"k", tensor(DType::f16, {1, 1, 2, 4}, {0, 0, 0, 0, 1, 0, 0, 0})},
                                         {"v", tensor(DType::f16, {1, 1, 2, 1}, {0, 1})}});
  expect_near(out.at("default"), {1, 1, 1, 1}, {std::exp(1.0) / (1 + std::exp(1.0))}, 1e-3);
  expect_near(out.at("one"), {1, 1, 1, 1}, {std::exp(2.0) / (1 + std::exp(2.0))}, 1e-3);
}

TEST(Attention, EmptyKeysGiveZeros) {
  GraphBuilder g("empty", 23);
  g.output(g.add("Attention", {g.input("q", DType::f32, {1, 1, 3, 4}), g.input("k", DType::f32, {1, 1, "n", 4}),
                               g.input("v", DType::f32, {1, 1, "n", 2})}),
           "y");
  const auto out = test::run(g.build(), {{"q", Tensor(DType::f32, {1, 1, 3, 4})},
                                         {"k", Tensor(DType::f32, {1, 1, 0, 4})},
                                         {"v", Tensor(DType::f32, {1, 1, 0, 2})}});
  expect_near(out.at("y"), {1, 1, 3, 2}, {0, 0, 0, 0, 0, 0});
}

TEST(Attention, DifferentLengthsOfKAndVAreAnError) {
  GraphBuilder g("bad", 23);
  g.output(g.add("Attention", {g.input("q", DType::f32, {1, 1, 3, 4}), g.input("k", DType::f32, {1, 1, 5, 4}),
                               g.input("v", DType::f32, {1, 1, 6, 2})}));
  EXPECT_THAT(test::error_of(g.build()), HasSubstr("lengths of K and V disagree: 5 against 6"));
}

/// Turns pair (a, b) by angle t.
std::pair<double, double> turned(double a, double b, double t) {
  return {a * std::cos(t) - b * std::sin(t), b * std::cos(t) + a * std::sin(t)};
}

TEST(Rotary, HalvesInterleavedPartialAndPositions) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6};
  const double t0 = .3, t1 = 1.1;
  const auto rotary = [&](const std::vector<NamedAttribute>& attributes, bool positions) {
    GraphBuilder g("rope", 23);
    std::vector<std::string> operands{g.input("x", DType::f32, {1, 1, 1, 6})};
    const bool partial =
        std::ranges::any_of(attributes, [](const NamedAttribute& a) { return a.name == "rotary_embedding_dim"; });
    const int half = partial ? 2 : 3;
    std::vector<double> c{std::cos(t0), std::cos(t1), std::cos(0.0)}, s{std::sin(t0), std::sin(t1), std::sin(0.0)};
    c.resize(half);
    s.resize(half);
    if (positions) {
      std::vector<double> c2(half, 9), s2(half, 9);  // row 0 is not the one that is read
      c2.insert(c2.end(), c.begin(), c.end());
      s2.insert(s2.end(), s.begin(), s.end());
      operands.insert(operands.end(), {g.constant(DType::f32, {2, half}, c2), g.constant(DType::f32, {2, half}, s2),
                                       g.constant(DType::i64, {1, 1}, {1})});
    } else {
      operands.insert(operands.end(),
                      {g.constant(DType::f32, {1, 1, half}, c), g.constant(DType::f32, {1, 1, half}, s)});
    }
    g.output(g.add("RotaryEmbedding", operands, attributes), "y");
    return test::elements(test::run(g.build(), {{"x", tensor(DType::f32, {1, 1, 1, 6}, x)}}).at("y"));
  };
  const auto [a0, b0] = turned(1, 4, t0);
  const auto [a1, b1] = turned(2, 5, t1);
  expect_rows(rotary({}, false), {a0, a1, 3, b0, b1, 6});
  expect_rows(rotary({}, true), {a0, a1, 3, b0, b1, 6});
  const auto [c0, d0] = turned(1, 2, t0);
  const auto [c1, d1] = turned(3, 4, t1);
  expect_rows(rotary({{"interleaved", 1}}, false), {c0, d0, c1, d1, 5, 6});
  const auto [e0, f0] = turned(1, 3, t0);
  const auto [e1, f1] = turned(2, 4, t1);
  expect_rows(rotary({{"rotary_embedding_dim", 4}}, true), {e0, e1, f0, f1, 5, 6});
}

// One position for the first element; the head size comes from the caches.
TEST(Contrib, RotaryEmbeddingFromAPosition) {
  GraphBuilder g("rope");
  const std::vector<double> angle{9, .3, 1.1};
  std::vector<double> c, s;
  for (const double t : angle) c.push_back(std::cos(t)), s.push_back(std::sin(t));
  const std::vector<std::string> operands{g.input("x", DType::f32, {1, "n", 4}), g.input("at", DType::i64, {1}),
                                          g.constant(DType::f32, {3, 1}, c), g.constant(DType::f32, {3, 1}, s)};
  g.output(g.add("com.microsoft.RotaryEmbedding", operands), "y");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                                         {"at", tensor(DType::i64, {1}, {1})}});
  std::vector<double> wanted;
  for (const auto& [a, b, row] : {std::tuple{1, 2, 1}, {3, 4, 1}, {5, 6, 2}, {7, 8, 2}}) {
    wanted.push_back(c[row] * a - s[row] * b);
    wanted.push_back(s[row] * a + c[row] * b);
  }
  expect_near(out.at("y"), {1, 2, 4}, wanted);
}

TEST(Contrib, MultiHeadAttentionWithBiasAndPadding) {
  GraphBuilder g("mha");
  const auto q = g.input("q", DType::f32, {1, 1, 2}), k = g.input("k", DType::f32, {1, 2, 2}),
             v = g.input("v", DType::f32, {1, 2, 2});
  const auto bias = g.constant(DType::f32, {6}, {0, 0, 0, 0, 100, 200}),
             padding = g.constant(DType::i32, {1, 2}, {1, 0});
  g.output(g.add("com.microsoft.MultiHeadAttention", {q, k, v, bias, padding}, {{"num_heads", 2}}), "y");
  const auto out = test::run(g.build(), {{"q", Tensor(DType::f32, {1, 1, 2})},
                                         {"k", Tensor(DType::f32, {1, 2, 2})},
                                         {"v", tensor(DType::f32, {1, 2, 2}, {1, 2, 50, 60})}});
  expect_near(out.at("y"), {1, 1, 2}, {101, 202});
}

}  // namespace
}  // namespace aicf
