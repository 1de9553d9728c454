#include "tests/generate/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace aicf::generate {

namespace {

std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)};
  std::uint32_t words[2];
  sequence.generate(words, words + 2);
  return std::uint64_t{words[0]} << 32 | words[1];
}

int from_front(int axis, int rank) {
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

const char* name(Family family) {
  return family == Family::attention ? "attention" : family == Family::reduction ? "reduction" : "lookalike";
}

Generated generate(std::uint64_t seed, std::uint64_t index) {
  const Family family = families[index % 3];
  Generated out = family == Family::attention   ? attention_like(seed, index, false)
                  : family == Family::reduction ? reductions(seed, index, false)
                  : index % 2 == 0              ? attention_like(seed, index, true)
                                                : reductions(seed, index, true);
  out.family = family;
  out.seed = seed;
  out.index = index;
  return out;
}

Sketch::Sketch(std::string name, std::uint64_t seed, std::uint64_t index)
    : builder_(std::move(name), 23), random_(mixed(seed, index)) {}

double Sketch::real(double low, double high) {
  return low + (high - low) * (static_cast<double>(random_() >> 11) * 0x1p-53);
}

std::int64_t Sketch::size(std::int64_t most) {
  static const std::vector<std::int64_t> sizes{1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 31, 32, 33, 63, 65};
  std::int64_t n = any(sizes);
  while (n > most) n = any(sizes);
  return n;
}

Value Sketch::input(const std::string& name, std::vector<Dim> dims, numeric::Data data, DType type) {
  std::vector<Size> sizes;
  std::vector<std::int64_t> shape;
  for (const Dim& d : dims) {
    sizes.emplace_back(d.symbol.empty() ? Expr(d.size) : Expr::symbol(d.symbol));
    shape.push_back(d.size);
  }
  builder_.input(name, type, sizes);
  made_.inputs[name] = numeric::make(data, type, shape, static_cast<unsigned>(random_()));
  made_.infinite_data |= data == numeric::Data::infinity || data == numeric::Data::minus_infinity ||
                         data == numeric::Data::minus_infinity_rows;
  if (data == numeric::Data::nan) made_.nan_inputs.push_back(name);
  return {name, std::move(dims), type};
}

Value Sketch::indices(const std::string& name, std::vector<Dim> dims, std::int64_t low, std::int64_t high, DType type) {
  Value out = input(name, std::move(dims), numeric::Data::zeros, type);
  Tensor& t = made_.inputs.at(name);
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(low + pick(static_cast<int>(high - low))));
  return out;
}

Value Sketch::constant(double value, DType type) {
  return {builder_.constant(type, {}, {value}), {}, type};
}

Value Sketch::constant(std::vector<std::int64_t> shape, const std::vector<double>& values, DType type) {
  std::vector<Dim> dims;
  for (const std::int64_t d : shape) dims.push_back({d});
  return {builder_.constant(type, std::move(shape), values), std::move(dims), type};
}

Value Sketch::positions(const Value& like, int axis, DType type) {
  const Dim d = like.dim(axis);
  Value out;
  if (d.symbol.empty() && chance(50)) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < d.size; ++i) values.push_back(static_cast<double>(i));
    out = constant({d.size}, values, DType::i64);
  } else {
    const std::string size = builder_.add(
        "Gather", {builder_.add("Shape", {like.name}), builder_.scalar(DType::i64, from_front(axis, like.rank()))});
    out = {
        builder_.add("Range", {builder_.scalar(DType::i64, 0), size, builder_.scalar(DType::i64, 1)}), {d}, DType::i64};
  }
  return type == DType::i64 ? out : cast(out, type);
}

std::vector<Dim> Sketch::broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) const {
  std::vector<Dim> out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Dim one;
    const Dim& x = i < a.size() ? a[a.size() - 1 - i] : one;
    const Dim& y = i < b.size() ? b[b.size() - 1 - i] : one;
    out[out.size() - 1 - i] = x.size == 1 && x.symbol.empty() ? y : x;
  }
  return out;
}

Value Sketch::unary(const std::string& op, const Value& x) {
  const bool test = op == "IsNaN" || op == "IsInf" || op == "Not";
  return {builder_.add(op, {x.name}), x.dims, test ? DType::boolean : x.type};
}

Value Sketch::binary(const std::string& op, const Value& a, const Value& b) {
  static const std::set<std::string> tests{"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or"};
  return {builder_.add(op, {a.name, b.name}), broadcast(a.dims, b.dims), tests.contains(op) ? DType::boolean : a.type};
}

Value Sketch::where(const Value& condition, const Value& a, const Value& b) {
  return {builder_.add("Where", {condition.name, a.name, b.name}), broadcast(condition.dims, broadcast(a.dims, b.dims)),
          a.type};
}

Value Sketch::cast(const Value& x, DType type) {
  const std::int64_t code = type == DType::f32 ? 1 : type == DType::i64 ? 7 : type == DType::boolean ? 9 : 6;
  return {builder_.add("Cast", {x.name}, {{"to", code}}), x.dims, type};
}

Value Sketch::matmul(const Value& a, const Value& b) {
  std::vector<Dim> dims = broadcast({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  dims.push_back(a.dim(-2));
  dims.push_back(b.dim(-1));
  return {builder_.add("MatMul", {a.name, b.name}), std::move(dims), a.type};
}

Value Sketch::transpose(const Value& x, const std::vector<int>& perm) {
  Value out{{}, {}, x.type};
  for (const int p : perm) out.dims.push_back(x.dim(p));
  out.name = builder_.add("Transpose", {x.name}, {{"perm", std::vector<std::int64_t>(perm.begin(), perm.end())}});
  return out;
}

Value Sketch::swap_last(const Value& x) {
  std::vector<int> perm(x.dims.size());
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int>(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

Value Sketch::reshape(const Value& x, std::vector<Dim> dims) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& d = dims[i];
    if (i < x.dims.size() && x.dims[i].size == d.size && (!d.symbol.empty() || d.size == 0))
      shape.push_back(0);
    else
      shape.push_back(d.symbol.empty() ? d.size : -1);
  }
  return {builder_.add("Reshape", {x.name, builder_.integers(shape)}), std::move(dims), x.type};
}

Value Sketch::unsqueeze(const Value& x, int axis) {
  Value out{builder_.add("Unsqueeze", {x.name, builder_.integers({axis})}), x.dims, x.type};
  out.dims.insert(out.dims.begin() + from_front(axis, x.rank() + 1), Dim{});
  return out;
}

Value Sketch::expand(const Value& x, int axis, std::int64_t size) {
  Value out{{}, x.dims, x.type};
  std::vector<std::int64_t> shape(x.dims.size(), 1);
  const auto at = static_cast<std::size_t>(from_front(axis, x.rank()));
  shape[at] = size;
  out.dims[at] = {size};
  out.name = builder_.add("Expand", {x.name, builder_.integers(shape)});
  return out;
}

Value Sketch::slice(const Value& x, int axis, std::int64_t begin, std::int64_t end) {
  Value out{{}, x.dims, x.type};
  Dim& d = out.dims[static_cast<std::size_t>(from_front(axis, x.rank()))];
  const auto place = [&](std::int64_t p) { return std::clamp<std::int64_t>(p < 0 ? p + d.size : p, 0, d.size); };
  const std::int64_t n = std::max<std::int64_t>(0, place(end) - place(begin));
  if (!d.symbol.empty()) d.symbol = "?";
  d.size = n;
  out.name =
      builder_.add("Slice", {x.name, builder_.integers({begin}), builder_.integers({end}), builder_.integers({axis})});
  return out;
}

Value Sketch::concat(const std::vector<Value>& parts, int axis) {
  Value out{{}, parts[0].dims, parts[0].type};
  const auto at = static_cast<std::size_t>(from_front(axis, parts[0].rank()));
  std::vector<std::string> names;
  out.dims[at] = {0};
  for (const Value& p : parts) {
    names.push_back(p.name);
    out.dims[at].size += p.dims[at].size;
    if (!p.dims[at].symbol.empty()) out.dims[at].symbol = "?";
  }
  out.name = builder_.add("Concat", names, {{"axis", axis}});
  return out;
}

Value Sketch::gather(const Value& x, const Value& indices, int axis) {
  Value out{builder_.add("Gather", {x.name, indices.name}, {{"axis", axis}}), {}, x.type};
  const int at = from_front(axis, x.rank());
  for (int d = 0; d < x.rank(); ++d) {
    if (d != at)
      out.dims.push_back(x.dim(d));
    else
      out.dims.insert(out.dims.end(), indices.dims.begin(), indices.dims.end());
  }
  return out;
}

Value Sketch::reduce(const std::string& op, const Value& x, std::vector<int> axes, bool keep) {
  Value out{{}, {}, x.type};
  for (int& a : axes) a = from_front(a, x.rank());
  for (int d = 0; d < x.rank(); ++d) {
    if (std::ranges::find(axes, d) == axes.end())
      out.dims.push_back(x.dim(d));
    else if (keep)
      out.dims.emplace_back();
  }
  out.name = builder_.add(op, {x.name, builder_.integers({axes.begin(), axes.end()})}, {{"keepdims", keep ? 1 : 0}});
  return out;
}

Value Sketch::softmax(const Value& x, int axis, const char* op) {
  return {builder_.add(op, {x.name}, {{"axis", axis}}), x.dims, x.type};
}

Value Sketch::custom(const std::string& op, const std::vector<Value>& inputs, std::vector<Dim> dims,
                     const std::vector<NamedAttribute>& attributes, DType type) {
  std::vector<std::string> names;
  for (const Value& v : inputs) names.push_back(v.name);
  return {builder_.add(op, names, attributes), std::move(dims), type};
}

void Sketch::output(const Value& x) {
  if (std::ranges::find(outputs_, x.name) != outputs_.end()) return;
  outputs_.push_back(x.name);
  builder_.output(x.name);
}

Generated Sketch::finish(Family family) {
  Generated out = made_;
  out.family = family;
  out.graph = builder_.build();
  return out;
}

}  // namespace aicf::generate
