#pragma once

// What a derivation knows about a region once an axis is chosen to be streamed. Private to mir/stream.
//
// With n the streamed axis, a *result* is a statement that reduces over n. Every other statement is a map or a
// reduction over other axes (an inner reduction); it carries n or not, and it rests on the results that its body
// reaches.

#include <expected>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/region/region.h"

namespace aicf::stream {

/// Why a law did not apply.
struct Failure {
  std::string law, reason;
};
template <class T>
using Attempt = std::expected<T, Failure>;
inline std::unexpected<Failure> refuse(std::string law, std::string reason) {
  return std::unexpected(Failure{std::move(law), std::move(reason)});
}

template <class List, class T>
bool has(const List& list, const T& x) {
  for (const auto& y : list) {
    if (y == x) return true;
  }
  return false;
}

/// The region with f16 and bf16 arithmetic done in f32: intermediate values count as f32, explicit casts keep rounding.
Region widen(Region region);

class Problem {
 public:
  /// `region` must be verified and widened.
  Problem(Region region, std::string axis);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const Region& region() const { return region_; }
  const std::string& axis() const { return axis_; }
  const Ranges& ranges() const { return ranges_; }
  const Statement& statement(const std::string& value) const;
  bool defines(const std::string& value) const { return by_name_.contains(value); }

  bool is_result(const std::string& value) const { return has(statement(value).over, axis_); }
  /// A map may be replaced by its body.
  bool is_map(const std::string& value) const { return statement(value).over.empty(); }
  /// A map that is small enough when written out with the maps it reads: only such ones are looked into operation by
  /// operation. A chain of maps that each read the one before twice doubles with each.
  bool is_open(const std::string& value) const;
  /// `e`, or the body of the open map that it is, and so on.
  Expr opened(Expr e) const;
  /// The element depends on the coordinate along n.
  bool carries(const std::string& value) const { return has(statement(value).axes, axis_); }
  bool carries(const Expr& e) const;
  /// Results that a value rests on; of a result, itself.
  const std::set<std::string>& results(const std::string& value) const { return results_.at(value); }
  std::set<std::string> results(const Expr& e) const;

  /// Region axes that `e` varies over, those of the values it reads included, in the region's order.
  std::vector<std::string> axes(const Expr& e) const;
  std::vector<std::string> ordered(const std::set<std::string>& axes) const;
  /// `e` with every map replaced by its body; equal canonical forms mean equal values.
  Expr canonical(const Expr& e) const;
  /// Number of elements that `axes` span.
  Expr extent(const std::vector<std::string>& axes) const;
  /// Whether a load is in bounds at all coordinates, as far as ranges show.
  bool in_bounds(const Expr& load) const;
  bool in_bounds(const Expr& index, const Expr& dim) const;
  /// True when `e` reads no tensor and no value: coordinates, symbols and constants only.
  bool is_index_only(const Expr& e) const;
  /// How often a value is read: by bodies and outputs, each occurrence counted, 2 standing for more.
  int uses(const std::string& value) const;

 private:
  Region region_;
  std::string axis_;
  Ranges ranges_;
  std::map<std::string, const Statement*> by_name_;
  std::map<std::string, std::set<std::string>> results_;
  std::map<std::string, int> uses_;
  mutable std::map<std::string, Expr> bodies_;
};

}  // namespace aicf::stream
