#include "mir/graph/simplify.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::graph_of;
using test::Numbers;
using test::tensor;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string simplified(std::string_view text) {
  Graph g = graph_of(text);
  const auto changes = simplify_graph(g);
  EXPECT_TRUE(changes) << changes.error().text();
  const std::string result = to_string(g);
  EXPECT_EQ(changes.value_or(-1) > 0, result != to_string(graph_of(text)));
  EXPECT_EQ(simplify_graph(g).value_or(-1), 0) << "a second run changes nothing";
  return result;
}

TEST(Simplify, TransposeJoinsItsProduct) {
  EXPECT_EQ(simplified(R"(
input Q: f32[batch, 8, seq, 64]
input K: f32[batch, 8, seq, 64]
T: f32[b=batch, h=8, d=64, kv=seq] = K[b, h, kv, d]   # from Transpose_0
S: f32[b=batch, h=8, q=seq, kv=seq] = sum(Q[b, h, q, d] * T[b, h, d, kv] over d=64)   # from MatMul_1
output S as "s"
)"),
            R"(input    Q: f32[batch, 8, seq, 64]
input    K: f32[batch, 8, seq, 64]
S: f32[b=batch, h=8, q=seq, kv=seq] = sum(Q[b, h, q, d] * K[b, h, kv, d] over d=64)   # from MatMul_1, Transpose_0
output   S as "s"
)");
}

TEST(Simplify, ReshapesAndTheirInversesCancel) {
  // [b, s, 512] → [b, s, 8, 64] → [b, 8, s, 64], and back.
  EXPECT_EQ(simplified(R"(
input x: f32[b, s, 512]
split: f32[i=b, j=s, h=8, d=64] = x[i, j, h * 64 + d]   # from Reshape_0
heads: f32[i=b, h=8, j=s, d=64] = split[i, j, h, d]   # from Transpose_1
back: f32[i=b, j=s, h=8, d=64] = heads[i, h, j, d]   # from Transpose_2
merged: f32[i=b, j=s, c=512] = back[i, j, c // 64, c % 64]   # from Reshape_3
y: f32[i=b, j=s, c=512] = exp(merged[i, j, c])   # from Exp_4
output y as "y"
)"),
            R"(input    x: f32[b, s, 512]
y: f32[i=b, j=s, c=512] = exp(x[i, j, c])   # from Exp_4, Reshape_3, Transpose_2, Transpose_1, Reshape_0
output   y as "y"
)");
}

TEST(Simplify, WhatNobodyReadsAnyMoreCountsToWhatReadIt) {
  EXPECT_EQ(simplified(R"(
input x: f32[s]
n: f32[i=s] = exp(x[i])   # from Exp_0
d: f32[i=s] = n[i] + 1.0   # from Add_1
m: f32[i=s] = d[i]   # from Identity_2
c: bool[i=s] = m[i] < d[i]   # from Less_3
y: f32[i=s] = where(c[i], n[i], 1.0) * x[i]   # from Where_4
output y as "y"
)"),
            R"(input    x: f32[s]
y: f32[i=s] = x[i]   # from Where_4, Less_3, Identity_2, Exp_0, Add_1
output   y as "y"
)");
}

// Branches become equal one level a round; however many there are, what is left is right.
TEST(Simplify, EndsOnBranchesThatBecomeEqualLevelByLevel) {
  std::string text = "input x: f32[8]\ninput c: bool[8]\ny0: f32[i=8] = exp(x[i])\na0: f32[i=8] = exp(x[i])\n";
  constexpr int levels = 80;
  for (int n = 1; n <= levels; ++n)
    text += fmt::format(
        "a{0}: f32[i=8] = exp(y{1}[i])\nb{0}: f32[i=8] = exp(a{1}[i])\n"
        "y{0}: f32[i=8] = where(c[i], a{0}[i], b{0}[i])\n",
        n, n - 1);
  Graph g = graph_of(text + fmt::format("output y{} as \"y\"\n", levels));
  ASSERT_TRUE(simplify_graph(g));
  EXPECT_TRUE(verify(g));
}

TEST(Simplify, SymbolicExtentsDecideDivisions) {
  // A mask that is flattened and gathered at batch · seq + key; the second gather leaves its row and keeps its division.
  EXPECT_EQ(simplified(R"(
input mask: i64[batch, seq]
flat: i64[i=batch * seq] = mask[i // seq, i % seq]   # from Flatten_0
y: i64[b=batch, q=seq, kv=seq] = flat[b * seq + kv] + q   # from Gather_1
z: i64[q=seq, kv=seq] = flat[q + kv]   # from Gather_2
output y as "y"
output z as "z"
)"),
            R"(input    mask: i64[batch, seq]
y: i64[b=batch, q=seq, kv=seq] = q + mask[b, kv]   # from Gather_1, Flatten_0
z: i64[q=seq, kv=seq] = mask[(kv + q) // seq, (kv + q) % seq]   # from Gather_2, Flatten_0
output   y as "y"
output   z as "z"
)");
}

TEST(Simplify, IotaConstantsAndMasksAreComputedAtUse) {
  const std::string text = simplified(R"(
input s: f32[q, kv]
row: i64[i=q] = i   # from Range_0
keep: bool[i=q, j=kv] = j <= row[i]   # from LessOrEqual_1
bias: f32[i=q, j=kv] = where(keep[i, j], 0.0, -inf)   # from Where_2
y: f32[i=q, j=kv] = s[i, j] + bias[i, j]   # from Add_3
output y as "y"
)");
  EXPECT_THAT(text,
              HasSubstr("= s[i, j] + where(j <= i, 0.0, -inf)   # from Add_3, Where_2, LessOrEqual_1, Range_0\n"));
  EXPECT_THAT(text, Not(HasSubstr("bias")));
}

TEST(Simplify, WhatStaysANode) {
  const std::string text = R"(input    x: f32[4, 6]
input    ids: i64[3]
gathered: f32[i=3, j=6] = x[ids[i], j]
joined: f32[i=7, j=6] = where(i <= 3, x[i, j], gathered[i - 4, j])
map: f32[i=7, j=6] = exp(joined[i, j])
table: f32[i=7] = sin(f32(i))
y: f32[i=7, j=6] = map[i, j] * map[i, 0] + joined[i, 0] + gathered[0, j] * table[i]
output   y as "y"
)";
  EXPECT_EQ(simplified(text), text);
}

TEST(Simplify, OutputsKeepTheirNode) {
  EXPECT_EQ(simplified(R"(
input x: f32[4, 6]
t: f32[i=6, j=4] = x[j, i]   # from Transpose_0
y: f32[i=6, j=4] = exp(t[i, j])   # from Exp_1
identity: f32[i=6, j=4] = y[i, j]   # from Identity_2
output t as "t"
output identity as "y"
)"),
            R"(input    x: f32[4, 6]
t: f32[i=6, j=4] = x[j, i]   # from Transpose_0
y: f32[i=6, j=4] = exp(x[j, i])   # from Exp_1
identity: f32[i=6, j=4] = y[i, j]   # from Identity_2
output   t as "t"
output   identity as "y"
)");
}

TEST(Simplify, EqualNodesBecomeOne) {
  EXPECT_EQ(simplified(R"(
input x: f32[4, 6]
constant a: f32[6] = #0
constant b: f32[6] = #0
m1: f32[i=4] = max(x[i, j] over j=6)   # from ReduceMax_0
m2: f32[row=4] = max(x[row, k] over k=6)   # from ReduceMax_1
other: f32[i=4] = min(x[i, j] over j=6)
e1: f32[i=4, j=6] = x[i, j] * a[j] - m1[i]   # from Sub_2
e2: f32[r=4, c=6] = x[r, c] * b[c] - m2[r]   # from Sub_3
y: f32[i=4, j=6] = e1[i, j] * e2[i, j] + other[i]
output y as "y"
)"),
            R"(input    x: f32[4, 6]
constant a: f32[6] = #0
m1: f32[i=4] = max(x[i, j] over j=6)   # from ReduceMax_0, ReduceMax_1
other: f32[i=4] = min(x[i, j] over j=6)
e1: f32[i=4, j=6] = x[i, j] * a[j] - m1[i]   # from Sub_2, Sub_3
y: f32[i=4, j=6] = e1[i, j] * e1[i, j] + other[i]
output   y as "y"
)");
}

TEST(Simplify, EqualOutputsAreComputedOnce) {
  const std::string text = simplified(R"(
input x: f32[4, 6]
a: f32[i=4] = sum(x[i, j] over j=6)
b: f32[i=4] = sum(x[i, k] over k=6)
c: f32[i=4] = sum(x[i, k] over k=6)
output a as "a"
output b as "b"
output c as "c"
)");
  EXPECT_THAT(text, HasSubstr("a: f32[i=4] = sum(x[i, j] over j=6)\nb: f32[i=4] = a[i]\nc: f32[i=4] = a[i]\n"));
}

TEST(Simplify, IndicesTakeNormalForm) {
  const std::string text = simplified(R"(
input x: f32[8, n]
y: f32[i=2, j=4, k=n] = exp(x[(i * 4 + j) % 8, (k + 1) - 1]) + f32(where(i < 2, j, k))
output y as "y"
)");
  EXPECT_THAT(text, HasSubstr("= exp(x[4 * i + j, k]) + f32(j)"));
}

TEST(Simplify, InvalidGraphsAreErrors) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 2}});
  g.add({.name = "y", .axes = {{"i", 3}}, .body = Expr::load("x", {Expr::axis("i")}, DType::f32)});
  const auto changes = simplify_graph(g);
  ASSERT_FALSE(changes);
  EXPECT_THAT(changes.error().text(), HasSubstr("invariant 3"));
}

/// Random chains of moves and maps mean the same before and after.
TEST(Simplify, KeepsTheMeaning) {
  const Expr i = Expr::axis("i"), j = Expr::axis("j");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Numbers numbers(seed);
    Graph g;
    g.add_input("x", DType::f32, {{"a", 4}, {"b", 6}});
    std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> known{{"x", {4, 6}}};
    for (int step = 0; step < 12; ++step) {
      const auto [source, shape] =
          known[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(known.size())))];
      const auto [m, n] = shape;
      const auto at = [&](const Expr& r, const Expr& c) { return Expr::load(source, {r, c}, DType::f32); };
      Node node{.name = "n", .axes = {{"i", m}, {"j", n}}, .origin = {"op" + std::to_string(step)}};
      const Expr flat = i * 2 + j;
      switch (numbers.below(7)) {
        case 0:
          node.axes = {{"i", n}, {"j", m}}, node.body = at(j, i);
          break;
        case 1:
          node.axes = {{"i", m * n / 2}, {"j", 2}}, node.body = at(floordiv(flat, n), mod(flat, n));
          break;
        case 2:
          node.body = at(m - 1 - i, j);
          break;
        case 3:
          node.body = Expr::unary(Op::tanh, at(i, j)) + at(0, j);
          break;
        case 4:
          node.body = at(i, j) + Expr::select(less(i, j), Expr::constant(DType::f32, 1), Expr::constant(DType::f32, 2));
          break;
        case 5:
          node.axes = {{"i", m + 1}, {"j", n}}, node.body = Expr::select(less(i, m), at(i, j), at(i - 1, j));
          break;
        default:
          node.body = at(i, j);
          break;
      }
      const std::int64_t rows = *node.axes[0].extent.as_int(), columns = *node.axes[1].extent.as_int();
      known.emplace_back(g.node(g.add(std::move(node))).name, std::pair(rows, columns));
    }
    g.mark_output(g.size() - 1, "last");
    g.mark_output(g.size() / 2, "middle");
    const NamedTensors inputs{{"x", tensor(DType::f32, {4, 6}, numbers.reals(24))}};
    const auto before = evaluate_graph(g, {}, inputs, {});
    Graph small = g;
    const auto changes = simplify_graph(small);
    ASSERT_TRUE(before && changes) << to_string(g);
    const auto after = evaluate_graph(small, {}, inputs, {});
    ASSERT_TRUE(after) << after.error().text() << "\n" << to_string(small);
    for (const auto& [name, value] : *before) {
      ASSERT_EQ(values(value), values(after->at(name))) << to_string(g) << "\n" << to_string(small);
    }
    for (const NodeId id : small.topological_order()) {
      if (small.node(id).kind != NodeKind::compute || small.is_output(id)) continue;
      ASSERT_NE(primitive(small.node(id)), Primitive::iota);
    }
  }
}

TEST(FoldEmpty, ReadsNothing) {
  Graph g = *parse_graph(R"(
input x: f32[0, 3]
largest: f32[i=3] = max(x[r, i] over r=0)
all: bool[i=3] = all(x[r, i] < 1.0 over r=0)
twice: f32[i=0, j=3] = x[i, j] * 2.0
each: f32[i=3] = largest[i] + 1.0
output each as "each"
output all as "all"
output twice as "twice"
)");
  EXPECT_EQ(fold_empty(g), 3);
  ASSERT_TRUE(verify(g));
  EXPECT_THAT(to_string(g.node("largest")), ::testing::HasSubstr("= -inf"));
  EXPECT_THAT(to_string(g.node("all")), ::testing::HasSubstr("= true"));
  EXPECT_TRUE(g.users(*g.find("x")).empty());
  EXPECT_EQ(fold_empty(g), 0);
}

}  // namespace
}  // namespace aicf
