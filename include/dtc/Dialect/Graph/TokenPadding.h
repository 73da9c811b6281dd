// Marks of samples that have more tokens in the graph than in their data.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtc::graph {

/// On @forward: how many tokens of a sample are data. Dimension 1 of its outputs has more of them.
inline constexpr llvm::StringLiteral kOwnTokens = "dtc.own_tokens";

/// On an op: behind its first operand, along one dimension, the result has nothing but padding.
inline constexpr llvm::StringLiteral kTokenPadding = "dtc.token_padding";

} // namespace dtc::graph
