#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "mir/kernel/expand_state.h"

namespace aicf {
namespace expansion {
namespace {

using Kind = ThreadStatement::Kind;

/// Tiles that an op names itself (not in its body).
std::vector<std::string> named_tiles(const Kernel& kernel, const KernelOp& op) {
  std::set<std::string> result;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(kernel.tiles, name, &KernelTile::name) != kernel.tiles.end()) result.insert(name);
  };
  if (op.kind != KernelOp::Kind::store) add(op.tile);  // a store only takes its shape
  add(op.source);
  for (const std::string& operand : op.operands) add(operand);
  for (const std::string& state : op.states) add(state);
  for (const Expr& e : element_expressions(op)) {
    for (const std::string& value : values_of(e)) add(value);
  }
  return {result.begin(), result.end()};
}

std::optional<std::int64_t> add_bound(std::optional<std::int64_t> a, std::int64_t b) {
  return a ? std::optional(*a + b) : std::nullopt;
}

Range intersect(const Range& a, const Range& b) {
  Range r = a;
  if (b.low && (!r.low || *b.low > *r.low)) r.low = b.low;
  if (b.high && (!r.high || *b.high < *r.high)) r.high = b.high;
  return r;
}

}  // namespace

std::string Names::identifier(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (good) {
      result += c;
    } else if (!result.empty() && result.back() != '_') {
      result += '_';
    }
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "t" + result;
  return result;
}

std::string Names::unique(const std::string& hint) {
  const std::string name = identifier(hint);
  if (used_.insert(name).second) return name;
  int& next = next_[name];
  for (next = std::max(next, 1);; ++next) {
    std::string candidate = fmt::format("{}_n{}", name, next);
    if (used_.insert(candidate).second) return candidate;
  }
}

// ---- setting up --------------------------------------------------------------------------------------------------

Expander::Expander(const Kernel& kernel) : kernel_(kernel) {
  program_.name = kernel.name;
  program_.buffers = kernel.buffers;
  program_.symbols = kernel.symbols;
  program_.subgroup_size = kernel.subgroup_size;
  program_.subgroups = kernel.subgroups;
  program_.workgroups = kernel.workgroups;
  for (const char* name : {"workgroup", "lane", "subgroup"}) names_.reserve(name);
  for (const std::string& s : kernel.symbols) names_.reserve(s);
  for (const KernelBuffer& b : kernel.buffers) names_.reserve(b.name);
  ranges_["workgroup"] = {0, std::nullopt};
  ranges_["lane"] = {0, kernel.subgroup_size - 1};
  ranges_["subgroup"] = {0, kernel.subgroups - 1};
  const auto reserve = [&](const auto& self, const KernelBody& ops) -> void {
    for (const KernelOp& op : ops) {
      if (op.kind == KernelOp::Kind::loop) names_.reserve(op.variable);
      self(self, op.body);
    }
  };
  reserve(reserve, kernel.body);
  place_tiles();
}

void Expander::place_tiles() {
  for (const KernelTile& t : kernel_.tiles) {
    TileState state;
    state.tile = &t;
    if (t.space == Space::workgroup) {
      arrays_[t.name] = add_shared(t.name, t.type, workgroup_elements(t));
    } else {
      state.coordinates = register_coordinates(t);
      const std::string stem = Names::identifier(t.name);
      const std::size_t count = state.coordinates.size();
      for (std::size_t r = 0; r < count; ++r) {
        state.registers.push_back(names_.unique(count == 1 ? stem : fmt::format("{}_{}", stem, r)));
        registers_.insert(state.registers.back());
      }
    }
    tiles_.emplace(t.name, std::move(state));
  }
  // A tile's registers are declared in the innermost body that holds everything that names it.
  struct Step {
    const KernelBody* body;
    std::size_t index;
  };
  std::map<std::string, std::vector<Step>> chains;
  std::vector<Step> chain;
  const auto walk = [&](const auto& self, const KernelBody& ops) -> void {
    chain.push_back({&ops, 0});
    for (std::size_t i = 0; i < ops.size(); ++i) {
      chain.back().index = i;
      for (const std::string& name : named_tiles(kernel_, ops[i])) {
        const auto [found, inserted] = chains.emplace(name, chain);
        if (inserted) continue;
        std::vector<Step>& common = found->second;
        std::size_t n = 0;
        while (n < common.size() && n < chain.size() && common[n].body == chain[n].body) ++n;
        common.resize(n);
      }
      self(self, ops[i].body);
    }
    chain.pop_back();
  };
  walk(walk, kernel_.body);
  for (const auto& [name, steps] : chains) {
    TileState& state = tiles_.at(name);
    if (state.registers.empty()) continue;
    state.home = steps.back().body;
    state.first = steps.back().index;
    first_uses_[state.home][state.first].push_back(&state);
  }
}

std::string Expander::add_shared(const std::string& hint, DType type, std::int64_t elements) {
  program_.shared.push_back({names_.unique(hint), type, elements, 0});
  return program_.shared.back().name;
}

std::string Expander::exchange(DType type, int ordinal, std::int64_t elements) {
  const auto [found, inserted] = exchanges_.try_emplace({type, ordinal}, program_.shared.size());
  if (inserted) return add_shared("exchange", type, elements);
  SharedArray& array = program_.shared[found->second];
  array.elements = std::max(array.elements, elements);
  return array.name;
}

// ---- emission ----------------------------------------------------------------------------------------------------

TileState& Expander::tile(const std::string& name) {
  const auto found = tiles_.find(name);
  AICF_CHECK(found != tiles_.end(), "kernel " + kernel_.name + " has no tile " + name);
  return found->second;
}

Operand Expander::operand(const std::string& name) {
  const TileState& state = tile(name);
  return {state.tile, state.registers};
}

ThreadStatement& Expander::emit(Kind kind) {
  ThreadStatement& s = scopes_.back().out->emplace_back();
  s.kind = kind;
  return s;
}

ThreadStatement& Expander::emit_definition(Kind kind, const std::string& name) {
  depth_[name] = scopes_.size() - 1;
  ThreadStatement& s = emit(kind);
  s.names = {name};
  return s;
}

void Expander::declare(const std::string& name, DType type, Expr value) {
  ThreadStatement& s = emit_definition(Kind::declare, name);
  s.type = type;
  s.exprs = {std::move(value)};
}

void Expander::assign(const std::string& name, DType type, Expr value) {
  if (value.op() == Op::value && value.name() == name) return;
  ThreadStatement& s = emit(Kind::assign);
  s.type = type;
  s.names = {name};
  s.exprs = {std::move(value)};
}

bool Expander::pure(const Expr& e) const {
  return std::ranges::none_of(values_of(e), [&](const std::string& name) { return registers_.contains(name); });
}

Expr Expander::temporary(const Expr& e, const std::string& hint) {
  if (e.is_constant()) return e;
  const std::string name = names_.unique(hint);
  declare(name, e.type(), e);
  return Expr::value(name, e.type());
}

bool may_fail(const Expr& e) {
  if (e.op() != Op::floordiv && e.op() != Op::mod && !(e.op() == Op::div && is_integer(e.type()))) return false;
  return e.args()[1].as_int().value_or(0) == 0;
}

Expr Expander::hoist(const Expr& e, const std::string& hint) {
  if (op_arity(e.op()) == 0) return e;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->variables.find(e);
    if (found != scope->variables.end()) return Expr::value(found->second, e.type());
  }
  // The outermost scope that has everything it reads. The bodies of outer scopes end right before the loop that is
  // open.
  std::size_t depth = 0;
  bool fails = false;
  for_each(e, [&](const Expr& node) {
    fails |= may_fail(node);
    if (node.op() != Op::value && node.op() != Op::symbol) return;
    if (const auto found = depth_.find(node.name()); found != depth_.end()) depth = std::max(depth, found->second);
  });
  if (fails) depth = scopes_.size() - 1;
  for (std::size_t i = depth + 1; i < scopes_.size(); ++i) {
    if (scopes_[i].conditional) depth = i;
  }
  const std::string name = names_.unique(hint);
  ThreadStatement& s = scopes_[depth].out->emplace_back();
  s.kind = Kind::declare;
  s.type = e.type();
  s.names = {name};
  s.exprs = {e};
  depth_[name] = depth;
  scopes_[depth].variables.emplace(e, name);
  return Expr::value(name, e.type());
}

const Base* Expander::base(const std::string& axis) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->bases.find(axis);
    if (found != scope->bases.end()) return &found->second;
  }
  return nullptr;
}

Expr Expander::thread_part(std::span<const Factor> factors) const {
  return aicf::thread_part(factors, kernel_.subgroup_size, kernel_.subgroups);
}

Expr Expander::slot_start(const CoordinateSpace::Slot& slot) {
  const Base* b = base(slot.axis);
  const Expr start = b ? b->value : Expr(0);
  return hoist(start + thread_part(slot.threads), slot.axis + "_at");
}

IntFacts Expander::slot_start_facts(const CoordinateSpace::Slot& slot) const {
  IntFacts facts{{0, 0}, 0};
  if (const Base* b = base(slot.axis)) facts = b->facts;
  for (const Factor& f : slot.threads) {
    facts.range.high = add_bound(facts.range.high, (f.size - 1) * f.stride);
    facts.divisor = std::gcd(facts.divisor, f.stride);
  }
  return facts;
}

Range Expander::range_at_bases(const Expr& e) const {
  ExprMap renamed;  // axes may share their names with symbols
  Ranges ranges = ranges_;
  for (const std::string& a : axes_of(e)) {
    const Base* b = base(a);
    renamed[a] = Expr::axis("axis " + a);
    ranges["axis " + a] = b ? b->facts.range : Range{0, 0};
  }
  return range_of(substitute_axes(e, renamed), ranges);
}

Expr Expander::simplify_between(const Expr& e, const CoordinateSpace& space, const Coordinates& low,
                                const Coordinates& high) const {
  ExprMap renamed, original;
  Ranges ranges = ranges_;
  for (const std::string& a : axes_of(e)) {
    const std::string name = "axis " + a;
    renamed[a] = Expr::axis(name);
    original[name] = Expr::axis(a);
    const int slot = space.find(a);
    if (slot < 0) {
      const Base* b = base(a);
      ranges[name] = b ? b->facts.range : Range{0, 0};
      continue;
    }
    const auto i = static_cast<std::size_t>(slot);
    const Range start = slot_start_facts(space.slots[i]).range;
    ranges[name] = {add_bound(start.low, low[i]), add_bound(start.high, high[i])};
  }
  return substitute_axes(simplify(substitute_axes(e, renamed), ranges), original);
}

Expr Expander::with_bases(const Expr& e) const {
  return rewrite(e, [&](const Expr& node) -> Expr {
    if (node.op() != Op::axis) return {};
    const Base* b = base(node.name());
    return b ? b->value : Expr(0);
  });
}

std::int64_t Expander::divisor(const Expr& e, const std::map<std::string, std::int64_t>& axes) const {
  const auto of = [&](std::size_t i) { return divisor(e.args()[i], axes); };
  switch (e.op()) {
    case Op::constant:
      return e.as_int() ? std::abs(*e.as_int()) : 1;
    case Op::axis: {
      const auto found = axes.find(e.name());
      if (found != axes.end()) return found->second;
      const Base* b = base(e.name());
      return b ? b->facts.divisor : 0;
    }
    case Op::symbol: {
      const auto found = divisors_.find(e.name());
      return found == divisors_.end() ? 1 : found->second;
    }
    case Op::add:
    case Op::sub:
    case Op::min:
    case Op::max:
      return std::gcd(of(0), of(1));
    case Op::select:
      return std::gcd(of(1), of(2));
    case Op::neg:
      return of(0);
    case Op::mul: {
      std::int64_t product = 0;
      return __builtin_mul_overflow(of(0), of(1), &product) ? 1 : product;
    }
    case Op::mod:
      return std::gcd(of(0), of(1));
    case Op::floordiv: {
      const std::int64_t a = of(0);
      const auto b = e.args()[1].as_int();
      return b && *b != 0 && a % *b == 0 ? a / std::abs(*b) : 1;
    }
    default:
      return 1;
  }
}

// ---- control flow ------------------------------------------------------------------------------------------------

void Expander::set_bases(const std::map<std::string, Expr>& bases) {
  std::map<std::string, Base> fresh;
  for (const auto& [axis, e] : bases) {
    // Inside the expression an axis means its base outside.
    Base result;
    result.facts.range = range_at_bases(e);
    if (const auto known = kernel_.ranges.find("axis:" + axis); known != kernel_.ranges.end()) {
      result.facts.range = intersect(result.facts.range, known->second);
    }
    result.facts.divisor = divisor(e, {});
    result.value = with_bases(e);
    if (!result.value.is_constant()) {
      const std::string name = names_.unique("base_" + axis);
      declare(name, DType::i64, result.value);
      result.value = Expr::value(name, DType::i64);
    }
    fresh.emplace(axis, std::move(result));
  }
  scopes_.back().bases = std::move(fresh);
}

void Expander::nested(const KernelOp& op, ThreadStatement statement) {
  Scope scope;
  scope.out = &statement.body;
  scope.conditional = op.kind == KernelOp::Kind::branch;
  scopes_.push_back(std::move(scope));
  if (op.kind == KernelOp::Kind::loop) {
    depth_[op.variable] = scopes_.size() - 1;
    set_bases(op.bases);
  }
  body(op.body);
  scopes_.pop_back();
  scopes_.back().out->push_back(std::move(statement));
}

void Expander::loop(const KernelOp& op) {
  ThreadStatement s;
  s.kind = Kind::loop;
  s.variable = op.variable;
  s.begin = with_bases(op.begin);
  s.end = with_bases(op.end);
  s.step = op.step;
  // Bounds that are more than a name are computed once.
  s.begin = hoist(s.begin, op.variable + "_begin");
  s.end = hoist(s.end, op.variable + "_end");
  Range range{range_at_bases(op.begin).low, range_at_bases(op.end).high};
  if (range.high) --*range.high;
  const auto first = op.begin.as_int(), last = op.end.as_int(), step = op.step.as_int();
  if (first && last && step && *last > *first) range.high = *first + (*last - 1 - *first) / *step * *step;
  const auto saved_range = ranges_.contains(op.variable) ? std::optional(ranges_[op.variable]) : std::nullopt;
  ranges_[op.variable] = range;
  divisors_[op.variable] = std::gcd(divisor(op.begin, {}), divisor(op.step, {}));
  nested(op, std::move(s));
  divisors_.erase(op.variable);
  ranges_.erase(op.variable);
  if (saved_range) ranges_[op.variable] = *saved_range;
}

void Expander::operation(const KernelBody& home, std::size_t index) {
  const KernelOp& op = home[index];
  if (!op.note.empty()) emit(Kind::comment).text = op.note;
  // Registers that first occur here. A compute declares its result together with its value.
  bool fresh = false;
  const auto uses = first_uses_.find(&home);
  if (uses != first_uses_.end()) {
    const auto here = uses->second.find(index);
    if (here != uses->second.end()) {
      for (TileState* state : here->second) {
        state->declared = true;
        const bool is_opaque = state->tile->space == Space::fragment;
        if (op.kind == KernelOp::Kind::compute && op.tile == state->tile->name && !is_opaque) {
          fresh = true;
          continue;
        }
        for (const std::string& name : state->registers) {
          declare(name, state->tile->type, {});
          scopes_.back().out->back().fragment = state->tile->fragment;
        }
      }
    }
  }
  if (opaque(op)) return;
  switch (op.kind) {
    case KernelOp::Kind::load:
      return load(op);
    case KernelOp::Kind::store:
      return store(op);
    case KernelOp::Kind::compute:
      return compute(op, fresh);
    case KernelOp::Kind::reduce:
      return reduce(op);
    case KernelOp::Kind::cross:
      return cross(op);
    case KernelOp::Kind::to_workgroup:
      return to_workgroup(op);
    case KernelOp::Kind::from_workgroup:
      return from_workgroup(op);
    case KernelOp::Kind::multiply:
      return multiply(op);
    case KernelOp::Kind::barrier:
      emit(Kind::barrier);
      return;
    case KernelOp::Kind::loop:
      return loop(op);
    case KernelOp::Kind::branch: {
      ThreadStatement s;
      s.kind = Kind::branch;
      s.predicate = Elements(*this, {}).evaluate(op.predicate, {});
      s.uniform = true;
      return nested(op, std::move(s));
    }
  }
}

void Expander::body(const KernelBody& ops) {
  for (std::size_t i = 0; i < ops.size(); ++i) operation(ops, i);
}

ThreadProgram Expander::run() {
  Scope scope;
  scope.out = &program_.body;
  scopes_.push_back(std::move(scope));
  set_bases(kernel_.bases);
  body(kernel_.body);
  scopes_.pop_back();
  std::int64_t offset = 0;
  for (SharedArray& array : program_.shared) {
    array.byte_offset = offset;
    offset += array.elements * static_cast<std::int64_t>(device_size(array.type));
    offset = (offset + 15) / 16 * 16;
  }
  remove_dead(program_.body);
  return std::move(program_);
}

}  // namespace expansion

Result<ThreadProgram> expand(const Kernel& kernel) {
  AICF_RETURN_IF_ERROR(verify(kernel));
  return expansion::Expander(kernel).run();
}

}  // namespace aicf
