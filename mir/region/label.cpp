#include "mir/region/label.h"

#include <algorithm>

namespace aicf {

std::vector<std::string> state_labels(const StreamingRegion& region) {
  std::vector<std::string> labels;
  for (const Stream& s : region.streams) {
    for (const StateDecl& m : s.states) {
      if (m.reduce != ReduceOp::max && m.reduce != ReduceOp::maxnum) continue;
      // Sums about m alone: bare exponentials (one value), and products with one.
      std::string sums, accumulated;
      for (const RepairGroup& g : s.repairs) {
        if (g.references != std::vector<std::string>{m.name}) continue;
        for (const std::string& state : g.states) {
          auto update = std::ranges::find_if(
              s.step, [&](const StepStatement& x) { return x.kind == StepStatement::Kind::update && x.name == state; });
          if (update == s.step.end()) continue;
          std::string& list = update->body.op() == Op::value ? sums : accumulated;
          list += (list.empty() ? "" : ", ") + state;
        }
      }
      if (sums.empty()) continue;
      labels.push_back("online_softmax: " + m.name + ", " + sums +
                       (accumulated.empty() ? "" : "   accumulate: " + accumulated));
    }
  }
  return labels;
}

}  // namespace aicf
