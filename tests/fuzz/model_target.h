#pragma once

// The entry point that the fuzzer calls with every input, and the replay test with every kept one.

#include <cstddef>
#include <cstdint>

/// Reads `data` as a model file in an empty folder and takes it to the canonical graph and its text. Returns 0; aborts where
/// the importer breaks a promise: what it accepts verifies, what it refuses has a kind and one printable line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
