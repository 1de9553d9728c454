// Reductions, softmax and what is made of them.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// Where a reduction's coordinates go: dims in `axes` come from r (in that order), the others from i.
struct ReducedDims {
  std::vector<int> axes;
  Shape over;      ///< extents of the reduced dims
  Shape kept;      ///< the result without them
  Shape keepdims;  ///< the result with 1 in their place

  ReducedDims(const Shape& shape, std::vector<int> reduced) : axes(std::move(reduced)) {
    std::ranges::sort(axes);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool is_reduced = std::ranges::binary_search(axes, static_cast<int>(d));
      if (is_reduced)
        over.push_back(shape[d]);
      else
        kept.push_back(shape[d]);
      keepdims.push_back(is_reduced ? Expr(1) : shape[d]);
    }
  }

  /// Index of the operand from result coordinates (with or without the kept 1s) and reduced ones.
  Index full(const Index& i, const Index& r, bool kept_dims) const {
    Index index;
    std::size_t next_i = 0, next_r = 0;
    for (std::size_t d = 0; d < keepdims.size(); ++d) {
      if (std::ranges::binary_search(axes, static_cast<int>(d))) {
        index.push_back(r[next_r++]);
        if (kept_dims) ++next_i;
      } else {
        index.push_back(i[next_i++]);
      }
    }
    return index;
  }
  /// Index of a result without the reduced dims, from a full one.
  Index reduced(const Index& full_index) const {
    Index index;
    for (std::size_t d = 0; d < full_index.size(); ++d) {
      if (!std::ranges::binary_search(axes, static_cast<int>(d))) index.push_back(full_index[d]);
    }
    return index;
  }
};

/// Max, exp(x − max) and its sum over some axes: the parts of softmax, log-softmax and log-sum-exp, in f32 for narrow
/// types.
struct ExpSums {
  ReducedDims dims;
  ValuePtr max, exp, sum;
};

Result<ExpSums> exp_sums(Lowering& op, const ValuePtr& x, std::vector<int> axes) {
  ExpSums parts{ReducedDims(x->shape, std::move(axes)), {}, {}, {}};
  const ReducedDims& dims = parts.dims;
  const DType type = wide(x->type);
  AICF_TRY(parts.max, op.reduce({op.name("max"), type, dims.kept, {x}}, dims.over, ReduceOp::max,
                                [&](const Index& i, const Index& r) { return op.at(x, dims.full(i, r, false)); }));
  AICF_TRY(parts.exp, op.map({op.name("exp"), type, x->shape, {x, parts.max}}, [&](const Index& i) {
    return Expr::unary(Op::exp, op.at(x, i) - op.at(parts.max, dims.reduced(i)));
  }));
  AICF_TRY(parts.sum,
           op.reduce({op.name("sum"), type, dims.kept, {parts.exp}}, dims.over, ReduceOp::sum,
                     [&](const Index& i, const Index& r) { return op.at(parts.exp, dims.full(i, r, false)); }));
  return parts;
}

bool squares(const std::string& kind) {
  return kind == "ReduceL2" || kind == "ReduceSumSquare";
}

ReduceOp reduce_op(const std::string& kind, DType type) {
  const bool boolean = type == DType::boolean;
  if (kind == "ReduceMax") return boolean ? ReduceOp::any : ReduceOp::max;
  if (kind == "ReduceMin") return boolean ? ReduceOp::all : ReduceOp::min;
  return kind == "ReduceProd" ? ReduceOp::prod : ReduceOp::sum;
}

/// Axes of Softmax and its kin: before opset 13 the dims from `axis` on are one flattened axis, which may be empty.
Result<std::vector<int>> softmax_axes(Lowering& op, int rank) {
  const bool flattens = op.opset() < 13;
  const std::int64_t given = op.integer("axis", flattens ? 1 : -1);
  std::vector<int> axes;
  if (flattens && given == rank) return axes;
  AICF_TRY(const int axis, op.axis(given, rank));
  for (int d = axis; d < (flattens ? rank : axis + 1); ++d) axes.push_back(d);
  return axes;
}

Result<void> log_sum_exp(Lowering& op, const ValuePtr& x, std::vector<int> axes, const Shape& shape, bool keepdims) {
  AICF_TRY(const ExpSums parts, exp_sums(op, x, std::move(axes)));
  AICF_TRY(ValuePtr y, op.map({op.name(), x->type, shape, {parts.max, parts.sum}}, [&](const Index& i) {
    const Index own = keepdims ? parts.dims.reduced(i) : i;
    const Expr max = op.at(parts.max, own);
    // An infinite maximum is the answer (∞ − ∞ would make it NaN).
    const Expr sum = Expr::unary(Op::log, op.at(parts.sum, own)) + max;
    return Expr::select(Expr::unary(Op::isinf, max), max, sum);
  }));
  op.result(0, std::move(y));
  return {};
}

}  // namespace

Result<void> reduction(Lowering& op) {
  const ValuePtr x = op.in(0);
  const std::string& kind = op.op();
  const bool extremum = kind == "ReduceMax" || kind == "ReduceMin";
  if (!extremum) AICF_RETURN_IF_ERROR(op.want_number(0));
  if (kind.starts_with("ReduceLog")) AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_TRY(const auto given, op.integers("axes", 1));
  std::vector<int> axes;
  if (given && !given->empty()) {
    AICF_TRY(axes, op.axes(*given, x->rank()));
  } else if (op.integer("noop_with_empty_axes", 0) == 0) {
    axes.resize(static_cast<std::size_t>(x->rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const bool keepdims = op.integer("keepdims", 1) != 0;
  const ReducedDims dims(x->shape, axes);
  const Shape& shape = keepdims ? dims.keepdims : dims.kept;
  if (kind == "ReduceLogSumExp" && !axes.empty()) return log_sum_exp(op, x, axes, shape, keepdims);

  const ReduceOp reduce = reduce_op(kind, x->type);
  const DType type = wide(x->type);
  const bool finish = kind == "ReduceMean" || kind == "ReduceL2" || kind == "ReduceLogSum" || kind == "ReduceLogSumExp";
  const std::string part = finish ? op.name("sum") : op.name();
  AICF_TRY(ValuePtr y, op.reduce({part, x->type, shape, {x}}, dims.over, reduce, [&](const Index& i, const Index& r) {
    const Expr e = op.at(x, dims.full(i, r, keepdims));
    if (kind == "ReduceL1") return Expr::unary(Op::abs, e);
    if (kind == "ReduceLogSumExp") return Expr::unary(Op::exp, e);
    return squares(kind) ? e * e : e;
  }));
  if (!finish) {
    op.result(0, std::move(y));
    return {};
  }
  return op.result_map(x->type, shape, {y}, [&](const Index& i) {
    Expr e = op.at(y, i);
    if (kind == "ReduceMean") e = e / cast_to(op.product(dims.over), type);
    if (kind == "ReduceL2") e = cast_to(Expr::unary(Op::sqrt, is_float(type) ? e : Expr::cast(e, DType::f64)), type);
    if (kind == "ReduceLogSum" || kind == "ReduceLogSumExp") e = Expr::unary(Op::log, e);
    return e;
  });
}

Result<void> softmax(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_TRY(const std::vector<int> axes, softmax_axes(op, x->rank()));
  AICF_TRY(const ExpSums parts, exp_sums(op, x, axes));
  const bool logarithm = op.op() == "LogSoftmax";
  return op.result_map(x->type, x->shape, {x, parts.max, parts.exp, parts.sum}, [&](const Index& i) {
    const Expr sum = op.at(parts.sum, parts.dims.reduced(i));
    if (!logarithm) return op.at(parts.exp, i) / sum;
    const Expr shifted = op.at(x, i) - op.at(parts.max, parts.dims.reduced(i));
    return shifted - Expr::unary(Op::log, sum);
  });
}

/// Whether `e` is at the place of the extreme element `best`: where one is NaN the extreme is NaN, and so is its place.
Expr is_extreme(const Expr& e, const Expr& best) {
  const Expr same = equal(e, best);
  return is_float(e.type()) ? logical_or(same, Expr::unary(Op::isnan, e)) : same;
}

Result<void> arg_extreme(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_TRY(const int axis, op.axis(op.integer("axis", 0), x->rank()));
  const bool keepdims = op.integer("keepdims", 1) != 0, last = op.integer("select_last_index", 0) != 0;
  const ReducedDims dims(x->shape, {axis});
  const bool max = op.op() == "ArgMax";
  AICF_TRY(const ValuePtr best, op.reduce({op.name(max ? "max" : "min"), x->type, dims.kept, {x}}, dims.over,
                                          max ? ReduceOp::max : ReduceOp::min, [&](const Index& i, const Index& r) {
                                            return op.at(x, dims.full(i, r, false));
                                          }));
  const Shape shape = keepdims ? dims.keepdims : dims.kept;
  // The first (last) coordinate whose element is the extreme one.
  const Expr none = last ? Expr(-1) : dims.over[0];
  AICF_TRY(ValuePtr y, op.reduce({op.name(), DType::i64, shape, {x, best}}, dims.over,
                                 last ? ReduceOp::max : ReduceOp::min, [&](const Index& i, const Index& r) {
                                   const Expr e = op.at(x, dims.full(i, r, keepdims));
                                   const Expr b = op.at(best, keepdims ? dims.reduced(i) : i);
                                   return Expr::select(is_extreme(e, b), r[0], none);
                                 }));
  op.result(0, std::move(y));
  return {};
}

Result<void> hardmax(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_float(0));
  AICF_TRY(const std::vector<int> axes, softmax_axes(op, x->rank()));
  const ReducedDims dims(x->shape, axes);
  AICF_TRY(const ValuePtr best,
           op.reduce({op.name("max"), x->type, dims.kept, {x}}, dims.over, ReduceOp::max,
                     [&](const Index& i, const Index& r) { return op.at(x, dims.full(i, r, false)); }));
  // The place in the flattened tail, row-major.
  const auto place = [&](const Index& r) {
    Expr flat(0);
    for (std::size_t d = 0; d < r.size(); ++d) flat = flat * dims.over[d] + r[d];
    return flat;
  };
  AICF_TRY(const ValuePtr first, op.reduce({op.name("first"), DType::i64, dims.kept, {x, best}}, dims.over,
                                           ReduceOp::min, [&](const Index& i, const Index& r) {
                                             const Expr e = op.at(x, dims.full(i, r, false));
                                             return Expr::select(is_extreme(e, op.at(best, i)), place(r),
                                                                 op.product(dims.over));
                                           }));
  return op.result_map(x->type, x->shape, {first}, [&](const Index& i) {
    Index tail;
    for (const int d : axes) tail.push_back(i[d]);
    const Expr hit = equal(place(tail), op.at(first, dims.reduced(i)));
    return Expr::select(hit, number(wide(x->type), 1), number(wide(x->type), 0));
  });
}

Result<void> cumulative(Lowering& op) {
  const bool product = op.op() == "CumProd";
  const ValuePtr x = op.in(0);
  AICF_RETURN_IF_ERROR(op.want_number(0));
  AICF_TRY(const auto axes, op.known_integers(1));
  if (axes.size() != 1) return op.bad("axis must be one number");
  AICF_TRY(const int axis, op.axis(axes[0], x->rank()));
  const bool reverse = op.integer("reverse", 0) != 0, exclusive = op.integer("exclusive", 0) != 0;
  AICF_TRY(ValuePtr y, op.reduce({op.name(), x->type, x->shape, {x}}, {x->shape[axis]},
                                 product ? ReduceOp::prod : ReduceOp::sum, [&](const Index& i, const Index& r) {
                                   Index index = i;
                                   index[axis] = r[0];
                                   const Expr first = reverse ? i[axis] : r[0], second = reverse ? r[0] : i[axis];
                                   const Expr in = exclusive ? less(first, second) : less_equal(first, second);
                                   const Expr e = op.at(x, index);
                                   return Expr::select(in, e, Expr::constant(e.type(), product ? 1 : 0));
                                 }));
  op.result(0, std::move(y));
  return {};
}

}  // namespace aicf::ops
