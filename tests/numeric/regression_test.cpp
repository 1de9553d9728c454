// Graphs that once gave wrong results or aborted, on devices against the float64 meaning, fused and unfused.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/numeric/harness.h"

namespace aicf::numeric {
namespace {

struct Graph {
  const char* name;
  const char* text;
  std::size_t regions = 0;  ///< of the fused plan; 0: not what was wrong
};
void PrintTo(const Graph& g, std::ostream* out) {
  *out << g.name;
}

const Graph graphs[] = {
    // Both operands of the inner product were spread over lanes along its axis, and the parts were not added up.
    {"spread_operands", R"(g(Q: f32[2, 9, 8], K: f32[2, 11, 8], V: f32[2, 11, 12]) -> o
o = ReduceSum(MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1]))), V), keepdims=0)
)"},
    // Weighing a region took it apart again and again.
    {"largest_weight", R"(g(Q: f32[2, 9, 8], K: f32[2, 11, 8]) -> o
o = ReduceMax(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1]))), [1], keepdims=0)
)"},
    {"distance_scores", R"(g(Q: f32[2, 9, 8], K: f32[2, 11, 8], V: f32[2, 11, 12]) -> o
d = Sub(Unsqueeze(Q, [2]), Unsqueeze(K, [1]))
o = MatMul(Softmax(Neg(ReduceSum(Mul(d, d), [-1], keepdims=0))), V)
)"},
    {"empty_product", R"(g(Q: f32[2, 3, 0], K: f32[2, 5, 0], V: f32[2, 5, 8]) -> o
o = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1]))), V)
)"},
    // Axes without elements: what is reduced over them was read all the same, or no schedule held it.
    {"logarithm_of_an_empty_sum", R"(g(x: f32[1, 1, 0, 2]) -> o
o = ReduceLogSumExp(x, [2, 3], keepdims=1)
)"},
    {"weights_of_no_keys", R"(g(s: f32[2, 3, 11, 0], v: f32[2, 3, 0, 4], scale: f32[2, 3, 0, 1]) -> o, p
p = Exp(LogSoftmax(s, axis=-1))
o = MatMul(p, Mul(v, scale))
)"},
    // Exponents of a product of weights were added up, and twice the lowest float is -inf.
    {"squares_of_masked_weights", R"(g(x: f32[3, 37], gate: f32[3, 37]) -> o
lowest: f32 = -3.4028234663852886e38
p = Mul(Softmax(Where(Greater(x, 1.9), x, lowest)), gate)
o = Mul(p, ReduceSum(Mul(p, p), [1]))
)"},
    // A vector read from workgroup memory kept only the words that were used.
    {"columns_63", R"(g(Q: f32[1, 2, 33, 63], K: f32[1, 2, 37, 63], V: f32[1, 2, 37, 63]) -> o
o = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 1, 3, 2]))), V)
)"},
    // No schedule held one row of it before lanes could share it.
    {"columns_256", R"(g(Q: f32[1, 2, 5, 256], K: f32[1, 2, 17, 256], V: f32[1, 2, 17, 256]) -> o
o = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 1, 3, 2]))), V)
)"},
    {"place_of_the_largest", R"(g(s: f32[2, 9, 11]) -> a
a = ArgMax(s, axis=-1, keepdims=0)
)"},
    // The square of a weight was the square of its exponential over that of the sum, and the first was 0.
    {"squares_of_masked_weights_far_below", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y, z
keep = Greater(g, 0.0)
s = Add(x, Where(keep, 0.0, 60.0))
e = Where(keep, Exp(Sub(s, ReduceMax(s, [1]))), 0.0)
p = Div(e, ReduceSum(e, [1]))
y = ReduceSum(Mul(p, p), [1])
z = Sub(ReduceSum(Mul(p, p), [1]), ReduceSum(Mul(p, Mul(p, p)), [1]))
)"},
    // Differences of scores were kept about a maximum of masked ones, far above.
    {"spread_of_masked_scores", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y
keep = Greater(g, 0.0)
s = Add(x, Where(keep, 0.0, 60.0))
e = Where(keep, Exp(Sub(s, ReduceMax(s, [1]))), 0.0)
p = Div(e, ReduceSum(e, [1]))
a = Sub(s, ReduceSum(Mul(p, s), [1]))
y = ReduceSum(Mul(p, Mul(a, a)), [1])
)"},
    {"squares_of_small_exponentials", R"(g(x: f32[5, 37]) -> y
e = Exp(Sub(x, 60.0))
p = Div(e, ReduceSum(e, [1]))
y = ReduceSum(Mul(p, p), [1])
)"},
    {"cubes_of_masked_exponentials", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y
keep = Greater(g, 0.0)
e = Where(keep, Mul(Exp(Add(x, 55.0)), 3.0), 0.0)
p = Where(keep, Div(e, ReduceSum(e, [1])), 0.0)
q = Sub(1.0, p)
y = ReduceSum(Mul(p, Mul(q, q)), [1])
)"},
    // Differences from two means of one tensor had two centres, and the sum of their products none.
    {"products_about_two_means", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y
a = Sub(x, ReduceMean(x, [1]))
b = Sub(x, Div(ReduceSum(Where(Greater(g, 0.0), x, 0.0), [1]), Add(ReduceSum(CastLike(Greater(g, 0.0), x), [1]), 1.0)))
y = ReduceMean(Mul(a, b), [1])
)"},
    // What is not under the mean's mask was kept about 0 until the mask began.
    {"squares_far_from_zero", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y
far = Add(x, 100.0)
keep = Greater(g, 1.0)
a = Sub(far, Div(ReduceSum(Where(keep, far, 0.0), [1]), Max(ReduceSum(CastLike(keep, x), [1]), 1.0)))
y = ReduceMean(Mul(a, a), [1])
)"},
    // What the exponentials leave outside of the sum is a constant.
    {"squares_of_shifted_exponentials", R"(g(x: f32[5, 37]) -> y
e = Exp(Add(Sub(x, ReduceMax(x, [1])), 2.0))
p = Div(e, ReduceSum(e, [1]))
y = ReduceSum(Mul(p, p), [1])
)"},
    // 0 of a select was divided by 0 inside of it.
    {"rows_left_out", R"(g(s: f32[2, 9, 11], v: f32[2, 11, 3], q: f32[9, 1]) -> y
e = Where(Greater(q, 0.0), Exp(Sub(s, ReduceMax(s, [2]))), 0.0)
y = MatMul(Div(e, ReduceSum(e, [2])), v)
)"},
    {"no_number_under_rows_left_out", R"(g(s: f32[2, 9, 11], v: f32[2, 11, 3], q: f32[9, 11]) -> y
e = Where(Greater(q, 1.5), Exp(Sub(s, ReduceMax(s, [2]))), 0.0)
y = MatMul(Div(e, Max(ReduceSum(e, [2]), 1.0e-9)), Log(Add(v, 2.0)))
)"},
    // Elements before the first that the mean counts were not moved to it.
    {"sums_about_a_masked_mean", R"(g(x: f32[5, 37], g: f32[5, 37]) -> y
keep = Greater(g, 0.7)
mean = Div(ReduceSum(Where(keep, x, 0.0), [1]), ReduceSum(CastLike(keep, x), [1]))
d = Sub(x, mean)
y = ReduceSum(Mul(d, d), [1])
)"},
    {"masked_rows_times_a_matrix", R"(g(x: f32[5, 37], g: f32[5, 37], w: f32[37, 3]) -> z
keep = Greater(g, 0.7)
mean = Div(ReduceSum(Where(keep, x, 0.0), [1]), Max(ReduceSum(CastLike(keep, x), [1]), 1.0))
d = Sub(x, mean)
z = MatMul(Div(d, Sqrt(Add(1.0, ReduceSum(Where(keep, Mul(d, d), 0.0), [1])))), w)
)"},
    // The place of the extreme of a row with NaN was past the row's end.
    {"places_of_nan", R"(g(s: f32[3, 4, 17]) -> y, first, last, hard
root = Sqrt(s)
first = ArgMax(root, axis=-1, keepdims=1)
last = ArgMin(root, axis=-1, keepdims=0, select_last_index=1)
hard = Hardmax(root)
y = GatherElements(root, first, axis=-1)
)"},
    // Elements at places that data names were loaded as one vector.
    {"labels_at_places", R"(g(x: f32[3, 5, 2], labels: i64[3, 2]) -> y
y = NegativeLogLikelihoodLoss(x, labels)
)"},
    // A value of the model had the name of a temporary.
    {"value_named_t1", R"(g(Q: f32[1, 17, 8], K: f32[1, 8, 8], V: f32[1, 8, 3]) -> o, t1
t1 = MatMul(Q, Transpose(K, perm=[0, 2, 1]))
o = MatMul(Sub(t1, ReduceMean(t1, [1, 2])), V)
)"},
    // A part of a sum had the name of the sum of a part.
    {"squares_of_two_axes", R"(g(x: f32[2, 9, 5, 9]) -> o
o = ReduceSumSquare(Sub(x, ReduceMean(x, [3])), [1, 3])
)"},
    // Keys whose weight is 0 / 0 were left out as masked.
    {"masked_shares_of_themselves", R"(g(s: f32[1, 2, 9], v: f32[2, 9, 3]) -> o
at = Range(0, 9, 1)
e = Exp(Where(LessOrEqual(at, 1), s, [-inf]))
o = MatMul(Div(e, ReduceSum(e, [0])), v)
)"},
    // An exponent without a part of the streamed axis was lost.
    {"exponents_of_sums", R"(g(x: f32[3, 9], v: f32[3, 9]) -> o
w = Exp(Sub(Expand(0.5, [3, 9]), ReduceMean(x, [1])))
o = ReduceSum(Mul(w, v), [1])
)"},
    // Index and pivot of what a Concat reads from one part were read at places of the other part too.
    {"table_beside_a_column", R"(g(at: i64[4, 1], x: f32[2, 4, 1], table: f32[5], sink: f32[2, 4, 1]) -> o
o = Concat(Add(x, Gather(table, at)), sink, axis=-1)
)"},
    {"squares_of_a_rotated_row", R"(g(x: f32[2, 7], y: f32[2, 7]) -> o
d = Sub(x, ReduceL1(y, [1]))
s = Mul(d, d)
o = ReduceMean(Concat(Slice(s, [3], [7], [1]), Slice(s, [0], [3], [1]), axis=1), [1])
)"},
    // No schedule held what one step of a sum over several axes reads.
    {"sum_of_everything", R"(g(x: f32[15, 15, 2, 14], y: f32[7, 9, 11, 3, 5]) -> o, m
o = ReduceSum(x, [0, 1, 2, 3], keepdims=0)
m = ReduceMax(y, [0, 1, 2, 3], keepdims=0)
)"},
    // The largest of values whose own maximum varies along a reduced axis.
    {"two_axes", R"(g(x: f32[2, 5, 7]) -> o
o = ReduceLogSumExp(Softmax(x), [1, 2])
)"},
    // What a narrow operation computes is held in f32: scores of 5e5, a variance of 4e5, on and off chip.
    {"scores_beyond_f16", R"(g(Q: f16[2, 9, 8], K: f16[2, 11, 8], V: f16[2, 11, 12]) -> o, s
large: f16 = 128.0
scale: f16 = 0.0001
s = MatMul(Mul(Q, large), Transpose(Mul(K, large), perm=[0, 2, 1]))
o = MatMul(Softmax(Mul(s, scale)), V)
)"},
    {"scores_of_bf16", R"(g(Q: bf16[2, 9, 8], K: bf16[2, 11, 8], V: bf16[2, 11, 12]) -> o
o = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1]))), V)
)"},
    {"variance_beyond_f16", R"(g(x: f16[5, 40], w: f16[40]) -> y, rounded
factor: f16 = 600.0
epsilon: f16 = 0.001
a = Mul(x, factor)
d = Sub(a, ReduceMean(a, [-1]))
y = Mul(Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1]), epsilon))), w)
rounded = Cast(Cast(Cast(Mul(d, d), to=1), to=10), to=1)
)"},
    {"dequantised_keys", R"(g(Q: f32[2, 9, 8], K: i8[2, 11, 8], S: f32[2, 11, 3], V: f32[2, 11, 12]) -> o
o = MatMul(Softmax(MatMul(Q, Transpose(DequantizeLinear(K, S, axis=2, block_size=3), perm=[0, 2, 1]))), V)
)"},
    // The channel's axis took the name of the first product's own axis, of extent 1, and became 0 with it.
    {"product_of_each_channel", R"(g(x: f32[1, 16, 6, 6], w: f32[16, 1, 1, 1], p: f32[4, 16, 1, 1]) -> y
y = Conv(Relu(Conv(x, w, group=16)), p)
)"},
    // A tile of places in a tensor had the tensor's name and was taken for the tensor.
    {"places_of_places", R"(g(x: f32[9], i: i64[9]) -> y, z
y = Gather(x, Gather(i, i))
z = Gather(x, Mod(Add(Gather(i, Mod(Add(i, 3), 9)), 1), 9))
)"},
    // Elements of either tensor were loaded at the places of the other, outside of it.
    {"places_in_a_concatenation", R"(g(P: f32[3, 4], N: f32[2, 4], Q: f32[5, 4], i: i64[6]) -> y, z
K = Gather(Concat(P, N, axis=0), i, axis=0)
y = Exp(K)
z = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[1, 0]))), K)
)"},
    {"places_in_a_padding", R"(g(x: f32[3], i: i64[2], w: f32[2, 5]) -> y
pads: i64[2] = [1, 1]
y = MatMul(Gather(Pad(x, pads), i), w)
)"},
    // What a reduction gives was computed at places outside of it, for a user that takes another value there.
    {"rotated_projection", R"(g(x: f32[5, 16], W: f32[16, 8], K: f32[9, 8], V: f32[9, 12]) -> out
p = MatMul(x, W)
a, b = Split(p, axis=1, num_outputs=2)
s = MatMul(Add(p, Concat(Neg(b), a, axis=1)), Transpose(K, perm=[1, 0]))
out = MatMul(Softmax(s, axis=-1), V)
)"},
    {"label_beside_a_product", R"(g(x: f32[7, 8], W: f32[8, 3], y: f32[7, 2], label: i64[7, 1]) -> loss
p = MatMul(x, W)
loss = Sub(ReduceLogSumExp(p, [1]), GatherElements(Concat(p, y, axis=1), label, axis=1))
)"},
    // Drivers fold divisions by a constant zero.
    {"over_zero", R"(g(x: f32[9]) -> a, b, c
a = Div(x, 0.0)
b = Div(0.0, x)
c = Mul(x, 0.0)
)"},
    // What a region waits for leads through a node without a region to another region, which writes what it reads.
    {"waits_through_a_later_region", R"(g(x: f32[64, 32]) -> y3, r0, y2, r9, r10
r0 = ReduceMax(Mul(x, x), [-1])
r1 = ReduceSum(Mul(x, x), [-1])
y2 = Add(Tanh(x), r0)
y3 = Add(y2, r1)
y5 = Add(x, r1)
y6 = Add(Tanh(y5), r0)
r9 = ReduceSum(Mul(y6, x), [-1])
r10 = ReduceMax(Mul(y2, y5), [-1])
)"},
    // All scores were held by one lane: the stream was that of the values' projection.
    {"projected_values_of_one_column", R"(g(Q: f32[3, 31, 1], K: f32[1, 31, 1], x: f32[1, 31, 5], W: f32[5, 1]) -> o
s = Where(LessOrEqual(Unsqueeze(Range(0, 31, 1), [0]), Unsqueeze(Range(0, 31, 1), [1])), MatMul(Q, Transpose(K, perm=[0, 2, 1])), -1e4)
o = MatMul(Softmax(s), MatMul(x, W))
)",
     2},
    // The columns of the values were streamed, and one row held all keys.
    {"mean_of_other_columns", R"(g(Q: f32[2, 64, 32], K: f32[2, 64, 32], V: f32[2, 64, 33]) -> o
o = ReduceMean(MatMul(Softmax(MatMul(Q, Transpose(K, perm=[0, 2, 1]))), V), [-1], keepdims=0)
)",
     1},
    // A tile's guard asked for an axis that the tile lacks.
    {"normed_part_of_an_output", R"(g(x: f32[3, 40, 16], z: f32[3, 8, 16]) -> k
n = Div(z, Sqrt(Add(ReduceMean(Mul(z, z), [-1]), 1e-6)))
k = Concat(x, Concat(Neg(Slice(n, [8], [16], [2])), Slice(n, [0], [8], [2]), axis=2), axis=1)
)",
     2},
    // Of long rows the partial minimum starts at the largest integer, which devices have at 32 bits.
    {"first_of_the_largest", R"(g(x: f32[66, 65]) -> y
y = Hardmax(x, axis=-1)
)"},
    // A factor that the mask makes infinite: 0 · −inf is NaN.
    {"masked_entropy", R"(g(Q: f32[64, 8], K: f32[300, 8]) -> e
x = Where(Less(Range(0, 300, 1), 70), MatMul(Q, Transpose(K, perm=[1, 0])), -inf)
e = ReduceSum(Mul(Softmax(x, axis=-1), x), [-1])
)"},
};

// Deterministic values in [-2, 2] with a zero among them.
Tensor values(const SemanticInput& input) {
  std::vector<std::int64_t> shape;
  for (const Expr& d : input.shape) shape.push_back(*d.as_int());
  Tensor t(input.type, shape);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.set(i,
          is_float(t.type()) ? static_cast<double>((7 * i + 1) % 33 - 16) / 8 : static_cast<double>((3 * i + 1) % 5));
  return t;
}

/// The graph on lavapipe, of values() or `inputs`, within `absolute` or `relative` of what it means.
Result<Outcome> tried(const std::string& text, const std::string& name, NamedTensors inputs = {},
                      double absolute = 1e-5, double relative = 1e-5) {
  AICF_TRY(Place place, open_place(lavapipe));
  AICF_TRY(SemanticGraph semantic, parse_semantic(text, name));
  AICF_TRY(const Model model, canonicalise(std::move(semantic)));
  for (const SemanticInput& i : model.semantic.inputs)
    if (!inputs.contains(i.name)) inputs[i.name] = values(i);
  AICF_TRY(const NamedTensors expected, reference(model, inputs, {}));
  AICF_TRY(Outcome outcome, run_model(place, model, inputs, {}));
  EXPECT_TRUE(within(outcome.outputs, expected, absolute, relative));
  return outcome;
}

class Regression : public ::testing::TestWithParam<Graph> {
 protected:
  void check(const char* device) const {
    NUMERIC_TRY(Place place, open_place(device));
    NUMERIC_TRY(SemanticGraph semantic, parse_semantic(GetParam().text, GetParam().name));
    NUMERIC_TRY(const Model model, canonicalise(std::move(semantic)));
    NamedTensors inputs;
    for (const SemanticInput& i : model.semantic.inputs) inputs[i.name] = values(i);
    NUMERIC_TRY(const NamedTensors expected, reference(model, inputs, {}));
    for (const bool fuse : {true, false}) {
      CompileOptions options;
      options.fuse = fuse;
      NUMERIC_TRY(const Outcome outcome, run_model(place, model, inputs, {}, options));
      EXPECT_TRUE(within(outcome.outputs, expected, 1e-5, 1e-5)) << (fuse ? "fused" : "unfused");
      if (fuse && GetParam().regions > 0) {
        EXPECT_EQ(outcome.compiled.regions.size(), GetParam().regions);
      }
    }
  }
};

TEST_P(Regression, Lavapipe) {
  check(lavapipe);
}
TEST_P(Regression, Emulation) {
  check(emulation);
}

// What takes a second pass says which law forbids one, and at which node; the result is right all the same.
TEST(SecondPass, NamesNodeAndLaw) {
  const char* text = R"(g(x: f32[3, 37]) -> peak
peak = ReduceMax(Sin(Mul(x, ReduceMean(x, [1]))), [1], keepdims=0)
)";
  NUMERIC_TRY(const Outcome outcome, tried(text, "peak"));
  ASSERT_EQ(outcome.compiled.refusals.size(), 1u);
  const Refusal& refusal = outcome.compiled.refusals.front();
  EXPECT_EQ(refusal.law, "one pass");
  EXPECT_NE(std::ranges::find(refusal.nodes, "peak"), refusal.nodes.end());
  EXPECT_NE(refusal.reason.find("monotone"), std::string::npos) << refusal.reason;
  EXPECT_NE(refusal.reason.find("sin"), std::string::npos) << refusal.reason;
}

// One lane held a row of a thousand elements at finish, and the driver compiled for minutes.
TEST(LongRow, IsHeldByNoLane) {
  const char* text = R"(g(x: f32[1, 1000], m: bool[1, 1000], k: bool[1, 1000]) -> o
f = Cast(m, to=1)
d = Sub(x, ReduceMean(x, [1]))
v = Div(ReduceSum(Mul(Mul(d, d), f), [1]), ReduceSum(f, [1]))
o = Mul(Div(d, Sqrt(Add(v, 0.001))), Cast(k, to=1))
)";
  NUMERIC_TRY(const Outcome outcome, tried(text, "row"));
  for (const CompiledRegion& r : outcome.compiled.regions)
    for (const auto& [axis, plan] : r.chosen.scheduled.schedule.axes) EXPECT_LT(plan.size(Level::reg), 500) << axis;
}

// Drivers decide x < x, and fold a product with the 0 that is left, though x is NaN.
TEST(ProductOfNaN, IsNaNWhereADriverDecidesTheOtherFactor) {
  const char* text = R"(g(x: f32[9]) -> a, b, c
n = Neg(x)
a = Mul(n, Where(Less(n, n), n, 0.0))
b = Mul(x, Cast(Greater(x, x), to=1))
c = Where(Equal(x, x), 1.0, Where(LessOrEqual(x, x), 2.0, 3.0))
)";
  Tensor x(DType::f32, {9});
  for (std::int64_t i = 0; i < 9; ++i) x.set(i, i % 4 == 0 ? std::nan("") : static_cast<double>(i - 4) / 2);
  NUMERIC_TRY([[maybe_unused]] const Outcome outcome, tried(text, "product", {{"x", x}}));
}

// A mask of −1e38 and another term that takes it away where both are: no tile is left out for the one.
class OpposedMasks : public ::testing::TestWithParam<const char*> {};

TEST_P(OpposedMasks, LeaveOutNoKeptTile) {
  const std::string text = fmt::format(R"(g(Q: f32[64, 8], K: f32[300, 8], V: f32[300, 8]) -> out
column = Range(0, 300, 1)
far = Where(Less(column, 70), 0.0, -1e38)
nearer = Where(Less(column, 130), 0.0, -1e38)
x = Add(Add(MatMul(Q, Transpose(K, perm=[1, 0])), far), {})
out = MatMul(Softmax(x, axis=-1), V)
)",
                                       GetParam());
  NUMERIC_TRY([[maybe_unused]] const Outcome outcome, tried(text, "opposed"));
}

INSTANTIATE_TEST_SUITE_P(Forms, OpposedMasks,
                         ::testing::Values("Mul(nearer, -1.0)", "Div(nearer, -1.0)", "Abs(nearer)",
                                           "Max(Neg(nearer), 0.0)", "Where(Less(column, 130), 0.0, 1e38)"));

// Statistics of one row of which a mask keeps a part, on data for which they were wrong.
struct Row {
  const char* name;
  const char* statements;  ///< of x: f32[1, n], m: bool[1, n] and v = 1, 2, …; the last is y
  std::vector<double> x, m;
};
void PrintTo(const Row& r, std::ostream* out) {
  *out << r.name;
}

class GivenRow : public ::testing::TestWithParam<Row> {};

TEST_P(GivenRow, IsAsTheGraphSays) {
  const auto& [name, statements, x, m] = GetParam();
  const auto n = static_cast<std::int64_t>(x.size());
  NamedTensors inputs{
      {"x", Tensor(DType::f32, {1, n})}, {"m", Tensor(DType::boolean, {1, n})}, {"v", Tensor(DType::f32, {n})}};
  for (std::int64_t i = 0; i < n; ++i) {
    inputs.at("x").set(i, x[static_cast<std::size_t>(i)]);
    inputs.at("m").set(i, m[static_cast<std::size_t>(i)]);
    inputs.at("v").set(i, static_cast<double>(i + 1));
  }
  const std::string text =
      fmt::format("g(x: f32[1, {0}], m: bool[1, {0}], v: f32[{0}]) -> y\nzero: f32 = 0\n{1}", n, statements);
  NUMERIC_TRY(const Outcome outcome, tried(text, name, std::move(inputs), 1e-37, 1e-4));
  EXPECT_EQ(outcome.compiled.regions.size(), 1u);
}

const Row rows[] = {
    // Two means of large values were taken off each other.
    {"deviations_of_what_is_filled_with_the_mean",
     R"(mu = ReduceMean(x, [1])
d = Sub(Where(m, x, mu), mu)
y = ReduceSum(Mul(d, d), [1])
)",
     {1000.1, 1002.2, 999.3, 1000.7, 998.6},
     {1, 0, 1, 1, 1}},
    // The masked 60 was the maximum of squares too.
    {"squares_of_weights_by_a_factor",
     R"(e = Mul(Exp(Sub(x, ReduceMax(x, [1]))), Cast(m, to=1))
p = Div(e, ReduceSum(e, [1]))
y = ReduceSum(Mul(p, p), [1])
)",
     {0, 1, 60},
     {1, 1, 0}},
    {"squares_of_weights_by_a_reciprocal",
     R"(e = Where(m, Exp(Sub(x, ReduceMax(x, [1]))), zero)
p = Mul(e, Reciprocal(ReduceSum(e, [1])))
y = ReduceSum(Mul(p, p), [1])
)",
     {0, 1, 60},
     {1, 1, 0}},
    // The square of exp(-80) is no number; of its quotient by the sum it is.
    {"squares_of_small_equal_weights",
     R"(e = Exp(Where(m, Sub(x, ReduceMax(x, [1])), -80.0))
p = Div(e, ReduceSum(e, [1]))
y = ReduceSum(Mul(p, p), [1])
)",
     {0, 1, 2},
     {0, 0, 0}},
    // x - 1e9 was one exponent: it has no digits of x.
    {"product_with_weights_of_nothing",
     R"(y = ReduceSum(Mul(Softmax(Where(m, x, -1e9)), Softmax(x)), [1])
)",
     {1001, 1002, 1003},
     {0, 0, 0}},
    {"product_of_weights_under_a_select",
     R"(y = ReduceSum(Where(m, Mul(Softmax(x), Softmax(Mul(v, 0.3))), zero), [1])
)",
     {1000000.125, 999999.875, 1000000.625, 1000000.125},
     {0, 1, 1, 1}},
    {"deviations_in_nested_selects",
     R"(mu = ReduceMean(x, [1])
a = Sub(Where(m, Where(Greater(v, 4.5), x, mu), 100.0), mu)
y = ReduceMean(Mul(a, a), [1])
)",
     {100.126, 99.868, 100.64, 100.1, 99.464, 100.36, 101.304, 100.947},
     {0, 1, 1, 1, 0, 1, 1, 1}},
    {"difference_of_weights_of_nothing",
     R"(d = Sub(Softmax(Where(m, x, -1e4)), Softmax(Where(m, x, -1e9)))
y = ReduceSum(Mul(d, d), [1])
)",
     {1, 2, 3},
     {0, 0, 0}},
    // A maximum of inf that stays moved what was summed by inf - inf.
    {"nothing_of_weights_that_are_nan",
     R"(y = ReduceSum(Mul(Where(m, Softmax(x), zero), v), [1])
)",
     {INFINITY, 1, 2},
     {0, 0, 0}},
    {"exponentials_beside_a_masked_infinity",
     R"(y = ReduceSum(Where(m, Exp(Sub(x, ReduceMax(x, [1]))), zero), [1])
)",
     {INFINITY, 1, 2},
     {0, 1, 1}},
    {"weights_of_a_constant_beside_nan",
     R"(e = Exp(Where(m, Sub(x, ReduceMax(x, [1])), -80.0))
y = ReduceSum(Mul(Div(e, ReduceSum(e, [1])), v), [1])
)",
     {NAN, 1, 2},
     {0, 0, 0}},
};

INSTANTIATE_TEST_SUITE_P(Masked, GivenRow, ::testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Graphs, Regression, ::testing::ValuesIn(graphs),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace aicf::numeric
