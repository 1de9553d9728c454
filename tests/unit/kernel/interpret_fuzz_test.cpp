// Random programs of independent threads, run by the interpreter (slots, masks, lockstep) and by a walk over the
// statements for one thread after the other.

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "tests/unit/kernel/thread_builder.h"

namespace aicf {
namespace {

using namespace thread_builder;

struct UndefinedRead {};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  ThreadBody body(int depth, int statements) {
    const std::size_t floats = floats_.size(), ints = ints_.size(), loops = loops_.size();
    ThreadBody result;
    for (int k = 0; k < statements; ++k) result.push_back(statement(depth));
    floats_.resize(floats), ints_.resize(ints), loops_.resize(loops);
    return result;
  }

  /// Declares, runs a random body and stores what is left.
  ThreadBody program_body() {
    ThreadBody result;
    for (int k = 0; k < 3; ++k) {
      result.push_back(declare(fresh(floats_, "f"), Expr::cast(lane() * (k + 2) - 3, DType::f32)));
      result.push_back(declare(fresh(ints_, "i"), lane() * (k + 1) + workgroup()));
    }
    for (ThreadStatement& s : body(3, 12)) result.push_back(std::move(s));
    for (int k = 0; k < 3; ++k) {
      result.push_back(store("F", (workgroup() * 8 + lane()) * 3 + k, {f(floats_[static_cast<std::size_t>(k)])}));
      result.push_back(store("I", (workgroup() * 8 + lane()) * 3 + k, {i(ints_[static_cast<std::size_t>(k)])}));
    }
    return result;
  }

 private:
  int pick(std::size_t n) { return static_cast<int>(random_() % n); }

  std::string fresh(std::vector<std::string>& names, const char* prefix) {
    names.push_back(prefix + std::to_string(count_++));
    return names.back();
  }

  Expr float_expr(int depth) {
    if (depth == 0 || pick(5) == 0) {
      return pick(3) == 0 ? c(pick(9) * 0.25 - 1) : f(floats_[static_cast<std::size_t>(pick(floats_.size()))]);
    }
    const Expr a = float_expr(depth - 1), b = float_expr(depth - 1);
    switch (pick(7)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * c(0.5) + b;
      case 3:
        return Expr::binary(Op::max, a, b);
      case 4:
        return Expr::unary(Op::abs, a);
      case 5:
        return Expr::cast(int_expr(depth - 1), DType::f32);
      default:
        return Expr::select(condition(depth - 1), a, b);
    }
  }

  Expr int_expr(int depth) {
    if (depth == 0 || pick(5) == 0) {
      const int kind = pick(4);
      if (kind == 0) return Expr(pick(9) - 4);
      if (kind == 1) return lane();
      if (kind == 2 && !loops_.empty()) return Expr::symbol(loops_[static_cast<std::size_t>(pick(loops_.size()))]);
      return i(ints_[static_cast<std::size_t>(pick(ints_.size()))]);
    }
    const Expr a = int_expr(depth - 1), b = int_expr(depth - 1);
    switch (pick(6)) {
      case 0:
        return mod(a + b, 97);
      case 1:
        return a - b;
      case 2:
        return floordiv(a, pick(5) + 1);
      case 3:
        return mod(a, -3);
      case 4:
        return Expr::binary(Op::min, a, b);
      default:
        return Expr::select(condition(depth - 1), a, b);
    }
  }

  Expr condition(int depth) {
    return pick(2) ? less(int_expr(depth), int_expr(depth)) : less_equal(float_expr(depth), float_expr(depth));
  }

  ThreadStatement statement(int depth) {
    switch (pick(depth > 0 ? 9 : 6)) {
      case 0: {
        const Expr value = float_expr(2);
        return declare(fresh(floats_, "f"), value + c(0.125));
      }
      case 1: {
        const Expr value = int_expr(2);
        return declare(fresh(ints_, "i"), value);
      }
      case 2:
        // Left undefined now and then: whether it is read before it is assigned is for both sides to find.
        if (pick(3) == 0) return declare(DType::f32, {fresh(floats_, "f")});
        [[fallthrough]];
      case 3:
      case 4: {
        const std::string& name = floats_[static_cast<std::size_t>(pick(floats_.size()))];
        return assign(name, float_expr(2));
      }
      case 5:
        return assign(ints_[static_cast<std::size_t>(pick(ints_.size()))], int_expr(2));
      case 6:
        return loop_statement(depth);
      default: {
        const Expr predicate = condition(2);
        return branch(predicate, body(depth - 1, 4));
      }
    }
  }

  ThreadStatement loop_statement(int depth) {
    const std::string variable = "j" + std::to_string(count_++);
    const int begin = pick(4) - 2, trips = pick(4);
    loops_.push_back(variable);
    ThreadStatement s = loop(variable, begin, Expr(begin) + trips * 2, 2, body(depth - 1, 3));
    loops_.pop_back();
    return s;
  }

  std::mt19937 random_;
  int count_ = 0;
  std::vector<std::string> floats_, ints_, loops_;
};

/// One thread, statement by statement.
struct Walker {
  std::map<std::string, std::optional<double>> values;
  std::map<std::string, double> symbols;
  std::map<std::string, std::vector<double>>& buffers;

  double compute(const Expr& e) {
    Environment env;
    env.symbol = [&](const std::string& n) { return symbols.at(n); };
    env.value = [&](const std::string& n) {
      if (!values.at(n)) throw UndefinedRead{};
      return *values.at(n);
    };
    env.round = [](const Expr& x, std::span<const double>, double r) { return round_to(x.type(), r); };
    return evaluate(e, env);
  }

  void run(const ThreadBody& body) {
    for (const ThreadStatement& s : body) {
      switch (s.kind) {
        case Kind::declare:
          values[s.names[0]] = s.exprs.empty() ? std::nullopt : std::optional(compute(s.exprs[0]));
          break;
        case Kind::assign:
          values[s.names[0]] = compute(s.exprs[0]);
          break;
        case Kind::store_global:
          buffers[s.buffer][static_cast<std::size_t>(compute(s.index))] = compute(s.exprs[0]);
          break;
        case Kind::branch:
          if (compute(s.predicate) != 0) run(s.body);
          break;
        case Kind::loop:
          for (double v = compute(s.begin); v < compute(s.end); v += compute(s.step)) {
            symbols[s.variable] = v;
            run(s.body);
          }
          break;
        default:
          FAIL();
      }
    }
  }
};

TEST(InterpretFuzz, LockstepEqualsThreadByThread) {
  int undefined = 0, defined = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const ThreadProgram p =
        program(8, 1, 2, {writes("F", {64}), writes("I", {64}, DType::i64)}, Generator(seed).program_body());
    std::map<std::string, std::vector<double>> expected{{"F", std::vector<double>(64)}, {"I", std::vector<double>(64)}};
    bool reads_undefined = false;
    for (int w = 0; w < 2 && !reads_undefined; ++w) {
      for (int t = 0; t < 8 && !reads_undefined; ++t) {
        Walker walker{{}, {{"workgroup", w}, {"lane", t}, {"subgroup", 0}}, expected};
        try {
          walker.run(p.body);
        } catch (const UndefinedRead&) {
          reads_undefined = true;
        }
      }
    }
    InterpreterInput io{{{"F", std::vector<double>(64)}, {"I", std::vector<double>(64)}}, {}};
    const auto counts = interpret(p, io);
    ++(reads_undefined ? undefined : defined);
    if (reads_undefined) {
      ASSERT_FALSE(counts.has_value()) << "seed " << seed << "\n" << to_string(p);
      EXPECT_NE(counts.error().text().find("is read before it is defined"), std::string::npos) << counts.error().text();
    } else {
      ASSERT_TRUE(counts.has_value()) << "seed " << seed << ": " << counts.error().text() << "\n" << to_string(p);
      ASSERT_EQ(io.buffers, expected) << "seed " << seed << "\n" << to_string(p);
    }
  }
  // Both outcomes must occur often, or the test shows little.
  EXPECT_GT(undefined, 40);
  EXPECT_GT(defined, 100);
}

}  // namespace
}  // namespace aicf
