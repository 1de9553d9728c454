#include "mir/kernel/count.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace aicf {

namespace {

class Counter {
 public:
  Counter(const ThreadProgram& program, const std::map<std::string, std::int64_t>& sizes)
      : program_(program), bindings_(sizes) {
    for (const std::string& s : program.symbols) bindings_.try_emplace(s, 64);
    bindings_["lane"] = bindings_["subgroup"] = bindings_["workgroup"] = 0;
  }

  StaticCounts run();

 private:
  struct Pattern {
    std::string name;
    double sectors = 0;
  };
  void walk(const ThreadBody& body, double times);
  void expression(const Expr& e, double times);
  const Pattern& pattern(const Expr& index, int width);
  Pattern find_pattern(const Expr& index, int width);
  double trips(const ThreadStatement& loop);
  std::int64_t evaluate(const Expr& e, std::int64_t otherwise) const;
  bool holds(const Expr& condition) const;
  void add(const std::string& key, double n) { out_.counts[key] += n; }
  /// Arithmetic is what there is most of: its counts are not looked up again.
  enum Operation { op_add, op_mul, op_exp, op_div, op_select, op_integer, op_any, operations };
  void add(Operation kind, double n) {
    constexpr std::array<const char*, operations> keys{"op.add",    "op.mul",     "op.exp",   "op.div",
                                                       "op.select", "op.integer", "static.op"};
    if (!operations_[kind]) operations_[kind] = &out_.counts[keys[kind]];
    *operations_[kind] += n;
  }

  const ThreadProgram& program_;
  std::map<std::string, std::int64_t> bindings_;
  ExprMap integers_;                                  ///< integer variables by definition
  std::map<std::pair<Expr, int>, Pattern> patterns_;  ///< by index without its constant, and width
  std::vector<std::int64_t> samples_;                 ///< work items that stand for all
  StaticCounts out_;
  std::array<double*, operations> operations_{};  ///< in out_
};

std::int64_t Counter::evaluate(const Expr& e, std::int64_t otherwise) const {
  auto v = evaluate_int(substitute_values(e, integers_), bindings_);
  return v ? *v : otherwise;
}

// Known to hold: a part of a disjunction may be enough.
bool Counter::holds(const Expr& condition) const {
  if (condition.op() == Op::or_) return holds(condition.args()[0]) || holds(condition.args()[1]);
  return evaluate(condition, 0) != 0;
}

// The pattern of an index does not depend on its constant part: accesses that share a base share one evaluation.
const Counter::Pattern& Counter::pattern(const Expr& index, int width) {
  Expr base = index;
  if (index.op() == Op::add && index.args()[1].is_constant()) base = index.args()[0];
  auto [it, inserted] = patterns_.try_emplace({base, width});
  if (inserted) it->second = find_pattern(index, width);
  return it->second;
}

// Addresses of the lanes of one subgroup.
Counter::Pattern Counter::find_pattern(const Expr& index, int width) {
  Expr full = substitute_values(index, integers_);
  std::set<std::int64_t> touched;
  std::vector<std::int64_t> at;
  for (int lane = 0; lane < program_.subgroup_size; ++lane) {
    bindings_["lane"] = lane;
    auto v = evaluate_int(full, bindings_);
    if (!v) break;
    at.push_back(*v);
  }
  bindings_["lane"] = 0;
  if (static_cast<int>(at.size()) < program_.subgroup_size)
    return {"strided", static_cast<double>(program_.subgroup_size)};
  for (std::int64_t a : at)
    for (std::int64_t i = a; i < a + width; ++i) touched.insert(i >= 0 ? i / 8 : (i - 7) / 8);
  double sectors = static_cast<double>(touched.size());
  if (std::ranges::all_of(at, [&](std::int64_t a) { return a == at[0]; })) return {"uniform", sectors};
  for (std::size_t i = 1; i < at.size(); ++i)
    if (at[i] != at[0] + static_cast<std::int64_t>(i) * width) return {"strided", sectors};
  return {"contiguous", sectors};
}

// Average trip count over the sampled work items.
double Counter::trips(const ThreadStatement& loop) {
  double sum = 0;
  const Expr first = substitute_values(loop.begin, integers_), last = substitute_values(loop.end, integers_);
  const std::string id = "workgroup";
  const bool alike = !symbols_of(first).contains(id) && !symbols_of(last).contains(id);
  const std::size_t taken = alike ? 1 : samples_.size();
  for (const std::int64_t item : std::span(samples_).first(taken)) {
    bindings_["workgroup"] = item;
    std::int64_t begin = evaluate(first, 0), end = evaluate(last, 64),
                 step = std::max<std::int64_t>(1, evaluate(loop.step, 1));
    sum += static_cast<double>(std::max<std::int64_t>(0, (end - begin + step - 1) / step));
  }
  bindings_["workgroup"] = 0;
  return sum / static_cast<double>(taken);
}

void Counter::expression(const Expr& e, double times) {
  if (!e) return;
  for_each(e, [&](const Expr& x) {
    if (op_arity(x.op()) == 0) return;
    Operation kind = op_select;
    bool real = is_float(x.type()) || (!x.args().empty() && is_float(x.args()[0].type()));
    switch (x.op()) {
      case Op::cast:
        return;
      case Op::neg:
      case Op::abs:
        return;
      case Op::add:
      case Op::sub:
        kind = real ? op_add : op_integer;
        break;
      case Op::mul:
        kind = real ? op_mul : op_integer;
        break;
      case Op::exp:
      case Op::log:
      case Op::tanh:
      case Op::erf:
      case Op::pow:
      case Op::sin:
      case Op::cos:
        kind = op_exp;
        break;
      case Op::div:
      case Op::reciprocal:
      case Op::sqrt:
        kind = real ? op_div : op_integer;
        break;
      case Op::floordiv:
      case Op::mod:
        kind = op_integer;
        break;
      default:
        kind = real ? op_select : op_integer;
        break;
    }
    add(kind, times);
    add(op_any, 1);
  });
}

void Counter::walk(const ThreadBody& body, double times) {
  using Kind = ThreadStatement::Kind;
  for (const ThreadStatement& s : body) {
    int width = static_cast<int>(std::max<std::size_t>(
        1, s.kind == Kind::load_global || s.kind == Kind::load_shared ? s.names.size() : s.exprs.size()));
    if (!s.fragment.empty() && s.kind != Kind::multiply) {  // whole matrices: a count of each kind of statement
      const bool moves = static_cast<bool>(s.row_stride);
      if (moves || !s.exprs.empty()) add((moves ? "fragment_move." : "fragment_map.") + s.fragment, times);
      continue;
    }
    std::string suffix = ".w" + std::to_string(width);
    switch (s.kind) {
      case Kind::declare:
      case Kind::assign:
        if (s.exprs.empty() || !s.exprs[0]) break;
        if (!is_float(s.exprs[0].type()) && s.kind == Kind::declare)
          integers_[s.names[0]] = substitute_values(s.exprs[0], integers_);
        expression(s.exprs[0], times);
        break;
      case Kind::load_global:
      case Kind::store_global: {
        bool is_load = s.kind == Kind::load_global;
        const Pattern& p = pattern(s.index, width);
        add((is_load ? "load." : "store.") + p.name + suffix, times);
        add(is_load ? "bytes.read" : "bytes.written", times * p.sectors * 32);
        add(is_load ? "static.load" : "static.store", 1);
        expression(s.index, times);
        expression(s.predicate, times);
        for (const Expr& e : s.exprs) expression(e, times);
        break;
      }
      case Kind::load_shared:
      case Kind::store_shared:
        add((s.kind == Kind::load_shared ? "shared_load" : "shared_store") + suffix, times);
        add("static.shared", 1);
        expression(s.index, times);
        for (const Expr& e : s.exprs) expression(e, times);
        break;
      case Kind::shuffle:
        add(s.lane && s.lane.is_constant() ? "shuffle.constant" : "shuffle.dynamic", times);
        add("static.shuffle", 1);
        break;
      case Kind::shuffle_xor:
        add("shuffle.xor", times);
        add("static.shuffle", 1);
        break;
      case Kind::multiply:
        add("multiply." + s.unit, times);
        break;
      case Kind::barrier:
        add("barrier", times);
        break;
      case Kind::loop: {
        double n = trips(s);
        add("iteration", times * n);
        const std::int64_t first = evaluate(s.begin, 0);
        // Iterations that a branch may treat apart are counted one by one.
        const bool apart = n == 2 && std::ranges::any_of(s.body, [](const auto& x) { return x.kind == Kind::branch; });
        for (int i = 0; i < (apart ? 2 : 1); ++i) {
          bindings_[s.variable] = first + i * evaluate(s.step, 1);
          walk(s.body, apart ? times : times * n);
        }
        bindings_.erase(s.variable);
        break;
      }
      case Kind::branch: {
        constexpr double rare = 1.0 / 16;  // what data decides stands for the rare case
        expression(s.predicate, times);
        walk(s.body, holds(s.predicate) ? times : times * rare);
        break;
      }
      case Kind::comment:
        break;
    }
  }
}

// Scalars live at once: from definition to last use in program order; what a loop uses from outside lives through it.
struct Liveness {
  int position = 0;
  std::unordered_map<std::string, std::pair<int, int>> span;

  void use(const std::string& name) {
    if (auto it = span.find(name); it != span.end()) it->second.second = std::max(it->second.second, position);
  }
  void use(const Expr& e) {  // statements' expressions are small trees
    if (!e) return;
    if (e.op() == Op::value) use(e.name());
    for (const Expr& a : e.args()) use(a);
  }
  void walk(const ThreadBody& body) {
    for (const ThreadStatement& s : body) {
      ++position;
      for (const Expr& e : s.exprs) use(e);
      use(s.index), use(s.predicate), use(s.lane), use(s.begin), use(s.end);
      if (s.kind == ThreadStatement::Kind::assign) use(s.names[0]);
      if (s.kind != ThreadStatement::Kind::assign && is_float(s.type))
        for (const std::string& n : s.names) span.try_emplace(n, position, position);
      if (!s.body.empty()) {
        int begin = position;
        walk(s.body);
        if (s.kind == ThreadStatement::Kind::loop)
          for (auto& [name, range] : span)
            if (range.first < begin && range.second > begin) range.second = std::max(range.second, position);
      }
    }
  }
  int peak() const {
    std::vector<int> change(static_cast<std::size_t>(position) + 2);
    for (const auto& [name, range] : span) ++change[range.first], --change[range.second + 1];
    int now = 0, most = 0;
    for (int c : change) most = std::max(most, now += c);
    return most;
  }
};

StaticCounts Counter::run() {
  out_.subgroups = program_.subgroups;
  out_.subgroup_size = program_.subgroup_size;
  out_.buffers = static_cast<int>(program_.buffers.size());
  std::int64_t items = std::max<std::int64_t>(0, evaluate(program_.workgroups, 1));
  out_.workgroups = static_cast<double>(items);
  for (const SharedArray& a : program_.shared)
    out_.shared_bytes = std::max<std::int64_t>(
        out_.shared_bytes, a.byte_offset + a.elements * static_cast<std::int64_t>(device_size(a.type)));
  // One of each part of the grid, at another place in each: grids take the blocks of an axis in turns from both ends.
  constexpr std::int64_t most_samples = 16;
  const std::int64_t parts = std::clamp<std::int64_t>(items, 1, most_samples);
  samples_.clear();
  for (std::int64_t i = 0; i < parts; ++i) {
    const double place = static_cast<double>(i) * 0.6180339887;  // the golden section spreads evenly
    samples_.push_back(static_cast<std::int64_t>((static_cast<double>(i) + place - std::floor(place)) *
                                                 static_cast<double>(items) / static_cast<double>(parts)));
  }
  walk(program_.body, 1.0);
  for (const KernelBuffer& b : program_.buffers) {
    double elements = 1;
    for (const Expr& e : b.shape) elements *= static_cast<double>(evaluate(e, 1));
    out_.buffer_bytes += elements * static_cast<double>(device_size(b.type));
  }
  out_.buffer_bytes =
      std::min(out_.buffer_bytes, (out_["bytes.read"] + out_["bytes.written"]) * out_.workgroups * out_.subgroups);
  Liveness live;
  live.walk(program_.body);
  out_.live = live.peak();
  return std::move(out_);
}

}  // namespace

StaticCounts count(const ThreadProgram& program, const std::map<std::string, std::int64_t>& sizes) {
  return Counter(program, sizes).run();
}

namespace {

/// The loop along `axis`, also inside the sweeps of a stream that defers; null when there is none.
const KernelOp* loop_along(const KernelBody& body, const std::string& axis) {
  for (const KernelOp& op : body) {
    if (op.kind == KernelOp::Kind::loop && op.bases.contains(axis)) return &op;
    if (const KernelOp* inner = loop_along(op.body, axis)) return inner;
  }
  return nullptr;
}

}  // namespace

std::vector<StreamSteps> stream_steps(const LoweredRegion& lowered, const StreamingRegion& region,
                                      const std::map<std::string, std::int64_t>& sizes) {
  constexpr std::int64_t most_items = 1 << 14;  // evenly spread ones stand for more
  std::vector<StreamSteps> out;
  if (lowered.kernels.empty()) return out;
  const Kernel& kernel = lowered.kernels.front();
  for (const Stream& s : region.streams) {
    const KernelOp* loop = loop_along(kernel.body, s.axis);
    if ((!s.skip && !s.defer) || !loop) continue;
    const ExprMap bases(kernel.bases.begin(), kernel.bases.end());
    const Expr first = substitute_axes(loop->begin, bases), end = substitute_axes(loop->end, bases);
    std::map<std::string, std::int64_t> at = sizes;
    at[s.axis + "_sweep"] = 0;
    const auto items = evaluate_int(kernel.workgroups, at), extent = evaluate_int(region.axis(s.axis).extent, at);
    const auto step = loop->step.as_int();
    if (!items || !extent || !step) continue;
    // The parts of a split share the steps of one row block.
    const auto parts = lowered.scratch.empty() ? std::optional<std::int64_t>(1) : lowered.scratch[0].shape[0].as_int();
    StreamSteps steps{s.axis};
    const std::int64_t taken = std::min(*items, most_items);
    for (std::int64_t i = 0; i < taken; ++i) {
      at["workgroup"] = *items / taken * i + *items % taken * i / taken;
      const auto a = evaluate_int(first, at), b = evaluate_int(end, at);
      if (!a || !b) return out;
      steps.run += static_cast<double>(std::max<std::int64_t>(0, (*b - *a + *step - 1) / *step));
      steps.whole += static_cast<double>((*extent + *step - 1) / *step);
    }
    const double all = static_cast<double>(*items) / static_cast<double>(std::max<std::int64_t>(taken, 1));
    steps.run *= all, steps.whole *= all / static_cast<double>(parts.value_or(1));
    out.push_back(std::move(steps));
  }
  return out;
}

}  // namespace aicf
