#pragma once

// A compute pipeline ready to dispatch.

#include <memory>
#include <string>

#include "runtime/vulkan/context.h"

namespace aicf::vulkan {

class Kernel final : public LoadedKernel {
 public:
  /// Errors: refused, naming the kernel and what module or limit the device does not take.
  static Result<void> fits(const PhysicalDevice& device, const KernelBinary& binary);
  /// Thread-safe. Errors: refused, as fits() or with what the driver says; run_failure when the device fails.
  static Result<std::unique_ptr<Kernel>> create(std::shared_ptr<Context> context, const KernelBinary& binary);

  const std::string& name() const { return name_; }
  VkPipeline pipeline() const { return pipeline_.get(); }
  const Layout& layout() const { return *layout_; }
  std::uint32_t arguments() const { return arguments_; }
  std::uint32_t parameters() const { return parameters_; }  ///< Without the workgroup count.
  const std::string& argument_name(std::size_t i) const { return argument_names_[i]; }

  /// Latest measured device time of one workgroup in nanoseconds; 0 = not measured yet. Only the thread that runs the
  /// device touches it.
  double workgroup_nanoseconds() const { return workgroup_nanoseconds_; }
  void set_workgroup_nanoseconds(double value) const { workgroup_nanoseconds_ = value; }

 private:
  Kernel() = default;
  std::shared_ptr<Context> context_;
  std::string name_;
  std::vector<std::string> argument_names_;
  const Layout* layout_ = nullptr;
  Owned<VkPipeline> pipeline_;
  std::uint32_t arguments_ = 0, parameters_ = 0;
  mutable double workgroup_nanoseconds_ = 0;
};

}  // namespace aicf::vulkan
