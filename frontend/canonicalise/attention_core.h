#pragma once

// The decomposition that ONNX's Attention and the contrib operators share. Private to frontend/canonicalise.

#include "frontend/canonicalise/lowering.h"

namespace aicf {

/// A [batch, heads, length, size] view of a tensor given so, or as [batch, length, width] with the heads side by side
/// from column `offset` on (packed projections).
struct Heads {
  ValuePtr tensor;
  bool flat = false;
  Expr batch, heads, length, size;
  Expr offset{0};

  Index index(const Expr& b, const Expr& h, const Expr& n, const Expr& d) const {
    return flat ? Index{b, n, offset + h * size + d} : Index{b, h, n, d};
  }
};

struct AttentionParts {
  Heads q, k, v;
  Expr scale;  ///< of type wide(q)
  double softcap = 0;
  DType precision = DType::f32;  ///< of the softmax
  /// The masked score from a score at [batch, head, query, key]; empty when nothing is masked.
  std::function<Expr(const Index& i, const Expr& score)> mask;
  Values mask_operands;
  bool may_be_empty = false;  ///< a row may have only −inf scores; it then gives 0
  /// Called with the scores scaled (0), capped (1), masked (2) and normalised (3).
  std::function<Result<void>(const ValuePtr& scores, int stage)> expose;
  std::string result_name;   ///< of the tensor that attend() returns
  bool flat_result = false;  ///< [batch, query, heads · size] instead of [batch, heads, query, size]
};

/// Rank 4 operands as they are; rank 3 ones split into `heads` heads. Errors name `input` of the operator.
Result<Heads> heads_of(Lowering& op, int input, std::int64_t heads, const char* attribute);
/// Past and new keys (or values) as one tensor [batch, heads, past + new, size]; `past` may be null, a result that
/// needs no operation is the operand itself.
Result<ValuePtr> joined_cache(Lowering& op, const Heads& fresh, const ValuePtr& past, const std::string& name);
/// A whole [batch, heads, length, size] tensor as Heads.
Heads whole(const ValuePtr& tensor);

/// scores = scale · q kᵀ, cap, mask, softmax, · v; key heads serve groups of query heads.
Result<ValuePtr> attend(Lowering& op, const AttentionParts& parts);

}  // namespace aicf
