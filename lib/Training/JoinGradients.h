// How the gradients of one value are put together.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::training {

/// One dtc.sum. But a value may be split by slices that tile a dimension (query, key and value out
/// of one projection). There each part is a padded piece. The pieces are then joined by one
/// dtc.concat, which writes every element once.
mlir::Value joinGradients(mlir::OpBuilder &builder, mlir::Location loc,
                          llvm::ArrayRef<mlir::Value> parts);

} // namespace dtc::training
