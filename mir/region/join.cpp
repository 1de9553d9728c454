#include "mir/region/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "mir/support/contains.h"

namespace aicf {

namespace {

constexpr std::size_t most_results = 8;  ///< of a joined region, which share its registers; a choice, not measured

/// The one axis that all streams of a region run along; empty when there is none.
std::string streamed_axis(const StreamingRegion& streaming) {
  if (streaming.streams.empty()) return {};
  const std::string& axis = streaming.streams[0].axis;
  return std::ranges::all_of(streaming.streams, [&](const Stream& s) { return s.axis == axis; }) ? axis : std::string();
}

class Join {
 public:
  Join(const PlannedRegion& a, const PlannedRegion& b)
      : a_(a), b_(b), streamed_a_(streamed_axis(a.streaming)), streamed_b_(streamed_axis(b.streaming)) {}

  std::optional<Region> run() {
    if (streamed_a_.empty() || streamed_b_.empty() || a_.streaming.parallel.size() != b_.streaming.parallel.size())
      return std::nullopt;
    meet_at_loads();
    if (!to_a_.contains(streamed_b_) || !shares_enough() || !meet_rows()) return std::nullopt;
    Region out = a_.region;
    for (const Axis& axis : b_.region.axes) {
      if (to_a_.contains(axis.name)) continue;
      std::string name = axis.name;
      for (int i = 1; std::ranges::find(out.axes, name, &Axis::name) != out.axes.end(); ++i)
        name = fmt::format("{}_{}", axis.name, i);
      to_a_[axis.name] = name;
      out.axes.push_back({name, axis.extent});
    }
    for (const auto& [from, to] : to_a_) places_[from] = Expr::axis(to);
    for (Statement s : b_.region.statements) {
      for (std::string& axis : s.axes) axis = to_a_.at(axis);
      for (std::string& axis : s.over) axis = to_a_.at(axis);
      s.body = substitute_axes(s.body, places_);
      if (const Statement* same = out.find(s.name)) {
        if (same->axes != s.axes || same->over != s.over || !(same->body == s.body)) return std::nullopt;
      } else {
        out.statements.push_back(std::move(s));
      }
    }
    for (RegionOutput o : b_.region.outputs) {
      for (Expr& i : o.index) i = substitute_axes(i, places_);
      out.outputs.push_back(std::move(o));
    }
    for (const RegionInput& i : b_.region.inputs)
      if (!out.input(i.tensor)) out.inputs.push_back(i);
    for (const std::string& o : b_.region.origin)
      if (!contains(out.origin, o)) out.origin.push_back(o);
    return out;
  }

 private:
  enum class Role { row, streamed, inner };
  static Role role(const PlannedRegion& r, const std::string& streamed, const std::string& axis) {
    return axis == streamed ? Role::streamed : contains(r.streaming.parallel, axis) ? Role::row : Role::inner;
  }
  bool may_meet(const std::string& of_b, const std::string& of_a) const {
    return role(b_, streamed_b_, of_b) == role(a_, streamed_a_, of_a) &&
           provably_equal(b_.region.axis(of_b).extent, a_.region.axis(of_a).extent);
  }

  /// Axes of b are those of a where both load one tensor alike.
  void meet_at_loads() {
    for (const Statement& t : b_.region.statements)
      for (const Expr& other : loads_of(t.body))
        for (const Statement& s : a_.region.statements)
          for (const Expr& load : loads_of(s.body))
            if (load.name() == other.name()) meet(other, load);
  }
  void meet(const Expr& other, const Expr& load) {
    std::map<std::string, std::string> pairs = to_a_;
    std::set<std::string> taken;
    for (const auto& [from, to] : pairs) taken.insert(to);
    for (std::size_t d = 0; d < load.args().size(); ++d) {
      const Expr &x = other.args()[d], &y = load.args()[d];
      if (x.op() != Op::axis || y.op() != Op::axis) {
        if (x.op() == Op::axis || y.op() == Op::axis || !(axes_of(x).empty() && x == y)) return;
        continue;
      }
      const auto known = pairs.find(x.name());
      if (known != pairs.end() ? known->second != y.name() : taken.contains(y.name()) || !may_meet(x.name(), y.name()))
        return;
      pairs[x.name()] = y.name();
      taken.insert(y.name());
    }
    to_a_ = std::move(pairs);
    shared_.insert(load.name());
  }

  static std::set<std::string> carried(const Region& region, const std::string& axis) {
    std::set<std::string> out;
    for (const Statement& s : region.statements)
      for (const Expr& load : loads_of(s.body))
        if (depends_on_axis(load, axis)) out.insert(load.name());
    return out;
  }
  bool shares_enough() const {
    const std::set<std::string> a = carried(a_.region, streamed_a_), b = carried(b_.region, streamed_b_);
    const auto shared =
        std::ranges::count_if(a, [&](const std::string& t) { return b.contains(t) && shared_.contains(t); });
    return 2 * shared > static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  }

  /// The rows that no shared load names: in order, by their sizes.
  bool meet_rows() {
    std::set<std::string> taken;
    for (const auto& [from, to] : to_a_) taken.insert(to);
    for (const std::string& row : b_.streaming.parallel) {
      if (to_a_.contains(row)) continue;
      const auto free = std::ranges::find_if(
          a_.streaming.parallel, [&](const std::string& axis) { return !taken.contains(axis) && may_meet(row, axis); });
      if (free == a_.streaming.parallel.end()) return false;
      to_a_[row] = *free;
      taken.insert(*free);
    }
    return true;
  }

  const PlannedRegion &a_, &b_;
  std::string streamed_a_, streamed_b_;
  std::map<std::string, std::string> to_a_;  ///< axes of b
  std::set<std::string> shared_;             ///< tensors that both load alike
  ExprMap places_;
};

/// Which regions read, themselves or through others, what others write. Each region is asked about many.
class Order {
 public:
  explicit Order(const std::vector<Traffic>& traffic) : traffic_(&traffic), before_(traffic.size()) {
    for (std::size_t i = 0; i < traffic.size(); ++i)
      for (const NodeId w : traffic[i].writes) writer_[w] = i;
  }

  bool waits(std::size_t region, std::size_t for_other) {
    std::vector<bool>& before = before_[region];
    if (before.empty()) {
      before.resize(traffic_->size());
      for (std::vector<std::size_t> work{region}; !work.empty();) {
        const std::vector<NodeId>& reads = (*traffic_)[work.back()].reads;
        work.pop_back();
        for (const NodeId r : reads) {
          const auto w = writer_.find(r);
          if (w == writer_.end() || before[w->second]) continue;
          before[w->second] = true;
          work.push_back(w->second);
        }
      }
    }
    return before[for_other];
  }

 private:
  const std::vector<Traffic>* traffic_;
  std::unordered_map<NodeId, std::size_t> writer_;
  std::vector<std::vector<bool>> before_;  ///< by region; empty until asked for
};

}  // namespace

void join_regions(std::vector<PlannedRegion>& regions, std::vector<Traffic>& traffic,
                  const std::function<std::expected<PlannedRegion, Refusal>(Region)>& derive,
                  const std::function<Result<double>(const StreamingRegion&)>& cost,
                  const std::function<void(Refusal)>& record) {
  bool full = false;  // the region at hand takes no other
  const auto join = [&](const PlannedRegion& a, const PlannedRegion& b) -> std::optional<PlannedRegion> {
    std::optional<Region> region = a.region.kind <= b.region.kind ? Join(a, b).run() : Join(b, a).run();
    if (!region) return std::nullopt;
    const std::vector<std::string> nodes = region->origin;
    const auto refuse = [&](std::string law, std::string reason) {
      record({nodes, std::move(law), std::move(reason)});
      return std::nullopt;
    };
    if (region->outputs.size() > most_results) {
      full = a.region.outputs.size() >= most_results;
      return refuse("capacity", fmt::format("a region that shares its loads writes at most {} results", most_results));
    }
    auto both = derive(std::move(*region));
    if (!both) return refuse(both.error().law, both.error().reason);
    const std::size_t passes = both->streaming.streams.size();
    if (passes > std::max(a.streaming.streams.size(), b.streaming.streams.size()))
      return refuse("one pass", "two results that share their loads would need more passes together than alone");
    if (!cost) return std::move(*both);
    const auto together = cost(both->streaming), one = cost(a.streaming), other = cost(b.streaming);
    if (!together) return refuse("capacity", together.error().message);
    if (!one || !other || *together <= *one + *other) return std::move(*both);
    return refuse("cost", fmt::format("the model predicts {:.0f} us together, {:.0f} us as separate regions", *together,
                                      *one + *other));
  };
  Order order(traffic);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    full = regions[i].streaming.streams.empty();
    for (std::size_t j = i + 1; j < regions.size() && !full;) {
      const auto is_read_too = [&](const RegionInput& x) { return regions[i].region.input(x.tensor) != nullptr; };
      std::optional<PlannedRegion> both;
      if (!regions[j].streaming.streams.empty() && std::ranges::any_of(regions[j].region.inputs, is_read_too) &&
          !order.waits(i, j) && !order.waits(j, i))
        both = join(regions[i], regions[j]);
      if (!both) {
        ++j;
        continue;
      }
      regions[i] = std::move(*both);
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(j));
      const auto append = [](std::vector<NodeId>& to, const std::vector<NodeId>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(traffic[i].reads, traffic[j].reads), append(traffic[i].writes, traffic[j].writes);
      traffic.erase(traffic.begin() + static_cast<std::ptrdiff_t>(j));
      order = Order(traffic);
      j = i + 1;
    }
  }
}

}  // namespace aicf
