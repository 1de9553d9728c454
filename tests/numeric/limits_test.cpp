// Devices that have less than the ones at hand: kernels keep the limits they are compiled for, grids beyond a dimension's
// limit are folded, and tensors beyond what a kernel can see are refused before anything is allocated. The least that
// Vulkan guarantees is tried by running the corpus on a device cut down to it (tests/CMakeLists.txt, numeric_minimum).

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "mir/kernel/count.h"
#include "runtime/vulkan/driver.h"
#include "tests/numeric/form_data.h"

namespace aicf::numeric {
namespace {

using ::testing::HasSubstr;

Result<Model> parse(const std::string& text) {
  return load_model(std::as_bytes(std::span(text)), "limits.aicf");
}

struct Mock {
  std::int64_t memory, invocations, subgroup, arguments;
  bool storage_16bit;
};

std::vector<Mock> mocks() {
  std::vector<Mock> out;
  for (const std::int64_t memory : {16, 32, 48, 64})
    for (const std::int64_t invocations : {128, 256, 1024})
      for (const std::int64_t subgroup : {4, 8, 16, 32, 64})
        for (const std::int64_t arguments : {4, 8})
          for (const bool storage : {false, true})
            out.push_back({memory * 1024, invocations, subgroup, arguments, storage});
  return out;
}

/// A GPU or a CPU driver with these limits.
Result<Target> target_of(const Mock& mock, bool cpu) {
  AICF_TRY(Target target, find_target(cpu ? "lavapipe" : "navi31"));
  DeviceModel& m = target.model;
  m.subgroup_sizes = {static_cast<int>(mock.subgroup)};
  m.figures["workgroup_memory"].value = static_cast<double>(mock.memory);
  m.figures["max_invocations"].value = static_cast<double>(mock.invocations);
  m.figures["max_arguments"].value = static_cast<double>(mock.arguments);
  m.features["storage_16bit"] = mock.storage_16bit;
  return target;
}

void keep(const CompiledModel& compiled, const Mock& mock) {
  for (const CompiledRegion& r : compiled.regions)
    for (std::size_t k = 0; k < r.chosen.programs.size(); ++k) {
      const ThreadProgram& program = r.chosen.programs[k];
      EXPECT_EQ(program.subgroup_size, mock.subgroup) << r.region.name;
      EXPECT_LE(program.subgroup_size * program.subgroups, mock.invocations) << r.region.name;
      EXPECT_LE(count(program, {}).shared_bytes, mock.memory) << r.region.name;
      EXPECT_LE(static_cast<std::int64_t>(program.buffers.size()), mock.arguments) << r.region.name;
      if (!mock.storage_16bit) {
        EXPECT_EQ(r.sources[k].find("GL_EXT_shader_16bit_storage"), std::string::npos);
      }
    }
}

/// One in `of` of the corpus: each model for some of the devices, all devices for some of the models.
class MockedDevices : public ::testing::TestWithParam<std::size_t> {
 public:
  static constexpr std::size_t of = 8;
};

TEST_P(MockedDevices, KernelsKeepTheLimits) {
  const std::vector<Mock> devices = mocks();
  for (std::size_t i = GetParam(); i < corpus().size(); i += of) {
    const CorpusCase& c = corpus()[i];
    if (!c.needs.empty()) continue;
    NUMERIC_TRY(const Model model, load_model(c.model));
    for (const std::size_t at : {i * 29, i * 29 + 131}) {
      const Mock& mock = devices[at % devices.size()];
      SCOPED_TRACE(fmt::format("{}: {} bytes, {} threads in subgroups of {}, {} buffers, {} 16-bit storage", c.name,
                               mock.memory, mock.invocations, mock.subgroup, mock.arguments,
                               mock.storage_16bit ? "with" : "without"));
      NUMERIC_TRY(const Target target, target_of(mock, at % 3 == 0));
      CompileOptions options;
      options.assemble = false;
      NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, options));
      keep(compiled, mock);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Corpus, MockedDevices, ::testing::Range(std::size_t{0}, MockedDevices::of));

// What one work item must hold whole grows with the width of a head; wide heads still fit small devices, and give way
// to separate kernels where they do not.
TEST(MockedHeads, WideOnesFitSmallDevices) {
  for (const int d : {256, 512}) {
    const std::string text = fmt::format(
        "m(Q: f32[2, q, d={}], K: f32[2, kv, d], V: f32[2, kv, d], mask: f32[q, kv]) -> out\n"
        "out = MatMul(Softmax(Add(MatMul(Q, Transpose(K, perm=[0, 2, 1])), mask), axis=-1), V)\n",
        d);
    NUMERIC_TRY(const Model model, parse(text));
    const Mock devices[] = {{16384, 128, 4, 4, false}, {16384, 128, 16, 8, false}, {32768, 1024, 64, 8, false}};
    for (const Mock& mock : devices) {
      SCOPED_TRACE(fmt::format("D = {}, {} buffers", d, mock.arguments));
      NUMERIC_TRY(const Target target, target_of(mock, false));
      CompileOptions options;
      options.assemble = false;
      NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, options));
      keep(compiled, mock);
      if (mock.arguments < 5) {
        EXPECT_GE(compiled.regions.size(), 2U);
        EXPECT_FALSE(compiled.refusals.empty());
      }
    }
  }
}

// Operations that read more tensors than a kernel may bind are computed in parts.
TEST(MockedDevice, ThatBindsFewBuffersComputesInParts) {
  NUMERIC_TRY(Place place, open_place(lavapipe));
  const std::string inputs =
      "m(a: f32[n, 3], b: f32[n, 5], c: f32[n, 1], d: f32[n, 4], e: f32[n, 2], g: f32[n, 15], pick: i64[n, 2]) -> y\n";
  const std::string all = "all = Concat(a, b, c, d, e, axis=1)\n";
  const std::string bodies[] = {
      all + "y = Add(all, g)\n",
      all + "y = ReduceSum(Mul(all, g), [1])\n",
      all + "y = Softmax(all)\n",
      all + "y = GatherElements(all, pick, axis=1)\n",
      "y = Sum(a, c, Slice(b, [0], [3], [1]), Slice(d, [1], [4], [1]), Slice(g, [4], [7], [1]), Neg(a))\n",
      all + "y = MatMul(Transpose(Concat(g, all, axis=0)), Concat(all, g, axis=0))\n",
  };
  for (const std::string& body : bodies) {
    NUMERIC_TRY(const Model model, parse(inputs + body));
    for (const int most : {4, 6})
      for (const bool fuse : {true, false}) {
        SCOPED_TRACE(fmt::format("{} with {} buffers, {}", body, most, fuse ? "fused" : "unfused"));
        place.target.model.figures["max_arguments"] = {static_cast<double>(most), 'm'};
        const Sizes sizes{{"n", 9}};
        NUMERIC_TRY(const NamedTensors data, make_inputs(model, sizes, {}));
        NUMERIC_TRY(const NamedTensors expected, reference(model, data, sizes));
        CompileOptions options;
        options.fuse = fuse;
        NUMERIC_TRY(const Outcome outcome, run_model(place, model, data, sizes, options));
        for (const CompiledRegion& r : outcome.compiled.regions)
          for (const ThreadProgram& p : r.chosen.programs)
            EXPECT_LE(p.buffers.size(), static_cast<std::size_t>(most)) << r.region.name;
        EXPECT_TRUE(close(outcome.outputs, expected));
      }
  }
}

// Where one part reads too many, the operation is refused by name.
TEST(MockedDevice, ThatBindsTooFewBuffersSaysSo) {
  NUMERIC_TRY(const Model model, parse("m(a: f32[3], b: f32[3]) -> y\ny = Add(a, b)\n"));
  NUMERIC_TRY(Target target, target_of({16384, 128, 8, 2, false}, true));
  const auto compiled = compile(model.graph, model.constants, target, {});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(compiled.error().text(), HasSubstr("more than 2 buffers"));
  target.model.figures["max_arguments"].value = 3;
  EXPECT_TRUE(ok(compile(model.graph, model.constants, target, {})));
}

// Grids of more workgroups than a dimension takes.
TEST(FoldedGrids, ComputeEveryElement) {
  VulkanOptions limits = vulkan_options_from_environment();
  limits.max_workgroups_per_dimension = 120;
  NUMERIC_TRY(Place place, open_place(lavapipe));
  NUMERIC_TRY(place.device, open_vulkan("llvmpipe", limits));
  const std::tuple<const char*, const char*, Sizes> models[] = {
      {"softmax", "m(x: f32[n, 8]) -> y\ny = Softmax(x, axis=-1)\n", {{"n", 70000}}},
      {"sum", "m(x: f32[n, 3]) -> y\ny = ReduceSum(x, [1])\n", {{"n", 280000}}},
      {"map", "m(x: f32[n]) -> y\ny = Exp(Neg(x))\n", {{"n", 2700001}}},
      {"batches",
       "m(Q: f32[n, 3, 4], K: f32[n, 3, 4], V: f32[n, 3, 4]) -> y\n"
       "y = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1])), axis=-1), V)\n",
       {{"n", 65537}}}};
  for (const auto& [name, text, sizes] : models) {
    SCOPED_TRACE(name);
    NUMERIC_TRY(const Model model, parse(text));
    NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, sizes, {}));
    NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, sizes));
    NUMERIC_TRY(const Outcome outcome, run_model(place, model, inputs, sizes));
    EXPECT_TRUE(std::ranges::any_of(outcome.run.launches, [](const LaunchRecord& l) { return l.workgroups > 120; }));
    EXPECT_TRUE(close(outcome.outputs, expected));
  }
}

// Scores of 5 GiB: a fused program has no such tensor; an unfused one is refused.
TEST(LargeTensors, AreAvoidedOrRefused) {
  NUMERIC_TRY(Place place, open_place(lavapipe));
  const double range = static_cast<double>(place.device->info().properties.at("max_buffer_range"));
  NUMERIC_TRY(const Model model,
              parse("m(Q: f32[16, q, d=8], K: f32[16, kv, d], V: f32[16, kv, d]) -> out\n"
                    "scores = MatMul(Q, Transpose(K, perm=[0, 2, 1]))\nout = MatMul(Softmax(scores, axis=-1), V)\n"));
  const Sizes sizes{{"q", 9216}, {"kv", 9216}};
  for (const bool fuse : {true, false}) {
    CompileOptions options;
    options.fuse = fuse;
    NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, place.target, options));
    NUMERIC_TRY(const MemoryPlan memory, plan_memory(compiled.program, sizes, arena_alignment(*place.device)));
    if (fuse) {
      EXPECT_LT(static_cast<double>(memory.total()), range);
      continue;
    }
    NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, sizes, {{"Q", Data::zeros}}));
    NUMERIC_TRY(const auto executor, Executor::create(*place.device, compiled.program));
    const auto refused = executor->run(inputs, sizes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(refused.error().text(), HasSubstr("tensor 'scores' has 5435817984 bytes"));
    EXPECT_THAT(refused.error().text(), HasSubstr(fmt::format("at most {} bytes", range)));
  }
}

}  // namespace
}  // namespace aicf::numeric
