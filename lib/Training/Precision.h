// The forward graph in another precision than the file's.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::training {

/// Converts `func`, in f32 or f64, to `target`, f32 or a half. Parameters (and their dtc.parameter,
/// but for the type in the file) become `target`, and with them every float that depends on one.
/// What depends on no parameter (rotary tables, masks, positions) stays as it is, as its range or
/// precision may be needed. It is rounded where it meets a converted value. Casts from f64 to f32
/// vanish, those to f64 stay. In a half, row statistics and losses stay f32: ops compute them so.
/// The halves of a file have become f32 before (Raise/Passes.td: WidenHalves).
mlir::LogicalResult convertPrecision(mlir::ModuleOp module, mlir::func::FuncOp func,
                                     mlir::FloatType target);

} // namespace dtc::training
