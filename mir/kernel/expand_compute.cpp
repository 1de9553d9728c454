// Arithmetic on tiles: compute, reduce, cross, and the delivery of their operands.

#include <fmt/core.h>

#include <algorithm>

#include "mir/kernel/expand_state.h"

namespace aicf::expansion {

using Kind = ThreadStatement::Kind;

// ---- elements ----------------------------------------------------------------------------------------------------

Elements::Elements(Expander& expander, CoordinateSpace space, std::map<std::string, Operand> operands)
    : expander_(expander), space_(std::move(space)), operands_(std::move(operands)) {
  AICF_CHECK(space_.slots.size() <= 64, "more than 64 axes in one operation of kernel " + expander.kernel().name);
  starts_.resize(space_.slots.size());
  for (std::size_t i = 0; i < space_.slots.size(); ++i) {
    std::int64_t constants = space_.slots[i].extent;
    for (const Factor& f : space_.slots[i].threads) constants /= f.size;
    if (constants > 1) many_ |= std::uint64_t{1} << i;
  }
}

const Expr& Elements::analysed(const Expr& e) {
  const auto [found, inserted] = roots_.try_emplace(e.identity());
  if (!inserted) return found->second.second;
  std::set<Expr> distinct;
  const Expr shared = rewrite(e, [&](const Expr& node) { return *distinct.insert(node).first; });
  const auto walk = [&](const auto& self, const Expr& node) -> NodeInfo {
    const auto [known, first] = info_.try_emplace(node.identity());
    ++known->second.uses;
    if (!first) return known->second;
    NodeInfo info{0, known->second.uses, may_fail(node)};
    if (node.op() == Op::axis) {
      if (const int slot = space_.find(node.name()); slot >= 0) info.slots = std::uint64_t{1} << slot;
    } else if (node.op() == Op::value) {
      for (const TileAxis& axis : delivery(node.name()).operand.tile->axes) {
        if (const int slot = space_.find(axis.name); slot >= 0) info.slots |= std::uint64_t{1} << slot;
      }
    } else {
      AICF_CHECK(node.op() != Op::load, "a load inside an expression of kernel " + expander_.kernel().name);
      for (const Expr& arg : node.args()) {
        const NodeInfo part = self(self, arg);
        info.slots |= part.slots;
        info.may_fail |= part.may_fail;
      }
    }
    return info_[node.identity()] = info;
  };
  walk(walk, shared);
  found->second = {e, shared};
  return found->second.second;
}

std::uint64_t Elements::slots_of(const Expr& e) {
  return info_.at(analysed(e).identity()).slots;
}

Expr Elements::evaluate(const Expr& e, const Coordinates& at) {
  return value(analysed(e), at, many_);
}

Expr Elements::value(const Expr& e, const Coordinates& at, std::uint64_t user_slots) {
  switch (e.op()) {
    case Op::constant:
    case Op::symbol:
      return e;
    case Op::value:
      return fetch(e.name(), e.type(), at);
    case Op::axis: {
      const int slot = space_.find(e.name());
      if (slot < 0) return expander_.with_bases(e);
      const auto i = static_cast<std::size_t>(slot);
      if (!starts_[i]) starts_[i] = expander_.slot_start(space_.slots[i]);
      return starts_[i] + Expr(at[i]);
    }
    default:
      break;
  }
  const NodeInfo info = info_.at(e.identity());
  const std::uint64_t relevant = info.slots & many_;
  // Worth a variable when its user is evaluated more often, or there are several users.
  const bool shared = (relevant != user_slots || info.uses > 1) && !info.may_fail;
  std::pair<const void*, Coordinates> key;
  if (shared) {
    key = {e.identity(), at};
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (!(relevant >> i & 1)) key.second[i] = 0;
    }
    if (const auto found = computed_.find(key); found != computed_.end()) return found->second;
  }
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) args.push_back(value(arg, at, relevant));
  Expr result = Expr::rebuild(e, std::move(args));
  if (shared) {
    result = expander_.pure(result) ? expander_.hoist(result, "t") : expander_.temporary(result, "t");
    computed_.emplace(std::move(key), result);
  }
  return result;
}

Elements::Delivery& Elements::delivery(const std::string& name) {
  const auto [found, inserted] = deliveries_.try_emplace(name);
  Delivery& d = found->second;
  if (!inserted) return d;
  const auto given = operands_.find(name);
  d.operand = given != operands_.end() ? given->second : expander_.operand(name);
  const KernelTile& tile = *d.operand.tile;
  if (tile.space == Space::registers) {
    Result<FetchPlan> plan = plan_fetch(tile, space_);
    AICF_CHECK(plan.has_value(), plan.error().text());
    d.plan = std::move(*plan);
    return d;
  }
  const std::vector<std::int64_t> strides = workgroup_strides(tile);
  d.strides.assign(space_.slots.size(), 0);
  Expr start = 0;
  std::int64_t width = vector_width(tile.axes.empty() ? 1 : tile.axes.back().extent, 4);
  for (std::size_t i = 0; i < tile.axes.size(); ++i) {
    const int slot = space_.find(tile.axes[i].name);
    if (slot < 0 && tile.axes[i].extent == 1) continue;
    AICF_CHECK(slot >= 0, "workgroup tile " + name + " is read without a coordinate along " + tile.axes[i].name);
    const CoordinateSpace::Slot& at = space_.slots[static_cast<std::size_t>(slot)];
    d.strides[static_cast<std::size_t>(slot)] = strides[i];
    start = start + expander_.thread_part(at.threads) * Expr(strides[i]);
    if (i + 1 < tile.axes.size()) {
      width = vector_width(strides[i], width);
    } else {
      d.last_slot = slot;
      // Elements that different threads read do not share a vector.
      for (const Factor& f : at.threads) width = vector_width(f.stride, width);
    }
  }
  d.width = width;
  d.start = expander_.hoist(start, name + "_at");
  return d;
}

Expr Elements::fetch(const std::string& name, DType type, const Coordinates& at) {
  Delivery& d = delivery(name);
  if (d.operand.tile->space == Space::workgroup) return fetch_shared(d, type, at);
  const std::string& held = d.operand.registers.at(static_cast<std::size_t>(d.plan.register_at(at)));
  if (d.plan.kind == FetchPlan::Kind::own) return Expr::value(held, type);
  const std::int64_t lane = d.plan.lane_at(at);
  std::string& result = shuffled_[{held, lane}];
  if (result.empty()) {
    const bool constant = d.plan.kind == FetchPlan::Kind::constant_lane;
    const Expr source = constant ? Expr(lane) : expander_.hoist(d.plan.lane_part + Expr(lane), name + "_lane");
    result = expander_.names().unique(fmt::format("{}_from{}", held, lane));
    ThreadStatement& s = expander_.emit_definition(Kind::shuffle, result);
    s.type = type;
    s.exprs = {Expr::value(held, type)};
    s.lane = source;
  }
  return Expr::value(result, type);
}

Expr Elements::fetch_shared(Delivery& d, DType type, const Coordinates& at) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * d.strides[i];
  const std::string& array = expander_.array(d.operand.tile->name);
  if (const auto found = shared_.find({array, offset}); found != shared_.end()) return Expr::value(found->second, type);
  const std::int64_t first = d.last_slot < 0 ? offset : offset - at[static_cast<std::size_t>(d.last_slot)] % d.width;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < d.width; ++i) {
    names.push_back(expander_.names().unique(fmt::format("{}_v{}", array, first + i)));
    expander_.declare(names.back(), type, {});
    shared_[{array, first + i}] = names.back();
  }
  ThreadStatement& s = expander_.emit(Kind::load_shared);
  s.type = type;
  s.buffer = array;
  s.names = std::move(names);
  s.index = d.start + Expr(first);
  return Expr::value(shared_.at({array, offset}), type);
}

// ---- operations --------------------------------------------------------------------------------------------------

void Expander::compute(const KernelOp& op, bool fresh) {
  const TileState& result = tile(op.tile);
  Elements elements(*this, CoordinateSpace::of(*result.tile));
  for (std::size_t r = 0; r < result.registers.size(); ++r) {
    const Expr value = elements.evaluate(op.expr, result.coordinates[r]);
    if (fresh) {
      declare(result.registers[r], result.tile->type, value);
    } else {
      assign(result.registers[r], result.tile->type, value);
    }
  }
}

// Outermost over the reduced coordinates, innermost over the result's registers: what an operand delivers for one
// reduced coordinate (a broadcast, a shared read) is used at once by every result and then dead.
void Expander::reduce(const KernelOp& op) {
  const TileState& result = tile(op.tile);
  Result<CoordinateSpace> space = reduction_space(kernel_, op);
  AICF_CHECK(space.has_value(), space.error().text());
  const std::size_t own = result.tile->axes.size();
  std::vector<std::vector<std::int64_t>> constants;
  for (std::size_t i = own; i < space->slots.size(); ++i) {
    constants.push_back(op.reduce == ReduceOp::first ? std::vector<std::int64_t>{0} : constants_of(space->slots[i]));
  }
  Elements elements(*this, std::move(*space));
  std::vector<std::size_t> digits(constants.size(), 0);
  for (;;) {
    for (std::size_t r = 0; r < result.registers.size(); ++r) {
      Coordinates at = result.coordinates[r];
      for (std::size_t i = 0; i < constants.size(); ++i) at.push_back(constants[i][digits[i]]);
      const Expr term = elements.evaluate(op.expr, at);
      const Expr sum = Expr::value(result.registers[r], result.tile->type);
      const bool set = op.reduce == ReduceOp::first;
      assign(result.registers[r], result.tile->type, set ? term : combine(op.reduce, sum, term));
    }
    // The last axis runs fastest.
    std::size_t i = digits.size();
    while (i > 0 && ++digits[i - 1] == constants[i - 1].size()) digits[--i] = 0;
    if (i == 0) return;
  }
}

namespace {

/// subgroup xor mask.
Expr partner_subgroup(std::int64_t mask) {
  const Expr subgroup = Expr::symbol("subgroup");
  Expr result = subgroup;
  for (std::int64_t bit = 1; bit <= mask; bit *= 2) {
    if (mask & bit) result = result + (Expr(bit) - mod(floordiv(subgroup, Expr(bit)), Expr(2)) * Expr(2 * bit));
  }
  return result;
}

}  // namespace

void Expander::cross(const KernelOp& op) {
  using Registers = std::map<std::string, std::vector<std::string>>;
  // Every new value reads the old values of all states.
  const auto merge = [&](const Registers& partner) {
    std::map<std::string, Operand> operands;
    for (const std::string& state : op.states) {
      operands["a." + state] = operand(state);
      operands["b." + state] = {tile(state).tile, partner.at(state)};
    }
    std::vector<std::pair<std::string, Expr>> updates;
    for (const MergeRule& rule : op.merge) {
      const TileState& state = tile(rule.state);
      Elements elements(*this, CoordinateSpace::of(*state.tile), operands);
      for (std::size_t r = 0; r < state.registers.size(); ++r) {
        const Expr value = elements.evaluate(rule.value, state.coordinates[r]);
        updates.emplace_back(state.registers[r], temporary(value, state.registers[r] + "_merged"));
      }
    }
    for (const auto& [name, value] : updates) assign(name, value.type(), value);
  };
  for (const std::int64_t mask : op.lane_masks) {
    Registers partner;
    for (const std::string& name : op.states) {
      const TileState& state = tile(name);
      for (const std::string& reg : state.registers) {
        partner[name].push_back(names_.unique(fmt::format("{}_xor{}", reg, mask)));
        ThreadStatement& s = emit_definition(Kind::shuffle_xor, partner[name].back());
        s.type = state.tile->type;
        s.exprs = {Expr::value(reg, state.tile->type)};
        s.mask = mask;
      }
    }
    merge(partner);
  }
  // Between subgroups through workgroup memory: each thread writes its registers, then reads its partner's.
  const std::int64_t threads = std::int64_t{kernel_.subgroup_size} * kernel_.subgroups;
  for (const std::int64_t mask : op.subgroup_masks) {
    const Expr lane = Expr::symbol("lane"), lanes = kernel_.subgroup_size;
    const Expr here = hoist(Expr::symbol("subgroup") * lanes + lane, "exchange_at");
    const Expr there = hoist(partner_subgroup(mask) * lanes + lane, "exchange_from");
    Registers partner;
    std::map<DType, int> used;
    std::vector<ThreadStatement> reads;
    for (const std::string& name : op.states) {
      const TileState& state = tile(name);
      const DType type = state.tile->type;
      const auto count = static_cast<std::int64_t>(state.registers.size());
      const std::string array = exchange(type, used[type]++, count * threads);
      for (std::int64_t r = 0; r < count; ++r) {
        const std::string& reg = state.registers[static_cast<std::size_t>(r)];
        ThreadStatement& write = emit(Kind::store_shared);
        write.type = type;
        write.buffer = array;
        write.exprs = {Expr::value(reg, type)};
        write.index = here + Expr(r * threads);
        ThreadStatement& read = reads.emplace_back();
        read.kind = Kind::load_shared;
        read.type = type;
        read.buffer = array;
        read.names = {names_.unique(fmt::format("{}_xor_s{}", reg, mask))};
        read.index = there + Expr(r * threads);
        partner[name].push_back(read.names[0]);
      }
    }
    emit(Kind::barrier);
    for (ThreadStatement& read : reads) {
      declare(read.names[0], read.type, {});
      scopes_.back().out->push_back(std::move(read));
    }
    emit(Kind::barrier);
    merge(partner);
  }
}

}  // namespace aicf::expansion
