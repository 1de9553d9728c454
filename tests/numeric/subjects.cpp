#include "tests/numeric/subjects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

namespace aicf::numeric {

namespace {

StreamingRegion golden_region(const std::string& name) {
  const std::string file = name + ".region";
  std::ifstream in(std::string(AICF_TESTS_DIR) + "/golden/kernels/" + file);
  std::stringstream text;
  text << in.rdbuf();
  auto region = parse_streaming_region(text.str(), file);
  AICF_CHECK(region.has_value(), region.error().text());
  const auto valid = verify(*region);
  AICF_CHECK(valid.has_value(), valid.error().text());
  return *std::move(region);
}

// Odd multiples of 1/8 below 2: never 0, and products and sums of the scores are exact in f32, whatever the order.
std::vector<double> made(std::size_t n, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<double> out(n);
  for (double& v : out) v = static_cast<double>(bits() % 16) / 4 - 1.875;
  return out;
}

// ---- schedules ---------------------------------------------------------------------------------------------------

void deliver(Schedule& s, std::vector<std::string> tiles, Delivery how) {
  for (const std::string& t : tiles) {
    s.tiles[t].delivery = how;
    s.tiles[t].residency = how == Delivery::workgroup ? Residency::workgroup : Residency::subgroup_register;
    s.tiles[t].vector_width = 4;
    s.tiles[t].row_padding = how == Delivery::workgroup ? 4 : 0;
  }
}

Schedule cascade_schedule(Delivery how, int subgroups) {
  Schedule s;
  s.subgroup_size = 8;
  s.subgroups = subgroups;
  s.axes["q"].factors = {{Level::lane, 8}};
  s.axes["q"].factors.push_back(subgroups > 1 ? AxisFactor{Level::subgroup, subgroups} : AxisFactor{Level::reg, 2});
  s.axes["kv"].factors = {{Level::reg, 4}};
  s.axes["d"].factors = {{Level::reg, 8}};
  s.axes["e"].factors = {{Level::reg, 8}};
  s.tiles["qt"].vector_width = 4;
  deliver(s, {"kt", "vt"}, how);
  return s;
}

Schedule rows_schedule() {
  Schedule s;
  s.subgroup_size = 8;
  s.subgroups = 2;
  s.axes["col"].factors = {{Level::reg, 2}, {Level::lane, 4}, {Level::subgroup, 2}};
  s.axes["row"].factors = {{Level::lane, 2}};
  return s;
}

Schedule product_schedule() {
  Schedule s;
  s.subgroup_size = 8;
  s.subgroups = 2;
  s.axes["i"].factors = {{Level::reg, 4}, {Level::subgroup, 2}};
  s.axes["j"].factors = {{Level::reg, 2}, {Level::lane, 8}};
  s.axes["k"].factors = {{Level::reg, 8}};
  deliver(s, {"at", "bt"}, Delivery::workgroup);
  return s;
}

// ---- right results -----------------------------------------------------------------------------------------------

void normalise(std::vector<double>& scores) {
  const double largest = *std::ranges::max_element(scores);
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - largest);
  for (double& s : scores) s /= total;
}

void cascade_data(Subject& s) {
  constexpr std::size_t batches = 2, rows = 20, keys = 9, d = 8;
  s.inputs = {
      {"Q", made(batches * rows * d, 1)}, {"K", made(batches * keys * d, 2)}, {"V", made(batches * keys * d, 3)}};
  // Scores of one batch are moderate; those of the other are so large that only their true maximum keeps exp finite.
  for (std::size_t i = rows * d; i < batches * rows * d; ++i) s.inputs["Q"][i] *= 64;
  std::vector<double>& out = s.expected["Out"];
  out.assign(batches * rows * d, 0);
  for (std::size_t b = 0; b < batches; ++b)
    for (std::size_t q = 0; q < rows; ++q) {
      std::vector<double> weights(keys, 0);
      for (std::size_t k = 0; k < keys; ++k)
        for (std::size_t i = 0; i < d; ++i)
          weights[k] += s.inputs["Q"][(b * rows + q) * d + i] * s.inputs["K"][(b * keys + k) * d + i];
      normalise(weights);
      for (std::size_t k = 0; k < keys; ++k)
        for (std::size_t e = 0; e < d; ++e)
          out[(b * rows + q) * d + e] += weights[k] * s.inputs["V"][(b * keys + k) * d + e];
    }
}

void rows_data(Subject& s) {
  constexpr std::size_t rows = 5, columns = 33;
  s.inputs = {{"X", made(rows * columns, 4)}};
  // One element of these rows is so large that only the true maximum keeps exp finite; once at an even place, once odd.
  s.inputs["X"][3 * columns + 6] = 400;
  s.inputs["X"][4 * columns + 21] = 400;
  std::vector<double>& out = s.expected["Y"];
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = s.inputs["X"].begin() + static_cast<std::ptrdiff_t>(r * columns);
    std::vector<double> weights(row, row + columns);
    normalise(weights);
    out.insert(out.end(), weights.begin(), weights.end());
  }
}

void product_data(Subject& s) {
  constexpr std::size_t m = 16, n = 32, k = 16;
  s.inputs = {{"A", made(m * k, 5)}, {"B", made(k * n, 6)}};
  std::vector<double>& out = s.expected["C"];
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t x = 0; x < k; ++x) sum += s.inputs["A"][i * k + x] * s.inputs["B"][x * n + j];
      out.push_back(sum);
    }
}

Subject make(const std::string& name, const std::string& region, Schedule schedule, void (*data)(Subject&)) {
  Subject s{name, {golden_region(region), std::move(schedule)}, {}, {}, {}, {}};
  auto lowered = lower(s.scheduled);
  AICF_CHECK(lowered.has_value(), name + ": " + lowered.error().text());
  s.lowered = *std::move(lowered);
  for (const Kernel& k : s.lowered.kernels) {
    auto program = expand(k);
    AICF_CHECK(program.has_value(), name + ": " + program.error().text());
    s.programs.push_back(*std::move(program));
  }
  data(s);
  return s;
}

bool close(const std::vector<double>& actual, const std::vector<double>& expected, std::string* message) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(actual[i] - expected[i]) <= 1e-4 * (1 + std::fabs(expected[i])))) {
      *message = fmt::format("element {} is {} instead of {}", i, actual[i], expected[i]);
      return false;
    }
  return true;
}

}  // namespace

void PrintTo(const Subject& s, std::ostream* out) {
  *out << s.name;
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> out;
    out.push_back(make("broadcast", "cascade", cascade_schedule(Delivery::lane_broadcast, 1), cascade_data));
    out.push_back(make("staged", "cascade", cascade_schedule(Delivery::workgroup, 2), cascade_data));
    Schedule split = cascade_schedule(Delivery::lane_broadcast, 1);
    split.split = 2;
    out.push_back(make("split", "cascade", split, cascade_data));
    out.push_back(make("rows", "rows", rows_schedule(), rows_data));
    out.push_back(make("product", "product", product_schedule(), product_data));
    return out;
  }();
  return all;
}

const char* name(Catcher catcher) {
  switch (catcher) {
    case Catcher::verify:
      return "verify";
    case Catcher::expand:
      return "expand";
    case Catcher::interpreter:
      return "interpreter";
    case Catcher::result:
      return "result";
    case Catcher::nobody:
      return "nobody";
  }
  return "?";
}

Catcher run(const Subject& subject, const std::vector<ThreadProgram>& programs, std::string* message) {
  InterpreterInput memory{subject.inputs, {}};
  for (const ThreadProgram& p : programs)
    for (const KernelBuffer& b : p.buffers) {
      std::int64_t elements = 1;
      for (const Expr& d : b.shape) elements *= *evaluate_int(d, {});
      memory.buffers.try_emplace(b.name, static_cast<std::size_t>(elements), -12345.0);
    }
  for (const ThreadProgram& p : programs) {
    InterpreterInput io;
    for (const KernelBuffer& b : p.buffers) io.buffers[b.name] = memory.buffers.at(b.name);
    if (const auto counts = interpret(p, io); !counts) {
      *message = counts.error().text();
      return Catcher::interpreter;
    }
    for (auto& [buffer, values] : io.buffers) memory.buffers[buffer] = std::move(values);
  }
  for (const auto& [buffer, values] : subject.expected)
    if (!close(memory.buffers.at(buffer), values, message)) return Catcher::result;
  for (const auto& [buffer, values] : subject.inputs)
    if (memory.buffers.at(buffer) != values) return Catcher::result;
  return Catcher::nobody;
}

Catcher run(const Subject& subject, const std::vector<Kernel>& kernels, std::string* message) {
  std::vector<ThreadProgram> programs;
  for (const Kernel& k : kernels) {
    if (const auto valid = verify(k); !valid) {
      *message = valid.error().text();
      return Catcher::verify;
    }
    auto program = expand(k);
    if (!program) {
      *message = program.error().text();
      return Catcher::expand;
    }
    programs.push_back(*std::move(program));
  }
  return run(subject, programs, message);
}

}  // namespace aicf::numeric
