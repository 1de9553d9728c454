// RNN, GRU, LSTM against loops in double over the definitions.

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using ::testing::HasSubstr;

constexpr int steps = 3, batch = 2, width = 2, hidden = 2;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Values without a pattern, in (−1, 1).
Tensor values(std::vector<std::int64_t> shape, double seed) {
  Tensor t(DType::f32, std::move(shape));
  for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, std::sin(seed + 1.7 * static_cast<double>(k)));
  return t;
}

struct Case {
  std::string op = "LSTM";
  int gates = 4, directions = 1;
  bool backward = false, linear_before_reset = false, coupled = false, peephole = false, batch_first = false;
  std::optional<double> clip;
  std::vector<int> lengths;
  Tensor x = values({steps, batch, width}, 0.1), w, r, b, h, c, p;

  explicit Case(std::string name = "LSTM", int directions_ = 1) : op(std::move(name)), directions(directions_) {
    gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
    w = values({directions, gates * hidden, width}, 0.2);
    r = values({directions, gates * hidden, hidden}, 0.3);
    b = values({directions, 2 * gates * hidden}, 0.4);
    h = values({directions, batch, hidden}, 0.5);
    c = values({directions, batch, hidden}, 0.6);
    p = values({directions, 3 * hidden}, 0.7);
  }
};

struct Wanted {
  std::vector<double> y, h, c;  ///< [steps, directions, batch, hidden], [directions, batch, hidden]
};

Wanted wanted(const Case& s) {
  Wanted out;
  const int n = s.directions;
  out.y.assign(static_cast<std::size_t>(steps * n * batch * hidden), 0);
  for (int d = 0; d < n; ++d) {
    for (int row = 0; row < batch; ++row) {
      std::vector<double> h(hidden), c(hidden);
      for (int u = 0; u < hidden; ++u) {
        h[u] = s.h.at((d * batch + row) * hidden + u);
        c[u] = s.c.at((d * batch + row) * hidden + u);
      }
      const int length = s.lengths.empty() ? steps : s.lengths[row];
      for (int k = 0; k < length; ++k) {
        const int t = s.backward || d == 1 ? length - 1 - k : k;
        const auto clipped = [&](double v) { return s.clip ? std::clamp(v, -*s.clip, *s.clip) : v; };
        const auto input = [&](int g, int u) {
          double v = s.b.at(d * 2 * s.gates * hidden + g * hidden + u);
          for (int e = 0; e < width; ++e)
            v += s.x.at((t * batch + row) * width + e) * s.w.at((d * s.gates * hidden + g * hidden + u) * width + e);
          return v;
        };
        const auto state = [&](const std::vector<double>& from, int g, int u) {
          double v = s.b.at(d * 2 * s.gates * hidden + (s.gates + g) * hidden + u);
          for (int e = 0; e < hidden; ++e) v += from[e] * s.r.at((d * s.gates * hidden + g * hidden + u) * hidden + e);
          return v;
        };
        std::vector<double> next_h(hidden), next_c(hidden);
        if (s.op == "RNN") {
          for (int u = 0; u < hidden; ++u) next_h[u] = std::tanh(clipped(input(0, u) + state(h, 0, u)));
        } else if (s.op == "GRU") {
          std::vector<double> z(hidden), reset(hidden), gated(hidden);
          for (int u = 0; u < hidden; ++u) {
            z[u] = sigmoid(clipped(input(0, u) + state(h, 0, u)));
            reset[u] = sigmoid(clipped(input(1, u) + state(h, 1, u)));
            gated[u] = reset[u] * h[u];
          }
          for (int u = 0; u < hidden; ++u) {
            const double part = s.linear_before_reset ? reset[u] * state(h, 2, u) : state(gated, 2, u);
            next_h[u] = (1 - z[u]) * std::tanh(clipped(input(2, u) + part)) + z[u] * h[u];
          }
        } else {
          for (int u = 0; u < hidden; ++u) {
            const auto look = [&](int g, double v) {
              return s.peephole ? s.p.at(d * 3 * hidden + g * hidden + u) * v : 0;
            };
            const double i = sigmoid(clipped(input(0, u) + state(h, 0, u) + look(0, c[u])));
            const double f = s.coupled ? 1 - i : sigmoid(clipped(input(2, u) + state(h, 2, u) + look(2, c[u])));
            next_c[u] = f * c[u] + i * std::tanh(clipped(input(3, u) + state(h, 3, u)));
            const double o = sigmoid(clipped(input(1, u) + state(h, 1, u) + look(1, next_c[u])));
            next_h[u] = o * std::tanh(next_c[u]);
          }
        }
        h = next_h;
        c = next_c;
        for (int u = 0; u < hidden; ++u)
          out.y[static_cast<std::size_t>(((t * n + d) * batch + row) * hidden + u)] = h[u];
      }
      for (int u = 0; u < hidden; ++u) {
        out.h.push_back(h[u]);
        out.c.push_back(c[u]);
      }
    }
  }
  return out;
}

/// The middle two dims of [a, b, c, rest], or the first two of [a, b, rest], exchanged.
Tensor exchanged(const Tensor& t, std::int64_t a, std::int64_t b) {
  std::vector<std::int64_t> shape = t.shape();
  std::swap(shape[0], shape[1]);
  Tensor out(t.type(), shape);
  const std::int64_t rest = t.size() / (a * b);
  for (std::int64_t i = 0; i < a; ++i)
    for (std::int64_t j = 0; j < b; ++j)
      for (std::int64_t k = 0; k < rest; ++k) out.set((j * a + i) * rest + k, t.at((i * b + j) * rest + k));
  return out;
}

void check(const Case& s) {
  GraphBuilder g("recurrent", 22);
  NamedTensors inputs;
  const auto input = [&](const char* name, const Tensor& t) {
    std::vector<Size> shape;
    for (const std::int64_t d : t.shape()) shape.emplace_back(d);
    inputs[name] = t;
    return g.input(name, t.type(), shape);
  };
  std::vector<std::string> operands{input("X", s.batch_first ? exchanged(s.x, steps, batch) : s.x), input("W", s.w),
                                    input("R", s.r), input("B", s.b), ""};
  if (!s.lengths.empty()) {
    Tensor lengths(DType::i32, {batch});
    for (int k = 0; k < batch; ++k) lengths.set(k, s.lengths[k]);
    operands[4] = input("lengths", lengths);
  }
  operands.push_back(input("h", s.batch_first ? exchanged(s.h, s.directions, batch) : s.h));
  std::vector<std::string> results{"Y", "Y_h"};
  if (s.op == "LSTM") {
    operands.push_back(input("c", s.batch_first ? exchanged(s.c, s.directions, batch) : s.c));
    if (s.peephole) operands.push_back(input("P", s.p));
    results.emplace_back("Y_c");
  }
  std::vector<NamedAttribute> attributes{{"hidden_size", hidden},
                                         {"direction", s.directions == 2 ? "bidirectional"
                                                       : s.backward      ? "reverse"
                                                                         : "forward"}};
  if (s.clip) attributes.emplace_back("clip", *s.clip);
  if (s.linear_before_reset) attributes.emplace_back("linear_before_reset", 1);
  if (s.coupled) attributes.emplace_back("input_forget", 1);
  if (s.batch_first) attributes.emplace_back("layout", 1);
  g.add(s.op, operands, results, attributes);
  for (const std::string& r : results) g.output(r, r);
  const NamedTensors got = test::run(g.build(), inputs);
  ASSERT_EQ(got.size(), results.size());
  const Wanted want = wanted(s);
  if (s.batch_first) {
    const Tensor& y = got.at("Y");  // [batch, steps, directions, hidden]
    ASSERT_EQ(y.shape(), (std::vector<std::int64_t>{batch, steps, s.directions, hidden}));
    for (int t = 0; t < steps; ++t)
      for (int d = 0; d < s.directions; ++d)
        for (int row = 0; row < batch; ++row)
          for (int u = 0; u < hidden; ++u)
            EXPECT_NEAR(y.at(((row * steps + t) * s.directions + d) * hidden + u),
                        want.y[static_cast<std::size_t>(((t * s.directions + d) * batch + row) * hidden + u)], 1e-6);
    expect_near(exchanged(got.at("Y_h"), batch, s.directions), {s.directions, batch, hidden}, want.h);
    return;
  }
  expect_near(got.at("Y"), {steps, s.directions, batch, hidden}, want.y);
  expect_near(got.at("Y_h"), {s.directions, batch, hidden}, want.h);
  if (s.op == "LSTM") expect_near(got.at("Y_c"), {s.directions, batch, hidden}, want.c);
}

TEST(Recurrent, Lstm) {
  check(Case());
}

TEST(Recurrent, LstmWithEverything) {
  Case s("LSTM", 2);
  s.peephole = true;
  s.lengths = {3, 1};
  s.clip = 0.4;
  check(s);
}

TEST(Recurrent, LstmWithCoupledGatesBackwards) {
  Case s;
  s.coupled = s.backward = true;
  s.lengths = {2, 3};
  check(s);
}

TEST(Recurrent, BatchFirst) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    Case s(op, 2);
    s.batch_first = true;
    check(s);
  }
}

TEST(Recurrent, GruBothWays) {
  for (const bool linear : {false, true}) {
    Case s("GRU", 2);
    s.linear_before_reset = linear;
    s.lengths = {1, 3};
    check(s);
  }
}

TEST(Recurrent, RnnClipped) {
  Case s("RNN");
  s.clip = 0.3;
  s.backward = true;
  check(s);
}

TEST(Recurrent, StepsAreKnownAndFew) {
  const auto error = [](const Size& length) {
    GraphBuilder g("r", 22);
    const auto x = g.input("X", DType::f32, {length, 1, 2}), w = g.input("W", DType::f32, {1, 2, 2}),
               r = g.input("R", DType::f32, {1, 2, 2});
    g.output(g.add("RNN", {x, w, r}), "y");
    return test::error_of(g.build());
  };
  EXPECT_EQ(error(4), "");
  EXPECT_THAT(error("n"), HasSubstr("the number of steps is n, and each step is written out; bind the symbols"));
  EXPECT_THAT(error(200), HasSubstr("200 steps"));
  EXPECT_THAT(error(0), HasSubstr("0 steps"));
}

TEST(Recurrent, StepsOfAModelAreCounted) {
  GraphBuilder g("r", 22);
  const auto x = g.input("X", DType::f32, {128, 1, 2}), w = g.input("W", DType::f32, {1, 2, 2}),
             r = g.input("R", DType::f32, {1, 2, 2});
  for (int k = 0; k < 33; ++k) g.output(g.add("RNN", {x, w, r}), "y" + std::to_string(k));
  EXPECT_THAT(test::error_of(g.build()), HasSubstr("more than 4096 steps together"));
}

TEST(Recurrent, ActivationsAreNamed) {
  const auto run = [](const char* name, double alpha) {
    GraphBuilder g("r", 22);
    const auto x = g.input("X", DType::f32, {1, 1, 1}), w = g.constant(DType::f32, {1, 1, 1}, {1}),
               r = g.constant(DType::f32, {1, 1, 1}, {0});
    SemanticGraph graph = (g.add("RNN", {x, w, r}, {"y", "h"}, {}), g.output("y", "y"), g.build());
    Attribute names, alphas;
    names.kind = Attribute::Kind::texts;
    names.ss = {name};
    alphas.kind = Attribute::Kind::reals;
    alphas.fs = {alpha};
    graph.nodes.back().attributes = {{"activations", names}, {"activation_alpha", alphas}};
    return graph;
  };
  const Tensor x = test::tensor(DType::f32, {1, 1, 1}, {-2});
  expect_near(test::run(run("LeakyRelu", 0.25), {{"X", x}}).at("y"), {1, 1, 1, 1}, {-0.5});
  expect_near(test::run(run("Elu", 2), {{"X", x}}).at("y"), {1, 1, 1, 1}, {2 * (std::exp(-2) - 1)});
  expect_near(test::run(run("HardSigmoid", 0.1), {{"X", x}}).at("y"), {1, 1, 1, 1}, {0.3});
  EXPECT_THAT(test::error_of(run("Swoosh", 0)), HasSubstr("the activation 'Swoosh'"));
}

}  // namespace
}  // namespace aicf
