#include "mir/kernel/fragment_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "mir/kernel/distribution.h"
#include "mir/kernel/expand_plan.h"

namespace aicf {
namespace {

/// Bits of a coordinate that a lane or subgroup id decides: (weight in the coordinate, level, weight in the id).
using ThreadBits = std::set<std::tuple<std::int64_t, Level, std::int64_t>>;

ThreadBits thread_bits(const Distribution& distribution, const std::string& axis) {
  ThreadBits bits;
  for (const Factor& f : distribution.factors) {
    if (f.level == Level::reg || f.axis != axis) continue;
    for (std::int64_t digit = 1; digit < f.size; digit *= 2)
      bits.emplace(f.stride * digit, f.level, f.position * digit);
  }
  return bits;
}

/// The bits that tell blocks of `extent` elements apart.
ThreadBits block_bits(const KernelTile& tile, const std::string& axis, std::int64_t extent) {
  ThreadBits bits = thread_bits(tile.distribution, axis);
  std::erase_if(bits, [&](const auto& bit) { return std::get<0>(bit) < extent; });
  return bits;
}

const KernelTile* find_tile(const Kernel& kernel, const std::string& name) {
  const auto found = std::ranges::find(kernel.tiles, name, &KernelTile::name);
  return found == kernel.tiles.end() ? nullptr : &*found;
}

const TileAxis* find_axis(const KernelTile& tile, const std::string& axis) {
  const auto found = std::ranges::find(tile.axes, axis, &TileAxis::name);
  return found == tile.axes.end() ? nullptr : &*found;
}

/// One operand against the unit: kind, type, extents, and inside of each block the unit's own lanes.
Result<void> check_operand(const MatrixProduct& p, MatrixUse use, const KernelOp& op) {
  const KernelTile& tile = use == MatrixUse::a ? *p.a : use == MatrixUse::b ? *p.b : *p.c;
  const std::string what = fmt::format("{}.{}", op.unit, name(use));
  if (!p.unit) {
    if (tile.space != Space::fragment)
      return bad_input(fmt::format("'{}' is no opaque fragment, and others of this product are", tile.name));
    if (tile.fragment != what)
      return bad_input(fmt::format("'{}' is a fragment {} where the product takes {}", tile.name, tile.fragment, what));
  } else if (tile.space != Space::registers) {
    return bad_input(fmt::format("'{}' is not in registers, as the fragment {} is", tile.name, what));
  }
  const std::string& rows = use == MatrixUse::b ? p.k : p.m;
  const std::string& columns = use == MatrixUse::a ? p.k : p.n;
  if (!p.unit && tile.axes[0].name != rows)
    return bad_input(fmt::format("the rows of '{}' ({}) should be {}", tile.name, what, rows));
  for (const bool row : {true, false}) {
    const std::string& axis = row ? rows : columns;
    const std::int64_t extent = row ? p.shape.rows(use) : p.shape.columns(use);
    const std::int64_t own = find_axis(tile, axis)->extent;
    if (own % extent != 0)
      return bad_input(fmt::format("axis {} of '{}' has {} elements, no multiple of {}", axis, tile.name, own, extent));
    ThreadBits inside = thread_bits(tile.distribution, axis), expected;
    std::erase_if(inside, [&](const auto& bit) { return std::get<0>(bit) >= extent; });
    const char* letter = row ? (use == MatrixUse::b ? "k" : "m") : (use == MatrixUse::a ? "k" : "n");
    if (p.unit) expected = thread_bits(p.unit->of(use), letter);
    if (inside != expected)
      return bad_input(fmt::format("axis {} of '{}' is not spread as in the fragment {}", axis, tile.name, what));
    for (const auto& [weight, level, id] : block_bits(tile, axis, extent)) {
      if (level == Level::lane)
        return bad_input(fmt::format("lanes hold different blocks of '{}' along {}", tile.name, axis));
    }
  }
  return {};
}

}  // namespace

Result<MatrixProduct> matrix_product(const Kernel& kernel, const KernelOp& op) {
  MatrixProduct p;
  const auto shape = parse_matrix_shape(op.unit);
  if (!shape) return bad_input(fmt::format("'{}' is no shape of a matrix unit, such as m16n8k16", op.unit));
  p.shape = *shape;
  if (op.operands.size() != 2) return bad_input("a product takes two operands");
  p.c = find_tile(kernel, op.tile);
  p.a = find_tile(kernel, op.operands[0]);
  p.b = find_tile(kernel, op.operands[1]);
  for (const auto& [tile, name] : {std::pair(p.c, op.tile), {p.a, op.operands[0]}, {p.b, op.operands[1]}}) {
    if (!tile) return bad_input(fmt::format("there is no tile '{}'", name));
    if (tile->axes.size() != 2) return bad_input(fmt::format("'{}' has {} axes, no matrix", name, tile->axes.size()));
  }
  for (const TileAxis& axis : p.a->axes) (find_axis(*p.c, axis.name) ? p.m : p.k) = axis.name;
  for (const TileAxis& axis : p.c->axes) {
    if (axis.name != p.m) p.n = axis.name;
  }
  for (const std::string* axis : {&p.k, &p.n}) {
    if (p.m.empty() || axis->empty() || !find_axis(*p.b, *axis))
      return bad_input(fmt::format("'{}', '{}' and '{}' are not c[m, n], a[m, k] and b[k, n]", op.tile, op.operands[0],
                                   op.operands[1]));
  }
  for (const auto& [left, right, axis] : {std::tuple(p.a, p.c, p.m), {p.a, p.b, p.k}, {p.b, p.c, p.n}}) {
    const std::int64_t one = find_axis(*left, axis)->extent, other = find_axis(*right, axis)->extent;
    if (one != other)
      return bad_input(
          fmt::format("axis {} has {} elements in '{}' and {} in '{}'", axis, one, left->name, other, right->name));
  }
  if (!matrix_types(p.a->type, p.b->type, p.c->type))
    return bad_input(fmt::format("no unit adds {} x {} to {}", name(p.a->type), name(p.b->type), name(p.c->type)));
  if (p.c->space != Space::fragment) {
    p.unit = matrix_unit(op.unit);
    if (!p.unit) return bad_input(fmt::format("the layouts of {} are not known; use opaque fragments", op.unit));
    if (p.unit->lanes != kernel.subgroup_size)
      return bad_input(
          fmt::format("{} is for {} lanes, the subgroup has {}", op.unit, p.unit->lanes, kernel.subgroup_size));
  }
  for (const MatrixUse use : {MatrixUse::a, MatrixUse::b, MatrixUse::c})
    AICF_RETURN_IF_ERROR(check_operand(p, use, op));
  const auto same = [&](const KernelTile& operand, const std::string& axis, std::int64_t extent) -> Result<void> {
    if (block_bits(operand, axis, extent) == block_bits(*p.c, axis, extent)) return {};
    return bad_input(fmt::format("'{}' and '{}' spread {} over subgroups differently", operand.name, p.c->name, axis));
  };
  AICF_RETURN_IF_ERROR(same(*p.a, p.m, p.shape.m));
  AICF_RETURN_IF_ERROR(same(*p.b, p.n, p.shape.n));
  for (const KernelTile* operand : {p.a, p.b}) {
    if (!block_bits(*operand, p.k, p.shape.k).empty())
      return bad_input(fmt::format("another subgroup holds a part of '{}' along {}", operand->name, p.k));
  }
  return p;
}

std::vector<BlockProduct> block_products(const MatrixProduct& p) {
  using Position = std::pair<std::int64_t, std::int64_t>;  // row, column: constant parts
  struct Registers {
    std::map<Position, std::size_t> at;
    std::vector<Position> inside;  // of one block
  };
  const auto registers = [&](const KernelTile& tile, MatrixUse use, const std::string& rows,
                             const std::string& columns) {
    Registers result;
    const int row = CoordinateSpace::of(tile).find(rows);
    const std::vector<Coordinates> all = register_coordinates(tile);
    for (std::size_t r = 0; r < all.size(); ++r)
      result.at[{all[r][static_cast<std::size_t>(row)], all[r][static_cast<std::size_t>(1 - row)]}] = r;
    if (!p.unit) {
      result.inside = {{0, 0}};
      return result;
    }
    KernelTile block;
    block.axes = {{rows, p.shape.rows(use)}, {columns, p.shape.columns(use)}};
    block.distribution = fragment_distribution(*p.unit, use, block.axes[0], block.axes[1]);
    for (const Coordinates& c : register_coordinates(block)) result.inside.emplace_back(c[0], c[1]);
    return result;
  };
  const auto block = [](const Registers& registers, std::int64_t row, std::int64_t column) {
    std::vector<std::size_t> result;
    for (const auto& [r, c] : registers.inside) result.push_back(registers.at.at({row + r, column + c}));
    return result;
  };
  const Registers a = registers(*p.a, MatrixUse::a, p.m, p.k), b = registers(*p.b, MatrixUse::b, p.k, p.n),
                  c = registers(*p.c, MatrixUse::c, p.m, p.n);
  std::vector<BlockProduct> products;
  for (std::int64_t k = 0; k < find_axis(*p.a, p.k)->extent; k += p.shape.k) {
    for (const auto& [position, first] : c.at) {
      const auto& [m, n] = position;
      if (m % p.shape.m != 0 || n % p.shape.n != 0) continue;
      products.push_back({block(c, m, n), block(a, m, k), block(b, k, n)});
    }
  }
  return products;
}

// ---- opaque fragments --------------------------------------------------------------------------------------------

std::string opaque_refusal(const std::string& rule, const KernelTile& tile) {
  return fmt::format(
      "{} of opaque fragment '{}': which lane holds which element is not known; go through workgroup memory", rule,
      tile.name);
}

Result<void> check_opaque_tile(const Kernel& kernel, const KernelTile& tile) {
  const auto error = [&](const std::string& what) { return bad_input(fmt::format("tile '{}': {}", tile.name, what)); };
  const auto kind = parse_opaque_kind(tile.fragment);
  if (!kind) return error(fmt::format("'{}' is no kind of fragment, such as m16n8k16.c", tile.fragment));
  if (tile.axes.size() != 2) return error("a fragment has rows and columns");
  if (!fragment_type(kind->use, tile.type))
    return error(fmt::format("no unit takes {} as {}", name(tile.type), name(kind->use)));
  if (kind->rows() * kind->columns() % kernel.subgroup_size != 0)
    return error(fmt::format("{} elements for {} lanes", kind->rows() * kind->columns(), kernel.subgroup_size));
  // The same factors, counted in matrices.
  KernelTile blocks;
  blocks.name = tile.name;
  blocks.axes = tile.axes;
  blocks.distribution = tile.distribution;
  for (const bool row : {true, false}) {
    TileAxis& axis = blocks.axes[row ? 0 : 1];
    const std::int64_t extent = row ? kind->rows() : kind->columns();
    if (axis.extent % extent != 0)
      return error(fmt::format("axis {} has {} elements, no multiple of {}", axis.name, axis.extent, extent));
    axis.extent /= extent;
    for (Factor& f : blocks.distribution.factors) {
      if (f.axis != axis.name || f.size == 1) continue;
      if (f.level == Level::lane || f.stride % extent != 0)
        return error(fmt::format("a factor of axis {} takes matrices apart", axis.name));
      f.stride /= extent;
    }
  }
  return covers(blocks, kernel.subgroup_size, kernel.subgroups);
}

Result<void> check_opaque_map(const Kernel& kernel, const KernelOp& op) {
  const KernelTile& result = kernel.tile(op.tile);
  for (const std::string& axis : axes_of(op.expr)) {
    if (find_axis(result, axis)) return bad_input(opaque_refusal("mask by index", result));
  }
  for (const std::string& value : values_of(op.expr)) {
    const KernelTile* tile = find_tile(kernel, value);
    if (!tile) return bad_input(fmt::format("the value reads '{}', which is no tile", value));
    if (tile->space != Space::fragment) {
      if (tile->space == Space::registers && tile->axes.empty()) continue;
      return bad_input(opaque_refusal(fmt::format("repair by row (of '{}')", value), result));
    }
    if (tile->fragment != result.fragment || tile->type != result.type)
      return bad_input(opaque_refusal(fmt::format("conversion (to {} {})", result.fragment, name(result.type)), *tile));
    if (tile->axes != result.axes || tile->distribution != result.distribution)
      return bad_input(fmt::format("'{}' and '{}' are different matrices", value, op.tile));
  }
  return {};
}

Result<MatrixAddress> matrix_address(const Kernel& kernel, const KernelOp& op) {
  const KernelTile& tile = kernel.tile(op.tile);
  const KernelBuffer* buffer = kernel.buffer(op.buffer);
  if (!buffer) return bad_input(fmt::format("there is no buffer '{}'", op.buffer));
  if (op.predicate || op.fill) return bad_input(opaque_refusal("a predicate by element", tile));
  if (op.vector_width != 1) return bad_input("whole matrices have no vector width");
  if (buffer->type != tile.type)
    return bad_input(opaque_refusal(fmt::format("conversion (to {})", name(buffer->type)), tile));
  if (op.kind == KernelOp::Kind::store && op.expr != Expr::value(tile.name, tile.type))
    return bad_input(opaque_refusal("a computed store", tile));
  MatrixAddress address;
  address.offset = row_major(op.index, buffer->shape);
  if (!values_of(address.offset).empty()) return bad_input(opaque_refusal("a gather", tile));
  const auto affine = as_affine(address.offset, {tile.axes[0].name, tile.axes[1].name});
  for (std::size_t i = 0; affine && i < 2; ++i) {
    const auto found = affine->coefficients.find(tile.axes[i].name);
    if (found != affine->coefficients.end()) address.strides[i] = found->second;
  }
  const auto& [rows, columns] = address.strides;
  if (!rows || !columns || (!rows.is_constant(1) && !columns.is_constant(1)))
    return bad_input(fmt::format(
        "the index of '{}' is not one stride per row and consecutive columns, or the other way round", op.buffer));
  return address;
}

}  // namespace aicf
