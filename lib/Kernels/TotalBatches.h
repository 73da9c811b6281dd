// Totals of many tensors by one kernel.
//
// The norm of all gradients is a sum of totals, one a gradient. Alone, each takes a GPU a kernel or
// two. So they are pieces of one kernel (exec.kernel). It leaves a sum of each part of a tensor,
// those of all tensors one behind the other (dtc-exec's Joins.h). These are added up in a second
// pass, always in the same order:
//
//     %s = arith.mulf %g, %g : tensor<96x64xf32>
//     %t = dtc.reduce sum %s [0, 1] : tensor<96x64xf32> -> tensor<f32>
//     ... %u of %h : tensor<64xf32> likewise
//     %norm = dtc.sum %t, %u : tensor<f32>
//   becomes
//     %p = exec.launch @rows_0(%g, %h) : (...) -> tensor<3xf32>
//     %norm = dtc.reduce sum %p [0] : tensor<3xf32> -> tensor<f32>
//
// What is computed of a gradient for several sums is computed by the same kernel, which reads it
// once. It gives the gradient's squares, and which elements aren't finite.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace dtc::kernels {

/// The totals of what is computed element by element of the same tensors.
struct Totals {
  llvm::SetVector<mlir::Operation *> ops;        ///< element by element, in an order of evaluation
  llvm::SetVector<mlir::Value> tensors, scalars; ///< that they read
  llvm::SmallVector<mlir::Value> terms;          ///< what is added up
  llvm::SmallVector<mlir::Value> values;         ///< the totals; each is read by a sum alone
  llvm::SmallVector<graph::SumOp> sums;          ///< that one
};

/// All that `func` adds to sums of scalars, of tensors that lie in memory.
std::vector<Totals> totalsOf(mlir::func::FuncOp func, const target::Target &target);

/// Elements of a part by which tensors of so many elements are added up.
int64_t partFor(llvm::ArrayRef<int64_t> elements);

/// Puts `joined`, a tensor of partial sums for each total, in the place of the totals.
void replaceTotals(llvm::ArrayRef<const Totals *> pieces, mlir::ValueRange joined,
                   mlir::OpBuilder &builder);

} // namespace dtc::kernels
