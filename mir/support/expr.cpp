#include "mir/support/expr.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "mir/support/expr_node.h"

namespace aicf {
namespace {

struct OpRow {
  std::string_view name;
  int arity;
};

// Indexed by Op.
constexpr std::array<OpRow, 40> op_table{{
    {"constant", 0}, {"symbol", 0}, {"axis", 0},  {"load", 0}, {"value", 0},      {"neg", 1},    {"abs", 1},
    {"sign", 1},     {"exp", 1},    {"log", 1},   {"sqrt", 1}, {"reciprocal", 1}, {"erf", 1},    {"tanh", 1},
    {"sin", 1},      {"cos", 1},    {"floor", 1}, {"ceil", 1}, {"round_even", 1}, {"isnan", 1},  {"isinf", 1},
    {"not", 1},      {"cast", 1},   {"add", 2},   {"sub", 2},  {"mul", 2},        {"div", 2},    {"floordiv", 2},
    {"mod", 2},      {"pow", 2},    {"min", 2},   {"max", 2},  {"minnum", 2},     {"maxnum", 2}, {"lt", 2},
    {"le", 2},       {"eq", 2},     {"and", 2},   {"or", 2},   {"where", 3},
}};

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  return h;
}

using PairSet = std::set<std::pair<const void*, const void*>>;

/// Structural order; `proven` holds pairs already found equal so that DAGs stay linear.
int compare(const Expr& a, const Expr& b, PairSet* proven) {
  if (a.identity() == b.identity()) return 0;
  if (!a || !b) return a ? 1 : -1;
  const ExprNode& x = ExprNode::of(a);
  const ExprNode& y = ExprNode::of(b);
  if (x.hash != y.hash) return x.hash < y.hash ? -1 : 1;
  if (x.op != y.op) return x.op < y.op ? -1 : 1;
  if (x.type != y.type) return x.type < y.type ? -1 : 1;
  if (x.integer != y.integer) return x.integer < y.integer ? -1 : 1;
  const auto xb = std::bit_cast<std::uint64_t>(x.number), yb = std::bit_cast<std::uint64_t>(y.number);
  if (xb != yb) return xb < yb ? -1 : 1;
  if (const int order = x.name.compare(y.name); order != 0) return order;
  if (x.args.size() != y.args.size()) return x.args.size() < y.args.size() ? -1 : 1;
  if (proven && proven->contains({a.identity(), b.identity()})) return 0;
  for (std::size_t i = 0; i < x.args.size(); ++i) {
    if (const int order = compare(x.args[i], y.args[i], proven); order != 0) return order;
  }
  if (proven) proven->insert({a.identity(), b.identity()});
  return 0;
}

int compare_structure(const Expr& a, const Expr& b) {
  if (a.identity() == b.identity()) return 0;
  if (!a || !b) return a ? 1 : -1;
  if (ExprNode::of(a).tree_size <= small_tree) return compare(a, b, nullptr);
  PairSet proven;
  return compare(a, b, &proven);
}

const ExprNode& node_of(const Expr& e) {
  AICF_CHECK(static_cast<bool>(e), "use of an empty expression");
  return ExprNode::of(e);
}

}  // namespace

Expr ExprNode::make(ExprNode node) {
  std::uint64_t h = mix(static_cast<std::uint64_t>(node.op) + 1, static_cast<std::uint64_t>(node.type));
  h = mix(h, static_cast<std::uint64_t>(node.integer));
  h = mix(h, std::bit_cast<std::uint64_t>(node.number));
  if (!node.name.empty()) h = mix(h, hash_text(node.name));
  node.tree_size = 1;
  node.depth = 1;
  for (const Expr& arg : node.args) {
    const ExprNode& child = of(arg);
    h = mix(h, child.hash);
    node.tree_size = std::min(node.tree_size + child.tree_size, std::uint64_t{1} << 62);
    node.depth = std::max(node.depth, child.depth + 1);
  }
  node.hash = h;
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

// ---- leaves ------------------------------------------------------------------------------------------------------

Expr::Expr(std::int64_t value) : Expr(integer(value)) {}

Expr Expr::constant(DType type, double value) {
  if (!is_float(type)) {
    AICF_CHECK(std::isfinite(value), "an integer constant must be finite");
    return integer(static_cast<std::int64_t>(value), type);
  }
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return ExprNode::make({.op = Op::constant, .type = type, .number = value});
}

Expr Expr::integer(std::int64_t value, DType type) {
  if (is_float(type)) return constant(type, static_cast<double>(value));
  if (type == DType::boolean) value = value != 0;
  AICF_CHECK(fits(type, value), fmt::format("constant {} does not fit in {}", value, aicf::name(type)));
  return ExprNode::make({.op = Op::constant, .type = type, .integer = value, .number = static_cast<double>(value)});
}

Expr Expr::boolean(bool value) {
  return integer(value ? 1 : 0, DType::boolean);
}

Expr Expr::symbol(std::string name) {
  return ExprNode::make({.op = Op::symbol, .type = DType::i64, .name = std::move(name)});
}

Expr Expr::axis(std::string name) {
  return ExprNode::make({.op = Op::axis, .type = DType::i64, .name = std::move(name)});
}

Expr Expr::load(std::string tensor, std::vector<Expr> index, DType type) {
  for (const Expr& e : index) AICF_CHECK(is_integer(e.type()), "an index of a load must be an integer");
  return ExprNode::make({.op = Op::load, .type = type, .name = std::move(tensor), .args = std::move(index)});
}

Expr Expr::value(std::string name, DType type) {
  return ExprNode::make({.op = Op::value, .type = type, .name = std::move(name)});
}

// ---- access ------------------------------------------------------------------------------------------------------

Op Expr::op() const {
  return node_of(*this).op;
}
DType Expr::type() const {
  return node_of(*this).type;
}
std::span<const Expr> Expr::args() const {
  return node_of(*this).args;
}
const std::string& Expr::name() const {
  return node_of(*this).name;
}
std::uint64_t Expr::hash() const {
  return node_of(*this).hash;
}
std::uint64_t Expr::tree_size() const {
  return node_of(*this).tree_size;
}

double Expr::number() const {
  AICF_CHECK(op() == Op::constant, "number() of an expression that is not a constant");
  return node_->number;
}

std::int64_t Expr::int_number() const {
  AICF_CHECK(op() == Op::constant && !is_float(type()),
             "int_number() of an expression that is not an integer constant");
  return node_->integer;
}

std::optional<std::int64_t> Expr::as_int() const {
  if (op() != Op::constant || !is_integer(type())) return std::nullopt;
  return node_->integer;
}

bool operator==(const Expr& a, const Expr& b) {
  return compare_structure(a, b) == 0;
}
bool operator<(const Expr& a, const Expr& b) {
  return compare_structure(a, b) < 0;
}

int compare_readable(const Expr& a, const Expr& b) {
  if (a == b) return 0;
  const ExprNode& x = ExprNode::of(a);
  const ExprNode& y = ExprNode::of(b);
  if (x.op != y.op) return x.op < y.op ? -1 : 1;
  if (const int order = x.name.compare(y.name); order != 0) return order;
  if (x.type != y.type) return x.type < y.type ? -1 : 1;
  if (x.integer != y.integer) return x.integer < y.integer ? -1 : 1;
  if (x.number != y.number) return x.number < y.number ? -1 : 1;
  if (x.args.size() != y.args.size()) return x.args.size() < y.args.size() ? -1 : 1;
  for (std::size_t i = 0; i < x.args.size(); ++i) {
    if (const int order = compare_readable(x.args[i], y.args[i]); order != 0) return order;
  }
  return compare_structure(a, b);
}

// ---- op table and integers ---------------------------------------------------------------------------------------

static_assert(op_table.size() == static_cast<std::size_t>(Op::select) + 1);

std::string_view op_name(Op op) {
  return op_table[static_cast<std::size_t>(op)].name;
}
int op_arity(Op op) {
  return op_table[static_cast<std::size_t>(op)].arity;
}

bool is_signed_integer(DType type) {
  return type == DType::i8 || type == DType::i16 || type == DType::i32 || type == DType::i64;
}

std::int64_t wrap_integer(DType type, std::int64_t value) {
  switch (type) {
    case DType::i8:
      return static_cast<std::int8_t>(value);
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::i16:
      return static_cast<std::int16_t>(value);
    case DType::u16:
      return static_cast<std::uint16_t>(value);
    case DType::i32:
      return static_cast<std::int32_t>(value);
    case DType::u32:
      return static_cast<std::uint32_t>(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

bool fits(DType type, std::int64_t value) {
  if (type == DType::u64) return value >= 0;
  return wrap_integer(type, value) == value;
}

double cast_value(DType from, DType to, double value) {
  const bool whole = is_integer(from) || from == DType::boolean;
  if (whole && is_integer(to) && std::fabs(value) < 0x1p62) {
    return static_cast<double>(wrap_integer(to, static_cast<std::int64_t>(value)));
  }
  return round_to(to, value);
}

std::optional<std::int64_t> floor_division(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
  const std::int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::optional<std::int64_t> floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace aicf
