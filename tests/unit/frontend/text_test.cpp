// The text form: parsing, printing and their agreement, messages with places.

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "helpers.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;

bool same(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return false;
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

void expect_same(const SemanticGraph& a, const SemanticGraph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.opsets, b.opsets);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t k = 0; k < a.inputs.size(); ++k) {
    EXPECT_EQ(a.inputs[k].name, b.inputs[k].name);
    EXPECT_EQ(a.inputs[k].type, b.inputs[k].type);
    EXPECT_EQ(a.inputs[k].shape, b.inputs[k].shape);
  }
  ASSERT_EQ(a.initializers.size(), b.initializers.size());
  for (const auto& [name, tensor] : a.initializers) {
    ASSERT_TRUE(b.initializers.contains(name)) << name;
    EXPECT_TRUE(same(tensor, b.initializers.at(name))) << name;
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t k = 0; k < a.nodes.size(); ++k) {
    const SemanticNode &x = a.nodes[k], &y = b.nodes[k];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(x.domain, y.domain);
    EXPECT_EQ(x.opset, y.opset);
    EXPECT_EQ(x.inputs, y.inputs);
    EXPECT_EQ(x.outputs, y.outputs);
    ASSERT_EQ(x.attributes.size(), y.attributes.size());
    for (const auto& [key, value] : x.attributes) {
      ASSERT_TRUE(y.attributes.contains(key));
      const Attribute& other = y.attributes.at(key);
      EXPECT_EQ(value.kind, other.kind) << key;
      EXPECT_EQ(value.i, other.i);
      EXPECT_EQ(value.f, other.f);
      EXPECT_EQ(value.s, other.s);
      EXPECT_EQ(value.is, other.is);
      EXPECT_EQ(value.fs, other.fs);
      EXPECT_EQ(value.ss, other.ss);
      ASSERT_EQ(value.g == nullptr, other.g == nullptr);
      if (value.g) expect_same(*value.g, *other.g);
      if (value.kind == Attribute::Kind::tensor) {
        EXPECT_TRUE(same(value.t, other.t));
      }
    }
  }
}

SemanticGraph parse(std::string_view text) {
  auto graph = parse_semantic(text, "test");
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().text());
  return graph ? *graph : SemanticGraph{};
}

std::string parse_error(std::string_view text) {
  const auto graph = parse_semantic(text, "test");
  return graph ? "" : graph.error().text();
}

TEST(Text, ShippedExampleIsAnAttention) {
  std::ifstream file(AICF_TESTS_DIR "/models/attention.aicf");
  std::stringstream text;
  text << file.rdbuf();
  const SemanticGraph graph = parse(text.str());
  ASSERT_EQ(graph.nodes.size(), 5u);
  EXPECT_EQ(graph.nodes[0].op, "Transpose");
  EXPECT_EQ(graph.nodes[1].outputs[0], "scores");
  EXPECT_EQ(graph.inputs[0].shape[3], Expr(64));
  EXPECT_EQ(graph.inputs[1].shape[3], Expr(64)) << "d was given a size in Q";

  // One query, two keys with scores 0 and log 3 and no mask: weights 1/4 and 3/4.
  NamedTensors in;
  in["Q"] = test::tensor(DType::f32, {1, 1, 1, 64}, std::vector<double>(64, 1.0));
  in["K"] = Tensor(DType::f32, {1, 1, 2, 64});
  in["K"].set(64, std::log(3.0));
  in["V"] = Tensor(DType::f32, {1, 1, 2, 64});
  in["V"].set(0, 4);
  in["V"].set(64, 8);
  in["mask"] = Tensor(DType::f32, {1, 2});
  const NamedTensors out = test::run(graph, in);
  ASSERT_TRUE(out.contains("out"));
  EXPECT_NEAR(out.at("out").at(0), 0.25 * 4 + 0.75 * 8, 1e-6);
}

TEST(Text, RoundTripsEveryConstruct) {
  const SemanticGraph graph =
      parse(R"(everything(x: f16[batch, 2 * seq, 4], `odd name`: i64[seq], s: bool) -> y, z: f32[3]
opset 21
opset com.microsoft 1
W: f32[2, 2] = [1.5, -inf, nan, 1e-30]
big: i64[2] = [9223372036854775807, -9223372036854775808]
flags: bool[3] = [true, false, true]
half: f16 = 0.1
t = Cast(x, to=1)
u = Clip(t, _, 0.5)          # a literal operand
v, _ = Dropout(Mul(u, u))    # a nested call
w = Constant(value=f16[2]([0.5, 1.0]))
a = LeakyRelu(v, alpha=1) @"/model/act.0"
q = Einsum(a, a, equation="abc,abd->ab")
r = Constant(value_floats=[1, 2.5])
e = Unsqueeze(r, [0, 1])
y = ReduceSum(q)
z = Identity(r)
)");
  EXPECT_EQ(graph.nodes[4].op, "Constant");
  EXPECT_EQ(graph.nodes[5].name, "/model/act.0");
  EXPECT_EQ(graph.nodes[5].attributes.at("alpha").kind, Attribute::Kind::real) << "an integer where a real is wanted";
  EXPECT_EQ(graph.initializers.at("big").int_at(0), std::numeric_limits<std::int64_t>::max());
  const std::string printed = to_string(graph);
  const SemanticGraph again = parse(printed);
  expect_same(graph, again);
  EXPECT_EQ(to_string(again), printed);
}

TEST(Text, RoundTripsGraphsInGraphs) {
  const SemanticGraph graph = parse(R"(g(c: bool, x: f32[n]) -> y, z
y, z = If(c, then_branch=t() -> a, b: f32[n] {
  k: f32 = 2.0
  a = Mul(Exp(x),
          k) @"scaled"
  b = If(c, then_branch=u() -> a {
  }, else_branch=v() -> d {
    d = Abs(a)
  })
}, else_branch=e() -> x, `odd name` {
  `odd name` = Neg(x)
}) @"choice"
)");
  const std::string printed = to_string(graph);
  expect_same(graph, parse(printed));
  EXPECT_EQ(printed, to_string(parse(printed)));
}

TEST(Text, RoundTripsBuiltGraphs) {
  GraphBuilder g("built", 17);
  const auto x = g.input("x", DType::f32, {"n", 3});
  const auto y = g.add_many("Split", {x, g.integers({1, 2})}, 2, {{"axis", 1}});
  g.output(g.add("Pad", {y[1], g.integers({0, 1, 0, 0}), g.scalar(DType::f32, 2.5)}, {{"mode", "constant"}}), "out");
  expect_same(g.build(), parse(to_string(g.build())));
}

TEST(Text, MessagesNameLineAndColumn) {
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Sofmax(x)\n"), HasSubstr("test:2:5: unknown operator 'Sofmax'"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Abs(z)\n"), HasSubstr("test:2:9: 'z' is not made before this line"));
  EXPECT_THAT(parse_error("g(x: f33[2]) -> y\n"), HasSubstr("test:1:6: 'f33' is no element type"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Softmax(x, axes=1)\n"),
              HasSubstr("test:2:16: Softmax of opset 23 has no attribute 'axes'"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Softmax(x, axis=0.5)\n"),
              HasSubstr("attribute axis is FLOAT, INT wanted"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Abs(x\n"), HasSubstr("')' expected"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y, q\ny = Abs(x)\n"), HasSubstr("test:1:20: output 'q' is never made"));
  EXPECT_THAT(parse_error("g(x: f32[d=2], z: f32[d=3]) -> x\n"), HasSubstr("'d' is 3 here and 2 before"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Add(x, [1, 2\n"), HasSubstr("']' expected"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\nW: f32[3] = [1, 2]\ny = Add(x, W)\n"),
              HasSubstr("2 numbers for 3 elements"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Swish(x)\n"), HasSubstr("exists from 24"));
  EXPECT_THAT(parse_error("g(x: f32[2]) -> y\ny = Abs(x) $\n"), HasSubstr("test:2:12: unexpected character '$'"));
  EXPECT_THAT(parse_error(""), HasSubstr("the name of the graph expected"));
}

TEST(Text, DeepNestingIsAnError) {
  std::string text = "g(x: f32[2]) -> y\ny = ";
  for (int k = 0; k < 5000; ++k) text += "Abs(";
  text += "x" + std::string(5000, ')') + "\n";
  EXPECT_THAT(parse_error(text), HasSubstr("nested deeper"));
}

TEST(Text, DotNamesNodesAndOperands) {
  const SemanticGraph graph = parse("g(x: f32[2]) -> y\ny = Sub(x, Abs(x))\n");
  const std::string dot = to_dot(graph);
  EXPECT_THAT(dot, HasSubstr("\"input x\" -> \"node y\" [label=0]"));
  EXPECT_THAT(dot, HasSubstr("\"node Abs_0\" -> \"node y\" [label=1]"));
}

}  // namespace
}  // namespace aicf
