// Cascades of reductions and elementwise operations: known ones with random axes, and random programs.

#include <algorithm>

#include "tests/generate/sketch.h"

namespace aicf::generate {

namespace {

using numeric::Data;

class Reductions {
 public:
  Reductions(Sketch& s, bool twisted) : s_(s), twisted_(twisted) {}
  void build();

 private:
  Value row_of(const Value& full);
  Value sum(const Value& x) { return s_.reduce("ReduceSum", x, axes_, true); }
  Value mean(const Value& x) { return s_.reduce("ReduceMean", x, axes_, true); }
  Value top(const Value& x) { return s_.reduce("ReduceMax", x, axes_, true); }
  Value mul(const Value& a, const Value& b) { return s_.binary("Mul", a, b); }
  Value sub(const Value& a, const Value& b) { return s_.binary("Sub", a, b); }
  Value known();
  Value masked();
  Value program();
  Value reduced(const Value& x);
  Value elementwise(const Value& a);
  Value other_view(const Value& x);

  Sketch& s_;
  bool twisted_;
  Value x_;
  std::vector<int> axes_;
  std::vector<Value> full_, rows_;
};

/// A value of the same shape that reads the elements in another order.
Value Reductions::other_view(const Value& x) {
  const int n = x.rank();
  for (int a = 0; a + 1 < n; ++a)
    if (x.dim(a).size == x.dim(a + 1).size && x.dim(a).symbol == x.dim(a + 1).symbol) {
      std::vector<int> perm;
      for (int d = 0; d < n; ++d) perm.push_back(d == a ? a + 1 : d == a + 1 ? a : d);
      return s_.transpose(x, perm);
    }
  const std::int64_t length = x.dim(-1).size;
  if (length > 1 && x.dim(-1).symbol.empty()) {  // rotated along the last axis
    const std::int64_t by = 1 + s_.pick(static_cast<int>(length - 1));
    return s_.concat({s_.slice(x, -1, by, INT64_MAX), s_.slice(x, -1, 0, by)}, -1);
  }
  return s_.unary("Neg", x);
}

Value Reductions::elementwise(const Value& a) {
  const Value b = !rows_.empty() && s_.chance(60) ? s_.any(rows_) : s_.any(full_);
  switch (s_.pick(14)) {
    case 0:
      return s_.binary("Add", a, b);
    case 1:
    case 2:
    case 3:
      return sub(a, b);
    case 4:
    case 5:
      return mul(a, b);
    case 6:
      return s_.binary("Div", a, s_.binary("Add", s_.unary("Abs", b), s_.constant(1.0)));
    case 7:
      return s_.unary("Exp", sub(s_.unary("Tanh", a), s_.unary("Tanh", b)));
    case 8:
      return s_.unary("Exp", s_.binary("Mul", sub(a, b), s_.constant(0.1)));
    case 9:
      return s_.unary("Abs", sub(a, b));
    case 10:
      return s_.where(s_.binary("Less", a, b), a, s_.constant(s_.any({0.0, 1.0, -0.5})));
    case 11:
      return s_.unary(s_.any({"Tanh", "Sigmoid", "Relu", "Neg", "Softplus", "Erf", "Sign"}), a);
    case 12:
      return s_.binary(s_.any({"Max", "Min"}), a, b);
    default: {
      const Value d = sub(a, b);
      return mul(d, d);
    }
  }
}

Value Reductions::reduced(const Value& x) {
  static const std::vector<std::string> ops{"ReduceSum", "ReduceSum",       "ReduceMean",     "ReduceMean",
                                            "ReduceMax", "ReduceMin",       "ReduceL1",       "ReduceL2",
                                            "ReduceMax", "ReduceSumSquare", "ReduceLogSumExp"};
  if (!s_.chance(twisted_ ? 35 : 8)) return s_.reduce(s_.any(ops), x, axes_, true);
  std::vector<int> others;  // other axes than the graph's usual ones
  for (int d = 0; d < x.rank(); ++d)
    if (s_.chance(50)) others.push_back(d);
  return s_.reduce(s_.any(ops), x, others.empty() ? axes_ : others, true);
}

Value Reductions::program() {
  const int statements = 3 + s_.pick(6);
  for (int i = 0; i < statements; ++i) {
    if (twisted_ && s_.chance(15)) full_.push_back(other_view(s_.any(full_)));
    if (s_.chance(45)) {
      rows_.push_back(reduced(s_.any(full_)));
    } else if (!rows_.empty() && s_.chance(25)) {
      const Value r = s_.any(rows_);
      rows_.push_back(s_.chance(50) ? s_.unary("Tanh", r) : s_.binary(s_.any({"Add", "Sub", "Mul"}), r, s_.any(rows_)));
    } else {
      full_.push_back(elementwise(s_.any(full_)));
    }
  }
  if (s_.chance(25)) s_.output(full_.back());
  if (!rows_.empty() && s_.chance(25)) s_.output(s_.any(rows_));
  return s_.chance(60) || rows_.empty() ? reduced(full_.back()) : rows_.back();
}

Value Reductions::known() {
  const Value x = s_.any(full_);
  const Value one = s_.constant(1.0), small = s_.constant(1e-5);
  switch (s_.pick(x.rank() > 1 ? 16 : 12)) {
    case 0: {  // variance, normalised
      const Value d = sub(x, mean(x));
      return s_.binary("Div", d, s_.unary("Sqrt", s_.binary("Add", mean(mul(d, d)), small)));
    }
    case 1: {  // variance by moments
      const Value m = mean(x);
      return sub(mean(mul(x, x)), mul(m, m));
    }
    case 2: {
      const Value p = s_.softmax(x, axes_.back());
      return s_.unary("Neg", s_.reduce("ReduceSum", mul(p, s_.softmax(x, axes_.back(), "LogSoftmax")), {axes_.back()},
                                       s_.chance(50)));
    }
    case 3: {
      const Value m = top(x);
      return s_.binary("Add", m, s_.unary("Log", sum(s_.unary("Exp", sub(x, m)))));
    }
    case 4: {  // masked mean
      const Value keep = s_.cast(s_.input("keep", x.dims, Data::keep, DType::boolean), DType::f32);
      return s_.binary("Div", sum(mul(x, keep)), s_.binary(s_.any({"Add", "Max"}), sum(keep), one));
    }
    case 5: {  // several results of one load
      rows_.push_back(top(x));
      rows_.push_back(s_.reduce("ReduceMin", x, axes_, true));
      s_.output(rows_.back());
      return s_.binary("Add", sum(x), rows_.front());
    }
    case 6: {  // loss: logarithms at labels, summed
      const Value l = s_.softmax(x, -1, "LogSoftmax");
      std::vector<Dim> dims = x.dims;
      dims.back() = {};
      if (x.dim(-1).size == 0) return l;
      const Value at = s_.indices("labels", dims, 0, x.dim(-1).size);
      const Value picked = s_.custom("GatherElements", {l, at}, dims, {{"axis", -1}});
      return s_.chance(50) ? picked : s_.reduce("ReduceSum", picked, {0}, s_.chance(50));
    }
    case 7: {  // weighted spread
      const Value p = s_.softmax(x, axes_.back());
      const auto total = [&](const Value& v) { return s_.reduce("ReduceSum", v, {axes_.back()}, true); };
      const Value y = s_.any(full_);
      const Value d = sub(y, total(mul(p, y)));
      return total(mul(p, mul(d, d)));
    }
    case 8: {  // cosine of two
      const Value y = other_view(x);
      return s_.binary(
          "Div", sum(mul(x, y)),
          s_.binary("Add", mul(s_.unary("Sqrt", sum(mul(x, x))), s_.unary("Sqrt", sum(mul(y, y)))), small));
    }
    case 9: {
      const Value d = sub(x, mean(x));
      return mean(mul(mul(d, d), d));
    }
    case 10: {
      const Value c = s_.custom("CumSum", {x, s_.constant(static_cast<double>(s_.pick(x.rank())), DType::i64)}, x.dims);
      return s_.chance(50) ? c : sub(c, mean(c));
    }
    case 11: {
      const Value d = s_.unary("Abs", sub(x, mean(x)));
      return s_.binary("Div", d, s_.binary("Add", top(d), small));
    }
    case 12: {  // normalised, then a product
      const Value r = s_.unary(
          "Reciprocal", s_.unary("Sqrt", s_.binary("Add", s_.reduce("ReduceMean", mul(x, x), {-1}, true), small)));
      const Value w = s_.input("w", {x.dim(-1), {s_.size(17)}}, Data::close);
      return s_.matmul(mul(x, r), w);
    }
    case 13: {  // loss of a product: logarithms of its own softmax at labels
      const Value w = s_.input("w", {x.dim(-1), {1 + s_.size(17)}}, Data::close);
      const Value l = s_.softmax(s_.matmul(x, w), -1, "LogSoftmax");
      std::vector<Dim> dims = l.dims;
      dims.back() = {};
      const Value picked =
          s_.custom("GatherElements", {l, s_.indices("labels", dims, 0, l.dim(-1).size)}, dims, {{"axis", -1}});
      return s_.chance(50) ? picked : s_.unary("Neg", picked);
    }
    case 14: {  // a product of flattened rows, finished over the rows as they were
      const Value w = s_.input("w", {x.dim(-1), {s_.size(17)}}, Data::close);
      std::vector<Dim> dims = x.dims;
      dims.back() = w.dim(-1);
      std::int64_t rows = 1;
      for (int d = 0; d + 1 < x.rank(); ++d) rows *= x.dim(d).size;
      const bool open = std::ranges::any_of(x.dims, [](const Dim& d) { return !d.symbol.empty() || d.size == 0; });
      if (open) return s_.matmul(x, w);
      const Value y = s_.reshape(s_.matmul(s_.reshape(x, {{rows}, x.dim(-1)}), w), dims);
      return s_.binary(s_.any({"Add", "Mul"}), s_.unary(s_.any({"Tanh", "Softplus"}), y),
                       s_.input("b", {y.dim(-1)}, Data::normal));
    }
    default: {
      const Value w = s_.input("w", {x.dim(-1), {s_.size(17)}}, Data::close);
      const Value y = s_.matmul(x, w);
      const Value d = sub(y, s_.reduce("ReduceMean", y, {-1}, true));
      return s_.binary("Div", d,
                       s_.unary("Sqrt", s_.binary("Add", s_.reduce("ReduceMean", mul(d, d), {-1}, true), small)));
    }
  }
}

/// Statistics of the elements that a mask keeps, written out.
Value Reductions::masked() {
  const Value x = s_.any(full_), y = s_.any(full_);
  const Value one = s_.constant(1.0), zero = s_.constant(0.0), small = s_.constant(1e-5);
  Value keep;
  switch (s_.pick(4)) {
    case 0:
      keep = s_.binary("Less", s_.constant(s_.real(-1, 1)), y);
      break;
    case 1: {
      const int axis = s_.pick(x.rank());
      Value at = s_.positions(x, axis);
      for (int d = axis + 1; d < x.rank(); ++d) at = s_.unsqueeze(at, -1);
      keep = s_.binary(s_.any({"Less", "Greater"}), at, s_.constant(s_.pick(9), DType::i64));
      break;
    }
    default:
      keep = s_.input("keep", x.dims, s_.any({Data::keep, Data::keep_rows, Data::keep_last, Data::keep_inner}),
                      DType::boolean);
  }
  if (s_.chance(25)) keep = s_.unary("Not", keep);
  keep = s_.binary("Or", keep, s_.binary("Less", x, x));  // of the shape of x
  const Value factor = s_.cast(keep, DType::f32);
  const bool where = s_.chance(50);
  const auto kept = [&](const Value& v) { return where ? s_.where(keep, v, zero) : mul(v, factor); };
  Value count = sum(factor);
  if (s_.chance(50)) count = s_.binary("Max", count, one);
  if (s_.chance(35)) {  // softmax
    const bool all = !where || s_.chance(30);
    const Value m = top(all ? x : s_.where(keep, x, s_.constant(s_.any({-1e9, -3e38}))));
    const Value e = kept(s_.unary("Exp", sub(x, m)));
    const Value p = s_.binary("Div", e, s_.chance(30) ? s_.binary("Add", sum(e), small) : sum(e));
    switch (s_.pick(4)) {
      case 0:
        return p;
      case 1:
        return sum(mul(p, p));
      case 2: {
        const Value d = sub(y, sum(mul(p, y)));
        return sum(mul(p, mul(d, d)));
      }
      default:
        return sum(mul(p, y));
    }
  }
  const Value mean = s_.binary("Div", sum(kept(x)), count);
  if (s_.chance(15)) return mean;
  const Value d = sub(x, mean);
  const Value variance = s_.binary("Div", sum(kept(mul(d, d))), count);
  if (s_.chance(25)) return s_.chance(50) ? variance : sum(mul(d, s_.chance(50) ? d : y));
  const Value z = s_.binary("Div", d, s_.unary("Sqrt", s_.binary("Add", variance, s_.chance(50) ? one : small)));
  if (x.rank() > 1 && s_.chance(40))
    return s_.matmul(s_.chance(50) ? z : kept(z), s_.input("w", {x.dim(-1), {s_.size(17)}}, Data::close));
  return s_.chance(50) ? kept(z) : s_.chance(50) ? sum(kept(mul(z, mul(z, z)))) : z;
}

void Reductions::build() {
  const bool empty = s_.chance(2), symbolic = !empty && s_.chance(35);
  static const char* symbols[] = {"rows", "n", "m", "k"};
  std::vector<Dim> dims;
  const int rank = 1 + s_.pick(4);
  std::int64_t left = 2500;
  for (int d = 0; d < rank; ++d) {
    Dim dim{s_.size(std::min<std::int64_t>(left, d + 1 == rank ? 65 : 17))};
    if (d == 1 && twisted_ && s_.chance(40)) dim = dims[0];
    if (empty && d == rank / 2) dim.size = 0;
    if (symbolic && s_.chance(60) && dim.symbol.empty()) dim.symbol = symbols[d];
    left = std::max<std::int64_t>(1, left / std::max<std::int64_t>(1, dim.size));
    dims.push_back(dim);
  }
  const Data data =
      s_.chance(70) ? Data::normal
                    : s_.any({Data::close, Data::ascending, Data::descending, Data::offset, Data::wide, Data::constant,
                              Data::zeros, Data::nan, Data::infinity, Data::minus_infinity, Data::minus_infinity_rows});
  if (data != Data::normal) s_.note("data " + std::to_string(static_cast<int>(data)));
  x_ = s_.input("x", dims, data);
  full_.push_back(x_);
  if (s_.chance(40)) full_.push_back(s_.input("y", dims, Data::normal));
  for (int d = 0; d < rank; ++d)
    if (s_.chance(d + 1 == rank ? 70 : 25)) axes_.push_back(d);
  if (axes_.empty()) axes_.push_back(s_.pick(rank));
  if (s_.chance(25)) full_.push_back(elementwise(x_));
  Value y = s_.chance(20) ? masked() : s_.chance(50) ? program() : known();
  if (s_.chance(30)) {  // and on: another reduction of what came out
    std::vector<int> all;
    for (int d = 0; d < y.rank(); ++d)
      if (s_.chance(60)) all.push_back(d);
    if (!all.empty()) y = s_.reduce(s_.any({"ReduceSum", "ReduceMax", "ReduceMean"}), y, all, s_.chance(50));
  }
  s_.output(y);
  // What regions write beside their last value makes others wait for them.
  for (const auto* values : {&rows_, &full_})
    for (const Value& v : *values)
      if (v.name != x_.name && v.name != "y" && s_.chance(15)) s_.output(v);
}

}  // namespace

Generated reductions(std::uint64_t seed, std::uint64_t index, bool twisted) {
  Sketch s("generated", seed, index);
  Reductions(s, twisted).build();
  return s.finish(twisted ? Family::lookalike : Family::reduction);
}

}  // namespace aicf::generate
