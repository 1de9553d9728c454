// Resize: places by each rule of the specification, values by hand.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;

const std::vector<double> pair{1, 2};

/// A row resized to `size`.
std::vector<double> resized(const std::vector<double>& row, int size, const std::vector<NamedAttribute>& attributes) {
  GraphBuilder g("resize", 13);
  const auto n = static_cast<std::int64_t>(row.size());
  g.output(g.add("Resize", {g.input("x", DType::f32, {1, n}), "", "", g.integers({1, size})}, attributes), "y");
  return test::elements(test::run(g.build(), {{"x", tensor(DType::f32, {1, n}, row)}}).at("y"));
}

/// A row of symbolic length scaled by a number.
std::vector<double> scaled(const std::vector<double>& row, double scale,
                           const std::vector<NamedAttribute>& attributes) {
  GraphBuilder g("resize", 11);
  const auto scales = g.constant(DType::f32, {1}, {scale});
  g.output(g.add("Resize", {g.input("x", DType::f32, {"n"}), "", scales}, attributes), "y");
  return test::elements(
      test::run(g.build(), {{"x", tensor(DType::f32, {static_cast<std::int64_t>(row.size())}, row)}}).at("y"));
}

using Row = std::vector<double>;

void expect_row(const Row& got, const Row& wanted) {
  EXPECT_THAT(got, ::testing::Pointwise(::testing::DoubleNear(1e-12), wanted));
}

TEST(Resize, NearestByEachRounding) {
  // Places −0.3, 0.1, 0.5, 0.9, 1.3.
  expect_row(resized(pair, 5, {}), {1, 1, 1, 2, 2});
  expect_row(resized(pair, 5, {{"nearest_mode", "round_prefer_ceil"}}), {1, 1, 2, 2, 2});
  expect_row(resized(pair, 5, {{"nearest_mode", "ceil"}}), {1, 2, 2, 2, 2});
  expect_row(resized(pair, 5, {{"nearest_mode", "floor"}}), {1, 1, 1, 1, 2});
}

TEST(Resize, PlacesByEachTransformation) {
  const auto linear = [](const char* transformation) {
    return std::vector<NamedAttribute>{{"mode", "linear"}, {"coordinate_transformation_mode", transformation}};
  };
  expect_row(resized(pair, 4, linear("half_pixel")), {1, 1.25, 1.75, 2});
  expect_row(resized(pair, 4, linear("asymmetric")), {1, 1.5, 2, 2});
  expect_row(resized(pair, 4, linear("align_corners")), {1, 4.0 / 3, 5.0 / 3, 2});
  expect_row(resized(pair, 1, linear("align_corners")), {1});
  expect_row(resized({1, 2, 3, 4}, 1, linear("half_pixel")), {2.5});
  expect_row(resized({1, 2, 3, 4}, 1, linear("pytorch_half_pixel")), {1});
}

TEST(Resize, Cubic) {
  // At distance 1/2 the weights are 0.59375, at 3/2 they are -0.09375.
  const std::vector<NamedAttribute> cubic{{"mode", "cubic"}, {"coordinate_transformation_mode", "asymmetric"}};
  const Row row = resized({1, 5, 0, 2}, 8, cubic);
  ASSERT_EQ(row.size(), 8u);
  expect_row({row[0], row[1], row[2], row[3]}, {1, 3.46875, 5, 2.6875});
  std::vector<NamedAttribute> inside = cubic;
  inside.emplace_back("exclude_outside", 1);
  EXPECT_NEAR(resized({1, 5, 0, 2}, 8, inside)[1], 3.5625 / 1.09375, 1e-12);
  // With a = -1/2: 0.5625 and -0.0625.
  inside.back() = {"cubic_coeff_a", -0.5};
  EXPECT_NEAR(resized({1, 5, 0, 2}, 8, inside)[3], 0.5625 * 5 - 0.0625 * 3, 1e-12);
}

TEST(Resize, ScalesOfASymbolicSize) {
  expect_row(scaled({1, 2, 3}, 2, {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}),
             {1, 1, 2, 2, 3, 3});
  expect_row(scaled({1, 2, 3, 4}, 0.5, {{"mode", "linear"}}), {1.5, 3.5});
  expect_row(scaled({1, 2, 3}, 0.5, {{"mode", "linear"}}), {1.5});
  expect_row(scaled({4, 8}, 1.5, {{"mode", "linear"}}), {4, 6, 8});
}

TEST(Resize, TwoDims) {
  GraphBuilder g("resize", 18);
  const auto x = g.input("x", DType::f32, {1, 2, 2});
  const auto scales = g.constant(DType::f32, {2}, {2, 2});
  g.output(g.add("Resize", {x, "", scales}, {{"mode", "linear"}, {"axes", {1, 2}}}), "y");
  expect_near(test::run(g.build(), {{"x", tensor(DType::f32, {1, 2, 2}, {1, 2, 3, 4})}}).at("y"), {1, 4, 4},
              {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
}

TEST(Resize, FirstForm) {
  GraphBuilder g("resize", 10);
  g.output(g.add("Resize", {g.input("x", DType::i32, {4}), g.constant(DType::f32, {1}, {0.75})}), "y");
  expect_near(test::run(g.build(), {{"x", tensor(DType::i32, {4}, {1, 2, 3, 4})}}).at("y"), {3}, {1, 2, 3});
}

TEST(Resize, Refusals) {
  const auto error = [](double scale, const std::vector<NamedAttribute>& attributes) {
    GraphBuilder g("resize", 13);
    g.output(g.add("Resize", {g.input("x", DType::f32, {4}), "", g.constant(DType::f32, {1}, {scale})}, attributes));
    return test::error_of(g.build());
  };
  EXPECT_THAT(error(0.3, {}), HasSubstr("a scale of 0.3"));
  EXPECT_THAT(error(2, {{"mode", "quintic"}}), HasSubstr("mode 'quintic'"));
  EXPECT_THAT(error(2, {{"coordinate_transformation_mode", "tf_crop_and_resize"}}), HasSubstr("tf_crop_and_resize"));
}

}  // namespace
}  // namespace aicf
