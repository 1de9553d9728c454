#pragma once

// A region: the statements that one plan computes together, over axes of its own. Uses of other tensors are loads with
// index maps (moves have become addressing); values of the region are named scalars at the current coordinates.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "mir/support/contains.h"

namespace aicf {

enum class RegionKind : std::uint8_t { attention, normalisation, reduction, contraction, map };
std::string_view name(RegionKind kind);
std::optional<RegionKind> parse_region_kind(std::string_view text);

/// value[axes] = reduce over `over` of body, or body when `over` is empty. Leaves of the body: loads of tensors outside
/// the region (indices over axes and symbols), `value(s)` of an earlier statement at the same coordinates (its axes
/// must be a subset of axes ∪ over), axes, symbols, constants.
struct Statement {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> axes;
  std::vector<std::string> over;
  ReduceOp reduce = ReduceOp::none;
  Expr body;
  std::string node;                 ///< canonical node whose value this is; empty for a part made by derivation
  std::vector<std::string> origin;  ///< the model's own nodes
};

/// tensor[index…] = value, for every coordinate of the value's axes. The index map is one to one.
struct RegionOutput {
  std::string value;
  std::string tensor;
  DType type = DType::f32;
  std::vector<Expr> index;  ///< one expression per tensor dimension over the region's axes
  std::vector<Expr> shape;
};

/// A tensor outside the region that its bodies load.
struct RegionInput {
  std::string tensor;
  DType type = DType::f32;
  std::vector<Expr> shape;  ///< over symbols; row-major strides follow
  bool constant = false;    ///< a constant of the model
};

/// Roles that attention detection names; for messages and `explain` only. Nothing below the regions reads them.
struct AttentionRoles {
  std::string q, k, v;          ///< tensors
  std::string scale, mask;      ///< programs as text; "none"
  std::string normalised_axis;  ///< region axis
};

struct Region {
  std::string name;  ///< "attention_0", unique in the plan
  RegionKind kind = RegionKind::map;
  std::vector<Axis> axes;             ///< every axis of every statement; names unique
  std::vector<Statement> statements;  ///< producers first
  std::vector<RegionOutput> outputs;
  std::vector<std::string> origin;
  std::optional<AttentionRoles> roles;
  std::vector<RegionInput> inputs;  ///< every tensor that a load names, once

  const Axis& axis(const std::string& axis_name) const;
  const Statement* find(const std::string& value) const;
  const RegionInput* input(const std::string& tensor) const;
  Ranges ranges() const;
  ExprMap extents() const;  ///< of axes, by name
};

/// A fusion that was not made: which nodes, which law failed, in words a user can act on.
struct Refusal {
  std::vector<std::string> nodes;  ///< the model's own nodes
  std::string law;  ///< "cascade", "monotone", "uniform predicate", "second consumer", "recomputation", "capacity", …
  std::string reason;
};

/// Whether computing the reduction `x`, which lacks `axis`, again for every block of it costs no more than another reduction of
/// `statements` that has the axis. For Statement and StepStatement.
template <class S>
bool repeats_cheaply(const S& x, const std::string& axis, const std::vector<S>& statements) {
  const auto runs_over = [](const S& s, const std::string& a) { return contains(s.axes, a) || contains(s.over, a); };
  return std::ranges::any_of(statements, [&](const S& other) {
    if (other.over.empty() || !contains(other.axes, axis)) return false;
    const auto too = [&](const std::string& a) { return runs_over(other, a); };
    return std::ranges::all_of(x.axes, too) && std::ranges::all_of(x.over, too);
  });
}

/// Why a value is in memory that a region could compute: the law that forbids it, in words.
struct Reason {
  std::string law;  ///< of the refusal; "second consumer", "epilogue", "output", "fusion off" where none was tried
  std::string text;
};

std::string to_string(const Region& region);
Result<Region> parse_region(std::string_view text, std::string_view place = {});
Result<void> verify(const Region& region);

}  // namespace aicf
