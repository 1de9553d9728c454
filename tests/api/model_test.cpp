// Models, graphs in code, packages: what they hold, and each way to misuse them.

#include <fstream>
#include <iterator>

#include "api_testing.h"

namespace aicf::testing {
namespace {

using ::testing::ElementsAre;

TEST(ApiModel, KnowsItsInterface) {
  API_TRY(const Model model, Model::parse(affine_text));
  EXPECT_EQ(model.name(), "affine");
  ASSERT_EQ(model.inputs().size(), 2u);
  EXPECT_EQ(model.inputs()[1].name, "b");
  EXPECT_EQ(model.inputs()[1].type, DType::f32);
  EXPECT_THAT(model.inputs()[1].shape, ElementsAre("m", "4"));
  ASSERT_EQ(model.outputs().size(), 1u);
  EXPECT_EQ(model.outputs()[0].name, "y");
  API_TRY(const Model again, Model::parse(model.text()));
  EXPECT_EQ(again.text(), model.text());
  API_TRY(const Model bound, Model::parse(affine_text, {{"n", 3}, {"m", 3}}));
  EXPECT_THAT(bound.outputs()[0].shape, ElementsAre("3", "4"));
}

TEST(ApiModel, MistakesAreValues) {
  EXPECT_TRUE(fails(Model::load("/no/such/file.onnx"), ErrorKind::bad_input, "/no/such/file.onnx"));
  EXPECT_TRUE(fails(Model::load("/"), ErrorKind::bad_input, "/"));
  EXPECT_TRUE(fails(Model::parse("nonsense"), ErrorKind::bad_input, "text:1"));
  EXPECT_TRUE(fails(Model::parse(""), ErrorKind::bad_input, "text"));
  EXPECT_TRUE(fails(Model::parse("m(x: f32[n]) -> y\ny = Frobnicate(x)\n"), ErrorKind::unsupported, "Frobnicate"));
  EXPECT_TRUE(fails(Model::parse("m(x: f32[2], z: f32[3]) -> y\ny = Add(x, z)\n"), ErrorKind::bad_input, "Add"));
  EXPECT_TRUE(fails(Model::parse(affine_text, {{"n", -1}}), ErrorKind::bad_input, "n"));
  EXPECT_TRUE(fails(Model::parse(affine_text, {{"nobody", 1}}), ErrorKind::bad_input, "nobody"));
}

TEST(ApiBuilder, BuildsWhatTheTextSays) {
  GraphBuilder g("small");
  const auto x = g.input("x", DType::f32, {"n", 2});
  const auto c = g.constant<float>("c", {2}, {0.5f, 2.0f});
  g.add("Mul", {g.add("Add", {x, c}), c}, {"y"}, {});
  g.add("Split", {"y"}, {"left", "right"}, {{"axis", 1}, {"num_outputs", 2}});
  g.output("left");
  g.output("y");
  API_TRY(const Model model, g.build());
  ASSERT_EQ(model.outputs().size(), 2u);
  EXPECT_EQ(model.outputs()[0].name, "left");
  EXPECT_THAT(model.outputs()[0].shape, ElementsAre("n", "1"));
}

TEST(ApiBuilder, MistakesAreFoundByBuild) {
  const auto built = [](auto&& fill) {
    GraphBuilder g("wrong");
    g.input("x", DType::f32, {"n", 2});
    fill(g);
    return g.build();
  };
  const auto identity = [](GraphBuilder& g) { g.output(g.add("Identity", {"x"})); };
  EXPECT_TRUE(ok(built(identity)));
  const auto fails_with = [&](auto&& fill, ErrorKind kind, const char* part) {
    return fails(built([&](GraphBuilder& g) {
                   fill(g);
                   identity(g);
                 }),
                 kind, part);
  };
  EXPECT_TRUE(fails(built([](GraphBuilder&) {}), ErrorKind::bad_input, "no outputs"));
  EXPECT_TRUE(fails_with([](auto& g) { g.output("nothing"); }, ErrorKind::bad_input, "'nothing'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.input("x", DType::f32, {1}); }, ErrorKind::bad_input, "'x'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.input("z", DType::f32, {-1}); }, ErrorKind::bad_input, "'z'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.input("z", static_cast<DType>(99), {1}); }, ErrorKind::bad_input, "'z'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.template constant<float>("c", {3}, {1, 2}); }, ErrorKind::bad_input, "'c'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.template constant<float>("c", {-3}, {}); }, ErrorKind::bad_input, "'c'"));
  EXPECT_TRUE(fails_with(
      [](auto& g) {
        g.template constant<float>("c", {1L << 40, 1L << 40}, {1});
      },
      ErrorKind::bad_input, "'c'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Add", {"x", "nobody"}); }, ErrorKind::bad_input, "'nobody'"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Add", {"x"}); }, ErrorKind::bad_input, "inputs"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Frobnicate", {"x"}); }, ErrorKind::unsupported, "Frobnicate"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Softmax", {"x"}, {{"axis", "last"}}); }, ErrorKind::bad_input, "axis"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Relu", {"x"}, {}, {}); }, ErrorKind::bad_input, "outputs"));
  EXPECT_TRUE(fails_with([](auto& g) { g.add("Relu", {"x"}, {"x"}, {}); }, ErrorKind::bad_input, "'x'"));
  EXPECT_TRUE(fails(GraphBuilder("old", 3).build(), ErrorKind::bad_input, "no outputs"));
}

TEST(ApiCompile, MistakesAreValues) {
  API_TRY(const Model model, Model::parse(affine_text));
  EXPECT_THAT(targets(), ::testing::Contains("lavapipe"));
  EXPECT_TRUE(fails(compile(model, std::vector<std::string>{}), ErrorKind::bad_input, "target"));
  EXPECT_TRUE(fails(compile(model, {"sm_12"}), ErrorKind::bad_input, "lavapipe"));
  EXPECT_TRUE(fails(compile(model, {"vulkan:no such device"}), ErrorKind::unsupported, "no such device"));
  EXPECT_TRUE(
      fails(compile(model, {"lavapipe"}, {.schedule = {{"tile.nobody", "4"}}}), ErrorKind::bad_input, "nobody"));
}

TEST(ApiPackage, KeepsTargetsAndInterface) {
  const TempFolder folder;
  API_TRY(const Model model, Model::parse(affine_text));
  API_TRY(const Package package, compile(model, {"lavapipe", "null"}));
  ASSERT_TRUE(ok(package.save(folder.file("p.aicfpkg"))));
  API_TRY(const Package back, Package::load(folder.file("p.aicfpkg")));
  EXPECT_EQ(back.name(), "affine");
  EXPECT_THAT(back.targets(), ElementsAre("lavapipe", "null"));
  ASSERT_EQ(back.inputs().size(), 2u);
  EXPECT_EQ(back.inputs()[0].name, "x");
  EXPECT_THAT(back.inputs()[0].shape, ElementsAre("n", "4"));
  ASSERT_EQ(back.outputs().size(), 1u);
  EXPECT_EQ(back.outputs()[0].name, "y");
}

TEST(ApiPackage, MistakesAreValues) {
  const TempFolder folder;
  API_TRY(const Model model, Model::parse(affine_text));
  API_TRY(const Package package, compile(model, {"null"}));
  EXPECT_TRUE(fails(package.save(folder.file("no/such/folder")), ErrorKind::run_failure, "no/such/folder"));
  EXPECT_TRUE(fails(Package::load(folder.file("absent")), ErrorKind::bad_input, "absent"));
  std::ofstream(folder.file("foreign")) << "something else";
  EXPECT_TRUE(fails(Package::load(folder.file("foreign")), ErrorKind::bad_input, "not an AICF package"));
  ASSERT_TRUE(ok(package.save(folder.file("p"))));
  std::ifstream in(folder.file("p"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(folder.file("p"), std::ios::binary) << bytes;
  EXPECT_TRUE(fails(Package::load(folder.file("p")), ErrorKind::bad_input, "damaged"));
}

}  // namespace
}  // namespace aicf::testing
