#include "backends/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "mir/graph/simplify.h"
#include "mir/kernel/print_source.h"
#include "mir/memory/checker.h"
#include "mir/memory/plan.h"
#include "mir/memory/rename.h"

namespace aicf {

namespace {

// Collects buffers, kernels and launches of the regions into one program.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const std::vector<Tensor>& constants, Program& program)
      : graph_(graph), constants_(constants), program_(program) {}

  int buffer(const std::string& name, const std::vector<ScratchBuffer>& scratch);
  void launch(const Kernel& kernel, int index, const KernelBinary& binary, const std::vector<ScratchBuffer>& scratch,
              const std::string& region);

 private:
  const Graph& graph_;
  const std::vector<Tensor>& constants_;
  Program& program_;
  std::map<std::string, int> buffers_;
  std::map<int, int> constant_of_;
};

int ProgramBuilder::buffer(const std::string& name, const std::vector<ScratchBuffer>& scratch) {
  if (auto it = buffers_.find(name); it != buffers_.end()) return it->second;
  BufferPlan plan;
  plan.name = name;
  auto s = std::ranges::find(scratch, name, &ScratchBuffer::name);
  if (s != scratch.end()) {
    plan.type = s->type;
    plan.shape = s->shape;
  } else {
    const Node& n = graph_.node(name);
    plan.type = n.type;
    plan.shape = n.shape();
    if (n.kind == NodeKind::input) plan.kind = BufferPlan::Kind::input;
    if (n.kind == NodeKind::constant) {
      plan.kind = BufferPlan::Kind::constant;
      auto [it, inserted] = constant_of_.try_emplace(n.constant, static_cast<int>(program_.constants.size()));
      if (inserted) program_.constants.push_back(constants_[n.constant]);
      plan.constant = it->second;
    }
    if (n.kind == NodeKind::compute && graph_.is_output(n.id)) plan.kind = BufferPlan::Kind::output;
  }
  plan.first_use = plan.last_use = static_cast<int>(program_.launches.size());
  program_.buffers.push_back(std::move(plan));
  return buffers_[name] = static_cast<int>(program_.buffers.size()) - 1;
}

void ProgramBuilder::launch(const Kernel& kernel, int index, const KernelBinary& binary,
                            const std::vector<ScratchBuffer>& scratch, const std::string& region) {
  Launch l;
  l.kernel = index;
  l.region = region;
  l.workgroups = kernel.workgroups;
  int at = static_cast<int>(program_.launches.size());
  for (const KernelBuffer& b : kernel.buffers) {
    int id = buffer(b.name, scratch);
    program_.buffers[id].last_use = at;
    l.buffers.push_back(id);
  }
  for (const std::string& p : binary.parameters) l.parameters.push_back(Expr::symbol(p));
  program_.launches.push_back(std::move(l));
}

// A forced choice must name a tile or axis of some region.
Result<void> check_forced(const RegionPlan& plan, const std::map<std::string, std::string>& forced) {
  std::set<std::string> tiles, axes;
  for (const PlannedRegion& p : plan.regions) {
    for (const Axis& a : p.streaming.axes) axes.insert(a.name);
    for (const TileDecl& t : p.streaming.tiles) tiles.insert(t.name);
    for (const Stream& s : p.streaming.streams)
      for (const TileDecl& t : s.tiles) tiles.insert(t.name);
  }
  for (const auto& [key, value] : forced) {
    auto dot = key.find('.');
    if (dot == std::string::npos) continue;
    const bool axis = key.substr(0, dot) == "tile";
    const std::string name = key.substr(dot + 1);
    if (!(axis ? axes : tiles).contains(name))
      return bad_input(fmt::format("--schedule {}: no region has {} '{}'; there are: {}", key,
                                   axis ? "an axis" : "a tile", name, fmt::join(axis ? axes : tiles, ", ")));
  }
  return {};
}

// The search for schedules, once per form: regions that differ only in names share it.
class ScheduleBook {
 public:
  ScheduleBook(const Target& target, const ScheduleOptions& options) : target_(target), options_(options) {}

  /// Best first, in the region's own names.
  Result<std::vector<Schedule>> ranked(const StreamingRegion& region) {
    Form form = form_of(region);
    auto [it, inserted] = known_.try_emplace(form.text);
    if (inserted) {
      auto found = target_.backend->choose_schedule(region, target_.model, options_);
      if (!found) {
        known_.erase(it);
        return std::unexpected(found.error());
      }
      for (ChosenSchedule& c : *found) it->second.push_back(with_names(c.scheduled.schedule, form.tiles, true));
    }
    std::vector<Schedule> out;
    for (const Schedule& s : it->second) out.push_back(with_names(s, form.tiles, false));
    return out;
  }

  /// The best that lowers.
  Result<ChosenSchedule> choose(const StreamingRegion& region) {
    AICF_TRY(std::vector<Schedule> schedules, ranked(region));
    Diagnostic last;
    for (Schedule& s : schedules) {
      ChosenSchedule out{{region, std::move(s)}, {}, {}};
      auto lowered = lower(out.scheduled);
      if (!lowered) {
        last = lowered.error();
        continue;
      }
      out.lowered = std::move(*lowered);
      for (const Kernel& k : out.lowered.kernels) {
        auto program = expand(k);
        if (!program) return std::unexpected(program.error());
        out.programs.push_back(std::move(*program));
      }
      return out;
    }
    return std::unexpected(last);
  }

 private:
  struct Form {
    std::string text;                ///< the region's text under neutral names
    std::vector<std::string> tiles;  ///< own names, in order of declaration
  };

  static Form form_of(const StreamingRegion& region) {
    Form form;
    StreamingRegion r = region;
    r.name = "region";
    r.kind = RegionKind::map;
    r.origin.clear();
    r.certificate = {};
    std::map<std::string, std::string> values, tensors;
    auto tensor = [&](std::string& t) {
      t = tensors.try_emplace(t, fmt::format("tensor{}", tensors.size())).first->second;
    };
    auto tile = [&](TileDecl& t) {
      form.tiles.push_back(t.name);
      values.try_emplace(t.name, fmt::format("value{}", values.size()));
      tensor(t.tensor);
    };
    auto statements = [&](std::vector<StepStatement>& list) {
      for (StepStatement& s : list) {
        s.origin.clear();
        if (s.kind == StepStatement::Kind::store)
          tensor(s.name);
        else
          values.try_emplace(s.name, fmt::format("value{}", values.size()));
      }
    };
    for (TileDecl& t : r.tiles) tile(t);
    statements(r.prologue);
    for (Stream& s : r.streams) {
      for (TileDecl& t : s.tiles) tile(t);
      for (StateDecl& d : s.states) values.try_emplace(d.name, fmt::format("value{}", values.size()));
      statements(s.step);
      statements(s.finish);
      for (RepairGroup& g : s.repairs) g.law.clear();
    }
    statements(r.epilogue);
    rename_values(r, values);
    form.text = to_string(r);
    return form;
  }

  // Tile names of a schedule to positions and back.
  static Schedule with_names(const Schedule& s, const std::vector<std::string>& tiles, bool neutral) {
    Schedule out = s;
    out.tiles.clear();
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      std::string position = fmt::format("#{}", i);
      auto it = s.tiles.find(neutral ? tiles[i] : position);
      if (it != s.tiles.end()) out.tiles[neutral ? position : tiles[i]] = it->second;
    }
    return out;
  }

  const Target& target_;
  const ScheduleOptions& options_;
  std::map<std::string, std::vector<Schedule>> known_;
};

}  // namespace

Result<CompiledModel> compile(const Graph& graph, const std::vector<Tensor>& constants, const Target& target,
                              const CompileOptions& options) {
  CompiledModel out{graph, {}, {}, {}};
  AICF_RETURN_IF_ERROR(verify(out.graph));
  // Moves become index maps, equal nodes become one: regions see only what computes.
  AICF_TRY([[maybe_unused]] int simplified, simplify_graph(out.graph));
  AICF_RETURN_IF_ERROR(verify(out.graph));

  FormOptions form;
  form.fuse = options.fuse;
  form.row_capacity = static_cast<std::int64_t>(target.model.value_or("row_capacity", 520));
  // What is computed together rests on the best schedules; forced choices then act on the regions that result.
  ScheduleOptions free_choice = options.schedule;
  free_choice.forced.clear();
  ScheduleBook book(target, options.schedule), free_book(target, free_choice);
  form.cost = [&](const StreamingRegion& region) -> Result<double> {
    AICF_TRY(std::vector<Schedule> ranked, (options.schedule.forced.empty() ? book : free_book).ranked(region));
    return ranked.front().predicted.total;
  };
  AICF_TRY(RegionPlan plan, form_regions(out.graph, form));
  out.refusals = std::move(plan.refusals);

  Program& program = out.program;
  program.target = target.model.name;
  program.driver = target.driver;
  program.symbols = out.graph.symbols();
  ProgramBuilder builder(out.graph, constants, program);
  std::map<std::string, int> by_source;
  int done = 0;
  AICF_RETURN_IF_ERROR(check_forced(plan, options.schedule.forced));
  for (PlannedRegion& p : plan.regions) {
    if (options.progress) options.progress(p.region.name, done++, static_cast<int>(plan.regions.size()));
    AICF_TRY(ChosenSchedule chosen, book.choose(p.streaming));
    CompiledRegion compiled{std::move(p.region), std::move(chosen), {}, {}};
    AICF_TRY(PlacementPlan placement, plan_placement(compiled.chosen.scheduled, compiled.chosen.lowered));
    AICF_RETURN_IF_ERROR(
        check_placement(placement, static_cast<std::int64_t>(target.model.value_or(
                                       "shared_per_block", target.model.value_or("workgroup_memory", 16384)))));
    for (std::size_t k = 0; k < compiled.chosen.programs.size(); ++k) {
      const ThreadProgram& thread = compiled.chosen.programs[k];
      AICF_RETURN_IF_ERROR(can_emit(thread));
      std::string source = target.backend->emit(thread, target.model);
      int index = -1;
      if (options.assemble) {
        auto [it, inserted] = by_source.try_emplace(source, static_cast<int>(program.kernels.size()));
        index = it->second;
        if (inserted) {
          AICF_TRY(KernelBinary binary, target.backend->assemble(thread, source, target.model, target.kind));
          binary.source = source;
          program.kernels.push_back(std::move(binary));
        }
        compiled.binaries.push_back(program.kernels[index].compiler_log);
        builder.launch(compiled.chosen.lowered.kernels[k], index, program.kernels[index],
                       compiled.chosen.lowered.scratch, compiled.region.name);
      }
      compiled.sources.push_back(std::move(source));
    }
    out.regions.push_back(std::move(compiled));
  }
  // Graph outputs that no launch writes are inputs or constants handed through: the executor copies them.
  for (const Graph::Output& o : out.graph.outputs()) builder.buffer(out.graph.node(o.node).name, {});
  return out;
}

}  // namespace aicf
