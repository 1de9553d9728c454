// Cutting models out of models and reducing them, with conditions that stand for a device's fault.

#include "tools/aicf/repro.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "mir/graph/oracle.h"

namespace aicf::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Repro sample() {
  Repro r;
  r.graph = parse_semantic(R"(g(x: f32[6, 8], w: f32[8, 8]) -> o, side
a = MatMul(x, w)
b = Mul(a, 0.5)
c = Softmax(b)
rows = Shape(c)
d = Reshape(c, rows)
e = Exp(d)
o = ReduceSum(e, [1], keepdims=0)
side = Neg(b)
)",
                           "g")
                .value();
  for (const SemanticInput& input : r.graph.inputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& d : input.shape) shape.push_back(*d.as_int());
    Tensor t(input.type, shape);
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>((5 * i + 3) % 11) - 5);
    r.inputs[input.name] = t;
  }
  return r;
}

NamedTensors values(const Repro& r) {
  const Model model = canonicalise(r.graph).value();
  const NamedTensors all = evaluate_graph(model.graph, model.constants, r.inputs, {}).value();
  NamedTensors out;
  for (const auto& [output, node] : model.output_of) out[output] = all.at(node);
  return out;
}

std::vector<std::string> ops(const Repro& r) {
  std::vector<std::string> out;
  for (const SemanticNode& n : r.graph.nodes) out.push_back(n.op);
  return out;
}

std::string node_that_makes(const Repro& r, const std::string& tensor) {
  for (const SemanticNode& n : r.graph.nodes)
    if (std::ranges::find(n.outputs, tensor) != n.outputs.end()) return n.name;
  return {};
}

TEST(Repro, APartComputesWhatTheWholeDoes) {
  const Repro whole = sample();
  const Repro part =
      cut_out(whole, {node_that_makes(whole, "c"), node_that_makes(whole, "d"), node_that_makes(whole, "e")}).value();
  EXPECT_THAT(ops(part), ElementsAre("Softmax", "Reshape", "Exp"));
  EXPECT_THAT(part.graph.outputs, ElementsAre("c", "e"));  // Shape and ReduceSum read them
  EXPECT_TRUE(part.inputs.contains("b"));
  EXPECT_TRUE(part.graph.initializers.contains("rows"));  // decides a shape
  // One operation more gives the whole's own result.
  const Repro tail = cut_out(whole, {node_that_makes(whole, "e"), node_that_makes(whole, "o")}).value();
  const Tensor got = values(tail).at("o"), wanted = values(whole).at("o");
  ASSERT_EQ(got.shape(), wanted.shape());
  for (std::int64_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got.at(i), wanted.at(i), 1e-5);
}

TEST(Repro, AListOfDataStaysAnInput) {
  Repro whole;
  whole.graph = parse_semantic(R"(g(x: i64[2], f: f32[6, 2]) -> y
twice = Add(x, x)
scale = Cast(twice, to=1)
rows = Shape(f)
y = Reshape(Mul(f, scale), rows)
)",
                               "g")
                    .value();
  whole.inputs = {{"x", Tensor(DType::i64, {2})}, {"f", Tensor(DType::f32, {6, 2})}};
  std::set<std::string> keep;
  for (const SemanticNode& n : whole.graph.nodes) keep.insert(n.name);
  keep.erase(node_that_makes(whole, "rows"));
  const Repro part = cut_out(whole, keep).value();
  EXPECT_TRUE(part.inputs.contains("x"));
  EXPECT_TRUE(part.graph.initializers.contains("rows"));
  // What another operation has made of it too.
  keep.erase(node_that_makes(whole, "twice"));
  EXPECT_TRUE(cut_out(whole, keep).value().inputs.contains("twice"));
}

TEST(Repro, ReducesToWhatFails) {
  // A fault of Exp over rows of at least 3 elements.
  const auto fails = [](const Repro& r) {
    const auto model = canonicalise(r.graph);
    if (!model || !bind_symbols(*model, r.inputs)) return false;
    for (const SemanticNode& n : r.graph.nodes) {
      if (n.op != "Exp") continue;
      SemanticGraph graph = r.graph;
      graph.outputs = n.outputs;
      const Model shown = canonicalise(graph).value();
      const Node& node = shown.graph.node(shown.output_of.at(n.outputs[0]));
      return !node.axes.empty() && *node.axes.back().extent.as_int() >= 3;
    }
    return false;
  };
  const Repro whole = sample();
  ASSERT_TRUE(fails(whole));
  const Repro small = reduced(whole, fails);
  EXPECT_TRUE(fails(small));
  EXPECT_THAT(ops(small), ElementsAre("Exp"));
  ASSERT_EQ(small.inputs.size(), 1u);
  EXPECT_THAT(small.inputs.begin()->second.shape(), ElementsAre(1, 3));
}

TEST(Repro, NeverLosesTheFailure) {
  // Nothing smaller fails: the model stays as it is.
  const Repro whole = sample();
  const auto fails = [&](const Repro& r) {
    return r.graph.nodes.size() == whole.graph.nodes.size() && r.graph.outputs.size() == 2 &&
           r.inputs.at("x").size() == 48;
  };
  const Repro same = reduced(whole, fails);
  EXPECT_EQ(to_string(same.graph), to_string(whole.graph));
}

TEST(Repro, TheFolderIsAModelOfItsOwn) {
  const std::string folder = ::testing::TempDir() + "aicf_repro_test";
  const Repro whole = sample();
  ASSERT_TRUE(write_repro(folder, whole));
  const Model model = load_model(folder + "/model.aicf").value();
  const NamedTensors inputs = read_tensors(folder + "/inputs.npz").value();
  const NamedTensors expected = read_tensors(folder + "/expected.npz").value();
  const NamedTensors got = values({model.semantic, inputs});
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, t] : expected)
    for (std::int64_t i = 0; i < t.size(); ++i) EXPECT_EQ(got.at(name).at(i), t.at(i)) << name;
  std::filesystem::remove_all(folder);
  EXPECT_THAT(write_repro("/proc/none", whole).error().text(), HasSubstr("cannot be written"));
  // Nothing of a folder that cannot be written whole.
  std::filesystem::create_directories(folder + "/inputs.npz");
  EXPECT_FALSE(write_repro(folder, whole));
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.aicf"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace aicf::command
