// Rules of kernels. Two parts run together, in program order: what an operation may say (names, types, distributions),
// and what must have happened before it (tiles defined, barriers between threads, partial results closed).

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "mir/kernel/distribution.h"
#include "mir/kernel/expand_plan.h"
#include "mir/kernel/fragment_rules.h"

namespace aicf {
namespace {

using Kind = KernelOp::Kind;

/// Id bits over which a tile holds partial results: replicated by its distribution, yet different.
struct PartialBits {
  std::int64_t lanes = 0, subgroups = 0;
  PartialBits operator|(const PartialBits& o) const { return {lanes | o.lanes, subgroups | o.subgroups}; }
  bool any() const { return lanes != 0 || subgroups != 0; }
};

/// What is known between two operations.
struct Flow {
  std::set<std::string> defined;               ///< on every path
  std::map<std::string, PartialBits> partial;  ///< on some path
  std::set<std::string> written, read;         ///< workgroup tiles since the last barrier, on some path
};

Flow joined(const Flow& a, const Flow& b) {
  Flow r;
  std::ranges::set_intersection(a.defined, b.defined, std::inserter(r.defined, r.defined.end()));
  r.partial = a.partial;
  for (const auto& [name, bits] : b.partial) r.partial[name] = r.partial[name] | bits;
  r.written = a.written;
  r.written.insert(b.written.begin(), b.written.end());
  r.read = a.read;
  r.read.insert(b.read.begin(), b.read.end());
  return r;
}

/// Bounds on what is unrolled: elements of a tile, terms of one reduction.
constexpr std::int64_t max_elements = 1 << 20;
constexpr std::int64_t max_terms = 1 << 20;

bool power_of_two(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  Result<void> run() {
    AICF_RETURN_IF_ERROR(declarations());
    Flow flow;
    return body(kernel_.body, flow);
  }

 private:
  std::unexpected<Diagnostic> error(std::string message) const {
    return bad_input(std::move(message),
                     op_ ? fmt::format("kernel {}: {}", kernel_.name, headline(*op_)) : "kernel " + kernel_.name);
  }

  Result<void> declarations() {
    if (!power_of_two(kernel_.subgroup_size) || !power_of_two(kernel_.subgroups)) {
      return error(
          fmt::format("{} x {} threads: both must be powers of two", kernel_.subgroup_size, kernel_.subgroups));
    }
    symbols_.insert(kernel_.symbols.begin(), kernel_.symbols.end());
    for (const char* reserved : {"workgroup", "lane", "subgroup"}) {
      if (symbols_.contains(reserved)) return error(fmt::format("symbol '{}' has a reserved name", reserved));
    }
    if (!kernel_.workgroups) return error("the number of work items is missing");
    AICF_RETURN_IF_ERROR(uniform(kernel_.workgroups, "the number of work items"));
    for (const KernelBuffer& b : kernel_.buffers) {
      if (!buffers_.emplace(b.name, &b).second) return error(fmt::format("buffer '{}' is declared twice", b.name));
      for (const Expr& dim : b.shape) AICF_RETURN_IF_ERROR(uniform(dim, "a dimension of " + b.name));
    }
    symbols_.insert("workgroup");
    for (const auto& [axis, base] : kernel_.bases) AICF_RETURN_IF_ERROR(uniform(base, "the base of " + axis));
    for (const KernelTile& t : kernel_.tiles) {
      if (!tiles_.emplace(t.name, &t).second) return error(fmt::format("tile '{}' is declared twice", t.name));
      AICF_RETURN_IF_ERROR(extents(t));
      if (t.space == Space::workgroup) continue;
      const Result<void> covered = t.space == Space::fragment ? check_opaque_tile(kernel_, t)
                                                              : covers(t, kernel_.subgroup_size, kernel_.subgroups);
      if (!covered) return error(covered.error().text());
    }
    return {};
  }

  /// Sizes are small enough to unroll; axes are distinct.
  Result<void> extents(const KernelTile& t) const {
    std::set<std::string> axes;
    std::int64_t elements = 1;
    for (const TileAxis& a : t.axes) {
      if (!axes.insert(a.name).second) return error(fmt::format("tile '{}' has axis '{}' twice", t.name, a.name));
      if (a.extent < 1 || a.extent > max_elements) {
        return error(fmt::format("tile '{}': the extent {} of axis '{}' is not in 1 .. {}", t.name, a.extent, a.name,
                                 max_elements));
      }
      elements *= a.extent;
      if (elements > max_elements)
        return error(fmt::format("tile '{}' has more than {} elements", t.name, max_elements));
    }
    if (t.row_padding < 0 || t.row_padding > max_elements)
      return error(fmt::format("tile '{}' has padding {}", t.name, t.row_padding));
    return {};
  }

  // ---- expressions -----------------------------------------------------------------------------------------------

  Result<void> known_symbols(const Expr& e, const std::string& what) const {
    for (const std::string& s : symbols_of(e)) {
      if (!symbols_.contains(s)) return error(fmt::format("{} uses '{}', which is no symbol here", what, s));
    }
    if (!loads_of(e).empty()) return error(what + " holds a load; load a tile and name it");
    return {};
  }

  /// An integer that is the same in every thread: over symbols and bases.
  Result<void> uniform(const Expr& e, const std::string& what) const {
    if (!e || e.type() != DType::i64) return error(what + " is not an i64");
    AICF_RETURN_IF_ERROR(known_symbols(e, what));
    if (!values_of(e).empty()) return error(what + " reads a tile");
    return {};
  }

  const KernelTile* find(const std::string& name) const {
    const auto found = tiles_.find(name);
    return found == tiles_.end() ? nullptr : found->second;
  }

  Result<const KernelTile*> register_tile(const std::string& name) const {
    const KernelTile* tile = find(name);
    if (!tile) return error(fmt::format("there is no tile '{}'", name));
    if (tile->space == Space::fragment) return error(opaque_refusal("an operation by element", *tile));
    if (tile->space != Space::registers) return error(fmt::format("tile '{}' is in workgroup memory", name));
    return tile;
  }

  bool opaque(const std::string& name) const {
    const KernelTile* tile = find(name);
    return tile && tile->space == Space::fragment;
  }

  Result<void> passed(const Result<void>& rule) const { return rule ? rule : error(rule.error().text()); }

  /// The operands of `e` can be delivered at the elements of `space`, are defined, and are visible. Adds their partial
  /// bits.
  Result<void> element(const Expr& e, const std::string& what, const CoordinateSpace& space, Flow& flow,
                       PartialBits& partial) {
    AICF_RETURN_IF_ERROR(known_symbols(e, what));
    std::map<std::string, DType> types;
    for_each(e, [&](const Expr& node) {
      if (node.op() == Op::value) types[node.name()] = node.type();
    });
    for (const auto& [name, type] : types) {
      const KernelTile* tile = find(name);
      if (!tile) return error(fmt::format("{} reads '{}', which is no tile", what, name));
      if (tile->type != type)
        return error(
            fmt::format("{} reads '{}' as {}, it is {}", what, name, aicf::name(type), aicf::name(tile->type)));
      AICF_RETURN_IF_ERROR(deliverable(*tile, space));
      AICF_RETURN_IF_ERROR(readable(*tile, flow));
      if (const auto found = flow.partial.find(name); found != flow.partial.end()) {
        partial = partial | found->second;
        const Result<FetchPlan> plan = plan_fetch(*tile, space);
        if (found->second.any() && plan && plan->kind != FetchPlan::Kind::own)
          return error(
              fmt::format("'{}' is a partial result, and another lane's part is read; a cross is missing", name));
      }
    }
    return {};
  }

  Result<void> deliverable(const KernelTile& tile, const CoordinateSpace& space) const {
    if (tile.space == Space::fragment) return error(opaque_refusal("a read by element", tile));
    for (const TileAxis& axis : tile.axes) {
      const int slot = space.find(axis.name);
      if (slot < 0) {
        if (axis.extent == 1) continue;
        return error(fmt::format("value '{}' is read without a coordinate along {}", tile.name, axis.name));
      }
      const std::int64_t extent = space.slots[static_cast<std::size_t>(slot)].extent;
      if (extent != axis.extent) {
        return error(
            fmt::format("axis {} has {} elements in '{}' and {} here", axis.name, axis.extent, tile.name, extent));
      }
    }
    if (tile.space == Space::workgroup) return {};
    const Result<FetchPlan> plan = plan_fetch(tile, space);
    if (!plan) return error(plan.error().message);
    return {};
  }

  Result<void> readable(const KernelTile& tile, Flow& flow) const {
    if (!flow.defined.contains(tile.name))
      return error(fmt::format("tile '{}' is read before it is defined on every path", tile.name));
    if (tile.space != Space::workgroup) return {};
    if (flow.written.contains(tile.name))
      return error(fmt::format("a barrier is missing between writing and reading workgroup tile '{}'", tile.name));
    flow.read.insert(tile.name);
    return {};
  }

  // ---- operations ------------------------------------------------------------------------------------------------

  void define(Flow& flow, const std::string& tile, const PartialBits& partial) const {
    flow.defined.insert(tile);
    if (partial.any()) {
      flow.partial[tile] = partial;
    } else {
      flow.partial.erase(tile);
    }
  }

  static void barrier(Flow& flow) {
    flow.written.clear();
    flow.read.clear();
  }

  Result<const KernelBuffer*> accessed(const KernelOp& op, const KernelTile& tile, Flow& flow, PartialBits& partial) {
    const auto found = buffers_.find(op.buffer);
    if (found == buffers_.end()) return error(fmt::format("there is no buffer '{}'", op.buffer));
    const KernelBuffer* buffer = found->second;
    if (op.index.size() != buffer->shape.size()) {
      return error(
          fmt::format("{} indices for {} dimensions of '{}'", op.index.size(), buffer->shape.size(), op.buffer));
    }
    const CoordinateSpace space = CoordinateSpace::of(tile);
    for (const Expr& i : op.index) {
      if (!is_integer(i.type())) return error("an index is not an integer");
      AICF_RETURN_IF_ERROR(element(i, "an index", space, flow, partial));
    }
    if (op.predicate) {
      if (op.predicate.type() != DType::boolean) return error("the predicate is not a condition");
      AICF_RETURN_IF_ERROR(element(op.predicate, "the predicate", space, flow, partial));
    }
    if (op.vector_width != 1 && op.vector_width != 2 && op.vector_width != 4) {
      return error(fmt::format("a vector of {} elements", op.vector_width));
    }
    return buffer;
  }

  Result<void> load(const KernelOp& op, Flow& flow) {
    if (opaque(op.tile)) return whole_matrices(op, flow);
    AICF_TRY(const KernelTile* tile, register_tile(op.tile));
    PartialBits partial;
    AICF_TRY([[maybe_unused]] const KernelBuffer* buffer, accessed(op, *tile, flow, partial));
    if (op.fill) AICF_RETURN_IF_ERROR(element(op.fill, "the fill", CoordinateSpace::of(*tile), flow, partial));
    define(flow, op.tile, partial);
    return {};
  }

  Result<void> store(const KernelOp& op, Flow& flow) {
    if (opaque(op.tile)) return whole_matrices(op, flow);
    AICF_TRY(const KernelTile* tile, register_tile(op.tile));
    PartialBits partial;
    AICF_TRY(const KernelBuffer* buffer, accessed(op, *tile, flow, partial));
    if (!buffer->written) return error(fmt::format("buffer '{}' is not declared as written", op.buffer));
    if (!op.expr) return error("the stored value is missing");
    AICF_RETURN_IF_ERROR(element(op.expr, "the stored value", CoordinateSpace::of(*tile), flow, partial));
    if (partial.any())
      return error(
          "the stored value is a partial result; a cross over the lanes or subgroups that share it is missing");
    return {};
  }

  /// A load or store of opaque fragments.
  Result<void> whole_matrices(const KernelOp& op, Flow& flow) {
    const auto found = buffers_.find(op.buffer);
    if (found == buffers_.end()) return error(fmt::format("there is no buffer '{}'", op.buffer));
    if (op.index.size() != found->second->shape.size())
      return error(
          fmt::format("{} indices for {} dimensions of '{}'", op.index.size(), found->second->shape.size(), op.buffer));
    for (const Expr& i : op.index) {
      if (!is_integer(i.type())) return error("an index is not an integer");
      AICF_RETURN_IF_ERROR(known_symbols(i, "an index"));
    }
    const Result<MatrixAddress> address = matrix_address(kernel_, op);
    if (!address) return error(address.error().text());
    if (op.kind == Kind::load) {
      define(flow, op.tile, {});
      return {};
    }
    if (!found->second->written) return error(fmt::format("buffer '{}' is not declared as written", op.buffer));
    return readable(*find(op.tile), flow);
  }

  Result<void> opaque_map(const KernelOp& op, Flow& flow) {
    const KernelTile& tile = *find(op.tile);
    AICF_RETURN_IF_ERROR(typed(op.expr, tile));
    AICF_RETURN_IF_ERROR(known_symbols(op.expr, "the value"));
    AICF_RETURN_IF_ERROR(passed(check_opaque_map(kernel_, op)));
    for (const std::string& value : values_of(op.expr)) {
      AICF_RETURN_IF_ERROR(readable(*find(value), flow));
      if (flow.partial.contains(value))
        return error(fmt::format("'{}' is a partial result, which differs between lanes", value));
    }
    define(flow, op.tile, {});
    return {};
  }

  Result<void> multiply(const KernelOp& op, Flow& flow) {
    const Result<MatrixProduct> product = matrix_product(kernel_, op);
    if (!product) return error(product.error().text());
    for (const KernelTile* tile : {product->a, product->b, product->c}) {
      AICF_RETURN_IF_ERROR(readable(*tile, flow));
      if (flow.partial.contains(tile->name))
        return error(fmt::format("'{}' is a partial result; a cross is missing", tile->name));
    }
    return {};
  }

  Result<void> compute(const KernelOp& op, Flow& flow) {
    if (opaque(op.tile)) return opaque_map(op, flow);
    AICF_TRY(const KernelTile* tile, register_tile(op.tile));
    AICF_RETURN_IF_ERROR(typed(op.expr, *tile));
    PartialBits partial;
    AICF_RETURN_IF_ERROR(element(op.expr, "the value", CoordinateSpace::of(*tile), flow, partial));
    define(flow, op.tile, partial);
    return {};
  }

  Result<void> typed(const Expr& e, const KernelTile& tile) const {
    if (!e) return error("the value is missing");
    if (e.type() != tile.type)
      return error(fmt::format("a value of type {} for tile '{}' of type {}; cast it", name(e.type()), tile.name,
                               name(tile.type)));
    return {};
  }

  Result<void> reduce(const KernelOp& op, Flow& flow) {
    std::set<std::string> named = op.expr ? values_of(op.expr) : std::set<std::string>();
    named.insert(op.tile);
    for (const std::string& name : named) {
      if (opaque(name)) return error(opaque_refusal("row reduction", *find(name)));
    }
    AICF_TRY(const KernelTile* tile, register_tile(op.tile));
    AICF_RETURN_IF_ERROR(typed(op.expr, *tile));
    if (op.reduce == ReduceOp::none) return error("the reduction is not named");
    for (const std::string& value : values_of(op.expr)) {
      if (!find(value)) return error(fmt::format("the value reads '{}', which is no tile", value));
    }
    if (depends_on_value(op.expr, op.tile))
      return error(fmt::format("the reduction reads '{}', which it updates", op.tile));
    if (op.reduce != ReduceOp::first) AICF_RETURN_IF_ERROR(readable(*tile, flow));
    const Result<CoordinateSpace> space = reduction_space(kernel_, op);
    if (!space) return error(space.error().message);
    std::int64_t terms = 1;
    for (const CoordinateSpace::Slot& slot : space->slots) {
      std::int64_t constants = slot.extent;
      for (const Factor& f : slot.threads) constants /= f.size;
      terms *= constants;
      if (terms > max_terms)
        return error(fmt::format("it unrolls to more than {} terms; loop over one axis", max_terms));
    }
    PartialBits partial;
    AICF_RETURN_IF_ERROR(element(op.expr, "the value", *space, flow, partial));
    if (op.reduce != ReduceOp::first) partial = partial | flow.partial[op.tile];
    for (const CoordinateSpace::Slot& slot : space->slots) {
      if (CoordinateSpace::of(*tile).find(slot.axis) >= 0) continue;
      for (const Factor& f : slot.threads)
        (f.level == Level::lane ? partial.lanes : partial.subgroups) |= (f.size - 1) * f.position;
    }
    define(flow, op.tile, partial);
    return {};
  }

  Result<void> cross(const KernelOp& op, Flow& flow) {
    std::map<std::string, const KernelTile*> sides;
    for (const std::string& state : op.states) {
      AICF_TRY(const KernelTile* tile, register_tile(state));
      AICF_RETURN_IF_ERROR(readable(*tile, flow));
      sides["a." + state] = sides["b." + state] = tile;
    }
    for (const std::string& state : op.states) {
      if (std::ranges::count(op.merge, state, &MergeRule::state) != 1)
        return error(fmt::format("state '{}' needs exactly one merge rule", state));
    }
    for (const MergeRule& rule : op.merge) {
      const auto own = sides.find("a." + rule.state);
      if (own == sides.end()) return error(fmt::format("the merge rule of '{}' has no such state", rule.state));
      AICF_RETURN_IF_ERROR(typed(rule.value, *own->second));
      AICF_RETURN_IF_ERROR(known_symbols(rule.value, "the merge rule of " + rule.state));
      for (const std::string& value : values_of(rule.value)) {
        const auto side = sides.find(value);
        if (side == sides.end()) return error(fmt::format("the merge rule of '{}' reads '{}'", rule.state, value));
        const CoordinateSpace space = CoordinateSpace::of(*own->second);
        AICF_RETURN_IF_ERROR(deliverable(*side->second, space));
        if (plan_fetch(*side->second, space)->kind != FetchPlan::Kind::own) {
          return error(fmt::format("the merge rule of '{}' reads '{}' of another lane", rule.state, value));
        }
      }
    }
    AICF_RETURN_IF_ERROR(masks(op, Level::lane, op.lane_masks, kernel_.subgroup_size, flow));
    AICF_RETURN_IF_ERROR(masks(op, Level::subgroup, op.subgroup_masks, kernel_.subgroups, flow));
    if (!op.subgroup_masks.empty()) barrier(flow);
    return {};
  }

  Result<void> masks(const KernelOp& op, Level level, const std::vector<std::int64_t>& list, std::int64_t limit,
                     Flow& flow) const {
    for (const std::int64_t mask : list) {
      if (!power_of_two(mask) || mask >= limit) {
        return error(fmt::format("{} mask {} is not one bit below {}", name(level), mask, limit));
      }
      bool closes = false;
      for (const std::string& state : op.states) {
        for (const Factor& f : find(state)->distribution.factors) {
          if (f.level == level && f.size > 1 && ((f.size - 1) * f.position & mask)) {
            return error(fmt::format("{} mask {} pairs different elements of '{}'", name(level), mask, state));
          }
        }
        PartialBits rest = flow.partial[state];
        std::int64_t& bits = level == Level::lane ? rest.lanes : rest.subgroups;
        closes |= (bits & mask) != 0;
        bits &= ~mask;
        define(flow, state, rest);
      }
      if (!closes) {
        return error(fmt::format("no state holds partial results over {} mask {}: merging would count elements twice",
                                 name(level), mask));
      }
    }
    return {};
  }

  Result<void> move(const KernelOp& op, Flow& flow) {
    const bool writes = op.kind == Kind::to_workgroup;
    const std::string& array_name = writes ? op.tile : op.source;
    const std::string& held = writes ? op.source : op.tile;
    const KernelTile* tile = find(held);
    if (!opaque(held)) {
      AICF_TRY(tile, register_tile(held));
    }
    const KernelTile* array = find(array_name);
    if (!array || array->space != Space::workgroup)
      return error(fmt::format("there is no workgroup tile '{}'", array_name));
    if (array->type != tile->type)
      return error(
          fmt::format("'{}' is {} and '{}' is {}", tile->name, name(tile->type), array_name, name(array->type)));
    if (array->axes.size() != tile->axes.size())
      return error(fmt::format("'{}' and '{}' differ in axes", tile->name, array_name));
    AICF_RETURN_IF_ERROR(deliverable(*array, CoordinateSpace::of(*tile)));
    if (!writes) {
      AICF_RETURN_IF_ERROR(readable(*array, flow));
      define(flow, op.tile, {});
      return {};
    }
    AICF_RETURN_IF_ERROR(readable(*tile, flow));
    if (flow.partial.contains(tile->name) && flow.partial[tile->name].any())
      return error(fmt::format("'{}' is a partial result; a cross is missing", tile->name));
    if (flow.read.contains(array_name))
      return error(
          fmt::format("a barrier is missing between reading workgroup tile '{}' and overwriting it", array_name));
    if (flow.written.contains(array_name))
      return error(fmt::format("a barrier is missing between two writes of workgroup tile '{}'", array_name));
    flow.written.insert(array_name);
    flow.defined.insert(array_name);
    return {};
  }

  Result<void> loop(const KernelOp& op, Flow& flow) {
    AICF_RETURN_IF_ERROR(uniform(op.begin, "the first value"));
    AICF_RETURN_IF_ERROR(uniform(op.end, "the end"));
    if (!op.step || op.step.as_int().value_or(0) < 1) return error("the step is not a positive constant");
    if (!symbols_.insert(op.variable).second) return error(fmt::format("the variable '{}' is taken", op.variable));
    for (const auto& [axis, base] : op.bases) AICF_RETURN_IF_ERROR(uniform(base, "the base of " + axis));
    // The second visit sees what an iteration leaves to the next one.
    Flow first = flow;
    AICF_RETURN_IF_ERROR(body(op.body, first));
    Flow second = joined(flow, first);
    AICF_RETURN_IF_ERROR(body(op.body, second));
    flow = joined(flow, second);
    symbols_.erase(op.variable);
    return {};
  }

  Result<void> branch(const KernelOp& op, Flow& flow) {
    if (!op.predicate || op.predicate.type() != DType::boolean) return error("the predicate is not a condition");
    PartialBits partial;
    for (const std::string& value : values_of(op.predicate)) {
      const KernelTile* tile = find(value);
      if (tile && !tile->axes.empty())
        return error(fmt::format("the predicate reads '{}', which differs between threads", value));
    }
    AICF_RETURN_IF_ERROR(element(op.predicate, "the predicate", {}, flow, partial));
    if (partial.any()) return error("the predicate reads a partial result, which differs between threads");
    Flow taken = flow;
    AICF_RETURN_IF_ERROR(body(op.body, taken));
    flow = joined(flow, taken);
    return {};
  }

  Result<void> operation(const KernelOp& op, Flow& flow) {
    switch (op.kind) {
      case Kind::load:
        return load(op, flow);
      case Kind::store:
        return store(op, flow);
      case Kind::compute:
        return compute(op, flow);
      case Kind::reduce:
        return reduce(op, flow);
      case Kind::cross:
        return cross(op, flow);
      case Kind::to_workgroup:
      case Kind::from_workgroup:
        return move(op, flow);
      case Kind::multiply:
        return multiply(op, flow);
      case Kind::barrier:
        barrier(flow);
        return {};
      case Kind::loop:
        return loop(op, flow);
      case Kind::branch:
        return branch(op, flow);
    }
    AICF_BUG("unknown kind of kernel operation");
  }

  Result<void> body(const KernelBody& ops, Flow& flow) {
    for (const KernelOp& op : ops) {
      const KernelOp* outer = op_;
      op_ = &op;
      AICF_RETURN_IF_ERROR(operation(op, flow));
      op_ = outer;
    }
    return {};
  }

  const Kernel& kernel_;
  const KernelOp* op_ = nullptr;
  std::set<std::string> symbols_;
  std::map<std::string, const KernelBuffer*> buffers_;
  std::map<std::string, const KernelTile*> tiles_;
};

}  // namespace

Result<void> verify(const Kernel& kernel) {
  return Verifier(kernel).run();
}

}  // namespace aicf
