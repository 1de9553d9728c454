#pragma once

// The lowering functions that the op table names, by file.

#include "frontend/canonicalise/lowering.h"

namespace aicf::ops {

// elementwise.cpp
Result<void> unary(Lowering& op);
Result<void> binary(Lowering& op);
Result<void> comparison(Lowering& op);
Result<void> logical(Lowering& op);
Result<void> variadic_fold(Lowering& op);
Result<void> mod(Lowering& op);
Result<void> pow(Lowering& op);
Result<void> clip(Lowering& op);
Result<void> where(Lowering& op);
Result<void> is_inf(Lowering& op);
Result<void> cast(Lowering& op);
Result<void> cast_like(Lowering& op);
Result<void> prelu(Lowering& op);
Result<void> swiglu(Lowering& op);
Result<void> gelu(Lowering& op);

// reduction.cpp
Result<void> reduction(Lowering& op);
Result<void> softmax(Lowering& op);
Result<void> arg_extreme(Lowering& op);
Result<void> cumulative(Lowering& op);
Result<void> hardmax(Lowering& op);

// losses.cpp
Result<void> class_loss(Lowering& op);

// normalisation.cpp
Result<void> layer_normalisation(Lowering& op);
Result<void> rms_normalisation(Lowering& op);
Result<void> skip_normalisation(Lowering& op);
Result<void> embed_layer_normalisation(Lowering& op);
Result<void> batch_normalisation(Lowering& op);
Result<void> instance_normalisation(Lowering& op);
Result<void> group_normalisation(Lowering& op);
Result<void> lp_normalisation(Lowering& op);
Result<void> mean_variance_normalisation(Lowering& op);
Result<void> local_response_normalisation(Lowering& op);

// contraction.cpp
Result<void> matmul(Lowering& op);
Result<void> gemm(Lowering& op);
Result<void> einsum(Lowering& op);

// reshape.cpp
Result<void> reshape(Lowering& op);
Result<void> flatten(Lowering& op);
Result<void> squeeze(Lowering& op);
Result<void> unsqueeze(Lowering& op);
Result<void> transpose(Lowering& op);
Result<void> expand(Lowering& op);
Result<void> identity(Lowering& op);
Result<void> dropout(Lowering& op);

// indexing.cpp
Result<void> slice(Lowering& op);
Result<void> split(Lowering& op);
Result<void> concat(Lowering& op);
Result<void> gather(Lowering& op);
Result<void> gather_nd(Lowering& op);
Result<void> gather_elements(Lowering& op);
Result<void> tile(Lowering& op);
Result<void> pad(Lowering& op);
Result<void> trilu(Lowering& op);

// rearrange.cpp
Result<void> depth_and_space(Lowering& op);
Result<void> reverse_sequence(Lowering& op);
Result<void> center_crop_pad(Lowering& op);

// signal.cpp
Result<void> cosine_window(Lowering& op);
Result<void> fourier_transform(Lowering& op);

// creation.cpp
Result<void> constant(Lowering& op);
Result<void> constant_of_shape(Lowering& op);
Result<void> range(Lowering& op);
Result<void> shape(Lowering& op);
Result<void> size(Lowering& op);
Result<void> eye_like(Lowering& op);
Result<void> one_hot(Lowering& op);

// control_flow.cpp
Result<void> conditional(Lowering& op);

// recurrent.cpp
Result<void> recurrent(Lowering& op);

// resize.cpp
Result<void> resize(Lowering& op);

// convolution.cpp
Result<void> convolution(Lowering& op);
Result<void> pooling(Lowering& op);
Result<void> global_pooling(Lowering& op);

// contrib.cpp
Result<void> microsoft_attention(Lowering& op);
Result<void> multi_head_attention(Lowering& op);
Result<void> fused_matmul(Lowering& op);

// quantisation.cpp
Result<void> dequantise_linear(Lowering& op);
Result<void> quantise_linear(Lowering& op);

// attention.cpp, rotary.cpp
Result<void> attention(Lowering& op);
Result<void> rotary_embedding(Lowering& op);
Result<void> microsoft_rotary_embedding(Lowering& op);

}  // namespace aicf::ops
