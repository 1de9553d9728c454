// Operators that change how elements are addressed and nothing else.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/canonicalise/ops.h"
#include "frontend/semantic/check.h"

namespace aicf::ops {
namespace {

bool same_shape(const Lowering& op, const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [&](const Expr& x, const Expr& y) { return op.same(x, y); });
}

/// A run of input dims and a run of output dims with the same product.
struct Group {
  std::size_t in_begin, in_end, out_begin, out_end;
};

/// Pairs dims of both shapes into the smallest runs of equal product; what cannot be paired is one last group.
std::vector<Group> groups_of(const Lowering& op, const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  std::size_t a = 0, b = 0;
  const auto next = [&]() -> std::optional<Group> {
    const std::size_t rest_a = in.size() - a, rest_b = out.size() - b;
    for (std::size_t total = 1; total <= rest_a + rest_b; ++total) {
      for (std::size_t m = std::min(total, rest_a) + 1; m-- > 0;) {
        const std::size_t n = total - m;
        if (n > rest_b) continue;
        const Expr left = op.product(std::span(in).subspan(a, m)), right = op.product(std::span(out).subspan(b, n));
        if (op.same(left, right)) return Group{a, a + m, b, b + n};
      }
    }
    return std::nullopt;
  };
  while (a < in.size() || b < out.size()) {
    const Group group = next().value_or(Group{a, in.size(), b, out.size()});
    groups.push_back(group);
    a = group.in_end;
    b = group.out_end;
  }
  return groups;
}

/// The input coordinates of an element of the reshaped tensor: flatten each run, then split it.
Index reshaped_index(const Lowering& op, const Shape& in, const Shape& out, const std::vector<Group>& groups,
                     const Index& i) {
  Index index(in.size());
  for (const Group& g : groups) {
    if (g.in_end - g.in_begin == 1 && g.out_end - g.out_begin == 1) {
      index[g.in_begin] = i[g.out_begin];
      continue;
    }
    Expr flat(0);
    for (std::size_t d = g.out_begin; d < g.out_end; ++d) {
      flat = out[d].is_constant(1) ? flat : flat * out[d] + i[d];
    }
    // Dims of size 1 take coordinate 0; the first other dim needs no modulus, the last no division.
    std::vector<std::size_t> dims;
    for (std::size_t d = g.in_begin; d < g.in_end; ++d) {
      if (in[d].is_constant(1))
        index[d] = Expr(0);
      else
        dims.push_back(d);
    }
    Expr stride(1);
    for (std::size_t k = dims.size(); k-- > 0;) {
      Expr coordinate = k + 1 == dims.size() ? flat : floordiv(flat, stride);
      if (k > 0) coordinate = aicf::mod(coordinate, in[dims[k]]);
      index[dims[k]] = coordinate;
      stride = op.simplify(stride * in[dims[k]]);
    }
  }
  return index;
}

Result<void> reshaped(Lowering& op, const ValuePtr& x, Shape shape) {
  if (same_shape(op, x->shape, shape)) {
    op.result(0, x);
    return {};
  }
  const std::vector<Group> groups = groups_of(op, x->shape, shape);
  return op.result_move(x, shape, [&](const Index& i) { return reshaped_index(op, x->shape, shape, groups, i); });
}

Result<std::vector<int>> given_axes(Lowering& op, int rank) {
  AICF_TRY(const auto given, op.integers("axes", 1));
  if (!given) return std::vector<int>{};
  AICF_TRY(std::vector<int> axes, op.axes(*given, rank));
  std::ranges::sort(axes);
  return axes;
}

}  // namespace

Result<void> reshape(Lowering& op) {
  const ValuePtr x = op.in(0);
  if (op.in(1)->type != DType::i64) return op.bad(fmt::format("input 1 is {}, i64 wanted", name(op.in(1)->type)));
  AICF_TRY(std::vector<Expr> wanted, op.known_sizes(1));
  const bool allow_zero = op.integer("allowzero", 0) != 0;
  Shape shape;
  int unknown = -1;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const Expr e = op.simplify(wanted[d]);
    const auto n = constant_of(e);
    if (n && *n == -1) {
      if (unknown >= 0) return op.bad(fmt::format("two unknown dims in the shape {}", to_string(wanted)));
      unknown = static_cast<int>(d);
      shape.emplace_back(1);
    } else if (n && *n == 0 && !allow_zero) {
      if (static_cast<int>(d) >= x->rank()) {
        return op.bad(
            fmt::format("dim {} of {} copies a dim that {} does not have", d, to_string(wanted), to_string(x->shape)));
      }
      shape.push_back(x->shape[d]);
    } else if (n && *n < 0) {
      return op.bad(fmt::format("negative dim in the shape {}", to_string(wanted)));
    } else {
      shape.push_back(e);
    }
  }
  const Expr total = op.product(x->shape);
  if (unknown >= 0) {
    shape[unknown] = op.quotient(x->shape, shape);
    const auto known_total = constant_of(total), rest = constant_of(op.product(shape));
    if (known_total && rest && *known_total != *rest) {
      return op.bad(
          fmt::format("{} elements of {} do not divide into {}", *known_total, to_string(x->shape), to_string(wanted)));
    }
  }
  const Expr count = op.product(shape);
  AICF_TRY([[maybe_unused]] const Expr agreed,
           op.agree(total, count, fmt::format("elements of {} and {}", to_string(x->shape), to_string(shape))));
  return reshaped(op, x, std::move(shape));
}

Result<void> flatten(Lowering& op) {
  const ValuePtr x = op.in(0);
  const std::int64_t given = op.integer("axis", 1);
  if (given < -x->rank() || given > x->rank()) {
    return op.bad(fmt::format("axis {} is out of range for rank {}", given, x->rank()));
  }
  const std::size_t axis = static_cast<std::size_t>(given < 0 ? given + x->rank() : given);
  const std::span<const Expr> dims(x->shape);
  return reshaped(op, x, {op.product(dims.subspan(0, axis)), op.product(dims.subspan(axis))});
}

Result<void> squeeze(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(std::vector<int> axes, given_axes(op, x->rank()));
  if (!op.attribute("axes") && !op.has(1)) {
    for (int d = 0; d < x->rank(); ++d) {
      if (x->shape[d].is_constant(1)) axes.push_back(d);
    }
  }
  Shape shape;
  for (int d = 0; d < x->rank(); ++d) {
    if (!std::ranges::binary_search(axes, d)) {
      shape.push_back(x->shape[d]);
    } else {
      AICF_TRY(
          [[maybe_unused]] const Expr one,
          op.agree(x->shape[d], Expr(1), fmt::format("dim {} of {} and the squeezed size", d, to_string(x->shape))));
    }
  }
  if (axes.empty()) {
    op.result(0, x);
    return {};
  }
  return op.result_move(x, shape, [&](const Index& i) {
    Index index;
    std::size_t next = 0;
    for (int d = 0; d < x->rank(); ++d) index.push_back(std::ranges::binary_search(axes, d) ? Expr(0) : i[next++]);
    return index;
  });
}

Result<void> unsqueeze(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(const auto given, op.integers("axes", 1));
  const int rank = x->rank() + static_cast<int>(given ? given->size() : 0);
  AICF_TRY(const std::vector<int> axes, given_axes(op, rank));
  Shape shape;
  std::size_t next = 0;
  for (int d = 0; d < rank; ++d) shape.push_back(std::ranges::binary_search(axes, d) ? Expr(1) : x->shape[next++]);
  if (axes.empty()) {
    op.result(0, x);
    return {};
  }
  return op.result_move(x, shape, [&](const Index& i) {
    Index index;
    for (int d = 0; d < rank; ++d) {
      if (!std::ranges::binary_search(axes, d)) index.push_back(i[d]);
    }
    return index;
  });
}

Result<void> transpose(Lowering& op) {
  const ValuePtr x = op.in(0);
  std::vector<std::int64_t> perm;
  if (const Attribute* a = op.attribute("perm")) {
    perm = a->is;
  } else {
    for (int d = x->rank(); d-- > 0;) perm.push_back(d);
  }
  if (static_cast<int>(perm.size()) != x->rank()) {
    return op.bad(fmt::format("perm has {} entries for rank {}", perm.size(), x->rank()));
  }
  Shape shape;
  std::vector<bool> seen(perm.size());
  bool identity = true;
  for (std::size_t d = 0; d < perm.size(); ++d) {
    const std::int64_t p = perm[d];
    if (p < 0 || p >= x->rank()) return op.bad(fmt::format("perm holds {}, out of range for rank {}", p, x->rank()));
    if (seen[p]) return op.bad(fmt::format("perm repeats {}", p));
    seen[p] = true;
    identity = identity && p == static_cast<std::int64_t>(d);
    shape.push_back(x->shape[p]);
  }
  if (identity) {
    op.result(0, x);
    return {};
  }
  return op.result_move(x, shape, [&](const Index& i) {
    Index index(perm.size());
    for (std::size_t d = 0; d < perm.size(); ++d) index[perm[d]] = i[d];
    return index;
  });
}

Result<void> expand(Lowering& op) {
  const ValuePtr x = op.in(0);
  AICF_TRY(std::vector<Expr> wanted, op.known_sizes(1));
  for (Expr& e : wanted) {
    e = op.simplify(e);
    if (const auto n = constant_of(e); n && *n < 0) {
      return op.bad(fmt::format("negative dim in the shape {}", to_string(wanted)));
    }
  }
  AICF_TRY(const Shape shape, op.broadcast(x->shape, wanted));
  if (same_shape(op, shape, x->shape)) {
    op.result(0, x);
    return {};
  }
  return op.result_move(x, shape, [&](const Index& i) { return op.broadcast_index(x, shape, i); });
}

Result<void> identity(Lowering& op) {
  op.result(0, op.in(0));
  return {};
}

Result<void> dropout(Lowering& op) {
  if (op.has(2)) {
    const ValuePtr training = op.in(2);
    const std::string& tensor = training->tensor;
    AICF_RETURN_IF_ERROR(op.want_type(2, DType::boolean));
    if (training->rank() == 0 && !tensor.empty() && op.state().graph.node(tensor).kind == NodeKind::input) {
      op.state().must_be_false.push_back({tensor, "training mode", place_of(op.node())});
    } else if (!training->uniform || !constant_of(training->uniform)) {
      return op.cannot("training_mode is computed at run time; AICF runs inference only");
    } else if (*constant_of(training->uniform) != 0) {
      return op.cannot("training_mode is on; AICF runs inference only");
    }
  }
  op.result(0, op.in(0));
  // The mask of dropped elements: none is.
  if (op.wants(1)) {
    const bool boolean = op.opset() >= 10;
    const Expr kept = boolean ? Expr::boolean(true) : number(op.in(0)->type, 1);
    AICF_TRY(ValuePtr mask,
             op.map({op.name({}, 1), kept.type(), op.in(0)->shape, {}}, [&](const Index&) { return kept; }));
    op.result(1, std::move(mask));
  }
  return {};
}

}  // namespace aicf::ops
