// Ops about a training step as a whole.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/StepOps.h.inc"

namespace dtc::graph {

/// The name of a role `count`: elements of gradients that are infinite or no numbers. The count of
/// targets has no name.
inline constexpr llvm::StringLiteral kNonFinite = "non_finite";

} // namespace dtc::graph
