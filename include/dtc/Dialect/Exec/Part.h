// Parts of tensors in their places, for what passes through the device in parts.
//
//     %a = dtc.slice %m offsets [0] strides [1] {exec.part} : tensor<100xf32> -> tensor<64xf32>
//     %b = dtc.slice %m offsets [64] strides [1] {exec.part} : tensor<100xf32> -> tensor<36xf32>
//     ...                                               %c and %d are made of %a and %b
//     %n = dtc.concat 0 (%c, %d) {exec.part} : ... -> tensor<100xf32>
//
// Such a slice is no copy: it lies within its operand, which has one dimension. The operands of
// such a concat lie in its place one behind another, as each is made. So %n may take the place of
// %m while %b still lies there. Kernels neither take these ops nor fuse across them. In a program,
// copies alone read and write parts.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::exec {

/// On a slice or a concat: a UnitAttr.
inline constexpr llvm::StringLiteral kPart = "exec.part";

bool isPart(mlir::Operation *op);
/// The op as such a slice or concat, or null.
graph::SliceOp partOf(mlir::Operation *op);
graph::ConcatOp joinOf(mlir::Operation *op);
/// The concat in whose place an exec.copy puts its result; null: there is none. No other op's
/// results lie in such a place.
graph::ConcatOp joinedInto(mlir::Value value);
/// Where a value begins in the place of its buffer root, or of the concat that this is joined
/// into, in elements.
int64_t beginOf(mlir::Value value);

} // namespace dtc::exec
