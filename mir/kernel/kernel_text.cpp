#include "mir/kernel/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace aicf {
namespace kernel_text {
namespace {

constexpr std::array<std::string_view, 3> prefixes{"size.", "axis.", "tile."};

std::string_view prefix(Meaning meaning) {
  return prefixes[static_cast<std::size_t>(meaning)];
}

}  // namespace

bool Vocabulary::has(const std::string& name, Meaning meaning) const {
  switch (meaning) {
    case Meaning::size:
      return sizes.contains(name);
    case Meaning::axis:
      return axes.contains(name);
    case Meaning::tile:
      return tiles.contains(name);
  }
  return false;
}

Meaning Vocabulary::meaning(const std::string& name, const Order& order) const {
  for (const Meaning m : order) {
    if (has(name, m)) return m;
  }
  return order[0];
}

Expr Vocabulary::qualified(const Expr& e, const Order& order) const {
  return rewrite(e, [&](const Expr& node) -> Expr {
    Meaning own;
    switch (node.op()) {
      case Op::symbol:
        own = Meaning::size;
        break;
      case Op::axis:
        own = Meaning::axis;
        break;
      case Op::value:
        own = Meaning::tile;
        break;
      default:
        return {};
    }
    if (!has(node.name(), own) || meaning(node.name(), order) == own) return {};
    return Expr::value(std::string(prefix(own)) + node.name(), node.type());
  });
}

Scope Vocabulary::scope(const Order& order) const {
  Scope scope;
  const auto add = [&](const std::string& name, Meaning own, DType type) {
    if (meaning(name, order) != own) {
      scope.values[std::string(prefix(own)) + name] = type;
    } else if (own == Meaning::size) {
      scope.symbols.insert(name);
    } else if (own == Meaning::axis) {
      scope.axes.insert(name);
    } else {
      scope.values[name] = type;
    }
  };
  for (const std::string& name : sizes) add(name, Meaning::size, DType::i64);
  for (const std::string& name : axes) add(name, Meaning::axis, DType::i64);
  for (const auto& [name, type] : tiles) add(name, Meaning::tile, type);
  return scope;
}

Expr Vocabulary::resolved(const Expr& e) const {
  return rewrite(e, [&](const Expr& node) -> Expr {
    if (node.op() != Op::value || tiles.contains(node.name())) return {};
    for (const Meaning m : {Meaning::size, Meaning::axis, Meaning::tile}) {
      if (!node.name().starts_with(prefix(m))) continue;
      const std::string name = node.name().substr(prefix(m).size());
      if (!has(name, m)) continue;
      switch (m) {
        case Meaning::size:
          return Expr::symbol(name);
        case Meaning::axis:
          return Expr::axis(name);
        case Meaning::tile:
          return Expr::value(name, node.type());
      }
    }
    return {};
  });
}

Vocabulary vocabulary_of(const Kernel& kernel) {
  Vocabulary v;
  v.sizes = {"workgroup", "lane", "subgroup"};
  v.sizes.insert(kernel.symbols.begin(), kernel.symbols.end());
  const auto scan = [&](const Expr& e) {
    for (const std::string& axis : axes_of(e)) v.axes.insert(axis);
  };
  for (const auto& [axis, e] : kernel.bases) {
    v.axes.insert(axis);
    scan(e);
  }
  for (const KernelTile& t : kernel.tiles) {
    v.tiles[t.name] = t.type;
    for (const TileAxis& a : t.axes) v.axes.insert(a.name);
  }
  const auto walk = [&](const auto& self, const KernelBody& body) -> void {
    for (const KernelOp& op : body) {
      if (op.kind == KernelOp::Kind::loop) v.sizes.insert(op.variable);
      for (const auto& [axis, e] : op.bases) {
        v.axes.insert(axis);
        scan(e);
      }
      v.axes.insert(op.over.begin(), op.over.end());
      for (const Expr& e : op.index) scan(e);
      for (const Expr& e : {op.expr, op.predicate, op.fill, op.begin, op.end, op.step}) scan(e);
      self(self, op.body);
    }
  };
  walk(walk, kernel.body);
  return v;
}

bool is_keyword(const std::string& word) {
  static constexpr std::array<std::string_view, 18> words{"multiply", "load", "store",   "cross",  "stage",  "fetch",
                                                          "barrier",  "for",  "if",      "base",   "buffer", "tile",
                                                          "range",    "axes", "symbols", "kernel", "else",   "width"};
  return std::ranges::find(words, word) != words.end();
}

namespace {

/// A name as the grammar of expressions writes it.
std::string quoted(const std::string& name) {
  return to_string(Expr::value(name, DType::f32));
}

std::string leading(const std::string& name) {
  return is_keyword(name) ? "`" + name + "`" : quoted(name);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + quoted(n);
  return text;
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), words_(vocabulary_of(kernel)) {}

  std::string run() {
    out_ = fmt::format("kernel {} work_items {} subgroup {} x {}\n", quoted(kernel_.name),
                       text(kernel_.workgroups, sizes_first), kernel_.subgroup_size, kernel_.subgroups);
    if (!kernel_.symbols.empty()) line(1, "symbols " + joined(kernel_.symbols));
    declare_axes();
    for (const auto& [key, range] : kernel_.ranges) {
      const std::string axis = key.substr(std::string_view("axis:").size());
      const auto side = [](const std::optional<std::int64_t>& n) { return n ? std::to_string(*n) : std::string("?"); };
      line(1, fmt::format("range {} {} .. {}", quoted(axis), side(range.low), side(range.high)));
    }
    for (const auto& [axis, e] : kernel_.bases)
      line(1, fmt::format("for {} in grid: {}", quoted(axis + "_tile"), base(axis, e)));
    for (const KernelBuffer& b : kernel_.buffers) {
      line(1, fmt::format("buffer {}: {}[{}]{}", quoted(b.name), name(b.type), list(b.shape, sizes_first),
                          b.written ? " written" : ""));
    }
    for (const KernelTile& t : kernel_.tiles) line(1, tile(t));
    body(kernel_.body, 1);
    return std::move(out_);
  }

 private:
  void line(int depth, const std::string& text) {
    out_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + '\n';
  }

  std::string text(const Expr& e, const Order& order) const { return to_string(words_.qualified(e, order)); }

  std::string list(const std::vector<Expr>& exprs, const Order& order) const {
    std::string result;
    for (const Expr& e : exprs) result += (result.empty() ? "" : ", ") + text(e, order);
    return result;
  }

  std::string base(const std::string& axis, const Expr& e) const {
    return fmt::format("base {} = {}", quoted(axis), text(e, sizes_first));
  }

  /// Axes that no tile and no base introduces.
  void declare_axes() {
    std::set<std::string> rest = words_.axes;
    for (const KernelTile& t : kernel_.tiles) {
      for (const TileAxis& a : t.axes) rest.erase(a.name);
    }
    if (!rest.empty()) line(1, "axes " + joined({rest.begin(), rest.end()}));
  }

  std::string tile(const KernelTile& t) const {
    std::string axes;
    for (const TileAxis& a : t.axes) axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", quoted(a.name), a.extent);
    std::string result = fmt::format("tile {}: {}[{}]", quoted(t.name), name(t.type), axes);
    if (t.space == Space::workgroup) {
      result += " workgroup";
      if (t.row_padding != 0) result += fmt::format(" pad {}", t.row_padding);
      return result;
    }
    result += t.space == Space::fragment ? " fragment " + quoted(t.fragment) : " registers";
    std::map<std::string, std::int64_t> natural;
    const std::vector<Factor>& factors = t.distribution.factors;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const Factor& f = factors[i];
      const bool opens = i == 0 || factors[i - 1].axis != f.axis;
      result += opens ? fmt::format(" {}(", quoted(f.axis)) : ", ";
      result += fmt::format("{} {}", name(f.level), f.size);
      if (f.level != Level::reg || f.position != 1) result += fmt::format(" @{}", f.position);
      std::int64_t& stride = natural.try_emplace(f.axis, 1).first->second;
      if (f.stride != 1 || stride != 1 || f.level != Level::reg) result += fmt::format(" stride {}", f.stride);
      stride *= f.size;
      if (i + 1 == factors.size() || factors[i + 1].axis != f.axis) result += ")";
    }
    return result;
  }

  std::string condition(const KernelOp& op) const {
    std::string result;
    if (op.predicate) result += " if " + text(op.predicate, axes_first);
    if (op.fill) result += " else " + text(op.fill, axes_first);
    if (op.vector_width != 1) result += fmt::format(" width {}", op.vector_width);
    return result;
  }

  std::string operation(const KernelOp& op) const {
    const auto masks = [](std::string_view word, const std::vector<std::int64_t>& list) {
      return list.empty() ? std::string() : fmt::format(" {} {}", word, fmt::join(list, ", "));
    };
    switch (op.kind) {
      case KernelOp::Kind::load:
        return fmt::format("load {} <- {}[{}]{}", quoted(op.tile), quoted(op.buffer), list(op.index, axes_first),
                           condition(op));
      case KernelOp::Kind::store:
        return fmt::format("store {}[{}] <- {} = {}{}", quoted(op.buffer), list(op.index, axes_first), quoted(op.tile),
                           text(op.expr, tiles_first), condition(op));
      case KernelOp::Kind::compute:
        return fmt::format("{} = {}", leading(op.tile), text(op.expr, tiles_first));
      case KernelOp::Kind::reduce: {
        const std::string sign = op.reduce == ReduceOp::sum ? "+" : std::string(name(op.reduce));
        return fmt::format("{} {}= {}{}", leading(op.tile), sign, text(op.expr, tiles_first),
                           op.over.empty() ? "" : " over " + joined(op.over));
      }
      case KernelOp::Kind::cross: {
        std::string rules;
        for (const MergeRule& r : op.merge) {
          rules += fmt::format("{}{} = {}", rules.empty() ? " " : "; ", quoted(r.state), text(r.value, tiles_first));
        }
        return fmt::format("cross {}{}{}:{}", joined(op.states), masks("lanes", op.lane_masks),
                           masks("subgroups", op.subgroup_masks), rules);
      }
      case KernelOp::Kind::to_workgroup:
        return fmt::format("stage {} <- {}", quoted(op.tile), quoted(op.source));
      case KernelOp::Kind::from_workgroup:
        return fmt::format("fetch {} <- {}", quoted(op.tile), quoted(op.source));
      case KernelOp::Kind::multiply:
        AICF_CHECK(op.operands.size() == 2, "a product of " + std::to_string(op.operands.size()) + " operands");
        return fmt::format("multiply {} += {} * {} unit {}", quoted(op.tile), quoted(op.operands[0]),
                           quoted(op.operands[1]), quoted(op.unit));
      case KernelOp::Kind::barrier:
        return "barrier";
      case KernelOp::Kind::loop: {
        std::string bases;
        for (const auto& [axis, e] : op.bases) bases += (bases.empty() ? " " : "; ") + base(axis, e);
        return fmt::format("for {} in {} .. {} step {}:{}", quoted(op.variable), text(op.begin, sizes_first),
                           text(op.end, sizes_first), text(op.step, sizes_first), bases);
      }
      case KernelOp::Kind::branch:
        return fmt::format("if {}:", text(op.predicate, axes_first));
    }
    AICF_BUG("unknown kind of kernel operation");
  }

  void body(const KernelBody& ops, int depth) {
    for (const KernelOp& op : ops) {
      line(depth, operation(op) + (op.note.empty() ? "" : "  # " + op.note));
      body(op.body, depth + 1);
    }
  }

  const Kernel& kernel_;
  Vocabulary words_;
  std::string out_;
};

}  // namespace
}  // namespace kernel_text

std::string to_string(const Kernel& kernel) {
  return kernel_text::Printer(kernel).run();
}

}  // namespace aicf
