#pragma once

// Runs a generated graph and says what is wrong with the result.

#include <map>
#include <string>

#include "mir/graph/graph.h"
#include "tests/generate/generate.h"
#include "tests/numeric/harness.h"

namespace aicf::generate {

/// The float64 meaning of a graph on given data, with how far f32 arithmetic may leave it.
///
/// Each element's uncertainty is measured by Monte Carlo arithmetic: the graph is evaluated again with the result of every
/// inexact operation, inside bodies too, changed by a random relative amount of at most 2^-20 (eight ulps of f32). Where
/// the graph's own operations in f32 would leave its range (overflow to infinity, underflow to 0; 18 digits of it, since a
/// sum may be taken of squares without a factor that keeps them small), or an exponential that of f64, and that changes an
/// element to or from NaN or infinity, the element is undetermined. With infinite data so are those that an infinite
/// result of a reduction would change were it NaN (README, documented choices).
struct Reference {
  NamedTensors values;       ///< f64, by output name
  NamedTensors uncertainty;  ///< f64; NaN where undetermined
  double undetermined = 0,
         widened = 0;  ///< parts of all elements; widened: allowed more than 3 times the plain tolerance
};
Result<Reference> reference_of(const Model& model, const NamedTensors& inputs, const numeric::Sizes& symbols,
                               bool infinite_data);

/// What a fused plan may give in place of the literal value (README, documented choices).
struct Leeway {
  /// What is NaN or infinite is not compared: derived sums meet inf - inf at other places.
  bool infinite_data = false;
  /// By output name, the value without the NaN of keys that a mask excludes; empty: they come back. Where the literal
  /// value is NaN, this one is right too.
  NamedTensors unread = {};
  /// The graph asks IsNaN: where the literal value is finite, that of `unread` is right too.
  bool asks = false;
};
Result<Leeway> leeway_of(const Generated& generated, const Model& model, const numeric::Sizes& symbols);

/// "" when `actual` is right: NaN and infinities at the same places, else
/// |error| ≤ 1e-5 + 1e-4 |expected| + 4 · uncertainty. Otherwise the worst element.
std::string difference(const NamedTensors& actual, const Reference& expected, const Leeway& leeway);

/// Runs a model compiled without binaries on the kernel interpreter.
Result<NamedTensors> interpret(const Model& model, const CompiledModel& compiled, const NamedTensors& inputs,
                               const numeric::Sizes& symbols);

/// "" when each operation of the model that an output needs is in a region or folded away, and each site (Generated)
/// shares a region or is named by a refusal. Fused plans only.
std::string unexplained(const Generated& generated, const Model& model, const CompiledModel& compiled);

}  // namespace aicf::generate
