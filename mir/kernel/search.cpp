#include "mir/kernel/search.h"
#include "mir/support/contains.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

namespace aicf {

std::string summary(const Schedule& schedule) {
  std::string out;
  for (const auto& [axis, plan] : schedule.axes) {
    if (plan.tile() == 1) continue;
    out += fmt::format("{}{} {} (", out.empty() ? "" : ", ", axis, plan.tile());
    bool first = true;
    for (const AxisFactor& f : plan.factors) {
      if (f.size == 1) continue;
      out += fmt::format("{}{} {}", first ? "" : ", ", name(f.level), f.size);
      first = false;
    }
    out += ")";
  }
  for (const auto& [tile, plan] : schedule.tiles)
    if (plan.delivery != Delivery::registers) out += fmt::format(", {} by {}", tile, name(plan.delivery));
  if (schedule.split > 1) out += fmt::format(", split {}", schedule.split);
  return out.empty() ? "one element a thread" : out;
}

namespace {

using Cost = std::function<PredictedCost(std::span<const StaticCounts>)>;

Result<EvaluatedSchedule> evaluate(const StreamingRegion& region, const Schedule& schedule, const Cost& cost,
                                   const std::map<std::string, std::int64_t>& sizes) {
  EvaluatedSchedule e{{region, schedule}, {}, {}, {}};
  AICF_TRY(e.lowered, lower(e.scheduled));
  for (const Kernel& k : e.lowered.kernels) {
    AICF_TRY(ThreadProgram program, expand(k));
    e.counts.push_back(count(program, sizes));
    e.programs.push_back(std::move(program));
  }
  e.scheduled.schedule.predicted = cost(e.counts);
  return e;
}

/// The best of what several threads evaluate. Which ones stay does not depend on who comes first: equal costs go by place.
class Best {
 public:
  explicit Best(std::size_t keep) : keep_(keep) {}

  void add(std::size_t place, Result<EvaluatedSchedule> evaluated) {
    const std::lock_guard lock(mutex_);
    if (!evaluated) {
      failures_.push_back(evaluated.error().message);
      return;
    }
    const PredictedCost& cost = evaluated->scheduled.schedule.predicted;
    AICF_CHECK(!std::isnan(cost.total), "a predicted time is a number");
    if (const std::pair rank(cost.total - cost.compiling, place); !quickest_ || rank < quickest_->first)
      quickest_.emplace(rank, *evaluated);
    // Memory is bounded: candidates far behind are dropped as the search goes.
    kept_.emplace(std::pair(cost.total, place), std::move(*evaluated));
    if (kept_.size() > keep_) kept_.erase(std::prev(kept_.end()));
  }

  std::vector<EvaluatedSchedule> take() {
    std::vector<EvaluatedSchedule> out;
    for (auto& [rank, e] : kept_) out.push_back(std::move(e));
    return out;
  }
  /// The one that runs in the least time once it is compiled, where it is not among the first `n` that were taken.
  std::optional<EvaluatedSchedule> quickest(std::size_t n) {
    if (!quickest_) return std::nullopt;
    auto it = kept_.begin();
    for (std::size_t i = 0; i < n && it != kept_.end(); ++i, ++it)
      if (it->first.second == quickest_->first.second) return std::nullopt;
    return std::move(quickest_->second);
  }
  std::vector<std::string>& failures() { return failures_; }

 private:
  std::size_t keep_;
  std::mutex mutex_;
  std::map<std::pair<double, std::size_t>, EvaluatedSchedule> kept_;
  std::optional<std::pair<std::pair<double, std::size_t>, EvaluatedSchedule>> quickest_;
  std::vector<std::string> failures_;
};

}  // namespace

Result<std::vector<EvaluatedSchedule>> search(const StreamingRegion& region, const std::vector<Schedule>& candidates,
                                              const Cost& cost, const std::map<std::string, std::int64_t>& sizes,
                                              std::size_t keep) {
  Best best(std::max<std::size_t>(keep, 2));
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < candidates.size(); i = next++)
      best.add(i, evaluate(region, candidates[i], cost, sizes));
  };
  {
    const std::size_t threads = std::min<std::size_t>({candidates.size(), std::thread::hardware_concurrency(), 8});
    std::vector<std::jthread> others;  // joined at the end of the block
    for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work);
    work();
  }
  std::vector<EvaluatedSchedule> out = best.take();
  std::vector<std::string>& failures = best.failures();
  if (out.empty()) {
    std::ranges::sort(failures);
    failures.erase(std::unique(failures.begin(), failures.end()), failures.end());
    if (failures.size() > 4) failures.resize(4);
    return unsupported(fmt::format("no schedule fits: {}", fmt::join(failures, "; ")), region.name);
  }
  if (out.size() > 1) {
    const Schedule &first = out[0].scheduled.schedule, &second = out[1].scheduled.schedule;
    double loss = first.predicted.total > 0 ? 100.0 * (second.predicted.total / first.predicted.total - 1) : 0;
    out[0].scheduled.schedule.runner_up =
        fmt::format("{}: {:.0f} % slower by the model, limited by {}", summary(second), loss, second.predicted.limit);
  }
  if (out.size() > keep) out.resize(keep);
  if (auto quickest = best.quickest(keep)) out.push_back(std::move(*quickest));
  return out;
}

// ---- enumeration -------------------------------------------------------------------------------------------------

namespace {

std::int64_t size_of(const Expr& extent, const std::map<std::string, std::int64_t>& sizes) {
  std::map<std::string, std::int64_t> bindings = sizes;
  for (const std::string& s : symbols_of(extent)) bindings.try_emplace(s, 64);
  auto v = evaluate_int(extent, bindings);
  return v ? *v : 64;
}

std::int64_t next_power(std::int64_t n) {
  std::int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

class Enumerator {
 public:
  Enumerator(const StreamingRegion& region, const ScheduleSpace& space,
             const std::map<std::string, std::int64_t>& sizes)
      : region_(region), space_(space), sizes_(sizes) {
    for (const Axis& a : region.axes) extent_[a.name] = std::max<std::int64_t>(1, size_of(a.extent, sizes));
    for (const Stream& s : region.streams) stream_ = s.axis;
    for (const TileDecl& t : region.tiles) tiles_.push_back(&t);
    for (const Stream& s : region.streams)
      for (const TileDecl& t : s.tiles) tiles_.push_back(&t);
    for (const Axis& a : region.axes) {
      bool parallel = contains(region.parallel, a.name);
      if (!parallel && a.name != stream_) held_.push_back(a.name);
    }
  }

  std::vector<Schedule> run(const std::map<std::string, std::string>& forced);

 private:
  void consider(const Schedule& s);
  void with_lanes(const std::string& lane_axis);
  void with_held_lanes();
  /// The last parallel axis besides `lane_axis` whose rows share what is loaded: some tile does not have it. Empty where
  /// there is none.
  std::string sharing_axis(const std::string& lane_axis = {}) const {
    std::string out;
    for (const std::string& a : region_.parallel)
      if (a != lane_axis && extent_.at(a) > 1 && !every_tile_has(a)) out = a;
    return out;
  }
  /// Those of `options` that `axis` has elements for; 1 alone where it is empty.
  std::vector<int> used(const std::vector<int>& options, const std::string& axis, std::int64_t each = 1) const {
    const std::int64_t extent = axis.empty() ? 0 : (extent_.at(axis) + each - 1) / each;
    std::vector<int> out;
    for (int n : options)
      if (n == 1 || n < 2 * extent) out.push_back(n);
    return out;
  }
  /// The lanes are not filled with rows that share a load: there are too few, or a lane does not hold one.
  bool rows_fill_no_lanes() const {
    const std::string axis = sharing_axis();
    if (axis.empty() || extent_.at(axis) < space_.subgroup_size) return true;
    return std::ranges::none_of(found_, [&](const auto& f) {
      const auto plan = f.second.axes.find(axis);
      return plan != f.second.axes.end() && plan->second.size(Level::lane) > 1;
    });
  }
  std::int64_t held_tile(const std::string& axis) const;
  bool vectorizable(const TileDecl& t, const std::string& axis) const;
  void plan_tiles(Schedule& s, Delivery delivery) const;
  double registers(const Schedule& s) const;
  double estimate(const Schedule& s) const;
  std::int64_t staged_bytes(const Schedule& s) const;
  bool every_tile_has(const std::string& axis) const {
    return std::ranges::all_of(tiles_, [&](const TileDecl* t) { return contains(t->axes, axis); });
  }

  const StreamingRegion& region_;
  const ScheduleSpace& space_;
  const std::map<std::string, std::int64_t>& sizes_;
  std::map<std::string, std::int64_t> extent_;
  std::string stream_;
  std::vector<const TileDecl*> tiles_;
  std::vector<std::string> held_;
  bool pieces_ = false;  ///< held axes are walked in pieces
  std::vector<std::pair<double, Schedule>> found_;
  std::map<std::string, std::string> forced_;
};

// Consecutive coordinates of `axis` are consecutive elements, and rows start on multiples.
bool Enumerator::vectorizable(const TileDecl& t, const std::string& axis) const {
  if (t.index.empty() || !contains(t.axes, axis)) return false;
  auto last = as_affine(t.index.back(), {axis});
  if (!last || !last->coefficients.contains(axis) || !last->coefficients.at(axis).is_constant(1)) return false;
  for (std::size_t i = 0; i + 1 < t.index.size(); ++i)
    if (depends_on_axis(t.index[i], axis)) return false;
  return true;
}

void Enumerator::plan_tiles(Schedule& s, Delivery delivery) const {
  std::string lane_axis;
  for (const auto& [axis, plan] : s.axes)
    if (plan.size(Level::lane) > 1) lane_axis = lane_axis.empty() ? axis : lane_axis;
  for (const TileDecl* t : tiles_) {
    TilePlan plan;
    bool has_lane = false, wide = true;
    std::int64_t elements = 1;
    for (const std::string& a : t->axes) {
      auto it = s.axes.find(a);
      if (it == s.axes.end()) continue;
      has_lane |= it->second.size(Level::lane) > 1;
      has_lane |= delivery == Delivery::lane_broadcast && it->second.size(Level::subgroup) > 1;
      elements *= it->second.tile();
    }
    // A gathered tile is loaded where it is used: its index is not spread otherwise.
    if (std::ranges::any_of(t->index, [](const Expr& i) { return !values_of(i).empty(); })) has_lane = true;
    // Needed by every lane: load once across them when there is enough to spread.
    if (!has_lane && elements >= s.subgroup_size) plan.delivery = delivery;
    if (!has_lane && elements < s.subgroup_size && delivery == Delivery::workgroup && elements > 1)
      plan.delivery = Delivery::registers;
    std::string contiguous;
    for (const std::string& a : t->axes)
      if (vectorizable(*t, a)) contiguous = a;
    plan.vector_width = 1;
    if (!contiguous.empty() && wide) {
      std::int64_t tile = s.axes.contains(contiguous) ? s.axes.at(contiguous).tile() : 1;
      std::int64_t first = tile;
      if (plan.delivery == Delivery::registers) {
        first = 1;
        if (s.axes.contains(contiguous) && !s.axes.at(contiguous).factors.empty() &&
            s.axes.at(contiguous).factors[0].level == Level::reg)
          first = s.axes.at(contiguous).factors[0].size;
      }
      for (int w : space_.vector_widths) {
        bool spread = plan.delivery != Delivery::lane_broadcast ||
                      tile % (static_cast<std::int64_t>(w) *
                              std::min<std::int64_t>(s.subgroup_size, std::max<std::int64_t>(1, tile / w))) ==
                          0;
        if (first % w == 0 && extent_.at(contiguous) % w == 0 && spread) {
          plan.vector_width = w;
          break;
        }
      }
    }
    plan.row_padding = plan.delivery == Delivery::workgroup ? space_.row_padding : 0;
    plan.residency = plan.delivery == Delivery::workgroup ? Residency::workgroup : Residency::subgroup_register;
    s.tiles[t->name] = plan;
  }
}

std::int64_t Enumerator::staged_bytes(const Schedule& s) const {
  std::int64_t bytes = 0;
  for (const TileDecl* t : tiles_) {
    if (s.tiles.at(t->name).delivery != Delivery::workgroup) continue;
    std::int64_t n = 1;
    for (const std::string& a : t->axes) n *= tile_extent(s, a);
    bytes += n * static_cast<std::int64_t>(device_size(t->type)) * 9 / 8 + 16;
  }
  return bytes;
}

// Scalars that tiles, states and locals hold in one thread.
double Enumerator::registers(const Schedule& s) const {
  auto held = [&](const std::vector<std::string>& axes, bool spread) {
    double n = 1, all = 1;
    for (const std::string& a : axes) {
      auto it = s.axes.find(a);
      if (it == s.axes.end()) continue;
      n *= static_cast<double>(it->second.size(Level::reg));
      all *= static_cast<double>(it->second.tile());
    }
    return spread ? std::max(1.0, all / s.subgroup_size) : n;
  };
  double total = 0, step = 0;
  for (const TileDecl* t : tiles_) {
    const TilePlan& p = s.tiles.at(t->name);
    double n = p.delivery == Delivery::workgroup ? 0 : held(t->axes, p.delivery == Delivery::lane_broadcast);
    if (t->lifecycle == Lifecycle::step)
      step = std::max(step, n);
    else
      total += n;
  }
  for (const Stream& st : region_.streams) {
    double states = 0;
    for (const StateDecl& d : st.states) states += held(d.axes, false);
    double locals = 0;
    for (const StepStatement& x : st.step)
      if (x.kind == StepStatement::Kind::local) locals = std::max(locals, held(x.axes, false));
    step = std::max(step, states + locals);
    for (const StepStatement& x : st.finish) step = std::max(step, held(x.axes, false));
  }
  for (const StepStatement& x : region_.epilogue) step = std::max(step, held(x.axes, false));
  return total + step;
}

// Work over traffic, to order candidates before they are lowered: element loads and broadcasts per thread and step against
// multiply-adds, and how well the grid fills.
double Enumerator::estimate(const Schedule& s) const {
  double threads = static_cast<double>(s.subgroup_size) * s.subgroups;
  double items = s.split;
  for (const std::string& a : region_.parallel)
    items *= static_cast<double>((extent_.at(a) + tile_extent(s, a) - 1) / tile_extent(s, a));
  double steps =
      stream_.empty()
          ? 1
          : static_cast<double>((extent_.at(stream_) + tile_extent(s, stream_) - 1) / tile_extent(s, stream_)) /
                s.split;
  double loads = 0, work = 0;
  for (const TileDecl* t : tiles_) {
    double n = 1, all = 1;
    bool streamed = contains(t->axes, stream_);
    for (const std::string& a : t->axes) {
      auto it = s.axes.find(a);
      if (it == s.axes.end()) continue;
      n *= static_cast<double>(it->second.size(Level::reg));
      all *= static_cast<double>(it->second.tile());
    }
    const TilePlan& p = s.tiles.at(t->name);
    double instructions =
        p.delivery == Delivery::registers ? n / p.vector_width : all / (s.subgroup_size * p.vector_width) + 0.05 * all;
    loads += instructions * 20 * (streamed ? steps : 1);
  }
  auto elements = [&](const std::vector<std::string>& axes, const std::vector<std::string>& over, bool streamed) {
    double n = 1;
    for (const auto* list : {&axes, &over})
      for (const std::string& a : *list)
        if (auto it = s.axes.find(a); it != s.axes.end()) n *= static_cast<double>(it->second.size(Level::reg));
    if (streamed && !contains(axes, stream_))
      if (auto it = s.axes.find(stream_); it != s.axes.end()) n *= static_cast<double>(it->second.size(Level::reg));
    return n;
  };
  for (const Stream& st : region_.streams)
    for (const StepStatement& x : st.step) work += elements(x.axes, x.over, true) * steps;
  for (const StepStatement& x : region_.epilogue) work += elements(x.axes, x.over, false);
  double idle = threads / std::max(1.0, threads);
  return (loads + work + 10 * steps) * items * idle * s.subgroups;
}

void Enumerator::consider(const Schedule& base) {
  std::vector<Delivery> deliveries{Delivery::registers};
  bool spreads = std::ranges::any_of(tiles_, [&](const TileDecl* t) {
    std::int64_t n = 1;
    for (const std::string& a : t->axes) {
      if (auto it = base.axes.find(a); it != base.axes.end()) {
        if (it->second.size(Level::lane) > 1) return false;
        n *= it->second.tile();
      }
    }
    return n >= base.subgroup_size;
  });
  if (spreads) deliveries = space_.shared_delivery;
  for (Delivery d : deliveries)
    for (int split : space_.splits) {
      Schedule s = base;
      s.split = split;
      if (split > 1 && (region_.streams.size() != 1 || extent_.at(stream_) < split * tile_extent(s, stream_) * 2))
        continue;
      double items = 1;
      for (const std::string& a : region_.parallel)
        items *= static_cast<double>((extent_.at(a) + tile_extent(s, a) - 1) / tile_extent(s, a));
      if (split > 1 && forced_.empty() && items >= space_.split_below) continue;
      plan_tiles(s, d);
      if (registers(s) > space_.register_budget) continue;
      if (staged_bytes(s) > space_.workgroup_bytes) continue;
      found_.emplace_back(estimate(s), std::move(s));
    }
}

// Elements of an axis that is neither parallel nor streamed which a thread takes at a time.
std::int64_t Enumerator::held_tile(const std::string& axis) const {
  constexpr std::int64_t piece = 8, most_whole = 1024;
  const auto n = region_.axis(axis).extent.as_int();
  if (pieces_) return axis == held_.back() ? std::clamp<std::int64_t>(n.value_or(piece), 1, piece) : 1;
  if (!n || *n > most_whole) return piece;
  const std::int64_t lanes = space_.subgroup_size;
  return *n > lanes ? (*n + lanes - 1) / lanes * lanes : std::max<std::int64_t>(1, *n);
}

void Enumerator::with_lanes(const std::string& lane_axis) {
  const std::int64_t lanes = space_.subgroup_size;
  bool streamed = lane_axis == stream_;
  // Another parallel axis takes registers too where that reuses a load.
  const std::string other = sharing_axis(lane_axis);
  bool contiguous = std::ranges::any_of(tiles_, [&](const TileDecl* t) { return vectorizable(*t, lane_axis); });
  std::int64_t lane_size = std::min(lanes, next_power(extent_.at(lane_axis)));
  for (int subgroups : space_.subgroups)
    for (int vector : contiguous ? space_.vector_widths : std::vector<int>{1}) {
      if (vector > 1 && extent_.at(lane_axis) < vector) continue;
      for (int r : used(space_.row_registers, lane_axis, lane_size * vector))
        for (int o : used(space_.row_registers, other))
          for (int j : used(space_.step_registers, streamed ? std::string() : stream_)) {
            Schedule s;
            s.subgroup_size = static_cast<int>(lanes);
            s.subgroups = subgroups;
            std::vector<AxisFactor> f;
            if (vector > 1) f.push_back({Level::reg, vector});
            f.push_back({Level::lane, lane_size});
            bool subgroups_here = streamed ? other.empty() : true;
            if (subgroups > 1 && subgroups_here && !streamed) f.push_back({Level::subgroup, subgroups});
            if (r > 1) f.push_back({Level::reg, r});
            s.axes[lane_axis].factors = f;
            if (!other.empty()) {
              std::vector<AxisFactor> of;
              if (o > 1) of.push_back({Level::reg, o});
              if (subgroups > 1 && streamed) of.push_back({Level::subgroup, subgroups});
              s.axes[other].factors = of;
            }
            if (streamed && other.empty() && subgroups > 1) continue;
            // Lanes that a short axis leaves over go to the other parallel axis.
            if (lane_size < lanes) {
              std::string spare = other;
              for (const std::string& a : region_.parallel)
                if (spare.empty() && a != lane_axis && extent_.at(a) > 1) spare = a;
              std::int64_t more = spare.empty() ? 1 : std::min(lanes / lane_size, next_power(extent_.at(spare)));
              if (more > 1) s.axes[spare].factors.insert(s.axes[spare].factors.begin(), {Level::lane, more});
            }
            if (!stream_.empty() && !streamed) s.axes[stream_].factors = {{Level::reg, j}};
            for (const std::string& h : held_) s.axes[h].factors = {{Level::reg, held_tile(h)}};
            consider(s);
          }
    }
}

// Lanes along the axes that a row holds: each holds a part of the row, and inner products add up across lanes.
void Enumerator::with_held_lanes() {
  const std::int64_t lanes = space_.subgroup_size;
  const std::string other = sharing_axis();
  const auto meet = axes_that_meet(region_);
  std::set<std::string> spread, accumulated;  // what lanes leave of a state's own sum is not added up
  for (const Stream& st : region_.streams)
    for (const StepStatement& x : st.step)
      if (x.kind == StepStatement::Kind::update) accumulated.insert(x.over.begin(), x.over.end());
  for (const std::string& h : held_)
    if (region_.axis(h).extent.as_int() && !accumulated.contains(h) &&
        std::ranges::none_of(spread, [&](const std::string& a) {
          return meet.contains({a, h});
        }))
      spread.insert(h);
  if (spread.empty()) return;
  for (int subgroups : space_.subgroups)
    for (int vector : space_.vector_widths)
      for (int o : used(space_.row_registers, other))
        for (int j : used(space_.step_registers, stream_)) {
          if (subgroups > 1 && other.empty()) continue;
          Schedule s;
          s.subgroup_size = static_cast<int>(lanes);
          s.subgroups = subgroups;
          bool wide = false;
          for (const std::string& h : held_) {
            std::vector<AxisFactor>& f = s.axes[h].factors;
            if (!spread.contains(h)) {
              f = {{Level::reg, held_tile(h)}};
              continue;
            }
            const std::int64_t n = extent_.at(h);
            const bool vectors =
                n % vector == 0 && std::ranges::any_of(tiles_, [&](const TileDecl* t) { return vectorizable(*t, h); });
            const std::int64_t v = vectors ? vector : 1, rest = (n + v * lanes - 1) / (v * lanes);
            wide |= v > 1;
            if (v > 1) f.push_back({Level::reg, v});
            f.push_back({Level::lane, lanes});
            if (rest > 1) f.push_back({Level::reg, rest});
          }
          if (vector > 1 && !wide) continue;
          if (!other.empty()) {
            if (o > 1) s.axes[other].factors.push_back({Level::reg, o});
            if (subgroups > 1) s.axes[other].factors.push_back({Level::subgroup, subgroups});
          }
          if (!stream_.empty()) s.axes[stream_].factors = {{Level::reg, j}};
          consider(s);
        }
}

std::vector<Schedule> Enumerator::run(const std::map<std::string, std::string>& forced) {
  forced_ = forced;
  std::vector<std::string> lane_axes;
  int parallel = 0;
  for (auto a = region_.parallel.rbegin(); a != region_.parallel.rend() && parallel < 2; ++a)
    if (extent_.at(*a) > 1) lane_axes.push_back(*a), ++parallel;
  if (!stream_.empty()) lane_axes.push_back(stream_);
  if (auto it = forced.find("lanes"); it != forced.end()) lane_axes = {it->second};
  if (lane_axes.empty() && !region_.parallel.empty()) lane_axes.push_back(region_.parallel.back());
  for (const bool pieces : {false, true}) {
    pieces_ = pieces;
    if (found_.empty() && pieces) with_held_lanes();
    if (found_.empty()) std::ranges::for_each(lane_axes, [&](const std::string& a) { with_lanes(a); });
  }
  if (!held_.empty() && rows_fill_no_lanes()) with_held_lanes();
  if (lane_axes.empty()) {  // a scalar region
    Schedule s;
    s.subgroup_size = space_.subgroup_size;
    consider(s);
  }
  std::ranges::stable_sort(found_, {}, [](const auto& p) { return p.first; });
  // The best few of every lane axis and delivery stay, so that the cost model sees real alternatives.
  std::vector<Schedule> out;
  std::map<std::string, int> per_form;
  for (auto& [estimate, s] : found_) {
    std::string form;
    for (const auto& [axis, plan] : s.axes)
      if (plan.size(Level::lane) > 1) form += axis + ",";
    for (const auto& [tile, plan] : s.tiles) form += name(plan.delivery);
    form += s.split > 1 ? "split" : "";
    if (per_form[form]++ >= (forced_.empty() ? 16 : 4096) || out.size() >= space_.most) continue;
    out.push_back(std::move(s));
  }
  return out;
}

Result<void> apply_forced(const StreamingRegion& region, std::vector<Schedule>& schedules,
                          const std::map<std::string, std::string>& forced) {
  auto number = [](const std::string& text) -> std::optional<std::int64_t> {
    if (text.empty() || text.size() > 9 || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
      return std::nullopt;
    return std::stoll(text);
  };
  for (const auto& [key, value] : forced) {
    auto dot = key.find('.');
    std::string what = key.substr(0, dot), target = dot == std::string::npos ? "" : key.substr(dot + 1);
    if (what == "tile") {
      auto n = number(value);
      if (!n || *n < 1) return bad_input(fmt::format("--schedule {}={}: a positive number is needed", key, value));
      if (std::ranges::find(region.axes, target, &Axis::name) == region.axes.end()) continue;  // another region's axis
      std::erase_if(schedules, [&](const Schedule& s) { return tile_extent(s, target) != *n; });
    } else if (what == "residency" || what == "delivery") {
      const Delivery wanted = value == "workgroup"        ? Delivery::workgroup
                              : value == "lane_broadcast" ? Delivery::lane_broadcast
                                                          : Delivery::registers;
      if (value != "workgroup" && value != "subgroup_register" && value != "registers" && value != "lane_broadcast")
        return bad_input(fmt::format("--schedule {}={}: one of workgroup, lane_broadcast, registers", key, value));
      for (Schedule& s : schedules) {
        auto t = s.tiles.find(target);
        if (t == s.tiles.end()) continue;
        if (value == "subgroup_register" && t->second.delivery != Delivery::workgroup) continue;
        t->second.delivery = wanted;
        t->second.residency = wanted == Delivery::workgroup ? Residency::workgroup : Residency::subgroup_register;
      }
    } else if (what == "split") {
      auto n = number(value);
      if (!n || *n < 1) return bad_input(fmt::format("--schedule {}={}: a positive number is needed", key, value));
      for (Schedule& s : schedules) s.split = region.streams.size() == 1 ? static_cast<int>(*n) : 1;
    } else if (what == "subgroups") {
      auto n = number(value);
      if (!n || *n < 1) return bad_input(fmt::format("--schedule {}={}: a positive number is needed", key, value));
      std::erase_if(schedules, [&](const Schedule& s) { return s.subgroups != *n; });
    } else if (what != "lanes") {
      return bad_input(fmt::format(
          "--schedule {}: unknown; keys are tile.AXIS, residency.TILE, delivery.TILE, split, subgroups, lanes", key));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Schedule>> enumerate_schedules(const StreamingRegion& region, const ScheduleSpace& space,
                                                  const std::map<std::string, std::string>& forced,
                                                  const std::map<std::string, std::int64_t>& sizes) {
  ScheduleSpace wide = space;
  if (!forced.empty()) wide.most = 4096;
  std::vector<Schedule> out = Enumerator(region, wide, sizes).run(forced);
  AICF_RETURN_IF_ERROR(apply_forced(region, out, forced));
  if (out.size() > space.most) out.resize(space.most);
  if (out.empty())
    return unsupported(
        forced.empty() ? "no schedule holds its states and operands on chip" : "no schedule has the forced choices",
        region.name);
  return out;
}

}  // namespace aicf
