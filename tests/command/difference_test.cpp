// verify traces a difference to its region and leaves a smaller model that has it. A tolerance of nothing makes f32 differ.

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(Difference, ItsRegionAndTheSmallestModelThatHasIt) {
  const TempDir dir;
  write_file(dir.file("m.aicf"), R"(m(x: f32[8, 16], w: f32[16, 16]) -> y
turned = Transpose(x)
back = Transpose(turned)
sums = MatMul(back, w)
y = Softmax(sums)
)");
  const std::vector<std::string> tail{"--device", "vulkan:llvmpipe", "--abs",           "0",     "--rel",
                                      "0",        "--repro",         dir.file("small"), "--json"};
  std::vector<std::string> arguments{"verify", dir.file("m.aicf"), "--fusion", "off"};
  arguments.insert(arguments.end(), tail.begin(), tail.end());
  const Ended ended = run_command(arguments);
  ASSERT_EQ(ended.exit, 1) << ended.err;
  const Json device = Json::parse(ended.out)["devices"][0];
  ASSERT_TRUE(device.contains("first_region")) << ended.out << ended.err;
  const Json& first = device["first_region"];
  EXPECT_EQ(first["tensor"], "sums");  // what follows it only carries the difference on
  EXPECT_EQ(first["index"].size(), 2u);
  EXPECT_NE(first["got"], first["wanted"]);

  // The folder stands alone: one product, and it differs too.
  const std::string text = read_file(dir.file("small/model.aicf"));
  EXPECT_THAT(text, HasSubstr("= MatMul("));
  EXPECT_EQ(text.find("Softmax"), std::string::npos) << text;
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
  std::vector<std::string> again{"verify",   dir.file("small/model.aicf"), "--fusion", "off",
                                 "--inputs", dir.file("small/inputs.npz")};
  again.insert(again.end(), tail.begin(), tail.end());
  EXPECT_EQ(run_command(again).exit, 1);

  std::vector<std::string> tolerant{"verify", dir.file("m.aicf"), "--device", "vulkan:llvmpipe", "--json"};
  EXPECT_FALSE(Json::parse(run_command(tolerant).out)["devices"][0].contains("first_region"));
}

const std::string product = "m(x: f32[8, 16], w: f32[16, 16]) -> y\ny = Softmax(MatMul(x, w))\n";

TEST(Difference, TheCommandThatIsPrintedShowsItAgain) {
  const TempDir dir;
  write_file(dir.file("m.aicf"), product);
  const Ended ended = run_command({"verify", dir.file("m.aicf"), "--device", "vulkan:llvmpipe", "--abs", "0", "--rel",
                                   "0", "--fusion", "off", "--schedule", "tile.i0=8", "--cache", "off",
                                   "--optimize-for", "first-run", "--repro", dir.file("it's a folder")});
  ASSERT_EQ(ended.exit, 1) << ended.err;
  const std::size_t at = ended.out.find("still show it: aicf ");
  ASSERT_NE(at, std::string::npos) << ended.out;
  const std::string line = ended.out.substr(at + 20, ended.out.find('\n', at) - at - 20);
  EXPECT_THAT(line,
              HasSubstr("--abs 0 --rel 0 --fusion off --schedule tile.i0=8 --optimize-for first-run --cache off"));
  const int status = std::system((AICF_COMMAND " " + line + " --repro /proc/none >/dev/null 2>&1").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1) << line;
}

TEST(Difference, EachDeviceHasItsFolder) {
  const TempDir dir;
  write_file(dir.file("m.aicf"), product);
  const Ended ended = run_command({"verify", dir.file("m.aicf"), "--device", "vulkan:llvmpipe", "--device",
                                   "cuda-emulation", "--abs", "0", "--rel", "0", "--repro", dir.file("r"), "--json"});
  ASSERT_EQ(ended.exit, 1) << ended.err;
  const Json devices = Json::parse(ended.out)["devices"];
  EXPECT_EQ(devices[0]["repro"], dir.file("r"));
  EXPECT_EQ(devices[1]["repro"], dir.file("r-2"));
  EXPECT_TRUE(std::filesystem::exists(dir.file("r-2/model.aicf")));
}

TEST(Difference, ItIsSaidWhereNothingCanBeKept) {
  const TempDir dir;
  write_file(dir.file("m.aicf"), product);
  std::vector<std::string> arguments{"verify", dir.file("m.aicf"), "--device", "vulkan:llvmpipe", "--abs", "0", "--rel",
                                     "0",      "--json",           "--repro",  "/proc/none"};
  const Ended ended = run_command(arguments);
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err, HasSubstr("the smallest model that differs is not kept: /proc/none: cannot be written"));
  const Json device = Json::parse(ended.out)["devices"][0];
  EXPECT_TRUE(device.contains("first_region")) << ended.out;
  EXPECT_FALSE(device.contains("repro"));
  arguments.back() = "";
  EXPECT_EQ(run_command(arguments).exit, 2);
}

}  // namespace
}  // namespace aicf
