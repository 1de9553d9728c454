#include "mir/graph/graph.h"

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::graph_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Expr i = Expr::axis("i"), j = Expr::axis("j"), k = Expr::axis("k");

Node map_of(const std::string& name, const std::string& input, std::int64_t n = 4) {
  return {.name = name, .axes = {{"i", n}}, .body = Expr::unary(Op::exp, Expr::load(input, {i}, DType::f32))};
}

TEST(Graph, IdsNamesAndEdges) {
  Graph g;
  const NodeId x = g.add_input("x", DType::f32, {{"i", 4}});
  const NodeId a = g.add(map_of("a", "x"));
  const NodeId b = g.add(
      {.name = "b",
       .axes = {{"i", 4}},
       .body = Expr::load("a", {i}, DType::f32) * Expr::load("x", {i}, DType::f32) + Expr::load("a", {i}, DType::f32)});
  g.mark_output(b, "y");
  EXPECT_EQ(g.size(), 3);
  EXPECT_EQ(g.node("a").id, a);
  EXPECT_THAT(g.producers(b), ElementsAre(a, x));
  EXPECT_THAT(g.users(x), ElementsAre(a, b));
  EXPECT_TRUE(g.reaches(x, b));
  EXPECT_FALSE(g.reaches(b, x));
  EXPECT_FALSE(g.find("c"));
  EXPECT_TRUE(g.is_output(b));
  EXPECT_FALSE(g.is_output(a));
  EXPECT_TRUE(verify(g));
}

TEST(Graph, NamesAreMadeUnique) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  EXPECT_EQ(g.node(g.add(map_of("x", "x"))).name, "x_1");
  EXPECT_EQ(g.node(g.add(map_of("x", "x_1"))).name, "x_2");
  EXPECT_EQ(g.unique_name("y"), "y");
}

TEST(Graph, OrderPutsProducersFirstAndIsStable) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  const NodeId a = g.add(map_of("a", "x"));
  const NodeId b = g.add(map_of("b", "x"));
  const NodeId c = g.add(map_of("c", "x"));
  // a now needs c: it moves behind it, b stays where it was.
  g.replace(a, map_of("", "c"));
  EXPECT_EQ(g.node(a).name, "a");
  EXPECT_THAT(g.topological_order(), ElementsAre(0, b, c, a));
  EXPECT_THAT(g.users(0), ElementsAre(b, c));
}

TEST(Graph, RemoveUnusedKeepsInputs) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  g.add_input("unused", DType::f32, {{"i", 4}});
  const NodeId a = g.add(map_of("a", "x"));
  const NodeId b = g.add(map_of("b", "a"));
  g.add(map_of("c", "b"));
  g.mark_output(a, "y");
  g.remove_unused();
  EXPECT_TRUE(g.node(b).dead);
  EXPECT_FALSE(g.find("c"));
  EXPECT_TRUE(g.find("unused"));
  EXPECT_THAT(g.topological_order(), ElementsAre(0, 1, a));
  EXPECT_THAT(g.users(a), IsEmpty());
}

TEST(Graph, CompactRenumbers) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  g.remove(g.add(map_of("dead", "x")));
  const NodeId a = g.add(map_of("a", "x"));
  g.mark_output(a, "y");
  const std::string before = to_string(g);
  g.compact();
  EXPECT_EQ(g.size(), 2);
  EXPECT_EQ(g.outputs()[0].node, 1);
  EXPECT_EQ(to_string(g), before);
}

TEST(Graph, CopiesAreIndependent) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  Graph copy = g;
  copy.add(map_of("a", "x"));
  EXPECT_EQ(g.size(), 1);
  const Graph moved = std::move(copy);
  EXPECT_EQ(moved.size(), 2);
  EXPECT_EQ(copy.size(), 0);  // NOLINT: a moved-from graph is empty
}

TEST(Graph, Primitives) {
  const Graph g = graph_of(R"(
input x: f32[4, 6]
input y: f32[6, 5]
input m: bool[4, 6]
iota: i64[i=4] = i
mask: f32[i=4, j=6] = where(j <= i, 0.0, -inf)
transpose: f32[j=6, i=4] = x[i, j]
padded: f32[i=6, j=6] = where(i < 4, x[i, j], 0.0)
where_: f32[i=4, j=6] = where(m[i, j], x[i, j], 0.0)
matmul: f32[i=4, j=5] = sum(x[i, k] * y[k, j] over k=6)
squares: f32[i=4] = sum(x[i, k] * x[i, k] over k=6)
scaled: f32[i=4] = sum(x[i, k] * 2.0 over k=6)
largest: f32[i=4] = max(x[i, k] over k=6)
)");
  const auto kind = [&](const char* node) { return primitive(g.node(node)); };
  EXPECT_EQ(kind("iota"), Primitive::iota);
  EXPECT_EQ(kind("mask"), Primitive::iota);
  EXPECT_EQ(kind("transpose"), Primitive::move);
  EXPECT_EQ(kind("padded"), Primitive::move);
  EXPECT_EQ(kind("where_"), Primitive::map);
  EXPECT_EQ(kind("matmul"), Primitive::contract);
  EXPECT_EQ(kind("squares"), Primitive::reduce);
  EXPECT_EQ(kind("scaled"), Primitive::reduce);
  EXPECT_EQ(kind("largest"), Primitive::reduce);
}

TEST(Graph, RangesOfAxes) {
  const Graph g = graph_of("a: i64[i=4, j=n] = i // 4 + j * 0\n");
  const Ranges ranges = g.node("a").ranges();
  EXPECT_EQ(simplify(floordiv(i, 4), ranges), Expr(0));
  EXPECT_EQ(simplify(less(j, 0), ranges), Expr::boolean(false));
  EXPECT_EQ(g.symbols(), std::vector<std::string>{"n"});
}

TEST(ReduceOps, NeutralElements) {
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::maxnum, ReduceOp::minnum}) {
    EXPECT_EQ(parse_reduce_op(name(op)), op);
    for (const DType type : {DType::f16, DType::f32, DType::i8, DType::u8, DType::i32, DType::i64}) {
      const Expr x = Expr::integer(is_float(type) ? -3 : 3, type);
      EXPECT_EQ(combine(op, neutral(op, type), x), x) << name(op) << " " << name(type);
    }
  }
  EXPECT_EQ(combine(ReduceOp::any, neutral(ReduceOp::any, DType::boolean), Expr::boolean(true)), Expr::boolean(true));
  EXPECT_EQ(combine(ReduceOp::all, neutral(ReduceOp::all, DType::boolean), Expr::boolean(false)), Expr::boolean(false));
  EXPECT_FALSE(parse_reduce_op("mean"));
}

// ---- invariants --------------------------------------------------------------------------------------------------

std::string broken(Node node, const std::vector<Axis>& input_axes = {{"i", 4}}) {
  Graph g;
  g.add_input("x", DType::f32, input_axes);
  g.add(std::move(node));
  const auto result = verify(g);
  return result ? "valid" : result.error().text();
}

const Expr x_i = Expr::load("x", {i}, DType::f32);

TEST(Verify, NamesTheBrokenInvariant) {
  EXPECT_EQ(broken({.name = "a", .axes = {{"i", 4}}, .body = x_i}), "valid");
  // 1: loads and acyclicity
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}}, .body = Expr::load("x", {i, i}, DType::f32)}),
              HasSubstr("node 'a': graph invariant 1: it loads x[i, i] with 2 indices, 'x' has 1 dimensions"));
  // 2: axes
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}, {"i", 2}}, .body = x_i}),
              HasSubstr("invariant 2: axis 'i' is declared twice"));
  EXPECT_THAT(
      broken({.name = "a", .axes = {{"i", 4}}, .reduce_axes = {{"i", 4}}, .reduce = ReduceOp::sum, .body = x_i}),
      HasSubstr("invariant 2"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"j", 4}}, .body = x_i}),
              HasSubstr("invariant 2: axis 'i' in the body is not declared"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}}, .body = x_i + Expr::value("s", DType::f32)}),
              HasSubstr("invariant 2: 's'"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}}, .body = x_i + Expr::cast(Expr::symbol("i"), DType::f32)}),
              HasSubstr("invariant 2: axis 'i' hides a symbol"));
  // 3: reductions and bounds
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}}, .reduce = ReduceOp::sum, .body = x_i}),
              HasSubstr("invariant 3"));
  EXPECT_THAT(broken({.name = "a", .axes = {}, .reduce_axes = {{"i", 4}}, .body = x_i}), HasSubstr("invariant 3"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 5}}, .body = x_i}),
              HasSubstr("invariant 3: x[i] leaves dimension 0 of 'x', which has extent 4"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}}, .body = Expr::load("x", {i - 1}, DType::f32)}),
              HasSubstr("invariant 3"));
  // 4: types and dims
  EXPECT_THAT(broken({.name = "a", .type = DType::f64, .axes = {{"i", 4}}, .body = x_i}), HasSubstr("invariant 4"));
  EXPECT_THAT(
      broken({.name = "a", .axes = {{"i", 4}}, .body = Expr::cast(Expr::load("x", {i}, DType::f64), DType::f32)}),
      HasSubstr("invariant 4: it loads 'x' as f64, which is f32"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", Expr(-1)}}, .body = Expr::constant(DType::f32, 0)}),
              HasSubstr("invariant 4: the extent -1 of axis 'i' is negative"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", 4}, {"j", i}}, .body = x_i}),
              HasSubstr("invariant 4: the extent i of axis 'j'"));
  EXPECT_THAT(
      broken({.name = "a", .axes = {{"i", 4}}, .reduce_axes = {{"j", 2}}, .reduce = ReduceOp::any, .body = x_i}),
      HasSubstr("invariant 4: 'any' reduces values of type f32"));
}

TEST(Verify, BoundsWithSymbols) {
  const Expr n = Expr::symbol("n");
  EXPECT_EQ(broken({.name = "a", .axes = {{"i", n}}, .body = x_i}, {{"i", n}}), "valid");
  EXPECT_EQ(broken({.name = "a", .axes = {{"i", n}}, .body = x_i}, {{"i", n + 1}}), "valid");
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", n + 1}}, .body = x_i}, {{"i", n}}), HasSubstr("invariant 3"));
  EXPECT_THAT(broken({.name = "a", .axes = {{"i", n}}, .body = Expr::load("x", {i + 1}, DType::f32)}, {{"i", n}}),
              HasSubstr("invariant 3"));
  // Nothing can be shown about other symbols, and a guarded load may leave its tensor.
  EXPECT_EQ(broken({.name = "a", .axes = {{"i", Expr::symbol("m")}}, .body = x_i}, {{"i", n}}), "valid");
  EXPECT_EQ(
      broken({.name = "a", .axes = {{"i", 9}}, .body = Expr::select(less(i, 4), x_i, Expr::constant(DType::f32, 0))}),
      "valid");
  // No coordinate, no load.
  EXPECT_EQ(broken({.name = "a", .axes = {{"i", 9}, {"j", 0}}, .body = x_i}), "valid");
}

TEST(Verify, FindsCycles) {
  Graph g;
  g.add_input("x", DType::f32, {{"i", 4}});
  const NodeId a = g.add(map_of("a", "x"));
  const NodeId b = g.add(map_of("b", "a"));
  g.add(map_of("c", "b"));
  g.replace(a, map_of("", "c"));
  const auto result = verify(g);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), HasSubstr("graph invariant 1: it depends on itself"));
  EXPECT_TRUE(g.reaches(b, a));
}

}  // namespace
}  // namespace aicf
