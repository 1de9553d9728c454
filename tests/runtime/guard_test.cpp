// Launches guarded by predicates over the program's symbols: of several variants of one kernel those run whose guard holds.

#include <gmock/gmock.h>

#include "runtime/executor/executor.h"

namespace aicf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A device whose kernels add a number (their `bytes`) to each element of their first argument, into the second.
class AddingDevice final : public Device {
 public:
  struct Buffer final : DeviceBuffer {
    explicit Buffer(std::size_t size) : bytes(size) {}
    std::size_t size() const override { return bytes.size(); }
    std::vector<std::byte> bytes;
  };
  struct Kernel final : LoadedKernel {
    float addend = 0;
  };

  const DeviceInfo& info() const override { return info_; }
  std::size_t offset_alignment() const override { return 64; }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override { return std::make_unique<Buffer>(bytes); }
  Result<void> upload(DeviceBuffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, static_cast<Buffer&>(to).bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  Result<void> download(const DeviceBuffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    const auto& source = static_cast<const Buffer&>(from).bytes;
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), bytes.begin());
    return {};
  }
  Result<std::unique_ptr<LoadedKernel>> load(const KernelBinary& kernel) override {
    auto loaded = std::make_unique<Kernel>();
    loaded->addend = std::stof(kernel.bytes);
    return loaded;
  }
  Result<void> run(std::span<const Dispatch> dispatches, std::vector<DispatchTiming>*,
                   std::vector<DispatchCounters>*) override {
    for (const Dispatch& d : dispatches) {
      const auto elements = [&](std::size_t argument) {
        const BufferSlice& slice = d.buffers[argument];
        return reinterpret_cast<float*>(static_cast<Buffer&>(*slice.buffer).bytes.data() + slice.offset);
      };
      for (std::int32_t i = 0; i < d.parameters.at(0); ++i)
        elements(1)[i] = elements(0)[i] + static_cast<const Kernel&>(*d.kernel).addend;
    }
    return {};
  }

 private:
  DeviceInfo info_{"adding", "adding", "adding", "for tests", {}};
};

const Expr n = Expr::symbol("n"), m = Expr::symbol("m");

/// t = x + 1 where n <= 4, t = x + 10 where 4 < n and m is even, t = x + 100 otherwise; y = t + 1000.
Program guarded() {
  Program p;
  p.symbols = {"n", "m"};
  for (const char* addend : {"1", "10", "100", "1000"}) {
    KernelBinary k;
    k.name = std::string("add_") + addend;
    k.bytes = addend;
    k.arguments = {{"from", DType::f32, false, true}, {"to", DType::f32, true, false}};
    k.parameters = {"n"};
    p.kernels.push_back(k);
  }
  p.buffers = {{"x", BufferPlan::Kind::input, DType::f32, {n}, -1, 0, 2},
               {"t", BufferPlan::Kind::intermediate, DType::f32, {n}, -1, 0, 3},
               {"y", BufferPlan::Kind::output, DType::f32, {n}, -1, 3, 3}};
  const Expr small = less_equal(n, 4), even = equal(mod(m, 2), 0);
  p.launches = {{0, {0, 1}, {n}, n, small, "t"},
                {1, {0, 1}, {n}, n, logical_and(logical_not(small), even), "t"},
                {2, {0, 1}, {n}, n, logical_and(logical_not(small), logical_not(even)), "t"},
                {3, {1, 2}, {n}, n, {}, "y"}};
  p.inputs = {{"x", DType::f32, {n}}};
  p.outputs = {{"y", 2}};
  return p;
}

Tensor counted(std::int64_t size) {
  Tensor t(DType::f32, {size});
  for (std::int64_t i = 0; i < size; ++i) t.set(i, static_cast<double>(i));
  return t;
}

std::vector<std::string> launched(const RunResult& result) {
  std::vector<std::string> names;
  for (const LaunchRecord& r : result.launches) names.push_back(r.kernel);
  return names;
}

TEST(Guard, OneVariantRunsForEachBinding) {
  AddingDevice device;
  const Program program = guarded();
  const auto executor = Executor::create(device, program);
  ASSERT_TRUE(executor) << executor.error().text();
  // One loaded program; each binding decides anew.
  const std::vector<std::tuple<std::int64_t, std::int64_t, const char*, double>> cases{
      {4, 1, "add_1", 1}, {5, 2, "add_10", 10}, {5, 3, "add_100", 100}, {1, 2, "add_1", 1}, {9, 0, "add_10", 10}};
  for (const auto& [rows, other, kernel, addend] : cases) {
    const auto result = (*executor)->run({{"x", counted(rows)}}, {{"n", rows}, {"m", other}});
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_THAT(launched(*result), ElementsAre(kernel, "add_1000"));
    for (std::int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(result->outputs.at("y").at(i), static_cast<double>(i) + addend + 1000) << rows << " " << other;
  }
}

TEST(Guard, NullDeviceSkipsToo) {
  const auto device = open_device("null");
  ASSERT_TRUE(device) << device.error().text();
  const Program program = guarded();
  const auto executor = Executor::create(**device, program);
  ASSERT_TRUE(executor) << executor.error().text();
  const auto result = (*executor)->run({{"x", counted(7)}}, {{"n", 7}, {"m", 4}});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_THAT(launched(*result), ElementsAre("add_10", "add_1000"));
}

TEST(Guard, AnUnboundSymbolOfAGuardIsNamed) {
  AddingDevice device;
  const Program program = guarded();
  const auto executor = Executor::create(device, program);
  ASSERT_TRUE(executor);
  const auto result = (*executor)->run({{"x", counted(5)}}, {{"n", 5}});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), HasSubstr("m"));
}

}  // namespace
}  // namespace aicf
