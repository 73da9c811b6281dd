// Terms of one gradient that a function makes far apart, added up one after the other.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Layers that share a weight each make a term of its gradient. One sum of all would have them wait
/// for the last. Where there are more than three, each is added as soon as it is made, and those
/// before it are. The order is that of the terms, so that all schedules give the same bits:
///
///   %s = dtc.sum %1, %2, %3, %4
///   return dtc.sum %accumulator, %s : {gradient}
/// becomes
///   %a = dtc.barrier (dtc.sum %accumulator, %1)
///   %b = dtc.barrier (dtc.sum %a, %2)
///   %c = dtc.barrier (dtc.sum %b, %3)
///   return dtc.sum %c, %4 : {gradient}
///
/// Fewer are one sum, whose kernel could make of it what reduces each term. But then all that is
/// reduced would wait for the last term. So the others are stored as they are made.
void sumInTurn(mlir::func::FuncOp function);

} // namespace dtc::kernels
