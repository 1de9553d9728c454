#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "mir/kernel/lowering.h"
#include "mir/support/contains.h"

namespace aicf::lowering {

// ---- statements --------------------------------------------------------------------------------------------------

Expr Lowering::with_inlined(const Expr& e) const {
  return inlined_.empty() ? e : substitute_values(e, inlined_);
}

void Lowering::ensure_loaded(KernelBody& body, const Expr& e) {
  for (const std::string& v : values_of(e)) {
    auto d = decls_.find(v);
    if (d == decls_.end() || loaded_.contains(v)) continue;
    load(body, *d->second);
    loaded_.insert(v);
  }
}

// target op= e reduced over `over`: loops over the axes that one tile does not cover, loads what varies there inside them.
void Lowering::accumulate(KernelBody& body, const std::string& target, ReduceOp op,
                          const std::vector<std::string>& axes, std::vector<std::string> over, const Expr& e,
                          const std::string& note) {
  auto inner =
      std::ranges::find_if(over, [&](const std::string& a) { return looped(a) && !kernel_open_loops_.contains(a); });
  if (inner == over.end()) {
    ensure_loaded(body, e);
    reduce(body, target, op, axes, over, guarded(body, e, op, over), note);
    return;
  }
  const std::string axis = *inner;
  KernelOp loop;
  loop.kind = KernelOp::Kind::loop;
  loop.variable = axis + "_tile";
  loop.begin = 0;
  loop.end = region_.axis(axis).extent;
  loop.step = tile(axis);
  loop.bases[axis] = Expr::symbol(loop.variable);
  std::set<std::string> before = loaded_;
  auto temps = temps_;
  kernel_open_loops_.insert(axis);
  accumulate(loop.body, target, op, axes, over, e, note);
  kernel_open_loops_.erase(axis);
  temps_ = temps;
  loaded_ = before;
  body.push_back(std::move(loop));
}

void Lowering::cross(KernelBody& body, const std::vector<std::string>& axes, const std::vector<std::string>& states,
                     const std::vector<MergeRule>& merge) {
  KernelOp op;
  op.kind = KernelOp::Kind::cross;
  op.states = states;
  // A rule may read the merged value of a state before it in the list.
  ExprMap merged;
  for (const MergeRule& m : merge) {
    op.merge.push_back({m.state, substitute_values(m.value, merged)});
    for (const Stream& s : region_.streams)
      for (const StateDecl& d : s.states)
        if (d.name == m.state) merged[m.state] = op.merge.back().value;
  }
  op.note = "merge partial states";
  for (const std::string& axis : axes)
    if (auto it = spread_.find(axis); it != spread_.end())
      for (const Factor& f : it->second)
        if (f.level != Level::reg)
          for (std::int64_t bit = 1; bit < f.size; bit *= 2)
            (f.level == Level::lane ? op.lane_masks : op.subgroup_masks).push_back(bit * f.position);
  if (op.lane_masks.empty() && op.subgroup_masks.empty()) return;
  body.push_back(std::move(op));
  for (const std::string& s : states) forget_temps_of(s);
}

void Lowering::store(KernelBody& body, const StepStatement& s) {
  Expr e = with_inlined(s.body);
  ensure_loaded(body, e);
  std::string tile_name;
  if (e.op() == Op::value && tile_axes_.contains(e.name()) && tile_axes_[e.name()] == s.axes &&
      !decls_.contains(e.name())) {
    tile_name = e.name();
  } else {
    tile_name = own(s.name + "_tile");
    compute(body, tile_name, s.type, s.axes, e);
  }
  use_buffer(s.name, s.type, s.shape, true);
  KernelOp op;
  op.kind = KernelOp::Kind::store;
  op.buffer = s.name;
  op.tile = tile_name;
  op.index = s.index;
  op.expr = Expr::value(tile_name, s.type);
  op.predicate = inside(s.axes);
  op.vector_width = schedule_.store_width;
  body.push_back(std::move(op));
}

// Groups that a statement is about to read or update are first repaired from the references they were computed with to
// the current ones, all references at once.
void Lowering::repair(KernelBody& body, const Stream& stream, const std::function<bool(const RepairGroup&)>& wanted) {
  for (std::size_t g = 0; g < stream.repairs.size(); ++g) {
    const RepairGroup& group = stream.repairs[g];
    auto moved = moved_.find(g);
    if (moved == moved_.end() || moved->second.empty() || !wanted(group)) continue;
    ExprMap references;
    for (const std::string& r : group.references) {
      const DType type = state_type(stream, r);
      references[r + "'"] = Expr::value(r, type);
      references[r] = Expr::value(moved->second.contains(r) ? own(r + "_old") : r, type);
    }
    moved_.erase(moved);
    for (const std::string& state : group.states)  // what is repaired moves as a reference of other groups
      for (std::size_t other = 0; other < stream.repairs.size(); ++other)
        if (other != g && contains(stream.repairs[other].references, state)) moved_[other].insert(state);
    std::vector<std::pair<const StateDecl*, std::string>> late;
    for (std::size_t i = 0; i < group.states.size(); ++i) {
      const StateDecl& state = *std::ranges::find(stream.states, group.states[i], &StateDecl::name);
      Expr value = simplify(substitute_values(group.repair[i], references), ranges_);
      if (value == Expr::value(state.name, state.type)) continue;
      bool read_by_others = false;  // then the new value waits until they have read the old one
      for (std::size_t j = 0; j < group.states.size(); ++j)
        if (j != i && depends_on_value(group.repair[j], state.name)) read_by_others = true;
      if (read_by_others) {
        compute(body, own(state.name + "_repaired"), state.type, state.axes, value, "repair");
        late.emplace_back(&state, own(state.name + "_repaired"));
      } else {
        compute(body, state.name, state.type, state.axes, value, "repair");
      }
    }
    for (const auto& [state, repaired] : late)
      compute(body, state->name, state->type, state->axes, Expr::value(repaired, state->type));
  }
}

DType Lowering::state_type(const Stream& stream, const std::string& state) const {
  auto d = std::ranges::find(stream.states, state, &StateDecl::name);
  AICF_CHECK(d != stream.states.end(), "no state " + state + " in " + region_.name);
  return d->type;
}

Result<void> Lowering::update(KernelBody& body, const StepStatement& s, const Stream& stream) {
  const Expr e = with_inlined(s.body);
  std::vector<std::string> over = s.over;
  over.push_back(stream.axis);
  if (s.reduce == ReduceOp::first) return {};  // set once, before the loop
  bool is_reference =
      std::ranges::any_of(stream.repairs, [&](const RepairGroup& g) { return contains(g.references, s.name); });
  if (is_reference) {
    for (std::size_t g = 0; g < stream.repairs.size(); ++g)
      if (contains(stream.repairs[g].references, s.name)) moved_[g].insert(s.name);
  }
  // What has axes beyond the states that repair it gathers a product of this step's tile; the others say where the row stands.
  bool gathers = s.reduce == ReduceOp::sum && !is_reference;
  for (const RepairGroup& g : stream.repairs) {
    if (!contains(g.states, s.name)) continue;
    for (const std::string& r : g.references) {
      auto reference = std::ranges::find(stream.states, r, &StateDecl::name);
      if (reference != stream.states.end() && reference->axes.size() == s.axes.size()) gathers = false;
    }
  }
  accumulate(body, s.name, s.reduce, s.axes, over, e, gathers ? "accumulate" : "update");
  return {};
}

Result<void> Lowering::statement(KernelBody& body, const StepStatement& s, const Stream* stream) {
  if (stream && !moved_.empty()) {
    const std::set<std::string> read = s.body ? values_of(with_inlined(s.body)) : std::set<std::string>{};
    repair(body, *stream, [&](const RepairGroup& g) {
      return contains(g.states, s.name) ||
             std::ranges::any_of(g.states, [&](const std::string& m) { return read.contains(m); });
    });
  }
  switch (s.kind) {
    case StepStatement::Kind::nested:
      return unsupported("a stream nested in a step has no lowering yet; inner reductions take its place",
                         region_.name);
    case StepStatement::Kind::store:
      store(body, s);
      return {};
    case StepStatement::Kind::update:
      AICF_CHECK(stream, "an update outside a stream in " + region_.name);
      return update(body, s, *stream);
    case StepStatement::Kind::local:
      break;
  }
  Expr e = with_inlined(s.body);
  bool whole = std::ranges::all_of(s.axes, [&](const std::string& a) {
    return !looped(a) || contains(region_.parallel, a) || (stream && stream->axis == a);
  });
  if (s.over.empty()) {
    if (!whole && !stream) return unsupported(fmt::format("'{}' needs its axes held whole", s.name), region_.name);
    if (!whole) {
      inlined_[s.name] = e;
      return {};
    }
    ensure_loaded(body, e);
    compute(body, s.name, s.type, s.axes, e, s.name);
    return {};
  }
  if (!whole)
    return unsupported(fmt::format("the inner reduction '{}' needs its axes held whole", s.name), region_.name);
  compute(body, s.name, s.type, s.axes, neutral(s.reduce, s.type));
  accumulate(body, s.name, s.reduce, s.axes, s.over, e, s.name);
  MergeRule rule{s.name, combine(s.reduce, Expr::value("a." + s.name, s.type), Expr::value("b." + s.name, s.type))};
  cross(body, s.over, {s.name}, {rule});
  return {};
}

Result<void> Lowering::statements(KernelBody& body, const std::vector<StepStatement>& list, const Stream* stream) {
  for (const StepStatement& s : list) AICF_RETURN_IF_ERROR(statement(body, s, stream));
  return {};
}

// ---- streams -----------------------------------------------------------------------------------------------------

// A pivot state is the body at the stream's first coordinate: loaded once, the same in every lane.
Result<void> Lowering::initial_states(KernelBody& body, const Stream& s, const Expr& begin) {
  for (const StateDecl& state : s.states) {
    if (state.reduce != ReduceOp::first) {
      compute(body, state.name, state.type, state.axes, state.init);
      continue;
    }
    auto u = std::ranges::find_if(
        s.step, [&](const StepStatement& x) { return x.kind == StepStatement::Kind::update && x.name == state.name; });
    AICF_CHECK(u != s.step.end(), "a pivot without update in " + region_.name);
    Expr e = with_inlined(u->body);
    ExprMap locals;  // locals of the step that the pivot reads, elementwise ones only
    for (const StepStatement& x : s.step) {
      if (x.kind != StepStatement::Kind::local) continue;
      if (x.over.empty()) locals[x.name] = substitute_values(x.body, locals);
    }
    e = substitute_values(e, locals);
    ExprMap at_first{{s.axis, begin}};
    for (const std::string& a : u->over) at_first[a] = 0;
    ExprMap renamed;
    for (const std::string& v : values_of(e)) {
      auto d = decls_.find(v);
      if (d == decls_.end()) {
        if (!tile_axes_.contains(v))
          return unsupported(fmt::format("the pivot '{}' depends on '{}', which is not a load", state.name, v),
                             region_.name);
        continue;
      }
      TileDecl first = *d->second;
      first.name = own(v + "_first");
      std::erase_if(first.axes, [&](const std::string& a) { return at_first.contains(a); });
      for (Expr& i : first.index) i = substitute_axes(i, at_first);
      Expr live = less(begin, region_.axis(s.axis).extent);
      for (const std::string& a : u->over) live = logical_and(live, less(Expr(0), region_.axis(a).extent));
      first.guard = simplify(logical_and(first.guard ? substitute_axes(first.guard, at_first) : Expr(), live), ranges_);
      if (first.guard.is_constant(1)) first.guard = Expr();
      if (first.guard && first.guard.is_constant(0)) {
        renamed[v] = first.fill ? first.fill : Expr::constant(first.type, 0);
        continue;
      }
      first_tiles_.push_back(first);
      load(body, first_tiles_.back());
      renamed[v] = Expr::value(first.name, first.type);
    }
    compute(body, state.name, state.type, state.axes, substitute_values(substitute_axes(e, at_first), renamed),
            "pivot");
  }
  return {};
}

// From the states as they start to the states as they are after `course`, lanes merged.
Result<void> Lowering::stream(KernelBody& body, const Stream& s, const Course& course) {
  AICF_RETURN_IF_ERROR(initial_states(body, s, simplify(course.coordinate(course.begin), ranges_)));
  load_once(body, s);
  return sweep(body, s, course);
}

void Lowering::load_once(KernelBody& body, const Stream& s) {
  for (const TileDecl& t : s.tiles) {
    bool inner_loop =
        std::ranges::any_of(t.axes, [&](const std::string& a) { return looped(a) && !contains(region_.parallel, a); });
    if (t.lifecycle == Lifecycle::stream && !inner_loop) {
      load(body, t);
      loaded_.insert(t.name);
    }
  }
}

Result<void> Lowering::sweep(KernelBody& body, const Stream& s, const Course& course) {
  KernelOp loop;
  loop.kind = KernelOp::Kind::loop;
  loop.variable = s.axis + "_tile";
  loop.begin = course.begin;
  loop.end = course.end;
  loop.step = tile(s.axis);
  loop.bases[s.axis] = course.coordinate(Expr::symbol(loop.variable));
  std::set<std::string> before = loaded_;
  temps_.clear();
  kernel_open_loops_.insert(s.axis);
  moved_.clear();
  for (const StateDecl& d : s.states) {  // repairs of this step start from the references as they were before it
    bool reference =
        std::ranges::any_of(s.repairs, [&](const RepairGroup& g) { return contains(g.references, d.name); });
    if (reference && d.reduce != ReduceOp::first)
      compute(loop.body, own(d.name + "_old"), d.type, d.axes, Expr::value(d.name, d.type));
  }
  AICF_RETURN_IF_ERROR(statements(loop.body, s.step, &s));
  repair(loop.body, s, [](const RepairGroup&) { return true; });
  kernel_open_loops_.erase(s.axis);
  temps_.clear();
  loaded_ = before;
  body.push_back(std::move(loop));
  std::vector<std::string> states;
  for (const StateDecl& d : s.states) states.push_back(d.name);
  if (!states.empty()) cross(body, {s.axis}, states, s.merge);
  return {};
}

// One sweep without the deferred tiles; where a row of this workgroup is not settled by it, another one with them.
Result<void> Lowering::deferring_stream(KernelBody& body, const Stream& s) {
  const Course whole = course(s, s.skip), near = course(s, s.defer);
  if (whole.begin == near.begin && whole.end == near.end && near.holes.empty()) return stream(body, s, whole);
  const std::string open = temporary(), open_rows = temporary();
  AICF_RETURN_IF_ERROR(initial_states(body, s, simplify(whole.coordinate(whole.begin), ranges_)));
  load_once(body, s);
  compute(body, open, DType::f32, {}, Expr::constant(DType::f32, 1.0));
  KernelOp sweeps;
  sweeps.kind = KernelOp::Kind::loop;
  sweeps.variable = s.axis + "_sweep";
  sweeps.begin = 0;
  sweeps.end = 2;
  sweeps.step = 1;
  const Expr is_first = Expr::binary(Op::eq, Expr::symbol(sweeps.variable), Expr(0));
  KernelOp again;
  again.kind = KernelOp::Kind::branch;
  again.predicate =
      logical_or(is_first, Expr::binary(Op::lt, Expr::constant(DType::f32, 0), Expr::value(open, DType::f32)));
  again.note = "the second sweep: rows that their masked keys decide";
  for (const StateDecl& d : s.states)
    if (d.reduce != ReduceOp::first) compute(again.body, d.name, d.type, d.axes, d.init);
  const auto either = [&](const Expr& first, const Expr& second) {
    return first == second ? first : Expr::select(is_first, first, second);
  };
  Course taken{either(near.begin, whole.begin), either(near.end, whole.end), {}};
  for (std::size_t i = 0; i < std::max(near.holes.size(), whole.holes.size()); ++i) {
    const Course::Hole none{0, 0};
    const Course::Hole &first = i < near.holes.size() ? near.holes[i] : none,
                       &second = i < whole.holes.size() ? whole.holes[i] : none;
    taken.holes.push_back({either(first.at, second.at), either(first.length, second.length)});
  }
  AICF_RETURN_IF_ERROR(sweep(again.body, s, taken));
  std::vector<std::string> rows;
  for (const Axis& a : region_.axes)
    if (varying(s.settled).contains(a.name)) rows.push_back(a.name);
  const Expr one = Expr::constant(DType::f32, 1.0), zero = Expr::constant(DType::f32, 0.0);
  Expr unsettled = Expr::select(s.settled, zero, one);
  if (const Expr in = inside(rows)) unsettled = Expr::select(in, unsettled, zero);
  compute(again.body, open_rows, DType::f32, rows, unsettled);
  compute(again.body, open, DType::f32, {}, zero);
  reduce(again.body, open, ReduceOp::max, {}, rows, Expr::value(open_rows, DType::f32), "");
  cross(again.body, rows, {open},
        {{open, combine(ReduceOp::max, Expr::value("a." + open, DType::f32), Expr::value("b." + open, DType::f32))}});
  temps_.clear();
  sweeps.body.push_back(std::move(again));
  body.push_back(std::move(sweeps));
  return {};
}

// ---- grid --------------------------------------------------------------------------------------------------------

// Splits a linear id over the blocks of the parallel axes, the last one fastest; returns the number of work items.
Expr Lowering::grid_bases(Expr id) {
  Expr count = 1;
  for (auto axis = region_.parallel.rbegin(); axis != region_.parallel.rend(); ++axis) {
    Expr blocks = simplify(ceildiv(region_.axis(*axis).extent, Expr(tile(*axis))), ranges_);
    bool outermost = std::next(axis) == region_.parallel.rend();
    Expr digit = outermost ? floordiv(id, count) : mod(floordiv(id, count), blocks);
    // What a mask leaves to a block grows or shrinks along the axis: neighbours in the grid come from both ends, so that
    // each contiguous part of it is the same work.
    const auto uneven = [&](const Stream& s) {
      return (s.skip && axes_of(s.skip).contains(*axis)) || (s.defer && axes_of(s.defer).contains(*axis));
    };
    if (std::ranges::any_of(region_.streams, uneven)) {
      const Expr half = floordiv(digit, Expr(2));
      digit = Expr::select(equal(mod(digit, Expr(2)), Expr(0)), half, blocks - Expr(1) - half);
    }
    kernel_.bases[*axis] = simplify(digit * Expr(tile(*axis)), ranges_);
    count = simplify(count * blocks, ranges_);
  }
  return count;
}

// Region tiles that streams use are loaded once, before them; others at first use.
void Lowering::preload(KernelBody& body) {
  std::set<std::string> used;
  for (const Stream& s : region_.streams)
    for (const StepStatement& x : s.step)
      if (x.body) used.merge(values_of(x.body));
  for (const TileDecl& t : region_.tiles) {
    bool inner_loop =
        std::ranges::any_of(t.axes, [&](const std::string& a) { return looped(a) && !contains(region_.parallel, a); });
    if (used.contains(t.name) && !inner_loop) {
      load(body, t);
      loaded_.insert(t.name);
    }
  }
}

Result<LoweredRegion> Lowering::run() {
  AICF_RETURN_IF_ERROR(assign_positions());
  auto held_whole = [&](const std::vector<std::string>& axes) {
    return std::ranges::all_of(axes, [&](const std::string& a) {
      return !looped(a) || contains(region_.parallel, a) || stream_axes_.contains(a);
    });
  };
  for (const Stream& s : region_.streams)
    for (const StateDecl& d : s.states)
      if (!held_whole(d.axes))
        return unsupported(fmt::format("the state '{}' needs its axes held whole", d.name), region_.name);
  auto stores_whole = [&](const std::vector<StepStatement>& list) {
    return std::ranges::all_of(
        list, [&](const StepStatement& x) { return x.kind != StepStatement::Kind::store || held_whole(x.axes); });
  };
  bool stores = stores_whole(region_.prologue) && stores_whole(region_.epilogue);
  for (const Stream& s : region_.streams) stores &= stores_whole(s.step) && stores_whole(s.finish);
  if (!stores) return unsupported("a stored value needs its axes held whole", region_.name);
  if (schedule_.split > 1) return run_split();
  KernelBody& body = kernel_.body;
  kernel_.workgroups = grid_bases(Expr::symbol("workgroup"));
  preload(body);
  AICF_RETURN_IF_ERROR(statements(body, region_.prologue, nullptr));
  for (const Stream& s : region_.streams) {
    if (s.defer) {
      AICF_RETURN_IF_ERROR(deferring_stream(body, s));
    } else {
      AICF_RETURN_IF_ERROR(stream(body, s, course(s, s.skip)));
    }
    AICF_RETURN_IF_ERROR(statements(body, s.finish, nullptr));
  }
  AICF_RETURN_IF_ERROR(statements(body, region_.epilogue, nullptr));
  return LoweredRegion{{std::move(kernel_)}, {}};
}

// Split stream: kernel one runs a part [k0, k1) of the stream per work item and writes its states; kernel two merges the
// parts in order and finishes.
Result<LoweredRegion> Lowering::run_split() {
  if (region_.streams.size() != 1) return unsupported("only a region of one stream can be split", region_.name);
  const Stream& s = region_.streams[0];
  const std::int64_t parts = schedule_.split;
  LoweredRegion out;
  // Partial states.
  Expr id = Expr::symbol("workgroup");
  Expr items = grid_bases(floordiv(id, Expr(parts)));
  Expr part = mod(id, Expr(parts));
  kernel_.workgroups = simplify(items * Expr(parts), ranges_);
  kernel_.name = region_.name + "_parts";
  Course own_part = course(s, s.skip);  // a part that defers would not know what the others settle
  const Expr tiles = ceildiv(own_part.end - own_part.begin, Expr(tile(s.axis)));
  const Expr chunk = simplify(ceildiv(tiles, Expr(parts)) * Expr(tile(s.axis)), ranges_);
  const Expr first = own_part.begin + part * chunk;
  own_part.end = simplify(Expr::binary(Op::min, own_part.end, first + chunk), ranges_);
  own_part.begin = simplify(first, ranges_);
  preload(kernel_.body);
  AICF_RETURN_IF_ERROR(statements(kernel_.body, region_.prologue, nullptr));
  AICF_RETURN_IF_ERROR(stream(kernel_.body, s, own_part));
  std::vector<TileDecl> reads;
  for (const StateDecl& d : s.states) {
    const std::string buffer = region_.name + "_" + d.name;
    std::vector<std::string> axes = region_.parallel;  // one block of states per work item
    for (const std::string& a : d.axes)
      if (!contains(axes, a)) axes.push_back(a);
    std::vector<Expr> shape{Expr(parts)}, index{part};
    for (const std::string& a : axes) {
      shape.push_back(region_.axis(a).extent);
      index.push_back(Expr::axis(a));
    }
    out.scratch.push_back({buffer, d.type, shape});
    StepStatement write;
    write.kind = StepStatement::Kind::store;
    write.name = buffer;
    write.type = d.type;
    write.axes = d.axes;
    write.body = Expr::value(d.name, d.type);
    write.index = index;
    write.shape = shape;
    store(kernel_.body, write);
    TileDecl read{own(d.name + "_part"),       d.type, d.axes, buffer, index, shape, {}, {}, Lifecycle::step,
                  Residency::subgroup_register};
    read.index[0] = Expr::symbol("part");
    reads.push_back(read);
  }
  out.kernels.push_back(std::move(kernel_));
  // Merge and finish.
  Lowering merge(region_, schedule_);
  AICF_RETURN_IF_ERROR(merge.assign_positions());
  merge.kernel_.name = region_.name + "_merge";
  merge.kernel_.workgroups = merge.grid_bases(id);
  KernelBody& body = merge.kernel_.body;
  for (const StateDecl& d : s.states)
    merge.compute(body, d.name, d.type, d.axes, d.init ? d.init : Expr::constant(d.type, 0));
  KernelOp loop;
  loop.kind = KernelOp::Kind::loop;
  loop.variable = "part";
  loop.begin = 0;
  loop.end = parts;
  loop.step = 1;
  ExprMap sides;
  for (std::size_t i = 0; i < s.states.size(); ++i) {
    merge.load(loop.body, reads[i]);
    sides["a." + s.states[i].name] = Expr::value(s.states[i].name, s.states[i].type);
    sides["b." + s.states[i].name] = Expr::value(reads[i].name, reads[i].type);
  }
  for (const MergeRule& m : s.merge) {
    const StateDecl& d = *std::ranges::find_if(s.states, [&](const StateDecl& x) { return x.name == m.state; });
    merge.compute(loop.body, own(d.name + "_merged"), d.type, d.axes, substitute_values(m.value, sides));
    sides[d.name] = Expr::value(own(d.name + "_merged"), d.type);
  }
  for (const MergeRule& m : s.merge) {
    const StateDecl& d = *std::ranges::find_if(s.states, [&](const StateDecl& x) { return x.name == m.state; });
    merge.compute(loop.body, d.name, d.type, d.axes, Expr::value(own(d.name + "_merged"), d.type));
  }
  body.push_back(std::move(loop));
  // What the finish reads of the prologue is computed here again.
  std::vector<StepStatement> again, readers = s.finish;
  readers.insert(readers.end(), region_.epilogue.begin(), region_.epilogue.end());
  for (const StepStatement& p : region_.prologue | std::views::reverse) {
    const auto reads_it = [&](const StepStatement& x) { return x.body && depends_on_value(x.body, p.name); };
    if (p.kind == StepStatement::Kind::store || std::ranges::none_of(readers, reads_it)) continue;
    again.insert(again.begin(), p);
    readers.push_back(p);
  }
  AICF_RETURN_IF_ERROR(merge.statements(body, again, nullptr));
  AICF_RETURN_IF_ERROR(merge.statements(body, s.finish, nullptr));
  AICF_RETURN_IF_ERROR(merge.statements(body, region_.epilogue, nullptr));
  out.kernels.push_back(std::move(merge.kernel_));
  return out;
}

}  // namespace aicf::lowering
