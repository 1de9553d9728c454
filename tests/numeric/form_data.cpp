#include "tests/numeric/form_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace aicf::numeric {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class Source {
 public:
  explicit Source(unsigned seed) : bits_(seed) {}
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

 private:
  std::mt19937_64 bits_;
};

/// The smallest normal number.
double smallest(DType type) {
  return type == DType::f16 ? 0x1p-14 : 0x1p-126;
}

/// As far out as leaves a unit in the last place (f32: a sixteenth of one).
double offset(DType type) {
  return type == DType::f16 ? 1024 : type == DType::bf16 ? 128 : 1e6;
}

/// One of three runs of 16 elements is masked, another one in each row; the fourth row keeps one run alone.
bool tile_is_kept(std::int64_t row, std::int64_t column) {
  const std::int64_t tile = column / 16;
  return row % 4 == 3 ? tile == row / 4 % 5 : tile % 3 != row % 4;
}

double element(Data data, DType type, std::int64_t row, std::int64_t column, std::int64_t length, Source& source) {
  const bool odd_row = row % 2 == 1, inner = column > 0 && column + 1 < length;
  switch (data) {
    case Data::close:
      return source.normal() * 0.3;
    case Data::ascending:
      return 0.5 * static_cast<double>(column) + 0.1 * source.normal();
    case Data::descending:
      return -0.5 * static_cast<double>(column) + 0.1 * source.normal();
    case Data::wide:
      return source.normal() * 40;
    case Data::offset:
      return offset(type) + source.normal();
    case Data::denormal:
      return source.normal() * 0.2 * smallest(type);
    case Data::cliffs:
      return (column / 8 % 2 == 0 ? -40 : 40) + source.normal();
    case Data::constant:
      return 1.25;
    case Data::zeros:
      return 0;
    case Data::minus_infinity_rows:
      return odd_row ? source.normal() : -inf;
    case Data::mask:
      return source.uniform() < 0.6 ? 0 : -inf;
    case Data::mask_rows:
      return odd_row && source.uniform() < 0.6 ? 0 : -inf;
    case Data::mask_tiles:
      return tile_is_kept(row, column) ? 0 : -inf;
    case Data::keep_tiles:
      return tile_is_kept(row, column);
    case Data::keep_inner:
      return inner;
    case Data::keep:
      return source.uniform() < 0.67;
    case Data::keep_rows:
      return odd_row && source.uniform() < 0.67;
    case Data::keep_last:
      return column + 1 == length;
    case Data::padded:
      return inner ? 1000 + source.normal() : 0;
    case Data::outliers:
      return inner ? source.normal() : 1e4;
    case Data::peaks:
      return inner ? source.normal() : 60;
    case Data::whole:
      return std::floor(source.uniform() * 256) - (type == DType::u8 ? 0 : 128);
    case Data::classes:
      return std::floor(source.uniform() * 3);
    default:
      return source.normal();
  }
}

std::vector<Sizes> rows_of(std::initializer_list<std::int64_t> lengths) {
  std::vector<Sizes> out;
  std::int64_t rows = 3;
  for (const std::int64_t n : lengths) out.push_back({{"rows", rows++}, {"n", n}});
  return out;
}

std::vector<Sizes> keys_of(std::initializer_list<std::pair<std::int64_t, std::int64_t>> sizes) {
  std::vector<Sizes> out;
  for (const auto& [q, kv] : sizes) out.push_back({{"batch", 1}, {"head", 2}, {"q", q}, {"kv", kv}});
  return out;
}

/// What stands where data does not say.
Data usual(DType type) {
  if (type == DType::boolean) return Data::keep;
  if (type == DType::i8 || type == DType::u8) return Data::whole;
  return is_integer(type) ? Data::classes : Data::normal;
}

std::vector<Form> make_forms() {
  using D = Data;
  // 1, primes, and the neighbours of powers of two that tiles are made of.
  const auto rows = rows_of({1, 2, 7, 8, 9, 31, 33, 64, 127});
  const auto keys = keys_of({{1, 1}, {1, 13}, {2, 3}, {7, 8}, {8, 7}, {9, 17}, {17, 31}, {33, 65}});
  const Form::Variant normal{"normal", {}};
  const auto x = [](const char* name, D d) { return Form::Variant{name, {{"x", d}}}; };
  const auto kept_inner = [](const char* name, D d) {
    return Form::Variant{name, {{"x", d}, {"keep", D::keep_inner}}};
  };
  const std::vector<Form::Variant> masked_rows{normal, kept_inner("nan", D::nan), kept_inner("infinity", D::infinity),
                                               kept_inner("outliers", D::outliers), kept_inner("padded", D::padded)};
  const Form::Variant offset{"offset", {{"x", D::offset}}, false};
  const std::vector<Form::Variant> row_data{normal,
                                            x("ascending", D::ascending),
                                            x("descending", D::descending),
                                            x("constant", D::constant),
                                            x("nan", D::nan),
                                            x("infinity", D::infinity),
                                            x("minus_infinity", D::minus_infinity),
                                            x("cliffs", D::cliffs),
                                            x("denormal", D::denormal)};
  auto with = [](std::vector<Form::Variant> list, std::initializer_list<Form::Variant> more) {
    list.insert(list.end(), more);
    return list;
  };
  const std::vector<Form::Variant> exponential_data =
      with(row_data, {x("wide", D::wide), x("minus_infinity_rows", D::minus_infinity_rows)});
  const std::vector<Form::Variant> moment_data = with(row_data, {offset, x("zeros", D::zeros)});
  const std::vector<Form::Variant> operand_data{normal,
                                                {"nan_in_queries", {{"Q", D::nan}}},
                                                {"nan_in_keys", {{"K", D::nan}}},
                                                {"nan_in_values", {{"V", D::nan}}},
                                                {"infinity_in_values", {{"V", D::infinity}}},
                                                {"infinity_in_queries", {{"Q", D::infinity}}},
                                                {"infinity_in_keys", {{"K", D::infinity}}},
                                                {"minus_infinity_in_values", {{"V", D::minus_infinity}}},
                                                {"wide_scores", {{"Q", D::wide}}},
                                                {"cliffs", {{"Q", D::cliffs}, {"K", D::ascending}}},
                                                {"denormal", {{"Q", D::denormal}, {"V", D::denormal}}},
                                                {"equal_keys", {{"K", D::constant}}}};
  const std::vector<Form::Variant> mask_data = with(operand_data, {{"some", {{"mask", D::mask}}},
                                                                   {"empty_rows", {{"mask", D::mask_rows}}},
                                                                   {"tiles", {{"mask", D::mask_tiles}}},
                                                                   {"cliffs_in_mask", {{"mask", D::cliffs}}},
                                                                   {"large_bias", {{"mask", D::wide}}},
                                                                   {"nan_in_mask", {{"mask", D::nan}}},
                                                                   {"infinity_in_mask", {{"mask", D::infinity}}}});
  const std::vector<Form::Variant> keep_data =
      with(operand_data, {{"empty_rows", {{"keep", D::keep_rows}}},
                          {"last_key", {{"keep", D::keep_last}}},
                          {"tiles", {{"keep", D::keep_tiles}}},
                          {"nan_in_masked_keys", {{"keep", D::keep_inner}, {"K", D::nan}}},
                          {"infinity_in_masked_keys", {{"keep", D::keep_inner}, {"K", D::infinity}}},
                          {"nan_in_masked_values", {{"keep", D::keep_inner}, {"V", D::nan}}},
                          {"none", {{"keep", D::zeros}}}});
  const std::vector<Form::Variant> plain_operands{normal,
                                                  {"nan_in_queries", {{"Q", D::nan}}},
                                                  {"nan_in_values", {{"V", D::nan}}},
                                                  {"equal_keys", {{"K", D::constant}}}};
  // Fewer sizes for forms that differ from others in what a row knows of itself, not in how it streams.
  const auto few = keys_of({{1, 1}, {9, 17}, {33, 65}});
  const auto few_rows = rows_of({3, 9, 33, 127});
  // Keys that an index mask excludes are not read: special values stand in the queries only.
  const std::vector<Form::Variant> index_masked{
      normal, {"nan_in_queries", {{"Q", D::nan}}}, {"wide_scores", {{"Q", D::wide}}}};
  const std::vector<Form::Variant> special{normal,
                                           {"nan_in_queries", {{"Q", D::nan}}},
                                           {"infinity_in_values", {{"V", D::infinity}}},
                                           {"wide_scores", {{"Q", D::wide}}}};
  const std::vector<Form::Variant> kept = {normal,
                                           {"empty_rows", {{"keep", D::keep_rows}}},
                                           {"last_key", {{"keep", D::keep_last}}},
                                           {"wide_scores", {{"Q", D::wide}}}};
  const auto f32 = [](Form form) {
    form.halves = false;
    return form;
  };
  const std::vector<Form::Variant> finite{normal, {"nan_in_queries", {{"Q", D::nan}}}};
  return {
      {"masked_attention", keys, mask_data},
      {"bool_attention", keys, keep_data},
      {"filled_attention", keys, keep_data},
      // Keys that the mask excludes are not read, so special values stand in the queries only.
      {"causal_attention", keys, {normal, {"nan_in_queries", {{"Q", D::nan}}}, {"wide_scores", {{"Q", D::wide}}}}},
      {"windowed_fill",
       keys_of({{1, 1}, {40, 9}, {33, 65}, {70, 33}}),
       {normal,
        {"nan_in_queries", {{"Q", D::nan}}},
        {"scores_below_the_fill", {{"Q", D::wide}, {"K", D::wide}}},
        {"equal_keys", {{"K", D::constant}}}}},
      {"lowest_bias", keys, {normal, {"nan_in_queries", {{"Q", D::nan}}}, {"wide_scores", {{"Q", D::wide}}}}},
      {"sink_by_concat", keys,
       with(operand_data, {{"large_sink", {{"S", D::wide}}},
                           {"nan_in_the_sink", {{"S", D::nan}}},
                           {"no_sink", {{"S", D::minus_infinity}}},
                           {"infinite_sink", {{"S", D::infinity}}}})},
      {"softmax", rows, exponential_data},
      {"written_out_softmax", rows, exponential_data},
      {"log_softmax", rows, exponential_data},
      {"layer_normalisation", {{{"rows", 1}}, {{"rows", 5}}}, moment_data, 1, 1e-4},
      {"variance", rows, moment_data},
      {"weighted_spread", rows,
       with(exponential_data, {{"offset", {{"y", D::offset}}, false}, {"constant_y", {{"y", D::constant}}}})},
      // A row with −inf gives +inf where the graph gives NaN (README, "literal meaning"): not among its data.
      {"exponentials_about_the_mean",
       rows,
       {normal, x("ascending", D::ascending), x("descending", D::descending), x("constant", D::constant),
        x("nan", D::nan), x("zeros", D::zeros)}},
      // Not for sorted rows, whose cubes cancel.
      {"third_moment",
       rows,
       {normal, x("constant", D::constant), x("nan", D::nan), x("infinity", D::infinity),
        x("minus_infinity", D::minus_infinity), offset, x("zeros", D::zeros)},
       1,
       1e-4},
      {"covariance", rows, with(moment_data, {{"both_offset", {{"x", D::offset}, {"y", D::offset}}, false}})},
      {"gaussian_smoother",
       keys,
       {{"close", {{"P", D::close}, {"X", D::close}}},
        {"nan", {{"P", D::nan}, {"X", D::close}}},
        {"nan_in_values", {{"P", D::close}, {"X", D::close}, {"V", D::nan}}}}},
      {"hedged_weights", keys, operand_data},
      {"squared_relu_weights", keys, plain_operands},
      {"score_entropy", keys, {normal, {"equal_keys", {{"K", D::constant}}}, {"nan_in_queries", {{"Q", D::nan}}}}},
      {"soft_range", rows, row_data},
      {"largest_share",
       rows,
       {normal, x("ascending", D::ascending), x("descending", D::descending), x("constant", D::constant),
        x("nan", D::nan)},
       1},
      {"whole_mean",
       {{{"rows", 1}, {"n", 7}}, {{"rows", 3}, {"n", 33}}},
       {normal, x("constant", D::constant), x("nan", D::nan), x("infinity", D::infinity)}},
      {"mean_deviation", rows, with(row_data, {x("zeros", D::zeros)})},
      {"multiplied_mask", few,
       with(finite, {{"last_key", {{"keep", D::keep_last}}}, {"empty_rows", {{"keep", D::keep_rows}}}})},
      f32({"masked_by_hand", few,
           with(finite, {{"empty_rows", {{"keep", D::keep_rows}}},
                         {"nan_in_masked_keys", {{"K", D::nan}, {"keep", D::keep_inner}}},
                         {"infinity_in_masked_keys", {{"K", D::infinity}, {"keep", D::keep_inner}}}})}),
      f32({"weighed_by_hand", few_rows, {normal, x("nan", D::nan), kept_inner("peaks", D::peaks)}}),
      f32({"imputed_moments", few_rows, masked_rows, 1, 1e-4}),
      f32({"agreement",
           few_rows,
           {normal,
            {"empty_rows", {{"keep", D::keep_rows}}},
            {"offset", {{"x", D::offset}, {"z", D::close}}},
            {"wide", {{"x", D::wide}, {"z", D::wide}}},
            x("nan", D::nan)}}),
      f32({"masked_moments", few_rows, masked_rows, 1, 1e-4}),
      f32({"padded_moments",
           few_rows,
           {{"normal", {{"mask", D::keep}}},
            {"outliers", {{"x", D::outliers}, {"mask", D::keep_inner}}},
            {"padded", {{"x", D::padded}, {"mask", D::keep_inner}}}}}),
      {"decoding_from_start", few, index_masked},
      f32({"block_diagonal", keys_of({{1, 1}, {9, 17}, {40, 9}, {33, 65}}), index_masked}),
      f32({"prefix_attention", few, index_masked}),
      f32({"first_keys_and_window", few, index_masked}),
      {"slopes", few, with(index_masked, {{"steep", {{"S", D::wide}}}, {"no_slope", {{"S", D::zeros}}}})},
      f32({"logarithmic_buckets", few, with(finite, {{"large_bias", {{"T", D::wide}}}})}),
      f32({"running_positions", few, kept, 2}),
      f32({"mapped_heads", few, special}),
      {"sink_in_the_sum", few,
       with(special, {{"large_sink", {{"S", D::wide}}}, {"no_sink", {{"S", D::minus_infinity}}}})},
      f32({"two_caches",
           {{{"head", 2}, {"q", 1}, {"kv", 1}, {"past", 12}},
            {{"head", 2}, {"q", 3}, {"kv", 3}, {"past", 1}},
            {{"head", 1}, {"q", 9}, {"kv", 33}, {"past", 0}},
            {{"head", 2}, {"q", 9}, {"kv", 17}, {"past", 33}}},
           {normal,
            {"wide_scores", {{"Q", D::wide}}},
            {"nan_in_the_past", {{"K", D::nan}}},
            {"nan_in_new_values", {{"W", D::nan}}},
            {"no_new_keys", {{"M", D::minus_infinity}}}}}),
      {"past_and_present",
       {{{"head", 2}, {"q", 1}, {"kv", 1}, {"past", 12}},
        {{"head", 2}, {"q", 3}, {"kv", 3}, {"past", 1}},
        {{"head", 2}, {"q", 9}, {"kv", 17}, {"past", 33}}},
       with(special, {{"nan_in_the_past", {{"E", D::nan}}}})},
      f32({"normed_cache",
           {{{"head", 2}, {"q", 1}, {"kv", 1}, {"past", 12}},
            {{"head", 2}, {"q", 3}, {"kv", 3}, {"past", 1}},
            {{"head", 1}, {"q", 9}, {"kv", 9}, {"past", 0}},
            {{"head", 2}, {"q", 9}, {"kv", 17}, {"past", 33}}},
           with(special, {{"nan_in_the_past", {{"E", D::nan}}}}),
           2,
           1e-4}),
      f32({"rational_weights", few, special}),
      {"retention", few, finite},
      // inf of one sum less inf of the other is NaN where the graph has inf (README): not among its data.
      f32({"difference_of_weights", few, with(index_masked, {{"other_wide_scores", {{"P", D::wide}}}})}),
      f32({"pairs_of_weights", few, finite}),
      f32({"halves_of_heads", few, finite}),
      f32({"merged_heads", few, special}),
      f32({"powers_of_two", few, special}),
      f32({"deviations_too", few_rows, {normal, x("constant", D::constant), x("nan", D::nan)}, 3, 1e-4}),
      f32({"variance_too", few_rows, {normal, x("constant", D::constant), x("nan", D::nan)}, 1, 1e-4}),
      f32({"plane_normalisation",
           {{{"picture", 2}, {"i", 1}, {"j", 7}},
            {{"picture", 1}, {"i", 9}, {"j", 17}},
            {{"picture", 2}, {"i", 33}, {"j", 1}}},
           {normal, x("constant", D::constant), x("nan", D::nan)},
           1,
           1e-4}),
      f32({"keys_in_a_plane",
           {{{"q", 5}, {"i", 1}, {"j", 7}}, {{"q", 17}, {"i", 9}, {"j", 5}}, {{"q", 3}, {"i", 33}, {"j", 1}}},
           special}),
      f32({"plane_of_queries",
           {{{"head", 2}, {"kv", 1}}, {{"head", 3}, {"kv", 17}}, {{"head", 1}, {"kv", 65}}},
           special}),
      f32({"open_plane_of_queries",
           {{{"head", 2}, {"i", 3}, {"j", 5}, {"kv", 17}},
            {{"head", 1}, {"i", 1}, {"j", 7}, {"kv", 33}},
            {{"head", 1}, {"i", 9}, {"j", 1}, {"kv", 65}}},
           special}),
      f32({"one_head",
           {{{"n", 1}}, {{"n", 17}}, {{"n", 65}}},
           {{"close", {{"X", D::close}}}, {"nan", {{"X", D::nan}}}},
           3}),
      f32({"agents",
           {{{"head", 2}, {"q", 9}, {"agent", 3}, {"kv", 17}}, {{"head", 1}, {"q", 33}, {"agent", 9}, {"kv", 65}}},
           special,
           2}),
      f32({"spread_of_one_table",
           few_rows,
           {normal, x("ascending", D::ascending), x("nan", D::nan), {"offset", {{"t", D::offset}}, false}}}),
      f32({"rotated_halves", few, special, 4}),
      f32({"normalised_operands", few, with(special, {{"zeros", {{"Q", D::zeros}, {"K", D::zeros}}}})}),
      f32({"quantised_cache", few, {normal, {"close_scales", {{"s", D::close}, {"t", D::close}}}}}),
      {"packed_keys", few, {normal, {"close_scales", {{"s", D::close}}}}},
      f32({"gated_weights", few, special}),
      f32({"latent_keys", few, {normal, {"nan_in_keys", {{"C", D::nan}}}, {"wide_scores", {{"Q", D::wide}}}}}),
      {"weights_over_queries", few, special, 2},
      f32({"slots", few, special, 2}),
      {"two_temperatures", few, special},
      f32({"logarithm_of_the_sum_too", few, special, 2}),
      f32({"spread_of_values", few, finite, 2}),
      {"product_and_entropy", few, finite, 2},
      f32({"clipped_weights", few, special, 2}),
      f32({"divergence",
           few_rows,
           {normal, x("ascending", D::ascending), x("constant", D::constant), x("nan", D::nan)}}),
      f32({"shared_information", few_rows, {normal, x("ascending", D::ascending), x("nan", D::nan)}}),
      {"correlation", few_rows, {normal, x("ascending", D::ascending), x("nan", D::nan), offset}, 1, 1e-4},
      f32({"kurtosis", few_rows, {normal, x("ascending", D::ascending), x("nan", D::nan), offset}, 1, 1e-4}),
      f32({"largest_normalised", few_rows, {normal, x("descending", D::descending), x("nan", D::nan)}, 1, 1e-4}),
      f32({"above_the_mean", few_rows, {normal, x("nan", D::nan), x("infinity", D::infinity)}}),
      f32({"place_of_the_maximum", few_rows, {normal, x("descending", D::descending), x("nan", D::nan)}}),
      {"cross_entropy", few_rows, {normal, x("wide", D::wide), x("nan", D::nan)}},
      f32({"flattened_rows", few_rows, {normal, x("nan", D::nan)}}),
      f32({"cross_entropy_of_a_product", few_rows, {normal, x("wide", D::wide), x("nan", D::nan)}}),
      {"ignored_labels", few_rows, {normal, x("wide", D::wide), x("nan", D::nan)}},
      {"counted_by_indices",
       {{{"rows", 3}, {"n", 9}}, {{"rows", 33}, {"n", 17}}, {{"rows", 20}, {"n", 65}}},
       {normal, x("nan", D::nan)},
       3},
      f32({"five_of_one_load",
           few_rows,
           {normal, x("constant", D::constant), x("nan", D::nan), x("infinity", D::infinity), offset}}),
      f32({"two_queries_of_one_cache", few, special}),
      f32({"contrast", few_rows, {normal, {"wide", {{"a", D::wide}}}, {"nan", {{"b", D::nan}}}}}),
  };
}

}  // namespace

Tensor make(Data data, DType type, const std::vector<std::int64_t>& shape, unsigned seed) {
  Tensor t(type, shape);
  Source source(seed);
  const std::int64_t length = shape.empty() ? 1 : shape.back();
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, element(data, type, i / length, i % length, length, source));
  const double special = data == Data::nan              ? nan
                         : data == Data::infinity       ? inf
                         : data == Data::minus_infinity ? -inf
                                                        : 0;
  if (special != 0 && t.size() > 0) {
    t.set(length - 1, special);
    t.set(t.size() - length, special);
  }
  return t;
}

Result<NamedTensors> make_inputs(const Model& model, const Sizes& sizes, const std::map<std::string, Data>& data) {
  NamedTensors out;
  unsigned seed = 1;
  for (const SemanticInput& i : model.semantic.inputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& d : i.shape) {
      AICF_TRY(const std::int64_t n, evaluate_int(d, sizes));
      shape.push_back(n);
    }
    const auto it = data.find(i.name);
    const Data kind = it != data.end() ? it->second : usual(i.type);
    out[i.name] = make(kind, i.type, shape, seed++);
  }
  return out;
}

std::string Form::path() const {
  return std::string(AICF_TESTS_DIR) + "/models/forms/" + name + ".aicf";
}

void PrintTo(const Form& f, std::ostream* out) {
  *out << f.name;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = make_forms();
  return all;
}

}  // namespace aicf::numeric
