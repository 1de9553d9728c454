#include <gtest/gtest.h>

#include "mir/kernel/source_names.h"
#include "mir/kernel/thread_text.h"
#include "tests/unit/kernel/thread_builder.h"

namespace aicf {
namespace {

using namespace thread_builder;

TEST(ThreadText, PrintsEveryKindOfStatement) {
  ThreadProgram p = program(8, 2, Expr::symbol("n") * 2, {reads("Q", {Expr::symbol("n"), 4}), writes("O", {8})}, {});
  p.symbols = {"n"};
  p.shared = {{"s", DType::f32, 64, 16}};
  p.body = {
      comment("prologue"),
      declare(DType::f32, {"a", "b"}),
      declare("m", c(0.5)),
      load("Q", lane() * 2, {"a", "b"}, less(lane(), 4), c(0)),
      store_shared("s", lane(), {f("a")}),
      barrier(),
      load_shared("s", lane(), {"b"}),
      shuffle("x", f("a"), Expr(3)),
      shuffle_xor("y", f("x"), 4),
      loop("kv", 0, Expr::symbol("n"), 8, {assign("m", f("m") + f("y"))}),
      branch(less(workgroup(), 3), {store("O", lane(), {f("m")})}, true),
  };
  EXPECT_EQ(to_string(p), R"(thread_program k  subgroup_size 8  subgroups 2  workgroups n * 2
  buffer Q: f32[n, 4]
  buffer O: f32[8] written
  symbols n
  shared s: f32[64] at byte 16
{
  # prologue
  f32 a, b
  f32 m = 0.5
  a, b = load global Q[lane * 2 ..+ 2] where lane < 4 else 0.0
  store shared s[lane] = a
  barrier
  b = load shared s[lane]
  f32 x = shuffle(a, lane 3)
  f32 y = shuffle_xor(x, 4)
  for kv in 0..n step 8 {
    m = m + y
  }
  if uniform workgroup < 3 {
    store global O[lane] = m
  }
}
)");
}

TEST(SourceNames, KeepsPlainNamesAndMakesOthersUnique) {
  SourceNames names({"input", "in"});
  using K = SourceNames::Kind;
  EXPECT_EQ(names.of(K::buffer, "Q"), "Q");
  EXPECT_EQ(names.of(K::buffer, "input"), "input_");
  EXPECT_EQ(names.of(K::buffer, "/encoder/layer.0/Q:0"), "encoder_layer_0_Q_0");
  EXPECT_EQ(names.of(K::buffer, "encoder.layer/0/Q.0"), "encoder_layer_0_Q_0_2");
  EXPECT_EQ(names.of(K::variable, "Q"), "Q_2");
  EXPECT_EQ(names.of(K::buffer, "Q"), "Q");
  EXPECT_EQ(names.of(K::variable, "m'"), "m_new");
  EXPECT_EQ(names.of(K::variable, "0"), "x_0");
  EXPECT_EQ(names.of(K::variable, ""), "x");
  EXPECT_EQ(names.of(K::variable, "été"), "t");
  EXPECT_EQ(names.of(K::variable, "gl_Position"), "x_gl_Position");
  EXPECT_EQ(names.of(K::variable, "aicf_exp"), "x_aicf_exp");
  EXPECT_EQ(names.of(K::variable, "a__b"), "a_b");
  EXPECT_EQ(names.changed().front(), (std::pair<std::string, std::string>("input_", "input")));
  EXPECT_EQ(names.fresh("Q"), "Q_3");
}

TEST(SourceNames, CommentsCannotEscapeTheirLine) {
  EXPECT_EQ(comment_text("a\nb\\"), "a b\\ .");
  EXPECT_EQ(comment_text("poids/été"), "poids/été");
}

}  // namespace
}  // namespace aicf
