#include "mir/stream/assemble.h"

#include <fmt/format.h>

#include <algorithm>

#include "mir/stream/masks.h"

namespace aicf::stream {
namespace {

std::vector<std::string> spanned(std::vector<std::string> axes, const std::vector<std::string>& over) {
  axes.insert(axes.end(), over.begin(), over.end());
  return axes;
}

}  // namespace

// ---- placing -----------------------------------------------------------------------------------------------------

int Assembler::available(const Expr& e) const {
  int pass = -1;
  for (const std::string& r : problem_.results(e)) pass = std::max(pass, pass_of_.at(r));
  return pass;
}

std::vector<StepStatement>& Assembler::list(const Place& p) {
  switch (p.where) {
    case Place::Where::prologue:
      return out_.prologue;
    case Place::Where::step:
      return out_.streams[static_cast<std::size_t>(p.pass)].step;
    case Place::Where::finish:
      return out_.streams[static_cast<std::size_t>(p.pass)].finish;
    case Place::Where::epilogue:
      break;
  }
  return out_.epilogue;
}

std::vector<std::string> Assembler::value_axes(const Expr& e) const {
  std::set<std::string> all = axes_of(e);
  for (const std::string& v : values_of(e)) {
    if (auto it = axes_.find(v); it != axes_.end()) all.insert(it->second.begin(), it->second.end());
  }
  return problem_.ordered(all);
}

Expr Assembler::define(const std::string& name, const StepStatement& statement, const Place& p) {
  axes_[name] = statement.axes;
  list(p).push_back(statement);
  return Expr::value(name, statement.type);
}

/// `e` with loads as tiles and values as what they are at `p`; loads of `e` happen only where `guard` holds.
constexpr std::size_t most_placed = 1 << 16;  // parts of one expression, each under its guards

/// What is shared inside one expression is placed once for each guard. Nothing is placed once something failed.
Expr Assembler::put(const Expr& e, const Place& p, const Expr& guard) {
  if (failure_) return Expr::constant(e.type(), 0);
  if (e.args().empty()) return put_new(e, p, guard);
  const std::tuple key(e.identity(), guard ? guard.identity() : nullptr, p);
  if (const auto it = placed_.find(key); it != placed_.end()) return it->second.result;
  ++depth_;
  const Expr result = put_new(e, p, guard);
  if (--depth_ > 0) placed_.try_emplace(key, Placed{e, guard, result});
  if (placed_.size() > most_placed && !failure_)
    failure_ = Failure{"index maps", fmt::format("one expression selects in more than {} ways", most_placed)};
  if (depth_ == 0) placed_.clear();
  return result;
}

Expr Assembler::put_new(const Expr& e, const Place& p, const Expr& guard) {
  switch (e.op()) {
    case Op::load:
      return tile(e, p, guard);
    case Op::value:
      return put_value(e, p);
    case Op::select: {
      const Expr c = put(e.args()[0], p, guard);
      const bool plain = is_coordinate_condition(e.args()[0]);
      const Expr yes = plain ? logical_and(guard, e.args()[0]) : guard;
      const Expr no = plain ? logical_and(guard, logical_not(e.args()[0])) : guard;
      Place branch = p;
      branch.chosen |= !plain;
      return Expr::select(c, put(e.args()[1], branch, yes), put(e.args()[2], branch, no));
    }
    case Op::sub:
      // x − mean as (x − pivot) − difference.
      if (const int pass = available(e.args()[1]); p.where == Place::Where::step && pass >= 0 && pass < p.pass &&
                                                   problem_.carries(e.args()[0]) && !problem_.carries(e.args()[1])) {
        if (const auto mean = centred(e.args()[1]); mean && mean->pivot) {
          const Expr x = put(e.args()[0], p, guard);
          return (x - mean->pivot) - put_centred(e.args()[1], pass, *mean);
        }
      }
      break;
    default:
      break;
  }
  if (e.args().empty()) return e;
  if (Expr apart = put_apart(e, p, guard)) return apart;
  std::vector<Expr> args;
  for (const Expr& a : e.args()) args.push_back(put(a, p, guard));
  return Expr::rebuild(e, std::move(args));
}

/// True when a value at `axes` is needed once per element of what is being placed, not several times.
bool Assembler::covers(const std::vector<std::string>& axes, const Place& p) const {
  return std::ranges::all_of(p.span, [&](const std::string& a) { return has(axes, a); });
}

/// Arithmetic inside a step that varies over fewer axes than its statement, done once at its own axes: before the
/// stream when it does not depend on n. Empty when `e` is not such.
Expr Assembler::put_apart(const Expr& e, const Place& p, const Expr& guard) {
  if (p.where != Place::Where::step || guard || !is_float(e.type())) return {};
  for (const std::string& v : values_of(e)) {
    if (p.derived && derived_names_.contains(v)) return {};
  }
  if (e.op() == Op::cast || e.op() == Op::neg || problem_.is_index_only(e)) return {};
  const bool along = problem_.carries(e);
  if (along && covers(problem_.axes(e), p)) return {};
  Place home = p;
  if (!along) {
    const int pass = available(e);
    home = pass >= 0 ? Place{Place::Where::finish, pass, false, {}} : Place{Place::Where::prologue, -1, false, {}};
  }
  home.span = problem_.axes(e);
  StepStatement local;
  local.body = put(e, home, {});
  const std::pair key(along ? p.pass : -1, local.body);
  if (auto it = apart_.find(key); it != apart_.end()) return it->second;
  local.name = names_.fresh(along ? "part" : "row");
  local.type = e.type();
  local.axes = value_axes(local.body);
  return apart_[key] = define(local.name, local, home);
}

Expr Assembler::put_value(const Expr& e, const Place& p) {
  if (p.derived) {
    PassStates& states = *passes_[static_cast<std::size_t>(p.pass)];
    for (const StateDecl& d : states.states()) {
      if (d.name == e.name()) return e;
    }
    for (const StepItem& item : states.step()) {
      if (!item.update && item.name == e.name()) return e;
    }
    for (const FinishItem& item : states.finish()) {
      if (item.name == e.name()) return put_finish_item(item, p.pass);
    }
  }
  const Statement& s = problem_.statement(e.name());
  Place region = p;
  region.derived = region.chosen = false;
  if (problem_.is_result(s.name)) return put_result(s.name, region);
  return problem_.carries(s.name) ? put_along(s, region) : put_invariant(s, region);
}

bool Assembler::inlines(const Statement& s, const Place& p) const {
  if (!s.over.empty()) return false;
  return s.body.args().empty() || s.body.op() == Op::load || problem_.is_index_only(s.body) ||
         (problem_.uses(s.name) <= 1 && covers(s.axes, p));
}

Expr Assembler::put_along(const Statement& s, const Place& p) {
  AICF_CHECK(p.where == Place::Where::step, fmt::format("'{}' carries the streamed axis outside a step", s.name));
  AICF_CHECK(available(Expr::value(s.name, s.type)) < p.pass,
             fmt::format("'{}' is not ready in pass {}", s.name, p.pass));
  auto& known = along_[static_cast<std::size_t>(p.pass)];
  if (auto it = known.find(s.name); it != known.end()) return it->second;
  if (inlines(s, p)) return put(s.body, p, {});
  StepStatement local;
  local.name = derived_names_.contains(s.name) ? names_.fresh(s.name) : s.name;
  local.type = s.type;
  local.axes = s.axes;
  local.over = s.over;
  local.reduce = s.reduce;
  local.origin = s.origin;
  Place own = p;
  own.span = spanned(s.axes, s.over);
  local.body = put(s.body, own, {});
  return known[s.name] = define(local.name, local, p);
}

Expr Assembler::put_invariant(const Statement& s, const Place& p) {
  const int pass = available(Expr::value(s.name, s.type));
  const auto known = invariant_.find(s.name);
  // What an earlier finish needs must not stand in a later one.
  const bool late = known != invariant_.end() && p.where == Place::Where::finish && invariant_pass_.at(s.name) > p.pass;
  if (known != invariant_.end() && !late) return known->second;
  Place home = p;
  if (pass >= 0) {
    home = {Place::Where::finish, pass, false, {}};
  } else if (p.where == Place::Where::step || late) {
    home = {Place::Where::prologue, -1, false, {}};
  }
  const bool here = p.where != Place::Where::step;
  if (const auto mean = pass >= 0 ? centred(Expr::value(s.name, s.type)) : std::nullopt) {
    const Expr difference = put_centred(Expr::value(s.name, s.type), pass, *mean);
    StepStatement local;
    local.body = mean->pivot ? mean->pivot + difference : difference;
    if (here && problem_.uses(s.name) <= 1) return local.body;
    local.name = names_.fresh(s.name + "_result");
    local.type = s.type;
    local.axes = s.axes;
    local.origin = s.origin;
    invariant_pass_[s.name] = pass;
    return invariant_[s.name] = define(local.name, local, home);
  }
  const bool leaf =
      s.over.empty() && (s.body.args().empty() || s.body.op() == Op::load || problem_.is_index_only(s.body));
  if (leaf || (here && inlines(s, p))) return put(s.body, home, {});
  StepStatement local;
  local.name = late ? names_.fresh(s.name) : s.name;
  local.type = s.type;
  local.axes = s.axes;
  local.over = s.over;
  local.reduce = s.reduce;
  local.origin = s.origin;
  invariant_pass_[s.name] = home.where == Place::Where::prologue ? -1
                            : home.where == Place::Where::finish ? home.pass
                                                                 : static_cast<int>(along_.size());
  home.span = spanned(s.axes, s.over);
  local.body = put(s.body, home, {});
  return invariant_[s.name] = define(local.name, local, home);
}

Expr Assembler::put_result(const std::string& result, const Place& p) {
  const int pass = pass_of_.at(result);
  PassStates& states = *passes_[static_cast<std::size_t>(pass)];
  const Expr final = states.finals().at(result);
  for (const FinishItem& item : states.finish()) {
    if (item.name != final.name()) continue;
    const bool emitted = emitted_items_[static_cast<std::size_t>(pass)].contains(item.name);
    if (!emitted && item.over.empty() && p.where != Place::Where::step && problem_.uses(result) <= 1) {
      return put(item.body, {Place::Where::finish, pass, true, item.axes}, {});
    }
    return put_finish_item(item, pass);
  }
  return final;
}

Expr Assembler::put_finish_item(const FinishItem& item, int pass) {
  const Expr value = Expr::value(item.name, item.type);
  if (!emitted_items_[static_cast<std::size_t>(pass)].insert(item.name).second) return value;
  StepStatement local;
  local.name = item.name;
  local.type = item.type;
  local.axes = item.axes;
  local.over = item.over;
  local.reduce = item.reduce;
  const Place home{Place::Where::finish, pass, true, spanned(item.axes, item.over)};
  const Expr body = item.body;  // `item` may move while its body is placed
  local.body = put(body, home, {});
  return define(local.name, local, home);
}

std::optional<CentredMean> Assembler::centred(const Expr& e) {
  const int pass = available(e);
  if (pass < 0) return std::nullopt;
  return passes_[static_cast<std::size_t>(pass)]->centred(e);
}

/// The difference of a centred mean as a local of its pass' finish.
Expr Assembler::put_centred(const Expr& e, int pass, const CentredMean& mean) {
  const std::string key = to_string(mean.difference);
  if (auto it = differences_.find(key); it != differences_.end()) return it->second;
  StepStatement local;
  const Place home{Place::Where::finish, pass, true, {}};
  local.body = put(mean.difference, home, {});
  local.type = local.body.type();
  local.axes = value_axes(local.body);
  local.name = names_.fresh((e.op() == Op::value ? e.name() : "mean") + "_difference");
  return differences_[key] = define(local.name, local, home);
}

// ---- tiles -------------------------------------------------------------------------------------------------------

constexpr std::uint64_t largest_index = 512;  // operations, written out: indices are not shared between loads

/// `index` where it is one of `dim`, else the nearest that is; `guard` then says that there is one.
Expr Assembler::clamped(const Expr& index, const Expr& dim, Expr& guard) const {
  if (is_coordinate_condition(index) || problem_.in_bounds(index, dim)) return index;
  if (!dim.is_constant()) guard = logical_and(guard, less(Expr(0), dim));
  return Expr::binary(Op::min, Expr::binary(Op::max, index, Expr(0)), dim - Expr(1));
}

/// `guard` without what asks for other axes alone: that says nothing of where a tile of `axes` has elements.
static Expr guard_of(const Expr& guard, const std::vector<std::string>& axes) {
  if (!guard) return guard;
  if (guard.op() == Op::and_) {
    const Expr a = guard_of(guard.args()[0], axes), b = guard_of(guard.args()[1], axes);
    return a && b ? logical_and(a, b) : a ? a : b;
  }
  const std::set<std::string> asked = axes_of(guard);
  return asked.empty() || std::ranges::any_of(asked, [&](const std::string& a) { return has(axes, a); }) ? guard
                                                                                                         : Expr();
}

Expr Assembler::tile(const Expr& load, const Place& p, const Expr& guard) {
  TileDecl t;
  t.tensor = load.name();
  t.type = load.type();
  const RegionInput* input = problem_.region().input(load.name());
  AICF_CHECK(input, fmt::format("region '{}' does not declare its input '{}'", problem_.region().name, load.name()));
  t.shape = input->shape;
  Expr needed = guard && problem_.in_bounds(load) ? Expr() : guard;
  for (std::size_t d = 0; d < load.args().size(); ++d) {
    Expr full = problem_.canonical(load.args()[d]);
    if (p.chosen) full = clamped(full, t.shape[d], needed);
    if (!values_of(full).empty() && !failure_) {
      failure_ = Failure{
          "index", fmt::format("'{}' is loaded at an index that a reduction of the region computes", load.name())};
    }
    if (full.tree_size() > largest_index && !failure_) {
      failure_ = Failure{"index maps", fmt::format("'{}' would be loaded at an expression of more than {} operations",
                                                   load.name(), largest_index)};
    }
    t.index.push_back(put(full, p, guard));
  }
  const Expr key = Expr::load(t.tensor, t.index, t.type);
  t.axes = value_axes(key);
  needed = guard_of(needed, t.axes);
  const bool step = has(t.axes, problem_.axis()) && p.where == Place::Where::step;
  t.lifecycle = step ? Lifecycle::step : Lifecycle::region;
  auto& decls = step ? out_.streams[static_cast<std::size_t>(p.pass)].tiles : out_.tiles;
  const auto place = std::pair(step ? p.pass : -1, key);
  if (auto it = tiles_.find(place); it != tiles_.end()) {
    TileDecl& d = *std::ranges::find(decls, it->second, &TileDecl::name);
    if (d.guard) d.guard = needed ? logical_or(d.guard, needed) : Expr();
    if (!d.guard) d.fill = {};
    return Expr::value(d.name, d.type);
  }
  if (auto it = tile_names_.find(key); it != tile_names_.end()) {
    t.name = it->second;  // the same tile in another pass
  } else {
    std::string base;
    for (const char c : t.tensor) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "t" + base;
    t.name = names_.fresh(base);
    tile_names_[key] = t.name;
  }
  t.guard = needed;
  if (t.guard) {
    t.guard = simplify(t.guard, problem_.ranges());
    t.fill = Expr::constant(t.type, 0);
  }
  axes_[t.name] = t.axes;
  tiles_[place] = t.name;
  decls.push_back(t);
  return Expr::value(t.name, t.type);
}

// ---- assembling --------------------------------------------------------------------------------------------------

void Assembler::store(const RegionOutput& o, const Place& p) {
  const Statement& s = problem_.statement(o.value);
  StepStatement x;
  x.kind = StepStatement::Kind::store;
  x.name = o.tensor;
  x.type = o.type;
  x.axes = s.axes;
  Place own = p;
  own.span = s.axes;
  x.body = put(Expr::value(s.name, s.type), own, {});
  if (x.body.type() != o.type) x.body = Expr::cast(x.body, o.type);
  x.index = o.index;
  x.shape = o.shape;
  x.origin = s.origin;
  list(p).push_back(std::move(x));
}

void Assembler::step_of(int pass) {
  Stream& stream = out_.streams[static_cast<std::size_t>(pass)];
  stream.axis = problem_.axis();
  if (static_cast<std::size_t>(pass) >= passes_.size()) return;
  PassStates& states = *passes_[static_cast<std::size_t>(pass)];
  for (const StateDecl& d : states.states()) axes_[d.name] = d.axes;
  stream.repairs = states.repairs();
  for (const StepItem& item : states.step()) {
    StepStatement x;
    x.kind = item.update ? StepStatement::Kind::update : StepStatement::Kind::local;
    x.name = item.name;
    x.type = item.type;
    x.axes = item.axes;
    x.over = item.over;
    x.reduce = item.reduce;
    x.origin = item.origin;
    if (!item.update) axes_[item.name] = item.axes;
    Place own{Place::Where::step, pass, true, spanned(item.axes, item.over)};
    if (item.update) own.span.push_back(problem_.axis());
    x.body = put(item.body, own, {});
    out_.streams[static_cast<std::size_t>(pass)].step.push_back(std::move(x));
  }
}

// An axis is parallel when every result and every output has it and nothing reduces over it. Inner reductions have it too,
// or blocks of it would each compute them again; that may be where another one with the axis costs as much (the norm of a
// key beside its products with the queries).
std::vector<std::string> Assembler::parallel_axes() const {
  std::vector<std::string> axes;
  for (const Axis& a : problem_.region().axes) {
    bool parallel = a.name != problem_.axis();
    for (const Statement& s : problem_.region().statements) {
      parallel &= !has(s.over, a.name);
      if (has(s.over, problem_.axis()) ||
          (!s.over.empty() && problem_.carries(s.name) && !repeats_cheaply(s, a.name, problem_.region().statements)))
        parallel &= has(s.axes, a.name);
    }
    for (const RegionOutput& o : problem_.region().outputs) parallel &= has(problem_.statement(o.value).axes, a.name);
    if (parallel) axes.push_back(a.name);
  }
  return axes;
}

/// Maxima that only stabilise drop NaN: the cheaper operation.
void Assembler::settle_maxima() {
  std::set<std::string> read;
  const auto note = [&](const auto& self, const Expr& e) -> void {
    const bool unset = e.op() == Op::eq && e.args()[1].is_constant() && is_float(e.args()[1].type());
    if (unset && e.args()[0].op() == Op::value) return;
    if (e.op() == Op::value) read.insert(e.name());
    for (const Expr& a : e.args()) self(self, a);
  };
  const auto all = [&](const std::vector<StepStatement>& statements) {
    for (const StepStatement& x : statements) note(note, x.body);
  };
  for (std::size_t i = 0; i < out_.streams.size(); ++i) {
    all(out_.streams[i].finish);
    if (i > 0) all(out_.streams[i].step);
  }
  all(out_.epilogue);
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    Stream& stream = out_.streams[i];
    passes_[i]->drop_nan_unless(read);
    stream.states = passes_[i]->states();
    stream.merge = passes_[i]->merges();
    for (StepStatement& x : stream.step) {
      if (x.kind != StepStatement::Kind::update) continue;
      x.reduce = std::ranges::find(stream.states, x.name, &StateDecl::name)->reduce;
    }
  }
}

namespace {

/// The coordinate of `axis` at which a guard turns: n < c holds before it, c <= n from it on.
struct Turn {
  Expr at;
  bool before;
};

std::optional<Turn> turn(const Expr& guard, const std::string& axis) {
  if (!guard || (guard.op() != Op::lt && guard.op() != Op::le)) return std::nullopt;
  const auto sides = as_affine(simplify(guard.args()[1] - guard.args()[0]), {axis});
  if (!sides || sides->coefficients.size() != 1) return std::nullopt;
  const Expr& slope = sides->coefficients.begin()->second;
  if (!axes_of(sides->offset).empty() || !values_of(sides->offset).empty()) return std::nullopt;
  const Expr strict = guard.op() == Op::lt ? Expr(0) : Expr(1);
  if (slope.is_constant(-1)) return Turn{simplify(sides->offset + strict), true};  // n < offset (+ 1 for <=)
  if (slope.is_constant(1))
    return Turn{simplify(Expr(1) - strict - sides->offset), false};  // −offset < n, −offset <= n
  return std::nullopt;
}

/// The parts of a stream that load different tiles, from the tiles' guards; empty when all load all.
std::vector<Segment> segments_of(const Stream& s, const Expr& extent) {
  std::vector<std::pair<const TileDecl*, Turn>> turns;
  Expr at;
  for (const TileDecl& t : s.tiles) {
    const auto found = turn(t.guard, s.axis);
    if (!found) continue;
    if (at && !provably_equal(at, found->at)) return {};  // one boundary is what concatenated producers have
    at = found->at;
    turns.emplace_back(&t, *found);
  }
  if (!at) return {};
  std::vector<Segment> parts{{Expr(0), at, {}}, {at, extent, {}}};
  for (const TileDecl& t : s.tiles) {
    const auto found = std::ranges::find(turns, &t, [](const auto& x) { return x.first; });
    if (found == turns.end() || found->second.before) parts[0].tiles.push_back(t.name);
    if (found == turns.end() || !found->second.before) parts[1].tiles.push_back(t.name);
  }
  return parts;
}

}  // namespace

Attempt<StreamingRegion> Assembler::run() {
  const Region& region = problem_.region();
  out_.name = region.name;
  out_.kind = region.kind;
  out_.axes = region.axes;
  out_.origin = region.origin;
  out_.parallel = parallel_axes();
  int count = static_cast<int>(passes_.size());
  const auto pass_of_output = [&](const RegionOutput& o) {
    const int ready = available(Expr::value(o.value, problem_.statement(o.value).type));
    return problem_.axis().empty() || !problem_.carries(o.value) ? ready : ready + 1;
  };
  for (const RegionOutput& o : region.outputs) {
    if (!problem_.axis().empty() && problem_.carries(o.value)) count = std::max(count, pass_of_output(o) + 1);
  }
  out_.streams.resize(static_cast<std::size_t>(count));
  along_.resize(static_cast<std::size_t>(count));
  emitted_items_.resize(static_cast<std::size_t>(count));
  for (const auto& pass : passes_) {
    for (const StepItem& item : pass->step()) derived_names_.insert(item.name);
  }
  for (int pass = 0; pass < count; ++pass) {
    step_of(pass);
    bool stores = false;
    for (const RegionOutput& o : region.outputs) {
      if (!problem_.carries(o.value) || pass_of_output(o) != pass) continue;
      store(o, {Place::Where::step, pass, false, {}});
      stores = true;
    }
    for (const RegionOutput& o : region.outputs) {
      if (problem_.carries(o.value) || pass_of_output(o) != pass) continue;
      store(o, {Place::Where::finish, pass, false, {}});
    }
    if (!stores && static_cast<std::size_t>(pass) < passes_.size()) {
      Stream& stream = out_.streams[static_cast<std::size_t>(pass)];
      LeftOut out = left_out(*passes_[static_cast<std::size_t>(pass)], problem_.ranges());
      stream.skip = out.skip, stream.defer = out.defer, stream.settled = out.settled;
    }
  }
  for (const RegionOutput& o : region.outputs) {
    if (pass_of_output(o) < 0) store(o, {Place::Where::epilogue, -1, false, {}});
  }
  settle_maxima();
  for (Stream& stream : out_.streams) stream.segments = segments_of(stream, region.axis(stream.axis).extent);
  if (failure_) return std::unexpected(*failure_);
  return std::move(out_);
}

}  // namespace aicf::stream
