// Merging of collectives in local functions.
#pragma once

#include "Reshard.h"

namespace dtc::partition {

/// Sums the step vector over all ranks by one call. Of what only some axes pend over, the ranks
/// at position 0 along the others give the term, and the rest give zero. Likewise the terms of what
/// stages with meshes of their own sum up.
void sumStepVector(mlir::func::FuncOp func, const NamedMesh &mesh);

/// An all-reduce of which every rank keeps only a part becomes a reduce-scatter.
mlir::LogicalResult fuseScatters(mlir::ModuleOp module);

/// Packs collectives into calls of several operands, as far as none of their results is needed
/// before the last operand is there:
///
/// - all-reduces of one operand of the same axes, kind and element type, in calls of about `bytes`;
/// - in what runs once a step, what ZeRO scatters and gathers (dist.block), likewise;
/// - in each microbatch, the gradients of a block that ZeRO scatters. They are added to those of
///   earlier microbatches once the next block's are there.
void bucketCollectives(mlir::func::FuncOp func, int64_t bytes);

/// True for what ZeRO gathers and scatters.
bool isOfStorage(mlir::Operation *op);

/// What collectives have in common that may be one call.
struct CallKey {
  mlir::OperationName name;
  mlir::Attribute properties; ///< mesh, axes, dimension, kind
  mlir::Type element;
  bool operator==(const CallKey &) const = default;
};
CallKey callKeyOf(mlir::Operation *op);

/// Makes one call of several, where the builder stands.
mlir::Operation *mergeCalls(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Operation *> members);

/// In a microbatch, gathers the parameters of a block that ZeRO divides by one call. It stands
/// where the block before is used first, so that they arrive while that computes.
void gatherBlocksAhead(mlir::func::FuncOp func);

} // namespace dtc::partition
