#pragma once

// Model-local functions are expanded where they are called. Private to frontend/onnx.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mir/support/result.h"

namespace google::protobuf {
template <class T>
class RepeatedPtrField;
}
namespace onnx {
class FunctionProto;
class NodeProto;
class AttributeProto;
}  // namespace onnx

namespace aicf {

class FunctionTable {
 public:
  /// Error: a second function of that domain and name.
  Result<void> add(const onnx::FunctionProto& function);
  const onnx::FunctionProto* find(const std::string& domain, const std::string& name) const;

 private:
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
};

/// Walks nodes in order and hands each to `visit`, calls replaced by the nodes of their function: names inside get the
/// call's name as a prefix, attribute references the call's values.
class Inliner {
 public:
  using Opsets = std::map<std::string, int>;
  using Visit = std::function<Result<void>(onnx::NodeProto& node, const Opsets& opsets)>;

  explicit Inliner(const FunctionTable& functions) : functions_(functions) {}
  /// Errors: recursion, calls more than 256 deep, more than 65536 nodes inside functions, an argument count that does not fit.
  Result<void> expand(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Opsets& opsets,
                      const Visit& visit);

 private:
  Result<void> node(const onnx::NodeProto& proto, const Opsets& opsets, const Visit& visit);
  Result<void> call(const onnx::NodeProto& proto, const onnx::FunctionProto& function, const Visit& visit);

  const FunctionTable& functions_;
  std::vector<const onnx::FunctionProto*> open_;
  std::map<std::string, int> prefixes_;  ///< of calls, with the suffix to try next
  std::int64_t count_ = 0;               ///< nodes inside functions
};

}  // namespace aicf
