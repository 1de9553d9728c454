// The oracle's compiled programs and matrix products against plain loops over mir/support's evaluate().

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>

#include "helpers.h"

namespace aicf {
namespace {

using test::graph_of;
using test::Numbers;
using test::tensor;
using test::values;

/// Node by node, element by element: the definition, with the rounding rules of oracle.h as a hook.
class PlainLoops {
 public:
  explicit PlainLoops(NamedTensors tensors) : tensors_(std::move(tensors)) {}

  void evaluate(const Node& node) {
    std::vector<std::int64_t> shape;
    for (const Axis& axis : node.axes) shape.push_back(*axis.extent.as_int());
    Tensor result(is_float(node.type) ? DType::f64 : node.type, shape);
    std::int64_t flat = 0;
    loop(node.axes, 0, [&] {
      double value = 0;
      if (node.reduce == ReduceOp::none) {
        value = scalar(node.body);
      } else {
        value = neutral(node.reduce, node.type).number();
        const Op op = combine(node.reduce, Expr::value("a", node.type), Expr::value("b", node.type)).op();
        loop(node.reduce_axes, 0, [&] {
          const double args[] = {value, scalar(node.body)};
          value = apply(op, node.type, args);
        });
      }
      result.set(flat++, value);
    });
    tensors_[node.name] = std::move(result);
  }

  const Tensor& at(const std::string& name) const { return tensors_.at(name); }

 private:
  template <class F>
  void loop(const std::vector<Axis>& axes, std::size_t depth, F body) {
    if (depth == axes.size()) return body();
    for (std::int64_t c = 0; c < *axes[depth].extent.as_int(); ++c) {
      coordinates_[axes[depth].name] = c;
      loop(axes, depth + 1, body);
    }
  }

  double scalar(const Expr& body) {
    Environment env;
    env.axis = [&](const std::string& axis) { return static_cast<double>(coordinates_.at(axis)); };
    env.load = [&](const std::string& name, std::span<const std::int64_t> index) {
      const Tensor& t = tensors_.at(name);
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        EXPECT_TRUE(index[d] >= 0 && index[d] < t.shape()[d]) << name;
        flat = flat * t.shape()[d] + index[d];
      }
      return t.at(flat);
    };
    env.round = [](const Expr& node, std::span<const double> args, double result) -> double {
      const bool narrow = is_float(node.type()) && node.type() != DType::f64;
      const auto sentinel = [](double x) { return x <= -1e4; };
      if (narrow && (node.op() == Op::add || node.op() == Op::sub) &&
          (sentinel(args[0]) || sentinel(args[1]) || (node.op() == Op::sub && sentinel(-args[1])))) {
        return static_cast<float>(result);
      }
      if (narrow && node.op() == Op::select && sentinel(result)) return static_cast<float>(result);
      if (narrow && node.op() == Op::log && args[0] >= 0 && args[0] <= 1) {
        return static_cast<float>(std::log(static_cast<double>(static_cast<float>(args[0]))));
      }
      return result;
    };
    return aicf::evaluate(body, env);
  }

  NamedTensors tensors_;
  std::map<std::string, std::int64_t> coordinates_;
};

/// Random bodies over axes i, j, k and the tensors x [7, 9], y [9] (f32), ids [9] (i64, all within [0, 7)).
class Bodies {
 public:
  explicit Bodies(std::uint64_t seed) : numbers_(seed) {}

  Expr index(std::int64_t extent, int depth = 1) {
    const Expr axis = Expr::axis(std::string(1, "ijk"[numbers_.below(3)]));  // extents 5, 4, 3
    switch (numbers_.below(depth > 0 ? 6 : 3)) {
      case 0:
        return axis;
      case 1:
        return axis + numbers_.below(extent - 5 + 1);
      case 2:
        return Expr(extent - 1) - axis;
      case 3:
        return mod(axis * 3 + Expr::axis("j"), Expr(extent));
      case 4:
        return floordiv(axis * 2 + Expr::axis("k") + 1, Expr(2));
      default:
        return Expr::load("ids", {index(9, depth - 1)}, DType::i64);
    }
  }

  Expr condition() {
    switch (numbers_.below(4)) {
      case 0:
        return less(index(7), index(7));
      case 1:
        return less(real(1), real(1));
      case 2:
        return equal(mod(index(7), Expr(2)), Expr(0));
      default:
        return logical_or(less_equal(Expr::axis("i"), Expr::axis("j")), Expr::unary(Op::isnan, real(1)));
    }
  }

  /// x beyond its bounds, guarded.
  Expr guarded() {
    const Expr at = Expr::axis("i") * 2 - numbers_.below(4);
    const Expr inside = logical_and(less_equal(Expr(0), at), less(at, Expr(7)));
    return Expr::select(inside, Expr::load("x", {at, index(9)}, DType::f32) * real(1), real(1));
  }

  Expr real(int depth) {
    if (depth == 0 || numbers_.below(6) == 0) {
      switch (numbers_.below(4)) {
        case 0:
          return Expr::load("y", {index(9)}, DType::f32);
        case 1:
          return Expr::constant(DType::f32, numbers_.below(8) == 0 ? -2e4 : numbers_.real());
        default:
          return Expr::load("x", {index(7), index(9)}, DType::f32);
      }
    }
    const Expr a = real(depth - 1);
    switch (numbers_.below(14)) {
      case 0:
        return a + real(depth - 1);
      case 1:
        return a - real(depth - 1);
      case 2:
        return a * real(depth - 1);
      case 3:
        return Expr::binary(Op::max, a, real(depth - 1));
      case 4:
        return Expr::binary(Op::minnum, a, real(depth - 1));
      case 5:
        return Expr::unary(Op::exp, Expr::binary(Op::min, a, Expr::constant(DType::f32, 3)));
      case 6:
        return Expr::unary(Op::log, Expr::unary(Op::abs, a));
      case 7:
        return Expr::cast(Expr::cast(a, DType::f16), DType::f32);
      case 8:
        return Expr::cast(index(7), DType::f32) / (Expr::unary(Op::abs, a) + Expr::constant(DType::f32, 0.5));
      case 9:
        return Expr::unary(Op::tanh, a) * Expr::unary(Op::sign, real(depth - 1));
      case 10:
        return guarded();
      case 11:
        return Expr::select(condition(), guarded(), a);
      default:
        return Expr::select(condition(), a, real(depth - 1));
    }
  }

 private:
  Numbers numbers_;
};

TEST(OracleCompare, RandomBodies) {
  const std::vector<Axis> axes[] = {{{"i", 5}, {"j", 4}, {"k", 3}}, {{"j", 4}, {"k", 3}}, {{"k", 3}}, {}};
  Numbers numbers;
  NamedTensors inputs{{"x", tensor(DType::f32, {7, 9}, numbers.reals(63))},
                      {"y", tensor(DType::f32, {9}, numbers.reals(9))}};
  std::vector<double> ids;
  for (int n = 0; n < 9; ++n) ids.push_back(static_cast<double>(numbers.below(7)));
  inputs["ids"] = tensor(DType::i64, {9}, ids);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Bodies bodies(seed);
    Graph g;
    g.add_input("x", DType::f32, {{"a", 7}, {"b", 9}});
    g.add_input("y", DType::f32, {{"a", 9}});
    g.add_input("ids", DType::i64, {{"a", 9}});
    const std::size_t reduced = seed % 4;  // 0 … 3 of the axes are reduced
    Node node{.name = "z",
              .axes = {axes[0].begin(), axes[0].end() - static_cast<std::ptrdiff_t>(reduced)},
              .body = bodies.real(4)};
    if (reduced > 0) {
      node.reduce_axes = axes[3 - reduced];
      node.reduce = std::vector{ReduceOp::sum, ReduceOp::max, ReduceOp::minnum}[seed / 4 % 3];
    }
    const NodeId id = g.add(std::move(node));
    g.mark_output(id, "z");
    ASSERT_TRUE(verify(g)) << to_string(g);
    PlainLoops expected(inputs);
    expected.evaluate(g.node(id));
    const auto actual = evaluate_graph(g, {}, inputs, {});
    ASSERT_TRUE(actual) << actual.error().text() << "\n" << to_string(g);
    const auto want = values(expected.at("z")), got = values(actual->at("z"));
    for (std::size_t n = 0; n < want.size(); ++n) {
      if (std::isnan(want[n]) && std::isnan(got[n])) continue;
      if (want[n] == got[n]) continue;
      ASSERT_NEAR(want[n], got[n], 1e-12 * (1 + std::fabs(want[n]))) << "element " << n << " of\n" << to_string(g);
    }
  }
}

/// Products against three nested loops over exactly representable numbers.
void expect_contraction(const std::string& text, const NamedTensors& inputs) {
  const Graph g = graph_of(text);
  PlainLoops expected(inputs);
  expected.evaluate(g.node("y"));
  const auto actual = evaluate_graph(g, {}, inputs, {});
  ASSERT_TRUE(actual) << actual.error().text();
  const auto want = values(expected.at("y")), got = values(actual->at("y"));
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t n = 0; n < want.size(); ++n) ASSERT_DOUBLE_EQ(want[n], got[n]) << n << " of " << text;
}

TEST(OracleCompare, Contractions) {
  Numbers numbers;
  const NamedTensors inputs{{"a", tensor(DType::f32, {3, 21, 35}, numbers.reals(3 * 21 * 35))},
                            {"b", tensor(DType::f32, {3, 19, 35}, numbers.reals(3 * 19 * 35))},
                            {"w", tensor(DType::f32, {35, 19}, numbers.reals(35 * 19))},
                            {"s", tensor(DType::f32, {3, 21}, numbers.reals(63))},
                            {"v", tensor(DType::f32, {35}, numbers.reals(35))}};
  const std::string head =
      "input a: f32[3, 21, 35]\ninput b: f32[3, 19, 35]\ninput w: f32[35, 19]\ninput s: f32[3, 21]\ninput v: f32[35]\n";
  for (const std::string node : {
           "y: f32[h=3, i=21, j=19] = sum(a[h, i, k] * b[h, j, k] over k=35)",
           "y: f32[h=3, i=21, j=19] = sum(a[h, i, k] * w[k, j] over k=35)",
           "y: f32[j=19, i=21, h=3] = sum(b[h, j, k] * a[h, i, k] over k=35)",
           "y: f32[i=21, j=19] = sum(a[h, i, k] * b[h, j, k] over h=3, k=35)",
           "y: f32[i=21, j=19] = sum(b[h, j, k] * a[2 - h, 20 - i, k] over k=35, h=3)",
           // factors outside of the sum, on one operand, and on the reduced axis
           "y: f32[h=3, i=21, j=19] = sum(a[h, i, k] * b[h, j, k] * 0.125 * s[h, i] over k=35)",
           "y: f32[h=3, i=21, j=19] = sum(v[k] * a[h, i, k] * s[h, i] * w[k, j] over k=35)",
           "y: f32[h=3, i=21, j=19] = sum((a[h, i, k] - 0.5) * where(k % 2 == 0, w[k, j], 0.0) over k=35)",
           // reduced axes of one operand only, and of none
           "y: f32[i=21, j=19] = sum(a[h, i, k] * w[k, j] over h=3, k=35)",
           "y: f32[i=21, j=19] = sum(a[0, i, k] * w[k, j] over k=35, r=4)",
           // shifted windows, strides, and a repeated result axis
           "y: f32[i=9, j=19] = sum(a[1, i * 2 + t, k] * w[k + t, j] over t=3, k=33)",
           "y: f32[r=2, i=21, j=19] = sum(a[1, i, k] * w[k, j] over k=35)",
       }) {
    expect_contraction(head + node + "\noutput y as \"y\"", inputs);
  }
}

TEST(OracleCompare, ReductionsAlongEitherAxis) {
  Numbers numbers;
  const NamedTensors inputs{{"x", tensor(DType::f32, {37, 300}, numbers.reals(37 * 300))}};
  for (const std::string node :
       {"y: f32[j=300] = sum(x[i, j] over i=37)", "y: f32[i=37] = sum(x[i, j] over j=300)",
        "y: f32[] = max(x[i, j] over i=37, j=300)", "y: f32[j=300] = min(x[i, j] over i=37)",
        "y: f32[i=37, b=100] = prod(x[i, b * 3 + t] over t=3)", "y: bool[j=300] = any(x[i, j] > 0.99 over i=37)",
        "y: i32[i=37] = sum(i32(x[i, j] * 100.0) over j=300)"}) {
    expect_contraction("input x: f32[37, 300]\n" + node + "\noutput y as \"y\"", inputs);
  }
}

/// Generous: these take a fraction of it on one slow core; without the fast paths they would take minutes.
TEST(OracleCompare, LargeGraphsAreFast) {
  const auto start = std::chrono::steady_clock::now();
  const Graph g = graph_of(R"(
input q: f32[4, 512, 64]
input k: f32[4, 512, 64]
s: f32[h=4, i=512, j=512] = sum(q[h, i, d] * k[h, j, d] over d=64)
t: f32[h=4, i=512, j=512] = where(j <= i, s[h, i, j] * 0.125, -inf)
m: f32[h=4, i=512] = max(t[h, i, j] over j=512)
e: f32[h=4, i=512, j=512] = exp(t[h, i, j] - m[h, i])
l: f32[h=4, i=512] = sum(e[h, i, j] over j=512)
y: f32[h=4, i=512, d=64] = sum(e[h, i, j] * k[h, j, d] / l[h, i] over j=512)
output l as "l")");
  Numbers numbers;
  const std::int64_t n = 4 * 512 * 64;
  const auto out = evaluate_graph(g, {},
                                  {{"q", tensor(DType::f32, {4, 512, 64}, numbers.reals(n))},
                                   {"k", tensor(DType::f32, {4, 512, 64}, numbers.reals(n))}},
                                  {});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at("l").at(0), 1);  // the first row sees one key
  EXPECT_GT(out->at("l").at(511), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace aicf
