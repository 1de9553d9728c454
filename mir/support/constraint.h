#pragma once

// What a model needs of a run beyond the shapes of single inputs.

#include <map>
#include <span>
#include <string>

#include "mir/support/expr.h"
#include "mir/support/result.h"

namespace aicf {

/// Two sizes that the model's operations need to be equal ("batch" and "b"), or the first to be at most the second
/// (positions and the table they index), and that inference could not prove so.
struct ShapeConstraint {
  Expr left, right;
  std::string place;  ///< the node that needs it
  bool at_most = false;
};

/// A Boolean scalar input that must be false: what it would ask for otherwise AICF does not do.
struct InputConstraint {
  std::string input;
  std::string meaning;  ///< "training mode"
  std::string place;    ///< the node that reads it
};

/// An integer input whose elements index a dim of `size`.
struct IndexConstraint {
  std::string input;
  Expr size;
  bool negative = false;  ///< negative ones count from the end
  std::string place;      ///< the node that reads at them
};

/// bad_input where the sizes of a constraint differ; names both, and the place.
Result<void> check_shapes(std::span<const ShapeConstraint> constraints,
                          const std::map<std::string, std::int64_t>& symbols);
/// bad_input for `index` at `element` of an input; success when it lies in a dim of `size`.
Result<void> check_index(const IndexConstraint& constraint, std::int64_t size, std::int64_t index,
                         std::int64_t element);
/// The error for an input that is true: unsupported.
std::unexpected<Diagnostic> refusal(const InputConstraint& constraint);

}  // namespace aicf
