// Rows that may be added to an op: they leave the others alone, and are zeros where they were.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc::graph {

/// Whether the op makes each row, along the last dimension of its first operand, a row of its first
/// result by itself, and zeros of zeros. A normalization does where its root isn't 0. Its second
/// result has a number for each row.
bool keepsZeroRows(mlir::Operation *op);

} // namespace dtc::graph
