// Mutates ONNX models as messages, so that what changes is a node, a size or an attribute and the file stays protobuf.
// Mutated bytes alone rarely get past the parser. Text models and files that do not parse are mutated as bytes.

#include <google/protobuf/message.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "mir/support/result.h"

/// In place of the library's: an abort is what the fuzzer keeps the input of.
void aicf::report_bug(const std::string& message, const char* file, int line) {
  std::fprintf(stderr, "aicf: bug: %s (%s:%d)\n", message.c_str(), file, line);
  std::abort();
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  /// One change somewhere in `model`. Parts are copied from `donor` where types fit; it may be `model` itself.
  void mutate(onnx::ModelProto& model, const onnx::ModelProto& donor) {
    collect(model);
    from_.clear();
    collect_parts(donor);
    Message& message = *pick(messages_);
    const auto* type = message.GetDescriptor();
    if (type->field_count() == 0) return;
    change(message, *type->field(below(type->field_count())));
  }

  unsigned below(std::size_t n) {
    return std::uniform_int_distribution<unsigned>(0, static_cast<unsigned>(n) - 1)(random_);
  }

 private:
  template <class T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }

  void collect(Message& message) {
    messages_.push_back(&message);
    const Reflection& r = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    r.ListFields(message, &fields);
    for (const FieldDescriptor* f : fields) {
      if (f->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        for (int k = 0; k < (f->is_repeated() ? r.FieldSize(message, f) : 1); ++k)
          strings_.push_back(f->is_repeated() ? r.GetRepeatedString(message, f, k) : r.GetString(message, f));
      } else if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        for (int k = 0; k < (f->is_repeated() ? r.FieldSize(message, f) : 1); ++k)
          collect(*(f->is_repeated() ? r.MutableRepeatedMessage(&message, f, k) : r.MutableMessage(&message, f)));
      }
    }
  }

  void collect_parts(const Message& message) {
    from_.push_back(&message);
    const Reflection& r = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    r.ListFields(message, &fields);
    for (const FieldDescriptor* f : fields) {
      if (f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      for (int k = 0; k < (f->is_repeated() ? r.FieldSize(message, f) : 1); ++k)
        collect_parts(f->is_repeated() ? r.GetRepeatedMessage(message, f, k) : r.GetMessage(message, f));
    }
  }

  void change(Message& message, const FieldDescriptor& field) {
    const Reflection& r = *message.GetReflection();
    if (!field.is_repeated()) {
      if (r.HasField(message, &field) && below(6) == 0) return r.ClearField(&message, &field);
      return set(message, field, -1);
    }
    const int size = r.FieldSize(message, &field);
    const unsigned what = size == 0 ? 0 : below(4);
    if (what == 0) return set(message, field, size);  // append
    if (what == 1)
      return r.SwapElements(&message, &field, static_cast<int>(below(size)), static_cast<int>(below(size)));
    if (what == 2) {
      r.SwapElements(&message, &field, static_cast<int>(below(size)), size - 1);
      return r.RemoveLast(&message, &field);
    }
    set(message, field, static_cast<int>(below(size)));
  }

  /// Sets the field, or element `at` of a repeated one (its size: appends).
  void set(Message& message, const FieldDescriptor& field, int at) {
    const Reflection& r = *message.GetReflection();
    const bool append = at >= 0 && at == r.FieldSize(message, &field);
    const auto put = [&](auto add, auto repeated, auto single, auto value) {
      if (append)
        (r.*add)(&message, &field, value);
      else if (at >= 0)
        (r.*repeated)(&message, &field, at, value);
      else
        (r.*single)(&message, &field, value);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::AddInt32, &Reflection::SetRepeatedInt32, &Reflection::SetInt32,
                   static_cast<std::int32_t>(integer()));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::AddInt64, &Reflection::SetRepeatedInt64, &Reflection::SetInt64, integer());
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&Reflection::AddUInt32, &Reflection::SetRepeatedUInt32, &Reflection::SetUInt32,
                   static_cast<std::uint32_t>(integer()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::AddUInt64, &Reflection::SetRepeatedUInt64, &Reflection::SetUInt64,
                   static_cast<std::uint64_t>(integer()));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&Reflection::AddFloat, &Reflection::SetRepeatedFloat, &Reflection::SetFloat,
                   static_cast<float>(real()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::AddDouble, &Reflection::SetRepeatedDouble, &Reflection::SetDouble, real());
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&Reflection::AddBool, &Reflection::SetRepeatedBool, &Reflection::SetBool, below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return put(&Reflection::AddEnumValue, &Reflection::SetRepeatedEnumValue, &Reflection::SetEnumValue,
                   field.enum_type()->value(static_cast<int>(below(field.enum_type()->value_count())))->number());
      case FieldDescriptor::CPPTYPE_STRING:
        return put(static_cast<void (Reflection::*)(Message*, const FieldDescriptor*, std::string) const>(
                       &Reflection::AddString),
                   static_cast<void (Reflection::*)(Message*, const FieldDescriptor*, int, std::string) const>(
                       &Reflection::SetRepeatedString),
                   static_cast<void (Reflection::*)(Message*, const FieldDescriptor*, std::string) const>(
                       &Reflection::SetString),
                   string());
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message& to = append    ? *r.AddMessage(&message, &field)
                      : at >= 0 ? *r.MutableRepeatedMessage(&message, &field, at)
                                : *r.MutableMessage(&message, &field);
        std::vector<const Message*> parts;
        for (const Message* m : from_)
          if (m->GetDescriptor() == field.message_type() && m != &to) parts.push_back(m);
        if (parts.empty() || below(8) == 0) return;
        // Through a copy: the part may hold the message that it replaces, or lie in what grew.
        const std::string bytes = pick(parts)->SerializePartialAsString();
        to.ParsePartialFromString(bytes);
        return;
      }
    }
  }

  std::int64_t integer() {
    static constexpr std::int64_t edges[] = {0,
                                             1,
                                             -1,
                                             2,
                                             3,
                                             4,
                                             7,
                                             8,
                                             16,
                                             -2,
                                             64,
                                             255,
                                             1 << 16,
                                             0x7fffffff,
                                             1LL << 31,
                                             1LL << 32,
                                             -(1LL << 31),
                                             1LL << 40,
                                             1LL << 62,
                                             INT64_MAX,
                                             INT64_MIN,
                                             -3,
                                             5,
                                             6};
    if (below(8) == 0) return static_cast<std::int64_t>(std::uniform_int_distribution<std::uint64_t>()(random_));
    return edges[below(std::size(edges))];
  }
  double real() {
    static constexpr double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 3.4e38, -1e9, 1e300};
    if (below(8) == 0) return std::nan("");
    return below(8) == 0 ? HUGE_VAL : edges[below(std::size(edges))];
  }
  /// Mostly a name that the model has: tensors, operators and attributes meet.
  std::string string() {
    static const std::vector<std::string> words = {
        "",       "axis",      "axes",          "MatMul",  "Softmax",  "Reshape",   "Slice",    "Gather",
        "Concat", "Expand",    "Where",         "Shape",   "Split",    "Range",     "Einsum",   "Conv",
        "Pad",    "Tile",      "Transpose",     "CumSum",  "TopK",     "ScatterND", "GatherND", "Trilu",
        "Resize", "Attention", "com.microsoft", "ai.onnx", "location", "batch",     "2 * n",    "n + 1"};
    std::string s = !strings_.empty() && below(2) == 0 ? pick(strings_) : words[below(words.size())];
    if (below(4) != 0) return s;
    const std::size_t size = std::min<std::size_t>(s.size(), 4096);
    s.resize(size + 64);
    s.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(s.data()), size, s.size()));
    return s;
  }

  std::mt19937 random_;
  std::vector<Message*> messages_;
  std::vector<const Message*> from_;
  std::vector<std::string> strings_;
};

bool parse(onnx::ModelProto& model, const std::uint8_t* data, std::size_t size) {
  return size > 0 && model.ParseFromArray(data, static_cast<int>(size)) && model.has_graph();
}

std::size_t write(const onnx::ModelProto& model, std::uint8_t* data, std::size_t size, std::size_t max_size) {
  const std::size_t bytes = model.ByteSizeLong();
  if (bytes == 0 || bytes > max_size) return LLVMFuzzerMutate(data, size, max_size);
  return model.SerializePartialToArray(data, static_cast<int>(bytes)) ? bytes : size;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  Mutator mutator(seed);
  onnx::ModelProto model;
  if (mutator.below(16) == 0 || !parse(model, data, size)) return LLVMFuzzerMutate(data, size, max_size);
  const onnx::ModelProto donor = model;
  mutator.mutate(model, donor);
  return write(model, data, size, max_size);
}

/// The first model with a part of the second in it.
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second, std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned seed) {
  onnx::ModelProto model, donor;
  if (!parse(model, first, first_size) || !parse(donor, second, second_size)) return 0;
  Mutator(seed).mutate(model, donor);
  const std::size_t bytes = model.ByteSizeLong();
  return bytes <= max_size && model.SerializePartialToArray(out, static_cast<int>(bytes)) ? bytes : 0;
}
