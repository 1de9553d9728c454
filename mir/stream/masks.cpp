#include "mir/stream/masks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace aicf::stream {

bool is_coordinate_condition(const Expr& c) {
  bool plain = true;
  for_each(c, [&](const Expr& e) { plain &= e.op() != Op::load && e.op() != Op::value; });
  return plain;
}

namespace {

// Choices, not measured: masks of models are far below either.
constexpr double absorbs_scores = -1e30;  ///< an added constant at most this leaves nothing of what it is added to
constexpr double absorbed = 1e22;         ///< what it still leaves nothing of: less than half of its last digit in f32
constexpr double least_mask = -1000;      ///< greater constants are data rather than masks
constexpr double negligible = 104;  ///< exp(−104) < 2^−149, the least f32 above 0: exp(−x) is 0 from here on

/// x is at most `bound` for the coordinates `where`, whatever the tensors hold.
struct Masked {
  Expr where = Expr::boolean(false);
  double bound = -std::numeric_limits<double>::infinity();
};

Masked when(const Expr& condition, const Masked& m) {
  const Expr where = simplify(logical_and(condition, m.where));
  return where.is_constant(0) ? Masked{} : Masked{where, m.bound};
}

Masked either(const Masked& a, const Masked& b) {
  if (a.where.is_constant(0)) return b;
  if (b.where.is_constant(0)) return a;
  return {logical_or(a.where, b.where), std::max(a.bound, b.bound)};
}

/// What masks decide of the expressions of one pass. Each subexpression is looked at once.
class Masks {
 public:
  /// Where a mask decides `x`: by −∞, or by a finite constant too when `finite`.
  Masked masked(const Expr& x, bool finite) {
    const auto key = std::pair(x.identity(), finite);
    if (const auto it = masked_.find(key); it != masked_.end()) return it->second;
    return masked_[key] = decide(x, finite);
  }

 private:
  Masked decide(const Expr& x, bool finite) {
    switch (x.op()) {
      case Op::constant: {
        if (!is_float(x.type())) return {};
        const double c = x.number();
        if (std::isinf(c) ? c > 0 : !finite || !(c <= least_mask)) return {};
        return {Expr::boolean(true), c};
      }
      case Op::cast:
        return is_float(x.type()) && is_float(x.args()[0].type()) ? masked(x.args()[0], finite) : Masked{};
      case Op::add:
      case Op::sub: {
        Masked out;
        const Expr &left = x.args()[0], &right = x.args()[1];
        const bool sum = x.op() == Op::add;
        const Masked first = masked(left, finite);
        if (first.bound <= absorbs_scores && (sum ? !raises(right) : !has_mask(right))) out = either(out, first);
        const Masked second = sum ? masked(right, finite) : Masked{};
        if (second.bound <= absorbs_scores && !raises(left)) out = either(out, second);
        return out;
      }
      case Op::mul:
      case Op::div:
        for (const std::size_t i : {0, 1}) {
          const Expr& c = x.args()[1 - i];
          if (!c.is_constant() || !(c.number() > 0) || std::isinf(c.number()) || (i == 1 && x.op() == Op::div))
            continue;
          Masked m = masked(x.args()[i], finite);
          m.bound = x.op() == Op::mul ? m.bound * c.number() : m.bound / c.number();
          return m.bound <= least_mask ? m : Masked{};
        }
        return {};
      case Op::select: {
        const Expr& c = x.args()[0];
        const Masked yes = masked(x.args()[1], finite), no = masked(x.args()[2], finite);
        const Masked both = when(yes.where, {no.where, std::max(yes.bound, no.bound)});
        return either(both, either(when(surely(c, true), yes), when(surely(c, false), no)));
      }
      default:
        return {};
    }
  }

  /// Whether a constant as large as a mask's may make `x` large and positive: then another mask beside it does not decide the
  /// sum. What tensors hold is taken for less than `absorbed` (README, documented choices).
  bool raises(const Expr& x) {
    if (const auto it = raises_.find(x.identity()); it != raises_.end()) return it->second;
    return raises_[x.identity()] = find_raising(x);
  }

  bool find_raising(const Expr& x) {
    switch (x.op()) {
      case Op::constant:
        return is_float(x.type()) && !(x.number() < absorbed);
      case Op::cast:
        return raises(x.args()[0]);
      case Op::add:
        return raises(x.args()[0]) || raises(x.args()[1]);
      case Op::sub:
        return raises(x.args()[0]) || has_mask(x.args()[1]);
      case Op::select:
        return raises(x.args()[1]) || raises(x.args()[2]);
      case Op::mul:
      case Op::div:
        for (const std::size_t i : {0, 1}) {
          const Expr &c = x.args()[1 - i], &of = x.args()[i];
          if (!c.is_constant() || (i == 1 && x.op() == Op::div)) continue;
          if (c.number() > 0 && c.number() < absorbed) return raises(of);
          // A mask of a tensor's zeros and ones, times its constant.
          return has_mask(of) || (std::abs(c.number()) >= absorbed && is_coordinate_condition(of));
        }
        return has_mask(x);
      default:
        return has_mask(x);
    }
  }

  /// Whether a constant as large as a mask's is among the operands of `x`; conditions choose and are none.
  bool has_mask(const Expr& x) {
    if (x.op() == Op::constant) return is_float(x.type()) && !(std::abs(x.number()) < absorbed);
    if (const auto it = has_mask_.find(x.identity()); it != has_mask_.end()) return it->second;
    bool out = false;
    for (std::size_t i = x.op() == Op::select ? 1 : 0; i < x.args().size(); ++i) out = out || has_mask(x.args()[i]);
    return has_mask_[x.identity()] = out;
  }

  /// Coordinates where `c` holds (`wanted`) or fails whatever the tensors hold; all of them when it reads none.
  Expr surely(const Expr& c, bool wanted) {
    if (is_coordinate_condition(c)) return wanted ? c : logical_not(c);
    if (c.op() == Op::not_) return surely(c.args()[0], !wanted);
    if (c.op() != Op::and_ && c.op() != Op::or_) return Expr::boolean(false);
    const auto key = std::pair(c.identity(), wanted);
    if (const auto it = surely_.find(key); it != surely_.end()) return it->second;
    const Expr a = surely(c.args()[0], wanted), b = surely(c.args()[1], wanted);
    return surely_[key] = (c.op() == Op::and_) == wanted ? logical_and(a, b) : logical_or(a, b);
  }

  using Key = std::pair<const void*, bool>;  ///< an expression that the pass keeps alive, and `finite` or `wanted`
  std::map<Key, Masked> masked_;
  std::map<Key, Expr> surely_;
  std::map<const void*, bool> raises_, has_mask_;
};

}  // namespace

LeftOut left_out(const PassStates& states, const Ranges& ranges) {
  LeftOut out;
  if (!states.all_stabilised() || states.stabilised().empty()) return out;
  Expr never, later, settled;
  Masks masks;
  for (const PassStates::Stabilised& s : states.stabilised()) {
    never = logical_and(never, masks.masked(s.x, false).where);
    const Masked m = masks.masked(s.x, true);
    later = logical_and(later, m.where);
    if (std::isinf(m.bound)) continue;
    if (s.maximum.empty() || s.x.type() != DType::f32) later = Expr::boolean(false);
    if (!s.maximum.empty())
      settled =
          logical_and(settled, Expr::binary(Op::lt, Expr::constant(DType::f32, negligible),
                                            Expr::value(s.maximum, DType::f32) - Expr::constant(DType::f32, m.bound)));
  }
  never = simplify(never, ranges);
  later = simplify(later, ranges);
  constexpr std::uint64_t largest = 1024;  ///< a condition that decides about each tile is written out as a tree
  if (never.tree_size() > largest) never = Expr::boolean(false);
  if (later.tree_size() > largest) later = Expr::boolean(false);
  if (!never.is_constant(0)) out.skip = never;
  if (later.is_constant(0) || later == never || !settled) return out;
  out.defer = later;
  out.settled = simplify(settled, ranges);
  return out;
}

}  // namespace aicf::stream
