#pragma once

// A walk over the protobuf encoding before protobuf parses it: its own errors say nothing about where a file is broken.
// Bounded stack, no allocation.

#include <cstddef>
#include <span>
#include <string>

#include "mir/support/result.h"

namespace aicf {

enum class WireMessage { model, tensor };

/// Checks tags, lengths, varints and the nesting depth of a ModelProto or TensorProto; errors name the byte offset.
Result<void> check_wire(std::span<const std::byte> bytes, WireMessage message, const std::string& place);

}  // namespace aicf
