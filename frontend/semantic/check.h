#pragma once

// The rules of a semantic graph that need no shapes: names are made once and before they are read, operators exist in
// the imported opset, operands and attributes fit the op table.

#include "frontend/model.h"

namespace aicf {

/// bad_input or unsupported, with the node's name as place.
Result<void> check_semantic(const SemanticGraph& graph);

/// `name` as messages show it: in quotes, control characters and broken UTF-8 escaped, shortened to 60 characters.
std::string in_quotes(std::string_view name);
bool is_utf8(std::string_view text);
/// "node 'MatMul_3' (MatMul)".
std::string place_of(const SemanticNode& node);

}  // namespace aicf
