// Sizes on which other systems were reported wrong (tests/models/faults) and that are too large to keep as files: every
// number of queries with every number of keys, keys and values of other widths, groups of heads, memory after the end.

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tests/numeric/form_data.h"

namespace aicf::numeric {
namespace {

Result<Model> parse(const std::string& text) {
  return load_model(std::as_bytes(std::span(text)), "sizes.aicf");
}

/// A program for all sizes on a device.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const std::string& device, const std::string& text) {
    auto out = std::unique_ptr<Runner>(new Runner);
    AICF_TRY(out->model, parse(text));
    AICF_TRY(out->place, open_place(device));
    AICF_TRY(out->compiled, compile(out->model.graph, out->model.constants, out->place.target, {}));
    AICF_TRY(out->executor, Executor::create(*out->place.device, out->compiled.program));
    return out;
  }
  void check(const Sizes& sizes, const std::map<std::string, Data>& data = {}) {
    NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, sizes, data));
    check(inputs);
  }
  void check(const NamedTensors& inputs) {
    NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
    NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
    NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
    EXPECT_TRUE(close(named_outputs(model, result), expected));
  }

  Model model;
  Place place;
  CompiledModel compiled;
  std::unique_ptr<Executor> executor;

 private:
  Runner() = default;
};

constexpr const char* devices[] = {lavapipe, emulation};
const auto device_name = [](const auto& info) {
  return std::string(info.param == std::string(lavapipe) ? "Lavapipe" : "Emulation");
};

class SizesOn : public ::testing::TestWithParam<const char*> {
 protected:
  bool small() const { return GetParam() == std::string(emulation); }
};
INSTANTIATE_TEST_SUITE_P(Devices, SizesOn, ::testing::ValuesIn(devices), device_name);

TEST_P(SizesOn, SoftmaxOverAMiddleAxis) {
  NUMERIC_TRY(const auto runner, Runner::create(GetParam(), "m(x: f32[a, n, c]) -> y\ny = Softmax(x, axis=1)\n"));
  runner->check({{"a", small() ? 2 : 16}, {"n", 64}, {"c", small() ? 96 : 768}}, {{"x", Data::wide}});
}

// A bias far below 0: keys that are not there, of score 0, would weigh e^50 times as much as those that are.
std::string biased(int d, const char* type = "f32") {
  return fmt::format(
      "m(Q: {1}[head, q, d={0}], K: {1}[head, kv, d], V: {1}[head, kv, d]) -> out\nbias: {1} = -50.0\n"
      "scale: {1} = {2}\nscores = Add(Mul(MatMul(Q, Transpose(K, perm=[0, 2, 1])), scale), bias)\n"
      "out = MatMul(Softmax(scores, axis=-1), V)\n",
      d, type, 1 / std::sqrt(d));
}

TEST_P(SizesOn, EveryNumberOfQueriesWithEveryNumberOfKeys) {
  for (const int d : {64, 128}) {
    NUMERIC_TRY(const auto runner, Runner::create(GetParam(), biased(d)));
    for (const int q : {1, 9, 1001})
      for (const int kv : {1, 7, 9, 12, 31, 33, 65, 127, 503}) {
        if (small() && q * kv > 700) continue;
        SCOPED_TRACE(fmt::format("D = {}, Q = {}, K = {}", d, q, kv));
        runner->check({{"head", 1}, {"q", q}, {"kv", kv}});
      }
  }
}

// The bits of a result do not depend on what lies after a tensor's end.
TEST_P(SizesOn, WhatLiesPastTheEndIsNotSeen) {
  for (const char* type : {"f32", "f16"}) {
    NUMERIC_TRY(const auto runner, Runner::create(GetParam(), biased(16, type)));
    Device& device = *runner->place.device;
    for (const int kv : {1, 7, 9, 33, 127}) {
      SCOPED_TRACE(fmt::format("{}, K = {}", type, kv));
      NUMERIC_TRY(const NamedTensors inputs, make_inputs(runner->model, {{"head", 1}, {"q", 9}, {"kv", kv}}, {}));
      NUMERIC_TRY(const Sizes symbols, bind_symbols(runner->model, inputs));
      std::vector<std::vector<std::byte>> results;
      for (const double poison : {0.0, 1e4, std::nan("")}) {
        Tensor filling(inputs.at("Q").type(), {8192});
        for (std::int64_t i = 0; i < filling.size(); ++i) filling.set(i, poison);
        NUMERIC_TRY(const std::vector<std::byte> filled, to_device("filling", filling));
        Bindings bindings;
        std::vector<std::unique_ptr<DeviceBuffer>> buffers;
        const auto put = [&](std::span<const std::byte> bytes) -> Result<BufferSlice> {
          AICF_TRY(auto buffer, device.allocate(filled.size()));
          AICF_RETURN_IF_ERROR(device.upload(*buffer, 0, filled));
          AICF_RETURN_IF_ERROR(device.upload(*buffer, 0, bytes));
          buffers.push_back(std::move(buffer));
          return BufferSlice{buffers.back().get(), 0, bytes.size()};
        };
        for (const auto& [name, tensor] : inputs) {
          NUMERIC_TRY(const std::vector<std::byte> bytes, to_device(name, tensor));
          NUMERIC_TRY(bindings.inputs[name], put(bytes));
        }
        std::vector<std::byte> result(device_size(filling.type()) * 9 * 16);
        NUMERIC_TRY(bindings.outputs[runner->model.output_of.at("out")], put(result));
        NUMERIC_TRY(const RunResult run, runner->executor->run(bindings, symbols));
        ASSERT_TRUE(device.download(*buffers.back(), 0, result));
        results.push_back(result);
        std::vector<std::byte> after(filled.size());
        ASSERT_TRUE(device.download(*buffers.back(), 0, after));
        EXPECT_EQ(std::memcmp(after.data() + result.size(), filled.data(), after.size() - result.size()), 0)
            << "written past the end";
      }
      EXPECT_EQ(results[0], results[1]);
      EXPECT_EQ(results[0], results[2]);
      const Tensor out = from_device(inputs.at("Q").type(), {1, 9, 16}, results[0]);
      NUMERIC_TRY(const NamedTensors expected, reference(runner->model, inputs, symbols));
      const double tolerance = out.type() == DType::f16 ? 2e-3 : 1e-4;
      EXPECT_TRUE(close({{"out", out}}, expected, tolerance / 10, tolerance));
    }
  }
}

TEST_P(SizesOn, KeysAndValuesOfOtherWidths) {
  for (const auto& [d, e] : {std::pair(8, 16), std::pair(192, 128), std::pair(576, 512)}) {
    if (small() && d > 192) continue;
    const std::string text = fmt::format(
        "m(Q: f32[head, q, d={0}], K: f32[head, kv, d], V: f32[head, kv, e={1}]) -> out\n"
        "out = MatMul(Softmax(Mul(MatMul(Q, Transpose(K, perm=[0, 2, 1])), {2}), axis=-1), V)\n",
        d, e, 1 / std::sqrt(d));
    NUMERIC_TRY(const auto runner, Runner::create(GetParam(), text));
    for (const int q : {1, 17})
      for (const int kv : {5, d, d + 1, 3 * d}) {
        if (small() && q * kv * d > 120000) continue;
        SCOPED_TRACE(fmt::format("D = {}, E = {}, Q = {}, K = {}", d, e, q, kv));
        runner->check({{"head", 1}, {"q", q}, {"kv", kv}});
      }
  }
}

TEST_P(SizesOn, GroupsOfHeads) {
  for (const auto& [heads, groups] : {std::pair(28, 4), std::pair(40, 2), std::pair(48, 2), std::pair(80, 4)}) {
    const std::string text = fmt::format(
        "m(Q: f32[1, {}, q, d=64], K: f32[1, {}, kv, d], V: f32[1, {}, kv, d]) -> out\nopset 23\n"
        "out = Attention(Q, K, V)\n",
        heads, groups, groups);
    NUMERIC_TRY(const auto runner, Runner::create(GetParam(), text));
    for (const int q : {1, 5})
      for (const int kv : {5, 65}) {
        if (small() && (q > 1 || kv > 5)) continue;
        SCOPED_TRACE(fmt::format("{} heads over {}, Q = {}, K = {}", heads, groups, q, kv));
        const Sizes sizes{{"q", q}, {"kv", kv}};
        runner->check(sizes);
        // Each head of values is one number, so every query shows whose values it read.
        NUMERIC_TRY(NamedTensors inputs, make_inputs(runner->model, sizes, {}));
        Tensor& v = inputs.at("V");
        for (std::int64_t i = 0; i < v.size(); ++i) v.set(i, static_cast<double>(i / (kv * 64) + 1));
        NUMERIC_TRY(const RunResult result, runner->executor->run(inputs, sizes));
        const Tensor out = named_outputs(runner->model, result).at("out");
        for (std::int64_t i = 0; i < out.size(); ++i)
          ASSERT_NEAR(out.at(i), static_cast<double>(i / (q * 64) / (heads / groups) + 1), 1e-5) << i;
      }
  }
}

// The cache of a decoder: what was and what is new, as one output. One buffer for both would be read after it is written.
TEST_P(SizesOn, PastAndPresentAreTwoBuffers) {
  NUMERIC_TRY(const auto runner,
              Runner::create(GetParam(),
                             "m(Q: f32[2, 1, 8], past: f32[2, p, 8], next: f32[2, n, 8], V: f32[2, kv, 8])"
                             " -> out, present\npresent = Concat(past, next, axis=1)\n"
                             "out = MatMul(Softmax(MatMul(Q, Transpose(present, perm=[0, 2, 1])), axis=-1), V)\n"));
  for (const int past : {0, 1, 7, 8, 31, 32})
    for (const int next : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} and {}", past, next));
      runner->check({{"p", past}, {"n", next}, {"kv", past + next}});
    }
  NUMERIC_TRY(const NamedTensors inputs, make_inputs(runner->model, {{"p", 7}, {"n", 1}, {"kv", 8}}, {}));
  NUMERIC_TRY(const Sizes symbols, bind_symbols(runner->model, inputs));
  Device& device = *runner->place.device;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  Bindings bindings;
  const std::size_t present = 2 * 8 * 8 * sizeof(float);
  for (const auto& [name, tensor] : inputs) {
    NUMERIC_TRY(const std::vector<std::byte> bytes, to_device(name, tensor));
    NUMERIC_TRY(auto buffer, device.allocate(std::max(present, bytes.size())));
    ASSERT_TRUE(device.upload(*buffer, 0, bytes));
    bindings.inputs[name] = {buffer.get(), 0, bytes.size()};
    buffers.push_back(std::move(buffer));
  }
  for (const char* name : {"out", "present"}) {
    NUMERIC_TRY(auto buffer, device.allocate(present));
    bindings.outputs[name] = {buffer.get(), 0, name == std::string("out") ? 2 * 8 * sizeof(float) : present};
    buffers.push_back(std::move(buffer));
  }
  Bindings shared = bindings;
  shared.outputs["present"].buffer = bindings.inputs["past"].buffer;
  const auto refused = runner->executor->run(shared, symbols);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(refused.error().message, "output 'present' shares memory with the input 'past'");
  EXPECT_TRUE(ok(runner->executor->run(bindings, symbols)));
}

}  // namespace
}  // namespace aicf::numeric
