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

/// The result as [batch, position, head, feature].
llvm::FailureOr<mlir::Value> attention(Conversion &node, const AttentionOperands &operands);

} // namespace dtc::import
