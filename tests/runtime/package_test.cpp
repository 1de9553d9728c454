#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <functional>
#include <random>

#include "runtime/artifact.h"
#include "runtime/file_io.h"
#include "tests/runtime/temp_dir.h"

namespace aicf {
namespace {

using testing::HasSubstr;

const Expr n = Expr::symbol("n"), seq = Expr::symbol("seq len");

Program make_program(const std::string& target) {
  Program program;
  program.target = target;
  program.driver = "vulkan";
  program.symbols = {"n", "seq len"};
  KernelBinary kernel;
  kernel.name = "region_0";
  kernel.kind = BinaryKind::cuda_source;
  kernel.bytes = std::string("\x03\x02\x23\x07\0\xff\xfe", 7);
  kernel.source = "void main() {}\n";
  kernel.arguments = {{"x", DType::f16, false, true}, {"out", DType::f32, true, false}};
  kernel.parameters = {"n"};
  kernel.workgroup_size = 128;
  kernel.subgroup_size = 32;
  kernel.workgroup_memory_bytes = 4096;
  kernel.compiler_log = "ptxas info: \xff 40 registers";
  kernel.statistics = {{"registers", 40}, {"spill_bytes", 0}};
  program.kernels = {kernel};
  program.launches = {{0, {0, 1}, {n}, ceildiv(n, 128), less(n, 4096), "map_0"},
                      {0, {2, 1}, {seq * 2 - 1}, Expr(3), {}, "map_1"}};
  program.buffers = {{"x", BufferPlan::Kind::input, DType::f16, {n, 64}, -1, 0, 0},
                     {"out", BufferPlan::Kind::output, DType::f32, {n, seq}, -1, 0, 1},
                     {"w", BufferPlan::Kind::constant, DType::f16, {Expr(5)}, 0, 1, 1},
                     {"part", BufferPlan::Kind::intermediate, DType::f32, {n}, -1, 0, 1, true}};
  Tensor weights(DType::f16, {5});
  for (int i = 0; i < 5; ++i) weights.set(i, i + 0.5);
  program.constants = {weights};
  program.constraints = {{n, seq * 2 - 1, "node 'Add'"}, {n, Expr(64), "node 'Gather'", true}};
  program.indices = {{"x", n, true, "node 'Gather'"}};
  program.must_be_false = {{"x", "training mode", "node 'Dropout'"}};
  program.inputs = {{"x", DType::f16, {n, 64}}, {"unread", DType::i64, {seq * 2, 1}}};
  program.outputs = {{"out", 1}, {"weights", 2}};
  return program;
}

Package make_package() {
  return {"model", {make_program("lavapipe"), make_program("sm_80")}};
}

void expect_equal(const Program& a, const Program& b) {
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.driver, b.driver);
  EXPECT_EQ(a.symbols, b.symbols);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i)
    EXPECT_EQ(std::tie(a.inputs[i].name, a.inputs[i].type, a.inputs[i].shape),
              std::tie(b.inputs[i].name, b.inputs[i].type, b.inputs[i].shape));
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    EXPECT_EQ(std::tie(a.outputs[i].name, a.outputs[i].buffer), std::tie(b.outputs[i].name, b.outputs[i].buffer));
  ASSERT_EQ(a.constraints.size(), b.constraints.size());
  for (std::size_t i = 0; i < a.constraints.size(); ++i)
    EXPECT_EQ(std::tie(a.constraints[i].left, a.constraints[i].right, a.constraints[i].place),
              std::tie(b.constraints[i].left, b.constraints[i].right, b.constraints[i].place));
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (std::size_t i = 0; i < a.kernels.size(); ++i) {
    const KernelBinary &x = a.kernels[i], &y = b.kernels[i];
    EXPECT_EQ(std::tie(x.name, x.kind, x.bytes, x.source, x.parameters, x.workgroup_size, x.subgroup_size,
                       x.workgroup_memory_bytes, x.compiler_log, x.statistics),
              std::tie(y.name, y.kind, y.bytes, y.source, y.parameters, y.workgroup_size, y.subgroup_size,
                       y.workgroup_memory_bytes, y.compiler_log, y.statistics));
    ASSERT_EQ(x.arguments.size(), y.arguments.size());
    for (std::size_t k = 0; k < x.arguments.size(); ++k) {
      const KernelArgument &p = x.arguments[k], &q = y.arguments[k];
      EXPECT_EQ(std::tie(p.name, p.type, p.written, p.read), std::tie(q.name, q.type, q.written, q.read));
    }
  }
  ASSERT_EQ(a.launches.size(), b.launches.size());
  for (std::size_t i = 0; i < a.launches.size(); ++i) {
    const Launch &x = a.launches[i], &y = b.launches[i];
    EXPECT_EQ(std::tie(x.kernel, x.buffers, x.parameters, x.workgroups, x.guard, x.region),
              std::tie(y.kernel, y.buffers, y.parameters, y.workgroups, y.guard, y.region));
  }
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    const BufferPlan &x = a.buffers[i], &y = b.buffers[i];
    EXPECT_EQ(std::tie(x.name, x.kind, x.type, x.shape, x.constant, x.first_use, x.last_use, x.scratch),
              std::tie(y.name, y.kind, y.type, y.shape, y.constant, y.first_use, y.last_use, y.scratch));
  }
  ASSERT_EQ(a.constraints.size(), b.constraints.size());
  for (std::size_t i = 0; i < a.constraints.size(); ++i) {
    const ShapeConstraint &x = a.constraints[i], &y = b.constraints[i];
    EXPECT_EQ(std::tie(x.left, x.right, x.place, x.at_most), std::tie(y.left, y.right, y.place, y.at_most));
  }
  ASSERT_EQ(a.indices.size(), b.indices.size());
  for (std::size_t i = 0; i < a.indices.size(); ++i) {
    const IndexConstraint &x = a.indices[i], &y = b.indices[i];
    EXPECT_EQ(std::tie(x.input, x.size, x.negative, x.place), std::tie(y.input, y.size, y.negative, y.place));
  }
  ASSERT_EQ(a.must_be_false.size(), b.must_be_false.size());
  for (std::size_t i = 0; i < a.must_be_false.size(); ++i) {
    const InputConstraint &x = a.must_be_false[i], &y = b.must_be_false[i];
    EXPECT_EQ(std::tie(x.input, x.meaning, x.place), std::tie(y.input, y.meaning, y.place));
  }
  ASSERT_EQ(a.constants.size(), b.constants.size());
  for (std::size_t i = 0; i < a.constants.size(); ++i) {
    EXPECT_EQ(a.constants[i].type(), b.constants[i].type());
    EXPECT_EQ(a.constants[i].shape(), b.constants[i].shape());
    EXPECT_TRUE(std::ranges::equal(a.constants[i].bytes(), b.constants[i].bytes()));
  }
}

std::string error_of(const std::string& path) {
  const auto result = read_package(path);
  EXPECT_FALSE(result.has_value()) << path;
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  return result.error().text();
}

/// `file` with the checksum that its content asks for: what is tested is the check behind the checksum.
std::string with_checksum(std::string file) {
  const std::uint64_t hash = XXH3_64bits(file.data(), file.size() - 8);
  for (int i = 0; i < 8; ++i) file[file.size() - 8 + static_cast<std::size_t>(i)] = static_cast<char>(hash >> (8 * i));
  return file;
}

TEST(Package, RoundTrip) {
  const TempDir dir;
  const Package package = make_package();
  ASSERT_TRUE(write_package(dir.file("p.aicf"), package).has_value());
  const auto back = read_package(dir.file("p.aicf"));
  ASSERT_TRUE(back.has_value()) << back.error().text();
  EXPECT_EQ(back->model_name, "model");
  ASSERT_EQ(back->programs.size(), 2u);
  for (int i = 0; i < 2; ++i) expect_equal(back->programs[i], package.programs[i]);
  EXPECT_FALSE(back->programs[0].launches[1].guard);
}

TEST(Package, ConstantsAreSharedAlignedAndOutliveTheReader) {
  const TempDir dir;
  Package package = make_package();
  for (Program& program : package.programs) {
    program.constants = {Tensor(DType::f32, {100000})};
    program.buffers[2].type = DType::f32;
    program.buffers[2].shape = {Expr(100000)};
  }
  ASSERT_TRUE(write_package(dir.file("p.aicf"), package).has_value());
  EXPECT_LT(std::filesystem::file_size(dir.file("p.aicf")), 450000u);
  auto back = read_package(dir.file("p.aicf"));
  ASSERT_TRUE(back.has_value());
  const Tensor constant = back->programs[1].constants[0];
  EXPECT_EQ(constant.bytes().data(), back->programs[0].constants[0].bytes().data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(constant.bytes().data()) % 64, 0u);
  back = bad_input("dropped");
  std::filesystem::remove(dir.file("p.aicf"));
  EXPECT_EQ(constant.at(99999), 0.0);
}

TEST(Package, EqualPackagesGiveEqualBytes) {
  const TempDir dir;
  ASSERT_TRUE(write_package(dir.file("a"), make_package()).has_value());
  const auto back = read_package(dir.file("a"));
  ASSERT_TRUE(back.has_value());
  ASSERT_TRUE(write_package(dir.file("b"), *back).has_value());
  EXPECT_EQ(read_file(dir.file("a")), read_file(dir.file("b")));
}

TEST(Package, WeightsStayInTheirOwnFile) {
  const TempDir dir;
  const std::string weights = dir.file("weights.bin"), path = dir.file("p");
  std::vector<float> values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  write_file(weights, "head" + std::string(12, '\0') + bytes);
  Package package = make_package();
  {
    const auto file = MappedFile::open(weights);
    ASSERT_TRUE(file.has_value());
    for (Program& program : package.programs) {
      program.constants = {Tensor::view(DType::f32, {64, 64}, (*file)->bytes().data() + 16, *file)};
      program.buffers[2].type = DType::f32;
      program.buffers[2].shape = {Expr(64), Expr(64)};
    }
  }
  ASSERT_TRUE(write_package(path, package).has_value());
  const auto embedded = std::filesystem::file_size(path);
  ASSERT_TRUE(write_package(path, package, WeightStorage::referenced).has_value());
  EXPECT_LT(std::filesystem::file_size(path) + 4 * values.size(), embedded + 1024);

  std::filesystem::create_directory(dir.file("moved"));
  std::filesystem::rename(path, dir.file("moved/p"));
  std::filesystem::rename(weights, dir.file("moved/weights.bin"));
  {
    const auto back = read_package(dir.file("moved/p"));
    ASSERT_TRUE(back.has_value()) << back.error().text();
    for (const Program& program : back->programs) {
      EXPECT_EQ(program.constants[0].at(4095), 4095);
      EXPECT_EQ(program.constants[0].shape(), (std::vector<std::int64_t>{64, 64}));
    }
  }
  write_file(dir.file("moved/weights.bin"), "head" + std::string(13, '\0') + bytes);
  EXPECT_THAT(error_of(dir.file("moved/p")), HasSubstr("which has changed since"));
  std::filesystem::remove(dir.file("moved/weights.bin"));
  EXPECT_THAT(error_of(dir.file("moved/p")), HasSubstr("weights.bin', which cannot be opened"));
}

TEST(Package, ForeignAndNewerFilesAreNamed) {
  const TempDir dir;
  const std::string path = dir.file("p");
  write_file(path, "");
  EXPECT_THAT(error_of(path), HasSubstr("not an AICF package"));
  write_file(path, "PK\x03\x04 something else entirely");
  EXPECT_THAT(error_of(path), HasSubstr("not an AICF package"));
  write_file(path, "AICFPKG3" + std::string(100, '\0'));
  EXPECT_THAT(error_of(path), HasSubstr("format 3, this AICF reads format 2: use a newer AICF"));
  write_file(path, "AICFPKG2");
  EXPECT_THAT(error_of(path), HasSubstr("truncated"));
  ASSERT_TRUE(write_package(path, make_package()).has_value());
  std::string file = read_file(path);
  const std::size_t at = file.find("\"version\":2");
  ASSERT_NE(at, std::string::npos);
  file[at + 10] = '3';
  write_file(path, with_checksum(file));
  EXPECT_THAT(error_of(path), HasSubstr("format 3, this AICF reads format 2: use a newer AICF"));
  EXPECT_THAT(error_of(dir.file("absent")), HasSubstr("No such file"));
}

TEST(Package, EveryTruncationAndEveryFlippedByteIsFound) {
  const TempDir dir;
  const std::string path = dir.file("p");
  ASSERT_TRUE(write_package(path, make_package()).has_value());
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); size += 31) {
    write_file(path, whole.substr(0, size));
    error_of(path);
  }
  for (std::size_t at = 0; at < whole.size(); at += 23) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_file(path, damaged);
    error_of(path);
  }
}

TEST(Package, MalformedHeadersBehindAValidChecksumAreRefused) {
  const TempDir dir;
  const std::string path = dir.file("p");
  ASSERT_TRUE(write_package(path, make_package()).has_value());
  const std::string whole = read_file(path);
  const auto replaced = [&](const std::string& from, std::string to) {
    std::string file = whole;
    const std::size_t at = file.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    to.resize(from.size(), ' ');
    file.replace(at, from.size(), to);
    write_file(path, with_checksum(file));
    return error_of(path);
  };
  EXPECT_THAT(replaced("\"kernel\":0", "\"kernel\":1"), HasSubstr("kernel 1 does not exist"));
  EXPECT_THAT(replaced("\"buffers\":[0,1]", "\"buffers\":[0,9]"), HasSubstr("buffer 9 does not exist"));
  EXPECT_THAT(replaced("\"buffers\":[0,1]", "\"buffers\":[0]"), HasSubstr("does not match its arguments"));
  EXPECT_THAT(replaced("\"n < 4096\"", "\"n + 4096\""), HasSubstr("not a condition"));
  EXPECT_THAT(replaced("\"n < 4096\"", "\"m < 4096\""), HasSubstr("unknown name 'm'"));
  EXPECT_THAT(replaced("\"offset\":0", "\"offset\":1"), HasSubstr("outside the file"));
  EXPECT_THAT(replaced("\"shape\":[5]", "\"shape\":[6]"), HasSubstr("disagree in size"));
  EXPECT_THAT(replaced("\"shape\":[5]", "\"shape\":5"), HasSubstr("not a list"));
  EXPECT_THAT(replaced("\"buffer\":2", "\"buffer\":7"), HasSubstr("buffer 7 does not exist"));
  EXPECT_THAT(replaced("\"target\"", "\"tarXet\""), HasSubstr("'target' is missing"));
  EXPECT_THAT(replaced("\"workgroup_size\":128", "\"workgroup_size\":-12"), HasSubstr("integer in range"));
  EXPECT_THAT(replaced("{\"blobs\"", "[\"blobs\""), HasSubstr("malformed"));
}

TEST(Package, PlansThatNoCompilerWritesAreRefused) {
  const TempDir dir;
  const auto error = [&](const std::function<void(BufferPlan&)>& change) {
    Package package = make_package();
    change(package.programs[1].buffers[2]);
    EXPECT_TRUE(write_package(dir.file("p"), package).has_value());
    return error_of(dir.file("p"));
  };
  const auto lives = [](int first, int last) {
    return [=](BufferPlan& b) {
      b.kind = BufferPlan::Kind::intermediate;
      b.first_use = first;
      b.last_use = last;
    };
  };
  EXPECT_THAT(error(lives(-1, 1)), HasSubstr("launch -1 does not exist"));
  EXPECT_THAT(error(lives(0, 2)), HasSubstr("launch 2 does not exist"));
  EXPECT_THAT(error([](BufferPlan& b) { b.shape = {Expr(6)}; }), HasSubstr("'w' differs from its constant"));
  EXPECT_THAT(error([](BufferPlan& b) { b.shape = {n}; }), HasSubstr("'w' differs from its constant"));
  EXPECT_THAT(error([](BufferPlan& b) { b.type = DType::f32; }), HasSubstr("'w' differs from its constant"));
}

TEST(Package, RandomHeadersNeverCrash) {
  const TempDir dir;
  const std::string path = dir.file("p");
  ASSERT_TRUE(write_package(path, make_package()).has_value());
  const std::string whole = read_file(path);
  std::mt19937 engine(9);
  const std::string alphabet = "0123456789[]{}\",:-. ne\xff";
  for (int trial = 0; trial < 500; ++trial) {
    std::string file = whole;
    for (unsigned k = 1 + engine() % 4; k > 0; --k) file[8 + engine() % 1800] = alphabet[engine() % alphabet.size()];
    write_file(path, with_checksum(file));
    const auto result = read_package(path);
    if (!result) {
      ASSERT_EQ(result.error().kind, ErrorKind::bad_input);
    }
  }
}

TEST(Package, NamesThatAreNotUtf8AreRefused) {
  const TempDir dir;
  Package package = make_package();
  package.programs[0].buffers[0].name = "\xff";
  const auto result = write_package(dir.file("p"), package);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().text(), HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace aicf
