// Reading ONNX files: every way to store an element, external data and its limits, local functions, odd files.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "helpers.h"

namespace aicf {
namespace {

using test::expect_near;
using test::ramp;
using test::tensor;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A folder that goes away with the test.
class Onnx : public ::testing::Test {
 protected:
  Onnx() {
    std::string pattern = (fs::temp_directory_path() / "aicf_onnx_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    model_.mutable_graph()->set_name("test");
  }
  ~Onnx() override { fs::remove_all(folder_); }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  void add_value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const std::string& name, int type,
                 const std::vector<std::string>& shape) {
    auto& info = *list.Add();
    info.set_name(name);
    auto& t = *info.mutable_type()->mutable_tensor_type();
    t.set_elem_type(type);
    t.mutable_shape();
    for (const std::string& dim : shape) {
      auto& d = *t.mutable_shape()->add_dim();
      if (!dim.empty() && std::isdigit(static_cast<unsigned char>(dim[0])) != 0)
        d.set_dim_value(std::stoll(dim));
      else if (!dim.empty())
        d.set_dim_param(dim);
    }
  }
  void input(const std::string& name, const std::vector<std::string>& shape, int type = onnx::TensorProto::FLOAT) {
    add_value(*graph().mutable_input(), name, type, shape);
  }
  void output(const std::string& name) { graph().add_output()->set_name(name); }

  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    auto& n = *graph().add_node();
    n.set_op_type(op);
    for (const auto& i : inputs) n.add_input(i);
    for (const auto& o : outputs) n.add_output(o);
    return n;
  }
  onnx::TensorProto& weight(const std::string& name, int type, const std::vector<std::int64_t>& dims) {
    auto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(type);
    for (const std::int64_t d : dims) t.add_dims(d);
    return t;
  }
  void external(onnx::TensorProto& t, const std::string& location, const std::string& offset = {},
                const std::string& length = {}) {
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto set = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      auto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    set("location", location);
    set("offset", offset);
    set("length", length);
  }

  std::string path(const std::string& name = "model.onnx") const { return folder_ + "/" + name; }
  std::string save() {
    std::ofstream file(path(), std::ios::binary);
    model_.SerializeToOstream(&file);
    return path();
  }
  Result<SemanticGraph> read() {
    const std::string file = model_.SerializeAsString();
    return read_onnx(std::as_bytes(std::span(file)), path());
  }
  std::string read_error() {
    const auto graph = read();
    return graph ? "" : graph.error().text();
  }
  std::string load_error() {
    const auto model = load_model(save());
    return model ? "" : model.error().text();
  }

  std::string folder_;
  onnx::ModelProto model_;
};

TEST_F(Onnx, EveryTypedField) {
  using T = onnx::TensorProto;
  auto& f32 = weight("f32", T::FLOAT, {2});
  f32.add_float_data(1.5f);
  f32.add_float_data(-2);
  auto& f64 = weight("f64", T::DOUBLE, {1});
  f64.add_double_data(1e-300);
  auto& f16 = weight("f16", T::FLOAT16, {2});  // bit patterns of 1.5 and −2
  f16.add_int32_data(0x3e00);
  f16.add_int32_data(0xc000);
  auto& bf16 = weight("bf16", T::BFLOAT16, {1});
  bf16.add_int32_data(0x3fc0);
  auto& i8 = weight("i8", T::INT8, {2});
  i8.add_int32_data(-128);
  i8.add_int32_data(127);
  auto& u8 = weight("u8", T::UINT8, {1});
  u8.add_int32_data(255);
  auto& i16 = weight("i16", T::INT16, {1});
  i16.add_int32_data(-32768);
  auto& u16 = weight("u16", T::UINT16, {1});
  u16.add_int32_data(65535);
  auto& i32 = weight("i32", T::INT32, {1});
  i32.add_int32_data(-2147483647);
  auto& u32 = weight("u32", T::UINT32, {1});
  u32.add_uint64_data(4294967295u);
  auto& i64 = weight("i64", T::INT64, {1});
  i64.add_int64_data(std::numeric_limits<std::int64_t>::min());
  auto& u64 = weight("u64", T::UINT64, {1});
  u64.add_uint64_data(5);
  auto& b = weight("bool", T::BOOL, {2});
  b.add_int32_data(0);
  b.add_int32_data(1);
  const auto read_graph = read();
  ASSERT_TRUE(read_graph.has_value()) << read_graph.error().text();
  const auto check = [&](const std::string& name, DType type, const std::vector<double>& wanted) {
    SCOPED_TRACE(name);
    const Tensor& t = read_graph->initializers.at(name);
    EXPECT_EQ(t.type(), type);
    expect_near(t, {static_cast<std::int64_t>(wanted.size())}, wanted, 0);
  };
  check("f32", DType::f32, {1.5, -2});
  check("f64", DType::f64, {1e-300});
  check("f16", DType::f16, {1.5, -2});
  check("bf16", DType::bf16, {1.5});
  check("i8", DType::i8, {-128, 127});
  check("u8", DType::u8, {255});
  check("i16", DType::i16, {-32768});
  check("u16", DType::u16, {65535});
  check("i32", DType::i32, {-2147483647});
  check("u32", DType::u32, {4294967295.0});
  check("u64", DType::u64, {5});
  check("bool", DType::boolean, {0, 1});
  EXPECT_EQ(read_graph->initializers.at("i64").int_at(0), std::numeric_limits<std::int64_t>::min());
}

TEST_F(Onnx, RawData) {
  using T = onnx::TensorProto;
  const float values[] = {1, -3.5f};
  weight("f32", T::FLOAT, {2}).set_raw_data(values, sizeof values);
  weight("bool", T::BOOL, {2}).set_raw_data("\0\7", 2);
  weight("empty", T::FLOAT, {0, 4}).set_raw_data("");
  weight("none", T::FLOAT, {3, 0});
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  expect_near(graph->initializers.at("f32"), {2}, {1, -3.5}, 0);
  expect_near(graph->initializers.at("bool"), {2}, {0, 1}, 0);
  expect_near(graph->initializers.at("empty"), {0, 4}, {});
  expect_near(graph->initializers.at("none"), {3, 0}, {});
}

TEST_F(Onnx, ExternalDataIsReadInPlace) {
  using T = onnx::TensorProto;
  std::ofstream file(path("weights.bin"), std::ios::binary);
  const float values[] = {0, 1, 2, 3, 4};
  file.write(reinterpret_cast<const char*>(values), sizeof values);
  file.close();
  fs::create_directory(path("sub"));
  fs::copy_file(path("weights.bin"), path("sub/more.bin"));
  external(weight("a", T::FLOAT, {2}), "weights.bin", "4", "8");
  external(weight("b", T::FLOAT, {5}), "./sub/more.bin");
  external(weight("odd", T::FLOAT, {1}), "weights.bin", "6");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  expect_near(graph->initializers.at("a"), {2}, {1, 2}, 0);
  expect_near(graph->initializers.at("b"), {5}, {0, 1, 2, 3, 4}, 0);
  EXPECT_EQ(graph->initializers.at("odd").size(), 1);
}

TEST_F(Onnx, ExternalDataNeverLeavesTheFolder) {
  using T = onnx::TensorProto;
  const std::string outside = folder_ + "_outside";
  std::ofstream(outside, std::ios::binary) << "secret!!";
  fs::create_symlink(outside, path("link"));
  fs::create_directory_symlink("/", path("root"));
  std::ofstream(path("twice"), std::ios::binary) << "12345678";
  fs::create_hard_link(path("twice"), path("other"));
  fs::create_directory(path("folder"));
  const auto refused = [&](const std::string& location, const std::string& reason) {
    graph().clear_initializer();
    external(weight("w", T::FLOAT, {2}), location);
    EXPECT_THAT(read_error(), HasSubstr("tensor 'w'")) << location;
    EXPECT_THAT(read_error(), HasSubstr(reason)) << location;
  };
  refused("link", "through a link");
  refused("root/etc/hostname", "through a link");
  refused("../" + fs::path(outside).filename().string(), "leaves the model's folder");
  refused("folder/../link", "leaves the model's folder");
  refused(outside, "absolute path");
  refused("twice", "second hard link");
  refused("folder", "not a regular file");
  refused(".", "names no file");
  fs::remove(outside);
}

TEST_F(Onnx, ConstantsOfEveryKind) {
  using A = onnx::AttributeProto;
  const auto constant = [&](const std::string& out, const std::string& key,
                            A::AttributeType type) -> onnx::AttributeProto& {
    auto& a = *node("Constant", {}, {out}).add_attribute();
    a.set_name(key);
    a.set_type(type);
    output(out);
    return a;
  };
  constant("i", "value_int", A::INT).set_i(-7);
  constant("is", "value_ints", A::INTS).add_ints(3);
  constant("f", "value_float", A::FLOAT).set_f(0.5f);
  auto& fs = constant("fs", "value_floats", A::FLOATS);
  fs.add_floats(1);
  fs.add_floats(2);
  auto& t = *constant("t", "value", A::TENSOR).mutable_t();
  t.set_data_type(onnx::TensorProto::INT32);
  t.add_dims(1);
  t.add_dims(2);
  t.add_int32_data(8);
  t.add_int32_data(9);
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const auto out = test::run(*graph, {});
  expect_near(out.at("i"), {}, {-7}, 0);
  expect_near(out.at("is"), {1}, {3}, 0);
  expect_near(out.at("f"), {}, {0.5}, 0);
  expect_near(out.at("fs"), {2}, {1, 2}, 0);
  expect_near(out.at("t"), {1, 2}, {8, 9}, 0);
}

TEST_F(Onnx, InitializersThatAreInputsToo) {
  weight("w", onnx::TensorProto::FLOAT, {1}).add_float_data(3);
  input("x", {"n"});
  input("w", {"1"});
  node("Mul", {"x", "w"}, {"y"});
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value());
  ASSERT_EQ(graph->inputs.size(), 1u);
  expect_near(test::run(*graph, {{"x", ramp(DType::f32, {2}, 1, 1)}}).at("y"), {2}, {3, 6});
}

TEST_F(Onnx, SizesAreNumbersSymbolsOrExpressions) {
  input("x", {"2", "batch", "past + seq", "?", "s 0", "?", ""});
  node("Abs", {"x"}, {"y"});
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const auto& shape = graph->inputs[0].shape;
  EXPECT_EQ(shape[0], Expr(2));
  EXPECT_EQ(shape[1], Expr::symbol("batch"));
  EXPECT_TRUE(provably_equal(shape[2], Expr::symbol("past") + Expr::symbol("seq")));
  EXPECT_EQ(shape[3], Expr::symbol("x_d3"));
  EXPECT_EQ(shape[4], Expr::symbol("s 0"));
  EXPECT_EQ(shape[5], Expr::symbol("x_d5"));
  EXPECT_EQ(shape[6], Expr::symbol("x_d6"));
}

TEST_F(Onnx, FunctionsAreExpandedWhereTheyAreCalled) {
  auto& import = *model_.add_opset_import();
  import.set_domain("local");
  import.set_version(1);
  auto& f = *model_.add_functions();
  f.set_name("scaled");
  f.set_domain("local");
  f.add_input("a");
  f.add_input("b");
  f.add_output("r");
  f.add_attribute("alpha");
  auto& own = *f.add_opset_import();
  own.set_version(17);
  auto& leaky = *f.add_node();
  leaky.set_op_type("LeakyRelu");
  leaky.add_input("a");
  leaky.add_output("t");
  auto& reference = *leaky.add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("alpha");
  reference.set_type(onnx::AttributeProto::FLOAT);
  auto& add = *f.add_node();
  add.set_op_type("Add");
  add.add_input("t");
  add.add_input("b");
  add.add_output("r");
  input("x", {"2"});
  for (const auto& [out, in] : {std::pair("m", "x"), std::pair("y", "m")}) {
    auto& call = node("scaled", {in, "x"}, {out});
    call.set_domain("local");
    call.set_name(std::string("call_") + out);
    auto& alpha = *call.add_attribute();
    alpha.set_name("alpha");
    alpha.set_type(onnx::AttributeProto::FLOAT);
    alpha.set_f(0.5f);
  }
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 4u);
  EXPECT_EQ(graph->nodes[0].name, "call_m/LeakyRelu_0");
  // x = (−2, 4): m = (−1 − 2, 8), y = (−1.5 − 2, 12).
  expect_near(test::run(*graph, {{"x", tensor(DType::f32, {2}, {-2, 4})}}).at("y"), {2}, {-3.5, 12});
}

TEST_F(Onnx, FunctionsThatMultiplyAreStopped) {
  auto& import = *model_.add_opset_import();
  import.set_domain("local");
  import.set_version(1);
  for (int level = 0; level < 40; ++level) {
    auto& f = *model_.add_functions();
    f.set_name(fmt::format("f{}", level));
    f.set_domain("local");
    f.add_input("a");
    f.add_output("c");
    for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "c")}) {
      auto& n = *f.add_node();
      n.set_op_type(level == 39 ? "Abs" : fmt::format("f{}", level + 1));
      n.set_domain(level == 39 ? "" : "local");
      n.add_input(from);
      n.add_output(to);
    }
  }
  input("x", {"2"});
  node("f0", {"x"}, {"y"}).set_domain("local");
  output("y");
  EXPECT_THAT(read_error(), HasSubstr("the functions expand to more than"));
}

TEST_F(Onnx, LaterFilesWithUnknownFieldsAreRead) {
  model_.set_ir_version(13);
  input("x", {"2"});
  node("Abs", {"x"}, {"y"});
  output("y");
  // Field 40 of the model and field 9 (metadata_props) of the node, which the linked headers do not know.
  model_.GetReflection()->MutableUnknownFields(&model_)->AddLengthDelimited(40, "something new");
  auto& n = *graph().mutable_node(0);
  n.GetReflection()->MutableUnknownFields(&n)->AddLengthDelimited(9, std::string("\x0a\x01k\x12\x01v", 6));
  EXPECT_EQ(load_error(), "");
}

TEST_F(Onnx, NamesOfNodesAreMadeUnique) {
  input("x", {"2"});
  node("Abs", {"x"}, {"a"}).set_name("same");
  node("Neg", {"a"}, {"b"}).set_name("same");
  node("Exp", {"b"}, {"y"});
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(graph->nodes[0].name, "same");
  EXPECT_EQ(graph->nodes[1].name, "same_1");
  EXPECT_EQ(graph->nodes[2].name, "Exp_2");
}

TEST_F(Onnx, SubgraphsAreRead) {
  input("c", {}, onnx::TensorProto::BOOL);
  input("x", {"2"});
  auto& conditional = node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = *conditional.add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->add_output()->set_name("inner");
    auto& inner = *branch.mutable_g()->add_node();
    inner.set_op_type(name == std::string("then_branch") ? "Abs" : "Exp");
    inner.add_input("x");
    inner.add_output("inner");
  }
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(graph->nodes[0].attributes.at("then_branch").g->nodes[0].name, "If_0/then_branch/Abs_0");
  const Tensor x = tensor(DType::f32, {2}, {-1, 0});
  expect_near(test::run(*graph, {{"c", tensor(DType::boolean, {}, {1})}, {"x", x}}).at("y"), {2}, {1, 0});
  expect_near(test::run(*graph, {{"c", tensor(DType::boolean, {}, {0})}, {"x", x}}).at("y"), {2}, {std::exp(-1), 1});
}

TEST_F(Onnx, SubgraphsInFunctionsAreRenamed) {
  auto& import = *model_.add_opset_import();
  import.set_domain("local");
  import.set_version(1);
  auto& f = *model_.add_functions();
  f.set_name("leaky");
  f.set_domain("local");
  for (const char* name : {"c", "a"}) f.add_input(name);
  f.add_output("r");
  f.add_attribute("slope");
  f.add_opset_import()->set_version(17);
  auto& conditional = *f.add_node();
  conditional.set_op_type("If");
  conditional.add_input("c");
  conditional.add_output("r");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = *conditional.add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->add_output()->set_name("t");
    auto& inner = *branch.mutable_g()->add_node();
    inner.set_op_type("LeakyRelu");
    inner.add_input("a");
    inner.add_output("t");
    if (name == std::string("else_branch")) continue;
    auto& reference = *inner.add_attribute();
    reference.set_name("alpha");
    reference.set_ref_attr_name("slope");
    reference.set_type(onnx::AttributeProto::FLOAT);
  }
  input("c", {}, onnx::TensorProto::BOOL);
  input("t", {"2"});  // as the function calls a tensor of its own
  for (const auto& [out, in] : {std::pair("m", "t"), std::pair("y", "m")}) {
    auto& call = node("leaky", {"c", in}, {out});
    call.set_domain("local");
    auto& slope = *call.add_attribute();
    slope.set_name("slope");
    slope.set_type(onnx::AttributeProto::FLOAT);
    slope.set_f(0.5f);
  }
  output("y");
  const auto graph = read();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const Tensor t = tensor(DType::f32, {2}, {-4, 1});
  expect_near(test::run(*graph, {{"c", tensor(DType::boolean, {}, {1})}, {"t", t}}).at("y"), {2}, {-1, 1});
  expect_near(test::run(*graph, {{"c", tensor(DType::boolean, {}, {0})}, {"t", t}}).at("y"), {2}, {-0.0004, 1});
}

TEST_F(Onnx, LoopsAndSequencesAreUnsupportedByName) {
  input("x", {}, onnx::TensorProto::BOOL);
  auto& body = *node("Loop", {"x"}, {"y"}).add_attribute();
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  body.mutable_g();
  output("y");
  EXPECT_THAT(load_error(), HasSubstr("operator 'Loop' of ai.onnx"));
  graph().clear_node();
  auto& info = *graph().add_input();
  info.set_name("list");
  info.mutable_type()->mutable_sequence_type();
  EXPECT_THAT(load_error(), HasSubstr("input 'list' is no tensor"));
}

TEST_F(Onnx, TensorFiles) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(2);
  t.add_float_data(1);
  t.add_float_data(2);
  std::ofstream(path("x.pb"), std::ios::binary) << t.SerializeAsString();
  const auto read = read_tensor_pb(path("x.pb"));
  ASSERT_TRUE(read.has_value()) << read.error().text();
  expect_near(read->second, {2}, {1, 2});
  ASSERT_TRUE(write_tensor_pb(path("y.pb"), "y", read->second).has_value());
  const auto again = read_tensor_pb(path("y.pb"));
  ASSERT_TRUE(again.has_value()) << again.error().text();
  EXPECT_EQ(again->first, "y");
  expect_near(again->second, {2}, {1, 2});
  t.add_dims(3);
  std::ofstream(path("x.pb"), std::ios::binary) << t.SerializeAsString();
  EXPECT_THAT(read_tensor_pb(path("x.pb")).error().text(), HasSubstr("2 values in float_data, its shape needs 6"));
}

TEST_F(Onnx, TextModelsAreToldApartByContent) {
  std::ofstream(path("model.txt")) << "twice(x: f32[n]) -> y\ny = Add(x, x)\n";
  const auto model = load_model(path("model.txt"));
  ASSERT_TRUE(model.has_value()) << model.error().text();
  EXPECT_EQ(model->name, "twice");
  EXPECT_THAT(load_model(path("absent.onnx")).error().text(), HasSubstr("absent.onnx: cannot be opened: No such file"));
}

TEST_F(Onnx, AnInputWithADefault) {
  input("x", {"n"});
  input("w", {"n"});
  input("s", {});
  auto& w = weight("w", onnx::TensorProto::FLOAT, {2});
  w.add_float_data(9);
  w.add_float_data(8);
  weight("s", onnx::TensorProto::FLOAT, {}).add_float_data(2);
  node("Mul", {"x", "w"}, {"t"});
  node("Add", {"t", "s"}, {"y"});
  output("y");
  const SemanticGraph graph = read().value();
  ASSERT_EQ(graph.inputs.size(), 1u);
  ASSERT_EQ(graph.defaulted.size(), 2u);
  EXPECT_EQ(graph.defaulted[0].name, "w");
  const auto f32 = [](const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
    return tensor(DType::f32, shape, values);
  };
  expect_near(test::run(graph, {{"x", f32({2}, {1, 2})}}).at("y"), {2}, {11, 18});
  // A value in place of the default; its sizes bind the symbols.
  expect_near(test::run(graph, {{"x", f32({3}, {1, 2, 3})}}, {{}, {{"w", f32({3}, {1, 1, 2})}}}).at("y"), {3},
              {3, 4, 8});
  const auto model = canonicalise(graph, {{}, {{"s", f32({}, {5})}}}).value();
  ASSERT_EQ(model.semantic.defaulted.size(), 1u);
  EXPECT_EQ(model.semantic.defaulted[0].name, "w");
  EXPECT_THAT(canonicalise(graph, {{}, {{"s", f32({1}, {5})}}}).error().text(),
              HasSubstr("value for input 's' is f32[1] and does not have its type and shape, f32[]"));
}

}  // namespace
}  // namespace aicf
