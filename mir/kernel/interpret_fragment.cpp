#include "mir/kernel/interpret_fragment.h"

#include <fmt/core.h>

#include <random>

#include "mir/kernel/distribution.h"
#include "mir/kernel/expand_plan.h"
#include "mir/kernel/thread_text.h"

namespace aicf::interpreter {
namespace {

using Kind = ThreadStatement::Kind;

const char* row_axis(MatrixUse use) {
  return use == MatrixUse::b ? "k" : "m";
}
const char* column_axis(MatrixUse use) {
  return use == MatrixUse::a ? "k" : "n";
}

/// A matrix of one kind as a register tile.
KernelTile matrix_tile(const MatrixUnit& unit, MatrixUse use) {
  KernelTile tile;
  tile.name = unit.name;
  tile.axes = {{row_axis(use), unit.shape.rows(use)}, {column_axis(use), unit.shape.columns(use)}};
  tile.distribution = unit.of(use);
  return tile;
}

/// Bits of row and column in any order: the first log2(lanes) of them decide the lane, the rest the register.
Distribution random_layout(const MatrixShape& shape, MatrixUse use, int lanes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Distribution layout;
  for (std::int64_t stride = 1; stride < shape.rows(use); stride *= 2)
    layout.factors.push_back({row_axis(use), Level::reg, 2, stride, 1});
  for (std::int64_t stride = 1; stride < shape.columns(use); stride *= 2)
    layout.factors.push_back({column_axis(use), Level::reg, 2, stride, 1});
  for (std::size_t i = layout.factors.size(); i > 1; --i)
    std::swap(layout.factors[i - 1], layout.factors[random() % i]);
  std::size_t next = 0;
  for (std::int64_t position = 1; position < lanes; position *= 2) {
    layout.factors[next].level = Level::lane;
    layout.factors[next++].position = position;
  }
  return layout;
}

class LayOut {
 public:
  LayOut(const ThreadProgram& program, std::uint64_t seed) : program_(program), seed_(seed) {}

  Result<LaidOut> run() {
    out_.program = program_;
    out_.program.body.clear();
    AICF_RETURN_IF_ERROR(body(program_.body, out_.program.body));
    return std::move(out_);
  }

 private:
  struct Matrix {
    OpaqueKind kind;
    std::vector<std::string> registers;
    std::vector<Expr> rows, columns;  ///< of each register, over symbol("lane")
  };

  std::unexpected<Diagnostic> error(const std::string& what, const ThreadStatement& s) const {
    return run_failure(fmt::format("malformed thread program: {}, in '{}'", what, statement_text(s)),
                       fmt::format("kernel '{}'", program_.name));
  }

  /// The layouts that operands of `type` meet: one unit for all products of a shape with these types.
  const MatrixUnit& unit(const MatrixShape& shape, const std::string& name, DType type) {
    const std::string key = fmt::format("{} of {}", name, aicf::name(type));
    const auto [found, inserted] = out_.units.try_emplace(key);
    MatrixUnit& u = found->second;
    if (!inserted) return u;
    u.name = key;
    u.shape = shape;
    u.lanes = program_.subgroup_size;
    // The accumulator's kind has no operand type in its name, so its layout does not depend on it.
    const std::uint64_t base = seed_ * 1000003 + static_cast<std::uint64_t>(shape.m << 20 | shape.n << 10 | shape.k);
    u.a = random_layout(shape, MatrixUse::a, u.lanes, base * 31 + 2 * static_cast<std::uint64_t>(type) + 2);
    u.b = random_layout(shape, MatrixUse::b, u.lanes, base * 31 + 2 * static_cast<std::uint64_t>(type) + 3);
    u.c = random_layout(shape, MatrixUse::c, u.lanes, base * 31 + 1);
    return u;
  }

  Result<void> declare(const ThreadStatement& s, ThreadBody& out) {
    const auto kind = parse_opaque_kind(s.fragment);
    if (!kind || !fragment_type(kind->use, s.type)) return error("unknown kind of fragment", s);
    if (kind->rows() * kind->columns() % program_.subgroup_size != 0) return error("fewer elements than lanes", s);
    const KernelTile tile = matrix_tile(unit(kind->shape, kind->unit, s.type), kind->use);
    const std::vector<Coordinates> registers = register_coordinates(tile);
    const auto thread = [&](std::size_t axis) {
      return thread_part(thread_factors(tile.distribution, tile.axes[axis].name), program_.subgroup_size, 1);
    };
    for (const std::string& name : s.names) {
      Matrix& m = matrices_[name];
      m = {*kind, {}, {}, {}};
      for (std::size_t r = 0; r < registers.size(); ++r) {
        m.registers.push_back(fmt::format("{}.{}", name, r));
        m.rows.push_back(thread(0) + Expr(registers[r][0]));
        m.columns.push_back(thread(1) + Expr(registers[r][1]));
      }
      ThreadStatement& d = out.emplace_back(plain(s));
      d.names = m.registers;
      d.exprs.clear();
    }
    return {};
  }

  static ThreadStatement plain(const ThreadStatement& s) {
    ThreadStatement result = s;
    result.fragment.clear();
    result.row_stride = result.column_stride = {};
    return result;
  }

  Result<const Matrix*> find(const std::string& name, const std::string& kind, const ThreadStatement& s) const {
    const auto found = matrices_.find(name);
    if (found == matrices_.end()) return error(fmt::format("'{}' is no matrix", name), s);
    if (fmt::format("{}.{}", found->second.kind.unit, aicf::name(found->second.kind.use)) != kind)
      return error(fmt::format("'{}' is no {}", name, kind), s);
    return &found->second;
  }

  /// `e` for register r of the matrices it reads.
  Result<Expr> element(const Expr& e, std::size_t r, const ThreadStatement& s) const {
    ExprMap registers;
    for (const std::string& value : values_of(e)) {
      if (!matrices_.contains(value)) continue;
      AICF_TRY(const Matrix* m, find(value, s.fragment, s));
      registers[value] = Expr::value(m->registers[r], s.type);
    }
    return substitute_values(e, registers);
  }

  Result<void> statement(const ThreadStatement& s, ThreadBody& out) {
    if (s.kind == Kind::multiply) return multiply(s, out);
    if (s.fragment.empty()) {
      ThreadStatement& copy = out.emplace_back(s);
      copy.body.clear();
      return body(s.body, copy.body);
    }
    if (s.kind == Kind::declare && s.exprs.empty()) return declare(s, out);
    if (s.kind == Kind::declare && !s.exprs[0]) return declare(s, out);
    const bool stores = s.kind == Kind::store_global || s.kind == Kind::store_shared;
    if (s.names.size() + s.exprs.size() != (s.kind == Kind::assign ? 2u : 1u)) return error("one matrix at a time", s);
    std::string name = stores ? std::string() : s.names[0];
    if (stores && s.exprs[0].op() == Op::value) name = s.exprs[0].name();
    AICF_TRY(const Matrix* m, find(name, s.fragment, s));
    for (std::size_t r = 0; r < m->registers.size(); ++r) {
      ThreadStatement t = plain(s);
      if (!stores) t.names = {m->registers[r]};
      if (!t.exprs.empty()) {
        AICF_TRY(t.exprs[0], element(s.exprs[0], r, s));
      }
      if (s.kind != Kind::assign) {
        if (!s.index || !s.row_stride || !s.column_stride) return error("an address is missing", s);
        t.index = s.index + m->rows[r] * s.row_stride + m->columns[r] * s.column_stride;
      }
      out.push_back(std::move(t));
    }
    return {};
  }

  Result<void> multiply(const ThreadStatement& s, ThreadBody& out) {
    ThreadStatement& t = out.emplace_back(plain(s));
    if (s.fragment.empty()) return {};
    const auto shape = parse_matrix_shape(s.unit);
    if (!shape || s.names.size() != 1 || s.exprs.size() != 2) return error("no product of matrices", s);
    t.unit = unit(*shape, s.unit, s.exprs[0].type()).name;
    t.exprs.clear();
    AICF_TRY(const Matrix* c, find(s.names[0], s.unit + ".c", s));
    t.names = c->registers;
    for (std::size_t i = 0; i < 2; ++i) {
      if (s.exprs[i].op() != Op::value) return error("an operand is no matrix", s);
      AICF_TRY(const Matrix* m, find(s.exprs[i].name(), s.unit + (i == 0 ? ".a" : ".b"), s));
      for (const std::string& r : m->registers) t.exprs.push_back(Expr::value(r, s.exprs[i].type()));
    }
    return {};
  }

  Result<void> body(const ThreadBody& from, ThreadBody& to) {
    for (const ThreadStatement& s : from) AICF_RETURN_IF_ERROR(statement(s, to));
    return {};
  }

  const ThreadProgram& program_;
  std::uint64_t seed_;
  LaidOut out_;
  std::map<std::string, Matrix> matrices_;
};

}  // namespace

bool has_opaque_matrices(const ThreadBody& body) {
  for (const ThreadStatement& s : body) {
    if (!s.fragment.empty() || has_opaque_matrices(s.body)) return true;
  }
  return false;
}

Result<LaidOut> lay_out(const ThreadProgram& program, std::uint64_t seed) {
  return LayOut(program, seed).run();
}

Product product_of(const MatrixUnit& unit) {
  Product product;
  product.lanes = unit.lanes;
  for (const auto& [use, matrix] :
       {std::pair(MatrixUse::a, &product.a), {MatrixUse::b, &product.b}, {MatrixUse::c, &product.c}}) {
    matrix->rows = unit.shape.rows(use);
    matrix->columns = unit.shape.columns(use);
    for (std::int64_t r = 0; r < unit.of(use).registers(); ++r) {
      for (std::int64_t l = 0; l < unit.lanes; ++l) {
        matrix->elements.push_back(
            static_cast<std::uint32_t>(coordinate(unit.of(use), row_axis(use), {r, l, 0}) * matrix->columns +
                                       coordinate(unit.of(use), column_axis(use), {r, l, 0})));
      }
    }
  }
  return product;
}

void multiply(const Product& product, float* floats, int threads, int first) {
  const auto each = [&](const Product::Matrix& m, const auto& visit) {
    for (std::size_t r = 0; r < m.slots.size(); ++r) {
      for (int l = 0; l < product.lanes; ++l) {
        visit(m.elements[r * static_cast<std::size_t>(product.lanes) + static_cast<std::size_t>(l)],
              floats[static_cast<std::size_t>(m.slots[r]) * static_cast<std::size_t>(threads) +
                     static_cast<std::size_t>(first + l)]);
      }
    }
  };
  const auto gathered = [&](const Product::Matrix& m) {
    std::vector<float> values(static_cast<std::size_t>(m.rows * m.columns));
    each(m, [&](std::uint32_t element, float& held) { values[element] = held; });
    return values;
  };
  const std::vector<float> a = gathered(product.a), b = gathered(product.b);
  std::vector<float> c = gathered(product.c);
  const auto rows = static_cast<std::size_t>(product.c.rows), columns = static_cast<std::size_t>(product.c.columns),
             depth = static_cast<std::size_t>(product.a.columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < depth; ++k) c[i * columns + j] += a[i * depth + k] * b[k * columns + j];
    }
  }
  each(product.c, [&](std::uint32_t element, float& held) { held = c[element]; });
}

}  // namespace aicf::interpreter
