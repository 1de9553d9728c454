// The Vulkan driver on lavapipe (or another device, see vulkan_testing.h): results against loops on the host.

#include "tests/runtime/vulkan/vulkan_testing.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

namespace aicf {
namespace {

using testing::glsl_kernel;
using ::testing::HasSubstr;
using testing::kernel_binary;
using testing::make_buffer;
using testing::read_buffer;
using testing::value_of;
using testing::whole;

constexpr const char* kAddBuffers =
    "layout(set = 0, binding = 0) readonly buffer A { float a[]; };\n"
    "layout(set = 0, binding = 1) readonly buffer B { float b[]; };\n"
    "layout(set = 0, binding = 2) buffer C { float c[]; };\n";

KernelBinary add_kernel() {
  return kernel_binary(
      "add",
      glsl_kernel(64, kAddBuffers, {"n"}, "  uint i = linear * 64u + lane;\n  if (i < uint(n)) c[i] = a[i] + b[i];\n"),
      64, 3, {"n"});
}

/// Every workgroup adds 1 to its own word: shows which linear numbers ran, and how often.
KernelBinary mark_kernel() {
  return kernel_binary(
      "mark",
      glsl_kernel(1, "layout(set = 0, binding = 0) buffer A { uint a[]; };\n", {}, "  atomicAdd(a[linear], 1u);\n"), 1,
      1);
}

class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override { open(vulkan_options_from_environment()); }
  void open(const VulkanOptions& options) {
    device_ = testing::open_device(options);
    ASSERT_NE(device_, nullptr);
  }
  std::unique_ptr<LoadedKernel> load(const KernelBinary& binary) { return value_of(device_->load(binary), "load"); }
  void run(const std::vector<Dispatch>& dispatches, std::vector<DispatchTiming>* timings = nullptr) {
    const auto done = device_->run(dispatches, timings, nullptr);
    ASSERT_TRUE(done) << done.error().text();
  }
  /// The error text of loading `binary`, which must be refused.
  std::string load_error(const KernelBinary& binary) {
    const auto loaded = device_->load(binary);
    if (loaded) return "(no error)";
    EXPECT_EQ(loaded.error().kind, ErrorKind::refused);
    return loaded.error().text();
  }
  std::unique_ptr<Device> device_;
};

std::vector<float> ramp(std::size_t count, float scale) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(i);
  return values;
}

TEST_F(VulkanTest, AddsVectorsWithGuardAndLeavesTheRestAlone) {
  const auto kernel = load(add_kernel());
  const auto a = make_buffer(*device_, ramp(1000, 0.5F)), b = make_buffer(*device_, ramp(1000, 2.0F));
  const auto c = make_buffer(*device_, std::vector<float>(1000, -1.0F));
  run({{kernel.get(), {whole(a), whole(b), whole(c)}, {999}, 16}});
  const auto got = read_buffer<float>(*device_, *c);
  for (int i = 0; i < 999; ++i) ASSERT_EQ(got[i], 2.5F * static_cast<float>(i)) << i;
  EXPECT_EQ(got[999], -1.0F);
}

TEST_F(VulkanTest, LaterDispatchesSeeEarlierWrites) {
  // c = a + c, 300 times: more dispatches than one submit takes.
  const auto kernel = load(add_kernel());
  const auto a = make_buffer(*device_, ramp(256, 1.0F));
  const auto c = make_buffer(*device_, std::vector<float>(256, 0.0F));
  run(std::vector<Dispatch>(300, {kernel.get(), {whole(a), whole(c), whole(c)}, {256}, 4}));
  const auto got = read_buffer<float>(*device_, *c);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(got[i], 300.0F * static_cast<float>(i)) << i;
}

TEST_F(VulkanTest, SlicesOfOneBufferAreSeparateArguments) {
  const std::size_t part = device_->offset_alignment();
  ASSERT_EQ(part % sizeof(float), 0U);
  const int n = static_cast<int>(part / sizeof(float));
  const auto kernel = load(add_kernel());
  const auto arena = make_buffer(*device_, ramp(3 * n, 1.0F));
  DeviceBuffer* memory = arena.get();
  run({{kernel.get(), {{memory, 0, part}, {memory, part, part}, {memory, 2 * part, part}}, {n}, 1}});
  const auto got = read_buffer<float>(*device_, *arena);
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(got[i], i);
    EXPECT_EQ(got[2 * n + i], i + (n + i));
  }
}

TEST_F(VulkanTest, NegativeParametersAndTheWorkgroupCountArrive) {
  const auto kernel =
      load(kernel_binary("parameters",
                         glsl_kernel(1, "layout(set = 0, binding = 0) buffer A { int a[]; };\n", {"first", "second"},
                                     "  a[0] = first; a[1] = second; a[2] = workgroups;\n"),
                         1, 1, {"first", "second"}));
  const auto a = make_buffer(*device_, std::vector<std::int32_t>(3, 0));
  run({{kernel.get(), {whole(a)}, {-7, 1 << 30}, 1}});
  EXPECT_THAT(read_buffer<std::int32_t>(*device_, *a), ::testing::ElementsAre(-7, 1 << 30, 1));
}

TEST_F(VulkanTest, GridsBeyondOneDimensionRunEveryWorkgroupOnce) {
  const std::int64_t limit = device_->info().properties.at("max_workgroups_x");
  const std::size_t count = limit <= 65535 ? limit + 3 : 70000;
  const auto kernel = load(mark_kernel());
  const auto a = make_buffer(*device_, std::vector<std::uint32_t>(count + 5, 0));
  run({{kernel.get(), {whole(a)}, {}, count}});
  const auto got = read_buffer<std::uint32_t>(*device_, *a);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i < count ? 1U : 0U) << i;
}

TEST_F(VulkanTest, SmallGridLimitsFoldToThreeDimensions) {
  VulkanOptions options = vulkan_options_from_environment();
  options.max_workgroups_per_dimension = 7;
  open(options);
  const auto kernel = load(mark_kernel());
  const auto a = make_buffer(*device_, std::vector<std::uint32_t>(400, 0));
  for (const std::size_t count : {1, 7, 8, 49, 50, 343}) {
    run({{kernel.get(), {whole(a)}, {}, count}});
  }
  const auto got = read_buffer<std::uint32_t>(*device_, *a);
  EXPECT_EQ(got[0], 6U);
  EXPECT_EQ(got[7], 4U);
  EXPECT_EQ(got[49], 2U);
  EXPECT_EQ(got[342], 1U);
  EXPECT_EQ(got[343], 0U);
  EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0U), 1U + 7 + 8 + 49 + 50 + 343);
  const auto refused = device_->run(std::vector<Dispatch>{{kernel.get(), {whole(a)}, {}, 344}}, nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("344 workgroups do not fit"));
}

TEST_F(VulkanTest, CutDispatchesRunEveryWorkgroupOnce) {
  // A budget of a nanosecond cuts after every step once the rate is known; three shapes of grid.
  for (const std::uint32_t per_dimension : {1000000U, 40U, 8U}) {
    VulkanOptions options = vulkan_options_from_environment();
    options.submit_milliseconds = 1e-6;
    options.max_workgroups_per_dimension = per_dimension;
    open(options);
    const auto kernel = load(mark_kernel());
    const auto a = make_buffer(*device_, std::vector<std::uint32_t>(520, 0));
    const std::size_t first = per_dimension == 1000000U ? 280 : 500;
    std::vector<DispatchTiming> timings;
    run({{kernel.get(), {whole(a)}, {}, first}, {kernel.get(), {whole(a)}, {}, 12}}, &timings);
    const auto got = read_buffer<std::uint32_t>(*device_, *a);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], (i < first) + (i < 12)) << i << " of " << per_dimension;
    ASSERT_EQ(timings.size(), 2U);
    EXPECT_GT(timings[0].milliseconds, 0);
  }
}

TEST_F(VulkanTest, NoWorkgroupsIsNoWork) {
  const auto kernel = load(mark_kernel());
  const auto a = make_buffer(*device_, std::vector<std::uint32_t>(2, 0));
  std::vector<DispatchTiming> timings;
  std::vector<DispatchCounters> counters;
  const std::vector<Dispatch> dispatches{{kernel.get(), {whole(a)}, {}, 0}, {kernel.get(), {whole(a)}, {}, 1}};
  ASSERT_TRUE(device_->run(dispatches, &timings, &counters));
  EXPECT_THAT(read_buffer<std::uint32_t>(*device_, *a), ::testing::ElementsAre(1, 0));
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[0].milliseconds, 0);
  EXPECT_EQ(counters.size(), 2U);
  ASSERT_TRUE(device_->run({}, &timings, nullptr));
  EXPECT_TRUE(timings.empty());
}

TEST_F(VulkanTest, BuffersWithoutBytesCanBeBound) {
  const auto kernel = load(add_kernel());
  const auto empty = value_of(device_->allocate(0), "allocate");
  EXPECT_EQ(empty->size(), 0U);
  ASSERT_TRUE(device_->upload(*empty, 0, {}));
  ASSERT_TRUE(device_->download(*empty, 0, {}));
  run({{kernel.get(), {whole(empty), {}, whole(empty)}, {0}, 1}});
}

TEST_F(VulkanTest, SubgroupShuffleBroadcastsALane) {
  const auto width = static_cast<std::uint32_t>(device_->info().properties.at("subgroup_size"));
  auto binary =
      kernel_binary("shuffle",
                    glsl_kernel(2 * width, "layout(set = 0, binding = 0) buffer A { float a[]; };\n", {},
                                "  float x = a[lane];\n  a[lane] = subgroupShuffle(x, 3u) + subgroupAdd(x);\n",
                                "#extension GL_KHR_shader_subgroup_shuffle : require\n"
                                "#extension GL_KHR_shader_subgroup_arithmetic : require\n"),
                    2 * width, 1);
  binary.subgroup_size = width;
  const auto kernel = load(binary);
  const auto a = make_buffer(*device_, ramp(2 * width, 1.0F));
  run({{kernel.get(), {whole(a)}, {}, 1}});
  const auto got = read_buffer<float>(*device_, *a);
  for (std::uint32_t i = 0; i < 2 * width; ++i) {
    const std::uint32_t first = i / width * width;
    const std::uint32_t sum = width * first + width * (width - 1) / 2;
    ASSERT_EQ(got[i], static_cast<float>(first + 3 + sum)) << i;
  }
}

TEST_F(VulkanTest, WorkgroupMemoryAndBarrierReverseAWorkgroup) {
  auto binary = kernel_binary("reverse",
                              glsl_kernel(128,
                                          "layout(set = 0, binding = 0) buffer A { float a[]; };\n"
                                          "shared float tile[128];\n",
                                          {},
                                          "  tile[lane] = a[linear * 128u + lane];\n  barrier();\n"
                                          "  a[linear * 128u + lane] = tile[127u - lane];\n"),
                              128, 1);
  binary.workgroup_memory_bytes = 512;
  const auto kernel = load(binary);
  const auto a = make_buffer(*device_, ramp(1024, 1.0F));
  run({{kernel.get(), {whole(a)}, {}, 8}});
  const auto got = read_buffer<float>(*device_, *a);
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(got[i], static_cast<float>(i / 128 * 128 + 127 - i % 128)) << i;
}

TEST_F(VulkanTest, TimestampsGrowWithWork) {
  const auto kernel =
      load(kernel_binary("spin",
                         glsl_kernel(64, "layout(set = 0, binding = 0) buffer A { float a[]; };\n", {"n"},
                                     "  float x = a[lane];\n"
                                     "  for (int i = 0; i < n; ++i) x = x * 0.5 + a[i & 63];\n"
                                     "  if (linear == 0u) a[lane] = x;\n"),
                         64, 1, {"n"}));
  const auto a = make_buffer(*device_, ramp(64, 1.0F));
  std::vector<DispatchTiming> timings;
  run({{kernel.get(), {whole(a)}, {1}, 1}}, &timings);  // compiles
  run({{kernel.get(), {whole(a)}, {1}, 1}, {kernel.get(), {whole(a)}, {20000}, 64}}, &timings);
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_GE(timings[0].milliseconds, 0);
  EXPECT_GT(timings[1].milliseconds, 10 * timings[0].milliseconds);
  EXPECT_LT(timings[1].milliseconds, 60000);
}

TEST_F(VulkanTest, StagedCopiesReachEveryByteAtAnyOffset) {
  VulkanOptions options = vulkan_options_from_environment();
  options.force_staging = true;
  open(options);
  const std::size_t words = (std::size_t{20} << 20) / 4;  // more than one staging part
  std::vector<std::uint32_t> values(words);
  for (std::size_t i = 0; i < words; ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761U);
  const auto buffer = make_buffer(*device_, values);
  EXPECT_EQ(read_buffer<std::uint32_t>(*device_, *buffer), values);
  const std::uint32_t word = 42;
  ASSERT_TRUE(device_->upload(*buffer, 4 * 4097, std::as_bytes(std::span(&word, 1))));
  values[4097] = word;
  std::vector<std::uint32_t> part(100);
  ASSERT_TRUE(device_->download(*buffer, 4 * 4050, std::as_writable_bytes(std::span(part))));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 4050));
  const auto kernel = load(add_kernel());
  const auto b = make_buffer(*device_, ramp(64, 1.0F)), c = make_buffer(*device_, ramp(64, 1.0F));
  run({{kernel.get(), {whole(b), whole(c), whole(c)}, {64}, 1}});
  EXPECT_EQ(read_buffer<float>(*device_, *c), ramp(64, 2.0F));
}

constexpr const char* kPreserveFloats =
    "#extension GL_EXT_spirv_intrinsics : require\n"
    "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);\n";

TEST_F(VulkanTest, SignedZeroInfinityAndNanSurvive) {
  if (!device_->info().properties.at("signed_zero_inf_nan_preserve_f32")) GTEST_SKIP() << "the device has no control";
  const auto kernel = load(kernel_binary(
      "preserve",
      glsl_kernel(4, kAddBuffers, {}, "  c[lane] = a[lane] * b[lane] + (a[lane] - a[lane]);\n", kPreserveFloats), 4,
      3));
  const float inf = INFINITY;
  const auto a = make_buffer<float>(*device_, {inf, NAN, -0.0F, 1});
  const auto b = make_buffer<float>(*device_, {0, 0, 1, inf});
  const auto c = make_buffer(*device_, std::vector<float>(4, 7.0F));
  run({{kernel.get(), {whole(a), whole(b), whole(c)}, {}, 1}});
  const auto got = read_buffer<float>(*device_, *c);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], 0.0F);
  EXPECT_EQ(got[3], inf);
}

TEST_F(VulkanTest, WideLoadsAndNarrowStorageKeepEveryBit) {
  const auto& has = device_->info().properties;
  if (!has.at("shader_f16") || !has.at("storage_16bit") || !has.at("shader_i64")) {
    GTEST_SKIP() << "the device has no 16 or 64 bit types";
  }
  // Drivers drop f32 → f16 → f32 without the control: the round trip must round. A 128-bit load is four words.
  const auto kernel = load(kernel_binary(
      "narrow",
      glsl_kernel(8,
                  "layout(set = 0, binding = 0) readonly buffer A { float a[]; };\n"
                  "layout(set = 0, binding = 1) buffer B { float16_t b[]; };\n"
                  "layout(set = 0, binding = 2) buffer C { float c[]; };\n"
                  "layout(set = 0, binding = 3) readonly buffer W { u64vec2 w[]; };\n"
                  "layout(set = 0, binding = 4) buffer D { uint d[]; };\n",
                  {},
                  "  float16_t h = float16_t(a[lane]);\n  b[lane] = h;\n  c[lane] = float(h);\n"
                  "  d[lane] = (lane & 1u) == 0u ? unpack32(w[lane / 2u].x).y : unpack32(w[lane / 2u].y).x;\n",
                  std::string("#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
                              "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n"
                              "#extension GL_EXT_shader_16bit_storage : require\n") +
                      (has.at("signed_zero_inf_nan_preserve_f32") ? kPreserveFloats : "")),
      8, 5));
  // Ties to even, the smallest subnormal, underflow, and both sides of the overflow limit 65520.
  const auto power = [](int e) { return std::ldexp(1.0F, e); };
  const auto a = make_buffer<float>(
      *device_, {1 + power(-11), 1 + 3 * power(-11), power(-24), power(-25), 65519, 65520, -2, 0.333251953125F});
  const auto b = make_buffer(*device_, std::vector<std::uint16_t>(8, 7));
  const auto c = make_buffer(*device_, std::vector<float>(8, 7.0F));
  const auto w = make_buffer<std::uint32_t>(*device_, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  const auto d = make_buffer(*device_, std::vector<std::uint32_t>(8, 0));
  run({{kernel.get(), {whole(a), whole(b), whole(c), whole(w), whole(d)}, {}, 1}});
  EXPECT_THAT(read_buffer<std::uint16_t>(*device_, *b),
              ::testing::ElementsAre(0x3c00, 0x3c02, 1, 0, 0x7bff, 0x7c00, 0xc000, 0x3555));
  EXPECT_THAT(read_buffer<float>(*device_, *c),
              ::testing::ElementsAre(1, 1 + power(-9), power(-24), 0, 65504, INFINITY, -2, 0.333251953125F));
  EXPECT_THAT(read_buffer<std::uint32_t>(*device_, *d), ::testing::ElementsAre(1, 2, 5, 6, 9, 10, 13, 14));
}

TEST_F(VulkanTest, LoadsManyKernelsInOrder) {
  std::vector<KernelBinary> binaries;
  for (int i = 0; i < 9; ++i) {
    binaries.push_back(kernel_binary("constant" + std::to_string(i),
                                     glsl_kernel(1, "layout(set = 0, binding = 0) buffer A { int a[]; };\n", {"at"},
                                                 "  a[at] = " + std::to_string(100 + i) + ";\n"),
                                     1, 1, {"at"}));
  }
  const auto kernels = value_of(device_->load_all(binaries), "load_all");
  ASSERT_EQ(kernels.size(), 9U);
  const auto a = make_buffer(*device_, std::vector<std::int32_t>(9, 0));
  std::vector<Dispatch> dispatches;
  for (int i = 0; i < 9; ++i) dispatches.push_back({kernels[i].get(), {whole(a)}, {i}, 1});
  run(dispatches);
  EXPECT_THAT(read_buffer<std::int32_t>(*device_, *a),
              ::testing::ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108));
  binaries[4].bytes.resize(8);
  EXPECT_FALSE(device_->load_all(binaries));
}

TEST_F(VulkanTest, ObjectsOutliveTheirDevice) {
  const auto kernel = load(add_kernel());
  const auto buffer = make_buffer(*device_, ramp(8, 1.0F));
  device_.reset();
  EXPECT_EQ(buffer->size(), 32U);
}

// ---- refusals ----------------------------------------------------------------------------------------------------

TEST_F(VulkanTest, RefusesDamagedModules) {
  const KernelBinary good = add_kernel();
  auto binary = good;
  binary.bytes.resize(binary.bytes.size() - 2);
  EXPECT_THAT(load_error(binary), HasSubstr("no whole module"));
  binary = good;
  binary.bytes[0] ^= 1;
  EXPECT_THAT(load_error(binary), HasSubstr("not 0x07230203"));
  binary = good;
  binary.bytes += std::string("\x01\0\x09\0", 4);  // an instruction of 9 words, of which one is there
  EXPECT_THAT(load_error(binary), HasSubstr("damaged at word"));
  binary = good;
  binary.bytes.resize(binary.bytes.size() - 4);
  EXPECT_THAT(load_error(binary), HasSubstr("ends within a function"));
  binary = good;
  binary.bytes.resize(20);
  EXPECT_THAT(load_error(binary), HasSubstr("no compute entry point"));
  binary = good;
  binary.kind = BinaryKind::cubin;
  EXPECT_THAT(load_error(binary), HasSubstr("kernel 'add' on"));
}

TEST_F(VulkanTest, RefusesWhatTheDeviceDoesNotHave) {
  auto binary = add_kernel();
  binary.workgroup_memory_bytes = 1U << 30;
  EXPECT_THAT(load_error(binary), HasSubstr("1073741824 bytes of workgroup memory"));
  binary = add_kernel();
  binary.subgroup_size = 1024;
  EXPECT_THAT(load_error(binary), HasSubstr("subgroups of 1024"));
  binary = add_kernel();
  binary.workgroup_size = 32;
  EXPECT_THAT(load_error(binary), HasSubstr("64×1×1 threads"));
  binary = add_kernel();
  binary.arguments.pop_back();
  EXPECT_THAT(load_error(binary), HasSubstr("binds 3 buffers"));
  binary = add_kernel();
  binary.parameters.assign(device_->info().properties.at("push_constant_bytes") / 4, "p");
  EXPECT_THAT(load_error(binary), HasSubstr("bytes of parameters"));
  // A capability that no device of this driver enables: Kernel (6) in place of Shader (1).
  binary = add_kernel();
  binary.bytes[24] = 6;
  EXPECT_THAT(load_error(binary), HasSubstr("capability 6"));
}

TEST_F(VulkanTest, RefusesBuffersBeyondTheLimits) {
  const auto& properties = device_->info().properties;
  const auto too_large = device_->allocate(std::size_t{1} << 60);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().kind, ErrorKind::run_failure);
  EXPECT_THAT(too_large.error().text(), HasSubstr(std::to_string(std::size_t{1} << 60)));

  const std::size_t range = properties.at("max_buffer_range");
  if (range > std::size_t{1} << 28) GTEST_SKIP() << "bindings of this device are large: " << range;
  const auto big = value_of(device_->allocate(range + 64), "allocate");
  const auto kernel = load(mark_kernel());
  const auto refused = device_->run(std::vector<Dispatch>{{kernel.get(), {whole(big)}, {}, 1}}, nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("kernel 'mark'"));
  EXPECT_THAT(refused.error().text(), HasSubstr(std::to_string(range + 64)));
  EXPECT_THAT(refused.error().text(), HasSubstr(std::to_string(range)));
  // The device still works, and a slice within the limit binds.
  run({{kernel.get(), {{big.get(), 64, range}}, {}, 1}});
}

TEST(VulkanDriver, ListsAndSelectsDevices) {
  std::string why;
  const auto devices = vulkan_driver().devices(&why);
  ASSERT_FALSE(devices.empty()) << why;
  EXPECT_EQ(why, "");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i].id, "vulkan:" + std::to_string(i));
    EXPECT_EQ(devices[i].driver, "vulkan");
    EXPECT_GE(devices[i].properties.at("max_subgroup_size"), devices[i].properties.at("subgroup_size"));
    EXPECT_GE(devices[i].properties.at("workgroup_memory"), 16384);    // the specification's minimum
    EXPECT_GE(devices[i].properties.at("max_buffer_range"), 1 << 27);  // same
  }
  for (const std::string selector : {"", "0"}) {
    const auto device = value_of(vulkan_driver().open(selector), "open");
    EXPECT_EQ(device->info().name, devices[0].name);
  }
  const auto missing = vulkan_driver().open("no such thing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(missing.error().text(), HasSubstr(devices[0].name));
  EXPECT_FALSE(vulkan_driver().open("99"));
}

TEST(VulkanValidation, IsSilentForRightUseAndReportsWrongUse) {
  VulkanOptions options;
  options.validation = true;
  auto opened = open_vulkan(testing::device_selector(), options);
  if (!opened && opened.error().message.contains("not installed")) GTEST_SKIP() << opened.error().message;
  auto device = value_of(std::move(opened), "open");
  ASSERT_NE(device, nullptr);
  const auto kernel = value_of(device->load(add_kernel()), "load");
  const auto a = make_buffer(*device, ramp(100, 1.0F)), c = make_buffer(*device, ramp(100, 1.0F));
  std::vector<DispatchTiming> timings;
  const std::vector<Dispatch> dispatches(3, {kernel.get(), {whole(a), whole(c), whole(c)}, {100}, 2});
  const auto done = device->run(dispatches, &timings, nullptr);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(read_buffer<float>(*device, *c), ramp(100, 4.0F));

  // Wrong use: the module reads 3 parameters, its description has fewer push constants.
  auto wrong = kernel_binary(
      "wrong",
      glsl_kernel(1, "layout(set = 0, binding = 0) buffer A { int a[]; };\n", {"x", "y", "z"}, "  a[0] = x + y + z;\n"),
      1, 1, {"x"});
  const auto loaded = device->load(wrong);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().text(), HasSubstr("Vulkan validation"));
  EXPECT_THAT(loaded.error().text(), HasSubstr("kernel 'wrong'"));
  // One report, then clean again.
  EXPECT_TRUE(device->run(dispatches, nullptr, nullptr));
}

}  // namespace
}  // namespace aicf
