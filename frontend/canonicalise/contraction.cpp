// Sums of products: MatMul, Gemm, Einsum. All are one contract node (and a cast node for narrow types).

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "frontend/canonicalise/ops.h"

namespace aicf::ops {

Result<void> matmul(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const ValuePtr a = op.in(0), b = op.in(1);
  if (a->rank() == 0 || b->rank() == 0) return op.bad("operands of rank 0");
  // Rank 1 stands for a row on the left and a column on the right; the added dim is dropped from the result.
  const bool row = a->rank() == 1, column = b->rank() == 1;
  const Expr depth_a = a->shape.back(), depth_b = column ? b->shape[0] : b->shape[b->rank() - 2];
  AICF_TRY(
      const Expr depth,
      op.agree(depth_a, depth_b, fmt::format("inner dims of {} and {}", to_string(a->shape), to_string(b->shape))));
  const Shape batch_a(a->shape.begin(), a->shape.end() - (row ? 1 : 2));
  const Shape batch_b(b->shape.begin(), b->shape.end() - (column ? 1 : 2));
  AICF_TRY(const Shape batch, op.broadcast(batch_a, batch_b));
  Shape shape = batch;
  if (!row) shape.push_back(a->shape[a->rank() - 2]);
  if (!column) shape.push_back(b->shape.back());

  const auto batch_index = [&](const Shape& own, const Index& i) {
    Index index;
    const std::size_t skip = batch.size() - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) {
      const bool stretched = own[d].is_constant(1) && !batch[skip + d].is_constant(1);
      index.push_back(stretched ? Expr(0) : i[skip + d]);
    }
    return index;
  };
  AICF_TRY(ValuePtr y,
           op.reduce({op.name(), a->type, shape, {a, b}}, {depth}, ReduceOp::sum, [&](const Index& i, const Index& r) {
             Index left = batch_index(batch_a, i), right = batch_index(batch_b, i);
             if (!row) left.push_back(i[batch.size()]);
             left.push_back(r[0]);
             right.push_back(r[0]);
             if (!column) right.push_back(i.back());
             return op.at(a, left) * op.at(b, right);
           }));
  op.result(0, std::move(y));
  return {};
}

Result<void> gemm(Lowering& op) {
  AICF_RETURN_IF_ERROR(op.want_same_type(0, 1));
  AICF_RETURN_IF_ERROR(op.want_number(0));
  const ValuePtr a = op.in(0), b = op.in(1);
  if (a->rank() != 2 || b->rank() != 2) {
    return op.bad(fmt::format("ranks {} and {}, 2 wanted", a->rank(), b->rank()));
  }
  const bool ta = op.integer("transA", 0) != 0, tb = op.integer("transB", 0) != 0;
  const double alpha = op.real("alpha", 1), beta = op.real("beta", 1);
  AICF_TRY(const Expr depth, op.agree(a->shape[ta ? 0 : 1], b->shape[tb ? 1 : 0], "inner dims"));
  const Shape shape{a->shape[ta ? 1 : 0], b->shape[tb ? 0 : 1]};
  const bool has_c = op.has(2) && beta != 0;
  const bool plain = alpha == 1 && !has_c;
  const DType type = wide(a->type);
  const auto product = [&](const Index& i, const Index& r) {
    return op.at(a, ta ? Index{r[0], i[0]} : Index{i[0], r[0]}) * op.at(b, tb ? Index{i[1], r[0]} : Index{r[0], i[1]});
  };
  if (plain) {
    AICF_TRY(ValuePtr y, op.reduce({op.name(), a->type, shape, {a, b}}, {depth}, ReduceOp::sum, product));
    op.result(0, std::move(y));
    return {};
  }
  AICF_TRY(const ValuePtr y, op.reduce({op.name("product"), type, shape, {a, b}}, {depth}, ReduceOp::sum, product));
  Values operands{y};
  if (has_c) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, 2));
    operands.push_back(op.in(2));
    if (op.in(2)->rank() > 2) return op.bad(fmt::format("input 2 has rank {}, at most 2 wanted", op.in(2)->rank()));
    AICF_TRY([[maybe_unused]] const Shape joined, op.broadcast(shape, op.in(2)->shape));
  }
  return op.result_map(a->type, shape, operands, [&](const Index& i) {
    Expr e = op.at(y, i);
    if (alpha != 1) e = number(type, alpha) * e;
    if (has_c) {
      Expr c = cast_to(op.at_broadcast(op.in(2), shape, i), type);
      e = e + (beta == 1 ? c : number(type, beta) * c);
    }
    return e;
  });
}

namespace {

struct Equation {
  std::vector<std::string> operands;  ///< one letter a dim; '.' stands for the ellipsis
  std::string result;
};

/// Splits "bij, bjk -> bik". "..." becomes one '.'.
Result<Equation> parse_equation(Lowering& op, const std::string& text, int inputs) {
  const auto malformed = [&](std::string why) { return op.bad(fmt::format("equation '{}': {}", text, why)); };
  Equation equation;
  std::string term;
  bool arrow = false;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == ' ') continue;
    if (c == ',') {
      if (arrow) return malformed("a comma after the arrow");
      equation.operands.push_back(std::exchange(term, {}));
    } else if (c == '-') {
      if (arrow || k + 1 >= text.size() || text[k + 1] != '>') return malformed("a stray '-'");
      equation.operands.push_back(std::exchange(term, {}));
      arrow = true;
      ++k;
    } else if (c == '.') {
      if (text.compare(k, 3, "...") != 0) return malformed("a stray '.'");
      if (term.find('.') != std::string::npos) return malformed("two ellipses in a term");
      term += '.';
      k += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      term += c;
    } else {
      return malformed(fmt::format("unexpected character '{}'", c));
    }
  }
  if (!arrow) {
    equation.operands.push_back(term);
    // The implicit result: the ellipsis, then the letters that stand once, in alphabetical order.
    std::map<char, int> counts;
    for (const std::string& t : equation.operands) {
      for (const char c : t) ++counts[c];
    }
    if (counts.contains('.')) equation.result = ".";
    for (const auto& [c, n] : counts) {
      if (c != '.' && n == 1) equation.result += c;
    }
  } else {
    equation.result = term;
  }
  if (static_cast<int>(equation.operands.size()) != inputs) {
    return malformed(fmt::format("{} terms for {} inputs", equation.operands.size(), inputs));
  }
  return equation;
}

}  // namespace

Result<void> einsum(Lowering& op) {
  AICF_TRY(const Equation equation, parse_equation(op, op.text("equation", ""), op.inputs()));
  AICF_RETURN_IF_ERROR(op.want_number(0));
  // Size of each letter, and of the broadcast ellipsis dims.
  std::map<char, Expr> sizes;
  Shape ellipsis;
  Values operands;
  for (int k = 0; k < op.inputs(); ++k) {
    AICF_RETURN_IF_ERROR(op.want_same_type(0, k));
    operands.push_back(op.in(k));
    const std::string& term = equation.operands[k];
    const Shape& shape = op.in(k)->shape;
    const bool dots = term.find('.') != std::string::npos;
    const std::size_t letters = term.size() - (dots ? 1 : 0);
    if (dots ? letters > shape.size() : letters != shape.size()) {
      return op.bad(fmt::format("term '{}' has {} letters for input {} of rank {}", term, letters, k, shape.size()));
    }
    std::size_t d = 0;
    for (const char c : term) {
      if (c == '.') {
        const std::size_t count = shape.size() - letters;
        AICF_TRY(ellipsis, op.broadcast(ellipsis, Shape(shape.begin() + d, shape.begin() + d + count)));
        d += count;
        continue;
      }
      const auto [place, fresh] = sizes.try_emplace(c, shape[d]);
      if (!fresh && !place->second.is_constant(1) && !shape[d].is_constant(1)) {
        AICF_TRY(place->second, op.agree(place->second, shape[d], fmt::format("sizes of '{}'", c)));
      } else if (!fresh && place->second.is_constant(1)) {
        place->second = shape[d];
      }
      ++d;
    }
  }
  Shape shape;
  std::string letters_out;
  std::set<char> seen;
  for (const char c : equation.result) {
    if (!seen.insert(c).second) return op.bad(fmt::format("the result names '{}' twice", c));
    if (c == '.') {
      shape.insert(shape.end(), ellipsis.begin(), ellipsis.end());
    } else if (const auto size = sizes.find(c); size != sizes.end()) {
      shape.push_back(size->second);
    } else {
      return op.bad(fmt::format("the result names '{}', which no operand has", c));
    }
  }
  if (!ellipsis.empty() && equation.result.find('.') == std::string::npos) {
    return op.cannot("an ellipsis that is summed over");
  }
  Shape over;
  std::string summed;
  for (const std::string& term : equation.operands) {
    for (const char c : term) {
      if (c != '.' && equation.result.find(c) == std::string::npos && summed.find(c) == std::string::npos) {
        summed += c;
        over.push_back(sizes.at(c));
      }
    }
  }
  const DType type = op.in(0)->type;
  const auto body = [&](const Index& i, const Index& r) {
    std::map<char, Expr> coordinates;
    Index dots;
    std::size_t next = 0;
    for (const char c : equation.result) {
      if (c == '.') {
        dots.assign(i.begin() + next, i.begin() + next + ellipsis.size());
        next += ellipsis.size();
      } else {
        coordinates[c] = i[next++];
      }
    }
    for (std::size_t k = 0; k < summed.size(); ++k) coordinates[summed[k]] = r[k];
    Expr product;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const Shape& own = operands[k]->shape;
      Index index;
      const std::size_t count =
          own.size() - (equation.operands[k].size() - (equation.operands[k].find('.') != std::string::npos ? 1 : 0));
      for (const char c : equation.operands[k]) {
        if (c == '.') {
          for (std::size_t d = 0; d < count; ++d) {
            const std::size_t whole = ellipsis.size() - count + d;
            const bool stretched = own[index.size()].is_constant(1) && !ellipsis[whole].is_constant(1);
            index.push_back(stretched ? Expr(0) : dots[whole]);
          }
        } else {
          const bool stretched = own[index.size()].is_constant(1) && !sizes.at(c).is_constant(1);
          index.push_back(stretched ? Expr(0) : coordinates.at(c));
        }
      }
      const Expr e = op.at(operands[k], index);
      product = product ? product * e : e;
    }
    return product;
  };
  if (over.empty()) {
    return op.result_map(type, shape, operands, [&](const Index& i) { return body(i, {}); });
  }
  AICF_TRY(ValuePtr y, op.reduce({op.name(), type, shape, operands}, over, ReduceOp::sum, body));
  op.result(0, std::move(y));
  return {};
}

}  // namespace aicf::ops
