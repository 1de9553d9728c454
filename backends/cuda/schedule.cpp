#include <algorithm>
#include <cmath>

#include "backends/cuda/backend.h"

namespace aicf {

ScheduleSpace cuda_space(const DeviceModel& model) {
  ScheduleSpace space;
  space.subgroup_size = 32;
  space.subgroups = {1, 2, 4, 8};
  space.register_budget = static_cast<int>(model["register_budget"]);
  space.workgroup_bytes = static_cast<std::int64_t>(model["shared_per_block"]);
  space.shared_delivery = {Delivery::workgroup, Delivery::lane_broadcast};
  space.row_registers = {1, 2, 4, 8};
  space.step_registers = {1, 4, 8, 16, 32};
  space.row_padding = 4;
  space.splits = {1, 2, 4, 8, 16};
  space.split_below = 2 * model["units"];
  space.most = 64;
  return space;
}

double blocks_per_unit(double registers_per_thread, int warps_per_block, double shared_bytes, const DeviceModel& m) {
  double granule = m["register_granule_per_warp"];
  double per_warp = std::ceil(std::min(registers_per_thread, m["registers_most"]) * 32 / granule) * granule;
  double warps = 4 * std::floor(m["registers_per_unit"] / 4 / per_warp);
  double blocks = std::floor(warps / warps_per_block);
  blocks = std::min({blocks, m["blocks_per_unit"], std::floor(m["threads_per_unit"] / (32.0 * warps_per_block))});
  if (shared_bytes > 0)
    blocks = std::min(blocks, std::floor(m["shared_per_unit"] /
                                         (std::ceil(shared_bytes / 128) * 128 + m["shared_reserved_per_block"])));
  return blocks;
}

PredictedCost cuda_cost(std::span<const StaticCounts> kernels, const DeviceModel& m) {
  PredictedCost cost;
  auto& us = cost.microseconds;
  for (const StaticCounts& k : kernels) {
    const double warps = k.workgroups * k.subgroups, clk = m["ghz"] * 1000.0 * m["units"];
    double adds = k["op.add"], muls = k["op.mul"];
    double fp = std::max(adds, muls) + k["op.select"] + 6 * k["op.div"] + 2 * k["op.exp"];
    double issue = fp + k["op.integer"] + k["iteration"] * 3;
    double shared = 0, accesses = 0;
    for (const auto& [key, n] : k.counts) {
      double width = key[key.size() - 2] == 'w' ? key.back() - '0' : 1;
      if (key.starts_with("load.") || key.starts_with("store.")) accesses += n, issue += n;
      if (key.starts_with("shared_"))
        shared += n * (width == 4 ? 2.0 : 1.0),
            issue += n;  // a broadcast moves one 128-byte wavefront, 16-byte reads up to four
      if (key.starts_with("shuffle.")) shared += n, issue += n;
    }
    double bytes = (k["bytes.read"] + k["bytes.written"]) * warps;
    double alu = fp * 32 * warps / (m["fma_per_clk"] * clk);
    double exp = (k["op.exp"] + k["op.div"]) * 32 * warps / (m["exp_per_clk"] * clk);
    double lds = shared * 128 * warps / (m["shared_bytes_per_clk"] * clk);
    double slots_us = issue * warps / (m["issue_per_clk"] * clk);
    double l2 = bytes / (m["l2_gb_s"] * 1000.0);
    double registers = k.live + 24;
    double blocks = blocks_per_unit(registers, k.subgroups, static_cast<double>(k.shared_bytes), m);
    double stretch = 1;
    if (blocks < 1) stretch = 100;  // does not fit
    double resident = std::max(1.0, blocks) * k.subgroups;
    double wave = std::max(1.0, blocks) * m["units"];
    double fill = k.workgroups / (std::ceil(k.workgroups / wave) * wave);
    double parallel = std::min(1.0, k.workgroups * k.subgroups / (m["units"] * 4));
    stretch /=
        std::min(1.0, std::max(0.2, resident / m["latency_warps"])) * std::max(0.05, std::max(fill, 0.5 * parallel));
    if (registers > m["registers_most"]) stretch *= 1 + (registers - m["registers_most"]) / 64;  // spills
    us["multiply-add"] += alu * stretch;
    us["exp"] += exp * stretch;
    us["shared memory"] += lds * stretch;
    us["issue"] += slots_us * stretch;
    us["memory"] += std::max(l2, accesses * 4 * warps / clk) * stretch;
    us["launch"] += m["launch_us"];
  }
  double busiest = 0, rest = 0;
  for (const auto& [cause, t] : us) {
    if (cause == "launch") continue;
    rest += t;
    if (t > busiest) busiest = t, cost.limit = cause;
  }
  if (cost.limit.empty() || us["launch"] > busiest) cost.limit = "launch";
  cost.total = busiest + 0.2 * (rest - busiest) + us["launch"];
  return cost;
}

}  // namespace aicf
