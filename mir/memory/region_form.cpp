#include "mir/memory/region_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "mir/memory/rename.h"

namespace aicf {

namespace {

// Statements in the order in which they run.
template <class Region, class Visit>
void for_each_statement(Region& region, const Visit& visit) {
  for (auto& s : region.prologue) visit(s);
  for (auto& stream : region.streams) {
    for (auto& s : stream.step) visit(s);
    for (auto& s : stream.finish) visit(s);
  }
  for (auto& s : region.epilogue) visit(s);
}

}  // namespace

void order_tiles(StreamingRegion& region) {
  std::map<std::string, std::size_t> first_use;
  std::map<std::string, const TileDecl*> tiles;
  for (const TileDecl& t : region.tiles) tiles[t.name] = &t;
  for (const Stream& s : region.streams)
    for (const TileDecl& t : s.tiles) tiles[t.name] = &t;
  const std::function<void(const Expr&)> use = [&](const Expr& e) {
    if (!e) return;
    for_each(e, [&](const Expr& x) {
      if (x.op() != Op::value || !first_use.try_emplace(x.name(), first_use.size()).second) return;
      auto tile = tiles.find(x.name());
      if (tile == tiles.end()) return;
      for (const Expr& i : tile->second->index) use(i);
      use(tile->second->guard);
    });
  };
  for_each_statement(region, [&](const StepStatement& s) {
    use(s.body);
    for (const Expr& i : s.index) use(i);
  });
  auto place = [&](const TileDecl& t) {
    auto it = first_use.find(t.name);
    return it == first_use.end() ? first_use.size() : it->second;
  };
  std::ranges::stable_sort(region.tiles, {}, place);
  for (Stream& s : region.streams) std::ranges::stable_sort(s.tiles, {}, place);
}

RegionForm form_of(const StreamingRegion& region) {
  RegionForm form;
  StreamingRegion r = region;
  r.name = "region";
  r.kind = RegionKind::map;
  r.origin.clear();
  r.certificate = {};
  std::map<std::string, std::string> values, tensors;
  auto add = [](std::map<std::string, std::string>& names, std::vector<std::string>& order, const std::string& name) {
    if (names.try_emplace(name, fmt::format("#{}", order.size())).second) order.push_back(name);
  };
  auto value = [&](const std::string& n) { add(values, form.values, n); };
  auto tensor = [&](const std::string& n) { add(tensors, form.tensors, n); };
  auto tile = [&](const TileDecl& t) {
    value(t.name);
    tensor(t.tensor);
  };
  for (const TileDecl& t : r.tiles) tile(t);
  for (Stream& s : r.streams) {
    for (const TileDecl& t : s.tiles) tile(t);
    for (const StateDecl& d : s.states) value(d.name);
    for (RepairGroup& g : s.repairs) g.law.clear();
  }
  for_each_statement(r, [&](StepStatement& s) {
    s.origin.clear();
    s.kind == StepStatement::Kind::store ? tensor(s.name) : value(s.name);
  });
  rename_values(r, values);
  rename_tensors(r, tensors);
  form.text = to_string(r);
  return form;
}

}  // namespace aicf
