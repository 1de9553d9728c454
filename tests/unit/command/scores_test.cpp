// Which tensors of a graph are scores and weights, whatever is fused.

#include "tools/aicf/scores.h"

#include <gmock/gmock.h>

#include "frontend/model.h"

namespace aicf::command {
namespace {

using ::testing::UnorderedElementsAre;

std::set<std::string> scores_of(const std::string& text) {
  return score_tensors(canonicalise(parse_semantic(text, "text").value()).value().graph);
}
const std::string qkv = "m(Q: f32[B, M, 64], K: f32[B, N, 64], V: f32[B, N, 64], W: f32[B, N, 32]) -> ";

TEST(Scores, OfASoftmaxWrittenOut) {
  EXPECT_THAT(scores_of(qkv + R"(out, lse
opset 17
s = MatMul(Q, Transpose(K, perm=[0, 2, 1]))
m = ReduceMax(s, axes=[-1], keepdims=1)
e = Exp(Sub(s, m))
l = ReduceSum(e, [-1], keepdims=1)
p = Div(e, l)
out = MatMul(p, V)
lse = Add(m, Log(l))
)"),
              UnorderedElementsAre("s", "Sub_1", "e", "p"));
}

TEST(Scores, SharedByTwoProducts) {
  EXPECT_THAT(scores_of(qkv + R"(o1, o2
s = MatMul(Q, Transpose(K, perm=[0, 2, 1]))
p1 = Softmax(s, axis=-1)
o1 = MatMul(p1, V)
t = Mul(s, 0.5)
p2 = Softmax(t, axis=-1)
o2 = MatMul(p2, W)
)"),
              UnorderedElementsAre("s", "p1_exp", "p1", "t", "p2_exp", "p2"));
}

TEST(Scores, Transposed) {
  EXPECT_THAT(scores_of(qkv + R"(o
s = MatMul(K, Transpose(Q, perm=[0, 2, 1]))
p = Softmax(s, axis=1)
o = MatMul(Transpose(p, perm=[0, 2, 1]), V)
)"),
              UnorderedElementsAre("s", "p_exp", "p", "Transpose_1"));
}

TEST(Scores, WeightsWithoutANormalisation) {
  EXPECT_THAT(scores_of(qkv + "o\ns = MatMul(Q, Transpose(K, perm=[0, 2, 1]))\np = Sigmoid(s)\no = MatMul(p, V)\n"),
              UnorderedElementsAre("s", "p"));
}

TEST(Scores, NotWhatAnMlpPasses) {
  EXPECT_THAT(scores_of(R"(m(x: f32[2, 8, 16], u: f32[16, 64], v: f32[64, 16]) -> y
opset 17
h = Sigmoid(MatMul(x, u))
mean = ReduceMean(h, axes=[-1], keepdims=1)
y = MatMul(Sub(h, mean), v)
)"),
              UnorderedElementsAre());
  EXPECT_THAT(scores_of("m(x: f32[8, 16], u: f32[16, 10]) -> p\np = Softmax(MatMul(x, u), axis=-1)\n"),
              UnorderedElementsAre());
}

}  // namespace
}  // namespace aicf::command
