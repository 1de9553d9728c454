// Moves, shape arithmetic with symbols, and binding.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::ramp;
using test::tensor;
using ::testing::HasSubstr;
using ::testing::Not;

std::string graph_text(const SemanticGraph& graph, const ImportOptions& options = {}) {
  const auto model = canonicalise(graph, options);
  EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().text());
  return model ? to_string(model->graph) : "";
}

/// Evaluates one operator on x = 0, 1, 2, … of a shape.
Tensor moved(const std::string& op, std::vector<std::int64_t> shape,
             const std::function<std::vector<std::string>(GraphBuilder&)>& others,
             const std::vector<NamedAttribute>& attributes = {}, int opset = 18) {
  GraphBuilder g("move", opset);
  std::vector<std::string> inputs{g.input("x", DType::f32, std::vector<Size>(shape.begin(), shape.end()))};
  for (std::string& other : others(g)) inputs.push_back(std::move(other));
  g.output(g.add(op, inputs, attributes), "y");
  const auto out = test::run(g.build(), {{"x", ramp(DType::f32, shape, 0, 1)}});
  return out.contains("y") ? out.at("y") : Tensor();
}
std::function<std::vector<std::string>(GraphBuilder&)> lists(std::vector<std::vector<std::int64_t>> values) {
  return [values](GraphBuilder& g) {
    std::vector<std::string> names;
    for (const auto& v : values) names.push_back(g.integers(v));
    return names;
  };
}
const auto nothing = lists({});

TEST(Move, ReshapeSplitsAndMergesByAddressing) {
  GraphBuilder g("heads");
  const auto x = g.input("x", DType::f32, {"batch", "seq", 12});
  const auto split = g.add("Reshape", {x, g.integers({0, 0, 3, 4})});
  const auto heads = g.add("Transpose", {split}, {{"perm", {0, 2, 1, 3}}});
  const auto back = g.add("Transpose", {heads}, {{"perm", {0, 2, 1, 3}}});
  g.output(heads, "heads");
  g.output(g.add("Reshape", {back, g.integers({0, -1, 12})}), "y");
  const std::string text = graph_text(g.build());
  EXPECT_THAT(text, HasSubstr("x[i0, i1, 4 * i2 + i3]"));
  EXPECT_THAT(text, HasSubstr("[i0, i1, i2 // 4, i2 % 4]"));
  EXPECT_THAT(text, HasSubstr("y: f32[i0=batch, i1=seq, i2=12]"));
  const auto out = test::run(g.build(), {{"x", ramp(DType::f32, {2, 2, 12}, 0, 1)}});
  expect_near(out.at("y"), {2, 2, 12}, test::elements(ramp(DType::f32, {2, 2, 12}, 0, 1)));
  EXPECT_EQ(out.at("heads").at(4), 12) << "head 0 of position 1";
}

TEST(Move, ReshapeAcrossDims) {
  const std::vector<double> all = test::elements(ramp(DType::f32, {24}, 0, 1));
  expect_near(moved("Reshape", {2, 3, 4}, lists({{4, 6}})), {4, 6}, all);
  expect_near(moved("Reshape", {2, 3, 4}, lists({{3, -1}})), {3, 8}, all);
  expect_near(moved("Reshape", {4, 6}, lists({{2, 1, 3, 4}})), {2, 1, 3, 4}, all);
  expect_near(moved("Reshape", {2, 3, 4}, lists({{0, -1}})), {2, 12}, all);
  expect_near(moved("Reshape", {0, 3}, lists({{3, 0}}), {{"allowzero", 1}}), {3, 0}, {});
  expect_near(moved("Flatten", {2, 3, 4}, nothing, {{"axis", 2}}), {6, 4}, all);
  expect_near(moved("Flatten", {2, 3, 4}, nothing, {{"axis", 0}}), {1, 24}, all);
  expect_near(moved("Squeeze", {1, 24, 1}, lists({{0}})), {24, 1}, all);
  expect_near(moved("Squeeze", {1, 24, 1}, nothing), {24}, all);
  expect_near(moved("Unsqueeze", {24}, lists({{0, -1}})), {1, 24, 1}, all);
}

TEST(Move, SlicesOfEveryKind) {
  expect_near(moved("Slice", {6}, lists({{1}, {5}, {0}, {2}})), {2}, {1, 3});
  expect_near(moved("Slice", {6}, lists({{-2}, {1000}})), {2}, {4, 5});
  expect_near(moved("Slice", {6}, lists({{-1}, {std::numeric_limits<std::int64_t>::min()}, {0}, {-2}})), {3},
              {5, 3, 1});
  expect_near(moved("Slice", {6}, lists({{4}, {0}, {0}, {-1}})), {4}, {4, 3, 2, 1});
  expect_near(moved("Slice", {6}, lists({{4}, {2}})), {0}, {});
  expect_near(moved("Slice", {2, 3}, lists({{1}, {3}, {-1}})), {2, 2}, {1, 2, 4, 5});
  expect_near(moved("Slice", {6}, nothing, {{"starts", {2}}, {"ends", {4}}}, 9), {2}, {2, 3});
}

TEST(Move, SplitConcatTilePadExpand) {
  GraphBuilder g("split", 18);
  const auto x = g.input("x", DType::f32, {5});
  const auto parts = g.add_many("Split", {x}, 3, {{"num_outputs", 3}});
  g.output(parts[2], "last");
  g.output(g.add("Concat", {parts[1], x, parts[0]}, {{"axis", 0}}), "joined");
  const auto out = test::run(g.build(), {{"x", ramp(DType::f32, {5}, 0, 1)}});
  expect_near(out.at("last"), {1}, {4});
  expect_near(out.at("joined"), {9}, {2, 3, 0, 1, 2, 3, 4, 0, 1});
  expect_near(moved("Tile", {2, 2}, lists({{1, 2}})), {2, 4}, {0, 1, 0, 1, 2, 3, 2, 3});
  expect_near(moved("Pad", {3}, lists({{1, 2}})), {6}, {0, 0, 1, 2, 0, 0});
  expect_near(moved("Pad", {3}, lists({{2, 1}}), {{"mode", "edge"}}), {6}, {0, 0, 0, 1, 2, 2});
  expect_near(moved("Pad", {3}, lists({{2, 2}}), {{"mode", "reflect"}}), {7}, {2, 1, 0, 1, 2, 1, 0});
  expect_near(moved("Pad", {3}, lists({{1, 2}}), {{"mode", "wrap"}}, 19), {6}, {2, 0, 1, 2, 0, 1});
  expect_near(moved("Pad", {3}, lists({{-1, 1}})), {3}, {1, 2, 0});
  expect_near(moved("Expand", {2, 1}, lists({{3, 1, 2}})), {3, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1});
  expect_near(moved("Trilu", {3, 3}, nothing), {3, 3}, {0, 1, 2, 0, 4, 5, 0, 0, 8});
  expect_near(
      moved("Trilu", {2, 3}, [](GraphBuilder& b) { return std::vector{b.scalar(DType::i64, -1)}; }, {{"upper", 0}}),
      {2, 3}, {0, 0, 0, 3, 0, 0});
}

// A symbolic dim in equal parts: before uneven ones were allowed the sizes of a run must divide, then the dim itself.
TEST(Move, SplitsOfASymbolicDim) {
  GraphBuilder even("even", 18);
  const auto x = even.input("x", DType::f32, {"n"});
  const auto halves = even.add_many("Split", {even.add("Concat", {x, x}, {{"axis", 0}})}, 2, {{"num_outputs", 2}});
  even.output(halves[1], "last");
  const auto out = test::run(even.build(), {{"x", ramp(DType::f32, {3}, 0, 1)}});
  expect_near(out.at("last"), {3}, {0, 1, 2});

  GraphBuilder uneven("uneven", 18);
  uneven.output(uneven.add_many("Split", {uneven.input("x", DType::f32, {"n"})}, 2, {{"num_outputs", 2}})[1], "last");
  const auto refused = canonicalise(uneven.build());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("a symbolic dim n in 2 parts, equal or not"));

  GraphBuilder older("older", 13);
  older.output(older.add_many("Split", {older.input("x", DType::f32, {"n"})}, 2)[1], "last");
  const auto model = canonicalise(older.build());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_TRUE(bind_symbols(*model, {{"x", Tensor(DType::f32, {4})}}).has_value());
  EXPECT_FALSE(bind_symbols(*model, {{"x", Tensor(DType::f32, {5})}}).has_value());
}

TEST(Move, Gathers) {
  expect_near(moved("Gather", {3, 2}, lists({{2, 0}})), {2, 2}, {4, 5, 0, 1});
  expect_near(
      moved("Gather", {3, 2}, [](GraphBuilder& b) { return std::vector{b.scalar(DType::i64, -1)}; }, {{"axis", 1}}),
      {3}, {1, 3, 5});
  GraphBuilder g("gather", 13);
  const auto x = g.input("x", DType::f32, {3, 2}), ids = g.input("ids", DType::i64, {2, 2});
  g.output(g.add("Gather", {x, ids}), "rows");
  g.output(g.add("GatherND", {x, ids}), "nd");
  g.output(g.add("GatherElements", {x, ids}, {{"axis", 0}}), "elements");
  const auto out =
      test::run(g.build(), {{"x", ramp(DType::f32, {3, 2}, 0, 1)}, {"ids", tensor(DType::i64, {2, 2}, {2, -1, 0, 1})}});
  expect_near(out.at("rows"), {2, 2, 2}, {4, 5, 4, 5, 0, 1, 2, 3});
  expect_near(out.at("nd"), {2}, {5, 1});
  expect_near(out.at("elements"), {2, 2}, {4, 5, 0, 3});
}

TEST(Move, WeightsAreAddressedNotCopied) {
  GraphBuilder g("weight");
  const auto x = g.input("x", DType::f32, {"n", 100});
  const auto w = g.constant("W", ramp(DType::f32, {50, 100}, 0, 1));
  g.output(g.add("MatMul", {x, g.add("Transpose", {w}, {{"perm", {1, 0}}})}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->constants.size(), 1u);
  EXPECT_THAT(to_string(model->graph), HasSubstr("= W[i1, i0]"));
}

TEST(Shapes, ExportedShapeArithmeticFoldsSymbolically) {
  // Reshape to [shape(x)[0], shape(x)[1], 3, -1] as TorchScript writes it.
  GraphBuilder g("shape", 17);
  const auto x = g.input("x", DType::f32, {"batch", "seq", 12});
  const auto dim = [&](int k) {
    return g.add("Unsqueeze", {g.add("Gather", {g.add("Shape", {x}), g.scalar(DType::i64, k)}), g.integers({0})});
  };
  const auto shape = g.add("Concat", {dim(0), dim(1), g.integers({3}), g.integers({-1})}, {{"axis", 0}});
  g.output(g.add("Reshape", {x, shape}), "y");
  EXPECT_THAT(graph_text(g.build()), HasSubstr("y: f32[i0=batch, i1=seq, i2=3, i3=4] = x[i0, i1, 4 * i2 + i3]"));
  EXPECT_THAT(graph_text(g.build(), {{{"seq", 7}}}), HasSubstr("y: f32[i0=batch, i1=7, i2=3, i3=4]"));
}

TEST(Shapes, ExpandIdiomAndConstantOfShape) {
  // Where(Equal(shape, -1), 1, shape) keeps the symbols; ConstantOfShape of it is one number for all users.
  GraphBuilder g("expand", 17);
  const auto x = g.input("x", DType::f32, {"n", 1});
  const auto shape = g.add("Concat", {g.add("Shape", {x}, {{"end", 1}}), g.integers({3})}, {{"axis", 0}});
  const auto ones = g.add("ConstantOfShape", {g.add("Shape", {shape})}, {{"value", tensor(DType::i64, {1}, {1})}});
  const auto minus = g.add("Mul", {ones, g.scalar(DType::i64, -1)});
  const auto target = g.add("Where", {g.add("Equal", {shape, minus}), ones, shape});
  g.output(g.add("Expand", {x, target}), "y");
  g.output(g.add("ConstantOfShape", {target}, {{"value", tensor(DType::f32, {1}, {2.5})}}), "fill");
  const std::string text = graph_text(g.build());
  EXPECT_THAT(text, HasSubstr("y: f32[i0=n, i1=3] = x[i0, 0]"));
  EXPECT_THAT(text, HasSubstr("fill: f32[i0=n, i1=3] = 2.5"));
}

TEST(Shapes, IndexArithmeticReachesItsUsers) {
  // A causal mask from Range, Unsqueeze and a comparison; a position table read by row.
  GraphBuilder g("mask", 17);
  const auto x = g.input("x", DType::f32, {"seq", "seq"});
  const auto n = g.add("Squeeze", {g.add("Shape", {x}, {{"end", 1}})});
  const auto range = g.add("Range", {g.scalar(DType::i64, 0), n, g.scalar(DType::i64, 1)});
  const auto row = g.add("Unsqueeze", {range, g.integers({1})}), column = g.add("Unsqueeze", {range, g.integers({0})});
  const auto later = g.add("Cast", {g.add("Greater", {column, row})}, {{"to", 1}});
  g.output(g.add("Add", {x, g.add("Mul", {later, g.scalar(DType::f32, -10000)})}), "y");
  const auto table = g.constant("table", ramp(DType::f32, {128, 2}, 0, 1));
  g.output(g.add("Gather", {table, range}), "places");
  const std::string text = graph_text(g.build());
  EXPECT_THAT(text, HasSubstr("y: f32[i0=seq, i1=seq] = x[i0, i1] + where(i0 < i1, -10000.0, "));
  EXPECT_THAT(text, HasSubstr("places: f32[i0=seq, i1=2] = table[i0, i1]"));
  const auto out = test::run(g.build(), {{"x", ramp(DType::f32, {2, 2}, 0, 1)}});
  expect_near(out.at("y"), {2, 2}, {0, -9999, 2, 3});
  expect_near(out.at("places"), {2, 2}, {0, 1, 2, 3});
}

TEST(Shapes, SmallMasksStayIndexExpressions) {
  GraphBuilder g("mask", 17);
  const auto x = g.input("x", DType::f32, {3, 3});
  const auto ones = g.add("ConstantOfShape", {g.integers({3, 3})}, {{"value", tensor(DType::f32, {1}, {1})}});
  const auto lower = g.add("Equal", {g.add("Trilu", {ones}, {{"upper", 0}}), g.scalar(DType::f32, 0)});
  g.output(g.add("Where", {lower, g.scalar(DType::f32, -5), x}), "y");
  const std::string text = graph_text(g.build());
  EXPECT_THAT(text, HasSubstr("y: f32[i0=3, i1=3] = where(i0 < i1, -5.0, x[i0, i1])"));
  EXPECT_THAT(text, Not(HasSubstr("constant")));
}

TEST(Shapes, PositionIdsInAConstantAreRecognised) {
  GraphBuilder g("ids", 17);
  const auto x = g.input("x", DType::f32, {1, 4, 2});
  const auto ids = g.constant("position_ids", ramp(DType::i64, {1, 512}, 0, 1)),
             table = g.constant("table", ramp(DType::f32, {512, 2}, 0, 1));
  const auto taken = g.add("Slice", {ids, g.integers({0}), g.integers({4}), g.integers({1})});
  g.output(g.add("Add", {x, g.add("Gather", {table, taken})}), "y");
  EXPECT_THAT(graph_text(g.build()), HasSubstr("= table[i1, i2]"));
}

TEST(Shapes, ShapeAsAnOutput) {
  GraphBuilder g("shape", 17);
  const auto x = g.input("x", DType::f32, {"n", 3});
  g.output(g.add("Shape", {x}), "shape");
  g.output(g.add("Size", {x}), "size");
  g.output(g.add("Range", {g.scalar(DType::f32, 1), g.scalar(DType::f32, 2.2), g.scalar(DType::f32, 0.5)}), "range");
  g.output(g.add("EyeLike", {x}, {{"k", 1}}), "eye");
  const auto out = test::run(g.build(), {{"x", Tensor(DType::f32, {2, 3})}});
  expect_near(out.at("shape"), {2}, {2, 3});
  expect_near(out.at("size"), {}, {6});
  expect_near(out.at("range"), {3}, {1, 1.5, 2});
  expect_near(out.at("eye"), {2, 3}, {0, 1, 0, 0, 0, 1});
}

TEST(Shapes, OutputsThatNothingComputes) {
  GraphBuilder g("copy");
  const auto x = g.input("x", DType::f32, {2});
  g.output(x);
  g.output(g.constant("W", ramp(DType::f32, {2}, 5, 1)), "W");
  const auto out = test::run(g.build(), {{"x", ramp(DType::f32, {2}, 1, 1)}});
  expect_near(out.at("x"), {2}, {1, 2});
  expect_near(out.at("W"), {2}, {5, 6});
}

TEST(Gather, IndicesAreCheckedInEachRun) {
  GraphBuilder g("positions");
  const auto table = g.input("table", DType::f32, {4, 2}), ids = g.input("ids", DType::i32, {"n"});
  const auto length = g.add("Squeeze", {g.add("Shape", {ids}), g.integers({0})});
  const auto positions = g.add("Range", {g.scalar(DType::i64, 0), length, g.scalar(DType::i64, 1)});
  const auto moved =
      g.add("Squeeze", {g.add("Cast", {g.add("Unsqueeze", {ids, g.integers({0})})}, {{"to", 7}}), g.integers({0})});
  g.output(g.add("Add", {g.add("Gather", {table, positions}), g.add("Gather", {table, moved})}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto message = [&](const std::vector<double>& given) {
    const auto n = static_cast<std::int64_t>(given.size());
    const auto bound =
        bind_symbols(*model, {{"table", Tensor(DType::f32, {4, 2})}, {"ids", tensor(DType::i32, {n}, given)}});
    return bound ? std::string() : bound.error().text();
  };
  EXPECT_EQ(message({-4, 3, 0, -1}), "");
  EXPECT_THAT(message({0, 0, 0, 0, 0}), HasSubstr("n is 5, at most 4 is possible"));
  EXPECT_THAT(message({0, 4}), HasSubstr("input 'ids' holds 4 at element 1, which indexes a dim of 4"));
  EXPECT_THAT(message({-5}), HasSubstr("input 'ids' holds -5 at element 0"));
  const auto error = [](int rows, int positions) {
    GraphBuilder b("positions");
    const auto all =
        b.add("Range", {b.scalar(DType::i64, 0), b.scalar(DType::i64, positions), b.scalar(DType::i64, 1)});
    b.output(b.add("Gather", {b.input("table", DType::f32, {rows, 2}), all}));
    return test::error_of(b.build());
  };
  EXPECT_THAT(error(4, 5), HasSubstr("index 4 is out of range for dim 4"));
  EXPECT_THAT(error(1000, 1001), HasSubstr("an index reaches i0 in a dim of 1000"));
}

TEST(Gather, SymbolicIndicesAreBounded) {
  GraphBuilder g("last");
  const auto cache = g.input("cache", DType::f32, {"past", 2}), all = g.input("all", DType::f32, {"total"});
  const auto length = g.add("Slice", {g.add("Shape", {cache}), g.integers({0}), g.integers({1})});
  g.output(g.add("Gather", {all, g.add("Concat", {length, g.integers({0})}, {{"axis", 0}})}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto message = [&](std::int64_t past, std::int64_t total) {
    const auto bound =
        bind_symbols(*model, {{"cache", Tensor(DType::f32, {past, 2})}, {"all", Tensor(DType::f32, {total})}});
    return bound ? std::string() : bound.error().text();
  };
  EXPECT_EQ(message(3, 4), "");
  EXPECT_THAT(message(4, 4), HasSubstr("past + 1 is 5, at most total = 4 is possible"));
}

// Only where every element of an input is an index are all its elements checked.
TEST(Gather, ElementsThatAreNoIndexAreNotChecked) {
  GraphBuilder g("columns");
  const auto table = g.input("table", DType::f32, {4}), pairs = g.input("pairs", DType::i64, {2, 2});
  const auto column = g.add("Slice", {pairs, g.integers({0}), g.integers({1}), g.integers({1})});
  g.output(g.add("Gather", {table, column}), "y");
  const auto out = test::run(g.build(), {{"table", tensor(DType::f32, {4}, {1, 2, 3, 4})},
                                         {"pairs", tensor(DType::i64, {2, 2}, {3, 100, 0, 200})}});
  expect_near(out.at("y"), {2, 1}, {4, 1});
}

TEST(OneHot, MarksTheIndexOnANewAxis) {
  GraphBuilder g("one_hot", 11);
  const auto i = g.input("i", DType::i64, {4}), v = g.input("v", DType::f32, {2});
  g.output(g.add("OneHot", {i, g.integers({3}), v}), "last");
  g.output(g.add("OneHot", {i, g.integers({3}), v}, {{"axis", 0}}), "first");
  const auto out =
      test::run(g.build(), {{"i", tensor(DType::i64, {4}, {0, 2, -1, 5})}, {"v", tensor(DType::f32, {2}, {.5, 7})}});
  expect_near(out.at("last"), {4, 3}, {7, .5, .5, .5, .5, 7, .5, .5, 7, .5, .5, .5});
  expect_near(out.at("first"), {3, 4}, {7, .5, .5, .5, .5, .5, .5, .5, .5, 7, 7, .5});
}

TEST(Dropout, IsTheIdentityAndItsMaskIsTrue) {
  GraphBuilder g("dropout", 13);
  const auto x = g.input("x", DType::f32, {2}), ratio = g.input("ratio", DType::f32, {});
  const auto y = g.add_many("Dropout", {x, ratio}, 2);
  g.output(g.add("Abs", {y[0]}), "y");
  g.output(y[1], "mask");
  const auto out =
      test::run(g.build(), {{"x", tensor(DType::f32, {2}, {-1, 2})}, {"ratio", tensor(DType::f32, {}, {.5})}});
  expect_near(out.at("y"), {2}, {1, 2});
  expect_near(out.at("mask"), {2}, {1, 1});
  GraphBuilder t("dropout", 13);
  const auto training = t.input("training", DType::boolean, {});
  t.output(t.add("Dropout", {t.input("x", DType::f32, {2}), t.scalar(DType::f32, .5), training}));
  const auto model = canonicalise(t.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto bind = [&](double on) {
    return bind_symbols(*model, {{"x", Tensor(DType::f32, {2})}, {"training", tensor(DType::boolean, {}, {on})}});
  };
  EXPECT_TRUE(bind(0).has_value());
  ASSERT_FALSE(bind(1).has_value());
  EXPECT_EQ(bind(1).error().kind, ErrorKind::unsupported);
  EXPECT_THAT(bind(1).error().text(), HasSubstr("input 'training' is true: training mode"));
  GraphBuilder c("dropout", 13);
  const auto computed = c.add("Not", {c.input("inference", DType::boolean, {})});
  c.output(c.add("Dropout", {c.input("x", DType::f32, {2}), c.scalar(DType::f32, .5), computed}));
  EXPECT_THAT(test::error_of(c.build()), HasSubstr("training_mode is computed at run time"));
  GraphBuilder f("dropout", 13);
  f.output(f.add("Dropout", {f.input("x", DType::f32, {2}), f.scalar(DType::f32, .5), f.scalar(DType::boolean, 0)}),
           "y");
  expect_near(test::run(f.build(), {{"x", tensor(DType::f32, {2}, {-1, 2})}}).at("y"), {2}, {-1, 2});
}

TEST(Binding, SymbolsConstraintsAndMessages) {
  GraphBuilder g("bind");
  const auto a = g.input("a", DType::f32, {"n", "m"}),
             b = g.input("b", DType::f32, {"k", Expr::symbol("n") + Expr::symbol("m")});
  g.output(g.add("Add", {a, g.add("Slice", {b, g.integers({0}), g.integers({2}), g.integers({1})})}));
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto bound = bind_symbols(*model, {{"a", Tensor(DType::f32, {3, 2})}, {"b", Tensor(DType::f32, {3, 5})}});
  ASSERT_TRUE(bound.has_value()) << bound.error().text();
  EXPECT_EQ(bound->at("n"), 3);
  EXPECT_EQ(bound->at("k"), 3);
  const auto message = [&](const NamedTensors& inputs) {
    const auto result = bind_symbols(*model, inputs);
    return result ? std::string() : result.error().text();
  };
  EXPECT_THAT(message({{"a", Tensor(DType::f32, {3, 2})}, {"b", Tensor(DType::f32, {3, 6})}}),
              HasSubstr("dim 1 of input 'b' is 6, n + m is 5"));
  EXPECT_THAT(message({{"a", Tensor(DType::f32, {3, 2})}, {"b", Tensor(DType::f32, {4, 5})}}), HasSubstr("node 'Add_"));
  EXPECT_THAT(message({{"a", Tensor(DType::f32, {3, 2})}}), HasSubstr("input 'b' is missing; given are 'a'"));
  EXPECT_THAT(message({{"a", Tensor(DType::f16, {3, 2})}, {"b", Tensor(DType::f32, {3, 5})}}),
              HasSubstr("input 'a' is f16, the model takes f32"));
  EXPECT_THAT(message({{"a", Tensor(DType::f32, {3})}, {"b", Tensor(DType::f32, {3, 5})}}),
              HasSubstr("input 'a' has shape [3], the model takes [n, m]"));
}

TEST(Binding, SolvesScaledSizesAndRepeatedSymbols) {
  GraphBuilder g("bind");
  const auto a = g.input("a", DType::f32, {Expr(2) * Expr::symbol("n"), "m"}), b = g.input("b", DType::f32, {"m"});
  g.output(g.add("Add", {a, b}));
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value());
  const auto bound = bind_symbols(*model, {{"a", Tensor(DType::f32, {6, 2})}, {"b", Tensor(DType::f32, {2})}});
  ASSERT_TRUE(bound.has_value()) << bound.error().text();
  EXPECT_EQ(bound->at("n"), 3);
  const auto odd = bind_symbols(*model, {{"a", Tensor(DType::f32, {5, 2})}, {"b", Tensor(DType::f32, {2})}});
  EXPECT_FALSE(odd.has_value());
  const auto repeated = bind_symbols(*model, {{"a", Tensor(DType::f32, {6, 2})}, {"b", Tensor(DType::f32, {4})}});
  ASSERT_FALSE(repeated.has_value());
  EXPECT_THAT(repeated.error().text(), HasSubstr("dim 0 of input 'b' is 4, 'm' from dim 1 of input 'a' is 2"));
  EXPECT_THAT(test::error_of(g.build(), {{{"q", 1}}}), HasSubstr("the model has the symbols m, n"));
}

TEST(Binding, ABoundSizeOfOneBroadcasts) {
  GraphBuilder g("bind");
  g.output(g.add("Add", {g.input("a", DType::f32, {"n"}), g.input("b", DType::f32, {"m"})}), "y");
  const auto out =
      test::run(g.build(), {{"a", ramp(DType::f32, {3}, 0, 1)}, {"b", ramp(DType::f32, {1}, 5, 1)}}, {{{"m", 1}}});
  expect_near(out.at("y"), {3}, {5, 6, 7});
}

TEST(Errors, DataDependentShapesAreNamed) {
  GraphBuilder g("data", 17);
  const auto x = g.input("x", DType::f32, {6}), shape = g.input("shape", DType::i64, {2});
  g.output(g.add("Reshape", {x, shape}));
  EXPECT_THAT(test::error_of(g.build()),
              HasSubstr("node 'Reshape_0' (Reshape): input 1 'shape' must be known while compiling"));
  GraphBuilder h("data", 17);
  h.output(h.add("NonZero", {h.input("x", DType::f32, {6})}));
  EXPECT_THAT(test::error_of(h.build()), HasSubstr("operator 'NonZero' of ai.onnx opset 17 is not supported"));
}

}  // namespace
}  // namespace aicf
