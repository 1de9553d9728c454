#include <gmock/gmock.h>

#include "helpers.h"
#include "mir/graph/simplify.h"

namespace aicf {
namespace {

using test::graph_of;
using testing::HasSubstr;
using testing::Not;

std::string split(std::string_view text, int splits) {
  Graph g = graph_of(text);
  EXPECT_EQ(split_reductions(g), splits);
  EXPECT_TRUE(verify(g)) << to_string(g);
  return to_string(g);
}

constexpr std::string_view scores =
    "input Q: f32[q, 8]\ninput K: f32[kv, 8]\ninput sink: f32[1]\n"
    "s: f32[i=q, j=kv] = sum(Q[i, d] * K[j, d] over d=8)\n";

TEST(SplitReductions, ShortEndLeavesTheAxis) {
  const std::string text = split(std::string(scores) + R"(
cat: f32[i=q, j=kv + 1] = where(j < kv, s[i, j], sink[j - kv])
m: f32[i=q] = max(cat[i, j] over j=kv + 1)
output m as "m"
)",
                                 1);
  EXPECT_THAT(text, HasSubstr("m_rest: f32[i=q] = max(cat[i, j] over j=kv)"));
  EXPECT_THAT(text, HasSubstr("m: f32[i=q] = max(m_rest[i], cat[i, kv])"));
}

TEST(SplitReductions, ShortBeginLeavesTheAxis) {
  const std::string text = split(std::string(scores) + R"(
cat: f32[i=q, j=kv + 2] = where(j < 2, sink[0], s[i, j - 2])
l: f32[i=q] = sum(exp(cat[i, j]) over j=kv + 2)
output l as "l"
)",
                                 1);
  EXPECT_THAT(text, HasSubstr("l_rest: f32[i=q] = sum(exp(cat[i, j + 2]) over j=kv)"));
  EXPECT_THAT(text, HasSubstr("l: f32[i=q] = l_rest[i] + exp(cat[i, 0]) + exp(cat[i, 1])"));
}

TEST(SplitReductions, EndBesideLongerPartsLeavesTheAxis) {
  const std::string text = split(R"(
input a: f32[q, n]
input sink: f32[1]
s: f32[i=q, j=n] = sum(a[i, k] * a[j, k] over k=n)
cat: f32[i=q, j=2 * n + 1] = where(j < 1, sink[0], where(j < n + 1, s[i, j - 1], a[i, j - n - 1]))
m: f32[i=q] = max(cat[i, j] over j=2 * n + 1)
output m as "m"
)",
                                 1);
  EXPECT_THAT(text, HasSubstr("m_rest: f32[i=q] = max(cat[i, j + 1] over j=2 * n)"));
}

// The last key is a key as the others: its score would be made in a second place.
TEST(SplitReductions, PartOfOneProductStays) {
  split(R"(
input Q: f32[q, 8]
input past: f32[kv, 8]
input new: f32[1, 8]
V: f32[j=kv + 1, d=8] = where(j < kv, past[j, d], new[j - kv, d])
s: f32[i=q, j=kv + 1] = sum(Q[i, d] * V[j, d] over d=8)
o: f32[i=q, e=8] = sum(exp(s[i, j]) * V[j, e] over j=kv + 1)
output o as "o"
)",
        0);
}

TEST(SplitReductions, LongPartsStay) {
  split(std::string(scores) + R"(
cat: f32[i=q, j=kv + 5] = where(j < kv, s[i, j], sink[0])
m: f32[i=q] = max(cat[i, j] over j=kv + 5)
output m as "m"
)",
        0);
}

}  // namespace
}  // namespace aicf
