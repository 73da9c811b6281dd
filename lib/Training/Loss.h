// The loss at the end of the forward graph.
//
// Cross entropy of logits[b,s,v] becomes
//
//   rows, lse = dtc.cross_entropy logits, target     [b,s]
//   sum = dtc.reduce sum rows                        what the step reports
//
// and its backward pass starts at `rows` with 1/count at every position (ignored ones give no
// gradient). So the gradients are those of the mean over the global batch, however it is cut into
// microbatches and ranks.
#pragma once

#include "PadDimension.h"
#include "PhaseFunction.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Training/Train.h"

namespace dtc::training {

struct Loss {
  mlir::Value sum;   ///< f32 scalar: over the valid elements
  mlir::Value start; ///< where the backward pass starts
  bool squared;      ///< sum is that of start's squares, not of start
  mlir::Value count; ///< the argument `count`
  std::optional<PaddedClasses> padded = {}; ///< of cross entropy
};

/// Appends the arguments `target` (where the loss has one) and `count` and the
/// loss of `outputs` (as `roles` name them) to the function.
mlir::FailureOr<Loss> buildLoss(PhaseFunction &function, mlir::ValueRange outputs,
                                llvm::ArrayRef<graph::RoleAttr> roles,
                                const TrainOptions &options);

/// Builds d(mean)/d(start), the first value of the backward pass, times `scale` where there is one.
mlir::Value buildSeed(graph::TensorBuilder &b, const Loss &loss, mlir::Value scale);

/// @prologue: counts the valid elements of all microbatches' targets, of which
/// one microbatch's is given.
mlir::LogicalResult buildPrologue(mlir::ModuleOp module, mlir::func::FuncOp lossAndGrads,
                                  int64_t valuesPerMicrobatch, const TrainOptions &options);

/// The sum of all elements, the last dimension first.
mlir::Value sumOfAll(graph::TensorBuilder &b, mlir::Value value);

} // namespace dtc::training
