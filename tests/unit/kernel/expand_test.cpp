#include <gmock/gmock.h>

#include <chrono>

#include "expand_helpers.h"
#include "sample_kernels.h"

namespace aicf {
namespace {

using namespace aicf::testing;
using ::testing::HasSubstr;
using Kind = ThreadStatement::Kind;

// ---- results against float64 loops -------------------------------------------------------------------------------

TEST(Expand, ElementwiseWithTails) {
  for (const std::int64_t n : {1, 63, 64, 65, 200}) {
    InterpreterInput io;
    io.symbols["n"] = n;
    io.buffers["X"] = random_values(static_cast<std::size_t>(n), 1);
    io.buffers["Y"] = random_values(static_cast<std::size_t>(n), 2);
    io.buffers["out"].assign(static_cast<std::size_t>(n), -9);
    KernelCounts counts;
    ASSERT_EQ(run(parsed(elementwise), io, &counts), "");
    std::vector<double> expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      expected.push_back(io.buffers["X"][i] * io.buffers["Y"][i] + 1);
    expect_near(io.buffers["out"], expected);
    EXPECT_EQ(counts.bytes_read["X"], static_cast<std::uint64_t>(4 * n));
    EXPECT_EQ(counts.bytes_written["out"], static_cast<std::uint64_t>(4 * n));
  }
}

TEST(Expand, RowSoftmaxWithLanesAlongTheReducedAxis) {
  for (const std::int64_t cols : {1, 7, 8, 21}) {
    const std::int64_t rows = 5;
    InterpreterInput io;
    io.symbols = {{"rows", rows}, {"cols", cols}};
    const std::vector<double> x = random_values(static_cast<std::size_t>(rows * cols), 3);
    io.buffers["X"] = x;
    io.buffers["out"].assign(x.size(), -9);
    ASSERT_EQ(run(parsed(softmax), io), "");
    std::vector<double> expected(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(x[static_cast<std::size_t>(r * cols + c)]);
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto i = static_cast<std::size_t>(r * cols + c);
        expected[i] = std::exp(x[i]) / sum;
      }
    }
    expect_near(io.buffers["out"], expected);
  }
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t M, std::int64_t N,
                            std::int64_t K) {
  std::vector<double> c(static_cast<std::size_t>(M * N), 0);
  for (std::int64_t m = 0; m < M; ++m) {
    for (std::int64_t n = 0; n < N; ++n) {
      for (std::int64_t k = 0; k < K; ++k) {
        c[static_cast<std::size_t>(m * N + n)] +=
            a[static_cast<std::size_t>(m * K + k)] * b[static_cast<std::size_t>(k * N + n)];
      }
    }
  }
  return c;
}

TEST(Expand, MatmulWithLaneBroadcast) {
  const Kernel kernel = parsed(broadcast_matmul);
  for (const auto& [M, N, K] :
       std::vector<std::array<std::int64_t, 3>>{{16, 4, 8}, {17, 5, 9}, {3, 11, 20}, {1, 1, 1}}) {
    InterpreterInput io;
    io.symbols = {{"M", M}, {"N", N}, {"K", K}};
    io.buffers["A"] = random_values(static_cast<std::size_t>(M * K), 4);
    io.buffers["B"] = random_values(static_cast<std::size_t>(K * N), 5);
    io.buffers["C"].assign(static_cast<std::size_t>(M * N), -9);
    KernelCounts counts;
    ASSERT_EQ(run(kernel, io, &counts), "");
    expect_near(io.buffers["C"], product(io.buffers["A"], io.buffers["B"], M, N, K));
    EXPECT_GT(counts.shuffles, 0u);
  }
}

TEST(Expand, MatmulStagedInWorkgroupMemory) {
  for (const std::int64_t M : {32, 33, 70}) {
    InterpreterInput io;
    io.symbols = {{"M", M}};
    io.buffers["A"] = random_values(static_cast<std::size_t>(M * 32), 6);
    io.buffers["B"] = random_values(32 * 8, 7);
    io.buffers["C"].assign(static_cast<std::size_t>(M * 8), -9);
    ASSERT_EQ(run(parsed(staged_matmul), io), "");
    expect_near(io.buffers["C"], product(io.buffers["A"], io.buffers["B"], M, 8, 32));
  }
}

/// Attention of rows of width d over n keys; row i sees keys 0 to last(i).
template <class Last>
std::vector<double> attended(const InterpreterInput& io, std::size_t rows, std::size_t n, std::size_t d, double scale,
                             Last last) {
  const auto &q = io.buffers.at("Q"), &k = io.buffers.at("K"), &v = io.buffers.at("V");
  std::vector<double> out(rows * d, 0);
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < n && j <= last(i); ++j) {
      double score = 0;
      for (std::size_t c = 0; c < d; ++c) score += q[i * d + c] * k[j * d + c];
      const double weight = std::exp(scale * score);
      sum += weight;
      for (std::size_t c = 0; c < d; ++c) out[i * d + c] += weight * v[j * d + c];
    }
    for (std::size_t c = 0; c < d; ++c) out[i * d + c] /= sum;
  }
  return out;
}

TEST(Expand, StreamedCausalAttention) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{37}}) {
    InterpreterInput io;
    io.symbols["n"] = static_cast<std::int64_t>(n);
    io.buffers = {{"Q", random_values(8 * n, 1)},
                  {"K", random_values(8 * n, 2)},
                  {"V", random_values(8 * n, 3)},
                  {"out", std::vector<double>(8 * n, -9)}};
    ASSERT_EQ(run(parsed(attention), io), "");
    expect_near(io.buffers["out"], attended(io, n, n, 8, 0.5, [](std::size_t i) { return i; }), 2e-5);
  }
  // The mask's comparison is made once per row and key, the repair once per row; nothing goes through workgroup memory.
  const ThreadProgram program = expanded(attention);
  EXPECT_TRUE(program.shared.empty());
  EXPECT_EQ(count(program, Kind::shuffle), 2 * 8 + 2 * 8);
  EXPECT_EQ(width(program, Kind::load_global), 4u);
}

TEST(Expand, SplitKeysMergeAcrossLanesAndSubgroups) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{45}}) {
    InterpreterInput io;
    io.symbols["n"] = static_cast<std::int64_t>(n);
    io.buffers = {{"Q", random_values(4, 1)},
                  {"K", random_values(4 * n, 2)},
                  {"V", random_values(4 * n, 3)},
                  {"out", std::vector<double>(4, -9)}};
    ASSERT_EQ(run(parsed(decode), io), "");
    expect_near(io.buffers["out"], attended(io, 1, n, 4, 1.0, [&](std::size_t) { return n; }), 2e-5);
  }
}

TEST(Expand, CrossBetweenSubgroups) {
  // Two totals over 64 elements each: 8 lanes and 4 subgroups, mean and sum merged together.
  const char* text = R"(kernel totals work_items 2 subgroup 8 x 4
  for r_tile in grid: base r = workgroup
  buffer X: f32[2, 64]
  buffer out: f32[2] written
  buffer top: f32[2] written
  tile x: f32[r=1, c=64] registers c(lane 8 @1 stride 1, subgroup 4 @1 stride 8, reg 2 stride 32)
  tile s: f32[r=1] registers
  tile m: f32[r=1] registers
  load x <- X[r, c]
  s = 0.0
  m = -inf
  s += x over c
  m max= x over c
  cross s, m lanes 1, 2, 4 subgroups 1, 2: s = a.s + b.s; m = max(a.m, b.m)
  store out[r] <- s = s
  store top[r] <- m = m + 0.0 * s
)";
  InterpreterInput io;
  const std::vector<double> x = random_values(128, 8);
  io.buffers = {{"X", x}, {"out", {0, 0}}, {"top", {0, 0}}};
  ASSERT_EQ(run(parsed(text), io), "");
  for (std::size_t r = 0; r < 2; ++r) {
    double sum = 0, top = -1e9;
    for (std::size_t c = 0; c < 64; ++c) {
      sum += x[r * 64 + c];
      top = std::max(top, x[r * 64 + c]);
    }
    EXPECT_NEAR(io.buffers["out"][r], sum, 1e-4);
    EXPECT_NEAR(io.buffers["top"][r], top, 1e-6);
  }
}

TEST(Expand, OperandsMoveBetweenLanes) {
  // out[i, j] = x[i] - x[j]: x is held once over the lanes and needed by row (own lane) and by column (constant lane);
  // z is needed where the lane bits are permuted.
  const char* text = R"(kernel outer work_items 1 subgroup 8 x 1
  for i_tile in grid: base i = 0
  buffer X: f32[8]
  buffer out: f32[8, 8] written
  buffer swapped: f32[2, 4] written
  tile x: f32[i=8] registers i(lane 8 @1 stride 1)
  tile y: f32[j=8] registers j(lane 8 @1 stride 1)
  tile d: f32[i=8, j=8] registers i(lane 8 @1 stride 1) j(reg 8)
  tile z: f32[p=2, q=4] registers q(lane 4 @1 stride 1) p(lane 2 @4 stride 1)
  tile w: f32[p=2, q=4] registers p(lane 2 @1 stride 1) q(lane 4 @2 stride 1)
  load x <- X[i]
  load y <- X[j]
  d = x - y
  store out[i, j] <- d = d width 4
  load z <- X[4 * p + q]
  w = 2.0 * z
  store swapped[p, q] <- w = w
)";
  InterpreterInput io;
  const std::vector<double> x = random_values(8, 9);
  io.buffers = {{"X", x}, {"out", std::vector<double>(64)}, {"swapped", std::vector<double>(8)}};
  ASSERT_EQ(run(parsed(text), io), "");
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) EXPECT_NEAR(io.buffers["out"][8 * i + j], x[i] - x[j], 1e-6);
    EXPECT_NEAR(io.buffers["swapped"][i], 2 * x[i], 1e-6);
  }
  const ThreadProgram program = expanded(text);
  EXPECT_EQ(count(program, Kind::shuffle), 8 + 1);  // one per column, one for w
}

TEST(Expand, ReplicatedElementsAreStoredOnce) {
  // Every lane holds the scalar; the interpreter reports two writers of one element.
  const char* text = R"(kernel one work_items 1 subgroup 8 x 2
  buffer X: f32[1]
  buffer out: f32[4] written
  tile x: f32[] registers
  tile r: f32[e=4] registers e(reg 4)
  load x <- X[0]
  r = x * 3.0
  store out[e] <- r = r width 4
)";
  InterpreterInput io;
  io.buffers = {{"X", {2}}, {"out", {0, 0, 0, 0}}};
  KernelCounts counts;
  ASSERT_EQ(run(parsed(text), io, &counts), "");
  EXPECT_EQ(io.buffers["out"], (std::vector<double>{6, 6, 6, 6}));
  EXPECT_EQ(counts.bytes_written["out"], 16u);
}

TEST(Expand, TypesOfBuffersAndIndicesFromTiles) {
  // A gather: the row comes from an integer tile; the half precision table is read into f32 registers.
  const char* text = R"(kernel gather work_items 1 subgroup 4 x 1
  buffer ids: i32[4]
  buffer table: f16[8, 4]
  buffer out: f16[4, 4] written
  tile id: i32[t=4] registers t(lane 4 @1 stride 1)
  tile row: f32[t=4, d=4] registers d(reg 4) t(lane 4 @1 stride 1)
  load id <- ids[t]
  load row <- table[id, d] width 4
  store out[t, d] <- row = row * 2.0 width 4
)";
  InterpreterInput io;
  io.buffers["ids"] = {3, 0, 7, 3};
  for (int i = 0; i < 32; ++i) io.buffers["table"].push_back(i * 0.25);
  io.buffers["out"].assign(16, 0);
  ASSERT_EQ(run(parsed(text), io), "");
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_EQ(io.buffers["out"][4 * t + d],
                2 * io.buffers["table"][4 * static_cast<std::size_t>(io.buffers["ids"][t]) + d]);
    }
  }
  const ThreadProgram program = expanded(text);
  EXPECT_EQ(width(program, Kind::load_global), 4u);
  EXPECT_EQ(width(program, Kind::store_global), 4u);
}

TEST(Expand, BranchesAndFirst) {
  // Work item 0 adds its row to the pivot (the first element); item 1 keeps the pivot.
  const char* text = R"(kernel pivot work_items 2 subgroup 4 x 1
  for r_tile in grid: base r = workgroup
  buffer X: f32[2, 8]
  buffer out: f32[2] written
  tile x: f32[r=1, c=8] registers c(lane 4 @1 stride 1, reg 2 stride 4)
  tile p: f32[r=1] registers
  tile q: f32[r=1] registers
  load x <- X[r, c]
  p first= x over c
  q = 0.0
  q += x over c
  cross q lanes 1, 2: q = a.q + b.q
  if r < 1:
    p = p + q
  store out[r] <- p = p
)";
  InterpreterInput io;
  const std::vector<double> x = random_values(16, 10);
  io.buffers = {{"X", x}, {"out", {0, 0}}};
  ASSERT_EQ(run(parsed(text), io), "");
  double sum = x[0];
  for (std::size_t c = 0; c < 8; ++c) sum += x[c];
  EXPECT_NEAR(io.buffers["out"][0], sum, 1e-5);
  EXPECT_NEAR(io.buffers["out"][1], x[8], 1e-6);
}

TEST(Expand, FetchFromWorkgroupMemory) {
  // A transposition through workgroup memory with padded rows.
  const char* text = R"(kernel transpose work_items 1 subgroup 8 x 2
  buffer X: f32[16, 8]
  buffer out: f32[16, 8] written
  tile rows: f32[i=16, j=8] registers j(reg 8) i(lane 8 @1 stride 1, subgroup 2 @1 stride 8)
  tile array: f32[i=16, j=8] workgroup pad 1
  tile columns: f32[i=16, j=8] registers i(reg 8, subgroup 2 @1 stride 8) j(lane 8 @1 stride 1)
  load rows <- X[i, j] width 4
  stage array <- rows
  barrier
  fetch columns <- array
  store out[i, j] <- columns = columns + 1.0
)";
  InterpreterInput io;
  const std::vector<double> x = random_values(128, 11);
  io.buffers = {{"X", x}, {"out", std::vector<double>(128)}};
  ASSERT_EQ(run(parsed(text), io), "");
  std::vector<double> expected;
  for (const double v : x) expected.push_back(v + 1);
  expect_near(io.buffers["out"], expected);
  EXPECT_THAT(run(parsed(replaced(text, "  barrier\n", "")), io), HasSubstr("barrier is missing"));
}

// ---- form of the output ------------------------------------------------------------------------------------------

TEST(Expand, VectorsNeedProof) {
  // n unknown: the predicate may cut a vector.
  EXPECT_EQ(width(expanded(elementwise), Kind::load_global), 1u);
  // 1000 is a multiple of 4: whole vectors or none.
  std::string constant = elementwise;
  for (std::size_t at; (at = constant.find("[n]")) != std::string::npos;) constant.replace(at, 3, "[1000]");
  for (std::size_t at; (at = constant.find("< n")) != std::string::npos;) constant.replace(at, 3, "< 1000");
  EXPECT_EQ(width(expanded(constant), Kind::load_global), 4u);
  EXPECT_EQ(width(expanded(constant), Kind::store_global), 4u);
  InterpreterInput io;
  io.symbols["n"] = 1000;
  io.buffers = {{"X", random_values(1000, 12)}, {"Y", random_values(1000, 13)}, {"out", std::vector<double>(1000)}};
  ASSERT_EQ(run(parsed(constant), io), "");
  for (std::size_t i = 0; i < 1000; ++i)
    EXPECT_NEAR(io.buffers["out"][i], io.buffers["X"][i] * io.buffers["Y"][i] + 1, 1e-6);
  // A base that is not a multiple of 4.
  EXPECT_EQ(width(expanded(replaced(constant, "workgroup * 64", "workgroup * 62")), Kind::load_global), 2u);
  // Staged tiles: global and shared accesses of 4 elements, also when read as operands.
  const ThreadProgram staged = expanded(staged_matmul);
  EXPECT_EQ(width(staged, Kind::load_global), 4u);
  EXPECT_EQ(width(staged, Kind::store_shared), 4u);
  EXPECT_EQ(width(staged, Kind::load_shared), 4u);
}

TEST(Expand, BroadcastsServeEveryResult) {
  // 8 k x 4 n elements of b, each broadcast once for both row blocks; 2 * 4 * 8 products.
  const ThreadProgram program = expanded(broadcast_matmul);
  EXPECT_EQ(count(program, Kind::shuffle), 32);
  int products = 0;
  for_each_statement(program.body, [&](const ThreadStatement& s) {
    products += s.kind == Kind::assign && s.names[0].starts_with("c_");
  });
  EXPECT_EQ(products, 64);
}

TEST(Expand, PredicatesThatBasesDecideAreDropped) {
  // The base is at most 48 and the tile 16 long: always inside 64.
  const char* text = R"(kernel inside work_items 4 subgroup 8 x 1
  for i_tile in grid: base i = workgroup % 4 * 16
  buffer X: f32[64]
  buffer out: f32[64] written
  tile x: f32[i=16] registers i(lane 8 @1 stride 1, reg 2 stride 8)
  load x <- X[i] if i < 64 else 0.0
  store out[i] <- x = x if i < 64
)";
  for_each_statement(expanded(text).body, [](const ThreadStatement& s) { EXPECT_FALSE(s.predicate) << s.buffer; });
  int guarded = 0;
  const std::string tail = replaced(replaced(text, "< 64 else", "< 60 else"), "if i < 64\n", "if i < 60\n");
  for_each_statement(expanded(tail).body, [&](const ThreadStatement& s) { guarded += static_cast<bool>(s.predicate); });
  EXPECT_EQ(guarded, 2);  // the load and the store of elements 8 to 15; the others end at 48 + 7
}

TEST(Expand, RangesOfAxesDoNotBoundSymbols) {
  // Another kernel of the region has an axis named like the symbol. Registers 1 to 3 hold elements from 8 on.
  std::string text = replaced(elementwise, "  symbols n\n", "  symbols n\n  range n 0 .. 8\n");
  const std::string spread = "(reg 4, lane 8 @1 stride 4,";
  while (text.contains(spread)) text = replaced(text, spread, "(reg 4 stride 8, lane 8 @1 stride 1,");
  const std::int64_t n = 200;
  InterpreterInput io;
  io.symbols["n"] = n;
  for (const char* name : {"X", "Y"}) io.buffers[name] = random_values(n, 1);
  io.buffers["out"].assign(n, -9);
  ASSERT_EQ(run(parsed(text), io), "");
  EXPECT_EQ(std::ranges::count(io.buffers["out"], -9), 0);
}

TEST(Expand, WhatNothingReadsIsNotEmitted) {
  const char* text = R"(kernel dead work_items 1 subgroup 8 x 1
  buffer X: f32[8, 4]
  buffer out: f32[8] written
  tile x: f32[i=8, j=4] registers j(reg 4) i(lane 8 @1 stride 1)
  tile unused: f32[i=8, j=4] registers j(reg 4) i(lane 8 @1 stride 1)
  tile s: f32[i=8] registers i(lane 8 @1 stride 1)
  load x <- X[i, j]
  unused = exp(x)
  s first= x over j
  store out[i] <- s = s
)";
  const ThreadProgram program = expanded(text);
  EXPECT_EQ(count(program, Kind::load_global), 1);
  EXPECT_THAT(to_string(program), ::testing::Not(HasSubstr("exp")));
}

TEST(Expand, SharedArraysAreDisjointAndAligned) {
  const ThreadProgram program = expanded(staged_matmul);
  ASSERT_EQ(program.shared.size(), 2u);
  EXPECT_EQ(program.shared[0].elements, 32 * 12);
  EXPECT_EQ(program.shared[1].elements, 64);
  EXPECT_EQ(program.shared[0].byte_offset, 0);
  EXPECT_EQ(program.shared[1].byte_offset, 32 * 12 * 4);
}

TEST(Expand, LargeKernelsExpandQuickly) {
  std::string text = replaced(broadcast_matmul, "tile a: f32[m=16, k=8] registers k(reg 8)",
                              "tile a: f32[m=16, k=64] registers k(reg 64)");
  text = replaced(text,
                  "tile b: f32[k=8, n=4] registers n(reg 2, lane 2 @1 stride 2) k(lane 4 @2 stride 1, reg 2 stride 4)",
                  "tile b: f32[k=64, n=64] registers n(reg 2, lane 2 @1 stride 2, reg 16 stride 4) k(lane 4 @2 stride "
                  "1, reg 16 stride 4)");
  text = replaced(text, "tile c: f32[m=16, n=4] registers n(reg 4)", "tile c: f32[m=16, n=64] registers n(reg 64)");
  const Kernel kernel = parsed(text);
  const auto start = std::chrono::steady_clock::now();
  const Result<ThreadProgram> program = expand(kernel);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(program) << program.error().text();
  EXPECT_GT(count(*program, Kind::assign), 8000);
  EXPECT_LT(seconds, 5.0);  // well under a second optimised
}

}  // namespace
}  // namespace aicf
