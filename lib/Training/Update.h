// @update: one optimizer step.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Training/Train.h"

#include "llvm/ADT/ArrayRef.h"

namespace dtc::training {

/// A parameter that the step updates.
struct TrainedParameter {
  std::string name;
  mlir::Value argument;            ///< of loss_and_grads
  mlir::RankedTensorType type;     ///< as loss_and_grads reads it
  mlir::RankedTensorType gradient; ///< f32 at least; masters and states are alike
};

/// `lostRoles`: the counts of rows without a slot, by layer.
mlir::LogicalResult buildUpdate(mlir::ModuleOp module, llvm::ArrayRef<TrainedParameter> parameters,
                                llvm::ArrayRef<graph::RoleAttr> lostRoles,
                                const TrainOptions &options);

/// Refuses options that mean nothing or would be ignored.
mlir::LogicalResult checkOptions(mlir::ModuleOp module, const TrainOptions &options);

} // namespace dtc::training
