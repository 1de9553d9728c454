#include "tests/generate/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "mir/graph/oracle.h"
#include "mir/kernel/thread_program.h"

namespace aicf::generate {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double absolute = 1e-5, relative = 1e-4, margin = 4;
constexpr double perturbation = 0x1p-20;
constexpr double largest = 3.4028234663852886e38;
// Sums leave factors out and certificates say that they must not overflow without them: squares of what is allowed stay
// within f32.
constexpr double far = 1e18, near = 1e-18;

enum class Arithmetic { perturbed, narrow, wide, indefinite };

bool inexact(Op op) {
  static const std::set<Op> exact{Op::constant, Op::symbol, Op::axis,   Op::load,   Op::value,      Op::neg,
                                  Op::abs,      Op::sign,   Op::floor,  Op::ceil,   Op::round_even, Op::cast,
                                  Op::min,      Op::max,    Op::minnum, Op::maxnum, Op::select};
  return !exact.contains(op);
}

/// Pseudo-random in [-1, 1]: another value for every place.
Expr noise(const std::vector<Expr>& place, std::uint64_t seed) {
  const auto constant = [](double v) { return Expr::constant(DType::f64, v); };
  Expr phase = constant(static_cast<double>(seed % 1000003));
  double factor = 12.9898 + static_cast<double>(seed % 97);
  for (const Expr& i : place) {
    phase = phase + Expr::cast(i, DType::f64) * constant(factor);
    factor = factor * 6.1803 + 3.7;
  }
  return Expr::unary(Op::sin, phase);
}

/// The graph with results of inexact operations, also where another node reads them, changed a little.
/// narrow: instead, results are rounded to f32 and leave its range as they would on a device. wide: instead, exponentials
/// stay within the range of f64. indefinite: infinite results of reductions are NaN to those that read them.
Graph changed(const Graph& graph, std::uint64_t seed, Arithmetic how) {
  Graph out = graph;
  for (const NodeId id : graph.topological_order()) {
    Node node = graph.node(id);
    if (node.kind != NodeKind::compute) continue;
    std::uint64_t number = 0;
    std::vector<Expr> here;
    for (const std::vector<Axis>* axes : {&node.axes, &node.reduce_axes})
      for (const Axis& a : *axes) here.push_back(Expr::axis(a.name));
    const auto change = [&](const Expr& e, double lowest = -largest) {
      const auto constant = [&](double v) { return Expr::constant(e.type(), v); };
      if (how == Arithmetic::wide) {
        if (e.op() != Op::exp) return e;
        const Expr x = e.args()[0];
        const Expr low = Expr::binary(Op::max, x, constant(-600)), both = Expr::binary(Op::min, low, constant(600));
        return Expr::unary(Op::exp, Expr::select(Expr::unary(Op::isinf, x), x, both));
      }
      if (how == Arithmetic::narrow) {
        // Casts that only go there and back would fold; a product of f64 by (almost) 1 keeps them.
        const Expr y = Expr::cast(Expr::cast(e, DType::f64) * Expr::constant(DType::f64, 1 + 0x1p-52), DType::f32);
        const Expr size = Expr::unary(Op::abs, y);
        const Expr whole = Expr::select(less(size, constant(near)), constant(0), y);
        return Expr::select(logical_or(less(constant(far), y), less(y, constant(lowest))),
                            Expr::unary(Op::sign, y) * constant(INFINITY), whole);
      }
      // Each use of a result changes on its own: plans may compute it again, a sum in another order.
      const bool is_load = e.op() == Op::load;
      const std::vector<Expr> place = is_load ? std::vector<Expr>(e.args().begin(), e.args().end()) : here;
      const std::uint64_t which = seed * 7919 + static_cast<std::uint64_t>(id) * 104729 + ++number * 31;
      const Expr n = Expr::cast(noise(place, which), e.type());
      return e * (constant(1) + constant(perturbation) * n);
    };
    const auto is_sum = [](const Node& n) { return n.reduce == ReduceOp::sum || n.reduce == ReduceOp::prod; };
    const auto is_computed = [&](const Node& n) {
      bool out = is_sum(n);
      if (n.body) for_each(n.body, [&](const Expr& e) { out |= is_float(e.type()) && inexact(e.op()); });
      return out;
    };
    if (how == Arithmetic::indefinite) {
      node.body = rewrite(node.body, [&](const Expr& e) -> Expr {
        if (e.op() != Op::load || !is_float(e.type()) || graph.node(e.name()).reduce == ReduceOp::none) return {};
        return Expr::select(Expr::unary(Op::isinf, e), Expr::constant(e.type(), nan), e);
      });
      out.replace(id, std::move(node));
      continue;
    }
    node.body = rewrite(node.body, [&](const Expr& e) {
      const bool read = e.op() == Op::load && is_computed(graph.node(e.name()));
      return is_float(e.type()) && (inexact(e.op()) || read) ? change(e) : Expr();
    });
    if (is_float(node.type) && is_sum(node)) node.body = change(node.body, -far);  // two of the lowest overflow
    out.replace(id, std::move(node));
  }
  return out;
}

/// Which of finite, NaN, +inf, -inf.
int kind(double v) {
  return std::isnan(v) ? 1 : std::isinf(v) ? (v > 0 ? 2 : 3) : 0;
}

}  // namespace

Result<Reference> reference_of(const Model& model, const NamedTensors& inputs, const numeric::Sizes& symbols,
                               bool infinite_data) {
  Reference out;
  AICF_TRY(out.values, numeric::reference(model, inputs, symbols));
  for (const auto& [name, value] : out.values) out.uncertainty[name] = Tensor(DType::f64, value.shape());
  std::uint64_t seed = 0;
  const auto evaluate_again = [&](Arithmetic how) -> Result<void> {
    AICF_TRY(const NamedTensors values,
             evaluate_graph(changed(model.graph, ++seed, how), model.constants, inputs, symbols));
    for (const auto& [name, node] : model.output_of) {
      const Tensor &base = out.values.at(name), &changed = values.at(node);
      Tensor& uncertainty = out.uncertainty.at(name);
      for (std::int64_t i = 0; i < base.size(); ++i) {
        const double x = base.at(i), y = changed.at(i);
        if (kind(x) != kind(y)) uncertainty.set(i, nan);
        if (kind(x) == 0 && !std::isnan(uncertainty.at(i)))
          uncertainty.set(i, std::max(uncertainty.at(i), std::fabs(x - y)));
      }
    }
    return {};
  };
  const auto measure = [&] {
    double elements = 0;
    out.undetermined = out.widened = 0;
    for (const auto& [name, value] : out.values)
      for (std::int64_t i = 0; i < value.size(); ++i) {
        const double u = out.uncertainty.at(name).at(i);
        ++elements;
        out.undetermined += std::isnan(u);
        out.widened += margin * u > 2 * (absolute + relative * std::fabs(value.at(i)));
      }
    if (elements > 0) out.undetermined /= elements, out.widened /= elements;
  };
  AICF_RETURN_IF_ERROR(evaluate_again(Arithmetic::narrow));
  AICF_RETURN_IF_ERROR(evaluate_again(Arithmetic::wide));
  if (infinite_data) AICF_RETURN_IF_ERROR(evaluate_again(Arithmetic::indefinite));
  // Three samples show which graphs are ill-conditioned; of those each element's own uncertainty takes more.
  constexpr int few = 3, many = 12;
  for (int i = 0; i < (out.widened > 0.05 ? many : few); ++i) {
    AICF_RETURN_IF_ERROR(evaluate_again(Arithmetic::perturbed));
    if (i + 1 >= few) measure();
  }
  return out;
}

Result<Leeway> leeway_of(const Generated& generated, const Model& model, const numeric::Sizes& symbols) {
  Leeway out{generated.infinite_data};
  if (!generated.index_mask || generated.nan_inputs.empty()) return out;
  NamedTensors inputs = generated.inputs;
  for (const std::string& name : generated.nan_inputs) {
    const auto input = inputs.find(name);
    if (input == inputs.end()) continue;  // of a reduced graph
    for (std::int64_t i = 0; i < input->second.size(); ++i)
      if (std::isnan(input->second.at(i))) input->second.set(i, 0);
  }
  AICF_TRY(out.unread, numeric::reference(model, inputs, symbols));
  out.asks = std::ranges::any_of(model.semantic.nodes, [](const SemanticNode& n) { return n.op == "IsNaN"; });
  return out;
}

std::string difference(const NamedTensors& actual, const Reference& expected, const Leeway& leeway) {
  for (const auto& [name, value] : expected.values) {
    const auto it = actual.find(name);
    if (it == actual.end()) return fmt::format("no output '{}'", name);
    const Tensor& got = it->second;
    if (got.shape() != value.shape())
      return fmt::format("'{}' has the shape {} instead of {}", name, dims_text(got.shape()), dims_text(value.shape()));
    double worst = 0;
    std::int64_t at = -1, wrong = 0;
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const double u = expected.uncertainty.at(name).at(i), x = got.at(i), y = value.at(i);
      if (std::isnan(u)) continue;
      if (kind(y) == 0 && std::fabs(y) > largest && std::isinf(x)) continue;
      if (leeway.infinite_data && !std::isfinite(y)) continue;
      const double allowed = absolute + relative * std::fabs(y) + margin * u;
      if ((std::isnan(y) || leeway.asks) && !leeway.unread.empty()) {
        const double z = leeway.unread.at(name).at(i);
        if (std::fabs(x - z) <= absolute + relative * std::fabs(z)) continue;
      }
      const double error = kind(x) != kind(y) ? INFINITY : kind(y) == 0 ? std::fabs(x - y) / allowed : 0;
      wrong += error > 1;
      if (error > std::max(1.0, worst)) worst = error, at = i;
    }
    if (at >= 0)
      return fmt::format("'{}'[{}] is {} instead of {} (uncertainty {:.3g}); {} of {} elements are wrong", name, at,
                         got.at(at), value.at(at), expected.uncertainty.at(name).at(at), wrong, value.size());
  }
  return {};
}

Result<NamedTensors> interpret(const Model& model, const CompiledModel& compiled, const NamedTensors& inputs,
                               const numeric::Sizes& symbols) {
  std::map<std::string, std::vector<double>> memory;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const BufferPlan& b : compiled.program.buffers) {
    std::int64_t elements = 1;
    std::vector<std::int64_t>& shape = shapes[b.name];
    for (const Expr& d : b.shape) {
      AICF_TRY(const std::int64_t n, evaluate_int(d, symbols));
      shape.push_back(n);
      elements *= n;
    }
    std::vector<double>& values = memory[b.name];
    values.assign(static_cast<std::size_t>(elements), -12345);  // nothing right
    const Tensor* from = b.kind == BufferPlan::Kind::input ? &inputs.at(b.name)
                         : b.kind == BufferPlan::Kind::constant
                             ? &compiled.program.constants[static_cast<std::size_t>(b.constant)]
                             : nullptr;
    if (!from) continue;
    AICF_TRY(const std::vector<std::byte> stored, to_device(b.name, *from));
    const Tensor held = from_device(b.type, from->shape(), stored);
    for (std::int64_t i = 0; i < held.size(); ++i) values[static_cast<std::size_t>(i)] = held.at(i);
  }
  for (const CompiledRegion& region : compiled.regions)
    for (const ThreadProgram& program : region.chosen.programs) {
      InterpreterInput io{{}, symbols, 7};
      for (const KernelBuffer& b : program.buffers) io.buffers[b.name] = memory.at(region.tensors.at(b.name));
      AICF_TRY([[maybe_unused]] const KernelCounts counts, interpret(program, io));
      for (const KernelBuffer& b : program.buffers)
        memory.at(region.tensors.at(b.name)) = std::move(io.buffers.at(b.name));
    }
  NamedTensors by_node;
  for (const ProgramOutput& o : compiled.program.outputs) {
    const BufferPlan& b = compiled.program.buffers[static_cast<std::size_t>(o.buffer)];
    Tensor t(b.type, shapes.at(b.name));
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, memory.at(b.name)[static_cast<std::size_t>(i)]);
    by_node[o.name] = std::move(t);
  }
  NamedTensors out;
  for (const auto& [output, node] : model.output_of) out[output] = by_node.at(node);
  return out;
}

/// The operations between `from` and `to`, both included.
static std::set<std::string> between(const SemanticGraph& graph, const std::string& from, const std::string& to) {
  std::set<std::string> after{from}, before{to};
  for (const SemanticNode& n : graph.nodes)
    if (std::ranges::any_of(n.inputs, [&](const std::string& t) { return after.contains(t); }))
      after.insert(n.outputs.begin(), n.outputs.end());
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n)
    if (std::ranges::any_of(n->outputs, [&](const std::string& t) { return before.contains(t); }))
      before.insert(n->inputs.begin(), n->inputs.end());
  std::set<std::string> out;
  std::ranges::set_intersection(after, before, std::inserter(out, out.end()));
  return out;
}

std::string unexplained(const Generated& generated, const Model& model, const CompiledModel& compiled) {
  std::set<std::string> explained(model.folded.begin(), model.folded.end());
  for (const CompiledRegion& r : compiled.regions) explained.insert(r.region.origin.begin(), r.region.origin.end());
  std::set<std::string> needed(model.semantic.outputs.begin(), model.semantic.outputs.end());
  for (auto node = model.semantic.nodes.rbegin(); node != model.semantic.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& t) { return needed.contains(t); })) continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    if (!explained.contains(node->name)) return fmt::format("'{}' is in no region and not folded", node->name);
  }
  for (const auto& [weights, product] : generated.sites) {
    if (std::ranges::count(model.folded, weights) > 0 || std::ranges::count(model.folded, product) > 0) continue;
    const auto both = [&](const std::vector<std::string>& nodes) {
      return std::ranges::count(nodes, weights) > 0 && std::ranges::count(nodes, product) > 0;
    };
    // What a mask left nothing of reads nothing.
    if (std::ranges::all_of(compiled.regions, [&](const CompiledRegion& r) {
          return std::ranges::count(r.region.origin, weights) == 0 || r.region.inputs.empty();
        }))
      continue;
    const bool streamed =
        std::ranges::any_of(compiled.regions, [&](const CompiledRegion& r) { return both(r.region.origin); });
    const std::set<std::string> path = between(model.semantic, weights, product);
    const bool refused = std::ranges::any_of(compiled.refusals, [&](const Refusal& r) {
      return !r.reason.empty() && std::ranges::any_of(r.nodes, [&](const std::string& n) { return path.contains(n); });
    });
    // Where other regions cost less (the product with the one after it), what holds the weights in memory says why.
    const bool written = std::ranges::any_of(compiled.regions, [&](const CompiledRegion& r) {
      return std::ranges::count(r.region.origin, weights) > 0 &&
             std::ranges::any_of(r.region.outputs, [&](const RegionOutput& o) {
               const auto why = compiled.cuts.find(o.tensor);
               return why != compiled.cuts.end() && why->second.law != "output" && !why->second.text.empty();
             });
    });
    if (!streamed && !refused && !written)
      return fmt::format("'{}' and '{}' share no region, and nothing says why", weights, product);
  }
  return {};
}

}  // namespace aicf::generate
