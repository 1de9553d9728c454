#include "mir/region/form.h"
#include "mir/support/contains.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include "mir/memory/region_form.h"
#include "mir/memory/rename.h"
#include "mir/region/builder.h"
#include "mir/region/flatten.h"
#include "mir/region/growth.h"
#include "mir/region/join.h"
#include "mir/region/shape.h"
#include "mir/stream/derive.h"

namespace aicf {

namespace {

/// Predicted time that an attention may cost so as not to write its scores: memory that they never take.
constexpr double unwritten_scores = 1.5;

struct Formed {
  PlannedRegion planned;
  std::set<NodeId> members;
  std::set<NodeId> copies;  ///< members that others read too and that this region does not write
  Cuts cuts;
  Reason ended;  ///< why it reaches no further
};

class Former {
 public:
  Former(const Graph& graph, const FormOptions& options)
      : graph_(graph), options_(options), growth_(graph, options.fuse, done_, needed_) {}
  Result<RegionPlan> run();

 private:
  std::vector<NodeId> written(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies) const;
  NodeId coming_back(NodeId root, const std::set<NodeId>& members, const std::vector<NodeId>& written) const;
  std::expected<PlannedRegion, Failure> plan(NodeId root, const std::set<NodeId>& members,
                                             const std::set<NodeId>& copies, ReducedAt reduced_at,
                                             const DeriveOptions& how = {}) const;
  std::optional<PlannedRegion> along_another_axis(NodeId root, const std::set<NodeId>& members,
                                                  const std::set<NodeId>& copies, ReducedAt reduced_at,
                                                  std::string refused) const;
  std::optional<Formed> form(NodeId root, Reach from, const Bounds& bounds, std::vector<Refusal>* refusals) const;
  bool splits_none(const Formed& region) const;
  bool pays(NodeId root, const Formed& region) const;
  double cost_apart(NodeId root, const std::set<NodeId>& members, Reach from, bool* attends = nullptr) const;
  std::expected<PlannedRegion, Failure> derived(Region region, NodeId root, bool is_checked,
                                                const DeriveOptions& how = {}) const;
  std::string region_name(RegionKind kind);

  const Graph& graph_;
  const FormOptions& options_;
  std::set<NodeId> done_;                               ///< has a region that writes it
  std::set<NodeId> needed_;                             ///< an output, or read by a region
  std::vector<Traffic> formed_;                         ///< of the regions so far
  std::map<NodeId, std::vector<std::size_t>> readers_;  ///< in formed_, by what they read
  std::map<RegionKind, int> counts_;
  Growth growth_;
  mutable Bodies bodies_;
};

std::vector<NodeId> Former::written(NodeId root, const std::set<NodeId>& members,
                                    const std::set<NodeId>& copies) const {
  std::vector<NodeId> out;
  for (NodeId id : graph_.topological_order(members)) {
    if (copies.contains(id)) continue;
    bool outside = needed_.contains(id) || std::ranges::any_of(graph_.users(id), [&](NodeId u) {
                     return !members.contains(u) && !graph_.node(u).dead;
                   });
    if (id == root || (outside && !growth_.cheap(id)) || (outside && graph_.is_output(id))) out.push_back(id);
  }
  return out;
}

// A value that leaves the region and comes back, through nodes of the graph and through regions made so far, which give all
// of their results after all that they read; −1 when none does.
NodeId Former::coming_back(NodeId root, const std::set<NodeId>& members, const std::vector<NodeId>& written) const {
  for (NodeId id : written) {
    if (id == root) continue;
    std::vector<NodeId> inside{id}, outside;
    std::set<NodeId> seen{id};
    const auto take = [&](NodeId n) {
      if (seen.insert(n).second) (members.contains(n) ? inside : outside).push_back(n);
    };
    const auto regions_after = [&](NodeId n) {
      const auto readers = readers_.find(n);
      if (readers == readers_.end()) return;
      for (const std::size_t r : readers->second)
        for (const NodeId w : formed_[r].writes)
          if (!members.contains(w)) take(w);
    };
    // What is not written others compute again, from what is.
    while (!inside.empty()) {
      const NodeId n = inside.back();
      inside.pop_back();
      regions_after(n);
      for (NodeId u : graph_.users(n))
        if (!contains(written, u)) take(u);
    }
    while (!outside.empty()) {
      const NodeId n = outside.back();
      outside.pop_back();
      regions_after(n);
      for (NodeId u : graph_.users(n)) {
        if (members.contains(u)) return id;
        take(u);
      }
    }
  }
  return -1;
}

std::expected<PlannedRegion, Failure> Former::plan(NodeId root, const std::set<NodeId>& members,
                                                   const std::set<NodeId>& copies, ReducedAt reduced_at,
                                                   const DeriveOptions& how) const {
  const std::vector<NodeId> results = written(root, members, copies);
  if (const NodeId id = coming_back(root, members, results); id >= 0)
    return std::unexpected(Failure{
        refusal(graph_, members, "acyclic regions", "a value would leave the region and come back through another"),
        id,
        {}});
  auto built = build_region(graph_, members, root, results, reduced_at, bodies_);
  if (!built)
    return std::unexpected(Failure{
        refusal(graph_, {built.error().node}, built.error().law, built.error().reason), built.error().node, {}});
  Region region = std::move(*built);
  flatten_axes(region);
  detect_attention(region);
  if (region.kind != RegionKind::attention) {
    bool contracts = false, reduces_any = false, full = false;
    for (const Statement& s : region.statements) {
      if (s.over.empty()) continue;
      reduces_any = true;
      contracts |= primitive(graph_.node(s.node)) == Primitive::contract;
      for (const RegionOutput& o : region.outputs) {
        const Statement* out = region.find(o.value);
        full |= std::ranges::any_of(s.over, [&](const std::string& a) { return contains(out->axes, a); });
      }
    }
    region.kind = contracts     ? RegionKind::contraction
                  : full        ? RegionKind::normalisation
                  : reduces_any ? RegionKind::reduction
                                : RegionKind::map;
  }
  return derived(std::move(region), root, members.size() > 1, how);
}

std::expected<PlannedRegion, Failure> Former::derived(Region region, NodeId root, bool is_checked,
                                                      const DeriveOptions& how) const {
  auto streaming = derive(region, how);
  const NodeId aside = beside(graph_, region, root);
  if (auto* refused = std::get_if<Refusal>(&streaming)) return std::unexpected(Failure{*refused, aside, {}});
  PlannedRegion out{std::move(region), std::move(std::get<StreamingRegion>(streaming))};
  const std::string axis = out.streaming.streams.empty() ? std::string() : out.streaming.streams.front().axis;
  rename_values(out.streaming, usual_names(out.region, out.streaming));
  order_tiles(out.streaming);
  if (is_checked)
    if (auto refused = check_shape(graph_, out.region, out.streaming, options_.row_capacity)) {
      if (refused->culprit < 0) refused->culprit = aside;
      refused->streamed = axis;
      return std::unexpected(*refused);
    }
  return out;
}

// Another axis may have a form with less in a row: taken where it costs no more than the members apart.
std::optional<PlannedRegion> Former::along_another_axis(NodeId root, const std::set<NodeId>& members,
                                                        const std::set<NodeId>& copies, ReducedAt reduced_at,
                                                        std::string refused) const {
  DeriveOptions how;
  while (!refused.empty() && how.without.insert(refused).second) {
    auto planned = plan(root, members, copies, reduced_at, how);
    if (!planned) {
      refused = planned.error().streamed;
      continue;
    }
    const auto together = options_.cost(planned->streaming);
    if (!together || *together > cost_apart(root, members, Reach::cascade)) return std::nullopt;
    return std::move(*planned);
  }
  return std::nullopt;
}

// What the members cost as regions of their own; `attends`: whether scores stay unwritten in one of them.
double Former::cost_apart(NodeId root, const std::set<NodeId>& members, Reach from, bool* attends) const {
  double total = 0;
  std::set<NodeId> needed{root}, formed;
  const std::vector<NodeId> order = graph_.topological_order(members);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!needed.contains(*it) || formed.contains(*it)) continue;
    auto f = form(*it, from, {&members, &formed}, nullptr);
    if (!f) return std::numeric_limits<double>::infinity();
    auto cost = options_.cost(f->planned.streaming);
    if (!cost) return std::numeric_limits<double>::infinity();
    total += *cost;
    if (attends && f->planned.region.roles) *attends = true;
    for (NodeId id : written(*it, f->members, f->copies)) formed.insert(id);
    for (const RegionInput& i : f->planned.region.inputs) needed.insert(graph_.node(i.tensor).id);
  }
  return total;
}

// The widest region of `root` that the laws allow and the cost model likes.
std::optional<Formed> Former::form(NodeId root, Reach from, const Bounds& bounds,
                                   std::vector<Refusal>* refusals) const {
  std::set<NodeId> previous;
  Reason ended;
  for (Reach reach : {Reach::places, Reach::copies, Reach::chain, Reach::cascade, Reach::single, Reach::maps}) {
    if (from == Reach::places ? reach != from : reach < from) continue;
    std::vector<Refusal> said;
    std::set<NodeId> dropped = bounds.without ? *bounds.without : std::set<NodeId>{};
    Cuts cuts;
    // Whether the same reach may do without what the last refusal blames.
    const auto without = [&](NodeId culprit) {
      const Reason why{said.back().law, said.back().reason};
      if (culprit < 0 || culprit == root || !dropped.insert(culprit).second) {
        ended = why;
        return false;
      }
      cuts[culprit] = why;
      return true;
    };
    for (int attempt = 0; attempt < 16; ++attempt) {
      if (!said.empty()) ended = {said.back().law, said.back().reason};
      std::set<NodeId> copies;
      std::set<NodeId> members = growth_.grow(root, reach, {bounds.within, &dropped},
                                              reach <= Reach::chain && attempt == 0 ? &said : nullptr, copies, cuts);
      if (reach <= Reach::copies) {
        const std::size_t before = dropped.size();
        if (!growth_.drop_idle_copies(root, members, copies, dropped, cuts)) break;
        if (dropped.size() > before) continue;
      }
      if (members == previous) break;
      previous = members;
      const ReducedAt reduced_at = reach == Reach::places ? ReducedAt::several_places : ReducedAt::one_place;
      auto planned = plan(root, members, copies, reduced_at);
      if (!planned && planned.error().refusal.law == "capacity" && reach != Reach::places && refusals &&
          options_.fuse && options_.cost)
        if (auto other = along_another_axis(root, members, copies, reduced_at, planned.error().streamed))
          planned = std::move(*other);
      if (!planned) {
        said.push_back(planned.error().refusal);
        if (!without(planned.error().culprit)) break;
        continue;
      }
      bool joins = std::ranges::any_of(planned->streaming.streams, [](const Stream& s) {
        return std::ranges::any_of(
            s.step, [](const StepStatement& x) { return x.kind == StepStatement::Kind::local && !x.over.empty(); });
      });
      if (reach <= Reach::copies && !joins) break;
      if (reach == Reach::places &&
          std::ranges::all_of(planned->region.statements, [](const Statement& s) { return s.name == s.node; }))
        break;
      if (options_.cost && members.size() > 1) {
        auto together = options_.cost(planned->streaming);
        if (!together) {
          said.push_back({planned->region.origin, "capacity", together.error().message});
          std::set<std::string> streamed;
          for (const Stream& x : planned->streaming.streams) streamed.insert(x.axis);
          if (!without(widest_part(graph_, planned->region, streamed))) break;
          continue;
        }
        // Weighing a region takes others apart, which are not weighed again.
        double apart = joins && options_.fuse && refusals ? cost_apart(root, members, Reach::cascade) : *together;
        const double worth = planned->region.roles ? unwritten_scores : 1;
        if (apart * worth < *together) {
          said.push_back(
              {planned->region.origin, "cost",
               fmt::format("the model predicts {:.0f} us together, {:.0f} us as separate regions", *together, apart)});
          if (!without(repeated(graph_, planned->region, planned->streaming))) break;
          continue;
        }
      }
      for (const CertificateEntry& e : planned->streaming.certificate.entries) {
        if (e.law != "passes") continue;
        const Statement* waits = planned->region.find(e.statement);
        said.push_back({waits ? waits->origin : planned->region.origin, "one pass", e.condition});
      }
      if (refusals && options_.fuse) refusals->insert(refusals->end(), said.begin(), said.end());
      return Formed{std::move(*planned), std::move(members), std::move(copies), std::move(cuts), std::move(ended)};
    }
    if (reach <= Reach::copies) {
      previous.clear();
      continue;
    }
    if (refusals && options_.fuse) refusals->insert(refusals->end(), said.begin(), said.end());
  }
  return std::nullopt;
}

// Whether what is computed at several places, or others, stands here with all that its own region would compute.
bool Former::splits_none(const Formed& region) const {
  return std::ranges::all_of(region.planned.region.statements, [&](const Statement& s) {
    if (s.name == s.node) return true;
    const auto own = form(graph_.node(s.node).id, Reach::copies, {}, nullptr);
    return own && std::ranges::includes(region.members, own->members);
  });
}

// Whether computing values for each place costs no more than the regions that would write them once.
bool Former::pays(NodeId root, const Formed& region) const {
  if (!options_.cost) return true;
  bool attends = false;
  const double apart = cost_apart(root, region.members, Reach::copies, &attends);
  const auto together = options_.cost(region.planned.streaming);
  return together && *together <= apart * (region.planned.region.roles && !attends ? unwritten_scores : 1);
}

std::string Former::region_name(RegionKind kind) {
  return fmt::format("{}_{}", name(kind), counts_[kind]++);
}

Result<RegionPlan> Former::run() {
  RegionPlan plan_out;
  for (const Graph::Output& o : graph_.outputs()) needed_.insert(o.node);
  std::vector<NodeId> order = graph_.topological_order();
  // Of the outputs that nothing reads the widest comes first: what a narrower one needs of its rows is a state of it.
  const auto narrower = [&](NodeId a, NodeId b) {
    const auto rank = [&](NodeId id) { return graph_.users(id).empty() ? graph_.node(id).axes.size() : 0; };
    return rank(a) < rank(b);
  };
  std::ranges::stable_sort(order, narrower);
  std::set<std::pair<std::string, std::string>> said;
  auto record = [&](Refusal r) {
    std::string key = fmt::format("{}", fmt::join(r.nodes, ","));
    if (said.insert({key, r.law}).second) plan_out.refusals.push_back(std::move(r));
  };
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    NodeId root = *it;
    if (!needed_.contains(root) || done_.contains(root) || graph_.node(root).kind != NodeKind::compute) continue;
    std::vector<Refusal> refused;
    std::optional<Formed> chosen = form(root, options_.fuse ? Reach::copies : Reach::chain, {}, &refused);
    if (options_.fuse && std::ranges::find(refused, "index maps", &Refusal::law) != refused.end()) {
      std::vector<Refusal> others;
      auto wider = form(root, Reach::places, {}, &others);
      if (wider && (!chosen || std::ranges::includes(wider->members, chosen->members)) && splits_none(*wider) &&
          pays(root, *wider))
        chosen = std::move(wider), refused = std::move(others);
    }
    for (const Refusal& r : refused) record(r);
    if (!chosen) {
      auto planned = plan(root, {root}, {}, ReducedAt::one_place);
      if (!planned)
        return unsupported(
            fmt::format("no region computes it: {} ({})", planned.error().refusal.reason, planned.error().refusal.law),
            graph_.node(root).name);
      chosen = Formed{std::move(*planned), {root}, {}, {}, {}};
      if (!refused.empty()) chosen->ended = {refused.back().law, refused.back().reason};
    }
    auto& [reads, writes] = formed_.emplace_back(Traffic{{}, written(root, chosen->members, chosen->copies)});
    for (const RegionInput& i : chosen->planned.region.inputs) {
      const NodeId id = reads.emplace_back(graph_.node(i.tensor).id);
      readers_[id].push_back(formed_.size() - 1);
      if (graph_.node(id).kind != NodeKind::compute || graph_.is_output(id)) continue;
      const auto cut = chosen->cuts.find(id);
      const Reason& why = cut != chosen->cuts.end() ? cut->second : chosen->ended;
      plan_out.cuts.try_emplace(i.tensor, why);
    }
    done_.insert(writes.begin(), writes.end());
    needed_.insert(reads.begin(), reads.end());
    plan_out.regions.push_back(std::move(chosen->planned));
  }
  for (const Graph::Output& o : graph_.outputs())
    if (graph_.node(o.node).kind == NodeKind::compute)
      plan_out.cuts[graph_.node(o.node).name] = {"output", "it is an output of the model"};
  if (options_.fuse) {
    const auto derive_joined = [&](Region region) -> std::expected<PlannedRegion, Refusal> {
      const NodeId root = graph_.find(region.outputs[0].tensor).value_or(-1);
      auto made = derived(std::move(region), root, true);
      if (!made) return std::unexpected(made.error().refusal);
      return std::move(*made);
    };
    join_regions(plan_out.regions, formed_, derive_joined, options_.cost, record);
  }
  // Producers first; names count in that order.
  std::map<std::string, std::size_t> writer;
  for (std::size_t i = 0; i < plan_out.regions.size(); ++i)
    for (const RegionOutput& o : plan_out.regions[i].region.outputs) writer[o.tensor] = i;
  std::vector<int> state(plan_out.regions.size(), 0);
  std::vector<std::size_t> sorted;
  std::function<void(std::size_t)> visit = [&](std::size_t i) {
    AICF_CHECK(state[i] != 1, "regions form a cycle at " + plan_out.regions[i].region.outputs[0].tensor);
    if (state[i] == 2) return;
    state[i] = 1;
    for (const Statement& s : plan_out.regions[i].region.statements)
      for (const Expr& load : loads_of(s.body))
        if (auto w = writer.find(load.name()); w != writer.end() && w->second != i) visit(w->second);
    state[i] = 2;
    sorted.push_back(i);
  };
  for (std::size_t i = plan_out.regions.size(); i-- > 0;) visit(i);
  std::vector<PlannedRegion> ordered;
  for (std::size_t i : sorted) {
    ordered.push_back(std::move(plan_out.regions[i]));
    PlannedRegion& r = ordered.back();
    r.region.name = r.streaming.name = region_name(r.region.kind);
    r.streaming.kind = r.region.kind;
  }
  plan_out.regions = std::move(ordered);
  return plan_out;
}

}  // namespace

Result<RegionPlan> form_regions(const Graph& graph, const FormOptions& options) {
  return Former(graph, options).run();
}

}  // namespace aicf
