#include "mir/region/flatten.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "mir/graph/graph.h"

namespace aicf {

namespace {

/// The axis that always stands after `a`, in every statement and every tensor; empty when there is none.
class Partner {
 public:
  Partner(const Region& region, std::string a) : region_(region), a_(std::move(a)) {}

  std::optional<std::string> find() {
    for (const Statement& s : region_.statements) {
      for (const Expr& load : loads_of(s.body)) {
        const RegionInput* tensor = region_.input(load.name());
        if (!tensor || !indexed(load.args(), tensor->shape)) return {};
      }
    }
    for (const RegionOutput& o : region_.outputs)
      if (!indexed(o.index, o.shape)) return {};
    if (b_.empty()) return {};
    bool reduced = false;
    for (const Statement& s : region_.statements) {
      const Expr computed =
          rewrite(s.body, [](const Expr& e) { return e.op() == Op::load ? Expr::constant(e.type(), 0) : Expr(); });
      const std::set<std::string> counted = axes_of(computed);
      if (counted.contains(a_) || counted.contains(b_)) return {};
      if (contains(s.axes, a_) != contains(s.axes, b_) || contains(s.over, a_) != contains(s.over, b_)) return {};
      reduced |= contains(s.over, a_);
    }
    return reduced ? std::optional(b_) : std::nullopt;
  }

 private:
  /// Dimensions at a and b are side by side and as long as the axes, or there are none.
  template <class Indices>
  bool indexed(const Indices& index, const std::vector<Expr>& shape) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      const Expr& e = index[d];
      if (!axes_of(e).contains(a_)) {
        if (!b_.empty() && axes_of(e).contains(b_) && !(d > 0 && is(index[d - 1], a_))) return false;
        continue;
      }
      if (!is(e, a_) || d + 1 == index.size() || index[d + 1].op() != Op::axis) return false;
      if (b_.empty()) b_ = index[d + 1].name();
      if (b_ == a_ || !is(index[d + 1], b_) || !provably_equal(shape[d], region_.axis(a_).extent) ||
          !provably_equal(shape[d + 1], region_.axis(b_).extent))
        return false;
      ++d;
    }
    return true;
  }
  static bool is(const Expr& e, const std::string& axis) { return e.op() == Op::axis && e.name() == axis; }

  const Region& region_;
  std::string a_, b_;
};

void join(Region& region, const std::string& a, const std::string& b) {
  const Expr width = region.axis(b).extent, whole = Expr::axis(a);
  const ExprMap digits{{a, floordiv(whole, width)}, {b, mod(whole, width)}};
  for (Statement& s : region.statements) {
    s.body = substitute_axes(s.body, digits);
    std::erase(s.axes, b);
    std::erase(s.over, b);
  }
  for (RegionOutput& o : region.outputs)
    for (Expr& e : o.index) e = substitute_axes(e, digits);
  for (Axis& axis : region.axes)
    if (axis.name == a) axis.extent = simplify(axis.extent * width);
  std::erase_if(region.axes, [&](const Axis& axis) { return axis.name == b; });
}

}  // namespace

void flatten_axes(Region& region) {
  const std::vector<Axis> axes = region.axes;
  for (const Axis& a : axes) {
    if (std::ranges::find(region.axes, a.name, &Axis::name) == region.axes.end()) continue;
    const auto b = Partner(region, a.name).find();
    if (b && !(region.axis(a.name).extent.is_constant() && region.axis(*b).extent.is_constant()))
      join(region, a.name, *b);
  }
}

}  // namespace aicf
