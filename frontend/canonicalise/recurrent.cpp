// RNN, GRU and LSTM: every step is written out, so the number of steps must be known and small.
//
// Gates stand one after another in the second dim of W, R and B: one for RNN; update, reset, hidden for GRU; input,
// output, forget, cell for LSTM.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/check.h"

namespace aicf::ops {
namespace {

/// Steps of both directions together: each is a product and a few maps.
constexpr std::int64_t most_steps = 128;
/// … of all such operators of a model.
constexpr std::int64_t most_steps_of_model = 4096;

Expr like(const Expr& x, double value) {
  return number(x.type(), value);
}

/// An activation of the `activations` attribute, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  Expr operator()(const Expr& x) const {
    const Expr zero = like(x, 0), one = like(x, 1), a = like(x, alpha), b = like(x, beta);
    const auto exp = [](const Expr& e) { return Expr::unary(Op::exp, e); };
    if (name == "sigmoid") return Expr::unary(Op::reciprocal, one + exp(-x));
    if (name == "tanh") return Expr::unary(Op::tanh, x);
    if (name == "relu") return Expr::binary(Op::max, x, zero);
    if (name == "affine") return a * x + b;
    if (name == "leakyrelu") return Expr::select(less(x, zero), a * x, x);
    if (name == "thresholdedrelu") return Expr::select(less(x, a), zero, x);
    if (name == "scaledtanh") return a * Expr::unary(Op::tanh, b * x);
    if (name == "hardsigmoid") return Expr::binary(Op::min, one, Expr::binary(Op::max, zero, a * x + b));
    if (name == "elu") return Expr::select(less(x, zero), a * (exp(x) - one), x);
    if (name == "softsign") return x / (one + Expr::unary(Op::abs, x));
    // softplus, without overflow
    const Expr tail = Expr::unary(Op::log, one + exp(-Expr::unary(Op::abs, x)));
    return Expr::binary(Op::max, x, zero) + tail;
  }
};

struct KnownActivation {
  std::string_view name;
  bool has_alpha, has_beta;
  double alpha, beta;
};
constexpr KnownActivation known_activations[] = {
    {"sigmoid", false, false, 0, 0},  {"tanh", false, false, 0, 0},          {"relu", false, false, 0, 0},
    {"affine", true, true, 1, 0},     {"leakyrelu", true, false, 0.01, 0},   {"thresholdedrelu", true, false, 1, 0},
    {"scaledtanh", true, true, 1, 1}, {"hardsigmoid", true, true, 0.2, 0.5}, {"elu", true, false, 1, 0},
    {"softsign", false, false, 0, 0}, {"softplus", false, false, 0, 0},
};

/// What the operator is given, checked. Dims: steps, batch, directions; hidden is the size of a state.
struct Recurrent {
  ValuePtr x, w, r, bias, lengths, first_h, first_c, peephole;
  std::int64_t gates = 0, steps = 0, directions = 1;
  bool backward = false;  ///< of the first direction
  bool batch_first = false, linear_before_reset = false, coupled = false;
  std::optional<double> clip;
  Expr batch, hidden;
  std::vector<Activation> activations;  ///< of direction 0, then of direction 1
  DType type = DType::f32;

  Index placed(const Expr& step, const Expr& row) const { return batch_first ? Index{row, step} : Index{step, row}; }
};

Result<std::vector<Activation>> activations_of(const Lowering& op, std::int64_t directions) {
  std::vector<std::string> names{"Tanh"};
  if (op.op() == "GRU") names = {"Sigmoid", "Tanh"};
  if (op.op() == "LSTM") names = {"Sigmoid", "Tanh", "Tanh"};
  const std::size_t wanted = names.size() * static_cast<std::size_t>(directions);
  if (directions == 2) {
    const std::vector<std::string> once = names;
    names.insert(names.end(), once.begin(), once.end());
  }
  if (const Attribute* a = op.attribute("activations")) names = a->ss;
  if (names.size() != wanted) return op.bad(fmt::format("{} activations, {} wanted", names.size(), wanted));
  auto take = [&, alpha = std::size_t{0}, beta = std::size_t{0}](const KnownActivation& k) mutable {
    Activation result{std::string(k.name), k.alpha, k.beta};
    const Attribute *alphas = op.attribute("activation_alpha"), *betas = op.attribute("activation_beta");
    if (k.has_alpha && alphas && alpha < alphas->fs.size()) result.alpha = alphas->fs[alpha++];
    if (k.has_beta && betas && beta < betas->fs.size()) result.beta = betas->fs[beta++];
    return result;
  };
  std::vector<Activation> result;
  for (const std::string& given : names) {
    std::string name = given;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto known = std::ranges::find(known_activations, name, &KnownActivation::name);
    if (known == std::end(known_activations)) return op.cannot(fmt::format("the activation {}", in_quotes(given)));
    result.push_back(take(*known));
  }
  return result;
}

/// Input `k` of the given dims, or nothing; dims that are empty expressions are free.
Result<ValuePtr> operand(Lowering& op, int k, const Shape& shape) {
  if (!op.has(k)) return ValuePtr();
  const ValuePtr v = op.in(k);
  if (v->shape.size() != shape.size())
    return op.bad(fmt::format("input {} has rank {}, {} wanted", k, v->rank(), shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!shape[d]) continue;
    AICF_TRY([[maybe_unused]] const Expr dim,
             op.agree(v->shape[d], shape[d], fmt::format("dim {} of input {} and the size", d, k)));
  }
  return v;
}

Result<Recurrent> read(Lowering& op) {
  Recurrent c;
  c.gates = op.op() == "LSTM" ? 4 : op.op() == "GRU" ? 3 : 1;
  AICF_RETURN_IF_ERROR(op.want_float(0));
  c.x = op.in(0);
  c.type = c.x->type;
  for (const int k : {1, 2, 3, 5, 6, 7}) {
    if (op.has(k)) AICF_RETURN_IF_ERROR(op.want_same_type(0, k));
  }
  if (c.x->rank() != 3) return op.bad(fmt::format("input 0 has rank {}, 3 wanted", c.x->rank()));
  c.batch_first = op.integer("layout", 0) != 0;
  const std::string direction = op.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return op.bad(fmt::format("direction is {}, 'forward', 'reverse' or 'bidirectional' wanted", in_quotes(direction)));
  c.directions = direction == "bidirectional" ? 2 : 1;
  c.backward = direction == "reverse";
  const auto steps = constant_of(c.x->shape[c.batch_first ? 1 : 0]);
  if (!steps) {
    return op.cannot(fmt::format("the number of steps is {}, and each step is written out; bind the symbols",
                                 to_string(c.x->shape[c.batch_first ? 1 : 0])));
  }
  c.steps = *steps;
  if (c.steps == 0 || c.steps > most_steps / c.directions) {
    return op.cannot(fmt::format("{} steps in {} direction(s); each is written out, and from 1 to {} together are",
                                 c.steps, c.directions, most_steps));
  }
  op.state().unrolled_steps += c.steps * c.directions;
  if (op.state().unrolled_steps > most_steps_of_model) {
    return op.cannot(fmt::format(
        "the model's recurrent operators have more than {} steps together; each is written out", most_steps_of_model));
  }
  c.batch = c.x->shape[c.batch_first ? 0 : 1];
  if (op.in(2)->rank() != 3) return op.bad(fmt::format("input 2 has rank {}, 3 wanted", op.in(2)->rank()));
  c.hidden = op.in(2)->shape[2];
  if (const Attribute* a = op.attribute("hidden_size")) {
    AICF_TRY(c.hidden, op.agree(c.hidden, Expr(a->i), "the last dim of input 2 and hidden_size"));
  }
  const Expr directions(c.directions), rows = op.simplify(Expr(c.gates) * c.hidden);
  AICF_TRY(c.w, operand(op, 1, {directions, rows, c.x->shape[2]}));
  AICF_TRY(c.r, operand(op, 2, {directions, rows, c.hidden}));
  AICF_TRY(c.bias, operand(op, 3, {directions, op.simplify(Expr(2) * rows)}));
  if (op.has(4)) AICF_RETURN_IF_ERROR(op.want_type(4, DType::i32));
  AICF_TRY(c.lengths, operand(op, 4, {c.batch}));
  const Shape state = c.batch_first ? Shape{c.batch, directions, c.hidden} : Shape{directions, c.batch, c.hidden};
  AICF_TRY(c.first_h, operand(op, 5, state));
  AICF_TRY(c.first_c, operand(op, 6, state));
  AICF_TRY(c.peephole, operand(op, 7, {directions, op.simplify(Expr(3) * c.hidden)}));
  c.linear_before_reset = op.integer("linear_before_reset", 0) != 0;
  c.coupled = op.integer("input_forget", 0) != 0;
  if (const Attribute* a = op.attribute("clip")) c.clip = a->f;
  AICF_TRY(c.activations, activations_of(op, c.directions));
  return c;
}

/// The steps of one direction.
class Direction {
 public:
  Direction(Lowering& op, const Recurrent& c, std::int64_t d)
      : op_(op),
        c_(c),
        d_(d),
        label_(c.directions == 2 ? (d == 0 ? "forward" : "backward") : ""),
        activations_(c.activations.begin() + d * static_cast<std::ptrdiff_t>(c.activations.size()) / c.directions,
                     c.activations.end()) {}

  ValuePtr h, c;            ///< after the last step; empty: zero
  std::vector<ValuePtr> y;  ///< h by step, 0 beyond a row's length

  Result<void> run() {
    AICF_TRY(h, first(c_.first_h, "first_h"));
    AICF_TRY(c, first(c_.first_c, "first_c"));
    const Expr rows = op_.simplify(Expr(c_.gates) * c_.hidden);
    AICF_TRY(input_, op_.reduce({name("input"), c_.type, {Expr(c_.steps), c_.batch, rows}, {c_.x, c_.w}},
                                {c_.x->shape[2]}, ReduceOp::sum, [&](const Index& i, const Index& r) {
                                  Index at = c_.placed(i[0], i[1]);
                                  at.push_back(r[0]);
                                  return op_.at(c_.x, at) * op_.at(c_.w, {Expr(d_), i[2], r[0]});
                                }));
    y.resize(static_cast<std::size_t>(c_.steps));
    const bool backward = c_.backward || d_ == 1;
    for (std::int64_t k = 0; k < c_.steps; ++k) AICF_RETURN_IF_ERROR(step(backward ? c_.steps - 1 - k : k));
    return {};
  }

 private:
  std::string name(const std::string& part, std::int64_t t = -1) const {
    const std::string text = label_.empty() ? part : fmt::format("{}_{}", label_, part);
    return op_.name(t < 0 ? text : fmt::format("{}_{}", text, t));
  }

  Result<ValuePtr> first(const ValuePtr& state, const std::string& part) {
    if (!state) return ValuePtr();
    return op_.move(name(part), state, {c_.batch, c_.hidden}, [&](const Index& i) {
      return c_.batch_first ? Index{i[0], Expr(d_), i[1]} : Index{Expr(d_), i[0], i[1]};
    });
  }

  /// Sum over the state `v` of v[row, s] R[gate·hidden + unit, s], by row and gate·hidden + unit.
  Result<ValuePtr> recurrent(const ValuePtr& v, const std::string& part, std::int64_t t, std::int64_t first_gate,
                             std::int64_t gates) {
    if (!v) return ValuePtr();
    const Expr offset = op_.simplify(Expr(first_gate) * c_.hidden);
    return op_.reduce({name(part, t), c_.type, {c_.batch, op_.simplify(Expr(gates) * c_.hidden)}, {v, c_.r}},
                      {c_.hidden}, ReduceOp::sum, [&](const Index& i, const Index& r) {
                        return op_.at(v, {i[0], r[0]}) * op_.at(c_.r, {Expr(d_), offset + i[1], r[0]});
                      });
  }

  Expr unit(std::int64_t gate, const Expr& u) const { return Expr(gate) * c_.hidden + u; }
  Expr zero() const { return number(wide(c_.type), 0); }
  Expr of(const ValuePtr& v, const Index& i) { return v ? op_.at(v, i) : zero(); }
  Expr input(std::int64_t t, std::int64_t gate, const Index& i) {
    const Expr e = op_.at(input_, {Expr(t), i[0], unit(gate, i[1])});
    return c_.bias ? e + op_.at(c_.bias, {Expr(d_), unit(gate, i[1])}) : e;
  }
  Expr state(const ValuePtr& product, std::int64_t gate, std::int64_t first_gate, const Index& i) {
    Expr e = product ? op_.at(product, {i[0], unit(gate - first_gate, i[1])}) : zero();
    return c_.bias ? e + op_.at(c_.bias, {Expr(d_), unit(c_.gates + gate, i[1])}) : e;
  }
  /// Peephole weights stand as input, output, forget.
  Expr peephole(std::int64_t gate, const Expr& cell, const Index& i) {
    return c_.peephole ? op_.at(c_.peephole, {Expr(d_), unit(gate, i[1])}) * cell : zero();
  }
  Expr activated(std::size_t which, const Expr& e) const {
    if (!c_.clip) return activations_[which](e);
    const Expr limit = like(e, *c_.clip);
    return activations_[which](Expr::binary(Op::max, -limit, Expr::binary(Op::min, e, limit)));
  }

  /// `made` where the row has step t, else what was before.
  Result<ValuePtr> kept(const std::string& part, std::int64_t t, Values operands, const ValuePtr& before,
                        const Lowering::Body& made) {
    if (before) operands.push_back(before);
    if (c_.lengths) operands.push_back(c_.lengths);
    return op_.map({name(part, t), c_.type, {c_.batch, c_.hidden}, operands}, [&](const Index& i) {
      const Expr e = made(i);
      return c_.lengths ? Expr::select(has(t, i), e, of(before, i)) : e;
    });
  }
  Expr has(std::int64_t t, const Index& i) { return less(Expr(t), cast_to(op_.at(c_.lengths, {i[0]}), DType::i64)); }

  Result<void> step(std::int64_t t) {
    if (c_.gates == 1)
      AICF_RETURN_IF_ERROR(simple(t));
    else if (c_.gates == 3)
      AICF_RETURN_IF_ERROR(gated(t));
    else
      AICF_RETURN_IF_ERROR(long_short(t));
    ValuePtr& out = y[static_cast<std::size_t>(t)];
    out = h;
    if (!c_.lengths) return {};
    AICF_TRY(out, op_.map({name("y", t), c_.type, {c_.batch, c_.hidden}, {h, c_.lengths}},
                          [&](const Index& i) { return Expr::select(has(t, i), op_.at(h, i), zero()); }));
    return {};
  }

  Values operands(Values more) const {
    Values all{input_};
    for (const ValuePtr& v : {c_.bias, c_.peephole}) more.push_back(v);
    for (const ValuePtr& v : more) {
      if (v) all.push_back(v);
    }
    return all;
  }

  Result<void> simple(std::int64_t t) {
    AICF_TRY(const ValuePtr product, recurrent(h, "state", t, 0, 1));
    AICF_TRY(h, kept("h", t, operands({product}), h,
                     [&](const Index& i) { return activated(0, input(t, 0, i) + state(product, 0, 0, i)); }));
    return {};
  }

  Result<void> gated(std::int64_t t) {
    const ValuePtr before = h;
    const std::int64_t gates = c_.linear_before_reset ? 3 : 2;
    AICF_TRY(const ValuePtr product, recurrent(before, "state", t, 0, gates));
    const auto reset = [&](const Index& i) { return activated(0, input(t, 1, i) + state(product, 1, 0, i)); };
    ValuePtr candidate = product;
    if (!c_.linear_before_reset && before) {
      AICF_TRY(const ValuePtr kept_part,
               op_.map({name("reset", t), c_.type, {c_.batch, c_.hidden}, operands({product, before})},
                       [&](const Index& i) { return reset(i) * op_.at(before, i); }));
      AICF_TRY(candidate, recurrent(kept_part, "candidate", t, 2, 1));
    }
    AICF_TRY(h, kept("h", t, operands({product, candidate}), before, [&](const Index& i) {
               const Expr update = activated(0, input(t, 0, i) + state(product, 0, 0, i));
               const Expr hidden =
                   c_.linear_before_reset ? reset(i) * state(product, 2, 0, i) : state(candidate, 2, 2, i);
               const Expr made = activated(1, input(t, 2, i) + hidden);
               return (like(update, 1) - update) * made + update * of(before, i);
             }));
    return {};
  }

  Result<void> long_short(std::int64_t t) {
    const ValuePtr before = c;
    AICF_TRY(const ValuePtr product, recurrent(h, "state", t, 0, 4));
    const auto sum = [&](std::int64_t gate, const Index& i) { return input(t, gate, i) + state(product, gate, 0, i); };
    const auto cell = [&](const Index& i) {
      const Expr old = of(before, i);
      const Expr in = activated(0, sum(0, i) + peephole(0, old, i));
      const Expr forget = c_.coupled ? like(in, 1) - in : activated(0, sum(2, i) + peephole(2, old, i));
      return forget * old + in * activated(1, sum(3, i));
    };
    AICF_TRY(const ValuePtr made,
             op_.map({name("cell", t), c_.type, {c_.batch, c_.hidden}, operands({product, before})}, cell));
    AICF_TRY(h, kept("h", t, operands({product, made}), h, [&](const Index& i) {
               const Expr value = op_.at(made, i);
               return activated(0, sum(1, i) + peephole(1, value, i)) * activations_[2](value);
             }));
    c = made;
    if (c_.lengths) {
      AICF_TRY(c, kept("c", t, {made}, before, [&](const Index& i) { return op_.at(made, i); }));
    }
    return {};
  }

  Lowering& op_;
  const Recurrent& c_;
  std::int64_t d_;
  std::string label_;
  std::vector<Activation> activations_;
  ValuePtr input_;  ///< W x by step, row and gate·hidden + unit
};

/// One of `parts` by the value of `which`, in halves.
Expr chosen(Lowering& op, const Values& parts, const Expr& which, const Index& i, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return op.joined_at(parts, parts[begin], i);
  const std::size_t middle = begin + (end - begin) / 2;
  return Expr::select(less(which, Expr(static_cast<std::int64_t>(middle))), chosen(op, parts, which, i, begin, middle),
                      chosen(op, parts, which, i, middle, end));
}

}  // namespace

Result<void> recurrent(Lowering& op) {
  AICF_TRY(const Recurrent c, read(op));
  Values y, last_h, last_c;  // y: by step, then by direction
  std::vector<Direction> directions;
  for (std::int64_t d = 0; d < c.directions; ++d) {
    directions.emplace_back(op, c, d);
    AICF_RETURN_IF_ERROR(directions.back().run());
    last_h.push_back(directions.back().h);
    last_c.push_back(directions.back().c);
  }
  for (std::size_t t = 0; t < static_cast<std::size_t>(c.steps); ++t) {
    for (const Direction& d : directions) y.push_back(d.y[t]);
  }
  const Expr count(c.directions);
  if (op.wants(0)) {
    const Expr steps(c.steps);
    const Shape shape = c.batch_first ? Shape{c.batch, steps, count, c.hidden} : Shape{steps, count, c.batch, c.hidden};
    AICF_TRY(ValuePtr all, op.map({op.name(), c.type, shape, y}, [&](const Index& i) {
      const Expr &step = c.batch_first ? i[1] : i[0], &direction = c.batch_first ? i[2] : i[1],
                 &row = c.batch_first ? i[0] : i[2];
      return chosen(op, y, op.simplify(step * count + direction), {row, i[3]}, 0, y.size());
    }));
    op.result(0, std::move(all));
  }
  for (int k = 1; k <= 2; ++k) {
    if (!op.wants(k)) continue;
    const Values& parts = k == 1 ? last_h : last_c;
    const Shape shape = c.batch_first ? Shape{c.batch, count, c.hidden} : Shape{count, c.batch, c.hidden};
    AICF_TRY(ValuePtr all, op.map({op.name({}, k), c.type, shape, parts}, [&](const Index& i) {
      const Expr &direction = c.batch_first ? i[1] : i[0], &row = c.batch_first ? i[0] : i[1];
      return chosen(op, parts, direction, {row, i[2]}, 0, parts.size());
    }));
    op.result(k, std::move(all));
  }
  return {};
}

}  // namespace aicf::ops
