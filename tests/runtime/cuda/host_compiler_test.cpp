#include "runtime/cuda_emulation/host_compiler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/runtime/cuda/kernels.h"

namespace aicf {
namespace {

namespace fs = std::filesystem;

/// Caches in a folder of its own while it lives.
class HostCompiler : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "aicf-cache-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("AICF_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("AICF_CACHE_DIR");
    unsetenv("AICF_CACHE");
    fs::remove_all(folder_);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }
  fs::path folder_;
};

TEST_F(HostCompiler, KeepsObjectsByTheirContent) {
  ASSERT_TRUE(compile_for_host(kernels::kVectorAdd, "vector_add", 80));
  ASSERT_EQ(files().size(), 1u);
  const auto time = fs::last_write_time(files()[0]);
  const auto again = compile_for_host(kernels::kVectorAdd, "vector_add", 80);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->parameter_count(), 5);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(fs::last_write_time(files()[0]), time);
  ASSERT_TRUE(compile_for_host(kernels::kVectorAdd, "vector_add", 90));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(HostCompiler, ReplacesDamagedObjects) {
  ASSERT_TRUE(compile_for_host(kernels::kVectorAdd, "vector_add", 80));
  fs::resize_file(files()[0], 100);
  const auto again = compile_for_host(kernels::kVectorAdd, "vector_add", 80);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_GT(fs::file_size(files()[0]), 1000u);
}

TEST_F(HostCompiler, CanBeToldToKeepNothing) {
  setenv("AICF_CACHE", "off", 1);
  ASSERT_TRUE(compile_for_host(kernels::kVectorAdd, "vector_add", 80));
  EXPECT_TRUE(files().empty());
}

TEST_F(HostCompiler, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ / "file") << "x";
  setenv("AICF_CACHE_DIR", (folder_ / "file").c_str(), 1);
  const auto result = compile_for_host(kernels::kVectorAdd, "vector_add", 80);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().text().find("AICF_CACHE_DIR"), std::string::npos);
}

}  // namespace
}  // namespace aicf
