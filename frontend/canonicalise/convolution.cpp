// Sliding windows: convolution and pooling. A place outside the input is a select, never a load.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// The windows of one operator over the dims after batch and channel.
struct Windows {
  std::vector<Expr> kernel;
  std::vector<std::int64_t> strides, dilations;
  std::vector<Expr> before;  ///< padding at the start of each dim
  Shape places;              ///< extents of the result
  bool padded = false;       ///< some window reaches outside

  int rank() const { return static_cast<int>(kernel.size()); }
  /// Input coordinate of window place `o` and tap `k` in dim `d`.
  Expr at(std::size_t d, const Expr& o, const Expr& k) const {
    return Expr(strides[d]) * o + Expr(dilations[d]) * k - before[d];
  }
};

Result<Windows> windows_of(Lowering& op, const ValuePtr& x, const std::vector<Expr>& kernel) {
  Windows w;
  w.kernel = kernel;
  const std::size_t rank = kernel.size();
  const auto numbers = [&](const char* name, std::size_t count,
                           std::int64_t absent) -> Result<std::vector<std::int64_t>> {
    const Attribute* a = op.attribute(name);
    std::vector<std::int64_t> list = a ? a->is : std::vector<std::int64_t>(count, absent);
    if (list.size() != count) return op.bad(fmt::format("{} has {} entries, {} wanted", name, list.size(), count));
    return list;
  };
  AICF_TRY(w.strides, numbers("strides", rank, 1));
  AICF_TRY(w.dilations, numbers("dilations", rank, 1));
  AICF_TRY(const std::vector<std::int64_t> pads, numbers("pads", 2 * rank, 0));
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  const bool ceil = op.integer("ceil_mode", 0) != 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (w.strides[d] < 1 || w.dilations[d] < 1) return op.bad("strides and dilations must be positive");
    const Expr dim = x->shape[d + 2], stride(w.strides[d]);
    const Expr reach = Expr(w.dilations[d]) * (kernel[d] - Expr(1)) + Expr(1);  // input elements a window spans
    Expr before(pads[d]), after(pads[d + rank]), places;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      places = ceildiv(dim, stride);
      const Expr total = Expr::binary(Op::max, (places - Expr(1)) * stride + reach - dim, Expr(0));
      before = op.simplify(floordiv(auto_pad == "SAME_UPPER" ? total : total + Expr(1), Expr(2)));
      after = op.simplify(total - before);
    } else {
      if (auto_pad == "VALID")
        before = after = Expr(0);
      else if (auto_pad != "NOTSET")
        return op.bad(fmt::format("auto_pad '{}' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID", auto_pad));
      const Expr room = op.simplify(dim + before + after - reach);
      places = (ceil ? ceildiv(room, stride) : floordiv(room, stride)) + Expr(1);
      // With ceil_mode the last window must start inside the input or its leading padding.
      if (ceil) places = Expr::select(less_equal(dim + before, (places - Expr(1)) * stride), places - Expr(1), places);
    }
    places = op.simplify(places);
    if (const auto n = constant_of(places); n && *n < 0) {
      return op.bad(fmt::format("a window of {} does not fit dim {} of {}", to_string(op.simplify(reach)), d + 2,
                                to_string(x->shape)));
    }
    w.before.push_back(before);
    w.places.push_back(places);
    const bool inside = op.same(before, Expr(0)) && op.same(after, Expr(0)) && !ceil;
    w.padded = w.padded || !inside;
  }
  return w;
}

/// body(input index) where the window stays inside, else `outside`. `lead` are the batch and channel coordinates.
Expr windowed(const Windows& w, const ValuePtr& x, const Index& lead, const Index& places, const Index& taps,
              const Expr& outside, const std::function<Expr(const Index&)>& body) {
  Index index = lead;
  Expr inside;
  for (int d = 0; d < w.rank(); ++d) {
    const Expr at = w.at(d, places[d], taps[d]);
    index.push_back(at);
    if (w.padded) inside = logical_and(inside, logical_and(less_equal(Expr(0), at), less(at, x->shape[d + 2])));
  }
  return inside ? Expr::select(inside, body(index), outside) : body(index);
}

std::vector<Expr> tail(const Index& i, std::size_t from) {
  return {i.begin() + from, i.end()};
}

Result<std::vector<Expr>> kernel_attribute(Lowering& op, const ValuePtr& x) {
  const Attribute* a = op.attribute("kernel_shape");
  AICF_CHECK(a != nullptr, "kernel_shape is required");
  if (static_cast<int>(a->is.size()) + 2 != x->rank())
    return op.bad(fmt::format("kernel_shape has {} entries for rank {}", a->is.size(), x->rank()));
  if (std::ranges::any_of(a->is, [](std::int64_t n) { return n < 1; })) return op.bad("kernel_shape must be positive");
  return std::vector<Expr>(a->is.begin(), a->is.end());
}

}  // namespace

Result<void> convolution(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const ValuePtr x = op.in(0), weight = op.in(1);
  if (x->rank() < 3 || weight->rank() != x->rank()) {
    return op.bad(
        fmt::format("ranks {} and {} of input and weight, equal and 3 or more wanted", x->rank(), weight->rank()));
  }
  const std::vector<Expr> kernel(weight->shape.begin() + 2, weight->shape.end());
  AICF_TRY(const Windows w, windows_of(op, x, kernel));
  const std::int64_t groups = op.integer("group", 1);
  const auto out_channels = constant_of(weight->shape[0]), in_channels = constant_of(weight->shape[1]);
  if (groups < 1 || !out_channels || !in_channels || *out_channels % groups != 0) {
    return op.bad(fmt::format("weight {} does not divide into {} groups", to_string(weight->shape), groups));
  }
  AICF_TRY([[maybe_unused]] const Expr channels,
           op.agree(x->shape[1], Expr(*in_channels * groups), "channels of input and weight"));
  Shape shape{x->shape[0], weight->shape[0]};
  shape.insert(shape.end(), w.places.begin(), w.places.end());
  Shape over{weight->shape[1]};
  over.insert(over.end(), kernel.begin(), kernel.end());
  const std::int64_t per_group = *out_channels / groups;
  const bool has_bias = op.has(2);
  const DType type = wide(x->type);
  const auto product = [&](const Index& i, const Index& r) {
    const Expr first = groups == 1 ? Expr(0) : floordiv(i[1], Expr(per_group)) * weight->shape[1];
    Index tap{i[1]};
    tap.insert(tap.end(), r.begin(), r.end());
    const Expr value = windowed(w, x, {i[0], first + r[0]}, tail(i, 2), tail(r, 1), Expr::constant(type, 0),
                                [&](const Index& at) { return op.at(x, at); });
    return value * op.at(weight, tap);
  };
  if (!has_bias) {
    AICF_TRY(ValuePtr y, op.reduce({op.name(), x->type, shape, {x, weight}}, over, ReduceOp::sum, product));
    op.result(0, std::move(y));
    return {};
  }
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
  if (op.in(2)->rank() != 1) return op.bad(fmt::format("input 2 has rank {}, 1 wanted", op.in(2)->rank()));
  AICF_TRY([[maybe_unused]] const Expr biases,
           op.agree(op.in(2)->shape[0], weight->shape[0], "bias and output channels"));
  AICF_TRY(const ValuePtr y, op.reduce({op.name("product"), type, shape, {x, weight}}, over, ReduceOp::sum, product));
  return op.result_map(x->type, shape, {y, op.in(2)},
                       [&](const Index& i) { return op.at(y, i) + op.at(op.in(2), {i[1]}); });
}

Result<void> pooling(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (x->rank() < 3) return op.bad(fmt::format("input 0 has rank {}, 3 or more wanted", x->rank()));
  if (!is_float(x->type)) return op.cannot(fmt::format("pooling of {}", name(x->type)));
  if (op.wants(1)) return op.cannot("the indices of a maximum pool");
  const bool max = op.op() == "MaxPool";
  AICF_TRY(const std::vector<Expr> kernel, kernel_attribute(op, x));
  AICF_TRY(const Windows w, windows_of(op, x, kernel));
  Shape shape{x->shape[0], x->shape[1]};
  shape.insert(shape.end(), w.places.begin(), w.places.end());
  const DType type = wide(x->type);
  const std::int64_t p = op.op() == "LpPool" ? op.integer("p", 2) : 0;
  if (p < 0 || (p == 0 && op.op() == "LpPool")) return op.bad(fmt::format("p is {}, 1 or more wanted", p));
  const auto power = [&](const Expr& e, double exponent) {
    if (exponent == 1) return e;
    if (exponent == 2) return e * e;
    return exponent == 0.5 ? Expr::unary(Op::sqrt, e) : Expr::binary(Op::pow, e, number(type, exponent));
  };
  const Expr outside = max ? neutral(ReduceOp::max, type) : Expr::constant(type, 0);
  const std::string part = max ? op.name() : op.name("sum");
  AICF_TRY(ValuePtr y, op.reduce({part, x->type, shape, {x}}, w.kernel, max ? ReduceOp::max : ReduceOp::sum,
                                 [&](const Index& i, const Index& r) {
                                   return windowed(w, x, {i[0], i[1]}, tail(i, 2), r, outside, [&](const Index& at) {
                                     const Expr e = op.at(x, at);
                                     return p == 0 ? e : power(Expr::unary(Op::abs, e), static_cast<double>(p));
                                   });
                                 }));
  if (max) {
    op.result(0, std::move(y));
    return {};
  }
  if (p != 0) {
    return op.result_map(x->type, shape, {y},
                         [&](const Index& i) { return power(op.at(y, i), 1 / static_cast<double>(p)); });
  }
  const bool counts_padding = op.integer("count_include_pad", 0) != 0;
  if (counts_padding && op.integer("ceil_mode", 0) != 0) return op.cannot("ceil_mode with count_include_pad");
  return op.result_map(x->type, shape, {y}, [&](const Index& i) {
    Expr count(1);
    for (int d = 0; d < w.rank(); ++d) {
      if (!w.padded || counts_padding) {
        count = count * w.kernel[d];
        continue;
      }
      // Taps k in [0, kernel) with 0 <= first + dilation · k < dim.
      const Expr first = w.at(d, i[d + 2], Expr(0)), step(w.dilations[d]);
      const Expr low = Expr::binary(Op::max, ceildiv(-first, step), Expr(0));
      const Expr high = Expr::binary(Op::min, ceildiv(x->shape[d + 2] - first, step), w.kernel[d]);
      count = count * (high - low);
    }
    return op.at(y, i) / cast_to(op.simplify(count), type);
  });
}

Result<void> global_pooling(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (x->rank() < 3) return op.bad(fmt::format("input 0 has rank {}, 3 or more wanted", x->rank()));
  AICF_RETURN_IF_ERROR(op.want_float(0));
  const bool max = op.op() == "GlobalMaxPool";
  Shape shape{x->shape[0], x->shape[1]};
  shape.resize(x->shape.size(), Expr(1));
  const Shape over(x->shape.begin() + 2, x->shape.end());
  const DType type = wide(x->type);
  AICF_TRY(ValuePtr y, op.reduce({max ? op.name() : op.name("sum"), x->type, shape, {x}}, over,
                                 max ? ReduceOp::max : ReduceOp::sum, [&](const Index& i, const Index& r) {
                                   Index index{i[0], i[1]};
                                   index.insert(index.end(), r.begin(), r.end());
                                   return op.at(x, index);
                                 }));
  if (max) {
    op.result(0, std::move(y));
    return {};
  }
  return op.result_map(x->type, shape, {y},
                       [&](const Index& i) { return op.at(y, i) / cast_to(op.product(over), type); });
}

}  // namespace aicf::ops
