#pragma once

// An independent meaning of regions for tests: every statement evaluated in float64 over whole arrays, in order.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "mir/region/region.h"
#include "mir/stream/evaluate.h"

namespace aicf::test {

class RegionReference {
 public:
  RegionReference(const Region& region, const HostTensors& inputs, const std::map<std::string, std::int64_t>& symbols)
      : region_(region), inputs_(inputs), symbols_(symbols) {}

  HostTensors run() {
    for (const Axis& a : region_.axes) extent_[a.name] = evaluate_int(a.extent, symbols_).value();
    for (const RegionInput& i : region_.inputs) {
      for (const Expr& e : i.shape) shapes_[i.tensor].push_back(evaluate_int(e, symbols_).value());
    }
    for (const Statement& s : region_.statements) {
      std::vector<double> data;
      loop(s.axes, 0, [&] { data.push_back(s.over.empty() ? scalar(s.body) : reduce(s)); });
      values_[s.name] = std::move(data);
    }
    HostTensors out;
    for (const RegionOutput& o : region_.outputs) {
      std::int64_t elements = 1;
      std::vector<std::int64_t> shape;
      for (const Expr& e : o.shape) shape.push_back(evaluate_int(e, symbols_).value()), elements *= shape.back();
      out[o.tensor].resize(static_cast<std::size_t>(elements));
      loop(region_.find(o.value)->axes, 0, [&] {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < shape.size(); ++i)
          offset = offset * shape[i] + static_cast<std::int64_t>(scalar(o.index[i]));
        out[o.tensor][static_cast<std::size_t>(offset)] = value(o.value);
      });
    }
    return out;
  }

 private:
  template <class F>
  void loop(const std::vector<std::string>& axes, std::size_t i, const F& f) {
    if (i == axes.size()) return f();
    for (std::int64_t c = 0; c < extent_[axes[i]]; ++c) {
      at_[axes[i]] = c;
      loop(axes, i + 1, f);
    }
  }

  double value(const std::string& name) {
    std::int64_t offset = 0;
    for (const std::string& a : region_.find(name)->axes) offset = offset * extent_[a] + at_[a];
    return values_.at(name)[static_cast<std::size_t>(offset)];
  }

  double reduce(const Statement& s) {
    std::vector<double> terms;
    loop(s.over, 0, [&] { terms.push_back(scalar(s.body)); });
    double r = neutral(s.reduce, s.type).number();
    for (const double t : terms) {
      switch (s.reduce) {
        case ReduceOp::sum:
          r += t;
          break;
        case ReduceOp::prod:
          r *= t;
          break;
        case ReduceOp::max:
          r = std::isnan(r) || std::isnan(t) ? NAN : std::max(r, t);
          break;
        case ReduceOp::min:
          r = std::isnan(r) || std::isnan(t) ? NAN : std::min(r, t);
          break;
        case ReduceOp::any:
          r = r != 0 || t != 0;
          break;
        case ReduceOp::all:
          r = r != 0 && t != 0;
          break;
        default:
          std::abort();
      }
    }
    return r;
  }

  double scalar(const Expr& e) {
    switch (e.op()) {
      case Op::constant:
        return e.number();
      case Op::axis:
        return static_cast<double>(at_.at(e.name()));
      case Op::symbol:
        return static_cast<double>(symbols_.at(e.name()));
      case Op::value:
        return value(e.name());
      case Op::select:
        return scalar(e.args()[0]) != 0 ? scalar(e.args()[1]) : scalar(e.args()[2]);
      case Op::load: {
        std::int64_t offset = 0;
        const auto& shape = shapes_.at(e.name());
        for (std::size_t i = 0; i < shape.size(); ++i)
          offset = offset * shape[i] + static_cast<std::int64_t>(scalar(e.args()[i]));
        return inputs_.at(e.name()).at(static_cast<std::size_t>(offset));
      }
      default:
        break;
    }
    double args[2] = {};
    for (std::size_t i = 0; i < e.args().size(); ++i) args[i] = scalar(e.args()[i]);
    const double a = args[0], b = args[1];
    switch (e.op()) {
      case Op::neg:
        return -a;
      case Op::abs:
        return std::fabs(a);
      case Op::sign:
        return std::isnan(a) ? a : (a > 0) - (a < 0);
      case Op::exp:
        return std::exp(a);
      case Op::log:
        return std::log(a);
      case Op::sqrt:
        return std::sqrt(a);
      case Op::reciprocal:
        return 1 / a;
      case Op::erf:
        return std::erf(a);
      case Op::tanh:
        return std::tanh(a);
      case Op::sin:
        return std::sin(a);
      case Op::cos:
        return std::cos(a);
      case Op::isnan:
        return std::isnan(a);
      case Op::isinf:
        return std::isinf(a);
      case Op::not_:
        return a == 0;
      case Op::cast:
        return is_float(e.type()) ? a : round_to(e.type(), a);
      case Op::add:
        return a + b;
      case Op::sub:
        return a - b;
      case Op::mul:
        return a * b;
      case Op::div:
        return a / b;
      case Op::floordiv:
        return std::floor(a / b);
      case Op::mod:
        return a - b * std::floor(a / b);
      case Op::pow:
        return std::pow(a, b);
      case Op::min:
        return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
      case Op::max:
        return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
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
      default:
        std::abort();
    }
  }

  const Region& region_;
  const HostTensors& inputs_;
  const std::map<std::string, std::int64_t>& symbols_;
  std::map<std::string, std::int64_t> extent_, at_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace aicf::test
