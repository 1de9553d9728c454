#include "mir/region/shape.h"
#include "mir/support/contains.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "mir/memory/region_form.h"

namespace aicf {

namespace {

// A result of the stream with fewer axes than at least two others (a row's mask sum beside softmax): rows that it lacks
// would all be held by one work item.
NodeId narrowest(const Graph& graph, const Region& region, const std::set<std::string>& streamed) {
  std::vector<const Statement*> results;
  for (const Statement& s : region.statements)
    if (std::ranges::any_of(s.over, [&](const std::string& a) { return streamed.contains(a); })) results.push_back(&s);
  for (const Statement* s : results) {
    const auto wider = [&](const Statement* other) {
      return other->axes.size() > s->axes.size() &&
             std::ranges::all_of(s->axes, [&](const std::string& a) { return contains(other->axes, a); });
    };
    if (std::ranges::count_if(results, wider) >= 2) return graph.find(s->node).value_or(-1);
  }
  return -1;
}

// A contraction that lacks an axis of the rows, which every result of the stream has (a projection of the keys): it would be
// computed again for each block of them, so one work item would hold them all.
NodeId same_for_rows(const Graph& graph, const Region& region, const std::set<std::string>& streamed) {
  const auto is_streamed = [&](const std::string& a) { return streamed.contains(a); };
  std::optional<std::set<std::string>> rows;
  int results = 0;
  for (const Statement& s : region.statements) {
    if (std::ranges::none_of(s.over, is_streamed)) continue;
    ++results;
    if (!rows) rows.emplace(s.axes.begin(), s.axes.end());
    std::erase_if(*rows, [&](const std::string& a) { return !contains(s.axes, a); });
  }
  if (!rows) return -1;
  for (const Statement& s : region.statements) {
    if (s.over.empty() || std::ranges::any_of(s.over, is_streamed)) continue;
    const auto lacks = [&](const std::string& a) {
      return !contains(s.axes, a) && !region.axis(a).extent.is_constant(1);
    };
    // One result alone has a column's axis too, which its weights lack.
    if (std::ranges::count_if(*rows, lacks) >= (results == 1 ? 2 : 1) && std::ranges::any_of(s.axes, is_streamed))
      return graph.find(s.node).value_or(-1);
  }
  return -1;
}

// A result of the stream that a member after it reduces for rows which it lacks (a projection of the values): the stream is
// not that of these rows.
NodeId before_rows(const Graph& graph, const Region& region, const std::set<std::string>& streamed) {
  for (const Statement& s : region.statements) {
    if (std::ranges::none_of(s.over, [&](const std::string& a) { return streamed.contains(a); })) continue;
    std::set<std::string> after{s.name};  // what comes of it
    for (const Statement& other : region.statements) {
      if (std::ranges::none_of(values_of(other.body), [&](const std::string& v) { return after.contains(v); }))
        continue;
      after.insert(other.name);
      const bool along = std::ranges::any_of(other.over, [&](const std::string& a) { return contains(s.axes, a); });
      const bool more_rows = std::ranges::any_of(other.axes, [&](const std::string& a) {
        return !contains(s.axes, a) && !region.axis(a).extent.is_constant(1);
      });
      if (along && more_rows) return graph.find(s.node).value_or(-1);
    }
  }
  return -1;
}

// A reduction that no stream has a part in (a projection of the queries): its operands are held whole.
NodeId outside_streams(const Graph& graph, const Region& region, const std::set<std::string>& streamed) {
  const auto is_streamed = [&](const std::string& a) { return streamed.contains(a); };
  for (const Statement& s : region.statements)
    if (!s.over.empty() && std::ranges::none_of(s.axes, is_streamed) && std::ranges::none_of(s.over, is_streamed))
      return graph.find(s.node).value_or(-1);
  return -1;
}

}  // namespace

NodeId widest_part(const Graph& graph, const Region& region, const std::set<std::string>& streamed) {
  if (streamed.empty()) return -1;
  if (const NodeId narrow = narrowest(graph, region, streamed); narrow >= 0) return narrow;
  if (const NodeId same = same_for_rows(graph, region, streamed); same >= 0) return same;
  if (const NodeId before = before_rows(graph, region, streamed); before >= 0) return before;
  return outside_streams(graph, region, streamed);
}

std::optional<Failure> check_shape(const Graph& graph, const Region& region, const StreamingRegion& streaming,
                                   std::int64_t row_capacity) {
  auto refuse = [&](std::string law, std::string reason, NodeId culprit = -1) {
    return Failure{{region.origin, std::move(law), std::move(reason)}, culprit, {}};
  };
  std::set<std::string> parallel(streaming.parallel.begin(), streaming.parallel.end());
  std::set<std::string> streamed;
  for (const Stream& s : streaming.streams) streamed.insert(s.axis);
  // An inner contraction in two passes, or one that lacks an axis of the grid, would be computed again.
  std::map<std::string, int> inner;
  for (const Stream& s : streaming.streams)
    for (const StepStatement& x : s.step) {
      if (x.kind != StepStatement::Kind::local || x.over.empty()) continue;
      NodeId node = graph.find(x.name).value_or(-1);
      if (++inner[x.name] > 1)
        return refuse("recomputation",
                      fmt::format("'{}' would be computed again in every pass over {}", x.name, s.axis), node);
      for (const std::string& p : streaming.parallel)
        if (!contains(x.axes, p) && !region.axis(p).extent.is_constant(1) && !repeats_cheaply(x, p, s.step))
          return refuse("recomputation", fmt::format("'{}' would be computed again for every block of {}", x.name, p),
                        node);
    }
  // What one row holds for as long as the region runs.
  bool fused = !inner.empty();
  std::int64_t row = 0;
  auto elements = [&](const std::vector<std::string>& axes) -> std::optional<std::int64_t> {
    std::int64_t n = 1;
    for (const std::string& a : axes) {
      if (parallel.contains(a) || streamed.contains(a)) continue;
      auto extent = region.axis(a).extent.as_int();
      if (!extent) return std::nullopt;
      n *= *extent;
    }
    return n;
  };
  const NodeId culprit = widest_part(graph, region, streamed);
  std::int64_t most = 0;
  std::string largest;
  auto add = [&](const std::string& what, const std::vector<std::string>& axes) -> std::optional<Failure> {
    auto n = elements(axes);
    if (!n)
      return refuse("capacity",
                    fmt::format("'{}' has an axis of symbolic size that one work item would hold whole", what),
                    culprit);
    row += *n;
    if (*n > most) most = *n, largest = what;
    return std::nullopt;
  };
  for (const Stream& s : streaming.streams)
    for (const StateDecl& d : s.states)
      if (auto r = add(d.name, d.axes)) return r;
  if (fused)
    for (const TileDecl& t : streaming.tiles)
      if (auto r = add(t.name, t.axes)) return r;
  if (row > row_capacity && (fused || !streaming.streams.empty()))
    return refuse("capacity",
                  fmt::format("one row would hold {} elements on chip, {} at most; '{}' has {} of them", row,
                              row_capacity, largest, most),
                  culprit);
  return std::nullopt;
}

NodeId repeated(const Graph& graph, const Region& region, const StreamingRegion& streaming) {
  for (const Stream& s : streaming.streams)
    for (const StepStatement& x : s.step) {
      if (x.kind != StepStatement::Kind::local || x.over.empty()) continue;
      const bool whole = std::ranges::all_of(streaming.parallel, [&](const std::string& p) {
        return contains(x.axes, p) || region.axis(p).extent.is_constant(1);
      });
      if (whole) continue;
      for (const Statement& inner : region.statements)
        if (inner.over == x.over && inner.axes.size() == x.axes.size() &&
            std::ranges::all_of(x.axes, [&](const std::string& a) { return contains(inner.axes, a); }))
          return graph.node(inner.node).id;
    }
  return -1;
}

NodeId beside(const Graph& graph, const Region& region, NodeId root) {
  for (const Statement& s : region.statements) {
    const Node& node = graph.node(s.node);
    if (s.over.empty() || node.id == root || primitive(node) == Primitive::contract) continue;
    for (const Statement& other : region.statements) {
      const bool along = std::ranges::any_of(other.over, [&](const std::string& a) { return contains(s.axes, a); });
      const bool more_rows = std::ranges::any_of(other.axes, [&](const std::string& a) {
        return !contains(s.axes, a) && !region.axis(a).extent.is_constant(1);
      });
      if (along && more_rows) return node.id;
    }
  }
  return -1;
}

}  // namespace aicf
