#pragma once

// Expressions of a thread program → flat code, with the slots their values take. Private to the interpreter.

#include <fmt/format.h>

#include <bit>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "mir/kernel/interpret_code.h"
#include "mir/kernel/thread_text.h"

namespace aicf::interpreter {

struct Variable {
  std::uint32_t slot = 0;
  std::uint32_t id = 0;  ///< index into the defined table
  DType type = DType::f32;
  int mask_depth = 0;     ///< masks pushed where it was declared
  bool definite = false;  ///< certainly defined at this point of the program
};

/// Names of one body; `shadowed` restores the outer meaning at its end.
struct BodyScope {
  std::vector<std::pair<std::string, std::optional<Variable>>> shadowed;
};

inline bool is_narrow(DType type) {
  return type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
}

class ExpressionCompiler {
 protected:
  ExpressionCompiler(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
                     const std::map<std::string, MatrixUnit>& units)
      : program_(program), symbols_(symbols), units_(units) {}

  std::string place() const { return fmt::format("kernel '{}'", program_.name); }

  std::unexpected<Diagnostic> malformed(const std::string& what) const {
    return run_failure(fmt::format("malformed thread program: {}{}", what,
                                   site_ ? fmt::format(", in '{}'", statement_text(*site_)) : ""),
                       place());
  }

  // ---- slots -----------------------------------------------------------------------------------------------------

  // Constants keep a slot of their own for the whole run; variables give theirs back at the end of their body, and
  // temporaries at the end of their statement.
  std::uint32_t take(bool floats) {
    std::vector<std::uint32_t>& free = floats ? free_floats_ : free_ints_;
    if (free.empty()) return floats ? out_.float_slots++ : out_.int_slots++;
    const std::uint32_t slot = free.back();
    free.pop_back();
    return slot;
  }
  void give_back(bool floats, std::uint32_t slot) { (floats ? free_floats_ : free_ints_).push_back(slot); }

  std::uint32_t temporary(DType type) {
    const std::uint32_t slot = take(is_float(type));
    temporaries_.emplace_back(is_float(type), slot);
    return slot;
  }
  void release_temporaries() {
    for (const auto& [floats, slot] : temporaries_) give_back(floats, slot);
    temporaries_.clear();
    memo_.clear();
    memo_log_.clear();
  }

  std::uint32_t float_constant(float value) {
    const auto key = std::bit_cast<std::uint32_t>(value);
    if (const auto found = float_constants_.find(key); found != float_constants_.end()) return found->second;
    const std::uint32_t slot = out_.float_slots++;
    out_.float_constants.emplace_back(slot, value);
    return float_constants_[key] = slot;
  }
  std::uint32_t int_constant(std::int32_t value) {
    if (const auto found = int_constants_.find(value); found != int_constants_.end()) return found->second;
    const std::uint32_t slot = out_.int_slots++;
    out_.int_constants.emplace_back(slot, value);
    return int_constants_[value] = slot;
  }

  Instruction& emit(Code code, DType type = DType::f32) {
    Instruction& i = out_.code.emplace_back();
    i.code = code;
    i.type = type;
    i.site = static_cast<std::uint32_t>(out_.sites.size() - 1);
    return i;
  }

  // ---- expressions -----------------------------------------------------------------------------------------------

  /// True when evaluation may fail or reads a variable whose definition is not certain: then it must run under the mask
  /// of the threads that need it.
  bool can_fail(const Expr& e) {
    bool fails = false;
    for_each(e, [&](const Expr& x) {
      if (x.op() == Op::value) {
        const auto found = variables_.find(x.name());
        fails = fails || found == variables_.end() || !found->second.definite;
      } else if (is_integer(x.type())) {
        fails = fails || !(x.op() == Op::constant || x.op() == Op::symbol || x.op() == Op::cast || x.op() == Op::min ||
                           x.op() == Op::max || x.op() == Op::select);
      }
    });
    return fails;
  }

  void push_mask(Code code, std::uint32_t condition) {
    emit(code).a = condition;
    out_.max_masks = std::max(out_.max_masks, static_cast<std::uint32_t>(++mask_depth_) + 1);
    marks_.push_back(memo_log_.size());
  }

  void pop_mask() {
    emit(Code::mask_pop);
    --mask_depth_;
    // What was computed under the narrower mask is not valid for the others.
    while (memo_log_.size() > marks_.back()) {
      memo_.erase(memo_log_.back());
      memo_log_.pop_back();
    }
    marks_.pop_back();
  }

  Result<std::uint32_t> under_mask(Code code, std::uint32_t condition, const Expr& e) {
    if (!can_fail(e)) return expression(e);
    push_mask(code, condition);
    AICF_TRY(const std::uint32_t slot, expression(e));
    pop_mask();
    return slot;
  }

  /// Slot that holds `e` after the code emitted here; `into` is where a computed result should go.
  Result<std::uint32_t> expression(const Expr& e, std::uint32_t into = no_slot) {
    if (!e) return malformed("an expression is missing");
    switch (e.op()) {
      case Op::constant:
        if (is_float(e.type())) return float_constant(static_cast<float>(e.number()));
        if (e.int_number() != static_cast<std::int32_t>(e.int_number())) {
          return malformed(fmt::format("constant {} does not fit in 32 bits", e.int_number()));
        }
        return int_constant(static_cast<std::int32_t>(e.int_number()));
      case Op::symbol: {
        const auto found = integers_.find(e.name());
        if (found == integers_.end()) return malformed(fmt::format("unknown symbol '{}'", e.name()));
        return found->second;
      }
      case Op::value:
        return variable_read(e);
      case Op::axis:
        return malformed(fmt::format("axis '{}' in a thread program", e.name()));
      case Op::load:
        return malformed(fmt::format("a load of '{}' inside an expression", e.name()));
      default:
        break;
    }
    if (const auto found = memo_.find(e.identity()); found != memo_.end()) return found->second;
    AICF_TRY(const std::uint32_t slot, operation(e, into));
    if (into == no_slot || slot != into) {
      memo_[e.identity()] = slot;
      memo_log_.push_back(e.identity());
    }
    return slot;
  }

  Result<std::uint32_t> variable_read(const Expr& e) {
    const auto found = variables_.find(e.name());
    if (found == variables_.end()) return malformed(fmt::format("'{}' is not declared", e.name()));
    const Variable& v = found->second;
    if (is_float(v.type) != is_float(e.type())) {
      return malformed(fmt::format("'{}' is {}, read as {}", e.name(), name(v.type), name(e.type())));
    }
    if (!v.definite) emit(Code::check_defined).a = v.id;
    return v.slot;
  }

  Result<std::uint32_t> operation(const Expr& e, std::uint32_t into) {
    const DType type = e.type();
    const auto target = [&] { return into != no_slot ? into : temporary(type); };
    if (e.op() == Op::select) {
      AICF_TRY(const std::uint32_t c, expression(e.args()[0]));
      AICF_TRY(const std::uint32_t a, under_mask(Code::mask_and, c, e.args()[1]));
      AICF_TRY(const std::uint32_t b, under_mask(Code::mask_and_not, c, e.args()[2]));
      const std::uint32_t dst = target();
      Instruction& i = emit(is_float(type) ? Code::select_float : Code::select_int, type);
      i.dst = dst, i.a = a, i.b = b, i.c = c;
      return dst;
    }
    if (e.op() == Op::and_ || e.op() == Op::or_) {
      AICF_TRY(const std::uint32_t a, expression(e.args()[0]));
      const Code narrow = e.op() == Op::and_ ? Code::mask_and : Code::mask_and_not;
      AICF_TRY(const std::uint32_t b, under_mask(narrow, a, e.args()[1]));
      return int_operation(e, target(), a, b);
    }
    AICF_TRY(const std::uint32_t a, expression(e.args()[0]));
    std::uint32_t b = a;
    if (e.args().size() > 1) {
      AICF_TRY(b, expression(e.args()[1]));
    }
    const DType from = e.args()[0].type();
    if (e.op() == Op::cast) return cast(e, a, target());
    const std::uint32_t dst = target();
    if (is_float(from) && !is_float(type)) {
      Instruction& i = emit(Code::float_compare, type);
      i.op = e.op(), i.dst = dst, i.a = a, i.b = b;
      return dst;
    }
    if (!is_float(from)) return int_operation(e, dst, a, b);
    Instruction& i = emit(Code::float_op, type);
    i.op = e.op(), i.dst = dst, i.a = a, i.b = b;
    round_result(type, dst);
    return dst;
  }

  Result<std::uint32_t> int_operation(const Expr& e, std::uint32_t dst, std::uint32_t a, std::uint32_t b) {
    Instruction& i = emit(Code::int_op, e.type());
    i.op = e.op(), i.dst = dst, i.a = a, i.b = b;
    if (is_narrow(e.type())) {
      Instruction& w = emit(Code::int_wrap, e.type());
      w.dst = dst, w.a = dst;
    }
    return dst;
  }

  void round_result(DType type, std::uint32_t slot) {
    if (type != DType::f16 && type != DType::bf16) return;
    Instruction& i = emit(Code::float_round, type);
    i.dst = slot, i.a = slot;
  }

  Result<std::uint32_t> cast(const Expr& e, std::uint32_t a, std::uint32_t dst) {
    const DType from = e.args()[0].type(), to = e.type();
    Code code = Code::int_wrap;
    if (is_float(from)) {
      code = !is_float(to) ? Code::float_to_int
                           : (to == DType::f16 || to == DType::bf16 ? Code::float_round : Code::copy_float);
    } else if (is_float(to)) {
      code = Code::int_to_float;
    } else if (to == DType::boolean) {
      code = Code::int_to_bool;
    }
    Instruction& i = emit(code, to);
    i.dst = dst, i.a = a;
    if (code == Code::int_to_float) round_result(to, dst);
    return dst;
  }

  const ThreadProgram& program_;
  const std::map<std::string, std::int64_t>& symbols_;
  const std::map<std::string, MatrixUnit>& units_;
  Compiled out_;
  const ThreadStatement* site_ = nullptr;
  std::unordered_map<std::string, Variable> variables_;
  std::unordered_map<std::string, std::uint32_t> integers_;  ///< symbols and loop variables
  std::vector<BodyScope> scopes_;
  std::vector<std::uint32_t> free_floats_, free_ints_;
  std::vector<std::pair<bool, std::uint32_t>> temporaries_;  ///< of the current statement: (is float, slot)
  std::map<std::uint32_t, std::uint32_t> float_constants_;
  std::map<std::int32_t, std::uint32_t> int_constants_;
  std::unordered_map<const void*, std::uint32_t> memo_;  ///< of the current statement
  std::vector<const void*> memo_log_;
  std::vector<std::size_t> marks_;
  int mask_depth_ = 0;
};

}  // namespace aicf::interpreter
