#pragma once

// Private to the interpreter: opaque matrices given a layout, and products of matrix fragments.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/kernel/fragments.h"
#include "mir/kernel/thread_program.h"

namespace aicf::interpreter {

/// A program without opaque matrices. `units` holds the layouts that its products name, besides the known units.
struct LaidOut {
  ThreadProgram program;
  std::map<std::string, MatrixUnit> units;
};

bool has_opaque_matrices(const ThreadBody& body);
/// Every kind and type of opaque matrix gets a layout drawn from `seed` (the bits of the element number dealt to bits of
/// lane and register); statements on whole matrices become statements on registers. Errors: a kind that does not fit the
/// subgroup, a fragment of another kind than its statement, several matrices in one access.
Result<LaidOut> lay_out(const ThreadProgram& program, std::uint64_t seed);

/// One product: for each matrix the slots of its registers, and the element (row-major) of register r in lane l at
/// [r * lanes + l].
struct Product {
  struct Matrix {
    std::int64_t rows = 1, columns = 1;
    std::vector<std::uint32_t> slots;
    std::vector<std::uint32_t> elements;
  };
  Matrix a, b, c;
  int lanes = 32;
};
/// Slots of all matrices are left empty.
Product product_of(const MatrixUnit& unit);
/// For the lanes from `first` on; `floats` is slot × thread of `threads` threads. Sums in f32, ascending over k.
void multiply(const Product& product, float* floats, int threads, int first);

}  // namespace aicf::interpreter
