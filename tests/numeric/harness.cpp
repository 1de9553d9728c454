#include "tests/numeric/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "mir/graph/oracle.h"

namespace aicf::numeric {

namespace {

std::string models_folder() {
  return std::string(AICF_TESTS_DIR) + "/models/";
}

std::vector<CorpusCase> read_corpus() {
  std::ifstream in(models_folder() + "index.json");
  const nlohmann::json index = nlohmann::json::parse(in);
  std::vector<CorpusCase> out;
  for (const auto& j : index.at("cases")) {
    CorpusCase c;
    c.name = j.at("name");
    c.stage = j.at("stage");
    if (j.contains("needs")) c.needs = models_folder() + std::string(j.at("needs"));
    c.model = models_folder() + j.value("model", c.name + "/model.onnx");
    c.attention_sites = j.at("attention_sites");
    c.absolute = j.at("tolerance").at("abs");
    c.relative = j.at("tolerance").at("rel");
    c.emulation = j.at("emulation");
    c.dynamic = !j.at("dynamic_dims").empty();
    for (const auto& r : j.at("runs"))
      c.runs.push_back(
          {models_folder() + std::string(r.at("inputs")), models_folder() + std::string(r.at("expected"))});
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

void PrintTo(const CorpusCase& c, std::ostream* out) {
  *out << c.name;
}

const std::vector<CorpusCase>& corpus() {
  static const std::vector<CorpusCase> cases = read_corpus();
  return cases;
}

const CorpusCase& corpus_case(const std::string& name) {
  const auto it = std::ranges::find(corpus(), name, &CorpusCase::name);
  AICF_CHECK(it != corpus().end(), name);
  return *it;
}

std::string test_name(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
}

Result<Place> open_place(const std::string& id) {
  Place place{id, nullptr, {}};
  AICF_TRY(place.device, open_device(id));
  const DeviceInfo& info = place.device->info();
  AICF_TRY(place.target, target_of(id, info.driver, info.name, info.properties));
  return place;
}

bool binds_too_few(const CompiledModel& compiled) {
  return std::ranges::any_of(compiled.refusals, [](const Refusal& r) {
    return r.law == "capacity" && r.reason.find(" buffers, the most that ") != std::string::npos;
  });
}

NamedTensors named_outputs(const Model& model, const RunResult& run) {
  NamedTensors out;
  for (const auto& [output, node] : model.output_of) out[output] = run.outputs.at(node);
  return out;
}

Result<Outcome> run_model(Place& place, const Model& model, const NamedTensors& inputs, const Sizes& symbols,
                          const CompileOptions& options) {
  Outcome out;
  AICF_TRY(out.compiled, compile(model.graph, model.constants, place.target, options));
  AICF_TRY(auto executor, Executor::create(*place.device, out.compiled.program));
  AICF_TRY(out.run, executor->run(inputs, symbols));
  out.outputs = named_outputs(model, out.run);
  return out;
}

Result<NamedTensors> reference(const Model& model, const NamedTensors& inputs, const Sizes& symbols) {
  AICF_TRY(NamedTensors values, evaluate_graph(model.graph, model.constants, inputs, symbols));
  NamedTensors out;
  for (const auto& [output, node] : model.output_of) out[output] = values.at(node);
  return out;
}

namespace {

/// `bad(error, expected element, largest finite expected)`: 0 where an element is right, else how wrong.
template <class Bad>
::testing::AssertionResult compare(const NamedTensors& actual, const NamedTensors& expected, const Bad& bad) {
  for (const auto& [name, e] : expected) {
    const auto it = actual.find(name);
    if (it == actual.end()) return ::testing::AssertionFailure() << "no output '" << name << "'";
    const Tensor& a = it->second;
    if (a.shape() != e.shape())
      return ::testing::AssertionFailure() << fmt::format("'{}' has the shape [{}] instead of [{}]", name,
                                                          fmt::join(a.shape(), ", "), fmt::join(e.shape(), ", "));
    double largest = 0, most = 0;
    for (std::int64_t i = 0; i < e.size(); ++i)
      if (std::isfinite(e.at(i))) largest = std::max(largest, std::fabs(e.at(i)));
    std::int64_t worst = -1;
    for (std::int64_t i = 0; i < e.size(); ++i) {
      const double x = a.at(i), y = e.at(i);
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      if (!std::isfinite(x) || !std::isfinite(y))
        return ::testing::AssertionFailure() << fmt::format("'{}'[{}] is {} instead of {}", name, i, x, y);
      if (const double b = bad(std::fabs(x - y), y, largest); b > most) most = b, worst = i;
    }
    if (worst >= 0)
      return ::testing::AssertionFailure()
             << fmt::format("'{}'[{}] is {} instead of {}: error {:.3g}, largest expected {:.3g}", name, worst,
                            a.at(worst), e.at(worst), std::fabs(a.at(worst) - e.at(worst)), largest);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace

::testing::AssertionResult within(const NamedTensors& actual, const NamedTensors& expected, double absolute,
                                  double relative) {
  return compare(actual, expected, [&](double error, double, double largest) {
    return error > absolute && error > relative * largest ? error : 0;
  });
}

::testing::AssertionResult close(const NamedTensors& actual, const NamedTensors& expected, double absolute,
                                 double relative) {
  return compare(actual, expected, [&](double error, double right, double) {
    const double allowed = absolute + relative * std::fabs(right);
    return error > allowed ? error / allowed : 0;
  });
}

::testing::AssertionResult same_bits(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " tensors and " << b.size();
  for (const auto& [name, x] : a) {
    const auto it = b.find(name);
    if (it == b.end()) return ::testing::AssertionFailure() << "no tensor '" << name << "'";
    const Tensor& y = it->second;
    if (x.type() != y.type() || x.shape() != y.shape())
      return ::testing::AssertionFailure() << "'" << name << "' differs in type or shape";
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double p = x.at(i), q = y.at(i);
      if (std::isnan(p) && std::isnan(q)) continue;
      if (p != q || std::signbit(p) != std::signbit(q))
        return ::testing::AssertionFailure() << fmt::format("'{}'[{}] is {} and {}", name, i, p, q);
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace aicf::numeric
