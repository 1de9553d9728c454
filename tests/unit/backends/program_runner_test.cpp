#include "tests/unit/backends/program_runner.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "backends/cuda/emit.h"
#include "backends/vulkan/assemble.h"

namespace aicf::testing_devices {

std::vector<std::byte> device_bytes(DType type, const std::vector<double>& values) {
  const std::size_t size = device_size(type);
  std::vector<std::byte> bytes((values.size() * size + 3) / 4 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t word = 0;
    if (type == DType::f16) {
      word = f32_to_f16(static_cast<float>(values[i]));
    } else if (type == DType::bf16) {
      word = f32_to_bf16(static_cast<float>(values[i]));
    } else if (is_float(type)) {
      word = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
    } else {
      word = static_cast<std::uint32_t>(static_cast<std::int32_t>(values[i]));
    }
    std::memcpy(bytes.data() + i * size, &word, size);
  }
  return bytes;
}

std::vector<double> host_values(DType type, std::size_t count, const std::vector<std::byte>& bytes) {
  const std::size_t size = device_size(type);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i * size, size);
    if (type == DType::f16) {
      values[i] = f16_to_f32(static_cast<std::uint16_t>(word));
    } else if (type == DType::bf16) {
      values[i] = bf16_to_f32(static_cast<std::uint16_t>(word));
    } else if (is_float(type)) {
      values[i] = std::bit_cast<float>(word);
    } else {
      values[i] = static_cast<std::int32_t>(word);
    }
  }
  return values;
}

namespace {

KernelBinary described(const ThreadProgram& program) {
  KernelBinary binary;
  binary.name = program.name;
  for (const KernelBuffer& b : program.buffers) binary.arguments.push_back({b.name, b.type, b.written, true});
  binary.parameters = program.symbols;
  binary.workgroup_size = static_cast<std::uint32_t>(program.subgroup_size * program.subgroups);
  for (const SharedArray& a : program.shared) {
    const std::int64_t end = a.byte_offset + a.elements * static_cast<std::int64_t>(device_size(a.type));
    binary.workgroup_memory_bytes =
        std::max(binary.workgroup_memory_bytes, static_cast<std::uint32_t>((end + 15) / 16 * 16));
  }
  return binary;
}

}  // namespace

Result<KernelBinary> vulkan_binary(const ThreadProgram& program, const GlslOptions& options) {
  KernelBinary binary = described(program);
  binary.kind = BinaryKind::spirv;
  binary.source = emit_glsl(program, options);
  const int size = options.device_subgroup_size ? options.device_subgroup_size : program.subgroup_size;
  binary.subgroup_size = uses_subgroups(program) ? static_cast<std::uint32_t>(size) : 0;
  AICF_TRY(binary.bytes, assemble_glsl(binary.source, program.name, nullptr));
  return binary;
}

KernelBinary emulation_binary(const ThreadProgram& program) {
  KernelBinary binary = described(program);
  binary.kind = BinaryKind::cuda_source;
  binary.source = emit_cuda(program);
  binary.bytes = binary.source;
  binary.subgroup_size = 32;
  return binary;
}

Result<void> run_on(Device& device, const KernelBinary& binary, const ThreadProgram& program, InterpreterInput& io) {
  AICF_TRY(const auto kernel, device.load(binary));
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::vector<std::size_t> counts;
  Dispatch dispatch;
  dispatch.kernel = kernel.get();
  for (const KernelBuffer& b : program.buffers) {
    std::int64_t elements = 1;
    for (const Expr& dim : b.shape) {
      AICF_TRY(const std::int64_t extent, evaluate_int(dim, io.symbols));
      elements *= extent;
    }
    auto& values = io.buffers[b.name];
    values.resize(static_cast<std::size_t>(elements));
    const std::vector<std::byte> bytes = device_bytes(b.type, values);
    AICF_TRY(auto buffer, device.allocate(bytes.size()));
    AICF_RETURN_IF_ERROR(device.upload(*buffer, 0, bytes));
    dispatch.buffers.push_back({buffer.get(), 0, bytes.size()});
    counts.push_back(values.size());
    buffers.push_back(std::move(buffer));
  }
  for (const std::string& s : program.symbols)
    dispatch.parameters.push_back(static_cast<std::int32_t>(io.symbols.at(s)));
  AICF_TRY(const std::int64_t workgroups, evaluate_int(program.workgroups, io.symbols));
  dispatch.workgroups = static_cast<std::uint64_t>(workgroups);
  AICF_RETURN_IF_ERROR(device.run(std::span(&dispatch, 1), nullptr, nullptr));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const KernelBuffer& b = program.buffers[i];
    if (!b.written) continue;
    std::vector<std::byte> bytes(dispatch.buffers[i].size);
    AICF_RETURN_IF_ERROR(device.download(*buffers[i], 0, bytes));
    io.buffers[b.name] = host_values(b.type, counts[i], bytes);
  }
  return {};
}

TEST(ProgramRunner, StoresElementsAsDevicesDo) {
  EXPECT_EQ(device_bytes(DType::f16, {1.0, -2.0, 0.5}).size(), 8u);
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::i64}) {
    const std::vector<double> values{1, -2, 96};
    EXPECT_EQ(host_values(type, 3, device_bytes(type, values)), values);
  }
}

}  // namespace aicf::testing_devices
