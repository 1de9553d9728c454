#include "mir/stream/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace aicf {
namespace {

/// Values of one name at the coordinates of a block: [base, base + size) per axis.
struct Block {
  std::vector<std::string> axes;
  std::vector<std::int64_t> base, size;
  std::vector<double> data;
};

using Coordinates = std::map<std::string, std::int64_t>;

double reduced(ReduceOp op, DType type, double a, double b) {
  const double args[] = {a, b};
  switch (op) {
    case ReduceOp::sum:
      return apply(Op::add, type, args);
    case ReduceOp::prod:
      return apply(Op::mul, type, args);
    case ReduceOp::max:
      return apply(Op::max, type, args);
    case ReduceOp::min:
      return apply(Op::min, type, args);
    case ReduceOp::maxnum:
      return apply(Op::maxnum, type, args);
    case ReduceOp::minnum:
      return apply(Op::minnum, type, args);
    case ReduceOp::any:
      return a != 0 || b != 0;
    case ReduceOp::all:
      return a != 0 && b != 0;
    case ReduceOp::none:
    case ReduceOp::first:
      break;
  }
  AICF_BUG("no such reduction in a state");
}

class Evaluator {
 public:
  Evaluator(const StreamingRegion& region, const HostTensors& inputs, const EvaluateOptions& options)
      : region_(region), inputs_(inputs), options_(options) {}

  Result<HostTensors> run() {
    for (const Axis& a : region_.axes) {
      AICF_TRY(extent_[a.name], evaluate_int(a.extent, options_.symbols));
    }
    // Outputs exist even when no work item runs.
    AICF_RETURN_IF_ERROR(allocate(region_.prologue));
    for (const Stream& s : region_.streams) {
      AICF_RETURN_IF_ERROR(allocate(s.step));
      AICF_RETURN_IF_ERROR(allocate(s.finish));
    }
    AICF_RETURN_IF_ERROR(allocate(region_.epilogue));
    AICF_RETURN_IF_ERROR(work_items(0));
    return std::move(outputs_);
  }

 private:
  using Extents = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;  ///< axis → [begin, end)

  Result<void> allocate(const std::vector<StepStatement>& list) {
    for (const StepStatement& s : list) {
      if (s.kind == StepStatement::Kind::nested) {
        AICF_RETURN_IF_ERROR(allocate(s.nested->step));
        AICF_RETURN_IF_ERROR(allocate(s.nested->finish));
      }
      if (s.kind != StepStatement::Kind::store) continue;
      std::int64_t elements = 1;
      for (const Expr& e : s.shape) {
        AICF_TRY(const std::int64_t n, evaluate_int(e, options_.symbols));
        elements *= n;
      }
      outputs_[s.name].resize(static_cast<std::size_t>(elements), 0.0);
    }
    return {};
  }

  Result<void> work_items(std::size_t axis) {
    if (axis < region_.parallel.size()) {
      const std::string& name = region_.parallel[axis];
      for (std::int64_t i = 0; i < extent_.at(name); ++i) {
        block_[name] = {i, i + 1};
        AICF_RETURN_IF_ERROR(work_items(axis + 1));
      }
      return {};
    }
    values_.clear();
    for (const Axis& a : region_.axes) {
      if (std::ranges::find(region_.parallel, a.name) == region_.parallel.end())
        block_[a.name] = {0, extent_.at(a.name)};
    }
    for (const TileDecl& t : region_.tiles) load(t);
    statements(region_.prologue, nullptr);
    for (const Stream& s : region_.streams) stream(s);
    statements(region_.epilogue, nullptr);
    if (error_) return std::unexpected(*error_);
    return {};
  }

  void fail(std::string message) {
    if (!error_)
      error_ = Diagnostic{ErrorKind::bad_input, std::move(message), "streaming region '" + region_.name + "'"};
  }

  // ---- blocks --------------------------------------------------------------------------------------------------

  Block block_of(const std::vector<std::string>& axes) const {
    Block b{axes, {}, {}, {}};
    std::int64_t elements = 1;
    for (const std::string& a : axes) {
      const auto [begin, end] = block_.at(a);
      b.base.push_back(begin);
      b.size.push_back(end - begin);
      elements *= end - begin;
    }
    b.data.resize(static_cast<std::size_t>(elements));
    return b;
  }

  static std::size_t offset(const Block& b, const Coordinates& at) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < b.axes.size(); ++i) offset = offset * b.size[i] + (at.at(b.axes[i]) - b.base[i]);
    return static_cast<std::size_t>(offset);
  }

  /// Calls `visit` for every coordinate of `axes` in the current blocks, the last axis fastest; `at` keeps other axes.
  template <class Visit>
  void each(const std::vector<std::string>& axes, std::size_t i, Coordinates& at, const Visit& visit) {
    if (i == axes.size()) return visit();
    const auto [begin, end] = block_.at(axes[i]);
    for (std::int64_t c = begin; c < end && !error_; ++c) {
      at[axes[i]] = c;
      each(axes, i + 1, at, visit);
    }
  }

  /// In float64 runs floats are never rounded, by casts and stores neither.
  bool exact(DType type) const { return is_float(type) && !options_.single_precision; }

  double rounded(DType type, double v) const {
    if (!is_float(type)) return v;
    return options_.single_precision && type != DType::f16 && type != DType::bf16 ? round_to(DType::f32, v) : v;
  }

  double scalar(const Expr& e, const Coordinates& at) {
    switch (e.op()) {
      case Op::constant:
        return e.number();
      case Op::axis:
        return static_cast<double>(at.at(e.name()));
      case Op::symbol: {
        auto it = options_.symbols.find(e.name());
        if (it == options_.symbols.end()) return fail("the symbol '" + e.name() + "' has no value"), 0;
        return static_cast<double>(it->second);
      }
      case Op::value: {
        auto it = values_.find(e.name());
        AICF_CHECK(it != values_.end(), "value '" + e.name() + "' is not defined");
        return it->second.data.at(offset(it->second, at));
      }
      case Op::select:
        return scalar(scalar(e.args()[0], at) != 0 ? e.args()[1] : e.args()[2], at);
      default:
        break;
    }
    double args[2] = {};
    for (std::size_t i = 0; i < e.args().size(); ++i) args[i] = scalar(e.args()[i], at);
    if (e.op() == Op::cast && exact(e.type())) return args[0];
    return rounded(e.type(), apply(e.op(), e.type(), std::span(args, e.args().size())));
  }

  void load(const TileDecl& t) {
    auto source = inputs_.find(t.tensor);
    if (source == inputs_.end()) return fail("the input '" + t.tensor + "' is missing");
    std::vector<std::int64_t> shape;
    for (const Expr& e : t.shape) {
      const auto n = evaluate_int(e, options_.symbols);
      if (!n) return fail(n.error().text());
      shape.push_back(*n);
    }
    Block b = block_of(t.axes);
    Coordinates at;
    std::size_t next = 0;
    each(t.axes, 0, at, [&] {
      double& element = b.data[next++];
      if (t.guard && scalar(t.guard, at) == 0) {
        element = t.fill ? scalar(t.fill, at) : 0;
        return;
      }
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto index = static_cast<std::int64_t>(scalar(t.index[i], at));
        if (index < 0 || index >= shape[i]) {
          return fail(fmt::format("'{}' is loaded at {} of dimension {}, which has {}", t.tensor, index, i, shape[i]));
        }
        offset = offset * shape[i] + index;
      }
      element = source->second.at(static_cast<std::size_t>(offset));
    });
    values_[t.name] = std::move(b);
  }

  // ---- statements ----------------------------------------------------------------------------------------------

  double reduction(const StepStatement& s, const std::vector<std::string>& over, Coordinates& at) {
    if (s.reduce == ReduceOp::first) {
      for (const std::string& a : over) at[a] = block_.at(a).first;
      return scalar(s.body, at);
    }
    double sum = neutral(s.reduce, s.type).number();
    each(over, 0, at, [&] { sum = rounded(s.type, reduced(s.reduce, s.type, sum, scalar(s.body, at))); });
    return sum;
  }

  void local(const StepStatement& s) {
    Block b = block_of(s.axes);
    Coordinates at;
    std::size_t next = 0;
    each(s.axes, 0, at, [&] { b.data[next++] = s.over.empty() ? scalar(s.body, at) : reduction(s, s.over, at); });
    values_[s.name] = std::move(b);
  }

  void store(const StepStatement& s) {
    std::vector<std::int64_t> shape;
    for (const Expr& e : s.shape) shape.push_back(*evaluate_int(e, options_.symbols));
    Coordinates at;
    each(s.axes, 0, at, [&] {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto index = static_cast<std::int64_t>(scalar(s.index[i], at));
        if (index < 0 || index >= shape[i]) return fail(fmt::format("'{}' is stored out of bounds", s.name));
        offset = offset * shape[i] + index;
      }
      const double value = scalar(s.body, at);
      outputs_.at(s.name).at(static_cast<std::size_t>(offset)) = exact(s.type) ? value : round_to(s.type, value);
    });
  }

  /// A part of a stream in progress: states as they were when each group was last repaired.
  struct Part {
    bool started = false;
    std::map<std::string, Block> before;
  };

  void statements(const std::vector<StepStatement>& list, const Stream* in, Part* part = nullptr) {
    for (const StepStatement& s : list) {
      if (error_) return;
      switch (s.kind) {
        case StepStatement::Kind::local:
          local(s);
          break;
        case StepStatement::Kind::store:
          store(s);
          break;
        case StepStatement::Kind::nested:
          stream(*s.nested);
          break;
        case StepStatement::Kind::update:
          update(s, *in, *part);
          break;
      }
    }
  }

  void update(const StepStatement& s, const Stream& in, Part& part) {
    std::vector<std::string> over = s.over;
    over.push_back(in.axis);
    Block& state = values_.at(s.name);
    const bool first = s.reduce == ReduceOp::first;
    if (!first || !part.started) {
      Coordinates at;
      std::size_t next = 0;
      each(s.axes, 0, at, [&] {
        const double value = reduction(s, over, at);
        double& element = state.data[next++];
        element = first ? value : rounded(s.type, reduced(s.reduce, s.type, element, value));
      });
    }
    // A group is repaired once per step, after the last of its references has moved.
    for (const RepairGroup& g : in.repairs) {
      std::string last;
      for (const StepStatement& x : in.step) {
        if (x.kind == StepStatement::Kind::update && std::ranges::find(g.references, x.name) != g.references.end())
          last = x.name;
      }
      if (last == s.name) repair(g, in, part);
    }
  }

  void repair(const RepairGroup& g, const Stream& in, Part& part) {
    // Old references by their names, new ones primed; members are as the last repair left them plus their updates.
    std::map<std::string, Block> now;
    for (const std::string& r : g.references) {
      now[r] = values_.at(r);
      values_[r + "'"] = now.at(r);
      values_[r] = part.before.at(r);
    }
    std::vector<Block> moved;
    for (std::size_t i = 0; i < g.states.size(); ++i) {
      const StateDecl& d = *std::ranges::find(in.states, g.states[i], &StateDecl::name);
      Block b = block_of(d.axes);
      Coordinates at;
      std::size_t next = 0;
      each(d.axes, 0, at, [&] { b.data[next++] = scalar(g.repair[i], at); });
      moved.push_back(std::move(b));
    }
    for (const std::string& r : g.references) {
      values_[r] = std::move(now.at(r));
      values_.erase(r + "'");
    }
    for (std::size_t i = 0; i < g.states.size(); ++i) values_[g.states[i]] = std::move(moved[i]);
  }

  // ---- streams -------------------------------------------------------------------------------------------------

  void initialise(const Stream& s) {
    for (const StateDecl& d : s.states) {
      Block b = block_of(d.axes);
      std::ranges::fill(b.data, scalar(d.init, {}));
      values_[d.name] = std::move(b);
    }
  }

  bool everywhere(const Expr& condition) {
    if (!condition) return false;
    bool all = true;
    const std::set<std::string> used = axes_of(condition);
    const std::vector<std::string> axes(used.begin(), used.end());
    Coordinates at;
    each(axes, 0, at, [&] { all &= scalar(condition, at) != 0; });
    return all;
  }

  bool settled(const Stream& s) {
    bool all = true;
    for (const std::string& v : values_of(s.settled)) {
      Coordinates at;
      each(std::ranges::find(s.states, v, &StateDecl::name)->axes, 0, at, [&] { all &= scalar(s.settled, at) != 0; });
    }
    return all;
  }

  /// The segment that holds coordinate `at`; shortens `length` to its end.
  const Segment* segment_at(const Stream& s, std::int64_t at, std::int64_t& length) {
    for (const Segment& g : s.segments) {
      const auto begin = evaluate_int(g.begin, options_.symbols), end = evaluate_int(g.end, options_.symbols);
      if (!begin || !end || at < *begin || at >= *end) continue;
      length = std::min(length, *end - at);
      return &g;
    }
    return nullptr;
  }

  /// A tile that the segment does not load: whoever reads it sees NaN.
  void poison(const TileDecl& t) {
    Block b = block_of(t.axes);
    std::ranges::fill(b.data, std::numeric_limits<double>::quiet_NaN());
    values_[t.name] = std::move(b);
  }

  void run_part(const Stream& s, std::int64_t begin, std::int64_t end) {
    if (s.defer && options_.use_skip) {
      run_part(s, begin, end, s.defer);
      if (error_ || settled(s)) return;
    }
    run_part(s, begin, end, options_.use_skip ? s.skip : Expr());
  }

  void run_part(const Stream& s, std::int64_t begin, std::int64_t end, const Expr& left_out) {
    initialise(s);
    Part part;
    std::size_t step = 0;
    for (std::int64_t at = begin; at < end && !error_;) {
      std::int64_t length = end - at;
      if (!options_.steps.empty()) {
        length = std::min(length, std::max<std::int64_t>(1, options_.steps[std::min(step, options_.steps.size() - 1)]));
      }
      ++step;
      const Segment* segment = segment_at(s, at, length);
      block_[s.axis] = {at, at + length};
      at += length;
      if (everywhere(left_out)) continue;
      for (const TileDecl& t : s.tiles) {
        const bool wanted = !segment || std::ranges::find(segment->tiles, t.name) != segment->tiles.end();
        wanted ? load(t) : poison(t);
      }
      part.before.clear();
      for (const StateDecl& d : s.states) part.before[d.name] = values_.at(d.name);
      statements(s.step, &s, &part);
      part.started = true;
    }
  }

  void stream(const Stream& s) {
    const std::int64_t extent = extent_.at(s.axis);
    std::vector<std::int64_t> cuts;
    for (const std::int64_t c : options_.cuts) {
      if (c > 0 && c < extent && !s.states.empty()) cuts.push_back(c);
    }
    cuts.push_back(0);
    cuts.push_back(extent);
    std::ranges::sort(cuts);
    std::vector<std::map<std::string, Block>> parts;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      run_part(s, cuts[i], cuts[i + 1]);
      std::map<std::string, Block> states;
      for (const StateDecl& d : s.states) states[d.name] = values_.at(d.name);
      parts.push_back(std::move(states));
    }
    while (parts.size() > 1 && !error_) {
      const auto take = [&] {
        const std::size_t i = options_.pick ? options_.pick(parts.size()) % parts.size() : 0;
        auto states = std::move(parts[i]);
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        return states;
      };
      auto a = take();
      auto b = take();
      parts.insert(parts.begin(), merged(s, a, b));
    }
    for (const StateDecl& d : s.states) values_[d.name] = std::move(parts[0].at(d.name));
    block_[s.axis] = {0, extent};
    statements(s.finish, nullptr);
  }

  std::map<std::string, Block> merged(const Stream& s, const std::map<std::string, Block>& a,
                                      const std::map<std::string, Block>& b) {
    for (const auto& [name, block] : a) values_["a." + name] = block;
    for (const auto& [name, block] : b) values_["b." + name] = block;
    std::map<std::string, Block> out;
    for (const MergeRule& rule : s.merge) {
      const StateDecl& d = *std::ranges::find(s.states, rule.state, &StateDecl::name);
      Block block = block_of(d.axes);
      Coordinates at;
      std::size_t next = 0;
      each(d.axes, 0, at, [&] { block.data[next++] = scalar(rule.value, at); });
      out[rule.state] = std::move(block);
    }
    return out;
  }

  const StreamingRegion& region_;
  const HostTensors& inputs_;
  const EvaluateOptions& options_;
  std::map<std::string, std::int64_t> extent_;
  Extents block_;
  std::map<std::string, Block> values_;
  HostTensors outputs_;
  std::optional<Diagnostic> error_;
};

}  // namespace

Result<HostTensors> evaluate(const StreamingRegion& region, const HostTensors& inputs, const EvaluateOptions& options) {
  return Evaluator(region, inputs, options).run();
}

}  // namespace aicf
