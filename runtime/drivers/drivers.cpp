#include <fmt/format.h>

#include <algorithm>

#include "runtime/cuda/driver.h"
#include "runtime/cuda_emulation/driver.h"
#include "runtime/driver.h"
#include "runtime/null/driver.h"
#include "runtime/vulkan/driver.h"

namespace aicf {

std::span<Driver* const> drivers() {
  static Driver* const all[] = {
      &vulkan_driver(),
      &cuda_driver(),
      &cuda_emulation_driver(),
      &null_driver(),
  };
  return all;
}

Result<std::unique_ptr<Device>> open_device(const std::string& id) {
  auto colon = id.find(':');
  std::string driver = id.substr(0, colon), selector = colon == std::string::npos ? "" : id.substr(colon + 1);
  std::ranges::replace(driver, '-', '_');
  std::string known;
  for (Driver* d : drivers()) {
    if (d->name() == driver) return d->open(selector);
    std::string shown = d->name();
    std::ranges::replace(shown, '_', '-');
    known += known.empty() ? shown : ", " + shown;
  }
  return bad_input(fmt::format("no driver '{}' for device '{}'; known: {}", driver, id, known));
}

}  // namespace aicf
