#pragma once

// What a compiled model is: kernels with their binaries, guarded launches, and a plan for every buffer. One package holds
// one `Program` per target. This header is the only thing that backends and runtime share.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/support/constraint.h"
#include "mir/support/dtype.h"
#include "mir/support/expr.h"
#include "mir/support/interface.h"
#include "mir/support/result.h"
#include "runtime/tensor.h"

namespace aicf {

/// Which driver can run a kernel binary.
enum class BinaryKind {
  spirv,       ///< Words of a SPIR-V compute shader, entry point "main".
  cubin,       ///< CUDA device binary; entry point = kernel name.
  cuda_source  ///< CUDA C++ text, run by host emulation; entry point = kernel name.
};

/// One kernel argument buffer. Vulkan: binding = position in `KernelBinary::arguments`, set 0. CUDA: pointer parameters in
/// that order, followed by one int32 parameter per entry of `parameters`.
struct KernelArgument {
  std::string name;  ///< Name in the kernel source, for messages and counters.
  DType type = DType::f32;
  bool written = false;
  bool read = false;
};

/// One compiled kernel.
struct KernelBinary {
  std::string name;
  BinaryKind kind = BinaryKind::spirv;
  std::string bytes;   ///< SPIR-V words, cubin or source text.
  std::string source;  ///< The emitted source (GLSL or CUDA C++); kept for `explain` and messages.
  std::vector<KernelArgument> arguments;
  /// Names of int32 parameters, in order: Vulkan push constants at offset 4·i, CUDA trailing int parameters. After them
  /// every kernel has one more, the number of workgroups, which the driver sets: drivers may fold a linear grid into
  /// several dimensions (65535 limits) and kernels return at once where their linear id passes it.
  std::vector<std::string> parameters;
  std::uint32_t workgroup_size = 1;                ///< Threads of a workgroup (one-dimensional).
  std::uint32_t subgroup_size = 0;                 ///< Required subgroup size (Vulkan) / 32 (CUDA); 0 = any.
  std::uint32_t workgroup_memory_bytes = 0;        ///< Static; CUDA: dynamic shared memory to request.
  std::string compiler_log;                        ///< ptxas -v lines, spirv-opt notes.
  std::map<std::string, std::int64_t> statistics;  ///< "registers", "spill_bytes", … where the compiler says them.
};

/// One tensor of the program on the device.
struct BufferPlan {
  enum class Kind { input, output, constant, intermediate };
  std::string name;  ///< The model's own tensor name.
  Kind kind = Kind::intermediate;
  DType type = DType::f32;          ///< The model's type; the device stores device_storage(type).
  std::vector<Expr> shape;          ///< Over the program's symbols.
  std::int64_t constant = -1;       ///< Index into Program::constants for Kind::constant.
  int first_use = 0, last_use = 0;  ///< Launch indices, for arena reuse (inclusive).
  bool scratch = false;             ///< An intermediate that is no tensor of the model: partial results of a split.
};

/// One dispatch. Launches run in order, each sees the writes of those before it.
struct Launch {
  int kernel = 0;                ///< Index into Program::kernels.
  std::vector<int> buffers;      ///< Index into Program::buffers, one per kernel argument.
  std::vector<Expr> parameters;  ///< Values of the int32 parameters over the symbols.
  Expr workgroups;               ///< Linear number of workgroups; kernels derive their work item from the linear id.
  Expr guard;          ///< Boolean over the symbols; empty = always. A launch whose guard is false is skipped.
  std::string region;  ///< Region name, for profiles.
};

/// An output of the model and the buffer that holds it: of any kind, since a model may hand an input or a constant through.
struct ProgramOutput {
  std::string name;
  int buffer = 0;  ///< Index into Program::buffers.
};

/// All kernels of one model for one target.
struct Program {
  std::string target;  ///< Device model name ("lavapipe", "sm_80", …).
  std::string driver;  ///< "vulkan", "cuda", "cuda_emulation", "null": which driver runs these binaries.
  std::vector<KernelBinary> kernels;
  std::vector<Launch> launches;
  std::vector<BufferPlan> buffers;
  std::vector<Tensor> constants;
  std::vector<std::string> symbols;          ///< Dimension symbols bound at run time from input shapes or --bind.
  std::vector<ShapeConstraint> constraints;  ///< Checked before each run, and the inputs:
  std::vector<IndexConstraint> indices;
  std::vector<InputConstraint> must_be_false;
  /// The model's interface. Every input is here, also one that no kernel reads: its shape binds symbols.
  std::vector<Signature> inputs;
  std::vector<ProgramOutput> outputs;
};

/// What is stored in a package file.
struct Package {
  std::string model_name;
  std::vector<Program> programs;
};

/// Where constants go that stand in a file of their own (external data of a model).
enum class WeightStorage {
  embedded,   ///< into the package, each once
  referenced  ///< stay there: the package has the file's path (relative to its own folder), place and XXH3-64
};

/// Format: magic "AICFPKG2", header length, JSON header, 64-byte aligned blobs, XXH3-64 of everything before it. Equal
/// packages give equal bytes. Constants are stored once and shared between programs. Written by rename.
Result<void> write_package(const std::string& path, const Package& package,
                           WeightStorage weights = WeightStorage::embedded);
/// Refuses a foreign, damaged or newer file, and one whose referenced weights are missing or have changed (bad_input, names
/// the check that failed).
Result<Package> read_package(const std::string& path);

}  // namespace aicf
