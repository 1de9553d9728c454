#include "mir/stream/derive.h"

#include <fmt/format.h>

#include <algorithm>

#include "mir/region/label.h"
#include "mir/stream/assemble.h"
#include "mir/stream/factors.h"

namespace aicf {
namespace {

using namespace stream;

Refusal refusal(const Problem& problem, const std::string& statement, const Failure& failure) {
  Refusal r;
  if (!statement.empty()) r.nodes = problem.statement(statement).origin;
  if (r.nodes.empty()) r.nodes = problem.region().origin;
  r.law = failure.law;
  r.reason = statement.empty() ? failure.reason : fmt::format("'{}': {}", statement, failure.reason);
  return r;
}

/// One attempt: reductions are given the earliest pass in which their laws hold. `not_before` holds what allocation
/// found.
class Derivation {
 public:
  Derivation(const Problem& problem, const DeriveOptions& options)
      : problem_(problem), options_(options), facts_(problem) {}

  std::variant<StreamingRegion, Refusal> run() {
    // Allocation may find that a reduction must wait; each retry moves one reduction later, so this ends.
    while (true) {
      if (auto refused = attempt()) return *refused;
      if (done_) return std::move(result_);
    }
  }

 private:
  std::optional<Refusal> attempt() {
    names_ = Names();
    for (const Axis& a : problem_.region().axes) {
      names_.take(a.name);
      for (const std::string& s : symbols_of(a.extent)) names_.take(s);
    }
    for (const Statement& s : problem_.region().statements) names_.take(s.name);
    certificate_.clear();
    passes_.clear();
    pass_of_.clear();
    for (const Statement& s : problem_.region().statements) {
      if (!problem_.is_result(s.name)) continue;
      if (auto refused = assign(s)) return refused;
    }
    for (auto& pass : passes_) {
      if (auto ok = pass->allocate(); !ok) {
        const int next = pass_of_.at(pass->failed()) + 1;
        if (next >= options_.max_passes) return refusal(problem_, pass->failed(), ok.error());
        not_before_[pass->failed()] = next;
        waited_[pass->failed()] = ok.error();
        return {};
      }
    }
    Assembler assembler(problem_, names_, passes_, pass_of_);
    auto assembled = assembler.run();
    if (!assembled) return refusal(problem_, "", assembled.error());
    if (static_cast<int>(assembled->streams.size()) > std::max(options_.max_passes, 1)) {
      const Failure failure =
          waited_.empty()
              ? Failure{"passes", fmt::format("an output along '{}' needs results of the same axis", problem_.axis())}
              : waited_.begin()->second;
      return refusal(problem_, waited_.empty() ? "" : waited_.begin()->first, failure);
    }
    for (const auto& [statement, failure] : waited_) {
      certificate_.push_back({"passes", statement,
                              fmt::format("pass {}: {}: {}", pass_of_.at(statement) + 1, failure.law, failure.reason)});
    }
    result_ = std::move(*assembled);
    result_.certificate.entries = certificate_;
    result_.certificate.labels = state_labels(result_);
    done_ = true;
    return {};
  }

  std::optional<Refusal> assign(const Statement& s) {
    int pass = 0;
    for (const std::string& r : problem_.results(s.body)) pass = std::max(pass, pass_of_.at(r));
    if (auto it = not_before_.find(s.name); it != not_before_.end()) pass = std::max(pass, it->second);
    for (;; ++pass) {
      if (pass >= std::max(options_.max_passes, 1)) {
        return refusal(problem_, s.name,
                       waited_.contains(s.name) ? waited_.at(s.name) : Failure{"passes", "too many passes"});
      }
      while (static_cast<int>(passes_.size()) <= pass) {
        passes_.push_back(
            std::make_unique<PassStates>(problem_, facts_, names_, std::set<std::string>{}, certificate_));
      }
      auto added = passes_[static_cast<std::size_t>(pass)]->add(s);
      if (added) break;
      waited_[s.name] = added.error();
    }
    pass_of_[s.name] = pass;
    return {};
  }

  const Problem& problem_;
  const DeriveOptions& options_;
  Facts facts_;
  Names names_;
  std::vector<CertificateEntry> certificate_;
  std::vector<std::unique_ptr<PassStates>> passes_;
  std::map<std::string, int> pass_of_, not_before_;
  std::map<std::string, Failure> waited_;
  StreamingRegion result_;
  bool done_ = false;
};

/// Axes to try: those of the last reduction first, the last and largest of several leading.
std::vector<std::string> candidates(const Region& region, const DeriveOptions& options) {
  if (!options.stream_axis.empty()) return {options.stream_axis};
  std::vector<std::string> list;
  for (auto s = region.statements.rbegin(); s != region.statements.rend(); ++s) {
    std::vector<std::string> over(s->over.rbegin(), s->over.rend());
    const auto size = [&](const std::string& a) {
      const auto n = region.axis(a).extent.as_int();
      return n ? *n : std::numeric_limits<std::int64_t>::max();
    };
    std::ranges::stable_sort(over, std::greater<>(), size);
    for (const std::string& a : over) {
      if (!has(list, a)) list.push_back(a);
    }
  }
  if (list.empty()) list.push_back("");  // nothing to stream
  std::erase_if(list, [&](const std::string& a) { return options.without.contains(a); });
  return list;
}

}  // namespace

std::variant<StreamingRegion, Refusal> derive(const Region& region, const DeriveOptions& options) {
  std::vector<CertificateEntry> rewritten;
  const Region wide = powers_as_exponentials(widen(region), rewritten);
  std::optional<Refusal> first;
  for (const std::string& axis : candidates(wide, options)) {
    std::vector<CertificateEntry> placed = rewritten;
    const Problem problem(place_factors(wide, axis, placed), axis);
    auto outcome = Derivation(problem, options).run();
    if (auto* derived = std::get_if<StreamingRegion>(&outcome)) {
      auto& entries = derived->certificate.entries;
      entries.insert(entries.begin(), placed.begin(), placed.end());
      if (entries.empty())
        for (const Stream& stream : derived->streams)
          for (const StateDecl& state : stream.states)
            entries.push_back({"associative reduction", state.name,
                               fmt::format("rests on no result of the stream: parts of {} combine by {} in any order",
                                           stream.axis, name(state.reduce))});
      // A form that does not verify is no form: the region falls apart instead of computing something else.
      if (const auto valid = verify(*derived); !valid) {
        if (!first) first = Refusal{region.origin, "consistent axes", valid.error().text()};
        continue;
      }
      return outcome;
    }
    if (!first) first = std::get<Refusal>(outcome);
  }
  return first ? std::move(*first) : Refusal{region.origin, "streamed axis", "no other axis is reduced"};
}

}  // namespace aicf
