#include "mir/hardware/device_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace aicf {

double DeviceModel::operator[](const std::string& figure) const {
  auto it = figures.find(figure);
  AICF_CHECK(it != figures.end(), fmt::format("profile '{}' has no figure '{}'", name, figure));
  return it->second.value;
}

double DeviceModel::value_or(const std::string& figure, double otherwise) const {
  auto it = figures.find(figure);
  return it == figures.end() ? otherwise : it->second.value;
}

Result<DeviceModel> parse_device_model(const std::string& json, const std::string& place) {
  auto root = nlohmann::json::parse(json, nullptr, false);
  if (root.is_discarded() || !root.is_object()) return bad_input("a device profile is one JSON object", place);
  DeviceModel m;
  auto text = [&](const char* key, std::string& out) -> Result<void> {
    if (!root.contains(key) || !root[key].is_string())
      return bad_input(fmt::format("the profile needs the text '{}'", key), place);
    out = root[key].get<std::string>();
    return {};
  };
  AICF_RETURN_IF_ERROR(text("name", m.name));
  AICF_RETURN_IF_ERROR(text("backend", m.backend));
  AICF_RETURN_IF_ERROR(text("title", m.title));
  const auto figures = root.value("figures", nlohmann::json::object());
  for (const auto& [key, entry] : figures.items()) {
    // "figure": [value, "source"]
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number() || !entry[1].is_string() ||
        entry[1].get<std::string>().size() != 1)
      return bad_input(fmt::format("figure '{}' is not [number, \"m|v|d|k\"]", key), place);
    char source = entry[1].get<std::string>()[0];
    if (std::string_view("mvdk").find(source) == std::string_view::npos)
      return bad_input(fmt::format("figure '{}' has source '{}', not one of m, v, d, k", key, source), place);
    m.figures[key] = {entry[0].get<double>(), source};
  }
  for (const auto& s : root.value("subgroup_sizes", nlohmann::json::array())) {
    if (!s.is_number_integer()) return bad_input("'subgroup_sizes' holds integers", place);
    m.subgroup_sizes.push_back(s.get<int>());
  }
  for (const auto& s : root.value("matrix_shapes", nlohmann::json::array())) {
    if (!s.is_object()) return bad_input("'matrix_shapes' holds objects {m, n, k, a, c}", place);
    m.matrix_shapes.push_back(
        {s.value("m", 0), s.value("n", 0), s.value("k", 0), s.value("a", std::string()), s.value("c", std::string())});
  }
  const auto features = root.value("features", nlohmann::json::object());
  for (const auto& [key, value] : features.items()) m.features[key] = value.is_boolean() && value.get<bool>();
  for (const auto& q : root.value("quirks", nlohmann::json::array()))
    if (q.is_string()) m.quirks.push_back(q.get<std::string>());
  return m;
}

}  // namespace aicf
