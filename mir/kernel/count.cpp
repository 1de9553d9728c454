#include "mir/kernel/count.h"

#include <algorithm>
#include <set>

namespace aicf {

namespace {

class Counter {
 public:
  Counter(const ThreadProgram& program, const std::map<std::string, std::int64_t>& sizes) : program_(program), bindings_(sizes) {
    for (const std::string& s : program.symbols) bindings_.try_emplace(s, 64);
    bindings_["lane"] = bindings_["subgroup"] = bindings_["workgroup"] = 0;
  }

  StaticCounts run();

 private:
  void walk(const ThreadBody& body, double times, bool first);
  void expression(const Expr& e, double times, bool first);
  std::string pattern(const Expr& index, int width, double* sectors);
  std::int64_t evaluate(const Expr& e, std::int64_t otherwise) const;
  void add(const std::string& key, double n) { out_.counts[key] += n; }

  const ThreadProgram& program_;
  std::map<std::string, std::int64_t> bindings_;
  ExprMap integers_;  ///< integer variables by definition
  StaticCounts out_;
};

std::int64_t Counter::evaluate(const Expr& e, std::int64_t otherwise) const {
  auto v = evaluate_int(substitute_values(e, integers_), bindings_);
  return v ? *v : otherwise;
}

// Addresses of the lanes of one subgroup.
std::string Counter::pattern(const Expr& index, int width, double* sectors) {
  Expr full = substitute_values(index, integers_);
  std::set<std::int64_t> touched;
  std::vector<std::int64_t> at;
  auto saved = bindings_["lane"];
  bool known = true;
  for (int lane = 0; lane < program_.subgroup_size && known; ++lane) {
    bindings_["lane"] = lane;
    auto v = evaluate_int(full, bindings_);
    if (!v) known = false;
    else at.push_back(*v);
  }
  bindings_["lane"] = saved;
  if (!known) {
    *sectors = program_.subgroup_size;
    return "strided";
  }
  for (std::int64_t a : at)
    for (std::int64_t i = a; i < a + width; ++i) touched.insert(i >= 0 ? i / 8 : (i - 7) / 8);
  *sectors = static_cast<double>(touched.size());
  if (std::ranges::all_of(at, [&](std::int64_t a) { return a == at[0]; })) return "uniform";
  for (std::size_t i = 1; i < at.size(); ++i)
    if (at[i] != at[0] + static_cast<std::int64_t>(i) * width) return "strided";
  return "contiguous";
}

void Counter::expression(const Expr& e, double times, bool first) {
  if (!e) return;
  for_each(e, [&](const Expr& x) {
    if (op_arity(x.op()) == 0) return;
    const char* key = "op.select";
    bool real = is_float(x.type()) || (!x.args().empty() && is_float(x.args()[0].type()));
    switch (x.op()) {
      case Op::cast: return;
      case Op::neg: case Op::abs: return;
      case Op::add: case Op::sub: key = real ? "op.add" : "op.integer"; break;
      case Op::mul: key = real ? "op.mul" : "op.integer"; break;
      case Op::exp: case Op::log: case Op::tanh: case Op::erf: case Op::pow: case Op::sin: case Op::cos: key = "op.exp"; break;
      case Op::div: case Op::reciprocal: case Op::sqrt: key = real ? "op.div" : "op.integer"; break;
      case Op::floordiv: case Op::mod: key = "op.integer"; break;
      default: key = real ? "op.select" : "op.integer"; break;
    }
    add(key, times);
    if (first) add("static.op", 1);
  });
}

void Counter::walk(const ThreadBody& body, double times, bool first) {
  using Kind = ThreadStatement::Kind;
  for (const ThreadStatement& s : body) {
    int width = static_cast<int>(std::max<std::size_t>(1, s.kind == Kind::load_global || s.kind == Kind::load_shared ? s.names.size() : s.exprs.size()));
    std::string suffix = ".w" + std::to_string(width);
    switch (s.kind) {
      case Kind::declare:
      case Kind::assign:
        if (s.exprs.empty() || !s.exprs[0]) break;
        if (!is_float(s.exprs[0].type()) && s.kind == Kind::declare) integers_[s.names[0]] = substitute_values(s.exprs[0], integers_);
        expression(s.exprs[0], times, first);
        break;
      case Kind::load_global:
      case Kind::store_global: {
        bool is_load = s.kind == Kind::load_global;
        double sectors = 0;
        std::string p = pattern(s.index, width, &sectors);
        add((is_load ? "load." : "store.") + p + suffix, times);
        add(is_load ? "bytes.read" : "bytes.written", times * sectors * 32);
        if (first) add(is_load ? "static.load" : "static.store", 1);
        expression(s.index, times, first);
        expression(s.predicate, times, first);
        for (const Expr& e : s.exprs) expression(e, times, first);
        break;
      }
      case Kind::load_shared:
      case Kind::store_shared:
        add((s.kind == Kind::load_shared ? "shared_load" : "shared_store") + suffix, times);
        if (first) add("static.shared", 1);
        expression(s.index, times, first);
        for (const Expr& e : s.exprs) expression(e, times, first);
        break;
      case Kind::shuffle:
        add(s.lane && s.lane.is_constant() ? "shuffle.constant" : "shuffle.dynamic", times);
        if (first) add("static.shuffle", 1);
        break;
      case Kind::shuffle_xor:
        add("shuffle.xor", times);
        if (first) add("static.shuffle", 1);
        break;
      case Kind::barrier: add("barrier", times); break;
      case Kind::loop: {
        std::int64_t begin = evaluate(s.begin, 0), end = evaluate(s.end, 64), step = std::max<std::int64_t>(1, evaluate(s.step, 1));
        double trips = static_cast<double>(std::max<std::int64_t>(0, (end - begin + step - 1) / step));
        add("iteration", times * trips);
        bindings_[s.variable] = begin;
        walk(s.body, times * trips, first);
        bindings_.erase(s.variable);
        break;
      }
      case Kind::branch:
        expression(s.predicate, times, first);
        walk(s.body, times, first);
        break;
      case Kind::comment: break;
    }
  }
}

// Scalars live at once: from definition to last use in program order; what a loop uses from outside lives through it.
struct Liveness {
  int position = 0;
  std::map<std::string, std::pair<int, int>> span;

  void use(const Expr& e) {
    if (!e) return;
    for (const std::string& v : values_of(e))
      if (auto it = span.find(v); it != span.end()) it->second.second = std::max(it->second.second, position);
  }
  void walk(const ThreadBody& body) {
    for (const ThreadStatement& s : body) {
      ++position;
      for (const Expr& e : s.exprs) use(e);
      use(s.index), use(s.predicate), use(s.lane), use(s.begin), use(s.end);
      if (s.kind == ThreadStatement::Kind::assign) use(Expr::value(s.names[0], s.type));
      if (s.kind != ThreadStatement::Kind::assign && is_float(s.type))
        for (const std::string& n : s.names) span.try_emplace(n, position, position);
      if (!s.body.empty()) {
        int begin = position;
        walk(s.body);
        if (s.kind == ThreadStatement::Kind::loop)
          for (auto& [name, range] : span)
            if (range.first < begin && range.second > begin) range.second = std::max(range.second, position);
      }
    }
  }
  int peak() const {
    std::vector<int> change(static_cast<std::size_t>(position) + 2);
    for (const auto& [name, range] : span) ++change[range.first], --change[range.second + 1];
    int now = 0, most = 0;
    for (int c : change) most = std::max(most, now += c);
    return most;
  }
};

StaticCounts Counter::run() {
  out_.subgroups = program_.subgroups;
  out_.subgroup_size = program_.subgroup_size;
  std::int64_t items = std::max<std::int64_t>(0, evaluate(program_.workgroups, 1));
  out_.workgroups = static_cast<double>(items);
  for (const SharedArray& a : program_.shared) out_.shared_bytes = std::max<std::int64_t>(out_.shared_bytes, a.byte_offset + a.elements * static_cast<std::int64_t>(device_size(a.type)));
  std::set<std::int64_t> samples{0, items / 2, std::max<std::int64_t>(0, items - 1)};
  bool first = true;
  for (std::int64_t item : samples) {
    bindings_["workgroup"] = item;
    integers_.clear();
    walk(program_.body, 1.0 / static_cast<double>(samples.size()), first);
    first = false;
  }
  Liveness live;
  live.walk(program_.body);
  out_.live = live.peak();
  return std::move(out_);
}

}  // namespace

StaticCounts count(const ThreadProgram& program, const std::map<std::string, std::int64_t>& sizes) {
  return Counter(program, sizes).run();
}

}  // namespace aicf
