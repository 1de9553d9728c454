#include "mir/stream/facts.h"

#include <algorithm>
#include <cmath>

namespace aicf::stream {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// a·b for interval ends, where 0·∞ is 0: an end that is not attained.
double times(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

Interval product(const Interval& a, const Interval& b) {
  const double ends[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)};
  return {*std::ranges::min_element(ends), *std::ranges::max_element(ends)};
}

Interval inverse(const Interval& a) {
  if (a.low > 0) return {1 / a.high, 1 / a.low};
  if (a.low == 0) return {a.high == infinity ? 0 : 1 / a.high, infinity};
  if (a.high < 0) return {1 / a.high, 1 / a.low};
  if (a.high == 0) return {-infinity, 0};
  return {};
}

Interval join(const Interval& a, const Interval& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

template <class F>
Interval increasing(const Interval& a, F f) {
  return {f(a.low), f(a.high)};
}

}  // namespace

bool Interval::finite() const {
  return std::isfinite(low) && std::isfinite(high);
}

bool Facts::is_maximum_of(const Expr& m, const Expr& x) const {
  Expr e = m;
  while (e.op() == Op::value && problem_.defines(e.name()) && problem_.is_open(e.name()))
    e = problem_.statement(e.name()).body;
  if (e.op() == Op::max || e.op() == Op::maxnum) return is_maximum_of(e.args()[0], x) || is_maximum_of(e.args()[1], x);
  if (e.op() == Op::cast && is_float(e.type())) return is_maximum_of(e.args()[0], x);
  if (e.op() != Op::value || !problem_.defines(e.name())) return false;
  const Statement& s = problem_.statement(e.name());
  if (s.reduce != ReduceOp::max && s.reduce != ReduceOp::maxnum) return false;
  return problem_.canonical(s.body) == problem_.canonical(x);
}

Interval Facts::bounds(const std::string& value) const {
  if (auto it = values_.find(value); it != values_.end()) return it->second;
  if (!problem_.defines(value)) return {};
  const Interval result = of_statement(problem_.statement(value));
  values_[value] = result;
  return result;
}

Interval Facts::of_statement(const Statement& s) const {
  const Interval body = bounds(s.body);
  switch (s.reduce) {
    case ReduceOp::none:
    case ReduceOp::first:
      return body;
    case ReduceOp::sum: {
      Interval sum{body.low >= 0 ? 0 : -infinity, body.high <= 0 ? 0 : infinity};
      // Σ exp(x − max x) over the same axes holds the term exp(0).
      Expr e = s.body;
      while (e.op() == Op::value && problem_.defines(e.name()) && problem_.is_open(e.name()))
        e = problem_.statement(e.name()).body;
      if (e.op() == Op::exp) {
        Expr d = e.args()[0];
        while (d.op() == Op::value && problem_.defines(d.name()) && problem_.is_open(d.name()))
          d = problem_.statement(d.name()).body;
        if (d.op() == Op::sub && d.args()[1].op() == Op::value && problem_.defines(d.args()[1].name())) {
          const Statement& m = problem_.statement(d.args()[1].name());
          const bool same = std::set<std::string>(m.over.begin(), m.over.end()) ==
                            std::set<std::string>(s.over.begin(), s.over.end());
          if (same && is_maximum_of(d.args()[1], d.args()[0])) sum.low = 1;
        }
      }
      return sum;
    }
    case ReduceOp::prod:
      return {body.low >= 0 ? 0 : -infinity, infinity};
    // An empty axis gives the neutral element.
    case ReduceOp::max:
    case ReduceOp::maxnum:
      return {-infinity, body.high};
    case ReduceOp::min:
    case ReduceOp::minnum:
      return {body.low, infinity};
    case ReduceOp::any:
    case ReduceOp::all:
      return {0, 1};
  }
  return {};
}

Interval Facts::binary(const Expr& e) const {
  const Expr &x = e.args()[0], &y = e.args()[1];
  const Interval a = bounds(x), b = bounds(y);
  switch (e.op()) {
    case Op::add: {
      Interval sum{a.low + b.low, a.high + b.high};
      if (std::isnan(sum.low)) sum.low = -infinity;
      if (std::isnan(sum.high)) sum.high = infinity;
      return sum;
    }
    case Op::sub: {
      Interval d{a.low - b.high, a.high - b.low};
      if (std::isnan(d.low)) d.low = -infinity;
      if (std::isnan(d.high)) d.high = infinity;
      if (is_maximum_of(y, x)) d.high = std::min(d.high, 0.0);
      if (is_maximum_of(x, y)) d.low = std::max(d.low, 0.0);
      return d;
    }
    case Op::mul: {
      Interval p = product(a, b);
      if (x == y) p.low = std::max(p.low, 0.0);
      return p;
    }
    case Op::div:
      return product(a, inverse(b));
    case Op::pow:
      if (y.is_constant() && std::fmod(y.number(), 2) == 0) return {0, infinity};
      return a.non_negative() ? Interval{0, infinity} : Interval{};
    case Op::min:
    case Op::minnum:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::max:
    case Op::maxnum:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::mod:
      return b.positive() ? Interval{0, b.high} : Interval{};
    default:
      return {};
  }
}

Interval Facts::bounds(const Expr& e) const {
  if (e.type() == DType::boolean) return {0, 1};
  if (e.op() == Op::constant) {
    if (std::isnan(e.number())) return {infinity, -infinity};  // holds no number
    return {e.number(), e.number()};
  }
  if (e.op() == Op::value) return bounds(e.name());
  if (e.op() == Op::axis || e.op() == Op::symbol) {
    const Range r = range_of(e, problem_.ranges());
    return {r.low ? static_cast<double>(*r.low) : -infinity, r.high ? static_cast<double>(*r.high) : infinity};
  }
  if (op_arity(e.op()) == 2) return binary(e);
  if (e.op() == Op::select) return join(bounds(e.args()[1]), bounds(e.args()[2]));
  if (e.args().empty() || e.op() == Op::load) return {};
  const Interval a = bounds(e.args()[0]);
  switch (e.op()) {
    case Op::neg:
      return {-a.high, -a.low};
    case Op::abs: {
      if (a.low >= 0) return a;
      return {a.high <= 0 ? -a.high : 0, std::max(-a.low, a.high)};
    }
    case Op::sign:
      return {a.low > 0 ? 1.0 : a.low == 0 ? 0.0 : -1.0, a.high < 0 ? -1.0 : a.high == 0 ? 0.0 : 1.0};
    case Op::exp:
      return increasing(a, [](double v) { return std::exp(v); });
    case Op::log:
      return increasing(a, [](double v) { return v <= 0 ? -infinity : std::log(v); });
    case Op::sqrt:
      return increasing(a, [](double v) { return v <= 0 ? 0 : std::sqrt(v); });
    case Op::reciprocal:
      return inverse(a);
    case Op::erf:
      return increasing(a, [](double v) { return std::erf(v); });
    case Op::tanh:
      return increasing(a, [](double v) { return std::tanh(v); });
    case Op::sin:
    case Op::cos:
      return {-1, 1};
    case Op::floor:
      return increasing(a, [](double v) { return std::floor(v); });
    case Op::ceil:
      return increasing(a, [](double v) { return std::ceil(v); });
    case Op::round_even:
      return increasing(a, [](double v) { return std::nearbyint(v); });
    case Op::cast:
      if (is_float(e.type()) && e.args()[0].type() != DType::boolean) return a;
      if (is_integer(e.type()) && is_integer(e.args()[0].type())) return {};
      return e.args()[0].type() == DType::boolean ? Interval{0, 1} : Interval{};
    default:
      return {};
  }
}

}  // namespace aicf::stream
