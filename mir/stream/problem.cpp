#include "mir/stream/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace aicf::stream {
namespace {

bool is_narrow(DType type) {
  return type == DType::f16 || type == DType::bf16;
}

Expr widen(const Expr& e) {
  return rewrite(e, [](const Expr& x) -> Expr {
    if (!is_narrow(x.type())) return {};
    switch (x.op()) {
      case Op::constant:
        return Expr::constant(DType::f32, x.number());
      case Op::value:
        return Expr::value(x.name(), DType::f32);
      case Op::load:
      case Op::cast:
        return Expr::cast(x, DType::f32);
      default:
        return {};  // its operands are f32 by now
    }
  });
}

/// Counts how often each value occurs in the tree of `e`.
void count_values(const Expr& e, std::map<std::string, int>& counts) {
  if (e.op() == Op::value) {
    int& n = counts[e.name()];
    n = std::min(n + 1, 2);
  }
  for (const Expr& a : e.args()) count_values(a, counts);
}

}  // namespace

Region widen(Region region) {
  for (Statement& s : region.statements) {
    s.body = widen(s.body);
    if (is_narrow(s.type)) s.type = DType::f32;
  }
  return region;
}

Problem::Problem(Region region, std::string axis)
    : region_(std::move(region)), axis_(std::move(axis)), ranges_(region_.ranges()) {
  for (const Statement& s : region_.statements) {
    by_name_[s.name] = &s;
    results_[s.name] = is_result(s.name) ? std::set<std::string>{s.name} : results(s.body);
  }
  for (const RegionOutput& o : region_.outputs) ++uses_[o.value];
  for (const Statement& s : std::views::reverse(region_.statements)) {
    count_values(s.body, uses_);
    // Another name for a value: who reads the name reads the value.
    if (s.body.op() == Op::value && s.over.empty()) uses_[s.body.name()] += std::max(0, uses_[s.name] - 1);
  }
}

const Statement& Problem::statement(const std::string& value) const {
  auto it = by_name_.find(value);
  AICF_CHECK(it != by_name_.end(), fmt::format("'{}' is not a value of region '{}'", value, region_.name));
  return *it->second;
}

bool Problem::carries(const Expr& e) const {
  if (!e) return false;
  bool found = false;
  for_each(e, [&](const Expr& x) {
    if (x.op() == Op::axis) found |= x.name() == axis_;
    if (x.op() == Op::value && defines(x.name())) found |= carries(x.name());
  });
  return found;
}

std::set<std::string> Problem::results(const Expr& e) const {
  std::set<std::string> all;
  if (!e) return all;
  for (const std::string& v : values_of(e)) {
    if (!defines(v)) continue;
    const auto& own = results_.at(v);
    all.insert(own.begin(), own.end());
  }
  return all;
}

std::vector<std::string> Problem::ordered(const std::set<std::string>& axes) const {
  std::vector<std::string> list;
  for (const Axis& a : region_.axes) {
    if (axes.contains(a.name)) list.push_back(a.name);
  }
  return list;
}

std::vector<std::string> Problem::axes(const Expr& e) const {
  std::set<std::string> all = axes_of(e);
  for (const std::string& v : values_of(e)) {
    if (!defines(v)) continue;
    const auto& own = statement(v).axes;
    all.insert(own.begin(), own.end());
  }
  return ordered(all);
}

Expr Problem::canonical(const Expr& e) const {
  return rewrite(e, [&](const Expr& x) -> Expr {
    if (x.op() != Op::value || !defines(x.name()) || !is_map(x.name())) return {};
    auto it = bodies_.find(x.name());
    if (it == bodies_.end()) it = bodies_.emplace(x.name(), canonical(statement(x.name()).body)).first;
    return it->second;
  });
}

Expr Problem::opened(Expr e) const {
  while (e.op() == Op::value && defines(e.name()) && is_open(e.name())) e = statement(e.name()).body;
  return e;
}

bool Problem::is_open(const std::string& value) const {
  constexpr std::uint64_t largest = 4096;
  return is_map(value) && canonical(Expr::value(value, statement(value).type)).tree_size() <= largest;
}

Expr Problem::extent(const std::vector<std::string>& axes) const {
  Expr product = 1;
  for (const std::string& a : axes) product = product * region_.axis(a).extent;
  return simplify(product, {});
}

bool Problem::is_index_only(const Expr& e) const {
  const Expr full = canonical(e);
  constexpr std::uint64_t largest = 1024;  // users write such values out again each time
  if (full.tree_size() > largest) return false;
  bool only = true;
  for_each(full, [&](const Expr& x) { only &= x.op() != Op::load && x.op() != Op::value; });
  return only;
}

int Problem::uses(const std::string& value) const {
  auto it = uses_.find(value);
  return it == uses_.end() ? 0 : it->second;
}

bool Problem::in_bounds(const Expr& index, const Expr& dim) const {
  if (index.op() == Op::axis && provably_equal(region_.axis(index.name()).extent, dim)) return true;
  const Range low = range_of(simplify(index, ranges_), ranges_);
  const Range left = range_of(simplify(dim - index, ranges_), ranges_);
  return low.low && *low.low >= 0 && left.low && *left.low >= 1;
}

bool Problem::in_bounds(const Expr& load) const {
  const RegionInput* input = region_.input(load.name());
  AICF_CHECK(input, fmt::format("region '{}' does not declare its input '{}'", region_.name, load.name()));
  for (std::size_t i = 0; i < input->shape.size(); ++i)
    if (!in_bounds(load.args()[i], input->shape[i])) return false;
  return true;
}

}  // namespace aicf::stream
