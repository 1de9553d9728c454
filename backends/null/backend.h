#pragma once

#include "backends/backend.h"

namespace aicf {

/// The template of a backend: takes the first schedule that lowers, emits the thread program's own text, "assembles" it
/// unchanged. Start a new backend from this folder.
const Backend& null_backend();

}  // namespace aicf
