#include "mir/kernel/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "mir/kernel/expand_plan.h"
#include "mir/kernel/lowering.h"
#include "mir/support/contains.h"

namespace aicf {

std::int64_t tile_extent(const Schedule& schedule, const std::string& axis) {
  auto it = schedule.axes.find(axis);
  return it == schedule.axes.end() ? 1 : it->second.tile();
}

namespace lowering {

namespace {

// Device integers have 32 bits: the extremes of i64 (neutral elements of min and max) become theirs, as at upload.
Expr in_device_range(const Expr& e) {
  return rewrite(e, [](const Expr& x) -> Expr {
    if (!x.is_constant() || !is_integer(x.type())) return {};
    if (x.int_number() == std::numeric_limits<std::int64_t>::max())
      return Expr::integer(std::numeric_limits<std::int32_t>::max(), x.type());
    if (x.int_number() == std::numeric_limits<std::int64_t>::min())
      return Expr::integer(std::numeric_limits<std::int32_t>::min(), x.type());
    return {};
  });
}

void flatten_product(const Expr& e, std::vector<Expr>& factors) {
  if (e.op() == Op::mul) {
    for (const Expr& a : e.args()) flatten_product(a, factors);
  } else {
    factors.push_back(e);
  }
}

}  // namespace

Lowering::Lowering(const StreamingRegion& region, const Schedule& schedule)
    : region_(region), schedule_(schedule), ranges_(region.ranges()) {
  kernel_.name = region.name;
  kernel_.subgroup_size = schedule.subgroup_size;
  kernel_.subgroups = schedule.subgroups;
  kernel_.ranges = ranges_;
  std::set<std::string> symbols;
  for (const Axis& a : region.axes) symbols.merge(symbols_of(a.extent));
  auto add_tile = [&](const TileDecl& t) {
    for (const auto* list : {&t.index, &t.shape})
      for (const Expr& e : *list) symbols.merge(symbols_of(e));
    if (t.guard) symbols.merge(symbols_of(t.guard));
  };
  auto add_statements = [&](const std::vector<StepStatement>& statements) {
    for (const StepStatement& x : statements) {
      if (x.body) symbols.merge(symbols_of(x.body));
      for (const auto* list : {&x.index, &x.shape})
        for (const Expr& e : *list) symbols.merge(symbols_of(e));
    }
  };
  for (const TileDecl& t : region.tiles) add_tile(t);
  add_statements(region.prologue);
  add_statements(region.epilogue);
  for (const Stream& s : region.streams) {
    for (const TileDecl& t : s.tiles) add_tile(t);
    add_statements(s.step);
    add_statements(s.finish);
  }
  kernel_.symbols.assign(symbols.begin(), symbols.end());
  for (const TileDecl& t : region.tiles) names_.insert(t.name);
  auto add_names = [&](const std::vector<StepStatement>& list) {
    for (const StepStatement& x : list) names_.insert(x.name);
  };
  add_names(region.prologue);
  add_names(region.epilogue);
  for (const Stream& s : region.streams) {
    for (const TileDecl& t : s.tiles) names_.insert(t.name);
    for (const StateDecl& d : s.states) names_.insert(d.name);
    add_names(s.step);
    add_names(s.finish);
  }
  for (const TileDecl& t : region.tiles) decls_[t.name] = &t;
  for (const Stream& s : region.streams) {
    stream_axes_.insert(s.axis);
    for (const TileDecl& t : s.tiles) decls_[t.name] = &t;
  }
}

/// `name`, or one like it that nothing of the region has: for what lowering adds beside a tile or state.
std::string Lowering::own(std::string name) const {
  while (names_.contains(name)) name += "_";
  return name;
}

// A name that nothing of the region has.
std::string Lowering::temporary() {
  for (;;) {
    std::string name = fmt::format("t{}", temp_count_++);
    if (!names_.contains(name)) return name;
  }
}

std::int64_t Lowering::tile(const std::string& axis) const {
  return tile_extent(schedule_, axis);
}

bool Lowering::padded(const std::string& axis) const {
  const Expr& extent = region_.axis(axis).extent;
  if (auto n = extent.as_int()) return *n % tile(axis) != 0;
  return tile(axis) != 1;
}

bool Lowering::looped(const std::string& axis) const {
  auto n = region_.axis(axis).extent.as_int();
  return !n || *n > tile(axis);
}

Expr Lowering::inside(const std::vector<std::string>& axes) const {
  Expr all;
  for (const std::string& a : axes)
    if (padded(a)) all = logical_and(all, less(Expr::axis(a), region_.axis(a).extent));
  return all;
}

// Lane and subgroup positions: the last axis of the region gets the fastest digits, so that neighbouring lanes hold
// neighbouring elements of the innermost axis. Axes that never meet (d of the scores, e of the result) may have the same lanes.
Result<void> Lowering::assign_positions() {
  const auto meets = axes_that_meet(region_);
  std::map<std::string, std::int64_t> lanes_end;
  std::int64_t lanes = 1, subgroup = 1;
  for (auto axis = region_.axes.rbegin(); axis != region_.axes.rend(); ++axis) {
    auto plan = schedule_.axes.find(axis->name);
    if (plan == schedule_.axes.end()) continue;
    std::int64_t stride = 1, lane = 1;
    for (const auto& [other, end] : lanes_end)
      if (meets.contains({axis->name, other})) lane = std::max(lane, end);
    auto& factors = spread_[axis->name];
    for (const AxisFactor& f : plan->second.factors) {
      if (f.size == 1) continue;
      Factor out{axis->name, f.level, f.size, stride, 1};
      if (f.level != Level::reg && (f.size & (f.size - 1)) != 0)
        return unsupported(
            fmt::format("lane and subgroup factors are powers of two, axis {} has {}", axis->name, f.size),
            region_.name);
      if (f.level == Level::lane) out.position = lane, lane *= f.size;
      if (f.level == Level::subgroup) out.position = subgroup, subgroup *= f.size;
      stride *= f.size;
      factors.push_back(out);
    }
    if (plan->second.size(Level::lane) > 1) lanes_end[axis->name] = lane, lanes = std::max(lanes, lane);
  }
  if (lanes > schedule_.subgroup_size)
    return unsupported(
        fmt::format("the schedule spreads {} lanes over a subgroup of {}", lanes, schedule_.subgroup_size),
        region_.name);
  if (subgroup != schedule_.subgroups)
    return unsupported(
        fmt::format("the schedule spreads {} subgroups, the workgroup has {}", subgroup, schedule_.subgroups),
        region_.name);
  return {};
}

std::vector<TileAxis> Lowering::tile_axes(const std::vector<std::string>& axes) const {
  std::vector<TileAxis> out;
  for (const std::string& a : axes) out.push_back({a, tile(a)});
  return out;
}

Distribution Lowering::distribution(const std::vector<std::string>& axes) const {
  Distribution d;
  for (auto a = axes.rbegin(); a != axes.rend(); ++a)
    if (auto it = spread_.find(*a); it != spread_.end())
      d.factors.insert(d.factors.end(), it->second.begin(), it->second.end());
  return d;
}

void Lowering::declare(const std::string& name, DType type, const std::vector<std::string>& axes) {
  if (tile_axes_.contains(name)) {
    AICF_CHECK(tile_axes_[name] == axes, "two tiles named " + name);
    return;
  }
  tile_axes_[name] = axes;
  kernel_.tiles.push_back({name, type, tile_axes(axes), Space::registers, distribution(axes), 0});
}

// Axes on which an expression's value varies inside a tile.
std::set<std::string> Lowering::varying(const Expr& e) const {
  std::set<std::string> out;
  for_each(e, [&](const Expr& x) {
    if (x.op() == Op::axis) out.insert(x.name());
    if (x.op() == Op::value) {
      auto it = tile_axes_.find(x.name());
      AICF_CHECK(it != tile_axes_.end(), "value " + x.name() + " is used before it is made in " + region_.name);
      out.insert(it->second.begin(), it->second.end());
    }
  });
  std::erase_if(out, [&](const std::string& a) { return tile(a) == 1; });
  return out;
}

// Computes parts that vary over fewer axes than their user once, at their own axes.
Expr Lowering::hoist(KernelBody& body, const Expr& e, const std::set<std::string>& user_axes) {
  if (op_arity(e.op()) == 0) return e;
  std::set<std::string> own = varying(e);
  bool leaf_like = e.op() == Op::cast || e.op() == Op::neg;
  if (own.size() < user_axes.size() && !leaf_like && is_float(e.type()) && !e.is_constant() && !own.empty()) {
    auto found = temps_.find(e);
    if (found != temps_.end()) return found->second;
    // A function of one operand alone: computed where the operand lies (spread over lanes), or at use when that is
    // workgroup memory.
    const KernelTile* operand = nullptr;
    for (const std::string& v : values_of(e)) {
      const KernelTile& t = kernel_.tile(v);
      if (!decls_.contains(v) || (operand && (t.space != operand->space || t.distribution != operand->distribution))) {
        operand = nullptr;
        break;
      }
      operand = &t;
    }
    if (operand && operand->space == Space::workgroup) return hoist_args(body, e, user_axes);
    std::string name = temporary();
    std::vector<std::string> axes;
    for (const Axis& a : region_.axes)
      if (own.contains(a.name)) axes.push_back(a.name);
    if (operand && axes_of(e).empty()) axes = tile_axes_.at(operand->name);
    Expr inner = hoist_args(body, e, own);
    if (operand && axes_of(e).empty()) {
      tile_axes_[name] = axes;
      kernel_.tiles.push_back({name, e.type(), operand->axes, Space::registers, operand->distribution, 0});
    } else {
      declare(name, e.type(), axes);
    }
    KernelOp op;
    op.kind = KernelOp::Kind::compute;
    op.tile = name;
    op.expr = inner;
    body.push_back(op);
    Expr value = Expr::value(name, e.type());
    temps_[e] = value;
    return value;
  }
  return hoist_args(body, e, user_axes);
}

Expr Lowering::hoist_args(KernelBody& body, const Expr& e, const std::set<std::string>& user_axes) {
  if (op_arity(e.op()) == 0) return e;
  std::vector<Expr> args;
  for (const Expr& a : e.args()) args.push_back(hoist(body, a, user_axes));
  return Expr::rebuild(e, std::move(args));
}

void Lowering::compute(KernelBody& body, const std::string& name, DType type, const std::vector<std::string>& axes,
                       const Expr& e, const std::string& note) {
  std::set<std::string> own(axes.begin(), axes.end());
  std::erase_if(own, [&](const std::string& a) { return tile(a) == 1; });
  Expr value = hoist(body, in_device_range(e), own);
  declare(name, type, axes);
  KernelOp op;
  op.kind = KernelOp::Kind::compute;
  op.tile = name;
  op.expr = value;
  op.note = note;
  body.push_back(op);
  forget_temps_of(name);
}

void Lowering::reduce(KernelBody& body, const std::string& name, ReduceOp reduce_op,
                      const std::vector<std::string>& axes, const std::vector<std::string>& over, const Expr& e,
                      const std::string& note) {
  std::set<std::string> all(axes.begin(), axes.end());
  all.insert(over.begin(), over.end());
  std::erase_if(all, [&](const std::string& a) { return tile(a) == 1; });
  Expr value = hoist_args(body, in_device_range(e), all);
  // An axis that no operand has: the body is spread over it. One without operands (counting) gets a tile that says which
  // coordinates this thread has, for each row that it asks for.
  const auto bare = [&](const std::string& a) {
    auto has = [&](const std::string& v) { return contains(tile_axes_.at(v), a); };
    return tile(a) > 1 && std::ranges::none_of(values_of(value), has);
  };
  if (std::ranges::any_of(over, bare)) {
    const bool counts = values_of(value).empty();
    const std::set<std::string> own = varying(value);
    std::vector<std::string> spread_axes = axes;
    std::erase_if(spread_axes, [&](const std::string& a) { return counts && !own.contains(a); });
    for (const std::string& a : over)
      if (!contains(spread_axes, a) && (!counts || bare(a))) spread_axes.push_back(a);
    KernelOp spread;
    spread.kind = KernelOp::Kind::compute;
    spread.tile = temporary();
    spread.expr = value;
    declare(spread.tile, e.type(), spread_axes);
    value = Expr::value(spread.tile, e.type());
    body.push_back(spread);
  }
  KernelOp op;
  op.kind = KernelOp::Kind::reduce;
  op.tile = name;
  op.reduce = reduce_op;
  op.expr = value;
  op.over = over;
  op.note = note;
  // Operands that were spread over lanes for their delivery leave partial results of their own: closed at once. What the
  // schedule spreads is closed after the loop.
  KernelOp close;
  close.kind = KernelOp::Kind::cross;
  if (auto space = reduction_space(kernel_, op)) {
    for (const CoordinateSpace::Slot& slot : space->slots) {
      if (!contains(over, slot.axis)) continue;
      for (const Factor& f : slot.threads) {
        auto planned = spread_.find(slot.axis);
        if (planned != spread_.end() && contains(planned->second, f)) continue;
        for (std::int64_t bit = 1; bit < f.size; bit *= 2)
          (f.level == Level::lane ? close.lane_masks : close.subgroup_masks).push_back(bit * f.position);
      }
    }
  }
  if (close.lane_masks.empty() && close.subgroup_masks.empty()) {
    body.push_back(op);
  } else {
    const std::string part = own(name + "_part");
    const DType type = kernel_.tile(name).type;
    declare(part, type, axes);
    KernelOp start;
    start.kind = KernelOp::Kind::compute;
    start.tile = part;
    start.expr = in_device_range(neutral(reduce_op, type));
    body.push_back(start);
    op.tile = part;
    body.push_back(op);
    close.states = {part};
    close.merge = {{part, combine(reduce_op, Expr::value("a." + part, type), Expr::value("b." + part, type))}};
    body.push_back(close);
    KernelOp join;
    join.kind = KernelOp::Kind::compute;
    join.tile = name;
    join.expr = combine(reduce_op, Expr::value(name, type), Expr::value(part, type));
    body.push_back(join);
  }
  forget_temps_of(name);
}

void Lowering::forget_temps_of(const std::string& name) {
  std::erase_if(temps_, [&](const auto& t) { return values_of(t.first).contains(name); });
}

// The body of a reduction over padded axes: neutral outside. A sum of products masks one computed factor at its own axes
// instead of every product, because the other operands are filled with zeros there.
Expr Lowering::guarded(KernelBody& body, const Expr& e, ReduceOp op, const std::vector<std::string>& over) {
  Expr in = inside(over);
  if (!in) return e;
  std::set<std::string> guard_axes = axes_of(in);
  if (op == ReduceOp::sum) {
    std::vector<Expr> factors;
    flatten_product(e, factors);
    if (factors.size() > 1) {
      std::size_t best = factors.size();
      std::size_t best_axes = 0;
      bool others_zero_filled = true;
      for (std::size_t i = 0; i < factors.size(); ++i) {
        std::set<std::string> v = varying(factors[i]);
        bool has = std::ranges::includes(v, guard_axes);
        bool is_tile = factors[i].op() == Op::value && decls_.contains(factors[i].name());
        if (has && !is_tile && (best == factors.size() || v.size() < best_axes)) best = i, best_axes = v.size();
        if (!is_tile && !has) continue;
      }
      for (std::size_t i = 0; i < factors.size(); ++i) {
        if (i == best) continue;
        for (const std::string& v : values_of(factors[i])) {
          auto d = decls_.find(v);
          bool carries =
              std::ranges::any_of(tile_axes_.at(v), [&](const std::string& a) { return guard_axes.contains(a); });
          if (carries && (factors[i].op() != Op::value || d == decls_.end() ||
                          (d->second->fill && !d->second->fill.is_constant(0))))
            others_zero_filled = false;
        }
      }
      if (best < factors.size() && others_zero_filled) {
        std::set<std::string> own = varying(factors[best]);
        Expr masked = Expr::select(in, factors[best], Expr::constant(factors[best].type(), 0));
        std::string name = temporary();
        std::vector<std::string> axes;
        for (const Axis& a : region_.axes)
          if (own.contains(a.name)) axes.push_back(a.name);
        compute(body, name, factors[best].type(), axes, masked, "outside the axis: neutral");
        factors[best] = Expr::value(name, factors[best].type());
        Expr product = factors[0];
        for (std::size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
        return product;
      }
      // Every factor is a tile that is zero outside: the product is zero already.
      bool all_tiles = std::ranges::all_of(factors, [&](const Expr& f) {
        return f.op() == Op::value && decls_.contains(f.name()) &&
               (!decls_.at(f.name())->fill || decls_.at(f.name())->fill.is_constant(0));
      });
      if (all_tiles && std::ranges::count_if(factors, [&](const Expr& f) {
                         return std::ranges::includes(varying(f), guard_axes);
                       }) == static_cast<long>(factors.size()))
        return e;
    }
  }
  return Expr::select(in, e, neutral(op, e.type()));
}

// ---- loads -------------------------------------------------------------------------------------------------------

const KernelBuffer& Lowering::use_buffer(const std::string& name, DType type, const std::vector<Expr>& shape,
                                         bool written) {
  for (KernelBuffer& b : kernel_.buffers)
    if (b.name == name) {
      b.written |= written;
      return b;
    }
  kernel_.buffers.push_back({name, type, shape, written});
  return kernel_.buffers.back();
}

// The tile axis along which consecutive coordinates are consecutive elements of the tensor; empty when there is none.
std::string Lowering::contiguous_axis(const TileDecl& t) const {
  if (t.index.empty()) return {};
  std::set<std::string> axes(t.axes.begin(), t.axes.end());
  auto last = as_affine(simplify(t.index.back(), ranges_), axes);
  if (!last) return {};
  for (const auto& [name, coefficient] : last->coefficients)
    if (coefficient.is_constant(1) && std::ranges::none_of(std::span(t.index).first(t.index.size() - 1),
                                                           [&](const Expr& e) { return depends_on_axis(e, name); }))
      return name;
  return {};
}

// A distribution that spreads a tile over all threads (workgroup staging) or over the lanes of each subgroup (broadcast
// delivery): vector elements of the contiguous axis first, then lanes along it, then the other axes.
Distribution Lowering::cooperative(const TileDecl& t, int width, bool across_subgroups) const {
  std::vector<std::string> order(t.axes.rbegin(), t.axes.rend());
  std::string first = contiguous_axis(t);
  std::ranges::stable_partition(order, [&](const std::string& a) { return a == first; });
  std::int64_t lanes = schedule_.subgroup_size, subgroups = across_subgroups ? schedule_.subgroups : 1;
  std::int64_t lane_position = 1, subgroup_position = 1;
  Distribution d;
  std::map<std::string, std::int64_t> stride, rest;
  for (const std::string& a : order) stride[a] = 1, rest[a] = tile(a);
  if (!order.empty() && order[0] == first && width > 1 && rest[first] % width == 0) {
    d.factors.push_back({first, Level::reg, width, 1, 1});
    stride[first] = width, rest[first] /= width;
  }
  auto take = [&](const std::string& a, Level level, std::int64_t& available, std::int64_t& position) {
    std::int64_t size = 1;
    while (size * 2 <= available && rest[a] % (size * 2) == 0) size *= 2;
    if (size == 1) return;
    d.factors.push_back({a, level, size, stride[a], position});
    stride[a] *= size, rest[a] /= size, available /= size, position *= size;
  };
  for (const std::string& a : order) take(a, Level::lane, lanes, lane_position);
  for (const std::string& a : order) take(a, Level::subgroup, subgroups, subgroup_position);
  for (const std::string& a : order)
    if (rest[a] > 1) d.factors.push_back({a, Level::reg, rest[a], stride[a], 1});
  return d;
}

void Lowering::load(KernelBody& body, const TileDecl& t) {
  TilePlan plan;
  if (auto it = schedule_.tiles.find(t.name); it != schedule_.tiles.end()) plan = it->second;
  use_buffer(t.tensor, t.type, t.shape, false);
  for (const Expr& i : t.index) ensure_loaded(body, i);  // an index may read another tile
  if (t.guard) ensure_loaded(body, t.guard);
  KernelOp op;
  op.kind = KernelOp::Kind::load;
  op.buffer = t.tensor;
  op.index = t.index;
  op.predicate = logical_and(inside(t.axes), t.guard);
  op.fill = t.fill ? t.fill : Expr::constant(t.type, 0);
  op.vector_width = plan.vector_width;
  auto make = [&](const std::string& name, Space space, const Distribution& d, std::int64_t padding) {
    if (std::ranges::any_of(kernel_.tiles, [&](const KernelTile& k) { return k.name == name; })) return;
    std::vector<std::string> axes = t.axes;
    if (space == Space::workgroup) {  // rows as in memory: vector accesses stay vector accesses
      auto dimension = [&](const std::string& a) {
        for (std::size_t i = 0; i < t.index.size(); ++i)
          if (depends_on_axis(t.index[i], a)) return i;
        return t.index.size();
      };
      std::ranges::stable_sort(axes, {}, dimension);
    }
    kernel_.tiles.push_back({name, t.type, tile_axes(axes), space, d, padding});
  };
  tile_axes_[t.name] = t.axes;
  switch (plan.delivery) {
    case Delivery::registers:
      make(t.name, Space::registers, distribution(t.axes), 0);
      op.tile = t.name;
      body.push_back(op);
      break;
    case Delivery::lane_broadcast:
      make(t.name, Space::registers, cooperative(t, plan.vector_width, false), 0);
      op.tile = t.name;
      body.push_back(op);
      break;
    case Delivery::workgroup: {
      make(own(t.name + "_stage"), Space::registers, cooperative(t, plan.vector_width, true), 0);
      make(t.name, Space::workgroup, {}, plan.row_padding);
      op.tile = own(t.name + "_stage");
      body.push_back(op);
      KernelOp barrier;
      barrier.kind = KernelOp::Kind::barrier;
      KernelOp write;
      write.kind = KernelOp::Kind::to_workgroup;
      write.tile = t.name;
      write.source = own(t.name + "_stage");
      body.push_back(barrier);
      body.push_back(write);
      body.push_back(barrier);
      break;
    }
  }
  forget_temps_of(t.name);
}

}  // namespace lowering

namespace {

bool drop_barriers(Kernel& kernel, KernelBody& body) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind == KernelOp::Kind::loop || body[i].kind == KernelOp::Kind::branch) {
      if (drop_barriers(kernel, body[i].body)) return true;
    } else if (body[i].kind == KernelOp::Kind::barrier && body[i].note.empty()) {
      KernelOp barrier = body[i];
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
      if (verify(kernel)) return true;
      barrier.note = "ordered";  // needed
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), barrier);
    }
  }
  return false;
}

void clear_notes(KernelBody& body) {
  for (KernelOp& op : body) {
    if (op.kind == KernelOp::Kind::barrier) op.note.clear();
    clear_notes(op.body);
  }
}

// Every staged tile brings barriers of its own; those that order nothing which another does not order are dropped.
void drop_needless_barriers(Kernel& kernel) {
  while (drop_barriers(kernel, kernel.body)) {
  }
  clear_notes(kernel.body);
}

}  // namespace

std::set<std::pair<std::string, std::string>> axes_that_meet(const StreamingRegion& region) {
  std::set<std::pair<std::string, std::string>> out;
  const auto meet = [&](std::vector<std::string> axes, const std::vector<std::string>& more,
                        const std::string& stream) {
    axes.insert(axes.end(), more.begin(), more.end());
    if (!stream.empty()) axes.push_back(stream);
    for (const std::string& a : axes)
      for (const std::string& b : axes) out.emplace(a, b);
  };
  const auto statements = [&](const std::vector<StepStatement>& list, const std::string& stream) {
    for (const StepStatement& s : list) meet(s.axes, s.over, stream);
  };
  for (const TileDecl& t : region.tiles) meet(t.axes, {}, "");
  statements(region.prologue, "");
  for (const Stream& s : region.streams) {
    for (const TileDecl& t : s.tiles) meet(t.axes, {}, s.axis);
    for (const StateDecl& d : s.states) meet(d.axes, {}, s.axis);
    statements(s.step, s.axis);
    for (const StepStatement& x : s.step)
      if (x.kind == StepStatement::Kind::update)
        for (const StateDecl& d : s.states)
          if (d.name == x.name) meet(d.axes, x.over, s.axis);
    statements(s.finish, "");
  }
  statements(region.epilogue, "");
  return out;
}

Result<LoweredRegion> lower(const ScheduledRegion& scheduled) {
  lowering::Lowering l(scheduled.region, scheduled.schedule);
  AICF_TRY(LoweredRegion out, l.run());
  for (Kernel& k : out.kernels) drop_needless_barriers(k);
  return out;
}

}  // namespace aicf
