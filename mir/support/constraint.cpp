#include "mir/support/constraint.h"

#include <fmt/format.h>

namespace aicf {

Result<void> check_shapes(std::span<const ShapeConstraint> constraints,
                          const std::map<std::string, std::int64_t>& symbols) {
  for (const ShapeConstraint& c : constraints) {
    AICF_TRY(const std::int64_t left, evaluate_int(c.left, symbols));
    AICF_TRY(const std::int64_t right, evaluate_int(c.right, symbols));
    if (c.at_most) {
      if (left <= right) continue;
      const std::string most =
          c.right.is_constant() ? std::to_string(right) : fmt::format("{} = {}", to_string(c.right), right);
      return bad_input(fmt::format("{} is {}, at most {} is possible", to_string(c.left), left, most), c.place);
    }
    if (left != right) {
      return bad_input(
          fmt::format("{} is {} and {} is {}, which must agree; if one is 1 to be broadcast, fix it with a binding",
                      to_string(c.left), left, to_string(c.right), right),
          c.place);
    }
  }
  return {};
}

Result<void> check_index(const IndexConstraint& c, std::int64_t size, std::int64_t index, std::int64_t element) {
  if (index < size && index >= (c.negative ? -size : 0)) return {};
  return bad_input(
      fmt::format("input '{}' holds {} at element {}, which indexes a dim of {}", c.input, index, element, size),
      c.place);
}

std::unexpected<Diagnostic> refusal(const InputConstraint& constraint) {
  return unsupported(
      fmt::format("input '{}' is true: {}; AICF runs inference only", constraint.input, constraint.meaning),
      constraint.place);
}

}  // namespace aicf
