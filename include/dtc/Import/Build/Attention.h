// Attention as one op.
#pragma once

#include "dtc/Import/Build/Conversion.h"

#include <optional>

namespace dtc::import {

struct AttentionOperands {
  mlir::Value query, key, value; ///< [batch, position, head, feature]; heads of keys may be fewer
  const Tensor *mask = nullptr;  ///< added to scores [batch, head, query, key], or true where seen
  std::optional<double> scale;   ///< default: 1 / sqrt(feature)
  bool causal = false;
  double dropout = 0; ///< of the probabilities
};

/// Attention in simple ops, for what dtc.attention doesn't have. All but `result` are
/// [batch, head, query, key].
struct SpelledAttention {
  mlir::Value products; ///< scaled
  mlir::Value capped;   ///< products bounded by `softcap`
  mlir::Value biased, probabilities;
  mlir::Value result; ///< [batch, position, head, feature]
};
/// `bias` is a term of the scores or null. A query that sees no key gets zeros where `guarded`.
llvm::FailureOr<SpelledAttention> spellOutAttention(Conversion &node,
                                                    const AttentionOperands &operands,
                                                    mlir::Value bias, double softcap, bool guarded);

double scaleOf(const AttentionOperands &operands);

/// The result as [batch, position, head, feature].
llvm::FailureOr<mlir::Value> attention(Conversion &node, const AttentionOperands &operands);

} // namespace dtc::import
