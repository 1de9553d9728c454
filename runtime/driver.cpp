#include "runtime/driver.h"

namespace aicf {

Result<std::vector<std::unique_ptr<LoadedKernel>>> Device::load_all(std::span<const KernelBinary> kernels) {
  std::vector<std::unique_ptr<LoadedKernel>> out;
  for (const KernelBinary& k : kernels) {
    AICF_TRY(auto loaded, load(k));
    out.push_back(std::move(loaded));
  }
  return out;
}

}  // namespace aicf
