// What --inputs, --expect and --bind give: what is used, and what is said of the rest.

#include <gmock/gmock.h>

#include "runtime/tensor.h"
#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Tensor floats(std::vector<std::int64_t> shape, const std::vector<double>& values) {
  Tensor t(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, values[static_cast<std::size_t>(i)]);
  return t;
}

/// Protobuf: a field of bytes, and one of a small number.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

/// y = x * w, both f32[2]; w is an input with the default 9, 9.
std::string defaulted_onnx() {
  const auto value = [](const std::string& name) {
    const std::string shape = field(1, field(1, 2));
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)));
  };
  const std::string nine{0, 0, 0x10, 0x41};
  const std::string node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Mul");
  const std::string weight = field(1, 2) + field(2, 1) + field(8, "w") + field(9, nine + nine);
  const std::string graph = field(1, node) + field(2, "g") + field(5, weight) + field(11, value("x")) +
                            field(11, value("w")) + field(12, value("y"));
  return field(1, 8) + field(7, graph) + field(8, field(2, 17));
}

class Inputs : public ::testing::Test {
 protected:
  std::string model(const std::string& text) {
    write_file(dir_.file("m.aicf"), text);
    return dir_.file("m.aicf");
  }
  std::string tensors(const std::string& name, const NamedTensors& held) {
    EXPECT_TRUE(write_npz(dir_.file(name), held));
    return dir_.file(name);
  }
  TempDir dir_;
};

TEST_F(Inputs, AValueTakesTheDefaultsPlace) {
  write_file(dir_.file("m.onnx"), defaulted_onnx());
  const Tensor x = floats({2}, {1, 2});
  const std::string both = tensors("both.npz", {{"x", x}, {"w", floats({2}, {5, 7})}});
  for (const char* device : {"reference", "vulkan:llvmpipe"}) {
    const Ended given = run_command({"run", dir_.file("m.onnx"), "--inputs", both, "--device", device});
    EXPECT_EQ(given.exit, 0) << given.err;
    EXPECT_THAT(given.out, HasSubstr("y: f32[2] = 5, 14"));
    EXPECT_THAT(given.err, HasSubstr("in place of their defaults: w\n"));
  }
  const std::string one = tensors("one.npz", {{"x", x}});
  const Ended alone = run_command({"run", dir_.file("m.onnx"), "--inputs", one, "--device", "reference"});
  EXPECT_THAT(alone.out, HasSubstr("y: f32[2] = 9, 18"));
  EXPECT_THAT(alone.err, Not(HasSubstr("default")));
  EXPECT_EQ(run_command({"verify", dir_.file("m.onnx"), "--inputs", both, "--device", "vulkan:llvmpipe"}).exit, 0);
  const std::string wrong = tensors("wrong.npz", {{"x", x}, {"w", floats({3}, {5, 7, 9})}});
  const Ended refused = run_command({"run", dir_.file("m.onnx"), "--inputs", wrong, "--device", "reference"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err, HasSubstr("value for input 'w' is f32[3] and does not have its type and shape, f32[2]"));
}

TEST_F(Inputs, ArraysThatTheModelDoesNotTakeAreNamed) {
  const std::string given = tensors("in.npz", {{"x", floats({2}, {1, 2})}, {"mask", floats({1}, {0})}});
  const std::string path = model("m(x: f32[2]) -> y\ny = Neg(x)\n");
  const Ended ended = run_command({"run", path, "--inputs", given, "--device", "reference"});
  EXPECT_EQ(ended.exit, 0);
  EXPECT_THAT(ended.err, HasSubstr("no such inputs: mask\n"));
  EXPECT_EQ(run_command({"run", path, "--inputs", given, "--device", "reference", "--quiet"}).err, "");
  const std::string package = dir_.file("m.aicfpkg");
  ASSERT_EQ(run_command({"compile", path, "--target", "null", "-o", package}).exit, 0);
  EXPECT_THAT(run_command({"run", package, "--inputs", given, "--device", "null"}).err,
              HasSubstr("no such inputs: mask\n"));
}

TEST_F(Inputs, ExpectedValuesMustHaveNameAndShape) {
  const std::string path = model("m(x: f32[2]) -> y\ny = Neg(x)\n");
  const std::string given = tensors("in.npz", {{"x", floats({2}, {1, 2})}});
  for (const char* command : {"verify", "compare"}) {
    const auto against = [&](const NamedTensors& expected) {
      return run_command({command, path, "--inputs", given, "--device", "vulkan:llvmpipe", "--expect",
                          tensors("expected.npz", expected)});
    };
    const Ended shape = against({{"y", floats({3}, {1, 2, 3})}});
    EXPECT_EQ(shape.exit, 2);
    EXPECT_THAT(shape.err, HasSubstr("'y' has the shape [3], the model's output has [2]"));
    const Ended name = against({{"z", floats({2}, {1, 2})}});
    EXPECT_EQ(name.exit, 2);
    EXPECT_THAT(name.err, HasSubstr("no tensor 'y'; there are: z"));
    const Ended more = against({{"y", floats({2}, {-1, -2})}, {"z", floats({2}, {1, 2})}});
    EXPECT_EQ(more.exit, 0) << more.err;
    EXPECT_THAT(more.err, HasSubstr("no such outputs: z\n"));
    // The device computes what the graph says.
    const Ended other = against({{"y", floats({2}, {-1, 2})}});
    EXPECT_EQ(other.exit, 1);
    if (command == std::string("verify")) {
      EXPECT_THAT(other.out, HasSubstr("agrees with the reference: the expected values, or what the graph means"));
    }
  }
}

TEST_F(Inputs, BindingsThatTheMessageSuggestsAreAccepted) {
  const std::string path = model("m(x: f32[`batch size`, k]) -> y\ny = Neg(x)\n");
  const Ended open = run_command({"run", path, "--device", "reference"});
  EXPECT_EQ(open.exit, 2);
  EXPECT_THAT(open.err, HasSubstr("--bind 'batch size=N'\n"));
  EXPECT_EQ(run_command({"run", path, "--device", "reference", "--bind", "batch size=2", "--bind", "k=2"}).exit, 0);
  const Ended twice = run_command({"run", path, "--device", "reference", "--bind", "k=2", "--bind", "k=3"});
  EXPECT_EQ(twice.exit, 2);
  EXPECT_THAT(twice.err, HasSubstr("'k' is bound to 2 already"));
}

}  // namespace
}  // namespace aicf
