#pragma once

// What emitters of C-like languages share: expressions with minimal parentheses, control flow, declarations, names. A
// language derives from SourcePrinter and says how types, constants, functions and memory accesses are written.
//
// A program is printed, never changed: each statement is printed for itself, but runs of loads (or stores) with one
// predicate share an `if`. Integers are 32 bits. Operations keep the order that the expression has.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mir/kernel/source_names.h"
#include "mir/kernel/thread_program.h"

namespace aicf {

/// Binding strength of C's operators; a text of lower precedence than its place needs is parenthesised.
enum class Precedence {
  ternary = 1,
  logical_or,
  logical_and,
  bit_and,
  equality,
  relational,
  shift,
  additive,
  multiplicative,
  unary,
  primary
};

/// What every printer needs of a program: integer constants of 32 bits, no matrix unit. Error: unsupported, naming the
/// statement.
Result<void> can_emit(const ThreadProgram& program);

class SourcePrinter {
 public:
  SourcePrinter(const ThreadProgram& program, std::set<std::string, std::less<>> reserved);
  virtual ~SourcePrinter() = default;

  /// Body of the kernel, indented once. Precondition: can_emit(program).
  std::string print_program_body();

 protected:
  // ---- what a language says ----
  virtual std::string type_name(DType type) const = 0;
  /// A float constant of any value, as a primary expression or one that begins with '-'.
  virtual std::string float_constant(double value) = 0;
  /// Operations that C has no operator for; `args` are printed at ternary precedence.
  virtual std::string call(const Expr& e, const std::vector<std::string>& args) = 0;
  /// A primary expression; `arg` is printed at ternary precedence. Asked for: to f16 or bf16 (rounds), float to integer
  /// (truncates, saturates; NaN gives 0), integer or bool to float, bool to integer.
  virtual std::string cast(DType from, DType to, const std::string& arg) = 0;
  /// One access without its predicate, as lines; `index` is a printed expression of ternary precedence.
  virtual void print_load(const ThreadStatement& statement) = 0;
  virtual void print_store(const ThreadStatement& statement) = 0;
  virtual std::string shuffle(const ThreadStatement& statement, const std::string& value) = 0;
  virtual std::string barrier() const = 0;
  /// `op` (mul or div) with the constant zero as argument `zero`, the other one printed, as a primary expression; or ""
  /// for the plain operation: some compilers fold these, even where the other argument is NaN, infinite or zero.
  virtual std::string with_zero(Op op, int zero, const std::string& other, bool negative_zero);

  // ---- for languages ----
  std::string text(const Expr& e, Precedence at_least = Precedence::ternary);
  /// `index` / 2^k for an index that is a multiple of it.
  std::string vector_index(const Expr& index, std::int64_t width);
  void line(std::string_view content);
  void open(std::string_view head);
  void close();
  /// Statements on as few lines as they fit on.
  void lines(const std::vector<std::string>& statements);
  /// A scope for the temporaries of one access; none where an `if` around just this access is one already.
  void open_access();
  void close_access();
  const std::string& variable(const std::string& name) { return names_.of(SourceNames::Kind::variable, name); }
  const std::string& symbol(const std::string& name) { return names_.of(SourceNames::Kind::symbol, name); }
  const std::string& buffer(const std::string& name) { return names_.of(SourceNames::Kind::buffer, name); }
  const std::string& shared(const std::string& name) { return names_.of(SourceNames::Kind::shared, name); }
  SourceNames& names() { return names_; }
  const ThreadProgram& program() const { return program_; }
  const KernelBuffer& buffer_of(const ThreadStatement& statement) const;
  const SharedArray& shared_of(const ThreadStatement& statement) const;
  /// Comment lines that say what the kernel is: work items, threads, memory, names that had to change.
  std::string header_comment() const;
  /// True when `e` is an integer that cannot be negative.
  bool is_natural(const Expr& e);
  /// The value of `e` as it is stored in an int array (booleans as 0 and 1).
  std::string stored_integer(const Expr& e);
  /// "x = value;" where `value` was read from an array of `memory` type: booleans compare with 0.
  std::string loaded(DType memory, const std::string& variable_name, const std::string& value);

 private:
  struct Text {
    std::string text;
    Precedence precedence = Precedence::primary;
  };
  Text print(const Expr& e);
  Text print_operation(const Expr& e);
  Text print_constant(const Expr& e);
  Text print_cast(const Expr& e);
  /// `e` in the names of `ranges_`, where a symbol could not be negative and an axis may.
  Expr for_ranges(const Expr& e) const;
  static Text wrapped(DType type, Text t);
  Text print_integer_division(const Expr& e);
  /// Prints subexpressions that `exprs` use more than once as constants of their own, when they are worth a name.
  void hoist_shared(const std::vector<Expr>& exprs);
  void print_body(const ThreadBody& body);
  void print_statement(const ThreadStatement& s);
  /// Loads or stores from `first` on that may share one predicate; returns their end.
  std::size_t group_end(const ThreadBody& body, std::size_t first) const;
  void print_accesses(const ThreadBody& body, std::size_t first, std::size_t end);
  void print_assignment(const ThreadStatement& s);
  std::size_t print_empty_declarations(const ThreadBody& body, std::size_t first);
  void learn_range(const ThreadStatement& s);

  const ThreadProgram& program_;
  SourceNames names_;
  std::string out_;
  int depth_ = 1;
  bool alone_ = false;  ///< the current access is the only one in its `if`
  int temporaries_ = 0;
  std::unordered_map<const void*, std::string> hoisted_;
  std::set<std::string> assigned_;      ///< variables that are assigned or loaded after their declaration
  std::map<std::string, DType> types_;  ///< of variables declared so far
  Ranges ranges_;  ///< symbols by name, variables of open loops as "loop:name", constant integers as "value:name"
};

}  // namespace aicf
