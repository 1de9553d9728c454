#include "mir/region/builder.h"
#include "mir/support/contains.h"
#include "mir/support/expr_extents.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace aicf {

namespace {

// A member's value at one coordinate of the region: what one statement computes. An axis of size 1 is at 0.
struct Instance {
  std::string value;  ///< name of the statement
  ExprMap at;         ///< of each axis of the member, over axes of the region
  ExprMap over;       ///< of each axis it reduces

  std::vector<std::string> axes(const Node& node) const;
};

constexpr int most_loads = 256;              ///< that are looked at through maps
constexpr std::uint64_t largest_body = 512;  ///< operations of a statement, written out as a tree
constexpr int most_substitutions = 1024;     ///< loads of one member that are computed in place, each at its own index
constexpr std::size_t most_instances = 4;    ///< of one member that reduces
constexpr std::size_t most_known = 1 << 16;  ///< bodies that are kept

enum class Rows { as_written, joined };  // of the root: see join_rows()

class Builder {
 public:
  Builder(const Graph& graph, const std::set<NodeId>& members, NodeId root, ReducedAt reduced_at, Rows rows,
          Bodies& bodies)
      : graph_(graph), members_(members), root_(root), reduced_at_(reduced_at), rows_(rows), bodies_(bodies) {}

  std::expected<Region, BuildFailure> build(const std::vector<NodeId>& outputs);

 private:
  std::string fresh(const std::string& base);
  bool counts(const Expr& place, const Expr& extent) const;
  bool whole(const Node& node, const ExprMap& at, bool merges) const;
  std::string value_name(const Node& node, bool is_whole);
  const Instance* placed(const Expr& load) const;
  bool place_root(const Node& root);
  bool join_rows(const Node& root, Instance& own);
  bool more_than_all(const Node& node, const Instance& instance) const;
  bool inside(const Expr& place, const Expr& extent) const;
  Expr clamp(const Node& node, ExprMap& at) const;
  void map_reduce_axes(const Node& node, Instance& instance);
  std::optional<BuildFailure> map_loads(const Node& user, const std::vector<Expr>& loads);
  void note_outside(const Expr& body);
  void see_axes();
  Expr body_at(const Node& node, const ExprMap& axes) const;
  const Bodies::Body& body_of_load(const Node& node, const Expr& load) const;
  Expr in_place(const Expr& body) const;
  void loads_through_maps(const std::vector<Expr>& loads, bool outside, std::vector<Expr>& out, int& steps) const;

  const Graph& graph_;
  const std::set<NodeId>& members_;
  NodeId root_;
  ReducedAt reduced_at_;
  Rows rows_;
  Bodies& bodies_;
  Region region_;
  ExprMap extents_;  // of the region's axes, with their ranges and the bodies known over them: see_axes()
  Ranges ranges_;
  Bodies::OverAxes* known_ = nullptr;
  std::map<NodeId, std::vector<Instance>> instances_;
  std::set<NodeId> epilogue_;     // maps between which and the root nothing reduces
  std::set<std::string> taken_;   // names of axes
  std::set<std::string> values_;  // names of statements that no node has
  /// How often members placed so far load a tensor outside at an axis of the region, by tensor, dimension and axis.
  std::map<std::pair<std::string, std::size_t>, std::map<std::string, int>> outside_;
};

std::vector<std::string> Instance::axes(const Node& node) const {
  std::vector<std::string> out;
  for (const Axis& a : node.axes)
    for (const std::string& axis : axes_of(at.at(a.name)))
      if (!contains(out, axis)) out.push_back(axis);
  return out;
}

ExprMap coordinates(const Node& node, const Expr& load) {
  ExprMap out;
  for (std::size_t i = 0; i < node.axes.size(); ++i) out[node.axes[i].name] = load.args()[i];
  return out;
}

std::string Builder::fresh(const std::string& base) {
  std::string name = base;
  for (int i = 1; taken_.contains(name); ++i) name = fmt::format("{}_{}", base, i);
  taken_.insert(name);
  return name;
}

// `place` counts the elements of the axes in order, the last one fastest: 3 i + j with j < 3.
bool Builder::counts(const Expr& place, const Expr& extent) const {
  std::set<std::string> left = axes_of(place);
  ExprMap origin;
  for (const std::string& a : left) origin[a] = Expr(0);
  Expr stride(1), sum = substitute_axes(place, origin);
  if (!simplify(sum).is_constant(0)) return false;
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](const std::string& a) {
      ExprMap one = origin;
      one[a] = Expr(1);
      return provably_equal(substitute_axes(place, one), stride);
    });
    if (next == left.end()) return false;
    sum = sum + stride * Expr::axis(*next);
    stride = stride * region_.axis(*next).extent;
    left.erase(next);
  }
  return provably_equal(sum, place) && provably_equal(stride, extent);
}

// Axes of the region for each axis of the node, others for each: every element has one coordinate. What reduces reads what it
// reads at one axis each: a projection of merged heads stays apart from the attention that it feeds.
bool Builder::whole(const Node& node, const ExprMap& at, bool merges) const {
  std::set<std::string> seen;
  return std::ranges::all_of(node.axes, [&](const Axis& own) {
    const Expr& place = at.at(own.name);
    for (const std::string& axis : axes_of(place))
      if (!seen.insert(axis).second) return false;
    if (place.op() == Op::axis) return provably_equal(region_.axis(place.name()).extent, own.extent);
    return (merges || place.is_constant(0)) && loads_of(place).empty() && counts(place, own.extent);
  });
}

// The first whole one has the node's own name.
std::string Builder::value_name(const Node& node, bool is_whole) {
  if (is_whole && std::ranges::none_of(instances_[node.id], [&](const auto& x) { return x.value == node.name; }))
    return node.name;
  std::string name;
  for (int i = 2; name.empty() || graph_.find(name) || values_.contains(name); ++i)
    name = fmt::format("{}_{}", node.name, i);
  values_.insert(name);
  return name;
}

// The instance that is what `load` reads; null where there is none.
const Instance* Builder::placed(const Expr& load) const {
  const Node& node = graph_.node(load.name());
  const auto found = instances_.find(node.id);
  if (found == instances_.end() || found->second.empty()) return nullptr;
  const auto same = std::ranges::find(found->second, coordinates(node, load), &Instance::at);
  return same == found->second.end() ? nullptr : &*same;
}

// A reduce axis of a member may be any region axis of its extent that is not one of its result axes; an axis on which the
// member's loads meet a mapped member (or the same outside element) is preferred, because then values are shared.
void Builder::map_reduce_axes(const Node& node, Instance& instance) {
  if (node.reduce_axes.empty()) return;
  std::vector<Expr> outside;
  int steps = most_loads;
  loads_through_maps(loads_of(node.body), true, outside, steps);
  std::vector<std::string> used = instance.axes(node);
  std::set<std::string> reduced_before;
  for (const Statement& s : region_.statements) reduced_before.insert(s.over.begin(), s.over.end());
  for (const Axis& r : node.reduce_axes) {
    if (r.extent.is_constant(1)) {
      instance.over[r.name] = Expr(0);
      continue;
    }
    const auto is = [](const Expr& index, const std::string& axis) {
      return index.op() == Op::axis && index.name() == axis;
    };
    std::map<std::string, int> meets;  // the loads of others, by axis
    for (const Expr& load : outside)
      for (std::size_t i = 0; i < load.args().size(); ++i)
        if (const auto others = outside_.find({load.name(), i}); others != outside_.end() && is(load.args()[i], r.name))
          for (const auto& [axis, times] : others->second) meets[axis] += times;
    std::string best;
    int best_score = -1;
    for (const Axis& candidate : region_.axes) {
      if (!provably_equal(candidate.extent, r.extent) || contains(used, candidate.name)) continue;
      int score = 0;
      for (const Expr& load : loads_of(node.body)) {
        const Node& p = graph_.node(load.name());
        const auto made = instances_.find(p.id);
        if (made == instances_.end()) continue;
        for (std::size_t i = 0; i < p.axes.size(); ++i) {
          const auto there = [&](const Instance& x) { return is(x.at.at(p.axes[i].name), candidate.name); };
          if (is(load.args()[i], r.name) && std::ranges::any_of(made->second, there)) score += 2;
        }
      }
      if (const auto met = meets.find(candidate.name); met != meets.end()) score += met->second;
      if (reduced_before.contains(candidate.name)) ++score;
      if (score > best_score && score > 0) best = candidate.name, best_score = score;
    }
    if (best.empty()) {
      best = fresh(r.name);
      region_.axes.push_back({best, r.extent});
      see_axes();
    }
    used.push_back(best);
    instance.over[r.name] = Expr::axis(best);
  }
}

// Loads of tensors outside the region, or of members that reduce, seen through member maps. They only rank choices, and a
// chain of members that each load their producer twice has 2^n of them: after `steps` loads the rest is left out.
void Builder::loads_through_maps(const std::vector<Expr>& loads, bool outside, std::vector<Expr>& out,
                                 int& steps) const {
  for (const Expr& load : loads) {
    if (steps-- <= 0) return;
    const Node& p = graph_.node(load.name());
    const bool is_member = members_.contains(p.id);
    if (is_member && p.reduce == ReduceOp::none)
      loads_through_maps(bodies_.loads(p, load), outside, out, steps);
    else if (is_member != outside)
      out.push_back(load);
  }
}

void Builder::note_outside(const Expr& body) {
  std::vector<Expr> loads;
  int steps = most_loads;
  loads_through_maps(loads_of(body), true, loads, steps);
  for (const Expr& load : loads)
    for (std::size_t i = 0; i < load.args().size(); ++i)
      if (const Expr& at = load.args()[i]; at.op() == Op::axis) ++outside_[{load.name(), i}][at.name()];
}

void Builder::see_axes() {
  extents_ = region_.extents();
  ranges_ = region_.ranges();
  known_ = &bodies_.over(region_.axes);
}

Expr Builder::body_at(const Node& node, const ExprMap& axes) const {
  return simplify_over(substitute_axes(node.body, axes), extents_, ranges_);
}

// The body of a member that reduces nothing, where it is loaded.
const Bodies::Body& Builder::body_of_load(const Node& node, const Expr& load) const {
  Bodies::Body& known = (*known_)[load];
  if (!known.body) {
    known.body = body_at(node, coordinates(node, load));
    known.loads = loads_of(known.body);
  }
  return known;
}

// The axis and the n of a load at (i div n, i mod n).
std::optional<std::pair<std::string, Expr>> merged(const Expr& load) {
  for (const Expr& part : load.args())
    for (const Expr& rest : load.args())
      if (part.op() == Op::floordiv && rest.op() == Op::mod && part.args()[0].op() == Op::axis &&
          part.args()[0] == rest.args()[0] && part.args()[1] == rest.args()[1] && axes_of(part.args()[1]).empty())
        return std::pair{part.args()[0].name(), part.args()[1]};
  return {};
}

// The root's axes are axes of the region. One along which it reads what others reduce at (i div n, i mod n), as heads that
// are merged, becomes two.
bool Builder::place_root(const Node& root) {
  constexpr int most_splits = 4;
  Instance own{root.name, {}, {}};
  for (const Axis& a : root.axes) {
    own.at[a.name] = a.extent.is_constant(1) ? Expr(0) : Expr::axis(fresh(a.name));
    if (!a.extent.is_constant(1)) region_.axes.push_back({own.at[a.name].name(), a.extent});
  }
  see_axes();
  const auto split = [&](const Expr& load) {
    const auto found = merged(load);
    if (!found) return false;
    const auto& [axis, n] = *found;
    const auto whole = std::ranges::find(region_.axes, axis, &Axis::name);
    if (whole == region_.axes.end()) return false;
    const Expr parts = simplify(whole->extent / n);
    if (!provably_equal(parts * n, whole->extent)) return false;
    const Axis inner{fresh(axis), n};
    whole->extent = parts;
    region_.axes.insert(whole + 1, inner);
    see_axes();
    for (auto& [name, place] : own.at)
      place = simplify(substitute_axes(place, {{axis, Expr::axis(axis) * n + Expr::axis(inner.name)}}));
    return true;
  };
  for (int i = 0; root.reduce == ReduceOp::none && i < most_splits; ++i) {
    std::vector<Expr> loads;
    int steps = most_loads;
    loads_through_maps(loads_of(body_at(root, own.at)), false, loads, steps);
    // Rows of a result that is read at i itself would come in two parts too.
    const auto in_parts_only = [&](const Expr& load) {
      const auto found = merged(load);
      return found && std::ranges::none_of(loads, [&](const Expr& other) {
               return std::ranges::any_of(
                   other.args(), [&](const Expr& e) { return e.op() == Op::axis && e.name() == found->first; });
             });
    };
    const auto next = std::ranges::find_if(loads, in_parts_only);
    if (next == loads.end() || !split(*next)) break;
  }
  if (rows_ == Rows::joined && !join_rows(root, own)) return false;
  instances_[root_] = {own};
  return true;
}

// Rows that several reductions know as one axis and the root as several (5 i + j of queries in a plane) are one axis of the
// region. One reduction alone, with maps, takes its place at 5 i + j.
bool Builder::join_rows(const Node& root, Instance& own) {
  const auto reduces = [&](NodeId id) { return graph_.node(id).reduce != ReduceOp::none; };
  if (reduces(root_) || std::ranges::count_if(members_, reduces) < 2) return false;
  std::vector<Expr> loads;
  int steps = most_loads;
  loads_through_maps(loads_of(body_at(root, own.at)), false, loads, steps);
  for (const Expr& load : loads) {
    const Node& p = graph_.node(load.name());
    for (std::size_t d = 0; d < p.axes.size(); ++d) {
      const Expr place = load.args()[d];
      const std::set<std::string> parts = axes_of(place);
      if (parts.size() < 2 || !loads_of(place).empty() || !counts(place, p.axes[d].extent)) continue;
      // Every result that has one of the parts has them all, at this place.
      const auto otherwise = [&](const Expr& other) {
        return std::ranges::any_of(other.args(), [&](const Expr& e) {
          return e != place && std::ranges::any_of(axes_of(e), [&](const std::string& a) { return parts.contains(a); });
        });
      };
      if (std::ranges::any_of(loads, otherwise)) continue;
      std::vector<std::string> ordered;  // the last counts fastest
      for (const Axis& a : region_.axes)
        if (parts.contains(a.name)) ordered.push_back(a.name);
      const auto stride_of = [&](const std::string& axis) {
        ExprMap one;
        for (const std::string& a : parts) one[a] = Expr(a == axis ? 1 : 0);
        return simplify(substitute_axes(place, one));
      };
      const Axis whole{fresh(ordered.front()), p.axes[d].extent};
      ExprMap digits;
      for (const std::string& a : ordered) {
        const Expr digit = floordiv(Expr::axis(whole.name), stride_of(a));
        const bool first = provably_equal(stride_of(a) * region_.axis(a).extent, whole.extent);
        digits[a] = simplify(first ? digit : mod(digit, region_.axis(a).extent));
      }
      *std::ranges::find(region_.axes, ordered.front(), &Axis::name) = whole;
      std::erase_if(region_.axes, [&](const Axis& a) { return parts.contains(a.name); });
      see_axes();
      for (auto& [name, at] : own.at) at = simplify(substitute_axes(at, digits));
      return true;
    }
  }
  return false;
}

// An instance with more elements than the member has would compute some of them again.
bool Builder::more_than_all(const Node& node, const Instance& instance) const {
  std::vector<Expr> all;
  for (const Axis& a : node.axes) all.push_back(a.extent);
  Expr own(1), left(1);
  for (const std::string& axis : instance.axes(node)) {
    const Expr& extent = region_.axis(axis).extent;
    const auto same = std::ranges::find_if(all, [&](const Expr& e) { return provably_equal(e, extent); });
    if (same == all.end())
      own = own * extent;
    else
      all.erase(same);
  }
  for (const Expr& e : all) left = left * e;
  return !own.is_constant(1) && range_of(simplify(left - own), {}).low.value_or(-1) < 0;
}

bool Builder::inside(const Expr& place, const Expr& extent) const {
  const auto least = [&](const Expr& e) { return range_of(extreme(e, extents_, false).value_or(e), ranges_).low; };
  return least(place).value_or(-1) >= 0 && least(simplify(extent - place)).value_or(0) >= 1;
}

// Places that data says are put inside of the node, for a user may read another value instead; the condition under which
// there is an element to read.
Expr Builder::clamp(const Node& node, ExprMap& at) const {
  Expr any;
  for (const Axis& a : node.axes) {
    Expr& place = at.at(a.name);
    if (loads_of(place).empty() || inside(place, a.extent)) continue;
    if (!a.extent.is_constant()) any = logical_and(any, less(Expr(0), a.extent));
    place = Expr::binary(Op::min, Expr::binary(Op::max, place, Expr(0)), a.extent - Expr(1));
  }
  return any;
}

// Some place counts along two axes at once.
bool merges(const ExprMap& at) {
  return std::ranges::any_of(at, [](const auto& place) { return axes_of(place.second).size() > 1; });
}

// Gives every member that `user` loads at distinct axes its place, and one that reduces a place for each coordinate that it
// is loaded at; others are computed in place.
std::optional<BuildFailure> Builder::map_loads(const Node& user, const std::vector<Expr>& loads) {
  for (const Expr& load : loads) {
    const Node& p = graph_.node(load.name());
    if (!members_.contains(p.id)) continue;
    std::vector<Instance>& made = instances_[p.id];
    if ((p.reduce == ReduceOp::none && !made.empty()) || placed(load)) continue;
    Instance wanted{{}, coordinates(p, load), {}};
    const bool is_whole = whole(p, wanted.at, epilogue_.contains(user.id));
    if (p.reduce == ReduceOp::none) {
      if (!is_whole) continue;
    } else if (reduced_at_ == ReducedAt::one_place
                   ? !is_whole || !made.empty()
                   : made.size() == most_instances || (!is_whole && merges(wanted.at))) {
      return BuildFailure{p.id, "index maps",
                          fmt::format("'{}' reads the reduced value '{}' at {}", user.name, p.name,
                                      is_whole ? "two different coordinates" : "an index that is not a plain axis")};
    } else if (std::ranges::any_of(loads_of(load), [&](const Expr& inner) {
                 return inner.identity() != load.identity() && members_.contains(graph_.node(inner.name()).id);
               })) {
      return BuildFailure{
          p.id, "index maps",
          fmt::format("'{}' reads the reduced value '{}' at places that are computed beside it", user.name, p.name)};
    } else if (std::ranges::any_of(p.axes, [&](const Axis& a) {
                 const Expr& place = wanted.at.at(a.name);
                 return loads_of(place).empty() && !is_whole && !inside(place, a.extent);
               })) {
      return BuildFailure{
          p.id, "index maps",
          fmt::format("'{}' reads the reduced value '{}' at places outside of it and takes another value", user.name,
                      p.name)};
    } else if (more_than_all(p, wanted)) {
      return BuildFailure{
          p.id, "index maps",
          fmt::format("'{}' reads elements of the reduced value '{}' several times", user.name, p.name)};
    }
    wanted.value = value_name(p, is_whole);
    made.push_back(std::move(wanted));
  }
  return {};
}

// A body over region axes: loads of members at their own coordinates become values, other loads of member maps are
// replaced by their bodies.
Expr Builder::in_place(const Expr& body) const {
  return rewrite(body, [&](const Expr& e) -> Expr {
    if (e.op() != Op::load) return {};
    const Node& p = graph_.node(e.name());
    if (!members_.contains(p.id)) return {};
    if (const Instance* here = placed(e)) return Expr::value(here->value, p.type);
    AICF_CHECK(p.reduce == ReduceOp::none, "a reduced value without a place: " + p.name);
    return in_place(body_of_load(p, e).body);
  });
}

BuildFailure too_large(const Node& in_place, const Node& user) {
  return {in_place.id, "index maps",
          fmt::format("'{}' computed in place makes '{}' an expression of more than {} operations", in_place.name,
                      user.name, largest_body)};
}

std::expected<Region, BuildFailure> Builder::build(const std::vector<NodeId>& outputs) {
  const Node& root = graph_.node(root_);
  if (!place_root(root)) return std::unexpected(BuildFailure{root_, "rows", "none are joined"});
  const std::vector<NodeId> order = graph_.topological_order(members_);
  // Only reductions that come before look for axes by what was loaded.
  auto to_place = std::ranges::count_if(order, [&](NodeId id) { return !graph_.node(id).reduce_axes.empty(); });
  std::map<NodeId, NodeId> substituted;  // the first that is computed in place, by user
  struct Placed {
    ExprMap at;  // of every axis of a statement's member
    Expr any;    // there is an element there
  };
  std::vector<Placed> places;  // by statement
  for (NodeId id : order | std::views::reverse) {
    const Node& node = graph_.node(id);
    if (!node.reduce_axes.empty()) --to_place;
    if (node.reduce == ReduceOp::none && std::ranges::all_of(graph_.users(id), [&](NodeId u) {
          return id == root_ || !members_.contains(u) || epilogue_.contains(u);
        }))
      epilogue_.insert(id);
    for (Instance& instance : instances_[id]) {  // users come first: no more of them come
      map_reduce_axes(node, instance);
      ExprMap at = instance.at;
      const Expr any = clamp(node, at);
      at.insert(instance.over.begin(), instance.over.end());
      Expr body = body_at(node, at);
      if (to_place > 0) note_outside(body);
      // Maps that will be substituted load members too: follow them.
      const std::vector<Expr> own = loads_of(body);
      std::vector<const std::vector<Expr>*> pending{&own};
      std::set<Expr> followed;
      int substitutions = 0;
      while (!pending.empty()) {
        const std::vector<Expr>& loads = *pending.back();
        pending.pop_back();
        if (auto failure = map_loads(node, loads)) return std::unexpected(*failure);
        for (const Expr& load : loads) {
          const Node& p = graph_.node(load.name());
          if (!members_.contains(p.id) || placed(load) || !followed.insert(load).second) continue;
          substituted.try_emplace(node.id, p.id);
          if (load.tree_size() > largest_body) return std::unexpected(too_large(p, node));
          if (++substitutions > most_substitutions)
            return std::unexpected(BuildFailure{p.id, "index maps",
                                                fmt::format("'{}' would be computed at more than {} places of '{}'",
                                                            p.name, most_substitutions, node.name)});
          pending.push_back(&body_of_load(p, load).loads);
        }
      }
      Statement s;
      s.name = instance.value;
      s.type = node.type;
      s.axes = instance.axes(node);
      for (const Axis& a : node.reduce_axes)
        if (const Expr& place = instance.over.at(a.name); place.op() == Op::axis) s.over.push_back(place.name());
      s.reduce = s.over.empty() ? ReduceOp::none : node.reduce;  // over one element: the element
      s.node = node.name;
      s.origin = node.origin;
      region_.statements.push_back(s);  // bodies follow when every member has its place
      places.push_back({std::move(at), any});
    }
  }
  std::ranges::reverse(places);
  std::ranges::reverse(region_.statements);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Statement& s = region_.statements[i];
    const Node& node = graph_.node(s.node);
    s.body = in_place(body_at(node, places[i].at));
    if (places[i].any) s.body = Expr::select(places[i].any, s.body, Expr::constant(s.type, 0));
    s.body = simplify(s.body, ranges_);
    if (const auto in_place = substituted.find(node.id);
        in_place != substituted.end() && s.body.tree_size() > largest_body) {
      return std::unexpected(too_large(graph_.node(in_place->second), node));
    }
    for (const std::string& o : s.origin)
      if (!contains(region_.origin, o)) region_.origin.push_back(o);
  }
  for (NodeId id : order)  // substituted members have no statement; their origin counts too
    for (const std::string& o : graph_.node(id).origin)
      if (!contains(region_.origin, o)) region_.origin.push_back(o);
  for (NodeId id : outputs) {
    const Node& node = graph_.node(id);
    const auto written = std::ranges::find(instances_[id], node.name, &Instance::value);
    if (written == instances_[id].end())
      return std::unexpected(
          BuildFailure{id, "index maps", fmt::format("'{}' is written but has no place in the region", node.name)});
    RegionOutput out{node.name, node.name, node.type, {}, node.shape()};
    for (const Axis& a : node.axes) out.index.push_back(written->at.at(a.name));
    region_.outputs.push_back(std::move(out));
  }
  // Statements nobody reads and that are not written are gone (their users substituted them).
  for (bool changed = true; changed;) {
    std::set<std::string> used;
    for (const Statement& s : region_.statements) used.merge(values_of(s.body));
    for (const RegionOutput& o : region_.outputs) used.insert(o.value);
    changed = std::erase_if(region_.statements, [&](const Statement& s) { return !used.contains(s.name); }) > 0;
  }
  for (const Statement& s : region_.statements)
    for (const Expr& load : loads_of(s.body)) {
      if (region_.input(load.name())) continue;
      const Node& p = graph_.node(load.name());
      region_.inputs.push_back({p.name, p.type, p.shape(), p.kind == NodeKind::constant});
    }
  return std::move(region_);
}

}  // namespace

Bodies::OverAxes& Bodies::over(const std::vector<Axis>& axes) {
  std::size_t known = loads_.size();
  for (const auto& [key, bodies] : known_) known += bodies.size();
  if (known > most_known) known_.clear(), loads_.clear();
  std::vector<std::pair<std::string, Expr>> key;
  for (const Axis& a : axes) key.emplace_back(a.name, a.extent);
  return known_[key];
}

const std::vector<Expr>& Bodies::loads(const Node& node, const Expr& load) {
  const auto [entry, is_new] = loads_.try_emplace(load);
  if (is_new) entry->second = loads_of(substitute_axes(node.body, coordinates(node, load)));
  return entry->second;
}

std::expected<Region, BuildFailure> build_region(const Graph& graph, const std::set<NodeId>& members, NodeId root,
                                                 const std::vector<NodeId>& outputs, ReducedAt reduced_at,
                                                 Bodies& bodies) {
  auto region = Builder(graph, members, root, reduced_at, Rows::as_written, bodies).build(outputs);
  if (region || region.error().law != "index maps") return region;
  auto joined = Builder(graph, members, root, reduced_at, Rows::joined, bodies).build(outputs);
  return joined || joined.error().law != "rows" ? std::move(joined) : std::move(region);
}

}  // namespace aicf
