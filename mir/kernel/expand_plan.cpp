#include "mir/kernel/expand_plan.h"

#include <fmt/core.h>

#include <algorithm>

namespace aicf {
namespace {

/// One bit of a coordinate that a bit of the lane or subgroup id decides. Values are weights (powers of two).
struct ThreadBit {
  std::int64_t coordinate = 1;
  Level level = Level::lane;
  std::int64_t id = 1;
};

std::vector<ThreadBit> bits_of(const std::vector<Factor>& factors) {
  std::vector<ThreadBit> bits;
  for (const Factor& f : factors) {
    if (f.level == Level::reg) continue;
    for (std::int64_t digit = 1; digit < f.size; digit *= 2)
      bits.push_back({f.stride * digit, f.level, f.position * digit});
  }
  return bits;
}

bool same_threads(const Factor& a, const Factor& b) {
  return a.level == b.level && a.size == b.size && a.stride == b.stride && a.position == b.position;
}

bool shares_bits(const Distribution& distribution, const Factor& factor) {
  return std::ranges::any_of(distribution.factors, [&](const Factor& f) {
    return f.level == factor.level && f.size > 1 &&
           ((f.size - 1) * f.position & (factor.size - 1) * factor.position) != 0;
  });
}

/// bit `from` of an id, moved to weight `to`.
Expr moved_bit(const ThreadBit& bit, std::int64_t to) {
  const Expr id = Expr::symbol(bit.level == Level::lane ? "lane" : "subgroup");
  return mod(floordiv(id, Expr(bit.id)), Expr(2)) * Expr(to);
}

}  // namespace

CoordinateSpace CoordinateSpace::of(const KernelTile& tile) {
  CoordinateSpace space;
  for (const TileAxis& axis : tile.axes) {
    space.slots.push_back({axis.name, axis.extent, thread_factors(tile.distribution, axis.name)});
  }
  return space;
}

int CoordinateSpace::find(const std::string& axis) const {
  const auto found = std::ranges::find(slots, axis, &Slot::axis);
  return found == slots.end() ? -1 : static_cast<int>(found - slots.begin());
}

std::vector<Coordinates> register_coordinates(const KernelTile& tile) {
  const CoordinateSpace space = CoordinateSpace::of(tile);
  const std::int64_t count = tile.distribution.registers();
  std::vector<Coordinates> result(static_cast<std::size_t>(count), Coordinates(space.slots.size(), 0));
  std::int64_t weight = 1;
  for (const Factor& f : tile.distribution.factors) {
    if (f.level != Level::reg || f.size == 1) continue;
    const int slot = space.find(f.axis);
    AICF_CHECK(slot >= 0, "a factor of tile " + tile.name + " names axis " + f.axis);
    for (std::int64_t r = 0; r < count; ++r) {
      result[static_cast<std::size_t>(r)][static_cast<std::size_t>(slot)] += r / weight % f.size * f.stride;
    }
    weight *= f.size;
  }
  return result;
}

std::vector<std::int64_t> constants_of(const CoordinateSpace::Slot& slot) {
  std::vector<std::int64_t> result;
  for (std::int64_t c = 0; c < slot.extent; ++c) {
    const bool own = std::ranges::all_of(slot.threads, [&](const Factor& f) { return c / f.stride % f.size == 0; });
    if (own) result.push_back(c);
  }
  return result;
}

Result<FetchPlan> plan_fetch(const KernelTile& operand, const CoordinateSpace& space) {
  const auto error = [&](const std::string& axis, std::string reason) {
    return bad_input(
        fmt::format("value {} is used in a lane that does not hold it: along axis {} {}", operand.name, axis, reason));
  };
  FetchPlan plan;
  Expr moved = 0;         // id bits that come from other id bits
  bool own_bits = false;  // some lane bit is the thread's own
  bool any_moved = false;
  std::int64_t weight = 1;
  for (const Factor& f : operand.distribution.factors) {
    if (f.size == 1) continue;
    const int slot = space.find(f.axis);
    if (slot < 0) return error(f.axis, "its coordinate is not known here");
    const CoordinateSpace::Slot& at = space.slots[static_cast<std::size_t>(slot)];
    const std::vector<ThreadBit> sources = bits_of(at.threads);
    if (f.level == Level::reg) {
      for (const ThreadBit& bit : sources) {
        if (bit.coordinate >= f.stride && bit.coordinate < f.stride * f.size) {
          return error(f.axis, fmt::format("the register would depend on the {}", name(bit.level)));
        }
      }
      plan.registers.push_back({slot, f.stride, f.size, weight});
      weight *= f.size;
      continue;
    }
    for (const ThreadBit& bit : bits_of({f})) {
      const auto source = std::ranges::find(sources, bit.coordinate, &ThreadBit::coordinate);
      if (source == sources.end()) {
        if (bit.level == Level::subgroup) return error(f.axis, "another subgroup holds it");
        plan.lanes.push_back({slot, bit.coordinate, 2, bit.id});
      } else if (source->level == bit.level && source->id == bit.id) {
        if (bit.level == Level::lane) {
          own_bits = true;
          moved = moved + moved_bit(bit, bit.id);
        }
      } else {
        if (bit.level == Level::subgroup) return error(f.axis, "another subgroup holds it");
        any_moved = true;
        moved = moved + moved_bit(*source, bit.id);
      }
    }
  }
  if (any_moved || (own_bits && !plan.lanes.empty())) {
    plan.kind = FetchPlan::Kind::computed_lane;
    plan.lane_part = moved;
  } else if (!plan.lanes.empty()) {
    plan.kind = FetchPlan::Kind::constant_lane;
  }
  return plan;
}

Result<CoordinateSpace> reduction_space(const Kernel& kernel, const KernelOp& op) {
  const KernelTile& result = kernel.tile(op.tile);
  CoordinateSpace space = CoordinateSpace::of(result);
  std::vector<const KernelTile*> operands;
  for (const std::string& value : values_of(op.expr)) operands.push_back(&kernel.tile(value));
  const auto axis_of = [](const KernelTile& tile, const std::string& axis) -> const TileAxis* {
    const auto found = std::ranges::find(tile.axes, axis, &TileAxis::name);
    return found == tile.axes.end() ? nullptr : &*found;
  };
  for (const std::string& axis : op.over) {
    if (space.find(axis) >= 0) return bad_input(fmt::format("axis {} of tile {} is reduced over", axis, result.name));
    CoordinateSpace::Slot slot{axis, 0, {}};
    bool held = false;
    for (const KernelTile* tile : operands) {
      const TileAxis* found = axis_of(*tile, axis);
      if (!found) continue;
      if (slot.extent != 0 && slot.extent != found->extent) {
        return bad_input(
            fmt::format("axis {} has extents {} and {} in one reduction", axis, slot.extent, found->extent));
      }
      slot.extent = found->extent;
      if (tile->space == Space::workgroup) continue;
      const std::vector<Factor> threads = thread_factors(tile->distribution, axis);
      if (!held) {
        slot.threads = threads;
        held = true;
      } else {
        std::erase_if(slot.threads, [&](const Factor& f) {
          return std::ranges::none_of(threads, [&](const Factor& g) { return same_threads(f, g); });
        });
      }
    }
    // An axis that only coordinates name: its tile extent is that of any tile of the kernel.
    for (const KernelTile& tile : kernel.tiles) {
      if (slot.extent != 0) break;
      if (const TileAxis* found = axis_of(tile, axis)) slot.extent = found->extent;
    }
    if (slot.extent == 0) return bad_input(fmt::format("no tile holds axis {} that is reduced over", axis));
    if (op.reduce == ReduceOp::first) slot.threads.clear();
    std::erase_if(slot.threads, [&](const Factor& f) { return shares_bits(result.distribution, f); });
    space.slots.push_back(std::move(slot));
  }
  return space;
}

Expr row_major(const std::vector<Expr>& index, const std::vector<Expr>& shape) {
  Expr offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const Expr coordinate = Expr::cast(index[i], DType::i64);
    offset = i == 0 ? coordinate : offset * shape[i] + coordinate;
  }
  return offset;
}

std::vector<Expr> element_expressions(const KernelOp& op) {
  std::vector<Expr> result = op.index;
  for (const Expr& e : {op.expr, op.predicate, op.fill}) {
    if (e) result.push_back(e);
  }
  return result;
}

}  // namespace aicf
