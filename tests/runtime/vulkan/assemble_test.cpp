// GLSL → SPIR-V: errors with their place, float semantics of the optimizer, and threads.

#include "backends/vulkan/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace aicf {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPreserve =
    "#extension GL_EXT_spirv_intrinsics : require\n"
    "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);\n";

std::string kernel(const std::string& head, const std::string& body) {
  return "#version 450\n" + head +
         "layout(local_size_x = 8) in;\nlayout(set = 0, binding = 0) buffer A { float a[]; };\nvoid main() {\n" + body +
         "}\n";
}

/// How often each opcode occurs.
std::vector<int> opcodes(const std::string& bytes) {
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::vector<int> counts(65536, 0);
  for (std::size_t at = 5; at < words.size() && words[at] >> 16; at += words[at] >> 16) ++counts[words[at] & 0xffff];
  return counts;
}
constexpr int kOpVariable = 59, kOpFMul = 133, kOpExecutionMode = 16;

TEST(AssembleGlsl, MakesSpirv13InSsaForm) {
  std::string log;
  const auto made = assemble_glsl(kernel("", "  float x = a[0]; float y = x + 1.0; x = y * y; a[1] = x;\n"), "k", &log);
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_GE(made->size(), 20U);
  std::uint32_t header[2];
  std::memcpy(header, made->data(), 8);
  EXPECT_EQ(header[0], 0x07230203U);
  EXPECT_EQ(header[1], 0x00010300U);
  EXPECT_EQ(opcodes(*made)[kOpVariable], 1);  // the buffer; no local is left
  EXPECT_THAT(log, HasSubstr("spirv-opt"));
}

TEST(AssembleGlsl, KeepsFloatArithmeticAsWritten) {
  const std::string body = "  a[1] = (a[0] * 2.0) * 3.0;\n  a[2] = a[0] * 0.0;\n";
  for (const std::string head : {"", kPreserve}) {
    const auto made = assemble_glsl(kernel(head, body), "k", nullptr);
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(opcodes(*made)[kOpFMul], 3) << head;
    EXPECT_EQ(opcodes(*made)[kOpExecutionMode], head.empty() ? 1 : 2);
  }
}

TEST(AssembleGlsl, ErrorsNameKernelLineAndSource) {
  const auto made = assemble_glsl(kernel("", "  a[0] = 1.0;\n  a[1] = missing;\n"), "broken", nullptr);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().place, "GLSL of kernel 'broken':6");
  EXPECT_THAT(made.error().message, HasSubstr("'missing' : undeclared identifier"));
  EXPECT_THAT(made.error().message, HasSubstr("in:   a[1] = missing;"));
}

TEST(AssembleGlsl, ValidatesWhatTheFrontEndLetsPass) {
  // An execution mode whose capability the source forgets.
  const auto made = assemble_glsl(
      kernel("#extension GL_EXT_spirv_intrinsics : require\nspirv_execution_mode(4461, 32);\n", "  a[0] = 1.0;\n"), "k",
      nullptr);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("spirv-val"));
}

TEST(AssembleGlsl, IsThreadSafeAndRepeatable) {
  const std::string source = kernel(kPreserve, "  a[gl_LocalInvocationID.x] += exp(a[7]);\n");
  std::vector<std::string> made(8);
  {
    std::vector<std::jthread> threads;
    for (auto& result : made) {
      threads.emplace_back([&] { result = assemble_glsl(source, "k", nullptr).value_or("failed"); });
    }
  }
  ASSERT_GT(made[0].size(), 20U);
  for (const auto& result : made) EXPECT_EQ(result, made[0]);
}

}  // namespace
}  // namespace aicf
