#pragma once

// Private to the oracle: scalar bodies compiled to flat programs over lanes of consecutive elements.
//
// A program runs over a *space*, the row-major product of loop axes. One run() evaluates up to `block` consecutive
// positions at once; floats are lanes of float64, integers and booleans lanes of int64. Loads whose index is affine in
// the axes become strided copies along the innermost axis; others gather.
//
// select evaluates both sides where that is harmless (every load provably in bounds). A side that may load out of
// bounds is compiled as a section with a mask: it is skipped when no lane needs it, and only lanes that need it are
// checked.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mir/graph/graph.h"

namespace aicf::oracle {

inline constexpr int block = 256;  ///< lanes of one run; registers of a typical body stay in the L1 and L2 caches

/// A tensor under evaluation, row-major: floats as f64, integers as i64, booleans as bytes.
struct Buffer {
  DType type = DType::f32;
  std::vector<std::int64_t> shape;
  std::int64_t size = 0;
  std::unique_ptr<double[]> reals;
  std::unique_ptr<std::int64_t[]> integers;
  std::unique_ptr<std::uint8_t[]> booleans;

  std::int64_t bytes() const { return size * (type == DType::boolean ? 1 : 8); }
};
/// Uninitialised. Error: more elements than the machine has memory for.
Result<Buffer> make_buffer(DType type, std::vector<std::int64_t> shape);
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape);

using Buffers = std::map<std::string, Buffer>;

struct LoopAxis {
  std::string name;
  std::int64_t extent;
};

/// Σ coefficients[axis]·coordinate + offset over the axes of the space.
struct AffineIndex {
  std::vector<std::int64_t> coefficients;
  std::int64_t offset = 0;
};

enum class Step : std::uint8_t {
  axis,  ///< integer dst = coordinate `payload`
  load,
  gather,  ///< dst = loads[payload]
  real,
  integer,  ///< dst = op(a, b) on lanes of that kind; tests and comparisons give integer lanes
  convert,  ///< dst = cast of a to `type`; kinds by from_real and to_real
  choose,   ///< dst = a != 0 ? b : c; kind by to_real
  enter,    ///< mask[payload] from its parent and condition a; to `skip` when no lane is left
};

/// Where the oracle rounds (see oracle.h).
enum class Rounding : std::uint8_t { none, sentinel, logarithm, operand };

struct Instruction {
  Step step;
  Op op = Op::constant;
  DType type = DType::f64;
  Rounding rounding = Rounding::none;
  bool from_real = false, to_real = false;
  int dst = -1, a = -1, b = -1, c = -1;
  int payload = -1;
  int skip = -1;
};

/// The mask of one side of a select; mask 0 is "every lane".
struct Mask {
  int parent = 0;
  bool negated = false;
};

struct LoadSite {
  const Buffer* buffer = nullptr;
  std::string tensor;
  AffineIndex flat;                     ///< affine loads: position in the buffer
  std::vector<AffineIndex> dimensions;  ///< affine loads: per dimension, only when a check is needed
  std::vector<std::int64_t> strides;
  std::vector<int> index_registers;  ///< gathers: one integer register per dimension
  std::vector<char> checked;         ///< gathers: which dimensions need a check
  bool needs_check = false;
  int mask = 0;
};

struct Program {
  std::vector<LoopAxis> axes;  ///< the space; at least one axis
  std::vector<Instruction> instructions;
  std::vector<LoadSite> loads;
  std::vector<Mask> masks;
  int real_registers = 0, integer_registers = 0;
  std::vector<std::pair<int, double>> real_constants;  ///< registers that hold a constant in every lane
  std::vector<std::pair<int, std::int64_t>> integer_constants;
  bool result_real = true;
  int result = -1;

  std::int64_t size() const;  ///< positions of the space
};

/// Compiles `body`, whose symbols are bound, over the axes. Buffers must outlive the program and hold every tensor
/// loaded.
Program compile(const Expr& body, std::vector<LoopAxis> axes, const Buffers& buffers);

/// A program with registers of its own: one per thread.
class Evaluator {
 public:
  explicit Evaluator(const Program& program);
  /// Evaluates positions [begin, begin + count), count ≤ block. Error: a load out of bounds.
  Result<void> run(std::int64_t begin, int count);
  const double* reals() const { return real(program_.result); }  ///< the lanes, when program.result_real
  const std::int64_t* integers() const { return integer(program_.result); }

 private:
  /// Consecutive lanes along the innermost axis; `coordinates` index coordinates_.
  struct Stretch {
    int lane, length;
    std::size_t coordinates;
  };
  enum class Active : std::uint8_t { none, some, all };

  double* real(int r) { return reals_.data() + static_cast<std::size_t>(r) * block; }
  const double* real(int r) const { return reals_.data() + static_cast<std::size_t>(r) * block; }
  std::int64_t* integer(int r) { return integers_.data() + static_cast<std::size_t>(r) * block; }
  const std::int64_t* integer(int r) const { return integers_.data() + static_cast<std::size_t>(r) * block; }
  std::uint8_t* mask(int m) { return mask_lanes_.data() + static_cast<std::size_t>(m) * block; }

  void place(std::int64_t begin, int count);
  std::int64_t at(const AffineIndex& index, const Stretch& stretch) const;
  void fill_axis(const Instruction& i);
  bool enter(const Instruction& i);
  bool load(const Instruction& i);
  bool load_checked(const LoadSite& site, const Instruction& i);
  bool gather(const Instruction& i);
  template <class Source, class Lane>
  void copy(const LoadSite& site, const Source* source, Lane* lanes, const Stretch& stretch) const;
  bool out_of_bounds(const LoadSite& site, std::size_t dimension, std::int64_t index, int lane);
  std::string coordinates_text(int lane) const;

  const Program& program_;
  int count_ = 0;
  std::vector<Stretch> stretches_;
  std::vector<std::int64_t> coordinates_;
  std::vector<double> reals_;
  std::vector<std::int64_t> integers_;
  std::vector<std::uint8_t> mask_lanes_;
  std::vector<Active> active_;
  std::vector<std::int64_t> offsets_;
  std::string error_;
};

// The loops over lanes (oracle_loops.cpp).
void real_lanes(const Instruction& i, int n, const double* a, const double* b, double* out);
void real_test_lanes(const Instruction& i, int n, const double* a, const double* b, std::int64_t* out);
void integer_lanes(const Instruction& i, int n, const std::int64_t* a, const std::int64_t* b, std::int64_t* out);
void cast_lanes(DType to, int n, const double* a, double* out);
void cast_lanes(const Instruction& i, int n, const double* a, std::int64_t* out);  ///< to i.type
void cast_lanes(DType to, int n, const std::int64_t* a, double* out);
void cast_lanes(DType to, int n, const std::int64_t* a, std::int64_t* out);
void choose_lanes(const Instruction& i, int n, const std::int64_t* c, const double* a, const double* b, double* out);
void choose_lanes(int n, const std::int64_t* c, const std::int64_t* a, const std::int64_t* b, std::int64_t* out);
/// Whether the op on floats gives a boolean.
bool is_test(Op op);

/// Calls `work(unit)` for units [0, count) on several threads when `cost` (element operations) is worth it; the error
/// of the smallest failing unit.
Result<void> parallel_for(std::int64_t count, std::int64_t cost,
                          const std::function<std::function<Result<void>(std::int64_t)>()>& make_worker);

/// result[position in axes] = reduce over reduce_axes of body, for positions [begin, end) of the axes' space, into
/// lanes of `out` (one of the two pointers by the kind of the body).
struct Reduction {
  ReduceOp op = ReduceOp::none;
  DType type = DType::f64;
  std::vector<LoopAxis> axes, reduce_axes;
  Expr body;
};
Result<void> evaluate_positions(const Reduction& what, const Buffers& buffers, std::int64_t begin, std::int64_t end,
                                double* reals, std::int64_t* integers, std::uint8_t* booleans);

/// A sum of products as matrix products over packed operands (oracle_contract.cpp). False when the form or size does
/// not call for it: nothing is written then.
Result<bool> evaluate_contraction(const Reduction& what, const Buffers& buffers, double* out);

}  // namespace aicf::oracle
