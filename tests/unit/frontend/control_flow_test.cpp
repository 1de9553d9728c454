// If: which branch is computed, what branches see, and what is refused.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::error_of;
using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;
using ::testing::Not;

SemanticGraph parsed(const std::string& text) {
  auto graph = parse_semantic(text, "test");
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *std::move(graph) : SemanticGraph();
}

std::string parse_error(const std::string& text) {
  const auto graph = parse_semantic(text, "test");
  return graph ? error_of(*graph) : graph.error().text();
}

const std::string select_text = R"(g(c: bool, x: f32[2]) -> y
two = Add(x, 1.0)
y = If(c, then_branch=t() -> a {
  k: f32[2] = [10, 20]
  a = Mul(two, k)
}, else_branch=e() -> a {
  a = Neg(x)
})
)";

TEST(If, AConditionOfRunTimeSelects) {
  const SemanticGraph graph = parsed(select_text);
  const Tensor x = tensor(DType::f32, {2}, {3, -4});
  expect_near(test::run(graph, {{"c", tensor(DType::boolean, {}, {1})}, {"x", x}}).at("y"), {2}, {40, -60});
  expect_near(test::run(graph, {{"c", tensor(DType::boolean, {}, {0})}, {"x", x}}).at("y"), {2}, {-3, 4});
}

TEST(If, AKnownConditionTakesItsBranchAlone) {
  SemanticGraph graph = parsed(select_text);
  // What the other branch has does not matter.
  Attribute& other = graph.nodes[1].attributes.at("else_branch");
  SemanticGraph broken = *other.g;
  broken.nodes[0].op = "Unheard";
  other.g = std::make_shared<const SemanticGraph>(broken);
  EXPECT_THAT(error_of(graph), HasSubstr("operator 'Unheard'"));
  const ImportOptions fixed{{}, {{"c", tensor(DType::boolean, {}, {1})}}, {}};
  const Tensor x = tensor(DType::f32, {2}, {3, -4});
  expect_near(test::run(graph, {{"x", x}}, fixed).at("y"), {2}, {40, -60});
  const auto model = canonicalise(graph, fixed);
  ASSERT_TRUE(model.has_value());
  EXPECT_THAT(to_string(model->graph), Not(HasSubstr("where")));
}

TEST(If, BranchesNest) {
  const SemanticGraph graph = parsed(R"(g(c: bool[1], d: bool, x: f32[2]) -> y, z
y, z = If(c, then_branch=t() -> a, b {
  a = Mul(x, x)
  b = If(d, then_branch=u() -> p {
    p = Add(a, x)
  }, else_branch=v() -> p {
    p = Sub(a, x)
  })
}, else_branch=e() -> x, a {
  a = Neg(x)
})
)");
  const auto run = [&](double c, double d) {
    return test::run(graph, {{"c", tensor(DType::boolean, {1}, {c})},
                             {"d", tensor(DType::boolean, {}, {d})},
                             {"x", tensor(DType::f32, {2}, {3, -4})}});
  };
  expect_near(run(1, 1).at("y"), {2}, {9, 16});
  expect_near(run(1, 1).at("z"), {2}, {12, 12});
  expect_near(run(1, 0).at("z"), {2}, {6, 20});
  expect_near(run(0, 1).at("y"), {2}, {3, -4});
  expect_near(run(0, 1).at("z"), {2}, {-3, 4});
}

TEST(If, BranchesThatDifferAreRefusedUnlessTheConditionIsKnown) {
  const SemanticGraph graph = parsed(R"(g(c: bool, x: f32[2]) -> y
y = If(c, then_branch=t() -> a {
  a = Concat(x, x, axis=0)
}, else_branch=e() -> a {
  a = Neg(x)
})
)");
  EXPECT_THAT(error_of(graph), HasSubstr("node 'y' (If): the branches give f32[4] and f32[2], and the condition 'c' "
                                         "depends on the data; fix the inputs"));
  expect_near(
      test::run(graph, {{"x", tensor(DType::f32, {2}, {3, -4})}}, {{}, {{"c", tensor(DType::boolean, {}, {1})}}, {}})
          .at("y"),
      {4}, {3, -4, 3, -4});
}

TEST(If, ABranchDemandsNothingOfSizesThatDoNotTakeIt) {
  // The squeeze needs n = 1, the product with m needs n = m.
  const SemanticGraph graph = parsed(R"(g(x: f32[n, 2], z: f32[m, 2]) -> y
y = If(Equal(Gather(Shape(x), 0), 1), then_branch=t() -> a {
  a = Unsqueeze(Squeeze(x, [0]), [0])
}, else_branch=e() -> a {
  a = Mul(x, z)
})
)");
  const auto run = [&](const Tensor& x, const Tensor& z) { return test::run(graph, {{"x", x}, {"z", z}}).at("y"); };
  expect_near(run(tensor(DType::f32, {1, 2}, {5, 6}), tensor(DType::f32, {2, 2}, {1, 2, 3, 4})), {1, 2}, {5, 6});
  expect_near(run(tensor(DType::f32, {2, 2}, {5, 6, 7, 8}), tensor(DType::f32, {2, 2}, {1, 2, 3, 4})), {2, 2},
              {5, 12, 21, 32});
  const auto model = canonicalise(graph);
  ASSERT_TRUE(model.has_value()) << model.error().text();
  EXPECT_FALSE(
      bind_symbols(*model, {{"x", Tensor(DType::f32, {3, 2})}, {"z", Tensor(DType::f32, {2, 2})}}).has_value());
}

TEST(If, SizesWhoseEqualityChoosesARankCountAsEqual) {
  const SemanticGraph graph = parsed(R"(g(x: f32[n, 2]) -> y
y = If(Equal(Gather(Shape(x), 0), 1), then_branch=t() -> a {
  a = Squeeze(x, [0])
}, else_branch=e() -> a {
  a = Neg(x)
})
)");
  expect_near(test::run(graph, {{"x", tensor(DType::f32, {1, 2}, {5, 6})}}).at("y"), {2}, {5, 6});
  const Tensor two = tensor(DType::f32, {2, 2}, {1, 2, 3, 4});
  const auto model = canonicalise(graph);
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto symbols = bind_symbols(*model, {{"x", two}});
  ASSERT_FALSE(symbols.has_value());
  EXPECT_THAT(symbols.error().text(), HasSubstr("n is 2"));
  // Known sizes choose the branch.
  expect_near(test::run(graph, {{"x", two}}, {{}, {}, {{"x", {2, 2}}}}).at("y"), {2, 2}, {-1, -2, -3, -4});
}

TEST(If, SizesThatDifferMayChooseToo) {
  const SemanticGraph graph = parsed(R"(g(x: f32[n, 2]) -> y
y = If(Not(Equal(Gather(Shape(x), 0), 1)), then_branch=t() -> a {
  a = Neg(x)
}, else_branch=e() -> a {
  a = Squeeze(x, [0])
})
)");
  expect_near(test::run(graph, {{"x", tensor(DType::f32, {1, 2}, {5, 6})}}).at("y"), {2}, {5, 6});
  expect_near(test::run(graph, {{"x", tensor(DType::f32, {2, 2}, {1, 2, 3, 4})}}, {{}, {}, {{"x", {2, 2}}}}).at("y"),
              {2, 2}, {-1, -2, -3, -4});
}

TEST(If, DeepChoicesBySizeCostNoMoreThanTheirText) {
  std::string text;
  for (int k = 0; k < 40; ++k) {
    const std::string inner = k == 0 ? "z = Squeeze(x, [0])\n" : text;
    const std::string made = k == 0 ? "z" : "y" + std::to_string(k - 1);
    text = "y" + std::to_string(k) + " = If(Equal(Gather(Shape(x), 0), 1), then_branch=t() -> " + made + " {\n" +
           inner + "}, else_branch=e() -> w {\nw = Neg(x)\n})\n";
  }
  const SemanticGraph graph = parsed("g(x: f32[n, 2]) -> y39\n" + text);
  expect_near(test::run(graph, {{"x", tensor(DType::f32, {1, 2}, {5, 6})}}).at("y39"), {2}, {5, 6});
}

TEST(If, NamesAreMadeOnceAndBeforeTheyAreRead) {
  const auto with = [](const std::string& then_body) {
    return "g(c: bool, x: f32[2]) -> z\ny = If(c, then_branch=t() -> a {\n" + then_body +
           "}, else_branch=e() -> a {\n  a = Neg(x)\n})\nz = Add(y, x)\nv = Exp(x)\n";
  };
  EXPECT_EQ(parse_error(with("  a = Abs(x)\n")), "");
  EXPECT_THAT(parse_error(with("  x = Abs(c)\n  a = Abs(x)\n")), HasSubstr("'x' is made twice"));
  EXPECT_THAT(parse_error(with("  a = Abs(z)\n")), HasSubstr("'z' is not made before this line"));
  EXPECT_THAT(parse_error(with("  b = Abs(x)\n")), HasSubstr("output 'a' is never made"));
  EXPECT_THAT(parse_error(with("  opset 17\n  a = Abs(x)\n")), HasSubstr("opset lines stand before"));
  EXPECT_THAT(parse_error(with("  a = Abs(x)\n") + "w = Abs(a)\n"), HasSubstr("'a' is not made before this line"));

  SemanticGraph graph = parsed(with("  a = Abs(x)\n"));
  const auto edited = [&](const std::function<void(SemanticGraph&)>& edit) {
    SemanticGraph copy = graph;
    Attribute& branch = copy.nodes[0].attributes.at("then_branch");
    SemanticGraph inner = *branch.g;
    edit(inner);
    branch.g = std::make_shared<const SemanticGraph>(inner);
    return error_of(copy);
  };
  EXPECT_THAT(edited([](SemanticGraph& g) { g.nodes[0].outputs[0] = g.outputs[0] = "x"; }),
              HasSubstr("output 'x' has the name of a tensor outside of the subgraph"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.nodes[0].inputs[0] = "v"; }),
              HasSubstr("'v' is read before 'v' makes it"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.nodes[0].inputs[0] = "nothing"; }),
              HasSubstr("'nothing' is made by no node"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.nodes[0].inputs[0] = "y"; }), HasSubstr("cycle"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.outputs.emplace_back("x"); }),
              HasSubstr("then_branch has 2 outputs, 1 wanted"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.inputs.push_back({"i", DType::f32, {}}); }), HasSubstr("takes inputs"));
  EXPECT_THAT(edited([](SemanticGraph& g) { g.initializers["x"] = Tensor(DType::f32, {2}); }),
              HasSubstr("initializer 'x' has the name of a tensor outside of the subgraph"));
}

TEST(If, DepthIsBounded) {
  const auto nested = [](int depth) {
    std::string text = "y = Abs(x)\n";
    for (int k = 0; k < depth; ++k) {
      const std::string name = k + 1 == depth ? "y" : "y" + std::to_string(k);
      const std::string inner = k == 0 ? "y" : "y" + std::to_string(k - 1);
      std::string body = text;
      if (k == 0) body = "z = Abs(x)\n", text.clear();
      text = name + " = If(c, then_branch=t() -> " + (k == 0 ? "z" : inner) + " {\n" + body +
             "}, else_branch=e() -> w {\nw = Neg(x)\n})\n";
    }
    return "g(c: bool, x: f32[2]) -> y\n" + text;
  };
  EXPECT_EQ(parse_error(nested(60)), "");
  EXPECT_THAT(parse_error(nested(70)), HasSubstr("more than 64 deep"));
}

TEST(If, TheConditionIsOneBoolean) {
  EXPECT_THAT(parse_error("g(c: f32, x: f32) -> y\ny = If(c, then_branch=t() -> x {\n}, else_branch=e() -> x {\n})\n"),
              HasSubstr("input 0 is f32, bool wanted"));
  EXPECT_THAT(
      parse_error("g(c: bool[2], x: f32) -> y\ny = If(c, then_branch=t() -> x {\n}, else_branch=e() -> x {\n})\n"),
      HasSubstr("the condition has shape [2], one element wanted"));
}

}  // namespace
}  // namespace aicf
