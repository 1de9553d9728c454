#include "runtime/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace aicf {
namespace {

TEST(Tensor, ElementsOfEveryType) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto type = static_cast<DType>(i);
    Tensor tensor(type, {2, 3});
    EXPECT_EQ(tensor.size(), 6);
    EXPECT_EQ(tensor.byte_size(), 6 * host_size(type));
    tensor.set(4, 1.0);
    tensor.set(5, 100.3);
    EXPECT_EQ(tensor.at(0), 0.0);
    EXPECT_EQ(tensor.at(4), 1.0);
    EXPECT_EQ(tensor.at(5), round_to(type, 100.3)) << name(type);
  }
  Tensor signed_bytes(DType::i8, {1});
  signed_bytes.set(0, -7);
  EXPECT_EQ(signed_bytes.int_at(0), -7);
  EXPECT_EQ(static_cast<int>(signed_bytes.bytes()[0]), 0xf9);
}

TEST(Tensor, ScalarsAndEmptyTensors) {
  EXPECT_EQ(Tensor(DType::f32, {}).size(), 1);
  EXPECT_EQ(Tensor(DType::f32, {0, 5}).byte_size(), 0u);
  EXPECT_EQ(Tensor().size(), 0);
  EXPECT_TRUE(Tensor().bytes().empty());
}

TEST(Tensor, CopiesShareUntilWritten) {
  Tensor a(DType::f32, {2});
  a.set(0, 1);
  Tensor b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  b.set(0, 2);
  EXPECT_EQ(a.at(0), 1);
  EXPECT_EQ(b.at(0), 2);
  const std::byte* before = b.bytes().data();
  b.set(1, 3);
  EXPECT_EQ(b.bytes().data(), before);
}

TEST(Tensor, ViewsAreCopiedBeforeWriting) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  Tensor view = Tensor::view(DType::f32, {3}, reinterpret_cast<const std::byte*>(owner->data()), owner);
  EXPECT_EQ(view.as<float>()[2], 3);
  std::weak_ptr<std::vector<float>> watch = owner;
  owner.reset();
  EXPECT_FALSE(watch.expired());
  view.set(0, 9);
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(view.at(0), 9);
  EXPECT_EQ(view.at(1), 2);
}

TEST(CheckedSize, RefusesWhatCannotBe) {
  const auto size = [](DType type, std::vector<std::int64_t> shape) { return checked_size(type, shape); };
  EXPECT_EQ(size(DType::f32, {2, 3, 4}), 24);
  EXPECT_EQ(size(DType::f32, {}), 1);
  EXPECT_EQ(size(DType::f32, {std::numeric_limits<std::int64_t>::max(), 0}), 0);
  EXPECT_FALSE(size(DType::f32, {2, -1}).has_value());
  EXPECT_FALSE(size(DType::f32, {std::int64_t{1} << 32, std::int64_t{1} << 32}).has_value());
  EXPECT_TRUE(size(DType::u8, {std::int64_t{1} << 46}).has_value());
  EXPECT_FALSE(size(DType::u16, {std::int64_t{1} << 46}).has_value());
}

}  // namespace
}  // namespace aicf
