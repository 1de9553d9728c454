#pragma once

// Kernel IR: one program for one workgroup, over tiles that are distributed across registers, lanes and subgroups.
//
// Every tile element lives at (register, lane, subgroup) given by the tile's distribution; elements that no lane or
// subgroup factor separates are held by all of them (replicated). expand() turns a kernel into a ThreadProgram, the
// only place that knows what a thread holds; verify() rejects what a GPU would forgive.

#include <memory>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/memory/schedule.h"

namespace aicf {

/// One factor of a distribution: `size` steps along `axis`, each `stride` elements apart. At level lane or subgroup the
/// digit is (id / position) % size; at level reg the register index is the mixed radix number of the reg factors in the
/// order of the list (first = fastest), `position` unused. Sizes at lane and subgroup level are powers of two.
struct Factor {
  std::string axis;
  Level level = Level::reg;
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t position = 1;
  bool operator==(const Factor&) const = default;
};

struct Distribution {
  std::vector<Factor> factors;
  std::int64_t registers() const;  ///< product of the reg sizes
  bool operator==(const Distribution&) const = default;
};

struct TileAxis {
  std::string name;
  std::int64_t extent = 1;  ///< constant; the padded tile extent
  bool operator==(const TileAxis&) const = default;
};

enum class Space : std::uint8_t { registers, workgroup, fragment };

/// A tile value. In `workgroup` space it is an array shared by the workgroup: row-major over `axes` with `row_padding`
/// extra elements after each row of the last axis, and `distribution` is unused. In `fragment` space it is made of opaque
/// matrices (fragments.h) of the kind that `fragment` names ("m16n8k16.c"): axes are rows, columns; `distribution` spreads
/// whole matrices over registers and subgroups; which lane holds which element of a matrix is unknown.
struct KernelTile {
  std::string name;
  DType type = DType::f32;
  std::vector<TileAxis> axes;
  Space space = Space::registers;
  Distribution distribution;
  std::int64_t row_padding = 0;
  std::string fragment;  ///< fragment space only
};

/// A global buffer of the kernel. Element offsets are row-major over `shape`.
struct KernelBuffer {
  std::string name;  ///< the tensor's name
  DType type = DType::f32;
  std::vector<Expr> shape;  ///< over symbols
  bool written = false;
};

struct KernelOp;
using KernelBody = std::vector<KernelOp>;

/// Operations. Expressions name tiles as value(tile), global coordinates as axis(name): an axis that the tile has means
/// base(axis) + the element's tile coordinate; an axis that it has not means its base. Bases are set by `bases` of the
/// kernel and of loops.
struct KernelOp {
  enum class Kind : std::uint8_t {
    load,   ///< tile = buffer[index…] where `predicate`, else `fill`; `vector_width` elements per access along the
            ///< last index's unit-stride axis when alignment is provable; converted where the types differ; `index` may
            ///< read integer tiles
    store,  ///< buffer[index…] = expr, for the elements of `tile`'s axes and distribution, where `predicate`; elements
            ///< held by several lanes are stored by one of them
    compute,  ///< tile = expr, elementwise (register tiles)
    reduce,  ///< tile = tile op (expr reduced over the register digits of `over`); for sum of a product: a contraction.
             ///< Operands in other lanes at a constant lane are delivered by broadcast, workgroup tiles are read at
             ///< use. Lane factors of `over` that all register operands share stay spread: the result is partial over
    ///< them until a cross (reduction_space() in expand_plan.h). `first` sets the tile to coordinate 0's element.
    cross,  ///< butterfly merge over lanes (and subgroups, through workgroup memory) that hold different partials of
            ///< `states`: for each mask in `masks` the states become merge(a = own, b = from lane xor mask)
    to_workgroup,    ///< workgroup tile `tile` = register tile value `source` (a store by every holder; replicated
                     ///< elements by one)
    from_workgroup,  ///< register tile `tile` = workgroup tile `source`
    multiply,  ///< c[m, n] += a[m, k] * b[k, n] by the matrix unit `unit`: `tile` is c, `operands` are a and b; the sum
               ///< over k is accumulated in f32 in ascending order. Register tiles hold the unit's named fragments,
               ///< or all three are opaque fragments of its shape.
    barrier,
    loop,    ///< for `variable` from `begin` to `end` (exclusive) by `step`: body; variable is symbol(variable) inside
    branch,  ///< if `predicate` (uniform over the workgroup): body
  };
  Kind kind = Kind::compute;
  std::string tile, source, buffer, variable;
  std::vector<Expr> index;
  Expr expr, predicate, fill, begin, end, step;
  ReduceOp reduce = ReduceOp::none;
  std::vector<std::string> over;
  int vector_width = 1;
  std::vector<std::string> states;           // cross
  std::vector<MergeRule> merge;              // cross
  std::vector<std::int64_t> lane_masks;      // cross: xor masks on the lane id
  std::vector<std::int64_t> subgroup_masks;  // cross: xor masks on the subgroup id
  std::map<std::string, Expr> bases;         // loop: base of an axis inside the body
  std::string unit;                          // multiply
  std::vector<std::string> operands;         // multiply: a, b
  KernelBody body;                           // loop, branch
  std::string note;                          // printed as a comment: "score", "update", "accumulate"
};

/// A work item is a linear workgroup id; `bases` and `workgroups` say how it splits. symbol("workgroup") is the id.
struct Kernel {
  std::string name;
  std::vector<KernelBuffer> buffers;
  std::vector<std::string> symbols;  ///< dimension symbols that become int32 parameters
  std::vector<KernelTile> tiles;
  std::map<std::string, Expr> bases;  ///< of grid axes, over symbol("workgroup") and dimension symbols
  Expr workgroups;                    ///< number of work items, over symbols
  int subgroup_size = 32;
  int subgroups = 1;
  Ranges ranges;  ///< of axes' global extents where constant, for simplification ("axis:q")
  KernelBody body;

  const KernelTile& tile(const std::string& tile_name) const;
  const KernelBuffer* buffer(const std::string& buffer_name) const;
};

/// What an operation is, in few words, for messages: "load q <- Q".
std::string headline(const KernelOp& op);
/// Loop-nest text ("for kv_tile in 0..n:", "load k …"), round-trips through parse_kernel.
std::string to_string(const Kernel& kernel);
Result<Kernel> parse_kernel(std::string_view text, std::string_view place = {});
/// Every value is held where it is used (or deliverable: constant-lane broadcast, workgroup read behind a barrier), no
/// barrier in a divergent place, tiles defined before use, distributions cover their tiles exactly, partial results closed
/// by a cross before they are stored and never merged twice, no rule of matrix fragments broken (fragment_rules.h). Bases lie in the ranges of their axes (`Kernel::ranges`).
Result<void> verify(const Kernel& kernel);

}  // namespace aicf
