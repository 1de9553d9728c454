#pragma once

// Random graphs that attack the compiler. A graph is the same for the same (seed, index), on every machine.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "frontend/model.h"

namespace aicf::generate {

enum class Family {
  attention,  ///< scores, masks, biases, weights of many kinds, and a product with values; layouts before and after
  reduction,  ///< cascades of reductions and elementwise operations over random axes
  lookalike   ///< what looks like one of the two and differs in one place that forbids or changes the fusion
};
inline constexpr Family families[] = {Family::attention, Family::reduction, Family::lookalike};
const char* name(Family family);

struct Generated {
  Family family = Family::attention;
  std::uint64_t seed = 0, index = 0;
  SemanticGraph graph;
  NamedTensors inputs;
  /// A Softmax (or the division that ends one written out) and the product with values that follows it, by tensor name.
  std::vector<std::pair<std::string, std::string>> sites;
  std::string data = {};       ///< what is special in the inputs, for messages
  bool infinite_data = false;  ///< an infinity in what is no mask
  std::vector<std::string> nan_inputs = {};
  bool index_mask = false;  ///< keys may be left out unread (README, documented choices)
};

/// Families take turns by index.
Generated generate(std::uint64_t seed, std::uint64_t index);

}  // namespace aicf::generate
