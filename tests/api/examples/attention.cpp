// A graph built in code, compiled once with symbolic sizes, and run several times: keys and values are written once and stay
// on the device, queries change. Each result is compared with loops in double.
//
//     attention_cpp [DEVICE]

#include <aicf/aicf.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

/// The value of a result; an error ends the program.
template <class T>
T take(aicf::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "attention: %s\n", result.error().text().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

constexpr std::int64_t heads = 2, width = 32;

aicf::Result<aicf::Model> build() {
  aicf::GraphBuilder g("attention");
  const auto q = g.input("Q", aicf::DType::f32, {heads, "q", width});
  const auto k = g.input("K", aicf::DType::f32, {heads, "kv", width});
  const auto v = g.input("V", aicf::DType::f32, {heads, "kv", width});
  const auto scale = g.constant<float>("scale", {}, {0.25f});
  const auto scores = g.add("Mul", {g.add("MatMul", {q, g.add("Transpose", {k}, {{"perm", {0, 2, 1}}})}), scale});
  const auto weights = g.add("Softmax", {scores}, {{"axis", -1}});
  g.add("MatMul", {weights, v}, {"out"}, {});
  g.output("out");
  return g.build();
}

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(bits()) / 2147483648.0f - 1.0f);
  return out;
}

/// Largest difference from the definition, computed in double.
double error_of(const std::vector<float>& out, const std::vector<float>& q, const std::vector<float>& k,
                const std::vector<float>& v, std::int64_t rows, std::int64_t keys) {
  double worst = 0;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<double> p(keys);
      double largest = -INFINITY, sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        double s = 0;
        for (std::int64_t d = 0; d < width; ++d)
          s += double{q[(h * rows + i) * width + d]} * k[(h * keys + j) * width + d];
        p[j] = 0.25 * s;
        largest = std::max(largest, p[j]);
      }
      for (double& x : p) sum += x = std::exp(x - largest);
      for (std::int64_t e = 0; e < width; ++e) {
        double o = 0;
        for (std::int64_t j = 0; j < keys; ++j) o += p[j] / sum * v[(h * keys + j) * width + e];
        worst = std::max(worst, std::abs(o - out[(h * rows + i) * width + e]));
      }
    }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = take(build());
  const auto device = take(aicf::Device::open(argc > 1 ? argv[1] : "vulkan:llvmpipe"));
  const auto package = take(aicf::compile(model, device));
  const auto attention = take(device.load(package));
  std::printf("%s for %s\n", device.info().name.c_str(), attention.target().c_str());

  constexpr std::int64_t keys = 37, most_rows = 20;
  const auto k = random_values(heads * keys * width, 1), v = random_values(heads * keys * width, 2);
  const auto K = take(attention.allocate("K", {{"kv", keys}})), V = take(attention.allocate("V", {{"kv", keys}}));
  take(K.write(k));
  take(V.write(v));
  const auto Q = take(attention.allocate("Q", {{"q", most_rows}})),
             out = take(attention.allocate("out", {{"q", most_rows}}));

  double worst = 0;
  for (const std::int64_t rows : {1, 20, 7}) {
    const auto q = random_values(heads * rows * width, static_cast<unsigned>(rows));
    const auto q_now = take(Q.view({heads, rows, width})), out_now = take(out.view({heads, rows, width}));
    take(q_now.write(q));
    const auto report = take(attention.run({{"Q", q_now}, {"K", K}, {"V", V}}, {{"out", out_now}}));
    std::vector<float> result(q.size());
    take(out_now.read(result));
    const double error = error_of(result, q, k, v, rows, keys);
    std::printf("%2d rows: %zu launches, error %.1e\n", static_cast<int>(rows), report.launches, error);
    worst = std::max(worst, error);
  }
  return worst < 1e-5 ? 0 : 1;
}
