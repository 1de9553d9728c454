#include "backends/vulkan/assemble.h"

#include <fmt/format.h>
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <mutex>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>
#include <string_view>
#include <vector>

namespace aicf {
namespace {

constexpr spv_target_env kEnvironment = SPV_ENV_VULKAN_1_1;
constexpr int kVersion = 450;

using Words = std::vector<std::uint32_t>;

/// glslang's tables are made once and live until exit; compilation itself keeps its state per shader and thread.
void initialise_glslang() {
  static std::once_flag once;
  std::call_once(once, [] { glslang_initialize_process(); });
}

std::string_view line_of(const std::string& text, int number) {
  std::size_t start = 0;
  for (int i = 1; i < number && start != std::string::npos; ++i) {
    start = text.find('\n', start);
    if (start != std::string::npos) ++start;
  }
  if (start == std::string::npos || number < 1) return {};
  return std::string_view(text).substr(start, text.find('\n', start) - start);
}

/// The first "ERROR: 0:<line>: <message>" of a glslang log with its source line; the whole log where there is none.
Diagnostic compile_error(const std::string& glsl, const std::string& kernel_name, std::string log) {
  constexpr std::string_view kPrefix = "ERROR: 0:";
  Diagnostic error{ErrorKind::unsupported, std::move(log), fmt::format("GLSL of kernel '{}'", kernel_name)};
  const std::size_t at = error.message.find(kPrefix);
  if (at == std::string::npos) return error;
  const char* begin = error.message.data() + at + kPrefix.size();
  const char* end = error.message.data() + error.message.size();
  int line = 0;
  const auto [stop, status] = std::from_chars(begin, end, line);
  if (status != std::errc()) return error;
  std::string_view message(stop, end - stop);
  message = message.substr(0, message.find('\n'));
  if (message.starts_with(": ")) message.remove_prefix(2);
  error.place += fmt::format(":{}", line);
  error.message = fmt::format("{}, in: {}", message, line_of(glsl, line));
  return error;
}

Result<Words> compile(const std::string& glsl, const std::string& kernel_name) {
  initialise_glslang();
  glslang_input_t input{};
  input.language = GLSLANG_SOURCE_GLSL;
  input.stage = GLSLANG_STAGE_COMPUTE;
  input.client = GLSLANG_CLIENT_VULKAN;
  input.client_version = GLSLANG_TARGET_VULKAN_1_1;
  input.target_language = GLSLANG_TARGET_SPV;
  input.target_language_version = GLSLANG_TARGET_SPV_1_3;
  input.code = glsl.c_str();
  input.default_version = kVersion;
  input.default_profile = GLSLANG_NO_PROFILE;
  input.messages = static_cast<glslang_messages_t>(GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT);
  input.resource = glslang_default_resource();

  const std::unique_ptr<glslang_shader_t, void (*)(glslang_shader_t*)> shader(glslang_shader_create(&input),
                                                                              glslang_shader_delete);
  AICF_CHECK(shader, "glslang refused its input description");
  if (!glslang_shader_preprocess(shader.get(), &input) || !glslang_shader_parse(shader.get(), &input)) {
    return std::unexpected(compile_error(glsl, kernel_name, glslang_shader_get_info_log(shader.get())));
  }
  const std::unique_ptr<glslang_program_t, void (*)(glslang_program_t*)> program(glslang_program_create(),
                                                                                 glslang_program_delete);
  glslang_program_add_shader(program.get(), shader.get());
  if (!glslang_program_link(program.get(), input.messages)) {
    return std::unexpected(compile_error(glsl, kernel_name, glslang_program_get_info_log(program.get())));
  }
  glslang_spv_options_t options{};
  options.disable_optimizer = true;
  glslang_program_SPIRV_generate_with_options(program.get(), input.stage, &options);
  const std::size_t size = glslang_program_SPIRV_get_size(program.get());
  if (size == 0) {
    const char* why = glslang_program_SPIRV_get_messages(program.get());
    return unsupported(fmt::format("glslang made no SPIR-V: {}", why ? why : "no message"),
                       fmt::format("GLSL of kernel '{}'", kernel_name));
  }
  Words words(size);
  glslang_program_SPIRV_get(program.get(), words.data());
  return words;
}

/// Collects what SPIRV-Tools says.
class Messages {
 public:
  spvtools::MessageConsumer consumer() {
    return [this](spv_message_level_t level, const char*, const spv_position_t& position, const char* message) {
      if (level > SPV_MSG_ERROR) return;
      if (!text_.empty()) text_ += "; ";
      text_ += fmt::format("{} (word {})", message, position.index);
    };
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// SSA form without dead code: half the words to store, to hash and to parse. Every driver runs the rest of -O again on
/// its own representation; measured on lavapipe the full list takes twice the time of this one and changes neither JIT
/// time nor speed. No pass here computes with floats (see assemble.h).
Result<Words> optimise(const Words& module, const std::string& place) {
  Messages messages;
  spvtools::Optimizer optimizer(kEnvironment);
  optimizer.SetMessageConsumer(messages.consumer());
  optimizer.RegisterPass(spvtools::CreateEliminateDeadFunctionsPass())
      .RegisterPass(spvtools::CreateSSARewritePass())
      .RegisterPass(spvtools::CreateAggressiveDCEPass());
  spvtools::OptimizerOptions options;
  options.set_run_validator(false);  // done once, on the result
  Words optimised;
  if (!optimizer.Run(module.data(), module.size(), &optimised, options)) {
    return unsupported(fmt::format("spirv-opt failed: {}", messages.text()), place);
  }
  return optimised;
}

Result<void> validate(const Words& module, const std::string& place) {
  Messages messages;
  spvtools::SpirvTools tools(kEnvironment);
  tools.SetMessageConsumer(messages.consumer());
  if (!tools.Validate(module)) return unsupported(fmt::format("spirv-val: {}", messages.text()), place);
  return {};
}

}  // namespace

Result<std::string> assemble_glsl(const std::string& glsl, const std::string& kernel_name, std::string* log) {
  const std::string place = fmt::format("SPIR-V of kernel '{}'", kernel_name);
  AICF_TRY(const Words compiled, compile(glsl, kernel_name));
  AICF_TRY(const Words optimised, optimise(compiled, place));
  AICF_RETURN_IF_ERROR(validate(optimised, place));
  // No times: the log is kept in packages, which are the same for the same input.
  if (log) *log += fmt::format("glslang {} words; spirv-opt {} words\n", compiled.size(), optimised.size());
  return std::string(reinterpret_cast<const char*>(optimised.data()), optimised.size() * sizeof(std::uint32_t));
}

}  // namespace aicf
