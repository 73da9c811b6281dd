// Mixed precision: the forward graph in bf16.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::training {

/// Converts `func` to bf16: f32 parameters (and their dtc.parameter) become
/// bf16, and with them every f32 value that depends on one. What depends on no
/// parameter (rotary tables, masks, positions) stays f32, as its range or
/// precision may be needed, and is rounded where it meets a bf16 value. Row
/// statistics and losses stay f32: ops compute them so.
mlir::LogicalResult convertToBF16(mlir::ModuleOp module, mlir::func::FuncOp func);

/// Refuses what can't be trained in f32: trainable parameters of f16 or bf16.
mlir::LogicalResult checkF32(mlir::ModuleOp module);

} // namespace dtc::training
