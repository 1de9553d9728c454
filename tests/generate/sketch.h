#pragma once

// A graph under construction whose shapes are known: what random families are written with.

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "frontend/semantic/builder.h"
#include "tests/generate/generate.h"
#include "tests/numeric/form_data.h"

namespace aicf::generate {

/// The size of a dimension in the run, and the symbol that stands for it in the graph ("?": one that has no name).
struct Dim {
  std::int64_t size = 1;
  std::string symbol = {};
};

struct Value {
  std::string name;
  std::vector<Dim> dims;
  DType type = DType::f32;

  int rank() const { return static_cast<int>(dims.size()); }
  const Dim& dim(int axis) const { return dims[static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)]; }
};

class Sketch {
 public:
  Sketch(std::string name, std::uint64_t seed, std::uint64_t index);

  // ---- chance ----
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <class T>
  T any(std::initializer_list<T> list) {
    return *(list.begin() + pick(static_cast<int>(list.size())));
  }
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }
  double real(double low, double high);
  /// 1, primes, the neighbours of tile sizes; at most `most`.
  std::int64_t size(std::int64_t most);

  // ---- leaves ----
  Value input(const std::string& name, std::vector<Dim> dims, numeric::Data data, DType type = DType::f32);
  /// Integers in [low, high).
  Value indices(const std::string& name, std::vector<Dim> dims, std::int64_t low, std::int64_t high,
                DType type = DType::i64);
  Value constant(double value, DType type = DType::f32);
  Value constant(std::vector<std::int64_t> shape, const std::vector<double>& values, DType type = DType::f32);
  /// 0, 1, … along `axis` of `like`, of rank 1: Range over its size, or a constant.
  Value positions(const Value& like, int axis, DType type = DType::i64);

  // ---- operations ----
  Value unary(const std::string& op, const Value& x);
  Value binary(const std::string& op, const Value& a, const Value& b);  ///< comparisons give booleans
  Value where(const Value& condition, const Value& a, const Value& b);
  Value cast(const Value& x, DType type);
  Value matmul(const Value& a, const Value& b);
  Value transpose(const Value& x, const std::vector<int>& perm);
  Value swap_last(const Value& x);
  /// Dims whose symbol stands at the same place are copied (0), at most one other symbolic one is left open (-1).
  Value reshape(const Value& x, std::vector<Dim> dims);
  Value unsqueeze(const Value& x, int axis);
  Value expand(const Value& x, int axis, std::int64_t size);
  Value slice(const Value& x, int axis, std::int64_t begin, std::int64_t end);  ///< as ONNX: negative from the end
  Value concat(const std::vector<Value>& parts, int axis);
  Value gather(const Value& x, const Value& indices, int axis);
  Value reduce(const std::string& op, const Value& x, std::vector<int> axes, bool keep);
  Value softmax(const Value& x, int axis, const char* op = "Softmax");
  Value custom(const std::string& op, const std::vector<Value>& inputs, std::vector<Dim> dims,
               const std::vector<NamedAttribute>& attributes = {}, DType type = DType::f32);

  void output(const Value& x);
  void site(const Value& weights, const Value& product) { made_.sites.emplace_back(weights.name, product.name); }
  void leaves_keys_out() { made_.index_mask = true; }
  void note(const std::string& text) { made_.data += made_.data.empty() ? text : ", " + text; }
  Generated finish(Family family);

 private:
  std::vector<Dim> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) const;
  GraphBuilder builder_;
  std::mt19937_64 random_;
  Generated made_;
  std::vector<std::string> outputs_;
};

Generated attention_like(std::uint64_t seed, std::uint64_t index, bool twisted);
Generated reductions(std::uint64_t seed, std::uint64_t index, bool twisted);

}  // namespace aicf::generate
