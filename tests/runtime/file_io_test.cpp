#include "runtime/file_io.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;

TEST(MappedFile, CutOffWhileItIsInUse) {
  const TempDir dir;
  const std::string path = dir.file("cut");
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  write_file(path, std::string(4 * page, 'x'));
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(bytes[3 * page], std::byte{'x'});
  ASSERT_TRUE(check_mapped_files());
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(page)), 0);
  EXPECT_EQ(bytes[page - 1], std::byte{'x'});
  EXPECT_EQ(bytes[2 * page], std::byte{0});
  EXPECT_EQ(bytes[4 * page - 1], std::byte{0});

  // Nothing is written from it.
  auto to = AtomicFile::create(dir.file("copy"));
  ASSERT_TRUE(to);
  to->write(bytes);
  const auto written = to->commit();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::run_failure);
  EXPECT_THAT(written.error().text(), HasSubstr(path + ": was cut off"));
  EXPECT_FALSE(std::filesystem::exists(dir.file("copy")));
  EXPECT_TRUE(check_mapped_files()) << "it is said once";
}

TEST(MappedFileDeathTest, OtherBusErrorsKeepTheirMeaning) {
  const TempDir dir;
  write_file(dir.file("whole"), "x");
  const auto file = MappedFile::open(dir.file("whole"));
  ASSERT_TRUE(file);
  write_file(dir.file("empty"), "");
  const int descriptor = ::open(dir.file("empty").c_str(), O_RDONLY);
  const auto* other = static_cast<const volatile char*>(::mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, descriptor, 0));
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_DEATH(static_cast<void>(*other), "");
  ::munmap(const_cast<char*>(other), 1);
  ::close(descriptor);
}

}  // namespace
}  // namespace aicf
