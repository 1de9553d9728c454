#pragma once

#include <set>
#include <string>

#include "mir/graph/graph.h"

namespace aicf::command {

/// Tensors of scores and weights: what lies between a reduction that pairs the rows of two operands and a contraction over
/// one of the two, each with a value for every pair, where they are weighed against each other on the way (a maximum or a
/// sum of exponentials) or are pairs of computed tensors in a batch (weights without a normalisation; not the products of
/// an MLP). By the graph alone, whatever a plan fuses.
std::set<std::string> score_tensors(const Graph& graph);

}  // namespace aicf::command
