// ThreadProgram → flat code. Three facts are settled here so that the machine need not look at them again: which reads
// are certainly of defined variables (no check), which assignments may write inactive threads too (no blend), and which
// parts of an expression run under a narrowed mask (the sides of a select, the right side of and/or).

#include <fmt/format.h>

#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "mir/kernel/interpret_code.h"
#include "mir/kernel/thread_text.h"

namespace aicf::interpreter {
namespace {

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

bool is_narrow(DType type) {
  return type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
}

class Compiler {
 public:
  Compiler(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
           const std::map<std::string, MatrixUnit>& units)
      : program_(program), symbols_(symbols), units_(units) {}

  Result<Compiled> run() {
    out_.stored.assign(program_.buffers.size(), false);
    out_.workgroup = out_.int_slots++;
    out_.lane = out_.int_slots++;
    out_.subgroup = out_.int_slots++;
    integers_["workgroup"] = out_.workgroup;
    integers_["lane"] = out_.lane;
    integers_["subgroup"] = out_.subgroup;
    for (const std::string& symbol : program_.symbols) {
      const auto found = symbols_.find(symbol);
      if (found == symbols_.end()) return bad_input(fmt::format("symbol '{}' has no value", symbol), place());
      if (found->second != static_cast<std::int32_t>(found->second)) {
        return bad_input(fmt::format("symbol '{}' = {} does not fit in 32 bits", symbol, found->second), place());
      }
      integers_[symbol] = int_constant(static_cast<std::int32_t>(found->second));
    }
    AICF_RETURN_IF_ERROR(compile_body(program_.body));
    return std::move(out_);
  }

 private:
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

  // ---- statements ------------------------------------------------------------------------------------------------

  Result<void> compile_body(const ThreadBody& body) {
    scopes_.emplace_back();
    for (const ThreadStatement& s : body) {
      const ThreadStatement* outer = site_;
      site_ = &s;
      out_.sites.push_back(&s);
      AICF_RETURN_IF_ERROR(compile_statement(s));
      release_temporaries();
      site_ = outer;
    }
    BodyScope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (auto it = scope.shadowed.rbegin(); it != scope.shadowed.rend(); ++it) {
      const Variable& gone = variables_[it->first];
      give_back(is_float(gone.type), gone.slot);
      if (it->second) {
        variables_[it->first] = *it->second;
      } else {
        variables_.erase(it->first);
      }
    }
    return {};
  }

  Variable& declare(const std::string& variable, DType type, std::uint32_t slot) {
    const auto found = variables_.find(variable);
    scopes_.back().shadowed.emplace_back(variable,
                                         found == variables_.end() ? std::nullopt : std::optional(found->second));
    Variable v;
    v.slot = slot;
    v.id = static_cast<std::uint32_t>(out_.variables.size());
    v.type = type;
    v.mask_depth = mask_depth_;
    out_.variables.push_back(variable);
    return variables_[variable] = v;
  }

  bool declared_here(const std::string& variable) const {
    for (const auto& [shadowed, outer] : scopes_.back().shadowed) {
      if (shadowed == variable) return true;
    }
    return false;
  }

  Result<void> check_names(const ThreadStatement& s, std::size_t count) {
    if (s.names.size() == count) return {};
    return malformed(fmt::format("{} names, not {}", s.names.size(), count));
  }

  Result<void> compile_statement(const ThreadStatement& s) {
    using Kind = ThreadStatement::Kind;
    switch (s.kind) {
      case Kind::comment:
        return {};
      case Kind::declare:
      case Kind::shuffle:
      case Kind::shuffle_xor:
        return compile_declaration(s);
      case Kind::assign: {
        AICF_RETURN_IF_ERROR(check_names(s, 1));
        if (s.exprs.size() != 1) return malformed("an assignment without a value");
        return assign(s.names[0], s.exprs[0]);
      }
      case Kind::load_global:
      case Kind::load_shared:
      case Kind::store_global:
      case Kind::store_shared:
        return compile_access(s);
      case Kind::multiply:
        return compile_multiply(s);
      case Kind::barrier:
        emit(Code::barrier);
        return {};
      case Kind::loop:
        return compile_loop(s);
      case Kind::branch:
        return compile_branch(s);
    }
    AICF_BUG("unknown kind of thread statement");
  }

  Result<void> compile_declaration(const ThreadStatement& s) {
    if (s.names.empty()) return malformed("a declaration without a name");
    for (const std::string& n : s.names) {
      if (declared_here(n)) return malformed(fmt::format("'{}' is declared twice", n));
    }
    if (s.kind == ThreadStatement::Kind::declare && (s.exprs.empty() || !s.exprs[0])) {
      for (const std::string& n : s.names) {
        const std::uint32_t id = declare(n, s.type, take(is_float(s.type))).id;
        emit(Code::clear_defined).a = id;
      }
      return {};
    }
    AICF_RETURN_IF_ERROR(check_names(s, 1));
    if (s.exprs.size() != 1) return malformed("a declaration with several values");
    if (s.exprs[0] && is_float(s.exprs[0].type()) != is_float(s.type)) {
      return malformed(fmt::format("{} value for a variable of type {}", name(s.exprs[0].type()), name(s.type)));
    }
    if (s.kind == ThreadStatement::Kind::declare) {
      // The new name is not in scope in its own value, so the value is compiled first, into a slot that the name takes.
      const std::uint32_t slot = take(is_float(s.type));
      AICF_TRY(const std::uint32_t value, expression(s.exprs[0], slot));
      if (value != slot) {
        Instruction& i = emit(is_float(s.type) ? Code::copy_float : Code::copy_int, s.type);
        i.dst = slot, i.a = value;
      }
      declare(s.names[0], s.type, slot).definite = true;
      return {};
    }
    AICF_TRY(const std::uint32_t value, expression(s.exprs[0]));
    std::uint32_t lane = no_slot;
    if (s.kind == ThreadStatement::Kind::shuffle) {
      AICF_TRY(lane, integer(s.lane));
    }
    Variable& v = declare(s.names[0], s.type, take(is_float(s.type)));
    v.definite = true;
    Instruction& i = emit(lane == no_slot ? Code::shuffle_xor : Code::shuffle, s.type);
    i.dst = v.slot, i.a = value, i.b = lane, i.target = static_cast<std::uint32_t>(s.mask);
    return {};
  }

  Result<std::uint32_t> integer(const Expr& e) {
    if (!e || is_float(e.type())) return malformed("an integer is missing");
    return expression(e);
  }

  Result<void> assign(const std::string& variable, const Expr& value) {
    const auto found = variables_.find(variable);
    if (found == variables_.end()) return malformed(fmt::format("'{}' is not declared", variable));
    Variable& v = found->second;
    if (!value || is_float(value.type()) != is_float(v.type)) {
      return malformed(fmt::format("a value of another kind than '{}'", variable));
    }
    // The last operation may write x of x = f(x) in place, unless the old x of an inactive thread is still wanted.
    const bool whole = v.mask_depth == mask_depth_;
    AICF_TRY(const std::uint32_t slot, expression(value, whole ? v.slot : no_slot));
    if (slot != v.slot) {
      const Code copy = is_float(v.type) ? (whole ? Code::copy_float : Code::masked_copy_float)
                                         : (whole ? Code::copy_int : Code::masked_copy_int);
      Instruction& i = emit(copy, v.type);
      i.dst = v.slot, i.a = slot;
    }
    define(v);
    return {};
  }

  /// `v` is now defined in all active threads, up to the end of this body.
  void define(Variable& v) {
    if (!v.definite) emit(Code::mark_defined).a = v.id;
    v.definite = true;
  }

  Result<void> compile_access(const ThreadStatement& s) {
    using Kind = ThreadStatement::Kind;
    const bool global = s.kind == Kind::load_global || s.kind == Kind::store_global;
    const bool load = s.kind == Kind::load_global || s.kind == Kind::load_shared;
    Access access;
    DType memory_type = DType::f32;
    bool known = false;
    if (global) {
      for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
        if (program_.buffers[i].name != s.buffer) continue;
        known = true, memory_type = program_.buffers[i].type, access.memory = static_cast<std::uint32_t>(i);
        if (!load && !program_.buffers[i].written) return malformed("a store to a buffer that is not written");
        if (!load) out_.stored[i] = true;
      }
    } else {
      for (std::size_t i = 0; i < program_.shared.size(); ++i) {
        if (program_.shared[i].name != s.buffer) continue;
        known = true, memory_type = program_.shared[i].type, access.memory = static_cast<std::uint32_t>(i);
      }
    }
    if (!known) return malformed(fmt::format("unknown {} '{}'", global ? "buffer" : "shared array", s.buffer));
    access.floats = is_float(memory_type);
    access.boolean = memory_type == DType::boolean;
    AICF_TRY(access.index, integer(s.index));
    if (s.predicate) {
      AICF_TRY(access.predicate, expression(s.predicate));
      if (s.fill) {
        if (is_float(s.fill.type()) != access.floats) return malformed("a fill of another kind than the buffer");
        AICF_TRY(access.fill, expression(s.fill));
      }
    }
    const std::size_t width = load ? s.names.size() : s.exprs.size();
    if (width == 0 || width > 16 || !std::has_single_bit(width)) return malformed("the width is not 1, 2, 4, 8 or 16");
    if (load) {
      for (const std::string& n : s.names) {
        const auto found = variables_.find(n);
        if (found == variables_.end()) return malformed(fmt::format("'{}' is not declared", n));
        if (is_float(found->second.type) != access.floats) {
          return malformed(fmt::format("'{}' is of another kind than '{}'", n, s.buffer));
        }
      }
      // A thread whose predicate is false keeps its old value when there is no fill; such a load defines nothing there.
      const bool partial = access.predicate != no_slot && access.fill == no_slot;
      for (const std::string& n : s.names) {
        Variable& v = variables_.find(n)->second;
        access.boolean = access.boolean || v.type == DType::boolean;
        access.slots.push_back(v.slot);
        access.masked.push_back(v.mask_depth != mask_depth_);
        access.defines.push_back(v.definite ? no_slot : v.id);
        if (!partial) v.definite = true;
      }
    } else {
      // Values are only needed where the predicate holds.
      std::optional<bool> narrowed;
      if (access.predicate != no_slot) {
        bool fails = false;
        for (const Expr& e : s.exprs) fails = fails || can_fail(e);
        if (fails) push_mask(Code::mask_and, access.predicate), narrowed = true;
      }
      for (const Expr& e : s.exprs) {
        if (!e || is_float(e.type()) != access.floats)
          return malformed("a stored value of another kind than the buffer");
        AICF_TRY(const std::uint32_t slot, expression(e));
        access.slots.push_back(slot);
      }
      if (narrowed) pop_mask();
    }
    const Code code =
        global ? (load ? Code::load_global : Code::store_global) : (load ? Code::load_shared : Code::store_shared);
    emit(code).a = static_cast<std::uint32_t>(out_.accesses.size());
    out_.accesses.push_back(std::move(access));
    return {};
  }

  Result<void> compile_multiply(const ThreadStatement& s) {
    const auto drawn = units_.find(s.unit);
    const MatrixUnit* unit = drawn == units_.end() ? matrix_unit(s.unit) : &drawn->second;
    if (!unit) return malformed(fmt::format("unknown matrix unit '{}'", s.unit));
    if (unit->lanes != program_.subgroup_size) return malformed(fmt::format("'{}' has other lanes", s.unit));
    Product product = product_of(*unit);
    const auto a = static_cast<std::size_t>(unit->a.registers()), b = static_cast<std::size_t>(unit->b.registers());
    AICF_RETURN_IF_ERROR(check_names(s, static_cast<std::size_t>(unit->c.registers())));
    if (s.exprs.size() != a + b) return malformed(fmt::format("{} operands, not {} and {}", s.exprs.size(), a, b));
    for (std::size_t i = 0; i < s.exprs.size(); ++i) {
      if (!s.exprs[i] || !is_float(s.exprs[i].type())) return malformed("an operand is no float");
      AICF_TRY(const std::uint32_t slot, expression(s.exprs[i]));
      (i < a ? product.a : product.b).slots.push_back(slot);
    }
    for (const std::string& n : s.names) {
      AICF_TRY(const std::uint32_t slot, variable_read(Expr::value(n, DType::f32)));
      product.c.slots.push_back(slot);
    }
    emit(Code::multiply).a = static_cast<std::uint32_t>(out_.products.size());
    out_.products.push_back(std::move(product));
    return {};
  }

  /// Definite definitions made inside a body that may not run, or not by all threads, are not certain after it.
  std::map<std::string, bool> definitions() const {
    std::map<std::string, bool> result;
    for (const auto& [n, v] : variables_) {
      if (!v.definite) result[n] = false;
    }
    return result;
  }
  void forget(const std::map<std::string, bool>& before) {
    for (const auto& [n, definite] : before) variables_.find(n)->second.definite = definite;
  }

  static bool assigns(const ThreadBody& body, const std::string& variable) {
    for (const ThreadStatement& s : body) {
      using Kind = ThreadStatement::Kind;
      const bool writes = s.kind == Kind::assign || s.kind == Kind::load_global || s.kind == Kind::load_shared;
      for (const std::string& n : s.names) {
        if (writes && n == variable) return true;
      }
      if (assigns(s.body, variable)) return true;
    }
    return false;
  }

  Result<void> compile_loop(const ThreadStatement& s) {
    for (const Expr& bound : {s.end, s.step}) {
      if (!bound) continue;
      for (const std::string& v : values_of(bound)) {
        if (assigns(s.body, v)) return malformed(fmt::format("loop bound '{}' is assigned in the loop", v));
      }
    }
    LoopBounds bounds;
    AICF_TRY(bounds.begin, integer(s.begin));
    AICF_TRY(bounds.end, integer(s.end));
    bounds.step = int_constant(1);
    if (s.step) {
      AICF_TRY(bounds.step, integer(s.step));
    }
    bounds.variable = take(false);
    const auto outer = integers_.find(s.variable);
    const std::optional<std::uint32_t> hidden = outer == integers_.end() ? std::nullopt : std::optional(outer->second);
    integers_[s.variable] = bounds.variable;
    const auto loop = static_cast<std::uint32_t>(out_.loops.size());
    out_.loops.push_back(bounds);
    const std::size_t head = out_.code.size();
    emit(Code::loop_begin).a = loop;
    const auto before = definitions();
    const auto site = static_cast<std::uint32_t>(out_.sites.size() - 1);
    release_temporaries();
    AICF_RETURN_IF_ERROR(compile_body(s.body));
    forget(before);
    give_back(false, bounds.variable);
    Instruction& end = emit(Code::loop_end);
    end.a = loop, end.site = site, end.target = static_cast<std::uint32_t>(head + 1);
    out_.code[head].target = static_cast<std::uint32_t>(out_.code.size());
    if (hidden) {
      integers_[s.variable] = *hidden;
    } else {
      integers_.erase(s.variable);
    }
    return {};
  }

  Result<void> compile_branch(const ThreadStatement& s) {
    AICF_TRY(const std::uint32_t condition, expression(s.predicate));
    const std::size_t head = out_.code.size();
    Instruction& i = emit(Code::branch);
    i.a = condition, i.dst = s.uniform ? 1 : 0;
    const auto before = definitions();
    release_temporaries();
    // A uniform branch leaves the mask as it is: all active threads enter or none.
    if (!s.uniform) out_.max_masks = std::max(out_.max_masks, static_cast<std::uint32_t>(++mask_depth_) + 1);
    AICF_RETURN_IF_ERROR(compile_body(s.body));
    if (!s.uniform) {
      --mask_depth_;
      emit(Code::mask_pop);
    }
    forget(before);
    out_.code[head].target = static_cast<std::uint32_t>(out_.code.size());
    return {};
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

}  // namespace

Result<Compiled> compile(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
                         const std::map<std::string, MatrixUnit>& units) {
  return Compiler(program, symbols, units).run();
}

}  // namespace aicf::interpreter
