#include "runtime/driver.h"

namespace aicf {

Result<std::vector<std::unique_ptr<LoadedKernel>>> Device::load_all(std::span<const KernelBinary> kernels,
                                                                    std::size_t* failed) {
  std::vector<std::unique_ptr<LoadedKernel>> out;
  for (const KernelBinary& k : kernels) {
    if (failed) *failed = out.size();
    AICF_TRY(auto loaded, load(k));
    out.push_back(std::move(loaded));
  }
  return out;
}

}  // namespace aicf
