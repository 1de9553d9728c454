#pragma once

// The interface of a model (names, element types, symbolic shapes) and the sizes that given shapes bind its symbols to.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mir/support/constraint.h"
#include "mir/support/dtype.h"
#include "mir/support/expr.h"
#include "mir/support/result.h"

namespace aicf {

/// A tensor at the border of a model.
struct Signature {
  std::string name;
  DType type = DType::f32;
  std::vector<Expr> shape;  ///< over symbols; row-major
};

/// What a user of a model sees of it.
struct Interface {
  std::vector<Signature> inputs;                             ///< all, also those that nothing reads
  std::vector<std::pair<std::string, std::string>> outputs;  ///< name of the model, name of the graph's node
  std::vector<ShapeConstraint> constraints;
  std::vector<IndexConstraint> indices;
  std::vector<InputConstraint> must_be_false;
};

/// The sizes of the symbols when input i has the shape `shapes[i]` (one per input). Dims that are more than a symbol are
/// solved where one symbol of them is open. Errors: bad_input naming input and dim where a rank, a fixed size or a
/// repeated symbol disagrees.
Result<std::map<std::string, std::int64_t>> bind_sizes(std::span<const Signature> inputs,
                                                       std::span<const std::vector<std::int64_t>> shapes);

/// "[2, q, 64]".
std::string dims_text(std::span<const Expr> dims);
std::string dims_text(std::span<const std::int64_t> dims);

}  // namespace aicf
