#include <algorithm>
#include <map>
#include <set>

#include "mir/graph/simplify.h"
#include "mir/graph/turn.h"

namespace aicf {
namespace {

constexpr int most_maps = 16;  ///< that are followed or computed in place, of one node
constexpr std::size_t most_parts = 16;

/// where(condition, a, b), chosen as deep inside as the two are alike: q · k1 and q · k2 are q · where(condition, k1, k2).
Expr choose(const Expr& condition, const Expr& a, const Expr& b) {
  if (a == b) return a;
  const int arity = op_arity(a.op());
  if (a.op() == b.op() && a.type() == b.type() && (arity == 1 || arity == 2)) {
    std::vector<Expr> args(a.args().begin(), a.args().end());
    const auto at = [&](int i, int of_b) { return args[i].type() == b.args()[of_b].type(); };
    const bool commutes = a.op() == Op::mul || a.op() == Op::add;
    for (int i = 0; i < arity; ++i) {
      const int other = arity - 1 - i;
      for (const int of_b : {i, other}) {  // the argument that differs; the rest is equal
        if ((of_b != i && !commutes) || !at(i, of_b)) continue;
        if (arity == 2 && a.args()[other] != b.args()[arity - 1 - of_b]) continue;
        args[i] = choose(condition, a.args()[i], b.args()[of_b]);
        return Expr::rebuild(a, std::move(args));
      }
    }
  }
  return Expr::select(condition, a, b);
}

ExprMap places(const Node& node, const Expr& load) {
  ExprMap at;
  for (std::size_t d = 0; d < node.axes.size(); ++d) at[node.axes[d].name] = load.args()[d];
  return at;
}

Expr product_of_extents(const std::vector<Axis>& axes) {
  Expr all(1);
  for (const Axis& a : axes) all = all * a.extent;
  return all;
}

class Joiner {
 public:
  explicit Joiner(Graph& graph) : graph_(graph) {}

  int run() {
    int joins = 0;
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (node.kind != NodeKind::compute || node.reduce != ReduceOp::none) continue;
      joins += join_chosen(id);
      while (join_added(id)) ++joins;
    }
    return joins;
  }

 private:
  struct Part {
    Expr end;  ///< the first coordinate after it; the part before ends where it begins
    Expr value;
    Expr sum;  ///< the load of a reduction in it that nothing else reads
  };

  bool is_map(const Node& node) const { return node.kind == NodeKind::compute && node.reduce == ReduceOp::none; }

  /// Some reader reduces it along its dimension `d`.
  bool is_reduced(NodeId id, std::size_t d, int& maps) const {
    for (const NodeId user : graph_.users(id)) {
      const Node& u = graph_.node(user);
      for (const Expr& load : loads_of(u.body)) {
        if (load.name() != graph_.node(id).name) continue;
        for (const Axis& a : u.reduce_axes)
          if (depends_on_axis(load.args()[d], a.name)) return true;
        for (std::size_t own = 0; is_map(u) && own < u.axes.size(); ++own)
          if (depends_on_axis(load.args()[d], u.axes[own].name) && maps-- > 0 && is_reduced(user, own, maps))
            return true;
      }
    }
    return false;
  }

  /// Some other reduction than those of `apart` reads the value, or one that it is made of, along its dimension `d`.
  bool is_reduced_beside(const Node& value, std::size_t d, const std::set<NodeId>& apart, int& maps) const {
    for (const NodeId user : graph_.users(value.id)) {
      const Node& u = graph_.node(user);
      if (apart.contains(user) || u.reduce == ReduceOp::none) continue;
      for (const Expr& load : loads_of(u.body))
        if (load.name() == value.name && load.args()[d].op() == Op::axis &&
            std::ranges::find(u.reduce_axes, load.args()[d].name(), &Axis::name) != u.reduce_axes.end())
          return true;
    }
    if (!is_map(value)) return false;
    for (const Expr& load : loads_of(value.body)) {
      const Node& producer = graph_.node(load.name());
      for (std::size_t i = 0; i < load.args().size(); ++i)
        if (load.args()[i] == Expr::axis(value.axes[d].name) && maps-- > 0 &&
            is_reduced_beside(producer, i, apart, maps))
          return true;
    }
    return false;
  }

  /// The parts that `e` takes along `axis` before `end`, in order; false where it is not clear that their ends grow.
  bool parts_of(const Expr& e, const std::string& axis, const Expr& end, std::vector<Part>& out) const {
    if (out.size() == most_parts) return false;
    const auto turned = e.op() == Op::select ? turn(e.args()[0], axis) : std::nullopt;
    if (!turned) {
      const Expr begin = out.empty() ? Expr(0) : out.back().end;
      if (range_of(simplify(end - begin), {}).low.value_or(-1) < 0) return false;
      out.push_back({end, e, {}});
      return true;
    }
    return parts_of(e.args()[turned->before ? 1 : 2], axis, turned->at, out) &&
           parts_of(e.args()[turned->before ? 2 : 1], axis, end, out);
  }

  /// `e` with the maps that only `owned` read in place, which are owned then too.
  Expr with_maps(const Expr& e, std::set<NodeId>& owned) const {
    return rewrite(e, [&](const Expr& load) -> Expr {
      if (load.op() != Op::load) return {};
      const Node& map = graph_.node(load.name());
      if (!is_map(map) || !is_read_by(map.id, owned) || static_cast<int>(owned.size()) > most_maps) return {};
      owned.insert(map.id);
      return with_maps(substitute_axes(map.body, places(map, load)), owned);
    });
  }

  bool is_read_by(NodeId id, const std::set<NodeId>& owned) const {
    return !graph_.is_output(id) && std::ranges::all_of(graph_.users(id), [&](NodeId u) { return owned.contains(u); });
  }

  bool same_reduction(const Node& a, const Node& b) const {
    return a.reduce == b.reduce && a.type == b.type && a.reduce_axes.size() == b.reduce_axes.size() &&
           std::ranges::equal(a.reduce_axes, b.reduce_axes,
                              [](const Axis& x, const Axis& y) { return provably_equal(x.extent, y.extent); });
  }

  /// A reduction read once, at each of its elements once along axes of `node`, `axis` counting those of the part.
  Expr own_sum(const Node& node, const std::string& axis, const Expr& begin, const Part& part,
               const std::set<NodeId>& owned) const {
    for (const Expr& load : loads_of(part.value)) {
      const Node& sum = graph_.node(load.name());
      if (sum.kind != NodeKind::compute || sum.reduce == ReduceOp::none || !is_read_by(sum.id, owned)) continue;
      bool counts = false, by_data = false;
      std::set<std::string> others;
      for (std::size_t d = 0; d < load.args().size(); ++d) {
        const Expr& place = load.args()[d];
        by_data = by_data || !loads_of(place).empty();
        if (!depends_on_axis(place, axis)) {
          others.merge(axes_of(place));
          continue;
        }
        counts =
            provably_equal(place, Expr::axis(axis) - begin) && provably_equal(sum.axes[d].extent, part.end - begin);
        if (!counts) break;
      }
      if (!counts || by_data) continue;
      Expr elements = part.end - begin;
      for (const Axis& a : node.axes)
        if (others.contains(a.name)) elements = elements * a.extent;
      if (provably_equal(elements, product_of_extents(sum.axes))) return load;
    }
    return {};
  }

  /// The reduction of parts [first, last) as one, over the axes of `node` that they have; what to read in their place. Empty for
  /// products that have no operand in common: as one they would load those of both.
  Expr joined(const Node& node, std::size_t d, const std::vector<Part>& parts, std::size_t first, std::size_t last) {
    const Axis& axis = node.axes[d];
    const Expr begin = first == 0 ? Expr(0) : parts[first - 1].end;
    Node one = graph_.node(parts[first].sum.name());
    const std::set<std::string> used = axes_of(parts[first].sum);
    const std::vector<Axis> reduced = one.reduce_axes;
    const bool is_contraction = primitive(one) == Primitive::contract;
    one.axes.clear();
    std::vector<Expr> index;
    for (const Axis& a : node.axes) {
      if (!used.contains(a.name)) continue;
      one.axes.push_back({a.name, a.name == axis.name ? simplify(parts[last - 1].end - begin) : a.extent});
      index.push_back(a.name == axis.name ? simplify(Expr::axis(a.name) - begin) : Expr::axis(a.name));
    }
    std::set<std::string> taken;
    for (const Axis& a : node.axes) taken.insert(a.name);
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      std::string name = reduced[i].name;
      for (int n = 1; !taken.insert(name).second; ++n) name = "r" + std::to_string(n);
      one.reduce_axes[i].name = name;
    }
    const Ranges ranges = one.ranges();
    for (std::size_t k = last; k-- > first;) {
      const Node& part = graph_.node(parts[k].sum.name());
      ExprMap at = places(part, parts[k].sum);
      for (auto& [name, place] : at)
        place = simplify(substitute_axes(place, {{axis.name, Expr::axis(axis.name) + begin}}));
      for (std::size_t i = 0; i < reduced.size(); ++i)
        at[part.reduce_axes[i].name] = Expr::axis(one.reduce_axes[i].name);
      const Expr body = simplify(substitute_axes(part.body, at), ranges);
      one.body =
          k + 1 == last ? body : choose(less(Expr::axis(axis.name), simplify(parts[k].end - begin)), body, one.body);
      for (const std::string& o : part.origin)
        if (std::ranges::find(one.origin, o) == one.origin.end()) one.origin.push_back(o);
    }
    if (is_contraction && one.body.op() == Op::select) return {};
    one.name = graph_.unique_name(one.name);
    const std::string name = one.name;
    const DType type = one.type;
    graph_.add(std::move(one));
    return Expr::load(name, std::move(index), type);
  }

  /// where(i < n, a[i], b[i - n]) of two reductions that nothing else reads, reduced along i.
  bool join_chosen(NodeId id) {
    Node node = graph_.node(id);
    if (node.body.op() != Op::select) return false;
    for (std::size_t d = 0; d < node.axes.size(); ++d) {
      const Axis& axis = node.axes[d];
      std::vector<Part> parts;
      int maps = most_maps;
      if (!turn(node.body.args()[0], axis.name) || !parts_of(node.body, axis.name, axis.extent, parts) ||
          !is_reduced(id, d, maps))
        continue;
      std::set<NodeId> owned{id};
      Expr begin(0);
      std::map<std::string, int> reads;
      for (Part& part : parts) {
        part.value = simplify(with_maps(part.value, owned), node.ranges());
        part.sum = own_sum(node, axis.name, begin, part, owned);
        for (const Expr& load : loads_of(part.value)) ++reads[load.name()];
        begin = part.end;
      }
      const auto joins = [&](std::size_t k, std::size_t next) {
        const Expr &a = parts[k].sum, &b = parts[next].sum;
        return a && b && reads[a.name()] == 1 && reads[b.name()] == 1 && axes_of(a) == axes_of(b) &&
               same_reduction(graph_.node(a.name()), graph_.node(b.name()));
      };
      bool changed = false;
      std::vector<Part> left;
      for (std::size_t k = 0; k < parts.size();) {
        std::size_t last = k + 1;
        while (last < parts.size() && joins(k, last)) ++last;
        const Expr one = last - k > 1 ? joined(node, d, parts, k, last) : Expr();
        if (!one) last = k + 1;
        Part whole = parts[last - 1];
        if (one) {
          changed = true;
          for (std::size_t i = last; i-- > k;) {
            const Expr value = rewrite(parts[i].value, [&](const Expr& e) { return e == parts[i].sum ? one : Expr(); });
            whole.value = i + 1 == last ? value : choose(less(Expr::axis(axis.name), parts[i].end), value, whole.value);
          }
        }
        left.push_back(std::move(whole));
        k = last;
      }
      if (!changed) continue;
      node.body = left.back().value;
      for (std::size_t k = left.size() - 1; k-- > 0;)
        node.body = Expr::select(less(Expr::axis(axis.name), left[k].end), left[k].value, node.body);
      for (const NodeId map : owned)
        for (const std::string& o : graph_.node(map).origin)
          if (std::ranges::find(node.origin, o) == node.origin.end()) node.origin.push_back(o);
      graph_.replace(id, std::move(node));
      return true;
    }
    return false;
  }

  /// The sum over [0, n + m) of what `a` sums over [0, n) and `b` over the rest; empty where they read no common value so.
  std::optional<Node> one_sum(const Node& a, const Node& b) const {
    ExprMap renamed;
    for (std::size_t d = 0; d < a.axes.size(); ++d) renamed[b.axes[d].name] = Expr::axis(a.axes[d].name);
    const Axis &over = a.reduce_axes[0], &rest = b.reduce_axes[0];
    renamed[rest.name] = Expr::axis(over.name) - over.extent;
    const Expr after = substitute_axes(b.body, renamed);
    Node one = a;
    one.reduce_axes[0].extent = simplify(over.extent + rest.extent);
    const Ranges ranges = one.ranges();
    const Expr second = simplify(after, ranges);
    const std::vector<Expr> loads = loads_of(second);
    for (const Expr& load : loads_of(simplify(a.body, ranges))) {
      if (!depends_on_axis(load, over.name) || graph_.node(load.name()).kind != NodeKind::compute ||
          std::ranges::find(loads, load) == loads.end())
        continue;
      const Node& common = graph_.node(load.name());
      for (std::size_t d = 0; d < load.args().size(); ++d) {
        int maps = most_maps;
        if (!depends_on_axis(load.args()[d], over.name) || !is_reduced_beside(common, d, {a.id, b.id}, maps)) continue;
        one.body = choose(less(Expr::axis(over.name), over.extent), simplify(a.body, ranges), second);
        for (const std::string& o : b.origin)
          if (std::ranges::find(one.origin, o) == one.origin.end()) one.origin.push_back(o);
        return one;
      }
    }
    return {};
  }

  /// a + b of two sums that nothing else reads.
  bool join_added(NodeId id) {
    Node node = graph_.node(id);
    std::optional<Node> one;
    const std::vector<Expr> loads = loads_of(node.body);
    const auto is_own = [&](const Expr& load) {
      if (load.op() != Op::load) return false;
      const Node& sum = graph_.node(load.name());
      return sum.kind == NodeKind::compute && sum.reduce == ReduceOp::sum && sum.reduce_axes.size() == 1 &&
             is_read_by(sum.id, {id}) &&
             std::ranges::count(loads, load.name(), [](const Expr& l) { return l.name(); }) == 1;
    };
    Expr added;
    for_each(node.body, [&](const Expr& e) {
      if (one || e.op() != Op::add || !is_own(e.args()[0]) || !is_own(e.args()[1])) return;
      const Node &a = graph_.node(e.args()[0].name()), &b = graph_.node(e.args()[1].name());
      if (!std::ranges::equal(e.args()[0].args(), e.args()[1].args()) || a.type != b.type ||
          !std::ranges::equal(a.axes, b.axes,
                              [](const Axis& x, const Axis& y) { return provably_equal(x.extent, y.extent); }))
        return;
      one = one_sum(a, b);
      if (!one) one = one_sum(b, a);
      if (one) added = e;
    });
    if (!one) return false;
    one->name = graph_.unique_name(one->name);
    const Expr load = Expr::load(one->name, {added.args()[0].args().begin(), added.args()[0].args().end()}, one->type);
    graph_.add(std::move(*one));
    node.body = rewrite(node.body, [&](const Expr& e) { return e == added ? load : Expr(); });
    graph_.replace(id, std::move(node));
    return true;
  }

  Graph& graph_;
};

}  // namespace

int join_parts(Graph& graph) {
  return Joiner(graph).run();
}

}  // namespace aicf
