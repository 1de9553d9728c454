// Statements of a thread program that only define names nothing reads, and the empty loops and branches they leave.

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "mir/kernel/expand_state.h"

namespace aicf::expansion {

namespace {

using Kind = ThreadStatement::Kind;

/// Names a statement defines and does nothing else with; null for statements with an effect.
bool only_defines(const ThreadStatement& s) {
  switch (s.kind) {
    case Kind::declare:
    case Kind::assign:
    case Kind::load_global:
    case Kind::load_shared:
    case Kind::shuffle:
    case Kind::shuffle_xor:
    case Kind::multiply:
      return true;
    default:
      return false;
  }
}

/// Which names the program needs. Names are unique in it, so a name is live when any live statement reads it.
class Liveness {
 public:
  void add(const ThreadBody& body) {
    for (const ThreadStatement& s : body) {
      reads_.clear();
      for (const Expr& e : s.exprs) add_reads(e);
      for (const Expr* e :
           {&s.index, &s.predicate, &s.fill, &s.lane, &s.begin, &s.end, &s.step, &s.row_stride, &s.column_stride})
        add_reads(*e);
      if (only_defines(s)) {
        for (const std::string& name : s.names) {
          const int id = id_of(name);
          std::vector<int>& inputs = inputs_[static_cast<std::size_t>(id)];
          std::ranges::copy_if(reads_, std::back_inserter(inputs), [&](int read) { return read != id; });
          for (const std::string& other : s.names) {  // a vector access defines all its words or none
            if (other == name) continue;
            const int sibling = id_of(other);
            inputs_[static_cast<std::size_t>(id)].push_back(sibling);
          }
        }
      } else {
        work_.insert(work_.end(), reads_.begin(), reads_.end());
      }
      add(s.body);
    }
  }

  void propagate() {
    live_.assign(inputs_.size(), false);
    while (!work_.empty()) {
      const auto id = static_cast<std::size_t>(work_.back());
      work_.pop_back();
      if (live_[id]) continue;
      live_[id] = true;
      work_.insert(work_.end(), inputs_[id].begin(), inputs_[id].end());
    }
  }

  void erase_dead(ThreadBody& body) const {
    for (ThreadStatement& s : body) erase_dead(s.body);
    std::erase_if(body, [&](const ThreadStatement& s) {
      if (s.kind == Kind::loop || s.kind == Kind::branch) {
        return std::ranges::all_of(s.body, [](const ThreadStatement& t) { return t.kind == Kind::comment; });
      }
      return only_defines(s) && std::ranges::none_of(s.names, [&](const std::string& name) {
               return live_[static_cast<std::size_t>(ids_.at(name))];
             });
    });
  }

 private:
  int id_of(const std::string& name) {
    const auto [found, inserted] = ids_.try_emplace(name, static_cast<int>(inputs_.size()));
    if (inserted) inputs_.emplace_back();
    return found->second;
  }

  void add_reads(const Expr& e) {
    if (!e) return;
    if (e.op() == Op::value) {
      reads_.push_back(id_of(e.name()));
    } else if (!e.args().empty()) {
      for_each(e, [&](const Expr& node) {
        if (node.op() == Op::value) reads_.push_back(id_of(node.name()));
      });
    }
  }

  std::unordered_map<std::string, int> ids_;
  std::vector<std::vector<int>> inputs_;
  std::vector<int> reads_, work_;
  std::vector<bool> live_;
};

}  // namespace

void remove_dead(ThreadBody& body) {
  Liveness liveness;
  liveness.add(body);
  liveness.propagate();
  liveness.erase_dead(body);
}

}  // namespace aicf::expansion
