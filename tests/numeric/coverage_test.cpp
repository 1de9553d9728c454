// What becomes of every model: tests/models/coverage.md holds a row for each, which this test makes and compares. A node of the
// model stands in a region or was folded; an attention is streamed or refused by a law.
//
// AICF_BLESS=1 writes the rows as they are. AICF_MODELS=FOLDER:… adds folders with an index.json of the same form whose models are
// not kept here; their rows stay as they are without it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "backends/registry.h"
#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

const std::string document = std::string(AICF_TESTS_DIR) + "/models/coverage.md";

constexpr const char* head = R"(# What becomes of the models

Made by `tests/numeric/coverage_test.cpp` (`AICF_BLESS=1` writes it); compiled for lavapipe, sizes left symbolic. *sites*: attentions in the model, counted by hand.
*streamed*: attentions whose scores are never in memory; a head one number wide and keys that are all one leave no product of rows to find (0, in one region). *regions*: kernels or pairs of a split kernel and its merge. *refused*: wider fusions that were
not made, by law. Every operation of every model here stands in a region or was folded while importing. Models below `other models` are not kept in the repository.

| model | sites | streamed | regions | refused |
|---|---|---|---|---|
)";

struct Known {
  std::string name, model, needs;
  int sites = 0;
};
void PrintTo(const Known& k, std::ostream* out) {
  *out << k.name;
}

std::vector<Known> models() {
  std::vector<Known> out;
  for (const CorpusCase& c : corpus()) out.push_back({c.name, c.model, c.needs, c.attention_sites});
  const char* more = std::getenv("AICF_MODELS");
  std::stringstream folders(more ? more : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::ifstream in(folder + "/index.json");
    const auto index = nlohmann::json::parse(in);
    for (const char* list : {"cases", "third_party"})
      for (const auto& c : index.value(list, nlohmann::json::array())) {
        const std::string name = c.at("name");
        if (std::ranges::find(out, name, &Known::name) != out.end() || c.value("kind", "numeric") == "must-refuse")
          continue;
        out.push_back({name, folder + (std::string(list) == "cases" ? "/" : "/third-party/") + name + "/model.onnx", "",
                       c.value("attention_sites", 0)});
      }
  }
  return out;
}

std::map<std::string, std::string> rows() {
  std::map<std::string, std::string> out;
  std::ifstream in(document);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("| ") && !line.starts_with("| model |")) out[line.substr(2, line.find(" |", 2) - 2)] = line;
  return out;
}

void write(const std::map<std::string, std::string>& all) {
  std::set<std::string> here;
  for (const CorpusCase& c : corpus()) here.insert(c.name);
  std::ofstream out(document);
  out << head;
  for (const auto& [name, row] : all)
    if (here.contains(name)) out << row << "\n";
  out << "\n## Other models\n\n| model | sites | streamed | regions | refused |\n|---|---|---|---|---|\n";
  for (const auto& [name, row] : all)
    if (!here.contains(name)) out << row << "\n";
}

class Coverage : public ::testing::TestWithParam<Known> {};

TEST_P(Coverage, IsWhatTheDocumentSays) {
  const Known& known = GetParam();
  if (!known.needs.empty() && !std::ifstream(known.needs))
    GTEST_SKIP() << known.needs << " is not there; tools/test fetches it";
  NUMERIC_TRY(const Model model, load_model(known.model));
  NUMERIC_TRY(const Target target, find_target("lavapipe"));
  NUMERIC_TRY(const CompiledModel compiled, compile(model.graph, model.constants, target, {}));

  std::set<std::string> placed(model.folded.begin(), model.folded.end());
  int regions = 0, scores = 0;  // several attentions may share a region, one may have several scores
  for (const CompiledRegion& r : compiled.regions) {
    placed.insert(r.region.origin.begin(), r.region.origin.end());
    const StreamingRegion& form = r.chosen.scheduled.region;
    if (!form.streams.empty()) {
      EXPECT_FALSE(form.certificate.entries.empty()) << "'" << r.region.name << "' streams without a certificate";
    }
    if (!r.region.roles || form.streams.empty()) continue;
    ++regions;
    for (const Stream& stream : form.streams)
      scores += static_cast<int>(std::ranges::count_if(
          stream.step, [](const StepStatement& x) { return x.kind == StepStatement::Kind::local && !x.over.empty(); }));
  }
  const int streamed = std::max(regions, std::min(scores, known.sites));
  for (const SemanticNode& n : model.semantic.nodes)
    EXPECT_TRUE(placed.contains(n.name)) << "'" << n.name << "' is in no region and was not folded";
  for (const CompiledRegion& r : compiled.regions)
    for (const RegionOutput& o : r.region.outputs) {
      const auto why = compiled.cuts.find(o.tensor);
      EXPECT_TRUE(why != compiled.cuts.end() && !why->second.law.empty())
          << "no reason why '" << o.tensor << "' is in memory";
    }
  std::map<std::string, int> laws;
  for (const Refusal& r : compiled.refusals) ++laws[r.law];
  std::vector<std::string> refused;
  for (const auto& [law, n] : laws) refused.push_back(n == 1 ? law : fmt::format("{} × {}", n, law));
  if (streamed < known.sites) {  // no product of rows is left: one region all the same
    EXPECT_FALSE(laws.empty() && static_cast<int>(compiled.regions.size()) > known.sites)
        << "an attention is not streamed and no law says why";
  }
  const std::string row = fmt::format("| {} | {} | {} | {} | {} |", known.name, known.sites, streamed,
                                      compiled.regions.size(), fmt::join(refused, ", "));
  std::map<std::string, std::string> all = rows();
  if (const char* bless = std::getenv("AICF_BLESS"); bless && std::string(bless) == "1") {
    all[known.name] = row;
    write(all);
    return;
  }
  EXPECT_EQ(all[known.name], row);
}

INSTANTIATE_TEST_SUITE_P(All, Coverage, ::testing::ValuesIn(models()),
                         [](const auto& info) { return test_name(info.param.name); });

}  // namespace
}  // namespace aicf::numeric
