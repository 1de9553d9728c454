// Memory is told before anything runs, and a limit on it is kept before anything is allocated.

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Memory : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    write_file(dir_.file("m.aicf"), text);
    return dir_.file("m.aicf");
  }
  TempDir dir_;
};

// Eight products in a row: every intermediate is as large as the input, and two live at once.
std::string products(int rows, int columns) {
  std::string text = "m(x: f32[" + std::to_string(rows) + ", " + std::to_string(columns) + "], w: f32[" +
                     std::to_string(columns) + ", " + std::to_string(columns) + "]) -> t8\n";
  for (int k = 1; k <= 8; ++k)
    text += "t" + std::to_string(k) + " = MatMul(" + (k == 1 ? "x" : "t" + std::to_string(k - 1)) + ", w)\n";
  return text;
}

TEST_F(Memory, SizesByHand) {
  const Ended ended = run_command({"explain", write(products(512, 256)), "--fusion", "off", "--json"});
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Json memory = Json::parse(ended.out)["memory"]["lavapipe"];
  const int tensor = 512 * 256 * 4;
  EXPECT_EQ(memory["inputs_outputs"], 2 * tensor + 256 * 256 * 4);
  EXPECT_EQ(memory["weights"], 0);
  EXPECT_EQ(memory["sum_of_tensors"], 7 * tensor);
  EXPECT_EQ(memory["live_peak"], 2 * tensor);
  EXPECT_EQ(memory["arena"], 2 * tensor);
  EXPECT_EQ(memory["workspace"], 0);
  EXPECT_EQ(memory["total"], 4 * tensor + 256 * 256 * 4);
}

TEST_F(Memory, WorkspaceOfASplit) {
  const std::vector<std::string> arguments = {"explain", AICF_TESTS_DIR "/models/attention.aicf",
                                              "--bind",  "batch=1",
                                              "--bind",  "head=2",
                                              "--bind",  "q=16",
                                              "--bind",  "kv=256",
                                              "--json"};
  const Json whole = Json::parse(run_command(arguments).out)["memory"]["lavapipe"];
  EXPECT_EQ(whole["workspace"], 0);
  std::vector<std::string> split = arguments;
  split.insert(split.end(), {"--schedule", "split=4"});
  const Json parts = Json::parse(run_command(split).out)["memory"]["lavapipe"];
  // Four parts of m, l (one number a row) and o (64 numbers a row), at least.
  EXPECT_GE(parts["workspace"], 4 * 2 * 16 * (1 + 1 + 64) * 4);
  EXPECT_GE(parts["arena"], parts["workspace"]);
}

TEST_F(Memory, UnboundSizesAreNamed) {
  const Ended ended = run_command({"explain", AICF_TESTS_DIR "/models/attention.aicf", "--stage", "summary"});
  EXPECT_THAT(ended.out, HasSubstr("memory on lavapipe: depends on"));
  EXPECT_THAT(ended.out, HasSubstr("kv"));
  const Ended limited = run_command({"explain", AICF_TESTS_DIR "/models/attention.aicf", "--max-memory", "1G"});
  EXPECT_EQ(limited.exit, 2);
  EXPECT_THAT(limited.err, HasSubstr("--bind"));
}

TEST_F(Memory, ALimitIsKeptBeforeAnythingIsAllocated) {
  const std::string model = write(products(512, 256));  // 2.25 MiB with fusion off
  const Ended null = run_command({"run", model, "--fusion", "off", "--device", "null", "--max-memory", "2M"});
  EXPECT_EQ(null.exit, 3);
  EXPECT_THAT(null.err,
              HasSubstr("the run needs 2359296 bytes on the device and may take 2097152 bytes: weights 0 bytes, "
                        "inputs and outputs 1310720 bytes, arena 1048576 bytes; the largest tensor is '"));
  for (const char* device : {"vulkan:llvmpipe", "cuda-emulation"}) {
    const Ended ended = run_command({"run", model, "--fusion", "off", "--device", device, "--max-memory", "2M"});
    EXPECT_EQ(ended.exit, 3) << device;
    EXPECT_THAT(ended.err, HasSubstr("may take 2097152 bytes: weights 0 bytes")) << device;
  }
  EXPECT_EQ(run_command({"run", model, "--fusion", "off", "--device", "null", "--max-memory", "2359296"}).exit, 0);
  EXPECT_EQ(run_command({"explain", model, "--fusion", "off", "--max-memory", "2M"}).exit, 3);
  EXPECT_EQ(run_command({"bench", model, "--fusion", "off", "--device", "null", "--max-memory", "2M"}).exit, 3);
  // 4 TiB of weights or inputs would not fit this machine: the answer comes from sizes alone.
  const std::string huge = write("m(x: f32[n]) -> y\ny = Neg(x)\n");
  const Ended refused =
      run_command({"run", huge, "--bind", "n=100000000000", "--device", "null", "--max-memory", "512M"});
  EXPECT_EQ(refused.exit, 3);
  EXPECT_THAT(refused.err, HasSubstr("'x'"));
  EXPECT_LT(refused.peak_kib, 256 * 1024);
  // So does what a kernel of the device sees of one tensor, 128 MiB on this one.
  const Ended unseen = run_command({"run", huge, "--bind", "n=1000000000", "--device", "vulkan:llvmpipe"});
  EXPECT_EQ(unseen.exit, 3);
  EXPECT_THAT(unseen.err, HasSubstr("input 'x' has 4000000000 bytes, and a kernel of"));
  EXPECT_LT(unseen.peak_kib, 512 * 1024);
  // And what 32 bits count, on every device: softmax past 2^31 elements.
  const std::string rows = write("m(x: f16[rows, n]) -> y\ny = Softmax(x, axis=-1)\n");
  for (const char* device : {"null", "cuda-emulation"}) {
    const Ended many = run_command({"run", rows, "--bind", "rows=2097160", "--bind", "n=1024", "--device", device});
    EXPECT_EQ(many.exit, 3) << device;
    EXPECT_THAT(many.err, HasSubstr("input 'x' has 2147491840 elements")) << device;
    EXPECT_LT(many.peak_kib, 512 * 1024) << device;
  }
  const std::string wide = write("m(x: f32[n]) -> y\ny = MatMul(Unsqueeze(x, [1]), Unsqueeze(x, [0]))\n");
  const Ended result = run_command({"run", wide, "--bind", "n=50000", "--device", "null"});
  EXPECT_EQ(result.exit, 3);
  EXPECT_THAT(result.err, HasSubstr("tensor 'y' has 2500000000 elements"));
  EXPECT_EQ(run_command({"run", model, "--max-memory", "much"}).exit, 2);
}

TEST_F(Memory, ATensorThatTheMachineCannotHoldIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer takes the address space";
#endif
  const std::string said = dir_.file("said");
  const auto run_in = [&](const std::string& kib, const std::string& text, const std::string& more) {
    const std::string line = "ulimit -v " + kib + "; " AICF_COMMAND " run " + write(text) + " --device null " + more;
    return WEXITSTATUS(std::system((line + " >/dev/null 2>" + said).c_str()));
  };
  EXPECT_EQ(run_in("4000000", "m(x: f32[n]) -> y\ny = Neg(x)\n", "--bind n=2000000000"), 1);
  EXPECT_THAT(read_file(said), HasSubstr("input 'x': no memory for f32[2000000000], 8000000000 bytes"));
  EXPECT_EQ(run_in("900000", "m(x: f32[1]) -> y\ny = Expand(x, [100000000])\n", ""), 1);
  EXPECT_THAT(read_file(said), HasSubstr("no host memory for 'y', 400000000 bytes"));
}

TEST_F(Memory, TheArenaIsNearlyAsSmallAsWhatLives) {
  int planned = 0;
  const Json index = Json::parse(std::ifstream(AICF_TESTS_DIR "/models/index.json"));
  for (const Json& c : index["cases"]) {
    if (c.contains("needs") || !c["dynamic_dims"].empty() || c["name"].get<std::string>().starts_with("attn-add"))
      continue;
    const std::string model = std::string(AICF_TESTS_DIR "/models/") + c["name"].get<std::string>() + "/model.onnx";
    const Ended ended = run_command({"explain", model, "--json", "--fusion", "off"});
    ASSERT_EQ(ended.exit, 0) << model << ended.err;
    const Json memory = Json::parse(ended.out)["memory"]["lavapipe"];
    EXPECT_LE(memory["arena_over_live"], 1.15) << model;
    EXPECT_LE(memory["live_peak"], memory["arena"]);
    planned += memory["arena"] > 0;
  }
  EXPECT_GT(planned, 20);
}

}  // namespace
}  // namespace aicf
