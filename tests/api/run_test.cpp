// Devices, buffers and runs: values that stay on the device, and each way to misuse them.

#include <cstring>
#include <limits>

#include "api_testing.h"

namespace aicf::testing {
namespace {

using ::testing::HasSubstr;

class ApiRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = Device::open(software_device);
    ASSERT_TRUE(opened) << opened.error().text();
    device_ = new Device(*opened);
  }
  static void TearDownTestSuite() {
    delete device_;
    device_ = nullptr;
  }
  static Result<Executable> load(const char* text) {
    auto model = Model::parse(text);
    if (!model) return std::unexpected(model.error());
    auto package = compile(*model, *device_);
    if (!package) return std::unexpected(package.error());
    return device_->load(*package);
  }
  static Device* device_;
};
Device* ApiRun::device_ = nullptr;

TEST_F(ApiRun, TensorsStayOnTheDevice) {
  API_TRY(const Executable affine_map, load(affine_text));
  API_TRY(const Buffer x, affine_map.allocate("x", {{"n", 6}}));
  API_TRY(const Buffer b, affine_map.allocate("b", {{"m", 6}}));
  API_TRY(const Buffer y, affine_map.allocate("y", {{"n", 6}}));
  auto values = counted(24, -3, 0.5f);
  const auto addend = counted(24, 100, 1);
  ASSERT_TRUE(ok(b.write(addend)));
  ASSERT_TRUE(ok(x.write(values)));
  // Each run feeds on the result before it; only the last one is read.
  for (int i = 0; i < 2; ++i) {
    API_TRY(const RunReport report, affine_map.run({{"x", x}, {"b", b}}, {{"y", y}}));
    EXPECT_GE(report.launches, 1u);
    ASSERT_TRUE(ok(affine_map.run({{"x", y}, {"b", b}}, {{"y", x}})));
    values = affine(affine(values, addend), addend);
  }
  std::vector<float> result(24);
  ASSERT_TRUE(ok(x.read(result)));
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], values[i], 1e-5 * std::abs(values[i])) << i;
}

TEST_F(ApiRun, OneExecutableServesAllSizesAndViewsShareMemory) {
  API_TRY(const Executable affine_map, load(affine_text));
  API_TRY(const Buffer x, affine_map.allocate("x", {{"n", 50}}));
  API_TRY(const Buffer b, affine_map.allocate("b", {{"m", 50}}));
  API_TRY(const Buffer y, affine_map.allocate("y", {{"n", 50}}));
  const auto values = counted(200, 1, 0.25f), addend = counted(200, 0, -1);
  ASSERT_TRUE(ok(x.write(values)));
  ASSERT_TRUE(ok(b.write(addend)));
  const auto wanted = affine(values, addend);
  for (const std::int64_t rows : {50, 1, 17, 0}) {
    API_TRY(const Buffer xv, x.view({rows, 4}));
    API_TRY(const Buffer bv, b.view({rows, 4}));
    API_TRY(const Buffer yv, y.view({rows, 4}));
    EXPECT_EQ(yv.byte_size(), static_cast<std::size_t>(rows) * 16);
    ASSERT_TRUE(ok(y.write(std::vector<float>(200, -1))));
    ASSERT_TRUE(ok(affine_map.run({{"x", xv}, {"b", bv}}, {{"y", yv}})));
    std::vector<float> all(200);
    ASSERT_TRUE(ok(y.read(all)));
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_NEAR(all[i], i < static_cast<std::size_t>(rows) * 4 ? wanted[i] : -1, 1e-5 * (1 + std::abs(wanted[i])))
          << rows << " " << i;
  }
}

TEST_F(ApiRun, EveryElementTypeComesBack) {
  const auto round_trip = [&]<class T>(const std::vector<T>& values) {
    API_TRY(const Buffer buffer, device_->allocate(dtype_of<T>(), {static_cast<std::int64_t>(values.size())}));
    ASSERT_TRUE(ok(buffer.write(values)));
    std::vector<T> back(values.size());
    ASSERT_TRUE(ok(buffer.read(back)));
    EXPECT_EQ(back, values);
  };
  round_trip(std::vector<float>{1.5f, -0.0f, 3e38f});
  round_trip(std::vector<double>{1.5, -2.25});
  round_trip(std::vector<std::int8_t>{-128, 127});
  round_trip(std::vector<std::uint8_t>{0, 255});
  round_trip(std::vector<std::int16_t>{-32768, 32767});
  round_trip(std::vector<std::uint16_t>{0, 65535});
  round_trip(std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 7});
  round_trip(std::vector<std::uint32_t>{0, 2147483647});
  round_trip(std::vector<std::int64_t>{-2147483648, 2147483647});
  round_trip(std::vector<std::uint64_t>{0, 2147483647});
  API_TRY(const Buffer halves, device_->allocate(DType::f16, {3}));
  const std::uint16_t bits[3] = {0x3c00, 0xc000, 0x0001};
  std::uint16_t back[3] = {};
  ASSERT_TRUE(ok(halves.write(std::as_bytes(std::span(bits)))));
  ASSERT_TRUE(ok(halves.read(std::as_writable_bytes(std::span(back)))));
  EXPECT_EQ(std::memcmp(bits, back, sizeof bits), 0);
  API_TRY(const Buffer flags, device_->allocate(DType::boolean, {2}));
  const bool given[2] = {true, false};
  bool got[2] = {false, true};
  ASSERT_TRUE(ok(flags.write(std::span(given))));
  ASSERT_TRUE(ok(flags.read(std::span(got))));
  EXPECT_TRUE(got[0] && !got[1]);
}

TEST_F(ApiRun, HandsThroughInputsAndConstantsAndReadsSizesOfWhatNobodyReads) {
  API_TRY(const Executable program, load("m(x: f32[1], sizes: f32[n, 2]) -> y, x, c, z\n"
                                         "c: f32[3] = [1, 2, 3]\n"
                                         "y = Expand(x, Shape(sizes))\n"
                                         "z = Identity(y)\n"));
  API_TRY(const Buffer x, program.allocate("x"));
  API_TRY(const Buffer sizes, program.allocate("sizes", {{"n", 3}}));
  API_TRY(const Buffer y, program.allocate("y", {{"n", 3}}));
  API_TRY(const Buffer z, program.allocate("z", {{"n", 3}}));
  API_TRY(const Buffer c, program.allocate("c"));
  API_TRY(const Buffer x_out, device_->allocate(DType::f32, {1}));
  ASSERT_TRUE(ok(x.write(std::vector<float>{2.5f})));
  ASSERT_TRUE(ok(program.run({{"x", x}, {"sizes", sizes}}, {{"y", y}, {"x", x_out}, {"c", c}, {"z", z}})));
  std::vector<float> six(6), three(3), one(1);
  ASSERT_TRUE(ok(y.read(six)));
  EXPECT_EQ(six, std::vector<float>(6, 2.5f));
  ASSERT_TRUE(ok(z.read(six)));
  EXPECT_EQ(six, std::vector<float>(6, 2.5f));
  ASSERT_TRUE(ok(x_out.read(one)));
  EXPECT_EQ(one, std::vector<float>{2.5f});
  ASSERT_TRUE(ok(c.read(three)));
  EXPECT_EQ(three, (std::vector<float>{1, 2, 3}));
}

TEST_F(ApiRun, IndicesOnTheDeviceAreChecked) {
  API_TRY(const Executable lookup, load("m(ids: i64[n]) -> y\n"
                                        "table: f32[3, 2] = [0, 1, 10, 11, 20, 21]\n"
                                        "y = Gather(table, ids, axis=0)\n"));
  API_TRY(const Buffer ids, lookup.allocate("ids", {{"n", 2}}));
  API_TRY(const Buffer y, lookup.allocate("y", {{"n", 2}}));
  ASSERT_TRUE(ok(ids.write(std::vector<std::int64_t>{2, -3})));
  ASSERT_TRUE(ok(lookup.run({{"ids", ids}}, {{"y", y}})));
  std::vector<float> result(4);
  ASSERT_TRUE(ok(y.read(result)));
  EXPECT_EQ(result, (std::vector<float>{20, 21, 0, 1}));
  ASSERT_TRUE(ok(ids.write(std::vector<std::int64_t>{2, 3})));
  EXPECT_TRUE(fails(lookup.run({{"ids", ids}}, {{"y", y}}), ErrorKind::bad_input, "'ids' holds 3 at element 1"));
}

TEST_F(ApiRun, APackageFromAFileRuns) {
  const TempFolder folder;
  {
    API_TRY(const Model model, Model::parse(affine_text));
    API_TRY(const Package package, compile(model, *device_));
    ASSERT_TRUE(ok(package.save(folder.file("p"))));
  }
  API_TRY(const Package package, Package::load(folder.file("p")));
  API_TRY(const Executable program, device_->load(package));
  std::filesystem::remove(folder.file("p"));
  API_TRY(const Buffer x, program.allocate("x", {{"n", 2}}));
  API_TRY(const Buffer b, program.allocate("b", {{"m", 2}}));
  API_TRY(const Buffer y, program.allocate("y", {{"n", 2}}));
  const auto values = counted(8, 1, 1), addend = counted(8, 0, 0.5f);
  ASSERT_TRUE(ok(x.write(values)));
  ASSERT_TRUE(ok(b.write(addend)));
  ASSERT_TRUE(ok(program.run({{"x", x}, {"b", b}}, {{"y", y}})));
  std::vector<float> result(8);
  ASSERT_TRUE(ok(y.read(result)));
  EXPECT_EQ(result, affine(values, addend));
  API_TRY(const Buffer three_rows, program.allocate("b", {{"m", 3}}));
  EXPECT_TRUE(fails(program.run({{"x", x}, {"b", three_rows}}, {{"y", y}}), ErrorKind::bad_input, "must agree"));
}

TEST_F(ApiRun, WrongBindingsAreNamed) {
  API_TRY(const Executable program, load(affine_text));
  API_TRY(const Buffer x, program.allocate("x", {{"n", 2}}));
  API_TRY(const Buffer b, program.allocate("b", {{"m", 2}}));
  API_TRY(const Buffer y, program.allocate("y", {{"n", 2}}));
  API_TRY(const Buffer three_rows, program.allocate("x", {{"n", 3}}));
  API_TRY(const Buffer integers, device_->allocate(DType::i32, {2, 4}));
  API_TRY(const Buffer narrow, device_->allocate(DType::f32, {2, 3}));
  API_TRY(const Buffer flat, device_->allocate(DType::f32, {8}));
  API_TRY(const Device other, Device::open("null"));
  API_TRY(const Buffer elsewhere, other.allocate(DType::f32, {2, 4}));
  const auto bad = [&](const std::map<std::string, Buffer>& inputs, const std::map<std::string, Buffer>& outputs,
                       const char* part) { return fails(program.run(inputs, outputs), ErrorKind::bad_input, part); };
  EXPECT_TRUE(bad({{"x", x}}, {{"y", y}}, "input 'b' is not bound"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {}, "output 'y' is not bound"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}, {"z", b}}, {{"y", y}}, "no input 'z'"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {{"y", y}, {"x", y}}, "no output 'x'"));
  EXPECT_TRUE(bad({{"x", integers}, {"b", b}}, {{"y", y}}, "input 'x' is bound to a buffer of i32"));
  EXPECT_TRUE(bad({{"x", narrow}, {"b", b}}, {{"y", y}}, "dim 1 of input 'x' is 3"));
  EXPECT_TRUE(bad({{"x", flat}, {"b", b}}, {{"y", y}}, "input 'x' has shape [8]"));
  EXPECT_TRUE(bad({{"x", three_rows}, {"b", b}}, {{"y", y}}, "must agree"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {{"y", three_rows}}, "output 'y' is bound to a buffer of shape [3, 4]"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {{"y", integers}}, "output 'y' is bound to a buffer of i32"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {{"y", x}}, "shares memory with the input 'x'"));
  EXPECT_TRUE(bad({{"x", elsewhere}, {"b", b}}, {{"y", y}}, "another device"));
  EXPECT_TRUE(bad({{"x", x}, {"b", b}}, {{"y", elsewhere}}, "another device"));
  ASSERT_TRUE(ok(program.run({{"x", x}, {"b", b}}, {{"y", y}})));

  API_TRY(const Executable two, load("m(x: f32[2]) -> y, z\ny = Neg(x)\nz = Exp(x)\n"));
  API_TRY(const Buffer in, two.allocate("x"));
  API_TRY(const Buffer out, two.allocate("y"));
  EXPECT_TRUE(fails(two.run({{"x", in}}, {{"y", out}, {"z", out}}), ErrorKind::bad_input, "shares memory"));
}

TEST_F(ApiRun, WrongBuffersAreRefused) {
  API_TRY(const Buffer buffer, device_->allocate(DType::f32, {2, 3}));
  EXPECT_TRUE(fails(buffer.write(std::vector<float>(5)), ErrorKind::bad_input, "20 bytes"));
  EXPECT_TRUE(fails(buffer.write(std::vector<float>(7)), ErrorKind::bad_input, "28 bytes"));
  std::vector<float> five(5);
  EXPECT_TRUE(fails(buffer.read(five), ErrorKind::bad_input, "20 bytes"));
  EXPECT_TRUE(fails(buffer.write(std::vector<std::int32_t>(6)), ErrorKind::bad_input, "elements of i32"));
  std::vector<double> doubles(3);
  EXPECT_TRUE(fails(buffer.read(doubles), ErrorKind::bad_input, "elements of f64"));
  EXPECT_TRUE(fails(buffer.view({7}), ErrorKind::bad_input, "7 elements"));
  EXPECT_TRUE(fails(buffer.view({-1}), ErrorKind::bad_input, "negative"));
  API_TRY(const Buffer part, buffer.view({2}));
  EXPECT_TRUE(fails(part.view({3}), ErrorKind::bad_input, "3 elements"));
  EXPECT_TRUE(fails(device_->allocate(DType::f32, {-2}), ErrorKind::bad_input, "negative"));
  EXPECT_TRUE(fails(device_->allocate(DType::f32, {1L << 40, 1L << 40}), ErrorKind::bad_input, "too large"));
  EXPECT_TRUE(fails(device_->allocate(DType::f32, {1L << 42}), ErrorKind::run_failure, ""));
  EXPECT_TRUE(fails(device_->allocate(static_cast<DType>(77), {1}), ErrorKind::bad_input, "element type"));
  API_TRY(const Buffer longs, device_->allocate(DType::i64, {2}));
  EXPECT_TRUE(fails(longs.write(std::vector<std::int64_t>{1, 1L << 33}), ErrorKind::bad_input, "8589934592"));
}

TEST_F(ApiRun, WrongDevicesAndPackagesAreNamed) {
  EXPECT_TRUE(fails(Device::open("warp:0"), ErrorKind::bad_input, "vulkan"));
  EXPECT_TRUE(fails(Device::open(""), ErrorKind::bad_input, "vulkan"));
  EXPECT_TRUE(fails(Device::open("vulkan:no such device"), ErrorKind::unsupported, "llvmpipe"));
  API_TRY(const Model model, Model::parse(affine_text));
  API_TRY(const Package package, compile(model, {"null"}));
  EXPECT_TRUE(fails(device_->load(package), ErrorKind::unsupported, "holds null"));
  API_TRY(const Executable program, load(affine_text));
  EXPECT_TRUE(fails(program.allocate("nobody"), ErrorKind::bad_input, "'nobody'"));
  EXPECT_TRUE(fails(program.allocate("x"), ErrorKind::bad_input, "n"));
  EXPECT_TRUE(fails(program.allocate("x", {{"n", -4}}), ErrorKind::bad_input, "negative"));
}

TEST_F(ApiRun, ObjectsOutliveWhatTheyWereMadeFrom) {
  const auto make = [&]() -> Result<std::pair<Executable, Buffer>> {
    auto own = Device::open(software_device);
    if (!own) return std::unexpected(own.error());
    auto program = own->load(*compile(*Model::parse("m(x: f32[2]) -> y\ny = Neg(x)\n"), *own));
    if (!program) return std::unexpected(program.error());
    auto x = own->allocate(DType::f32, {2});
    if (!x) return std::unexpected(x.error());
    return std::pair(*program, *x);
  };
  API_TRY(const auto made, make());
  const auto& [program, x] = made;
  API_TRY(const Buffer y, program.allocate("y"));
  ASSERT_TRUE(ok(x.write(std::vector<float>{1, -2})));
  ASSERT_TRUE(ok(program.run({{"x", x}}, {{"y", y}})));
  std::vector<float> result(2);
  ASSERT_TRUE(ok(y.read(result)));
  EXPECT_EQ(result, (std::vector<float>{-1, 2}));
  // A moved handle still is one.
  Buffer from = y;
  const Buffer to = std::move(from);
  EXPECT_EQ(from.shape(), to.shape());  // NOLINT: that is the point
}

TEST(ApiDevices, AreListedWithTheIdsThatOpenThem) {
  const auto all = devices();
  const auto cpu = std::find_if(all.begin(), all.end(), [](const DeviceInfo& d) { return d.driver == "vulkan"; });
  ASSERT_NE(cpu, all.end());
  API_TRY(const Device device, Device::open(cpu->id));
  EXPECT_EQ(device.info().name, cpu->name);
}

}  // namespace
}  // namespace aicf::testing
