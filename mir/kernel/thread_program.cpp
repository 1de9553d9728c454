#include "mir/kernel/thread_program.h"

#include <fmt/format.h>

#include "mir/kernel/thread_text.h"

namespace aicf {
namespace {

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string joined(const std::vector<Expr>& exprs) {
  std::string text;
  for (const Expr& e : exprs) text += (text.empty() ? "" : ", ") + to_string(e);
  return text;
}

/// "Q[4 * lane]" for one element, "Q[4 * lane ..+ 4]" for a vector access.
std::string access_text(const ThreadStatement& s, std::size_t width) {
  if (width == 1) return fmt::format("{}[{}]", s.buffer, to_string(s.index));
  return fmt::format("{}[{} ..+ {}]", s.buffer, to_string(s.index), width);
}

/// " fragment m16n8k16.c" after the type or the access.
std::string fragment_text(const ThreadStatement& s) {
  if (s.fragment.empty()) return {};
  std::string text = " fragment " + s.fragment;
  if (s.row_stride) text += fmt::format(" rows {} columns {}", to_string(s.row_stride), to_string(s.column_stride));
  return text;
}

std::string condition_text(const ThreadStatement& s) {
  std::string text;
  if (s.predicate) text += " where " + to_string(s.predicate);
  if (s.fill) text += " else " + to_string(s.fill);
  return text;
}

void print_body(const ThreadBody& body, int depth, std::string& out) {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (const ThreadStatement& s : body) {
    out += indent + statement_text(s);
    if (s.kind == ThreadStatement::Kind::loop || s.kind == ThreadStatement::Kind::branch) {
      out += " {\n";
      print_body(s.body, depth + 1, out);
      out += indent + "}";
    }
    out += '\n';
  }
}

}  // namespace

std::string statement_text(const ThreadStatement& s) {
  using Kind = ThreadStatement::Kind;
  switch (s.kind) {
    case Kind::declare: {
      const std::string head = fmt::format("{}{} {}", name(s.type), fragment_text(s), joined(s.names));
      return s.exprs.empty() || !s.exprs[0] ? head : head + " = " + joined(s.exprs);
    }
    case Kind::assign:
      return fmt::format("{} = {}", joined(s.names), joined(s.exprs));
    case Kind::load_global:
    case Kind::load_shared: {
      const char* space = s.kind == Kind::load_global ? "global" : "shared";
      return fmt::format("{} = load {} {}{}{}", joined(s.names), space, access_text(s, s.names.size()),
                         fragment_text(s), condition_text(s));
    }
    case Kind::store_global:
    case Kind::store_shared: {
      const char* space = s.kind == Kind::store_global ? "global" : "shared";
      return fmt::format("store {} {}{} = {}{}", space, access_text(s, s.exprs.size()), fragment_text(s),
                         joined(s.exprs), condition_text(s));
    }
    case Kind::shuffle:
      return fmt::format("{} {} = shuffle({}, lane {})", name(s.type), joined(s.names), joined(s.exprs),
                         to_string(s.lane));
    case Kind::shuffle_xor:
      return fmt::format("{} {} = shuffle_xor({}, {})", name(s.type), joined(s.names), joined(s.exprs), s.mask);
    case Kind::barrier:
      return "barrier";
    case Kind::loop: {
      const std::string head = fmt::format("for {} in {}..{}", s.variable, to_string(s.begin), to_string(s.end));
      return !s.step || s.step.as_int() == 1 ? head : fmt::format("{} step {}", head, to_string(s.step));
    }
    case Kind::branch:
      return fmt::format("if {}{}", s.uniform ? "uniform " : "", to_string(s.predicate));
    case Kind::comment:
      return "# " + s.text;
    case Kind::multiply:
      return fmt::format("({}) += {}({}){}", joined(s.names), s.unit, joined(s.exprs), fragment_text(s));
  }
  AICF_BUG("unknown kind of thread statement");
}

std::string to_string(const ThreadProgram& program) {
  std::string out = fmt::format("thread_program {}  subgroup_size {}  subgroups {}  workgroups {}\n", program.name,
                                program.subgroup_size, program.subgroups, to_string(program.workgroups));
  for (const KernelBuffer& b : program.buffers) {
    out += fmt::format("  buffer {}: {}[{}]{}\n", b.name, name(b.type), joined(b.shape), b.written ? " written" : "");
  }
  if (!program.symbols.empty()) out += fmt::format("  symbols {}\n", joined(program.symbols));
  for (const SharedArray& a : program.shared) {
    out += fmt::format("  shared {}: {}[{}] at byte {}\n", a.name, name(a.type), a.elements, a.byte_offset);
  }
  out += "{\n";
  print_body(program.body, 1, out);
  return out + "}\n";
}

}  // namespace aicf
