#include "mir/support/interface.h"

#include <fmt/format.h>

namespace aicf {

namespace {

/// Solves dim(symbols) == size where one symbol is unbound and occurs as coefficient · symbol + offset.
bool solve(const Expr& dim, std::int64_t size, std::map<std::string, std::int64_t>& bindings) {
  ExprMap known;
  std::string unknown;
  for (const std::string& s : symbols_of(dim)) {
    if (const auto bound = bindings.find(s); bound != bindings.end())
      known.emplace(s, Expr(bound->second));
    else if (unknown.empty())
      unknown = s;
    else
      return false;
  }
  if (unknown.empty()) return false;
  const Expr one = simplify(substitute_symbols(dim, known));
  const auto value_at = [&](std::int64_t x) { return evaluate_int(one, {{unknown, x}}); };
  const auto zero = value_at(0), unit = value_at(1);
  if (!zero || !unit || *unit == *zero) return false;
  const std::int64_t coefficient = *unit - *zero, rest = size - *zero;
  if (rest % coefficient != 0 || rest / coefficient < 0) return false;
  const auto check = value_at(rest / coefficient);
  if (!check || *check != size) return false;
  bindings[unknown] = rest / coefficient;
  return true;
}

std::string where(const Signature& input, std::size_t d) {
  return fmt::format("dim {} of input '{}'", d, input.name);
}

}  // namespace

std::string dims_text(std::span<const Expr> dims) {
  std::string text = "[";
  for (std::size_t k = 0; k < dims.size(); ++k) text += (k ? ", " : "") + to_string(dims[k]);
  return text + "]";
}

std::string dims_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<std::map<std::string, std::int64_t>> bind_sizes(std::span<const Signature> inputs,
                                                       std::span<const std::vector<std::int64_t>> shapes) {
  AICF_CHECK(inputs.size() == shapes.size(), "one shape per input");
  std::map<std::string, std::int64_t> bindings;
  std::map<std::string, std::string> source;  // where a symbol's value is from
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Signature& input = inputs[i];
    if (shapes[i].size() != input.shape.size()) {
      return bad_input(fmt::format("input '{}' has shape {}, the model takes {}", input.name, dims_text(shapes[i]),
                                   dims_text(input.shape)));
    }
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      const Expr& dim = input.shape[d];
      if (dim.op() == Op::symbol && bindings.try_emplace(dim.name(), shapes[i][d]).second)
        source[dim.name()] = where(input, d);
    }
  }
  // Sizes that are more than a symbol: solve what is left, then check all.
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (std::size_t d = 0; d < inputs[i].shape.size(); ++d)
        again = solve(inputs[i].shape[d], shapes[i][d], bindings) || again;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t d = 0; d < inputs[i].shape.size(); ++d) {
      const Expr& dim = inputs[i].shape[d];
      AICF_TRY(const std::int64_t wanted, evaluate_int(dim, bindings));
      if (wanted == shapes[i][d]) continue;
      const auto from = dim.op() == Op::symbol ? source.find(dim.name()) : source.end();
      const std::string reason = dim.is_constant()      ? std::string("the model takes")
                                 : from != source.end() ? fmt::format("'{}' from {} is", dim.name(), from->second)
                                                        : fmt::format("{} is", to_string(dim));
      return bad_input(fmt::format("{} is {}, {} {}", where(inputs[i], d), shapes[i][d], reason, wanted));
    }
  }
  return bindings;
}

}  // namespace aicf
