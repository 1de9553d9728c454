// Graphs that weigh values by something: of every part there is a usual form and some unusual ones.

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/generate/sketch.h"

namespace aicf::generate {

namespace {

using numeric::Data;

class AttentionLike {
 public:
  AttentionLike(Sketch& s, bool twisted) : s_(s), twist_(twisted ? s.pick(twists) : -1) {}
  void build();

 private:
  // One place where a graph differs from what can be streamed as usual (the order is the code's, below).
  enum Twist {
    other_axis,         ///< weights normalised over the queries
    other_maximum,      ///< what is subtracted is the maximum of something else
    nonlinear_product,  ///< weights go through a nonlinearity before the product
    twice,              ///< scores are read again after the product
    transposed_weights,
    other_denominator,  ///< the sum of other weights
    rows_mixed,         ///< weights of other rows are added
    denominator_over_queries,
    clipped_weights,
    sorted_out,  ///< weights multiplied by their own row's sum of squares
    twists
  };

  Data data();
  Dim batch() const { return batch_; }
  Value head_tensor(const std::string& name, Dim heads, Dim length, std::int64_t width);
  Value repeated(const Value& x, std::int64_t times);
  Value rotary(const Value& x);
  Value normed(const Value& x);
  Value masked(Value scores);
  Value one_mask(const Value& scores);
  Value index_mask(const Value& scores);
  Value memory_like(const std::string& name, const Value& scores, Data data, DType type);
  Value weights(const Value& scores);
  Value normalised(const Value& scores);
  Value opposed(const Value& p);
  void finish(Value out);

  Sketch& s_;
  int twist_;
  Dim batch_, heads_, queries_, keys_;
  bool wild_ = false;  ///< inputs may have extremes
  bool nonfinite_values_ = false;
  int masks_ = 0;
  Value normaliser_site_;  ///< the softmax-like operation, when there is one
};

Data AttentionLike::data() {
  if (!wild_ || s_.chance(60)) return Data::normal;
  const Data d = s_.any({Data::close, Data::ascending, Data::descending, Data::wide, Data::constant, Data::zeros,
                         nonfinite_values_ ? Data::nan : Data::close, nonfinite_values_ ? Data::infinity : Data::wide});
  s_.note("data " + std::to_string(static_cast<int>(d)));
  return d;
}

/// [batch, heads, length, width] from one of the layouts that models have.
Value AttentionLike::head_tensor(const std::string& name, Dim heads, Dim length, std::int64_t width) {
  const Dim b = batch_, w{width};
  switch (s_.pick(9)) {
    case 0:
      return s_.transpose(s_.input(name, {b, length, heads, w}, data()), {0, 2, 1, 3});
    case 1: {
      const Value x = s_.input(name, {b, length, {heads.size * width}}, data());
      return s_.transpose(s_.reshape(x, {b, length, heads, w}), {0, 2, 1, 3});
    }
    case 2: {
      const std::int64_t c = s_.any({4, 7, 16});
      const Value x = s_.input(name + "_x", {b, length, {c}}, data());
      const Value p = s_.matmul(x, s_.input(name + "_w", {{c}, {heads.size * width}}, Data::close));
      return s_.transpose(s_.reshape(p, {b, length, heads, w}), {0, 2, 1, 3});
    }
    case 3: {  // past and new
      if (length.size < 2) break;
      const std::int64_t past = 1 + s_.pick(static_cast<int>(length.size - 1));
      const bool symbolic = !length.symbol.empty();
      const Value a = s_.input(name + "_past", {b, heads, {past, symbolic ? "past_" + name : ""}, w}, data());
      const Value z = s_.input(name + "_new", {b, heads, {length.size - past}, w}, data());
      return s_.concat({a, z}, 2);
    }
    case 4: {  // part of a longer one
      const Value x = s_.input(name + "_long", {b, heads, {length.size + 3}, w}, data());
      const std::int64_t begin = s_.pick(4);
      return s_.slice(x, 2, begin, begin + length.size);
    }
    case 5: {  // blocks in the order of a table
      if (length.size == 0) break;
      const Value x = s_.input(name + "_pool", {b, heads, {length.size + 2}, w}, data());
      return s_.gather(x, s_.indices(name + "_table", {length}, 0, length.size + 2), 2);
    }
    case 6: {  // quantised
      const Value x = s_.indices(name + "_q", {b, heads, length, w}, -128, 128, DType::i8);
      if (s_.chance(50)) return s_.custom("DequantizeLinear", {x, s_.constant(0.02)}, x.dims);
      const Value scale = s_.input(name + "_scale", {b, heads, length, {1}}, Data::close);
      return s_.binary("Mul", s_.binary("Mul", s_.cast(x, DType::f32), s_.constant(0.05)), scale);
    }
    default:
      break;
  }
  return s_.input(name, {b, heads, length, w}, data());
}

Value AttentionLike::repeated(const Value& x, std::int64_t times) {
  if (times == 1) return x;
  const Value wide = s_.expand(s_.unsqueeze(x, 2), 2, times);
  return s_.reshape(wide, {x.dim(0), {x.dim(1).size * times}, x.dim(2), x.dim(3)});
}

Value AttentionLike::rotary(const Value& x) {
  const std::int64_t half = x.dim(-1).size / 2;
  const Value a = s_.slice(x, -1, 0, half), b = s_.slice(x, -1, half, 2 * half);
  const Value positions = s_.unsqueeze(s_.positions(x, -2, DType::f32), 1);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) frequencies.push_back(std::pow(0.1, static_cast<double>(i)));
  const Value angle = s_.binary("Mul", positions, s_.constant({1, half}, frequencies));
  const Value cos = s_.unary("Cos", angle), sin = s_.unary("Sin", angle);
  const Value first = s_.binary("Sub", s_.binary("Mul", a, cos), s_.binary("Mul", b, sin));
  const Value second = s_.binary("Add", s_.binary("Mul", b, cos), s_.binary("Mul", a, sin));
  return s_.concat({first, second}, -1);
}

Value AttentionLike::normed(const Value& x) {
  const Value square = s_.reduce("ReduceMean", s_.binary("Mul", x, x), {-1}, true);
  const Value r = s_.unary("Reciprocal", s_.unary("Sqrt", s_.binary("Add", square, s_.constant(1e-5))));
  const Value y = s_.binary("Mul", x, r);
  return s_.chance(50) ? y : s_.binary("Mul", y, s_.input(x.name + "_gain", {x.dim(-1)}, Data::close));
}

/// An input whose shape broadcasts to the scores'.
Value AttentionLike::memory_like(const std::string& name, const Value& scores, Data data, DType type) {
  std::vector<Dim> dims;
  const int rank = scores.rank();
  const int first = s_.pick(rank);
  for (int d = first; d < rank; ++d) dims.push_back(s_.chance(d + 2 < rank ? 60 : 15) ? Dim{} : scores.dim(d));
  for (Dim& d : dims)
    if (d.symbol == "?") d.symbol = name + "_" + std::to_string(&d - dims.data());
  return s_.input(name, dims, data, type);
}

Value AttentionLike::index_mask(const Value& scores) {
  s_.leaves_keys_out();
  const Value q = s_.unsqueeze(s_.positions(scores, -2), 1);  // [Q, 1]
  const Value k = s_.positions(scores, -1);                   // [KV]
  const auto number = [&](std::int64_t n) { return s_.constant(static_cast<double>(n), DType::i64); };
  const std::int64_t offset = s_.any<std::int64_t>({0, 0, 0, 1, -1, 3, -2, keys_.size - queries_.size, keys_.size});
  const Value from = offset == 0 ? q : s_.binary("Add", q, number(offset));
  switch (s_.pick(7)) {
    case 0:
    case 1:
      return s_.binary("LessOrEqual", k, from);
    case 2: {  // window
      const Value low = s_.binary("Sub", from, number(1 + s_.pick(5)));
      const Value inside = s_.binary("Greater", k, low);
      return s_.chance(50) ? s_.binary("And", inside, s_.binary("LessOrEqual", k, from)) : inside;
    }
    case 3: {  // prefix
      const Value prefix = s_.binary("Less", k, number(s_.pick(static_cast<int>(keys_.size) + 2)));
      return s_.binary("Or", prefix, s_.binary("LessOrEqual", k, from));
    }
    case 4: {  // blocks
      const Value size = number(s_.any<std::int64_t>({2, 3, 4, 8}));
      return s_.binary(s_.any({"Equal", "LessOrEqual"}), s_.binary("Div", k, size), s_.binary("Div", q, size));
    }
    case 5: {  // lengths of the batch
      const Value lengths = s_.indices("lengths_" + std::to_string(masks_), {scores.dim(0)}, 0, keys_.size + 1);
      Value l = lengths;
      while (l.rank() < scores.rank()) l = s_.unsqueeze(l, -1);
      return s_.binary("Less", k, l);
    }
    default: {  // segments
      const std::string n = std::to_string(masks_);
      const Value sq = s_.indices("segment_q_" + n, {queries_}, 0, 3), sk = s_.indices("segment_k_" + n, {keys_}, 0, 3);
      return s_.binary("Equal", s_.unsqueeze(sq, 1), sk);
    }
  }
}

Value AttentionLike::one_mask(const Value& scores) {
  const std::string name = "mask_" + std::to_string(++masks_);
  const auto lowest = [&] {
    return s_.constant(s_.any<double>({-INFINITY, -INFINITY, -1e9, -3.4028234663852886e38, -10000.0}));
  };
  switch (s_.pick(9)) {
    case 0:
      return s_.binary("Add", scores,
                       memory_like(name, scores, s_.any({Data::mask, Data::mask_rows, Data::normal}), DType::f32));
    case 1: {
      const Value keep =
          memory_like(name, scores, s_.any({Data::keep, Data::keep, Data::keep_rows, Data::keep_last}), DType::boolean);
      return s_.where(keep, scores, lowest());
    }
    case 2:
      return s_.binary("Mul", scores, memory_like(name, scores, Data::normal, DType::f32));
    case 3: {  // ALiBi
      const Value distance =
          s_.binary("Sub", s_.positions(scores, -1, DType::f32), s_.unsqueeze(s_.positions(scores, -2, DType::f32), 1));
      std::vector<double> slopes;
      const std::int64_t heads = scores.dim(-3).size;
      for (std::int64_t h = 0; h < heads; ++h) slopes.push_back(std::pow(0.5, static_cast<double>(h + 1)));
      const Value slope = s_.constant({heads, 1, 1}, slopes);
      return s_.binary("Add", scores, s_.binary("Mul", slope, distance));
    }
    case 4: {  // a table of relative positions
      const Value distance = s_.binary("Sub", s_.positions(scores, -1), s_.unsqueeze(s_.positions(scores, -2), 1));
      const Value low = s_.custom("Max", {distance, s_.constant(-3, DType::i64)}, distance.dims, {}, DType::i64);
      const Value inside = s_.custom("Min", {low, s_.constant(3, DType::i64)}, distance.dims, {}, DType::i64);
      const Value at = s_.binary("Add", inside, s_.constant(3, DType::i64));
      return s_.binary("Add", scores, s_.gather(s_.input(name + "_table", {{7}}, Data::normal), at, 0));
    }
    default: {
      const Value keep = index_mask(scores);
      if (s_.chance(70)) return s_.where(keep, scores, lowest());
      return s_.binary("Add", scores, s_.where(keep, s_.constant(0.0), lowest()));
    }
  }
}

Value AttentionLike::masked(Value scores) {
  const int steps = s_.pick(4);
  for (int i = 0; i < steps; ++i) switch (s_.pick(5)) {
      case 0:
        scores = s_.binary(s_.any({"Mul", "Div"}), scores, s_.constant(s_.any({0.125, 0.35, 2.0, -1.0})));
        break;
      case 1: {
        const Value cap = s_.constant(s_.any({1.0, 5.0, 30.0}));
        scores = s_.binary("Mul", s_.unary("Tanh", s_.binary("Div", scores, cap)), cap);
        break;
      }
      default:
        scores = one_mask(scores);
    }
  return scores;
}

Value AttentionLike::normalised(const Value& scores) {
  const auto maximum = [&](const Value& x) { return s_.reduce("ReduceMax", x, {-1}, true); };
  const auto total = [&](const Value& x) { return s_.reduce("ReduceSum", x, {-1}, true); };
  const auto divided = [&](const Value& w) { return s_.binary("Div", w, total(w)); };
  switch (twist_) {
    case other_axis:
      return s_.softmax(scores, s_.any({-2, 0}));
    case other_maximum: {
      const Value m = s_.any({0, 1}) ? s_.reduce("ReduceMax", scores, {-2}, true)
                                     : maximum(s_.binary("Mul", scores, s_.constant(0.5)));
      return divided(s_.unary("Exp", s_.binary("Sub", scores, m)));
    }
    case other_denominator: {
      const Value w = s_.unary("Exp", s_.binary("Sub", scores, maximum(scores)));
      return s_.binary("Div", w, s_.binary("Add", total(s_.unary("Abs", scores)), s_.constant(1.0)));
    }
    case denominator_over_queries: {
      const Value w = s_.unary("Exp", s_.binary("Sub", scores, maximum(scores)));
      return s_.binary("Div", w, s_.reduce("ReduceSum", w, {-2}, true));
    }
    default:
      break;
  }
  switch (s_.pick(16)) {
    case 0: {
      const Value w = s_.unary("Exp", s_.binary("Sub", scores, maximum(scores)));
      return normaliser_site_ = divided(w);
    }
    case 1:
      return divided(s_.unary("Exp", scores));
    case 2:
      return s_.unary("Sigmoid", scores);
    case 3:
      return s_.unary("Relu", scores);
    case 4: {
      const Value r = s_.unary("Relu", scores);
      return s_.binary("Div", s_.binary("Mul", r, r),
                       s_.binary("Add", total(s_.binary("Mul", r, r)), s_.constant(1e-3)));
    }
    case 5:
      return s_.unary("Exp", s_.softmax(scores, -1, "LogSoftmax"));
    case 6: {  // a sink: one more score per head, dropped after the softmax
      std::vector<Dim> dims = scores.dims;
      dims.back() = {};
      for (Dim& d : dims)
        if (d.symbol == "?") d.symbol = "sink_" + std::to_string(&d - dims.data());
      const Value sink = s_.input("sink", dims, Data::normal);
      const bool first = s_.chance(50);
      const Value all = s_.softmax(first ? s_.concat({sink, scores}, -1) : s_.concat({scores, sink}, -1), -1);
      return first ? s_.slice(all, -1, 1, INT64_MAX) : s_.slice(all, -1, 0, -1);
    }
    case 7: {  // one more term of the denominator
      const Value sink = s_.chance(50) ? s_.constant(0.0) : s_.input("sink", {scores.dim(-3), {}, {}}, Data::normal);
      const Value m = s_.binary("Max", maximum(scores), sink);
      const Value w = s_.unary("Exp", s_.binary("Sub", scores, m));
      return s_.binary("Div", w, s_.binary("Add", total(w), s_.unary("Exp", s_.binary("Sub", sink, m))));
    }
    case 8: {
      const Value p = s_.softmax(scores, -1);
      return s_.where(s_.unary("IsNaN", p), s_.constant(0.0), p);
    }
    case 9: {
      const Value w = s_.unary("Softplus", scores);
      return divided(w);
    }
    default:
      return normaliser_site_ = s_.softmax(scores, -1);
  }
}

Value AttentionLike::weights(const Value& scores) {
  Value p = normalised(scores);
  if (twist_ < 0 && s_.chance(12)) {  // a difference of two
    Value other = s_.softmax(masked(s_.binary("Mul", scores, s_.constant(0.5))), -1);
    p = s_.binary("Sub", p, s_.binary("Mul", other, s_.constant(0.4)));
    normaliser_site_ = {};
  }
  if (s_.chance(12)) p = s_.binary("Mul", p, memory_like("gate", p, Data::normal, DType::f32));
  switch (twist_) {
    case nonlinear_product:
      return s_.unary(s_.any({"Sqrt", "Tanh", "Exp"}), s_.unary("Abs", p));
    case rows_mixed:
      return s_.binary("Add", p, s_.reduce("ReduceMean", p, {-2}, true));
    case clipped_weights:
      return s_.binary("Min", p, s_.constant(0.3));
    case sorted_out:
      return s_.binary("Mul", p, s_.reduce("ReduceSum", s_.binary("Mul", p, p), {-1}, true));
    default:
      return p;
  }
}

/// Weights of heads less weights of others: of the next head, or of the same one in the other half.
Value AttentionLike::opposed(const Value& p) {
  const std::int64_t half = p.dim(1).size / 2;
  Value first, second;
  if ((p.dim(2).symbol.empty() || p.dim(3).symbol.empty()) && s_.chance(60)) {
    const Value pairs = s_.reshape(p, {p.dim(0), {half}, {2}, p.dim(2), p.dim(3)});
    const auto at = [&](double i) { return s_.gather(pairs, s_.constant(i, DType::i64), 2); };
    first = at(0), second = at(1);
  } else {
    first = s_.slice(p, 1, 0, half), second = s_.slice(p, 1, half, 2 * half);
  }
  return s_.binary("Sub", first, s_.binary("Mul", second, s_.constant(0.4)));
}

void AttentionLike::finish(Value out) {
  if (s_.chance(50) && out.rank() == 4) {
    Value y = s_.transpose(out, {0, 2, 1, 3});
    const std::int64_t width = heads_.size * out.dim(-1).size;
    if (s_.chance(70)) {
      y = s_.reshape(y, {y.dim(0), y.dim(1), {width}});
      if (s_.chance(15)) y = s_.binary("Add", s_.unary("Tanh", y), s_.input("residual", y.dims, Data::normal));
      if (s_.chance(50)) {
        y = s_.matmul(y, s_.input("w_out", {{width}, {s_.any<std::int64_t>({3, 8, 17})}}, Data::close));
        if (s_.chance(50)) y = s_.binary("Add", y, s_.input("b_out", {y.dim(-1)}, Data::normal));
      }
    }
    out = y;
  }
  s_.output(out);
}

void AttentionLike::build() {
  wild_ = s_.chance(30);
  const bool symbolic = s_.chance(35);
  const auto dim = [&](std::int64_t n, const char* symbol) {
    return symbolic && s_.chance(70) ? Dim{n, symbol} : Dim{n};
  };
  batch_ = dim(s_.any<std::int64_t>({1, 1, 2, 3}), "batch");
  const std::int64_t groups = s_.any<std::int64_t>({1, 1, 2, 3}), queries = s_.any<std::int64_t>({1, 1, 1, 2, 3});
  queries_ = dim(s_.size(17), "q");
  keys_ = dim(s_.chance(2) ? 0 : s_.size(33), "kv");
  const std::int64_t per_group = keys_.size == 0 ? 1 : queries;  // a Reshape to 0 elements says nothing
  heads_ = {groups * per_group};
  const std::int64_t width = s_.size(17), values = s_.size(17);
  nonfinite_values_ = s_.chance(20);

  Value q = head_tensor("q", heads_, queries_, width);
  Value k = head_tensor("k", {groups}, keys_, width);
  Value v = s_.chance(8) && values == width ? k : head_tensor("v", {groups}, keys_, values);
  if (s_.chance(15)) q = normed(q), k = normed(k);
  if (width % 2 == 0 && s_.chance(15)) q = rotary(q), k = rotary(k);
  if (s_.chance(20)) q = s_.binary("Mul", q, s_.constant(1 / std::sqrt(static_cast<double>(width))));
  Value scores;
  bool grouped = false;
  std::int64_t cut = 0;
  const auto product = [&](std::int64_t begin, std::int64_t end) {
    return s_.matmul(q, s_.swap_last(s_.slice(k, -2, begin, end)));
  };
  if (per_group > 1 && s_.chance(40)) {  // queries of a group in a dimension of their own
    grouped = true;
    q = s_.reshape(q, {q.dim(0), {groups}, {per_group}, q.dim(2), q.dim(3)});
    k = s_.unsqueeze(k, 2), v = s_.unsqueeze(v, 2);
  } else {
    k = repeated(k, per_group), v = repeated(v, per_group);
  }
  if (!grouped && s_.chance(15))
    scores = s_.custom("Einsum", {q, k}, {q.dim(0), q.dim(1), q.dim(2), k.dim(2)}, {{"equation", "bhqd,bhkd->bhqk"}});
  else if (keys_.size > 1 && keys_.symbol.empty() && s_.chance(12))  // scores of two parts of the keys
    cut = 1 + s_.pick(static_cast<int>(keys_.size - 1)),
    scores = s_.concat({product(0, cut), product(cut, INT64_MAX)}, -1);
  else
    scores = s_.matmul(q, s_.swap_last(k));
  const Value raw = scores;
  scores = masked(scores);
  Value p = weights(scores);
  if (!grouped && twist_ < 0 && heads_.size % 2 == 0 && keys_.size > 0 && s_.chance(20)) {
    p = opposed(p);
    heads_ = {heads_.size / 2};
    v = s_.slice(v, 1, 0, heads_.size);
    normaliser_site_ = {};
  }
  const bool turned = twist_ == transposed_weights && queries_.size == keys_.size;
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return s_.matmul(s_.slice(p, -1, begin, end), s_.slice(v, -2, begin, end));
  };
  Value out;
  if (cut > 0 && !turned && s_.chance(60))
    out = s_.binary("Add", part(0, cut), part(cut, INT64_MAX)), normaliser_site_ = {};
  else
    out = s_.matmul(turned ? s_.swap_last(p) : p, v);
  if (!normaliser_site_.name.empty() && twist_ < 0 && keys_.size > 0) s_.site(normaliser_site_, out);
  if (twist_ == twice) out = s_.binary("Add", out, s_.reduce("ReduceMean", v, {-2}, true));
  if (grouped) out = s_.reshape(out, {out.dim(0), heads_, out.dim(3), out.dim(4)});
  finish(out);
  if (s_.chance(8)) s_.output(raw);
  if (s_.chance(6)) s_.output(scores);
  if (s_.chance(8)) s_.output(p);
  if (s_.chance(8))
    s_.output(s_.reduce(s_.any({"ReduceLogSumExp", "ReduceMax", "ReduceSum"}), scores, {-1}, s_.chance(50)));
}

}  // namespace

Generated attention_like(std::uint64_t seed, std::uint64_t index, bool twisted) {
  Sketch s("generated", seed, index);
  AttentionLike(s, twisted).build();
  return s.finish(twisted ? Family::lookalike : Family::attention);
}

}  // namespace aicf::generate
