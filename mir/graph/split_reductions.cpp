#include <algorithm>
#include <set>

#include "mir/graph/simplify.h"
#include "mir/graph/turn.h"

namespace aicf {
namespace {

constexpr std::int64_t most_apart = 4;  ///< elements of the short part, each written out
constexpr int most_maps = 16;           ///< that are followed to where a value is chosen

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph) {}

  int run() {
    int splits = 0;
    for (const NodeId id : graph_.topological_order()) splits += split(id);
    return splits;
  }

 private:
  /// Where `body` chooses between two values along `axis`, itself or in maps that it reads there.
  void boundaries(const Expr& body, const std::string& axis, int& maps, std::vector<Expr>& out) const {
    for_each(body, [&](const Expr& e) {
      if (e.op() == Op::select)
        if (const auto turned = turn(e.args()[0], axis)) out.push_back(simplify(turned->at));
      if (e.op() != Op::load) return;
      const Node& producer = graph_.node(e.name());
      if (producer.kind != NodeKind::compute || producer.reduce != ReduceOp::none) return;
      for (std::size_t d = 0; d < producer.axes.size(); ++d)
        if (e.args()[d] == Expr::axis(axis) && maps-- > 0) boundaries(producer.body, producer.axes[d].name, maps, out);
    });
  }

  /// Reduced values that `body` reads, itself or through maps; with `axis`, those whose place depends on it. False when there
  /// is too much to look through.
  bool reduced(const Expr& body, const Ranges& ranges, const std::string& axis, std::set<std::string>& out,
               int& maps) const {
    for (const Expr& load : loads_of(simplify(body, ranges))) {
      const Node& producer = graph_.node(load.name());
      if (producer.kind != NodeKind::compute) continue;
      if (producer.reduce != ReduceOp::none) {
        if (axis.empty() || depends_on_axis(load, axis)) out.insert(producer.name);
        continue;
      }
      if (maps-- <= 0) return false;
      ExprMap at;
      for (std::size_t d = 0; d < producer.axes.size(); ++d) at[producer.axes[d].name] = load.args()[d];
      if (!reduced(substitute_axes(producer.body, at), ranges, axis, out, maps)) return false;
    }
    return true;
  }

  /// The short part reads nothing that the rest makes along the axis: else that would be made in two places.
  bool apart(const Expr& rest, const std::vector<Expr>& parts, const std::string& axis, const Ranges& ranges) const {
    int maps = 4 * most_maps;
    std::set<std::string> along, read;
    if (!reduced(rest, ranges, axis, along, maps)) return false;
    for (const Expr& part : parts)
      if (!reduced(part, ranges, {}, read, maps)) return false;
    return !along.empty() && std::ranges::none_of(along, [&](const std::string& n) { return read.contains(n); });
  }

  bool split(NodeId id) {
    const Node node = graph_.node(id);
    if (node.kind != NodeKind::compute || node.reduce_axes.size() != 1) return false;
    const Axis& axis = node.reduce_axes[0];
    int maps = most_maps;
    std::vector<Expr> places;
    boundaries(node.body, axis.name, maps, places);
    return std::ranges::any_of(places, [&](const Expr& at) { return split(node, at); });
  }

  bool split(const Node& node, const Expr& at) {
    const Axis& axis = node.reduce_axes[0];
    const auto head = at.as_int(), tail = simplify(axis.extent - at).as_int();
    const auto is_short = [](const std::optional<std::int64_t>& n) { return n && *n >= 1 && *n <= most_apart; };
    if (is_short(head) == is_short(tail)) return false;  // both: short as a whole
    const bool at_end = is_short(tail);
    const Expr extent = simplify(axis.extent), rest_extent = simplify(at_end ? at : extent - at);
    if (const auto n = rest_extent.as_int(); n && *n < 1) return false;

    Node rest = node;
    rest.name = graph_.unique_name(node.name + "_rest");
    rest.reduce_axes[0].extent = rest_extent;
    if (!at_end) rest.body = substitute_axes(node.body, {{axis.name, Expr::axis(axis.name) + at}});
    std::vector<Expr> parts;
    for (std::int64_t i = 0; i < (at_end ? *tail : *head); ++i)
      parts.push_back(substitute_axes(node.body, {{axis.name, at_end ? at + Expr(i) : Expr(i)}}));
    if (!apart(rest.body, parts, axis.name, rest.ranges())) return false;
    std::vector<Expr> index;
    for (const Axis& a : node.axes) index.push_back(Expr::axis(a.name));
    Node whole = node;
    whole.reduce = ReduceOp::none;
    whole.reduce_axes.clear();
    whole.body = Expr::load(rest.name, index, node.type);
    for (const Expr& part : parts) whole.body = combine(node.reduce, whole.body, part);
    graph_.add(std::move(rest));
    graph_.replace(node.id, std::move(whole));
    return true;
  }

  Graph& graph_;
};

}  // namespace

std::optional<Turn> turn(const Expr& condition, const std::string& axis) {
  if (condition.op() == Op::not_) {
    std::optional<Turn> other = turn(condition.args()[0], axis);
    if (other) other->before = !other->before;
    return other;
  }
  if (condition.op() != Op::lt && condition.op() != Op::le) return {};
  const bool left = condition.args()[0] == Expr::axis(axis);
  if (!left && condition.args()[1] != Expr::axis(axis)) return {};
  const Expr& other = condition.args()[left ? 1 : 0];
  if (!axes_of(other).empty() || !loads_of(other).empty()) return {};
  return Turn{left == (condition.op() == Op::lt) ? other : other + Expr(1), left};  // n < c, c <= n; n <= c, c < n
}

int split_reductions(Graph& graph) {
  return Splitter(graph).run();
}

}  // namespace aicf
