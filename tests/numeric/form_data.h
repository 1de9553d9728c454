#pragma once

// Adversarial data for models with symbolic sizes.

#include <map>
#include <string>
#include <vector>

#include "tests/numeric/harness.h"

namespace aicf::numeric {

/// How the elements of one input are made. The last dimension is what a row runs along.
enum class Data {
  normal,      ///< standard normal
  close,       ///< normal · 0.3: exponentials of squares stay away from 0
  ascending,   ///< every row grows: a running maximum moves with each element
  descending,  ///< every row falls: the first element stays the maximum
  wide,        ///< normal · 40: exponentials over- and underflow unless the maximum is taken off
  offset,      ///< 10^6 + normal: differences are small beside the values
  denormal,    ///< normal, each element below the smallest normal number of the type
  cliffs,    ///< every 8 elements of a row ±80 away from those before: each tile's maximum is far from the last one's
  constant,  ///< all elements of the tensor are equal
  zeros,
  nan,                  ///< normal; NaN at the first row's last and the last row's first element
  infinity,             ///< normal; +inf there
  minus_infinity,       ///< normal; −inf there
  minus_infinity_rows,  ///< normal; every other row is −inf throughout, the first one too
  mask,                 ///< 0 or −inf at random
  mask_rows,            ///< as mask, every other row −inf throughout, the first one too
  mask_tiles,           ///< −inf over runs of 16 elements, in every position as the row advances
  keep,                 ///< boolean, two of three true
  keep_rows,            ///< boolean, every other row false throughout, the first one too
  keep_last,            ///< boolean, only the last of each row
  keep_tiles,           ///< boolean, false where mask_tiles is −inf
  keep_inner,           ///< boolean, false for the first and the last of each row: where nan and infinity stand in keys
  padded,               ///< 1000 + normal, 0 there
  outliers,             ///< normal, 10^4 there
  peaks,                ///< normal, 60 there: its exponential is still a number
  whole,                ///< whole numbers, all that 8 bits hold
  classes,              ///< 0, 1 or 2
};

Tensor make(Data data, DType type, const std::vector<std::int64_t>& shape, unsigned seed);

/// Inputs of `model` for the sizes; `data` by input name, `normal` (keep for booleans, whole for 8 bits, classes for
/// other integers) where it says nothing.
Result<NamedTensors> make_inputs(const Model& model, const Sizes& sizes, const std::map<std::string, Data>& data);

/// A model of tests/models/forms with what it is tried on.
struct Form {
  struct Variant {
    std::string name;
    std::map<std::string, Data> data;
    /// false: f32 as the graph is written has not the digits; a derived form has.
    bool unfused = true;
  };
  std::string name;
  std::vector<Sizes> sizes;
  std::vector<Variant> variants;
  /// Regions of the fused plan for lavapipe; a derived form that falls apart again fails here.
  int regions = 1;
  /// max |error| ≤ tolerance · max |expected|, or ≤ tolerance.
  double tolerance = 2e-5;
  /// Tried in f16 and bf16 too; not where another form says the same of them.
  bool halves = true;

  std::string path() const;
};
void PrintTo(const Form& f, std::ostream* out);

const std::vector<Form>& forms();

}  // namespace aicf::numeric
