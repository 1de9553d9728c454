#pragma once

// Semantic graphs in code, for tests and tools:
//
//     GraphBuilder g("attention");
//     const auto q = g.input("Q", DType::f32, {"batch", "q", 64}), k = …;
//     const auto scores = g.add("MatMul", {q, g.add("Transpose", {k}, {{"perm", {0, 2, 1}}})});
//     g.output(g.add("MatMul", {g.add("Softmax", {scores}, {{"axis", -1}}), v}), "out");
//     Result<Model> model = canonicalise(g.build());

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "frontend/model.h"
#include "frontend/semantic/op_table.h"

namespace aicf {

/// A size: a number, or the name of a symbol.
struct Size {
  Size(int number) : value(number) {}                        // NOLINT
  Size(std::int64_t number) : value(number) {}               // NOLINT
  Size(const char* symbol) : value(Expr::symbol(symbol)) {}  // NOLINT
  Size(Expr e) : value(std::move(e)) {}                      // NOLINT
  Expr value;
};

/// An attribute by name; the constructors say the kinds.
struct NamedAttribute {
  NamedAttribute(std::string n, int i) : NamedAttribute(std::move(n), static_cast<std::int64_t>(i)) {}
  NamedAttribute(std::string n, std::int64_t i);
  NamedAttribute(std::string n, double f);
  NamedAttribute(std::string n, const char* s);
  NamedAttribute(std::string n, std::initializer_list<int> is);
  NamedAttribute(std::string n, std::vector<std::int64_t> is);
  NamedAttribute(std::string n, Tensor t);
  std::string name;
  Attribute value;
};

/// Names are tensor names of the graph. Nothing is checked here; canonicalise() checks all.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, int opset = default_opset);

  std::string input(const std::string& name, DType type, const std::vector<Size>& shape);
  std::string constant(const std::string& name, Tensor value);
  /// A constant of the given elements; rank 0 when `shape` is empty.
  std::string constant(DType type, std::vector<std::int64_t> shape, const std::vector<double>& elements);
  std::string scalar(DType type, double value) { return constant(type, {}, {value}); }
  std::string integers(const std::vector<std::int64_t>& values);
  /// One operation with one result. "" among the inputs is an absent one.
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  const std::vector<NamedAttribute>& attributes = {});
  /// … with results under the given names; the first one is the node's name too.
  void add(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
           const std::vector<NamedAttribute>& attributes);
  /// … with several results.
  std::vector<std::string> add_many(const std::string& op, std::vector<std::string> inputs, int outputs,
                                    const std::vector<NamedAttribute>& attributes = {});
  /// Makes `tensor` an output; under another name when one is given.
  void output(const std::string& tensor, const std::string& name = {});
  SemanticGraph build() const { return graph_; }

 private:
  std::string fresh(const std::string& base);
  SemanticGraph graph_;
  int count_ = 0;
};

}  // namespace aicf
