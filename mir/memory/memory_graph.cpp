#include "mir/memory/memory_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/topological_sort.hpp>
#include <map>
#include <set>
#include <sstream>

#include "mir/support/contains.h"
#include "mir/support/result.h"

namespace aicf {
namespace {

enum class EdgeKind : std::uint8_t { control, back, read, write, sync };

struct VertexFacts {
  std::string label;
  std::string shape;
};
struct EdgeFacts {
  EdgeKind kind = EdgeKind::control;
  std::string label;
};
using Boost = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, VertexFacts, EdgeFacts>;
using Vertex = Boost::vertex_descriptor;
using Edge = Boost::edge_descriptor;

/// Nothing is ever removed, so descriptors stay; values and actions share them and are told apart by tables.
struct OrderEdges {
  const Boost* graph = nullptr;
  const std::vector<int>* position = nullptr;  ///< vertex → action, -1 for values
  bool operator()(const Edge& e) const {
    const EdgeKind kind = (*graph)[e].kind;
    if (kind == EdgeKind::control) return true;
    return kind == EdgeKind::sync && (*position)[boost::source(e, *graph)] < (*position)[boost::target(e, *graph)];
  }
};

}  // namespace

struct MemoryGraph::Graph {
  Boost boost;
  std::vector<Vertex> action, value;  ///< id → vertex
  std::vector<int> position;          ///< vertex → action id, -1 for values
  std::vector<std::vector<Id>> readers, writers;

  Vertex vertex_of(Id id) const {
    AICF_CHECK(id >= 0 && static_cast<std::size_t>(id) < action.size(), fmt::format("there is no action {}", id));
    return action[static_cast<std::size_t>(id)];
  }
  Vertex vertex_of_value(Id id) const {
    AICF_CHECK(id >= 0 && static_cast<std::size_t>(id) < value.size(), fmt::format("there is no value {}", id));
    return value[static_cast<std::size_t>(id)];
  }

  std::vector<Id> next(Id id) const {
    std::vector<Id> result;
    for (const auto& e : boost::make_iterator_range(boost::out_edges(vertex_of(id), boost))) {
      if (boost[e].kind == EdgeKind::control || boost[e].kind == EdgeKind::back)
        result.push_back(position[boost::target(e, boost)]);
    }
    return result;
  }
  std::vector<Id> previous(Id id) const {
    std::vector<Id> result;
    for (const auto& e : boost::make_iterator_range(boost::in_edges(vertex_of(id), boost))) {
      if (boost[e].kind == EdgeKind::control || boost[e].kind == EdgeKind::back)
        result.push_back(position[boost::source(e, boost)]);
    }
    return result;
  }
};

MemoryGraph::MemoryGraph() : graph_(std::make_unique<Graph>()) {}
MemoryGraph::~MemoryGraph() = default;
MemoryGraph::MemoryGraph(MemoryGraph&&) noexcept = default;
MemoryGraph& MemoryGraph::operator=(MemoryGraph&&) noexcept = default;

MemoryGraph::Id MemoryGraph::add_action(const std::string& label) {
  const Vertex v = boost::add_vertex({label, "box"}, graph_->boost);
  const int id = static_cast<int>(graph_->action.size());
  graph_->action.push_back(v);
  graph_->position.push_back(id);
  return id;
}

MemoryGraph::Id MemoryGraph::add_value(const std::string& label, Shape shape) {
  const char* drawn = shape == Shape::tile ? "ellipse" : shape == Shape::state ? "octagon" : "cylinder";
  const Vertex v = boost::add_vertex({label, drawn}, graph_->boost);
  graph_->value.push_back(v);
  graph_->position.push_back(-1);
  graph_->readers.emplace_back();
  graph_->writers.emplace_back();
  return static_cast<int>(graph_->value.size()) - 1;
}

void MemoryGraph::add_control(Id from, Id to, bool back) {
  boost::add_edge(graph_->vertex_of(from), graph_->vertex_of(to), {back ? EdgeKind::back : EdgeKind::control, {}},
                  graph_->boost);
}

void MemoryGraph::add_read(Id action, Id value) {
  const Vertex v = graph_->vertex_of_value(value);
  std::vector<Id>& list = graph_->readers[static_cast<std::size_t>(value)];
  if (contains(list, action)) return;
  boost::add_edge(v, graph_->vertex_of(action), {EdgeKind::read, {}}, graph_->boost);
  list.push_back(action);
}

void MemoryGraph::add_write(Id action, Id value) {
  const Vertex v = graph_->vertex_of_value(value);
  std::vector<Id>& list = graph_->writers[static_cast<std::size_t>(value)];
  if (contains(list, action)) return;
  boost::add_edge(graph_->vertex_of(action), v, {EdgeKind::write, {}}, graph_->boost);
  list.push_back(action);
}

void MemoryGraph::add_sync(Id from, Id to, const std::string& label) {
  boost::add_edge(graph_->vertex_of(from), graph_->vertex_of(to), {EdgeKind::sync, label}, graph_->boost);
}

int MemoryGraph::actions() const {
  return static_cast<int>(graph_->action.size());
}
std::span<const MemoryGraph::Id> MemoryGraph::readers(Id value) const {
  return graph_->readers.at(static_cast<std::size_t>(value));
}
std::span<const MemoryGraph::Id> MemoryGraph::writers(Id value) const {
  return graph_->writers.at(static_cast<std::size_t>(value));
}

std::vector<MemoryGraph::Id> MemoryGraph::topological_order() const {
  const boost::filtered_graph<Boost, OrderEdges> forward(graph_->boost, OrderEdges{&graph_->boost, &graph_->position});
  std::vector<Vertex> reversed;
  boost::topological_sort(forward, std::back_inserter(reversed));
  std::vector<Id> result;
  for (auto v = reversed.rbegin(); v != reversed.rend(); ++v) {
    if (graph_->position[*v] >= 0) result.push_back(graph_->position[*v]);
  }
  return result;
}

// Backwards from every read to the writes that reach it.
MemoryGraph::Interval MemoryGraph::live(Id value) const {
  const std::span<const Id> writes = writers(value), reads = readers(value);
  std::set<Id> held(writes.begin(), writes.end());
  std::vector<Id> work(reads.begin(), reads.end());
  std::set<Id> seen;
  while (!work.empty()) {
    const Id at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    held.insert(at);
    for (const Id before : graph_->previous(at)) {
      held.insert(before);
      if (contains(writes, before) && !contains(reads, before)) continue;
      work.push_back(before);
    }
  }
  AICF_CHECK(!held.empty(), fmt::format("value {} is never used", graph_->boost[graph_->vertex_of_value(value)].label));
  return {*held.begin(), *held.rbegin()};
}

std::vector<MemoryGraph::Meeting> MemoryGraph::meetings(std::span<const Id> values, int buffers) const {
  struct Use {
    bool reads = false, writes = false;
  };
  std::map<Id, Use> uses;
  for (const Id v : values) {
    for (const Id a : readers(v)) uses[a].reads = true;
    for (const Id a : writers(v)) uses[a].writes = true;
  }
  std::vector<Meeting> result;
  for (const auto& [from, use] : uses) {
    // Positions with the number of writes passed on the way; the write number `buffers` overwrites what `from` touched.
    std::set<std::pair<Id, int>> seen;
    std::vector<std::pair<Id, int>> work;
    std::set<Id> met;
    for (const Id n : graph_->next(from)) work.push_back({n, 0});
    while (!work.empty()) {
      const auto [at, passed] = work.back();
      work.pop_back();
      if (!seen.insert({at, passed}).second) continue;
      int now = passed;
      if (const auto found = uses.find(at); found != uses.end()) {
        const Use& other = found->second;
        const bool raw = use.writes && other.reads && passed == 0;
        const bool overwrites = other.writes && passed + 1 == buffers;
        if ((raw || overwrites) && met.insert(at).second) {
          result.push_back({from, at, use.writes, overwrites, from < at ? 0 : buffers});
        }
        if (other.writes && ++now == buffers) continue;
      }
      for (const Id n : graph_->next(at)) work.push_back({n, now});
    }
  }
  std::ranges::sort(result, {}, [](const Meeting& m) { return std::pair(m.from, m.to); });
  return result;
}

bool MemoryGraph::separates(Id through, Id from, Id to) const {
  if (through == from || through == to) return false;
  std::set<Id> seen;
  std::vector<Id> work = graph_->next(from);
  while (!work.empty()) {
    const Id at = work.back();
    work.pop_back();
    if (at == through || !seen.insert(at).second) continue;
    if (at == to) return false;
    for (const Id n : graph_->next(at)) work.push_back(n);
  }
  return true;
}

std::string MemoryGraph::to_dot(const std::string& title) const {
  std::ostringstream out;
  const Boost& g = graph_->boost;
  boost::write_graphviz(
      out, g,
      [&](std::ostream& o, Vertex v) {
        o << "[label=" << boost::escape_dot_string(g[v].label) << ", shape=" << g[v].shape << "]";
      },
      [&](std::ostream& o, const Edge& e) {
        switch (g[e].kind) {
          case EdgeKind::control:
            o << "[color=gray]";
            break;
          case EdgeKind::back:
            o << "[color=gray, style=dashed, constraint=false]";
            break;
          case EdgeKind::read:
          case EdgeKind::write:
            o << "[color=blue]";
            break;
          case EdgeKind::sync:
            o << "[color=red, constraint=false, label=" << boost::escape_dot_string(g[e].label) << "]";
            break;
        }
      },
      [&](std::ostream& o) { o << "label=" << boost::escape_dot_string(title) << ";\n"; });
  return out.str();
}

}  // namespace aicf
