#pragma once

// Short spellings for thread programs in tests.

#include <string>
#include <utility>
#include <vector>

#include "mir/kernel/thread_program.h"

namespace aicf::thread_builder {

using Kind = ThreadStatement::Kind;

inline Expr lane() {
  return Expr::symbol("lane");
}
inline Expr workgroup() {
  return Expr::symbol("workgroup");
}
inline Expr subgroup() {
  return Expr::symbol("subgroup");
}
inline Expr f(const std::string& name) {
  return Expr::value(name, DType::f32);
}
inline Expr i(const std::string& name) {
  return Expr::value(name, DType::i64);
}
inline Expr c(double value) {
  return Expr::constant(DType::f32, value);
}

inline ThreadStatement declare(DType type, std::vector<std::string> names, Expr value = {}) {
  ThreadStatement s;
  s.kind = Kind::declare, s.type = type, s.names = std::move(names);
  if (value) s.exprs = {std::move(value)};
  return s;
}
inline ThreadStatement declare(const std::string& name, Expr value) {
  const DType type = value.type();
  return declare(type, {name}, std::move(value));
}
inline ThreadStatement assign(const std::string& name, Expr value) {
  ThreadStatement s;
  s.kind = Kind::assign, s.names = {name}, s.exprs = {std::move(value)};
  return s;
}
inline ThreadStatement load(const std::string& buffer, Expr index, std::vector<std::string> names, Expr predicate = {},
                            Expr fill = {}) {
  ThreadStatement s;
  s.kind = Kind::load_global, s.buffer = buffer, s.index = std::move(index), s.names = std::move(names);
  s.predicate = std::move(predicate), s.fill = std::move(fill);
  return s;
}
inline ThreadStatement store(const std::string& buffer, Expr index, std::vector<Expr> values, Expr predicate = {}) {
  ThreadStatement s;
  s.kind = Kind::store_global, s.buffer = buffer, s.index = std::move(index), s.exprs = std::move(values);
  s.predicate = std::move(predicate);
  return s;
}
inline ThreadStatement load_shared(const std::string& array, Expr index, std::vector<std::string> names) {
  ThreadStatement s = load(array, std::move(index), std::move(names));
  s.kind = Kind::load_shared;
  return s;
}
inline ThreadStatement store_shared(const std::string& array, Expr index, std::vector<Expr> values,
                                    Expr predicate = {}) {
  ThreadStatement s = store(array, std::move(index), std::move(values), std::move(predicate));
  s.kind = Kind::store_shared;
  return s;
}
inline ThreadStatement shuffle(const std::string& name, Expr value, Expr from) {
  ThreadStatement s;
  s.kind = Kind::shuffle, s.type = value.type(), s.names = {name}, s.exprs = {std::move(value)},
  s.lane = std::move(from);
  return s;
}
inline ThreadStatement shuffle_xor(const std::string& name, Expr value, std::int64_t mask) {
  ThreadStatement s;
  s.kind = Kind::shuffle_xor, s.type = value.type(), s.names = {name}, s.exprs = {std::move(value)}, s.mask = mask;
  return s;
}
inline ThreadStatement barrier() {
  ThreadStatement s;
  s.kind = Kind::barrier;
  return s;
}
inline ThreadStatement comment(const std::string& text) {
  ThreadStatement s;
  s.kind = Kind::comment, s.text = text;
  return s;
}
inline ThreadStatement loop(const std::string& variable, Expr begin, Expr end, Expr step, ThreadBody body) {
  ThreadStatement s;
  s.kind = Kind::loop, s.variable = variable, s.begin = std::move(begin), s.end = std::move(end),
  s.step = std::move(step);
  s.body = std::move(body);
  return s;
}
inline ThreadStatement branch(Expr predicate, ThreadBody body, bool uniform = false) {
  ThreadStatement s;
  s.kind = Kind::branch, s.predicate = std::move(predicate), s.uniform = uniform, s.body = std::move(body);
  return s;
}
inline KernelBuffer reads(const std::string& name, std::vector<Expr> shape, DType type = DType::f32) {
  return {name, type, std::move(shape), false};
}
inline KernelBuffer writes(const std::string& name, std::vector<Expr> shape, DType type = DType::f32) {
  return {name, type, std::move(shape), true};
}
inline ThreadProgram program(int subgroup_size, int subgroups, Expr workgroups, std::vector<KernelBuffer> buffers,
                             ThreadBody body) {
  ThreadProgram p;
  p.name = "k";
  p.subgroup_size = subgroup_size, p.subgroups = subgroups, p.workgroups = std::move(workgroups);
  p.buffers = std::move(buffers), p.body = std::move(body);
  return p;
}

}  // namespace aicf::thread_builder
