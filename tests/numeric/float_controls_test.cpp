// What the SPIR-V of graphs that live on infinities and NaN says about them: the execution mode that keeps both in every
// kernel where the device has it, and nothing that lets a driver assume them away.

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

// Numbers of the SPIR-V specification.
constexpr std::uint32_t op_execution_mode = 16, op_decorate = 71, op_type_float = 22, op_type_vector = 23;
constexpr std::uint32_t denorm_flush_to_zero = 4460, signed_zero_inf_nan_preserve = 4461;
constexpr std::uint32_t relaxed_precision = 0, fp_fast_math_mode = 40;

struct Seen {
  std::set<std::uint32_t> kept_widths, flushed_widths, float_widths;
  bool fast_math = false;  ///< some result may assume that there are no infinities or NaN
  bool relaxed = false;    ///< a float result may be of less precision (integers may: glslang says so of lane numbers)
};

Seen look(std::string_view module) {
  std::vector<std::uint32_t> words(module.size() / 4);
  std::memcpy(words.data(), module.data(), words.size() * 4);
  Seen out;
  std::set<std::uint32_t> relaxed, floats;
  for (std::size_t at = 5; at < words.size(); at += std::max(1U, words[at] >> 16)) {
    const std::uint32_t op = words[at] & 0xffff, length = words[at] >> 16;
    if (op == op_execution_mode && words[at + 2] == signed_zero_inf_nan_preserve) out.kept_widths.insert(words[at + 3]);
    if (op == op_execution_mode && words[at + 2] == denorm_flush_to_zero) out.flushed_widths.insert(words[at + 3]);
    if (op == op_decorate && words[at + 2] == relaxed_precision) relaxed.insert(words[at + 1]);
    out.fast_math |= op == op_decorate && words[at + 2] == fp_fast_math_mode;
    if (op == op_type_float) floats.insert(words[at + 1]), out.float_widths.insert(words[at + 2]);
    if (op == op_type_vector && floats.contains(words[at + 2])) floats.insert(words[at + 1]);
    out.relaxed |= length > 2 && floats.contains(words[at + 1]) && relaxed.contains(words[at + 2]);
  }
  return out;
}

std::vector<std::string> folders() {
  std::ifstream in(std::string(AICF_TESTS_DIR) + "/models/faults/index.json");
  const auto index = nlohmann::json::parse(in);
  std::vector<std::string> out;
  for (const auto& c : index.at("cases"))
    for (const char* wanted : {"N01", "N06", "L08"})
      if (c.at("case") == wanted) out.push_back(c.at("name"));
  out.emplace_back("N03-65504-add");  // of f16
  return out;
}

TEST(FloatControls, KeepInfinitiesAndNaN) {
  int kernels = 0;
  for (const std::string& folder : folders()) {
    SCOPED_TRACE(folder);
    NUMERIC_TRY(const Model model,
                load_model(std::string(AICF_TESTS_DIR) + "/models/faults/" + folder + "/model.onnx"));
    for (const bool has_mode : {true, false}) {
      if (!has_mode && kernels > 4) continue;
      NUMERIC_TRY(Target target, find_target("lavapipe"));
      target.model.features["signed_zero_inf_nan_preserve_f32"] = has_mode;
      NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, {}));
      for (const KernelBinary& k : compiled.program.kernels) {
        const Seen seen = look(k.bytes);
        ++kernels;
        EXPECT_EQ(seen.kept_widths, has_mode ? std::set<std::uint32_t>{32} : std::set<std::uint32_t>{}) << k.name;
        EXPECT_TRUE(seen.flushed_widths.empty()) << k.name;
        EXPECT_FALSE(seen.relaxed) << k.name;
        EXPECT_FALSE(seen.fast_math) << k.name;
        // All arithmetic is of 32 bits, so the mode of that width is all there is to say.
        EXPECT_EQ(seen.float_widths, std::set<std::uint32_t>{32}) << k.name;
      }
    }
  }
  EXPECT_GE(kernels, 20);
}

}  // namespace
}  // namespace aicf::numeric
