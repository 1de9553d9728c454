// The interface for C: statuses, messages per thread, and handles that are closed, null or of another kind.

#include <thread>

#include "api_testing.h"

namespace aicf::testing {
namespace {

using ::testing::HasSubstr;

#define EXPECT_STATUS(status, call, part)       \
  do {                                          \
    EXPECT_EQ(call, status) << aicf_error();    \
    EXPECT_THAT(aicf_error(), HasSubstr(part)); \
  } while (0)

class ApiC : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(aicf_model_parse(affine_text, nullptr, 0, &model_), AICF_OK) << aicf_error();
    ASSERT_EQ(aicf_device_open(software_device.c_str(), &device_), AICF_OK) << aicf_error();
    ASSERT_EQ(aicf_compile_for_device(model_, device_, nullptr, &package_), AICF_OK) << aicf_error();
    ASSERT_EQ(aicf_device_load(device_, package_, &program_), AICF_OK) << aicf_error();
    const aicf_size sizes[] = {{"n", 2}, {"m", 2}};
    ASSERT_EQ(aicf_executable_allocate(program_, "x", sizes, 2, &x_), AICF_OK) << aicf_error();
    ASSERT_EQ(aicf_executable_allocate(program_, "b", sizes, 2, &b_), AICF_OK) << aicf_error();
    ASSERT_EQ(aicf_executable_allocate(program_, "y", sizes, 2, &y_), AICF_OK) << aicf_error();
  }
  void TearDown() override {
    for (void* handle : std::initializer_list<void*>{model_, device_, package_, program_, x_, b_, y_})
      aicf_close(handle);
  }
  aicf_model model_ = nullptr;
  aicf_device device_ = nullptr;
  aicf_package package_ = nullptr;
  aicf_executable program_ = nullptr;
  aicf_buffer x_ = nullptr, b_ = nullptr, y_ = nullptr;
};

TEST_F(ApiC, Runs) {
  const auto x = counted(8, 1, 0.5f), b = counted(8, -4, 1);
  ASSERT_EQ(aicf_buffer_write(x_, AICF_F32, x.data(), 32), AICF_OK);
  ASSERT_EQ(aicf_buffer_write(b_, AICF_F32, b.data(), 32), AICF_OK);
  const aicf_binding inputs[] = {{"x", x_}, {"b", b_}}, outputs[] = {{"y", y_}};
  aicf_run_report report{};
  ASSERT_EQ(aicf_executable_run(program_, inputs, 2, outputs, 1, &report), AICF_OK) << aicf_error();
  EXPECT_GE(report.launches, 1u);
  std::vector<float> y(8);
  ASSERT_EQ(aicf_buffer_read(y_, AICF_F32, y.data(), 32), AICF_OK);
  EXPECT_EQ(y, affine(x, b));
  const char* name = nullptr;
  ASSERT_EQ(aicf_executable_input(program_, 1, &name), AICF_OK);
  EXPECT_STREQ(name, "b");
  ASSERT_EQ(aicf_executable_output(program_, 0, &name), AICF_OK);
  EXPECT_STREQ(name, "y");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_executable_output(program_, 1, &name), "no output 1");
  const std::int64_t one_row[] = {1, 4};
  aicf_buffer view = nullptr;
  ASSERT_EQ(aicf_buffer_view(y_, one_row, 2, &view), AICF_OK);
  std::vector<float> row(4);
  ASSERT_EQ(aicf_buffer_read(view, AICF_F32, row.data(), 16), AICF_OK);
  EXPECT_EQ(row, std::vector<float>(y.begin(), y.begin() + 4));
  EXPECT_EQ(aicf_close(view), AICF_OK);
}

TEST_F(ApiC, ClosedNullAndForeignHandlesAreRefused) {
  const std::vector<float> x(8);
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(nullptr, AICF_F32, x.data(), 32), "buffer handle is NULL");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(reinterpret_cast<aicf_buffer>(device_), AICF_F32, x.data(), 32),
                "device is no buffer");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(reinterpret_cast<aicf_buffer>(~0ul), AICF_F32, x.data(), 32),
                "never open");
  EXPECT_EQ(aicf_close(x_), AICF_OK);
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_close(x_), "closed");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(x_, AICF_F32, x.data(), 32), "buffer handle is closed");
  const aicf_binding inputs[] = {{"x", x_}, {"b", b_}}, outputs[] = {{"y", y_}};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_executable_run(program_, inputs, 2, outputs, 1, nullptr), "closed");
  EXPECT_EQ(aicf_close(nullptr), AICF_OK);

  // A closed device refuses new work; what was made from it goes on.
  EXPECT_EQ(aicf_close(device_), AICF_OK);
  aicf_executable another = nullptr;
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_device_load(device_, package_, &another), "device handle is closed");
  EXPECT_EQ(another, nullptr);
  EXPECT_EQ(aicf_buffer_write(b_, AICF_F32, x.data(), 32), AICF_OK) << aicf_error();
  // Numbers are not used again.
  aicf_device again = nullptr;
  ASSERT_EQ(aicf_device_open("null", &again), AICF_OK);
  EXPECT_NE(again, device_);
  EXPECT_EQ(aicf_close(again), AICF_OK);
}

TEST_F(ApiC, MistakesAreStatusesWithMessages) {
  aicf_model model = nullptr;
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_model_load("/no/such.onnx", nullptr, 0, &model), "/no/such.onnx");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_model_load(nullptr, nullptr, 0, &model), "path is NULL");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_model_parse(affine_text, nullptr, 2, &model), "array of sizes is NULL");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_model_parse(affine_text, nullptr, 0, nullptr), "place for the result is NULL");
  const aicf_size nameless[] = {{nullptr, 3}};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_model_parse(affine_text, nameless, 1, &model), "name of a symbol is NULL");
  EXPECT_STATUS(AICF_UNSUPPORTED, aicf_model_parse("m(x: f32[2]) -> y\ny = Frobnicate(x)\n", nullptr, 0, &model),
                "Frobnicate");
  EXPECT_EQ(model, nullptr);

  aicf_buffer buffer = nullptr;
  const std::int64_t shape[] = {2, 4}, negative[] = {-2};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_device_allocate(device_, static_cast<aicf_type>(13), shape, 2, &buffer),
                "element type");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_device_allocate(device_, AICF_F32, negative, 1, &buffer), "negative");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_device_allocate(device_, AICF_F32, nullptr, 2, &buffer), "shape is NULL");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_view(x_, shape, 1, nullptr), "result is NULL");
  float eight[8] = {};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(x_, AICF_F32, eight, 28), "28 bytes");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(x_, AICF_F32, nullptr, 32), "bytes is NULL");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_write(x_, AICF_I32, eight, 32), "elements of i32");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_read(x_, AICF_F64, eight, 32), "elements of f64");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_buffer_read(x_, AICF_F32, eight, 16), "16 bytes");

  const aicf_binding twice[] = {{"x", x_}, {"x", b_}}, inputs[] = {{"x", x_}, {"b", b_}}, outputs[] = {{"y", y_}};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_executable_run(program_, twice, 2, outputs, 1, nullptr), "'x' is bound twice");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_executable_run(program_, inputs, 1, outputs, 1, nullptr), "input 'b'");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_executable_run(program_, inputs, 2, nullptr, 0, nullptr), "output 'y'");

  aicf_package package = nullptr;
  const char* const unknown[] = {"sm_12"};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_compile(model_, unknown, 1, nullptr, &package), "sm_12");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_compile(model_, nullptr, 0, nullptr, &package), "target");
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_package_load("/no/such", &package), "/no/such");
  EXPECT_STATUS(AICF_RUN_FAILURE, aicf_package_save(package_, "/no/such/folder/p"), "/no/such/folder/p");
  aicf_device device = nullptr;
  EXPECT_STATUS(AICF_UNSUPPORTED, aicf_device_open("vulkan:no such device", &device), "llvmpipe");
}

TEST_F(ApiC, BuildsGraphs) {
  aicf_builder g = nullptr;
  ASSERT_EQ(aicf_builder_create("g", 0, &g), AICF_OK);
  const aicf_size shape[] = {{"rows", 0}, {nullptr, 3}};
  EXPECT_EQ(aicf_builder_input(g, "x", AICF_F32, shape, 2), AICF_OK);
  const float two = 2;
  EXPECT_EQ(aicf_builder_constant(g, "two", AICF_F32, nullptr, 0, &two, sizeof two), AICF_OK);
  const char *const operands[] = {"x", "two"}, *const scaled[] = {"scaled"}, *const sum[] = {"sum"};
  const aicf_attribute keep = {"keepdims", AICF_INTEGER, 0, 0, nullptr, nullptr, nullptr, 0};
  const std::int64_t axis[] = {1}, one[] = {1};
  EXPECT_EQ(aicf_builder_add(g, "Mul", operands, 2, scaled, 1, nullptr, 0), AICF_OK);
  EXPECT_EQ(aicf_builder_constant(g, "axes", AICF_I64, one, 1, axis, sizeof axis), AICF_OK);
  const char* const reduced[] = {"scaled", "axes"};
  EXPECT_EQ(aicf_builder_add(g, "ReduceSum", reduced, 2, sum, 1, &keep, 1), AICF_OK);
  EXPECT_EQ(aicf_builder_output(g, "sum"), AICF_OK);
  const aicf_attribute unknown = {"a", static_cast<aicf_attribute_kind>(9), 0, 0, nullptr, nullptr, nullptr, 0};
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_builder_add(g, "Relu", operands, 1, sum, 1, &unknown, 1), "aicf_attribute_kind");
  aicf_model model = nullptr;
  ASSERT_EQ(aicf_builder_build(g, nullptr, 0, &model), AICF_OK) << aicf_error();
  EXPECT_EQ(aicf_close(g), AICF_OK);
  EXPECT_STATUS(AICF_BAD_INPUT, aicf_builder_output(g, "sum"), "closed");

  aicf_package package = nullptr;
  aicf_executable program = nullptr;
  ASSERT_EQ(aicf_compile_for_device(model, device_, nullptr, &package), AICF_OK) << aicf_error();
  ASSERT_EQ(aicf_device_load(device_, package, &program), AICF_OK) << aicf_error();
  const aicf_size rows = {"rows", 2};
  aicf_buffer x = nullptr, y = nullptr;
  ASSERT_EQ(aicf_executable_allocate(program, "x", &rows, 1, &x), AICF_OK) << aicf_error();
  ASSERT_EQ(aicf_executable_allocate(program, "sum", &rows, 1, &y), AICF_OK) << aicf_error();
  const float values[] = {1, 2, 3, 10, 20, 30};
  ASSERT_EQ(aicf_buffer_write(x, AICF_F32, values, sizeof values), AICF_OK);
  const aicf_binding in = {"x", x}, out = {"sum", y};
  ASSERT_EQ(aicf_executable_run(program, &in, 1, &out, 1, nullptr), AICF_OK) << aicf_error();
  float sums[2] = {};
  ASSERT_EQ(aicf_buffer_read(y, AICF_F32, sums, sizeof sums), AICF_OK);
  EXPECT_EQ(sums[0], 12);
  EXPECT_EQ(sums[1], 120);
  for (void* handle : std::initializer_list<void*>{model, package, program, x, y})
    EXPECT_EQ(aicf_close(handle), AICF_OK);
}

TEST_F(ApiC, MessagesBelongToTheThread) {
  aicf_model model = nullptr;
  EXPECT_EQ(aicf_model_load("/mine", nullptr, 0, &model), AICF_BAD_INPUT);
  std::string others, before;
  std::thread([&] {
    before = aicf_error();
    aicf_model mine = nullptr;
    aicf_model_load("/theirs", nullptr, 0, &mine);
    others = aicf_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_THAT(others, HasSubstr("/theirs"));
  EXPECT_THAT(aicf_error(), HasSubstr("/mine"));
}

}  // namespace
}  // namespace aicf::testing
