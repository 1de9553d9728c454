#include "tools/aicf/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mir/support/interface.h"

namespace aicf::command {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double error_of(double got, double wanted) {
  if (got == wanted || (std::isnan(got) && std::isnan(wanted))) return 0;
  return std::isfinite(got) && std::isfinite(wanted) ? std::abs(got - wanted) : infinity;
}

Difference::Element element(const std::string& name, const Tensor& got, const Tensor& wanted, std::int64_t flat) {
  Difference::Element out{name, std::vector<std::int64_t>(wanted.shape().size()), got.at(flat), wanted.at(flat)};
  for (std::size_t d = out.index.size(); d-- > 0; flat /= wanted.shape()[d]) out.index[d] = flat % wanted.shape()[d];
  return out;
}

std::string to_text(const Difference::Element& e) {
  return fmt::format("{}: {} instead of {}", dims_text(e.index), e.got, e.wanted);
}

Json to_json(const Difference::Element& e) {
  return {{"tensor", e.tensor}, {"index", e.index}, {"got", json_number(e.got)}, {"wanted", json_number(e.wanted)}};
}

}  // namespace

double usual_relative(DType type) {
  if (type == DType::f16) return 0x1p-9;
  if (type == DType::bf16) return 0x1p-6;
  return is_float(type) ? 1e-4 : 0;
}

Difference compare(const NamedTensors& got, const NamedTensors& wanted, double absolute,
                   std::optional<double> relative) {
  Difference d;
  double worst = 0;
  for (const auto& [name, w] : wanted) {
    const auto it = got.find(name);
    if (it == got.end() || it->second.shape() != w.shape()) {
      if (d.shape.empty())
        d.shape = it == got.end() ? fmt::format("'{}' is missing", name)
                                  : fmt::format("'{}' has the shape {}, {} is wanted", name,
                                                dims_text(it->second.shape()), dims_text(w.shape()));
      continue;
    }
    const Tensor& g = it->second;
    double largest = 0, error = 0;
    bool nan_differs = false;
    for (std::int64_t i = 0; i < w.size(); ++i) {
      const double a = g.at(i), b = w.at(i);
      if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
      if (std::isnan(a) != std::isnan(b))
        nan_differs = true;
      else
        error = std::max(error, error_of(a, b));
    }
    d.max_abs = std::max(d.max_abs, error);
    d.max_rel = std::max(d.max_rel, error == 0 ? 0 : largest > 0 ? error / largest : infinity);
    const double most = std::max(absolute, relative.value_or(usual_relative(g.type())) * largest);
    if (!nan_differs && error <= most) continue;
    for (std::int64_t i = 0; i < w.size(); ++i) {
      const double e = error_of(g.at(i), w.at(i));
      if (e <= most) continue;
      if (!d.first) d.first = element(name, g, w, i);
      if (e > worst) worst = e, d.worst = element(name, g, w, i);
    }
  }
  return d;
}

std::string to_text(const Difference& d) {
  if (!d.first) return d.shape;
  std::string out = fmt::format("'{}' {}", d.first->tensor, to_text(*d.first));
  if (d.worst == d.first) return out;
  return out + "; worst " + (d.worst->tensor == d.first->tensor ? "" : fmt::format("'{}' ", d.worst->tensor)) +
         to_text(*d.worst);
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json to_json(const Difference& d) {
  Json j{{"ok", d.none()}, {"max_abs", json_number(d.max_abs)}, {"max_rel", json_number(d.max_rel)}};
  j["first_bad"] = d.first ? to_json(*d.first) : d.shape.empty() ? Json() : Json{{"reason", d.shape}};
  if (d.first) j["worst"] = to_json(*d.worst);
  return j;
}

}  // namespace aicf::command
