// Matrix fragments: products by a matrix unit, and the operations that opaque tiles take, whole matrices at a time.

#include "mir/kernel/distribution.h"
#include "mir/kernel/expand_state.h"
#include "mir/kernel/fragment_rules.h"

namespace aicf::expansion {

using Kind = ThreadStatement::Kind;

void Expander::multiply(const KernelOp& op) {
  const Result<MatrixProduct> product = matrix_product(kernel_, op);
  AICF_CHECK(product.has_value(), product.error().text());
  const TileState &a = tile(op.operands[0]), &b = tile(op.operands[1]), &c = tile(op.tile);
  for (const BlockProduct& block : block_products(*product)) {
    ThreadStatement& s = emit(Kind::multiply);
    s.type = c.tile->type;
    s.unit = op.unit;
    s.fragment = c.tile->fragment;
    for (const std::size_t r : block.c) s.names.push_back(c.registers[r]);
    for (const std::size_t r : block.a) s.exprs.push_back(Expr::value(a.registers[r], a.tile->type));
    for (const std::size_t r : block.b) s.exprs.push_back(Expr::value(b.registers[r], b.tile->type));
  }
}

bool Expander::opaque(const KernelOp& op) {
  const bool stages = op.kind == KernelOp::Kind::to_workgroup;
  const std::string& name = stages ? op.source : op.tile;
  if (name.empty() || op.kind == KernelOp::Kind::multiply || tile(name).tile->space != Space::fragment) return false;
  const TileState& state = tile(name);
  const KernelTile& t = *state.tile;
  const auto statement = [&](Kind kind, const std::string& matrix) -> ThreadStatement& {
    ThreadStatement& s = emit(kind);
    s.type = t.type;
    s.fragment = t.fragment;
    if (kind == Kind::store_global || kind == Kind::store_shared) {
      s.exprs = {Expr::value(matrix, t.type)};
      s.predicate = sole_holder(t.distribution, 1, kernel_.subgroups);  // lanes work together
    } else {
      s.names = {matrix};
    }
    return s;
  };
  const CoordinateSpace space = CoordinateSpace::of(t);
  switch (op.kind) {
    case KernelOp::Kind::load:
    case KernelOp::Kind::store: {
      const Result<MatrixAddress> address = matrix_address(kernel_, op);
      AICF_CHECK(address.has_value(), address.error().text());
      for (std::size_t r = 0; r < state.registers.size(); ++r) {
        ExprMap corner;
        for (std::size_t i = 0; i < 2; ++i)
          corner[t.axes[i].name] = slot_start(space.slots[i]) + Expr(state.coordinates[r][i]);
        const Expr index = hoist(with_bases(substitute_axes(address->offset, corner)), op.buffer + "_at");
        ThreadStatement& s =
            statement(op.kind == KernelOp::Kind::load ? Kind::load_global : Kind::store_global, state.registers[r]);
        s.buffer = op.buffer;
        s.index = index;
        s.row_stride = with_bases(address->strides[0]);
        s.column_stride = with_bases(address->strides[1]);
      }
      return true;
    }
    case KernelOp::Kind::to_workgroup:
    case KernelOp::Kind::from_workgroup: {
      const KernelTile& memory = *tile(stages ? op.tile : op.source).tile;
      const std::vector<std::int64_t> strides = workgroup_strides(memory);
      std::vector<std::int64_t> stride(2);  // by axis of the fragment
      for (std::size_t i = 0; i < 2; ++i) stride[memory.axes[i].name == t.axes[0].name ? 0 : 1] = strides[i];
      for (std::size_t r = 0; r < state.registers.size(); ++r) {
        Expr index = 0;
        for (std::size_t i = 0; i < 2; ++i)
          index = index + (thread_part(space.slots[i].threads) + Expr(state.coordinates[r][i])) * Expr(stride[i]);
        index = hoist(index, memory.name + "_at");
        ThreadStatement& s = statement(stages ? Kind::store_shared : Kind::load_shared, state.registers[r]);
        s.buffer = array(memory.name);
        s.index = index;
        s.row_stride = stride[0];
        s.column_stride = stride[1];
      }
      return true;
    }
    case KernelOp::Kind::compute:
      for (std::size_t r = 0; r < state.registers.size(); ++r) {
        const Expr value = rewrite(with_bases(op.expr), [&](const Expr& node) -> Expr {
          if (node.op() != Op::value) return {};
          const std::vector<std::string>& registers = tile(node.name()).registers;
          return Expr::value(registers.size() == 1 ? registers[0] : registers.at(r), node.type());
        });
        statement(Kind::assign, state.registers[r]).exprs = {value};
      }
      return true;
    default:
      AICF_BUG("opaque fragment '" + t.name + "' in an operation by element");
  }
}

}  // namespace aicf::expansion
