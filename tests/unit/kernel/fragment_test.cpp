// Matrix fragments: layouts of named units, products by units of either kind, repair of accumulators.

#include "mir/kernel/fragments.h"

#include <gmock/gmock.h>

#include "expand_helpers.h"
#include "fragment_kernels.h"
#include "mir/kernel/distribution.h"
#include "mir/kernel/expand_plan.h"
#include "mir/kernel/expand_state.h"

namespace aicf {
namespace {

using namespace aicf::testing;
using ::testing::HasSubstr;
using Kind = ThreadStatement::Kind;

// ---- named layouts -----------------------------------------------------------------------------------------------

KernelTile fragment_tile(MatrixUse use, TileAxis rows, TileAxis columns, DType type = DType::f16) {
  KernelTile t;
  t.name = std::string(name(use));
  t.type = type;
  t.axes = {rows, columns};
  t.distribution = fragment_distribution(*matrix_unit("m16n8k16"), use, rows, columns);
  return t;
}

// The tables of the PTX ISA, written out: with g = lane / 4 and t = lane % 4, the element of each register.
TEST(Fragment, LayoutsOfM16N8K16) {
  const MatrixUnit& unit = *matrix_unit("m16n8k16");
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const auto expect = [&](const Distribution& d, const char* row, const char* column, int reg, int r, int c) {
      EXPECT_EQ(coordinate(d, row, {reg, lane, 0}), r) << lane << " " << reg;
      EXPECT_EQ(coordinate(d, column, {reg, lane, 0}), c) << lane << " " << reg;
    };
    const int a[8][2] = {{g, 2 * t},     {g, 2 * t + 1},     {g + 8, 2 * t},     {g + 8, 2 * t + 1},
                         {g, 2 * t + 8}, {g, 2 * t + 8 + 1}, {g + 8, 2 * t + 8}, {g + 8, 2 * t + 8 + 1}};
    const int b[4][2] = {{2 * t, g}, {2 * t + 1, g}, {2 * t + 8, g}, {2 * t + 9, g}};
    const int c[4][2] = {{g, 2 * t}, {g, 2 * t + 1}, {g + 8, 2 * t}, {g + 8, 2 * t + 1}};
    for (int r = 0; r < 8; ++r) expect(unit.a, "m", "k", r, a[r][0], a[r][1]);
    for (int r = 0; r < 4; ++r) expect(unit.b, "k", "n", r, b[r][0], b[r][1]);
    for (int r = 0; r < 4; ++r) expect(unit.c, "m", "n", r, c[r][0], c[r][1]);
  }
  for (const MatrixUse use : {MatrixUse::a, MatrixUse::b, MatrixUse::c}) {
    const KernelTile t = fragment_tile(use, {"r", 3 * unit.shape.rows(use)}, {"c", 2 * unit.shape.columns(use)});
    EXPECT_TRUE(covers(t, 32, 1)) << name(use);
  }
}

// Two adjacent n8 accumulators are one k16 operand: each register where it is, in the same order.
TEST(Fragment, AccumulatorIsTheNextOperand) {
  const KernelTile from = fragment_tile(MatrixUse::c, {"m", 16}, {"n", 16}, DType::f32);
  const KernelTile to = fragment_tile(MatrixUse::a, {"m", 16}, {"n", 16});
  EXPECT_EQ(classify_conversion(from, to), Conversion::renaming);
  EXPECT_TRUE(equivalent(from, to));
  const Result<FetchPlan> plan = plan_fetch(from, CoordinateSpace::of(to));
  ASSERT_TRUE(plan);
  const std::vector<Coordinates> registers = register_coordinates(to);
  for (std::size_t r = 0; r < registers.size(); ++r)
    EXPECT_EQ(plan->register_at(registers[r]), static_cast<std::int64_t>(r));
  // Not so as the other operand, and not with rows and columns exchanged.
  EXPECT_NE(classify_conversion(from, fragment_tile(MatrixUse::b, {"m", 16}, {"n", 16})), Conversion::renaming);
  EXPECT_NE(classify_conversion(from, fragment_tile(MatrixUse::a, {"n", 16}, {"m", 16})), Conversion::renaming);
}

TEST(Fragment, NamesOfShapesAndKinds) {
  EXPECT_EQ(matrix_unit("m16n8k8"), nullptr);
  const auto kind = parse_opaque_kind("m16n32k4.b");
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->rows(), 4);
  EXPECT_EQ(kind->columns(), 32);
  for (const char* bad : {"m16n8k16", "m16n8k16.d", "m16n8.a", "m16n7k16.a", "m16n8k16x.a", "m0n8k16.a", "m512n8k8.a"})
    EXPECT_FALSE(parse_opaque_kind(bad)) << bad;
}

// ---- products ----------------------------------------------------------------------------------------------------

/// c + a b in the order of a unit: exact products of f16 added in f32 over ascending k.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& c,
                            std::size_t M, std::size_t N, std::size_t K, bool b_transposed) {
  std::vector<double> out(M * N);
  for (std::size_t m = 0; m < M; ++m) {
    for (std::size_t n = 0; n < N; ++n) {
      double sum = c[m * N + n];
      for (std::size_t k = 0; k < K; ++k)
        sum = static_cast<float>(sum + a[m * K + k] * (b_transposed ? b[n * K + k] : b[k * N + n]));
      out[m * N + n] = sum;
    }
  }
  return out;
}

std::vector<double> halves(std::size_t count, unsigned seed) {
  std::vector<double> values = random_values(count, seed);
  for (double& v : values) v = round_to(DType::f16, v);
  return values;
}

InterpreterInput operands(std::size_t M, std::size_t N, std::size_t K) {
  InterpreterInput io;
  io.buffers = {{"A", halves(M * K, 1)}, {"B", halves(K * N, 2)}, {"C0", random_values(M * N, 3)}};
  io.buffers["C"].assign(M * N, -9);
  return io;
}

TEST(Fragment, NamedProduct) {
  InterpreterInput io = operands(16, 8, 16);
  KernelCounts counts;
  ASSERT_EQ(run(parsed(named), io, &counts), "");
  EXPECT_EQ(io.buffers["C"], product(io.buffers["A"], io.buffers["B"], io.buffers["C0"], 16, 8, 16, false));
  EXPECT_EQ(counts.multiplies, 1u);
  // And close to float64.
  std::vector<double> exact(16 * 8);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    exact[i] = io.buffers["C0"][i];
    for (std::size_t k = 0; k < 16; ++k) exact[i] += io.buffers["A"][i / 8 * 16 + k] * io.buffers["B"][k * 8 + i % 8];
  }
  expect_near(io.buffers["C"], exact);
}

TEST(Fragment, NamedProductOfBf16) {
  std::string text = named;
  for (std::size_t at = 0; (at = text.find(" f16", at)) != std::string::npos; at += 5) text.insert(at + 1, "b");
  InterpreterInput io = operands(16, 8, 16);
  for (const char* operand : {"A", "B"}) {
    for (double& v : io.buffers[operand]) v = round_to(DType::bf16, v);
  }
  ASSERT_EQ(run(parsed(text), io), "");
  EXPECT_EQ(io.buffers["C"], product(io.buffers["A"], io.buffers["B"], io.buffers["C0"], 16, 8, 16, false));
}

TEST(Fragment, OpaqueProductOfBlocks) {
  const Kernel kernel = parsed(blocked);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    InterpreterInput io = operands(128, 16, 32);
    io.symbols["rows"] = 128;
    io.layout_seed = seed;
    KernelCounts counts;
    ASSERT_EQ(run(kernel, io, &counts), "");
    EXPECT_EQ(io.buffers["C"], product(io.buffers["A"], io.buffers["B"], io.buffers["C0"], 128, 16, 32, true)) << seed;
    EXPECT_EQ(counts.multiplies, 2u * 2u * 8u);
  }
}

TEST(Fragment, OpaqueProductInALoop) {
  const Kernel kernel = parsed(looped);
  for (const std::size_t depth : {std::size_t{0}, std::size_t{16}, std::size_t{48}}) {
    InterpreterInput io = operands(32, 8, depth);
    io.symbols = {{"rows", 32}, {"depth", static_cast<std::int64_t>(depth)}};
    io.layout_seed = depth;
    ASSERT_EQ(run(kernel, io), "");
    EXPECT_EQ(io.buffers["C"],
              product(io.buffers["A"], io.buffers["B"], std::vector<double>(32 * 8, 0), 32, 8, depth, false));
  }
}

// The operand of the second product is the first one's accumulator, renamed; nothing moves between lanes.
TEST(Fragment, ChainedNamedProducts) {
  const char* text = R"(kernel chained work_items 1 subgroup 32 x 1
  buffer A: f16[16, 16]
  buffer B: f16[16, 16]
  buffer V: f16[16, 8]
  buffer out: f32[16, 8] written
  tile a: f16[q=16, d=16] registers d(reg 2) q(reg 2 stride 8) d(reg 2 stride 8, lane 4 @1 stride 2) q(lane 8 @4 stride 1)
  tile b: f16[d=16, k=16] registers d(reg 2, reg 2 stride 8, lane 4 @1 stride 2) k(lane 8 @4 stride 1, reg 2 stride 8)
  tile v: f16[k=16, e=8] registers k(reg 2, reg 2 stride 8, lane 4 @1 stride 2) e(lane 8 @4 stride 1)
  tile s: f32[q=16, k=16] registers k(reg 2) q(reg 2 stride 8) k(lane 4 @1 stride 2) q(lane 8 @4 stride 1) k(reg 2 stride 8)
  tile p: f16[q=16, k=16] registers k(reg 2) q(reg 2 stride 8) k(reg 2 stride 8, lane 4 @1 stride 2) q(lane 8 @4 stride 1)
  tile o: f32[q=16, e=8] registers e(reg 2) q(reg 2 stride 8) e(lane 4 @1 stride 2) q(lane 8 @4 stride 1)
  load a <- A[q, d] width 2
  load b <- B[d, k]
  load v <- V[k, e]
  s = 0.0
  multiply s += a * b unit m16n8k16
  p = f16(s)
  o = 0.0
  multiply o += p * v unit m16n8k16
  store out[q, e] <- o = o width 2
)";
  InterpreterInput io;
  io.buffers = {{"A", halves(256, 1)}, {"B", halves(256, 2)}, {"V", halves(128, 3)}};
  io.buffers["out"].assign(128, -9);
  KernelCounts counts;
  ASSERT_EQ(run(parsed(text), io, &counts), "");
  std::vector<double> p = product(io.buffers["A"], io.buffers["B"], std::vector<double>(256, 0), 16, 16, 16, false);
  for (double& x : p) x = round_to(DType::f16, x);
  EXPECT_EQ(io.buffers["out"], product(p, io.buffers["V"], std::vector<double>(128, 0), 16, 8, 16, false));
  EXPECT_EQ(counts.shuffles, 0u);
  EXPECT_EQ(counts.barriers, 0u);
  EXPECT_EQ(counts.multiplies, 3u);
}

// ---- repair by row -----------------------------------------------------------------------------------------------

std::vector<double> repaired(const InterpreterInput& io) {
  const std::vector<double>&a = io.buffers.at("A"), &b = io.buffers.at("B");
  std::vector<double> c = product(a, b, std::vector<double>(128, 0), 16, 8, 16, false);
  for (std::size_t i = 0; i < 128; ++i) c[i] = static_cast<float>(c[i] * io.buffers.at("R")[i / 8]);
  return product(a, b, c, 16, 8, 16, false);
}

InterpreterInput repair_operands(std::uint64_t seed) {
  InterpreterInput io = operands(16, 8, 16);
  io.buffers.erase("C0");
  io.buffers["R"] = random_values(16, 9);
  io.layout_seed = seed;
  return io;
}

TEST(Fragment, RepairByRowOfANamedAccumulator) {
  InterpreterInput io = repair_operands(0);
  KernelCounts counts;
  ASSERT_EQ(run(parsed(named_repair), io, &counts), "");
  EXPECT_EQ(io.buffers["C"], repaired(io));
  EXPECT_EQ(counts.shuffles + counts.shared_loads, 0u);
}

TEST(Fragment, RepairByRowThroughWorkgroupMemory) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    InterpreterInput io = repair_operands(seed);
    KernelCounts counts;
    ASSERT_EQ(run(parsed(opaque_repair), io, &counts), "");
    EXPECT_EQ(io.buffers["C"], repaired(io)) << seed;
    EXPECT_EQ(counts.barriers, 3u);
    // Two subgroups that hold the same: one of them stores.
    InterpreterInput twice = repair_operands(seed);
    ASSERT_EQ(run(parsed(replaced(opaque_repair, "subgroup 8 x 1", "subgroup 8 x 2")), twice, &counts), "");
    EXPECT_EQ(twice.buffers["C"], io.buffers["C"]) << seed;
    EXPECT_EQ(counts.bytes_written["C"], 16u * 8u * 4u);
  }
}

/// Past verify(): what a kernel gives that trusts one layout.
std::vector<double> forced(const Kernel& kernel, std::uint64_t seed) {
  InterpreterInput io = repair_operands(seed);
  const ThreadProgram program = expansion::Expander(kernel).run();
  const Result<KernelCounts> counts = interpret(program, io);
  EXPECT_TRUE(counts) << counts.error().text();
  return io.buffers["C"];
}

TEST(Fragment, CodeThatTrustsALayoutDependsOnTheSeed) {
  std::string text = opaque_repair;
  const std::size_t first = text.find("  stage w <- c"), last = text.find("  multiply c", first);
  text.replace(first, last - first, "  c = c * f32(lane + 1)\n");
  const Kernel illegal = parsed(text);
  ASSERT_FALSE(verify(illegal));
  EXPECT_EQ(forced(illegal, 1), forced(illegal, 1));
  EXPECT_NE(forced(illegal, 1), forced(illegal, 2));
  // A uniform map in its place does not.
  const Kernel legal = parsed(replaced(text, "f32(lane + 1)", "3.0"));
  ASSERT_TRUE(verify(legal));
  EXPECT_EQ(forced(legal, 1), forced(legal, 2));
}

TEST(Fragment, UniformMaps) {
  InterpreterInput io;
  io.symbols["n"] = 2;
  io.layout_seed = 3;
  io.buffers = {{"C0", random_values(64, 5)}, {"S", {4.0}}, {"C", std::vector<double>(64, -9)}};
  ASSERT_EQ(run(parsed(maps), io), "");
  std::vector<double> expected(64);
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) expected[j * 8 + i] = 2 * io.buffers["C0"][i * 8 + j] - 1.5;
  }
  expect_near(io.buffers["C"], expected);
}

// ---- mutants -----------------------------------------------------------------------------------------------------

TEST(Fragment, MutantsGiveOtherResults) {
  const auto result = [](const std::string& text) {
    InterpreterInput io = repair_operands(4);
    const std::string message = run(parsed(text), io);
    EXPECT_EQ(message, "");
    return io.buffers["C"];
  };
  const std::vector<double> right = result(opaque_repair);
  EXPECT_NE(result(replaced(opaque_repair, "A[m, k]", "A[k, m]")), right);
  EXPECT_NE(result(replaced(opaque_repair, "  fetch c <- w\n", "")), right);
  EXPECT_NE(result(replaced(named_repair, "  c = c * r\n", "")), result(named_repair));

  // Registers of one operand exchanged in the expanded program.
  Result<ThreadProgram> program = expand(parsed(named));
  ASSERT_TRUE(program);
  for (ThreadStatement& s : program->body) {
    if (s.kind == Kind::multiply) std::swap(s.exprs[1], s.exprs[2]);
  }
  InterpreterInput io = operands(16, 8, 16), good = io;
  ASSERT_TRUE(interpret(*program, io));
  ASSERT_EQ(run(parsed(named), good), "");
  EXPECT_NE(io.buffers["C"], good.buffers["C"]);

  // A product that some lanes do not reach; an operand that is not there.
  ThreadProgram divergent = *program;
  for (ThreadStatement& s : divergent.body) {
    if (s.kind != Kind::multiply) continue;
    ThreadStatement branch;
    branch.kind = Kind::branch;
    branch.predicate = less(Expr::symbol("lane"), 16);
    branch.body = {s};
    s = branch;
  }
  Result<KernelCounts> counts = interpret(divergent, io);
  ASSERT_FALSE(counts);
  EXPECT_THAT(counts.error().text(), HasSubstr("thread 16 (subgroup 0, lane 16): a matrix product that this lane"));
  ThreadProgram undefined = *program;
  std::erase_if(undefined.body,
                [](const ThreadStatement& s) { return s.kind == Kind::load_global && s.buffer == "B"; });
  counts = interpret(undefined, io);
  ASSERT_FALSE(counts);
  EXPECT_THAT(counts.error().text(), HasSubstr("'b_0' is read before it is defined"));
}

}  // namespace
}  // namespace aicf
