#include "mir/memory/rename.h"

#include <set>

namespace aicf {

namespace {

class Renamer {
 public:
  Renamer(StreamingRegion& region, const std::map<std::string, std::string>& wanted) : region_(region) {
    std::set<std::string> taken;
    for_each_name([&](std::string& n) { taken.insert(n); });
    for (const auto& [from, to] : wanted) {
      if (from == to || !taken.contains(from) || taken.contains(to)) continue;
      taken.insert(to);
      names_[from] = to;
    }
  }

  void run() {
    for_each_name([&](std::string& n) { n = renamed(n); });
    for_each_expression([&](Expr& e) { e = renamed(e); });
    for (Stream& s : region_.streams) {
      for (RepairGroup& g : s.repairs) {
        for (std::string& n : g.states) n = renamed(n);
        for (std::string& n : g.references) n = renamed(n);
        for (const auto& [from, to] : names_) replace_word(g.law, from, to);
      }
      for (MergeRule& m : s.merge) m.state = renamed(m.state);
      for (Segment& g : s.segments)
        for (std::string& n : g.tiles) n = renamed(n);
    }
    for (CertificateEntry& c : region_.certificate.entries) {
      c.statement = renamed(c.statement);
      for (const auto& [from, to] : names_) replace_word(c.condition, from, to);
    }
    for (std::string& l : region_.certificate.labels)
      for (const auto& [from, to] : names_) replace_word(l, from, to);
  }

 private:
  template <class Visit>
  void for_each_name(const Visit& visit) {
    for (TileDecl& t : region_.tiles) visit(t.name);
    statements([&](StepStatement& s) {
      if (s.kind != StepStatement::Kind::store) visit(s.name);
    });
    for (Stream& s : region_.streams) {
      for (TileDecl& t : s.tiles) visit(t.name);
      for (StateDecl& d : s.states) visit(d.name);
    }
  }

  template <class Visit>
  void for_each_expression(const Visit& visit) {
    auto tile = [&](TileDecl& t) {
      for (Expr& e : t.index) visit(e);
      if (t.guard) visit(t.guard);
    };
    for (TileDecl& t : region_.tiles) tile(t);
    statements([&](StepStatement& s) {
      if (s.body) visit(s.body);
      for (Expr& e : s.index) visit(e);
    });
    for (Stream& s : region_.streams) {
      for (TileDecl& t : s.tiles) tile(t);
      for (StateDecl& d : s.states)
        if (d.init) visit(d.init);
      for (RepairGroup& g : s.repairs)
        for (Expr& e : g.repair) visit(e);
      for (MergeRule& m : s.merge) visit(m.value);
      if (s.settled) visit(s.settled);
    }
  }

  template <class Visit>
  void statements(const Visit& visit) {
    for (StepStatement& s : region_.prologue) visit(s);
    for (Stream& t : region_.streams) {
      for (StepStatement& s : t.step) visit(s);
      for (StepStatement& s : t.finish) visit(s);
    }
    for (StepStatement& s : region_.epilogue) visit(s);
  }

  std::string renamed(const std::string& name) const {
    auto it = names_.find(name);
    return it == names_.end() ? name : it->second;
  }

  Expr renamed(const Expr& e) const {
    return rewrite(e, [&](const Expr& x) -> Expr {
      if (x.op() != Op::value) return {};
      std::string name = x.name(), before, after;
      if (name.ends_with("'")) name.pop_back(), after = "'";
      if (name.starts_with("a.") || name.starts_with("b.")) before = name.substr(0, 2), name = name.substr(2);
      auto it = names_.find(name);
      return it == names_.end() ? Expr() : Expr::value(before + it->second + after, x.type());
    });
  }

  StreamingRegion& region_;
  std::map<std::string, std::string> names_;
};

}  // namespace

void replace_word(std::string& text, const std::string& from, const std::string& to) {
  auto word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    bool whole = (at == 0 || !word(text[at - 1])) && (at + from.size() == text.size() || !word(text[at + from.size()]));
    if (whole) text.replace(at, from.size(), to);
    at += whole ? to.size() : from.size();
  }
}

void rename_values(StreamingRegion& region, const std::map<std::string, std::string>& names) {
  Renamer(region, names).run();
}

void rename_tensors(StreamingRegion& region, const std::map<std::string, std::string>& names) {
  auto rename = [&](std::string& n) {
    if (auto it = names.find(n); it != names.end()) n = it->second;
  };
  auto statements = [&](std::vector<StepStatement>& list) {
    for (StepStatement& s : list)
      if (s.kind == StepStatement::Kind::store) rename(s.name);
  };
  for (TileDecl& t : region.tiles) rename(t.tensor);
  statements(region.prologue);
  for (Stream& s : region.streams) {
    for (TileDecl& t : s.tiles) rename(t.tensor);
    statements(s.step);
    statements(s.finish);
  }
  statements(region.epilogue);
}

}  // namespace aicf
