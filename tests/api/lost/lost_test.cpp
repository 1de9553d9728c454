// Use after the device is lost. CTest puts a Vulkan loader in front of the system's that loses the device on command.

#include <dlfcn.h>

#include "../api_testing.h"

namespace aicf::testing {
namespace {

TEST(ApiLost, EveryUseOfALostDeviceSaysSoAndANewOneWorks) {
  void* const loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loader, nullptr) << dlerror();
  const auto lose_device = reinterpret_cast<void (*)(int)>(dlsym(loader, "lose_device"));
  ASSERT_NE(lose_device, nullptr) << "the test's loader is not in front: run the test by ctest";

  API_TRY(const Model model, Model::parse(affine_text));
  const auto values = counted(8, 1, 1), addend = counted(8, 0, 2);
  const auto run = [&](const Device& device, const Executable& program) {
    API_TRY(const Buffer x, device.allocate(DType::f32, {2, 4}));
    API_TRY(const Buffer b, device.allocate(DType::f32, {2, 4}));
    API_TRY(const Buffer y, device.allocate(DType::f32, {2, 4}));
    ASSERT_TRUE(ok(x.write(values)));
    ASSERT_TRUE(ok(b.write(addend)));
    ASSERT_TRUE(ok(program.run({{"x", x}, {"b", b}}, {{"y", y}})));
    std::vector<float> result(8);
    ASSERT_TRUE(ok(y.read(result)));
    EXPECT_EQ(result, affine(values, addend));
  };
  API_TRY(const Device device, Device::open(software_device));
  API_TRY(const Package package, compile(model, device));
  API_TRY(const Executable program, device.load(package));
  run(device, program);

  API_TRY(const Buffer x, device.allocate(DType::f32, {2, 4}));
  API_TRY(const Buffer b, device.allocate(DType::f32, {2, 4}));
  API_TRY(const Buffer y, device.allocate(DType::f32, {2, 4}));
  ASSERT_TRUE(ok(x.write(values)));
  ASSERT_TRUE(ok(b.write(addend)));
  lose_device(1);
  EXPECT_TRUE(fails(program.run({{"x", x}, {"b", b}}, {{"y", y}}), ErrorKind::device_lost, "VK_ERROR_DEVICE_LOST"));
  lose_device(0);  // the hardware is back; what was lost stays so
  std::vector<float> result(8);
  EXPECT_TRUE(fails(program.run({{"x", x}, {"b", b}}, {{"y", y}}), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(x.write(values), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(y.read(result), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(device.allocate(DType::f32, {1}), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(program.allocate("x", {{"n", 1}}), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(device.load(package), ErrorKind::device_lost, "open it again"));
  EXPECT_TRUE(fails(compile(model, device), ErrorKind::device_lost, "open it again"));

  API_TRY(const Device again, Device::open(software_device));
  API_TRY(const Executable loaded, again.load(package));
  run(again, loaded);
}

}  // namespace
}  // namespace aicf::testing
