#include "mir/region/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace aicf {
namespace {

constexpr std::array<std::string_view, 5> kind_names{"attention", "normalisation", "reduction", "contraction", "map"};

std::unexpected<Diagnostic> broken(const Region& region, const std::string& statement, const std::string& rule) {
  return bad_input(fmt::format("'{}' {}", statement, rule), fmt::format("region '{}'", region.name));
}

/// Axes of `e` including those of the values it reads.
std::set<std::string> reach(const Region& region, const Expr& e) {
  std::set<std::string> axes = axes_of(e);
  for (const std::string& v : values_of(e)) {
    if (const Statement* s = region.find(v)) axes.insert(s->axes.begin(), s->axes.end());
  }
  return axes;
}

/// Type and number of dimensions of every load are those of the input declared for it.
Result<void> verify_loads(const Region& region, const std::string& user, const Expr& e) {
  for (const Expr& load : loads_of(e)) {
    const RegionInput* input = region.input(load.name());
    if (!input)
      return broken(region, user, fmt::format("loads '{}', which is not an input of the region", load.name()));
    if (input->type != load.type()) {
      return broken(region, user,
                    fmt::format("loads '{}' as {}, it is {}", load.name(), name(load.type()), name(input->type)));
    }
    if (input->shape.size() != load.args().size()) {
      return broken(region, user,
                    fmt::format("loads '{}' with {} indices, it has {} dimensions", load.name(), load.args().size(),
                                input->shape.size()));
    }
  }
  return {};
}

}  // namespace

std::string_view name(RegionKind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}

std::optional<RegionKind> parse_region_kind(std::string_view text) {
  const auto it = std::ranges::find(kind_names, text);
  if (it == kind_names.end()) return std::nullopt;
  return static_cast<RegionKind>(it - kind_names.begin());
}

const Axis& Region::axis(const std::string& axis_name) const {
  auto it = std::ranges::find(axes, axis_name, &Axis::name);
  AICF_CHECK(it != axes.end(), fmt::format("region '{}' has no axis '{}'", name, axis_name));
  return *it;
}

const Statement* Region::find(const std::string& value) const {
  auto it = std::ranges::find(statements, value, &Statement::name);
  return it == statements.end() ? nullptr : &*it;
}

const RegionInput* Region::input(const std::string& tensor) const {
  auto it = std::ranges::find(inputs, tensor, &RegionInput::tensor);
  return it == inputs.end() ? nullptr : &*it;
}

Ranges Region::ranges() const {
  Ranges result;
  for (const Axis& a : axes) {
    Range range{0, {}};
    if (const auto n = range_of(a.extent, {}).high) range.high = std::max<std::int64_t>(*n - 1, 0);
    result["axis:" + a.name] = range;
  }
  return result;
}

ExprMap Region::extents() const {
  ExprMap result;
  for (const Axis& a : axes) result[a.name] = a.extent;
  return result;
}

Result<void> verify(const Region& region) {
  std::set<std::string> axes;
  for (const Axis& a : region.axes) {
    if (!axes.insert(a.name).second) return broken(region, a.name, "is the name of two axes");
  }
  std::map<std::string, const Statement*> defined;
  for (const Statement& s : region.statements) {
    if (s.name.empty()) return broken(region, "", "a statement has no name");
    if (!s.body) return broken(region, s.name, "has no body");
    if (defined.contains(s.name)) return broken(region, s.name, "is defined twice");
    if ((s.reduce == ReduceOp::none) != s.over.empty()) {
      return broken(region, s.name, "must reduce over axes exactly when it has a reduction");
    }
    std::set<std::string> own;
    for (const auto* list : {&s.axes, &s.over}) {
      for (const std::string& a : *list) {
        if (!axes.contains(a)) return broken(region, s.name, fmt::format("has the unknown axis '{}'", a));
        if (!own.insert(a).second) return broken(region, s.name, fmt::format("has the axis '{}' twice", a));
      }
    }
    for (const std::string& v : values_of(s.body)) {
      auto it = defined.find(v);
      if (it == defined.end()) return broken(region, s.name, fmt::format("reads '{}' before it is defined", v));
      for (const std::string& a : it->second->axes) {
        if (!own.contains(a)) return broken(region, s.name, fmt::format("reads '{}' without its axis '{}'", v, a));
      }
    }
    bool types_agree = true;
    for_each(s.body, [&](const Expr& e) {
      if (e.op() == Op::value) types_agree &= defined.at(e.name())->type == e.type();
    });
    if (!types_agree) return broken(region, s.name, "reads a value at another type than its own");
    for (const std::string& a : axes_of(s.body)) {
      if (!own.contains(a)) return broken(region, s.name, fmt::format("uses the axis '{}', which it does not have", a));
    }
    if (s.body.type() != s.type) {
      return broken(region, s.name, fmt::format("has type {} but its body is {}", name(s.type), name(s.body.type())));
    }
    AICF_RETURN_IF_ERROR(verify_loads(region, s.name, s.body));
    defined[s.name] = &s;
  }
  for (const RegionOutput& o : region.outputs) {
    const Statement* s = region.find(o.value);
    if (!s) return broken(region, o.value, "is written but not defined");
    if (o.index.size() != o.shape.size())
      return broken(region, o.value, "is written with another number of indices than dimensions");
    std::set<std::string> used;
    for (const Expr& e : o.index) used.merge(reach(region, e));
    for (const std::string& a : used) {
      if (std::ranges::find(s->axes, a) == s->axes.end())
        return broken(region, o.value, fmt::format("is written at axis '{}', which it does not have", a));
    }
  }
  return {};
}

}  // namespace aicf
