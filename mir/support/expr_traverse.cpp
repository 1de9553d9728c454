// Walks over expressions. Every walk visits a shared subexpression once (memo by identity).

#include <array>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mir/support/expr.h"
#include "mir/support/expr_node.h"

namespace aicf {
namespace {

/// A set of nodes by open addressing; small ones take no memory but their own.
class Seen {
 public:
  /// False where it was in already.
  bool insert(const void* node) {
    if (2 * ++count_ > size_) grow();
    return place(node);
  }

 private:
  static constexpr std::size_t small = 64;
  bool place(const void* node) {
    for (std::size_t i = (reinterpret_cast<std::uintptr_t>(node) >> 4) * 0x9e3779b97f4a7c15U >> 20;; ++i) {
      const void*& slot = slots_[i & (size_ - 1)];
      if (slot == node) return --count_, false;
      if (slot == nullptr) return slot = node, true;
    }
  }
  void grow() {
    std::vector<const void*> larger(4 * size_);
    const std::vector<const void*> old(slots_, slots_ + size_);
    std::swap(many_, larger);
    slots_ = many_.data(), size_ = many_.size();
    for (const void* node : old)
      if (node != nullptr) place(node);
  }

  std::array<const void*, small> few_{};
  std::vector<const void*> many_;
  const void** slots_ = few_.data();
  std::size_t size_ = small, count_ = 0;
};

void walk(const Expr& e, Seen& seen, const std::function<void(const Expr&)>& visit) {
  if (!seen.insert(e.identity())) return;
  for (const Expr& arg : e.args()) walk(arg, seen, visit);
  visit(e);
}

/// What nodes became. The first few are searched one by one.
class Memo {
 public:
  const Expr* find(const void* node) const {
    for (const auto& [known, expr] : few_)
      if (known == node) return &expr;
    if (many_.empty()) return nullptr;
    const auto found = many_.find(node);
    return found == many_.end() ? nullptr : &found->second;
  }
  void add(const void* node, const Expr& e) {
    if (few_.empty()) few_.reserve(most);
    if (few_.size() < most) {
      few_.emplace_back(node, e);
    } else {
      many_.emplace(node, e);
    }
  }

 private:
  static constexpr std::size_t most = 16;
  std::vector<std::pair<const void*, Expr>> few_;
  std::unordered_map<const void*, Expr> many_;
};

Expr rewrite_memo(const Expr& e, const std::function<Expr(const Expr&)>& replace, Memo& memo) {
  if (const Expr* known = memo.find(e.identity())) return *known;
  Expr current = e;
  if (const auto args = e.args(); !args.empty()) {
    std::vector<Expr> rewritten;
    rewritten.reserve(args.size());
    bool changed = false;
    for (const Expr& arg : args) {
      rewritten.push_back(rewrite_memo(arg, replace, memo));
      changed |= rewritten.back().identity() != arg.identity();
    }
    if (changed) current = Expr::rebuild(e, std::move(rewritten));
    // i + 0 has become a leaf that was looked at as an argument: i -> j, j -> 0 is one step, not two.
    if (current.args().empty()) {
      memo.add(e.identity(), current);
      return current;
    }
  }
  if (Expr replacement = replace(current)) current = std::move(replacement);
  memo.add(e.identity(), current);
  return current;
}

Expr substitute(const Expr& e, Op op, const ExprMap& map) {
  if (!e || map.empty()) return e;
  return rewrite(e, [&](const Expr& node) -> Expr {
    if (node.op() != op) return {};
    const auto found = map.find(node.name());
    return found == map.end() ? Expr() : found->second;
  });
}

std::set<std::string> names_of(const Expr& e, Op op) {
  std::set<std::string> names;
  for_each(e, [&](const Expr& node) {
    if (node.op() == op) names.insert(node.name());
  });
  return names;
}

bool mentions(const Expr& e, Op op, const std::string& name, std::unordered_set<const void*>* seen) {
  if (e.op() == op) return e.name() == name;
  if (e.args().empty() || (seen && !seen->insert(e.identity()).second)) return false;
  for (const Expr& arg : e.args()) {
    if (mentions(arg, op, name, seen)) return true;
  }
  return false;
}

bool mentions(const Expr& e, Op op, const std::string& name) {
  if (!e) return false;
  if (ExprNode::of(e).tree_size <= small_tree) return mentions(e, op, name, nullptr);
  std::unordered_set<const void*> seen;
  return mentions(e, op, name, &seen);
}

}  // namespace

void for_each(const Expr& e, const std::function<void(const Expr&)>& visit) {
  if (!e) return;
  if (e.args().empty()) return visit(e);
  Seen seen;
  walk(e, seen, visit);
}

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& replace) {
  if (!e) return e;
  if (e.args().empty()) {
    Expr replacement = replace(e);
    return replacement ? replacement : e;
  }
  Memo memo;
  return rewrite_memo(e, replace, memo);
}

Expr substitute_axes(const Expr& e, const ExprMap& axes) {
  return substitute(e, Op::axis, axes);
}
Expr substitute_symbols(const Expr& e, const ExprMap& symbols) {
  return substitute(e, Op::symbol, symbols);
}
Expr substitute_values(const Expr& e, const ExprMap& values) {
  return substitute(e, Op::value, values);
}

std::set<std::string> axes_of(const Expr& e) {
  return names_of(e, Op::axis);
}
std::set<std::string> symbols_of(const Expr& e) {
  return names_of(e, Op::symbol);
}
std::set<std::string> values_of(const Expr& e) {
  return names_of(e, Op::value);
}

std::vector<Expr> loads_of(const Expr& e) {
  std::vector<Expr> loads;
  std::set<Expr> seen;
  for_each(e, [&](const Expr& node) {
    if (node.op() == Op::load && seen.insert(node).second) loads.push_back(node);
  });
  return loads;
}

bool depends_on_axis(const Expr& e, const std::string& axis) {
  return mentions(e, Op::axis, axis);
}
bool depends_on_value(const Expr& e, const std::string& value) {
  return mentions(e, Op::value, value);
}

}  // namespace aicf
