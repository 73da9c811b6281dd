// Dynamic loss scaling, decided on the device.
//
// In fp16 small gradients would be 0. So the backward pass starts with a multiple of the gradient,
// and the update divides by it. torch.amp.GradScaler's rules say by which multiple:
//
//   @loss_and_grads   seed = scale / count
//   @update           norm = sqrt(squares) / scale
//                     faults = gradient elements that aren't finite, in the step vector
//                     new parameters and states = dtc.commit updated, old, faults
//                     scale = faults ? scale / 2 : after 2000 steps without ? scale * 2 : scale
//
// Scale and counters are buffers: each rank has them, the step vector has the same bits on all, and
// checkpoints keep them.
#pragma once

#include "PhaseFunction.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Training/Train.h"

namespace dtc::training {

/// Declares the buffers; fails where the model has one of that name.
mlir::LogicalResult declareLossScale(mlir::ModuleOp module, const LossScaleOptions &options);

/// The argument that loss_and_grads takes.
mlir::Value addLossScale(PhaseFunction &function);

/// What @update does beside its own work where the loss is scaled.
class LossScaling {
public:
  /// Appends the arguments.
  LossScaling(PhaseFunction &update, const LossScaleOptions &options);

  /// Of the sum of squares over all ranks. All that is asked for below follows from both.
  void setFaults(graph::TensorBuilder &b, mlir::Value nonFinite, mlir::Value squaredNorm);
  /// What gradients are multiplied by to be those of the loss.
  mlir::Value inverse(graph::TensorBuilder &b) const { return b.reciprocal(scale); }
  /// How many updates there have been with this one, of a step's number.
  mlir::Value updatesUntil(graph::TensorBuilder &b, mlir::Value step) const;
  /// What the update writes in place of `old`.
  mlir::Value committed(graph::TensorBuilder &b, mlir::Value fresh, mlir::Value old) const;
  void addResults(graph::TensorBuilder &b);

private:
  PhaseFunction &function;
  const LossScaleOptions &options;
  mlir::Value scale, cleanSteps, skippedSteps, faults;
};

} // namespace dtc::training
