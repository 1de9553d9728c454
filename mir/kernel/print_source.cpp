#include "mir/kernel/print_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "mir/kernel/thread_text.h"

namespace aicf {
namespace {

using Kind = ThreadStatement::Kind;

void collect_assigned(const ThreadBody& body, std::set<std::string>& names) {
  for (const ThreadStatement& s : body) {
    if (s.kind == Kind::assign || s.kind == Kind::load_global || s.kind == Kind::load_shared) {
      names.insert(s.names.begin(), s.names.end());
    }
    collect_assigned(s.body, names);
  }
}

bool is_access(const ThreadStatement& s) {
  return s.kind == Kind::load_global || s.kind == Kind::load_shared || s.kind == Kind::store_global ||
         s.kind == Kind::store_shared;
}

bool is_load(const ThreadStatement& s) {
  return s.kind == Kind::load_global || s.kind == Kind::load_shared;
}

std::vector<Expr> expressions_of(const ThreadStatement& s) {
  std::vector<Expr> result;
  for (const Expr& e : s.exprs) {
    if (e) result.push_back(e);
  }
  for (const Expr& e : {s.index, s.predicate, s.fill, s.lane, s.begin, s.end, s.step}) {
    if (e) result.push_back(e);
  }
  return result;
}

std::optional<int> power_of_two(const Expr& e) {
  const auto value = e.as_int();
  if (!value || *value <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(*value))) return std::nullopt;
  return std::countr_zero(static_cast<std::uint64_t>(*value));
}

/// A node whose text is worth a name when it occurs twice: at least two operations, and none that could fail where a
/// select or a predicate keeps it from being evaluated.
bool worth_a_name(const Expr& e) {
  bool deep = false, total = true;
  for (const Expr& arg : e.args()) deep = deep || !arg.args().empty();
  if (!deep) return false;
  for_each(e, [&](const Expr& x) {
    const bool divides = x.op() == Op::div || x.op() == Op::floordiv || x.op() == Op::mod;
    if (divides && !is_float(x.type()) && !x.args()[1].is_constant()) total = false;
  });
  return total;
}

}  // namespace

Result<void> can_emit(const ThreadProgram& program) {
  const auto check = [&](const auto& self, const ThreadBody& body) -> Result<void> {
    for (const ThreadStatement& s : body) {
      if (s.kind == Kind::multiply || !s.fragment.empty()) {
        return unsupported(fmt::format("no emitter prints matrix units yet, in '{}'", statement_text(s)),
                           fmt::format("kernel '{}'", program.name));
      }
      for (const Expr& root : expressions_of(s)) {
        std::optional<std::int64_t> large;
        for_each(root, [&](const Expr& e) {
          const auto value = e.as_int();
          if (value && *value != static_cast<std::int32_t>(*value)) large = value;
        });
        if (large) {
          return unsupported(fmt::format("the constant {} does not fit in the 32-bit integers of devices, in '{}'",
                                         *large, statement_text(s)),
                             fmt::format("kernel '{}'", program.name));
        }
      }
      AICF_RETURN_IF_ERROR(self(self, s.body));
    }
    return {};
  };
  return check(check, program.body);
}

SourcePrinter::SourcePrinter(const ThreadProgram& program, std::set<std::string, std::less<>> reserved)
    : program_(program), names_(std::move(reserved)) {
  for (const KernelBuffer& b : program.buffers) buffer(b.name);
  for (const std::string& s : program.symbols) symbol(s);
  for (const SharedArray& a : program.shared) shared(a.name);
  for (const char* s : {"workgroup", "lane", "subgroup"}) symbol(s);
  collect_assigned(program.body, assigned_);
  ranges_["workgroup"] = {0, std::nullopt};
  ranges_["lane"] = {0, program.subgroup_size - 1};
  ranges_["subgroup"] = {0, program.subgroups - 1};
}

// ---- lines -------------------------------------------------------------------------------------------------------

void SourcePrinter::line(std::string_view content) {
  out_.append(static_cast<std::size_t>(2 * depth_), ' ');
  out_.append(content);
  out_ += '\n';
}

void SourcePrinter::open(std::string_view head) {
  line(head.empty() ? std::string("{") : fmt::format("{} {{", head));
  ++depth_;
}

void SourcePrinter::close() {
  --depth_;
  line("}");
}

void SourcePrinter::lines(const std::vector<std::string>& statements) {
  constexpr std::size_t width = 100;
  std::string current;
  for (const std::string& s : statements) {
    if (!current.empty() && current.size() + s.size() > width) {
      line(current);
      current.clear();
    }
    current += (current.empty() ? "" : " ") + s;
  }
  if (!current.empty()) line(current);
}

void SourcePrinter::open_access() {
  if (!alone_) open("");
}

void SourcePrinter::close_access() {
  if (!alone_) close();
}

// ---- expressions -------------------------------------------------------------------------------------------------

std::string SourcePrinter::text(const Expr& e, Precedence at_least) {
  Text t = print(e);
  return t.precedence < at_least ? "(" + t.text + ")" : std::move(t.text);
}

Expr SourcePrinter::for_ranges(const Expr& e) const {
  return rewrite(e, [&](const Expr& x) -> Expr {
    if (x.op() == Op::value && is_integer(x.type())) return Expr::cast(Expr::axis("value:" + x.name()), x.type());
    if (x.op() == Op::symbol && ranges_.contains("loop:" + x.name())) return Expr::axis("loop:" + x.name());
    return {};
  });
}

bool SourcePrinter::is_natural(const Expr& e) {
  const Range range = range_of(for_ranges(e), ranges_);
  return range.low && *range.low >= 0;
}

std::string SourcePrinter::stored_integer(const Expr& e) {
  return e.type() == DType::boolean ? cast(DType::boolean, DType::i32, text(e)) : text(e);
}

std::string SourcePrinter::loaded(DType memory, const std::string& variable_name, const std::string& value) {
  const auto type = types_.find(variable_name);
  const bool boolean = !is_float(memory) && type != types_.end() && type->second == DType::boolean;
  return fmt::format("{} = {}{};", variable(variable_name), value, boolean ? " != 0" : "");
}

std::string SourcePrinter::vector_index(const Expr& index, std::int64_t width) {
  if (width == 1) return text(index);
  const Expr quotient = simplify(floordiv(index, Expr(width)));
  bool divides = false;
  for_each(quotient,
           [&](const Expr& x) { divides = divides || (x.op() == Op::floordiv && x.args()[1].as_int() == width); });
  if (!divides) return text(quotient);
  return fmt::format("{} >> {}", text(index, Precedence::multiplicative),
                     std::countr_zero(static_cast<std::uint64_t>(width)));
}

SourcePrinter::Text SourcePrinter::print_integer_division(const Expr& e) {
  const Expr &a = e.args()[0], &b = e.args()[1];
  const bool remainder = e.op() == Op::mod;
  if (const auto shift = power_of_two(b); shift && e.op() != Op::div) {
    if (!remainder) return {fmt::format("{} >> {}", text(a, Precedence::multiplicative), *shift), Precedence::shift};
    return {fmt::format("{} & {}", text(a, Precedence::multiplicative), *b.as_int() - 1), Precedence::bit_and};
  }
  const bool plain = is_natural(b) && is_natural(a);
  if (!plain) return {call(e, {text(a), text(b)}), Precedence::primary};
  return {
      fmt::format("{} {} {}", text(a, Precedence::multiplicative), remainder ? '%' : '/', text(b, Precedence::unary)),
      Precedence::multiplicative};
}

std::string SourcePrinter::with_zero(Op, int, const std::string&, bool) {
  return {};
}

SourcePrinter::Text SourcePrinter::print_constant(const Expr& e) {
  if (e.type() == DType::boolean) return {e.int_number() ? "true" : "false"};
  if (is_float(e.type())) {
    std::string constant = float_constant(e.number());
    const Precedence precedence = constant[0] == '-' ? Precedence::unary : Precedence::primary;
    return {std::move(constant), precedence};
  }
  const std::int64_t v = e.int_number();
  if (v == std::numeric_limits<std::int32_t>::min()) return {"-2147483647 - 1", Precedence::additive};
  return {fmt::format("{}", v), v < 0 ? Precedence::unary : Precedence::primary};
}

SourcePrinter::Text SourcePrinter::print_cast(const Expr& e) {
  const Expr& arg = e.args()[0];
  const DType from = arg.type(), to = e.type();
  if (is_float(from) && is_float(to) && to != DType::f16 && to != DType::bf16) return print(arg);
  if (to == DType::boolean) {
    const std::string zero = is_float(from) ? float_constant(0) : "0";
    return {fmt::format("{} != {}", text(arg, Precedence::relational), zero), Precedence::equality};
  }
  if (is_integer(from) && is_integer(to)) return wrapped(to, print(arg));
  return {cast(from, to, text(arg))};
}

/// Arithmetic of integers narrower than 32 bits wraps to their type.
SourcePrinter::Text SourcePrinter::wrapped(DType type, Text t) {
  const auto operand = [&](Precedence p) { return t.precedence < p ? "(" + t.text + ")" : t.text; };
  switch (type) {
    case DType::u8:
      return {operand(Precedence::equality) + " & 255", Precedence::bit_and};
    case DType::u16:
      return {operand(Precedence::equality) + " & 65535", Precedence::bit_and};
    case DType::i8:
      return {operand(Precedence::shift) + " << 24 >> 24", Precedence::shift};
    case DType::i16:
      return {operand(Precedence::shift) + " << 16 >> 16", Precedence::shift};
    default:
      return t;
  }
}

SourcePrinter::Text SourcePrinter::print(const Expr& e) {
  AICF_CHECK(static_cast<bool>(e), "emission of an empty expression");
  if (const auto found = hoisted_.find(e.identity()); found != hoisted_.end()) return {found->second};
  switch (e.op()) {
    case Op::constant:
      return print_constant(e);
    case Op::symbol:
      return {symbol(e.name())};
    case Op::value:
      return {variable(e.name())};
    case Op::axis:
    case Op::load:
      AICF_BUG(fmt::format("'{}' in a thread program", to_string(e)));
    case Op::cast:
      return print_cast(e);
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::neg:
    case Op::abs:
    case Op::pow:
      return wrapped(e.type(), print_operation(e));
    default:
      return print_operation(e);
  }
}

SourcePrinter::Text SourcePrinter::print_operation(const Expr& e) {
  const auto args = e.args();
  const bool floats = is_float(e.type());
  const auto next = [](Precedence p) { return static_cast<Precedence>(static_cast<int>(p) + 1); };
  const auto infix = [&](const char* op, Precedence p, Precedence left, Precedence right) {
    return Text{fmt::format("{} {} {}", text(args[0], left), op, text(args[1], right)), p};
  };
  // Right operands of equal precedence keep their parentheses: the order of float operations is the expression's.
  const auto left_to_right = [&](const char* op, Precedence p) { return infix(op, p, p, next(p)); };
  const auto comparison = [&](const char* op, Precedence p) { return infix(op, p, next(p), next(p)); };
  switch (e.op()) {
    case Op::neg: {
      std::string operand = text(args[0], Precedence::unary);
      if (operand[0] == '-') operand = "(" + operand + ")";
      return {"-" + operand, Precedence::unary};
    }
    case Op::not_: {
      if (args[0].op() != Op::eq) return {"!" + text(args[0], Precedence::unary), Precedence::unary};
      const auto sides = args[0].args();
      return {fmt::format("{} != {}", text(sides[0], Precedence::relational), text(sides[1], Precedence::relational)),
              Precedence::equality};
    }
    case Op::reciprocal:
      return {fmt::format("{} / {}", float_constant(1), text(args[0], Precedence::unary)), Precedence::multiplicative};
    case Op::add: {
      // Integers spell differences as "+ (-c)".
      const auto c = args[1].as_int();
      if (c && *c < 0 && *c > std::numeric_limits<std::int32_t>::min()) {
        return {fmt::format("{} - {}", text(args[0], Precedence::additive), -*c), Precedence::additive};
      }
      return left_to_right("+", Precedence::additive);
    }
    case Op::sub:
      return left_to_right("-", Precedence::additive);
    case Op::mul:
    case Op::div:
      for (const int zero : {0, 1}) {
        if (!floats || !args[zero].is_constant(0)) continue;
        std::string result = with_zero(e.op(), zero, text(args[1 - zero]), std::signbit(args[zero].number()));
        if (!result.empty()) return {std::move(result)};
      }
      if (e.op() == Op::mul) return left_to_right("*", Precedence::multiplicative);
      if (floats || args[1].as_int().value_or(0) != 0) return left_to_right("/", Precedence::multiplicative);
      break;
    case Op::floordiv:
    case Op::mod:
      if (!floats) return print_integer_division(e);
      if (args[1].is_constant(0)) return print_constant(Expr::constant(e.type(), std::nan("")));
      break;
    case Op::lt:
      return comparison("<", Precedence::relational);
    case Op::le:
      return comparison("<=", Precedence::relational);
    case Op::eq:
      return comparison("==", Precedence::equality);
    case Op::and_:
      return left_to_right("&&", Precedence::logical_and);
    case Op::or_: {
      // An "&&" inside "||" is parenthesised for the reader.
      const auto side = [&](const Expr& x, Precedence p) {
        return text(x, x.op() == Op::and_ ? Precedence::primary : p);
      };
      return {fmt::format("{} || {}", side(args[0], Precedence::logical_or), side(args[1], Precedence::logical_and)),
              Precedence::logical_or};
    }
    case Op::select:
      return {fmt::format("{} ? {} : {}", text(args[0], Precedence::logical_or), text(args[1], Precedence::logical_or),
                          text(args[2], Precedence::ternary)),
              Precedence::ternary};
    default:
      break;
  }
  std::vector<std::string> texts;
  for (const Expr& arg : args) texts.push_back(text(arg));
  return {call(e, texts)};
}

void SourcePrinter::hoist_shared(const std::vector<Expr>& exprs) {
  std::unordered_map<const void*, int> uses;
  std::vector<Expr> order;
  for (const Expr& root : exprs) {
    if (uses[root.identity()]++ > 0) continue;
    for_each(root, [&](const Expr& e) {
      if (!uses.contains(e.identity()) || e.identity() == root.identity()) order.push_back(e), uses[e.identity()] += 0;
    });
  }
  for (const Expr& e : order) {
    for (const Expr& arg : e.args()) ++uses[arg.identity()];
  }
  for (const Expr& e : order) {
    if (uses[e.identity()] < 2 || e.args().empty() || !worth_a_name(e)) continue;
    const std::string name = fmt::format("aicf_t{}", temporaries_++);
    line(fmt::format("const {} {} = {};", type_name(e.type()), name, text(e)));
    hoisted_[e.identity()] = name;
  }
}

// ---- statements --------------------------------------------------------------------------------------------------

const KernelBuffer& SourcePrinter::buffer_of(const ThreadStatement& s) const {
  for (const KernelBuffer& b : program_.buffers) {
    if (b.name == s.buffer) return b;
  }
  AICF_BUG(fmt::format("kernel '{}': unknown buffer in '{}'", program_.name, statement_text(s)));
}

const SharedArray& SourcePrinter::shared_of(const ThreadStatement& s) const {
  for (const SharedArray& a : program_.shared) {
    if (a.name == s.buffer) return a;
  }
  AICF_BUG(fmt::format("kernel '{}': unknown shared array in '{}'", program_.name, statement_text(s)));
}

std::string SourcePrinter::print_program_body() {
  const Result<void> possible = can_emit(program_);
  AICF_CHECK(possible.has_value(), possible.error().text());
  out_.clear();
  print_body(program_.body);
  return std::move(out_);
}

void SourcePrinter::print_body(const ThreadBody& body) {
  for (std::size_t i = 0; i < body.size();) {
    const ThreadStatement& s = body[i];
    // Names of shared subexpressions hold for one statement: what they read may change after it.
    hoisted_.clear();
    if (s.kind == Kind::declare && (s.exprs.empty() || !s.exprs[0])) {
      i = print_empty_declarations(body, i);
    } else if (is_access(s)) {
      const std::size_t end = group_end(body, i);
      print_accesses(body, i, end);
      i = end;
    } else {
      print_statement(s);
      ++i;
    }
  }
  hoisted_.clear();
}

std::size_t SourcePrinter::print_empty_declarations(const ThreadBody& body, std::size_t first) {
  constexpr std::size_t width = 110;
  std::size_t i = first;
  std::string text;
  for (; i < body.size(); ++i) {
    const ThreadStatement& s = body[i];
    if (s.kind != Kind::declare || s.type != body[first].type || (!s.exprs.empty() && s.exprs[0])) break;
    for (const std::string& n : s.names) {
      const std::string& name = variable(n);
      types_[n] = s.type;
      if (!text.empty() && text.size() + name.size() > width) {
        line(text + ";");
        text.clear();
      }
      text += (text.empty() ? type_name(s.type) + " " : ", ") + name;
    }
  }
  line(text + ";");
  return i;
}

std::size_t SourcePrinter::group_end(const ThreadBody& body, std::size_t first) const {
  const ThreadStatement& head = body[first];
  if (!head.predicate) return first + 1;
  std::set<std::string> loaded(head.names.begin(), head.names.end());
  std::size_t end = first + 1;
  for (; end < body.size(); ++end) {
    const ThreadStatement& s = body[end];
    if (s.kind != head.kind || !s.predicate || !(s.predicate == head.predicate)) break;
    bool independent = true;
    for (const Expr& e : expressions_of(s)) {
      for (const std::string& v : values_of(e)) independent = independent && !loaded.contains(v);
    }
    for (const std::string& n : s.names) independent = loaded.insert(n).second && independent;
    if (!independent) break;
  }
  return end;
}

void SourcePrinter::print_accesses(const ThreadBody& body, std::size_t first, std::size_t end) {
  const ThreadStatement& head = body[first];
  std::vector<Expr> exprs;
  for (std::size_t i = first; i < end; ++i) {
    for (const Expr& e : expressions_of(body[i])) exprs.push_back(e);
  }
  // A lone access may name its shared parts inside its `if`; a group shares them between its members, before it.
  if (head.predicate) {
    hoist_shared({head.predicate});
    for (std::size_t i = first; i < end; ++i) {
      if (!is_load(body[i]) || !body[i].fill) continue;
      std::string targets;
      for (const std::string& n : body[i].names) targets += variable(n) + " = ";
      line(targets + text(body[i].fill) + ";");
    }
    open(fmt::format("if ({})", text(head.predicate)));
  }
  hoist_shared(exprs);
  alone_ = head.predicate && end == first + 1;
  for (std::size_t i = first; i < end; ++i) {
    if (is_load(body[i])) {
      print_load(body[i]);
    } else {
      print_store(body[i]);
    }
  }
  if (head.predicate) close();
}

void SourcePrinter::print_assignment(const ThreadStatement& s) {
  const std::string& name = variable(s.names[0]);
  const Expr& e = s.exprs[0];
  const char* op = e.op() == Op::add ? "+=" : e.op() == Op::sub ? "-=" : e.op() == Op::mul ? "*=" : nullptr;
  const auto is_self = [&](const Expr& x) { return x.op() == Op::value && x.name() == s.names[0]; };
  if (op && is_self(e.args()[0]) && !e.args()[1].is_constant(0) && !e.args()[1].as_int()) {
    return line(fmt::format("{} {} {};", name, op, text(e.args()[1])));
  }
  line(fmt::format("{} = {};", name, text(e)));
}

void SourcePrinter::learn_range(const ThreadStatement& s) {
  if (!is_integer(s.type) || assigned_.contains(s.names[0])) return;
  ranges_["value:" + s.names[0]] = range_of(for_ranges(s.exprs[0]), ranges_);
}

void SourcePrinter::print_statement(const ThreadStatement& s) {
  switch (s.kind) {
    case Kind::declare:
      hoist_shared(expressions_of(s));
      line(fmt::format("{} {} = {};", type_name(s.type), variable(s.names[0]), text(s.exprs[0])));
      types_[s.names[0]] = s.type;
      learn_range(s);
      return;
    case Kind::assign:
      hoist_shared(expressions_of(s));
      print_assignment(s);
      return;
    case Kind::shuffle:
    case Kind::shuffle_xor: {
      hoist_shared(expressions_of(s));
      const std::string value = shuffle(s, text(s.exprs[0]));
      line(fmt::format("{} {} = {};", type_name(s.type), variable(s.names[0]), value));
      types_[s.names[0]] = s.type;
      return;
    }
    case Kind::barrier:
      line(barrier());
      return;
    case Kind::comment: {
      for (std::size_t begin = 0; begin <= s.text.size();) {
        const std::size_t end = std::min(s.text.find('\n', begin), s.text.size());
        line("// " + comment_text(std::string_view(s.text).substr(begin, end - begin)));
        begin = end + 1;
      }
      return;
    }
    case Kind::loop: {
      hoist_shared(expressions_of(s));
      const std::string& v = symbol(s.variable);
      const bool unit = !s.step || s.step.as_int() == 1;
      const std::string head =
          fmt::format("for (int {0} = {1}; {0} < {2}; {3})", v, text(s.begin), text(s.end, Precedence::shift),
                      unit ? "++" + v : fmt::format("{} += {}", v, text(s.step)));
      open(head);
      // What is known of the outer loop's variable of this name, if any, holds again after it.
      const std::string key = "loop:" + s.variable;
      const auto outer = ranges_.find(key);
      const std::optional<Range> hidden = outer == ranges_.end() ? std::nullopt : std::optional(outer->second);
      const bool natural = (!s.step || is_natural(s.step)) && is_natural(s.begin);
      ranges_[key] = {natural ? std::optional<std::int64_t>(0) : std::nullopt, std::nullopt};
      print_body(s.body);
      if (hidden) {
        ranges_[key] = *hidden;
      } else {
        ranges_.erase(key);
      }
      close();
      return;
    }
    case Kind::branch:
      hoist_shared({s.predicate});
      open(fmt::format("if ({})", text(s.predicate)));
      print_body(s.body);
      close();
      return;
    default:
      AICF_BUG("unknown kind of thread statement");
  }
}

std::string SourcePrinter::header_comment() const {
  std::string out = fmt::format("// {}: {} threads ({} x {}) a workgroup, {} workgroups\n", comment_text(program_.name),
                                program_.subgroups * program_.subgroup_size, program_.subgroups, program_.subgroup_size,
                                to_string(program_.workgroups));
  const auto entry = [&](const std::string& what) { out += "//   " + comment_text(what) + "\n"; };
  for (const KernelBuffer& b : program_.buffers) {
    std::string shape;
    for (const Expr& dim : b.shape) shape += (shape.empty() ? "" : ", ") + to_string(dim);
    entry(fmt::format("{} {}: {}[{}]", b.written ? "writes" : "reads", b.name, name(b.type), shape));
  }
  for (const SharedArray& a : program_.shared) {
    entry(fmt::format("shared {}: {}[{}]", a.name, name(a.type), a.elements));
  }
  for (const auto& [ours, original] : names_.changed()) {
    entry(fmt::format("{} is \"{}\"", ours, original));
  }
  return out;
}

}  // namespace aicf
