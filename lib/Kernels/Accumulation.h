// Products and convolutions that are added to what accumulates them, by the library that makes
// them.
//
// Each microbatch adds its gradients to those of the ones before. A product whose result is read by
// such a sum alone adds to it itself, where the target's library can (Target.h). So does the
// gradient of a convolution's weight:
//
//     %g = exec.matmul %x, %dy ...                %s = exec.matmul %x, %dy with %before ...
//     %s = dtc.sum %before, %g
//
//     %h = dtc.conv_weight_grad %x, %dy ...      %t = exec.conv_weight_grad %x, %dy with %old ...
//     %t = dtc.sum %old, %h
//
// `%s` takes the place of `%before`, so that nothing of the gradient's size is in memory beside it.
// The sum is rounded as before where it is in fp32. In another type it is rounded once, where the
// product was before.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Has the function's library calls add to its accumulators. What has become part of one is erased.
void foldAccumulation(mlir::func::FuncOp function, const target::Target &target);

} // namespace dtc::kernels
