#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernel/thread_builder.h"

namespace aicf {
namespace {

using namespace thread_builder;
using testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::nan("");

/// The error of a run, or "" when it succeeds.
std::string error_of(const ThreadProgram& p, std::map<std::string, std::vector<double>> buffers = {},
                     std::map<std::string, std::int64_t> symbols = {}) {
  InterpreterInput io{std::move(buffers), std::move(symbols)};
  const auto counts = interpret(p, io);
  return counts ? "" : counts.error().text();
}

/// Runs one thread per element: out[lane] = e, with a[lane] and b[lane] as f32 variables.
std::vector<double> run_float(const Expr& e, std::vector<double> a, std::vector<double> b) {
  const auto n = static_cast<std::int64_t>(a.size());
  const bool floats = is_float(e.type());
  ThreadProgram p = program(
      static_cast<int>(n), 1, 1, {reads("A", {n}), reads("B", {n}), writes("O", {n}, floats ? DType::f32 : DType::i32)},
      {declare(DType::f32, {"a", "b"}), load("A", lane(), {"a"}), load("B", lane(), {"b"}), store("O", lane(), {e})});
  InterpreterInput io{{{"A", a}, {"B", b}}, {}};
  const auto counts = interpret(p, io);
  EXPECT_TRUE(counts.has_value()) << counts.error().text();
  return io.buffers["O"];
}

std::vector<double> run_int(const Expr& e, std::vector<double> a, std::vector<double> b) {
  const auto n = static_cast<std::int64_t>(a.size());
  ThreadProgram p = program(
      static_cast<int>(n), 1, 1,
      {reads("A", {n}, DType::i64), reads("B", {n}, DType::i64), writes("O", {n}, DType::i32)},
      {declare(DType::i64, {"a", "b"}), load("A", lane(), {"a"}), load("B", lane(), {"b"}), store("O", lane(), {e})});
  InterpreterInput io{{{"A", a}, {"B", b}}, {}};
  const auto counts = interpret(p, io);
  EXPECT_TRUE(counts.has_value()) << counts.error().text();
  return io.buffers["O"];
}

TEST(Interpret, RoundsFloatsToF32) {
  const auto sum = run_float(f("a") + f("b"), {16777216, 0.1, 1e30}, {1, 0.2, 1e30});
  EXPECT_EQ(sum[0], 16777216);
  EXPECT_EQ(sum[1], static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(run_float(f("a") * f("b"), {1e30}, {1e30})[0], inf);
  EXPECT_EQ(run_float(Expr::unary(Op::exp, f("a")), {-inf, 0, 1}, {0, 0, 0}),
            (std::vector<double>{0, 1, static_cast<double>(static_cast<float>(std::exp(1.0)))}));
}

TEST(Interpret, RoundsNarrowFloats) {
  // 1 + 2^-11 is a tie in f16: even; 1 + 3·2^-11 goes up to 1 + 2^-9.
  const auto half = run_float(Expr::cast(Expr::cast(f("a"), DType::f16), DType::f32),
                              {1 + 0x1p-11, 1 + 0x3p-11, 70000, 0x1p-25}, {0, 0, 0, 0});
  EXPECT_EQ(half, (std::vector<double>{1, 1 + 0x1p-9, inf, 0}));
  const auto brain =
      run_float(Expr::cast(Expr::cast(f("a"), DType::bf16), DType::f32), {1 + 0x1p-8, 1 + 0x3p-8}, {0, 0});
  EXPECT_EQ(brain, (std::vector<double>{1, 1 + 0x1p-6}));
  // An f16 addition rounds its result.
  const Expr sum = Expr::cast(f("a"), DType::f16) + Expr::cast(f("b"), DType::f16);
  EXPECT_EQ(run_float(Expr::cast(sum, DType::f32), {2048}, {1})[0], 2048);
}

TEST(Interpret, TreatsNanAsDocumented) {
  const std::vector<double> a{nan_value, 1, nan_value}, b{1, nan_value, nan_value};
  for (const Op op : {Op::min, Op::max}) {
    for (const double v : run_float(Expr::binary(op, f("a"), f("b")), a, b)) EXPECT_TRUE(std::isnan(v));
  }
  for (const Op op : {Op::minnum, Op::maxnum}) {
    const auto r = run_float(Expr::binary(op, f("a"), f("b")), a, b);
    EXPECT_EQ(r[0], 1);
    EXPECT_EQ(r[1], 1);
    EXPECT_TRUE(std::isnan(r[2]));
  }
  for (const Op op : {Op::lt, Op::le, Op::eq}) {
    EXPECT_EQ(run_float(Expr::binary(op, f("a"), f("b")), a, b), (std::vector<double>{0, 0, 0}));
  }
  EXPECT_EQ(run_float(Expr::unary(Op::isnan, f("a")), a, b), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(run_float(Expr::unary(Op::isinf, f("a")), {-inf, 3, nan_value}, b), (std::vector<double>{1, 0, 0}));
}

TEST(Interpret, DividesIntegersAsDocumented) {
  const std::vector<double> a{7, -7, 7, -7, 6}, b{2, 2, -2, -2, -3};
  EXPECT_EQ(run_int(floordiv(i("a"), i("b")), a, b), (std::vector<double>{3, -4, -4, 3, -2}));
  EXPECT_EQ(run_int(mod(i("a"), i("b")), a, b), (std::vector<double>{1, 1, -1, -1, 0}));
  EXPECT_EQ(run_int(i("a") / i("b"), a, b), (std::vector<double>{3, -3, -3, 3, -2}));
}

TEST(Interpret, ConvertsBetweenFloatsAndIntegers) {
  const Expr whole = Expr::cast(f("a"), DType::i32);
  EXPECT_EQ(run_float(whole, {1.9, -1.9, 3e9, -3e9, nan_value}, {0, 0, 0, 0, 0}),
            (std::vector<double>{1, -1, 2147483647, -2147483648.0, 0}));
  EXPECT_EQ(run_float(Expr::cast(f("a"), DType::u8), {-4, 300, 7.7}, {0, 0, 0}), (std::vector<double>{0, 255, 7}));
  EXPECT_EQ(run_int(Expr::cast(Expr::cast(i("a"), DType::i8), DType::i64), {200, -129, 5}, {0, 0, 0}),
            (std::vector<double>{-56, 127, 5}));
}

TEST(Interpret, RunsLoopsBranchesAndShuffles) {
  // Sum over a row by a loop and a butterfly; odd lanes negate.
  ThreadProgram p =
      program(8, 1, Expr::symbol("rows"),
              {reads("X", {Expr::symbol("rows"), Expr::symbol("n")}), writes("Y", {Expr::symbol("rows"), 8})}, {});
  p.symbols = {"rows", "n"};
  const Expr column = Expr::symbol("j") + lane();
  p.body = {declare("sum", c(0)),
            declare(DType::f32, {"x"}),
            loop("j", 0, Expr::symbol("n"), 8,
                 {load("X", workgroup() * Expr::symbol("n") + column, {"x"}, less(column, Expr::symbol("n")), c(0)),
                  assign("sum", f("sum") + f("x"))}),
            shuffle_xor("s4", f("sum"), 4),
            assign("sum", f("sum") + f("s4")),
            shuffle_xor("s2", f("sum"), 2),
            assign("sum", f("sum") + f("s2")),
            shuffle_xor("s1", f("sum"), 1),
            assign("sum", f("sum") + f("s1")),
            branch(equal(mod(lane(), 2), 1), {assign("sum", -f("sum"))}),
            store("Y", workgroup() * 8 + lane(), {f("sum")})};
  std::vector<double> x;
  for (int k = 0; k < 3 * 13; ++k) x.push_back(k * k % 17);
  InterpreterInput io{{{"X", x}}, {{"rows", 3}, {"n", 13}}};
  const auto counts = interpret(p, io);
  ASSERT_TRUE(counts.has_value()) << counts.error().text();
  for (int row = 0; row < 3; ++row) {
    double sum = 0;
    for (int j = 0; j < 13; ++j) sum += x[static_cast<std::size_t>(13 * row + j)];
    for (int t = 0; t < 8; ++t) EXPECT_EQ(io.buffers["Y"][static_cast<std::size_t>(8 * row + t)], t % 2 ? -sum : sum);
  }
  EXPECT_EQ(counts->bytes_read.at("X"), 3u * 13 * 4);
  EXPECT_EQ(counts->bytes_written.at("Y"), 3u * 8 * 4);
  EXPECT_EQ(counts->shuffles, 3u * 3 * 8);
  EXPECT_EQ(counts->barriers, 0u);
}

TEST(Interpret, ExchangesThroughWorkgroupMemory) {
  ThreadProgram p = program(4, 2, 2, {reads("X", {16}), writes("Y", {16})}, {});
  p.shared = {{"s", DType::f32, 8, 0}};
  const Expr t = subgroup() * 4 + lane();
  p.body = {declare(DType::f32, {"x"}),           load("X", workgroup() * 8 + t, {"x"}),
            store_shared("s", t, {f("x")}),       barrier(),
            load_shared("s", Expr(7) - t, {"x"}), store("Y", workgroup() * 8 + t, {f("x")})};
  std::vector<double> x(16);
  for (int k = 0; k < 16; ++k) x[static_cast<std::size_t>(k)] = k;
  InterpreterInput io{{{"X", x}}, {}};
  const auto counts = interpret(p, io);
  ASSERT_TRUE(counts.has_value()) << counts.error().text();
  for (int k = 0; k < 16; ++k) EXPECT_EQ(io.buffers["Y"][static_cast<std::size_t>(k)], k / 8 * 8 + 7 - k % 8);
  EXPECT_EQ(counts->barriers, 2u);
  EXPECT_EQ(counts->shared_loads, 16u);
  EXPECT_EQ(counts->shared_stores, 16u);
  p.body.erase(p.body.begin() + 3);
  EXPECT_THAT(error_of(p, {{"X", x}}), HasSubstr("race: shared 's'"));
}

TEST(Interpret, EvaluatesOnlyTheChosenSideOfASelect) {
  const Expr safe = Expr::select(equal(i("b"), 0), Expr(-1), i("a") / i("b"));
  EXPECT_EQ(run_int(safe, {6, 5}, {3, 0}), (std::vector<double>{2, -1}));
  const Expr guarded = Expr::cast(logical_and(less(Expr(0), i("b")), less(i("a") / i("b"), 3)), DType::i64);
  EXPECT_EQ(run_int(guarded, {6, 5}, {3, 0}), (std::vector<double>{1, 0}));
}

// ---- what a GPU would forgive ------------------------------------------------------------------------------

TEST(InterpretErrors, UndefinedVariable) {
  ThreadProgram p = program(4, 1, 2, {writes("O", {8})},
                            {declare(DType::f32, {"x"}), branch(less(lane(), 3), {assign("x", c(1))}),
                             store("O", workgroup() * 4 + lane(), {f("x")})});
  const std::string error = error_of(p);
  EXPECT_THAT(error, HasSubstr("kernel 'k': workgroup 0, thread 3"));
  EXPECT_THAT(error, HasSubstr("'x' is read before it is defined, in 'store global O[workgroup * 4 + lane] = x'"));
  p.body[2].predicate = less(lane(), 3);
  EXPECT_EQ(error_of(p), "");
}

TEST(InterpretErrors, DefinitionsEndWithTheirIteration) {
  // x is declared anew in each iteration and only assigned in the first.
  ThreadProgram p =
      program(2, 1, 1, {writes("O", {8})},
              {loop("j", 0, 2, 1,
                    {declare(DType::f32, {"x"}), branch(equal(Expr::symbol("j"), 0), {assign("x", c(1))}, true),
                     store("O", Expr::symbol("j") * 2 + lane(), {f("x")})})});
  EXPECT_THAT(error_of(p), HasSubstr("'x' is read before it is defined"));
}

TEST(InterpretErrors, ShuffleFromALaneThatIsNotThere) {
  ThreadProgram p = program(4, 1, 1, {writes("O", {4})},
                            {declare("x", Expr::cast(lane(), DType::f32)),
                             branch(less(lane(), 2), {shuffle_xor("y", f("x"), 2), store("O", lane(), {f("y")})})});
  EXPECT_THAT(error_of(p), HasSubstr("a shuffle from lane 2, which is not active here"));
  p.body[1].body[0].mask = 1;
  EXPECT_EQ(error_of(p), "");
  p.body[1].body[0].mask = 4;
  EXPECT_THAT(error_of(p), HasSubstr("a shuffle from lane 4, the subgroup has 4"));
  p.body[1].body[0] = shuffle("y", f("x"), lane() - 1);
  EXPECT_THAT(error_of(p), HasSubstr("a shuffle from lane -1"));
}

TEST(InterpretErrors, DivergentBarrier) {
  ThreadProgram p = program(4, 1, 1, {}, {branch(less(lane(), 2), {barrier()})});
  EXPECT_THAT(error_of(p), HasSubstr("thread 2 (subgroup 0, lane 2): a barrier that this thread does not reach"));
  p.body[0].uniform = true;
  EXPECT_THAT(error_of(p), HasSubstr("marked uniform is not uniform"));
  p.body[0].predicate = less(workgroup(), 2);
  EXPECT_EQ(error_of(p), "");
}

TEST(InterpretErrors, LoopBoundsThatDiffer) {
  ThreadProgram p = program(4, 1, 1, {}, {loop("j", 0, lane(), 1, {})});
  EXPECT_THAT(error_of(p), HasSubstr("the end of a loop is not uniform"));
}

TEST(InterpretErrors, RacesInWorkgroupMemory) {
  ThreadProgram p = program(4, 1, 1, {}, {});
  p.shared = {{"s", DType::f32, 8, 0}};
  // Two threads write one word, even the same value.
  p.body = {store_shared("s", floordiv(lane(), 2), {c(1)})};
  EXPECT_THAT(error_of(p), HasSubstr("shared 's'[0] is written here, thread 0 wrote it"));
  // A write after another thread's read needs a barrier too.
  p.body = {store_shared("s", lane(), {c(1)}), barrier(), declare(DType::f32, {"x"}),
            load_shared("s", mod(lane() + 1, 4), {"x"}), store_shared("s", lane(), {f("x")})};
  EXPECT_THAT(error_of(p), HasSubstr("read it, and no barrier stands between"));
  p.body.insert(p.body.begin() + 4, barrier());
  EXPECT_EQ(error_of(p), "");
}

TEST(InterpretErrors, UninitialisedWorkgroupMemory) {
  ThreadProgram p = program(4, 1, 2, {}, {declare(DType::f32, {"x"}), load_shared("s", lane(), {"x"})});
  p.shared = {{"s", DType::f32, 8, 0}};
  EXPECT_THAT(error_of(p), HasSubstr("shared 's'[0] is read before it is written"));
  // Written by workgroup 0 only: nothing stays for workgroup 1.
  p.body.insert(p.body.begin(), branch(equal(workgroup(), 0), {store_shared("s", lane(), {c(2)})}, true));
  EXPECT_THAT(error_of(p), HasSubstr("workgroup 1, thread 0"));
  // Memory shared by two arrays: what one wrote the other does not have.
  p.shared.push_back({"u", DType::f32, 4, 0});
  p.body = {store_shared("s", lane(), {c(2)}), barrier(), declare(DType::f32, {"x"}), load_shared("u", lane(), {"x"})};
  EXPECT_THAT(error_of(p), HasSubstr("its bytes hold 's'"));
}

TEST(InterpretErrors, BoundsAndAlignment) {
  ThreadProgram p = program(4, 1, 1, {reads("X", {10}), writes("O", {16})},
                            {declare(DType::f32, {"a", "b", "c", "d"}), load("X", lane() * 4, {"a", "b", "c", "d"})});
  const std::vector<double> x(10, 1.0);
  EXPECT_THAT(error_of(p, {{"X", x}}),
              HasSubstr("thread 2 (subgroup 0, lane 2): buffer 'X'[8 ..+ 4] is out of bounds"));
  p.body[1].predicate = less(lane(), 2);
  p.body[1].fill = c(0);
  EXPECT_EQ(error_of(p, {{"X", x}}), "");
  p.body[1].index = lane() * 4 + 2;
  EXPECT_THAT(error_of(p, {{"X", x}}), HasSubstr("misaligned"));
  p.body[1] = store("O", lane() - 1, {c(0)});
  EXPECT_THAT(error_of(p, {{"X", x}}), HasSubstr("buffer 'O'[-1] is out of bounds"));
}

TEST(InterpretErrors, ElementsWrittenTwice) {
  ThreadProgram p = program(4, 1, 2, {writes("O", {8})}, {store("O", lane(), {c(1)})});
  EXPECT_THAT(error_of(p), HasSubstr("buffer 'O'[0] is written here, and thread 0 of workgroup 0 wrote it"));
  // One work item reads what another writes.
  p.body = {declare(DType::f32, {"x"}), store("O", workgroup() * 4 + lane(), {c(1)}),
            load("O", mod(workgroup() * 4 + lane() + 4, 8), {"x"})};
  EXPECT_THAT(error_of(p), HasSubstr("buffer 'O'"));
  // Reading back one's own is fine.
  p.body[2].index = workgroup() * 4 + lane();
  EXPECT_EQ(error_of(p), "");
  // Only the first work item writes, only the second reads.
  p.body[1].predicate = equal(workgroup(), 0);
  p.body[2].index = lane() + 1;
  p.body[2].predicate = equal(workgroup(), 1);
  EXPECT_THAT(error_of(p), HasSubstr("buffer 'O'[1] is read here, and thread 1 of workgroup 0 wrote it"));
}

TEST(InterpretErrors, IntegersOf32Bits) {
  ThreadProgram p = program(2, 1, 1, {writes("O", {2}, DType::i64)},
                            {declare("big", Expr::symbol("n") * Expr::symbol("n")), store("O", lane(), {i("big")})});
  p.symbols = {"n"};
  EXPECT_THAT(error_of(p, {}, {{"n", 50000}}), HasSubstr("mul(50000, 50000) overflows 32 bits, in 'i64 big = n * n'"));
  EXPECT_EQ(error_of(p, {}, {{"n", 40000}}), "");
  p.body[0] = declare("big", floordiv(lane(), Expr::symbol("n")));
  EXPECT_THAT(error_of(p, {}, {{"n", 0}}), HasSubstr("by zero"));
}

TEST(InterpretErrors, APartUsedInsideAndOutsideASelectIsCheckedForBoth) {
  const Expr quotient = Expr(6) / lane();
  ThreadProgram p = program(2, 1, 1, {writes("O", {2}, DType::i64)},
                            {store("O", lane(), {Expr::select(equal(lane(), 0), Expr(0), quotient)})});
  EXPECT_EQ(error_of(p), "");
  p.body[0].exprs[0] = p.body[0].exprs[0] + quotient;
  EXPECT_THAT(error_of(p), HasSubstr("thread 0 (subgroup 0, lane 0): division of 6 by zero"));
}

TEST(InterpretErrors, Input) {
  ThreadProgram p = program(2, 1, 1, {reads("X", {Expr::symbol("n")})}, {});
  p.symbols = {"n"};
  EXPECT_THAT(error_of(p, {{"X", {1}}}, {}), HasSubstr("symbol 'n' has no value"));
  EXPECT_THAT(error_of(p, {}, {{"n", 1}}), HasSubstr("buffer 'X' has no values"));
  EXPECT_THAT(error_of(p, {{"X", {1}}}, {{"n", 2}}), HasSubstr("buffer 'X' has 1 values, its shape has 2"));
}

TEST(InterpretErrors, MalformedPrograms) {
  ThreadProgram p = program(2, 1, 1, {reads("X", {2})}, {assign("x", c(1))});
  const std::map<std::string, std::vector<double>> x{{"X", {1, 2}}};
  EXPECT_THAT(error_of(p, x), HasSubstr("'x' is not declared, in 'x = 1.0'"));
  p.body = {branch(less(lane(), 1), {declare("x", c(1))}), assign("x", c(1))};
  EXPECT_THAT(error_of(p, x), HasSubstr("'x' is not declared"));
  p.body = {store("X", lane(), {c(1)})};
  EXPECT_THAT(error_of(p, x), HasSubstr("a store to a buffer that is not written"));
  p.body = {declare("x", c(1)), declare("x", c(2))};
  EXPECT_THAT(error_of(p, x), HasSubstr("'x' is declared twice"));
}

}  // namespace
}  // namespace aicf
