// Printing the Memory-Centric IR; streaming_parse.cpp reads it back. The grammar, beside design.md's example:
//
//   streaming_region NAME KIND for AXES [reduction_axis AXIS order ORDER] {
//     symbols …   axes a=extent, …   from "…", …
//     tile    NAME: TYPE[AXES] from TENSOR[INDEX] of [SHAPE] [where GUARD else FILL] lifecycle L residency R
//     prologue { STATEMENTS }
//     stream  …                      as tile, of the stream
//     state   NAME: TYPE[AXES] init E OP residency R
//     state   (A: …, B: …) init E OP residency R repair F * (A, B) by REFERENCES     # law
//     repair  (A, B) by REFERENCES { A = E; B = E }                                  # law
//     segment [BEGIN, END) tiles NAMES
//     step { … }   merge { NAME = E … }   finish { … }   skip AXIS tiles where E
//     defer AXIS tiles where E   settled where E
//     epilogue { … }
//     law "…" of "…": "…"            label "…"
//   }
//
// Several streams stand in blocks "pass AXIS order ORDER { … }"; so does a nested one, in its step. A merge rule may
// name a state merged before it.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mir/memory/streaming_text.h"
#include "mir/region/text_reader.h"

namespace aicf {
namespace {

using namespace text;

std::string_view order_name(StreamOrder order) {
  return order == StreamOrder::ascending ? "ascending" : "descending";
}

class Printer {
 public:
  std::string print(const StreamingRegion& r) {
    out_ = fmt::format("streaming_region {} {} for {}", name_text(r.name), name(r.kind), join(r.parallel));
    const bool one = r.streams.size() == 1;
    if (one) out_ += fmt::format("  {}", head(r.streams[0]));
    out_ += " {\n";
    indent_ = "  ";
    const std::vector<std::string> symbols = streaming_symbols(r);
    if (!symbols.empty()) line("symbols " + join(symbols));
    std::string axes;
    for (const Axis& a : r.axes)
      axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", name_text(a.name), to_string(a.extent));
    line("axes    " + axes);
    if (!r.origin.empty()) line("from    " + join_quoted(r.origin));
    for (const TileDecl& t : r.tiles) tile("tile  ", t);
    block("prologue", r.prologue, nullptr);
    for (const Stream& s : r.streams) {
      if (one) {
        for (const std::string& label : r.certificate.labels) line("# " + label);
        stream(s);
      } else {
        pass(s);
      }
    }
    block("epilogue", r.epilogue, nullptr);
    for (const CertificateEntry& e : r.certificate.entries) {
      line(fmt::format("law     {} of {}: {}", quoted_text(e.law), quoted_text(e.statement), quoted_text(e.condition)));
    }
    for (const std::string& label : r.certificate.labels) line("label   " + quoted_text(label));
    return out_ + "}\n";
  }

 private:
  void line(const std::string& text) { out_ += indent_ + text + "\n"; }

  static std::string head(const Stream& s) {
    return fmt::format("reduction_axis {}  order {}", name_text(s.axis), order_name(s.order));
  }

  static std::string typed(const std::string& n, DType type, const std::vector<std::string>& axes) {
    return fmt::format("{}: {}[{}]", name_text(n), name(type), join(axes));
  }

  void tile(std::string_view word, const TileDecl& t) {
    std::string text = fmt::format("{}  {}  from {} of [{}]", word, typed(t.name, t.type, t.axes),
                                   to_string(Expr::load(t.tensor, t.index, t.type)), join(t.shape));
    if (t.guard)
      text +=
          fmt::format("  where {} else {}", to_string(t.guard), to_string(t.fill ? t.fill : Expr::constant(t.type, 0)));
    line(text + fmt::format("  lifecycle {}  residency {}", name(t.lifecycle), name(t.residency)));
  }

  void pass(const Stream& s) {
    line(fmt::format("pass {}  order {} {{", name_text(s.axis), order_name(s.order)));
    const std::string outer = indent_;
    indent_ += "  ";
    stream(s);
    indent_ = outer;
    line("}");
  }

  void stream(const Stream& s) {
    for (const TileDecl& t : s.tiles) tile("stream", t);
    states(s);
    for (const Segment& g : s.segments) {
      line(fmt::format("segment [{}, {}) tiles {}", to_string(g.begin), to_string(g.end), join(g.tiles)));
    }
    block("step", s.step, &s);
    merge(s);
    block("finish", s.finish, nullptr);
    if (s.skip) line(fmt::format("skip    {} tiles where {}", name_text(s.axis), to_string(s.skip)));
    if (s.defer) line(fmt::format("defer   {} tiles where {}", name_text(s.axis), to_string(s.defer)));
    if (s.settled)
      line(fmt::format("settled where {}   # else the stream starts again with them", to_string(s.settled)));
  }

  /// The common factor F when every repair of the group is F * state; empty otherwise.
  static Expr common_factor(const Stream& s, const RepairGroup& g) {
    Expr factor;
    for (std::size_t i = 0; i < g.states.size(); ++i) {
      const Expr& e = g.repair[i];
      if (e.op() != Op::mul) return {};
      auto d = std::ranges::find(s.states, g.states[i], &StateDecl::name);
      if (d == s.states.end() || e.args()[1] != Expr::value(d->name, d->type)) return {};
      if (factor && factor != e.args()[0]) return {};
      factor = e.args()[0];
    }
    return factor;
  }

  /// True when the group's states stand together from position `at` and differ only in name, type and axes.
  static bool stands_at(const Stream& s, const RepairGroup& g, std::size_t at) {
    if (at + g.states.size() > s.states.size()) return false;
    for (std::size_t i = 0; i < g.states.size(); ++i) {
      const StateDecl& d = s.states[at + i];
      const StateDecl& first = s.states[at];
      if (d.name != g.states[i] || d.reduce != first.reduce || d.init != first.init || d.residency != first.residency)
        return false;
    }
    return true;
  }

  void states(const Stream& s) {
    std::set<const RepairGroup*> printed;
    for (std::size_t i = 0; i < s.states.size();) {
      const RepairGroup* group = nullptr;
      Expr factor;
      for (const RepairGroup& g : s.repairs) {
        if (!stands_at(s, g, i)) continue;
        factor = common_factor(s, g);
        if (factor) group = &g;
      }
      const StateDecl& d = s.states[i];
      const std::string facts =
          fmt::format("init {}  {}  residency {}", to_string(d.init), name(d.reduce), name(d.residency));
      if (!group) {
        line(fmt::format("state   {}  {}", typed(d.name, d.type, d.axes), facts));
        ++i;
        continue;
      }
      std::string members;
      for (std::size_t k = 0; k < group->states.size(); ++k) {
        const StateDecl& m = s.states[i + k];
        members += (k ? ", " : "") + typed(m.name, m.type, m.axes);
      }
      const Expr product = factor * Expr::value("state", d.type);  // prints the factor with its parentheses
      std::string product_text = to_string(product);
      product_text.resize(product_text.size() - std::string_view("state").size());
      line(fmt::format("state   ({})  {}  repair {}({}) by {}{}", members, facts, product_text, join(group->states),
                       join(group->references), law(*group)));
      printed.insert(group);
      i += group->states.size();
    }
    for (const RepairGroup& g : s.repairs) {
      if (printed.contains(&g)) continue;
      std::string rules;
      for (std::size_t i = 0; i < g.states.size(); ++i) {
        rules += fmt::format("{}{} = {}", i ? "; " : "", name_text(g.states[i]), to_string(g.repair[i]));
      }
      line(fmt::format("repair  ({}) by {} {{ {} }}{}", join(g.states), join(g.references), rules, law(g)));
    }
  }

  static std::string law(const RepairGroup& g) { return g.law.empty() ? "" : "   # " + g.law; }

  void merge(const Stream& s) {
    if (s.merge.empty()) return;
    line("merge {");
    std::map<Expr, Expr> merged;
    for (const MergeRule& rule : s.merge) {
      line(fmt::format("  {} = {}", name_text(rule.state), to_string(replace_whole(rule.value, merged))));
      if (op_arity(rule.value.op()) > 0) merged.emplace(rule.value, Expr::value(rule.state, rule.value.type()));
    }
    line("}");
  }

  void block(const std::string& word, const std::vector<StepStatement>& list, const Stream* s) {
    if (list.empty()) return;
    line(word + " {");
    const std::string outer = indent_;
    indent_ += "  ";
    for (const StepStatement& x : list) statement(x, s);
    indent_ = outer;
    line("}");
  }

  void statement(const StepStatement& x, const Stream* s) {
    const std::string body = to_string(x.body ? x.body : Expr(0));
    switch (x.kind) {
      case StepStatement::Kind::nested:
        pass(*x.nested);
        return;
      case StepStatement::Kind::local:
        line(fmt::format("local {}  residency {} = {}{}", typed(x.name, x.type, x.axes), name(x.residency),
                         x.over.empty() ? body : fmt::format("{}({} over {})", name(x.reduce), body, join(x.over)),
                         origin_text(x.origin)));
        return;
      case StepStatement::Kind::update: {
        std::vector<std::string> over = x.over;
        over.push_back(s->axis);
        const bool sum = x.reduce == ReduceOp::sum;
        const bool plain = !sum && x.over.empty();
        line(fmt::format("{} {} {}{}", name_text(x.name), sum ? std::string("+=") : fmt::format("{}=", name(x.reduce)),
                         plain ? body : fmt::format("{}({} over {})", name(x.reduce), body, join(over)),
                         origin_text(x.origin)));
        return;
      }
      case StepStatement::Kind::store:
        line(fmt::format("store {} of [{}] for [{}] = {}{}", to_string(Expr::load(x.name, x.index, x.type)),
                         join(x.shape), typed_axes(x), body, origin_text(x.origin)));
        return;
    }
  }

  static std::string typed_axes(const StepStatement& x) {
    return join(x.axes) + (x.axes.empty() ? "" : "; ") + std::string(name(x.type));
  }

  std::string out_, indent_;
};

}  // namespace

Expr replace_whole(const Expr& e, const std::map<Expr, Expr>& replacements) {
  std::map<const void*, Expr> done;
  const auto go = [&](const auto& self, const Expr& x) -> Expr {
    if (auto it = done.find(x.identity()); it != done.end()) return it->second;
    Expr result = x;
    if (auto it = replacements.find(x); it != replacements.end()) {
      result = it->second;
    } else if (!x.args().empty()) {
      std::vector<Expr> args;
      bool changed = false;
      for (const Expr& a : x.args()) {
        args.push_back(self(self, a));
        changed |= args.back().identity() != a.identity();
      }
      if (changed) result = Expr::rebuild(x, std::move(args));
    }
    done[x.identity()] = result;
    return result;
  };
  return replacements.empty() ? e : go(go, e);
}

std::vector<std::string> streaming_symbols(const StreamingRegion& r) {
  std::set<std::string> symbols;
  const auto add = [&](const Expr& e) {
    if (e) symbols.merge(symbols_of(e));
  };
  const auto tiles = [&](const std::vector<TileDecl>& list) {
    for (const TileDecl& t : list) {
      std::ranges::for_each(t.index, add);
      std::ranges::for_each(t.shape, add);
      add(t.guard);
      add(t.fill);
    }
  };
  const auto statements = [&](const auto& self, const std::vector<StepStatement>& list) -> void {
    const auto stream = [&](const Stream& s) {
      tiles(s.tiles);
      for (const StateDecl& d : s.states) add(d.init);
      for (const RepairGroup& g : s.repairs) std::ranges::for_each(g.repair, add);
      for (const Segment& g : s.segments) add(g.begin), add(g.end);
      for (const MergeRule& m : s.merge) add(m.value);
      add(s.skip), add(s.defer), add(s.settled);
      self(self, s.step);
      self(self, s.finish);
    };
    for (const StepStatement& x : list) {
      add(x.body);
      std::ranges::for_each(x.index, add);
      std::ranges::for_each(x.shape, add);
      if (x.nested) stream(*x.nested);
    }
  };
  for (const Axis& a : r.axes) add(a.extent);
  tiles(r.tiles);
  statements(statements, r.prologue);
  for (const Stream& s : r.streams) {
    StepStatement nested;
    nested.nested = std::make_shared<Stream>(s);
    statements(statements, {nested});
  }
  statements(statements, r.epilogue);
  return {symbols.begin(), symbols.end()};
}

std::string to_string(const StreamingRegion& region) {
  return Printer().print(region);
}

}  // namespace aicf
