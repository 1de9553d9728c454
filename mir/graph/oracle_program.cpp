#include "mir/graph/oracle_program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <unordered_map>

#include "runtime/tensor.h"

namespace aicf::oracle {
namespace {

struct HashExpr {
  std::size_t operator()(const Expr& e) const { return e.hash(); }
};

bool rounds(DType type) {
  return is_float(type) && type != DType::f64;
}

bool is_real(const Expr& e) {
  return is_float(e.type());
}

class Compiler {
 public:
  Compiler(std::vector<LoopAxis> axes, const Buffers& buffers) : buffers_(buffers) {
    program_.axes = std::move(axes);
    if (program_.axes.empty()) program_.axes.push_back({"", 1});
    for (std::size_t i = 0; i < program_.axes.size(); ++i) {
      position_[program_.axes[i].name] = i;
      ranges_["axis:" + program_.axes[i].name] = {.low = 0, .high = program_.axes[i].extent - 1};
    }
    program_.masks.push_back({});
    values_.emplace_back();
  }

  Program run(const Expr& body) {
    const int result = emit(body, 0);
    const int shift = static_cast<int>(harmless_.size());
    for (Instruction& i : guarded_) {
      if (i.step == Step::enter) i.skip += shift;
    }
    program_.instructions = std::move(harmless_);
    program_.instructions.insert(program_.instructions.end(), guarded_.begin(), guarded_.end());
    program_.result_real = is_real(body);
    assign_registers(result);
    return std::move(program_);
  }

 private:
  // ---- affine indices and bounds ----

  std::optional<AffineIndex> affine(const Expr& e) const {
    AffineIndex result{.coefficients = std::vector<std::int64_t>(program_.axes.size(), 0)};
    return add_affine(e, 1, result) ? std::optional(std::move(result)) : std::nullopt;
  }

  bool add_affine(const Expr& e, std::int64_t factor, AffineIndex& sum) const {
    switch (e.op()) {
      case Op::constant:
        if (is_float(e.type())) return false;
        sum.offset += factor * e.int_number();
        return true;
      case Op::axis:
        sum.coefficients[axis_position(e.name())] += factor;
        return true;
      case Op::add:
        return add_affine(e.args()[0], factor, sum) && add_affine(e.args()[1], factor, sum);
      case Op::sub:
        return add_affine(e.args()[0], factor, sum) && add_affine(e.args()[1], -factor, sum);
      case Op::neg:
        return add_affine(e.args()[0], -factor, sum);
      case Op::mul:
        for (const int side : {0, 1}) {
          if (const auto c = e.args()[static_cast<std::size_t>(side)].as_int()) {
            return add_affine(e.args()[static_cast<std::size_t>(1 - side)], factor * *c, sum);
          }
        }
        return false;
      default:
        return false;
    }
  }

  std::size_t axis_position(const std::string& axis) const {
    const auto found = position_.find(axis);
    AICF_CHECK(found != position_.end(), fmt::format("axis '{}' is not an axis of the space", axis));
    return found->second;
  }

  bool in_bounds(const Expr& index, std::int64_t extent) const {
    std::int64_t low = 0, high = 0;
    if (const auto a = affine(index)) {
      low = high = a->offset;
      for (std::size_t i = 0; i < a->coefficients.size(); ++i) {
        const std::int64_t reach = a->coefficients[i] * (program_.axes[i].extent - 1);
        (reach < 0 ? low : high) += reach;
      }
    } else {
      const Range range = range_of(index, ranges_);
      if (!range.low || !range.high) return false;
      low = *range.low;
      high = *range.high;
    }
    return low >= 0 && high < extent;
  }

  /// Whether evaluating `e` for every position does no harm: all its loads are in bounds.
  bool harmless(const Expr& e) {
    if (e.args().empty() && e.op() != Op::load) return true;
    if (const auto found = harmless_memo_.find(e); found != harmless_memo_.end()) return found->second;
    bool result = true;
    for (const Expr& arg : e.args()) result = result && harmless(arg);
    if (result && e.op() == Op::load) {
      const Buffer& buffer = buffer_of(e);
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) result = result && in_bounds(e.args()[d], buffer.shape[d]);
    }
    harmless_memo_.emplace(e, result);
    return result;
  }

  const Buffer& buffer_of(const Expr& load) const {
    const auto found = buffers_.find(load.name());
    AICF_CHECK(found != buffers_.end(), fmt::format("tensor '{}' has no value", load.name()));
    AICF_CHECK(found->second.shape.size() == load.args().size(), fmt::format("rank of '{}'", load.name()));
    return found->second;
  }

  // ---- instructions ----

  int new_register(bool real) {
    is_real_register_.push_back(real);
    return static_cast<int>(is_real_register_.size()) - 1;
  }

  int push(Instruction i, bool is_harmless) {
    i.dst = new_register(i.to_real);
    (is_harmless ? harmless_ : guarded_).push_back(i);
    return i.dst;
  }

  /// The register that holds `e` in the lanes of `mask`. Harmless expressions are evaluated once, in every lane, before
  /// all others; the rest once for each mask that needs it and has no parent that did.
  int emit(const Expr& e, int mask) {
    const bool is_harmless = harmless(e);
    for (int m = is_harmless ? 0 : mask;; m = program_.masks[static_cast<std::size_t>(m)].parent) {
      const auto& known = values_[static_cast<std::size_t>(m)];
      if (const auto found = known.find(e); found != known.end()) return found->second;
      if (m == 0) break;
    }
    const int target = is_harmless ? 0 : mask;
    const int result = emit_new(e, target, is_harmless);
    values_[static_cast<std::size_t>(target)].emplace(e, result);
    return result;
  }

  int emit_new(const Expr& e, int mask, bool is_harmless) {
    const std::span<const Expr> args = e.args();
    Instruction i{
        .step = is_real(e) ? Step::real : Step::integer, .op = e.op(), .type = e.type(), .to_real = is_real(e)};
    switch (e.op()) {
      case Op::constant: {
        const int r = new_register(i.to_real);
        if (i.to_real) {
          program_.real_constants.emplace_back(r, e.number());
        } else {
          program_.integer_constants.emplace_back(r, e.int_number());
        }
        return r;
      }
      case Op::axis:
        i.step = Step::axis;
        i.payload = static_cast<int>(axis_position(e.name()));
        return push(i, is_harmless);
      case Op::symbol:
      case Op::value:
        AICF_BUG(fmt::format("'{}' is not bound", e.name()));
      case Op::load:
        return emit_load(e, i, mask, is_harmless);
      case Op::select: {
        i.step = Step::choose;
        i.rounding = rounds(e.type()) ? Rounding::sentinel : Rounding::none;
        i.a = emit(args[0], mask);
        i.b = emit_side(args[1], mask, i.a, false);
        i.c = emit_side(args[2], mask, i.a, true);
        return push(i, is_harmless);
      }
      case Op::cast:
        i.step = Step::convert;
        i.from_real = is_real(args[0]);
        if (!i.to_real && rounds(args[0].type())) i.rounding = Rounding::operand;
        i.a = emit(args[0], mask);
        return push(i, is_harmless);
      default:
        break;
    }
    i.from_real = is_real(args[0]);
    i.step = i.from_real ? Step::real : Step::integer;
    i.a = emit(args[0], mask);
    if (args.size() > 1) {
      AICF_CHECK(is_real(args[1]) == i.from_real, fmt::format("operands of {} are of two kinds", to_string(e)));
      i.b = emit(args[1], mask);
    }
    if (rounds(e.type()) && (e.op() == Op::add || e.op() == Op::sub)) i.rounding = Rounding::sentinel;
    if (rounds(e.type()) && e.op() == Op::log) i.rounding = Rounding::logarithm;
    return push(i, is_harmless);
  }

  int emit_side(const Expr& side, int mask, int condition, bool negated) {
    if (harmless(side)) return emit(side, mask);
    const int inner = static_cast<int>(program_.masks.size());
    program_.masks.push_back({.parent = mask, .negated = negated});
    values_.emplace_back();
    const std::size_t entry = guarded_.size();
    guarded_.push_back({.step = Step::enter, .a = condition, .payload = inner});
    const int result = emit(side, inner);
    guarded_[entry].skip = static_cast<int>(guarded_.size());
    return result;
  }

  int emit_load(const Expr& e, Instruction i, int mask, bool is_harmless) {
    const Buffer& buffer = buffer_of(e);
    LoadSite site{.buffer = &buffer, .tensor = e.name(), .strides = strides_of(buffer.shape), .mask = mask};
    site.flat.coefficients.assign(program_.axes.size(), 0);
    bool all_affine = true;
    for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
      const auto a = affine(e.args()[d]);
      all_affine = all_affine && a.has_value();
      if (!all_affine) break;
      for (std::size_t k = 0; k < program_.axes.size(); ++k) {
        site.flat.coefficients[k] += a->coefficients[k] * site.strides[d];
      }
      site.flat.offset += a->offset * site.strides[d];
      site.dimensions.push_back(*a);
    }
    for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
      site.checked.push_back(!in_bounds(e.args()[d], buffer.shape[d]));
      site.needs_check = site.needs_check || site.checked.back();
    }
    i.step = Step::load;
    if (!all_affine) {
      i.step = Step::gather;
      site.dimensions.clear();
      for (const Expr& index : e.args()) site.index_registers.push_back(emit(index, mask));
    }
    i.payload = static_cast<int>(program_.loads.size());
    program_.loads.push_back(std::move(site));
    return push(i, is_harmless);
  }

  // ---- registers ----

  /// Calls `visit` on every register that `i` reads.
  template <class Visit>
  void operands(Instruction& i, Visit visit) {
    for (int* r : {&i.a, &i.b, &i.c}) {
      if (*r >= 0) visit(*r);
    }
    if (i.step == Step::gather) {
      for (int& r : program_.loads[static_cast<std::size_t>(i.payload)].index_registers) visit(r);
    }
  }

  /// Renumbers values into as few registers as a linear scan needs; constants keep theirs.
  void assign_registers(int result) {
    std::vector<int> last_use(is_real_register_.size(), -1), assigned(is_real_register_.size(), -1);
    int counts[2] = {0, 0};
    for (auto& [r, value] : program_.real_constants) r = assigned[static_cast<std::size_t>(r)] = counts[1]++;
    for (auto& [r, value] : program_.integer_constants) r = assigned[static_cast<std::size_t>(r)] = counts[0]++;
    std::vector<bool> pinned(is_real_register_.size());
    for (std::size_t r = 0; r < assigned.size(); ++r) pinned[r] = assigned[r] >= 0;
    for (std::size_t k = 0; k < program_.instructions.size(); ++k) {
      operands(program_.instructions[k], [&](int& r) { last_use[static_cast<std::size_t>(r)] = static_cast<int>(k); });
    }
    last_use[static_cast<std::size_t>(result)] = static_cast<int>(program_.instructions.size());
    std::vector<int> free[2];
    for (std::size_t k = 0; k < program_.instructions.size(); ++k) {
      Instruction& i = program_.instructions[k];
      std::vector<std::pair<bool, int>> done;
      operands(i, [&](int& r) {
        const auto value = static_cast<std::size_t>(r);
        r = assigned[value];
        if (pinned[value] || last_use[value] != static_cast<int>(k)) return;
        last_use[value] = -1;  // a value that is read twice here is freed once
        done.emplace_back(is_real_register_[value], r);
      });
      if (i.dst >= 0) {
        const auto value = static_cast<std::size_t>(i.dst);
        auto& pool = free[is_real_register_[value]];
        if (pool.empty()) pool.push_back(counts[is_real_register_[value]]++);
        i.dst = assigned[value] = pool.back();
        pool.pop_back();
      }
      // Only now: the loops over lanes rely on results that share no register with operands.
      for (const auto& [real, r] : done) free[real].push_back(r);
    }
    program_.result = assigned[static_cast<std::size_t>(result)];
    program_.real_registers = counts[1];
    program_.integer_registers = counts[0];
  }

  const Buffers& buffers_;
  Program program_;
  std::map<std::string, std::size_t> position_;
  Ranges ranges_;
  std::vector<Instruction> harmless_, guarded_;
  std::vector<bool> is_real_register_;
  std::vector<std::unordered_map<Expr, int, HashExpr>> values_;  // per mask
  std::unordered_map<Expr, bool, HashExpr> harmless_memo_;
};

}  // namespace

std::int64_t Program::size() const {
  return std::accumulate(axes.begin(), axes.end(), std::int64_t{1},
                         [](std::int64_t product, const LoopAxis& axis) { return product * axis.extent; });
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Result<Buffer> make_buffer(DType type, std::vector<std::int64_t> shape) {
  Buffer buffer{.type = type, .shape = std::move(shape)};
  AICF_TRY(buffer.size, checked_size(DType::f64, buffer.shape));
  const auto too_large = [&] {
    return run_failure(fmt::format("a tensor of {} elements, {} bytes in the reference, does not fit in memory",
                                   buffer.size, buffer.bytes()));
  };
  static const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (static_cast<double>(buffer.bytes()) > memory) return too_large();
  const auto size = static_cast<std::size_t>(buffer.size);
  try {
    if (is_float(type)) {
      buffer.reals = std::make_unique_for_overwrite<double[]>(size);
    } else if (type == DType::boolean) {
      buffer.booleans = std::make_unique_for_overwrite<std::uint8_t[]>(size);
    } else {
      buffer.integers = std::make_unique_for_overwrite<std::int64_t[]>(size);
    }
  } catch (const std::bad_alloc&) {
    return too_large();
  }
  return buffer;
}

Program compile(const Expr& body, std::vector<LoopAxis> axes, const Buffers& buffers) {
  return Compiler(std::move(axes), buffers).run(body);
}

}  // namespace aicf::oracle
