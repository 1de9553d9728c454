#include "mir/kernel/fragments.h"

#include <array>
#include <charconv>

namespace aicf {
namespace {

constexpr std::int64_t max_extent = 256;

Factor reg(std::string axis, std::int64_t size, std::int64_t stride) {
  return {std::move(axis), Level::reg, size, stride, 1};
}
Factor lane(std::string axis, std::int64_t size, std::int64_t stride, std::int64_t position) {
  return {std::move(axis), Level::lane, size, stride, position};
}

/// With g = lane / 4 and t = lane % 4, pairs of 16-bit elements to a word: a holds (g, 2t), (g + 8, 2t), (g, 2t + 8),
/// (g + 8, 2t + 8); b holds (k = 2t, n = g), (k = 2t + 8, n = g); c holds (g, 2t), (g + 8, 2t), each with its right
/// neighbour (PTX ISA, mma.m16n8k16).
MatrixUnit m16n8k16() {
  MatrixUnit unit{"m16n8k16", {16, 8, 16}, 32, {}, {}, {}};
  unit.a.factors = {reg("k", 2, 1), reg("m", 2, 8), reg("k", 2, 8), lane("k", 4, 2, 1), lane("m", 8, 1, 4)};
  unit.b.factors = {reg("k", 2, 1), reg("k", 2, 8), lane("k", 4, 2, 1), lane("n", 8, 1, 4)};
  unit.c.factors = {reg("n", 2, 1), reg("m", 2, 8), lane("n", 4, 2, 1), lane("m", 8, 1, 4)};
  return unit;
}

}  // namespace

std::string_view name(MatrixUse use) {
  static constexpr std::array<std::string_view, 3> names{"a", "b", "c"};
  return names[static_cast<std::size_t>(use)];
}

std::optional<MatrixShape> parse_matrix_shape(std::string_view text) {
  MatrixShape shape;
  for (const auto& [letter, extent] : {std::pair('m', &shape.m), {'n', &shape.n}, {'k', &shape.k}}) {
    if (!text.starts_with(letter)) return std::nullopt;
    const auto [stop, code] = std::from_chars(text.data() + 1, text.data() + text.size(), *extent);
    if (code != std::errc() || *extent < 1 || *extent > max_extent || (*extent & (*extent - 1)) != 0)
      return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  }
  return text.empty() ? std::optional(shape) : std::nullopt;
}

const MatrixUnit* matrix_unit(std::string_view name) {
  static const std::array<MatrixUnit, 1> units{m16n8k16()};
  for (const MatrixUnit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

bool fragment_type(MatrixUse use, DType type) {
  return use == MatrixUse::c ? type == DType::f32 : type == DType::f16 || type == DType::bf16;
}

bool matrix_types(DType a, DType b, DType c) {
  return a == b && fragment_type(MatrixUse::a, a) && fragment_type(MatrixUse::c, c);
}

Distribution fragment_distribution(const MatrixUnit& unit, MatrixUse use, const TileAxis& rows,
                                   const TileAxis& columns) {
  const std::string row_letter = use == MatrixUse::b ? "k" : "m";
  Distribution result = unit.of(use);
  for (Factor& f : result.factors) f.axis = f.axis == row_letter ? rows.name : columns.name;
  const auto blocks = [&](const TileAxis& axis, std::int64_t extent) {
    AICF_CHECK(axis.extent % extent == 0, "axis " + axis.name + " is no multiple of the fragments of " + unit.name);
    if (axis.extent > extent) result.factors.push_back(reg(axis.name, axis.extent / extent, extent));
  };
  blocks(columns, unit.shape.columns(use));
  blocks(rows, unit.shape.rows(use));
  return result;
}

std::optional<OpaqueKind> parse_opaque_kind(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto shape = parse_matrix_shape(text.substr(0, dot));
  if (!shape) return std::nullopt;
  for (const MatrixUse use : {MatrixUse::a, MatrixUse::b, MatrixUse::c}) {
    if (text.substr(dot + 1) == name(use)) return OpaqueKind{std::string(text.substr(0, dot)), *shape, use};
  }
  return std::nullopt;
}

}  // namespace aicf
