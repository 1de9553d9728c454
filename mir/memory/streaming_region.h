#pragma once

// The Memory-Centric IR: which tile lives where, for how long, in which order it streams, and what partial state a
// reduction carries from tile to tile. Derivation leaves the facts of placement open; a schedule fixes them.
//
// Execution of a StreamingRegion, for every coordinate of its `parallel` axes:
//   load tiles of lifecycle `region`; run `prologue`;
//   for each stream in order: set its states to init; for each step along its axis: load the stream's tiles of
//     this step, run `step` in order; then run `finish`;
//   run `epilogue`; stores happen where they are listed.
// An update `s op= body` reduces the body over the stream axis (and over `over`). When an update changes a reference
// state r to r', every repair group that names r as reference is repaired from r to r' before any later statement reads
// it: the statements after the update see r' as `r`. A group with several references is repaired once per step, after
// the last of their updates, from all the old values to all the new ones (going through mixed ones is exact in real
// numbers but costs digits); in a step the updates of references come before those of the states they repair. A `first`
// state takes the body at the first coordinate of the part of the stream that is run, and never moves after that.
//
// Text form (normative, round-trips): the grammar is at the top of streaming_text.cpp. Open facts print as `?`.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/region/region.h"

namespace aicf {

/// Neutral words; each backend maps them to its own memories.
enum class Residency : std::uint8_t { open, off_chip, workgroup, subgroup_register };
enum class Lifecycle : std::uint8_t { region, stream, step };  ///< loaded once per work item / per stream / per step
std::string_view name(Residency residency);
std::string_view name(Lifecycle lifecycle);

/// A block of a tensor outside the region, brought in by a load. In expressions it is value(name) at the coordinates of
/// `axes`; the element is tensor[index…], `fill` where `guard` is false (guard empty = always).
struct TileDecl {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes;
  std::string tensor;
  std::vector<Expr> index;
  std::vector<Expr> shape;  ///< of the tensor: row-major strides follow
  Expr guard;
  Expr fill;
  Lifecycle lifecycle = Lifecycle::step;
  Residency residency = Residency::open;
};

/// A value computed inside the region. `over` non-empty: an inner reduction (a contraction of tiles). Exactly like
/// Statement, with a residency.
struct StepStatement {
  enum class Kind : std::uint8_t {
    local,   ///< name[axes] = [reduce over `over`] body
    update,  ///< state `name` reduce= body, reduced over the stream axis and `over`
    store,   ///< tensor `name`[index…] = body, at the coordinates of `axes`
    nested,  ///< a stream inside the step
  };
  Kind kind = Kind::local;
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes;
  std::vector<std::string> over;
  ReduceOp reduce = ReduceOp::none;
  Expr body;
  Residency residency = Residency::open;
  std::vector<Expr> index, shape;         ///< store only
  std::shared_ptr<struct Stream> nested;  ///< nested only
  std::vector<std::string> origin;
};

struct StateDecl {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes;  ///< never the stream axis
  ReduceOp reduce = ReduceOp::sum;
  Expr init;
  Residency residency = Residency::open;
};

/// States that are repaired together when their references move: new state = repair[i], an expression over
/// value(state), value(r) (the old reference) and value(r + "'") (the new one).
struct RepairGroup {
  std::vector<std::string> states;
  std::vector<std::string> references;
  std::vector<Expr> repair;
  std::string law;  ///< "cascade: exp(s - m) g, T = exp(m - m')"
};

/// One state's value after merging partial results a and b: an expression over value("a." + state), value("b." +
/// state).
struct MergeRule {
  std::string state;
  Expr value;
};

enum class StreamOrder : std::uint8_t { ascending, descending };

/// A part [begin, end) of a streamed axis with producers of its own (past and new keys). Empty list = the whole axis.
struct Segment {
  Expr begin, end;
  std::vector<std::string> tiles;  ///< names of the stream's tiles that this part loads
};

struct Stream {
  std::string axis;
  StreamOrder order = StreamOrder::ascending;
  std::vector<Segment> segments;
  std::vector<TileDecl> tiles;
  std::vector<StateDecl> states;
  std::vector<RepairGroup> repairs;
  std::vector<StepStatement> step;
  std::vector<MergeRule> merge;  ///< for every state; associative with init as neutral element
  std::vector<StepStatement> finish;
  Expr skip;  ///< coordinates where every update is neutral (kv > q under −inf): tiles all inside it may be skipped;
              ///< empty = none
  /// Coordinates, those of `skip` among them, where every update is neutral as long as `settled` holds at the end (kv > q
  /// under a finite constant c: m - c > 104, exp(c - m) is 0 in f32). Tiles all inside may be left out; where `settled`,
  /// over values of states, then fails for a row, the stream starts again and runs them. Empty = none.
  Expr defer, settled;
};

/// A law that was used, with the side conditions that were shown.
struct CertificateEntry {
  std::string law;        ///< "cascade", "monotone", "uniform predicate", "invariant factor", "polynomial shift", …
  std::string statement;  ///< value it was applied to
  std::string condition;  ///< "exp(m - m') finite for every m <= m' reachable; m = -inf repaired as 0"
};
struct Certificate {
  std::vector<CertificateEntry> entries;
  std::vector<std::string> labels;  ///< names people know for the form of the states (mir/region/label.h)
};

struct StreamingRegion {
  std::string name;
  RegionKind kind = RegionKind::map;  ///< carried for printing
  std::vector<Axis> axes;
  std::vector<std::string>
      parallel;                 ///< axes every work item fixes a block of; in the order of the grid, outermost first
  std::vector<TileDecl> tiles;  ///< lifecycle region
  std::vector<StepStatement> prologue;
  std::vector<Stream> streams;  ///< successive passes
  std::vector<StepStatement> epilogue;
  std::vector<std::string> origin;
  Certificate certificate;

  const Axis& axis(const std::string& axis_name) const;
  Ranges ranges() const;
};

std::string to_string(const StreamingRegion& region);
Result<StreamingRegion> parse_streaming_region(std::string_view text, std::string_view place = {});
/// Names resolve, axes are consistent, every state has init and merge, updates reduce the stream axis, statements are
/// in order of definition, stores cover every output.
Result<void> verify(const StreamingRegion& region);
std::string to_dot(const StreamingRegion& region);

}  // namespace aicf
