#include "mir/memory/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

#include "mir/kernel/expand_plan.h"
#include "mir/kernel/lower.h"
#include "mir/support/contains.h"

namespace aicf {
namespace {

using Kind = PlannedAction::Kind;

std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Axes a of `inside` conjuncts `a < extent`.
void kept_ends(const Expr& predicate, const StreamingRegion& region, std::vector<std::string>& out) {
  if (!predicate) return;
  if (predicate.op() == Op::and_) {
    for (const Expr& e : predicate.args()) kept_ends(e, region, out);
    return;
  }
  for (const Axis& a : region.axes) {
    if (predicate == less(Expr::axis(a.name), a.extent) && !contains(out, a.name)) out.push_back(a.name);
  }
}

/// The widest access of workgroup memory (elements) that keeps every vector in one row and aligned, when a tile is
/// staged from registers spread as `from`.
int staged_width(const KernelTile& array, const Distribution& from) {
  if (array.axes.empty()) return 1;
  std::int64_t run = 1, divisor = 0, pitch = 1;
  for (std::size_t i = array.axes.size(); i-- > 0;) {
    const bool last = i + 1 == array.axes.size();
    for (const Factor& f : from.factors) {
      if (f.axis != array.axes[i].name || f.size == 1) continue;
      if (last && f.level == Level::reg && f.stride == 1) {
        run = f.size;
      } else {
        divisor = std::gcd(divisor, f.stride * pitch);
      }
    }
    pitch *= array.axes[i].extent + (last ? array.row_padding : 0);
  }
  int width = 1;
  while (width < 4 && run % (2 * width) == 0 && divisor % (2 * width) == 0) width *= 2;
  return width;
}

class Planner {
 public:
  Planner(const ScheduledRegion& scheduled, const PlacementOptions& options)
      : region_(scheduled.region), schedule_(scheduled.schedule), options_(options) {
    for (const TileDecl& t : region_.tiles) decls_.insert(t.name);
    const auto add = [&](const std::vector<StepStatement>& list) {
      for (const StepStatement& s : list)
        if (s.kind == StepStatement::Kind::local) locals_.insert(s.name);
    };
    add(region_.prologue);
    add(region_.epilogue);
    for (const Stream& s : region_.streams) {
      for (const TileDecl& t : s.tiles) decls_.insert(t.name);
      for (const StateDecl& d : s.states) states_.insert(d.name);
      add(s.step);
      add(s.finish);
    }
  }

  Result<PlacementPlan> run(const LoweredRegion& lowered) {
    plan_.name = region_.name;
    plan_.subgroup_size = schedule_.subgroup_size;
    plan_.subgroups = schedule_.subgroups;
    axes();
    for (const auto& [tile, facts] : schedule_.tiles) {
      if (facts.stages < 1 || facts.stages > options_.most_stages) {
        return unsupported(fmt::format("tile '{}' is scheduled with {} stages, lowering supports 1 to {}", tile,
                                       facts.stages, options_.most_stages),
                           region_.name);
      }
    }
    for (const ScratchBuffer& b : lowered.scratch) scratch(b.name, b.type);
    passed_through(lowered);
    for (const Kernel& k : lowered.kernels) AICF_RETURN_IF_ERROR(launch(k));
    std::erase_if(plan_.tiles, [&](const PlannedTile& t) { return !used_.contains(t.name); });
    graph_ = graph_of(plan_);  // values are numbered by tile
    for (std::size_t i = 0; i < plan_.tiles.size(); ++i) plan_.tiles[i].live = graph_.live(static_cast<int>(i));
    place();
    edges();
    return std::move(plan_);
  }

 private:
  void axes() {
    for (const Axis& a : region_.axes) {
      PlannedAxis p{a.name, a.extent, tile_extent(schedule_, a.name), Walk::whole, false};
      const auto n = a.extent.as_int();
      p.padded = n ? *n % p.tile != 0 : p.tile != 1;
      const bool streamed = std::ranges::any_of(region_.streams, [&](const Stream& s) { return s.axis == a.name; });
      if (contains(region_.parallel, a.name)) {
        p.walk = Walk::grid;
      } else if (streamed || !n || *n > p.tile) {
        p.walk = Walk::loop;
      }
      plan_.axes.push_back(std::move(p));
    }
  }

  void scratch(const std::string& buffer, DType type) {
    if (!scratch_.insert(buffer).second) return;
    PlannedTile t;
    t.name = buffer;
    t.role = TileRole::scratch;
    t.type = type;
    t.residency = Residency::off_chip;
    used_.insert(t.name);
    plan_.tiles.push_back(std::move(t));
  }

  /// Tensors that one action of the region stores and another loads.
  void passed_through(const LoweredRegion& lowered) {
    std::set<std::string> loads, stores;
    const std::function<void(const KernelBody&)> find = [&](const KernelBody& body) {
      for (const KernelOp& op : body) {
        if (op.kind == KernelOp::Kind::load) loads.insert(op.buffer);
        if (op.kind == KernelOp::Kind::store) stores.insert(op.buffer);
        find(op.body);
      }
    };
    for (const Kernel& k : lowered.kernels) find(k.body);
    for (const Kernel& k : lowered.kernels)
      for (const KernelBuffer& b : k.buffers)
        if (loads.contains(b.name) && stores.contains(b.name)) scratch(b.name, b.type);
  }

  // ---- one launch ------------------------------------------------------------------------------------------------

  Result<void> launch(const Kernel& kernel) {
    kernel_ = &kernel;
    names_.clear();
    exchanges_.clear();
    PlannedAction start;
    start.kind = Kind::launch;
    start.tensor = kernel.name;
    plan_.actions.push_back(start);
    staged_from_.clear();
    const std::function<void(const KernelBody&)> find = [&](const KernelBody& body) {
      for (const KernelOp& op : body) {
        if (op.kind == KernelOp::Kind::to_workgroup) staged_from_[op.source] = op.tile;
        if (op.kind == KernelOp::Kind::load) loaded_.insert(op.tile);
        find(op.body);
      }
    };
    loaded_.clear();
    find(kernel.body);
    for (const KernelTile& t : kernel.tiles) tile(t);
    AICF_RETURN_IF_ERROR(body(kernel.body));
    ++launch_;
    return {};
  }

  void tile(const KernelTile& k) {
    PlannedTile t;
    t.name = unique(k.name);
    names_[k.name] = t.name;
    t.launch = launch_;
    t.type = k.type;
    for (const TileAxis& a : k.axes) t.axes.emplace_back(a.name, a.extent);
    if (staged_from_.contains(k.name)) {
      t.role = TileRole::stage;
    } else if (loaded_.contains(k.name) || decls_.contains(k.name)) {
      t.role = TileRole::tile;
    } else if (states_.contains(k.name)) {
      t.role = TileRole::state;
    } else {
      t.role = locals_.contains(k.name) ? TileRole::local : TileRole::temporary;
    }
    const auto facts = schedule_.tiles.find(k.name);
    const auto element = static_cast<std::int64_t>(device_size(k.type));
    if (facts != schedule_.tiles.end()) t.delivery = facts->second.delivery;
    if (k.space == Space::workgroup) {
      t.residency = Residency::workgroup;
      t.row_padding = k.row_padding;
      if (facts != schedule_.tiles.end()) t.stages = facts->second.stages;
      std::int64_t elements = 1;
      for (std::size_t i = 0; i < k.axes.size(); ++i)
        elements *= k.axes[i].extent + (i + 1 == k.axes.size() ? k.row_padding : 0);
      t.bytes = (t.stages - 1) * rounded_up(elements * element, 16) + elements * element;
      for (const auto& [source, target] : staged_from_)
        if (target == k.name) t.vector = staged_width(k, kernel_->tile(source).distribution);
    } else {
      for (const Factor& f : k.distribution.factors)
        if (f.size > 1) t.spread.push_back({f.axis, f.level, f.size, f.stride, f.level == Level::reg ? 1 : f.position});
      t.bytes_per_thread = k.distribution.registers() * element;
      t.bytes = t.bytes_per_thread * plan_.threads();
    }
    plan_.tiles.push_back(std::move(t));
  }

  std::string unique(const std::string& name) const {
    return plan_.find(name) ? fmt::format("{}.{}", kernel_->name, name) : name;
  }

  Result<void> body(const KernelBody& ops) {
    for (const KernelOp& op : ops) AICF_RETURN_IF_ERROR(operation(op));
    return {};
  }

  /// The tile a kernel op names, under its name in the plan.
  std::string placed(const std::string& kernel_tile) {
    const std::string& name = names_.at(kernel_tile);
    used_.insert(name);
    return name;
  }

  PlannedAction& add(Kind kind) {
    plan_.actions.emplace_back().kind = kind;
    return plan_.actions.back();
  }
  int last() const { return static_cast<int>(plan_.actions.size()) - 1; }

  /// Reads of every value in the op's expressions; those that other lanes hold are remembered.
  Result<void> operands(const KernelOp& op, PlannedAction& a) {
    CoordinateSpace space;
    if (op.kind == KernelOp::Kind::reduce) {
      AICF_TRY(space, reduction_space(*kernel_, op));
    } else if (!op.tile.empty()) {
      space = CoordinateSpace::of(kernel_->tile(op.tile));
    }
    std::set<std::string> values;
    for (const Expr& e : element_expressions(op)) values.merge(values_of(e));
    for (const std::string& v : values) {
      const KernelTile& t = kernel_->tile(v);
      const std::string name = placed(v);
      if (!contains(a.reads, name)) a.reads.push_back(name);
      if (t.space == Space::workgroup) continue;
      const Result<FetchPlan> fetch = plan_fetch(t, space);
      if (!fetch) return unsupported(fetch.error().message, region_.name);
      if (fetch->kind != FetchPlan::Kind::own) from_other_lanes_.insert({name, last()});
    }
    return {};
  }

  Result<void> operation(const KernelOp& op) {
    switch (op.kind) {
      case KernelOp::Kind::load: {
        PlannedAction& a = add(Kind::load);
        a.writes = {placed(op.tile)};
        return access(op, a);
      }
      case KernelOp::Kind::store: {
        PlannedAction& a = add(Kind::store);
        a.reads = {placed(op.tile)};
        return access(op, a);
      }
      case KernelOp::Kind::compute: {
        PlannedAction& a = add(Kind::compute);
        a.writes = {placed(op.tile)};
        a.note = op.note;
        return operands(op, a);
      }
      case KernelOp::Kind::reduce: {
        PlannedAction& a = add(Kind::update);
        a.writes = {placed(op.tile)};
        if (op.reduce != ReduceOp::first) a.reads = a.writes;
        a.over = op.over;
        a.note = op.note;
        return operands(op, a);
      }
      case KernelOp::Kind::cross:
        cross(op);
        return {};
      case KernelOp::Kind::to_workgroup:
      case KernelOp::Kind::from_workgroup: {
        PlannedAction& a = add(op.kind == KernelOp::Kind::to_workgroup ? Kind::stage : Kind::fetch);
        a.writes = {placed(op.tile)};
        a.reads = {placed(op.source)};
        return {};
      }
      case KernelOp::Kind::multiply:
        return unsupported("a matrix product has no placement yet", kernel_->name);
      case KernelOp::Kind::barrier:
        add(Kind::barrier);
        return {};
      case KernelOp::Kind::loop:
      case KernelOp::Kind::branch: {
        PlannedAction& a = add(op.kind == KernelOp::Kind::loop ? Kind::loop : Kind::branch);
        if (op.kind == KernelOp::Kind::loop) {
          AICF_CHECK(op.bases.size() <= 1, "a loop over two axes in " + kernel_->name);
          if (!op.bases.empty()) a.axis = op.bases.begin()->first;
          a.step = op.step.as_int().value_or(0);
          a.begin = to_string(op.begin);
          a.end = to_string(op.end);
        }
        AICF_RETURN_IF_ERROR(body(op.body));
        add(Kind::end);
        return {};
      }
    }
    AICF_BUG("unknown kind of kernel operation");
  }

  Result<void> access(const KernelOp& op, PlannedAction& a) {
    a.tensor = op.buffer;
    kept_ends(op.predicate, region_, a.inside);
    if (scratch_.contains(op.buffer)) (op.kind == KernelOp::Kind::load ? a.reads : a.writes).push_back(op.buffer);
    return operands(op, a);
  }

  // Lanes by shuffles; then subgroup by subgroup through exchange memory, one barrier before the partner's values are
  // read and one after. Arrays are shared by all merges: one for each type and place among the states of that type.
  void cross(const KernelOp& op) {
    std::vector<std::string> states;
    for (const std::string& s : op.states) states.push_back(placed(s));
    if (!op.lane_masks.empty()) {
      PlannedAction& a = add(Kind::merge);
      a.writes = a.reads = states;
      a.lanes = op.lane_masks;
      a.note = op.note;
      for (const std::string& s : states) from_other_lanes_.insert({s, last()});
    }
    for (const std::int64_t mask : op.subgroup_masks) {
      std::vector<std::string> arrays;
      std::map<DType, int> used;
      for (const std::string& s : states) {
        const PlannedTile state = *plan_.find(s);
        const std::int64_t elements =
            state.bytes_per_thread / static_cast<std::int64_t>(device_size(state.type)) * plan_.threads();
        arrays.push_back(exchange(state.type, used[state.type]++, elements));
      }
      PlannedAction& write = add(Kind::exchange);
      write.reads = states;
      write.writes = arrays;
      write.subgroups = {mask};
      add(Kind::barrier);
      PlannedAction& read = add(Kind::merge);
      read.writes = read.reads = states;
      read.reads.insert(read.reads.end(), arrays.begin(), arrays.end());
      read.subgroups = {mask};
      read.note = op.note;
      add(Kind::barrier);
    }
  }

  std::string exchange(DType type, int ordinal, std::int64_t elements) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(device_size(type));
    auto& index = exchanges_.try_emplace({type, ordinal}, plan_.tiles.size()).first->second;
    if (index == plan_.tiles.size()) {
      PlannedTile t;
      t.name = unique(fmt::format("exchange_{}", exchanges_.size() - 1));
      t.role = TileRole::exchange;
      t.launch = launch_;
      t.type = type;
      t.residency = Residency::workgroup;
      t.delivery = Delivery::workgroup;
      t.axes = {{"", 0}};
      used_.insert(t.name);
      plan_.tiles.push_back(std::move(t));
    }
    PlannedTile& t = plan_.tiles[index];
    t.axes[0].second = std::max(t.axes[0].second, elements);
    t.bytes = std::max(t.bytes, bytes);
    return t.name;
  }

  // ---- workgroup memory ------------------------------------------------------------------------------------------

  void place() {
    std::map<int, std::int64_t> ends;
    std::vector<std::size_t> staged;
    for (std::size_t i = 0; i < plan_.tiles.size(); ++i) {
      PlannedTile& t = plan_.tiles[i];
      if (t.residency != Residency::workgroup) continue;
      staged.push_back(i);
      t.offset = rounded_up(ends[t.launch], 16);
      ends[t.launch] = t.offset + t.bytes;
    }
    if (options_.share_workgroup_memory) share(staged);
    for (const std::size_t i : staged)
      plan_.workgroup_bytes = std::max(plan_.workgroup_bytes, plan_.tiles[i].offset + plan_.tiles[i].bytes);
  }

  // Largest first, each at the lowest offset where every tile it would overlap is one it may share with.
  void share(std::vector<std::size_t> staged) {
    std::ranges::stable_sort(staged, std::greater{}, [&](std::size_t i) { return plan_.tiles[i].bytes; });
    std::vector<std::size_t> done;
    for (const std::size_t i : staged) {
      PlannedTile& t = plan_.tiles[i];
      std::vector<std::size_t> fixed;
      for (const std::size_t j : done)
        if (plan_.tiles[j].launch == t.launch && !may_share(i, j)) fixed.push_back(j);
      std::ranges::sort(fixed, {}, [&](std::size_t j) { return plan_.tiles[j].offset; });
      t.offset = 0;
      for (const std::size_t j : fixed) {
        const PlannedTile& other = plan_.tiles[j];
        if (t.offset + t.bytes <= other.offset) break;
        t.offset = std::max(t.offset, rounded_up(other.offset + other.bytes, 16));
      }
      done.push_back(i);
    }
  }

  bool may_share(std::size_t i, std::size_t j) const {
    const MemoryGraph::Interval a = plan_.tiles[i].live, b = plan_.tiles[j].live;
    if (plan_.tiles[i].stages > 1 || plan_.tiles[j].stages > 1) return false;
    if (a.first <= b.last && b.first <= a.last) return false;
    const std::array both{static_cast<int>(i), static_cast<int>(j)};
    return std::ranges::all_of(graph_.meetings(both), [&](const MemoryGraph::Meeting& m) {
      return same_threads(m, i) || same_threads(m, j) || barrier_between(m.from, m.to) >= 0;
    });
  }

  // ---- sync ------------------------------------------------------------------------------------------------------

  /// Two writes of one tile: its elements always come from the same threads.
  bool same_threads(const MemoryGraph::Meeting& m, std::size_t tile) const {
    const std::string& name = plan_.tiles[tile].name;
    const auto writes = [&](int action) {
      return contains(plan_.actions[static_cast<std::size_t>(action)].writes, name);
    };
    return m.from_writes && m.to_writes && writes(m.from) && writes(m.to);
  }

  std::ptrdiff_t launch_of(int action) const {
    return std::ranges::count(plan_.actions.begin(), plan_.actions.begin() + action + 1, Kind::launch,
                              &PlannedAction::kind);
  }

  /// The barrier nearest before `to` that every path from `from` passes; −1 when there is none.
  int barrier_between(int from, int to) const {
    const int count = static_cast<int>(plan_.actions.size());
    for (int back = 1; back < count; ++back) {
      const int at = (to - back + count) % count;
      if (plan_.actions[static_cast<std::size_t>(at)].kind == Kind::barrier && graph_.separates(at, from, to))
        return at;
    }
    return -1;
  }

  void connect(const MemoryGraph::Meeting& m, SyncScope scope, const std::string& tile) {
    const auto found = std::ranges::find_if(
        plan_.sync, [&](const SyncEdge& e) { return e.from == m.from && e.to == m.to && e.scope == scope; });
    if (found != plan_.sync.end()) {
      if (!contains(found->tiles, tile)) found->tiles.push_back(tile);
      return;
    }
    SyncEdge e{m.from, m.to, scope, -1, 0, m.distance, {tile}};
    switch (scope) {
      case SyncScope::subgroup:
        e.by = m.to;
        e.participants = plan_.subgroup_size;
        break;
      case SyncScope::workgroup:
        e.by = barrier_between(m.from, m.to);
        e.participants = plan_.threads();
        break;
      case SyncScope::device:
        for (int at = m.to; at > m.from; --at) {
          if (plan_.actions[static_cast<std::size_t>(at)].kind == Kind::launch) e.by = at;
        }
        break;
    }
    plan_.sync.push_back(std::move(e));
  }

  void edges() {
    for (std::size_t i = 0; i < plan_.tiles.size(); ++i) {
      const PlannedTile& t = plan_.tiles[i];
      const std::array value{static_cast<int>(i)};
      const auto meetings = graph_.meetings(value, t.stages);
      switch (t.residency) {
        case Residency::open:
          AICF_BUG("a placed tile without residency: " + t.name);
        case Residency::off_chip:
          for (const MemoryGraph::Meeting& m : meetings)
            if (!(m.from_writes && m.to_writes))
              connect(m, launch_of(m.from) == launch_of(m.to) ? SyncScope::workgroup : SyncScope::device, t.name);
          break;
        case Residency::subgroup_register:
          for (const MemoryGraph::Meeting& m : meetings)
            if (m.from_writes && from_other_lanes_.contains({t.name, m.to})) connect(m, SyncScope::subgroup, t.name);
          break;
        case Residency::workgroup:
          if (plan_.threads() == 1) break;
          in_workgroup_memory(i);
          break;
      }
    }
    std::ranges::stable_sort(plan_.sync, {}, [](const SyncEdge& e) { return std::pair(e.from, e.to); });
  }

  static bool overlap(const PlannedTile& a, const PlannedTile& b) {
    return b.residency == Residency::workgroup && a.launch == b.launch && a.offset < b.offset + b.bytes &&
           b.offset < a.offset + a.bytes;
  }

  /// Reads of tile i after its write, and writes of its bytes (by itself or by tiles that share them) after its reads.
  /// A write of i that is read is ordered before other tiles' writes through its readers.
  void in_workgroup_memory(std::size_t i) {
    const PlannedTile& t = plan_.tiles[i];
    std::vector<int> memory{static_cast<int>(i)};
    for (std::size_t j = 0; j < plan_.tiles.size(); ++j)
      if (j != i && overlap(t, plan_.tiles[j])) memory.push_back(static_cast<int>(j));
    const std::vector<MemoryGraph::Meeting> meetings = graph_.meetings(memory, t.stages);
    const auto at = [&](int action) -> const PlannedAction& { return plan_.actions[static_cast<std::size_t>(action)]; };
    const auto delivers = [&](const MemoryGraph::Meeting& m) {
      return contains(at(m.from).writes, t.name) && contains(at(m.to).reads, t.name);
    };
    for (const MemoryGraph::Meeting& m : meetings) {
      const bool read_before = contains(at(m.from).reads, t.name) && m.to_writes;
      const bool written_over =
          contains(at(m.from).writes, t.name) && m.to_writes && !contains(at(m.to).writes, t.name) &&
          std::ranges::none_of(meetings,
                               [&](const MemoryGraph::Meeting& r) { return r.from == m.from && delivers(r); });
      if (delivers(m) || read_before || written_over) connect(m, SyncScope::workgroup, t.name);
    }
  }

  const StreamingRegion& region_;
  const Schedule& schedule_;
  PlacementOptions options_;
  PlacementPlan plan_;
  MemoryGraph graph_;
  std::set<std::string> decls_, states_, locals_, scratch_;
  const Kernel* kernel_ = nullptr;
  int launch_ = 0;
  std::map<std::string, std::string> names_;        ///< kernel tile → plan tile
  std::map<std::string, std::string> staged_from_;  ///< register tile → workgroup tile it is staged into
  std::set<std::string> loaded_;
  std::set<std::string> used_;
  std::map<std::pair<DType, int>, std::size_t> exchanges_;
  std::set<std::pair<std::string, int>> from_other_lanes_;  ///< (tile, action that reads it there)
};

}  // namespace

Result<PlacementPlan> plan_placement(const ScheduledRegion& scheduled, const LoweredRegion& lowered,
                                     const PlacementOptions& options) {
  return Planner(scheduled, options).run(lowered);
}

Result<PlacementPlan> plan_placement(const ScheduledRegion& scheduled, const PlacementOptions& options) {
  AICF_TRY(const LoweredRegion lowered, lower(scheduled));
  return plan_placement(scheduled, lowered, options);
}

}  // namespace aicf
