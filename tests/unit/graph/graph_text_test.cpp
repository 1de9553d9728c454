#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::graph_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view attention = R"(input    Q: f32[batch, seq, 64]
input    K: f32[batch, seq, 64]
constant W: f32[64, 64] = #0
S: f32[b=batch, q=seq, kv=seq] = sum(Q[b, q, d] * K[b, kv, d] over d=64)   # from MatMul_0
M: f32[b=batch, q=seq] = max(S[b, q, kv] over kv=seq)   # from Softmax_1, /layer.0/Softmax
E: f32[b=batch, q=seq, kv=seq] = exp(where(kv <= q, S[b, q, kv], -inf) - M[b, q])
H: f16[b=batch, e=64] = f16(sum_[b, e] + 0.5)
output   E as "out"
output   E as "again"
)";

TEST(GraphText, RoundTrip) {
  std::string text(attention);
  const auto at = text.find("H: ");
  text.insert(at, "sum_: f32[b=batch, e=64] = sum(W[d, e] * Q[b, s, d] over s=seq, d=64)\n");
  const Graph g = graph_of(text);
  EXPECT_EQ(to_string(g), text);
  EXPECT_EQ(to_string(graph_of(to_string(g))), text);
  EXPECT_THAT(g.node("M").origin, ElementsAre("Softmax_1", "/layer.0/Softmax"));
  EXPECT_EQ(g.node("S").reduce, ReduceOp::sum);
  EXPECT_EQ(g.node("Q").axes[2].name, "d2");
  EXPECT_EQ(g.outputs().size(), 2u);
  EXPECT_EQ(g.outputs()[1].name, "again");
}

TEST(GraphText, AwkwardNames) {
  Graph g;
  g.add_input("onnx::MatMul_12", DType::f32, {{"d0", Expr::symbol("batch size")}, {"input", 3}});
  g.add_input("input", DType::f32, {});
  const Expr r = Expr::axis("over"), c = Expr::axis("a`b");
  g.add({.name = "output",
         .axes = {{"over", Expr::symbol("batch size")}},
         .reduce_axes = {{"a`b", 3}},
         .reduce = ReduceOp::max,
         .body = Expr::binary(Op::max, Expr::load("onnx::MatMul_12", {r, c}, DType::f32),
                              Expr::load("input", {}, DType::f32)),
         .origin = {"a, b", "say \"hi\"\n\\", "#3"}});
  g.add({.name = "max", .axes = {{"i", 1}}, .body = Expr::load("output", {Expr::axis("i")}, DType::f32)});
  g.mark_output(2, "out \"1\"\nnext");
  const std::string text = to_string(g);
  const Graph back = graph_of(text);
  EXPECT_EQ(to_string(back), text);
  EXPECT_EQ(back.node("output").origin, g.node("output").origin);
  EXPECT_EQ(back.node("output").body, g.node("output").body);
  EXPECT_EQ(back.node("onnx::MatMul_12").axes[1].name, "input");
  EXPECT_EQ(back.outputs()[0].name, "out \"1\"\nnext");
}

TEST(GraphText, CommentsAndSpace) {
  const Graph g = graph_of(
      "  # a model with one \" quote\n\n input x : f32 [ 2,3 ]  # note\ny: f32[i=2] = max( x[i, k]   over   k = 3 "
      ")\r\n");
  EXPECT_EQ(to_string(g), "input    x: f32[2, 3]\ny: f32[i=2] = max(x[i, k] over k=3)\n");
}

TEST(GraphText, MaximumOfTwoIsNoReduction) {
  const Graph g = graph_of("input x: f32[2]\ny: f32[i=2] = max(x[i], 0.0)\n");
  EXPECT_EQ(g.node("y").reduce, ReduceOp::none);
  EXPECT_EQ(g.node("y").body.op(), Op::max);
}

std::string error_of(std::string_view text) {
  const auto graph = parse_graph(text, "g.aicf");
  return graph ? "valid" : graph.error().text();
}

TEST(GraphText, ErrorsNameThePlace) {
  EXPECT_THAT(error_of("input x: f99[2]\n"), StartsWith("g.aicf:1:13: 'f99' is not an element type"));
  EXPECT_THAT(error_of("input x: f32[2\n"), StartsWith("g.aicf:1:13: this bracket is not closed"));
  EXPECT_THAT(error_of("input x: f32[2, ]\n"), HasSubstr("expected a dimension"));
  EXPECT_THAT(error_of("input x: f32[2]\ninput x: f32[2]\n"), StartsWith("g.aicf:2"));
  EXPECT_THAT(error_of("input x: f32[2]\ny: f32[i=2] = z[i]\n"), StartsWith("g.aicf:2:15: "));
  EXPECT_THAT(error_of("y: f32[i=2] = y[i]\n"), StartsWith("g.aicf:1:15: "));
  EXPECT_THAT(error_of("y: f32[i=2] = f32(i + unknown)\n"), StartsWith("g.aicf:1:23: "));
  EXPECT_THAT(error_of("constant c: f32[2] = 5\n"), StartsWith("g.aicf:1:22: expected '#'"));
  EXPECT_THAT(error_of("constant c: f32[2] = #x\n"), HasSubstr("expected"));
  EXPECT_THAT(error_of("output y as \"y\"\n"), StartsWith("g.aicf:1:1: output of 'y'"));
  EXPECT_THAT(error_of("input x: f32[2]\noutput x as \"y\n"), HasSubstr("quote is not closed"));
  EXPECT_THAT(error_of("input `x: f32[2]\n"), HasSubstr("backtick is not closed"));
  EXPECT_THAT(error_of("x f32[2]\n"), HasSubstr("expected ':'"));
  EXPECT_THAT(error_of("y: f32[i=2] = 1.0 # from a b\n"), HasSubstr("expected ','"));
  // Well-formed text of a graph that breaks an invariant.
  EXPECT_THAT(error_of("input x: f32[2]\ny: f32[i=3] = x[i]\n"), StartsWith("g.aicf: node 'y': graph invariant 3"));
  EXPECT_THAT(error_of("input x: f32[2]\ny: f16[i=2] = x[i]\n"), HasSubstr("graph invariant 4"));
}

/// Damaged text is an error or another graph, never the end of the process; what parses prints and parses again.
TEST(GraphText, DamagedTextNeverAborts) {
  std::string text(attention);
  text.insert(text.find("H: "), "sum_: f32[b=batch, e=64] = sum(W[d, e] * Q[b, s, d] over s=seq, d=64)\n");
  constexpr std::string_view pieces[] = {"[",   "]",    "(",      ")",    ",",     " ",   "\n", "\"",   "`",
                                         "#",   "=",    ":",      "0",    "-1",    "1.5", "q",  "kv",   "S",
                                         "f16", "bool", " over ", "sum(", "batch", "//",  "%",  "not ", "input "};
  test::Numbers numbers(7);
  int parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (std::int64_t edits = 1 + numbers.below(3); edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(damaged.size())));
      const auto length = static_cast<std::size_t>(numbers.below(4));
      damaged.replace(at, length, pieces[static_cast<std::size_t>(numbers.below(std::size(pieces)))]);
    }
    const auto graph = parse_graph(damaged, "g");
    if (!graph) continue;
    ++parsed;
    const std::string printed = to_string(*graph);
    const auto again = parse_graph(printed, "printed");
    ASSERT_TRUE(again) << again.error().text() << "\n" << printed;
    ASSERT_EQ(to_string(*again), printed);
  }
  EXPECT_GT(parsed, 50);
}

TEST(GraphText, Dot) {
  const std::string dot = to_dot(graph_of(attention.substr(0, attention.find("H: "))));
  EXPECT_THAT(dot, StartsWith("digraph"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n3;"));
  EXPECT_THAT(dot, HasSubstr("contract\\nS: f32["));
}

}  // namespace
}  // namespace aicf
