#pragma once

// The monotone law: the extreme of φ(g(x), r) over n follows from the extremes of g where φ is monotone, or convex or
// concave in the weak sense, in its first argument for every r that can be reached. Private to mir/stream.

#include "mir/stream/terms.h"

namespace aicf::stream {

/// The value that stands for g in `Monotone::form`.
inline constexpr const char* extreme_name = "$extreme";

struct Monotone {
  Expr g;                                   ///< along
  Expr form;                                ///< φ(value(extreme_name), r)
  bool from_max = false, from_min = false;  ///< which extremes of g decide; with both, the outer extreme of the two
  std::string condition;                    ///< what was shown
};

/// For a maximum (`maximum`) or minimum over n of `body`, which is mixed.
Attempt<Monotone> monotone(const Problem& problem, const Facts& facts, Expander& expander, const Expr& body,
                           bool maximum);

}  // namespace aicf::stream
