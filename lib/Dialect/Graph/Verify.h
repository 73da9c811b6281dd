// Checks that the verifiers of several op families share.
//
// Messages end with the offending value.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::graph {

using Shape = llvm::SmallVector<int64_t>;

/// f32, or f64 where `value` holds f64: the type of statistics and sums.
mlir::Type accumulatorType(mlir::Value value);

mlir::LogicalResult verifyDim(mlir::Operation *op, int64_t dim, int64_t rank, llvm::StringRef what);
mlir::LogicalResult verifyRank(mlir::Operation *op, mlir::Value value, int64_t rank,
                               llvm::StringRef what);
mlir::LogicalResult verifyShape(mlir::Operation *op, mlir::Value value,
                                llvm::ArrayRef<int64_t> expected, llvm::StringRef what);
mlir::LogicalResult verifyElementType(mlir::Operation *op, mlir::Value value, mlir::Type expected,
                                      llvm::StringRef what);
mlir::LogicalResult verifySameElementType(mlir::Operation *op, mlir::Value value,
                                          mlir::Value other, llvm::StringRef what);
/// The element type and the shape of `other`.
mlir::LogicalResult verifyLike(mlir::Operation *op, mlir::Value value, mlir::Value other,
                               llvm::StringRef what);
/// A statistic of `input`: of the accumulator's type, and of this shape.
mlir::LogicalResult verifyStatistic(mlir::Operation *op, mlir::Value value, mlir::Value input,
                                    llvm::ArrayRef<int64_t> shape, llvm::StringRef what);
mlir::LogicalResult verifyFloat(mlir::Operation *op, mlir::Value value, llvm::StringRef what);
/// i32 or i64.
mlir::LogicalResult verifyIndices(mlir::Operation *op, mlir::Value value, llvm::StringRef what);
/// The element type of `from`, or a wider float.
mlir::LogicalResult verifySameOrWider(mlir::Operation *op, mlir::Value value, mlir::Value from,
                                      llvm::StringRef what);
mlir::LogicalResult verifyLength(mlir::Operation *op, llvm::ArrayRef<int64_t> list, int64_t length,
                                 llvm::StringRef what);
mlir::LogicalResult verifyEachAtLeast(mlir::Operation *op, llvm::ArrayRef<int64_t> list,
                                      int64_t least, llvm::StringRef what);

} // namespace dtc::graph
