// Moves of blocks, sequences and middles; windows and the Fourier transform; by hand.

#include <gmock/gmock.h>

#include <numbers>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::ramp;
using test::tensor;
using ::testing::HasSubstr;

/// One node of `op` over `x`, further operands as constants.
Tensor one(const std::string& op, const Tensor& x, const std::vector<Tensor>& more,
           const std::vector<NamedAttribute>& attributes, int opset = 28) {
  GraphBuilder g("one", opset);
  std::vector<Size> shape;
  for (const std::int64_t d : x.shape()) shape.emplace_back(d);
  std::vector<std::string> operands{g.input("x", x.type(), shape)};
  for (const Tensor& t : more)
    operands.push_back(t.size() == 0 ? "" : g.constant("c" + std::to_string(operands.size()), t));
  g.output(g.add(op, operands, attributes), "y");
  const auto out = test::run(g.build(), {{"x", x}});
  return out.contains("y") ? out.at("y") : Tensor();
}

Tensor integers(const std::vector<double>& values) {
  return tensor(DType::i64, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(Rearrange, BlocksBecomeChannels) {
  const Tensor x = ramp(DType::f32, {1, 2, 2, 4}, 0, 1);  // channel 0: 0 1 2 3 / 4 5 6 7, channel 1: 8 …
  expect_near(one("SpaceToDepth", x, {}, {{"blocksize", 2}}), {1, 8, 1, 2},
              {0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15});
  expect_near(one("SpaceToDepth", x, {}, {{"blocksize", 2}, {"mode", "CRD"}}), {1, 8, 1, 2},
              {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
}

TEST(Rearrange, ChannelsBecomeBlocks) {
  const Tensor x = ramp(DType::f32, {1, 8, 1, 1}, 0, 1);
  expect_near(one("DepthToSpace", x, {}, {{"blocksize", 2}}), {1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7});
  expect_near(one("DepthToSpace", x, {}, {{"blocksize", 2}, {"mode", "CRD"}}), {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  GraphBuilder g("bad", 28);
  g.output(g.add("DepthToSpace", {g.input("x", DType::f32, {1, 6, 1, 1})}, {{"blocksize", 2}}), "y");
  EXPECT_THAT(test::error_of(g.build()), HasSubstr("dim 1 of [1, 6, 1, 1] is no multiple of 4"));
}

TEST(Rearrange, SequencesAreReversedUpToTheirLength) {
  const Tensor x = ramp(DType::f32, {3, 2}, 0, 1);  // time, batch
  expect_near(one("ReverseSequence", x, {integers({3, 2})}, {}), {3, 2}, {4, 3, 2, 1, 0, 5});
  expect_near(one("ReverseSequence", x, {integers({1, 2, 9})}, {{"batch_axis", 0}, {"time_axis", 1}}), {3, 2},
              {0, 1, 3, 2, 5, 4});
}

TEST(Rearrange, MiddlesAreCutAndPadded) {
  const Tensor x = ramp(DType::f32, {2, 5}, 1, 1);
  expect_near(one("CenterCropPad", x, {integers({2, 2})}, {}), {2, 2}, {2, 3, 7, 8});
  expect_near(one("CenterCropPad", x, {integers({5, 5})}, {}), {5, 5},
              {0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  expect_near(one("CenterCropPad", x, {integers({4})}, {{"axes", {1}}}), {2, 4}, {1, 2, 3, 4, 6, 7, 8, 9});
}

TEST(Signal, Windows) {
  const auto window = [](const char* op, int periodic) {
    GraphBuilder g("w", 17);
    g.output(g.add(op, {g.scalar(DType::i64, 4)}, {{"periodic", periodic}}), "y");
    return test::run(g.build(), {}).at("y");
  };
  expect_near(window("HannWindow", 1), {4}, {0, 0.5, 1, 0.5});
  expect_near(window("HannWindow", 0), {4}, {0, 0.75, 0.75, 0});
  expect_near(window("HammingWindow", 1), {4}, {4.0 / 46, 25.0 / 46, 1, 25.0 / 46});
  expect_near(window("BlackmanWindow", 1), {4}, {0, 0.34, 1, 0.34});
}

TEST(Signal, FourierTransform) {
  const Tensor x = tensor(DType::f32, {1, 3, 1}, {1, 2, 4});
  const double c = -0.5, s = std::sqrt(3.0) / 2;
  const std::vector<double> spectrum{7, 0, 1 + 6 * c, 2 * s, 1 + 6 * c, -2 * s};
  expect_near(one("DFT", x, {}, {}), {1, 3, 2}, spectrum);
  expect_near(one("DFT", x, {}, {{"onesided", 1}}), {1, 2, 2}, {7, 0, 1 + 6 * c, 2 * s});
  // Longer than the input: padded with zeros. Shorter: cut.
  expect_near(one("DFT", x, {tensor(DType::i64, {}, {4})}, {}), {1, 4, 2}, {7, 0, -3, -2, 3, 0, -3, 2});
  expect_near(one("DFT", x, {tensor(DType::i64, {}, {2})}, {}), {1, 2, 2}, {3, 0, -1, 0});
  expect_near(one("DFT", tensor(DType::f32, {1, 3, 2}, spectrum), {}, {{"inverse", 1}}), {1, 3, 2}, {1, 0, 2, 0, 4, 0});
  expect_near(one("DFT", tensor(DType::f32, {1, 2, 2}, {7, 0, 1 + 6 * c, 2 * s}), {tensor(DType::i64, {}, {3})},
                  {{"inverse", 1}, {"onesided", 1}}),
              {1, 3, 1}, {1, 2, 4});
  // Along another axis.
  expect_near(
      one("DFT", tensor(DType::f32, {2, 1, 1}, {1, 4}), {Tensor(DType::i64, {0}), tensor(DType::i64, {}, {0})}, {}),
      {2, 1, 2}, {5, 0, -3, 0});
}

TEST(Pooling, OfPowers) {
  const Tensor x = tensor(DType::f32, {1, 1, 4}, {3, -4, 1, 2});
  expect_near(one("LpPool", x, {}, {{"kernel_shape", {2}}}), {1, 1, 3}, {5, std::sqrt(17), std::sqrt(5)});
  expect_near(one("LpPool", x, {}, {{"kernel_shape", {2}}, {"p", 1}, {"strides", {2}}}), {1, 1, 2}, {7, 3});
  expect_near(one("LpPool", x, {}, {{"kernel_shape", {2}}, {"p", 3}, {"strides", {2}}}), {1, 1, 2},
              {std::cbrt(91), std::cbrt(9)});
}

}  // namespace
}  // namespace aicf
