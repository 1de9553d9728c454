#pragma once

// Runs thread programs on devices, for tests that compare with the interpreter.

#include <map>
#include <string>
#include <vector>

#include "backends/vulkan/emit.h"
#include "mir/kernel/thread_program.h"
#include "runtime/driver.h"

namespace aicf::testing_devices {

/// Elements of a tensor as a device stores them, padded to whole words.
std::vector<std::byte> device_bytes(DType type, const std::vector<double>& values);
std::vector<double> host_values(DType type, std::size_t count, const std::vector<std::byte>& bytes);

Result<KernelBinary> vulkan_binary(const ThreadProgram& program, const GlslOptions& options);
KernelBinary emulation_binary(const ThreadProgram& program);

/// Runs `binary` with the buffers and symbols of `io`; written buffers change, those that are absent are made.
Result<void> run_on(Device& device, const KernelBinary& binary, const ThreadProgram& program, InterpreterInput& io);

}  // namespace aicf::testing_devices
