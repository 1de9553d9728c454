// Derived forms in f16 and bf16, on devices that load and store 16 bits and on those that convert packed words: never
// further from the float64 meaning than twice what rounding to the type at each of the model's nodes is, and one unit in
// the last place. Where that is less than f32 arithmetic loses (results beside which the numbers that they come of are
// large), a few units of f32.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "mir/graph/oracle.h"
#include "tests/numeric/form_data.h"

namespace aicf::numeric {
namespace {

enum class Storage { native, converted };

struct Case {
  Form form;
  DType type;
  std::string device;
  Storage storage;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.form.name << " of " << name(c.type) << " on " << c.device;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The form with f16 or bf16 where it says f32, and that type's lowest number where it has the lowest of f32.
Result<Model> model_of(const Form& form, DType type) {
  std::ifstream in(form.path());
  std::string text(std::istreambuf_iterator<char>(in), {});
  replace_all(text, "f32", name(type));
  replace_all(text, "-3.4028234663852886e38", type == DType::f16 ? "-65504.0" : "-3.3895313892515355e38");
  replace_all(text, "-3.0e38", type == DType::f16 ? "-60000.0" : "-3.0e38");
  return load_model(std::as_bytes(std::span(text)), form.name + ".aicf");
}

/// The graph with what each of the model's nodes computes in the type rounded to it, as an interpreter of the model has it.
Graph rounded(const Model& model, DType type) {
  std::set<std::string> tensors;
  for (const SemanticNode& n : model.semantic.nodes) tensors.insert(n.outputs.begin(), n.outputs.end());
  Graph out = model.graph;
  for (const NodeId id : model.graph.topological_order()) {
    Node node = model.graph.node(id);
    if (node.kind != NodeKind::compute) continue;
    node.body = rewrite(node.body, [&](const Expr& e) {
      if (e.op() != Op::load || !is_float(e.type()) || !tensors.contains(e.name())) return Expr();
      if (model.graph.node(e.name()).kind != NodeKind::compute) return Expr();
      // Casts there and back would fold; a factor of almost 1 in f64 keeps them.
      const Expr kept = Expr::cast(e, DType::f64) * Expr::constant(DType::f64, 1 + 0x1p-52);
      return Expr::cast(Expr::cast(kept, type), e.type());
    });
    out.replace(id, std::move(node));
  }
  return out;
}

/// Distance between the neighbours of a finite x in the type.
double unit(DType type, double x) {
  const int digits = type == DType::f16 ? 11 : 8, least = type == DType::f16 ? -24 : -133;
  return x == 0 ? std::ldexp(1.0, least) : std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, least));
}

int kind(double v) {
  return std::isnan(v) ? 1 : std::isinf(v) ? (v > 0 ? 2 : 3) : 0;
}

double largest_of(const Tensor& t) {
  double largest = 0;
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (std::isfinite(t.at(i))) largest = std::max(largest, std::fabs(t.at(i)));
  return largest;
}

/// `literal` has a rounding at each node, `exact` none. What is finite may err by twice the largest error of `literal` in
/// the tensor and a unit in the last place of its own, or by four units of f32 at the largest number.
::testing::AssertionResult as_close_as_rounding(const NamedTensors& actual, const NamedTensors& exact,
                                                const NamedTensors& literal, const NamedTensors& inputs, DType type) {
  double largest_input = 0;
  for (const auto& [name, t] : inputs) largest_input = std::max(largest_input, largest_of(t));
  for (const auto& [name, e] : exact) {
    const Tensor &a = actual.at(name), &l = literal.at(name);
    if (a.shape() != e.shape()) return ::testing::AssertionFailure() << "'" << name << "' has another shape";
    const double f32_error = 0x1p-21 * std::max(largest_input, largest_of(e));
    double error = 0;
    for (std::int64_t i = 0; i < e.size(); ++i) {
      const double r = round_to(type, l.at(i));
      if (kind(e.at(i)) == 0 && kind(r) == 0) error = std::max(error, std::fabs(r - e.at(i)));
    }
    for (std::int64_t i = 0; i < e.size(); ++i) {
      const double x = a.at(i), y = e.at(i), right = round_to(type, y);
      if (kind(x) != kind(right))
        return ::testing::AssertionFailure() << fmt::format("'{}'[{}] is {} instead of {}", name, i, x, y);
      if (kind(right) == 0 && std::fabs(x - y) > std::max(2 * error + unit(type, y), f32_error))
        return ::testing::AssertionFailure() << fmt::format(
                   "'{}'[{}] is {} instead of {}, off by {:.3g}; rounding at each node errs by {:.3g}, a unit is "
                   "{:.3g}",
                   name, i, x, y, std::fabs(x - y), error, unit(type, y));
    }
  }
  return ::testing::AssertionSuccess();
}

Result<Place> place_of(const Case& c) {
  AICF_TRY(Place place, open_place(c.device));
  if (c.storage == Storage::converted) place.target.model.features["storage_16bit"] = false;
  return place;
}

bool has_16bit_storage(const CompiledModel& compiled) {
  return std::ranges::any_of(compiled.regions, [](const CompiledRegion& r) {
    return std::ranges::any_of(
        r.sources, [](const std::string& s) { return s.find("GL_EXT_shader_16bit_storage") != std::string::npos; });
  });
}

class Halves : public ::testing::TestWithParam<Case> {};

void check(const Case& c, const CompileOptions& options) {
  NUMERIC_TRY(Place place, place_of(c));
  NUMERIC_TRY(const Model model, model_of(c.form, c.type));
  const Graph literal = rounded(model, c.type);
  NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, options));
  if (c.storage == Storage::converted) {
    EXPECT_FALSE(has_16bit_storage(compiled));
  }
  NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
  for (std::size_t s = 0; s < c.form.sizes.size(); ++s)
    for (const Form::Variant& variant : c.form.variants) {
      const Sizes& sizes = c.form.sizes[s];
      SCOPED_TRACE(fmt::format("{}, sizes {}", variant.name, s));
      NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, sizes, variant.data));
      NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
      NUMERIC_TRY(const NamedTensors exact, reference(model, inputs, symbols));
      NUMERIC_TRY(const NamedTensors by_node, evaluate_graph(literal, model.constants, inputs, symbols));
      NamedTensors rounded_outputs;
      for (const auto& [output, node] : model.output_of) rounded_outputs[output] = by_node.at(node);
      NUMERIC_TRY(const RunResult result, executor->run(inputs, symbols));
      const auto good = as_close_as_rounding(named_outputs(model, result), exact, rounded_outputs, inputs, c.type);
      ASSERT_TRUE(good);
    }
}

TEST_P(Halves, Fused) {
  check(GetParam(), {});
}
class SplitHalves : public ::testing::TestWithParam<Case> {};
TEST_P(SplitHalves, InThree) {
  CompileOptions options;
  options.schedule.forced = {{"split", "3"}};
  check(GetParam(), options);
}

/// One of `of` forms.
std::vector<Case> cases(const std::string& device, Storage storage, std::size_t of = 1) {
  std::vector<Case> out;
  for (std::size_t i = 0; i < forms().size(); i += of)
    for (const DType type : {DType::f16, DType::bf16})
      if (forms()[i].halves) out.push_back({forms()[i], type, device, storage});
  return out;
}
const auto case_name = [](const auto& info) {
  return fmt::format("{}_{}", info.param.form.name, name(info.param.type));
};
INSTANTIATE_TEST_SUITE_P(Native, Halves, ::testing::ValuesIn(cases(lavapipe, Storage::native)), case_name);
INSTANTIATE_TEST_SUITE_P(Converted, Halves, ::testing::ValuesIn(cases(lavapipe, Storage::converted)), case_name);
INSTANTIATE_TEST_SUITE_P(Emulation, Halves, ::testing::ValuesIn(cases(emulation, Storage::native, 3)), case_name);
INSTANTIATE_TEST_SUITE_P(Native, SplitHalves, ::testing::ValuesIn(cases(lavapipe, Storage::native, 2)), case_name);

// Both ways are there to be tried: lavapipe reads single elements of 16 bits, and is told not to.
TEST(HalfStorage, IsNativeWhereTheDeviceHasIt) {
  const Form& softmax = *std::ranges::find(forms(), "softmax", &Form::name);
  for (const Storage storage : {Storage::native, Storage::converted}) {
    NUMERIC_TRY(const Place place, place_of({softmax, DType::f16, lavapipe, storage}));
    NUMERIC_TRY(const Model model, model_of(softmax, DType::f16));
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, {}));
    EXPECT_EQ(has_16bit_storage(compiled), storage == Storage::native);
  }
}

// The allowance is that of a type: rounding at every node errs, and not by much.
TEST(HalfReference, RoundsAtEachNode) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const std::string text =
        fmt::format("m(x: {0}[n]) -> y\na: {0} = 3.0\nb: {0} = 4.0\ny = Sub(Mul(x, a), b)\n", name(type));
    NUMERIC_TRY(const Model model, load_model(std::as_bytes(std::span(text)), "m.aicf"));
    Tensor x(type, {2});
    const double last = 2 - (type == DType::f16 ? 0x1p-10 : 0x1p-7);  // an odd significand: 3x needs more digits
    x.set(0, 1), x.set(1, last);
    NUMERIC_TRY(const NamedTensors by_node,
                evaluate_graph(rounded(model, type), model.constants, {{"x", x}}, {{"n", 2}}));
    const Tensor& y = by_node.at(model.output_of.at("y"));
    EXPECT_EQ(y.at(0), -1);
    EXPECT_EQ(y.at(1), round_to(type, 3 * last) - 4);
    EXPECT_NE(y.at(1), 3 * last - 4);
    EXPECT_EQ(unit(type, 1), type == DType::f16 ? 0x1p-10 : 0x1p-7);
    EXPECT_EQ(unit(type, -last), unit(type, 1));
  }
}

}  // namespace
}  // namespace aicf::numeric
