#include "mir/support/expr_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "mir/support/expr_node.h"

namespace aicf {
namespace {

std::uint32_t slot_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
  names.push_back(name);
  return static_cast<std::uint32_t>(names.size() - 1);
}

}  // namespace

struct ScalarProgram::Builder {
  const std::vector<std::string>& axes;
  const std::map<std::string, std::int64_t>& symbols;
  std::unordered_map<Expr, std::uint32_t, Hash> ids;
};

ScalarProgram::ScalarProgram(const Expr& e, const std::vector<std::string>& axes,
                             const std::map<std::string, std::int64_t>& symbols) {
  AICF_CHECK(static_cast<bool>(e), "a program of an empty expression");
  Builder builder{axes, symbols, {}};
  builder_ = &builder;
  const std::uint32_t root = add(e);
  builder_ = nullptr;
  mark_eager(root);
  for (std::uint32_t id = 0; id < instructions_.size(); ++id) {
    if (instructions_[id].eager && instructions_[id].stamp != always) schedule_.push_back(id);
  }
}

std::uint32_t ScalarProgram::add(const Expr& e) {
  if (const auto found = builder_->ids.find(e); found != builder_->ids.end()) return found->second;
  std::vector<std::uint32_t> args;
  args.reserve(e.args().size());
  for (const Expr& arg : e.args()) args.push_back(add(arg));

  Instruction instruction{.op = e.op(), .type = e.type(), .argument_type = e.type()};
  if (!args.empty()) instruction.argument_type = e.args()[0].type();
  instruction.first_arg = static_cast<std::uint32_t>(args_.size());
  instruction.arg_count = static_cast<std::uint32_t>(args.size());
  args_.insert(args_.end(), args.begin(), args.end());
  switch (instruction.op) {
    case Op::constant:
      instruction.result = e.number();
      instruction.stamp = always;
      break;
    case Op::symbol: {
      const auto found = builder_->symbols.find(e.name());
      AICF_CHECK(found != builder_->symbols.end(), fmt::format("symbol '{}' has no value", e.name()));
      instruction.result = static_cast<double>(found->second);
      instruction.stamp = always;
      break;
    }
    case Op::axis: {
      const auto found = std::ranges::find(builder_->axes, e.name());
      AICF_CHECK(found != builder_->axes.end(), fmt::format("axis '{}' has no coordinate", e.name()));
      instruction.slot = static_cast<std::uint32_t>(found - builder_->axes.begin());
      break;
    }
    case Op::value:
      instruction.slot = slot_of(values_, e.name());
      break;
    case Op::load:
      instruction.slot = slot_of(tensors_, e.name());
      break;
    default:
      break;
  }
  const auto id = static_cast<std::uint32_t>(instructions_.size());
  instructions_.push_back(instruction);
  nodes_.push_back(e);
  builder_->ids.emplace(e, id);
  return id;
}

void ScalarProgram::mark_eager(std::uint32_t id) {
  Instruction& instruction = instructions_[id];
  if (instruction.eager) return;
  instruction.eager = true;
  const std::uint32_t needed = instruction.op == Op::select ? 1 : instruction.arg_count;
  for (std::uint32_t i = 0; i < needed; ++i) mark_eager(args_[instruction.first_arg + i]);
}

template <bool rounded>
double ScalarProgram::get(std::uint32_t id) {
  Instruction& instruction = instructions_[id];
  if (instruction.eager || instruction.stamp >= run_) return instruction.result;
  instruction.result = compute<rounded>(id);
  instruction.stamp = run_;
  return instruction.result;
}

double ScalarProgram::load(const std::uint32_t* args, const Instruction& instruction) {
  std::array<std::int64_t, 8> few;
  std::vector<std::int64_t> many;
  std::int64_t* index = few.data();
  if (instruction.arg_count > few.size()) {
    many.resize(instruction.arg_count);
    index = many.data();
  }
  for (std::uint32_t i = 0; i < instruction.arg_count; ++i) {
    index[i] = static_cast<std::int64_t>(*round_ ? get<true>(args[i]) : get<false>(args[i]));
  }
  return (*load_)(instruction.slot, {index, instruction.arg_count});
}

template <bool rounded>
double ScalarProgram::compute(std::uint32_t id) {
  const Instruction& instruction = instructions_[id];
  const std::uint32_t* args = args_.data() + instruction.first_arg;
  double operands[3] = {};
  double result = 0;
  const auto a = [&] { return operands[0] = get<rounded>(args[0]); };
  const auto b = [&] { return operands[1] = get<rounded>(args[1]); };
  // The operations that dominate are here, without a call.
  switch (instruction.op) {
    case Op::axis:
      return static_cast<double>(coordinates_[instruction.slot]);
    case Op::value:
      return given_[instruction.slot];
    case Op::load:
      return load(args, instruction);
    case Op::select:
      // The side that is not chosen is not evaluated: the rounding hook sees the chosen value on both.
      result = operands[1] = operands[2] = get<rounded>(args[a() != 0 ? 1 : 2]);
      break;
    case Op::cast:
      result = cast_value(instruction.argument_type, instruction.type, a());
      break;
    case Op::add:
      result = a() + b();
      break;
    case Op::sub:
      result = a() - b();
      break;
    case Op::mul:
      result = a() * b();
      break;
    case Op::lt:
      result = a() < b();
      break;
    case Op::le:
      result = a() <= b();
      break;
    default:
      a();
      if (instruction.arg_count > 1) b();
      result = apply(instruction.op, instruction.type, {operands, instruction.arg_count});
  }
  if constexpr (rounded) return (*round_)(nodes_[id], {operands, instruction.arg_count}, result);
  return result;
}

double ScalarProgram::run(std::span<const std::int64_t> coordinates, std::span<const double> values, const Load& load,
                          const Round& round) {
  AICF_CHECK(values.size() >= values_.size(), "run() without all values");
  AICF_CHECK(tensors_.empty() || load, "run() of loads without tensors");
  ++run_;
  coordinates_ = coordinates;
  given_ = values;
  load_ = &load;
  round_ = &round;
  if (round) {
    for (const std::uint32_t id : schedule_) instructions_[id].result = compute<true>(id);
  } else {
    for (const std::uint32_t id : schedule_) instructions_[id].result = compute<false>(id);
  }
  return instructions_.back().result;
}

}  // namespace aicf
