#include "mir/memory/streaming_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <set>
#include <sstream>

namespace aicf {
namespace {

constexpr std::array<std::string_view, 4> residency_names{"?", "off_chip", "workgroup", "subgroup_register"};
constexpr std::array<std::string_view, 3> lifecycle_names{"region", "stream", "step"};

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

// ---- verify ------------------------------------------------------------------------------------------------------

/// Names in scope with type and axes; scopes nest by copying.
struct Known {
  DType type;
  std::vector<std::string> axes;
};
using Names = std::map<std::string, Known>;

class Verifier {
 public:
  explicit Verifier(const StreamingRegion& region) : region_(region) {}

  Result<void> run() {
    for (const Axis& a : region_.axes) {
      if (!axes_.insert(a.name).second) return broken(a.name, "is the name of two axes");
    }
    for (const std::string& a : region_.parallel) {
      if (!axes_.contains(a)) return broken(a, "is parallel but not an axis");
    }
    Names names;
    for (const TileDecl& t : region_.tiles) {
      if (t.lifecycle != Lifecycle::region) return broken(t.name, "is a tile of the region with another lifecycle");
      AICF_RETURN_IF_ERROR(tile(t, names));
    }
    AICF_RETURN_IF_ERROR(statements(region_.prologue, names, nullptr));
    for (const Stream& s : region_.streams) AICF_RETURN_IF_ERROR(stream(s, names));
    return statements(region_.epilogue, names, nullptr);
  }

 private:
  std::unexpected<Diagnostic> broken(const std::string& what, const std::string& rule) const {
    return bad_input(fmt::format("'{}' {}", what, rule), fmt::format("streaming region '{}'", region_.name));
  }

  Result<void> known_axes(const std::string& what, const std::vector<std::string>& list) const {
    for (const std::string& a : list) {
      if (!axes_.contains(a)) return broken(what, fmt::format("has the unknown axis '{}'", a));
    }
    return {};
  }

  /// Every leaf of `e` is in scope at coordinates over `own`.
  Result<void> expression(const std::string& what, const Expr& e, const Names& names,
                          const std::set<std::string>& own) const {
    if (!e) return broken(what, "has an empty expression");
    Result<void> status;
    for_each(e, [&](const Expr& x) {
      if (!status) return;
      if (x.op() == Op::load) status = broken(what, fmt::format("loads '{}' without a tile", x.name()));
      if (x.op() == Op::axis && !own.contains(x.name()))
        status = broken(what, fmt::format("uses the axis '{}', which it does not have", x.name()));
      if (x.op() != Op::value) return;
      auto it = names.find(x.name());
      if (it == names.end()) {
        status = broken(what, fmt::format("reads '{}' before it is defined", x.name()));
      } else if (it->second.type != x.type()) {
        status =
            broken(what, fmt::format("reads '{}' as {}, it is {}", x.name(), name(x.type()), name(it->second.type)));
      } else {
        for (const std::string& a : it->second.axes) {
          if (!own.contains(a)) status = broken(what, fmt::format("reads '{}' without its axis '{}'", x.name(), a));
        }
      }
    });
    return status;
  }

  Result<void> define(const std::string& what, DType type, const std::vector<std::string>& axes, Names& names) const {
    AICF_RETURN_IF_ERROR(known_axes(what, axes));
    if (!names.emplace(what, Known{type, axes}).second) return broken(what, "is defined twice");
    return {};
  }

  Result<void> tile(const TileDecl& t, Names& names) const {
    const std::set<std::string> own(t.axes.begin(), t.axes.end());
    if (t.index.size() != t.shape.size())
      return broken(t.name, "has another number of indices than its tensor has dimensions");
    for (const Expr& e : t.index) AICF_RETURN_IF_ERROR(expression(t.name, e, names, own));
    if (t.guard) AICF_RETURN_IF_ERROR(expression(t.name, t.guard, names, own));
    if (t.fill && t.fill.type() != t.type) return broken(t.name, "is filled with a value of another type");
    return define(t.name, t.type, t.axes, names);
  }

  Result<void> statements(const std::vector<StepStatement>& list, Names& names, const Stream* in) const {
    for (const StepStatement& s : list) {
      if (s.kind == StepStatement::Kind::nested) {
        if (!s.nested) return broken(s.name, "is a nested stream without a stream");
        AICF_RETURN_IF_ERROR(stream(*s.nested, names));
        continue;
      }
      AICF_RETURN_IF_ERROR(known_axes(s.name, s.axes));
      AICF_RETURN_IF_ERROR(known_axes(s.name, s.over));
      std::set<std::string> own(s.axes.begin(), s.axes.end());
      own.insert(s.over.begin(), s.over.end());
      if (own.size() != s.axes.size() + s.over.size()) return broken(s.name, "has an axis twice");
      if (s.kind == StepStatement::Kind::update) {
        if (!in) return broken(s.name, "is updated outside a stream");
        own.insert(in->axis);
        AICF_RETURN_IF_ERROR(update(s, *in));
      } else if (s.kind == StepStatement::Kind::store) {
        if (s.index.size() != s.shape.size())
          return broken(s.name, "is stored with another number of indices than dimensions");
        for (const Expr& e : s.index) AICF_RETURN_IF_ERROR(expression(s.name, e, names, own));
      } else if ((s.reduce == ReduceOp::none) != s.over.empty()) {
        return broken(s.name, "must reduce over axes exactly when it has a reduction");
      }
      AICF_RETURN_IF_ERROR(expression(s.name, s.body, names, own));
      if (s.body.type() != s.type) {
        return broken(s.name, fmt::format("has type {} but its body is {}", name(s.type), name(s.body.type())));
      }
      if (s.kind == StepStatement::Kind::local) AICF_RETURN_IF_ERROR(define(s.name, s.type, s.axes, names));
    }
    return {};
  }

  Result<void> update(const StepStatement& s, const Stream& in) const {
    auto state = std::ranges::find(in.states, s.name, &StateDecl::name);
    if (state == in.states.end()) return broken(s.name, "is updated but not a state of the stream");
    if (state->reduce != s.reduce) return broken(s.name, "is updated with another reduction than its state has");
    if (state->axes != s.axes || state->type != s.type)
      return broken(s.name, "is updated at other axes or type than its state has");
    return {};
  }

  Result<void> stream(const Stream& s, Names& names) const {
    if (!axes_.contains(s.axis)) return broken(s.axis, "is streamed but not an axis");
    if (has(region_.parallel, s.axis)) return broken(s.axis, "is streamed and parallel");
    // A group is repaired after the last of its references: its members' updates come later.
    for (const RepairGroup& g : s.repairs) {
      bool member = false;
      for (const StepStatement& x : s.step) {
        if (x.kind != StepStatement::Kind::update) continue;
        member |= has(g.states, x.name);
        if (member && has(g.references, x.name))
          return broken(x.name, "is a reference that is updated after a state it repairs");
      }
    }
    std::set<std::string> updated;
    for (const StepStatement& x : s.step) {
      if (x.kind == StepStatement::Kind::update && !updated.insert(x.name).second)
        return broken(x.name, "is updated twice in a step");
    }
    for (const StateDecl& d : s.states) {
      if (has(d.axes, s.axis)) return broken(d.name, "is a state that carries the stream axis");
      if (!d.init || d.init.type() != d.type) return broken(d.name, "has no initial value of its type");
      if (!updated.contains(d.name)) return broken(d.name, "is a state that no statement updates");
      AICF_RETURN_IF_ERROR(define(d.name, d.type, d.axes, names));
    }
    AICF_RETURN_IF_ERROR(repairs(s, names));
    AICF_RETURN_IF_ERROR(merges(s, names));
    Names inner = names;  // tiles and locals of a step end with the stream
    for (const TileDecl& t : s.tiles) {
      if (t.lifecycle == Lifecycle::region) return broken(t.name, "is a tile of a stream with lifecycle region");
      AICF_RETURN_IF_ERROR(tile(t, inner));
    }
    for (const Segment& g : s.segments) {
      for (const std::string& t : g.tiles) {
        if (std::ranges::find(s.tiles, t, &TileDecl::name) == s.tiles.end())
          return broken(t, "is named by a segment but not a tile of the stream");
      }
    }
    AICF_RETURN_IF_ERROR(statements(s.step, inner, &s));
    for (const auto& [n, k] : inner) {
      if (!names.contains(n) && !has(k.axes, s.axis) &&
          std::ranges::any_of(s.finish, [&](const StepStatement& f) { return f.name == n; })) {
        return broken(n, "is defined in the step and in finish");
      }
    }
    if (s.skip) {
      std::set<std::string> own = axes_;
      AICF_RETURN_IF_ERROR(expression(s.axis, s.skip, names, own));
      if (s.skip.type() != DType::boolean) return broken(s.axis, "has a skip condition that is not a bool");
    }
    if (static_cast<bool>(s.defer) != static_cast<bool>(s.settled))
      return broken(s.axis, "has a defer condition without a settled one, or the other way round");
    if (s.defer) {
      std::set<std::string> own = axes_;
      AICF_RETURN_IF_ERROR(expression(s.axis, s.defer, names, own));
      if (s.defer.type() != DType::boolean) return broken(s.axis, "has a defer condition that is not a bool");
      std::set<std::string> parallel(region_.parallel.begin(), region_.parallel.end());
      AICF_RETURN_IF_ERROR(expression(s.axis, s.settled, inner, parallel));
      if (s.settled.type() != DType::boolean) return broken(s.axis, "has a settled condition that is not a bool");
      for (const std::string& v : values_of(s.settled)) {
        auto d = std::ranges::find(s.states, v, &StateDecl::name);
        if (d == s.states.end()) return broken(s.axis, fmt::format("is settled by '{}', which is not a state", v));
      }
    }
    return statements(s.finish, names, nullptr);
  }

  Result<void> repairs(const Stream& s, const Names& names) const {
    std::set<std::string> repaired;
    for (const RepairGroup& g : s.repairs) {
      if (g.states.size() != g.repair.size() || g.states.empty())
        return broken(s.axis, "has a repair group without one expression per state");
      Names inner = names;
      for (const std::string& r : g.references) {
        auto it = names.find(r);
        if (it == names.end()) return broken(r, "is a reference but not a state");
        inner[r + "'"] = it->second;
      }
      for (std::size_t i = 0; i < g.states.size(); ++i) {
        auto it = std::ranges::find(s.states, g.states[i], &StateDecl::name);
        if (it == s.states.end()) return broken(g.states[i], "is repaired but not a state of the stream");
        if (!repaired.insert(it->name).second) return broken(it->name, "is in two repair groups");
        AICF_RETURN_IF_ERROR(expression(it->name, g.repair[i], inner, {it->axes.begin(), it->axes.end()}));
        if (g.repair[i].type() != it->type) return broken(it->name, "is repaired to another type");
      }
    }
    return {};
  }

  Result<void> merges(const Stream& s, const Names& names) const {
    Names sides = names;
    for (const StateDecl& d : s.states) {
      sides.erase(d.name);
      sides["a." + d.name] = sides["b." + d.name] = {d.type, d.axes};
    }
    for (const StateDecl& d : s.states) {
      auto it = std::ranges::find(s.merge, d.name, &MergeRule::state);
      if (it == s.merge.end()) return broken(d.name, "has no merge rule");
      AICF_RETURN_IF_ERROR(expression(d.name, it->value, sides, {d.axes.begin(), d.axes.end()}));
      if (it->value.type() != d.type) return broken(d.name, "is merged to another type");
    }
    if (s.merge.size() != s.states.size()) return broken(s.axis, "has another number of merge rules than states");
    return {};
  }

  const StreamingRegion& region_;
  std::set<std::string> axes_;
};

// ---- dot ---------------------------------------------------------------------------------------------------------

using DotGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

/// Tiles, states and statements as vertices, uses as edges.
class DotBuilder {
 public:
  void tile(const TileDecl& t) { add(t.name, fmt::format("tile {}\n{}", t.name, name(t.lifecycle)), "box"); }

  void statements(const std::vector<StepStatement>& list, const std::string& where) {
    for (const StepStatement& s : list) {
      if (s.kind == StepStatement::Kind::nested) {
        stream(*s.nested);
        continue;
      }
      if (s.kind == StepStatement::Kind::update) {
        link(s.body, vertex_.at(s.name));
        continue;
      }
      const bool store = s.kind == StepStatement::Kind::store;
      const auto v = boost::add_vertex(graph_);
      label_.push_back(fmt::format("{} {}\n{}", store ? "store" : "local", s.name, where));
      shape_.push_back(store ? "cds" : "ellipse");
      link(s.body, v);
      if (!store) vertex_[s.name] = v;
    }
  }

  void stream(const Stream& s) {
    for (const TileDecl& t : s.tiles) tile(t);
    for (const StateDecl& d : s.states)
      add(d.name, fmt::format("state {}\n{} over {}", d.name, name(d.reduce), s.axis), "octagon");
    for (const RepairGroup& g : s.repairs) {
      for (const std::string& r : g.references) {
        for (const std::string& state : g.states) boost::add_edge(vertex_.at(r), vertex_.at(state), graph_);
      }
    }
    statements(s.step, "step over " + s.axis);
    statements(s.finish, "finish");
  }

  std::string text(const std::string& title) const {
    std::ostringstream out;
    boost::write_graphviz(
        out, graph_,
        [&](std::ostream& o, auto v) {
          o << "[label=" << boost::escape_dot_string(label_[v]) << ", shape=" << shape_[v] << "]";
        },
        boost::default_writer(), [&](std::ostream& o) { o << "label=" << boost::escape_dot_string(title) << ";\n"; });
    return out.str();
  }

 private:
  void add(const std::string& name, std::string label, std::string shape) {
    if (vertex_.contains(name) && label_[vertex_[name]] == label) return;  // the same tile in a later pass
    vertex_[name] = boost::add_vertex(graph_);
    label_.push_back(std::move(label));
    shape_.push_back(std::move(shape));
  }

  void link(const Expr& e, DotGraph::vertex_descriptor to) {
    for (const std::string& v : values_of(e)) {
      if (auto it = vertex_.find(v); it != vertex_.end()) boost::add_edge(it->second, to, graph_);
    }
  }

  DotGraph graph_;
  std::map<std::string, DotGraph::vertex_descriptor> vertex_;
  std::vector<std::string> label_, shape_;
};

}  // namespace

std::string_view name(Residency residency) {
  return residency_names[static_cast<std::size_t>(residency)];
}
std::string_view name(Lifecycle lifecycle) {
  return lifecycle_names[static_cast<std::size_t>(lifecycle)];
}

const Axis& StreamingRegion::axis(const std::string& axis_name) const {
  auto it = std::ranges::find(axes, axis_name, &Axis::name);
  AICF_CHECK(it != axes.end(), fmt::format("streaming region '{}' has no axis '{}'", name, axis_name));
  return *it;
}

Ranges StreamingRegion::ranges() const {
  Ranges result;
  for (const Axis& a : axes) {
    Range range{0, {}};
    if (const auto n = range_of(a.extent, {}).high) range.high = std::max<std::int64_t>(*n - 1, 0);
    result["axis:" + a.name] = range;
  }
  return result;
}

Result<void> verify(const StreamingRegion& region) {
  return Verifier(region).run();
}

std::string to_dot(const StreamingRegion& region) {
  DotBuilder dot;
  for (const TileDecl& t : region.tiles) dot.tile(t);
  dot.statements(region.prologue, "prologue");
  for (const Stream& s : region.streams) dot.stream(s);
  dot.statements(region.epilogue, "epilogue");
  return dot.text(region.name);
}

}  // namespace aicf
