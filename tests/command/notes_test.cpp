// What a plan does otherwise than asked stands in the output, with the reason.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Notes : public ::testing::Test {
 protected:
  Ended run(const std::string& text, std::vector<std::string> more) {
    write_file(dir_.file("m.aicf"), text);
    more.insert(more.begin() + 1, dir_.file("m.aicf"));
    return run_command(more);
  }
  TempDir dir_;
};

// The first product is an output as well.
const std::string refused =
    "m(x: f32[64, 64], w: f32[64, 64], v: f32[64, 64]) -> h, y\nh = Relu(MatMul(x, w))\ny = MatMul(h, v)\n";

TEST_F(Notes, RefusedFusionsAreSaid) {
  for (const char* command : {"run", "verify", "bench"}) {
    SCOPED_TRACE(command);
    const Ended ended = run(refused, {command, "--device", "vulkan:llvmpipe"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.out, ::testing::AnyOf(HasSubstr("not fused: "), HasSubstr("wider fusion")));
  }
  const Ended single = run("m(x: f32[64]) -> y\ny = Neg(x)\n", {"run", "--device", "vulkan:llvmpipe"});
  EXPECT_THAT(single.out, Not(::testing::AnyOf(HasSubstr("not fused"), HasSubstr("wider fusion"))));
  const Ended json = run(refused, {"run", "--device", "vulkan:llvmpipe", "--json"});
  EXPECT_GT(nlohmann::json::parse(json.out)["notes"].size(), 1u);
}

TEST_F(Notes, TheDeviceAndItsModelAreSaid) {
  const Ended ended = run("m(x: f32[64]) -> y\ny = Neg(x)\n", {"run", "--device", "vulkan:llvmpipe"});
  EXPECT_THAT(ended.out, HasSubstr("vulkan:llvmpipe is llvmpipe"));
  EXPECT_THAT(ended.out, HasSubstr("scheduled as lavapipe"));
}

TEST_F(Notes, DoublesThatBecomeFloatsAreSaid) {
  EXPECT_THAT(run("m(x: f64[64]) -> y\ny = Neg(x)\n", {"run", "--device", "vulkan:llvmpipe"}).out,
              HasSubstr("computed in f32 in place of f64: x"));
  EXPECT_THAT(run("m(x: f32[64]) -> y\ny = Neg(x)\n", {"run", "--device", "vulkan:llvmpipe"}).out,
              Not(HasSubstr("f64")));
}

// Weights that are an output are written by every plan.
TEST_F(Notes, ScoresCountWhateverIsFused) {
  const Ended ended = run(R"(m(q: f32[2, 16, 64], k: f32[2, 16, 64], v: f32[2, 16, 64]) -> o, p
p = Softmax(MatMul(q, Transpose(k, perm=[0, 2, 1])))
o = MatMul(p, v)
)",
                          {"compare", "--device", "vulkan:llvmpipe", "--json"});
  const nlohmann::json device = nlohmann::json::parse(ended.out)["devices"][0];
  EXPECT_GE(device["fused"]["score_bytes"], 2 * 16 * 16 * 4);
  EXPECT_GE(device["unfused"]["score_bytes"], device["fused"]["score_bytes"]);
}

}  // namespace
}  // namespace aicf
