#pragma once

// What one thread does: named scalars, structured control flow, memory accesses. Printed by every emitter (no decisions
// left), executed by the interpreter thread by thread, and counted.
//
// Expressions are Exprs over value("name") (variables), and the symbols "workgroup" (linear work item), "lane",
// "subgroup" (within the workgroup), loop variables and dimension symbols. Integers are 32 bits on devices.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/kernel/kernel.h"

namespace aicf {

struct ThreadStatement;
using ThreadBody = std::vector<ThreadStatement>;

struct ThreadStatement {
  enum class Kind : std::uint8_t {
    declare,       ///< `type names[0]` = expr; an empty expr leaves it undefined (reading it then is an error)
    assign,        ///< names[0] = expr
    load_global,   ///< names[0..width) = buffer[index .. index+width) where predicate, else fill; declared already
    store_global,  ///< buffer[index .. ) = exprs[0..width) where predicate
    load_shared,   ///< names[0..width) = array[index ..)
    store_shared,  ///< array[index ..) = exprs, where predicate
    shuffle,       ///< names[0] = exprs[0] of lane `lane` (a constant or an expression), declared here
    shuffle_xor,   ///< names[0] = exprs[0] of lane (own xor mask), declared here
    barrier,       ///< workgroup execution and memory barrier
    loop,          ///< for (variable = begin; variable < end; variable += step) body; bounds uniform
    branch,        ///< if (predicate) body; `uniform` says the condition is the same for the whole workgroup
    comment,       ///< text for the reader of the source
    multiply,      ///< names += product of exprs by matrix unit `unit`, all lanes of a subgroup together: names are the
                   ///< registers of c, exprs those of a and then b, in the order of the unit's distributions; with
                   ///< `fragment` (c's kind) they are one opaque matrix each
  };
  Kind kind = Kind::declare;
  DType type = DType::f32;
  std::vector<std::string> names;
  std::vector<Expr> exprs;
  std::string buffer;  ///< buffer or shared array name
  Expr index;          ///< element offset; a multiple of the width where width > 1 and the access is `aligned`
  Expr predicate, fill, lane;
  std::int64_t mask = 0;
  std::string variable;
  Expr begin, end, step;
  bool uniform = false;
  ThreadBody body;
  std::string text;
  std::string unit;  ///< multiply: "m16n8k16"
  /// declare, assign, load_*, store_*: the names, and the fragments that values name, are opaque matrices of this kind
  /// ("m16n8k16.c"). assign works element by element; loads and stores move element (r, c) at index + r · row_stride +
  /// c · column_stride; their index and strides are the same in all lanes.
  std::string fragment;
  Expr row_stride, column_stride;
};

struct SharedArray {
  std::string name;
  DType type = DType::f32;
  std::int64_t elements = 0;
  std::int64_t byte_offset = 0;  ///< 16-byte aligned
};

struct ThreadProgram {
  std::string name;
  std::vector<KernelBuffer> buffers;
  std::vector<std::string> symbols;  ///< int32 parameters in order
  std::vector<SharedArray> shared;
  int subgroup_size = 32;
  int subgroups = 1;
  Expr workgroups;
  ThreadBody body;
};

/// The one place that turns distributions into registers, shuffles and addresses.
Result<ThreadProgram> expand(const Kernel& kernel);

std::string to_string(const ThreadProgram& program);

/// Reads and writes of one interpreted launch.
struct KernelCounts {
  std::map<std::string, std::uint64_t> bytes_read, bytes_written;  ///< per buffer, device storage bytes
  std::uint64_t barriers = 0, shuffles = 0, shared_loads = 0, shared_stores = 0;
  std::uint64_t multiplies = 0;  ///< matrix products, per subgroup
};

/// Buffers as float64 words per element (exact for f32 and i32), by name; sizes = product of the shape.
struct InterpreterInput {
  std::map<std::string, std::vector<double>> buffers;
  std::map<std::string, std::int64_t> symbols;
  std::uint64_t layout_seed = 0;  ///< decides where opaque matrices keep their elements; a right program gives the same
                                  ///< results for every seed
};
/// Runs every work item; arithmetic is rounded to each expression's type (f32 by default), so results are those of a
/// device with IEEE f32. Errors (run_failure) name statement, workgroup and thread: a variable read before it is defined,
/// a shuffle from an inactive lane, a barrier in divergent flow, a race in workgroup memory between barriers, an access
/// out of bounds or misaligned, two work items writing one element.
Result<KernelCounts> interpret(const ThreadProgram& program, InterpreterInput& io);

}  // namespace aicf
