#pragma once

// Multi-indices of products of powers: lists of (what, exponent > 0). Private to mir/stream.

#include <algorithm>
#include <vector>

namespace aicf::stream {

template <class Powers>
int degree(const Powers& powers) {
  int d = 0;
  for (const auto& [what, power] : powers) d += power;
  return d;
}

/// Every multi-index below `powers` and itself, smallest degree first.
template <class Powers>
std::vector<Powers> indices_below(const Powers& powers) {
  std::vector<Powers> all{{}};
  for (const auto& [what, power] : powers) {
    std::vector<Powers> next;
    for (const Powers& p : all) {
      for (int i = 0; i <= power; ++i) {
        Powers q = p;
        if (i > 0) q.emplace_back(what, i);
        next.push_back(std::move(q));
      }
    }
    all = std::move(next);
  }
  std::ranges::stable_sort(all, [](const Powers& a, const Powers& b) { return degree(a) < degree(b); });
  return all;
}

inline double binomial(int n, int k) {
  double b = 1;
  for (int i = 1; i <= k; ++i) b = b * (n - k + i) / i;
  return b;
}

}  // namespace aicf::stream
