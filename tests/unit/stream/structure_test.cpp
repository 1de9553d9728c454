// Where values are placed: tiles and guards, prologue, inner reductions, epilogues, several outputs; and the checks of
// verify() and the reference evaluator.

#include <fmt/format.h>

#include "derive_harness.h"
#include "mir/stream/facts.h"

namespace aicf::test {
namespace {

using testing::Test;

TEST(Structure, ProductWithEpilogue) {
  const Case c{.text = R"(region gemm_0 contraction {
  symbols len
  axes i=3, j=4, k=len
  input X: f32[3, len]
  input B: f32[len, 4]
  input C: f32[4]
  acc: f32[i, j] = sum(X[i, k] * B[k, j] over k)
  u: f32[i, j] = acc + C[j]
  y: f32[i, j] = u * (0.5 + 0.5 * erf(u * 0.70710678))
  output y as Y: f32[3, 4] at [i, j]
}
)",
               .data = {Data::normal, Data::mean_zero},
               .scale = 1,
               .lengths = {0, 1, 7, 31}};
  const StreamingRegion r = Harness::derived(c);
  EXPECT_EQ(r.parallel, (std::vector<std::string>{"i", "j"}));
  ASSERT_EQ(r.streams.size(), 1u);
  ASSERT_EQ(r.streams[0].states.size(), 1u);
  EXPECT_EQ(r.streams[0].states[0].name, "acc");
  EXPECT_EQ(r.streams[0].tiles.size(), 2u);
  ASSERT_EQ(r.tiles.size(), 1u);  // the bias, needed at finish
  EXPECT_EQ(r.tiles[0].lifecycle, Lifecycle::region);
  check(c);
}

TEST(Structure, NormalisedOperandsOfAProduct) {
  // Rows of Q are normalised once (prologue); rows of K in every step (inner reductions).
  const Case c{.text = R"(region weighing_0 contraction {
  symbols len
  axes q=4, kv=len, d=5, e=3
  input Q: f32[4, 5]
  input K: f32[len, 5]
  input V: f32[len, 3]
  qq: f32[q] = sum(Q[q, d] * Q[q, d] over d)
  qn: f32[q, d] = Q[q, d] / sqrt(qq + 0.001)
  kk: f32[kv] = sum(K[kv, d] * K[kv, d] over d)
  kn: f32[kv, d] = K[kv, d] / sqrt(kk + 0.001)
  s: f32[q, kv] = sum(qn * kn over d)
  m: f32[q] = max(s over kv)
  p: f32[q, kv] = exp(s - m)
  l: f32[q] = sum(p over kv)
  o: f32[q, e] = sum(p / l * V[kv, e] over kv)
  output o as O: f32[4, 3] at [q, e]
}
)",
               .data = {Data::normal},
               .scale = 1,
               .lengths = {0, 1, 7, 31}};
  const StreamingRegion r = Harness::derived(c);
  EXPECT_GE(r.prologue.size(), 2u);
  check(c);
}

// Exporters put the root of a scale on both sides of a product. The streamed side's goes to the side that is held; a
// factor beyond 1, which could overflow there, stays.
TEST(Structure, FactorsMoveToWhatIsHeld) {
  auto text = [](double factor) {
    return fmt::format(R"(region weighing_0 contraction {{
  symbols len
  axes q=4, kv=len, d=5, e=3
  input Q: f32[4, 5]
  input X: f32[len, 5]
  input V: f32[len, 3]
  qs: f32[q, d] = Q[q, d] * 0.375
  xs: f32[kv, d] = X[kv, d] * {}
  s: f32[q, kv] = sum(qs * xs over d)
  m: f32[q] = max(s over kv)
  p: f32[q, kv] = exp(s - m)
  l: f32[q] = sum(p over kv)
  o: f32[q, e] = sum(p / l * V[kv, e] over kv)
  output o as O: f32[4, 3] at [q, e]
}}
)",
                       factor);
  };
  Case c{.text = text(0.25), .data = {Data::normal}, .scale = 1, .lengths = {1, 7, 31}};
  EXPECT_NE(to_string(Harness::derived(c)).find("= Q * 0.09375"), std::string::npos);
  EXPECT_EQ(to_string(Harness::derived(c)).find("* 0.25"), std::string::npos);
  check(c);
  c.text = text(1.25);
  EXPECT_NE(to_string(Harness::derived(c)).find("= X * 1.25"), std::string::npos);
  check(c);
}

TEST(Structure, PastAndNewKeysAreGuardedLoads) {
  const Case c{.text = R"(region weighing_0 contraction {
  symbols len
  axes q=3, kv=len + 2, d=4, e=3
  input Q: f32[3, 4]
  input P: f32[len, 4]
  input K: f32[2, 4]
  input V: f32[len + 2, 3]
  k: f32[kv, d] = where(kv < len, P[kv, d], K[kv - len, d])
  s: f32[q, kv] = sum(Q[q, d] * k over d)
  m: f32[q] = max(s over kv)
  p: f32[q, kv] = exp(s - m)
  l: f32[q] = sum(p over kv)
  o: f32[q, e] = sum(p / l * V[kv, e] over kv)
  output o as O: f32[3, 3] at [q, e]
}
)",
               .data = {Data::normal},
               .scale = 1,
               .lengths = {0, 1, 7}};
  const StreamingRegion r = Harness::derived(c);
  int guarded = 0;
  for (const TileDecl& t : r.streams[0].tiles) guarded += t.guard ? 1 : 0;
  EXPECT_EQ(guarded, 2);  // past and new, not V
  ASSERT_EQ(r.streams[0].segments.size(), 2u);
  EXPECT_EQ(to_string(r.streams[0].segments[0].end), "len");
  EXPECT_EQ(r.streams[0].segments[0].tiles, (std::vector<std::string>{"P", "V"}));
  EXPECT_EQ(r.streams[0].segments[1].tiles, (std::vector<std::string>{"K", "V"}));
  check(c);
}

TEST(Structure, GatheredRowsAndDivisionInIndices) {
  check({.text = R"(region map_0 map {
  symbols len
  axes i=len, j=6
  input X: f32[3, 6]
  input I: i64[len]
  a: f32[i, j] = X[I[i] % 3, j // 2 + j % 2]
  y: f32[i, j] = a + exp(a)
  output y as Y: f32[len, 6] at [i, j]
}
)",
         .adversarial = {},
         .data = {Data::normal},
         .passes = 0,
         .scale = 1,
         .lengths = {0, 1, 5}});
}

TEST(Structure, SeveralOutputsOfOneStream) {
  check({.text = R"(region stats_0 reduction {
  symbols len
  axes r=2, n=len
  input X: f32[2, len]
  a: f32[r] = max(X[r, n] over n)
  b: f32[r] = min(X[r, n] over n)
  c: f32[r] = sum(X[r, n] over n)
  d: bool[r] = any(X[r, n] < 0.0 over n)
  h: f32[r, n] = X[r, n] * 2.0
  e: f32[r] = a - b
  output a as A: f32[2] at [r]
  output c as C: f32[2] at [r]
  output d as D: bool[2] at [r]
  output e as E: f32[2] at [r]
  output h as H: f32[2, len] at [r, n]
}
)",
         .data = {Data::normal, Data::one_huge, Data::nan},
         .scale = 1,
         .lengths = {0, 1, 7, 31}});
}

TEST(Structure, WholeTensorReduction) {
  check({.text = R"(region all_0 reduction {
  symbols len
  axes r=3, n=len
  input X: f32[3, len]
  m: f32[] = max(X[r, n] over r, n)
  p: f32[r, n] = exp(X[r, n] - m)
  l: f32[] = sum(p over r, n)
  y: f32[] = m + log(l)
  output y as Y: f32[] at []
}
)",
         .data = {Data::normal, Data::offset, Data::minus_infinity_prefix, Data::nan},
         .scale = 1,
         .lengths = {1, 7, 31}});
}

TEST(Structure, AnyAxisMayBeStreamed) {
  // A region whose reductions are over other axes than the one asked for, and a chain of two products.
  const std::string text = R"(region chain_0 contraction {
  symbols len
  axes i=3, k=5, n=len, e=2
  input X: f32[3, 5]
  input W: f32[5, len]
  input V: f32[len, 2]
  h: f32[i, n] = sum(X[i, k] * W[k, n] over k)
  g: f32[i, n] = max(h, 0.0)
  o: f32[i, e] = sum(g * V[n, e] over n)
  output o as O: f32[3, 2] at [i, e]
}
)";
  check({.text = text, .adversarial = {}, .data = {Data::normal}, .scale = 1, .lengths = {0, 1, 7}});
  const auto region = parse_region(text).value();
  const auto other = derive(region, {.stream_axis = "k"});
  ASSERT_TRUE(std::holds_alternative<StreamingRegion>(other));
  EXPECT_EQ(std::get<StreamingRegion>(other).streams[0].axis, "k");
}

TEST(Structure, HalfPrecisionIsComputedInF32) {
  const Case c{.text = R"(region sum_0 reduction {
  symbols len
  axes r=2, n=len
  input X: f16[2, len]
  s: f16[r] = sum(X[r, n] * X[r, n] over n)
  output s as S: f16[2] at [r]
}
)",
               .data = {Data::normal},
               .single_tolerance = 1e-3};
  const StreamingRegion r = Harness::derived(c);
  EXPECT_EQ(r.streams[0].states[0].type, DType::f32);
  EXPECT_EQ(r.streams[0].tiles[0].type, DType::f16);
  EXPECT_EQ(r.streams[0].finish.back().type, DType::f16);
  check(c);
}

TEST(Structure, ExpensivePartsAreComputedAtTheirOwnAxes) {
  const StreamingRegion r = Harness::derived({.text = R"(region chain_0 contraction {
  symbols len
  axes i=3, n=len, e=2
  input X: f32[3, len]
  input V: f32[len, 2]
  o: f32[i, e] = sum(tanh(X[i, n]) * V[n, e] over n)
  output o as O: f32[3, 2] at [i, e]
}
)"});
  const auto& step = r.streams[0].step;
  ASSERT_EQ(step.size(), 2u) << to_string(r);
  EXPECT_EQ(step[0].axes, (std::vector<std::string>{"i", "n"}));
  EXPECT_EQ(step[1].body.op(), Op::mul);
  EXPECT_EQ(step[1].body.args()[0].op(), Op::value);
}

// ---- verify ------------------------------------------------------------------------------------------------------

StreamingRegion sample() {
  return Harness::derived({.text = R"(region row_0 normalisation {
  symbols len
  axes r=2, n=len
  input X: f32[2, len]
  m: f32[r] = max(X[r, n] over n)
  p: f32[r, n] = exp(X[r, n] - m)
  l: f32[r] = sum(p over n)
  t: f32[r] = sum(X[r, n] over n)
  d: f32[r, n] = X[r, n] - t / f32(len)
  v: f32[r] = sum(d * d over n)
  output l as L: f32[2] at [r]
  output v as V: f32[2] at [r]
}
)"});
}

TEST(Verify, MutantsAreFound) {
  ASSERT_TRUE(verify(sample()));
  const auto broken = [](const std::function<void(StreamingRegion&)>& mutate) {
    StreamingRegion r = sample();
    mutate(r);
    return !verify(r).has_value();
  };
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].merge.pop_back(); }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].states.pop_back(); }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].step.erase(r.streams[0].step.begin() + 1); }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].states[0].axes.push_back("n"); }));
  EXPECT_TRUE(broken([](auto& r) { r.parallel.push_back("n"); }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].tiles[0].axes = {"r"}; }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].finish.back().body = Expr::value("nowhere", DType::f32); }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].repairs[0].states[0] = "nowhere"; }));
  EXPECT_TRUE(broken([](auto& r) { r.streams[0].step.back().type = DType::f64; }));
  // A reference that moves after a state it repairs.
  EXPECT_TRUE(broken([](auto& r) {
    auto& step = r.streams[0].step;
    const auto is = [](const char* n) {
      return [n](const StepStatement& s) { return s.kind == StepStatement::Kind::update && s.name == n; };
    };
    std::iter_swap(std::ranges::find_if(step, is("X_pivot")), std::ranges::find_if(step, is("X_total")));
  }));
}

TEST(Verify, RegionMutants) {
  const char* head = "region r map {\n  axes i=2, j=3\n  input X: f32[2, 3]\n";
  const auto error = [&](const std::string& body) {
    const auto region = parse_region(head + body + "}\n");
    if (!region) return "parse: " + region.error().text();
    const auto ok = verify(*region);
    return ok ? std::string() : ok.error().text();
  };
  EXPECT_EQ(error("  a: f32[i, j] = X[i, j]\n"), "");
  EXPECT_NE(error("  a: f32[i] = X[i, j]\n").find("'j'"), std::string::npos);
  EXPECT_NE(error("  a: f32[i, j] = X[i]\n").find("dimensions"), std::string::npos);
  EXPECT_NE(error("  a: f32[i, j] = X[i, j]\n  b: f32[i] = a\n").find("without its axis"), std::string::npos);
  EXPECT_NE(error("  a: i64[i, j] = X[i, j]\n").find("type"), std::string::npos);
  EXPECT_NE(error("  a: f32[i, j] = b\n").find("parse"), std::string::npos);
  EXPECT_NE(error("  a: f32[i] = sum(X[i, j] over k)\n").find("k"), std::string::npos);
  EXPECT_NE(error("  output a as A: f32[2] at [i]\n").find("not defined"), std::string::npos);
}

TEST(Text, ErrorsNameTheLine) {
  const auto r = parse_streaming_region("streaming_region a map for i {\n  axes i=2\n  nonsense here\n}\n", "x.txt");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().place, "x.txt:3");
  EXPECT_FALSE(parse_streaming_region("", "x"));
  EXPECT_FALSE(parse_region("region a attention {\n", "x"));
  EXPECT_FALSE(parse_region("region a nothing {\n}\n", "x"));
}

TEST(Text, DotNamesStatesAndTiles) {
  const std::string dot = to_dot(sample());
  EXPECT_NE(dot.find("state m"), std::string::npos);
  EXPECT_NE(dot.find("tile X"), std::string::npos);
}

// ---- evaluator ---------------------------------------------------------------------------------------------------

TEST(Evaluate, ErrorsAreValues) {
  const StreamingRegion r = sample();
  EXPECT_FALSE(evaluate(r, {}, {.symbols = {{"len", 3}}}));                             // no input
  EXPECT_FALSE(evaluate(r, {{"X", {1, 2, 3, 4, 5, 6}}}, {}));                           // no symbol
  const auto ok = evaluate(r, {{"X", {1, 2, 3, 4, 5, 9}}}, {.symbols = {{"len", 3}}});  // by hand: v = 2 and 14
  ASSERT_TRUE(ok);
  EXPECT_NEAR(ok->at("V")[0], 2.0, 1e-12);
  EXPECT_NEAR(ok->at("V")[1], 14.0, 1e-12);
  EXPECT_NEAR(ok->at("L")[0], 1 + std::exp(-1.0) + std::exp(-2.0), 1e-12);
}

// A derived form whose repair is wrong must be seen by the property tests: they are run in steps and parts.
TEST(Evaluate, AWrongRepairChangesTheResult) {
  StreamingRegion r = sample();
  for (RepairGroup& g : r.streams[0].repairs) {
    for (std::size_t i = 0; i < g.states.size(); ++i) {
      if (g.states[i] == "l") g.repair[i] = Expr::value("l", DType::f32);
    }
  }
  const HostTensors x{{"X", {1, 2, 3, 4, 5, 9}}};
  const auto whole = evaluate(r, x, {.symbols = {{"len", 3}}});
  const auto steps = evaluate(r, x, {.symbols = {{"len", 3}}, .steps = {1}});
  EXPECT_NE(whole->at("L")[0], steps->at("L")[0]);
}

// ---- facts -------------------------------------------------------------------------------------------------------

TEST(Facts, SignsAndRanges) {
  const auto region = parse_region(R"(region f normalisation {
  axes r=2, n=7
  input X: f32[2, 7]
  m: f32[r] = max(X[r, n] over n)
  p: f32[r, n] = exp(X[r, n] - m)
  l: f32[r] = sum(p over n)
  w: f32[r, n] = p / l
  q: f32[r] = sum(X[r, n] * X[r, n] over n)
  g: f32[r, n] = exp(X[r, n])
  k: f32[r] = sum(g over n)
  output w as W: f32[2, 7] at [r, n]
}
)")
                          .value();
  const stream::Problem problem(region, "n");
  const stream::Facts facts(problem);
  EXPECT_EQ(facts.bounds("p").high, 1);
  EXPECT_EQ(facts.bounds("p").low, 0);
  EXPECT_EQ(facts.bounds("l").low, 1);
  EXPECT_EQ(facts.bounds("w").high, 1);
  EXPECT_EQ(facts.bounds("q").low, 0);
  EXPECT_EQ(facts.bounds("k").low, 0);  // not 1: nothing says that an exponent is 0
  EXPECT_TRUE(std::isinf(facts.bounds("m").low));
  const Expr n = Expr::axis("n");
  EXPECT_EQ(facts.bounds(n).high, 6);
  EXPECT_EQ(facts.bounds(Expr::unary(Op::tanh, Expr::value("m", DType::f32))).low, -1);
}

}  // namespace
}  // namespace aicf::test
