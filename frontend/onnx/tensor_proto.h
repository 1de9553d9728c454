#pragma once

// TensorProto → Tensor. Private to frontend/onnx.

#include <string>

#include "frontend/onnx/model_folder.h"
#include "runtime/tensor.h"

namespace onnx {
class TensorProto;
}

namespace aicf {

/// `what` names the tensor in messages ("tensor 'w'"). raw_data is moved out of `proto`; external data stays mapped.
/// `folder` may be null: external data is then refused.
Result<Tensor> to_tensor(onnx::TensorProto& proto, const std::string& what, ModelFolder* folder);

}  // namespace aicf
