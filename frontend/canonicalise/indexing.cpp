// Operators that pick, join and repeat elements by index.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {
namespace {

/// min and max of integers, decided where ranges allow.
Expr smaller(const Lowering& op, const Expr& a, const Expr& b) {
  const Range d = range_of(op.simplify(a - b), op.ranges());
  if (d.high && *d.high <= 0) return a;
  if (d.low && *d.low >= 0) return b;
  return Expr::binary(Op::min, a, b);
}
Expr larger(const Lowering& op, const Expr& a, const Expr& b) {
  const Range d = range_of(op.simplify(a - b), op.ranges());
  if (d.high && *d.high <= 0) return b;
  if (d.low && *d.low >= 0) return a;
  return Expr::binary(Op::max, a, b);
}

/// `e` counted from the end when negative.
Expr from_end(const Lowering& op, const Expr& e, const Expr& dim) {
  const Range range = range_of(op.simplify(e), op.ranges());
  if (range.low && *range.low >= 0) return e;
  if (range.high && *range.high < 0) return op.simplify(e + dim);
  return Expr::select(less(e, Expr(0)), e + dim, e);
}

struct SliceRange {
  Expr start, extent;
  std::int64_t step = 1;
};

/// ONNX's clamping rules for one axis.
SliceRange slice_range(const Lowering& op, const Expr& dim, const Expr& start, const Expr& end, std::int64_t step) {
  constexpr std::int64_t far = std::numeric_limits<std::int32_t>::max();
  const auto number_start = constant_of(start), number_end = constant_of(end);
  if (step > 0) {
    const Expr first = number_start && *number_start <= -far
                           ? Expr(0)
                           : smaller(op, larger(op, from_end(op, start, dim), Expr(0)), dim);
    Expr last = dim;
    if (number_end && *number_end <= -far)
      last = Expr(0);
    else if (!number_end || *number_end < far)
      last = smaller(op, larger(op, from_end(op, end, dim), Expr(0)), dim);
    const Expr length = larger(op, op.simplify(last - first), Expr(0));
    return {op.simplify(first), op.simplify(step == 1 ? length : ceildiv(length, Expr(step))), step};
  }
  const Expr top = op.simplify(dim - Expr(1));
  const Expr first =
      number_start && *number_start >= far ? top : smaller(op, larger(op, from_end(op, start, dim), Expr(-1)), top);
  Expr last(-1);
  if (number_end && *number_end >= far)
    last = top;
  else if (!number_end || *number_end > -far)
    last = smaller(op, larger(op, from_end(op, end, dim), Expr(-1)), top);
  const Expr length = larger(op, op.simplify(first - last), Expr(0));
  return {op.simplify(first), op.simplify(step == -1 ? length : ceildiv(length, Expr(-step))), step};
}

/// One result of slicing `x`; itself when nothing is cut.
Result<ValuePtr> sliced(Lowering& op, const ValuePtr& x, const std::vector<SliceRange>& ranges,
                        const std::string& name) {
  Shape shape;
  bool whole = true;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    shape.push_back(ranges[d].extent);
    whole = whole && ranges[d].step == 1 && ranges[d].start.is_constant(0) && op.same(ranges[d].extent, x->shape[d]);
  }
  if (whole) return x;
  return op.move(name, x, shape, [&](const Index& i) {
    Index index;
    for (std::size_t d = 0; d < ranges.size(); ++d) index.push_back(ranges[d].start + Expr(ranges[d].step) * i[d]);
    return index;
  });
}

std::vector<SliceRange> whole_ranges(const Shape& shape) {
  std::vector<SliceRange> ranges;
  for (const Expr& dim : shape) ranges.push_back({Expr(0), dim, 1});
  return ranges;
}

/// A list given as an attribute (old opsets) or as an input, symbolic allowed.
Result<std::optional<std::vector<Expr>>> list(Lowering& op, const std::string& attribute, int input) {
  if (const Attribute* a = op.attribute(attribute)) return std::vector<Expr>(a->is.begin(), a->is.end());
  if (!op.has(input) || op.opset() < 10) return std::nullopt;
  AICF_TRY(std::vector<Expr> elements, op.known_sizes(input));
  return elements;
}

}  // namespace

Result<void> slice(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const auto starts, list(op, "starts", 1));
  AICF_TRY(const auto ends, list(op, "ends", 2));
  AICF_TRY(const auto axes_given, list(op, "axes", 3));
  AICF_TRY(const auto steps, list(op, "steps", 4));
  if (!starts || !ends || starts->size() != ends->size()) return op.bad("starts and ends differ in length");
  std::vector<std::int64_t> numbers;
  for (std::size_t k = 0; k < starts->size(); ++k) {
    if (!axes_given) {
      numbers.push_back(static_cast<std::int64_t>(k));
      continue;
    }
    if (axes_given->size() != starts->size()) return op.bad("axes and starts differ in length");
    const auto n = constant_of((*axes_given)[k]);
    if (!n) return op.cannot("axes must be constant");
    numbers.push_back(*n);
  }
  AICF_TRY(const std::vector<int> axes, op.axes(numbers, x->rank()));
  std::vector<SliceRange> ranges = whole_ranges(x->shape);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    std::int64_t step = 1;
    if (steps) {
      if (steps->size() != axes.size()) return op.bad("steps and starts differ in length");
      const auto n = constant_of((*steps)[k]);
      if (!n) return op.cannot("steps must be constant");
      step = *n;
    }
    if (step == 0) return op.bad("step 0");
    ranges[axes[k]] = slice_range(op, x->shape[axes[k]], (*starts)[k], (*ends)[k], step);
  }
  AICF_TRY(ValuePtr y, sliced(op, x, ranges, op.name()));
  op.result(0, std::move(y));
  return {};
}

Result<void> split(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const int axis, op.axis(op.integer("axis", 0), x->rank()));
  const Expr dim = x->shape[axis];
  const auto parts = static_cast<std::int64_t>(op.node().outputs.size());
  std::vector<Expr> sizes;
  if (const Attribute* a = op.attribute("split")) {
    sizes.assign(a->is.begin(), a->is.end());
  } else if (op.has(1)) {
    AICF_TRY(sizes, op.known_sizes(1));
  } else {
    const std::int64_t count = op.integer("num_outputs", parts);
    if (count != parts) return op.bad(fmt::format("num_outputs {} for {} outputs", count, parts));
    const bool uneven_allowed = op.attribute("num_outputs") != nullptr;
    if (const auto n = constant_of(dim)) {
      const std::int64_t chunk = (*n + count - 1) / count;
      if (!uneven_allowed && *n % count != 0)
        return op.bad(fmt::format("dim {} does not divide into {} parts", *n, count));
      for (std::int64_t k = 0; k < count; ++k) sizes.emplace_back(std::clamp(*n - k * chunk, std::int64_t{0}, chunk));
    } else {
      const Expr part = op.simplify(dim / count);
      if (uneven_allowed && !provably_equal(part * count, dim))
        return op.cannot(
            fmt::format("a symbolic dim {} in {} parts, equal or not; give their sizes", to_string(dim), count));
      sizes.assign(static_cast<std::size_t>(count), part);
    }
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts) {
    return op.bad(fmt::format("{} sizes for {} outputs", sizes.size(), parts));
  }
  Expr total(0);
  for (const Expr& s : sizes) total = total + s;
  total = op.simplify(total);
  AICF_TRY([[maybe_unused]] const Expr agreed, op.agree(total, dim, "the sum of the parts and the dim"));
  Expr start(0);
  for (std::int64_t k = 0; k < parts; ++k) {
    std::vector<SliceRange> ranges = whole_ranges(x->shape);
    ranges[axis] = {start, sizes[k], 1};
    AICF_TRY(ValuePtr y, sliced(op, x, ranges, op.name({}, static_cast<int>(k))));
    op.result(static_cast<int>(k), std::move(y));
    start = op.simplify(start + sizes[k]);
  }
  return {};
}

Result<void> concat(Lowering& op) {
  AICF_TRY(const int axis, op.axis(op.integer("axis", 0), op.in(0)->rank()));
  Shape shape = op.in(0)->shape;
  Values operands;
  std::vector<Expr> ends;
  Expr end(0);
  for (int k = 0; k < op.inputs(); ++k) {
    const ValuePtr x = op.in(k);
    AICF_RETURN_IF_ERROR(op.want_same_type(0, k));
    if (x->rank() != op.in(0)->rank()) {
      return op.bad(fmt::format("inputs 0 and {} have ranks {} and {}", k, op.in(0)->rank(), x->rank()));
    }
    for (int d = 0; d < x->rank(); ++d) {
      if (d == axis) continue;
      AICF_TRY(shape[d],
               op.agree(shape[d], x->shape[d],
                        fmt::format("dims {} of inputs {} and {}", d, to_string(shape), to_string(x->shape))));
    }
    if (x->shape[axis].is_constant(0)) continue;
    end = op.simplify(end + x->shape[axis]);
    operands.push_back(x);
    ends.push_back(end);
  }
  shape[axis] = end;
  if (operands.size() == 1) {
    op.result(0, operands[0]);
    return {};
  }
  const DType type = op.in(0)->type;
  if (operands.empty()) return op.result_map(type, shape, {}, [&](const Index&) { return Expr::constant(type, 0); });
  return op.result_map(type, shape, operands, [&](const Index& i) {
    const auto part = [&](std::size_t k) {
      Index index = i;
      if (k > 0) index[axis] = i[axis] - ends[k - 1];
      return op.joined_at(operands, operands[k], index);
    };
    // A chain for few parts, which later levels read as segments; halves for many, so that nothing nests deep.
    const auto of = [&](const auto& self, std::size_t begin, std::size_t end) -> Expr {
      if (end - begin == 1) return part(begin);
      const std::size_t middle = operands.size() > 16 ? begin + (end - begin) / 2 : begin + 1;
      return Expr::select(less(i[axis], ends[middle - 1]), self(self, begin, middle), self(self, middle, end));
    };
    return of(of, 0, operands.size());
  });
}

namespace {

/// What is known of an index operand's elements.
struct IndexFacts {
  bool known = false;  ///< and checked
  bool non_negative = false;
};

/// Checks constant indices against `dim`.
Result<IndexFacts> index_facts(Lowering& op, int input, const Expr& dim) {
  const ValuePtr indices = op.in(input);
  if (!is_integer(indices->type))
    return op.bad(fmt::format("input {} is {}, an integer wanted", input, name(indices->type)));
  IndexFacts facts;
  if (!indices->known()) return facts;
  const std::vector<Expr> elements = indices->uniform ? std::vector<Expr>{indices->uniform} : *indices->elements;
  const auto size = constant_of(dim);
  facts.non_negative = true;
  facts.known = true;
  for (const Expr& e : elements) {
    const Range range = range_of(op.simplify(e), op.ranges());
    facts.non_negative = facts.non_negative && range.low && *range.low >= 0;
    const auto n = constant_of(e);
    if (n && size && (*n < -*size || *n >= *size))
      return op.bad(fmt::format("index {} is out of range for dim {}", *n, *size));
    if (!n || !size) op.require_index(cast_to(e, DType::i64), dim, true);
  }
  return facts;
}

/// An index read from data: negative ones count from the end.
Expr wrapped(Lowering& op, const IndexFacts& facts, const Expr& e, const Expr& dim) {
  const Expr index = cast_to(e, DType::i64);
  if (!facts.known) op.require_index(index, dim, true);
  return facts.non_negative ? index : from_end(op, index, dim);
}

}  // namespace

Result<void> gather(Lowering& op) {
  const ValuePtr x = op.in(0), indices = op.in(1);
  if (x->rank() == 0) return op.bad("input 0 has rank 0");
  AICF_TRY(const int axis, op.axis(op.integer("axis", 0), x->rank()));
  AICF_TRY(const IndexFacts facts, index_facts(op, 1, x->shape[axis]));
  Shape shape(x->shape.begin(), x->shape.begin() + axis);
  shape.insert(shape.end(), indices->shape.begin(), indices->shape.end());
  shape.insert(shape.end(), x->shape.begin() + axis + 1, x->shape.end());
  const auto source = [&](const Index& i) {
    const Index place(i.begin() + axis, i.begin() + axis + indices->rank());
    Index index(i.begin(), i.begin() + axis);
    index.push_back(wrapped(op, facts, op.at(indices, place), x->shape[axis]));
    index.insert(index.end(), i.begin() + axis + indices->rank(), i.end());
    return index;
  };
  return op.result_move(x, shape, source, {indices});
}

Result<void> gather_nd(Lowering& op) {
  const ValuePtr x = op.in(0), indices = op.in(1);
  const std::int64_t batch = op.integer("batch_dims", 0);
  if (indices->rank() == 0 || x->rank() == 0) return op.bad("operands of rank 0");
  const auto depth = constant_of(indices->shape.back());
  if (!depth) return op.cannot("the last dim of input 1 must be constant");
  if (batch < 0 || batch >= indices->rank() || batch + *depth > x->rank() || *depth < 1) {
    return op.bad(fmt::format("index tuples of {} with batch_dims {} for rank {}", *depth, batch, x->rank()));
  }
  for (std::int64_t d = 0; d < batch; ++d) {
    AICF_TRY([[maybe_unused]] const Expr dim, op.agree(x->shape[d], indices->shape[d], "batch dims"));
  }
  IndexFacts facts;
  if (!is_integer(indices->type)) return op.bad(fmt::format("input 1 is {}, an integer wanted", name(indices->type)));
  const std::size_t lead = indices->shape.size() - 1;
  Shape shape(indices->shape.begin(), indices->shape.end() - 1);
  shape.insert(shape.end(), x->shape.begin() + batch + *depth, x->shape.end());
  const auto source = [&](const Index& i) {
    Index index(i.begin(), i.begin() + batch);
    for (std::int64_t k = 0; k < *depth; ++k) {
      Index place(i.begin(), i.begin() + lead);
      place.emplace_back(k);
      index.push_back(wrapped(op, facts, op.at(indices, place), x->shape[batch + k]));
    }
    index.insert(index.end(), i.begin() + lead, i.end());
    return index;
  };
  return op.result_move(x, shape, source, {indices});
}

Result<void> gather_elements(Lowering& op) {
  const ValuePtr x = op.in(0), indices = op.in(1);
  AICF_TRY(const int axis, op.axis(op.integer("axis", 0), x->rank()));
  if (indices->rank() != x->rank()) {
    return op.bad(fmt::format("inputs 0 and 1 have ranks {} and {}", x->rank(), indices->rank()));
  }
  AICF_TRY(const IndexFacts facts, index_facts(op, 1, x->shape[axis]));
  const auto source = [&](const Index& i) {
    Index index = i;
    index[axis] = wrapped(op, facts, op.at(indices, i), x->shape[axis]);
    return index;
  };
  return op.result_move(x, indices->shape, source, {indices});
}

Result<void> tile(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const std::vector<Expr> repeats, op.known_sizes(1));
  if (static_cast<int>(repeats.size()) != x->rank()) {
    return op.bad(fmt::format("{} repeats for rank {}", repeats.size(), x->rank()));
  }
  Shape shape;
  bool whole = true;
  for (int d = 0; d < x->rank(); ++d) {
    if (const auto n = constant_of(repeats[d]); n && *n < 0) return op.bad(fmt::format("repeats hold {}", *n));
    shape.push_back(op.simplify(x->shape[d] * repeats[d]));
    whole = whole && repeats[d].is_constant(1);
  }
  if (whole) {
    op.result(0, x);
    return {};
  }
  return op.result_move(x, shape, [&](const Index& i) {
    Index index;
    for (int d = 0; d < x->rank(); ++d) {
      index.push_back(x->shape[d].is_constant(1) ? Expr(0) : repeats[d].is_constant(1) ? i[d] : mod(i[d], x->shape[d]));
    }
    return index;
  });
}

Result<void> pad(Lowering& op) {
  const ValuePtr x = op.in(0);
  const std::string mode = op.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return op.bad(fmt::format("mode '{}' is none of constant, edge, reflect, wrap", mode));
  }
  std::vector<Expr> pads;
  if (const Attribute* a = op.attribute("pads")) {
    pads.assign(a->is.begin(), a->is.end());
  } else {
    AICF_TRY(pads, op.known_sizes(1));
  }
  std::vector<int> axes;
  if (op.has(3)) {
    AICF_TRY(const auto given, op.known_integers(3));
    AICF_TRY(axes, op.axes(given, x->rank()));
  } else {
    for (int d = 0; d < x->rank(); ++d) axes.push_back(d);
  }
  if (pads.size() != 2 * axes.size()) return op.bad(fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  Values operands{x};
  const Expr fill = Expr::constant(wide(x->type), op.real("value", 0));
  if (op.has(2)) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
    operands.push_back(op.in(2));
  }
  Shape before(x->shape.size(), Expr(0)), shape = x->shape;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    before[axes[k]] = pads[k];
    shape[axes[k]] = op.simplify(shape[axes[k]] + pads[k] + pads[k + axes.size()]);
  }
  return op.result_map(x->type, shape, operands, [&](const Index& i) {
    Index index = i;
    Expr inside;
    for (const int d : axes) {
      if (op.same(before[d], Expr(0)) && op.same(shape[d], x->shape[d])) continue;
      const Expr at = op.simplify(i[d] - before[d]), dim = x->shape[d], top = dim - Expr(1);
      if (mode == "constant") {
        inside = logical_and(inside, logical_and(less_equal(Expr(0), at), less(at, dim)));
        index[d] = at;
      } else if (mode == "edge") {
        index[d] = Expr::binary(Op::max, Expr(0), Expr::binary(Op::min, at, top));
      } else if (mode == "wrap") {
        index[d] = mod(at, dim);
      } else {  // reflect: a triangle wave of period 2(dim − 1)
        const Expr period = Expr(2) * top;
        const Expr phase =
            Expr::select(less_equal(period, Expr(0)), Expr(0), mod(at, Expr::binary(Op::max, period, Expr(1))));
        index[d] = Expr::binary(Op::min, phase, period - phase);
      }
    }
    const Expr e = op.at(x, index);
    if (!inside) return e;
    const Expr value = op.has(2) ? op.at(op.in(2), Index(op.in(2)->shape.size(), Expr(0))) : fill;
    return Expr::select(inside, e, value);
  });
}

Result<void> trilu(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (x->rank() < 2) return op.bad(fmt::format("input 0 has rank {}, 2 or more wanted", x->rank()));
  const bool upper = op.integer("upper", 1) != 0;
  Values operands{x};
  if (op.has(1)) operands.push_back(op.in(1));
  AICF_TRY(ValuePtr y, op.map({op.name(), x->type, x->shape, operands, true}, [&](const Index& i) {
    const Expr row = i[x->rank() - 2], column = i[x->rank() - 1];
    const Expr k = op.has(1) ? cast_to(op.at(op.in(1), Index(op.in(1)->shape.size(), Expr(0))), DType::i64) : Expr(0);
    const Expr kept = upper ? less_equal(row + k, column) : less_equal(column, row + k);
    return Expr::select(kept, op.at(x, i), Expr::constant(wide(x->type), 0));
  }));
  op.result(0, std::move(y));
  return {};
}

}  // namespace aicf::ops
