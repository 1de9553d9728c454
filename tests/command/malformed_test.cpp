// Files of strangers: each is answered by one message that names what is wrong and where, in bounded time and memory,
// with no device and no file outside the model's folder.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/command/subprocess.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path folder = AICF_TESTS_DIR "/models/malformed";

/// Runs, and checks what holds for every file: an exit status of those given, one line of message that has all `names`,
/// 5 seconds, 512 MiB.
Ended refused(const std::vector<std::string>& arguments, const std::vector<int>& exits,
              const std::vector<std::string>& names, const CommandOptions& options = {}) {
  const Ended ended = run_command(arguments, options);
  EXPECT_THAT(exits, Contains(ended.exit)) << "signal " << ended.signal << "\n" << ended.err;
  EXPECT_LT(ended.seconds, 5);
  EXPECT_LT(ended.peak_kib, 512 * 1024);
  if (ended.exit == 0) return ended;
  EXPECT_TRUE(ended.err.starts_with("aicf: ")) << ended.err;
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
  EXPECT_LT(ended.err.size(), 2000u);
  for (const std::string& name : names) EXPECT_THAT(ended.err, HasSubstr(name));
  for (const unsigned char c : ended.err) EXPECT_TRUE(c >= 0x20 || c == '\n') << "control character in the message";
  return ended;
}

struct Broken {
  std::string file;
  std::vector<std::string> names;
  std::vector<int> exits;
};
void PrintTo(const Broken& b, std::ostream* out) {
  *out << b.file;
}

std::vector<Broken> broken_files() {
  std::vector<Broken> result;
  const auto index = nlohmann::json::parse(std::ifstream(folder / "index.json"));
  for (const auto& f : index["files"]) result.push_back({f["file"], f["names"], f["exit"]});
  return result;
}

class Malformed : public ::testing::TestWithParam<Broken> {};

TEST_P(Malformed, ExplainNamesWhatIsWrongAndWhere) {
  const Broken& b = GetParam();
  std::vector<std::string> names = b.names;
  names.push_back(b.file);
  refused({"explain", (folder / b.file).string()}, b.exits, names);
}

INSTANTIATE_TEST_SUITE_P(Files, Malformed, ::testing::ValuesIn(broken_files()), [](const auto& info) {
  std::string name = info.param.file;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST(MalformedFolder, EveryFileStandsInTheIndex) {
  std::set<std::string> known;
  for (const Broken& b : broken_files()) known.insert(b.file);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".onnx" && extension != ".aicf") continue;
    EXPECT_TRUE(known.contains(entry.path().filename())) << entry;
  }
}

/// Files that a fixed one could not be: made large, or linked, for one test.
class Made : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.file(name), content);
    return dir_.file(name);
  }
  static std::string repeat(const std::string& text, int times) {
    std::string out;
    while (times-- > 0) out += text;
    return out;
  }
  TempDir dir_;
};

TEST_F(Made, TextThatNestsDeep) {
  const int n = 100'000;
  refused({"explain", write("calls.aicf", "m(x: f32[4]) -> y\ny = " + repeat("Neg(", n) + "x" + repeat(")", n))}, {2},
          {"calls.aicf:2:", "nested"});
  refused({"explain", write("types.aicf", "m(x: f32[4]) -> y\ny = Add(x, " + repeat("f32(", n) + "1" + repeat(")", n))},
          {2}, {"types.aicf:2:"});
  refused({"explain", write("size.aicf", "m(x: f32[" + repeat("(", n) + "n" + repeat(")", n) + "]) -> y\ny = Neg(x)")},
          {0, 2}, {});
  refused({"explain", write("lists.aicf", "m(x: f32[4]) -> y\ny = Reshape(x, " + repeat("[", n))}, {2},
          {"lists.aicf:2:"});
}

TEST_F(Made, TextThatAsksForMuch) {
  refused({"explain", write("a.aicf", "m(x: f32[4]) -> y\nw: f32[1000000000000] = 0\ny = Add(x, w)\n")}, {2},
          {"a.aicf:2:"});
  refused({"explain", write("b.aicf", "m(x: f32[4]) -> y\nw: f32[200000000] = 0\ny = Add(x, w)\n")}, {2},
          {"b.aicf:2:"});
  refused({"explain", write("c.aicf", "m(x: f32[4]) -> y\ny = Add(x, f32[99999999999999999999](0))\n")}, {2},
          {"c.aicf:2:"});
  refused({"explain", write("d.aicf", "m(x: f32[99999999999999999999]) -> y\ny = Neg(x)\n")}, {2},
          {"d.aicf:1:", "99999999999999999999"});
  refused({"explain", write("e.aicf", "m(x: f32[4]) -> y\n" + repeat("# " + std::string(998, '-') + "\n", 5000))}, {2},
          {"e.aicf", "bytes"});
  std::string product = "(a + b)";
  for (int k = 0; k < 20; ++k) product += " * (a" + std::to_string(k) + " + b" + std::to_string(k) + ")";
  refused({"explain", write("f.aicf", "m(x: f32[" + product + "]) -> y\ny = Neg(x)\n")}, {0, 2, 3}, {});
}

/// t0 = `first`, t1 = `step` of t0 and so on; `$` stands for the value before. A value that reads the one before twice has
/// 2^`times` operations when it is written out as a tree.
struct Chain {
  std::string inputs, first, step, last;
  int times = 40;

  std::string text() const {
    const auto of = [](std::string line, int k) {
      for (std::size_t at = 0; (at = line.find('$')) != std::string::npos;)
        line.replace(at, 1, "t" + std::to_string(k));
      return line + "\n";
    };
    std::string out = "m(" + inputs + ") -> y\nt0 = " + first + "\n";
    for (int k = 1; k < times; ++k) out += "t" + std::to_string(k) + " = " + of(step, k - 1);
    return out + "y = " + of(last, times - 1);
  }
};
void PrintTo(const Chain& c, std::ostream* out) {
  *out << c.step << " then " << c.last;
}

class Doubling : public Made, public ::testing::WithParamInterface<Chain> {};

TEST_P(Doubling, EndsInTime) {
  const std::string file = write("chain.aicf", GetParam().text());
  refused({"explain", file}, {0, 2, 3}, {});
}

std::vector<Chain> doubling_chains() {
  const std::string row = "x: f32[n, 4]";
  std::vector<Chain> out{{row, "Shape(x)", "Mul($, Add($, 1))", "ConstantOfShape($)", 40},
                         {row, "Range(0, 1000, 1)", "Add(Mul($, $), $)", "Cast($, to=1)", 40},
                         {row, "Neg(x)", "Concat($, $, axis=1)", "Neg($)", 24},
                         {row, "Neg(x)", "Add($, $)", "Neg($)"}};
  const std::string floats = "x: f32[8, 8], w: f32[8, 8], b: f32[8, 8], c: bool[8, 8], d: bool[8, 8]";
  const std::string product = "MatMul(w, Transpose(w, perm=[1, 0]))";
  for (const char* step :
       {"Where(c, Add($, Neg($)), Sub($, Where(c, $, x)))", "Min(Max($, b), Add($, x))", "Sub(Neg($), Mul($, b))",
        "Exp(Sub(Log(Add(Abs($), 1.0)), Abs($)))", "Slice(Concat($, Neg($), axis=1), [4], [12], [1])",
        "Add($, Transpose($, perm=[1, 0]))", "Add(Expand(Slice($, [0], [1], [0]), [8, 8]), $)"}) {
    out.push_back({floats, "Identity(x)", step, "MatMul(Softmax($), w)"});           // as scores
    out.push_back({floats, "MatMul(Softmax(" + product + "), x)", step, "Neg($)"});  // after
  }
  for (const char* step :
       {"Or(And($, c), And(Not($), d))", "Where($, c, Not($))", "Less(Cast($, to=1), Add(Cast($, to=1), x))"}) {
    out.push_back({floats, "Or(c, d)", step, "MatMul(Softmax(Where($, " + product + ", -inf)), w)"});
  }
  const std::string sized = "x: f32[n, n], w: f32[n, 8]", n = "Squeeze(Slice(Shape(x), [0], [1]), [0])";
  const std::string positions = "Range(0, " + n + ", 1)";
  for (const char* step : {"Mul($, Add($, 1))", "Mod(Mul($, Add($, 5)), Add(Abs($), 3))",
                           "Add(Mul(Div($, 3), 5), Mod($, 7))", "Where(Less($, 4), Add($, 3), Sub($, 2))"}) {
    out.push_back({sized, "Identity(" + positions + ")", step,
                   "MatMul(Softmax(Where(Less(Unsqueeze($, [1]), Unsqueeze(" + positions + ", [0])), x, -inf)), w)"});
    out.push_back({sized, "Identity(" + positions + ")", step, "Gather(x, Mod(Abs($), " + n + "), axis=1)"});
    out.push_back({sized, n, step, "Slice(x, [0], Unsqueeze($, [0]), [0])"});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Chains, Doubling, ::testing::ValuesIn(doubling_chains()));

TEST_F(Made, FilesOutsideTheFolderStayUnread) {
  // Everything that the models ask for exists: only the refusal keeps it from being read.
  const fs::path inside = dir_.path() / "inside";
  fs::create_directories(inside / "sub");
  write("outside.bin", std::string(64, '\x11'));
  const auto copy = [&](const std::string& name) {
    fs::copy_file(folder / name, inside / name, fs::copy_options::overwrite_existing);
    return (inside / name).string();
  };
  refused({"explain", copy("external-parent-path.onnx")}, {2}, {"tensor 'w'", "leaves the model's folder"});
  refused({"explain", copy("external-parent-path-inside.onnx")}, {2}, {"tensor 'w'", "leaves the model's folder"});
  fs::create_symlink("../outside.bin", inside / "absent.bin");
  refused({"explain", copy("external-missing.onnx")}, {2}, {"tensor 'w'", "link"});
  fs::remove(inside / "absent.bin");
  fs::create_hard_link(dir_.path() / "outside.bin", inside / "absent.bin");
  refused({"explain", copy("external-missing.onnx")}, {2}, {"tensor 'w'", "hard link"});
  fs::remove(inside / "absent.bin");
  fs::copy_file(dir_.path() / "outside.bin", inside / "absent.bin");
  EXPECT_EQ(run_command({"explain", copy("external-missing.onnx"), "--stage", "summary"}).exit, 0)
      << "the file itself is fine";
}

// More operations than a region takes: what lies between two of them says so.
TEST_F(Made, ExplainSaysWhyAChainIsCut) {
  std::string text = "m(x: f32[n], w: f32[n]) -> y\nv0 = Mul(x, w)\n";
  for (int i = 1; i < 700; ++i) text += fmt::format("v{} = Tanh(Add(v{}, w))\n", i, i - 1);
  const Ended ended = run_command({"explain", write("chain.aicf", text + "y = Neg(v699)\n"), "--stage", "region"});
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("a region takes at most 512 operations (capacity)"));
  EXPECT_THAT(ended.out, HasSubstr("written: y by map_2: it is an output of the model (output)"));
}

TEST_F(Made, ExplainOpensNoDevice) {
  const auto libraries = [&](const std::vector<std::string>& arguments) {
    CommandOptions options;
    options.environment = {{"LD_DEBUG", "files"}, {"LD_DEBUG_OUTPUT", dir_.file("loader")}};
    run_command(arguments, options);
    std::string all;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      if (!entry.path().filename().string().starts_with("loader")) continue;
      all += read_file(entry.path());
      fs::remove(entry.path());
    }
    return all;
  };
  const std::string explained = libraries({"explain", AICF_TESTS_DIR "/models/attention.aicf"});
  EXPECT_THAT(explained, HasSubstr("libc.so"));
  EXPECT_THAT(explained, Not(HasSubstr("libvulkan")));
  EXPECT_THAT(explained, Not(HasSubstr("libcuda")));
  EXPECT_THAT(libraries({"devices"}), AnyOf(HasSubstr("libvulkan"), HasSubstr("libcuda"))) << "what the absence means";
}

TEST_F(Made, DamagedInputs) {
  const std::string model = write("m.aicf", "m(x: f32[2, 3]) -> y\ny = Neg(x)\n");
  const auto run = [&](const std::string& input, const std::vector<std::string>& names) {
    refused({"run", model, "--device", "null", "--inputs", input}, {2}, names);
  };
  const std::string npz = read_file(AICF_TESTS_DIR "/models/attn-causal-dy18/inputs.npz");
  ASSERT_FALSE(npz.empty());
  run(write("cut.npz", npz.substr(0, npz.size() / 2)), {"cut.npz"});
  run(write("empty.npz", ""), {"empty.npz"});
  run(write("noise.npz", std::string(1000, '\x5a')), {"noise.npz"});
  // 2^62 elements of one byte each; a header that is no dictionary; a header that is longer than the file.
  const auto npy = [](const std::string& header) {
    std::string text = header + std::string(117 - header.size() % 64 + 64, ' ');
    text.resize((text.size() + 10) / 64 * 64 + 64 - 11, ' ');
    text += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size() & 0xff) +
           static_cast<char>(text.size() >> 8) + text;
  };
  run(write("huge.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 3), }")),
      {"huge.npy"});
  run(write("short.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }")), {"short.npy"});
  run(write("object.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }")), {"object.npy"});
  run(write("words.npy", npy("rm -rf")), {"words.npy"});
  run(write("long.npy", std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), {"long.npy"});
  run(write("cut.pb", std::string("\x0a\x7f\x01", 3)), {"cut.pb", "byte 0"});
  run(write("short.pb", std::string("\x08\x02\x08\x03\x10\x01\x4a\x04\x00\x00\x80\x3f", 12)),
      {"short.pb", "4 bytes", "24"});
  run(dir_.file("absent.npz"), {"absent.npz"});
  run(dir_.path().string(), {dir_.path().filename()});
}

TEST_F(Made, DamagedPackages) {
  const std::string model = write("m.aicf", "m(x: f32[2, 3]) -> y\ny = Neg(x)\n"), package = dir_.file("m.aicfpkg");
  ASSERT_EQ(run_command({"compile", model, "--target", "null", "-o", package}).exit, 0);
  const std::string whole = read_file(package);
  const auto run = [&](const std::string& content, const std::vector<std::string>& names) {
    refused({"run", write("bad.aicfpkg", content), "--device", "null"}, {2}, names);
  };
  run("", {"bad.aicfpkg", "not an AICF package"});
  run(whole.substr(0, whole.size() / 2), {"bad.aicfpkg", "truncated"});
  run(whole.substr(0, 20), {"bad.aicfpkg", "truncated"});
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  run(flipped, {"bad.aicfpkg", "damaged"});
  std::string longer = whole;
  longer[15] = '\x7f';  // the header's length
  run(longer, {"bad.aicfpkg"});
  run("AICFPKG9" + whole.substr(8), {"bad.aicfpkg", "format 9"});
  refused({"run", write("model.aicfpkg", "m(x: f32[2]) -> y\ny = Neg(x)\n"), "--device", "null"}, {2},
          {"model.aicfpkg"});
}

}  // namespace
}  // namespace aicf
