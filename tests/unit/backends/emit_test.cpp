#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/assemble.h"
#include "backends/cuda/emit.h"
#include "backends/vulkan/emit.h"
#include "mir/kernel/print_source.h"
#include "runtime/cuda_emulation/driver.h"
#include "runtime/vulkan/driver.h"
#include "tests/unit/backends/emit_cases.h"
#include "tests/unit/backends/program_runner.h"
#include "tests/unit/kernel/sample_kernels.h"
#include "tests/unit/kernel/thread_builder.h"

namespace aicf {
namespace {

using ::testing::HasSubstr;
using namespace testing_devices;
using emit_cases::Case;

void compare(const Case& c, const std::string& buffer, const std::vector<double>& actual,
             const std::vector<double>& expected, const std::string& source) {
  ASSERT_EQ(actual.size(), expected.size());
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size() && wrong < 8; ++i) {
    const double a = actual[i], e = expected[i];
    const bool same = std::isnan(e) ? std::isnan(a)
                      : c.relative == 0 && c.absolute == 0
                          ? a == e && std::signbit(a) == std::signbit(e)
                          : a == e || std::fabs(a - e) <= c.relative * std::fabs(e) + c.absolute;
    if (same) continue;
    ++wrong;
    ADD_FAILURE() << c.name << ": " << buffer << "[" << i << "] is " << a << ", not " << e;
  }
  if (wrong) ADD_FAILURE() << source;
}

InterpreterInput interpreted(const Case& c, const ThreadProgram& program) {
  InterpreterInput io{c.buffers, c.symbols};
  for (const KernelBuffer& b : program.buffers) {
    if (!b.written || io.buffers.contains(b.name)) continue;
    std::int64_t elements = 1;
    for (const Expr& dim : b.shape) elements *= *evaluate_int(dim, c.symbols);
    io.buffers[b.name].assign(static_cast<std::size_t>(elements), 0.0);
  }
  InterpreterInput result = io;
  const auto counts = interpret(program, result);
  EXPECT_TRUE(counts.has_value()) << c.name << ": " << counts.error().text();
  return result;
}

void check(const Case& c, const ThreadProgram& program, Device& device, const KernelBinary& binary) {
  const InterpreterInput expected = interpreted(c, program);
  InterpreterInput io{c.buffers, c.symbols};
  const auto ran = run_on(device, binary, program, io);
  ASSERT_TRUE(ran.has_value()) << c.name << ": " << ran.error().text() << "\n" << binary.source;
  for (const KernelBuffer& b : program.buffers) {
    if (b.written) compare(c, b.name, io.buffers.at(b.name), expected.buffers.at(b.name), binary.source);
  }
}

std::unique_ptr<Device> vulkan_device() {
  auto device = open_vulkan("llvmpipe", {});
  return device ? std::move(*device) : nullptr;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class EmitCase : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, EmitCase, ::testing::ValuesIn(emit_cases::all()), case_name);

TEST_P(EmitCase, VulkanEqualsInterpreter) {
  const auto device = vulkan_device();
  if (!device) GTEST_SKIP() << "no software Vulkan device";
  const auto& properties = device->info().properties;
  const auto has = [&](const char* property) { return properties.contains(property) && properties.at(property) != 0; };
  const int size = static_cast<int>(properties.at("subgroup_size"));
  const ThreadProgram program = GetParam().program(size, 32 / size);
  for (const bool wide : {false, true}) {
    for (const bool narrow : {false, true}) {
      if ((wide && !has("shader_i64")) || (narrow && !has("storage_16bit"))) continue;
      GlslOptions options{.wide_loads_u64 = wide, .storage_16bit = narrow};
      options.signed_zero_inf_nan_preserve = has("signed_zero_inf_nan_preserve_f32");
      const auto binary = vulkan_binary(program, options);
      ASSERT_TRUE(binary.has_value()) << binary.error().text() << "\n" << emit_glsl(program, options);
      check(GetParam(), program, *device, *binary);
      if (HasFailure()) return;
    }
  }
}

// Where the driver's subgroups are larger than the program's, several of the program's share one.
TEST(EmitSubgroups, ProgramSubgroupsInsideLargerOnes) {
  const auto device = vulkan_device();
  if (!device) GTEST_SKIP() << "no software Vulkan device";
  const int size = static_cast<int>(device->info().properties.at("subgroup_size"));
  if (size < 8) GTEST_SKIP() << "nothing to split";
  const auto c = std::find_if(emit_cases::all().begin(), emit_cases::all().end(),
                              [](const Case& x) { return x.name == "shuffles"; });
  const ThreadProgram program = c->program(4, 8);
  const auto binary = vulkan_binary(program, {.signed_zero_inf_nan_preserve = true, .device_subgroup_size = size});
  ASSERT_TRUE(binary.has_value()) << binary.error().text();
  check(*c, program, *device, *binary);
}

// The driver folds what one dimension of a grid does not hold.
TEST(EmitGrid, LinearWorkgroupsSurviveFolding) {
  VulkanOptions limits;
  limits.max_workgroups_per_dimension = 3;
  auto device = open_vulkan("llvmpipe", limits);
  if (!device) GTEST_SKIP() << "no software Vulkan device";
  const int threads = static_cast<int>((*device)->info().properties.at("subgroup_size"));
  Case c;
  c.name = "grid";
  c.symbols = {{"n", 23}};
  ThreadProgram program = thread_builder::program(
      threads, 1, Expr::symbol("n"), {thread_builder::writes("O", {Expr::symbol("n"), threads}, DType::i32)},
      {thread_builder::store("O", Expr::symbol("workgroup") * threads + Expr::symbol("lane"),
                             {Expr::symbol("workgroup") * 100 + Expr::symbol("lane")})});
  program.symbols = {"n"};
  const auto binary = vulkan_binary(program, {});
  ASSERT_TRUE(binary.has_value()) << binary.error().text();
  check(c, program, **device, *binary);
}

TEST_P(EmitCase, GlslAssemblesWithoutFeatures) {
  const ThreadProgram program = GetParam().program(8, 4);
  const auto binary = vulkan_binary(program, {});
  ASSERT_TRUE(binary.has_value()) << binary.error().text() << "\n" << emit_glsl(program);
}

TEST_P(EmitCase, CudaAssembles) {
  const ThreadProgram program = GetParam().program(32, 1);
  const std::string source = emit_cuda(program);
  const auto binary = assemble_cuda(source, program.name, "sm_80");
  if (!binary && binary.error().kind == ErrorKind::unsupported) GTEST_SKIP() << binary.error().text();
  ASSERT_TRUE(binary.has_value()) << binary.error().text() << "\n" << source;
}

TEST_P(EmitCase, CudaEmulationEqualsInterpreter) {
  const auto device = open_cuda_emulation("", {});
  if (!device) GTEST_SKIP() << device.error().text();
  for (const int size : {32, 8}) {
    const ThreadProgram program = GetParam().program(size, 32 / size);
    check(GetParam(), program, **device, emulation_binary(program));
    if (HasFailure() || !uses_subgroups(program)) return;
  }
}

// ---- whole kernels -------------------------------------------------------------------------------------------

struct KernelCase {
  const char* name;
  const char* text;
  std::map<std::string, std::int64_t> symbols;
};
void PrintTo(const KernelCase& c, std::ostream* out) {
  *out << c.name;
}

/// A kernel's program with buffers of pseudo-random values in [-1, 1].
Case kernel_case(const KernelCase& k) {
  Case c;
  c.name = k.name;
  c.symbols = k.symbols;
  c.relative = c.absolute = 1e-5;
  auto kernel = parse_kernel(k.text);
  EXPECT_TRUE(kernel.has_value()) << kernel.error().text();
  auto program = expand(*kernel);
  EXPECT_TRUE(program.has_value()) << program.error().text();
  c.program = [program = *program](int, int) { return program; };
  std::uint32_t state = 1;
  for (const KernelBuffer& b : program->buffers) {
    if (b.written) continue;
    std::int64_t elements = 1;
    for (const Expr& dim : b.shape) elements *= *evaluate_int(dim, c.symbols);
    for (std::int64_t i = 0; i < elements; ++i) {
      state = state * 1664525u + 1013904223u;
      c.buffers[b.name].push_back(round_to(b.type, static_cast<std::int32_t>(state) * 0x1p-31));
    }
  }
  return c;
}

class EmitKernel : public ::testing::TestWithParam<KernelCase> {};
INSTANTIATE_TEST_SUITE_P(
    Samples, EmitKernel,
    ::testing::Values(KernelCase{"elementwise", aicf::testing::elementwise, {{"n", 200}}},
                      KernelCase{"softmax", aicf::testing::softmax, {{"rows", 5}, {"cols", 37}}},
                      KernelCase{"matmul", aicf::testing::broadcast_matmul, {{"M", 21}, {"N", 9}, {"K", 19}}},
                      KernelCase{"staged", aicf::testing::staged_matmul, {{"M", 70}}},
                      KernelCase{"attention", aicf::testing::attention, {{"n", 37}}}),
    [](const auto& info) { return info.param.name; });

TEST_P(EmitKernel, VulkanEqualsInterpreter) {
  const auto device = vulkan_device();
  if (!device) GTEST_SKIP() << "no software Vulkan device";
  const Case c = kernel_case(GetParam());
  const ThreadProgram program = c.program(0, 0);
  if (program.subgroup_size != device->info().properties.at("subgroup_size")) GTEST_SKIP() << "another subgroup size";
  for (const bool wide : {false, true}) {
    const auto binary = vulkan_binary(program, {.wide_loads_u64 = wide, .signed_zero_inf_nan_preserve = true});
    ASSERT_TRUE(binary.has_value()) << binary.error().text();
    check(c, program, *device, *binary);
  }
}

TEST_P(EmitKernel, CudaEmulationEqualsInterpreter) {
  const auto device = open_cuda_emulation("", {});
  if (!device) GTEST_SKIP() << device.error().text();
  const Case c = kernel_case(GetParam());
  const ThreadProgram program = c.program(0, 0);
  check(c, program, **device, emulation_binary(program));
}

// ---- text ----------------------------------------------------------------------------------------------------

using namespace thread_builder;

ThreadProgram printed(ThreadBody body) {
  ThreadProgram p = program(8, 1, Expr::symbol("n"),
                            {reads("X", {Expr::symbol("n"), 8}), writes("Y", {Expr::symbol("n"), 8})}, std::move(body));
  p.name = "sample";
  p.symbols = {"n"};
  return p;
}

TEST(EmitText, GlslIsReadable) {
  const Expr at = workgroup() * 8 + lane();
  const std::string glsl = emit_glsl(printed({
      declare("m", c(-std::numeric_limits<double>::infinity())),
      declare(DType::f32, {"x", "y"}),
      comment("score"),
      loop("kv", 0, Expr::symbol("n"), 1,
           {load("X", Expr::symbol("kv") * 8 + lane(), {"x"}), assign("m", Expr::binary(Op::maxnum, f("m"), f("x")))}),
      assign("m", f("m") * c(0.5)),
      store("Y", at, {f("m") - (f("x") - c(1))}),
  }));
  EXPECT_EQ(glsl, R"(#version 450
#extension GL_EXT_spirv_intrinsics : require

// sample: 8 threads (1 x 8) a workgroup, n workgroups
//   reads X: f32[n, 8]
//   writes Y: f32[n, 8]

layout(local_size_x = 8) in;
layout(std430, set = 0, binding = 0) restrict readonly buffer aicf_X { float X[]; };
layout(std430, set = 0, binding = 1) writeonly buffer aicf_Y { float Y[]; };
layout(push_constant) uniform aicf_parameters { int n; int workgroup_count; };
#define aicf_inf uintBitsToFloat(0x7f800000u)
spirv_instruction(set = "GLSL.std.450", id = 80) float aicf_maxnum(float a, float b);

void main() {
  // A large grid is folded into three dimensions; what is left over of the last one returns, as a whole workgroup.
  const int workgroup = int(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z));
  if (workgroup >= workgroup_count) return;
  const int lane = int(gl_LocalInvocationIndex);
  float m = -aicf_inf;
  float x, y;
  // score
  for (int kv = 0; kv < n; ++kv) {
    x = X[kv * 8 + lane];
    m = aicf_maxnum(m, x);
  }
  m *= 0.5;
  Y[workgroup * 8 + lane] = m - (x - 1.0);
}
)");
}

TEST(EmitText, CudaIsReadable) {
  ThreadProgram p = printed({declare(DType::f32, {"a", "b"}),
                             load("X", workgroup() * 8 + lane() * 2, {"a", "b"}, less(lane(), 4), c(0)),
                             shuffle_xor("other", f("a"), 4),
                             store("Y", workgroup() * 8 + lane() * 2, {f("a") + f("other"), f("b")}, less(lane(), 4))});
  p.subgroup_size = 32;
  EXPECT_EQ(emit_cuda(p), R"(// sample: 32 threads (1 x 32) a workgroup, n workgroups
//   reads X: f32[n, 8]
//   writes Y: f32[n, 8]

extern "C" __global__ void AICF_LAUNCH_BOUNDS(32, 1)
sample(const float* __restrict__ X, float* __restrict__ Y, int n, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  const int lane = aicf_lane();
  float a, b;
  a = b = 0.0f;
  if (lane < 4) {
    aicf_ld_global2(X, workgroup * 8 + lane * 2, a, b);
  }
  float other = aicf_shuffle_xor(a, 4);
  if (lane < 4) {
    aicf_st_global2(Y, workgroup * 8 + lane * 2, a + other, b);
  }
}
)");
}

TEST(EmitText, LoadsWithOnePredicateShareABranch) {
  const Expr inside = less(lane(), Expr::symbol("n"));
  const std::string glsl = emit_glsl(printed({declare(DType::f32, {"a", "b"}), load("X", lane(), {"a"}, inside, c(0)),
                                              load("X", lane() + 8, {"b"}, less(lane(), Expr::symbol("n")), c(1))}));
  EXPECT_THAT(glsl,
              HasSubstr("  a = 0.0;\n  b = 1.0;\n  if (lane < n) {\n    a = X[lane];\n    b = X[lane + 8];\n  }\n"));
}

TEST(EmitText, LoadsThatDependOnEachOtherDoNot) {
  const Expr inside = less(lane(), 4);
  const std::string glsl =
      emit_glsl(printed({declare(DType::f32, {"a", "b"}), load("X", lane(), {"a"}, inside, c(0)),
                         load("X", lane() + Expr::cast(f("a"), DType::i64), {"b"}, inside, f("a"))}));
  EXPECT_THAT(glsl, HasSubstr("  }\n  b = a;\n  if (lane < 4) {\n"));
}

TEST(EmitText, DivisionsOfWhatCannotBeNegativeArePlain) {
  const std::string glsl =
      emit_glsl(printed({loop("j", 0, 6, 1,
                              {declare("row", floordiv(workgroup() * 6 + Expr::symbol("j"), 3)),
                               declare("part", mod(i("row"), 5)), declare("back", mod(i("part") - 7, 5))})}));
  EXPECT_THAT(glsl, HasSubstr("/ 3;"));
  EXPECT_THAT(glsl, HasSubstr("int part = row % 5;"));
  EXPECT_THAT(emit_glsl(printed({loop("j", Expr(-3), 3, 1, {declare("row", floordiv(Expr::symbol("j"), 3))})})),
              HasSubstr("int row = aicf_floordiv_int(j, 3);"));
  EXPECT_THAT(glsl, HasSubstr("int back = aicf_floormod_int(part - 7, 5);"));
}

TEST(EmitText, IntegersBeyond32BitsAreRefusedByName) {
  const auto possible = can_emit(printed({declare("x", Expr::symbol("n") + Expr(std::int64_t{1} << 40))}));
  ASSERT_FALSE(possible.has_value());
  EXPECT_EQ(possible.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(possible.error().text(), HasSubstr("the constant 1099511627776 does not fit"));
}

}  // namespace
}  // namespace aicf
