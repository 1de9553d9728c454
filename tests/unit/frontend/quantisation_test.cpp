// DequantizeLinear and QuantizeLinear: one scale, a scale by axis, scales by block; values by hand.

#include <gmock/gmock.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::tensor;
using ::testing::HasSubstr;

struct Operand {
  DType type;
  std::vector<std::int64_t> shape;
  std::vector<double> elements;
};

Tensor result(const std::string& op, int opset, const std::vector<Operand>& operands,
              const std::vector<NamedAttribute>& attributes) {
  GraphBuilder g("quantisation", opset);
  std::vector<std::string> names;
  NamedTensors inputs;
  for (const Operand& o : operands) {
    const std::string name = "x" + std::to_string(names.size());
    names.push_back(g.input(name, o.type, {o.shape.begin(), o.shape.end()}));
    inputs[name] = tensor(o.type, o.shape, o.elements);
  }
  g.output(g.add(op, names, attributes), "y");
  return test::run(g.build(), inputs).at("y");
}

Tensor dequantised(int opset, const std::vector<Operand>& operands, const std::vector<NamedAttribute>& attributes) {
  return result("DequantizeLinear", opset, operands, attributes);
}

TEST(DequantizeLinear, OneScale) {
  expect_near(dequantised(10, {{DType::u8, {3}, {0, 128, 255}}, {DType::f32, {}, {0.5}}, {DType::u8, {}, {128}}}, {}),
              {3}, {-64, 0, 63.5});
  expect_near(dequantised(21, {{DType::i8, {2}, {-128, 127}}, {DType::f32, {1}, {2}}}, {}), {2}, {-256, 254});
}

TEST(DequantizeLinear, ByAxis) {
  const Operand x{DType::i8, {2, 3}, {1, 2, 3, -1, -2, -3}};
  expect_near(dequantised(13, {x, {DType::f32, {3}, {1, 10, 100}}, {DType::i8, {3}, {0, 1, 2}}}, {}), {2, 3},
              {1, 10, 100, -1, -30, -500});
  expect_near(dequantised(13, {x, {DType::f32, {2}, {1, 10}}}, {{"axis", -2}}), {2, 3}, {1, 2, 3, -10, -20, -30});
}

TEST(DequantizeLinear, ByBlock) {
  // Blocks of 2 along an axis of 5: the last has one element.
  const Operand x{DType::i8, {2, 5}, {1, 2, 3, 4, 5, 1, 1, 1, 1, 1}};
  const Operand scale{DType::f32, {2, 3}, {1, 10, 100, 2, 4, 8}};
  expect_near(dequantised(21, {x, scale}, {{"block_size", 2}}), {2, 5}, {1, 2, 30, 40, 500, 2, 2, 4, 4, 8});
  const Operand zero{DType::i8, {2, 3}, {1, 1, 1, 0, 0, -1}};
  expect_near(dequantised(21, {x, scale, zero}, {{"block_size", 2}}), {2, 5}, {0, 1, 20, 30, 400, 2, 2, 4, 4, 16});
}

TEST(DequantizeLinear, ResultType) {
  const Operand x{DType::i8, {1}, {100}};
  EXPECT_EQ(canonicalise([] {
              GraphBuilder g("type", 21);
              g.output(g.add("DequantizeLinear", {g.input("x", DType::i8, {2}), g.input("s", DType::f16, {})}), "y");
              return g.build();
            }())
                ->graph.node("y_out")
                .type,
            DType::f16);
  // 100 · 1001 in f32, though the scale is f16.
  expect_near(dequantised(23, {x, {DType::f16, {}, {1001}}}, {{"output_dtype", 1}}), {1}, {100100});
}

TEST(DequantizeLinear, Refusals) {
  const auto error = [](const std::vector<Size>& x, const std::vector<Size>& scale, int block) {
    GraphBuilder g("refused", 21);
    g.output(g.add("DequantizeLinear", {g.input("x", DType::i8, x), g.input("s", DType::f32, scale)},
                   {{"block_size", block}}));
    return test::error_of(g.build());
  };
  EXPECT_THAT(error({4, 6}, {5}, 0), HasSubstr("scales and places along dim 1 disagree: 5 against 6"));
  EXPECT_THAT(error({4, 6}, {4, 2}, 2), HasSubstr("disagree: 2 against 3"));
  EXPECT_THAT(error({4, 6}, {4, 6}, 0), HasSubstr("scale has shape [4, 6] for an input [4, 6]"));
  EXPECT_THAT(error({4, 6}, {6}, -1), HasSubstr("block_size is -1"));
}

TEST(QuantizeLinear, RoundsHalvesToEvenAndSaturates) {
  const Operand x{DType::f32, {6}, {-1000, -1.5, 0.25, 0.75, 1.25, 1000}};
  expect_near(result("QuantizeLinear", 10, {x, {DType::f32, {}, {0.5}}}, {}), {6}, {0, 0, 0, 2, 2, 255});
  expect_near(result("QuantizeLinear", 13, {x, {DType::f32, {}, {0.5}}, {DType::i8, {}, {-10}}}, {}), {6},
              {-128, -13, -10, -8, -8, 127});
  expect_near(result("QuantizeLinear", 21, {x, {DType::f32, {}, {0.015625}}}, {{"output_dtype", 5}}), {6},
              {-32768, -96, 16, 48, 80, 32767});
}

TEST(QuantizeLinear, ByAxisAndBlock) {
  const Operand x{DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}};
  expect_near(result("QuantizeLinear", 13, {x, {DType::f32, {2}, {1, 0.5}}}, {{"axis", 0}}), {2, 3},
              {1, 2, 3, 8, 10, 12});
  expect_near(result("QuantizeLinear", 21, {x, {DType::f32, {2, 2}, {1, 0.5, 2, 0.25}}}, {{"block_size", 2}}), {2, 3},
              {1, 2, 6, 2, 2, 24});
}

}  // namespace
}  // namespace aicf
