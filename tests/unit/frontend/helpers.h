#pragma once

// Shared by the frontend tests: running a graph through the oracle, and tensors from lists.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "frontend/model.h"
#include "frontend/semantic/builder.h"
#include "mir/graph/oracle.h"

namespace aicf::test {

inline Tensor tensor(DType type, std::vector<std::int64_t> shape, const std::vector<double>& elements) {
  Tensor t(type, std::move(shape));
  EXPECT_EQ(t.size(), static_cast<std::int64_t>(elements.size()));
  for (std::size_t k = 0; k < elements.size(); ++k) t.set(static_cast<std::int64_t>(k), elements[k]);
  return t;
}

/// start, start + step, … in row-major order.
inline Tensor ramp(DType type, std::vector<std::int64_t> shape, double start, double step) {
  Tensor t(type, std::move(shape));
  for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, start + step * static_cast<double>(k));
  return t;
}

/// Imports, binds and evaluates; outputs by the model's own names. Failures are reported and give an empty map.
inline NamedTensors run(const SemanticGraph& graph, const NamedTensors& inputs, const ImportOptions& options = {}) {
  const auto model = canonicalise(graph, options);
  if (!model) {
    ADD_FAILURE() << model.error().text();
    return {};
  }
  const auto symbols = bind_symbols(*model, inputs);
  if (!symbols) {
    ADD_FAILURE() << symbols.error().text();
    return {};
  }
  const auto values = evaluate_graph(model->graph, model->constants, inputs, *symbols);
  if (!values) {
    ADD_FAILURE() << values.error().text();
    return {};
  }
  NamedTensors outputs;
  for (const auto& [output, node] : model->output_of) outputs[output] = values->at(node);
  return outputs;
}

inline std::vector<double> elements(const Tensor& t) {
  std::vector<double> result;
  for (std::int64_t k = 0; k < t.size(); ++k) result.push_back(t.at(k));
  return result;
}

inline void expect_near(const Tensor& t, std::vector<std::int64_t> shape, const std::vector<double>& wanted,
                        double tolerance = 1e-6) {
  EXPECT_EQ(t.shape(), shape);
  ASSERT_EQ(t.size(), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const double got = t.at(static_cast<std::int64_t>(k));
    if (std::isnan(wanted[k]))
      EXPECT_TRUE(std::isnan(got)) << "element " << k;
    else if (std::isinf(wanted[k]))
      EXPECT_EQ(got, wanted[k]) << "element " << k;
    else
      EXPECT_NEAR(got, wanted[k], tolerance) << "element " << k;
  }
}

/// The message of a failed import; empty when it succeeds.
inline std::string error_of(const SemanticGraph& graph, const ImportOptions& options = {}) {
  const auto model = canonicalise(graph, options);
  return model ? std::string() : model.error().text();
}

}  // namespace aicf::test
