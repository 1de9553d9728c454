// Kernels made wrong on purpose. Every mutant is rejected by verify(), stopped by the interpreter, or computes something
// else; none passes for right. Two levels: Kernel IR and the thread programs that emitters print.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/numeric/subjects.h"

namespace aicf::numeric {
namespace {

/// Changes the statement body[i], or says that it does not apply there.
template <class Body>
struct Mutation {
  std::string name;
  std::function<bool(Body&, std::size_t)> apply;
  /// Says that the change at the n-th statement of a program leaves its meaning; empty: never.
  std::function<bool(const Body&, std::size_t)> harmless = {};
};

/// Applies `mutation` at the n-th statement in program order; false when there is no n-th. `applied` says whether it did
/// something.
template <class Body>
bool mutate(Body& body, std::size_t& n, const Mutation<Body>& mutation, bool* applied) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (n-- == 0) {
      *applied = mutation.apply(body, i);
      return true;
    }
    if (mutate(body[i].body, n, mutation, applied)) return true;
  }
  return false;
}

struct Tally {
  std::map<std::string, std::map<std::string, int>> caught;  ///< mutation → catcher → mutants
  std::vector<std::string> survivors;
  int total = 0;

  void count(const std::string& mutation, Catcher by, const std::string& where) {
    ++total;
    ++caught[mutation][numeric::name(by)];
    if (by == Catcher::nobody) survivors.push_back(mutation + ": " + where);
  }
  std::string text() const {
    std::string out;
    for (const auto& [mutation, by] : caught) {
      out += fmt::format("  {:34}", mutation);
      for (const auto& [catcher, n] : by) out += fmt::format(" {} {}", catcher, n);
      out += "\n";
    }
    return out;
  }
};

/// True when the barrier at the n-th statement has no access to workgroup memory before it, or none after it, however often
/// loops run: then it orders nothing, and without it the program is the same.
bool orders_nothing(const ThreadBody& program, std::size_t at) {
  using Kind = ThreadStatement::Kind;
  std::string order;  // of execution, loops twice: a = access, B = this barrier
  std::size_t next = 0;
  const std::function<void(const ThreadBody&, std::size_t)> walk = [&](const ThreadBody& body, std::size_t first) {
    next = first;
    for (const ThreadStatement& s : body) {
      const std::size_t number = next++;
      if (number == at) order += 'B';
      if (s.kind == Kind::load_shared || s.kind == Kind::store_shared) order += 'a';
      const std::size_t inside = next;
      for (int visit = 0; visit < (s.kind == Kind::loop ? 2 : 1); ++visit) walk(s.body, inside);
    }
  };
  walk(program, 0);
  return order.find('a') > order.rfind('B') || order.rfind('a') == std::string::npos ||
         order.rfind('a') < order.find('B');
}

/// Programs is a list of kernels or of thread programs.
template <class Program, class Body>
Tally try_all(const Subject& subject, const std::vector<Program>& programs,
              const std::vector<Mutation<Body>>& mutations) {
  Tally tally;
  for (std::size_t p = 0; p < programs.size(); ++p)
    for (const Mutation<Body>& mutation : mutations)
      for (std::size_t at = 0;; ++at) {
        std::vector<Program> changed = programs;
        bool applied = false;
        std::size_t n = at;
        if (!mutate(changed[p].body, n, mutation, &applied)) break;
        if (!applied || (mutation.harmless && mutation.harmless(programs[p].body, at))) continue;
        std::string message;
        const Catcher by = run(subject, changed, &message);
        tally.count(mutation.name, by,
                    fmt::format("statement {} of\n{}", at, by == Catcher::nobody ? to_string(changed[p]) : ""));
      }
  return tally;
}

// ---- mutations of both levels ------------------------------------------------------------------------------------

Expr plus(const Expr& e, std::int64_t n) {
  return e + Expr(n);
}

/// The values that a loop's variable takes, when they are constants.
std::optional<std::vector<std::int64_t>> trips(const Expr& begin, const Expr& end, const Expr& step) {
  const auto b = evaluate_int(begin, {}), e = evaluate_int(end, {}), s = evaluate_int(step, {});
  if (!b || !e || !s) return std::nullopt;
  std::vector<std::int64_t> out;
  for (std::int64_t v = *b; v < *e; v += *s) out.push_back(v);
  return out;
}

/// Moves the bounds of a loop; no mutant where the loop would run as before.
template <class Statement>
bool move_bounds(Statement& loop, std::int64_t begin, std::int64_t end) {
  const auto before = trips(loop.begin, loop.end, loop.step);
  loop.begin = plus(loop.begin, begin);
  loop.end = plus(loop.end, end);
  return !before || before != trips(loop.begin, loop.end, loop.step);
}

template <class Body, class Kind>
void add_common(std::vector<Mutation<Body>>& out, Kind barrier, Kind branch, Kind loop, const Expr& divergent) {
  out.push_back({"barrier deleted", [=](Body& body, std::size_t i) {
                   if (body[i].kind != barrier) return false;
                   body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
                   return true;
                 }});
  out.push_back({"barrier made divergent", [=](Body& body, std::size_t i) {
                   if (body[i].kind != barrier) return false;
                   typename Body::value_type wrapped;
                   wrapped.kind = branch;
                   wrapped.predicate = divergent;
                   wrapped.body = {body[i]};
                   body[i] = std::move(wrapped);
                   return true;
                 }});
  for (const auto& [name, begin, end] :
       {std::tuple{"loop ends one early", 0, -1}, std::tuple{"loop ends one late", 0, 1},
        std::tuple{"loop begins one late", 1, 0}})
    out.push_back(
        {name, [=](Body& body, std::size_t i) { return body[i].kind == loop && move_bounds(body[i], begin, end); }});
}

// ---- Kernel IR ---------------------------------------------------------------------------------------------------

std::vector<Mutation<KernelBody>> kernel_mutations() {
  using Kind = KernelOp::Kind;
  std::vector<Mutation<KernelBody>> out;
  add_common<KernelBody, Kind>(out, Kind::barrier, Kind::branch, Kind::loop, less(Expr::symbol("lane"), 1));
  for (const std::int64_t by : {-1, 1})
    for (std::size_t d = 0; d < 4; ++d)
      out.push_back({fmt::format("index {:+}", by), [=](KernelBody& body, std::size_t i) {
                       KernelOp& op = body[i];
                       if ((op.kind != Kind::load && op.kind != Kind::store) || d >= op.index.size()) return false;
                       op.index[d] = plus(op.index[d], by);
                       return true;
                     }});
  out.push_back({"operation deleted", [](KernelBody& body, std::size_t i) {
                   if (body[i].kind == Kind::barrier) return false;
                   body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
                   return true;
                 }});
  out.push_back({"bounds check dropped", [](KernelBody& body, std::size_t i) {
                   if ((body[i].kind != Kind::load && body[i].kind != Kind::store) || !body[i].predicate) return false;
                   body[i].predicate = {};
                   return true;
                 }});
  out.push_back({"lane merge dropped", [](KernelBody& body, std::size_t i) {
                   if (body[i].kind != Kind::cross || body[i].lane_masks.empty()) return false;
                   body[i].lane_masks.pop_back();
                   return true;
                 }});
  out.push_back({"subgroup merge dropped", [](KernelBody& body, std::size_t i) {
                   if (body[i].kind != Kind::cross || body[i].subgroup_masks.empty()) return false;
                   body[i].subgroup_masks.pop_back();
                   return true;
                 }});
  out.push_back({"lane merged twice", [](KernelBody& body, std::size_t i) {
                   if (body[i].kind != Kind::cross || body[i].lane_masks.empty()) return false;
                   body[i].lane_masks.push_back(body[i].lane_masks[0]);
                   return true;
                 }});
  return out;
}

// ---- thread programs ---------------------------------------------------------------------------------------------

bool touches_memory(const ThreadStatement& s) {
  using Kind = ThreadStatement::Kind;
  return s.kind == Kind::load_global || s.kind == Kind::store_global || s.kind == Kind::load_shared ||
         s.kind == Kind::store_shared;
}

std::vector<Mutation<ThreadBody>> thread_mutations(int subgroup_size) {
  using Kind = ThreadStatement::Kind;
  std::vector<Mutation<ThreadBody>> out;
  add_common<ThreadBody, Kind>(out, Kind::barrier, Kind::branch, Kind::loop, less(Expr::symbol("lane"), 1));
  out.front().harmless = orders_nothing;
  for (const std::int64_t by : {-1, 1})
    out.push_back({fmt::format("index {:+}", by), [=](ThreadBody& body, std::size_t i) {
                     if (!touches_memory(body[i])) return false;
                     body[i].index = plus(body[i].index, by);
                     return true;
                   }});
  for (const std::int64_t by : {-1, 1})
    out.push_back({fmt::format("index {:+} access", by), [=](ThreadBody& body, std::size_t i) {
                     if (!touches_memory(body[i])) return false;
                     const std::size_t width = std::max(body[i].names.size(), body[i].exprs.size());
                     body[i].index = plus(body[i].index, by * static_cast<std::int64_t>(width));
                     return width > 1;
                   }});
  out.push_back({"bounds check dropped", [](ThreadBody& body, std::size_t i) {
                   if (!touches_memory(body[i]) || !body[i].predicate) return false;
                   body[i].predicate = {};
                   return true;
                 }});
  out.push_back({"value of the own lane", [](ThreadBody& body, std::size_t i) {
                   if (body[i].kind != Kind::shuffle && body[i].kind != Kind::shuffle_xor) return false;
                   body[i].kind = Kind::declare;
                   body[i].lane = {};
                   return true;
                 }});
  out.push_back({"value of the next lane", [=](ThreadBody& body, std::size_t i) {
                   if (body[i].kind != Kind::shuffle) return false;
                   body[i].lane = mod(plus(body[i].lane, 1), subgroup_size);
                   return true;
                 }});
  out.push_back({"lane outside the subgroup", [=](ThreadBody& body, std::size_t i) {
                   if (body[i].kind != Kind::shuffle) return false;
                   body[i].lane = plus(body[i].lane, subgroup_size);
                   return true;
                 }});
  out.push_back({"another partner", [=](ThreadBody& body, std::size_t i) {
                   if (body[i].kind != Kind::shuffle_xor) return false;
                   body[i].mask = body[i].mask * 2 % (2 * subgroup_size - 1);
                   return true;
                 }});
  out.push_back({"statement deleted", [](ThreadBody& body, std::size_t i) {
                   if (!touches_memory(body[i]) && body[i].kind != Kind::assign && body[i].kind != Kind::shuffle)
                     return false;
                   body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
                   return true;
                 }});
  return out;
}

class Mutants : public ::testing::TestWithParam<Subject> {};

void report(const Tally& tally, int least) {
  std::string survivors;
  for (std::size_t i = 0; i < tally.survivors.size() && i < 4; ++i) survivors += tally.survivors[i] + "\n";
  EXPECT_EQ(tally.survivors.size(), 0u) << survivors;
  EXPECT_GE(tally.total, least);
  std::cout << fmt::format("{} mutants\n{}", tally.total, tally.text());
}

TEST_P(Mutants, TheKernelItselfIsRight) {
  std::string message;
  EXPECT_EQ(run(GetParam(), GetParam().lowered.kernels, &message), Catcher::nobody) << message;
}

TEST_P(Mutants, OfTheKernelAreCaught) {
  report(try_all(GetParam(), GetParam().lowered.kernels, kernel_mutations()), 20);
}

TEST_P(Mutants, OfTheThreadProgramAreCaught) {
  report(try_all(GetParam(), GetParam().programs, thread_mutations(GetParam().scheduled.schedule.subgroup_size)), 50);
}

// ---- tiles held elsewhere ----------------------------------------------------------------------------------------

/// The distribution with one lane factor elsewhere: other lane bits, or lanes and registers of an axis exchanged.
std::vector<Distribution> relayouts(const Distribution& d, int subgroup_size) {
  std::vector<Distribution> out;
  for (std::size_t i = 0; i < d.factors.size(); ++i) {
    const Factor& f = d.factors[i];
    if (f.level != Level::lane || f.size == 1) continue;
    for (const std::int64_t position : {f.position * 2, f.position / 2}) {
      if (position < 1 || position * f.size > subgroup_size) continue;
      out.push_back(d);
      out.back().factors[i].position = position;
    }
    for (std::size_t j = 0; j < d.factors.size(); ++j) {
      const Factor& g = d.factors[j];
      if (j == i || g.axis != f.axis || g.level == Level::lane) continue;
      out.push_back(d);  // which elements of the axis the lanes hold
      std::swap(out.back().factors[i].stride, out.back().factors[j].stride);
      if (f.size == g.size) continue;
      // Strides follow from the sizes of the factors below: exchanging them covers the axis once only then.
      out.back().factors[i].stride = f.stride < g.stride ? f.stride * g.size : g.stride;
      out.back().factors[j].stride = f.stride < g.stride ? f.stride : g.stride * f.size;
    }
  }
  return out;
}

// A tile's distribution is the one statement of which lane holds what. Changed for one tile alone, either its users can
// no longer have their operands and verify() says so, or they fetch them from where they now are. Nothing in between: a
// kernel that verifies never reads another lane's element for its own.
TEST_P(Mutants, TilesHeldInOtherLanesAreRejectedOrStillRight) {
  int rejected = 0, right = 0;
  const std::vector<Kernel>& kernels = GetParam().lowered.kernels;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for (std::size_t t = 0; t < kernels[k].tiles.size(); ++t)
      for (const Distribution& d : relayouts(kernels[k].tiles[t].distribution, kernels[k].subgroup_size)) {
        std::vector<Kernel> changed = kernels;
        changed[k].tiles[t].distribution = d;
        std::string message;
        const Catcher by = run(GetParam(), changed, &message);
        rejected += by == Catcher::verify;
        right += by == Catcher::nobody;
        EXPECT_TRUE(by == Catcher::verify || by == Catcher::nobody)
            << "tile '" << kernels[k].tiles[t].name << "', noticed by " << name(by) << ": " << message << "\n"
            << to_string(changed[k]);
      }
  std::cout << fmt::format("{} rejected, {} still right\n", rejected, right);
  EXPECT_GT(rejected + right, 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, Mutants, ::testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace aicf::numeric
