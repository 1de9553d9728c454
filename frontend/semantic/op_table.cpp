// The op table itself. One row per operator and range of opsets; order is by kind.

#include "frontend/semantic/op_table.h"

#include <algorithm>
#include <array>

#include "frontend/canonicalise/ops.h"

namespace aicf {
namespace {

// clang-format off
constexpr OpRow rows[] = {
    {"Neg", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "-x"},
    {"Abs", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "|x|"},
    {"Exp", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "e^x"},
    {"Log", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "natural logarithm"},
    {"Sqrt", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "square root"},
    {"Reciprocal", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "1 / x"},
    {"Erf", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "error function"},
    {"Tanh", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "hyperbolic tangent"},
    {"Sigmoid", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "1 / (1 + e^-x)"},
    {"Sin", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "sine"},
    {"Cos", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "cosine"},
    {"Tan", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "tangent"},
    {"Sinh", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "hyperbolic sine"},
    {"Cosh", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "hyperbolic cosine"},
    {"Asin", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "arc sine"},
    {"Acos", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "arc cosine"},
    {"Atan", "", 7, newest_opset, 1, 1, 1, 1, "", ops::unary, "arc tangent"},
    {"Asinh", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "inverse hyperbolic sine"},
    {"Acosh", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "inverse hyperbolic cosine"},
    {"Atanh", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "inverse hyperbolic tangent"},
    {"Shrink", "", 9, newest_opset, 1, 1, 1, 1, "bias:f lambd:f", ops::unary, "0 within lambd of 0, else x moved by bias toward 0"},
    {"Floor", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "largest integer <= x"},
    {"Ceil", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "smallest integer >= x"},
    {"Round", "", 11, newest_opset, 1, 1, 1, 1, "", ops::unary, "nearest integer, halves to even"},
    {"Sign", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "-1, 0 or 1"},
    {"Relu", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "max(x, 0)"},
    {"LeakyRelu", "", 1, newest_opset, 1, 1, 1, 1, "alpha:f", ops::unary, "x, or alpha x below 0"},
    {"Elu", "", 1, newest_opset, 1, 1, 1, 1, "alpha:f", ops::unary, "x, or alpha (e^x - 1) below 0"},
    {"Selu", "", 1, newest_opset, 1, 1, 1, 1, "alpha:f gamma:f", ops::unary, "gamma times Elu"},
    {"Celu", "", 12, newest_opset, 1, 1, 1, 1, "alpha:f", ops::unary, "x, or alpha (e^(x / alpha) - 1) below 0"},
    {"ThresholdedRelu", "", 10, newest_opset, 1, 1, 1, 1, "alpha:f", ops::unary, "x above alpha, else 0"},
    {"Softplus", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "log(1 + e^x)"},
    {"Softsign", "", 1, newest_opset, 1, 1, 1, 1, "", ops::unary, "x / (1 + |x|)"},
    {"HardSigmoid", "", 1, newest_opset, 1, 1, 1, 1, "alpha:f beta:f", ops::unary, "alpha x + beta, clipped to [0, 1]"},
    {"HardSwish", "", 14, newest_opset, 1, 1, 1, 1, "", ops::unary, "x times HardSigmoid(x; 1/6, 1/2)"},
    {"Mish", "", 18, newest_opset, 1, 1, 1, 1, "", ops::unary, "x tanh(softplus(x))"},
    {"Swish", "", 24, newest_opset, 1, 1, 1, 1, "alpha:f", ops::unary, "x sigmoid(alpha x)"},
    {"IsNaN", "", 9, newest_opset, 1, 1, 1, 1, "", ops::unary, "whether x is NaN"},
    {"IsInf", "", 10, newest_opset, 1, 1, 1, 1, "detect_negative:i detect_positive:i", ops::is_inf, "whether x is infinite, by sign"},
    {"Gelu", "", 20, newest_opset, 1, 1, 1, 1, "approximate:s", ops::gelu, "x times the normal distribution function of x"},
    {"PRelu", "", 7, newest_opset, 2, 2, 1, 1, "", ops::prelu, "x, or slope x below 0"},
    {"SwiGLU", "", 28, newest_opset, 2, 2, 1, 1, "alpha:f", ops::swiglu, "Swish of a times b"},
    {"Add", "", 7, newest_opset, 2, 2, 1, 1, "", ops::binary, "a + b"},
    {"Sub", "", 7, newest_opset, 2, 2, 1, 1, "", ops::binary, "a - b"},
    {"Mul", "", 7, newest_opset, 2, 2, 1, 1, "", ops::binary, "a b"},
    {"Div", "", 7, newest_opset, 2, 2, 1, 1, "", ops::binary, "a / b; integers truncate"},
    {"Pow", "", 7, newest_opset, 2, 2, 1, 1, "", ops::pow, "a to the power of b, in the type of a"},
    {"Mod", "", 10, newest_opset, 2, 2, 1, 1, "fmod:i", ops::mod, "remainder with the sign of b, of a with fmod"},
    {"Max", "", 6, newest_opset, 1, variadic, 1, 1, "", ops::variadic_fold, "largest operand"},
    {"Min", "", 6, newest_opset, 1, variadic, 1, 1, "", ops::variadic_fold, "smallest operand"},
    {"Sum", "", 6, newest_opset, 1, variadic, 1, 1, "", ops::variadic_fold, "sum of the operands"},
    {"Mean", "", 6, newest_opset, 1, variadic, 1, 1, "", ops::variadic_fold, "mean of the operands"},
    {"Equal", "", 7, newest_opset, 2, 2, 1, 1, "", ops::comparison, "a = b"},
    {"Less", "", 7, newest_opset, 2, 2, 1, 1, "", ops::comparison, "a < b"},
    {"LessOrEqual", "", 12, newest_opset, 2, 2, 1, 1, "", ops::comparison, "a <= b"},
    {"Greater", "", 7, newest_opset, 2, 2, 1, 1, "", ops::comparison, "a > b"},
    {"GreaterOrEqual", "", 12, newest_opset, 2, 2, 1, 1, "", ops::comparison, "a >= b"},
    {"Not", "", 1, newest_opset, 1, 1, 1, 1, "", ops::logical, "negation"},
    {"And", "", 7, newest_opset, 2, 2, 1, 1, "", ops::logical, "conjunction"},
    {"Or", "", 7, newest_opset, 2, 2, 1, 1, "", ops::logical, "disjunction"},
    {"Xor", "", 7, newest_opset, 2, 2, 1, 1, "", ops::logical, "exclusive or"},
    {"Clip", "", 6, 10, 1, 1, 1, 1, "min:f max:f", ops::clip, "x limited to [min, max]"},
    {"Clip", "", 11, newest_opset, 1, 3, 1, 1, "", ops::clip, "x limited to [min, max]"},
    {"Where", "", 9, newest_opset, 3, 3, 1, 1, "", ops::where, "a where the condition holds, else b"},
    {"Cast", "", 6, 18, 1, 1, 1, 1, "to:i!", ops::cast, "x in another element type"},
    {"Cast", "", 19, 23, 1, 1, 1, 1, "to:i! saturate:i", ops::cast, "x in another element type"},
    {"Cast", "", 24, newest_opset, 1, 1, 1, 1, "to:i! saturate:i round_mode:s", ops::cast, "x in another element type"},
    {"CastLike", "", 15, newest_opset, 2, 2, 1, 1, "saturate:i round_mode:s", ops::cast_like, "x in the element type of the second operand"},
    {"DequantizeLinear", "", 10, 12, 2, 3, 1, 1, "", ops::dequantise_linear, "(x - zero point) scale"},
    {"DequantizeLinear", "", 13, 20, 2, 3, 1, 1, "axis:i", ops::dequantise_linear, "(x - zero point) scale, by place along the axis"},
    {"DequantizeLinear", "", 21, 22, 2, 3, 1, 1, "axis:i block_size:i", ops::dequantise_linear, "(x - zero point) scale, by block along the axis"},
    {"DequantizeLinear", "", 23, newest_opset, 2, 3, 1, 1, "axis:i block_size:i output_dtype:i", ops::dequantise_linear, "(x - zero point) scale, by block along the axis"},
    {"QuantizeLinear", "", 10, 12, 2, 3, 1, 1, "", ops::quantise_linear, "x / scale + zero point, rounded and saturated"},
    {"QuantizeLinear", "", 13, 18, 2, 3, 1, 1, "axis:i", ops::quantise_linear, "x / scale + zero point, rounded and saturated, by place along the axis"},
    {"QuantizeLinear", "", 19, 20, 2, 3, 1, 1, "axis:i saturate:i", ops::quantise_linear, "x / scale + zero point, rounded and saturated, by place along the axis"},
    {"QuantizeLinear", "", 21, newest_opset, 2, 3, 1, 1, "axis:i block_size:i output_dtype:i precision:i saturate:i", ops::quantise_linear, "x / scale + zero point, rounded and saturated, by block along the axis"},
    {"ReduceSum", "", 1, 12, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "sum over axes"},
    {"ReduceSum", "", 13, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "sum over axes"},
    {"ReduceMean", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "mean over axes"},
    {"ReduceMean", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "mean over axes"},
    {"ReduceMax", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "maximum over axes"},
    {"ReduceMax", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "maximum over axes"},
    {"ReduceMin", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "minimum over axes"},
    {"ReduceMin", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "minimum over axes"},
    {"ReduceProd", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "product over axes"},
    {"ReduceProd", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "product over axes"},
    {"ReduceL1", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "sum of |x| over axes"},
    {"ReduceL1", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "sum of |x| over axes"},
    {"ReduceL2", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "root of the sum of squares over axes"},
    {"ReduceL2", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "root of the sum of squares over axes"},
    {"ReduceLogSum", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "log of the sum over axes"},
    {"ReduceLogSum", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "log of the sum over axes"},
    {"ReduceLogSumExp", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "log of the sum of e^x over axes"},
    {"ReduceLogSumExp", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "log of the sum of e^x over axes"},
    {"ReduceSumSquare", "", 1, 17, 1, 1, 1, 1, "axes:is keepdims:i", ops::reduction, "sum of squares over axes"},
    {"ReduceSumSquare", "", 18, newest_opset, 1, 2, 1, 1, "keepdims:i noop_with_empty_axes:i", ops::reduction, "sum of squares over axes"},
    {"Softmax", "", 1, 12, 1, 1, 1, 1, "axis:i", ops::softmax, "e^x / sum of e^x along the axis; the dims from axis on are one"},
    {"Softmax", "", 13, newest_opset, 1, 1, 1, 1, "axis:i", ops::softmax, "e^x / sum of e^x along the axis"},
    {"LogSoftmax", "", 1, 12, 1, 1, 1, 1, "axis:i", ops::softmax, "log of Softmax; the dims from axis on are one"},
    {"LogSoftmax", "", 13, newest_opset, 1, 1, 1, 1, "axis:i", ops::softmax, "log of Softmax"},
    {"ArgMax", "", 1, 11, 1, 1, 1, 1, "axis:i keepdims:i", ops::arg_extreme, "coordinate of the maximum"},
    {"ArgMax", "", 12, newest_opset, 1, 1, 1, 1, "axis:i keepdims:i select_last_index:i", ops::arg_extreme, "coordinate of the maximum"},
    {"ArgMin", "", 1, 11, 1, 1, 1, 1, "axis:i keepdims:i", ops::arg_extreme, "coordinate of the minimum"},
    {"ArgMin", "", 12, newest_opset, 1, 1, 1, 1, "axis:i keepdims:i select_last_index:i", ops::arg_extreme, "coordinate of the minimum"},
    {"CumSum", "", 11, newest_opset, 2, 2, 1, 1, "exclusive:i reverse:i", ops::cumulative, "running sum along an axis"},
    {"CumProd", "", 26, newest_opset, 2, 2, 1, 1, "exclusive:i reverse:i", ops::cumulative, "running product along an axis"},
    {"Hardmax", "", 1, newest_opset, 1, 1, 1, 1, "axis:i", ops::hardmax, "1 at the first maximum along the axis, else 0; before opset 13 the dims from axis on are one"},
    {"NegativeLogLikelihoodLoss", "", 12, newest_opset, 2, 3, 1, 1, "ignore_index:i reduction:s", ops::class_loss, "-weight x[label], each or summed or averaged"},
    {"SoftmaxCrossEntropyLoss", "", 12, newest_opset, 2, 3, 1, 2, "ignore_index:i reduction:s", ops::class_loss, "NegativeLogLikelihoodLoss of LogSoftmax along dim 1"},
    {"LayerNormalization", "", 17, newest_opset, 2, 3, 1, 3, "axis:i epsilon:f stash_type:i", ops::layer_normalisation, "(x - mean) / sqrt(variance + epsilon) * scale + bias, over the dims from axis on"},
    {"RMSNormalization", "", 23, newest_opset, 2, 2, 1, 1, "axis:i epsilon:f stash_type:i", ops::rms_normalisation, "x / sqrt(mean of x^2 + epsilon) * scale, over the dims from axis on"},
    {"BatchNormalization", "", 7, 8, 5, 5, 1, 5, "epsilon:f momentum:f spatial:i", ops::batch_normalisation, "(x - mean) / sqrt(variance + epsilon) * scale + bias, with given statistics"},
    {"BatchNormalization", "", 9, 13, 5, 5, 1, 5, "epsilon:f momentum:f", ops::batch_normalisation, "(x - mean) / sqrt(variance + epsilon) * scale + bias, with given statistics"},
    {"BatchNormalization", "", 14, newest_opset, 5, 5, 1, 3, "epsilon:f momentum:f training_mode:i", ops::batch_normalisation, "(x - mean) / sqrt(variance + epsilon) * scale + bias, with given statistics"},
    {"InstanceNormalization", "", 6, newest_opset, 3, 3, 1, 1, "epsilon:f", ops::instance_normalisation, "normalisation of each channel over its places"},
    {"GroupNormalization", "", 18, 20, 3, 3, 1, 1, "epsilon:f num_groups:i!", ops::group_normalisation, "normalisation of groups of channels, scale and bias by group"},
    {"GroupNormalization", "", 21, newest_opset, 3, 3, 1, 1, "epsilon:f num_groups:i! stash_type:i", ops::group_normalisation, "normalisation of groups of channels"},
    {"LpNormalization", "", 1, newest_opset, 1, 1, 1, 1, "axis:i p:i", ops::lp_normalisation, "x over its 1- or 2-norm along the axis, 0 where that is 0"},
    {"MeanVarianceNormalization", "", 9, newest_opset, 1, 1, 1, 1, "axes:is", ops::mean_variance_normalisation, "(x - mean) / (standard deviation + 1e-9) over axes"},
    {"LRN", "", 1, newest_opset, 1, 1, 1, 1, "alpha:f beta:f bias:f size:i!", ops::local_response_normalisation, "x / (bias + alpha / size * sum of squares of near channels)^beta"},
    {"MatMul", "", 1, newest_opset, 2, 2, 1, 1, "", ops::matmul, "matrix product over broadcast batch dims"},
    {"Gemm", "", 7, 10, 3, 3, 1, 1, "alpha:f beta:f transA:i transB:i", ops::gemm, "alpha A B + beta C"},
    {"Gemm", "", 11, newest_opset, 2, 3, 1, 1, "alpha:f beta:f transA:i transB:i", ops::gemm, "alpha A B + beta C"},
    {"Einsum", "", 12, newest_opset, 1, variadic, 1, 1, "equation:s!", ops::einsum, "sum of products by an index equation"},
    {"Reshape", "", 5, 13, 2, 2, 1, 1, "", ops::reshape, "the same elements in another shape"},
    {"Reshape", "", 14, newest_opset, 2, 2, 1, 1, "allowzero:i", ops::reshape, "the same elements in another shape"},
    {"Flatten", "", 1, newest_opset, 1, 1, 1, 1, "axis:i", ops::flatten, "the dims before axis as one, the others as one"},
    {"Squeeze", "", 1, 12, 1, 1, 1, 1, "axes:is", ops::squeeze, "without dims of size 1"},
    {"Squeeze", "", 13, newest_opset, 1, 2, 1, 1, "", ops::squeeze, "without dims of size 1"},
    {"Unsqueeze", "", 1, 12, 1, 1, 1, 1, "axes:is!", ops::unsqueeze, "with added dims of size 1"},
    {"Unsqueeze", "", 13, newest_opset, 2, 2, 1, 1, "", ops::unsqueeze, "with added dims of size 1"},
    {"Transpose", "", 1, newest_opset, 1, 1, 1, 1, "perm:is", ops::transpose, "dims in another order"},
    {"Expand", "", 8, newest_opset, 2, 2, 1, 1, "", ops::expand, "broadcast to a shape"},
    {"Identity", "", 1, newest_opset, 1, 1, 1, 1, "", ops::identity, "x"},
    {"Dropout", "", 7, 11, 1, 1, 1, 2, "ratio:f", ops::dropout, "x; inference drops nothing"},
    {"Dropout", "", 12, newest_opset, 1, 3, 1, 2, "seed:i", ops::dropout, "x; inference drops nothing"},
    {"Slice", "", 1, 9, 1, 1, 1, 1, "axes:is ends:is! starts:is!", ops::slice, "every step-th element of ranges"},
    {"Slice", "", 10, newest_opset, 3, 5, 1, 1, "", ops::slice, "every step-th element of ranges"},
    {"Split", "", 2, 12, 1, 1, 1, variadic, "axis:i split:is", ops::split, "parts along an axis"},
    {"Split", "", 13, 17, 1, 2, 1, variadic, "axis:i", ops::split, "parts along an axis"},
    {"Split", "", 18, newest_opset, 1, 2, 1, variadic, "axis:i num_outputs:i", ops::split, "parts along an axis"},
    {"Concat", "", 4, newest_opset, 1, variadic, 1, 1, "axis:i!", ops::concat, "operands one after another along an axis"},
    {"Gather", "", 1, newest_opset, 2, 2, 1, 1, "axis:i", ops::gather, "slices of x picked by index"},
    {"GatherND", "", 11, 11, 2, 2, 1, 1, "", ops::gather_nd, "slices of x picked by index tuples"},
    {"GatherND", "", 12, newest_opset, 2, 2, 1, 1, "batch_dims:i", ops::gather_nd, "slices of x picked by index tuples"},
    {"GatherElements", "", 11, newest_opset, 2, 2, 1, 1, "axis:i", ops::gather_elements, "elements of x picked along an axis"},
    {"Tile", "", 6, newest_opset, 2, 2, 1, 1, "", ops::tile, "x repeated along each dim"},
    {"Pad", "", 2, 10, 1, 1, 1, 1, "mode:s pads:is! value:f", ops::pad, "x with a border"},
    {"Pad", "", 11, 17, 2, 3, 1, 1, "mode:s", ops::pad, "x with a border"},
    {"Pad", "", 18, newest_opset, 2, 4, 1, 1, "mode:s", ops::pad, "x with a border"},
    {"Trilu", "", 14, newest_opset, 1, 2, 1, 1, "upper:i", ops::trilu, "the upper or lower triangle, 0 elsewhere"},
    {"SpaceToDepth", "", 1, 27, 1, 1, 1, 1, "blocksize:i!", ops::depth_and_space, "blocks of places become channels"},
    {"SpaceToDepth", "", 28, newest_opset, 1, 1, 1, 1, "blocksize:i! mode:s", ops::depth_and_space, "blocks of places become channels"},
    {"DepthToSpace", "", 1, 10, 1, 1, 1, 1, "blocksize:i!", ops::depth_and_space, "channels become blocks of places"},
    {"DepthToSpace", "", 11, newest_opset, 1, 1, 1, 1, "blocksize:i! mode:s", ops::depth_and_space, "channels become blocks of places"},
    {"ReverseSequence", "", 10, newest_opset, 2, 2, 1, 1, "batch_axis:i time_axis:i", ops::reverse_sequence, "the first elements of each row in reverse order"},
    {"CenterCropPad", "", 18, newest_opset, 2, 2, 1, 1, "axes:is", ops::center_crop_pad, "the middle of x, or x with a border of 0"},
    {"HannWindow", "", 17, newest_opset, 1, 1, 1, 1, "output_datatype:i periodic:i", ops::cosine_window, "0.5 - 0.5 cos(2 pi n / N)"},
    {"HammingWindow", "", 17, newest_opset, 1, 1, 1, 1, "output_datatype:i periodic:i", ops::cosine_window, "25/46 - 21/46 cos(2 pi n / N)"},
    {"BlackmanWindow", "", 17, newest_opset, 1, 1, 1, 1, "output_datatype:i periodic:i", ops::cosine_window, "0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)"},
    {"DFT", "", 17, 19, 1, 2, 1, 1, "axis:i inverse:i onesided:i", ops::fourier_transform, "discrete Fourier transform along an axis"},
    {"DFT", "", 20, newest_opset, 1, 3, 1, 1, "inverse:i onesided:i", ops::fourier_transform, "discrete Fourier transform along an axis"},
    {"Constant", "", 1, 10, 0, 0, 1, 1, "value:t!", ops::constant, "a tensor"},
    {"Constant", "", 11, 11, 0, 0, 1, 1, "value:t", ops::constant, "a tensor"},
    {"Constant", "", 12, newest_opset, 0, 0, 1, 1, "value:t value_int:i value_ints:is value_float:f value_floats:fs value_string:s value_strings:ss", ops::constant, "a tensor"},
    {"ConstantOfShape", "", 9, newest_opset, 1, 1, 1, 1, "value:t", ops::constant_of_shape, "one value in a given shape"},
    {"RNN", "", 7, 13, 3, 6, 0, 2, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i", ops::recurrent, "h = activation(W x + R h + bias), step by step"},
    {"RNN", "", 14, newest_opset, 3, 6, 0, 2, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i layout:i", ops::recurrent, "h = activation(W x + R h + bias), step by step"},
    {"GRU", "", 7, 13, 3, 6, 0, 2, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i linear_before_reset:i", ops::recurrent, "gated recurrent unit, step by step"},
    {"GRU", "", 14, newest_opset, 3, 6, 0, 2, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i layout:i linear_before_reset:i", ops::recurrent, "gated recurrent unit, step by step"},
    {"LSTM", "", 7, 13, 3, 8, 0, 3, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i input_forget:i", ops::recurrent, "long short-term memory, step by step"},
    {"LSTM", "", 14, newest_opset, 3, 8, 0, 3, "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i layout:i input_forget:i", ops::recurrent, "long short-term memory, step by step"},
    {"If", "", 1, newest_opset, 1, 1, 1, variadic, "else_branch:g! then_branch:g!", ops::conditional, "the results of one of two graphs"},
    {"Range", "", 11, 26, 3, 3, 1, 1, "", ops::range, "start, start + delta, ... below limit"},
    {"Range", "", 27, newest_opset, 3, 3, 1, 1, "stash_type:i", ops::range, "start, start + delta, ... below limit"},
    {"Shape", "", 1, 14, 1, 1, 1, 1, "", ops::shape, "the sizes of x"},
    {"Shape", "", 15, newest_opset, 1, 1, 1, 1, "start:i end:i", ops::shape, "the sizes of x"},
    {"Size", "", 1, newest_opset, 1, 1, 1, 1, "", ops::size, "the number of elements of x"},
    {"OneHot", "", 9, newest_opset, 3, 3, 1, 1, "axis:i", ops::one_hot, "one value at the index along a new axis, another elsewhere"},
    {"EyeLike", "", 9, newest_opset, 1, 1, 1, 1, "dtype:i k:i", ops::eye_like, "1 on a diagonal, 0 elsewhere"},
    {"Attention", "", 23, 23, 3, 6, 1, 4, "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f softmax_precision:i", ops::attention, "softmax(scale Q K^T, capped and masked) V"},
    {"Attention", "", 24, 24, 3, 7, 1, 4, "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f softmax_precision:i", ops::attention, "softmax(scale Q K^T, capped and masked) V"},
    {"Attention", "", 25, newest_opset, 3, 7, 1, 4, "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f softmax_precision:i left_window_size:i right_window_size:i", ops::attention, "softmax(scale Q K^T, capped and masked) V"},
    {"RotaryEmbedding", "", 23, newest_opset, 3, 4, 1, 1, "interleaved:i num_heads:i rotary_embedding_dim:i", ops::rotary_embedding, "pairs of elements turned by position"},
    {"Resize", "", 10, 10, 2, 2, 1, 1, "mode:s", ops::resize, "x sampled at other places"},
    {"Resize", "", 11, 17, 1, 4, 1, 1, "coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f mode:s nearest_mode:s", ops::resize, "x sampled at other places"},
    {"Resize", "", 18, newest_opset, 1, 4, 1, 1, "antialias:i axes:is coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f keep_aspect_ratio_policy:s mode:s nearest_mode:s", ops::resize, "x sampled at other places"},
    {"Conv", "", 1, newest_opset, 2, 3, 1, 1, "auto_pad:s dilations:is group:i kernel_shape:is pads:is strides:is", ops::convolution, "sums of products over sliding windows"},
    {"MaxPool", "", 1, newest_opset, 1, 1, 1, 2, "auto_pad:s ceil_mode:i dilations:is kernel_shape:is! pads:is strides:is storage_order:i", ops::pooling, "maximum of each window"},
    {"AveragePool", "", 7, newest_opset, 1, 1, 1, 1, "auto_pad:s ceil_mode:i dilations:is kernel_shape:is! pads:is strides:is count_include_pad:i", ops::pooling, "mean of each window"},
    {"LpPool", "", 2, newest_opset, 1, 1, 1, 1, "auto_pad:s ceil_mode:i dilations:is kernel_shape:is! p:i pads:is strides:is", ops::pooling, "p-norm of each window"},
    {"GlobalAveragePool", "", 1, newest_opset, 1, 1, 1, 1, "", ops::global_pooling, "mean of each channel"},
    {"GlobalMaxPool", "", 1, newest_opset, 1, 1, 1, 1, "", ops::global_pooling, "maximum of each channel"},
    {"SimplifiedLayerNormalization", "", 1, newest_opset, 2, 2, 1, 2, "axis:i epsilon:f stash_type:i", ops::rms_normalisation, "RMSNormalization as onnxruntime writes it"},
    {"Attention", "com.microsoft", 1, 1, 2, 7, 1, 2, "do_rotary:i mask_filter_value:f num_heads:i! past_present_share_buffer:i qkv_hidden_sizes:is rotary_embedding_dim:i scale:f unidirectional:i", ops::microsoft_attention, "attention with its projections"},
    {"MultiHeadAttention", "com.microsoft", 1, 1, 1, 10, 1, 4, "mask_filter_value:f num_heads:i! scale:f unidirectional:i", ops::multi_head_attention, "attention over projected operands"},
    {"SkipLayerNormalization", "com.microsoft", 1, 1, 3, 5, 1, 4, "epsilon:f", ops::skip_normalisation, "LayerNormalization of a sum"},
    {"SkipSimplifiedLayerNormalization", "com.microsoft", 1, 1, 3, 4, 1, 4, "epsilon:f", ops::skip_normalisation, "RMSNormalization of a sum"},
    {"EmbedLayerNormalization", "com.microsoft", 1, 1, 7, 9, 1, 3, "epsilon:f mask_index_type:i", ops::embed_layer_normalisation, "LayerNormalization of summed embeddings"},
    {"SimplifiedLayerNormalization", "com.microsoft", 1, 1, 2, 2, 1, 2, "axis:i epsilon:f stash_type:i", ops::rms_normalisation, "RMSNormalization as onnxruntime writes it"},
    {"RotaryEmbedding", "com.microsoft", 1, 1, 4, 4, 1, 1, "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f", ops::microsoft_rotary_embedding, "pairs of elements turned by position"},
    {"Gelu", "com.microsoft", 1, 1, 1, 1, 1, 1, "", ops::gelu, "x times the normal distribution function of x"},
    {"BiasGelu", "com.microsoft", 1, 1, 2, 2, 1, 1, "", ops::gelu, "Gelu of a sum"},
    {"FastGelu", "com.microsoft", 1, 1, 1, 2, 1, 1, "", ops::gelu, "tanh form of Gelu of a sum"},
    {"QuickGelu", "com.microsoft", 1, 1, 1, 1, 1, 1, "alpha:f", ops::unary, "x sigmoid(alpha x)"},
    {"FusedMatMul", "com.microsoft", 1, 1, 2, 2, 1, 1, "alpha:f transA:i transB:i transBatchA:i transBatchB:i", ops::fused_matmul, "alpha times the matrix product"},
};
// clang-format on

std::optional<Attribute::Kind> parse_kind(std::string_view word) {
  using enum Attribute::Kind;
  if (word == "i") return integer;
  if (word == "f") return real;
  if (word == "s") return Attribute::Kind::text;
  if (word == "is") return integers;
  if (word == "fs") return reals;
  if (word == "ss") return texts;
  if (word == "t") return tensor;
  if (word == "g") return graph;
  return std::nullopt;
}

}  // namespace

std::vector<AttributeRule> OpRow::attribute_rules() const {
  std::vector<AttributeRule> rules;
  std::string_view rest = attributes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t colon = item.find(':');
    const bool required = item.ends_with('!');
    if (required) item.remove_suffix(1);
    const auto kind = parse_kind(item.substr(colon + 1));
    AICF_CHECK(kind.has_value(), "attribute kind in the op table: " + std::string(item));
    rules.push_back({item.substr(0, colon), *kind, required});
  }
  return rules;
}

std::span<const OpRow> op_table() {
  return rows;
}

const OpRow* find_op(std::string_view name, std::string_view domain, int opset) {
  for (const OpRow& row : rows) {
    if (row.name == name && row.domain == domain && row.since <= opset && opset <= row.until) return &row;
  }
  return nullptr;
}

const OpRow* find_op_any_opset(std::string_view name, std::string_view domain) {
  const auto found =
      std::ranges::find_if(rows, [&](const OpRow& row) { return row.name == name && row.domain == domain; });
  return found == std::end(rows) ? nullptr : &*found;
}

bool is_known_domain(std::string_view domain) {
  return std::ranges::any_of(rows, [&](const OpRow& row) { return row.domain == domain; });
}

std::string_view kind_name(Attribute::Kind kind) {
  switch (kind) {
    case Attribute::Kind::integer:
      return "INT";
    case Attribute::Kind::real:
      return "FLOAT";
    case Attribute::Kind::text:
      return "STRING";
    case Attribute::Kind::integers:
      return "INTS";
    case Attribute::Kind::reals:
      return "FLOATS";
    case Attribute::Kind::texts:
      return "STRINGS";
    case Attribute::Kind::tensor:
      return "TENSOR";
    case Attribute::Kind::graph:
      return "GRAPH";
  }
  AICF_BUG("attribute kind");
}

}  // namespace aicf
