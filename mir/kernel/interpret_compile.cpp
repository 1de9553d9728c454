// ThreadProgram → flat code. Three facts are settled here so that the machine need not look at them again: which reads
// are certainly of defined variables (no check), which assignments may write inactive threads too (no blend), and which
// parts of an expression run under a narrowed mask (the sides of a select, the right side of and/or).

#include <fmt/format.h>

#include <map>
#include <string>

#include "mir/kernel/interpret_expressions.h"
namespace aicf::interpreter {
namespace {

class Compiler : public ExpressionCompiler {
 public:
  Compiler(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
           const std::map<std::string, MatrixUnit>& units)
      : ExpressionCompiler(program, symbols, units) {}

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
};

}  // namespace

Result<Compiled> compile(const ThreadProgram& program, const std::map<std::string, std::int64_t>& symbols,
                         const std::map<std::string, MatrixUnit>& units) {
  return Compiler(program, symbols, units).run();
}

}  // namespace aicf::interpreter
