#pragma once

// What operations may say about matrix fragments. verify() asks here, expand() uses the same answers.
//
// Opaque fragments take uniform maps only: a constant fill, elementwise expressions over fragments of the same kind,
// values that every lane shares and no index, and moves of whole matrices. What else a kernel wants of one (a repair or a
// reduction by row, a mask by index, another use) goes through workgroup memory.

#include <array>
#include <string>
#include <vector>

#include "mir/kernel/fragments.h"

namespace aicf {

/// A multiply, resolved.
struct MatrixProduct {
  MatrixShape shape;
  const MatrixUnit* unit = nullptr;  ///< null: opaque
  const KernelTile *a = nullptr, *b = nullptr, *c = nullptr;
  std::string m, n, k;  ///< axes of the tiles
};
/// Errors (bad_input): tiles, axes, extents and types that are no product of this shape; a register tile that is not made
/// of the unit's fragments; blocks that another subgroup holds.
Result<MatrixProduct> matrix_product(const Kernel& kernel, const KernelOp& op);

/// The product of one block: registers (opaque: matrices) in the order of the unit's distributions.
struct BlockProduct {
  std::vector<std::size_t> c, a, b;
};
/// Blocks of the sum over k in ascending order.
std::vector<BlockProduct> block_products(const MatrixProduct& product);

/// The declaration of an opaque tile.
Result<void> check_opaque_tile(const Kernel& kernel, const KernelTile& tile);
/// The value of an opaque tile `op.tile`; whether what it reads is defined is not looked at.
Result<void> check_opaque_map(const Kernel& kernel, const KernelOp& op);
/// "row reduction of opaque fragment 'c': …", for what no opaque tile takes.
std::string opaque_refusal(const std::string& rule, const KernelTile& tile);

/// Where whole matrices lie in a buffer: offset over the two axes of the tile, elements between rows and columns.
struct MatrixAddress {
  Expr offset;
  std::array<Expr, 2> strides;
};
/// For a load or store whose tile is opaque. Errors: a predicate or fill, another type, an index that is not one stride
/// per row and consecutive columns, or the other way round.
Result<MatrixAddress> matrix_address(const Kernel& kernel, const KernelOp& op);

}  // namespace aicf
