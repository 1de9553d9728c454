// The example of the README, with values whose result is known: with zero queries and mask, attention is the mean of V.
//
//     brief_cpp MODEL      tests/models/attention.aicf

#include <aicf/aicf.hpp>
#include <cmath>
#include <cstdio>

int main(int, char** argv) {
  const std::string path = argv[1];
  const std::vector<float> q(2 * 4 * 64), k(2 * 9 * 64, 0.5f), mask_values(4 * 9);
  std::vector<float> v(2 * 9 * 64), result(q.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 7);

  // README: begin
  const auto model = aicf::Model::load(path).value();  // ONNX or the text form
  const auto device = aicf::Device::open("vulkan:llvmpipe").value();
  const auto package = aicf::compile(model, device).value();  // or for targets by name; packages are saved and loaded
  const auto attention = device.load(package).value();        // kernels built, constants uploaded: serves all sizes

  const aicf::Sizes sizes{{"batch", 1}, {"head", 2}, {"q", 4}, {"kv", 9}};
  const auto Q = attention.allocate("Q", sizes).value(), K = attention.allocate("K", sizes).value();
  const auto V = attention.allocate("V", sizes).value(), mask = attention.allocate("mask", sizes).value();
  const auto out = attention.allocate("out", sizes).value();
  Q.write(q).value();
  K.write(k).value();
  V.write(v).value();
  mask.write(mask_values).value();
  attention.run({{"Q", Q}, {"K", K}, {"V", V}, {"mask", mask}}, {{"out", out}}).value();  // as often as you like
  out.read(result).value();
  // README: end

  double worst = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t head = i / (4 * 64), e = i % 64;
    double mean = 0;
    for (std::size_t j = 0; j < 9; ++j) mean += v[(head * 9 + j) * 64 + e] / 9.0;
    worst = std::fmax(worst, std::abs(result[i] - mean));
  }
  std::printf("error %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
