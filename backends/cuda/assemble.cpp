#include "backends/cuda/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "backends/cuda/nvrtc_library.h"

namespace aicf {
namespace {

constexpr char kPrelude[] =
#include "backends/cuda/device/prelude.inc"
    ;

/// The number that ends right before `position`, or that follows it.
int number_before(std::string_view text, std::size_t position) {
  std::size_t end = position;
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
  int value = 0;
  for (; begin < end; ++begin) value = value * 10 + (text[begin] - '0');
  return value;
}

/// Sum over the log's lines of the numbers before `words` (one kernel per module, so there is one such line).
int figure(std::string_view log, std::string_view words) {
  int sum = 0;
  for (std::size_t at = log.find(words); at != std::string_view::npos; at = log.find(words, at + words.size()))
    sum += number_before(log, at);
  return sum;
}

/// "NVRTC_ERROR_…", for messages.
std::string error_name(const NvrtcLibrary& nvrtc, int status) {
  return nvrtc.get_error_string(status);
}

/// Owns an nvrtcProgram.
class Program {
 public:
  explicit Program(const NvrtcLibrary& nvrtc) : nvrtc_(nvrtc) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle) nvrtc_.destroy_program(&handle);
  }
  std::string log() const {
    std::size_t size = 0;
    if (nvrtc_.get_log_size(handle, &size) != 0 || size == 0) return {};
    std::string text(size, '\0');
    if (nvrtc_.get_log(handle, text.data()) != 0) return {};
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

  void* handle = nullptr;

 private:
  const NvrtcLibrary& nvrtc_;
};

/// Lines that tell how long ptxas took: a log belongs to packages, and equal sources give equal bytes.
std::string without_times(std::string_view log) {
  std::string kept;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size() - 1) + 1;
    if (log.substr(0, end).find("Compile time") == std::string_view::npos) kept += log.substr(0, end);
    log.remove_prefix(end);
  }
  while (kept.ends_with('\n')) kept.pop_back();
  return kept;
}

Result<int> architecture_number(const NvrtcLibrary& nvrtc, const std::string& architecture) {
  const bool known_form = architecture.starts_with("sm_") && architecture.size() > 4 &&
                          std::isdigit(static_cast<unsigned char>(architecture[3]));
  if (!known_form) return bad_input(fmt::format("'{}' is not a CUDA architecture such as sm_80", architecture));
  const int number = std::atoi(architecture.c_str() + 3);
  if (nvrtc.get_number_of_architectures && nvrtc.get_architectures) {
    int count = 0;
    nvrtc.get_number_of_architectures(&count);
    std::vector<int> all(static_cast<std::size_t>(count));
    nvrtc.get_architectures(all.data());
    if (std::find(all.begin(), all.end(), number) == all.end()) {
      return unsupported(fmt::format("NVRTC {}.{} does not compile for {}; it knows sm_{}", nvrtc.major, nvrtc.minor,
                                     architecture, fmt::join(all, ", sm_")));
    }
  }
  return number;
}

}  // namespace

std::string_view cuda_prelude() {
  return {kPrelude, sizeof(kPrelude) - 1};
}

void parse_ptxas_log(std::string_view log, AssembledCuda& result) {
  result.registers = figure(log, " registers");
  result.stack_bytes = figure(log, " bytes stack frame");
  result.spill_store_bytes = figure(log, " bytes spill stores");
  result.spill_load_bytes = figure(log, " bytes spill loads");
  result.static_shared_bytes = figure(log, " bytes smem");
  result.constant_bytes = figure(log, " bytes cmem[0]");
}

Result<std::string> nvrtc_version() {
  AICF_TRY(const NvrtcLibrary* nvrtc, nvrtc_library());
  return fmt::format("NVRTC {}.{} ({})", nvrtc->major, nvrtc->minor, nvrtc->path);
}

Result<AssembledCuda> assemble_cuda(const std::string& source, const std::string& name, const std::string& architecture,
                                    const AssembleCudaOptions& options) {
  AICF_TRY(const NvrtcLibrary* nvrtc, nvrtc_library());
  AICF_RETURN_IF_ERROR(architecture_number(*nvrtc, architecture));

  const std::string text =
      fmt::format("#line 1 \"aicf_prelude\"\n{}\n#line 1 \"{}.cu\"\n{}", cuda_prelude(), name, source);
  Program program(*nvrtc);
  const std::string file = name + ".cu";
  if (const int status = nvrtc->create_program(&program.handle, text.c_str(), file.c_str(), 0, nullptr, nullptr)) {
    return run_failure(fmt::format("NVRTC could not take the source: {}", error_name(*nvrtc, status)), name);
  }

  std::vector<std::string> arguments = {"--gpu-architecture=" + architecture, "--std=c++17", "--ptxas-options=-v"};
  if (options.max_registers > 0) arguments.push_back(fmt::format("--maxrregcount={}", options.max_registers));
  if (options.fast_math) arguments.push_back("--use_fast_math");
  arguments.insert(arguments.end(), options.extra.begin(), options.extra.end());
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  const int status = nvrtc->compile_program(program.handle, static_cast<int>(pointers.size()), pointers.data());

  AssembledCuda result;
  result.log = program.log();
  if (status != 0) {
    return run_failure(
        fmt::format("NVRTC refused the kernel for {}: {}\n{}", architecture, error_name(*nvrtc, status), result.log),
        name);
  }
  std::size_t size = 0;
  if (const int failed = nvrtc->get_cubin_size(program.handle, &size); failed || size == 0) {
    return run_failure(fmt::format("NVRTC gave no device binary for {}\n{}", architecture, result.log), name);
  }
  result.cubin.resize(size);
  if (const int failed = nvrtc->get_cubin(program.handle, result.cubin.data())) {
    return run_failure(fmt::format("NVRTC gave no device binary: {}", error_name(*nvrtc, failed)), name);
  }
  parse_ptxas_log(result.log, result);
  result.log = without_times(result.log);
  return result;
}

}  // namespace aicf
