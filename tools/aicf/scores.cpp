#include "tools/aicf/scores.h"

#include <algorithm>
#include <map>
#include <vector>

namespace aicf::command {

namespace {

using Names = std::set<std::string>;

/// What a node reads: the tensor, and the reader's axes that each of its dims depends on.
struct Read {
  std::string tensor;
  std::vector<Names> axes;
};

struct Reader {
  const Node* node;
  std::vector<Read> reads;
};

bool is_exp(const Node& node) {
  return node.kind == NodeKind::compute && node.body.op() == Op::exp;
}

Names all_of(const Read& read) {
  Names out;
  for (const Names& dim : read.axes) out.insert(dim.begin(), dim.end());
  return out;
}

bool any(const std::vector<Axis>& axes, const Names& names) {
  return std::ranges::any_of(axes, [&](const Axis& a) { return names.contains(a.name); });
}

/// One pairing of rows (of the first operand) with keys (of the second).
class Site {
 public:
  Site(const Graph& graph, const std::vector<Reader>& readers, const Names& varying)
      : graph_(graph), readers_(readers), varying_(varying) {}

  /// What lies between readers[at], whose result has the axes `rows` and `keys`, and the contractions over either.
  Names between(std::size_t at, const Names& rows, const Names& keys, bool batch) {
    pairs_[readers_[at].node->name] = {rows, keys};
    std::vector<std::size_t> order{at};
    Names ends;  // read by a contraction
    bool weighed = false;
    for (std::size_t k = at + 1; k < readers_.size(); ++k) {
      const Node& node = *readers_[k].node;
      Names sides[2];
      for (const Read& read : readers_[k].reads)
        if (const auto pair = pairs_.find(read.tensor); pair != pairs_.end()) follow(read, pair->second, sides);
      if (any(node.axes, sides[0]) && any(node.axes, sides[1])) {
        pairs_[node.name] = {sides[0], sides[1]};
        order.push_back(k);
      } else if ((any(node.reduce_axes, sides[0]) && any(node.axes, sides[1])) ||
                 (any(node.reduce_axes, sides[1]) && any(node.axes, sides[0]))) {
        const bool contracts = primitive(node) == Primitive::contract;
        weighed |= contracts ? batch && all_vary(readers_[k]) : is_weighing(readers_[k]);
        if (contracts)
          for (const Read& read : readers_[k].reads)
            if (pairs_.contains(read.tensor)) ends.insert(read.tensor);
      }
    }
    if (!weighed) return {};
    for (auto k = order.rbegin(); k != order.rend(); ++k)
      if (ends.contains(readers_[*k].node->name))
        for (const Read& read : readers_[*k].reads)
          if (pairs_.contains(read.tensor)) ends.insert(read.tensor);
    return ends;
  }

 private:
  /// The axes of a reader that the rows and keys of what it reads become.
  void follow(const Read& read, const std::pair<Names, Names>& pair, Names (&sides)[2]) const {
    const Node& from = graph_.node(read.tensor);
    for (std::size_t d = 0; d < from.axes.size(); ++d) {
      if (pair.first.contains(from.axes[d].name)) sides[0].insert(read.axes[d].begin(), read.axes[d].end());
      if (pair.second.contains(from.axes[d].name)) sides[1].insert(read.axes[d].begin(), read.axes[d].end());
    }
  }
  bool all_vary(const Reader& reader) const {
    return std::ranges::all_of(reader.reads, [&](const Read& read) { return varying_.contains(read.tensor); });
  }
  bool is_weighing(const Reader& reader) const {
    if (reader.node->reduce == ReduceOp::max || reader.node->reduce == ReduceOp::maxnum) return true;
    return reader.node->reduce == ReduceOp::sum &&
           (is_exp(*reader.node) || std::ranges::any_of(reader.reads, [&](const Read& read) {
              return pairs_.contains(read.tensor) && is_exp(graph_.node(read.tensor));
            }));
  }

  const Graph& graph_;
  const std::vector<Reader>& readers_;
  const Names& varying_;
  std::map<std::string, std::pair<Names, Names>>
      pairs_;  ///< tensors with a value for each pair: their rows, their keys
};

}  // namespace

std::set<std::string> score_tensors(const Graph& graph) {
  std::vector<Reader> readers;
  Names varying;  // what depends on an input
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    Reader reader{&node, {}};
    bool varies = node.kind == NodeKind::input;
    if (node.kind == NodeKind::compute)
      for (const Expr& load : loads_of(node.body)) {
        Read read{load.name(), {}};
        for (const Expr& index : load.args()) read.axes.push_back(axes_of(index));
        varies |= varying.contains(read.tensor);
        reader.reads.push_back(std::move(read));
      }
    if (varies) varying.insert(node.name);
    readers.push_back(std::move(reader));
  }
  Names out;
  for (std::size_t at = 0; at < readers.size(); ++at) {
    const Node& node = *readers[at].node;
    const std::vector<Read>& reads = readers[at].reads;
    if (node.reduce == ReduceOp::none) continue;
    for (std::size_t a = 0; a < reads.size(); ++a)
      for (std::size_t b = a + 1; b < reads.size(); ++b) {
        const Names first = all_of(reads[a]), second = all_of(reads[b]);
        if (!any(node.reduce_axes, first) || !any(node.reduce_axes, second)) continue;
        Names rows, keys;
        bool batch = varying.contains(reads[a].tensor) && varying.contains(reads[b].tensor), shared = false;
        for (const Axis& axis : node.axes) {
          const bool in_first = first.contains(axis.name), in_second = second.contains(axis.name);
          if (in_first && !in_second) rows.insert(axis.name);
          if (in_second && !in_first) keys.insert(axis.name);
          shared |= in_first && in_second;
        }
        batch &= shared;
        if (rows.empty() || keys.empty()) continue;
        out.merge(Site(graph, readers, varying).between(at, rows, keys, batch));
      }
  }
  return out;
}

}  // namespace aicf::command
