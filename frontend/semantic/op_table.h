#pragma once

// The one table of operators: what each is called, since which opset, how many operands it takes, which attributes it
// has, what it means in one line, and the function that lowers it to canonical nodes. Checks, the text form, error
// messages and canonicalisation all read it; adding an operator is one row here and one lowering function.

#include <span>
#include <string_view>
#include <vector>

#include "frontend/model.h"

namespace aicf {

class Lowering;
using LowerFunction = Result<void> (*)(Lowering&);

/// Opsets of ai.onnx whose definitions the table follows. Older ones broadcast by attribute and are refused.
inline constexpr int oldest_opset = 7;
inline constexpr int newest_opset = 28;
/// What the text form and the builder write.
inline constexpr int default_opset = 23;
inline constexpr int variadic = 1 << 20;

struct AttributeRule {
  std::string_view name;
  Attribute::Kind kind;
  bool required = false;
};

/// One operator in one range of opsets. An operator whose meaning, operands or attributes changed has several rows.
struct OpRow {
  std::string_view name;
  std::string_view domain;  ///< "" is ai.onnx
  int since, until;         ///< opsets, inclusive
  int min_inputs, max_inputs, min_outputs, max_outputs;
  /// "axis:i keepdims:i to:i!": kinds i f s is fs ss t g, "!" marks a required one.
  std::string_view attributes;
  LowerFunction lower;
  std::string_view documentation;

  std::vector<AttributeRule> attribute_rules() const;
};

std::span<const OpRow> op_table();
/// The row of `name` in `domain` for `opset`; null when there is none.
const OpRow* find_op(std::string_view name, std::string_view domain, int opset);
/// The row of any opset, for messages ("Gelu exists from opset 20").
const OpRow* find_op_any_opset(std::string_view name, std::string_view domain);
bool is_known_domain(std::string_view domain);
/// "INT", "FLOATS", … as ONNX says it.
std::string_view kind_name(Attribute::Kind kind);

}  // namespace aicf
