#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "mir/kernel/thread_program.h"

namespace aicf::testing {

inline Kernel parsed(const std::string& text) {
  Result<Kernel> kernel = parse_kernel(text, "test");
  if (!kernel) {
    ADD_FAILURE() << kernel.error().text();
    return {};
  }
  return std::move(*kernel);
}

inline ThreadProgram expanded(const std::string& text) {
  Result<ThreadProgram> program = expand(parsed(text));
  if (!program) {
    ADD_FAILURE() << program.error().text();
    return {};
  }
  return std::move(*program);
}

/// Expands and interprets; the message of whatever fails, empty when all is well.
inline std::string run(const Kernel& kernel, InterpreterInput& io, KernelCounts* counts = nullptr) {
  const Result<ThreadProgram> program = expand(kernel);
  if (!program) return program.error().text();
  const Result<KernelCounts> result = interpret(*program, io);
  if (!result) return result.error().text() + "\n" + to_string(*program);
  if (counts) *counts = *result;
  return {};
}

inline std::vector<double> random_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
  std::vector<double> values(count);
  for (double& v : values) v = uniform(generator);
  return values;
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

inline void for_each_statement(const ThreadBody& body, const std::function<void(const ThreadStatement&)>& visit) {
  for (const ThreadStatement& s : body) {
    visit(s);
    for_each_statement(s.body, visit);
  }
}

inline int count(const ThreadProgram& program, ThreadStatement::Kind kind) {
  int n = 0;
  for_each_statement(program.body, [&](const ThreadStatement& s) { n += s.kind == kind; });
  return n;
}

/// Widest access of a kind.
inline std::size_t width(const ThreadProgram& program, ThreadStatement::Kind kind) {
  std::size_t n = 0;
  for_each_statement(program.body, [&](const ThreadStatement& s) {
    if (s.kind == kind) n = std::max({n, s.names.size(), s.exprs.size()});
  });
  return n;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in the kernel";
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

}  // namespace aicf::testing
