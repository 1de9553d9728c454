#include "mir/stream/monotone.h"

#include <fmt/format.h>

#include "mir/support/expr_brief.h"

namespace aicf::stream {
namespace {

/// How φ depends on g. quasi_convex: nowhere above both ends of an interval (its maximum is at an extreme of g).
enum class Shape { constant, increasing, decreasing, either, quasi_convex, quasi_concave };

Shape reversed(Shape s) {
  switch (s) {
    case Shape::increasing:
      return Shape::decreasing;
    case Shape::decreasing:
      return Shape::increasing;
    case Shape::quasi_convex:
      return Shape::quasi_concave;
    case Shape::quasi_concave:
      return Shape::quasi_convex;
    default:
      return s;
  }
}

struct Form {
  Expr e;
  Shape shape = Shape::constant;
  bool partial = false;  ///< may be NaN on one side of an interval although its ends are not both NaN
};

class Analysis {
 public:
  Analysis(const Problem& problem, const Facts& facts, Expander& expander)
      : problem_(problem), facts_(facts), expander_(expander) {}

  Attempt<Form> run(const Expr& e);
  const Expr& g() const { return g_; }

 private:
  Attempt<Form> binary(const Expr& e);
  Attempt<Form> select(const Expr& e);
  Attempt<Form> scaled(Form form, const Expr& factor, const Expr& e) const;

  std::unexpected<Failure> unknown(const Expr& e, const std::string& why) const {
    return refuse("monotone",
                  fmt::format("'{}' is not shown to be monotone along '{}': {}", brief(e), problem_.axis(), why));
  }

  const Problem& problem_;
  const Facts& facts_;
  Expander& expander_;
  Expr g_;
};

Attempt<Form> Analysis::scaled(Form form, const Expr& factor, const Expr& e) const {
  const Interval sign = facts_.bounds(factor);
  if (sign.non_negative()) return form;
  if (sign.non_positive()) {
    form.shape = reversed(form.shape);
    return form;
  }
  if (form.shape == Shape::quasi_convex || form.shape == Shape::quasi_concave) {
    return unknown(e, fmt::format("the sign of '{}' is not known", brief(factor)));
  }
  form.shape = Shape::either;
  return form;
}

Attempt<Form> Analysis::binary(const Expr& e) {
  const Expr &x = e.args()[0], &y = e.args()[1];
  AICF_TRY(const Form a, run(x));
  AICF_TRY(const Form b, run(y));
  Form out{Expr::binary(e.op(), a.e, b.e), Shape::constant, a.partial || b.partial};
  const bool a_only = b.shape == Shape::constant, b_only = a.shape == Shape::constant;
  switch (e.op()) {
    case Op::add:
      if (!a_only && !b_only && a.shape != b.shape) return unknown(e, "its parts move in different directions");
      if (!a_only && !b_only && a.shape != Shape::increasing && a.shape != Shape::decreasing) {
        return unknown(e, "a sum of two parts whose direction is not known");
      }
      out.shape = a_only ? a.shape : b.shape;
      return out;
    case Op::sub: {
      const Shape right = reversed(b.shape);
      if (!a_only && !b_only && (a.shape != right || (a.shape != Shape::increasing && a.shape != Shape::decreasing))) {
        return unknown(e, "its parts move in different directions");
      }
      out.shape = a_only ? a.shape : right;
      return out;
    }
    case Op::mul:
      if (x == y && facts_.bounds(x).non_negative()) {
        out.shape = a.shape;
      } else if (x == y && (a.shape == Shape::increasing || a.shape == Shape::decreasing || a.shape == Shape::either)) {
        out.shape = Shape::quasi_convex;
      } else if (a_only || b_only) {
        out.shape = a_only ? a.shape : b.shape;
        AICF_TRY(const Form scaled_form, scaled(out, a_only ? y : x, e));
        return scaled_form;
      } else {
        return unknown(e, "a product of two parts that both move");
      }
      return out;
    case Op::div: {
      if (a_only) {
        out.shape = a.shape;
        AICF_TRY(const Form scaled_form, scaled(out, y, e));
        return scaled_form;
      }
      const Interval sign = facts_.bounds(y);
      if (!b_only || !(sign.positive() || sign.high < 0)) return unknown(e, "the divisor moves and may be 0");
      out.shape = reversed(b.shape);
      AICF_TRY(const Form scaled_form, scaled(out, x, e));
      return scaled_form;
    }
    case Op::max:
    case Op::min: {
      if (a_only || b_only) {
        out.shape = a_only ? a.shape : b.shape;
        if (out.shape == Shape::quasi_convex && e.op() == Op::min)
          out.shape = Shape::quasi_convex;  // min(φ, c) keeps its order
        return out;
      }
      if (a.shape != b.shape || (a.shape != Shape::increasing && a.shape != Shape::decreasing)) {
        return unknown(e, "its parts move in different directions");
      }
      out.shape = a.shape;
      return out;
    }
    case Op::pow: {
      if (!a_only || !y.is_constant()) return unknown(e, "a power that is not constant");
      const double p = y.number();
      if (facts_.bounds(x).non_negative()) {
        out.shape = p >= 0 ? a.shape : reversed(a.shape);
        return out;
      }
      if (p == 2 || p == 4 || p == 6) {
        if (a.shape != Shape::increasing && a.shape != Shape::decreasing && a.shape != Shape::either) break;
        out.shape = Shape::quasi_convex;
        return out;
      }
      if (p == 1 || p == 3 || p == 5) {
        out.shape = a.shape;
        return out;
      }
      break;
    }
    default:
      break;
  }
  return unknown(e, fmt::format("'{}' is not in the table of monotone operations", op_name(e.op())));
}

Attempt<Form> Analysis::select(const Expr& e) {
  const Expr c = expander_.uniform(e.args()[0]);
  if (!c)
    return refuse("uniform predicate",
                  fmt::format("'{}' is not shown to be the same along '{}'", brief(e.args()[0]), problem_.axis()));
  AICF_TRY(const Form a, run(e.args()[1]));
  AICF_TRY(const Form b, run(e.args()[2]));
  Form out{Expr::select(c, a.e, b.e), a.shape, a.partial || b.partial};
  if (a.shape == Shape::constant) out.shape = b.shape;
  if (a.shape != b.shape && a.shape != Shape::constant && b.shape != Shape::constant)
    return unknown(e, "its branches move in different directions");
  return out;
}

Attempt<Form> Analysis::run(const Expr& e) {
  switch (expander_.kind(e)) {
    case Kind::constant:
    case Kind::running:
      return Form{e};
    case Kind::along:
      if (!g_) g_ = e;
      if (problem_.canonical(g_) != problem_.canonical(e))
        return unknown(e, "it depends on more than one streamed value");
      return Form{Expr::value(extreme_name, e.type()), Shape::increasing};
    case Kind::mixed:
      break;
  }
  if (!is_float(e.type())) return unknown(e, "it is not a float");
  if (e.op() == Op::value) {
    if (!problem_.is_map(e.name())) return unknown(e, "it reduces over other axes");
    if (!problem_.is_open(e.name())) return unknown(e, "it is too large when it is written out");
    return run(problem_.statement(e.name()).body);
  }
  if (e.op() == Op::select) return select(e);
  if (op_arity(e.op()) == 2) return binary(e);
  const Expr& x = e.args()[0];
  AICF_TRY(Form a, run(x));
  Form out{Expr::rebuild(e, {a.e}), a.shape, a.partial};
  switch (e.op()) {
    case Op::neg:
      out.shape = reversed(a.shape);
      return out;
    case Op::exp:
    case Op::erf:
    case Op::tanh:
    case Op::floor:
    case Op::ceil:
    case Op::round_even:
    case Op::sign:
      return out;
    case Op::cast:
      if (!is_float(x.type())) break;
      return out;
    case Op::log:
    case Op::sqrt:
      out.partial |= !facts_.bounds(x).non_negative();
      return out;
    case Op::abs:
      if (facts_.bounds(x).non_negative()) return out;
      if (a.shape != Shape::increasing && a.shape != Shape::decreasing && a.shape != Shape::either) break;
      out.shape = Shape::quasi_convex;
      return out;
    case Op::reciprocal: {
      const Interval sign = facts_.bounds(x);
      if (!sign.positive() && !(sign.high < 0)) return unknown(e, "the divisor may be 0");
      out.shape = reversed(a.shape);
      return out;
    }
    default:
      break;
  }
  return unknown(e, fmt::format("'{}' is not in the table of monotone operations", op_name(e.op())));
}

}  // namespace

Attempt<Monotone> monotone(const Problem& problem, const Facts& facts, Expander& expander, const Expr& body,
                           bool maximum) {
  Analysis analysis(problem, facts, expander);
  AICF_TRY(const Form form, analysis.run(body));
  Monotone out;
  out.g = analysis.g();
  out.form = form.e;
  if (!out.g) return refuse("monotone", "nothing in it is streamed");
  switch (form.shape) {
    case Shape::increasing:
      (maximum ? out.from_max : out.from_min) = true;
      break;
    case Shape::decreasing:
      (maximum ? out.from_min : out.from_max) = true;
      break;
    case Shape::quasi_convex:
    case Shape::quasi_concave:
      if ((form.shape == Shape::quasi_convex) != maximum) {
        return refuse("monotone", fmt::format("'{}' takes its {} between the extremes of '{}'", brief(body),
                                              maximum ? "maximum" : "minimum", brief(out.g)));
      }
      [[fallthrough]];
    case Shape::either:
    case Shape::constant:
      out.from_max = out.from_min = true;
      break;
  }
  // A NaN on one side shows at that side's extreme.
  if (form.partial) out.from_max = out.from_min = true;
  const char* how = out.from_max && out.from_min      ? "an extreme of both ends"
                    : form.shape == Shape::increasing ? "increasing"
                                                      : "decreasing";
  out.condition = fmt::format("{} in '{}' for every reachable running result", how, brief(out.g));
  return out;
}

}  // namespace aicf::stream
