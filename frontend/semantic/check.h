#pragma once

// The rules of a semantic graph that need no shapes: names are made once and before they are read, operators exist in
// the imported opset, operands and attributes fit the op table.

#include "frontend/model.h"

namespace aicf {

/// Graphs that may stand inside each other.
inline constexpr int max_nesting = 64;

/// bad_input or unsupported, with the node's name as place. Names are checked in subgraphs too; the operators of a
/// subgraph's nodes are not, for it may never be taken.
Result<void> check_semantic(const SemanticGraph& graph);
/// The part of it that looks at one node alone.
Result<void> check_node(const SemanticNode& node);

/// Tensors that a node reads: its inputs, and what its subgraphs take from the graphs around them.
std::vector<std::string> reads_of(const SemanticNode& node);

/// `text` with control characters and broken UTF-8 escaped, cut after `limit` characters.
std::string printable(std::string_view text, std::size_t limit);
/// A name of the model as messages show it: printable, in quotes, shortened to 60 characters.
std::string in_quotes(std::string_view name);
bool is_utf8(std::string_view text);
/// "node 'MatMul_3' (MatMul)".
std::string place_of(const SemanticNode& node);

}  // namespace aicf
