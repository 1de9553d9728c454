#include "mir/stream/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "mir/stream/problem.h"
#include "mir/support/expr_brief.h"

namespace aicf::stream {
namespace {

class Placement {
 public:
  Placement(Region& region, const std::string& axis, std::vector<CertificateEntry>& certificate)
      : region_(region), axis_(axis), certificate_(certificate), before_(region, axis) {}

  void run() {
    for (const Statement& s : region_.statements) {
      if (s.over.empty() || s.reduce != ReduceOp::sum || s.body.op() != Op::mul) continue;
      const Expr a = s.body.args()[0], b = s.body.args()[1];
      if (Statement* to = target(a), *from = source(b); to && from && to != from)
        move(*from, *to);
      else if (to = target(b), from = source(a); to && from && to != from)
        move(*from, *to);
    }
  }

 private:
  static bool is_factor(const Expr& e) {
    return e.is_constant() && is_float(e.type()) && e.number() != 0 && std::abs(e.number()) <= 1;
  }

  /// The map that `e` names when nothing else reads it.
  Statement* only_use(const Expr& e) const {
    if (e.op() != Op::value) return nullptr;
    auto s = std::ranges::find(region_.statements, e.name(), &Statement::name);
    if (s == region_.statements.end() || !s->over.empty() || before_.uses(e.name()) != 1) return nullptr;
    return &*s;
  }
  Statement* target(const Expr& e) const {
    Statement* s = only_use(e);
    return s && is_float(s->type) && !has(s->axes, axis_) ? s : nullptr;
  }
  Statement* source(const Expr& e) const {
    Statement* s = only_use(e);
    if (!s || !has(s->axes, axis_) || s->body.op() != Op::mul) return nullptr;
    return is_factor(s->body.args()[0]) || is_factor(s->body.args()[1]) ? s : nullptr;
  }

  /// x · c, with a factor that x has already taken in where no product on the way is lost to underflow.
  static Expr scaled(const Expr& x, const Expr& c) {
    if (x.op() == Op::mul) {
      for (const int i : {0, 1}) {
        const Expr own = x.args()[i];
        if (is_factor(own) && own.type() == c.type() && std::abs(own.number() * c.number()) > 1e-30)
          return x.args()[1 - i] * Expr::constant(c.type(), own.number() * c.number());
      }
    }
    return x * c;
  }

  void move(Statement& from, Statement& to) {
    const bool first = is_factor(from.body.args()[0]);
    const Expr factor = from.body.args()[first ? 0 : 1];
    from.body = from.body.args()[first ? 1 : 0];
    to.body = scaled(to.body, factor);
    certificate_.push_back({"invariant factor", to.name,
                            fmt::format("{} of '{}', at most 1 in magnitude, is applied to what is held along {}",
                                        brief(factor), from.name, axis_)});
  }

  Region& region_;
  const std::string& axis_;
  std::vector<CertificateEntry>& certificate_;
  const Problem before_;
};

}  // namespace

Region place_factors(Region region, const std::string& axis, std::vector<CertificateEntry>& certificate) {
  if (!axis.empty()) Placement(region, axis, certificate).run();
  return region;
}

Region powers_as_exponentials(Region region, std::vector<CertificateEntry>& certificate) {
  std::set<std::string> resting;
  const auto rests = [&](const Expr& e) {
    return std::ranges::any_of(values_of(e), [&](const std::string& v) { return resting.contains(v); });
  };
  for (Statement& s : region.statements) {
    s.body = rewrite(s.body, [&](const Expr& e) -> Expr {
      if (e.op() != Op::pow || !is_float(e.type()) || !e.args()[0].is_constant() || !rests(e.args()[1])) return {};
      const double base = e.args()[0].number();
      if (!(base > 0) || std::isinf(base) || base == 1) return {};
      certificate.push_back(
          {"power of a constant", s.name, fmt::format("{}^x is exp(x * {:.9g})", base, std::log(base))});
      return Expr::unary(Op::exp, e.args()[1] * Expr::constant(e.type(), std::log(base)));
    });
    if (!s.over.empty() || rests(s.body)) resting.insert(s.name);
  }
  return region;
}

}  // namespace aicf::stream
