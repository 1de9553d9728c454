#pragma once

// What a schedule may rest on: one device as one compiler sees it. Profiles are JSON files beside each backend; every
// figure says where it is from.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mir/support/result.h"

namespace aicf {

/// A figure with its source: "m" measured, "v" vendor, "d" derived, "k" common knowledge to be confirmed.
struct Figure {
  double value = 0;
  char source = 'k';
};

struct MatrixShape {
  int m = 0, n = 0, k = 0;
  std::string a, c;  ///< element types: "f16", "f32"
};

struct DeviceModel {
  std::string name;     ///< "lavapipe", "sm_80"
  std::string backend;  ///< "vulkan", "cuda"
  std::string title;    ///< "lavapipe (Mesa 25, LLVM 15)"
  std::map<std::string, Figure> figures;
  std::vector<int> subgroup_sizes;
  std::vector<MatrixShape> matrix_shapes;
  std::map<std::string, bool> features;  ///< "shader_f16", "storage_16bit", …
  std::vector<std::string> quirks;

  /// Value of a figure; a missing one is a bug of the profile and aborts with its name.
  double operator[](const std::string& figure) const;
  double value_or(const std::string& figure, double otherwise) const;
};

/// Reads a profile. Errors name file and key.
Result<DeviceModel> parse_device_model(const std::string& json, const std::string& place);

}  // namespace aicf
