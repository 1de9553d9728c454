#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "backends/cuda/assemble.h"
#include "runtime/cuda_emulation/host_compiler.h"
#include "tests/runtime/cuda/emulation_fixture.h"
#include "tests/runtime/cuda/kernels.h"

// The driver for real GPUs: on one where there is one, and against a small libcuda.so.1 made here that checks what it
// is called with and adds vectors on the host.

namespace aicf {
namespace {

KernelBinary vector_add_binary() {
  KernelBinary binary;
  binary.name = "vector_add";
  binary.kind = BinaryKind::cubin;
  binary.arguments = {{"a", DType::f32}, {"b", DType::f32}, {"c", DType::f32, true}};
  binary.parameters = {"n"};
  binary.workgroup_size = 256;
  return binary;
}

/// a + b through `device`; "" when right.
std::string add_vectors(Device& device, const KernelBinary& binary, std::uint64_t* launches = nullptr) {
  const int n = 1000;
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  auto kernels = device.load_all({&binary, 1});
  if (!kernels) return kernels.error().text();
  auto arena = device.allocate(3 * 4096);
  if (!arena) return arena.error().text();
  Dispatch dispatch{.kernel = kernels->front().get(), .parameters = {n}, .workgroups = 4};
  for (std::size_t i = 0; i < 3; ++i) dispatch.buffers.push_back({arena->get(), i * 4096, 4 * n});
  for (std::size_t i = 0; i < 2; ++i) {
    if (auto up = device.upload(**arena, i * 4096, std::as_bytes(std::span(i ? b : a))); !up) return up.error().text();
  }
  std::vector<DispatchTiming> timings;
  std::vector<DispatchCounters> counters;
  const std::vector<Dispatch> all = {dispatch, dispatch};
  if (auto ran = device.run(all, &timings, &counters); !ran) return ran.error().text();
  if (timings.size() != 2 || counters.size() != 2) return "timings or counters are missing";
  if (launches) *launches += 2;
  std::vector<float> c(n);
  if (auto down = device.download(**arena, 2 * 4096, std::as_writable_bytes(std::span(c))); !down)
    return down.error().text();
  for (int i = 0; i < n; ++i) {
    if (c[i] != a[i] + b[i]) return fmt::format("c[{}] is {} and not {}", i, c[i], a[i] + b[i]);
  }
  return "";
}

TEST(CudaDriver, ListsDevicesOrSaysWhyNot) {
  std::string why;
  const auto devices = cuda_driver().devices(&why);
  EXPECT_EQ(devices.empty(), !why.empty());
  const auto missing = cuda_driver().open("no such gpu");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
}

TEST(CudaDriver, AddsVectorsOnAGpu) {
  std::string why;
  const auto devices = cuda_driver().devices(&why);
  if (devices.empty()) GTEST_SKIP() << why;
  auto device = cuda_driver().open("0");
  ASSERT_TRUE(device) << device.error().text();
  auto binary = vector_add_binary();
  const auto assembled = assemble_cuda(kernels::kVectorAdd, binary.name,
                                       fmt::format("sm_{}", devices[0].properties.at("compute_capability")));
  if (!assembled) GTEST_SKIP() << assembled.error().text();
  binary.bytes = assembled->cubin;
  EXPECT_EQ(add_vectors(**device, binary), "");
}

constexpr char kFakeDriver[] = R"(
#include <stdlib.h>
#include <string.h>
static int launches, attribute_calls, dynamic_limit = 49152, failed;
typedef unsigned long long P;
#define F extern "C" __attribute__((visibility("default"))) int
F fake_launches() { return launches; }
F fake_dynamic_limit() { return dynamic_limit; }
F cuInit(unsigned) { return 0; }
F cuDriverGetVersion(int* v) { *v = 13000; return 0; }
F cuGetErrorName(int e, const char** s) { *s = e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : e == 218 ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_X"; return 0; }
F cuGetErrorString(int, const char** s) { *s = "text"; return 0; }
F cuDeviceGetCount(int* n) { *n = 2; return 0; }
F cuDeviceGet(int* d, int i) { *d = 10 + i; return 0; }
F cuDeviceGetName(char* s, int, int d) { strcpy(s, d == 10 ? "Fake GPU One" : "Fake GPU Two"); return 0; }
F cuDeviceGetAttribute(int* v, int a, int) { *v = a == 75 ? 8 : a == 76 ? 6 : a == 97 ? 101376 : a == 10 ? 32 : 1024; return 0; }
F cuDeviceTotalMem_v2(size_t* n, int) { *n = 1 << 20; return 0; }
F cuDevicePrimaryCtxRetain(void** c, int d) { *c = (void*)(size_t)d; return 0; }
F cuDevicePrimaryCtxRelease_v2(int) { return 0; }
F cuCtxSetCurrent(void*) { return 0; }
F cuMemGetInfo_v2(size_t* f, size_t* t) { *f = 100; *t = 1 << 20; return 0; }
F cuMemAlloc_v2(P* p, size_t n) { if (n > 1 << 20) return 2; *p = (P)malloc(n); return 0; }
F cuMemFree_v2(P p) { free((void*)p); return 0; }
F cuMemcpyHtoD_v2(P p, const void* s, size_t n) { memcpy((void*)p, s, n); return 0; }
F cuMemcpyDtoH_v2(void* d, P p, size_t n) { memcpy(d, (void*)p, n); return 0; }
F cuModuleLoadDataEx(void** m, const void* image, unsigned n, int* options, void** values) {
  if (strncmp((const char*)image, "cubin", 5) == 0) { *m = malloc(1); return 0; }
  for (unsigned i = 0; i < n; ++i) if (options[i] == 5) strcpy((char*)values[i], "ptxas says no\n");
  return 218;
}
F cuModuleUnload(void* m) { free(m); return 0; }
F cuModuleGetFunction(void** f, void*, const char* name) {
  *f = (void*)(strcmp(name, "vector_add") == 0 ? 1l : strcmp(name, "fault") == 0 ? 2l : 0l);
  return *f ? 0 : 500;
}
F cuFuncGetAttribute(int* v, int a, void*) { *v = a == 8 ? dynamic_limit : a == 0 ? 512 : 0; return 0; }
F cuFuncSetAttribute(void*, int a, int v) { if (a != 8) return 1; dynamic_limit = v; return 0; }
F cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream, void** p, void** extra) {
  ++launches;
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra || !stream || (int)shared > dynamic_limit) return 1;
  if (f == (void*)2) { failed = 1; return 0; }
  const float *a = *(const float**)p[0], *b = *(const float**)p[1];
  float* c = *(float**)p[2];
  const int n = *(int*)p[3], count = *(int*)p[4];
  for (unsigned w = 0; w < gx; ++w) for (unsigned t = 0; t < bx; ++t) { int i = w * 256 + t; if ((int)w < count && i < n) c[i] = a[i] + b[i]; }
  return 0;
}
F cuStreamCreate(void** s, unsigned) { *s = malloc(1); return 0; }
F cuStreamDestroy_v2(void* s) { free(s); return 0; }
F cuStreamSynchronize(void*) { return failed ? 700 : 0; }
F cuEventCreate(void** e, unsigned) { *e = malloc(1); return 0; }
F cuEventDestroy_v2(void* e) { free(e); return 0; }
F cuEventRecord(void*, void*) { return 0; }
F cuEventElapsedTime(float* t, void*, void*) { *t = 0.5f; return 0; }
)";

/// Runs in a process of its own, whose libcuda.so.1 is the one above; "" when everything was right.
std::string with_fake_driver(const std::function<std::string(const std::function<int(const char*)>& counter)>& body) {
  const auto compiler = host_compiler();
  if (!compiler) return compiler.error().text();
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("aicf-fake-cuda-{}", getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "fake.cpp") << kFakeDriver;
  const std::string command = fmt::format("{} -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o {}/libcuda.so.1 {}/fake.cpp",
                                          *compiler, folder.string(), folder.string());
  void* fake = std::system(command.c_str()) == 0 ? dlopen((folder / "libcuda.so.1").c_str(), RTLD_NOW) : nullptr;
  std::filesystem::remove_all(folder);
  if (!fake) return "the fake driver was not made";
  return body([fake](const char* name) { return reinterpret_cast<int (*)()>(dlsym(fake, name))(); });
}

std::string check_launches(const std::function<int(const char*)>& counter) {
  auto device = cuda_driver().open("two");
  if (!device) return device.error().text();
  if ((*device)->info().id != "cuda:1" || (*device)->info().properties.at("compute_capability") != 86)
    return "wrong device";
  auto binary = vector_add_binary();
  binary.bytes = "cubin";
  std::uint64_t launches = 0;
  if (const auto wrong = add_vectors(**device, binary, &launches); !wrong.empty()) return wrong;
  if (counter("fake_launches") != static_cast<int>(launches)) return "wrong number of launches";
  if (counter("fake_dynamic_limit") != 49152) return "the limit was changed for a kernel without need";
  binary.workgroup_memory_bytes = 90 * 1024;
  if (const auto wrong = add_vectors(**device, binary); !wrong.empty()) return wrong;
  if (counter("fake_dynamic_limit") != 90 * 1024) return "the limit was not raised";
  binary.workgroup_memory_bytes = 60 * 1024;
  if (const auto wrong = add_vectors(**device, binary); !wrong.empty()) return wrong;
  if (counter("fake_dynamic_limit") != 90 * 1024) return "the limit was lowered";
  return "";
}

std::string check_errors(const std::function<int(const char*)>&) {
  auto device = cuda_driver().open("");
  if (!device) return device.error().text();
  const auto must_say = [](const auto& result, const std::string& text) -> std::string {
    if (result) return "no error where '" + text + "' was due";
    return result.error().text().find(text) != std::string::npos ? "" : result.error().text();
  };
  auto binary = vector_add_binary();
  binary.bytes = "nonsense";
  std::string wrong = must_say((*device)->load(binary), "ptxas says no");
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "CUDA_ERROR_INVALID_PTX");
  binary.bytes = "cubin";
  binary.workgroup_memory_bytes = 100 * 1024;
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "101376");
  binary.workgroup_memory_bytes = 0;
  binary.workgroup_size = 1024;
  if (wrong.empty()) wrong = must_say((*device)->load(binary), "512");
  if (wrong.empty()) wrong = must_say((*device)->allocate(1 << 21), "2097152");
  if (wrong.empty()) wrong = must_say(cuda_driver().open("three"), "cuda:1 (Fake GPU Two)");
  if (!wrong.empty()) return wrong;
  KernelBinary fault;
  fault.name = "fault";
  fault.kind = BinaryKind::cubin;
  fault.bytes = "cubin";
  auto kernel = (*device)->load(fault);
  if (!kernel) return kernel.error().text();
  const Dispatch dispatch{.kernel = kernel->get(), .workgroups = 1};
  return must_say((*device)->run({&dispatch, 1}, nullptr, nullptr), "kernel 'fault': CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(CudaDriverDeathTest, LaunchesWithTheRightArguments) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const std::string wrong = with_fake_driver(check_launches);
        std::fputs((wrong.empty() ? "all right" : wrong).c_str(), stderr);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^all right$");
}

TEST(CudaDriverDeathTest, NamesItsErrors) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const std::string wrong = with_fake_driver(check_errors);
        std::fputs((wrong.empty() ? "all right" : wrong).c_str(), stderr);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^all right$");
}

}  // namespace
}  // namespace aicf
