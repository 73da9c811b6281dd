// Ops about a training step as a whole.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <optional>
#include <string>

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

/// Rows that found no slot with their expert, as a role `count` says it. They are those of one
/// layer that a rank has, or those of all layers and ranks. The names of the roles are in
/// lib/Runtime/LostRows.h.
struct LostRows {
  bool areDropped = false; ///< else they end the run
  std::string layer = "";  ///< empty: all of them
};
RoleAttr lostRowsRole(mlir::MLIRContext *context, const LostRows &rows);
/// None for another role.
std::optional<LostRows> lostRowsOf(RoleKind kind, llvm::StringRef name);
std::optional<LostRows> lostRowsOf(RoleAttr role);

/// A rank of a pipeline may have several of the stages that make a gradient of one weight. Each
/// stage adds up its own, so that the order of sums doesn't depend on the schedule. That of the
/// rank's first such stage has the weight's name. Another one has its chunk behind it:
/// `#dtc.role<gradient, "w of chunk 1">`. No parameter may be called so.
RoleAttr gradientOfChunk(RoleAttr gradient, int chunk);
/// The weight that a role's name means.
llvm::StringRef weightOf(RoleKind kind, llvm::StringRef name);
llvm::StringRef weightOf(RoleAttr role);

/// Whether microbatches add to it, and ranks have terms of it: gradients, the loss, lost rows.
bool isSummedUp(RoleKind kind, llvm::StringRef name);
bool isSummedUp(RoleAttr role);

} // namespace dtc::graph
