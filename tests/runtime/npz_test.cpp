#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/tensor.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using testing::HasSubstr;

std::string data(const std::string& name) {
  return AICF_TESTS_DIR "/runtime/data/" + name;
}

/// The arrays of data/make_numpy_files.py.
void expect_reference(const NamedTensors& tensors) {
  const Tensor& scores = tensors.at("scores");
  EXPECT_EQ(scores.type(), DType::f32);
  EXPECT_EQ(scores.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(scores.at(1), -1.25);
  EXPECT_TRUE(std::isinf(scores.at(2)));
  EXPECT_EQ(scores.at(5), -5.0);
  EXPECT_EQ(tensors.at("/layer/ids:0").int_at(0), std::int64_t{1} << 40);
  EXPECT_EQ(tensors.at("/layer/ids:0").int_at(1), -3);
  EXPECT_EQ(tensors.at("mask").type(), DType::boolean);
  EXPECT_EQ(tensors.at("mask").int_at(1), 0);
  EXPECT_EQ(tensors.at("mask").int_at(2), 1);
  EXPECT_TRUE(tensors.at("half").shape().empty());
  EXPECT_EQ(tensors.at("half").at(0), 0.333251953125);
  EXPECT_EQ(tensors.at("empty").shape(), (std::vector<std::int64_t>{0, 4}));
}

std::string error_of(const std::string& path) {
  const auto result = read_tensors(path);
  EXPECT_FALSE(result.has_value()) << path;
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  return result.error().text();
}

TEST(Npz, ReadsWhatNumpyStores) {
  const auto tensors = read_tensors(data("stored.npz"));
  ASSERT_TRUE(tensors.has_value()) << tensors.error().text();
  EXPECT_EQ(tensors->size(), 5u);
  expect_reference(*tensors);
}

TEST(Npz, ReadsWhatNumpyCompresses) {
  const auto tensors = read_tensors(data("deflated.npz"));
  ASSERT_TRUE(tensors.has_value()) << tensors.error().text();
  expect_reference(*tensors);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(tensors->at("ramp").int_at(i), i);
}

TEST(Npy, ReadsOneArrayByItsStem) {
  const auto tensors = read_tensors(data("plain.npy"));
  ASSERT_TRUE(tensors.has_value()) << tensors.error().text();
  EXPECT_EQ(tensors->at("plain").at(3), 3.0);
}

TEST(Npy, RefusalsSayWhatToDo) {
  EXPECT_THAT(error_of(data("fortran.npy")), HasSubstr("ascontiguousarray"));
  EXPECT_THAT(error_of(data("big_endian.npy")), HasSubstr(".astype('<f4')"));
  EXPECT_THAT(error_of(data("objects.npy")), HasSubstr("pickle"));
  EXPECT_THAT(error_of(data("make_numpy_files.py")), HasSubstr("neither .npz nor .npy"));
  EXPECT_THAT(error_of(data("absent.npz")), HasSubstr("No such file"));
  EXPECT_THAT(error_of(data("")), HasSubstr("not a regular file"));
}

/// One tensor of each type with random bits.
NamedTensors random_tensors() {
  std::mt19937 engine(3);
  NamedTensors tensors;
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto type = static_cast<DType>(i);
    Tensor tensor(type, {3, i % 2 + 1, 5});
    for (std::byte& b : tensor.mutable_bytes())
      b = static_cast<std::byte>(type == DType::boolean ? engine() % 2 : engine());
    tensors.emplace("t/" + std::string(name(type)), std::move(tensor));
  }
  tensors.emplace("größe", Tensor(DType::f32, {}));
  return tensors;
}

TEST(Npz, WhatIsWrittenReadsBack) {
  const TempDir dir;
  const NamedTensors tensors = random_tensors();
  ASSERT_TRUE(write_npz(dir.file("a.npz"), tensors).has_value());
  const auto back = read_tensors(dir.file("a.npz"));
  ASSERT_TRUE(back.has_value()) << back.error().text();
  ASSERT_EQ(back->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = back->at(name);
    EXPECT_EQ(other.type(), tensor.type());
    EXPECT_EQ(other.shape(), tensor.shape());
    EXPECT_TRUE(std::ranges::equal(other.bytes(), tensor.bytes()));
  }
  ASSERT_TRUE(write_npy(dir.file("one.npy"), tensors.at("t/bf16")).has_value());
  EXPECT_EQ(read_tensors(dir.file("one.npy"))->at("one").type(), DType::bf16);
}

TEST(Npz, EqualTensorsGiveEqualBytesAndNoLeftovers) {
  const TempDir dir;
  ASSERT_TRUE(write_npz(dir.file("a.npz"), random_tensors()).has_value());
  ASSERT_TRUE(write_npz(dir.file("b.npz"), random_tensors()).has_value());
  ASSERT_TRUE(write_npz(dir.file("b.npz"), random_tensors()).has_value());
  EXPECT_EQ(read_file(dir.file("a.npz")), read_file(dir.file("b.npz")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 2);
  const auto refused = write_npz(dir.file("no/such/folder.npz"), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::run_failure);
}

TEST(Npz, TruncationIsAlwaysAnError) {
  const TempDir dir;
  for (const std::string name : {"stored.npz", "deflated.npz", "plain.npy"}) {
    const std::string whole = read_file(data(name));
    const std::string path = dir.file(name);
    for (std::size_t size = 0; size < whole.size(); size += 1 + size / 60) {
      write_file(path, whole.substr(0, size));
      error_of(path);
    }
  }
}

TEST(Npz, DamageNeverCrashesAndNeverChangesValuesSilently) {
  const TempDir dir;
  std::mt19937 engine(5);
  const std::string whole = read_file(data("deflated.npz"));
  const auto reference = read_tensors(data("deflated.npz"));
  for (int trial = 0; trial < 400; ++trial) {
    std::string damaged = whole;
    for (unsigned n = 1 + engine() % 3; n > 0; --n) damaged[engine() % damaged.size()] = static_cast<char>(engine());
    write_file(dir.file("x.npz"), damaged);
    const auto read = read_tensors(dir.file("x.npz"));
    if (!read) continue;
    // Names, dates and attributes carry no checksum in a zip; the arrays do.
    ASSERT_EQ(read->size(), reference->size());
    for (const auto& [name, tensor] : *read) {
      const auto same = reference->find(name);
      if (same != reference->end()) {
        ASSERT_TRUE(std::ranges::equal(tensor.bytes(), same->second.bytes()));
      }
    }
  }
}

}  // namespace
}  // namespace aicf
