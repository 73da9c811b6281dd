// Ops about a training step as a whole.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/StepOps.h.inc"

namespace dtc::graph {

/// The name of a role `count`: elements of gradients that are infinite or no numbers. The count of
/// targets has no name.
inline constexpr llvm::StringLiteral kNonFinite = "non_finite";

/// Buffers of loss scaling, each one number: the scale, steps without a fault since it last
/// changed, and steps that weren't committed. Weights that are saved don't have them.
inline constexpr llvm::StringLiteral kLossScale = "dtc.loss_scale", kCleanSteps = "dtc.clean_steps",
                                     kSkippedSteps = "dtc.skipped_steps";

/// Gives a buffer, which no file has, the number that its elements begin with.
void setInitial(ParameterOp buffer, double value);
/// Nothing where the parameter has none.
std::optional<double> initialOf(ParameterOp parameter);

} // namespace dtc::graph
