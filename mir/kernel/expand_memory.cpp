// Movement of tiles: addresses, predicates and vector accesses of global and workgroup memory.

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "mir/kernel/expand_state.h"

namespace aicf::expansion {

using Kind = ThreadStatement::Kind;

std::int64_t vector_width(std::int64_t n, std::int64_t limit) {
  std::int64_t width = 1;
  while (width * 2 <= limit && n % (width * 2) == 0) width *= 2;
  return width;
}

std::vector<std::int64_t> workgroup_strides(const KernelTile& tile) {
  std::vector<std::int64_t> strides(tile.axes.size(), 1);
  for (std::size_t i = tile.axes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * tile.axes[i].extent + (i + 1 == tile.axes.size() ? tile.row_padding : 0);
  }
  return strides;
}

std::int64_t workgroup_elements(const KernelTile& tile) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tile.axes.size(); ++i) rows *= tile.axes[i].extent;
  return tile.axes.empty() ? 1 : rows * (tile.axes.back().extent + tile.row_padding);
}

namespace {

/// The register factor of `axis` with stride 1: consecutive registers (weight apart) hold consecutive elements.
struct Run {
  std::int64_t size = 1, weight = 1;
};

Run run_along(const KernelTile& tile, const std::string& axis) {
  std::int64_t weight = 1;
  for (const Factor& f : tile.distribution.factors) {
    if (f.level != Level::reg) continue;
    if (f.axis == axis && f.stride == 1 && f.size > 1) return {f.size, weight};
    weight *= f.size;
  }
  return {};
}

/// Registers in groups of `width` consecutive elements along the run.
std::vector<std::vector<std::size_t>> groups(std::size_t registers, const Run& run, std::int64_t width) {
  std::vector<std::vector<std::size_t>> result;
  for (std::size_t r = 0; r < registers; ++r) {
    const std::int64_t digit = static_cast<std::int64_t>(r) / run.weight % run.size;
    if (width > 1 && digit % width != 0) continue;
    std::vector<std::size_t>& group = result.emplace_back();
    for (std::int64_t i = 0; i < width; ++i) group.push_back(r + static_cast<std::size_t>(i * run.weight));
  }
  return result;
}

/// An access of a register tile to a global buffer: where each element is, when, and how many go together.
class GlobalAccess {
 public:
  GlobalAccess(Expander& expander, const KernelOp& op, const TileState& state)
      : expander_(expander),
        op_(op),
        state_(state),
        elements_(expander, CoordinateSpace::of(*state.tile)),
        buffer_(*expander.kernel().buffer(op.buffer)) {
    for (const CoordinateSpace::Slot& slot : space().slots) axes_.insert(slot.axis);
    first_.assign(space().slots.size(), 0);
    last_.assign(space().slots.size(), 0);
    for (const Coordinates& c : state.coordinates) {
      for (std::size_t i = 0; i < c.size(); ++i) last_[i] = std::max(last_[i], c[i]);
    }
    offset_ = expander.simplify_between(row_major(op.index, buffer_.shape), space(), first_, last_);
    affine_ = as_affine(offset_, axes_);
    if (op.predicate) predicate_ = expander.simplify_between(op.predicate, space(), first_, last_);
    if (predicate_ && predicate_.is_constant(1)) predicate_ = {};
    fill_ = op.fill ? op.fill : Expr::constant(buffer_.type, 0);
    choose_width();
  }

  const CoordinateSpace& space() const { return elements_.space(); }
  Elements& elements() { return elements_; }
  const KernelBuffer& buffer() const { return buffer_; }
  std::vector<std::vector<std::size_t>> access_groups() const {
    return groups(state_.coordinates.size(), run_, width_);
  }

  /// Offset of the element of register r.
  Expr address(std::size_t r) {
    const Coordinates& at = state_.coordinates[r];
    if (!affine_) return elements_.evaluate(offset_, at);
    Expr result = start(at);
    std::int64_t constant = 0;
    bool symbolic = false;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (at[i] == 0) continue;
      const Expr coefficient = coefficient_of(i);
      if (const auto c = coefficient.as_int()) {
        constant += *c * at[i];
      } else {
        result = result + coefficient * Expr(at[i]);
        symbolic = true;
      }
    }
    if (symbolic && expander_.pure(result)) result = expander_.hoist(result, Names::identifier(op_.buffer) + "_at");
    return result + Expr(constant);
  }

  /// Condition for the group that starts at register r: empty when always true, constant false when never.
  Expr condition(std::size_t r) {
    if (!predicate_) return {};
    Coordinates key = state_.coordinates[r];
    const std::uint64_t slots = elements_.slots_of(predicate_);
    for (std::size_t i = 0; i < key.size(); ++i) {
      if (!(slots >> i & 1)) key[i] = 0;
    }
    const auto [found, inserted] = conditions_.try_emplace(key);
    if (!inserted) return found->second;
    Coordinates high = key;
    if (fast_ >= 0 && (slots >> fast_ & 1)) high[static_cast<std::size_t>(fast_)] += width_ - 1;
    Expr here = expander_.simplify_between(predicate_, space(), key, high);
    if (here.is_constant(1)) {
      here = {};
    } else if (!here.is_constant()) {
      here = elements_.evaluate(here, key);
      if (expander_.pure(here)) here = expander_.hoist(here, "in_" + Names::identifier(op_.buffer));
    }
    return conditions_[key] = here;
  }

  Expr fill(std::size_t r) { return Expr::cast(elements_.evaluate(fill_, state_.coordinates[r]), buffer_.type); }

 private:
  Expr coefficient_of(std::size_t slot) const {
    const auto found = affine_->coefficients.find(space().slots[slot].axis);
    return found == affine_->coefficients.end() ? Expr(0) : expander_.with_bases(found->second);
  }

  /// The part of an affine offset that no constant part decides.
  Expr start(const Coordinates& at) {
    if (start_) return start_;
    Expr sum = 0;
    for (std::size_t i = 0; i < space().slots.size(); ++i) {
      const Expr coefficient = coefficient_of(i);
      if (coefficient.is_constant(0)) continue;
      sum = sum + coefficient * expander_.slot_start(space().slots[i]);
    }
    const bool fixed = values_of(affine_->offset).empty();
    const Expr offset = fixed ? expander_.with_bases(affine_->offset) : elements_.evaluate(affine_->offset, at);
    sum = offset + sum;
    if (!expander_.pure(sum)) return sum;
    sum = expander_.hoist(sum, Names::identifier(op_.buffer) + "_at");
    if (fixed) start_ = sum;
    return sum;
  }

  void choose_width() {
    if (!affine_ || op_.vector_width <= 1) return;
    for (std::size_t i = 0; i < space().slots.size(); ++i) {
      if (!coefficient_of(i).is_constant(1)) continue;
      // An index read from data that varies along the axis places each element for itself.
      if (elements_.slots_of(affine_->offset) >> i & 1) continue;
      const Run run = run_along(*state_.tile, space().slots[i].axis);
      std::int64_t width = vector_width(run.size, op_.vector_width);
      while (width > 1 && !allows(i, width)) width /= 2;
      if (width == 1) continue;
      fast_ = static_cast<int>(i);
      run_ = run;
      width_ = width;
      return;
    }
  }

  /// Every group of `width` elements along slot `fast` starts at a multiple of the width and is taken or left as a
  /// whole.
  bool allows(std::size_t fast, std::int64_t width) const {
    std::map<std::string, std::int64_t> divisors;
    for (std::size_t i = 0; i < space().slots.size(); ++i) {
      const CoordinateSpace::Slot& slot = space().slots[i];
      std::int64_t d = expander_.slot_start_facts(slot).divisor;
      for (const Factor& f : state_.tile->distribution.factors) {
        if (f.level != Level::reg || f.axis != slot.axis || f.size == 1) continue;
        d = std::gcd(d, i == fast && f.stride == 1 ? width : f.stride);
      }
      divisors[slot.axis] = d;
    }
    if (expander_.divisor(offset_, divisors) % width != 0) return false;
    const std::string& axis = space().slots[fast].axis;
    if (depends(fill_, axis)) return false;
    return !predicate_ || whole(predicate_, axis, width, divisors);
  }

  bool depends(const Expr& e, const std::string& axis) const {
    if (depends_on_axis(e, axis)) return true;
    for (const std::string& value : values_of(e)) {
      const KernelTile& tile = expander_.kernel().tile(value);
      if (std::ranges::find(tile.axes, axis, &TileAxis::name) != tile.axes.end()) return true;
    }
    return false;
  }

  /// The condition is the same for the `width` elements of each group.
  bool whole(const Expr& e, const std::string& axis, std::int64_t width,
             const std::map<std::string, std::int64_t>& divisors) const {
    if (!depends(e, axis)) return true;
    const auto args = e.args();
    switch (e.op()) {
      case Op::and_:
      case Op::or_:
        return whole(args[0], axis, width, divisors) && whole(args[1], axis, width, divisors);
      case Op::not_:
        return whole(args[0], axis, width, divisors);
      case Op::lt:
      case Op::le:
        break;
      default:
        return false;
    }
    if (!is_integer(args[0].type())) return false;
    const bool left = depends(args[0], axis);
    if (left && depends(args[1], axis)) return false;
    const auto moving = as_affine(args[left ? 0 : 1], {axis});
    if (!moving) return false;
    const auto slope = moving->coefficients.find(axis);
    if (slope == moving->coefficients.end() || !slope->second.is_constant(1)) return false;
    // x + i < b is the same for i in [0, width) when width divides x and b; x + i <= b is x + i < b + 1; and so on.
    const bool inclusive = (e.op() == Op::le) == left;
    const Expr bound = inclusive ? args[left ? 1 : 0] + Expr(1) : args[left ? 1 : 0];
    return expander_.divisor(args[left ? 0 : 1], divisors) % width == 0 &&
           expander_.divisor(bound, divisors) % width == 0;
  }

  Expander& expander_;
  const KernelOp& op_;
  const TileState& state_;
  Elements elements_;
  const KernelBuffer& buffer_;
  std::set<std::string> axes_;
  Coordinates first_, last_;
  Expr offset_, predicate_, fill_, start_;
  std::optional<Affine> affine_;
  std::map<Coordinates, Expr> conditions_;
  int fast_ = -1;
  Run run_;
  std::int64_t width_ = 1;
};

/// A register tile against a workgroup tile: offsets are the thread's start plus constants.
struct SharedAccess {
  SharedAccess(Expander& expander, const TileState& state, const KernelTile& array) {
    const CoordinateSpace space = CoordinateSpace::of(*state.tile);
    const std::vector<std::int64_t> array_strides = workgroup_strides(array);
    strides.assign(space.slots.size(), 0);
    Expr sum = 0;
    std::int64_t divisor = 0;
    for (std::size_t i = 0; i < array.axes.size(); ++i) {
      const int found = space.find(array.axes[i].name);
      if (found < 0 && array.axes[i].extent == 1) continue;
      AICF_CHECK(found >= 0, "tile " + state.tile->name + " has no axis " + array.axes[i].name);
      const CoordinateSpace::Slot& slot = space.slots[static_cast<std::size_t>(found)];
      strides[static_cast<std::size_t>(found)] = array_strides[i];
      sum = sum + expander.thread_part(slot.threads) * Expr(array_strides[i]);
      for (const Factor& f : state.tile->distribution.factors) {
        const bool fast = i + 1 == array.axes.size() && f.level == Level::reg && f.stride == 1;
        if (f.axis == slot.axis && f.size > 1 && !fast) divisor = std::gcd(divisor, f.stride * array_strides[i]);
      }
    }
    start = expander.hoist(sum, array.name + "_at");
    if (!array.axes.empty()) run = run_along(*state.tile, array.axes.back().name);
    width = vector_width(divisor, vector_width(run.size, 4));
  }

  Expr address(const Coordinates& at) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[i];
    return start + Expr(offset);
  }

  Expr start;
  std::vector<std::int64_t> strides;
  Run run;
  std::int64_t width = 1;
};

}  // namespace

void Expander::load(const KernelOp& op) {
  const TileState& state = tile(op.tile);
  GlobalAccess access(*this, op, state);
  const DType type = access.buffer().type;
  for (const std::vector<std::size_t>& group : access.access_groups()) {
    std::vector<std::string> targets;
    for (const std::size_t r : group) targets.push_back(state.registers[r]);
    const Expr condition = access.condition(group[0]);
    if (condition && condition.is_constant(0)) {
      for (const std::size_t r : group)
        assign(state.registers[r], state.tile->type, Expr::cast(access.fill(r), state.tile->type));
      continue;
    }
    std::vector<std::string> raw = targets;
    if (type != state.tile->type) {
      for (std::string& name : raw) {
        name = names_.unique(name + "_raw");
        declare(name, type, {});
      }
    }
    const Expr address = access.address(group[0]);
    const Expr fill = condition ? access.fill(group[0]) : Expr();
    ThreadStatement& s = emit(Kind::load_global);
    s.type = type;
    s.buffer = op.buffer;
    s.names = raw;
    s.index = address;
    s.predicate = condition;
    s.fill = fill;
    if (type == state.tile->type) continue;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      assign(targets[i], state.tile->type, Expr::cast(Expr::value(raw[i], type), state.tile->type));
    }
  }
}

void Expander::store(const KernelOp& op) {
  TileState& state = tile(op.tile);
  GlobalAccess access(*this, op, state);
  Expr sole = sole_holder(state.tile->distribution, kernel_.subgroup_size, kernel_.subgroups);
  if (sole) sole = hoist(sole, "sole");
  for (const std::vector<std::size_t>& group : access.access_groups()) {
    const Expr condition = access.condition(group[0]);
    if (condition && condition.is_constant(0)) continue;
    std::vector<Expr> values;
    for (const std::size_t r : group) {
      values.push_back(Expr::cast(access.elements().evaluate(op.expr, state.coordinates[r]), access.buffer().type));
    }
    const Expr address = access.address(group[0]);
    ThreadStatement& s = emit(Kind::store_global);
    s.type = access.buffer().type;
    s.buffer = op.buffer;
    s.exprs = std::move(values);
    s.index = address;
    s.predicate = logical_and(sole, condition);
  }
}

void Expander::to_workgroup(const KernelOp& op) {
  const TileState& state = tile(op.source);
  const SharedAccess access(*this, state, *tile(op.tile).tile);
  Expr sole = sole_holder(state.tile->distribution, kernel_.subgroup_size, kernel_.subgroups);
  if (sole) sole = hoist(sole, "sole");
  for (const std::vector<std::size_t>& group : groups(state.registers.size(), access.run, access.width)) {
    ThreadStatement& s = emit(Kind::store_shared);
    s.type = state.tile->type;
    s.buffer = array(op.tile);
    for (const std::size_t r : group) s.exprs.push_back(Expr::value(state.registers[r], state.tile->type));
    s.index = access.address(state.coordinates[group[0]]);
    s.predicate = sole;
  }
}

void Expander::from_workgroup(const KernelOp& op) {
  const TileState& state = tile(op.tile);
  const SharedAccess access(*this, state, *tile(op.source).tile);
  for (const std::vector<std::size_t>& group : groups(state.registers.size(), access.run, access.width)) {
    ThreadStatement& s = emit(Kind::load_shared);
    s.type = state.tile->type;
    s.buffer = array(op.source);
    for (const std::size_t r : group) s.names.push_back(state.registers[r]);
    s.index = access.address(state.coordinates[group[0]]);
  }
}

}  // namespace aicf::expansion
