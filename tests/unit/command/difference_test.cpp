// What of two sets of tensors is out of tolerance, and how it is said.

#include "tools/aicf/difference.h"

#include <gmock/gmock.h>

#include <limits>

namespace aicf::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

Tensor matrix(const std::vector<double>& values) {
  Tensor t(DType::f32, {2, static_cast<std::int64_t>(values.size()) / 2});
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}
Difference between(const std::vector<double>& got, const std::vector<double>& wanted, double absolute = 0.125,
                   double relative = 0) {
  return compare({{"y", matrix(got)}}, {{"y", matrix(wanted)}}, absolute, relative);
}

TEST(Difference, TheFirstElementOutOfToleranceAndTheWorst) {
  // [0, 1] is within the tolerance, [0, 2] is not, [1, 1] is worse.
  const Difference d = between({1, 1.0625, 2, 1, 9, 1}, {1, 1, 1, 1, 1, 1});
  ASSERT_FALSE(d.none());
  EXPECT_THAT(d.first->index, ElementsAre(0, 2));
  EXPECT_THAT(d.worst->index, ElementsAre(1, 1));
  EXPECT_EQ(to_text(d), "'y' [0, 2]: 2 instead of 1; worst [1, 1]: 9 instead of 1");
  const Json j = to_json(d);
  EXPECT_EQ(j["first_bad"], (Json{{"tensor", "y"}, {"index", {0, 2}}, {"got", 2.0}, {"wanted", 1.0}}));
  EXPECT_EQ(j["worst"]["index"], (Json{1, 1}));
  EXPECT_EQ(d.max_abs, 8);
  EXPECT_EQ(to_text(between({1, 3, 1, 1}, {1, 1, 1, 1})), "'y' [0, 1]: 3 instead of 1");
}

TEST(Difference, EitherToleranceIsEnough) {
  EXPECT_TRUE(between({1.0625, 100, 1, 1}, {1, 100, 1, 1}).none());
  EXPECT_TRUE(between({2, 100, 1, 1}, {1, 100, 1, 1}, 0, 0.015625).none());
  EXPECT_FALSE(between({2, 10, 1, 1}, {1, 10, 1, 1}, 0, 0.015625).none());
  EXPECT_TRUE(between({}, {}).none());
}

TEST(Difference, TheUsualToleranceIsOfTheType) {
  const auto none = [](DType type, double got, double wanted) {
    Tensor a(type, {1}), b(DType::f64, {1});
    a.set(0, got);
    b.set(0, wanted);
    return compare({{"y", a}}, {{"y", b}}, 1e-5, std::nullopt).none();
  };
  // The neighbours of 1024 are a unit in the last place apart: 1 in f16, 8 in bf16.
  EXPECT_TRUE(none(DType::f16, 1026, 1024));
  EXPECT_FALSE(none(DType::f16, 1027, 1024));
  EXPECT_TRUE(none(DType::bf16, 1040, 1024));
  EXPECT_FALSE(none(DType::bf16, 1048, 1024));
  EXPECT_TRUE(none(DType::f32, 1024.0625, 1024));
  EXPECT_FALSE(none(DType::f32, 1024.25, 1024));
  EXPECT_FALSE(none(DType::i64, 100001, 100000));
}

TEST(Difference, NumbersThatAreNone) {
  EXPECT_TRUE(between({nan, inf, 1, 1}, {nan, inf, 1, 1}).none());
  EXPECT_EQ(to_text(between({1, 1, nan, 5}, {1, 1, 1, 1})), "'y' [1, 0]: nan instead of 1");
  const Json j = to_json(between({-inf, nan}, {inf, 0}));
  EXPECT_EQ(j.dump(), R"({"ok":false,"max_abs":"inf","max_rel":"inf",)"
                      R"("first_bad":{"tensor":"y","index":[0,0],"got":"-inf","wanted":"inf"},)"
                      R"("worst":{"tensor":"y","index":[0,0],"got":"-inf","wanted":"inf"}})");
  EXPECT_EQ(to_json(between({1, 1}, {1, 1}))["first_bad"], Json());
}

TEST(Difference, ShapesAndNames) {
  const NamedTensors wanted{{"y", matrix({1, 2, 3, 4})}};
  EXPECT_EQ(to_text(compare({{"y", matrix({1, 2})}}, wanted, 1, 1)), "'y' has the shape [2, 1], [2, 2] is wanted");
  const Difference missing = compare({}, wanted, 1, 1);
  EXPECT_FALSE(missing.none());
  EXPECT_EQ(to_json(missing)["first_bad"]["reason"], "'y' is missing");
}

}  // namespace
}  // namespace aicf::command
