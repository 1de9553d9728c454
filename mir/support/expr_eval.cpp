#include <fmt/core.h>

#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "mir/support/expr.h"
#include "mir/support/expr_node.h"

namespace aicf {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

double sign_of(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
}

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// Integers and booleans. A division by zero gives 0, as any value would do: graphs that reach it are undefined.
double apply_integer(Op op, double a, double b) {
  switch (op) {
    case Op::div:
      return b == 0 ? 0 : std::trunc(a / b);
    case Op::floordiv:
      return b == 0 ? 0 : std::floor(a / b);
    case Op::mod:
      return b == 0 ? 0 : floor_mod(a, b);
    case Op::pow:
      return std::trunc(std::pow(a, b));
    default:
      AICF_BUG("not an integer operation");
  }
}

/// Recursive evaluation; `memo` is null for small trees.
struct Evaluator {
  const Environment& env;
  std::unordered_map<const void*, double>* memo;

  double operator()(const Expr& e) {
    if (!memo || e.args().empty()) return compute(e);
    if (const auto found = memo->find(e.identity()); found != memo->end()) return found->second;
    const double result = compute(e);
    memo->emplace(e.identity(), result);
    return result;
  }

  double compute(const Expr& e) {
    const ExprNode& node = ExprNode::of(e);
    switch (node.op) {
      case Op::constant:
        return node.number;
      case Op::symbol:
        return leaf(env.symbol, node, "symbol");
      case Op::axis:
        return leaf(env.axis, node, "axis");
      case Op::value:
        return leaf(env.value, node, "value");
      case Op::load:
        return load(node);
      case Op::select: {
        const double condition = (*this)(node.args[0]);
        const double chosen = (*this)(node.args[condition != 0 ? 1 : 2]);
        if (!env.round) return chosen;
        // The side that is not chosen is not evaluated: the rounding hook sees the chosen value on both.
        const double args[] = {condition, chosen, chosen};
        return env.round(e, args, chosen);
      }
      default:
        break;
    }
    double args[2];
    const std::size_t count = node.args.size();
    for (std::size_t i = 0; i < count; ++i) args[i] = (*this)(node.args[i]);
    const double result = node.op == Op::cast ? cast_value(node.args[0].type(), node.type, args[0])
                                              : apply(node.op, node.type, {args, count});
    return env.round ? env.round(e, {args, count}, result) : result;
  }

  double leaf(const std::function<double(const std::string&)>& lookup, const ExprNode& node, const char* what) {
    AICF_CHECK(lookup != nullptr, fmt::format("evaluation of {} '{}' without a binding", what, node.name));
    return lookup(node.name);
  }

  double load(const ExprNode& node) {
    AICF_CHECK(env.load != nullptr, fmt::format("evaluation of a load of '{}' without tensors", node.name));
    std::array<std::int64_t, 8> few;
    std::vector<std::int64_t> many;
    std::int64_t* index = few.data();
    if (node.args.size() > few.size()) {
      many.resize(node.args.size());
      index = many.data();
    }
    for (std::size_t i = 0; i < node.args.size(); ++i) index[i] = static_cast<std::int64_t>((*this)(node.args[i]));
    return env.load(node.name, {index, node.args.size()});
  }
};

/// evaluate_int's recursion: integers exactly, floats (shapes computed through ceil, sqrt, …) as double.
struct Number {
  bool whole = true;
  std::int64_t integer = 0;
  double real = 0;
};

struct IntegerEvaluator {
  const std::map<std::string, std::int64_t>& bindings;
  bool small;  ///< needs no memo
  std::unordered_map<const void*, Number> memo;

  static Number of(std::int64_t v) { return {true, v, static_cast<double>(v)}; }
  static Number of(double v) { return {false, 0, v}; }

  Result<Number> operator()(const Expr& e) {
    if (small) return compute(e);
    if (const auto found = memo.find(e.identity()); found != memo.end()) return found->second;
    AICF_TRY(const Number result, compute(e));
    memo.emplace(e.identity(), result);
    return result;
  }

  Result<Number> compute(const Expr& e) {
    const ExprNode& node = ExprNode::of(e);
    switch (node.op) {
      case Op::constant:
        return is_float(node.type) ? of(node.number) : of(node.integer);
      case Op::symbol:
      case Op::axis:
      case Op::value: {
        const auto found = bindings.find(node.name);
        if (found == bindings.end()) return bad_input(fmt::format("'{}' has no value", node.name));
        return is_float(node.type) ? of(static_cast<double>(found->second)) : of(found->second);
      }
      case Op::load:
        return bad_input(fmt::format("'{}' depends on data, not only on sizes", to_string(e)));
      case Op::select: {
        AICF_TRY(const Number condition, (*this)(node.args[0]));
        return (*this)(node.args[condition.integer != 0 ? 1 : 2]);
      }
      default:
        break;
    }
    std::array<Number, 2> args;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      AICF_TRY(args[i], (*this)(node.args[i]));
    }
    if (node.op == Op::cast) return cast(e, args[0]);
    if (args[0].whole) return whole(e, args[0].integer, args[1].integer);
    const double reals[] = {args[0].real, args[1].real};
    const double result = apply(node.op, node.type, {reals, node.args.size()});
    return is_float(node.type) ? of(result) : of(static_cast<std::int64_t>(result));
  }

  Result<Number> cast(const Expr& e, const Number& from) {
    const DType to = e.type();
    if (from.whole && to == DType::u64) return of(from.integer);
    if (from.whole && !is_float(to)) return of(wrap_integer(to, from.integer));
    const double result = round_to(to, from.real);
    if (is_float(to)) return of(result);
    if (!(std::fabs(result) < 0x1p63)) return overflow(e);
    return of(static_cast<std::int64_t>(result));
  }

  static std::unexpected<Diagnostic> overflow(const Expr& e) {
    return bad_input(fmt::format("'{}' does not fit in 64 bits", to_string(e)));
  }

  static Result<Number> whole(const Expr& e, std::int64_t a, std::int64_t b) {
    std::int64_t r = 0;
    bool wrong = false;
    switch (e.op()) {
      case Op::neg:
        wrong = __builtin_sub_overflow(std::int64_t{0}, a, &r);
        break;
      case Op::abs:
        wrong = a < 0 ? __builtin_sub_overflow(std::int64_t{0}, a, &r) : (r = a, false);
        break;
      case Op::sign:
        r = (a > 0) - (a < 0);
        break;
      case Op::not_:
        r = a == 0;
        break;
      case Op::add:
        wrong = __builtin_add_overflow(a, b, &r);
        break;
      case Op::sub:
        wrong = __builtin_sub_overflow(a, b, &r);
        break;
      case Op::mul:
        wrong = __builtin_mul_overflow(a, b, &r);
        break;
      case Op::div:
      case Op::floordiv:
      case Op::mod: {
        if (b == 0) return bad_input(fmt::format("division by zero in '{}'", to_string(e)));
        const auto floored = e.op() == Op::mod ? floor_modulo(a, b) : floor_division(a, b);
        wrong = !floored;
        r = floored.value_or(0);
        if (e.op() == Op::div && floored && r < 0 && r * b != a) ++r;
        break;
      }
      case Op::pow: {
        const double power = std::trunc(std::pow(static_cast<double>(a), static_cast<double>(b)));
        wrong = !(std::fabs(power) < 0x1p53);
        r = wrong ? 0 : static_cast<std::int64_t>(power);
        break;
      }
      case Op::min:
      case Op::minnum:
        r = std::min(a, b);
        break;
      case Op::max:
      case Op::maxnum:
        r = std::max(a, b);
        break;
      case Op::lt:
        r = a < b;
        break;
      case Op::le:
        r = a <= b;
        break;
      case Op::eq:
        r = a == b;
        break;
      case Op::and_:
        r = a && b;
        break;
      case Op::or_:
        r = a || b;
        break;
      default:
        return bad_input(fmt::format("'{}' is not an integer expression", to_string(e)));
    }
    if (wrong) return overflow(e);
    return of(r);
  }
};

}  // namespace

double apply(Op op, DType type, std::span<const double> args) {
  const double a = args[0];
  const double b = args.size() > 1 ? args[1] : 0;
  switch (op) {
    case Op::neg:
      return -a;
    case Op::abs:
      return std::fabs(a);
    case Op::sign:
      return sign_of(a);
    case Op::exp:
      return std::exp(a);
    case Op::log:
      return std::log(a);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::reciprocal:
      return 1.0 / a;
    case Op::erf:
      return std::erf(a);
    case Op::tanh:
      return std::tanh(a);
    case Op::sin:
      return std::sin(a);
    case Op::cos:
      return std::cos(a);
    case Op::floor:
      return std::floor(a);
    case Op::ceil:
      return std::ceil(a);
    case Op::round_even:
      return std::nearbyint(a);
    case Op::isnan:
      return std::isnan(a);
    case Op::isinf:
      return std::isinf(a);
    case Op::not_:
      return a == 0;
    case Op::cast:
      return round_to(type, a);
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return is_float(type) ? a / b : apply_integer(op, a, b);
    case Op::floordiv:
      return is_float(type) ? std::floor(a / b) : apply_integer(op, a, b);
    case Op::mod:
      return is_float(type) ? floor_mod(a, b) : apply_integer(op, a, b);
    case Op::pow:
      return is_float(type) ? std::pow(a, b) : apply_integer(op, a, b);
    case Op::min:
      return std::isnan(a) || std::isnan(b) ? nan_value : std::fmin(a, b);
    case Op::max:
      return std::isnan(a) || std::isnan(b) ? nan_value : std::fmax(a, b);
    case Op::minnum:
      return std::fmin(a, b);
    case Op::maxnum:
      return std::fmax(a, b);
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::eq:
      return a == b;
    case Op::and_:
      return a != 0 && b != 0;
    case Op::or_:
      return a != 0 || b != 0;
    case Op::select:
      return a != 0 ? b : args[2];
    case Op::constant:
    case Op::symbol:
    case Op::axis:
    case Op::load:
    case Op::value:
      break;
  }
  AICF_BUG("apply() of a leaf");
}

double evaluate(const Expr& e, const Environment& env) {
  AICF_CHECK(static_cast<bool>(e), "evaluation of an empty expression");
  if (ExprNode::of(e).tree_size <= small_tree) return Evaluator{env, nullptr}(e);
  std::unordered_map<const void*, double> memo;
  return Evaluator{env, &memo}(e);
}

Result<std::int64_t> evaluate_int(const Expr& e, const std::map<std::string, std::int64_t>& bindings) {
  AICF_CHECK(static_cast<bool>(e) && !is_float(e.type()), "evaluate_int() of an expression that is not an integer");
  IntegerEvaluator evaluator{bindings, ExprNode::of(e).tree_size <= small_tree, {}};
  AICF_TRY(const Number result, evaluator(e));
  return result.integer;
}

}  // namespace aicf
