#pragma once

// Where a device leaves the float64 meaning, and the smallest model that still shows it.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/model.h"

namespace aicf::command {

/// A model of fixed sizes with values for its inputs.
struct Repro {
  SemanticGraph graph;
  NamedTensors inputs;
};

/// The nodes named in `keep` as a model of their own. What they read of the rest becomes an input with the float64 value
/// that it has in `whole`, or a constant where the import must know it (sizes, axes); what the rest reads of them is
/// output. Errors: those of importing and evaluating `whole`.
Result<Repro> cut_out(const Repro& whole, const std::set<std::string>& keep);

/// Deletes operations and outputs and shrinks sizes for as long as `fails` holds, at most `tries` calls of it.
/// Precondition: fails(start). The result fails too.
Repro reduced(Repro start, const std::function<bool(const Repro&)>& fails, int tries = 150);

/// model.aicf, inputs.npz and expected.npz (float64 of the model) in `folder`, which is made. None of them stays where one
/// cannot be written.
Result<void> write_repro(const std::string& folder, const Repro& repro);

}  // namespace aicf::command
