#include "tests/unit/backends/emit_cases.h"

#include <cmath>
#include <limits>

#include "tests/unit/kernel/thread_builder.h"

namespace aicf::emit_cases {
namespace {

using namespace thread_builder;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::nan("");

std::vector<double> ramp(int count, double start, double step) {
  std::vector<double> v;
  for (int k = 0; k < count; ++k) v.push_back(start + step * k);
  return v;
}

/// Linear thread in the workgroup.
Expr thread(int size) {
  return subgroup() * size + lane();
}

Expr to_f32(const Expr& e) {
  return Expr::cast(e, DType::f32);
}

/// Names that languages reserve, or that are no identifiers, in every role.
Case names() {
  Case c;
  c.name = "names";
  c.program = [](int size, int subgroups) {
    const Expr t = workgroup() * (size * subgroups) + thread(size);
    const Expr n = Expr::symbol("int");
    ThreadProgram p = program(
        size, subgroups, Expr::symbol("buffer"),
        {reads("/layer.0/input:0", {n}), reads("layer_0_input_0", {n}), reads("input", {n}), writes("été\n\\", {n})},
        {});
    p.symbols = {"buffer", "int"};
    const Expr in_range = less(t, n);
    p.body = {comment("comment with a backslash \\\nand a second line"),
              declare(DType::f32, {"float", "in", "threadIdx"}),
              load("/layer.0/input:0", t, {"float"}, in_range, thread_builder::c(0)),
              load("layer_0_input_0", t, {"in"}, in_range, thread_builder::c(0)),
              load("input", t, {"threadIdx"}, in_range, thread_builder::c(0)),
              declare("m'", f("float") - f("in")),
              declare("main", f("m'") * f("threadIdx")),
              store("été\n\\", t, {f("main")}, in_range)};
    return p;
  };
  c.symbols = {{"buffer", 3}, {"int", 70}};
  c.buffers = {
      {"/layer.0/input:0", ramp(70, 0, 0.5)}, {"layer_0_input_0", ramp(70, 3, 1)}, {"input", ramp(70, -20, 1)}};
  return c;
}

/// Vector loads and stores with tails, in a loop over columns.
Case vectors() {
  Case c;
  c.name = "vectors";
  c.program = [](int size, int subgroups) {
    const Expr n = Expr::symbol("n"), rows = Expr::symbol("rows"), row = thread(size);
    ThreadProgram p = program(
        size, subgroups, 1,
        {reads("X", {rows, n}), reads("I", {rows, n}, DType::i32), writes("Y", {rows, n}), writes("S", {rows, 2})}, {});
    p.symbols = {"rows", "n"};
    const Expr start = row * n + Expr::symbol("j");
    const Expr inside = less(row, rows);
    p.body = {declare("sum", thread_builder::c(0)), declare("last", thread_builder::c(0)),
              loop("j", 0, n, 4,
                   {declare(DType::f32, {"a", "b", "c", "d"}), declare(DType::i32, {"e", "g"}),
                    load("X", start, {"a", "b", "c", "d"}, inside, thread_builder::c(-1)),
                    load("I", start + 2, {"e", "g"}, inside, Expr::integer(7, DType::i32)),
                    assign("sum",
                           f("sum") + ((f("a") + f("b")) + (f("c") - (f("d") - to_f32(Expr::value("e", DType::i32)))))),
                    assign("last", to_f32(Expr::value("g", DType::i32))),
                    store("Y", start, {f("d"), f("c"), f("b") * thread_builder::c(2), -f("a")}, inside)}),
              store("S", row * 2, {f("sum"), f("last")}, inside)};
    return p;
  };
  c.symbols = {{"rows", 19}, {"n", 12}};
  c.buffers = {{"X", ramp(19 * 12, -9, 0.25)}, {"I", ramp(19 * 12, -100, 3)}};
  return c;
}

Case shuffles() {
  Case c;
  c.name = "shuffles";
  c.program = [](int size, int subgroups) {
    ThreadProgram p = program(size, subgroups, 2, {writes("O", {2, 6, size * subgroups})}, {});
    const int threads = size * subgroups;
    const Expr t = thread(size);
    p.body = {declare("x", to_f32(workgroup() * 1000 + t * t)),
              shuffle("fixed", f("x"), Expr(3)),
              shuffle("turned", f("x"), mod(lane() * 3 + 1, size)),
              shuffle_xor("near", f("x"), 1),
              shuffle_xor("far", f("x"), size / 2),
              shuffle("flag", less(f("x"), thread_builder::c(50)), mod(lane() + 1, size)),
              shuffle_xor("whole", t - 5, 2)};
    const Expr base = workgroup() * (6 * threads) + t;
    const std::vector<Expr> values{
        f("fixed"), f("turned"), f("near"), f("far"), to_f32(Expr::value("flag", DType::boolean)), to_f32(i("whole"))};
    for (int k = 0; k < 6; ++k) p.body.push_back(store("O", base + k * threads, {values[static_cast<std::size_t>(k)]}));
    return p;
  };
  return c;
}

/// Reversal through shared arrays: scalars, vectors and 16-bit pairs; a uniform branch and loop around barriers.
Case shared() {
  Case c;
  c.name = "shared";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    ThreadProgram p = program(size, subgroups, 3, {reads("X", {3, threads}), writes("Y", {3, 4, threads})}, {});
    p.shared = {{"line", DType::f32, threads, 0},
                {"quads", DType::f32, 4 * threads, 4 * threads},
                {"halves", DType::f16, 2 * threads, 20 * threads},
                {"small", DType::bf16, threads, 24 * threads},
                {"counts", DType::i32, threads, 26 * threads}};
    const Expr t = thread(size), mirror = Expr(threads - 1) - t, at = workgroup() * threads + t;
    const Expr out = workgroup() * (4 * threads) + t;
    p.body = {
        declare(DType::f32, {"x", "a", "b", "c", "d", "h0", "h1", "s"}), declare(DType::i32, {"n"}),
        load("X", at, {"x"}),
        loop("round", 0, 3, 1,
             {store_shared("line", t, {f("x")}), barrier(), load_shared("line", mirror, {"a"}), barrier(),
              assign("x", f("a") + thread_builder::c(0.5))}),
        branch(less(workgroup(), 2),
               {store_shared("quads", t * 4, {f("x"), f("x") * thread_builder::c(2), -f("x"), thread_builder::c(1)}),
                store_shared("halves", t * 2,
                             {Expr::cast(f("x") * thread_builder::c(0.1), DType::f16), Expr::cast(f("x"), DType::f16)}),
                store_shared("small", t, {Expr::cast(f("x") * thread_builder::c(0.3), DType::bf16)}),
                store_shared("counts", t, {Expr::cast(t * 7, DType::i32)}), barrier(),
                load_shared("quads", mirror * 4, {"a", "b", "c", "d"}), load_shared("halves", mirror * 2, {"h0", "h1"}),
                load_shared("small", mirror, {"s"}), load_shared("counts", mirror, {"n"}),
                store("Y", out, {((f("a") + f("b")) + f("c")) + f("d")}), store("Y", out + threads, {f("h0")}),
                store("Y", out + 2 * threads, {f("h1") + f("s")}),
                store("Y", out + 3 * threads, {to_f32(Expr::value("n", DType::i32))})},
               true)};
    return p;
  };
  c.buffers = {{"X", ramp(3 * 32, -4, 0.375)}};
  return c;
}

/// Integer arithmetic with negative values, powers of two and other divisors, and narrow types.
Case integers() {
  Case c;
  c.name = "integers";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    const Expr a = i("a"), b = i("b"), t = thread(size);
    const std::vector<Expr> values{floordiv(a, 4),
                                   mod(a, 8),
                                   floordiv(a, 3),
                                   mod(a, 3),
                                   floordiv(a, b),
                                   mod(a, b),
                                   a / b,
                                   a / Expr(4),
                                   a - b * (a - 5),
                                   a - (b - (a + 3)),
                                   -(a - b),
                                   Expr::unary(Op::abs, a),
                                   Expr::unary(Op::sign, a),
                                   Expr::binary(Op::min, a, b),
                                   Expr::binary(Op::max, a, b),
                                   Expr::binary(Op::pow, mod(a, 7) - 3, mod(b, 5)),
                                   floordiv(a * 2 + 1, 2) * 4 + mod(a, 4),
                                   mod(floordiv(t, 3), 5),
                                   floordiv(-a, 4),
                                   Expr::select(logical_or(logical_and(less(a, 0), less(b, 0)), equal(a, b)), a, b),
                                   Expr::cast(logical_not(equal(a, b)), DType::i64),
                                   Expr::cast(less_equal(a, b), DType::i64),
                                   Expr::cast(Expr::cast(a * 100, DType::i8), DType::i64),
                                   Expr::cast(Expr::cast(a * 1000, DType::u16), DType::i64),
                                   Expr::cast(Expr::cast(a, DType::u8) * Expr::cast(b, DType::u8), DType::i64),
                                   Expr(-2147483647 - 1) + Expr::binary(Op::max, a, Expr(0)),
                                   Expr::cast(Expr::cast(a, DType::boolean), DType::i64)};
    const auto count = static_cast<std::int64_t>(values.size());
    ThreadProgram p = program(size, subgroups, 1,
                              {reads("A", {threads}, DType::i64), reads("B", {threads}, DType::i32),
                               writes("O", {count, threads}, DType::i64)},
                              {});
    p.body = {declare(DType::i64, {"a", "b"}), load("A", t, {"a"}), load("B", t, {"b"})};
    for (std::int64_t k = 0; k < count; ++k)
      p.body.push_back(store("O", t + k * threads, {values[static_cast<std::size_t>(k)]}));
    return p;
  };
  for (int k = 0; k < 32; ++k)
    c.buffers["A"].push_back(k * 5 - 77), c.buffers["B"].push_back(k == 13 ? 4 : (k - 13) % 9 == 0 ? 2 : (k - 13) % 9);
  return c;
}

/// Signed zeros, infinities, NaN and subnormals through everything that is exact.
Case special_floats() {
  Case c;
  c.name = "special_floats";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    const Expr a = f("a"), b = f("b"), t = thread(size), j = Expr::symbol("j");
    const auto flag = [](const Expr& e) { return Expr::select(e, thread_builder::c(1), thread_builder::c(0)); };
    const auto unary = [](Op op, const Expr& e) { return Expr::unary(op, e); };
    const auto binary = [](Op op, const Expr& x, const Expr& y) { return Expr::binary(op, x, y); };
    // Which zero min and max give is not promised.
    const auto unsigned_zero = [](const Expr& e) {
      return Expr::select(equal(e, thread_builder::c(0)), thread_builder::c(0), e);
    };
    const std::vector<Expr> values{a + b,
                                   a - b,
                                   a * b,
                                   a / b,
                                   unsigned_zero(binary(Op::min, a, b)),
                                   unsigned_zero(binary(Op::max, a, b)),
                                   unsigned_zero(binary(Op::minnum, a, b)),
                                   unsigned_zero(binary(Op::maxnum, a, b)),
                                   flag(less(a, b)),
                                   flag(logical_not(less(a, b))),
                                   flag(less_equal(a, b)),
                                   flag(equal(a, b)),
                                   flag(logical_not(equal(a, b))),
                                   flag(unary(Op::isnan, a)),
                                   flag(unary(Op::isinf, a)),
                                   -a,
                                   unary(Op::abs, a),
                                   unary(Op::sign, a),
                                   unary(Op::floor, a),
                                   unary(Op::ceil, a),
                                   unary(Op::round_even, a),
                                   unary(Op::reciprocal, a),
                                   unary(Op::sqrt, a),
                                   a * thread_builder::c(0),
                                   thread_builder::c(-0.0) * a,
                                   a - a,
                                   (a + b) - a,
                                   a + thread_builder::c(inf),
                                   a * thread_builder::c(-inf),
                                   a + thread_builder::c(nan_value),
                                   Expr::select(less(a, thread_builder::c(-inf)), a, thread_builder::c(-inf)),
                                   binary(Op::floordiv, a, b),
                                   to_f32(Expr::cast(a, DType::i32)),
                                   to_f32(Expr::cast(a, DType::u8)),
                                   to_f32(Expr::cast(a, DType::f16)),
                                   to_f32(Expr::cast(a, DType::bf16)),
                                   flag(Expr::cast(a, DType::boolean))};
    const auto count = static_cast<std::int64_t>(values.size());
    ThreadProgram p = program(
        size, subgroups, 1, {reads("A", {threads}), reads("B", {threads}), writes("O", {count, threads, threads})}, {});
    ThreadBody body{load("B", j, {"b"})};
    for (std::int64_t k = 0; k < count; ++k)
      body.push_back(store("O", (Expr(k * threads) + j) * threads + t, {values[static_cast<std::size_t>(k)]}));
    p.body = {declare(DType::f32, {"a", "b"}), load("A", t, {"a"}), loop("j", 0, threads, 1, std::move(body))};
    return p;
  };
  const std::vector<double> values{
      0,        -0.0,  inf,         -inf,        nan_value, 1,     -1,           0.5,           -0.5,
      1.5,      2.5,   -2.5,        3.4e38,      -3.4e38,   1e-30, -1e-30,       65504,         65520,
      6e-8,     -3e-8, 1 + 0x1p-11, 1 + 0x1p-8,  300,       -7,    2147483648.0, -2147483648.0, 4e9,
      16777216, 1e10,  0x1p-14,     0x1.ffcp-15, 7};
  c.buffers = {{"A", values}, {"B", values}};
  return c;
}

/// f16 and bf16 in memory at every width.
Case halves(DType type) {
  Case c;
  c.name = "halves_" + std::string(name(type));
  c.program = [type](int size, int subgroups) {
    const int threads = size * subgroups;
    ThreadProgram p = program(
        size, subgroups, 1,
        {reads("X", {16 * threads}, type), writes("Y", {16 * threads}, type), writes("Z", {threads + 1}, type)}, {});
    const Expr t = thread(size);
    const auto v = [&](const std::string& n) { return Expr::value(n, type); };
    const auto changed = [&](const std::string& n) { return Expr::cast(to_f32(v(n)) * thread_builder::c(1.37), type); };
    std::vector<std::string> eight;
    std::vector<Expr> scaled;
    for (int k = 0; k < 8; ++k) eight.push_back("h" + std::to_string(k)), scaled.push_back(changed(eight.back()));
    p.body = {declare(type, eight), declare(type, {"a", "b", "c", "d", "e", "g", "s"}), load("X", t * 16, eight),
              load("X", t * 16 + 8, {"a", "b", "c", "d"}), load("X", t * 16 + 12, {"e", "g"}),
              load("X", t * 16 + 15, {"s"}, less(t, threads - 3), Expr::constant(type, 0.5)),
              store("Y", t * 16 + 8, scaled), store("Y", t * 16 + 4, {v("d"), v("c"), changed("b"), changed("a")}),
              store("Y", t * 16 + 2, {v("g"), changed("e")}), store("Y", t * 16, {v("s")}),
              store("Y", t * 16 + 1, {changed("s") + v("g")}),
              // An odd count of elements, each word shared by two threads.
              store("Z", t, {changed("s")})};
    return p;
  };
  for (int k = 0; k < 16 * 32; ++k) c.buffers["X"].push_back(round_to(type, (k - 250) * std::pow(2.0, k % 23 - 12)));
  c.buffers["Z"] = std::vector<double>(33, 2.0);
  return c;
}

/// i64, bool and i8 tensors, which devices hold as i32 words.
Case small_integers() {
  Case c;
  c.name = "small_integers";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    ThreadProgram p = program(size, subgroups, 1,
                              {reads("M", {2 * threads}, DType::boolean), reads("V", {2 * threads}, DType::i8),
                               writes("F", {2 * threads}, DType::boolean), writes("G", {threads}, DType::i64)},
                              {});
    const Expr t = thread(size), m = Expr::value("m", DType::boolean), n = Expr::value("n", DType::boolean);
    p.body = {declare(DType::boolean, {"m", "n"}),
              declare(DType::i8, {"v", "w"}),
              load("M", t * 2, {"m", "n"}),
              load("V", t * 2, {"v", "w"}),
              store("F", t * 2, {logical_and(m, logical_not(n)), logical_or(m, n)}),
              store("G", t,
                    {Expr::select(m, Expr::cast(Expr::value("v", DType::i8) + Expr::value("w", DType::i8), DType::i64),
                                  Expr(-1))})};
    return p;
  };
  for (int k = 0; k < 64; ++k) c.buffers["M"].push_back(k % 3 == 0), c.buffers["V"].push_back(k * 4 - 128);
  return c;
}

Case functions(const std::string& label, std::vector<Op> ops, double low, double high, double relative,
               double absolute) {
  Case c;
  c.name = "functions_" + label;
  c.program = [ops](int size, int subgroups) {
    const int threads = size * subgroups;
    const auto count = static_cast<std::int64_t>(ops.size());
    const Expr at = Expr::symbol("j") + thread(size);
    ThreadProgram p = program(size, subgroups, 1, {reads("X", {512}), writes("O", {count, 512})}, {});
    ThreadBody body{load("X", at, {"x"})};
    for (std::int64_t k = 0; k < count; ++k)
      body.push_back(store("O", at + k * 512, {Expr::unary(ops[static_cast<std::size_t>(k)], f("x"))}));
    p.body = {declare(DType::f32, {"x"}), loop("j", 0, 512, threads, std::move(body))};
    return p;
  };
  for (int k = 0; k < 508; ++k)
    c.buffers["X"].push_back(static_cast<double>(static_cast<float>(low + (high - low) * k / 507)));
  for (const double v : {inf, -inf, nan_value, 0.0}) c.buffers["X"].push_back(v);
  c.relative = relative, c.absolute = absolute;
  return c;
}

Case powers() {
  Case c;
  c.name = "powers";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    const Expr t = thread(size), j = Expr::symbol("j");
    ThreadProgram p = program(size, subgroups, 1,
                              {reads("A", {threads}), reads("B", {threads}), writes("O", {threads, threads}),
                               writes("R", {threads, threads})},
                              {});
    p.body = {declare(DType::f32, {"a", "b"}), load("A", t, {"a"}),
              loop("j", 0, threads, 1,
                   {load("B", j, {"b"}), store("O", j * threads + t, {Expr::binary(Op::pow, f("a"), f("b"))}),
                    store("R", j * threads + t, {Expr::binary(Op::mod, f("a"), f("b"))})})};
    return p;
  };
  const std::vector<double> a{0,   -0.0, 1,    -1, 2,  -2,  0.5,  -0.5,  3,     -3, 1.5, -1.5, inf, -inf, nan_value, 10,
                              -10, 0.1,  -0.1, 7,  -7, 100, -100, 1.001, 0.999, 5,  -5,  8,    -8,  25,   6,         9};
  const std::vector<double> b{0.25, -0.5, 1,  -1,  2,    -2, 0.5, -0.75, 3,  -3, 1.5, -1.5,  4,  5,    7,   10,
                              -4,   11,   -7, 2.5, -2.5, 6,  -6,  8,     -8, 9,  -9,  0.125, 12, 0.75, 3.5, -3.5};
  c.buffers = {{"A", a}, {"B", b}};
  c.relative = 1e-5, c.absolute = 3e-6;
  return c;
}

/// Nested loops with begin, end and step below zero or from symbols, and loops that do not run.
Case loops() {
  Case c;
  c.name = "loops";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    const Expr j = Expr::symbol("j"), k = Expr::symbol("k"), n = Expr::symbol("n");
    ThreadProgram p = program(size, subgroups, 2, {writes("O", {2, 16, threads}, DType::i32)}, {});
    p.symbols = {"n"};
    const Expr at = (workgroup() * 16 + (j + 7)) * threads + thread(size);
    p.body = {loop("j", Expr(-7), n - 4, 3,
                   {declare("sum", Expr(0)),
                    loop("k", j, n, workgroup() + 1, {assign("sum", i("sum") + floordiv(k, 3) * mod(k, 5))}),
                    loop("k", n, j, 1, {assign("sum", Expr(1000))}),
                    store("O", at, {i("sum") + mod(j, 4) + floordiv(j - lane(), 6)})})};
    return p;
  };
  c.symbols = {{"n", 11}};
  return c;
}

/// Subexpressions that several places share, in a DAG whose tree would have 2^24 leaves.
Case shared_expressions() {
  Case c;
  c.name = "shared_expressions";
  c.program = [](int size, int subgroups) {
    const int threads = size * subgroups;
    ThreadProgram p = program(size, subgroups, 1, {reads("X", {threads}), writes("O", {threads})}, {});
    Expr x = f("x") * thread_builder::c(0.5) + thread_builder::c(1);
    for (int k = 0; k < 24; ++k) x = x * thread_builder::c(0.5) + (x - thread_builder::c(1)) * thread_builder::c(0.25);
    p.body = {declare(DType::f32, {"x"}), load("X", thread(size), {"x"}), assign("x", f("x") + x),
              store("O", thread(size), {f("x")})};
    return p;
  };
  c.buffers = {{"X", ramp(32, 0, 1)}};
  return c;
}

}  // namespace

const std::vector<Case>& all() {
  static const std::vector<Case> cases{names(),
                                       vectors(),
                                       shuffles(),
                                       shared(),
                                       integers(),
                                       special_floats(),
                                       halves(DType::f16),
                                       halves(DType::bf16),
                                       small_integers(),
                                       powers(),
                                       loops(),
                                       shared_expressions(),
                                       functions("exp", {Op::exp}, -80, 80, 1e-5, 1e-37),
                                       functions("log", {Op::log}, 1e-3, 100, 1e-6, 3e-7),
                                       functions("erf", {Op::erf}, -4.5, 4.5, 0, 5e-7),
                                       functions("erf_near_zero", {Op::erf}, -0.01, 0.01, 3e-7, 0),
                                       functions("tanh", {Op::tanh}, -12, 12, 2e-6, 0),
                                       functions("tanh_near_zero", {Op::tanh}, -0.6, 0.6, 3e-7, 0),
                                       functions("waves", {Op::sin, Op::cos}, -3000, 3000, 0, 5e-7)};
  return cases;
}

}  // namespace aicf::emit_cases
