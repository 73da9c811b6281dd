// Small builders of `dtc` ops for importers and for the passes that raise their graphs.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Raise/Shape.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dtc::raise {

using Emitter = mlir::ImplicitLocOpBuilder;

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline mlir::Type elementOf(mlir::Value value) { return tensorType(value).getElementType(); }

/// A constant whose every element is `value`.
mlir::Value splat(Emitter &emit, mlir::RankedTensorType type, double value);
mlir::Value splatLike(Emitter &emit, mlir::Value like, double value);

/// No op is made where there is nothing to do.
mlir::Value reshape(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value transpose(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> perm);
/// ONNX's (NumPy's) broadcasting to `shape`.
mlir::Value broadcastTo(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> shape);
/// `value` repeated to `shape`; its dimension i is dimension dims[i].
mlir::Value broadcastAlong(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> shape,
                           llvm::ArrayRef<int64_t> dims);
/// size elements from `offset` along one dimension.
mlir::Value sliceDim(Emitter &emit, mlir::Value value, int64_t dim, int64_t offset, int64_t size,
                     int64_t stride = 1);
/// Slices of `table` along `axis` by index.
mlir::Value gather(Emitter &emit, mlir::Value table, mlir::Value indices, int64_t axis,
                   mlir::IntegerAttr paddingRow = {});
/// Of each row of the last dimension the elements at `indices`, which end in the number of
/// elements wanted.
mlir::Value pickEach(Emitter &emit, mlir::Value rows, mlir::Value indices);
/// The dimensions vanish.
mlir::Value reduce(Emitter &emit, graph::ReduceKind kind, mlir::Value value,
                   llvm::ArrayRef<int64_t> dims);
/// The mean of `count` elements from their sum. Halves, which may not hold the count, are divided
/// in f32.
mlir::Value divideByCount(Emitter &emit, mlir::Value sum, int64_t count);
mlir::Value pad(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> low,
                llvm::ArrayRef<int64_t> high, double fill);

/// Sum of products; sizes of the result follow from the indices.
mlir::Value contract(Emitter &emit, mlir::Value lhs, llvm::ArrayRef<int64_t> lhsIndices,
                     mlir::Value rhs, llvm::ArrayRef<int64_t> rhsIndices,
                     llvm::ArrayRef<int64_t> resultIndices);

/// ONNX's MatMul: leading dimensions broadcast, rank 1 operands get a dimension
/// that the result does not have.
mlir::Value matmul(Emitter &emit, mlir::Value lhs, mlir::Value rhs);

/// Conversion between element types by value; `to` may be i1 (not equal to zero).
mlir::Value castTo(Emitter &emit, mlir::Value value, mlir::Type to);

/// Whether a gradient could flow through the value to a parameter.
bool dependsOnParameter(mlir::Value value);

} // namespace dtc::raise
