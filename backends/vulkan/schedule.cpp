#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/vulkan/backend.h"

namespace aicf {

ScheduleSpace vulkan_space(const DeviceModel& model) {
  ScheduleSpace space;
  space.subgroup_size = model.subgroup_sizes.empty() ? 32 : model.subgroup_sizes.front();
  space.register_budget = static_cast<int>(model["register_budget"]);
  space.workgroup_bytes = static_cast<std::int64_t>(model["workgroup_memory"]);
  int most = static_cast<int>(model.value_or("subgroups_most", 4));
  space.splits = {1, 2, 4, 8};
  space.split_below = 16 * model["units"];
  most = std::min(most, static_cast<int>(model["max_invocations"]) / space.subgroup_size);
  space.subgroups = {1};
  for (int s = 2; s <= most; s *= 2) space.subgroups.push_back(s);
  if (!model.features.contains("instruction_model") || !model.features.at("instruction_model")) space.row_padding = 1;
  return space;
}

namespace {

// Instructions of a subgroup that are decoded anew each time: a loop body (or a kernel without a loop, repeated for every
// work item) that outgrows the CPU's cache of decoded instructions runs at the decoder's pace.
double fetched(const StaticCounts& k, const DeviceModel& m) {
  double instructions = 0, loads = 0;
  for (const auto& [key, n] : k.counts) {
    if (key.starts_with("op.") || key.starts_with("shuffle.")) instructions += n;
    if (key.starts_with("load.")) loads += n;
  }
  double body = (instructions + loads * m["instructions_per_load"]) / std::max(1.0, k["iteration"]);
  double held = m["loop_instructions"];
  return instructions * std::clamp((body - held) / (0.5 * held), 0.0, 1.0);
}

// A CPU executes one subgroup's instructions after another: times add up. A multiply-add costs more when more values are
// live than the vector registers hold.
PredictedCost instruction_cost(std::span<const StaticCounts> kernels, const DeviceModel& m, bool first_run) {
  PredictedCost cost;
  auto& us = cost.microseconds;
  for (const StaticCounts& k : kernels) {
    double live = k.live;
    double low = m["ns.muladd.live16"], middle = m["ns.muladd.live128"], high = m["ns.muladd.live256"];
    double muladd = live <= 16    ? low
                    : live <= 128 ? low + (middle - low) * (live - 16) / 112
                                  : middle + (high - middle) * std::min(1.5, (live - 128) / 128);
    double scale = k.workgroups * k.subgroups / m["units"] / 1000.0;
    // Few work items: the driver's threads share them unevenly (8 took 2.8 times as long as the same work in 16).
    double full = m["units"] * m["workgroups_per_unit"];
    if (k.workgroups < full) scale *= std::min(m["units"], full / std::max(1.0, k.workgroups));
    for (const auto& [key, n] : k.counts) {
      std::string kind = key.substr(0, key.find('.'));
      if (kind == "load") us["global loads"] += n * m["ns." + key] * scale;
      if (kind == "store") {
        double usual = m["ns.store" + key.substr(key.rfind('.'))];
        us["global stores"] += n * m.value_or("ns." + key, usual) * scale;
      }
      if (kind == "shared_load" || kind == "shared_store") us["workgroup memory"] += n * m["ns." + key] * scale;
      if (kind == "shuffle") us["shuffles"] += n * m["ns." + key] * scale;
      if (key == "barrier") us["barriers"] += n * m["ns.barrier"] * scale;
      if (key == "iteration") us["loops"] += n * (m["ns.iteration"] + m["ns.iteration_value"] * live) * scale;
    }
    us["memory"] += std::max(0.0, k.buffer_bytes - m["cache_bytes"]) * m["ns.memory_byte"] / m["units"] / 1000.0;
    // A lone addition or multiplication uses half of what a pair does.
    us["multiply-add"] += 0.5 * (k["op.add"] + k["op.mul"]) * muladd * scale;
    us["instruction fetch"] += fetched(k, m) * m["ns.fetch"] * scale;
    us["exp"] += k["op.exp"] * m["ns.op.exp"] * scale;
    us["other arithmetic"] +=
        (k["op.div"] * m["ns.op.div"] + k["op.select"] * m["ns.op.select"] + k["op.integer"] * m["ns.op.integer"]) *
        scale;
    us["launch"] += (m["ns.launch"] + k.workgroups * m["ns.workgroup"]) / 1000.0;
    double jit =
        (k["static.load"] * m["jit_ms.load"] + k["static.store"] * m["jit_ms.store"] + k["static.op"] * m["jit_ms.op"] +
         k["static.shuffle"] * m["jit_ms.shuffle"] + k["static.shared"] * m["jit_ms.shared"]) *
        1000.0;
    cost.compiling += first_run ? jit : jit / m["first_run_repeats"];
    us["driver compile"] = cost.compiling;
  }
  return cost;
}

// A GPU overlaps: the busiest resource decides, stretched where occupancy cannot hide latency or the grid leaves units idle.
PredictedCost roofline_cost(std::span<const StaticCounts> kernels, const DeviceModel& m) {
  PredictedCost cost;
  auto& us = cost.microseconds;
  for (const StaticCounts& k : kernels) {
    double subgroups = k.workgroups * k.subgroups, threads = k.subgroup_size;
    double clk = m["ghz"] * 1000.0;  // clocks per microsecond
    double fma = std::max(k["op.add"], k["op.mul"]) + 0.5 * (k["op.select"] + k["op.integer"]) + 4 * k["op.div"];
    double accesses = 0, shared = 0;
    for (const auto& [key, n] : k.counts) {
      double width = key.size() > 2 && key[key.size() - 2] == 'w' ? key.back() - '0' : 1;
      if (key.starts_with("load.") || key.starts_with("store.")) accesses += n * width;
      if (key.starts_with("shared_")) shared += n * width;
    }
    double bytes = (k["bytes.read"] + k["bytes.written"]) * subgroups;
    double alu = fma * threads * subgroups / (m["f32_fma_per_clk_per_unit"] * m["units"] * clk);
    double exp = k["op.exp"] * threads * subgroups / (m["exp_per_clk_per_unit"] * m["units"] * clk);
    double lds =
        (shared * 4 * threads + (k["shuffle.constant"] + k["shuffle.xor"] + k["shuffle.dynamic"]) * 4 * threads) *
        subgroups / (m["shared_bytes_per_clk_per_unit"] * m["units"] * clk);
    double l2 = bytes / (m["l2_gb_s"] * 1000.0);
    double issue = accesses * 4 * subgroups / (m["units"] * clk);
    // Registers decide how many waves hide latency; workgroup memory how many workgroups fit.
    double granule = m["register_granule"];
    double per_thread = std::ceil((k.live + 24) / granule) * granule;
    double waves = std::min(m["waves_per_unit"], std::floor(m["registers_per_unit"] / (per_thread * threads)));
    if (k.shared_bytes > 0)
      waves = std::min(waves,
                       std::floor(m["workgroup_memory_per_unit"] / static_cast<double>(k.shared_bytes)) * k.subgroups);
    double hiding = std::min(1.0, std::max(0.25, waves / m["latency_waves"]));
    if (per_thread > m["registers_most"]) hiding *= m["registers_most"] / per_thread * 0.5;
    double slots = m["units"] * std::max(1.0, waves / k.subgroups);
    double fill = k.workgroups / (std::ceil(k.workgroups / slots) * slots);
    fill = std::max(fill, std::min(1.0, k.workgroups / m["units"]) * 0.5);
    double stretch = 1.0 / (hiding * std::max(fill, 0.02));
    us["multiply-add"] += alu * stretch;
    us["exp"] += exp * stretch;
    us["workgroup memory"] += lds * stretch;
    us["memory"] += std::max(l2, issue) * stretch;
    us["launch"] += m["launch_us"];
  }
  return cost;
}

}  // namespace

PredictedCost vulkan_cost(std::span<const StaticCounts> kernels, const DeviceModel& model, bool first_run) {
  // Some drivers end every loop of a thread after so many iterations in all: such a schedule computes something else.
  const double most = model.value_or("most_iterations", std::numeric_limits<double>::infinity());
  for (const StaticCounts& k : kernels)
    if (k["iteration"] >= most) return {{}, std::numeric_limits<double>::infinity(), 0, "loop iterations"};
  for (const StaticCounts& k : kernels)
    if (k.buffers > model.value_or("max_arguments", k.buffers))
      return {{}, std::numeric_limits<double>::infinity(), 0, "buffers"};

  bool sum = model.features.contains("instruction_model") && model.features.at("instruction_model");
  PredictedCost cost = sum ? instruction_cost(kernels, model, first_run) : roofline_cost(kernels, model);
  double largest = -1;
  for (const auto& [cause, us] : cost.microseconds) {
    bool overlaps = !sum && cause != "launch";
    if (us > largest) largest = us, cost.limit = cause;
    cost.total = overlaps ? cost.total : cost.total + us;
  }
  if (!sum) {
    double busiest = 0, rest = 0;
    for (const auto& [cause, us] : cost.microseconds)
      if (cause != "launch") busiest = std::max(busiest, us), rest += us;
    cost.total += busiest + 0.2 * (rest - busiest);  // overlap is never complete
  }
  return cost;
}

}  // namespace aicf
