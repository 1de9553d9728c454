#pragma once

// The state of one expansion; private to mir/kernel/expand*.cpp.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mir/kernel/expand_plan.h"
#include "mir/kernel/thread_program.h"

namespace aicf::expansion {

/// Names of the thread program: letters, digits and single underscores, each given once.
class Names {
 public:
  std::string unique(const std::string& hint);
  void reserve(const std::string& name) { used_.insert(name); }
  bool taken(const std::string& name) const { return used_.contains(name); }
  static std::string identifier(const std::string& text);

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> next_;
};

/// What is known about an integer: bounds and a number that divides it (0 for the constant 0).
struct IntFacts {
  Range range;
  std::int64_t divisor = 1;
};

/// The first coordinate of an axis in this work item or loop step.
struct Base {
  Expr value;
  IntFacts facts;
};

/// A tile that expressions read, or a stand-in for one (the partner's registers in a merge).
struct Operand {
  const KernelTile* tile = nullptr;
  std::vector<std::string> registers;  ///< names; empty for workgroup tiles
};

struct TileState {
  const KernelTile* tile = nullptr;
  std::vector<std::string> registers;
  std::vector<Coordinates> coordinates;  ///< constant part of each register
  const KernelBody* home = nullptr;      ///< the body in which its registers are declared, null when nothing names it
  std::size_t first = 0;                 ///< index of the op of `home` that first names it
  bool declared = false;
};

class Expander {
 public:
  explicit Expander(const Kernel& kernel);
  ThreadProgram run();

  // Shared by the emitters of single operations.
  const Kernel& kernel() const { return kernel_; }
  TileState& tile(const std::string& name);
  Operand operand(const std::string& name);
  std::string array(const std::string& tile_name) { return arrays_.at(tile_name); }
  std::string add_shared(const std::string& hint, DType type, std::int64_t elements);
  Names& names() { return names_; }
  ThreadStatement& emit(ThreadStatement::Kind kind);
  /// A statement that declares `name`.
  ThreadStatement& emit_definition(ThreadStatement::Kind kind, const std::string& name);
  void declare(const std::string& name, DType type, Expr value);
  void assign(const std::string& name, DType type, Expr value);
  /// A variable with this value; leaves stay as they are. Declared once, outside of the loops that do not change it.
  /// `e` must be pure.
  Expr hoist(const Expr& e, const std::string& hint);
  /// A new variable with this value; constants stay as they are.
  Expr temporary(const Expr& e, const std::string& hint);
  /// Reads nothing that is assigned later: no register of a tile.
  bool pure(const Expr& e) const;
  /// A shared array for an exchange between threads that is closed by a barrier; ordinals of one exchange differ.
  std::string exchange(DType type, int ordinal, std::int64_t elements);
  const Base* base(const std::string& axis) const;
  /// base + thread part of a slot, in a variable when it is more than a name.
  Expr slot_start(const CoordinateSpace::Slot& slot);
  IntFacts slot_start_facts(const CoordinateSpace::Slot& slot) const;
  /// Range of an integer expression whose axes are bases.
  Range range_at_bases(const Expr& e) const;
  /// `e` simplified for the elements between the constant parts `low` and `high` (inclusive).
  Expr simplify_between(const Expr& e, const CoordinateSpace& space, const Coordinates& low,
                        const Coordinates& high) const;
  /// Axes outside of any slot are their bases.
  Expr with_bases(const Expr& e) const;
  Expr thread_part(std::span<const Factor> factors) const;
  const Ranges& ranges() const { return ranges_; }
  std::int64_t divisor(const Expr& e, const std::map<std::string, std::int64_t>& axes) const;

  // expand_memory.cpp
  void load(const KernelOp& op);
  void store(const KernelOp& op);
  void to_workgroup(const KernelOp& op);
  void from_workgroup(const KernelOp& op);
  // expand_compute.cpp
  void compute(const KernelOp& op, bool fresh);
  void reduce(const KernelOp& op);
  void cross(const KernelOp& op);
  // expand_fragment.cpp
  void multiply(const KernelOp& op);
  /// Operations on opaque tiles; false: `op` is none.
  bool opaque(const KernelOp& op);

 private:
  struct Scope {
    ThreadBody* out = nullptr;
    bool conditional = false;  ///< a branch: what is declared outside must not depend on its condition to be valid
    std::map<std::string, Base> bases;
    std::map<Expr, std::string> variables;
  };

  void place_tiles();
  void body(const KernelBody& ops);
  void operation(const KernelBody& home, std::size_t index);
  void loop(const KernelOp& op);
  void set_bases(const std::map<std::string, Expr>& bases);
  void nested(const KernelOp& op, ThreadStatement statement);

  const Kernel& kernel_;
  ThreadProgram program_;
  Names names_;
  std::map<std::string, TileState> tiles_;
  std::map<std::string, std::size_t>
      depth_;  ///< of variables and loop variables: index of the scope that declares them
  std::map<std::string, std::string> arrays_;               ///< workgroup tile → shared array
  std::map<std::pair<DType, int>, std::size_t> exchanges_;  ///< index in program_.shared
  std::unordered_set<std::string> registers_;               ///< names that are assigned more than once
  std::map<const KernelBody*, std::map<std::size_t, std::vector<TileState*>>> first_uses_;
  std::vector<Scope> scopes_;
  Ranges ranges_;                                 ///< of symbols
  std::map<std::string, std::int64_t> divisors_;  ///< of symbols
};

/// Evaluates expressions at coordinates of a space: delivers operands (shuffles and shared loads once per place), and
/// computes parts that fewer coordinates decide once for all elements that share them.
class Elements {
 public:
  Elements(Expander& expander, CoordinateSpace space, std::map<std::string, Operand> operands = {});
  /// The value at constant parts `at`; emits what it needs before.
  Expr evaluate(const Expr& e, const Coordinates& at);
  const CoordinateSpace& space() const { return space_; }
  /// Slots that decide the value of e, as a bit mask.
  std::uint64_t slots_of(const Expr& e);

 private:
  struct NodeInfo {
    std::uint64_t slots = 0;
    int uses = 0;
    bool may_fail = false;
  };
  struct Delivery {
    Operand operand;
    FetchPlan plan;                     // register tiles
    Expr start;                         // workgroup tiles: the thread's part of the offset
    std::vector<std::int64_t> strides;  // per slot
    int last_slot = -1;
    std::int64_t width = 1;
  };
  /// `e` with equal parts shared, analysed.
  const Expr& analysed(const Expr& e);
  Expr value(const Expr& e, const Coordinates& at, std::uint64_t user_slots);
  Expr fetch(const std::string& name, DType type, const Coordinates& at);
  Expr fetch_shared(Delivery& d, DType type, const Coordinates& at);
  Delivery& delivery(const std::string& name);

  Expander& expander_;
  CoordinateSpace space_;
  std::map<std::string, Operand> operands_;
  std::uint64_t many_ = 0;  ///< slots with more than one constant part
  std::vector<Expr> starts_;
  std::unordered_map<const void*, NodeInfo> info_;
  std::map<const void*, std::pair<Expr, Expr>> roots_;  ///< identity → the expression (kept alive) and its shared form
  std::map<std::pair<const void*, Coordinates>, Expr> computed_;
  std::map<std::string, Delivery> deliveries_;
  std::map<std::pair<std::string, std::int64_t>, std::string> shuffled_;  ///< (register, constant part of the lane)
  std::map<std::pair<std::string, std::int64_t>, std::string> shared_;    ///< (array, constant part of the offset)
};

/// Integer division that fails for some operands: not to be evaluated where the program would not.
bool may_fail(const Expr& e);

/// Largest power of two up to `limit` that divides n.
std::int64_t vector_width(std::int64_t n, std::int64_t limit);
/// Elements per row of a workgroup tile's last axis, with padding, and its element strides by axis.
std::vector<std::int64_t> workgroup_strides(const KernelTile& tile);
std::int64_t workgroup_elements(const KernelTile& tile);

/// Removes statements whose results nothing reads.
void remove_dead(ThreadBody& body);

}  // namespace aicf::expansion
