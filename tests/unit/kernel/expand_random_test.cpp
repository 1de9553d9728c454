// Random distributions: out[i, j] = sum over k of x[i, k] * y[k, j] (+ x's row sum), whatever holds what. Every kernel
// that verify() accepts must give the right result without complaint of the interpreter.

#include <algorithm>

#include "expand_helpers.h"
#include "mir/kernel/expand_plan.h"

namespace aicf {
namespace {

using namespace aicf::testing;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  /// A tile over `axes` with lane and subgroup bits given out at random; the rest in registers.
  KernelTile tile(std::string name, std::vector<TileAxis> axes, int lane_bits, int subgroup_bits) {
    KernelTile t;
    t.name = std::move(name);
    t.axes = std::move(axes);
    std::vector<std::pair<Level, std::int64_t>> free;
    for (int b = 0; b < lane_bits; ++b) free.emplace_back(Level::lane, std::int64_t{1} << b);
    for (int b = 0; b < subgroup_bits; ++b) free.emplace_back(Level::subgroup, std::int64_t{1} << b);
    for (const TileAxis& axis : t.axes) {
      std::int64_t stride = 1, rest = axis.extent;
      while (rest > 1) {
        Factor f{axis.name, Level::reg, 2, stride, 1};
        if (rest % 2 != 0) {
          f.size = rest;
        } else if (!free.empty() && chance(60)) {
          const auto pick = static_cast<std::size_t>(below(static_cast<std::int64_t>(free.size())));
          f.level = free[pick].first;
          f.position = free[pick].second;
          free.erase(free.begin() + static_cast<std::ptrdiff_t>(pick));
        }
        t.distribution.factors.push_back(f);
        stride *= f.size;
        rest /= f.size;
      }
    }
    std::shuffle(t.distribution.factors.begin(), t.distribution.factors.end(), random_);
    return t;
  }

 private:
  std::mt19937 random_;
};

KernelOp simple(KernelOp::Kind kind, std::string tile = {}, Expr expr = {}) {
  KernelOp op;
  op.kind = kind;
  op.tile = std::move(tile);
  op.expr = std::move(expr);
  return op;
}

TEST(ExpandRandom, ContractionsUnderAnyDistribution) {
  using Kind = KernelOp::Kind;
  int accepted = 0, crossed = 0, staged = 0, shuffled = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Generator g(seed);
    const int lane_bits = 1 + static_cast<int>(g.below(3)), subgroup_bits = static_cast<int>(g.below(3));
    const std::int64_t I = std::int64_t{1} << g.below(4),
                       J = std::vector<std::int64_t>{1, 2, 4, 6}[static_cast<std::size_t>(g.below(4))];
    const std::int64_t K = std::vector<std::int64_t>{1, 4, 8, 12}[static_cast<std::size_t>(g.below(4))];
    Kernel kernel;
    kernel.name = "random";
    kernel.workgroups = 1;
    kernel.subgroup_size = 1 << lane_bits;
    kernel.subgroups = 1 << subgroup_bits;
    kernel.buffers = {
        {"X", DType::f32, {I, K}, false}, {"Y", DType::f32, {K, J}, false}, {"out", DType::f32, {I, J}, true}};
    const std::vector<TileAxis> ik{{"i", I}, {"k", K}}, kj{{"k", K}, {"j", J}}, ij{{"i", I}, {"j", J}};
    kernel.tiles = {g.tile("x", ik, lane_bits, subgroup_bits), g.tile("y", kj, lane_bits, subgroup_bits),
                    g.tile("r", ij, lane_bits, subgroup_bits)};
    const auto load = [&](const std::string& tile, const std::string& buffer, std::vector<Expr> index) {
      KernelOp op = simple(Kind::load, tile);
      op.buffer = buffer;
      op.index = std::move(index);
      op.vector_width = 1 << g.below(3);
      kernel.body.push_back(op);
    };
    load("x", "X", {Expr::axis("i"), Expr::axis("k")});
    load("y", "Y", {Expr::axis("k"), Expr::axis("j")});
    // Either operand may go through workgroup memory.
    std::map<std::string, std::string> source{{"x", "x"}, {"y", "y"}};
    for (const std::string name : {"x", "y"}) {
      if (!g.chance(35)) continue;
      KernelTile array;
      array.name = name + "_array";
      array.axes = kernel.tile(name).axes;
      array.space = Space::workgroup;
      array.row_padding = g.below(5);
      kernel.tiles.push_back(array);
      KernelOp stage = simple(Kind::to_workgroup, array.name);
      stage.source = name;
      kernel.body.push_back(stage);
      source[name] = array.name;
    }
    if (source["x"] != "x" || source["y"] != "y") kernel.body.push_back(simple(Kind::barrier));
    kernel.body.push_back(simple(Kind::compute, "r", Expr::constant(DType::f32, 0)));
    KernelOp sum =
        simple(Kind::reduce, "r", Expr::value(source["x"], DType::f32) * Expr::value(source["y"], DType::f32));
    sum.reduce = ReduceOp::sum;
    sum.over = {"k"};
    kernel.body.push_back(sum);
    const Result<CoordinateSpace> space = reduction_space(kernel, sum);
    ASSERT_TRUE(space) << space.error().text();
    KernelOp cross = simple(Kind::cross);
    cross.states = {"r"};
    cross.merge = {{"r", Expr::value("a.r", DType::f32) + Expr::value("b.r", DType::f32)}};
    for (const Factor& f : space->slots.back().threads) {
      for (std::int64_t bit = 1; bit < f.size; bit *= 2)
        (f.level == Level::lane ? cross.lane_masks : cross.subgroup_masks).push_back(bit * f.position);
    }
    if (!cross.lane_masks.empty() || !cross.subgroup_masks.empty()) kernel.body.push_back(cross);
    KernelOp store = simple(Kind::store, "r", Expr::value("r", DType::f32));
    store.buffer = "out";
    store.index = {Expr::axis("i"), Expr::axis("j")};
    store.vector_width = 1 << g.below(3);
    kernel.body.push_back(store);

    const std::string text = to_string(kernel);
    const Result<Kernel> again = parse_kernel(text);
    ASSERT_TRUE(again) << again.error().text() << "\n" << text;
    ASSERT_EQ(to_string(*again), text);
    const Result<void> verified = verify(kernel);
    if (!verified) {
      ASSERT_NE(verified.error().message.find("in a lane that does not hold it"), std::string::npos)
          << verified.error().text() << "\n"
          << text;
      continue;
    }
    ++accepted;
    crossed += !cross.lane_masks.empty() || !cross.subgroup_masks.empty();
    staged += source["x"] != "x" || source["y"] != "y";
    InterpreterInput io;
    const std::vector<double> x = random_values(static_cast<std::size_t>(I * K), seed),
                              y = random_values(static_cast<std::size_t>(K * J), seed + 1);
    io.buffers = {{"X", x}, {"Y", y}, {"out", std::vector<double>(static_cast<std::size_t>(I * J), -9)}};
    KernelCounts counts;
    ASSERT_EQ(run(kernel, io, &counts), "") << text;
    shuffled += counts.shuffles > 0;
    std::vector<double> expected(static_cast<std::size_t>(I * J), 0);
    for (std::int64_t i = 0; i < I; ++i) {
      for (std::int64_t j = 0; j < J; ++j) {
        for (std::int64_t k = 0; k < K; ++k) {
          expected[static_cast<std::size_t>(i * J + j)] +=
              x[static_cast<std::size_t>(i * K + k)] * y[static_cast<std::size_t>(k * J + j)];
        }
      }
    }
    expect_near(io.buffers["out"], expected);
    if (HasFatalFailure()) FAIL() << text;
  }
  // The generator reaches every way of delivery.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(crossed, 15);
  EXPECT_GT(staged, 40);
  EXPECT_GT(shuffled, 30);
}

}  // namespace
}  // namespace aicf
