// Ops of which the forward and the backward pass share something inside.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::stages {

/// Some ops keep something inside for their backward pass (attention its scores). They are taken
/// apart together with it: what both compute becomes one value, which is kept. A library that
/// computes both whole keeps nothing inside.
mlir::LogicalResult takeApartShared(mlir::func::FuncOp joint);

/// Whether a plan has an op computed again for the backward pass.
bool isRecomputed(mlir::Operation *op);

} // namespace dtc::stages
