// What the interface promises to threads: everything may be called at any time; a package runs from several threads, each
// with a device of its own or all with one. Also run under ThreadSanitizer (tools/sanitize thread).

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <latch>
#include <optional>
#include <thread>

#include "../api_testing.h"

namespace aicf::testing {
namespace {

constexpr int thread_count = 4;

/// Runs `work(i)` in threads that start together.
void together(const std::function<void(int)>& work) {
  std::latch start(thread_count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < thread_count; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
}

/// Runs with buffers of its own, a few times, each time other values.
void run_affine(const Executable& program, int seed) {
  const std::int64_t rows = 3 + seed;
  API_TRY(const Buffer x, program.allocate("x", {{"n", rows}}));
  API_TRY(const Buffer b, program.allocate("b", {{"m", rows}}));
  API_TRY(const Buffer y, program.allocate("y", {{"n", rows}}));
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto values = counted(rows * 4, static_cast<float>(seed * 10 + repeat), 1),
               addend = counted(rows * 4, 0.5f, -1);
    ASSERT_TRUE(ok(x.write(values)));
    ASSERT_TRUE(ok(b.write(addend)));
    ASSERT_TRUE(ok(program.run({{"x", x}, {"b", b}}, {{"y", y}})));
    std::vector<float> result(values.size());
    ASSERT_TRUE(ok(y.read(result)));
    EXPECT_EQ(result, affine(values, addend));
  }
}

TEST(ApiThreads, OnePackageRunsOnADeviceOfEachThread) {
  API_TRY(const Model model, Model::parse(affine_text));
  API_TRY(const Package package, compile(model, {"lavapipe", "cuda-emulation:sm_80"}));
  for (const std::string& id : {software_device, std::string("cuda-emulation:sm_80")}) {
    SCOPED_TRACE(id);
    together([&](int i) {
      API_TRY(const Device device, Device::open(id));
      API_TRY(const Executable program, device.load(package));
      run_affine(program, i);
    });
  }
}

TEST(ApiThreads, OneExecutableServesAllThreads) {
  API_TRY(const Device device, Device::open(software_device));
  API_TRY(const Package package, compile(*Model::parse(affine_text), device));
  API_TRY(const Executable program, device.load(package));
  together([&](int i) { run_affine(program, i); });
}

TEST(ApiThreads, OneDeviceServesAllThreads) {
  API_TRY(const Device device, Device::open(software_device));
  API_TRY(const Model model, Model::parse(affine_text));
  together([&](int i) {
    API_TRY(const Package package, compile(model, device));
    API_TRY(const Executable program, device.load(package));
    run_affine(program, i);
  });
}

TEST(ApiThreads, CompilesOfOneModelAreEqual) {
  const TempFolder folder;
  API_TRY(const Model model, Model::parse(affine_text));
  together([&](int i) {
    API_TRY(const Package package, compile(model, {"lavapipe", "cuda-emulation:sm_80"}));
    ASSERT_TRUE(ok(package.save(folder.file(std::to_string(i)))));
  });
  const auto bytes = [&](int i) {
    std::ifstream in(folder.file(std::to_string(i)), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_GT(bytes(0).size(), 1000u);
  for (int i = 1; i < thread_count; ++i) EXPECT_TRUE(bytes(i) == bytes(0)) << i;
}

TEST(ApiThreads, ModelsAreReadAndBuiltAtTheSameTime) {
  together([&](int i) {
    GraphBuilder g("g" + std::to_string(i));
    g.output(g.add("Neg", {g.input("x", DType::f32, {"n"})}));
    API_TRY(const Model built, g.build());
    API_TRY(const Model parsed, Model::parse(affine_text));
    API_TRY(const Model bound, Model::parse(parsed.text(), {{"n", i + 1}, {"m", i + 1}}));
    EXPECT_EQ(bound.outputs()[0].shape[0], std::to_string(i + 1));
    EXPECT_TRUE(fails(Model::load("/no/such" + std::to_string(i)), ErrorKind::bad_input, "such" + std::to_string(i)));
    EXPECT_FALSE(devices().empty());
  });
}

TEST(ApiThreads, ReadsSeeWholeWrites) {
  API_TRY(const Device device, Device::open(software_device));
  API_TRY(const Buffer buffer, device.allocate(DType::f32, {1000}));
  ASSERT_TRUE(ok(buffer.write(std::vector<float>(1000, 0))));
  together([&](int i) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      if (i % 2 == 0) {
        ASSERT_TRUE(ok(buffer.write(std::vector<float>(1000, static_cast<float>(i + repeat)))));
      } else {
        std::vector<float> all(1000);
        ASSERT_TRUE(ok(buffer.read(all)));
        EXPECT_EQ(all, std::vector<float>(1000, all[0]));
      }
    }
  });
}

TEST(ApiThreads, HandlesEndInAnyThread) {
  API_TRY(const Device device, Device::open(software_device));
  together([&](int) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      API_TRY(const Package package, compile(*Model::parse("m(x: f32[n]) -> y\ny = Neg(x)\n"), device));
      std::optional<Executable> program;
      {
        API_TRY(const Executable loaded, device.load(package));
        program = loaded;
      }
      API_TRY(const Buffer x, program->allocate("x", {{"n", 5}}));
      std::jthread([copy = *program, x] {
        auto y = copy.allocate("y", {{"n", 5}});
        ASSERT_TRUE(ok(y));
        ASSERT_TRUE(ok(copy.run({{"x", x}}, {{"y", *y}})));
      });
      program.reset();
    }
  });
}

TEST(ApiThreads, ACHandleMayBeClosedWhileItIsUsed) {
  aicf_device device = nullptr;
  ASSERT_EQ(aicf_device_open(software_device.c_str(), &device), AICF_OK) << aicf_error();
  const std::int64_t shape[] = {64};
  aicf_buffer buffer = nullptr;
  ASSERT_EQ(aicf_device_allocate(device, AICF_F32, shape, 1, &buffer), AICF_OK) << aicf_error();
  std::atomic<int> closed = 0;
  together([&](int i) {
    const std::vector<float> values(64, 1);
    for (int repeat = 0; repeat < 50; ++repeat) {
      if (repeat == 10 * (i + 1) && aicf_close(buffer) == AICF_OK) ++closed;
      const aicf_status status = aicf_buffer_write(buffer, AICF_F32, values.data(), 256);
      EXPECT_TRUE(status == AICF_OK || (status == AICF_BAD_INPUT && closed >= 0)) << aicf_error();
    }
  });
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(aicf_close(device), AICF_OK);
}

}  // namespace
}  // namespace aicf::testing
