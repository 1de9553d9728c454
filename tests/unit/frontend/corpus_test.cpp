// Real exporters' files against expected values from float64 runs of the frameworks.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "helpers.h"

namespace aicf {
namespace {

const std::string folder = AICF_TESTS_DIR "/models/";

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

struct Case {
  std::string name, model, inputs, expected, needs;
  double abs, rel;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " " << c.inputs;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  const nlohmann::json index = read_json(folder + "index.json");
  for (const auto& c : index["cases"]) {
    for (const auto& r : c["runs"]) {
      result.push_back({c["name"], c.value("model", std::string(c["name"]) + "/model.onnx"), r["inputs"], r["expected"],
                        c.value("needs", ""), c["tolerance"]["abs"], c["tolerance"]["rel"]});
    }
  }
  return result;
}

class Corpus : public ::testing::TestWithParam<Case> {};

TEST_P(Corpus, OracleGivesTheExpectedValues) {
  const Case& c = GetParam();
  if (!c.needs.empty() && !std::filesystem::exists(folder + c.needs)) GTEST_SKIP() << c.needs << " is not here";
  const auto model = load_model(folder + c.model);
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto sound = verify(model->graph);
  ASSERT_TRUE(sound.has_value()) << sound.error().text();
  const auto inputs = read_tensors(folder + c.inputs);
  ASSERT_TRUE(inputs.has_value()) << inputs.error().text();
  const auto expected = read_tensors(folder + c.expected);
  ASSERT_TRUE(expected.has_value()) << expected.error().text();
  const auto symbols = bind_symbols(*model, *inputs);
  ASSERT_TRUE(symbols.has_value()) << symbols.error().text();
  const auto values = evaluate_graph(model->graph, model->constants, *inputs, *symbols);
  ASSERT_TRUE(values.has_value()) << values.error().text();
  ASSERT_FALSE(expected->empty());
  for (const auto& [name, wanted] : *expected) {
    ASSERT_TRUE(model->output_of.contains(name)) << name;
    const Tensor& got = values->at(model->output_of.at(name));
    ASSERT_EQ(got.shape(), wanted.shape()) << name;
    double error = 0, largest = 0;
    for (std::int64_t k = 0; k < wanted.size(); ++k) {
      const double w = wanted.at(k), g = got.at(k);
      ASSERT_EQ(std::isnan(w), std::isnan(g)) << name << " element " << k;
      if (std::isnan(w)) continue;
      if (std::isinf(w)) {
        ASSERT_EQ(w, g) << name << " element " << k;
        continue;
      }
      error = std::max(error, std::abs(w - g));
      largest = std::max(largest, std::abs(w));
    }
    EXPECT_TRUE(error <= c.abs || error <= c.rel * largest) << name << ": error " << error << " of " << largest;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Corpus, ::testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name + "_" + std::filesystem::path(info.param.inputs).stem().string();
  for (char& ch : name) ch = std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
  return name + "_" + std::to_string(info.index);
});

TEST(CorpusForm, MasksByIndexBecomeIndexExpressions) {
  const auto model = load_model(folder + "attn-causal-dynamic-ts17/model.onnx");
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const std::string text = to_string(model->graph);
  EXPECT_THAT(text, ::testing::HasSubstr("where(i2 < i3, -inf, 0.0)"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("constant")));
}

}  // namespace
}  // namespace aicf
