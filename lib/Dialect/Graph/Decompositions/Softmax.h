// The parts of a softmax that attention and cross entropy share.
#pragma once

#include "dtc/Dialect/Graph/TensorBuilder.h"

namespace dtc::graph {

/// Row statistics along one dimension; `total` and `maximum` lack it.
struct SoftmaxRows {
  mlir::Value maximum;      ///< 0 in rows of nothing but -inf
  mlir::Value exponentials; ///< exp(x - maximum)
  mlir::Value total;        ///< their sum: 0 in rows of nothing but -inf
};

SoftmaxRows softmaxRows(TensorBuilder &b, mlir::Value x, int64_t dim);

/// The maximum along `dim`, 0 where that is -inf, so that x - maximum is never NaN.
mlir::Value finiteRowMaximum(TensorBuilder &b, mlir::Value x, int64_t dim);

/// exponentials / total, zeros in rows of nothing but -inf.
mlir::Value normalizedRows(TensorBuilder &b, const SoftmaxRows &rows, int64_t dim);

/// log of the sum of exp(x): -inf in rows of nothing but -inf.
mlir::Value logTotal(TensorBuilder &b, const SoftmaxRows &rows);

/// y * (grad - sum(grad * y)).
mlir::Value softmaxInputGrad(TensorBuilder &b, mlir::Value y, mlir::Value grad, int64_t dim);

} // namespace dtc::graph
