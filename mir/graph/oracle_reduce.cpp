// Runs a body over positions and reduces it, on several threads.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "mir/graph/oracle_program.h"

namespace aicf::oracle {
namespace {

constexpr int max_threads = 8;
constexpr std::int64_t worthwhile = 200'000;  ///< element operations that pay for starting threads

/// One accumulator lane: the reductions on floats and on integers.
double reduced(ReduceOp op, double acc, double x) {
  switch (op) {
    case ReduceOp::sum:
      return acc + x;
    case ReduceOp::prod:
      return acc * x;
    case ReduceOp::max:
      return x != x || x > acc ? x : acc;  // a NaN in acc stays: comparisons with it are false
    case ReduceOp::min:
      return x != x || x < acc ? x : acc;
    case ReduceOp::maxnum:
      return x > acc ? x : acc;
    case ReduceOp::minnum:
      return x < acc ? x : acc;
    default:
      AICF_BUG("not a reduction of floats");
  }
}

std::int64_t reduced(ReduceOp op, std::int64_t acc, std::int64_t x) {
  const auto a = static_cast<std::uint64_t>(acc), b = static_cast<std::uint64_t>(x);
  switch (op) {
    case ReduceOp::sum:
      return static_cast<std::int64_t>(a + b);
    case ReduceOp::prod:
      return static_cast<std::int64_t>(a * b);
    case ReduceOp::max:
    case ReduceOp::maxnum:
      return std::max(acc, x);
    case ReduceOp::min:
    case ReduceOp::minnum:
      return std::min(acc, x);
    case ReduceOp::any:
      return acc != 0 || x != 0;
    case ReduceOp::all:
      return acc != 0 && x != 0;
    default:
      AICF_BUG("not a reduction of integers");
  }
}

/// Calls `f` with the operation as a compile-time constant, so that loops have no switch inside.
template <class F>
auto with_op(ReduceOp op, F f) {
  using enum ReduceOp;
  switch (op) {
    case sum:
      return f(std::integral_constant<ReduceOp, sum>{});
    case prod:
      return f(std::integral_constant<ReduceOp, prod>{});
    case max:
      return f(std::integral_constant<ReduceOp, max>{});
    case min:
      return f(std::integral_constant<ReduceOp, min>{});
    case maxnum:
      return f(std::integral_constant<ReduceOp, maxnum>{});
    case minnum:
      return f(std::integral_constant<ReduceOp, minnum>{});
    case any:
      return f(std::integral_constant<ReduceOp, any>{});
    case all:
      return f(std::integral_constant<ReduceOp, all>{});
    default:
      AICF_BUG("this reduction has no accumulator");
  }
}

template <class Lane>
Lane fold(ReduceOp op, Lane acc, const Lane* lanes, int n) {
  return with_op(op, [&](auto constant) {
    Lane a = acc;
    int l = 0;
    if constexpr (std::is_same_v<Lane, double> && constant() == ReduceOp::sum) {
      Lane partial[4] = {a, 0, 0, 0};  // four chains hide the latency of the addition
      for (; l + 4 <= n; l += 4) {
        for (int k = 0; k < 4; ++k) partial[k] += lanes[l + k];
      }
      a = (partial[0] + partial[1]) + (partial[2] + partial[3]);
    }
    for (; l < n; ++l) a = reduced(constant(), a, lanes[l]);
    return a;
  });
}

template <class Lane>
void fold_across(ReduceOp op, Lane* __restrict acc, const Lane* __restrict lanes, int n) {
  with_op(op, [&](auto constant) {
    for (int l = 0; l < n; ++l) acc[l] = reduced(constant(), acc[l], lanes[l]);
  });
}

/// Where results go: floats, integers or booleans.
struct Destination {
  double* reals;
  std::int64_t* integers;
  std::uint8_t* booleans;
  DType type;

  void store(std::int64_t at, double value) const { reals[at] = value; }
  void store(std::int64_t at, std::int64_t value) const {
    if (booleans) {
      booleans[at] = value != 0;
    } else {
      integers[at] = value;
    }
  }
};

/// Sums and products of narrow integers wrap like the type.
std::int64_t finished(DType type, std::int64_t value) {
  if (type == DType::i64 || type == DType::u64) return value;
  std::int64_t result = 0;
  cast_lanes(type, 1, &value, &result);
  return result;
}
double finished(DType, double value) {
  return value;
}

std::int64_t product(const std::vector<LoopAxis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), std::int64_t{1},
                         [](std::int64_t p, const LoopAxis& axis) { return p * axis.extent; });
}

/// Removes axes of extent 1: their coordinate is 0.
std::vector<LoopAxis> without_units(const std::vector<LoopAxis>& axes, ExprMap& fixed) {
  std::vector<LoopAxis> rest;
  for (const LoopAxis& axis : axes) {
    if (axis.extent == 1) {
      fixed[axis.name] = Expr(0);
    } else {
      rest.push_back(axis);
    }
  }
  return rest;
}

std::vector<LoopAxis> joined(std::vector<LoopAxis> first, const std::vector<LoopAxis>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

template <class Lane>
const Lane* lanes_of(const Evaluator& evaluator) {
  if constexpr (std::is_same_v<Lane, double>) {
    return evaluator.reals();
  } else {
    return evaluator.integers();
  }
}

/// A body without reduction: positions are results.
template <class Lane>
Result<void> run_map(const Program& program, std::int64_t begin, std::int64_t end, const Destination& out) {
  constexpr std::int64_t unit = 16 * block;
  const std::int64_t cost = (end - begin) * static_cast<std::int64_t>(program.instructions.size() + 1);
  return parallel_for((end - begin + unit - 1) / unit, cost, [&]() {
    return [&, evaluator = std::make_shared<Evaluator>(program)](std::int64_t u) -> Result<void> {
      const std::int64_t stop = std::min(end, begin + (u + 1) * unit);
      for (std::int64_t at = begin + u * unit; at < stop; at += block) {
        const int n = static_cast<int>(std::min<std::int64_t>(block, stop - at));
        AICF_RETURN_IF_ERROR(evaluator->run(at, n));
        const Lane* lanes = lanes_of<Lane>(*evaluator);
        for (int l = 0; l < n; ++l) out.store(at - begin + l, lanes[l]);
      }
      return {};
    };
  });
}

/// Reduced axes innermost: each result is a fold over consecutive lanes.
template <class Lane>
Result<void> run_inner(const Program& program, ReduceOp op, Lane neutral, std::int64_t reduced_size, std::int64_t begin,
                       std::int64_t end, const Destination& out) {
  const std::int64_t unit = std::max<std::int64_t>(1, 16 * block / reduced_size);
  const std::int64_t cost = (end - begin) * reduced_size * static_cast<std::int64_t>(program.instructions.size() + 1);
  return parallel_for((end - begin + unit - 1) / unit, cost, [&]() {
    return [&, evaluator = std::make_shared<Evaluator>(program)](std::int64_t u) -> Result<void> {
      std::int64_t result = begin + u * unit;
      const std::int64_t stop = std::min(end, result + unit) * reduced_size;
      std::int64_t left = reduced_size;
      Lane acc = neutral;
      for (std::int64_t at = result * reduced_size; at < stop; at += block) {
        const int n = static_cast<int>(std::min<std::int64_t>(block, stop - at));
        AICF_RETURN_IF_ERROR(evaluator->run(at, n));
        const Lane* lanes = lanes_of<Lane>(*evaluator);
        for (int l = 0; l < n;) {
          const int segment = static_cast<int>(std::min<std::int64_t>(n - l, left));
          acc = fold(op, acc, lanes + l, segment);
          l += segment;
          left -= segment;
          if (left > 0) continue;
          out.store(result++ - begin, finished(out.type, acc));
          left = reduced_size;
          acc = neutral;
        }
      }
      return {};
    };
  });
}

/// Reduced axes outermost: lanes are neighbouring results, accumulated side by side.
template <class Lane>
Result<void> run_outer(const Program& program, ReduceOp op, Lane neutral, std::int64_t reduced_size,
                       std::int64_t results, std::int64_t begin, std::int64_t end, const Destination& out) {
  const std::int64_t cost = (end - begin) * reduced_size * static_cast<std::int64_t>(program.instructions.size() + 1);
  return parallel_for((end - begin + block - 1) / block, cost, [&]() {
    return [&, evaluator = std::make_shared<Evaluator>(program)](std::int64_t u) -> Result<void> {
      const std::int64_t at = begin + u * block;
      const int n = static_cast<int>(std::min<std::int64_t>(block, end - at));
      Lane acc[block];
      std::fill_n(acc, n, neutral);
      for (std::int64_t r = 0; r < reduced_size; ++r) {
        AICF_RETURN_IF_ERROR(evaluator->run(r * results + at, n));
        fold_across(op, acc, lanes_of<Lane>(*evaluator), n);
      }
      for (int l = 0; l < n; ++l) out.store(at - begin + l, finished(out.type, acc[l]));
      return {};
    };
  });
}

/// Whether most loads run along the last result axis rather than along the last reduced one.
bool prefers_outer(const Program& inner, std::size_t result_axes, std::int64_t results, std::int64_t reduced_size) {
  if (results < 64 || result_axes == 0) return false;
  int along_result = 0, along_reduced = 0;
  for (const LoadSite& site : inner.loads) {
    if (!site.index_registers.empty()) continue;
    along_result += std::abs(site.flat.coefficients[result_axes - 1]) == 1;
    along_reduced += std::abs(site.flat.coefficients.back()) == 1;
  }
  return along_result > along_reduced || (reduced_size < 16 && along_result >= along_reduced);
}

template <class Lane>
Result<void> run_reduction(const Reduction& what, const Buffers& buffers, std::int64_t begin, std::int64_t end,
                           const Destination& out) {
  ExprMap fixed;
  const std::vector<LoopAxis> axes = without_units(what.axes, fixed);
  const std::vector<LoopAxis> reduce_axes = without_units(what.reduce_axes, fixed);
  const Expr body = fixed.empty() ? what.body : substitute_axes(what.body, fixed);
  const std::int64_t results = product(axes), reduced_size = product(reduce_axes);
  if (what.op == ReduceOp::none || reduce_axes.empty()) {
    return run_map<Lane>(compile(body, axes, buffers), begin, end, out);
  }
  const Expr start = neutral(what.op, what.type);
  const Lane neutral_lane = std::is_same_v<Lane, double>
                                ? static_cast<Lane>(start.number())
                                : static_cast<Lane>(is_float(what.type) ? 0 : start.int_number());
  const Program inner = compile(body, joined(axes, reduce_axes), buffers);
  if (prefers_outer(inner, axes.size(), results, reduced_size)) {
    const Program outer = compile(body, joined(reduce_axes, axes), buffers);
    return run_outer<Lane>(outer, what.op, neutral_lane, reduced_size, results, begin, end, out);
  }
  return run_inner<Lane>(inner, what.op, neutral_lane, reduced_size, begin, end, out);
}

}  // namespace

Result<void> parallel_for(std::int64_t count, std::int64_t cost,
                          const std::function<std::function<Result<void>(std::int64_t)>()>& make_worker) {
  std::int64_t threads = 1;
  if (cost >= worthwhile) {
    threads = std::min<std::int64_t>({count, max_threads, std::max(1u, std::thread::hardware_concurrency())});
  }
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::int64_t failed = count;
  Result<void> result;
  // Units are handed out in order: when one fails, all before it run to their end, so the first error is always the
  // same.
  const auto work = [&] {
    const auto worker = make_worker();
    for (std::int64_t u = next++; u < count; u = next++) {
      auto done = worker(u);
      if (done) continue;
      const std::lock_guard lock(mutex);
      next = count;
      if (u < failed) {
        failed = u;
        result = std::move(done);
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::int64_t t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  others.clear();
  return result;
}

Result<void> evaluate_positions(const Reduction& what, const Buffers& buffers, std::int64_t begin, std::int64_t end,
                                double* reals, std::int64_t* integers, std::uint8_t* booleans) {
  if (begin >= end) return {};
  const Destination out{reals, integers, booleans, what.type};
  Reduction plain = what;
  if (what.op == ReduceOp::first && product(what.reduce_axes) > 0) {
    ExprMap start;
    for (const LoopAxis& axis : what.reduce_axes) start[axis.name] = Expr(0);
    plain.body = substitute_axes(what.body, start);
    plain.op = ReduceOp::none;
    plain.reduce_axes.clear();
  }
  if (product(plain.reduce_axes) == 0) {
    // An empty reduction has the neutral element; `first` of nothing is undefined and gives NaN or 0.
    const bool real = is_float(what.type);
    const Expr value = what.op != ReduceOp::first ? neutral(what.op, what.type)
                       : real                     ? Expr::constant(what.type, std::nan(""))
                                                  : Expr::integer(0, what.type);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      real ? out.store(i, value.number()) : out.store(i, value.int_number());
    }
    return {};
  }
  return is_float(what.type) ? run_reduction<double>(plain, buffers, begin, end, out)
                             : run_reduction<std::int64_t>(plain, buffers, begin, end, out);
}

}  // namespace aicf::oracle
