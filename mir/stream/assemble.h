#pragma once

// From states per pass to a StreamingRegion: which value is computed where, loads as tiles. Private to mir/stream.
//
// A value is placed by what it rests on: without n and without results in the prologue (or where it is first needed
// after the streams), with n in the step of each pass that needs it, with results in the finish of the pass that makes
// the last of them. Maps that one place needs once, and index expressions, are written where they are needed.

#include <memory>
#include <optional>
#include <tuple>

#include "mir/stream/states.h"

namespace aicf::stream {

class Assembler {
 public:
  Assembler(const Problem& problem, Names& names, std::vector<std::unique_ptr<PassStates>>& passes,
            const std::map<std::string, int>& pass_of)
      : problem_(problem), names_(names), passes_(passes), pass_of_(pass_of) {}

  Attempt<StreamingRegion> run();

 private:
  struct Place {
    enum class Where { prologue, step, finish, epilogue } where = Where::prologue;
    int pass = -1;
    bool derived = false;             ///< names are first those of the pass
    std::vector<std::string> span{};  ///< axes that the statement being placed runs over
    bool chosen = false;              ///< in a branch that data decide: an index of data may be the other branch's
    auto operator<=>(const Place&) const = default;
  };

  int available(const Expr& e) const;  ///< the last pass whose results `e` rests on; −1 for none
  std::vector<StepStatement>& list(const Place& p);
  Expr put(const Expr& e, const Place& p, const Expr& guard);
  Expr put_new(const Expr& e, const Place& p, const Expr& guard);
  Expr put_apart(const Expr& e, const Place& p, const Expr& guard);
  Expr put_value(const Expr& e, const Place& p);
  Expr put_along(const Statement& s, const Place& p);
  Expr put_invariant(const Statement& s, const Place& p);
  Expr put_result(const std::string& result, const Place& p);
  Expr put_finish_item(const FinishItem& item, int pass);
  std::optional<CentredMean> centred(const Expr& e);
  Expr put_centred(const Expr& e, int pass, const CentredMean& mean);
  Expr tile(const Expr& load, const Place& p, const Expr& guard);
  Expr clamped(const Expr& index, const Expr& dim, Expr& guard) const;
  bool inlines(const Statement& s, const Place& p) const;
  bool covers(const std::vector<std::string>& axes, const Place& p) const;
  Expr define(const std::string& name, const StepStatement& statement, const Place& p);
  std::vector<std::string> value_axes(const Expr& e) const;
  void store(const RegionOutput& o, const Place& p);
  void step_of(int pass);
  std::vector<std::string> parallel_axes() const;
  void settle_maxima();

  const Problem& problem_;
  Names& names_;
  std::vector<std::unique_ptr<PassStates>>& passes_;
  const std::map<std::string, int>& pass_of_;
  StreamingRegion out_;
  std::map<std::string, std::vector<std::string>> axes_;  // of everything defined
  std::vector<std::map<std::string, Expr>> along_;        // per pass: values of its step
  std::map<std::string, Expr> invariant_;                 // values of prologue, finishes and epilogue
  std::map<std::string, int> invariant_pass_;             // the pass whose finish defines it; −1 the prologue
  std::vector<std::set<std::string>> emitted_items_;      // per pass: finish items
  std::map<std::pair<int, Expr>, Expr> apart_;            // arithmetic taken out of steps, by pass (−1: once)
  struct Placed {
    Expr of, guard, result;  ///< the first two keep their identities alive
  };
  std::map<std::tuple<const void*, const void*, Place>, Placed> placed_;  // while depth_ > 0, by expression and guard
  int depth_ = 0;
  std::map<std::string, Expr> differences_;            // of centred means, by printed expression
  std::map<std::pair<int, Expr>, std::string> tiles_;  // by pass (−1: region) and load
  std::map<Expr, std::string> tile_names_;
  std::set<std::string> derived_names_;  // states and locals of every pass
  std::optional<Failure> failure_;
};

}  // namespace aicf::stream
