#pragma once

// Operands and accumulators of matrix units. One subgroup computes c[m, n] += a[m, k] b[k, n] for a fixed shape; each of
// the three matrices is spread over the registers of its lanes.
//
// Where the layout is documented it is a named distribution, and its tiles are ordinary register tiles: conversions,
// repairs and reductions follow from the factors. Where it is not (opaque fragments), only whole matrices can be
// addressed: fragment_rules.h says what is left.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mir/kernel/kernel.h"

namespace aicf {

enum class MatrixUse : std::uint8_t { a, b, c };
std::string_view name(MatrixUse use);

struct MatrixShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t rows(MatrixUse use) const { return use == MatrixUse::b ? k : m; }
  std::int64_t columns(MatrixUse use) const { return use == MatrixUse::a ? k : n; }
};
/// "m16n8k16"; sizes are powers of two up to 256.
std::optional<MatrixShape> parse_matrix_shape(std::string_view text);

/// A unit whose layouts are known; distributions are over the axes "m", "n" and "k".
struct MatrixUnit {
  std::string name;
  MatrixShape shape;
  int lanes = 32;
  Distribution a, b, c;
  const Distribution& of(MatrixUse use) const { return use == MatrixUse::a ? a : use == MatrixUse::b ? b : c; }
};
/// "m16n8k16": 16-bit floats accumulated in f32. Null when no unit has this name.
const MatrixUnit* matrix_unit(std::string_view name);
/// f16 or bf16 operands of one type, an f32 accumulator.
bool matrix_types(DType a, DType b, DType c);
/// The type `type` may have in a fragment of this use.
bool fragment_type(MatrixUse use, DType type);

/// Distribution of a tile made of the unit's fragments, one after the other in registers. Extents are multiples of the
/// unit's.
Distribution fragment_distribution(const MatrixUnit& unit, MatrixUse use, const TileAxis& rows,
                                   const TileAxis& columns);

/// The kind of an opaque matrix: "m16n8k16.c".
struct OpaqueKind {
  std::string unit;
  MatrixShape shape;
  MatrixUse use = MatrixUse::c;
  std::int64_t rows() const { return shape.rows(use); }
  std::int64_t columns() const { return shape.columns(use); }
};
std::optional<OpaqueKind> parse_opaque_kind(std::string_view text);

}  // namespace aicf
