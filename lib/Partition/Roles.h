// What functions say to each other through the roles of arguments and results.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

namespace dtc::partition {

/// Copies dist.sharding to arguments and results that have none from those of the same role and
/// name, in whichever function. Gradients, state and masters have their parameter's. Parameters and
/// buffers without any are replicated. Fails where two parameters or buffers of one name disagree.
mlir::LogicalResult unifyShardings(mlir::ModuleOp module, mlir::FlatSymbolRefAttr mesh);

/// Gives the arguments of `func` for gradients and the loss the layout in which
/// `producer` returns them.
void adoptResults(mlir::func::FuncOp func, mlir::func::FuncOp producer);

/// Whether the function returns gradients or the loss of a microbatch, which others then read.
bool returnsSums(mlir::func::FuncOp func);

} // namespace dtc::partition
