// Dropout of a part of a tensor, which draws the numbers that the whole tensor would.
#pragma once

#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

namespace dtc::graph {

/// The op on a part of its input. For a dimension of more than one element, `indexAlong` gives the
/// index in the whole tensor of each element of the part. This is a tensor of i64 of the part's
/// shape.
mlir::Value dropoutOf(TensorBuilder &b, DropoutOp op, mlir::Value input, mlir::Value keys,
                      llvm::function_ref<mlir::Value(int64_t dim)> indexAlong);

} // namespace dtc::graph
