#include "backends/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "backends/form_book.h"
#include "mir/graph/simplify.h"
#include "mir/memory/checker.h"
#include "mir/memory/plan.h"

namespace aicf {

namespace {

// Collects buffers, kernels and launches of the regions into one program.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const std::vector<Tensor>& constants, Program& program)
      : graph_(graph), constants_(constants), program_(program) {}

  int buffer(const std::string& name, const std::vector<ScratchBuffer>& scratch);
  /// `tensors`: what the kernel's buffers are called here.
  void launch(const Kernel& kernel, int index, const std::vector<std::string>& parameters,
              const std::map<std::string, std::string>& tensors, const std::vector<ScratchBuffer>& scratch,
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
    plan.scratch = true;
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

void ProgramBuilder::launch(const Kernel& kernel, int index, const std::vector<std::string>& parameters,
                            const std::map<std::string, std::string>& tensors,
                            const std::vector<ScratchBuffer>& scratch, const std::string& region) {
  Launch l;
  l.kernel = index;
  l.region = region;
  l.workgroups = kernel.workgroups;
  int at = static_cast<int>(program_.launches.size());
  for (const KernelBuffer& b : kernel.buffers) {
    int id = buffer(tensors.at(b.name), scratch);
    program_.buffers[id].last_use = at;
    l.buffers.push_back(id);
  }
  for (const std::string& p : parameters) l.parameters.push_back(Expr::symbol(p));
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

}  // namespace

Result<CompiledModel> compile(const Graph& graph, const std::vector<Tensor>& constants, const Target& target,
                              const CompileOptions& options) {
  CompiledModel out{graph, {}, {}, {}, {}, 0, 0};
  AICF_RETURN_IF_ERROR(verify(out.graph));
  // Moves become index maps, equal nodes become one: regions see only what computes.
  AICF_TRY([[maybe_unused]] int simplified, simplify_graph(out.graph));
  for (const auto pass : {split_reductions, join_parts})
    while (options.fuse && pass(out.graph) > 0) {
      AICF_TRY([[maybe_unused]] int again, simplify_graph(out.graph));
    }
  if (const double most = target.model.value_or("max_arguments", 0); most > 1)
    split_wide(out.graph, static_cast<std::size_t>(most) - 1);
  AICF_RETURN_IF_ERROR(verify(out.graph));

  FormOptions form;
  form.fuse = options.fuse;
  form.row_capacity = static_cast<std::int64_t>(target.model.value_or("row_capacity", 520));
  // What is computed together rests on the best schedules; forced choices then act on the regions that result.
  ScheduleOptions free_choice = options.schedule;
  free_choice.forced.clear();
  FormBook book(out.graph, target, options.schedule, options.refused);
  FormBook free_book(out.graph, target, free_choice, options.refused);
  int weighed = 0;
  form.cost = [&](const StreamingRegion& region) -> Result<double> {
    if (options.progress) options.progress("schedules", weighed++, 0);
    AICF_TRY(std::vector<Schedule> ranked, (options.schedule.forced.empty() ? book : free_book).ranked(region));
    // What is computed together does not depend on what compilers cost: the quickest to run, not the first of the list.
    double running = std::numeric_limits<double>::infinity();
    for (const Schedule& s : ranked) running = std::min(running, s.predicted.total - s.predicted.compiling);
    return running;
  };
  AICF_TRY(RegionPlan plan, form_regions(out.graph, form));
  out.refusals = std::move(plan.refusals);
  out.cuts = std::move(plan.cuts);

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
    AICF_TRY(FormBook::Chosen chosen, book.choose(p.streaming));
    const FormKernels& kernels = *chosen.kernels;
    CompiledRegion compiled{std::move(p.region), std::move(chosen.schedule), kernels.region, {}, kernels.sources, {}};
    AICF_TRY(PlacementPlan placement, plan_placement(compiled.chosen.scheduled, compiled.chosen.lowered));
    AICF_RETURN_IF_ERROR(
        check_placement(placement, static_cast<std::int64_t>(target.model.value_or(
                                       "shared_per_block", target.model.value_or("workgroup_memory", 16384)))));
    for (std::size_t i = 0; i < kernels.tensors.size(); ++i)
      compiled.tensors[kernels.tensors[i]] = chosen.form.tensors[i];
    const std::vector<ScratchBuffer>& scratch = compiled.chosen.lowered.scratch;
    for (std::size_t i = 0; i < scratch.size(); ++i)
      compiled.tensors[kernels.lowered.scratch[i].name] = scratch[i].name;
    for (std::size_t k = 0; k < kernels.programs.size(); ++k) {
      auto [it, inserted] = by_source.try_emplace(kernels.sources[k], static_cast<int>(by_source.size()));
      ++out.launches;
      builder.launch(kernels.lowered.kernels[k], it->second, kernels.programs[k].symbols, compiled.tensors, scratch,
                     compiled.region.name);
      if (!options.assemble) continue;
      if (inserted) {
        AICF_TRY(KernelBinary binary,
                 target.backend->assemble(kernels.programs[k], kernels.sources[k], target.model, target.kind));
        binary.source = kernels.sources[k];
        program.kernels.push_back(std::move(binary));
      }
      compiled.binaries.push_back(program.kernels[it->second].compiler_log);
    }
    out.regions.push_back(std::move(compiled));
  }
  out.kernels = static_cast<int>(by_source.size());
  for (const NodeId id : out.graph.topological_order()) {
    const Node& n = out.graph.node(id);
    if (n.kind == NodeKind::input) program.inputs.push_back({n.name, n.type, n.shape()});
  }
  // An output that no launch writes is an input or a constant handed through.
  for (const Graph::Output& o : out.graph.outputs()) {
    const std::string& name = out.graph.node(o.node).name;
    program.outputs.push_back({name, builder.buffer(name, {})});
  }
  return out;
}

void set_interface(Program& program, const Interface& interface) {
  program.outputs.clear();
  for (const auto& [name, node] : interface.outputs) {
    const auto buffer = std::ranges::find(program.buffers, node, &BufferPlan::name);
    AICF_CHECK(buffer != program.buffers.end(), "no buffer holds the output " + name);
    program.outputs.push_back({name, static_cast<int>(buffer - program.buffers.begin())});
  }
  std::set<std::string> symbols(program.symbols.begin(), program.symbols.end());
  for (const Signature& input : interface.inputs)
    for (const Expr& dim : input.shape) symbols.merge(symbols_of(dim));
  program.symbols.assign(symbols.begin(), symbols.end());
  program.inputs = interface.inputs;
  program.constraints = interface.constraints;
  program.indices = interface.indices;
  program.must_be_false = interface.must_be_false;
}

}  // namespace aicf
