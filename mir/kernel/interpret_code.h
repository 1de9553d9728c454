#pragma once

// Private to the interpreter: a ThreadProgram compiled once into a flat program over dense slots.
//
// Values live in two banks, floats (f32; f16 and bf16 are rounded after each operation) and 32-bit integers (booleans
// are 0 or 1), each a structure of arrays: slot × thread. All threads of a workgroup run one instruction after the
// other. An instruction may compute results for inactive threads too, since nothing reads them; only checks, memory
// accesses and assignments to variables that live outside the masked region look at the mask.

#include <cstdint>
#include <string>
#include <vector>

#include "mir/kernel/interpret_fragment.h"
#include "mir/kernel/thread_program.h"

namespace aicf::interpreter {

enum class Code : std::uint8_t {
  float_op,       ///< dst = op(a, b)
  float_compare,  ///< int dst = op(float a, float b): lt, le, eq, isnan, isinf
  int_op,         ///< dst = op(a, b); overflow of 32 bits and division by zero fail
  int_wrap,       ///< dst = a wrapped to `type`
  float_round,    ///< dst = a rounded to `type` (f16, bf16)
  float_to_int,   ///< dst = a truncated and saturated to `type`; NaN gives 0; boolean: a != 0
  int_to_float,
  int_to_bool,
  select_float,  ///< dst = c ? a : b
  select_int,
  copy_float,
  copy_int,
  masked_copy_float,  ///< dst = a in active threads only
  masked_copy_int,
  clear_defined,  ///< a = variable
  mark_defined,   ///< in active threads
  check_defined,
  mask_and,      ///< pushes mask ∧ a
  mask_and_not,  ///< pushes mask ∧ ¬a
  mask_pop,
  branch,  ///< pushes mask ∧ a, or jumps to `target` when no thread is left; dst = 1: must agree in all active threads
  loop_begin,  ///< loop `a`; jumps to `target` when it has no iteration
  loop_end,    ///< loop `a`; jumps to `target` (after loop_begin) for the next iteration
  load_global,
  store_global,
  load_shared,
  store_shared,  ///< a = access
  shuffle,       ///< dst = a of lane b (an int slot)
  shuffle_xor,   ///< dst = a of lane (own xor target)
  multiply,      ///< a = product
  barrier,
};

struct Instruction {
  Code code = Code::barrier;
  Op op = Op::constant;
  DType type = DType::f32;
  std::uint32_t dst = 0, a = 0, b = 0, c = 0;
  std::uint32_t target = 0;
  std::uint32_t site = 0;  ///< index into Compiled::sites
};

inline constexpr std::uint32_t no_slot = ~std::uint32_t{0};

/// One memory statement.
struct Access {
  std::uint32_t memory = 0;            ///< buffer or shared array
  bool floats = true;                  ///< bank of the values
  bool boolean = false;                ///< loads give 0 or 1
  std::vector<std::uint32_t> slots;    ///< destinations of a load, values of a store
  std::vector<bool> masked;            ///< load: the destination outlives the mask
  std::vector<std::uint32_t> defines;  ///< load: variables to mark as defined, or no_slot
  std::uint32_t index = 0, predicate = no_slot, fill = no_slot;
};

struct LoopBounds {
  std::uint32_t variable = 0, begin = 0, end = 0, step = 0;
};

struct Compiled {
  std::vector<Instruction> code;
  std::vector<const ThreadStatement*> sites;
  std::vector<Access> accesses;
  std::vector<LoopBounds> loops;
  std::vector<Product> products;
  std::uint32_t float_slots = 0, int_slots = 0;
  std::vector<std::pair<std::uint32_t, float>> float_constants;
  std::vector<std::pair<std::uint32_t, std::int32_t>> int_constants;
  std::vector<std::string> variables;                   ///< names, for messages
  std::uint32_t workgroup = 0, lane = 0, subgroup = 0;  ///< int slots
  std::uint32_t max_masks = 1;
  std::vector<bool> stored;  ///< per buffer: some statement stores to it
};

/// Errors: a program that no kernel may be (undeclared name, wrong bank, an index that is no integer).
/// `units` are layouts besides those of known units. The program has no opaque matrices.
Result<Compiled> compile(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
                         const std::map<std::string, MatrixUnit>& units = {});

}  // namespace aicf::interpreter
