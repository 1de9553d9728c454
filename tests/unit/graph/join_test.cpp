#include <gmock/gmock.h>

#include "helpers.h"
#include "mir/graph/simplify.h"

namespace aicf {
namespace {

using test::graph_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string join(std::string_view text, int joins) {
  Graph g = graph_of(text);
  EXPECT_EQ(join_parts(g), joins);
  g.remove_unused();
  EXPECT_TRUE(verify(g)) << to_string(g);
  return to_string(g);
}

/// Products with keys of a cache and with new ones, as wide as given.
std::string two_products(const std::string& d1 = "8", const std::string& d2 = "8") {
  return "input Q: f32[q, 8]\ninput K: f32[past, 8]\ninput L: f32[new, 8]\n"
         "s: f32[i=q, j=past] = sum(Q[i, d] * K[j, d] over d=" +
         d1 + ")\nt: f32[i=q, j=new] = sum(Q[i, d] * L[j, d] over d=" + d2 + ")\n";
}

constexpr std::string_view largest = "m: f32[i=q] = max(cat[i, j] over j=past + new)\noutput m as \"m\"\n";

TEST(JoinParts, ScoresOfTwoCachesAreOneProduct) {
  EXPECT_THAT(join(two_products() + "cat: f32[i=q, j=past + new] = where(j < past, s[i, j], t[i, j - past])\n" +
                       std::string(largest),
                   1),
              AllOf(HasSubstr("sum(Q[i, d] * where(j < past, K[j, d], L[j - past, d]) over d=8)"),
                    HasSubstr("cat: f32[i=q, j=past + new] = s_1[i, j]")));
}

TEST(JoinParts, MapsOnTheWayStayApart) {
  const std::string text = join(two_products() + R"(
input M: f32[q, new]
s2: f32[i=q, j=past] = s[i, j] * 0.5
t2: f32[i=q, j=new] = t[i, j] * 0.5 + M[i, j]
cat: f32[i=q, j=past + new] = where(past <= j, t2[i, j - past], s2[i, j])
)" + std::string(largest),
                                1);
  EXPECT_THAT(text, HasSubstr("where(j < past, s_1[i, j] * 0.5, s_1[i, j] * 0.5 + M[i, j - past])"));
}

TEST(JoinParts, RunsOfPartsAreJoined) {
  const std::string text = join(two_products() + R"(
input sink: f32[q]
cat: f32[i=q, j=past + new + 1] = where(j < 1, sink[i], where(j < past + 1, s[i, j - 1], t[i, j - past - 1]))
l: f32[i=q] = sum(exp(cat[i, j]) over j=past + new + 1)
output l as "l"
)",
                                1);
  EXPECT_THAT(text, AllOf(HasSubstr("s_1: f32[i=q, j=new + past] = sum(Q[i, d] * where(j < past"),
                          HasSubstr("where(j < 1, sink[i], s_1[i, j - 1])")));
}

TEST(JoinParts, WhatElseIsReadStays) {
  const std::string cat = "cat: f32[i=q, j=past + new] = where(j < past, s[i, j], t[i, j - past])\n";
  join(two_products() + cat + "output s as \"s\"\n" + std::string(largest), 0);
  join(two_products() + cat + "n: f32[i=q] = max(t[i, j] over j=new)\noutput n as \"n\"\n" + std::string(largest), 0);
  // Nothing reduces along the parts: they are written one beside the other as they are.
  join(two_products() + cat + "output cat as \"cat\"\n", 0);
  // Products of other lengths; a part that reads each product twice; parts that do not lie one after the other.
  join(two_products("8", "4") + cat + std::string(largest), 0);
  join(two_products() + "cat: f32[i=q, j=past + new] = where(j < past, s[i, j] * s[i, 0], t[i, j - past])\n" +
           std::string(largest),
       0);
  join(
      two_products() + "cat: f32[i=q, j=past + new] = where(j < new, s[i, j], t[i, j - past])\n" + std::string(largest),
      0);
}

constexpr std::string_view weights =
    "input E: f32[q, past + new]\ninput V: f32[past, 4]\ninput W: f32[new, 4]\n"
    "l: f32[i=q] = sum(E[i, j] over j=past + new)\n"
    "p: f32[i=q, j=past + new] = E[i, j] / l[i]\n"
    "a: f32[i=q, e=4] = sum(p[i, j] * V[j, e] over j=past)\n";

TEST(JoinParts, SumsOverPartsOfOneValueAreOne) {
  const std::string text = join(std::string(weights) + R"(
b: f32[i=q, e=4] = sum(p[i, past + j] * W[j, e] over j=new)
o: f32[i=q, e=4] = b[i, e] + a[i, e]
output o as "o"
)",
                                1);
  EXPECT_THAT(text, AllOf(HasSubstr("sum(p[i, j] * where(j < past, V[j, e], W[j - past, e]) over j=new + past)"),
                          HasSubstr("o: f32[i=q, e=4] = a_1[i, e]")));
}

TEST(JoinParts, SumsOfOtherElementsStay) {
  const auto added = [](const std::string& b) {
    return std::string(weights) + b + "o: f32[i=q, e=4] = a[i, e] + b[i, e]\noutput o as \"o\"\n";
  };
  join(added("b: f32[i=q, e=4] = sum(p[i, j] * W[j, e] over j=new)\n"), 0);         // not those after
  join(added("b: f32[i=q, e=4] = sum(E[i, past + j] * W[j, e] over j=new)\n"), 0);  // not of the weights
  join(added("b: f32[i=q, e=4] = max(p[i, past + j] * W[j, e] over j=new)\n"), 0);  // not a sum
  join(added("b: f32[i=q, e=4] = sum(p[i, past + j] * W[j, e] over j=new)\n") + "output b as \"b\"\n", 0);
}

}  // namespace
}  // namespace aicf
