// Every input that a fuzzer starts from or has found goes through its entry point: broken files, small models, findings.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/model_target.h"

namespace {

std::vector<std::filesystem::path> inputs() {
  std::vector<std::filesystem::path> result;
  const std::filesystem::path tests = AICF_TESTS_DIR;
  for (const auto& folder : {tests / "models", tests / "fuzz/found"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const auto extension = entry.path().extension();
      const bool model = extension == ".onnx" || extension == ".aicf" || folder.filename() == "found";
      if (model && entry.is_regular_file() && entry.file_size() < 400'000) result.push_back(entry.path());
    }
  }
  std::ranges::sort(result);
  return result;
}

TEST(Fuzz, SeedsAndFindingsKeepThePromises) {
  const auto paths = inputs();
  ASSERT_GT(paths.size(), 100u);
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

}  // namespace
