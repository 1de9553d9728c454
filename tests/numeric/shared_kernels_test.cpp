// Equal layers share their kernels, whatever the model calls things, and no source names what the model does.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "tests/numeric/form_data.h"
#include "tests/runtime/temp_dir.h"

namespace aicf::numeric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A name for the `role`-th tensor of a layer; "zz" marks what is the model's.
using Namer = std::function<std::string(int layer, int role)>;

std::string counted(int layer, int role) {
  return fmt::format("zz_layer{}_{}", layer, role);
}
/// Names whose alphabetical order differs from layer to layer.
std::string shuffled(int layer, int role) {
  return fmt::format("{}zz{}_{}", static_cast<char>('a' + (role * 7 + layer * 11) % 26), role, layer);
}

std::string encoder(int layers, const Namer& name) {
  std::string inputs = "zz_in: f32[rows, n=32]", body, x = "zz_in";
  for (int i = 0; i < layers; ++i) {
    const auto weight = [&](int role, const char* shape) {
      inputs += fmt::format(", {}: f32[{}]", name(i, role), shape);
    };
    for (int role = 0; role < 4; ++role) weight(role, "32, 32");
    for (int role = 4; role < 9; ++role) weight(role, "32");
    weight(9, "32, 64"), weight(10, "64, 32");
    const auto node = [&](int role, const std::string& text) { body += fmt::format("{} = {}\n", name(i, role), text); };
    const auto n = [&](int role) { return name(i, role); };
    node(11, fmt::format("Add(MatMul({}, {}), {})", x, n(0), n(4)));
    node(12, fmt::format("Add(MatMul({}, {}), {})", x, n(1), n(5)));
    node(13, fmt::format("Add({}, MatMul({}, {}))", n(6), x, n(2)));
    node(14, fmt::format("Mul(MatMul({}, Transpose({}, perm=[1, 0])), 0.25)", n(11), n(12)));
    node(15, fmt::format("MatMul(Softmax({}, axis=-1), {})", n(14), n(13)));
    node(16, fmt::format("Add({}, MatMul({}, {}))", x, n(15), n(3)));
    node(17, fmt::format("LayerNormalization({}, {}, {}, axis=-1, epsilon=0.00001)", n(16), n(7), n(8)));
    node(18, fmt::format("Relu(MatMul({}, {}))", n(17), n(9)));
    node(19, fmt::format("Add(MatMul({}, {}), {})", n(18), n(10), n(17)));
    x = n(19);
  }
  return fmt::format("encoder({}) -> {}\nopset 17\n{}", inputs, x, body);
}

class SharedKernels : public ::testing::TestWithParam<std::string> {
 protected:
  Result<Model> model(int layers, const Namer& name) {
    const std::string path = folder_.file("encoder.aicf");
    write_file(path, encoder(layers, name));
    return load_model(path);
  }
  TempDir folder_;
};

TEST_P(SharedKernels, SixLayersHaveTheKernelsOfOne) {
  NUMERIC_TRY(const Target target, find_target(GetParam()));
  CompileOptions options;
  options.assemble = false;
  NUMERIC_TRY(const Model single, model(1, counted));
  NUMERIC_TRY(const CompiledModel one, compile(single.graph, single.constants, target, options));
  for (const Namer& name : {Namer(counted), Namer(shuffled)}) {
    NUMERIC_TRY(const Model six, model(6, name));
    NUMERIC_TRY(const CompiledModel compiled, compile(six.graph, six.constants, target, options));
    EXPECT_EQ(compiled.launches, 6 * one.launches);
    EXPECT_EQ(compiled.kernels, one.kernels);
    std::set<std::string> sources;
    for (const CompiledRegion& r : compiled.regions)
      for (const std::string& s : r.sources)
        if (sources.insert(s).second) {
          EXPECT_THAT(s.substr(0, 4000), Not(HasSubstr("zz"))) << r.region.name;
        }
    EXPECT_EQ(static_cast<int>(sources.size()), one.kernels);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SharedKernels, ::testing::Values("lavapipe", "sm_80", "navi31"),
                         [](const auto& info) { return test_name(info.param); });

TEST(SharedKernelsRun, EachLaunchHasItsOwnTensors) {
  const TempDir folder;
  write_file(folder.file("encoder.aicf"), encoder(4, shuffled));
  NUMERIC_TRY(const Model model, load_model(folder.file("encoder.aicf")));
  NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, {{"rows", 19}}, {}));
  NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
  NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
  for (const char* device : {lavapipe, emulation}) {
    SCOPED_TRACE(device);
    NUMERIC_TRY(Place place, open_place(device));
    NUMERIC_TRY(const Outcome outcome, run_model(place, model, inputs, symbols));
    const Program& program = outcome.compiled.program;
    EXPECT_EQ(static_cast<int>(program.launches.size()), outcome.compiled.launches);
    EXPECT_EQ(static_cast<int>(program.kernels.size()), outcome.compiled.kernels);
    EXPECT_LT(program.kernels.size(), program.launches.size());
    EXPECT_TRUE(within(outcome.outputs, expected, 1e-4, 1e-4));
  }
}

// Split streams have buffers of their own between their two kernels: one for each launch.
TEST(SharedKernelsRun, SplitStreamsToo) {
  const TempDir folder;
  write_file(folder.file("encoder.aicf"), encoder(2, counted));
  NUMERIC_TRY(const Model model, load_model(folder.file("encoder.aicf")));
  NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, {{"rows", 19}}, {}));
  NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
  NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
  NUMERIC_TRY(Place place, open_place(lavapipe));
  CompileOptions options;
  options.schedule.forced = {{"split", "2"}};
  NUMERIC_TRY(const Outcome outcome, run_model(place, model, inputs, symbols, options));
  EXPECT_TRUE(within(outcome.outputs, expected, 1e-4, 1e-4));
  std::set<std::string> names;
  for (const BufferPlan& b : outcome.compiled.program.buffers) EXPECT_TRUE(names.insert(b.name).second) << b.name;
}

}  // namespace
}  // namespace aicf::numeric
