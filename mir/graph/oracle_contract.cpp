// Sums of products as matrix products.
//
// The factors of the body are split into two operands A[batch, m, k] and B[batch, k, n]: batch axes occur in both, m
// only in A, n only in B, k are the reduced axes of both. Operands are evaluated once into dense f64 arrays (any
// expression, not only loads; a reduced axis of one operand alone is summed there), and a blocked kernel multiplies
// them. Factors that no reduced axis touches multiply the result.

#include <algorithm>
#include <functional>
#include <set>

#include "mir/graph/oracle_program.h"

namespace aicf::oracle {
namespace {

constexpr std::int64_t min_products = 16'384;                   ///< below, the general loop is as fast
constexpr std::int64_t chunk_elements = std::int64_t{1} << 22;  ///< packed operands of the batches done together
constexpr std::int64_t max_operands = std::int64_t{1} << 27;    ///< packed operands of one batch
constexpr int row_block = 64;                                   ///< rows of A that share a packed panel of B
constexpr int k_block = 256;
constexpr int rows = 4, columns = 8;  ///< of the register tile

/// c[4][8] += a[4][k] · panel[k][8]; rows of a are `a_stride` apart.
[[gnu::always_inline]] inline void multiply_tile_with(const double* __restrict a, std::int64_t a_stride,
                                                      const double* __restrict panel, int k, double* __restrict c) {
  typedef double Vector __attribute__((vector_size(32), aligned(8)));
  Vector sum[rows][2];
  for (int r = 0; r < rows; ++r) {
    sum[r][0] = *reinterpret_cast<const Vector*>(c + r * columns);
    sum[r][1] = *reinterpret_cast<const Vector*>(c + r * columns + 4);
  }
  for (int i = 0; i < k; ++i) {
    const Vector left = *reinterpret_cast<const Vector*>(panel + i * columns);
    const Vector right = *reinterpret_cast<const Vector*>(panel + i * columns + 4);
    for (int r = 0; r < rows; ++r) {
      const double x = a[r * a_stride + i];
      sum[r][0] += x * left;
      sum[r][1] += x * right;
    }
  }
  for (int r = 0; r < rows; ++r) {
    *reinterpret_cast<Vector*>(c + r * columns) = sum[r][0];
    *reinterpret_cast<Vector*>(c + r * columns + 4) = sum[r][1];
  }
}

using MultiplyTile = void (*)(const double*, std::int64_t, const double*, int, double*);

void multiply_tile_anywhere(const double* a, std::int64_t a_stride, const double* panel, int k, double* c) {
  multiply_tile_with(a, a_stride, panel, k, c);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_tile_avx2(const double* a, std::int64_t a_stride, const double* panel, int k,
                                                    double* c) {
  multiply_tile_with(a, a_stride, panel, k, c);
}
#endif

/// The fastest form that this machine runs.
MultiplyTile choose_multiply_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_tile_avx2;
#endif
  return multiply_tile_anywhere;
}

std::int64_t product(const std::vector<LoopAxis>& axes) {
  std::int64_t result = 1;
  for (const LoopAxis& axis : axes) result *= axis.extent;
  return result;
}

std::vector<LoopAxis> joined(std::initializer_list<const std::vector<LoopAxis>*> lists) {
  std::vector<LoopAxis> result;
  for (const auto* list : lists) result.insert(result.end(), list->begin(), list->end());
  return result;
}

struct Operand {
  std::vector<Expr> factors;
  std::set<std::string> axes;

  void add(const Expr& factor) {
    factors.push_back(factor);
    axes.merge(axes_of(factor));
  }
  Expr body() const {
    Expr result = factors.front();
    for (std::size_t i = 1; i < factors.size(); ++i) result = result * factors[i];
    return result;
  }
};

/// What is multiplied with what.
struct Form {
  Operand a, b;
  std::vector<Expr> scale;  ///< factors without reduced axes
  std::vector<LoopAxis> batch, m, n, k, only_a, only_b;
  std::int64_t repeat = 1;  ///< product of reduced extents that nothing depends on
};

void collect_factors(const Expr& e, std::vector<Expr>& factors) {
  if (e.op() == Op::mul) {
    for (const Expr& arg : e.args()) collect_factors(arg, factors);
  } else {
    factors.push_back(e);
  }
}

std::optional<Form> analyse(const Reduction& what) {
  if (what.op != ReduceOp::sum || !is_float(what.type) || what.body.op() != Op::mul) return std::nullopt;
  std::vector<Expr> factors;
  collect_factors(what.body, factors);
  Form form;
  std::vector<std::pair<std::set<std::string>, Expr>> varying;
  for (const Expr& factor : factors) {
    std::set<std::string> used = axes_of(factor);
    const bool reduced = std::any_of(what.reduce_axes.begin(), what.reduce_axes.end(),
                                     [&](const LoopAxis& axis) { return used.contains(axis.name); });
    if (reduced) {
      varying.emplace_back(std::move(used), factor);
    } else {
      form.scale.push_back(factor);
    }
  }
  // The factor with most axes leads one operand; what fits inside it joins it, the others form the second operand.
  std::stable_sort(varying.begin(), varying.end(),
                   [](const auto& x, const auto& y) { return x.first.size() > y.first.size(); });
  for (const auto& [used, factor] : varying) {
    const bool joins =
        form.a.factors.empty() || std::includes(form.a.axes.begin(), form.a.axes.end(), used.begin(), used.end());
    (joins ? form.a : form.b).add(factor);
  }
  if (form.b.factors.empty()) return std::nullopt;
  for (const LoopAxis& axis : what.axes) {
    const bool in_a = form.a.axes.contains(axis.name), in_b = form.b.axes.contains(axis.name);
    (in_a && in_b ? form.batch : in_b ? form.n : form.m).push_back(axis);
  }
  for (const LoopAxis& axis : what.reduce_axes) {
    const bool in_a = form.a.axes.contains(axis.name), in_b = form.b.axes.contains(axis.name);
    if (in_a && in_b) {
      form.k.push_back(axis);
    } else if (in_a || in_b) {
      (in_a ? form.only_a : form.only_b).push_back(axis);
    } else {
      form.repeat *= axis.extent;
    }
  }
  if (form.k.empty()) return std::nullopt;
  return form;
}

/// Offsets in the result of every position of `axes`.
std::vector<std::int64_t> offsets_of(const std::vector<LoopAxis>& axes, const std::vector<LoopAxis>& result_axes) {
  std::map<std::string, std::int64_t> strides;
  std::int64_t stride = 1;
  for (auto axis = result_axes.rbegin(); axis != result_axes.rend(); ++axis) {
    strides[axis->name] = stride;
    stride *= axis->extent;
  }
  std::vector<std::int64_t> offsets{0};
  for (const LoopAxis& axis : axes) {
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(axis.extent));
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < axis.extent; ++i) next.push_back(offset + i * strides[axis.name]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

struct Sizes {
  std::int64_t m, n, k;
};

/// Rows [first, first + count) of one product into `c`, which is [count][n rounded up to columns].
void multiply_rows(const Sizes& size, const double* a, const double* b, std::int64_t first, int count, double* c) {
  static const MultiplyTile multiply_tile = choose_multiply_tile();
  const std::int64_t panels = (size.n + columns - 1) / columns;
  std::vector<double> panel(static_cast<std::size_t>(k_block) * columns);
  std::vector<double> tail(static_cast<std::size_t>(rows) * static_cast<std::size_t>(k_block));
  // Tiles of c stand one after the other: [panel][row][column].
  const int padded = (count + rows - 1) / rows * rows;
  std::fill_n(c, panels * padded * columns, 0.0);
  for (std::int64_t k0 = 0; k0 < size.k; k0 += k_block) {
    const int depth = static_cast<int>(std::min<std::int64_t>(k_block, size.k - k0));
    const int whole = count / rows * rows;
    for (int r = whole; r < padded; ++r) {  // the last rows, padded with zeros
      double* row = tail.data() + (r - whole) * k_block;
      if (r < count) {
        std::copy_n(a + (first + r) * size.k + k0, depth, row);
      } else {
        std::fill_n(row, depth, 0.0);
      }
    }
    for (std::int64_t p = 0; p < panels; ++p) {
      const int width = static_cast<int>(std::min<std::int64_t>(columns, size.n - p * columns));
      for (int i = 0; i < depth; ++i) {
        double* row = panel.data() + i * columns;
        std::copy_n(b + (k0 + i) * size.n + p * columns, width, row);
        std::fill_n(row + width, columns - width, 0.0);
      }
      double* tile = c + p * padded * columns;
      for (int r = 0; r < whole; r += rows) {
        multiply_tile(a + (first + r) * size.k + k0, size.k, panel.data(), depth, tile + r * columns);
      }
      if (whole < padded) multiply_tile(tail.data(), k_block, panel.data(), depth, tile + whole * columns);
    }
  }
}

/// out *= scale, position by position.
Result<void> apply_scale(const Form& form, const Reduction& what, const Buffers& buffers, double* out) {
  const std::int64_t size = product(what.axes);
  if (form.repeat != 1) {
    for (std::int64_t i = 0; i < size; ++i) out[i] *= static_cast<double>(form.repeat);
  }
  if (form.scale.empty()) return {};
  Operand scale;
  for (const Expr& factor : form.scale) scale.add(factor);
  const Program program = compile(scale.body(), what.axes, buffers);
  constexpr std::int64_t unit = 16 * block;
  return parallel_for((size + unit - 1) / unit, size * static_cast<std::int64_t>(program.instructions.size() + 1),
                      [&]() {
                        return [&, evaluator = std::make_shared<Evaluator>(program)](std::int64_t u) -> Result<void> {
                          const std::int64_t stop = std::min(size, (u + 1) * unit);
                          for (std::int64_t at = u * unit; at < stop; at += block) {
                            const int n = static_cast<int>(std::min<std::int64_t>(block, stop - at));
                            AICF_RETURN_IF_ERROR(evaluator->run(at, n));
                            for (int l = 0; l < n; ++l) out[at + l] *= evaluator->reals()[l];
                          }
                          return {};
                        };
                      });
}

}  // namespace

Result<bool> evaluate_contraction(const Reduction& what, const Buffers& buffers, double* out) {
  const auto form = analyse(what);
  if (!form) return false;
  const Sizes size{product(form->m), product(form->n), product(form->k)};
  const std::int64_t batches = product(form->batch);
  if (batches == 0 || product(what.axes) == 0 || product(what.reduce_axes) == 0) return false;
  if (size.m < rows || size.n < rows || batches * size.m * size.n * size.k < min_products) return false;
  const std::int64_t per_batch = (size.m + size.n) * size.k;
  if (per_batch > max_operands) return false;

  const auto operand = [&](const Operand& o, std::vector<LoopAxis> axes, const std::vector<LoopAxis>& alone) {
    return Reduction{.op = alone.empty() ? ReduceOp::none : ReduceOp::sum,
                     .type = what.type,
                     .axes = std::move(axes),
                     .reduce_axes = alone,
                     .body = o.body()};
  };
  const Reduction a = operand(form->a, joined({&form->batch, &form->m, &form->k}), form->only_a);
  const Reduction b = operand(form->b, joined({&form->batch, &form->k, &form->n}), form->only_b);
  const std::vector<std::int64_t> batch_offsets = offsets_of(form->batch, what.axes);
  const std::vector<std::int64_t> m_offsets = offsets_of(form->m, what.axes);
  const std::vector<std::int64_t> n_offsets = offsets_of(form->n, what.axes);

  const std::int64_t together = std::clamp<std::int64_t>(chunk_elements / per_batch, 1, batches);
  const auto elements = [&](std::int64_t outer) {
    return std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(together * outer * size.k));
  };
  const auto packed_a = elements(size.m), packed_b = elements(size.n);
  const std::int64_t blocks = (size.m + row_block - 1) / row_block;
  const std::int64_t padded_n = (size.n + columns - 1) / columns * columns;
  for (std::int64_t b0 = 0; b0 < batches; b0 += together) {
    const std::int64_t b1 = std::min(batches, b0 + together);
    const std::int64_t a_size = size.m * size.k, b_size = size.k * size.n;
    AICF_RETURN_IF_ERROR(evaluate_positions(a, buffers, b0 * a_size, b1 * a_size, packed_a.get(), nullptr, nullptr));
    AICF_RETURN_IF_ERROR(evaluate_positions(b, buffers, b0 * b_size, b1 * b_size, packed_b.get(), nullptr, nullptr));
    const auto worker = [&]() {
      return [&, tile = std::vector<double>(static_cast<std::size_t>(row_block * padded_n))](
                 std::int64_t unit) mutable -> Result<void> {
        const std::int64_t batch = unit / blocks, first = unit % blocks * row_block;
        const int count = static_cast<int>(std::min<std::int64_t>(row_block, size.m - first));
        const int padded = (count + rows - 1) / rows * rows;
        multiply_rows(size, packed_a.get() + batch * a_size, packed_b.get() + batch * b_size, first, count,
                      tile.data());
        for (int r = 0; r < count; ++r) {
          double* row = out + batch_offsets[static_cast<std::size_t>(b0 + batch)] +
                        m_offsets[static_cast<std::size_t>(first + r)];
          for (std::int64_t j = 0; j < size.n; ++j) {
            row[n_offsets[static_cast<std::size_t>(j)]] =
                tile[static_cast<std::size_t>((j / columns * padded + r) * columns + j % columns)];
          }
        }
        return {};
      };
    };
    AICF_RETURN_IF_ERROR(parallel_for((b1 - b0) * blocks, (b1 - b0) * size.m * size.n * size.k, worker));
  }
  AICF_RETURN_IF_ERROR(apply_scale(*form, what, buffers, out));
  return true;
}

}  // namespace aicf::oracle
