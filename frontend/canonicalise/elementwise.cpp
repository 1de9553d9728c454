// Operators that compute each element from the elements at the same place, under numpy broadcasting.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/onnx_types.h"

namespace aicf::ops {
namespace {

using Scalars = std::vector<Expr>;

Expr unary_of(Op op, const Expr& x) {
  return Expr::unary(op, x);
}
Expr binary_of(Op op, const Expr& a, const Expr& b) {
  return Expr::binary(op, a, b);
}
Expr like(const Expr& x, double value) {
  return number(x.type(), value);
}

Expr sigmoid_of(const Expr& x) {
  return unary_of(Op::reciprocal, like(x, 1) + unary_of(Op::exp, -x));
}

/// log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(−|x|)).
Expr softplus_of(const Expr& x) {
  const Expr tail = unary_of(Op::log, like(x, 1) + unary_of(Op::exp, -unary_of(Op::abs, x)));
  return binary_of(Op::max, x, like(x, 0)) + tail;
}

Expr exp_difference(const Expr& x) {  // (e^x − e^−x) / 2
  return (unary_of(Op::exp, x) - unary_of(Op::exp, -x)) / like(x, 2);
}
Expr exp_mean(const Expr& x) {
  return (unary_of(Op::exp, x) + unary_of(Op::exp, -x)) / like(x, 2);
}

/// log(1 + x), to the last digits for small x too.
Expr log_one_plus(const Expr& x) {
  Expr series = like(x, 0);
  for (int k = 10; k >= 1; --k) series = (like(x, k % 2 == 1 ? 1.0 / k : -1.0 / k) + series) * x;
  return Expr::select(less(unary_of(Op::abs, x), like(x, 0.0625)), series, unary_of(Op::log, like(x, 1) + x));
}

/// log(2x) where x is large (there asinh and acosh are that, and their squares would overflow), else `other`.
Expr log_twice(const Expr& x, const Expr& other) {
  return Expr::select(less(like(x, 1e6), x), unary_of(Op::log, x) + like(x, std::numbers::ln2), other);
}

/// Arc tangent: of |x| reduced to [0, 0.66], a rational approximation (Cephes, atan.c).
Expr atan_of(const Expr& x) {
  const auto polynomial = [&](const Expr& z, std::initializer_list<double> coefficients) {
    Expr sum = like(x, 0);
    for (const double c : coefficients) sum = sum * z + like(x, c);
    return sum;
  };
  const Expr a = unary_of(Op::abs, x), one = like(x, 1);
  const Expr large = less(like(x, 2.41421356237309504880), a), middle = less(like(x, 0.66), a);
  const Expr t = Expr::select(large, -(one / a), Expr::select(middle, (a - one) / (a + one), a));
  const Expr base = Expr::select(large, like(x, std::numbers::pi / 2),
                                 Expr::select(middle, like(x, std::numbers::pi / 4), like(x, 0)));
  const Expr z = t * t;
  const Expr top = polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                                  -1.228866684490136173410e2, -6.485021904942025371773e1});
  const Expr bottom = polynomial(z, {1, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
                                     4.853903996359136964868e2, 1.945506571482613964425e2});
  const Expr result = base + (t + t * z * top / bottom);
  return Expr::select(less(x, like(x, 0)), -result, result);
}

/// x with the sign of `sign`: f is odd, and `of_positive` is f(|x|).
Expr odd(const Expr& sign, const Expr& of_positive) {
  return Expr::select(less(sign, like(sign, 0)), -of_positive, of_positive);
}

using UnaryBody = Expr (*)(const Lowering& op, const Expr& x);
struct UnaryRule {
  UnaryBody body;
  /// `numbers` takes integers too.
  enum Kind { numbers, floats, test } kind = numbers;
};

Expr alpha_of(const Lowering& op, const Expr& x, double absent) {
  return like(x, op.real("alpha", absent));
}

const std::map<std::string_view, UnaryRule>& unary_rules() {
  static const std::map<std::string_view, UnaryRule> rules{
      {"Neg", {[](const Lowering&, const Expr& x) { return -x; }}},
      {"Abs", {[](const Lowering&, const Expr& x) { return unary_of(Op::abs, x); }}},
      {"Exp", {[](const Lowering&, const Expr& x) { return unary_of(Op::exp, x); }, UnaryRule::floats}},
      {"Log", {[](const Lowering&, const Expr& x) { return unary_of(Op::log, x); }, UnaryRule::floats}},
      {"Sqrt", {[](const Lowering&, const Expr& x) { return unary_of(Op::sqrt, x); }, UnaryRule::floats}},
      {"Reciprocal", {[](const Lowering&, const Expr& x) { return unary_of(Op::reciprocal, x); }, UnaryRule::floats}},
      {"Erf", {[](const Lowering&, const Expr& x) { return unary_of(Op::erf, x); }, UnaryRule::floats}},
      {"Tanh", {[](const Lowering&, const Expr& x) { return unary_of(Op::tanh, x); }, UnaryRule::floats}},
      {"Sin", {[](const Lowering&, const Expr& x) { return unary_of(Op::sin, x); }, UnaryRule::floats}},
      {"Cos", {[](const Lowering&, const Expr& x) { return unary_of(Op::cos, x); }, UnaryRule::floats}},
      {"Floor", {[](const Lowering&, const Expr& x) { return unary_of(Op::floor, x); }, UnaryRule::floats}},
      {"Ceil", {[](const Lowering&, const Expr& x) { return unary_of(Op::ceil, x); }, UnaryRule::floats}},
      {"Round", {[](const Lowering&, const Expr& x) { return unary_of(Op::round_even, x); }, UnaryRule::floats}},
      {"Sign", {[](const Lowering&, const Expr& x) { return unary_of(Op::sign, x); }}},
      {"Relu", {[](const Lowering&, const Expr& x) { return binary_of(Op::max, x, like(x, 0)); }}},
      {"IsNaN", {[](const Lowering&, const Expr& x) { return unary_of(Op::isnan, x); }, UnaryRule::test}},
      {"Sigmoid", {[](const Lowering&, const Expr& x) { return sigmoid_of(x); }, UnaryRule::floats}},
      {"Tan",
       {[](const Lowering&, const Expr& x) { return unary_of(Op::sin, x) / unary_of(Op::cos, x); }, UnaryRule::floats}},
      {"Sinh", {[](const Lowering&, const Expr& x) { return exp_difference(x); }, UnaryRule::floats}},
      {"Cosh", {[](const Lowering&, const Expr& x) { return exp_mean(x); }, UnaryRule::floats}},
      {"Atan", {[](const Lowering&, const Expr& x) { return atan_of(x); }, UnaryRule::floats}},
      {"Asin",
       {[](const Lowering&, const Expr& x) {
          return atan_of(x / unary_of(Op::sqrt, (like(x, 1) - x) * (like(x, 1) + x)));
        },
        UnaryRule::floats}},
      {"Acos",
       {[](const Lowering&, const Expr& x) {
          return like(x, 2) * atan_of(unary_of(Op::sqrt, (like(x, 1) - x) / (like(x, 1) + x)));
        },
        UnaryRule::floats}},
      {"Asinh",
       {[](const Lowering&, const Expr& x) {
          const Expr a = unary_of(Op::abs, x), one = like(x, 1);
          return odd(x, log_twice(a, log_one_plus(a + a * (a / (one + unary_of(Op::sqrt, a * a + one))))));
        },
        UnaryRule::floats}},
      {"Acosh",
       {[](const Lowering&, const Expr& x) {
          const Expr t = x - like(x, 1);
          return log_twice(x, log_one_plus(t + unary_of(Op::sqrt, t * (x + like(x, 1)))));
        },
        UnaryRule::floats}},
      {"Atanh",
       {[](const Lowering&, const Expr& x) {
          const Expr a = unary_of(Op::abs, x);
          return odd(x, like(x, 0.5) * log_one_plus(like(x, 2) * a / (like(x, 1) - a)));
        },
        UnaryRule::floats}},
      {"Shrink", {[](const Lowering& op, const Expr& x) {
         const Expr limit = like(x, op.real("lambd", 0.5)), bias = like(x, op.real("bias", 0));
         return Expr::select(less(x, -limit), x + bias, Expr::select(less(limit, x), x - bias, like(x, 0)));
       }}},
      {"Softplus", {[](const Lowering&, const Expr& x) { return softplus_of(x); }, UnaryRule::floats}},
      {"Softsign",
       {[](const Lowering&, const Expr& x) { return x / (like(x, 1) + unary_of(Op::abs, x)); }, UnaryRule::floats}},
      {"Mish",
       {[](const Lowering&, const Expr& x) { return x * unary_of(Op::tanh, softplus_of(x)); }, UnaryRule::floats}},
      {"Swish",
       {[](const Lowering& op, const Expr& x) { return x * sigmoid_of(alpha_of(op, x, 1) * x); }, UnaryRule::floats}},
      {"QuickGelu",
       {[](const Lowering& op, const Expr& x) { return x * sigmoid_of(alpha_of(op, x, 1.702) * x); },
        UnaryRule::floats}},
      {"LeakyRelu", {[](const Lowering& op, const Expr& x) {
         return Expr::select(less(x, like(x, 0)), alpha_of(op, x, 0.01) * x, x);
       }}},
      {"ThresholdedRelu",
       {[](const Lowering& op, const Expr& x) { return Expr::select(less(alpha_of(op, x, 1), x), x, like(x, 0)); },
        UnaryRule::floats}},
      {"Elu",
       {[](const Lowering& op, const Expr& x) {
          const Expr below = alpha_of(op, x, 1) * (unary_of(Op::exp, x) - like(x, 1));
          return Expr::select(less(x, like(x, 0)), below, x);
        },
        UnaryRule::floats}},
      {"Celu",
       {[](const Lowering& op, const Expr& x) {
          const Expr alpha = alpha_of(op, x, 1);
          return Expr::select(less(x, like(x, 0)), alpha * (unary_of(Op::exp, x / alpha) - like(x, 1)), x);
        },
        UnaryRule::floats}},
      {"Selu",
       {[](const Lowering& op, const Expr& x) {
          const Expr alpha = alpha_of(op, x, 1.67326319217681884765625);
          const Expr gamma = like(x, op.real("gamma", 1.05070102214813232421875));
          const Expr below = alpha * unary_of(Op::exp, x) - alpha;
          return gamma * Expr::select(less(like(x, 0), x), x, below);
        },
        UnaryRule::floats}},
      {"HardSigmoid",
       {[](const Lowering& op, const Expr& x) {
          const Expr line = alpha_of(op, x, 0.2) * x + like(x, op.real("beta", 0.5));
          return binary_of(Op::max, like(x, 0), binary_of(Op::min, like(x, 1), line));
        },
        UnaryRule::floats}},
      {"HardSwish",
       {[](const Lowering&, const Expr& x) {
          const Expr line = x / like(x, 6) + like(x, 0.5);
          return x * binary_of(Op::max, like(x, 0), binary_of(Op::min, like(x, 1), line));
        },
        UnaryRule::floats}},
  };
  return rules;
}

/// x·Φ(x), exactly or by its tanh approximation.
Expr gelu_of(const Expr& x, bool tanh) {
  if (tanh) {
    const Expr cube = x * x * x;
    const Expr inner = like(x, std::sqrt(2 / std::numbers::pi)) * (x + like(x, 0.044715) * cube);
    return like(x, 0.5) * x * (like(x, 1) + unary_of(Op::tanh, inner));
  }
  return like(x, 0.5) * x * (like(x, 1) + unary_of(Op::erf, x / like(x, std::numbers::sqrt2)));
}

/// x rounded toward zero (floats).
Expr truncated(const Expr& x) {
  return Expr::select(less(x, like(x, 0)), unary_of(Op::ceil, x), unary_of(Op::floor, x));
}

/// Remainder of floats with the sign of `a` (fmod), or with that of `b` (as numpy's mod, which is 0 with b's sign for a
/// multiple of b, and a for a finite and b infinite of one sign).
Expr remainder(const Expr& a, const Expr& b, bool sign_of_a) {
  const Expr zero = like(a, 0);
  // a − b·trunc(a / b): an infinite b leaves a.
  const Expr infinite = logical_and(unary_of(Op::isinf, b), logical_not(unary_of(Op::isinf, a)));
  const Expr r = Expr::select(infinite, a, a - b * truncated(a / b));
  if (sign_of_a) return r;
  const Expr differs = logical_or(logical_and(less(r, zero), less(zero, b)), logical_and(less(zero, r), less(b, zero)));
  return Expr::select(differs, r + b, r);
}

/// Integer division truncates; floor division says the same for what is known not to be negative and simplifies.
Expr divided(const Lowering& op, const Ranges& ranges, const Expr& a, const Expr& b) {
  if (!is_integer(a.type())) return a / b;
  const Range top = range_of(op.simplify(a), ranges), bottom = range_of(op.simplify(b), ranges);
  const bool same = top.low && *top.low >= 0 && bottom.low && *bottom.low >= 0;
  return same ? floordiv(a, b) : a / b;
}

}  // namespace

Result<void> unary(Lowering& op) {
  const UnaryRule& rule = unary_rules().at(op.op());
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(rule.kind == UnaryRule::numbers ? op.want_number(0) : op.want_float(0));
  const DType type = rule.kind == UnaryRule::test ? DType::boolean : x->type;
  return op.result_map(type, x->shape, {x}, [&](const Index& i) { return rule.body(op, op.at(x, i)); });
}

Result<void> gelu(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  std::string approximate = op.text("approximate", "none");
  if (op.op() == "FastGelu") approximate = "tanh";
  if (approximate != "none" && approximate != "tanh") {
    return op.bad(fmt::format("approximate is '{}', 'none' or 'tanh' wanted", approximate));
  }
  Values operands{x};
  if (op.has(1)) operands.push_back(op.in(1));  // BiasGelu, FastGelu
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), x->type, operands, [&](const Scalars& s) {
             const Expr sum = s.size() > 1 ? s[0] + cast_to(s[1], x->type) : s[0];
             return gelu_of(sum, approximate == "tanh");
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> binary(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  const DType type = op.in(0)->type;
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const char kind = op.op()[0] == 'S' ? '-' : op.op()[0] == 'A' ? '+' : op.op()[0] == 'M' ? '*' : '/';
  const Ranges& ranges = op.state().ranges;
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), type, {op.in(0), op.in(1)}, [&](const Scalars& s) {
             switch (kind) {
               case '+':
                 return s[0] + s[1];
               case '-':
                 return s[0] - s[1];
               case '*':
                 return s[0] * s[1];
               default:
                 return divided(op, ranges, s[0], s[1]);
             }
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> mod(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  const DType type = op.in(0)->type;
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const bool c_style = op.integer("fmod", 0) != 0;
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), type, {op.in(0), op.in(1)}, [&](const Scalars& s) {
             if (!c_style && !is_float(type)) return aicf::mod(s[0], s[1]);
             if (is_float(type)) return remainder(s[0], s[1], c_style);
             const Expr quotient = s[0] / s[1];
             return s[0] - s[1] * quotient;
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> pow(Lowering& op) {
  const DType type = op.in(0)->type;
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_RETURN_IF_ERROR(op.want_number(1));
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), type, {op.in(0), op.in(1)}, [&](const Scalars& s) {
             // An integer base with a float exponent is raised in f64 and cast back, as ONNX says.
             if (is_integer(type) && is_float(s[1].type())) {
               return Expr::cast(binary_of(Op::pow, Expr::cast(s[0], DType::f64), cast_to(s[1], DType::f64)), type);
             }
             // Small whole powers as products: the same for negative bases, and what every device computes exactly
             // enough.
             if (s[1].is_constant(1)) return s[0];
             if (s[1].is_constant(2)) return s[0] * s[0];
             if (s[1].is_constant(3)) return s[0] * s[0] * s[0];
             return binary_of(Op::pow, s[0], cast_to(s[1], type));
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> variadic_fold(Lowering& op) {
  Values operands;
  for (int k = 0; k < op.inputs(); ++k) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, k));
    operands.push_back(op.in(k));
  }
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const DType type = operands[0]->type;
  const std::string& kind = op.op();
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), type, operands, [&](const Scalars& s) {
             Expr result = s[0];
             for (std::size_t k = 1; k < s.size(); ++k) {
               if (kind == "Max")
                 result = binary_of(Op::max, result, s[k]);
               else if (kind == "Min")
                 result = binary_of(Op::min, result, s[k]);
               else
                 result = result + s[k];
             }
             return kind == "Mean" ? result / like(result, static_cast<double>(s.size())) : result;
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> comparison(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  const std::string& kind = op.op();
  if (kind != "Equal") AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), DType::boolean, {op.in(0), op.in(1)}, [&](const Scalars& s) {
             if (kind == "Equal") return equal(s[0], s[1]);
             if (kind == "Less") return less(s[0], s[1]);
             if (kind == "LessOrEqual") return less_equal(s[0], s[1]);
             if (kind == "Greater") return less(s[1], s[0]);
             return less_equal(s[1], s[0]);
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> logical(Lowering& op) {
  Values operands;
  for (int k = 0; k < op.inputs(); ++k) {
    AICF_RETURN_IF_ERROR(op.want_type(k, DType::boolean));
    operands.push_back(op.in(k));
  }
  const std::string& kind = op.op();
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), DType::boolean, operands, [&](const Scalars& s) {
             if (kind == "Not") return logical_not(s[0]);
             if (kind == "And") return logical_and(s[0], s[1]);
             if (kind == "Or") return logical_or(s[0], s[1]);
             return logical_and(logical_or(s[0], s[1]), logical_not(logical_and(s[0], s[1])));
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> clip(Lowering& op) {
  const ValuePtr x = op.in(0);
  const DType type = x->type;
  AICF_RETURN_IF_ERROR(op.want_number(0));
  Values operands{x};
  Expr low, high;
  for (int k = 1; k <= 2; ++k) {
    const Attribute* a = op.attribute(k == 1 ? "min" : "max");
    if (a) (k == 1 ? low : high) = number(wide(type), a->f);
    if (!op.has(k)) continue;
    AICF_RETURN_IF_ERROR(op.want_same_type(0, k));
    if (!op.in(k)->shape.empty() && !(op.in(k)->rank() == 1 && op.in(k)->shape[0].is_constant(1))) {
      return op.bad(fmt::format("input {} has shape {}, a scalar wanted", k, to_string(op.in(k)->shape)));
    }
    operands.push_back(op.in(k));
  }
  return op.result_map(type, x->shape, operands, [&](const Index& i) {
    Expr y = op.at(x, i);
    const auto bound = [&](int k, const Expr& attribute) {
      return op.has(k) ? op.at(op.in(k), Index(op.in(k)->shape.size(), Expr(0))) : attribute;
    };
    if (const Expr b = bound(1, low)) y = binary_of(Op::max, y, b);
    if (const Expr b = bound(2, high)) y = binary_of(Op::min, y, b);
    return y;
  });
}

Result<void> where(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_type(0, DType::boolean));
  AICF_RETURN_IF_ERROR(op.want_same_type(1, 2));
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), op.in(1)->type, {op.in(0), op.in(1), op.in(2)}, [](const Scalars& s) {
             if (s[0].op() == Op::not_) return Expr::select(s[0].args()[0], s[2], s[1]);
             return Expr::select(s[0], s[1], s[2]);
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> is_inf(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  const bool positive = op.integer("detect_positive", 1) != 0, negative = op.integer("detect_negative", 1) != 0;
  return op.result_map(DType::boolean, x->shape, {x}, [&](const Index& i) {
    const Expr e = op.at(x, i);
    if (positive && negative) return unary_of(Op::isinf, e);
    if (!positive && !negative) return Expr::boolean(false);
    return equal(
        e, like(e, positive ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()));
  });
}

Result<void> cast(Lowering& op) {
  const std::int64_t to = op.integer("to", 0);
  const auto type = onnx_dtype(to);
  if (!type)
    return op.cannot(fmt::format("attribute to is element type {}, which AICF does not have", onnx_type_name(to)));
  AICF_TRY(ValuePtr y, op.converted(op.in(0), *type, op.name()));
  op.result(0, std::move(y));
  return {};
}

Result<void> cast_like(Lowering& op) {
  AICF_TRY(ValuePtr y, op.converted(op.in(0), op.in(1)->type, op.name()));
  op.result(0, std::move(y));
  return {};
}

Result<void> swiglu(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), op.in(0)->type, {op.in(0), op.in(1)}, [&](const Scalars& s) {
             return s[0] * sigmoid_of(alpha_of(op, s[0], 1) * s[0]) * s[1];
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> prelu(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_TRY(ValuePtr y, elementwise(op, op.name(), op.in(0)->type, {op.in(0), op.in(1)}, [](const Scalars& s) {
             return Expr::select(less(s[0], like(s[0], 0)), s[0] * s[1], s[0]);
           }));
  op.result(0, std::move(y));
  return {};
}

}  // namespace aicf::ops
