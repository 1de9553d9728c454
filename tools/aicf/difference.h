#pragma once

// Where results leave the values that are wanted.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor.h"

namespace aicf::command {

using Json = nlohmann::ordered_json;

/// NaN must stand in the same places. An element is out of tolerance where its error passes the absolute bound, and the
/// relative one times the largest expected magnitude of its tensor; without one, usual_relative() of the type that was got.
struct Difference {
  struct Element {
    std::string tensor;
    std::vector<std::int64_t> index;
    double got = 0, wanted = 0;
    bool operator==(const Element& o) const { return tensor == o.tensor && index == o.index; }
  };
  double max_abs = 0, max_rel = 0;  ///< relative to the largest expected magnitude
  std::optional<Element> first;     ///< out of tolerance, in row-major order
  std::optional<Element> worst;     ///< of the largest error; a NaN in one of the two is infinitely wrong
  std::string shape;                ///< of a tensor that is missing or has another shape: what is wrong

  bool none() const { return !first && shape.empty(); }
};
Difference compare(const NamedTensors& got, const NamedTensors& wanted, double absolute,
                   std::optional<double> relative);
/// 1e-4; two units in the last place of f16 and bf16; 0 for integers.
double usual_relative(DType type);

/// "'y' [0, 3]: 1 instead of 2; worst [4, 1]: 5 instead of 2". Precondition: !d.none().
std::string to_text(const Difference& d);
Json to_json(const Difference& d);
/// A number, or "nan", "inf", "-inf", which JSON has no numbers for.
Json json_number(double value);

}  // namespace aicf::command
