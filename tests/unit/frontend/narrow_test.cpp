// f16 and bf16: types of the model, not of its arithmetic. What is computed counts as f32 until a Cast or an output.

#include <gmock/gmock.h>

#include <limits>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double inf = std::numeric_limits<double>::infinity();

/// Output "y" of one f16 input x.
Tensor of_f16(const std::function<std::string(GraphBuilder&, const std::string&)>& body, const std::vector<double>& x) {
  GraphBuilder g("narrow", 18);
  const auto n = static_cast<std::int64_t>(x.size());
  g.output(body(g, g.input("x", DType::f16, {n})), "y");
  return test::run(g.build(), {{"x", tensor(DType::f16, {n}, x)}}).at("y");
}

TEST(Narrow, IntermediatesCountAsF32) {
  // 90000 is beyond f16; 2049 is not an f16 number, whose neighbours there are 2048 and 2050.
  const auto square = [](GraphBuilder& g, const std::string& x) {
    return g.add("Div", {g.add("Mul", {x, x}), g.scalar(DType::f16, 300)});
  };
  expect_near(of_f16(square, {300, -300}), {2}, {300, 300});
  const auto add = [](GraphBuilder& g, const std::string& x) {
    const auto whole = g.scalar(DType::f16, 2048);
    return g.add("Sub", {g.add("Add", {x, whole}), whole});
  };
  expect_near(of_f16(add, {1, -3}), {2}, {1, -3});
  const auto sum = [](GraphBuilder& g, const std::string& x) {
    return g.add("Div", {g.add("ReduceSum", {x}, {{"keepdims", 0}}), g.scalar(DType::f16, 4)});
  };
  expect_near(of_f16(sum, {60000, 60000}), {}, {30000});
  const auto product = [](GraphBuilder& g, const std::string& x) {
    return g.add("Mul", {g.add("MatMul", {x, x}), g.scalar(DType::f16, 1.0 / 1024)});
  };
  expect_near(of_f16(product, {1024, 1024}), {}, {2048});
  const auto norm = [](GraphBuilder& g, const std::string& x) {
    return g.add("Sqrt", {g.add("ReduceMean", {g.add("Pow", {x, g.scalar(DType::f16, 2)})}, {{"keepdims", 0}})});
  };
  expect_near(of_f16(norm, {496, -496}), {}, {496});
}

TEST(Narrow, MovesOfAnIntermediateKeepItsPrecision) {
  const auto moved = [](GraphBuilder& g, const std::string& x) {
    const auto square = g.add("Unsqueeze", {g.add("Mul", {x, x}), g.integers({0})});
    const auto twice = g.add("Concat", {g.add("Transpose", {square}), g.add("Transpose", {square})}, {{"axis", 1}});
    return g.add("Div", {twice, g.scalar(DType::f16, 300)});
  };
  expect_near(of_f16(moved, {300, 600}), {2, 2}, {300, 300, 1200, 1200});
}

TEST(Narrow, CastsAndOutputsRound) {
  GraphBuilder g("casts", 18);
  const auto x = g.input("x", DType::f32, {3});
  const auto narrow = g.add("Cast", {x}, {{"to", 10}});
  g.output(g.add("Cast", {narrow}, {{"to", 1}}), "back");
  g.output(g.add("Mul", {narrow, narrow}), "square");
  g.output(g.add("Div", {"square", g.scalar(DType::f16, 256)}), "after");
  const auto out = test::run(g.build(), {{"x", tensor(DType::f32, {3}, {1.000244140625, 512, 70000})}});
  expect_near(out.at("back"), {3}, {1, 512, inf}, 0);
  expect_near(out.at("square"), {3}, {1, inf, inf}, 0);
  // The output rounds, not what is computed from it.
  expect_near(out.at("after"), {3}, {1.0 / 256, 1024, inf}, 0);
}

TEST(Narrow, CastConstantsKeepTheirRange) {
  for (const auto& [to, type] : {std::pair{10, DType::f16}, {16, DType::bf16}}) {
    GraphBuilder g("sentinel", 18);
    const double lowest = std::numeric_limits<float>::lowest();
    const auto x = g.input("x", type, {2});
    const auto cast = [&](const std::string& c) { return g.add("Cast", {c}, {{"to", to}}); };
    const auto masked = [&](const std::string& mask) {
      return g.add("Cast", {g.add("Add", {x, cast(mask)})}, {{"to", 1}});
    };
    g.output(masked(g.constant(DType::f32, {2}, {0, lowest})), "few");
    // Too many elements to be known one by one.
    std::vector<double> many(200, lowest);
    many[0] = 0;
    const auto large = g.constant(DType::f32, {100, 2}, many);
    g.output(g.add("Slice", {masked(large), g.integers({0}), g.integers({1})}), "many");
    g.output(g.add("Cast", {g.add("Mul", {x, cast(g.scalar(DType::f32, 1e-12))})}, {{"to", 1}}), "epsilon");
    g.output(g.add("Cast", {g.add("Mul", {x, cast(g.scalar(DType::f32, 0.1))})}, {{"to", 1}}), "rounded");
    const auto out = test::run(g.build(), {{"x", tensor(type, {2}, {1, 2})}});
    expect_near(out.at("few"), {2}, {1, lowest}, 0);
    expect_near(out.at("many"), {1, 2}, {1, lowest}, 0);
    const double epsilon = type == DType::f16 ? static_cast<double>(1e-12f) : round_to(DType::bf16, 1e-12f);
    expect_near(out.at("epsilon"), {2}, {epsilon, 2 * epsilon}, 0);
    const double tenth = type == DType::f16 ? 0.0999755859375 : 0.10009765625;
    expect_near(out.at("rounded"), {2}, {tenth, 2 * tenth}, 0);
  }
}

TEST(Narrow, CastChoicesBetweenConstantsKeepTheirRange) {
  GraphBuilder g("mask");
  const auto keep = g.input("keep", DType::boolean, {3}), x = g.input("x", DType::f32, {3});
  const auto mask = g.add(
      "Unsqueeze", {g.add("Where", {keep, g.scalar(DType::f32, 0), g.scalar(DType::f32, -3.4e38)}), g.integers({0})});
  const auto back = [&](const std::string& value) {
    return g.add("Cast", {g.add("Cast", {value}, {{"to", 10}})}, {{"to", 1}});
  };
  g.output(back(mask), "mask_back");
  g.output(back(x), "x_back");  // data rounds, to infinity too
  const auto out = test::run(
      g.build(), {{"keep", tensor(DType::boolean, {3}, {1, 0, 1})}, {"x", tensor(DType::f32, {3}, {0.1, -1e6, 2})}});
  expect_near(out.at("mask_back"), {1, 3}, {0, static_cast<float>(-3.4e38), 0});
  expect_near(out.at("x_back"), {3}, {0.0999755859375, -inf, 2});
}

TEST(Narrow, StorageIsNarrowWhereItIsExact) {
  GraphBuilder g("storage", 18);
  const auto x = g.input("x", DType::f16, {4096, 2}), w = g.input("w", DType::f32, {2, 3});
  const auto turned = g.add("Concat", {g.add("Transpose", {x}), g.add("Transpose", {x})}, {{"axis", 0}});
  g.output(turned, "turned");
  const auto rounded = g.add("Cast", {w}, {{"to", 10}});
  g.output(g.add("MatMul", {x, rounded}), "y");
  const auto model = canonicalise(g.build());
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const std::string text = to_string(model->graph);
  EXPECT_THAT(text, HasSubstr(": f16[i0=2, i1=4096] = x[i1, i0]")) << text;
  EXPECT_THAT(text, HasSubstr(": f16[i0=4, i1=4096] = where(")) << text;
  EXPECT_THAT(text, HasSubstr(": f16[i0=2, i1=3] = f16(w[i0, i1])")) << text;
  EXPECT_THAT(text, HasSubstr(": f32[i0=4096, i1=3] = sum(f32(x[i0, r0]) * f32(")) << text;
  EXPECT_THAT(text, Not(HasSubstr("f16(f32("))) << text;
}

}  // namespace
}  // namespace aicf
