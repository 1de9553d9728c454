#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/graph/oracle.h"

namespace aicf::test {

inline Graph graph_of(std::string_view text) {
  auto graph = parse_graph(text, "test");
  if (!graph) ADD_FAILURE() << graph.error().text();
  return graph ? std::move(*graph) : Graph();
}

inline Tensor tensor(DType type, std::vector<std::int64_t> shape, const std::vector<double>& values) {
  Tensor t(type, std::move(shape));
  EXPECT_EQ(t.size(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}

inline std::vector<double> values(const Tensor& t) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < t.size(); ++i) result.push_back(t.at(i));
  return result;
}

using Symbols = std::map<std::string, std::int64_t>;

/// The one output of the graph in `text`.
inline std::vector<double> run(std::string_view text, const NamedTensors& inputs, const Symbols& symbols = {},
                               const std::vector<Tensor>& constants = {}) {
  const Graph graph = graph_of(text);
  auto results = evaluate_graph(graph, constants, inputs, symbols);
  if (!results || results->size() != 1) {
    ADD_FAILURE() << (results ? "not one output" : results.error().text());
    return {};
  }
  return values(results->begin()->second);
}

/// A fixed sequence of numbers in [-1, 1) with short mantissas.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  std::uint64_t bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return state_ >> 33;
  }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
  double real() { return static_cast<double>(below(2048) - 1024) / 1024; }
  std::vector<double> reals(std::int64_t n) {
    std::vector<double> result;
    for (std::int64_t i = 0; i < n; ++i) result.push_back(real());
    return result;
  }

 private:
  std::uint64_t state_;
};

}  // namespace aicf::test
