// Text and rules of kernels: what is printed parses back, and what a GPU would forgive is refused.

#include "mir/kernel/kernel.h"

#include <gmock/gmock.h>

#include "expand_helpers.h"
#include "sample_kernels.h"

namespace aicf {
namespace {

using namespace aicf::testing;
using ::testing::HasSubstr;

// ---- text --------------------------------------------------------------------------------------------------------

void expect_round_trip(const std::string& text) {
  const Kernel kernel = parsed(text);
  const std::string printed = to_string(kernel);
  EXPECT_EQ(to_string(parsed(printed)), printed);
}

TEST(KernelText, SamplesAreInThePrintedForm) {
  for (const char* text : {elementwise, softmax, broadcast_matmul, staged_matmul, attention, decode}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
}

TEST(KernelText, EveryPartRoundTrips) {
  // Built by hand so that the parser does not decide what there is to print; the names collide on purpose.
  Kernel k;
  k.name = "odd name";
  k.symbols = {"q", "n"};
  k.subgroup_size = 8;
  k.subgroups = 2;
  k.workgroups = ceildiv(Expr::symbol("q"), 16);
  k.bases["q"] = Expr::symbol("workgroup") * 16;
  k.ranges["axis:q"] = {0, 99};
  k.ranges["axis:e"] = {1, std::nullopt};
  k.buffers = {{"X", DType::f16, {Expr::symbol("q"), 64}, false}, {"out", DType::f32, {Expr::symbol("n")}, true}};
  k.tiles.push_back({"q",
                     DType::f16,
                     {{"q", 16}, {"d", 64}},
                     Space::registers,
                     {{{"d", Level::reg, 2, 1, 1},
                       {"q", Level::lane, 8, 1, 1},
                       {"d", Level::reg, 32, 2, 1},
                       {"q", Level::subgroup, 2, 8, 1}}},
                     0});
  k.tiles.push_back({"load",
                     DType::f16,
                     {{"q", 16}},
                     Space::registers,
                     {{{"q", Level::lane, 8, 2, 1}, {"q", Level::reg, 2, 1, 1}}},
                     0});
  k.tiles.push_back({"m'", DType::boolean, {}, Space::registers, {}, 0});
  k.tiles.push_back({"w", DType::f16, {{"q", 16}, {"d", 64}}, Space::workgroup, {}, 8});
  KernelOp load;
  load.kind = KernelOp::Kind::load;
  load.tile = "q";
  load.buffer = "X";
  load.index = {Expr::axis("q"), Expr::axis("d") + Expr::axis("stray")};
  load.predicate = less(Expr::axis("q"), Expr::symbol("q"));
  load.fill = Expr::constant(DType::f16, 0.5);
  load.vector_width = 2;
  load.note = "rows";
  KernelOp sum;
  sum.kind = KernelOp::Kind::reduce;
  sum.tile = "load";
  sum.reduce = ReduceOp::max;
  sum.over = {"d"};
  sum.expr = Expr::value("q", DType::f16) * Expr::cast(Expr::axis("q"), DType::f16);
  KernelOp cross;
  cross.kind = KernelOp::Kind::cross;
  cross.states = {"load"};
  cross.lane_masks = {1, 4};
  cross.subgroup_masks = {1};
  cross.merge = {{"load", Expr::value("a.load", DType::f16) + Expr::value("b.load", DType::f16)}};
  KernelOp stage;
  stage.kind = KernelOp::Kind::to_workgroup;
  stage.tile = "w";
  stage.source = "q";
  KernelOp fetch;
  fetch.kind = KernelOp::Kind::from_workgroup;
  fetch.tile = "q";
  fetch.source = "w";
  KernelOp barrier;
  barrier.kind = KernelOp::Kind::barrier;
  KernelOp set;
  set.tile = "m'";
  set.expr = Expr::boolean(true);
  KernelOp branch;
  branch.kind = KernelOp::Kind::branch;
  branch.predicate = Expr::value("m'", DType::boolean);
  branch.body = {stage};
  KernelOp store;
  store.kind = KernelOp::Kind::store;
  store.tile = "load";
  store.buffer = "out";
  store.index = {Expr::axis("q")};
  store.expr = Expr::cast(Expr::value("load", DType::f16), DType::f32);
  store.vector_width = 4;
  KernelOp loop;
  loop.kind = KernelOp::Kind::loop;
  loop.variable = "d_tile";
  loop.begin = Expr::axis("q");
  loop.end = Expr::symbol("n");
  loop.step = 4;
  loop.bases = {{"d", Expr::symbol("d_tile")}, {"q", Expr::axis("q") + 1}};
  loop.body = {sum, branch, barrier, fetch};
  loop.note = "steps";
  k.body = {load, set, loop, cross, store};

  const std::string text = to_string(k);
  const Result<Kernel> again = parse_kernel(text, "again");
  ASSERT_TRUE(again) << again.error().text() << "\n" << text;
  EXPECT_EQ(to_string(*again), text);
  ASSERT_EQ(again->tiles.size(), k.tiles.size());
  for (std::size_t i = 0; i < k.tiles.size(); ++i) {
    EXPECT_EQ(again->tiles[i].distribution, k.tiles[i].distribution);
    EXPECT_EQ(again->tiles[i].axes, k.tiles[i].axes);
    EXPECT_EQ(again->tiles[i].row_padding, k.tiles[i].row_padding);
  }
  ASSERT_EQ(again->body.size(), 5u);
  EXPECT_EQ(again->body[0].index, load.index);
  EXPECT_EQ(again->body[0].predicate, load.predicate);
  EXPECT_EQ(again->body[0].fill, load.fill);
  EXPECT_EQ(again->body[0].note, "rows");
  EXPECT_EQ(again->body[1].expr, set.expr);
  const KernelOp& inner = again->body[2];
  EXPECT_EQ(inner.begin, loop.begin);
  EXPECT_EQ(inner.bases, loop.bases);
  ASSERT_EQ(inner.body.size(), 4u);
  EXPECT_EQ(inner.body[0].expr, sum.expr);
  EXPECT_EQ(inner.body[0].reduce, ReduceOp::max);
  EXPECT_EQ(inner.body[1].predicate, branch.predicate);
  EXPECT_EQ(inner.body[1].body.at(0).tile, "w");
  EXPECT_EQ(again->body[3].merge.at(0).value, cross.merge[0].value);
  EXPECT_EQ(again->body[3].lane_masks, cross.lane_masks);
  EXPECT_EQ(again->body[4].expr, store.expr);
  EXPECT_EQ(again->workgroups, k.workgroups);
  EXPECT_EQ(again->bases, k.bases);
}

TEST(KernelText, ErrorsNameTheLine) {
  const auto message = [](const std::string& text) {
    const Result<Kernel> kernel = parse_kernel(text, "k");
    return kernel ? std::string() : kernel.error().text();
  };
  EXPECT_THAT(message(""), HasSubstr("expected 'kernel'"));
  EXPECT_THAT(message("kernel a work_items 1 subgroup 8"), HasSubstr("k:1"));
  EXPECT_THAT(message(replaced(elementwise, "x * y", "x * z")), HasSubstr("unknown name 'z'"));
  EXPECT_THAT(message(replaced(elementwise, "x * y", "x * z")), HasSubstr("k:12"));
  EXPECT_THAT(message(replaced(elementwise, "reg 4", "row 4")), HasSubstr("expected 'reg', 'lane' or 'subgroup'"));
  EXPECT_THAT(message(replaced(elementwise, "r = x * y + 1.0", "    r = x * y + 1.0")), HasSubstr("indentation"));
  EXPECT_THAT(message(replaced(elementwise, "width 4", "width four")), HasSubstr("not an integer"));
  EXPECT_THAT(message(replaced(softmax, "maxnum= x", "largest= x")), HasSubstr("unknown reduction"));
  expect_round_trip(replaced(elementwise, "width 4", "width 2"));
}

// Whatever a text says is an error or a program, never a failed check (which would end this process).
TEST(KernelText, DamagedTextsAreErrors) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string pieces[] = {"0",  "1", "3",       "-1",   "64",    "4096", "i", "q",   "m",    "k",        "+",
                                "//", "%", " over k", "lane", "reg 2", "[",    ")", "f16", "bool", "workgroup"};
  int accepted = 0;
  for (const char* sample : {elementwise, softmax, broadcast_matmul, staged_matmul, attention, decode}) {
    for (int i = 0; i < 150; ++i) {
      std::string text = sample;
      const std::size_t changes = 1 + below(2);
      for (std::size_t c = 0; c < changes; ++c) {
        const std::size_t at = below(text.size());
        switch (below(3)) {
          case 0:
            text.erase(at, 1 + below(8));
            break;
          case 1:
            text.insert(at, pieces[below(std::size(pieces))]);
            break;
          case 2: {  // a line gone
            const std::size_t start = text.rfind('\n', at), end = text.find('\n', at);
            if (start != std::string::npos && end != std::string::npos) text.erase(start, end - start);
            break;
          }
        }
      }
      const Result<Kernel> kernel = parse_kernel(text);
      if (!kernel) continue;
      const std::string printed = to_string(*kernel);
      const Result<Kernel> again = parse_kernel(printed);
      ASSERT_TRUE(again) << again.error().text() << "\n" << printed;
      ASSERT_EQ(to_string(*again), printed);
      accepted += expand(*kernel).has_value();
    }
  }
  EXPECT_GT(accepted, 10);
}

// ---- rules -------------------------------------------------------------------------------------------------------

std::string refusal(const std::string& text) {
  const Result<void> result = verify(parsed(text));
  return result ? std::string() : result.error().text();
}

TEST(KernelVerify, AcceptsTheSamples) {
  for (const char* text : {elementwise, softmax, broadcast_matmul, staged_matmul, attention, decode})
    EXPECT_EQ(refusal(text), "");
}

TEST(KernelVerify, BarriersBetweenThreads) {
  // Before the reads, and before the next step overwrites.
  EXPECT_THAT(refusal(replaced(staged_matmul, "b_stage\n    barrier\n", "b_stage\n")),
              HasSubstr("between writing and reading"));
  EXPECT_THAT(refusal(replaced(staged_matmul, "width 4\n    barrier\n", "width 4\n")), HasSubstr("and overwriting it"));
  EXPECT_THAT(refusal(replaced(staged_matmul, "    barrier\n    stage a", "    stage a")),
              HasSubstr("between reading workgroup tile"));
}

TEST(KernelVerify, ValuesMustBeHeldOrDeliverable) {
  // b's columns would have to come from a register that the lane chooses.
  EXPECT_THAT(
      refusal(replaced(
          broadcast_matmul, "tile c: f32[m=16, n=4] registers n(reg 4) m(lane 8 @1 stride 1, reg 2 stride 8)",
          "tile c: f32[m=16, n=4] registers n(lane 2 @1 stride 1, reg 2) m(lane 4 @2 stride 1, reg 4 stride 4)")),
      HasSubstr("in a lane that does not hold it"));
  // Another subgroup holds half of x.
  EXPECT_THAT(
      refusal(replaced(elementwise, "tile r: f32[i=64] registers i(reg 4, lane 8 @1 stride 4, subgroup 2 @1 stride 32)",
                       "tile r: f32[i=64] registers i(reg 4, lane 8 @1 stride 4, reg 2 stride 32)")),
      HasSubstr("subgroup"));
}

TEST(KernelVerify, PartialResultsMustBeMerged) {
  const std::size_t cross = std::string(softmax).find("  cross");
  const std::size_t end = std::string(softmax).find('\n', cross);
  EXPECT_THAT(refusal(std::string(softmax).erase(cross, end + 1 - cross)), HasSubstr("partial result"));
  EXPECT_THAT(refusal(replaced(softmax, "lanes 1, 2", "lanes 1")), HasSubstr("partial result"));
  // Merging rows, or lanes that hold the same sum twice.
  EXPECT_THAT(refusal(replaced(softmax, "lanes 1, 2", "lanes 1, 2, 4")), HasSubstr("pairs different elements"));
  EXPECT_THAT(refusal(replaced(softmax, "lanes 1, 2", "lanes 1, 2, 2")), HasSubstr("twice"));
  const char* replicated = R"(kernel sums work_items 1 subgroup 4 x 1
  buffer X: f32[8]
  buffer out: f32[1] written
  tile x: f32[c=8] registers c(lane 4 @1 stride 1, reg 2 stride 4)
  tile s: f32[] registers
  load x <- X[c]
  s = 0.0
  s += x over c
  cross s lanes 1, 2: s = a.s + b.s
  store out[0] <- s = s
)";
  EXPECT_EQ(refusal(replicated), "");
  EXPECT_THAT(refusal(replaced(replicated, "c(lane 4 @1 stride 1, reg 2 stride 4)", "c(reg 8)")), HasSubstr("twice"));
}

TEST(KernelVerify, TilesAreDefinedBeforeUse) {
  EXPECT_THAT(refusal(replaced(broadcast_matmul, "  c = 0.0\n", "")), HasSubstr("before it is defined"));
  EXPECT_THAT(refusal(replaced(elementwise, "  load y <- Y[i] if i < n else 0.0 width 4\n", "")),
              HasSubstr("'y' is read before"));
  // Defined only in a branch.
  EXPECT_THAT(refusal(replaced(elementwise, "  r = x", "  if n < 5:\n    r = x")), HasSubstr("'r' is read before"));
}

TEST(KernelVerify, FormalRules) {
  EXPECT_THAT(refusal(replaced(elementwise, "reg 4, lane 8 @1 stride 4", "reg 4, lane 8 @1 stride 2")),
              HasSubstr("stride 2"));
  EXPECT_THAT(refusal(replaced(elementwise, "lane 8 @1", "lane 16 @1")), HasSubstr("exceeds 8 lanes"));
  EXPECT_THAT(refusal(replaced(elementwise, "out: f32[n] written", "out: f32[n]")),
              HasSubstr("not declared as written"));
  EXPECT_THAT(refusal(replaced(elementwise, "X[i] if", "X[i, i] if")), HasSubstr("2 indices for 1 dimensions"));
  EXPECT_THAT(refusal(replaced(elementwise, "tile r: f32", "tile r: f16")), HasSubstr("cast it"));
  EXPECT_THAT(refusal(replaced(softmax, "step 8", "step 0")), HasSubstr("step"));
  EXPECT_THAT(refusal(replaced(softmax, "m_next maxnum= x", "m_next maxnum= x + m_next")),
              HasSubstr("which it updates"));
  EXPECT_THAT(refusal(replaced(elementwise, "r = x", "if x < 1.0:\n    r = x")), HasSubstr("differs between threads"));
  EXPECT_THAT(refusal(replaced(broadcast_matmul, "over k", "over n")), HasSubstr("is reduced over"));
}

// Mutants that no local rule sees: the interpreter does, or the result is wrong.
TEST(KernelMutants, AreCaughtByRunning) {
  InterpreterInput io;
  io.symbols = {{"M", 17}, {"N", 5}, {"K", 9}};
  io.buffers["A"] = random_values(17 * 9, 1);
  io.buffers["B"] = random_values(9 * 5, 2);
  io.buffers["C"].assign(17 * 5, 0);
  const auto outcome = [&](const std::string& text) {
    InterpreterInput copy = io;
    return run(parsed(text), copy);
  };
  ASSERT_EQ(outcome(broadcast_matmul), "");
  // A missing bound reads past the buffer.
  EXPECT_THAT(outcome(replaced(broadcast_matmul, "m < M and k < K", "k < K")), HasSubstr("bounds"));
  EXPECT_THAT(outcome(replaced(broadcast_matmul, "if m < M and n < N", "if n < N")), HasSubstr("bounds"));
  // Work items that overlap write one element twice.
  EXPECT_NE(outcome(replaced(broadcast_matmul, "workgroup // ((N + 3) // 4) * 16", "workgroup // ((N + 3) // 4) * 8")),
            "");
  // A short loop leaves out products.
  InterpreterInput full = io, cut = io;
  ASSERT_EQ(run(parsed(broadcast_matmul), full), "");
  ASSERT_EQ(run(parsed(replaced(broadcast_matmul, "0 .. K step", "0 .. K - 1 step")), cut), "");
  EXPECT_NE(full.buffers["C"], cut.buffers["C"]);
}

}  // namespace
}  // namespace aicf
