#pragma once

// The state of one lowering; private to mir/kernel/lower*.cpp.

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/kernel/lower.h"

namespace aicf::lowering {

/// What a block of rows runs of a stream: from `begin`, the start of a tile, to `end`, counted without the holes.
struct Course {
  struct Hole {
    Expr at, length;  ///< multiples of the tile; `at` is counted without the holes before it in the list
  };
  Expr begin, end;
  std::vector<Hole> holes;

  Expr coordinate(Expr counted) const;
};

class Lowering {
 public:
  Lowering(const StreamingRegion& region, const Schedule& schedule);
  Result<LoweredRegion> run();

 private:
  // lower.cpp: axes, distributions, expressions, loads
  std::string temporary();
  std::string own(std::string name) const;
  std::int64_t tile(const std::string& axis) const;
  bool padded(const std::string& axis) const;               ///< the last tile may pass the extent
  bool looped(const std::string& axis) const;               ///< more than one tile
  Expr inside(const std::vector<std::string>& axes) const;  ///< axis < extent for the padded ones; empty when none
  Result<void> assign_positions();
  std::vector<TileAxis> tile_axes(const std::vector<std::string>& axes) const;
  Distribution distribution(const std::vector<std::string>& axes) const;
  Distribution cooperative(const TileDecl& t, int width, bool across_subgroups) const;
  std::string contiguous_axis(const TileDecl& t) const;
  void declare(const std::string& name, DType type, const std::vector<std::string>& axes);
  std::set<std::string> varying(const Expr& e) const;
  Expr hoist(KernelBody& body, const Expr& e, const std::set<std::string>& user_axes);
  Expr hoist_args(KernelBody& body, const Expr& e, const std::set<std::string>& user_axes);
  Expr guarded(KernelBody& body, const Expr& e, ReduceOp op, const std::vector<std::string>& over);
  void compute(KernelBody& body, const std::string& name, DType type, const std::vector<std::string>& axes,
               const Expr& e, const std::string& note = {});
  void reduce(KernelBody& body, const std::string& name, ReduceOp op, const std::vector<std::string>& axes,
              const std::vector<std::string>& over, const Expr& e, const std::string& note);
  void forget_temps_of(const std::string& name);
  const KernelBuffer& use_buffer(const std::string& name, DType type, const std::vector<Expr>& shape, bool written);
  void load(KernelBody& body, const TileDecl& t);

  // lower_region.cpp: statements, streams, grid
  Result<void> statements(KernelBody& body, const std::vector<StepStatement>& list, const Stream* stream);
  Result<void> statement(KernelBody& body, const StepStatement& s, const Stream* stream);
  Result<void> update(KernelBody& body, const StepStatement& s, const Stream& stream);
  void repair(KernelBody& body, const Stream& stream, const std::function<bool(const RepairGroup&)>& wanted);
  DType state_type(const Stream& stream, const std::string& state) const;
  void accumulate(KernelBody& body, const std::string& target, ReduceOp op, const std::vector<std::string>& axes,
                  std::vector<std::string> over, const Expr& e, const std::string& note);
  void store(KernelBody& body, const StepStatement& s);
  void ensure_loaded(KernelBody& body, const Expr& e);
  Expr with_inlined(const Expr& e) const;
  void cross(KernelBody& body, const std::vector<std::string>& axes, const std::vector<std::string>& states,
             const std::vector<MergeRule>& merge);
  void preload(KernelBody& body);
  Result<void> stream(KernelBody& body, const Stream& s, const Course& course);
  Result<void> initial_states(KernelBody& body, const Stream& s, const Expr& begin);
  Course course(const Stream& s, const Expr& left_out) const;
  void load_once(KernelBody& body, const Stream& s);
  Result<void> sweep(KernelBody& body, const Stream& s, const Course& course);
  Result<void> deferring_stream(KernelBody& body, const Stream& s);
  Expr grid_bases(Expr id);
  Result<LoweredRegion> run_split();

  const StreamingRegion& region_;
  const Schedule& schedule_;
  Ranges ranges_;
  Kernel kernel_;
  std::map<std::string, const TileDecl*> decls_;
  std::set<std::string> stream_axes_;
  std::map<std::string, std::vector<Factor>> spread_;          ///< axis → its factors with positions
  std::map<std::string, std::vector<std::string>> tile_axes_;  ///< value → axes
  std::set<std::string> loaded_;
  std::map<std::string, Expr> inlined_;  ///< locals over a looped axis, recomputed at use
  std::map<Expr, Expr> temps_;
  std::set<std::string> kernel_open_loops_;             ///< axes whose loop is being filled
  std::map<std::size_t, std::set<std::string>> moved_;  ///< repair group → references that moved since its last repair
  std::list<TileDecl> first_tiles_;                     ///< loads at a stream's first coordinate
  int temp_count_ = 0;
  std::set<std::string> names_;  ///< of the region's tiles, states and statements
};

}  // namespace aicf::lowering
