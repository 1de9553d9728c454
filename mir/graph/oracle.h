#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/graph/graph.h"
#include "runtime/tensor.h"

namespace aicf {

/// The meaning of a graph: float64 evaluation node by node, integers exact in 64 bits (narrower ones wrap). Floats
/// round only at (f16 and bf16 count as f32 except at cast; f64 never rounds)
///   * cast: to the target type itself, so a value beyond f16 becomes infinite there; a float that is cast to an integer
///     is rounded to f32 first, so what is whole in f32 is not truncated to the number below;
///   * add and sub where an operand is ≤ −1e4, sub of one ≥ 1e4, and select where the chosen value is ≤ −1e4;
///   * log of a value in [0, 1]: the value and its logarithm, so a probability below f32 gives −inf.
/// (design.md, "Literal meaning".) Loads behind a select happen only where chosen. Division of an integer by 0 gives 0.
///
/// Inputs are by node name (any float type for a float input), constants by index; symbols must all be bound. Returns
/// the tensors named in `wanted` (graph outputs by node name when empty); floats as f64 tensors, others in their type.
/// Errors: a missing input, another shape, a load out of bounds (bad_input: data-dependent index), sizes beyond memory
/// (run_failure).
Result<NamedTensors> evaluate_graph(const Graph& graph, const std::vector<Tensor>& constants,
                                    const NamedTensors& inputs, const std::map<std::string, std::int64_t>& symbols,
                                    const std::set<std::string>& wanted = {});

}  // namespace aicf
