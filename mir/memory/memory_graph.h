#pragma once

// The program of one region as memory sees it: actions in their control flow, the values (tiles, states) they read and
// write, and the sync edges between them. On Boost.Graph, behind ids: actions and values are numbered from 0 in the
// order they are added, and an action's number is its position in the program.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace aicf {

class MemoryGraph {
 public:
  using Id = int;
  enum class Shape : std::uint8_t { tile, state, off_chip };  ///< how a value is drawn

  MemoryGraph();
  ~MemoryGraph();
  MemoryGraph(MemoryGraph&&) noexcept;
  MemoryGraph& operator=(MemoryGraph&&) noexcept;

  Id add_action(const std::string& label);
  Id add_value(const std::string& label, Shape shape);
  /// `to` may follow `from`. A back edge closes a loop; without back edges the control flow has no cycle.
  void add_control(Id from, Id to, bool back = false);
  void add_read(Id action, Id value);
  void add_write(Id action, Id value);
  void add_sync(Id from, Id to, const std::string& label);

  int actions() const;
  std::span<const Id> readers(Id value) const;
  std::span<const Id> writers(Id value) const;

  /// Actions, each after what it may follow and what it is synchronised with (carried edges aside).
  std::vector<Id> topological_order() const;

  /// First and last position at which the value is held: it was written and may be read before the next write. An
  /// action that writes without reading starts it anew.
  struct Interval {
    Id first = 0, last = 0;
    bool operator==(const Interval&) const = default;
  };
  Interval live(Id value) const;

  /// Two actions on one memory, at least one of which writes, with a path from `from` to `to` on which the memory is
  /// not overwritten between them. `distance` 0: in one iteration; else the number of iterations that lie between.
  struct Meeting {
    Id from = 0, to = 0;
    bool from_writes = false, to_writes = false;
    int distance = 0;
  };
  /// Meetings of actions on the values of one memory, which has `buffers` copies used in turn: a write meets what was
  /// done to the copy it overwrites. Ordered by (from, to).
  std::vector<Meeting> meetings(std::span<const Id> values, int buffers = 1) const;

  /// Every path from `from` to `to` passes `through`, which is neither.
  bool separates(Id through, Id from, Id to) const;

  std::string to_dot(const std::string& title) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace aicf
