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
#include "mir/region/join.h"
#include "mir/region/shape.h"
#include "mir/stream/derive.h"

namespace aicf {

namespace {

// How far a region may grow; tried from the widest.
enum class Reach {
  places,   // as copies; what reduces is computed for each place of it that is read (tried by itself)
  copies,   // as chain; what others read too is computed again between an inner contraction and the root
  chain,    // cascades and contractions that carry the streamed axis
  cascade,  // reductions over the same rows, no other contraction
  single,   // one reduction or contraction with its maps
  maps,     // maps only
};

bool transcendental(const Expr& body) {
  bool found = false;
  for_each(body, [&](const Expr& e) {
    switch (e.op()) {
      case Op::exp:
      case Op::log:
      case Op::erf:
      case Op::tanh:
      case Op::sin:
      case Op::cos:
      case Op::pow:
      case Op::sqrt:
      case Op::div:
        if (is_float(e.type())) found = true;
        break;
      default:
        break;
    }
  });
  return found;
}

constexpr double unwritten_scores =
    1.5;                        ///< predicted time that scores may cost so as not to be written: memory they never take
constexpr int most_nested = 8;  ///< contractions between a value and the root: no law takes as many
constexpr std::size_t most_members = 512;  ///< of a region: bounds its kernel, and how deep derivation nests

// Where growth stays.
struct Bounds {
  const std::set<NodeId>* within = nullptr;   ///< only these nodes
  const std::set<NodeId>* without = nullptr;  ///< never these
};

struct Formed {
  PlannedRegion planned;
  std::set<NodeId> members;
  std::set<NodeId> copies;  ///< members that others read too and that this region does not write
};

class Former {
 public:
  Former(const Graph& graph, const FormOptions& options) : graph_(graph), options_(options) {}
  Result<RegionPlan> run();

 private:
  bool reduces(NodeId id) const { return graph_.node(id).reduce != ReduceOp::none; }
  bool rests_on_reduction(NodeId id) const;
  bool same_operation(NodeId a, NodeId b) const;
  bool cheap(NodeId id) const;
  std::set<NodeId> grow(NodeId root, Reach reach, const Bounds& bounds, std::vector<Refusal>* refusals,
                        std::set<NodeId>& copies) const;
  void prune(NodeId root, std::set<NodeId>& members) const;
  bool drop_idle_copies(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies,
                        std::set<NodeId>& dropped) const;
  std::vector<NodeId> written(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies) const;
  NodeId coming_back(NodeId root, const std::set<NodeId>& members, const std::vector<NodeId>& written) const;
  std::expected<PlannedRegion, Failure> plan(NodeId root, const std::set<NodeId>& members,
                                             const std::set<NodeId>& copies, ReducedAt reduced_at) const;
  std::optional<Formed> form(NodeId root, Reach from, const Bounds& bounds, std::vector<Refusal>* refusals) const;
  bool splits_none(const Formed& region) const;
  double cost_apart(NodeId root, const std::set<NodeId>& members) const;
  Refusal refusal(const std::set<NodeId>& members, std::string law, std::string reason) const;
  std::expected<PlannedRegion, Failure> derived(Region region, NodeId root, bool is_checked) const;
  std::string region_name(RegionKind kind);

  const Graph& graph_;
  const FormOptions& options_;
  std::set<NodeId> done_;        ///< has a region that writes it
  std::set<NodeId> needed_;      ///< an output, or read by a region
  std::vector<Traffic> formed_;  ///< of the regions so far
  std::map<RegionKind, int> counts_;
};

bool Former::same_operation(NodeId a, NodeId b) const {
  const auto &x = graph_.node(a).origin, &y = graph_.node(b).origin;
  return std::ranges::any_of(x, [&](const std::string& o) { return contains(y, o); });
}

// May be computed again by each reader: nothing but index arithmetic and loads of tensors much smaller than itself.
bool Former::cheap(NodeId id) const {
  const Node& n = graph_.node(id);
  if (n.kind != NodeKind::compute || n.reduce != ReduceOp::none || transcendental(n.body)) return false;
  std::set<std::string> own;
  for (const Axis& a : n.axes)
    if (!a.extent.is_constant(1)) own.insert(a.name);
  for (const Expr& load : loads_of(n.body)) {
    std::set<std::string> used;
    for (const Expr& i : load.args()) used.merge(axes_of(i));
    std::erase_if(used, [&](const std::string& a) { return !own.contains(a); });
    if (used.size() >= own.size()) return false;
  }
  return true;
}

Refusal Former::refusal(const std::set<NodeId>& members, std::string law, std::string reason) const {
  Refusal r{{}, std::move(law), std::move(reason)};
  for (NodeId id : members)
    for (const std::string& o : graph_.node(id).origin)
      if (!contains(r.nodes, o)) r.nodes.push_back(o);
  return r;
}

// Whether a value comes of a reduction, through maps near it: then writing it is more than a copy of an input.
bool Former::rests_on_reduction(NodeId id) const {
  constexpr std::size_t most_visited = 16;
  std::vector<NodeId> visited{id};
  for (std::size_t i = 0; i < visited.size() && visited.size() <= most_visited; ++i) {
    if (reduces(visited[i])) return true;
    for (const NodeId p : graph_.producers(visited[i]))
      if (graph_.node(p).kind == NodeKind::compute && !contains(visited, p)) visited.push_back(p);
  }
  return false;
}

// Walks producers users-first; a node joins when all its users are members (or it is cheap, a reduction that may be
// written as well, or a copy: computed here too).
std::set<NodeId> Former::grow(NodeId root, Reach reach, const Bounds& bounds, std::vector<Refusal>* refusals,
                              std::set<NodeId>& copies) const {
  std::set<NodeId> members{root};
  std::map<NodeId, int> nested;  // contractions between a member and the root
  int reductions = reduces(root) ? 1 : 0;
  std::vector<NodeId> order = graph_.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    NodeId id = *it;
    const Node& n = graph_.node(id);
    if (id == root || n.kind != NodeKind::compute) continue;
    if (members.size() >= most_members) break;  // what is further up is computed apart
    if ((bounds.within && !bounds.within->contains(id)) || (bounds.without && bounds.without->contains(id))) continue;
    std::vector<NodeId> users = graph_.users(id);
    bool wanted = std::ranges::any_of(users, [&](NodeId u) { return members.contains(u); });
    if (!wanted) continue;
    const auto refuse_second = [&] {
      if (refusals)
        refusals->push_back(
            refusal({id}, "second consumer",
                    fmt::format("'{}' is also needed outside, so it is written and read back", n.name)));
    };
    const bool carries = rests_on_reduction(id);
    if (done_.contains(id)) {
      if (carries) refuse_second();
      continue;
    }
    if (!options_.fuse && !same_operation(id, root)) continue;
    int& depth = nested[id];
    for (const NodeId u : users)
      if (const auto it = nested.find(u); it != nested.end()) depth = std::max(depth, it->second);
    if (primitive(n) == Primitive::contract && ++depth > most_nested) continue;
    const bool outside_use =
        needed_.contains(id) || std::ranges::any_of(users, [&](NodeId u) { return !members.contains(u); });
    // An output made of it element by element is as large: it is written anyway.
    const auto copied = [&] {
      return reach <= Reach::copies && !needed_.contains(id) &&
             std::ranges::none_of(
                 users, [&](NodeId u) { return !members.contains(u) && graph_.is_output(u) && !reduces(u); }) &&
             copies.insert(id).second;
    };
    if (reduces(id)) {
      if (reach == Reach::maps || (reach == Reach::single && reductions > 0)) continue;
      bool contraction = primitive(n) == Primitive::contract;
      if (contraction && reach == Reach::cascade && reductions > 0) continue;
      if (contraction && outside_use && !copied()) {
        refuse_second();
        continue;
      }
      ++reductions;
      members.insert(id);
      continue;
    }
    if (outside_use && !cheap(id) && !copied()) {
      if (carries) refuse_second();
      continue;
    }
    members.insert(id);
  }
  prune(root, members);
  std::erase_if(copies, [&](NodeId id) { return !members.contains(id); });
  return members;
}

// Copies are for what an inner contraction makes: larger than its operands, it never reaches memory when each reader
// computes it. Others go to `dropped`. False: nothing is made inside.
bool Former::drop_idle_copies(NodeId root, const std::set<NodeId>& members, const std::set<NodeId>& copies,
                              std::set<NodeId>& dropped) const {
  std::set<NodeId> made;
  for (const NodeId id : graph_.topological_order())
    if (members.contains(id) && id != root &&
        (primitive(graph_.node(id)) == Primitive::contract ||
         std::ranges::any_of(graph_.producers(id), [&](NodeId p) { return made.contains(p); })))
      made.insert(id);
  for (const NodeId id : copies)
    if (!made.contains(id)) dropped.insert(id);
  return !made.empty();
}

// A map whose values come from a reduction outside the set belongs to that reduction as its epilogue; what is upstream of
// a dropped node goes with it. A map with transcendental work does not join a contraction that would repeat it.
void Former::prune(NodeId root, std::set<NodeId>& members) const {
  auto drop_unreachable = [&] {
    std::set<NodeId> keep{root};
    std::vector<NodeId> work{root};
    while (!work.empty()) {
      NodeId id = work.back();
      work.pop_back();
      for (NodeId p : graph_.producers(id))
        if (members.contains(p) && keep.insert(p).second) work.push_back(p);
    }
    members = keep;
  };
  // Values that a reduction in the set produces, directly or through maps.
  std::set<NodeId> from_inside;
  for (NodeId id : graph_.topological_order()) {
    if (!members.contains(id)) continue;
    if (reduces(id) || std::ranges::any_of(graph_.producers(id), [&](NodeId p) { return from_inside.contains(p); }))
      from_inside.insert(id);
  }
  // Maps that a contraction in the set reads, directly or through other maps: it would repeat their work.
  std::set<NodeId> repeated;
  std::vector<NodeId> order = graph_.topological_order();
  for (NodeId id : order | std::views::reverse) {
    if (!members.contains(id) || reduces(id) || from_inside.contains(id)) continue;
    if (std::ranges::any_of(graph_.users(id), [&](NodeId u) {
          return repeated.contains(u) || (members.contains(u) && primitive(graph_.node(u)) == Primitive::contract);
        }))
      repeated.insert(id);
  }
  const auto rank = [&](NodeId id) {
    return std::ranges::count_if(graph_.node(id).axes, [](const Axis& a) { return !a.extent.is_constant(1); });
  };
  auto drop_with_users = [&](NodeId id) {
    std::vector<NodeId> work{id};
    while (!work.empty()) {
      NodeId dropped = work.back();
      work.pop_back();
      members.erase(dropped);
      // A table that a wider map reads is written alone.
      for (NodeId u : graph_.users(dropped))
        if (members.contains(u) && repeated.contains(u) && rank(u) <= rank(dropped)) work.push_back(u);
    }
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id : std::set<NodeId>(members)) {
      if (id == root || reduces(id) || from_inside.contains(id) || cheap(id)) continue;
      bool epilogue_elsewhere = std::ranges::any_of(graph_.producers(id), [&](NodeId p) {
        return !members.contains(p) && graph_.node(p).kind == NodeKind::compute && reduces(p) &&
               graph_.users(p).size() == 1 && !graph_.is_output(p) &&
               graph_.node(p).axes.size() == graph_.node(id).axes.size();
      });
      bool fed_by_epilogue = std::ranges::any_of(graph_.producers(id), [&](NodeId p) {
        return !members.contains(p) && graph_.node(p).kind == NodeKind::compute && !reduces(p) && rests_on_reduction(p);
      });
      bool contraction_reads = std::ranges::any_of(graph_.users(id), [&](NodeId u) {
        return members.contains(u) && primitive(graph_.node(u)) == Primitive::contract;
      });
      const bool costly = repeated.contains(id) && transcendental(graph_.node(id).body);
      if (epilogue_elsewhere || (fed_by_epilogue && contraction_reads) || costly) {
        costly ? drop_with_users(id) : void(members.erase(id));
        drop_unreachable();
        changed = true;
        break;
      }
    }
  }
  drop_unreachable();
}

std::vector<NodeId> Former::written(NodeId root, const std::set<NodeId>& members,
                                    const std::set<NodeId>& copies) const {
  std::vector<NodeId> out;
  for (NodeId id : graph_.topological_order()) {
    if (!members.contains(id) || copies.contains(id)) continue;
    bool outside = needed_.contains(id) || std::ranges::any_of(graph_.users(id), [&](NodeId u) {
                     return !members.contains(u) && !graph_.node(u).dead;
                   });
    if (id == root || (outside && !cheap(id)) || (outside && graph_.is_output(id))) out.push_back(id);
  }
  return out;
}

// A value that leaves the region and comes back through others; −1 when none does.
NodeId Former::coming_back(NodeId root, const std::set<NodeId>& members, const std::vector<NodeId>& written) const {
  for (NodeId id : written) {
    if (id == root) continue;
    // What is not written others compute again, from what is.
    std::set<NodeId> seen{id}, later{id};
    for (std::vector<NodeId> work{id}; !work.empty();) {
      const NodeId at = work.back();
      work.pop_back();
      for (NodeId u : graph_.users(at)) {
        if (members.contains(u)) {
          if (!contains(written, u) && seen.insert(u).second) work.push_back(u);
          continue;
        }
        for (NodeId m : members)
          if (graph_.reaches(u, m)) return id;
      }
    }
    // Regions made so far that wait for it, and what they write.
    for (bool grown = true; grown;) {
      grown = false;
      for (const auto& [reads, writes] : formed_)
        if (std::ranges::any_of(reads, [&](NodeId r) { return later.contains(r); }))
          for (const NodeId w : writes) grown |= later.insert(w).second;
    }
    for (const NodeId m : members)
      for (const NodeId p : graph_.producers(m))
        if (!members.contains(p) && later.contains(p)) return id;
  }
  return -1;
}

std::expected<PlannedRegion, Failure> Former::plan(NodeId root, const std::set<NodeId>& members,
                                                   const std::set<NodeId>& copies, ReducedAt reduced_at) const {
  const std::vector<NodeId> results = written(root, members, copies);
  if (const NodeId id = coming_back(root, members, results); id >= 0)
    return std::unexpected(Failure{
        refusal(members, "acyclic regions", "a value would leave the region and come back through another"), id});
  auto built = build_region(graph_, members, root, results, reduced_at);
  if (!built)
    return std::unexpected(
        Failure{refusal({built.error().node}, built.error().law, built.error().reason), built.error().node});
  Region region = std::move(*built);
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
  return derived(std::move(region), root, members.size() > 1);
}

std::expected<PlannedRegion, Failure> Former::derived(Region region, NodeId root, bool is_checked) const {
  auto streaming = derive(region);
  const NodeId aside = beside(graph_, region, root);
  if (auto* refused = std::get_if<Refusal>(&streaming)) return std::unexpected(Failure{*refused, aside});
  PlannedRegion out{std::move(region), std::move(std::get<StreamingRegion>(streaming))};
  rename_values(out.streaming, usual_names(out.region, out.streaming));
  order_tiles(out.streaming);
  if (is_checked)
    if (auto refused = check_shape(graph_, out.region, out.streaming, options_.row_capacity)) {
      if (refused->culprit < 0) refused->culprit = aside;
      return std::unexpected(*refused);
    }
  return out;
}

// What the members cost as regions of their own, each grown without another contraction.
double Former::cost_apart(NodeId root, const std::set<NodeId>& members) const {
  double total = 0;
  std::set<NodeId> needed{root}, formed;
  std::vector<NodeId> order = graph_.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!members.contains(*it) || !needed.contains(*it) || formed.contains(*it)) continue;
    auto f = form(*it, Reach::cascade, {&members, &formed}, nullptr);
    if (!f) return std::numeric_limits<double>::infinity();
    auto cost = options_.cost(f->planned.streaming);
    if (!cost) return std::numeric_limits<double>::infinity();
    total += *cost;
    for (NodeId id : written(*it, f->members, {})) formed.insert(id);
    for (const RegionInput& i : f->planned.region.inputs) needed.insert(graph_.node(i.tensor).id);
  }
  return total;
}

// The widest region of `root` that the laws allow and the cost model likes.
std::optional<Formed> Former::form(NodeId root, Reach from, const Bounds& bounds,
                                   std::vector<Refusal>* refusals) const {
  std::set<NodeId> previous;
  for (Reach reach : {Reach::places, Reach::copies, Reach::chain, Reach::cascade, Reach::single, Reach::maps}) {
    if (from == Reach::places ? reach != from : reach < from) continue;
    std::vector<Refusal> said;
    std::set<NodeId> dropped = bounds.without ? *bounds.without : std::set<NodeId>{};
    for (int attempt = 0; attempt < 16; ++attempt) {
      std::set<NodeId> copies;
      std::set<NodeId> members =
          grow(root, reach, {bounds.within, &dropped}, reach <= Reach::chain && attempt == 0 ? &said : nullptr, copies);
      if (reach <= Reach::copies) {
        const std::size_t before = dropped.size();
        if (!drop_idle_copies(root, members, copies, dropped)) break;
        if (dropped.size() > before) continue;
      }
      if (members == previous) break;
      previous = members;
      const ReducedAt reduced_at = reach == Reach::places ? ReducedAt::several_places : ReducedAt::one_place;
      auto planned = plan(root, members, copies, reduced_at);
      if (!planned) {
        said.push_back(planned.error().refusal);
        NodeId culprit = planned.error().culprit;
        if (culprit < 0 || culprit == root || !dropped.insert(culprit).second) break;
        continue;  // the same reach without it
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
          const NodeId culprit = widest_part(graph_, planned->region, streamed);
          if (culprit < 0 || culprit == root || !dropped.insert(culprit).second) break;
          continue;  // the same reach without it
        }
        // Weighing a region takes others apart, which are not weighed again.
        double apart = joins && options_.fuse && refusals ? cost_apart(root, members) : *together;
        const double worth = planned->region.roles ? unwritten_scores : 1;
        if (apart * worth < *together) {
          said.push_back(
              {planned->region.origin, "cost",
               fmt::format("the model predicts {:.0f} us together, {:.0f} us as separate regions", *together, apart)});
          const NodeId culprit = repeated(graph_, planned->region, planned->streaming);
          if (culprit < 0 || culprit == root || !dropped.insert(culprit).second) break;
          continue;  // the same reach without it
        }
      }
      for (const CertificateEntry& e : planned->streaming.certificate.entries) {
        if (e.law != "passes") continue;
        const Statement* waits = planned->region.find(e.statement);
        said.push_back({waits ? waits->origin : planned->region.origin, "one pass", e.condition});
      }
      if (refusals && options_.fuse) refusals->insert(refusals->end(), said.begin(), said.end());
      return Formed{std::move(*planned), std::move(members), std::move(copies)};
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
      if (wider && (!chosen || std::ranges::includes(wider->members, chosen->members)) && splits_none(*wider))
        chosen = std::move(wider), refused = std::move(others);
    }
    for (Refusal& r : refused) record(std::move(r));
    if (!chosen) {
      auto planned = plan(root, {root}, {}, ReducedAt::one_place);
      if (!planned)
        return unsupported(
            fmt::format("no region computes it: {} ({})", planned.error().refusal.reason, planned.error().refusal.law),
            graph_.node(root).name);
      chosen = Formed{std::move(*planned), {root}, {}};
    }
    auto& [reads, writes] = formed_.emplace_back(Traffic{{}, written(root, chosen->members, chosen->copies)});
    for (const RegionInput& i : chosen->planned.region.inputs) reads.push_back(graph_.node(i.tensor).id);
    done_.insert(writes.begin(), writes.end());
    needed_.insert(reads.begin(), reads.end());
    plan_out.regions.push_back(std::move(chosen->planned));
  }
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
