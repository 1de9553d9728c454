#pragma once

// Sign and range facts: an interval that holds a scalar whenever it is not NaN. Private to mir/stream.

#include <limits>
#include <map>
#include <string>

#include "mir/stream/problem.h"

namespace aicf::stream {

struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool non_negative() const { return low >= 0; }
  bool positive() const { return low > 0; }
  bool non_positive() const { return high <= 0; }
  bool finite() const;
};

class Facts {
 public:
  explicit Facts(const Problem& problem) : problem_(problem) {}

  Interval bounds(const Expr& e) const;
  Interval bounds(const std::string& value) const;
  /// `m` is the maximum, over the axes it reduces, of something that equals `x`: then x <= m at every coordinate.
  bool is_maximum_of(const Expr& m, const Expr& x) const;

 private:
  Interval binary(const Expr& e) const;
  Interval of_statement(const Statement& s) const;
  const Problem& problem_;
  mutable std::map<std::string, Interval> values_;
};

}  // namespace aicf::stream
