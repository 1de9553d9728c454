#pragma once

// Property tests of derivations: a region in text form is derived, and the derived form is run over adversarial data,
// random steps, random cuts and random merge trees, in float64 and f32, against the region's own statements in float64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <variant>

#include "mir/stream/derive.h"
#include "region_reference.h"

namespace aicf::test {

/// What a row of streamed data looks like.
enum class Data {
  normal,         ///< standard normal
  offset,         ///< 1e6 + standard normal
  one_huge,       ///< normal with one element of 1e4
  all_equal,      ///< one value
  leading_zeros,  ///< a third of zeros, then 1e6 + normal
  padded,         ///< a third of zeros, then 1000 + normal
  mean_zero,      ///< +1, −1, +1, −1 in front, then normal about 3
  minus_infinity_prefix,
  minus_infinity,
  plus_infinity,  ///< one +inf
  nan,            ///< one NaN
};
inline const std::vector<Data> finite_data{Data::normal,    Data::offset,        Data::one_huge,
                                           Data::all_equal, Data::leading_zeros, Data::mean_zero};
inline const std::vector<Data> tame_data{Data::normal, Data::all_equal, Data::mean_zero};
inline const std::vector<Data> masked_data{Data::minus_infinity_prefix, Data::minus_infinity, Data::plus_infinity,
                                           Data::nan};

inline std::string name(Data d) {
  static const char* names[] = {"normal",         "offset",        "one_huge",  "all_equal",
                                "leading_zeros",  "padded",        "mean_zero", "minus_infinity_prefix",
                                "minus_infinity", "plus_infinity", "nan"};
  return names[static_cast<int>(d)];
}

struct Case {
  std::string text;
  /// Tensors whose last dimension is filled as `data` says; others are standard normal.
  std::set<std::string> adversarial{"X"};
  std::vector<Data> data = finite_data;
  /// Passes expected.
  std::size_t passes = 1;
  /// Tolerances relative to |value| plus `scale`.
  double double_tolerance = 1e-9, single_tolerance = 1e-5;
  double scale = 1e-3;
  /// Values of the symbol that the streamed axis has.
  std::vector<std::int64_t> lengths{1, 2, 7, 31, 64};
  std::string symbol = "len";
  DeriveOptions options;
  bool single = true;
};

class Harness {
 public:
  explicit Harness(const Case& c, unsigned seed = 7) : case_(c), random_(seed) {}

  static StreamingRegion derived(const Case& c) {
    auto region = parse_region(c.text, "test");
    if (!region) throw std::runtime_error(region.error().text());
    auto outcome = derive(*region, c.options);
    if (auto* r = std::get_if<Refusal>(&outcome)) throw std::runtime_error("refused by " + r->law + ": " + r->reason);
    return std::get<StreamingRegion>(outcome);
  }

  void run() {
    auto parsed = parse_region(case_.text, "test");
    ASSERT_TRUE(parsed) << parsed.error().text();
    region_ = *parsed;
    const auto valid = verify(region_);
    ASSERT_TRUE(valid) << valid.error().text();
    auto again = parse_region(to_string(region_), "again");
    ASSERT_TRUE(again) << again.error().text() << "\n" << to_string(region_);
    EXPECT_EQ(to_string(*again), to_string(region_));
    auto outcome = derive(region_, case_.options);
    if (auto* r = std::get_if<Refusal>(&outcome)) FAIL() << "refused by " << r->law << ": " << r->reason;
    streaming_ = std::get<StreamingRegion>(outcome);
    const std::string text = to_string(streaming_);
    EXPECT_EQ(streaming_.streams.size(), case_.passes) << text;
    auto reparsed = parse_streaming_region(text, "printed");
    ASSERT_TRUE(reparsed) << reparsed.error().text() << "\n" << text;
    EXPECT_EQ(to_string(*reparsed), text);
    const auto still_valid = verify(*reparsed);
    EXPECT_TRUE(still_valid) << (still_valid ? "" : still_valid.error().text());
    for (const Data d : case_.data) {
      for (const std::int64_t length : case_.lengths) {
        one(d, length, *reparsed);
        if (::testing::Test::HasFailure()) {
          ADD_FAILURE() << "data " << name(d) << " length " << length << "\n" << text;
          return;
        }
      }
    }
  }

 private:
  std::vector<double> fill(std::size_t rows, std::size_t n, Data d) {
    std::normal_distribution<double> normal;
    std::vector<double> out;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t special = n == 0 ? 0 : random_() % n;
      const double common = normal(random_);
      for (std::size_t i = 0; i < n; ++i) {
        double v = normal(random_);
        switch (d) {
          case Data::normal:
            break;
          case Data::offset:
            v += 1e6;
            break;
          case Data::one_huge:
            if (i == special) v = 1e4;
            break;
          case Data::all_equal:
            v = common;
            break;
          case Data::leading_zeros:
            v = i < n / 3 ? 0 : 1e6 + v;
            break;
          case Data::padded:
            v = i < n / 3 ? 0 : 1000 + v;
            break;
          case Data::mean_zero:
            v = i < 4 ? (i % 2 ? -1 : 1) : 3 + v;
            break;
          case Data::minus_infinity_prefix:
            if (2 * i < n) v = -INFINITY;
            break;
          case Data::minus_infinity:
            v = -INFINITY;
            break;
          case Data::plus_infinity:
            if (i == special) v = INFINITY;
            break;
          case Data::nan:
            if (i == special) v = NAN;
            break;
        }
        out.push_back(static_cast<double>(static_cast<float>(v)));
      }
    }
    return out;
  }

  void one(Data d, std::int64_t length, const StreamingRegion& streaming) {
    const std::map<std::string, std::int64_t> symbols{{case_.symbol, length}};
    HostTensors inputs;
    for (const RegionInput& i : region_.inputs) {
      std::size_t rows = 1, n = 1;
      for (std::size_t k = 0; k < i.shape.size(); ++k) {
        const auto size = static_cast<std::size_t>(evaluate_int(i.shape[k], symbols).value());
        (k + 1 == i.shape.size() ? n : rows) *= size;
      }
      inputs[i.tensor] = fill(rows, n, case_.adversarial.contains(i.tensor) ? d : Data::normal);
      if (!is_float(i.type)) {
        for (double& v : inputs[i.tensor]) v = i.type == DType::boolean ? v > 0 : std::floor(std::fabs(v));
      }
    }
    const HostTensors expected = RegionReference(region_, inputs, symbols).run();
    for (int variant = 0; variant < 5; ++variant) {
      EvaluateOptions options;
      options.symbols = symbols;
      options.single_precision = variant % 2 == 1;
      if (options.single_precision && !case_.single) continue;
      if (variant > 0) {
        for (int i = 0; i < 4; ++i) options.steps.push_back(static_cast<std::int64_t>(1 + random_() % 16));
      }
      if (variant > 1) {
        const std::size_t cuts = random_() % 6;
        for (std::size_t i = 0; i < cuts; ++i)
          options.cuts.push_back(static_cast<std::int64_t>(random_() % static_cast<std::size_t>(length + 2)));
        options.pick = [&](std::size_t n) { return random_() % n; };
      }
      const auto got = evaluate(streaming, inputs, options);
      ASSERT_TRUE(got) << got.error().text();
      const double tolerance = options.single_precision ? case_.single_tolerance : case_.double_tolerance;
      for (const auto& [tensor, want] : expected) {
        ASSERT_TRUE(got->contains(tensor)) << tensor;
        const auto& have = got->at(tensor);
        ASSERT_EQ(have.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          if (std::isnan(want[i]) ? std::isnan(have[i]) : want[i] == have[i]) continue;
          ASSERT_LE(std::fabs(have[i] - want[i]), tolerance * (std::fabs(want[i]) + case_.scale))
              << tensor << "[" << i << "] is " << have[i] << ", expected " << want[i] << ", variant " << variant;
        }
      }
    }
  }

  Case case_;
  std::mt19937 random_;
  Region region_;
  StreamingRegion streaming_;
};

inline void check(const Case& c) {
  Harness(c).run();
}

}  // namespace aicf::test
