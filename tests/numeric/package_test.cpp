// A package holds everything: written by one process, run by others from the file alone, with the results of a direct
// run; and compiling again gives the same bytes.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/numeric/form_data.h"
#include "tests/runtime/temp_dir.h"

namespace aicf::numeric {
namespace {

/// Exit status of the command, run in `folder` with nothing else in reach by a relative path.
int command(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  std::fflush(nullptr);  // what is buffered is written once, not again by the child
  const pid_t child = ::fork();
  if (child == 0) {
    arguments.insert(arguments.begin(), "aicf");
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) != 0) ::_exit(125);
    if (!::freopen("log", "a", stdout) || !::freopen("log", "a", stderr)) ::_exit(125);
    ::execv(AICF_COMMAND, argv.data());
    ::_exit(126);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Case {
  std::string model;
  Sizes sizes;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model;
}

class PackageRun : public ::testing::TestWithParam<Case> {
 protected:
  TempDir folder_;
  std::string log() const { return read_file(folder_.file("log")); }
};

TEST_P(PackageRun, FromTheFileAlone) {
  const Case& c = GetParam();
  const std::string source = std::string(AICF_TESTS_DIR) + "/models/" + c.model;
  std::filesystem::copy_file(source, folder_.file("model.aicf"));
  NUMERIC_TRY(const Model model, load_model(source));
  NUMERIC_TRY(const NamedTensors inputs, make_inputs(model, c.sizes, {}));
  NUMERIC_TRY(const Sizes symbols, bind_symbols(model, inputs));
  ASSERT_TRUE(ok(write_npz(folder_.file("inputs.npz"), inputs)));

  const auto compile_to = [&](const std::string& name) {
    return command(folder_.path(),
                   {"compile", "model.aicf", "-o", name, "--target", lavapipe, "--target", "cuda-emulation:sm_80"});
  };
  ASSERT_EQ(compile_to("one.aicfpkg"), 0) << log();
  ASSERT_EQ(compile_to("two.aicfpkg"), 0) << log();
  const std::string bytes = read_file(folder_.file("one.aicfpkg"));
  EXPECT_GT(bytes.size(), 1000u);
  EXPECT_TRUE(bytes == read_file(folder_.file("two.aicfpkg"))) << "two compiles differ";

  std::filesystem::remove(folder_.file("model.aicf"));
  for (const std::string device : {lavapipe, "cuda-emulation:sm_80"}) {
    SCOPED_TRACE(device);
    ASSERT_EQ(command(folder_.path(),
                      {"run", "one.aicfpkg", "--device", device, "--inputs", "inputs.npz", "--outputs", "outputs.npz"}),
              0)
        << log();
    NUMERIC_TRY(const NamedTensors outputs, read_tensors(folder_.file("outputs.npz")));
    NUMERIC_TRY(Place place, open_place(device));
    NUMERIC_TRY(const Outcome direct, run_model(place, model, inputs, symbols));
    EXPECT_TRUE(same_bits(outputs, direct.outputs));
    NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, symbols));
    EXPECT_TRUE(within(outputs, expected, 2e-5, 2e-5));
  }
}

// A damaged file is refused, not run.
TEST_P(PackageRun, DamageIsNoticed) {
  std::filesystem::copy_file(std::string(AICF_TESTS_DIR) + "/models/" + GetParam().model, folder_.file("model.aicf"));
  ASSERT_EQ(command(folder_.path(), {"compile", "model.aicf", "-o", "one.aicfpkg", "--target", "cuda-emulation:sm_80"}),
            0)
      << log();
  std::string bytes = read_file(folder_.file("one.aicfpkg"));
  bytes[bytes.size() / 2] ^= 1;
  write_file(folder_.file("one.aicfpkg"), bytes);
  EXPECT_EQ(command(folder_.path(), {"run", "one.aicfpkg", "--device", "cuda-emulation:sm_80"}), 2) << log();
}

// Sizes that the model cannot have together, and an input that asks for training, are refused by the package alone.
TEST(PackageConstraints, AreKeptInTheFile) {
  const TempDir folder;
  write_file(folder.file("model.aicf"), R"(g(a: f32[n, 4], b: f32[m, 4], training: bool, ids: i64[1]) -> y
y = Gather(Add(a, Dropout(b, 0.5, training)), ids)
)");
  const auto run = [&](std::int64_t m, bool training, double id = 2) {
    Tensor mode(DType::boolean, {}), ids(DType::i64, {1});
    mode.set(0, training);
    ids.set(0, id);
    const NamedTensors inputs{
        {"a", Tensor(DType::f32, {3, 4})}, {"b", Tensor(DType::f32, {m, 4})}, {"training", mode}, {"ids", ids}};
    EXPECT_TRUE(ok(write_npz(folder.file("inputs.npz"), inputs)));
    return command(folder.path(), {"run", "p.aicfpkg", "--device", "null", "--inputs", "inputs.npz"});
  };
  ASSERT_EQ(command(folder.path(), {"compile", "model.aicf", "-o", "p.aicfpkg", "--target", "null"}), 0)
      << read_file(folder.file("log"));
  EXPECT_EQ(run(3, false), 0) << read_file(folder.file("log"));
  EXPECT_EQ(run(2, false), 2);
  EXPECT_EQ(run(3, true), 3);
  EXPECT_EQ(run(3, false, -4), 2);
  const std::string log = read_file(folder.file("log"));
  EXPECT_NE(log.find("n is 3 and m is 2, which must agree"), std::string::npos) << log;
  EXPECT_NE(log.find("input 'ids' holds -4 at element 0, which indexes a dim of 3"), std::string::npos) << log;
  EXPECT_NE(log.find("input 'training' is true: training mode"), std::string::npos) << log;
}

INSTANTIATE_TEST_SUITE_P(Models, PackageRun,
                         ::testing::Values(Case{"forms/masked_attention.aicf", {{"head", 2}, {"q", 9}, {"kv", 21}}},
                                           Case{"forms/layer_normalisation.aicf", {{"rows", 5}}}),
                         [](const auto& info) { return test_name(std::filesystem::path(info.param.model).stem()); });

}  // namespace
}  // namespace aicf::numeric
