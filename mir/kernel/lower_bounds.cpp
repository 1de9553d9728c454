// Where a stream begins and ends for one block of rows, from the condition under which its coordinates are left out.

#include <algorithm>
#include <optional>

#include "mir/kernel/lowering.h"

namespace aicf::lowering {

namespace {

using Conjunction = std::vector<Expr>;

/// A comparison with a greatest, least or absolute value as comparisons with its parts; empty for others.
Expr parts_of(const Expr& comparison) {
  if (comparison.op() != Op::lt && comparison.op() != Op::le) return {};
  for (const std::size_t side : {0, 1}) {
    const Expr& x = comparison.args()[side];
    if (x.op() != Op::max && x.op() != Op::min && x.op() != Op::abs) continue;
    const auto compared = [&](const Expr& part) {
      return side == 0 ? Expr::binary(comparison.op(), part, comparison.args()[1])
                       : Expr::binary(comparison.op(), comparison.args()[0], part);
    };
    const Expr a = compared(x.args()[0]), b = compared(x.op() == Op::abs ? -x.args()[0] : x.args()[1]);
    return (x.op() == Op::min) == (side == 1) ? logical_and(a, b) : logical_or(a, b);
  }
  return {};
}

/// `condition` (its negation) as a disjunction of conjunctions of comparisons and what else there is; empty when there would
/// be too many.
std::vector<Conjunction> normal_form(const Expr& condition, bool negated) {
  constexpr std::size_t most = 32;
  const auto is_integer_equality = [&] {
    return condition.op() == Op::eq && negated && !is_float(condition.args()[0].type());
  };
  if (condition.op() == Op::not_) return normal_form(condition.args()[0], !negated);
  if (condition.op() == Op::and_ || condition.op() == Op::or_) {
    const auto left = normal_form(condition.args()[0], negated), right = normal_form(condition.args()[1], negated);
    std::vector<Conjunction> out;
    if ((condition.op() == Op::or_) != negated) {
      out = left;
      out.insert(out.end(), right.begin(), right.end());
    } else {
      for (const Conjunction& l : left)
        for (const Conjunction& r : right) {
          out.push_back(l);
          out.back().insert(out.back().end(), r.begin(), r.end());
        }
    }
    if (out.size() > most) out.clear();
    return out;
  }
  if (is_integer_equality()) {
    const Expr &a = condition.args()[0], &b = condition.args()[1];
    return {{less(a, b)}, {less(b, a)}};
  }
  const Expr plain = negated ? simplify(logical_not(condition)) : condition;
  if (const Expr parts = parts_of(plain)) return normal_form(parts, false);
  return {{plain}};
}

/// The least (greatest, when `high`) value of an index expression over a block of rows; empty where it is not monotone by form.
class Corner {
 public:
  Corner(const std::vector<std::string>& rows, const std::function<std::int64_t(const std::string&)>& tile)
      : rows_(rows), tile_(tile) {}

  Expr of(const Expr& e, bool high) const {
    const auto both = [&](bool flip) -> Expr {
      const Expr a = of(e.args()[0], high), b = of(e.args()[1], high != flip);
      return a && b ? Expr::binary(e.op(), a, b) : Expr();
    };
    switch (e.op()) {
      case Op::constant:
      case Op::symbol:
        return e;
      case Op::axis:
        if (std::ranges::find(rows_, e.name()) == rows_.end()) return {};
        return e + Expr(high ? tile_(e.name()) - 1 : 0);
      case Op::neg: {
        const Expr a = of(e.args()[0], !high);
        return a ? -a : Expr();
      }
      case Op::add:
      case Op::min:
      case Op::max:
        return both(false);
      case Op::sub:
        return both(true);
      case Op::mul:
        for (const std::size_t i : {0, 1}) {
          const auto k = e.args()[i].as_int();
          if (!k) continue;
          const Expr x = of(e.args()[1 - i], (*k >= 0) == high);
          return x ? x * Expr(*k) : Expr();
        }
        return {};
      case Op::floordiv: {
        const auto k = e.args()[1].as_int();
        const Expr x = k && *k > 0 ? of(e.args()[0], high) : Expr();
        return x ? floordiv(x, Expr(*k)) : Expr();
      }
      default:
        return {};
    }
  }

 private:
  const std::vector<std::string>& rows_;
  const std::function<std::int64_t(const std::string&)>& tile_;
};

/// What a comparison says for every row of a block: coordinates from `at` on (`upward`), or those before it.
struct Limit {
  bool upward;
  Expr at;
};

/// Of the axis itself, or of its blocks n // b.
std::optional<Limit> limit(const Expr& comparison, const std::string& axis, const Ranges& ranges,
                           const Corner& corner) {
  if (comparison.op() != Op::lt && comparison.op() != Op::le) return std::nullopt;
  // Integers: 0 < d, 1 <= d.
  Expr d = comparison.args()[1] - comparison.args()[0];
  if (comparison.op() == Op::le) d = d + Expr(1);
  d = simplify(d, ranges);
  Expr block;
  for_each(d, [&](const Expr& x) {
    if (x.op() == Op::floordiv && depends_on_axis(x, axis)) block = x;
  });
  std::string variable = axis;
  Expr size = 1, shift = 0;
  if (block) {
    const auto inner = as_affine(block.args()[0], {axis});
    if (!block.args()[1].as_int() || !inner || !inner->coefficients.contains(axis) ||
        !inner->coefficients.at(axis).is_constant(1) || !axes_of(inner->offset).empty())
      return std::nullopt;
    variable = axis + "_block";
    size = block.args()[1];
    shift = inner->offset;
    d = rewrite(d, [&](const Expr& x) { return x == block ? Expr::axis(variable) : Expr(); });
  }
  const auto sides = as_affine(d, {variable});
  if (!sides || sides->coefficients.size() != 1 || depends_on_axis(sides->offset, axis)) return std::nullopt;
  const Expr& slope = sides->coefficients.begin()->second;
  if (!slope.is_constant(1) && !slope.is_constant(-1)) return std::nullopt;
  const bool upward = slope.is_constant(1);
  const Expr at = upward ? corner.of(Expr(1) - sides->offset, true) : corner.of(sides->offset, false);
  if (!at) return std::nullopt;
  return Limit{upward, at * size - shift};
}

}  // namespace

// A conjunction that leaves out all n >= A(rows) ends the stream at max A over the block; one that leaves out all n < B(rows)
// starts it at the tile that holds min B; one that leaves out A(rows) <= n < B(rows) takes the tiles between max A and min B
// out. Other forms are computed and masked.
Course Lowering::course(const Stream& s, const Expr& left_out) const {
  constexpr std::size_t most_holes = 3;  // a coordinate is twice as long an expression with each
  Course out{0, region_.axis(s.axis).extent, {}};
  if (!left_out) return out;
  const std::function<std::int64_t(const std::string&)> tile_of = [&](const std::string& a) { return tile(a); };
  const Corner corner(region_.parallel, tile_of);
  const Expr step = tile(s.axis);
  std::vector<std::pair<Expr, Expr>> between;
  for (const Conjunction& all : normal_form(left_out, false)) {
    Expr from, to;
    const bool is_interval = std::ranges::all_of(all, [&](const Expr& part) {
      const auto one = limit(part, s.axis, ranges_, corner);
      if (!one) return false;
      Expr& at = one->upward ? from : to;
      at = at ? Expr::binary(one->upward ? Op::max : Op::min, at, one->at) : one->at;
      return true;
    });
    if (!is_interval) continue;
    if (from) from = Expr::binary(Op::max, from, Expr(0));
    if (to) to = floordiv(Expr::binary(Op::max, to, Expr(0)), step) * step;
    if (from && to) {
      between.emplace_back(ceildiv(from, step) * step, to);
    } else if (from) {
      out.end = Expr::binary(Op::min, out.end, from);
    } else if (to) {
      out.begin = Expr::binary(Op::max, out.begin, to);
    }
  }
  out.begin = simplify(out.begin, ranges_), out.end = simplify(out.end, ranges_);
  const Expr last = ceildiv(out.end, step) * step;
  Expr taken = 0;
  for (auto [from, to] : between) {
    from = Expr::binary(Op::max, from, out.begin), to = Expr::binary(Op::min, to, last);
    for (const Course::Hole& h : out.holes) {
      const auto counted = [&](const Expr& n) {
        return n - Expr::binary(Op::min, Expr::binary(Op::max, n - h.at, Expr(0)), h.length);
      };
      from = counted(from), to = counted(to);
    }
    from = simplify(from, ranges_);
    const Expr length = simplify(Expr::binary(Op::max, to - from, Expr(0)), ranges_);
    if (length.is_constant(0) || out.holes.size() == most_holes) continue;
    out.holes.push_back({from, length});
    taken = taken + length;
  }
  out.end = simplify(out.end - taken, ranges_);
  return out;
}

Expr Course::coordinate(Expr counted) const {
  for (auto h = holes.rbegin(); h != holes.rend(); ++h)
    counted = counted + Expr::select(Expr::binary(Op::le, h->at, counted), h->length, Expr(0));
  return counted;
}

}  // namespace aicf::lowering
