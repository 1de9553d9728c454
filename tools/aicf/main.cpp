#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <system_error>

#include "mir/support/interrupt.h"
#include "runtime/file_io.h"
#include "runtime/no_memory.h"
#include "tools/aicf/command.h"
#include "tools/aicf/progress.h"

namespace {

using aicf::command::Options;

void add_model(CLI::App* app, Options& o) {
  app->add_option("MODEL", o.model, "ONNX file, text form (.aicf), or a package where one can be run")->required();
  app->add_option("--bind", o.bind, "size of a symbolic dimension, NAME=VALUE")->expected(1)->take_all();
}

void add_choices(CLI::App* app, Options& o) {
  app->add_option("--fusion", o.fusion, "on: derive streaming regions; off: every operation alone")
      ->check(CLI::IsMember({"on", "off"}));
  app->add_option("--schedule", o.forced, "force a choice, KEY=VALUE (residency.k=workgroup, tile.q=32, split=4)")
      ->expected(1)
      ->take_all();
  app->add_option("--optimize-for", o.optimize_for, "what the schedule minimises")
      ->check(CLI::IsMember({"first-run", "throughput"}));
  app->add_option("--cache", o.cache, "AICF's own caches")->check(CLI::IsMember({"on", "off"}));
}

void add_memory(CLI::App* app, Options& o) {
  app->add_option("--max-memory", o.max_memory, "bytes a run may take on a device (512M, 2G)")
      ->transform(CLI::AsSizeValue(false));
}

void add_values(CLI::App* app, Options& o) {
  app->add_option("--inputs", o.inputs, ".npz, .npy or ONNX .pb file, several allowed; without it values are made")
      ->expected(1)
      ->take_all();
  app->add_option("--seed", o.seed, "seed of made values");
  add_memory(app, o);
}

}  // namespace

int main(int argc, char** argv) {
  aicf::end_cleanly_on_signals();
  CLI::App app{"AICF derives streaming kernels from tensor graphs, for Vulkan and CUDA"};
  app.require_subcommand(1);
  Options o;
  app.fallthrough();
  app.add_flag("--json", o.json, "one JSON document on stdout");
  app.add_flag("--quiet", o.quiet, "no progress and no remarks on stderr");

  auto* devices = app.add_subcommand("devices", "what can run here and what can be compiled for");

  auto* compile = app.add_subcommand("compile", "one package for one or several targets");
  add_model(compile, o);
  compile->add_option("-o,--output", o.output, "package file")->required();
  compile->add_option("--target", o.targets, "profile or device")->required()->expected(1)->take_all();
  compile
      ->add_option("--weights", o.weights,
                   "embed: into the package; reference: large ones stay in the model's data files")
      ->check(CLI::IsMember({"embed", "reference"}));
  add_choices(compile, o);

  auto* run = app.add_subcommand("run", "run a model or package on a device");
  add_model(run, o);
  run->add_option("--device", o.devices, "reference, vulkan:NAME, cuda-emulation[:ARCH], cuda:INDEX")
      ->expected(1)
      ->take_all();
  run->add_option("--outputs", o.outputs, "write outputs to this .npz");
  add_values(run, o);
  add_choices(run, o);

  auto* verify =
      app.add_subcommand("verify", "compare devices with the float64 reference, expected values and each other");
  add_model(verify, o);
  verify->add_option("--device", o.devices, "as for run; several allowed")->expected(1)->take_all();
  verify->add_option("--repro", o.repro, "folder for the smallest model that differs; of a second device FOLDER-2")
      ->check([](const std::string& folder) { return folder.empty() ? "a folder is needed" : ""; });
  verify->add_option("--expect", o.expect, ".npz of right values");
  verify->add_option("--abs", o.absolute, "absolute tolerance");
  verify->add_option("--rel", o.relative,
                     "tolerance relative to the largest expected magnitude (1e-4; f16 0.002, bf16 0.016, integers 0)");
  add_values(verify, o);
  add_choices(verify, o);

  auto* explain = app.add_subcommand("explain", "what was found, derived and chosen, level by level");
  add_model(explain, o);
  explain->add_option("--target", o.targets, "profile or device; several allowed")->expected(1)->take_all();
  explain->add_option("--stage", o.stage, "level to print")
      ->check(CLI::IsMember(
          {"all", "summary", "semantic", "canonical", "region", "stream", "schedule", "kernel", "source", "binary"}));
  explain->add_option("--region", o.region, "only this region");
  explain->add_flag("--dot", o.dot, "Graphviz instead of text (semantic, canonical, stream)");
  add_memory(explain, o);
  add_choices(explain, o);

  auto* bench = app.add_subcommand("bench", "medians on devices");
  add_model(bench, o);
  bench->add_option("--device", o.devices, "as for run; several allowed")->expected(1)->take_all();
  bench->add_option("--against", o.against, "also measure this plan")->check(CLI::IsMember({"unfused"}));
  bench->add_option("--reps", o.repetitions, "repetitions")->check(CLI::Range(1, 100000));
  add_values(bench, o);
  add_choices(bench, o);

  auto* compare = app.add_subcommand("compare", "the fused and the unfused plan side by side, on every device");
  add_model(compare, o);
  compare->add_option("--device", o.devices, "as for run; several allowed")->expected(1)->take_all();
  compare->add_option("--expect", o.expect, ".npz of right values (default: the reference)");
  compare->add_option("--outputs", o.outputs, "write the first device's outputs of the fused plan to this .npz");
  add_values(compare, o);
  add_choices(compare, o);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int status = app.exit(e);
    return status == 0 ? 0 : aicf::command::bad;
  }

  if (o.cache == "off") setenv("AICF_CACHE", "off", 1);
  const char* terminal = std::getenv("TERM");
  if (!o.json && !o.quiet && isatty(STDERR_FILENO) && terminal && std::string_view(terminal) != "dumb")
    aicf::command::show_progress();
  auto run_command = [&]() -> aicf::Result<int> {
    return devices->parsed()   ? aicf::command::devices(o)
           : compile->parsed() ? aicf::command::compile(o)
           : run->parsed()     ? aicf::command::run(o)
           : verify->parsed()  ? aicf::command::verify(o)
           : compare->parsed() ? aicf::command::compare_plans(o)
           : explain->parsed() ? aicf::command::explain(o)
                               : aicf::command::bench(o);
  };
  // What the standard library throws where the machine fails: an allocation, or output that cannot be written.
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of the write
  aicf::Result<int> status = 0;
  try {
    status = run_command();
    if (auto read = aicf::check_mapped_files(); status && !read) status = std::unexpected(read.error());
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      status = aicf::run_failure("the output cannot be written");
  } catch (const aicf::NoMemory& e) {
    status = aicf::run_failure(e.what());
  } catch (const std::bad_alloc&) {
    status = aicf::run_failure("out of memory");
  } catch (const std::system_error& e) {
    status = aicf::run_failure(fmt::format("the output cannot be written: {}", e.code().message()));
  }
  const aicf::NoInterrupt ending;
  if (status) return *status;
  const aicf::Diagnostic& d = status.error();
  const int code = d.kind == aicf::ErrorKind::unsupported ? aicf::command::not_supported
                   : d.kind == aicf::ErrorKind::bad_input ? aicf::command::bad
                                                          : aicf::command::differs;
  fmt::print(stderr, "aicf: {}\n", d.text());
  if (o.json) fmt::print("{}\n", aicf::command::Json{{"error", d.text()}, {"exit", code}}.dump());
  return code;
}
