// Emitted sources, small enough to read, beside the models they come from. AICF_BLESS=1 writes what is emitted now; a
// stale, missing or foreign file fails.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

std::string folder() {
  return std::string(AICF_TESTS_DIR) + "/golden/source/";
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> stems() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".aicf") out.push_back(entry.path().stem().string());
  std::ranges::sort(out);
  return out;
}

/// Choices of the line "# schedule KEY=VALUE …" of a model.
std::map<std::string, std::string> forced(const std::string& model) {
  std::map<std::string, std::string> out;
  const std::string head = "# schedule ";
  const std::size_t at = model.find(head);
  if (at == std::string::npos) return out;
  std::istringstream line(model.substr(at + head.size(), model.find('\n', at) - at - head.size()));
  for (std::string choice; line >> choice;)
    out[choice.substr(0, choice.find('='))] = choice.substr(choice.find('=') + 1);
  return out;
}

class GoldenSource : public ::testing::TestWithParam<std::string> {
 protected:
  void check(const std::string& target_name, const std::string& extension) {
    const std::string path = folder() + GetParam();
    NUMERIC_TRY(const Target target, find_target(target_name));
    NUMERIC_TRY(const Model model, load_model(path + ".aicf"));
    CompileOptions options;
    options.assemble = false;
    options.schedule.forced = forced(text_of(path + ".aicf"));
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, options));
    std::string text;
    for (const CompiledRegion& r : compiled.regions)
      for (const std::string& source : r.sources) text += source;
    const std::string expected = path + ".expected" + extension;
    if (std::getenv("AICF_BLESS")) std::ofstream(expected) << text;
    ASSERT_TRUE(std::filesystem::exists(expected)) << expected << " is missing; AICF_BLESS=1 writes it";
    EXPECT_EQ(text, text_of(expected)) << expected << " is stale; look at the difference, then AICF_BLESS=1 writes it";
    EXPECT_LT(std::ranges::count(text, '\n'), 200) << "too long to be read";
  }
};

TEST_P(GoldenSource, Vulkan) {
  check("lavapipe", ".comp");
}
TEST_P(GoldenSource, Cuda) {
  check("sm_80", ".cu");
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenSource, ::testing::ValuesIn(stems()),
                         [](const auto& info) { return test_name(info.param); });

TEST(GoldenSourceFiles, EachHasAModel) {
  std::set<std::string> wanted, there;
  for (const std::string& s : stems()) wanted.insert({s + ".aicf", s + ".expected.comp", s + ".expected.cu"});
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    there.insert(entry.path().filename().string());
  EXPECT_EQ(there, wanted);
  EXPECT_GE(stems().size(), 3u);
}

}  // namespace
}  // namespace aicf::numeric
