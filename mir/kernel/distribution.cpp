#include "mir/kernel/distribution.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "mir/kernel/expand_plan.h"

namespace aicf {
namespace {

bool power_of_two(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// The bits of the lane (subgroup) id that factors use.
std::int64_t used_bits(const Distribution& distribution, Level level) {
  std::int64_t bits = 0;
  for (const Factor& f : distribution.factors) {
    if (f.level == level) bits |= (f.size - 1) * f.position;
  }
  return bits;
}

Expr id_symbol(Level level) {
  return Expr::symbol(level == Level::lane ? "lane" : "subgroup");
}

/// digit (id / position) % size, without operations that cannot change the value of an id below `limit`.
Expr digit_of(const Expr& id, std::int64_t position, std::int64_t size, std::int64_t limit) {
  Expr digit = position == 1 ? id : floordiv(id, Expr(position));
  return position * size >= limit ? digit : mod(digit, Expr(size));
}

}  // namespace

std::int64_t register_part(const Distribution& distribution, const std::string& axis, std::int64_t reg) {
  std::int64_t result = 0;
  for (const Factor& f : distribution.factors) {
    if (f.level != Level::reg) continue;
    if (f.axis == axis) result += reg % f.size * f.stride;
    reg /= f.size;
  }
  return result;
}

std::vector<Factor> thread_factors(const Distribution& distribution, const std::string& axis) {
  std::vector<Factor> result;
  for (const Factor& f : distribution.factors) {
    if (f.level != Level::reg && f.axis == axis && f.size > 1) result.push_back(f);
  }
  std::ranges::sort(result, {}, &Factor::stride);
  return result;
}

Expr thread_part(std::span<const Factor> factors, int subgroup_size, int subgroups) {
  Expr sum = 0;
  for (const Factor& f : factors) {
    const std::int64_t limit = f.level == Level::lane ? subgroup_size : subgroups;
    sum = sum + digit_of(id_symbol(f.level), f.position, f.size, limit) * Expr(f.stride);
  }
  return sum;
}

std::int64_t coordinate(const Distribution& distribution, const std::string& axis, const Place& place) {
  std::int64_t result = register_part(distribution, axis, place.reg);
  for (const Factor& f : distribution.factors) {
    if (f.level == Level::reg || f.axis != axis) continue;
    const std::int64_t id = f.level == Level::lane ? place.lane : place.subgroup;
    result += id / f.position % f.size * f.stride;
  }
  return result;
}

Place owner(const Distribution& distribution, const std::map<std::string, std::int64_t>& coordinates) {
  Place place;
  std::int64_t weight = 1;
  for (const Factor& f : distribution.factors) {
    const auto found = coordinates.find(f.axis);
    AICF_CHECK(found != coordinates.end(), "no coordinate for axis " + f.axis);
    const std::int64_t digit = found->second / f.stride % f.size;
    switch (f.level) {
      case Level::reg:
        place.reg += digit * weight;
        weight *= f.size;
        break;
      case Level::lane:
        place.lane += digit * f.position;
        break;
      case Level::subgroup:
        place.subgroup += digit * f.position;
        break;
    }
  }
  return place;
}

Result<void> covers(const KernelTile& tile, int subgroup_size, int subgroups) {
  const auto error = [&](std::string message) { return bad_input("tile " + tile.name + ": " + message); };
  std::int64_t used_lanes = 0, used_subgroups = 0;
  std::map<std::string, std::vector<Factor>> by_axis;
  for (const TileAxis& axis : tile.axes) {
    if (axis.extent < 1) return error(fmt::format("axis {} has extent {}", axis.name, axis.extent));
    if (!by_axis.emplace(axis.name, std::vector<Factor>{}).second) return error("axis " + axis.name + " occurs twice");
  }
  for (const Factor& f : tile.distribution.factors) {
    const auto axis = by_axis.find(f.axis);
    if (axis == by_axis.end()) return error("a factor names axis " + f.axis + ", which the tile has not");
    constexpr std::int64_t limit_of_factors = std::int64_t{1} << 31;
    if (f.size < 1 || f.stride < 1 || f.position < 1 || std::max({f.size, f.stride, f.position}) > limit_of_factors)
      return error("axis " + f.axis + ": a factor is out of range");
    if (f.size > 1) axis->second.push_back(f);
    if (f.level == Level::reg || f.size == 1) continue;
    const bool lane = f.level == Level::lane;
    const std::int64_t limit = lane ? subgroup_size : subgroups;
    if (!power_of_two(f.size) || !power_of_two(f.position)) {
      return error(fmt::format("axis {}: {} factor {} @{} is not made of powers of two", f.axis, name(f.level), f.size,
                               f.position));
    }
    if (f.size * f.position > limit) {
      return error(fmt::format("axis {}: {} factor {} @{} exceeds {} {}s", f.axis, name(f.level), f.size, f.position,
                               limit, name(f.level)));
    }
    std::int64_t& used = lane ? used_lanes : used_subgroups;
    const std::int64_t bits = (f.size - 1) * f.position;
    if (used & bits)
      return error(
          fmt::format("axis {}: {} factor {} @{} overlaps another", f.axis, name(f.level), f.size, f.position));
    used |= bits;
  }
  for (const TileAxis& axis : tile.axes) {
    std::vector<Factor>& factors = by_axis[axis.name];
    std::ranges::sort(factors, {}, &Factor::stride);
    std::int64_t product = 1;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (factors[i].stride != product) {
        return error(
            fmt::format("axis {}: stride {} where {} covers each element once", axis.name, factors[i].stride, product));
      }
      if (!power_of_two(factors[i].size) && i + 1 < factors.size()) {
        return error(
            fmt::format("axis {}: size {} is not a power of two and not outermost", axis.name, factors[i].size));
      }
      product *= factors[i].size;
    }
    if (product != axis.extent) {
      return error(fmt::format("axis {}: factors cover {} of {} elements", axis.name, product, axis.extent));
    }
  }
  return {};
}

Expr sole_holder(const Distribution& distribution, int subgroup_size, int subgroups) {
  Expr result;
  for (const Level level : {Level::lane, Level::subgroup}) {
    const std::int64_t limit = level == Level::lane ? subgroup_size : subgroups;
    const std::int64_t used = used_bits(distribution, level);
    // One comparison per run of unused id bits.
    for (std::int64_t position = 1; position < limit; position *= 2) {
      if (used & position) continue;
      std::int64_t size = 1;
      while (position * size < limit && !(used & (position * size))) size *= 2;
      result = logical_and(result, equal(digit_of(id_symbol(level), position, size, limit), Expr(0)));
      position *= size;
    }
  }
  return result;
}

bool equivalent(const KernelTile& a, const KernelTile& b) {
  return a.distribution.registers() == b.distribution.registers() &&
         classify_conversion(a, b) == Conversion::renaming && classify_conversion(b, a) == Conversion::renaming;
}

Conversion classify_conversion(const KernelTile& from, const KernelTile& to) {
  const Result<FetchPlan> plan = plan_fetch(from, CoordinateSpace::of(to));
  if (!plan) return Conversion::workgroup;
  return plan->kind == FetchPlan::Kind::own ? Conversion::renaming : Conversion::shuffle;
}

}  // namespace aicf
