// Text of kernels on matrix fragments, what verify() refuses about them, and that damaged texts are errors.

#include "mir/kernel/fragment_rules.h"

#include <gmock/gmock.h>

#include "expand_helpers.h"
#include "fragment_kernels.h"
#include "mir/kernel/print_source.h"

namespace aicf {
namespace {

using namespace aicf::testing;
using ::testing::HasSubstr;
using Kind = ThreadStatement::Kind;

TEST(FragmentRules, TextRoundTrips) {
  for (const char* text : {named, blocked, looped, named_repair, opaque_repair, maps})
    EXPECT_EQ(to_string(parsed(text)), text);
  const auto message = [](const std::string& text) {
    const Result<Kernel> kernel = parse_kernel(text, "k");
    return kernel ? std::string() : kernel.error().text();
  };
  EXPECT_THAT(message(replaced(named, " unit m16n8k16", "")), HasSubstr("k:12"));
  EXPECT_THAT(message(replaced(named, "+= a * b", "= a * b")), HasSubstr("expected '+='"));
  EXPECT_THAT(message(replaced(named, "a * b unit", "a, b unit")), HasSubstr("expected '*'"));
}

std::string refusal(const std::string& text) {
  const Result<void> result = verify(parsed(text));
  return result ? std::string() : result.error().text();
}

TEST(FragmentRules, ProductsAreOfTheUnitsFragments) {
  for (const char* text : {named, blocked, looped, named_repair, opaque_repair, maps}) EXPECT_EQ(refusal(text), "");
  // Lanes of k and m exchanged; another width; a register tile among opaque ones and the other way round.
  EXPECT_THAT(refusal(replaced(named, "lane 4 @1 stride 2) m(lane 8 @4", "lane 4 @8 stride 2) m(lane 8 @1")),
              HasSubstr("is not spread as in the fragment m16n8k16.a"));
  EXPECT_THAT(refusal(replaced(named, "subgroup 32", "subgroup 64")), HasSubstr("for 32 lanes, the subgroup has 64"));
  EXPECT_THAT(refusal(replaced(named, "unit m16n8k16", "unit m16n8k8")), HasSubstr("layouts of m16n8k8 are not known"));
  EXPECT_THAT(refusal(replaced(named, "unit m16n8k16", "unit wmma")), HasSubstr("no shape of a matrix unit"));
  EXPECT_THAT(refusal(replaced(named, "c += a * b", "c += a * c")), HasSubstr("not c[m, n], a[m, k] and b[k, n]"));
  EXPECT_THAT(refusal(replaced(named, "c += a * b", "c += b * a")), HasSubstr("axis n of 'b' has 8 elements"));
  EXPECT_THAT(refusal(replaced(named, "c += a * b", "c += a * d")), HasSubstr("no tile 'd'"));
  std::string mixed = replaced(named, "A: f16", "A: f32");
  EXPECT_THAT(refusal(replaced(mixed, "tile a: f16", "tile a: bf16")), HasSubstr("no unit adds bf16 x f16 to f32"));
  EXPECT_THAT(refusal(replaced(named, "  load c <- C0[m, n] width 2\n", "")), HasSubstr("before it is defined"));
  EXPECT_THAT(refusal(replaced(blocked, "fragment m16n8k16.a", "fragment m16n16k16.a")),
              HasSubstr("where the product"));
  // Blocks that another subgroup holds.
  EXPECT_THAT(refusal(replaced(blocked, "a m(reg 2 stride 16, subgroup 2 @1 stride 32)", "a m(reg 4 stride 16)")),
              HasSubstr("over subgroups differently"));
  std::string split = replaced(blocked, "b k(reg 2", "b k(subgroup 2 @1");
  EXPECT_THAT(refusal(split), HasSubstr("another subgroup holds a part of 'b'"));
}

TEST(FragmentRules, OpaqueDeclarations) {
  EXPECT_THAT(refusal(replaced(blocked, "m16n8k16.c", "m16n8k16.d")), HasSubstr("no kind of fragment"));
  EXPECT_THAT(refusal(replaced(blocked, "m16n8k16.c m(reg 2 stride 16", "m16n8k16.c m(reg 4 stride 8")),
              HasSubstr("takes matrices apart"));
  EXPECT_THAT(refusal(replaced(blocked, "n(reg 2 stride 8)\n  load", "\n  load")), HasSubstr("cover 1 of 2"));
  EXPECT_THAT(refusal(replaced(blocked, "tile b: f16", "tile b: f32")), HasSubstr("no unit takes f32 as b"));
  EXPECT_THAT(refusal(replaced(maps, "subgroup 4 x 1", "subgroup 128 x 1")), HasSubstr("64 elements for 128 lanes"));
}

TEST(FragmentRules, OpaqueTilesTakeUniformMapsOnly) {
  const auto with = [](const std::string& line) {
    return refusal(replaced(opaque_repair, "  stage w <- c\n", line + "  stage w <- c\n"));
  };
  EXPECT_EQ(with("  c = c * 2.0\n"), "");
  EXPECT_THAT(with("  c = c * r\n"), HasSubstr("repair by row (of 'r') of opaque fragment 'c'"));
  EXPECT_THAT(with("  c = where(m < 5, c, 0.0)\n"), HasSubstr("mask by index of opaque fragment 'c'"));
  EXPECT_THAT(with("  r max= c over n\n"), HasSubstr("row reduction of opaque fragment 'c'"));
  EXPECT_THAT(with("  c += rows over k\n"), HasSubstr("row reduction of opaque fragment 'c'"));
  EXPECT_THAT(with("  rows = c\n"), HasSubstr("a read by element of opaque fragment 'c'"));
  EXPECT_THAT(with("  cross c lanes 1: c = a.c + b.c\n"), HasSubstr("an operation by element of opaque fragment 'c'"));
  EXPECT_THAT(with("  store C[m, n] <- r = c\n"), HasSubstr("a read"));
  // Loads and stores of whole matrices.
  const auto stored = [](const std::string& from, const std::string& to) {
    return refusal(replaced(opaque_repair, from, to));
  };
  EXPECT_THAT(stored("C[m, n] <- c = c", "C[m, n] <- c = c + 1.0"), HasSubstr("a computed store"));
  EXPECT_THAT(stored("C[m, n] <- c = c", "C[m, n] <- c = c if m < 9"), HasSubstr("a predicate by element"));
  EXPECT_THAT(stored("load a <- A[m, k]", "load a <- A[m, k % 16]"), HasSubstr("one stride per row"));
  EXPECT_THAT(stored("buffer A: f16", "buffer A: f32"), HasSubstr("conversion (to f32)"));
  // Another use, another type.
  const std::string another =
      replaced(opaque_repair, "  tile r:", "  tile x: f32[m=16, n=8] fragment m16n8k8.c\n  tile r:");
  EXPECT_THAT(refusal(replaced(another, "  stage w <- c\n", "  x = c\n  stage w <- c\n")),
              HasSubstr("conversion (to m16n8k8.c f32) of opaque fragment 'c'"));
  // The usual rules hold for them too.
  EXPECT_THAT(stored("  c = 0.0\n", ""), HasSubstr("'c' is read before it is defined"));
  EXPECT_THAT(stored("  barrier\n  fetch rows", "  fetch rows"), HasSubstr("a barrier is missing"));
}

TEST(FragmentRules, EmittersRefuseMatrixUnits) {
  for (const char* text : {named, maps}) {
    const Result<void> possible = can_emit(expanded(text));
    ASSERT_FALSE(possible);
    EXPECT_EQ(possible.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(possible.error().message, HasSubstr("no emitter prints matrix units yet"));
  }
  const Result<ThreadProgram> program = expand(parsed(named));
  ASSERT_TRUE(program);
  EXPECT_EQ(count(*program, Kind::multiply), 1);
  EXPECT_THAT(to_string(*program), HasSubstr("(c_0, c_1, c_2, c_3) += m16n8k16(a_0, a_1,"));
}

// Whatever a text says is an error or a program that runs or is refused, never a failed check.
TEST(FragmentRules, DamagedTextsAreErrors) {
  std::mt19937 random(2);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string pieces[] = {"0",   "1",   "2",    "8", "16",    "32",   "64",        "a",        "b",
                                "c",   "m",   "n",    "k", "reg 2", ".a",   ".c",        "m16n8k8",  "@1",
                                "f16", "f32", "lane", "*", "[k,",   "unit", "registers", "subgroup", "fragment"};
  int accepted = 0, ran = 0;
  for (const char* sample : {named, blocked, looped, opaque_repair, maps}) {
    for (int i = 0; i < 100; ++i) {
      std::string text = sample;
      const std::size_t at = below(text.size()), digit = text.find_first_of("0123456789", at);
      const std::string& piece = pieces[below(std::size(pieces))];
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(6));
          break;
        case 1:
          text.insert(at, piece);
          break;
        case 2: {  // a line gone
          const std::size_t start = text.rfind('\n', at), end = text.find('\n', at);
          if (start != std::string::npos && end != std::string::npos) text.erase(start, end - start);
          break;
        }
        default:
          if (digit != std::string::npos) text[digit] = "0124689"[below(7)];
      }
      const Result<Kernel> kernel = parse_kernel(text);
      if (!kernel) continue;
      const std::string printed = to_string(*kernel);
      const Result<Kernel> again = parse_kernel(printed);
      ASSERT_TRUE(again) << again.error().text() << "\n" << printed;
      ASSERT_EQ(to_string(*again), printed);
      const Result<ThreadProgram> program = expand(*kernel);
      if (!program) continue;
      ++accepted;
      InterpreterInput io;
      io.symbols = {{"n", 3}, {"rows", 64}, {"depth", 16}};
      for (const KernelBuffer& b : program->buffers) {
        std::int64_t elements = 1;
        for (const Expr& dim : b.shape) elements *= evaluate_int(dim, io.symbols).value_or(1);
        if (elements >= 0 && elements < 100000) io.buffers[b.name].assign(static_cast<std::size_t>(elements), 1);
      }
      ran += interpret(*program, io).has_value();
    }
  }
  EXPECT_GT(accepted, 60);
  EXPECT_GT(ran, 40);
}

}  // namespace
}  // namespace aicf
