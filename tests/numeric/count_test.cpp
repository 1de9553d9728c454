// Bytes that the emulation counts while the emitted source runs equal those that the interpreter counts on the same
// thread program, tensor by tensor; and no other tensor is written.

#include <fmt/format.h>

#include <algorithm>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

struct Case {
  std::string model;
  bool fuse;
  std::map<std::string, std::string> forced;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << (c.fuse ? "" : " unfused");
}

std::vector<double> values_of(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.size()));
  for (std::int64_t i = 0; i < t.size(); ++i) out[static_cast<std::size_t>(i)] = t.at(i);
  return out;
}

std::uint64_t entry(const std::map<std::string, std::uint64_t>& counts, const std::string& name) {
  const auto it = counts.find(name);
  return it == counts.end() ? 0 : it->second;
}

class CountedBytes : public ::testing::TestWithParam<Case> {};

TEST_P(CountedBytes, EmulationEqualsInterpreter) {
  const CorpusCase& c = corpus_case(GetParam().model);
  NUMERIC_TRY(Place place, open_place(emulation));
  NUMERIC_TRY(const NamedTensors inputs, read_tensors(c.runs[0].inputs));
  NUMERIC_TRY(const Model model, load_model(c.model));
  NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
  CompileOptions options;
  options.fuse = GetParam().fuse;
  options.schedule.forced = GetParam().forced;
  NUMERIC_TRY(const Outcome outcome, run_model(place, model, inputs, symbols, options));

  const Program& program = outcome.compiled.program;
  std::map<std::string, std::vector<double>> memory;
  for (const BufferPlan& b : program.buffers) {
    std::int64_t elements = 1;
    for (const Expr& d : b.shape) {
      NUMERIC_TRY(const std::int64_t n, evaluate_int(d, symbols));
      elements *= n;
    }
    memory[b.name].assign(static_cast<std::size_t>(elements), 0.0);
    if (b.kind == BufferPlan::Kind::input) memory[b.name] = values_of(inputs.at(b.name));
    if (b.kind == BufferPlan::Kind::constant)
      memory[b.name] = values_of(program.constants.at(static_cast<std::size_t>(b.constant)));
  }

  std::vector<const ThreadProgram*> programs;
  for (const CompiledRegion& r : outcome.compiled.regions)
    for (const ThreadProgram& p : r.chosen.programs) programs.push_back(&p);
  ASSERT_EQ(programs.size(), outcome.run.launches.size());
  std::uint64_t total = 0;
  for (std::size_t l = 0; l < programs.size(); ++l) {
    const ThreadProgram& p = *programs[l];
    const Launch& launch = program.launches[l];
    const DispatchCounters& counted = outcome.run.launches[l].counters;
    ASSERT_EQ(counted.bytes_read.size(), p.buffers.size()) << p.name;
    ASSERT_EQ(launch.buffers.size(), p.buffers.size()) << p.name;
    InterpreterInput io;
    for (const std::string& s : p.symbols) io.symbols[s] = symbols.at(s);
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      const BufferPlan& plan = program.buffers[static_cast<std::size_t>(launch.buffers[b])];
      io.buffers[p.buffers[b].name] = memory.at(plan.name);
      EXPECT_EQ(p.buffers[b].written, plan.kind == BufferPlan::Kind::output ||
                                          (plan.kind == BufferPlan::Kind::intermediate && counted.bytes_written[b] > 0))
          << plan.name << " in " << p.name;
    }
    NUMERIC_TRY(const KernelCounts expected, interpret(p, io));
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      const std::string& name = p.buffers[b].name;
      EXPECT_EQ(counted.bytes_read[b], entry(expected.bytes_read, name)) << p.name << " reads " << name;
      EXPECT_EQ(counted.bytes_written[b], entry(expected.bytes_written, name)) << p.name << " writes " << name;
      // Each element of what a launch writes, once.
      if (p.buffers[b].written) {
        EXPECT_EQ(counted.bytes_written[b], io.buffers.at(name).size() * device_size(p.buffers[b].type)) << name;
      }
      total += counted.bytes_read[b] + counted.bytes_written[b];
    }
    for (std::size_t b = 0; b < p.buffers.size(); ++b)
      memory[program.buffers[static_cast<std::size_t>(launch.buffers[b])].name] =
          std::move(io.buffers[p.buffers[b].name]);
  }
  EXPECT_GT(total, 0u);

  // What the interpreter computed on the way is the model's result.
  NUMERIC_TRY(const NamedTensors expected, read_tensors(c.runs[0].expected));
  NamedTensors interpreted;
  for (const auto& [output, node] : model.output_of) {
    Tensor t(DType::f32, expected.at(output).shape());
    const std::vector<double>& values = memory.at(node);
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), t.size());
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, values[static_cast<std::size_t>(i)]);
    interpreted[output] = std::move(t);
  }
  EXPECT_TRUE(within(interpreted, expected, c.absolute, c.relative));
}

INSTANTIATE_TEST_SUITE_P(All, CountedBytes,
                         ::testing::Values(Case{"attn-cross-ts17", true, {}}, Case{"attn-cross-ts17", false, {}},
                                           Case{"attn-causal-short-q-dy18",
                                                true,
                                                {{"residency.k", "workgroup"}, {"residency.v", "workgroup"}}},
                                           Case{"attn-dynamic-dy18", true, {{"split", "2"}}},
                                           Case{"attn-bool-dy23", true, {}}, Case{"near-layernorm-dy18", true, {}},
                                           Case{"near-variance-ts17", true, {}},
                                           Case{"near-softmax-middle-ts17", true, {}},
                                           Case{"near-swiglu-dy18", false, {}}),
                         [](const auto& info) {
                           return test_name(info.param.model + (info.param.fuse ? "" : "_unfused") +
                                            (info.param.forced.empty() ? "" : "_" + info.param.forced.begin()->first));
                         });

}  // namespace
}  // namespace aicf::numeric
